"""`router`, rehearsed: every path holds, each rule can fail, a death changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.run import Outcome, Run
from interlock.playbooks.router import ROUTER, playbook
from interlock.playbooks.router.decisions import Came
from interlock.playbooks.router.playbook import EXAMPLE, Inputs
from tests.engine.bench import SAMPLED, cut_off_anywhere, said, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.test_router import HEADER, IMPLEMENT, Router

ASKED = Inputs(request="/implement 259 be brief")
TEXT = replace(ROUTER, files={**EXAMPLE, IMPLEMENT: HEADER.format("agent: lean-agent")})


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "RT-56", "RT-75")
@pytest.mark.parametrize("router", [ROUTER, TEXT], ids=["json", "text"])
def test_every_path_with_one_deviation_holds(router: Playbook, sample: int) -> None:
    paths = list(explore(router, ASKED, sample=sample))
    assert wrong(paths) == []
    assert len(paths) >= 60


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(ROUTER, ASKED, deviations=2, sample=2000, seed=1)
    assert wrong(paths) == []


async def _asks(run: Run, inputs: Any) -> Outcome:
    await run.gate("go", "Shall I?")
    return await playbook.router(run, inputs)


async def _twice(run: Run, inputs: Any) -> Outcome:
    await playbook.router(run, inputs)
    return await playbook.router(run, inputs)


async def _vouches(run: Run, agent: str, report: Any) -> tuple[Came, str]:
    await run.deliver("answer", unjudged=True)
    return Came.COMPLETED, ""


ONE, VOUCHED, UNASKED = ROUTER.invariants
COPIES = {
    "calls another one": Copy(ONE, playbook=replace(ROUTER, play=_twice)),
    "believes who has failed": Copy(VOUCHED, "status=failed", swap(playbook, "_settled", _vouches), ROUTER),
    "asks": Copy(UNASKED, playbook=replace(ROUTER, play=_asks)),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("name", COPIES)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, ASKED, only=lambda one: one == copy.by)
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_its_own_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(ROUTER.invariants)


@pytest.mark.req("RUN-03", "RUN-05", "RT-30", "RT-28")
def test_a_process_that_dies_at_any_line_changes_nothing() -> None:
    """One session, one call, one delivery; the same words."""
    count = 0

    class Same(Router):
        def start(self, **inputs: Any) -> Any:
            return self.ask()

    def make() -> Router:
        router = Same({IMPLEMENT: HEADER.format("agent: implementer")})
        router.cast.acts["implementer"] = [said("Status: completed", {"done.txt": b"worked\n"})] * 9
        return router

    for line, usual, again in cut_off_anywhere(make):
        assert isinstance(usual, Router) and isinstance(again, Router)
        assert again.world.files == usual.world.files, line
        assert again.output(again.last.view) == usual.output(usual.last.view), line
        count += 1
    assert count > 15
