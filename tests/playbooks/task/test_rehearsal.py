"""The task playbook rehearsed; each of its invariants is shown to notice a broken copy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Ending, Options, Playbook, Run
from interlock.playbooks.task import rehearsal
from interlock.playbooks.task.briefs import Against
from interlock.playbooks.task.closing import Accepted, commit
from interlock.playbooks.task.decisions import AFTER_ROUND, Checked, Next, Reviewed
from interlock.playbooks.task.settings import TaskSettings
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice, never_ends

OPTIONS = Options(settings=TaskSettings())


@pytest.mark.req("OW-30", "EV-01", "EV-06")
@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.long)])
def test_every_invariant_holds_on_every_path(most: int) -> None:
    """Whatever the two agents do, and wherever interlock dies."""
    setup, endings = rehearsal(), Counter[str]()
    calls = []
    for played in setup.paths(OPTIONS, most=most):
        assert setup.broken(played) == []
        endings[played.finished.status] += 1
        calls.append(len(played.simulation.world.calls))
    assert set(endings) == {"complete", "failed", "stopped"} | ({"degraded"} if "degraded" in endings else set())
    assert min(calls) == 1 and calls[0] == 2
    assert endings.total() == {1: 26, 2: 447}[most]


async def unproven(run: Run, accepted: Accepted, _checks: object, ground: Any) -> Ending:
    """An acceptance that does not look at the tree once more."""
    with run.step("commit"):
        return await commit(run, accepted, ground)


def longer(playbook: Playbook) -> Playbook:
    """A copy that is asked for more rounds than there may be."""

    async def function(run: Run, inputs: Any) -> Ending:
        return await playbook.function(run, replace(inputs, rounds=5))

    return replace(playbook, function=function)


def unheard(checked: Checked, reviewed: Reviewed) -> Next:
    """A rule that does not listen to the reviewer."""
    return Next.ACCEPT if checked is Checked.GREEN else AFTER_ROUND(checked, reviewed)


def commits_early(playbook: Playbook) -> Playbook:
    """A copy that commits a person's file too."""

    async def function(run: Run, inputs: Any) -> Ending:
        ending = await playbook.function(run, inputs)
        await run.write("src/existing.txt", "ours\n")
        await run.repository.commit(["src/existing.txt"], "more")
        return ending

    return replace(playbook, function=function)


class EmptyHanded(Against):
    """Evidence that is not handed on."""

    def then(self, later: Against) -> Against:
        return Against()


FAULTS = {
    **ALWAYS_FAULTS,
    "every path comes to an end": Fault(copy=never_ends),
    "nothing is accepted that its checks do not bear out": Fault(
        {"decisions.checked": lambda _proofs: Checked.GREEN, "closing.accept": unproven}, most=1, by=("leaves a bug",)
    ),
    "nothing is accepted that its reviewer did not accept": Fault(
        {"decisions.AFTER_ROUND": unheard}, most=1, by=("objects",)
    ),
    "at most three rounds": Fault({"playbook.ROUNDS": 5}, copy=longer, most=4, by=("objects",)),
    "what fails goes back with its evidence": Fault({"briefs.Against": EmptyHanded}, most=1, by=("objects",)),
    "only an accepted change is committed, and nothing else": Fault(copy=commits_early),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_invariant_notices_a_broken_copy(name: str) -> None:
    """A copy with one fault is complained about by the invariant that is meant, and by no other."""
    expect_notice(rehearsal(), OPTIONS, name, FAULTS[name])


def test_every_invariant_has_a_broken_copy() -> None:
    """None goes untested."""
    assert {one.name for one in rehearsal().invariants} == set(FAULTS)
