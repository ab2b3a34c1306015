"""Adopting rehearsed: every combination of at most two faults, and its invariants shown to notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Dispatch, Ending, GateDecision, Options, Playbook, Run, Status
from interlock.playbooks.adopt import briefs, rehearsal
from interlock.playbooks.adopt.decisions import AfterDraft
from interlock.playbooks.adopt.source import Part
from interlock.playbooks.adopt.statements import Statement, StatementsOf
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice, never_ends, takes_nothing_for_work

OPTIONS = Options()


def test_every_invariant_holds_with_one_fault() -> None:
    """All paths with at most one deviation end in a known way, and none breaks a rule."""
    holds(most=1, paths=35)


@pytest.mark.long
def test_every_invariant_holds_with_two_faults() -> None:
    holds(most=2, paths=700)


def holds(most: int, paths: int) -> None:
    setup = rehearsal()
    endings: Counter[str] = Counter()
    for played in setup.paths(OPTIONS, most=most):
        assert setup.broken(played) == []
        endings[played.finished.status] += 1
    assert endings.total() > paths
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}


# -- broken copies


async def reads_half(work: Any, part: Part) -> tuple[Statement, ...]:
    """A reader's last statement is lost."""
    report = await work.run.dispatch(briefs.reader(work.at, work.source, part))
    return StatementsOf(work.source, part).statements(report.text(work.at.reading(part.number)))[:-1]


def must_change(*known: Any, **how: Any) -> Dispatch:
    """An author who is called to change files beside its documents."""
    spec = AUTHOR(*known, **how)
    return replace(spec, contract=replace(spec.contract, must_change=True))


AUTHOR = briefs.author


def finds_nothing(*_known: Any) -> Iterator[str]:
    return iter(())


async def approves_by_itself(*_known: Any, **_how: Any) -> GateDecision:
    return GateDecision("approve", "nobody", "")


async def decides_beforehand(work: Any, _draft: Any, **_how: Any) -> GateDecision:
    run: Run = work.run
    return await run.gate("approve-playbook", "Install it?", shows=(work.at.yaml,), answered="approve")


def asks_anyway(_rejected: int) -> AfterDraft:
    return AfterDraft.ASK


def writes_elsewhere(playbook: Playbook) -> Playbook:
    """A copy that leaves something in the project."""

    async def function(run: Run, inputs: Any) -> Ending:
        ending = await playbook.function(run, inputs)
        await run.write("src/left.txt", "left\n")
        return ending

    return replace(playbook, function=function)


FAULTS: Mapping[str, Fault] = {
    **ALWAYS_FAULTS,
    "nothing is accepted against evidence": Fault(
        {"briefs.author": must_change}, copy=takes_nothing_for_work, most=1, by=("changes nothing",)
    ),
    "every path comes to an end": Fault(copy=never_ends),
    "no gate is passed without a person": Fault({"playbook.ask": decides_beforehand}),
    "no word of the prompt is left out": Fault({"playbook.read_part": reads_half}),
    "what is installed holds": Fault({"trace.unbound": finds_nothing}, most=1, by=("binds a rule to nothing",)),
    "a person approved what is installed": Fault({"playbook.ask": approves_by_itself}),
    "nobody is asked about what the critic rejects": Fault(
        {"decisions.after_critic": asks_anyway}, most=1, by=("rejects a statement",)
    ),
    "agents write into the draft and nowhere else": Fault(copy=writes_elsewhere),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_invariant_notices_a_broken_copy(name: str) -> None:
    """An invariant that cannot fail proves nothing."""
    expect_notice(rehearsal(), OPTIONS, name, FAULTS[name])


def test_every_invariant_has_a_broken_copy() -> None:
    assert {one.name for one in rehearsal().invariants} == set(FAULTS)
