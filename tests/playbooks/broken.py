"""Broken copies: a rule that no copy can break proves nothing.

Each breaks one thing in the playbook or in the engine, where two defences cover one another both of them, and names the
rule that has to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from interlock.engine import delivery, dispatch, evidence, run
from interlock.engine import events as ev
from interlock.engine.forms import Ruling
from interlock.engine.holds import HOLDS, broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import Path, project
from interlock.engine.replay import Recorder, Slot
from interlock.engine.run import Call, Outcome, Run
from interlock.engine.simulation import Simulated, SimulatedSeat, Trees
from interlock.engine.stage import BREAKS, CANCELS, DIES, EACH, FULL, MEETS, STEERS, TAKES_BACK, WEAKENS, WRONG, Stage
from interlock.playbooks.task import TASK, playbook
from interlock.playbooks.task.playbook import BUILDER, REVIEWER, Built
from interlock.workspace import scope
from interlock.workspace.values import Found, Landing, Merged, Tree

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Copy:
    """A broken copy."""

    rule: str
    """That has to see it."""
    by: str = ""
    """The deviation on which it shows; empty: without any."""
    patch: Patch = lambda patch: None
    playbook: Playbook = TASK
    asked: tuple[tuple[str, Any], ...] = ()
    """Inputs beside the request."""
    make: Callable[[Stage], Simulated] = project


def swap(where: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(where, name, value)


def wrap(where: Any, name: str, around: Callable[[Any], Any]) -> Patch:
    """`around` gets what is there, and gives what stands in its place."""
    return lambda patch: patch.setattr(where, name, around(getattr(where, name)))


def both(*patches: Patch) -> Patch:
    return lambda patch: [one(patch) for one in patches] and None


def seen(playbook: Playbook, inputs: Any, who: str = "", by: str = "") -> list[str]:
    """What does not hold where that agent deviates so; without it on the usual path."""
    further = Path(playbook, inputs, {}).play().further() if by else ()
    schedule = next(({at: name} for at, name in further if name == by and who in str(at)), {})
    return broken(Path(playbook, inputs, schedule).play())


async def _nothing(*_: Any, **__: Any) -> Any:
    return None


def without_checks(stage: Stage) -> Simulated:
    return Simulated({"lib.py": b"x = 1\n"}, cast=stage, branch="main")


# --- the engine's


def _twice(known: Any) -> Any:
    async def call(*args: Any) -> Any:
        await known(*args)
        return await known(*args)

    return call


async def _decides(run: Run, name: str, question: str, *, choices: Any = ("approve", "reject")) -> Any:
    slot = run.slot(f"gate-{name}", {"gate": name, "choices": list(choices)}, ev.GateDecided)
    if slot.outcome is None:
        at = run.world.now()
        slot.settle(ev.GateDecided(gate=name, choice=choices[0], who="interlock", at=at, shown={}))
    return slot.settled


async def _takes_all(seat: Any, own: Any) -> Found:
    tree = seat._world.trees.of(seat.files)
    return Found(result=tree, mended=tree)


async def _delivers_half(world: Simulated, before: Tree, after: Tree) -> Landing:
    """One that came late, and is not taken back."""
    world.cast.moment("deliver")
    for change in await world.between(before, after):
        world.files[change.path] = world.trees[after].get(change.path, b"")
    return Landing(state="late")


def _forgets(known: Any) -> Any:
    """A delivery over which a process died is made anew, as if nothing lay there."""

    async def land(run: Run, slot: Slot[ev.Delivered], *more: Any) -> ev.Delivered:
        slot.traces.clear()
        return await known(run, slot, *more)

    return land


def _lands_anything(known: Any) -> Any:
    """What was judged is not what is delivered."""
    return lambda run, slot, label, part, judged: known(run, slot, label, part, None)


def _overwrites(known: Any) -> Any:
    return lambda self, base, ours, theirs: (
        found if (found := known(self, base, ours, theirs)).tree else Merged(tree=ours)
    )


REPEATS = wrap(dispatch, "after_try", lambda known: lambda why, said, used, n, m: known(why, said, used, n + 2, m))
UNSYNCED = wrap(Recorder, "sync", lambda known: lambda self: None if self.view.began else known(self))
BELIEVES = swap(evidence, "judge", lambda *_, **__: Ruling(passes=True, said=True))
ANYTHING = both(BELIEVES, swap(Run, "against", lambda run, proved: {}))


# --- the playbook's


def _play(play: Any) -> Playbook:
    return replace(TASK, play=play, invariants={})


async def _for_ever(run: Run, inputs: Any) -> Outcome:
    asked, texts = playbook._build(inputs, ()), {"spoke_against": ""}
    for attempt in count(1):
        await run.dispatch(Call(BUILDER, inputs=asked, texts=texts, attempt=attempt))
    return Outcome.complete("never")


async def _unjudged(run: Run, inputs: Any) -> Outcome:
    """It delivers, and asks afterwards."""
    await run.baseline(await run.commands(()))
    asked, texts = playbook._build(inputs, ()), {"spoke_against": ""}
    built = await run.dispatch(Call(BUILDER, inputs=asked, texts=texts))
    await run.deliver("now", built.did.work if built.did else None)
    inputs_ = playbook._review(run, inputs, (), Built(), ())
    await run.dispatch(Call(REVIEWER, inputs=inputs_, criteria=("the request",)))
    return Outcome.stopped("it was not asked before")


_processes = count()


async def _by_chance(run: Run, inputs: Any) -> Outcome:
    """What it does depends on the process that does it."""
    number = next(_processes)
    run.now()
    return Outcome.stopped(f"in process {number}")


ENDS, CAPS, RECORDED, CAREFUL, GATES, PEOPLES, REFUSED, EVIDENCE, BORNE_OUT, SURVIVES = HOLDS
COPIES: dict[str, Copy] = {
    "loops for ever": Copy(ENDS, playbook=_play(_for_ever)),
    "repeats for ever": Copy(CAPS, f"crashes{EACH}", REPEATS),
    "turns for ever": Copy(
        CAPS, f"verdict=revise{EACH}", swap(Run, "loop", lambda self, name, cap=None: run._Turns(self, name, 6))
    ),
    "calls unseen": Copy(RECORDED, patch=wrap(Simulated, "call", _twice)),
    "asks the dead again": Copy(RECORDED, DIES, swap(dispatch.Dispatch, "_ended_unseen", _nothing)),
    "asks again after a failure": Copy(RECORDED, FULL, swap(dispatch.Dispatch, "_ended_unseen", _nothing)),
    "hears no cancel": Copy(CAREFUL, CANCELS, swap(Run, "stop_if_cancelled", lambda run: None)),
    "never syncs": Copy(CAREFUL, patch=UNSYNCED),
    "decides itself": Copy(GATES, WEAKENS, swap(Run, "gate", _decides), asked=(("review", False),)),
    "overwrites": Copy(PEOPLES, MEETS, wrap(Trees, "merge", _overwrites)),
    "takes back": Copy(PEOPLES, TAKES_BACK, swap(SimulatedSeat, "found", _takes_all)),
    "guards nothing": Copy(REFUSED, STEERS, swap(scope, "guarded", lambda path, names=(): False)),
    "leaves half": Copy(REFUSED, patch=swap(Simulated, "deliver", _delivers_half)),
    "forgets what it meant": Copy(REFUSED, DIES, wrap(delivery, "_merge_in", _forgets)),
    "believes judges": Copy(EVIDENCE, "verdict=revise", BELIEVES),
    "believes what is red": Copy(EVIDENCE, WRONG, ANYTHING),
    "commits without hooks": Copy(EVIDENCE, patch=swap(Run, "hooks", _nothing), asked=(("commit", True),)),
    "delivers another tree": Copy(EVIDENCE, BREAKS, wrap(delivery, "_merge_in", _lands_anything)),
    "delivers unjudged": Copy(BORNE_OUT, playbook=_play(_unjudged), make=without_checks),
    "goes by chance": Copy(SURVIVES, DIES, playbook=_play(_by_chance)),
}
"""Of what holds for all playbooks."""


class _Done:
    """Whoever says `blocked` is taken to be done."""

    @classmethod
    def model_validate(cls, form: Any) -> Any:
        return Built.model_validate({**form, "status": "done"})


def _commits(known: Any) -> Any:
    return lambda run, inputs, *more: known(run, inputs.model_copy(update={"commit": True}), *more)


async def _nothing_spoke(*_: Any) -> str:
    return ""


REVIEWED, UNPAID, BLOCKED, AS_ASKED = TASK.invariants
OWN: dict[str, Copy] = {
    "does not hear the reviewer": Copy(REVIEWED, f"verdict=revise{EACH}", swap(playbook, "_refused", lambda _: "")),
    "does not look at checks": Copy(UNPAID, WRONG, swap(playbook, "_spoke", _nothing_spoke)),
    "ignores who is blocked": Copy(BLOCKED, "status=blocked", swap(playbook, "Built", _Done)),
    "commits always": Copy(AS_ASKED, patch=wrap(playbook, "_finish", _commits)),
}
"""Of `task`'s own."""
