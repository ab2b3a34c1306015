"""Whether a run that came from another clone is still this one's, before anybody works on it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.progress import PlainView

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.engine.identity import Identity
    from interlock.fleet import Depot


def open_depot(door: Door) -> Depot:
    """This workspace, as far as runs leave and arrive here."""
    from interlock.fleet import Depot

    runs = door.runs(PlainView(door.errand, keep_output=True))
    setup = door.setup

    def documents(identity: Identity) -> tuple[str, ...]:
        playbook = runs.setup.playbook(identity)
        inputs = playbook.parse_inputs(identity.inputs)
        return (*playbook.documents(inputs), *playbook.state(inputs))

    return Depot(runs, documents=documents, watch=setup.settings.workspace.watch, redaction=setup.redaction)


def check_ours(door: Door, name: str) -> None:
    """`Refused` when somebody else took the run over; asks nobody about one that never came or went."""
    run_id = door.find(name).identity.run_id
    if (door.root / ".interlock" / "carried" / f"{run_id}.json").exists():
        from interlock.cli.door import finish

        finish(open_depot(door).still_ours(run_id))
