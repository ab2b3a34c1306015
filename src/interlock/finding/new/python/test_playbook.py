"""`my-playbook` in a simulated world: pytest .interlock/playbooks/my-playbook"""

from pathlib import Path

from interlock.errors import Status
from interlock.testing import Bench, playbook_in, rehearsed, said, verdict

PLAYBOOK = playbook_in(Path(__file__).parent)
REFUSES = verdict("revise", criteria=[{"criterion": "the request", "met": False}], summary="it is dark")
ACCEPTS = verdict(criteria=[{"criterion": "the request", "met": True}])


def test_what_a_reviewer_refuses_goes_back() -> None:
    bench = Bench(PLAYBOOK)
    bench.cast.acts = {"worker": [said({}, {"lamp.txt": b"worked on by one"})], "reviewer": [REFUSES, ACCEPTS]}
    view = bench.start(what="Mend the lamp")
    assert (view.status, view.why) == (Status.COMPLETE, "accepted in round 2")
    assert "criterion not met: the request" in bench.briefs("worker")[1]


def test_every_path_holds() -> None:
    assert rehearsed(PLAYBOOK, PLAYBOOK.inputs.model_validate({"what": "Mend the lamp"})) == []
