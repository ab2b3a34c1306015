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
from interlock.engine.holds import HOLDS
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import project
from interlock.engine.replay import Recorder, Slot
from interlock.engine.run import Call, Outcome, Run
from interlock.engine.simulation import Simulated, Trees
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


def _yes(*_: Any, **__: Any) -> Ruling:
    return Ruling(passes=True, said=True)


async def _nothing(*_: Any, **__: Any) -> Any:
    return None


def without_checks(stage: Stage) -> Simulated:
    return Simulated({"lib.py": b"x = 1\n"}, cast=stage, branch="main")


# --- the engine's


def repeats_for_ever(patch: pytest.MonkeyPatch) -> None:
    known = dispatch.after_try

    def after_try(reason: str, complaint: str, used: Any, repeats: int, repairs: int) -> Any:
        return known(reason, complaint, used, repeats + 2, repairs)

    patch.setattr(dispatch, "after_try", after_try)


def turns_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "loop", lambda self, name, cap=None: run._Turns(self, name, 6))


def calls_unseen(patch: pytest.MonkeyPatch) -> None:
    known = Simulated.call

    async def twice(self: Simulated, ask: Any, seat: Any, hear: Any) -> Any:
        await known(self, ask, seat, hear)
        return await known(self, ask, seat, hear)

    patch.setattr(Simulated, "call", twice)


def asks_the_dead_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatch.Dispatch, "_ended_unseen", _nothing)


def never_syncs(patch: pytest.MonkeyPatch) -> None:
    known = Recorder.sync

    def sync(self: Recorder) -> None:
        if not self.view.began:
            known(self)

    patch.setattr(Recorder, "sync", sync)


def hears_no_cancel(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "listen", lambda run: None)


def decides_itself(patch: pytest.MonkeyPatch) -> None:
    async def gate(run: Run, name: str, question: str, *, choices: Any = ("approve", "reject")) -> Any:
        slot = run.slot(f"gate-{name}", {"gate": name, "choices": list(choices)}, ev.GateDecided)
        if slot.outcome is None:
            at = run.world.now()
            slot.settle(ev.GateDecided(gate=name, choice=choices[0], who="interlock", at=at, shown={}))
        return slot.settled

    patch.setattr(Run, "gate", gate)


def overwrites(patch: pytest.MonkeyPatch) -> None:
    def merge(self: Trees, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        return known(self, base, ours, theirs) if (known(self, base, ours, theirs)).tree else Merged(tree=ours)

    known = Trees.merge
    patch.setattr(Trees, "merge", merge)


def takes_back(patch: pytest.MonkeyPatch) -> None:
    async def found(self: Any, own: Any) -> Found:
        tree = self._world.trees.of(self.files)
        return Found(result=tree, mended=tree)

    patch.setattr("interlock.engine.simulation._Seat.found", found)


def guards_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scope, "guarded", lambda path, names=(): False)


def leaves_half(patch: pytest.MonkeyPatch) -> None:
    """A delivery that came late is not taken back."""

    async def deliver(self: Simulated, before: Tree, after: Tree) -> Landing:
        self.cast.moment("deliver")
        for change in await self.between(before, after):
            self.files[change.path] = self.trees[after].get(change.path, b"")
        return Landing(state="late")

    patch.setattr(Simulated, "deliver", deliver)


def forgets_what_it_meant(patch: pytest.MonkeyPatch) -> None:
    """A delivery over which a process died is made anew, as if nothing lay there."""
    known = delivery._land

    async def land(run: Run, slot: Slot[ev.Delivered], label: str, part: Any, judged: Any) -> ev.Delivered:
        slot.traces.clear()
        return await known(run, slot, label, part, judged)

    patch.setattr(delivery, "_land", land)


def believes_judges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evidence, "judge", _yes)


def believes_what_is_red(patch: pytest.MonkeyPatch) -> None:
    believes_judges(patch)
    patch.setattr(playbook, "_red", lambda run, proved: "")


def commits_without_hooks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "hooks", _nothing)


def delivers_another_tree(patch: pytest.MonkeyPatch) -> None:
    """What was judged is not what is delivered: neither looked at at the delivery nor by the playbook."""
    known = delivery._land

    async def land(run: Run, slot: Slot[ev.Delivered], label: str, part: Any, judged: Any) -> ev.Delivered:
        return await known(run, slot, label, part, None)

    patch.setattr(delivery, "_land", land)


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
    "repeats for ever": Copy(CAPS, f"crashes{EACH}", repeats_for_ever),
    "turns for ever": Copy(CAPS, f"verdict=revise{EACH}", turns_for_ever),
    "calls unseen": Copy(RECORDED, patch=calls_unseen),
    "asks the dead again": Copy(RECORDED, DIES, asks_the_dead_again),
    "asks again after a failure": Copy(RECORDED, FULL, asks_the_dead_again),
    "hears no cancel": Copy(CAREFUL, CANCELS, hears_no_cancel),
    "never syncs": Copy(CAREFUL, patch=never_syncs),
    "decides itself": Copy(GATES, WEAKENS, decides_itself, asked=(("review", False),)),
    "overwrites": Copy(PEOPLES, MEETS, overwrites),
    "takes back": Copy(PEOPLES, TAKES_BACK, takes_back),
    "guards nothing": Copy(REFUSED, STEERS, guards_nothing),
    "leaves half": Copy(REFUSED, patch=leaves_half),
    "forgets what it meant": Copy(REFUSED, DIES, forgets_what_it_meant),
    "believes judges": Copy(EVIDENCE, "verdict=revise", believes_judges),
    "believes what is red": Copy(EVIDENCE, WRONG, believes_what_is_red),
    "commits without hooks": Copy(EVIDENCE, patch=commits_without_hooks, asked=(("commit", True),)),
    "delivers another tree": Copy(EVIDENCE, BREAKS, delivers_another_tree),
    "delivers unjudged": Copy(BORNE_OUT, playbook=_play(_unjudged), make=without_checks),
    "goes by chance": Copy(SURVIVES, DIES, playbook=_play(_by_chance)),
}
"""Of what holds for all playbooks."""


def _set(name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(playbook, name, value)


class _Done:
    """Whoever says `blocked` is taken to be done."""

    @classmethod
    def model_validate(cls, form: Any) -> Any:
        return Built.model_validate({**form, "status": "done"})


def commits_always(patch: pytest.MonkeyPatch) -> None:
    known = playbook._finish

    async def finish(run: Run, inputs: Any, *more: Any) -> Any:
        return await known(run, inputs.model_copy(update={"commit": True}), *more)

    patch.setattr(playbook, "_finish", finish)


async def _nothing_spoke(*_: Any) -> str:
    return ""


REVIEWED, UNPAID, BLOCKED, AS_ASKED = TASK.invariants
OWN: dict[str, Copy] = {
    "does not hear the reviewer": Copy(REVIEWED, f"verdict=revise{EACH}", _set("_refused", lambda _: "")),
    "does not look at checks": Copy(UNPAID, WRONG, _set("_spoke", _nothing_spoke)),
    "ignores who is blocked": Copy(BLOCKED, "status=blocked", _set("Built", _Done)),
    "commits always": Copy(AS_ASKED, patch=commits_always),
}
"""Of `task`'s own."""
