"""Whether a run that came from another clone is still this one's, before anybody works on it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.progress import PlainView

if TYPE_CHECKING:
    from interlock.app import FromSettings
    from interlock.cli.door import Door
    from interlock.engine.identity import Identity
    from interlock.engine.runs import Runs
    from interlock.fleet import Depot


def open_depot(door: Door) -> Depot:
    """This workspace, as far as runs leave and arrive here."""
    return depot_of(door.runs(PlainView(door.occasion, keep_output=True)), door.setup)


def depot_of(runs: Runs, setup: FromSettings, worker: str = "") -> Depot:
    """The runs of a workspace on their way."""
    from interlock.fleet import Depot
    from interlock.pages import headline

    def documents(identity: Identity) -> tuple[str, ...]:
        playbook = runs.setup.playbook(identity)
        inputs = playbook.parse_inputs(identity.inputs)
        return (*playbook.documents(inputs), *playbook.state(inputs))

    watch = setup.settings.workspace.watch
    return Depot(runs, documents=documents, watch=watch, redaction=setup.redaction, about=headline, worker=worker)


def check_ours(door: Door, name: str) -> None:
    """`Refused` when somebody else took the run over; asks nobody about one that never came or went."""
    run_id = door.find(name).identity.run_id
    if (door.root / ".interlock" / "carried" / f"{run_id}.json").exists():
        from interlock.cli.door import finish

        finish(open_depot(door).still_ours(run_id))
