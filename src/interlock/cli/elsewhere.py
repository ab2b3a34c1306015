"""Runs that are not here: what their remote has of them is brought here before it is shown, and said to be old where
the remote is away; whoever speaks to one of them is led to it.  And whether a run that came from another clone is still
this one's, before anybody works on it.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from interlock.cli.door import Door, finish
from interlock.cli.live import PlainView
from interlock.cli.output import complain
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.telemetry import State, standing

if TYPE_CHECKING:
    from interlock.app import FromSettings
    from interlock.engine.folder import KnownRun
    from interlock.engine.identity import Identity
    from interlock.engine.runs import Runs
    from interlock.fleet import Depot
    from interlock.fleet.looking import Sighting
    from interlock.fleet.orders import QueuedJob
    from interlock.fleet.steering import FarRun
    from interlock.settings.models import FleetSettings

RENEW_S = 3.0
"""So often what is here of a run is renewed while somebody follows it."""


def open_depot(door: Door) -> Depot:
    """This workspace, as far as runs leave and arrive here."""
    return depot_of(door.runs(PlainView(door.errand, keep_output=True)), door.setup)


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
        finish(open_depot(door).still_ours(run_id))


# -- looking


def fleet_settings(door: Door) -> FleetSettings | None:
    """What the settings say of a fleet; None where they say nothing, or cannot be used: looking is still possible."""
    try:
        settings = door.setup.settings
    except ConfigInvalid:
        return None
    return settings.fleet if "fleet" in settings.model_fields_set else None


def look(door: Door, name: str) -> KnownRun:
    """The run that a person means; of one that is not here, as its remote has it now.

    Where the remote is away, what was last seen of the run is shown, and said to be that.
    """
    known = _found(door, name)
    Renewal(door, known).now()
    return door.find(known.identity.run_id)


def spoken_to(door: Door, name: str) -> KnownRun:
    """The run to which a person has something to say: one of this place, or one of the fleet that they name."""
    known = _found(door, name)
    if name == "latest" and known.is_copy:
        raise Refused(
            f"no run of this place is the latest: {known.identity.run_id} is somebody else's",
            remedy="Say which run is meant, by its id.",
        )
    return known


def _found(door: Door, name: str) -> KnownRun:
    try:
        return door.find(name)
    except Refused as unknown:
        return _from_fleet(door, name, unknown)


def renew_own(door: Door) -> None:
    """Bring what the fleet has of open runs that were given to it from here."""
    from interlock.engine.folder import known_runs
    from interlock.engine.lifecycle import ended_as

    fleet = fleet_settings(door)
    if fleet is None:
        return
    away = [known for known in known_runs(door.root) if (known.folder.elsewhere() is not None and not known.is_copy)]
    if gone := [known.identity.run_id for known in away if ended_as(known.folder.lines()) is None]:
        _, trouble = renewed(door, fleet.remote, gone)
        if trouble:
            complain(f"Nobody can say how runs of the fleet stand: {trouble}.")


def _from_fleet(door: Door, name: str, unknown: Refused) -> KnownRun:
    """A run that was never here, from the remote of the fleet."""
    from interlock.fleet.looking import look, meant, remote_here

    fleet = fleet_settings(door)
    if fleet is None:
        raise unknown

    async def brought() -> Sighting:
        remote = await remote_here(door.root, fleet.remote, door.environ)
        run_id = await meant(door.root, remote, name)
        (seen,) = await look(door.root, remote, [run_id])
        return seen

    try:
        seen = finish(brought())
    except Refused:
        raise
    except InterlockError as error:
        unknown.found = f"{error.what}{f': {error.found}' if error.found else ''}"
        raise unknown from error
    if seen.problem:
        raise Refused(f"run {seen.run_id} cannot be looked at: {seen.problem}", where=seen.remote)
    return door.find(seen.run_id)


class Renewal:
    """What is here of a run that is elsewhere, kept as its remote has it; nothing is done for a run that is here."""

    def __init__(self, door: Door, known: KnownRun) -> None:
        self._door, self._run_id = door, known.identity.run_id
        note = known.folder.elsewhere()
        self.remote = "" if note is None else note.remote or self._carried_by()
        self._last = 0.0
        self._trouble = ""

    def _carried_by(self) -> str:
        """The remote of a run that was sent from here; else that of the fleet."""
        from interlock.fleet.carried import Carried

        fleet = fleet_settings(self._door)
        return Carried.of(self._door.root, self._run_id).remote or (fleet.remote if fleet is not None else "")

    def now(self) -> Sighting | None:
        """What the remote has of the run, which is here now; None where nobody can be asked."""
        if not self.remote:
            return None
        seen, trouble = renewed(self._door, self.remote, [self._run_id])
        one = seen[0] if seen else None
        self._say(one.problem if one is not None else trouble)
        self._last = time.monotonic()
        return one

    @property
    def due(self) -> bool:
        """Whether it was not renewed for a while."""
        return bool(self.remote) and time.monotonic() - self._last >= RENEW_S

    def when_due(self) -> None:
        if self.due:
            self.now()

    def _say(self, trouble: str) -> None:
        """Each trouble is said once, and its end."""
        if trouble and trouble != self._trouble:
            complain(f"Run {self._run_id} is shown as it was last seen here: {trouble}.")
        elif self._trouble and not trouble:
            complain(f"{self.remote} answers again.")
        self._trouble = trouble


def renewed(door: Door, remote: str, run_ids: Collection[str] | None) -> tuple[list[Sighting], str]:
    """What a remote has of these runs, brought here; and why it cannot be asked, if so."""
    from interlock.fleet.looking import look, remote_here

    async def seen() -> list[Sighting]:
        return await look(door.root, await remote_here(door.root, remote, door.environ), run_ids)

    try:
        return finish(seen()), ""
    except InterlockError as error:
        return [], error.what


# -- speaking


def far_run(door: Door, known: KnownRun, what: str) -> FarRun | None:
    """The run as its remote has it now; None where it is here, or no queue is known: then nobody can be told.

    Args:
        what: what a person is about to do.
    """
    run_id = known.identity.run_id
    if (note := known.folder.elsewhere()) is None:
        return None
    if (fleet := fleet_settings(door)) is None or fleet.database is None:
        return None
    from interlock.engine.nesting import only_people
    from interlock.fleet.steering import FarRun

    only_people(door.environ, door.root, what)
    remote = Renewal(door, known).remote
    seen, trouble = renewed(door, remote, [run_id])
    problem = trouble or seen[0].problem
    if problem:
        raise Refused(
            f"nobody can say how run {run_id} stands: {problem}",
            where=remote,
            remedy="Nothing was said to it. Try again when its remote answers.",
        )
    possession = seen[0].possession
    if possession is None or not possession.orders:
        raise (known.folder.elsewhere() or note).refusal(run_id)
    return FarRun(known, possession, fleet.database)


class Expected:
    """Whether the queue has a run: somebody works on it, or will."""

    def __init__(self, door: Door, known: KnownRun) -> None:
        fleet = fleet_settings(door)
        self._database = fleet.database if fleet is not None else None
        self._run_id = known.identity.run_id
        self._last = self._database is not None and standing(known.folder.lines()).state in (
            State.CUT_OFF,
            State.DECIDED,
            State.INTERRUPTED,
        )
        self._trouble = ""

    def still(self, ask: bool) -> bool:
        """The last answer; a new one, where `ask`. While the database is away the last one counts, and that is said."""
        if ask and self._database is not None:
            trouble = ""
            try:
                self._last = bool(finish(self._jobs(self._database)))
            except InterlockError as error:
                trouble = error.what
            if trouble and trouble != self._trouble:
                complain(f"Nobody can say whether run {self._run_id} is queued: {trouble}.")
            self._trouble = trouble
        return self._last

    async def _jobs(self, database: str) -> list[QueuedJob]:
        from interlock.fleet.queue import Queue

        async with Queue.of(database) as queue:
            return await queue.jobs(self._run_id)
