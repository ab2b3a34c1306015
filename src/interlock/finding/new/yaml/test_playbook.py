"""`my-playbook` in a simulated world: pytest .interlock/playbooks/my-playbook"""

from pathlib import Path

from interlock.testing import playbook_in, rehearsed

PLAYBOOK = playbook_in(Path(__file__).parent)


def test_every_path_holds() -> None:
    assert rehearsed(PLAYBOOK, PLAYBOOK.inputs.model_validate({"what": "Mend the lamp"})) == []
