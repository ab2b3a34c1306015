"""`router`, rehearsed: every path holds, each rule can fail, liars are not believed, a death changes nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.run import Outcome, Run
from interlock.playbooks.router import ROUTER, playbook
from interlock.playbooks.router.decisions import STATUSES, Came
from interlock.playbooks.router.playbook import EXAMPLE, Inputs
from tests.engine.bench import cut_off_anywhere, said, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.test_router import HEADER, IMPLEMENT, Router

ASKED = Inputs(request="/implement 259 be brief")
TEXT = replace(ROUTER, files={**EXAMPLE, IMPLEMENT: HEADER.format("agent: lean-agent")})


@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "RT-56", "RT-75")
@pytest.mark.parametrize("router", [ROUTER, TEXT], ids=["json", "text"])
def test_every_path_with_one_deviation_holds(router: Playbook) -> None:
    paths = list(explore(router, ASKED))
    assert wrong(paths) == []
    assert len(paths) > 60


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


# --- liars


def answer(draw: random.Random) -> tuple[str, dict[str, Any] | None]:
    """What somebody says who wants it to count, and the object in it."""
    ran = [{"command": "lake build", "exit": int(draw.random() < 0.2)} for _ in range(draw.randint(0, 2))]
    told: dict[str, Any] = {
        "status": draw.choice(["completed"] * 6 + ["failed", "partial", "done", "COMPLETED", None, 1]),
        "errors": ["it does not build"] if draw.random() < 0.2 else [],
        "verification": ran,
        **({"session_id": "sess_20200101_aaaaaa"} if draw.random() < 0.1 else {}),
    }
    text, how = json.dumps(told), draw.random()
    if how < 0.3:
        return f"All green, 100 %.\n\n```json\n{text}\n```\n", told
    if how < 0.4:
        return "Status: completed, all of it. Trust me.", None
    if how < 0.5:
        return text.replace("}", "", 1), None
    return text, told


@pytest.mark.req("EVID-11", "RT-59", "RT-30", "RT-75")
@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_nobody_is_believed_against_what_they_say_and_nobody_honest_is_refused(number: int) -> None:
    """So many who want it to count, and a tenth of them who say what is so."""
    accepted = 0
    for seed in range(number):
        draw = random.Random(seed)
        returns = draw.choice(("json", "text"))
        router = Router({IMPLEMENT: HEADER.format(f"agent: implementer\nreturns: {returns}")})
        given = [answer(draw), answer(draw)]
        late = draw.random() < 0.1
        router.answers = [
            said(text, {"done.txt": b"worked\n"}, finished=draw.random() < 0.9, late=late) for text, _ in given
        ]
        view = router.ask()
        last = given[len(router.cast.asks) - 1][1]
        if view.ended is not None and view.ended.exit == 0:
            accepted += 1
            against = last is not None and (last["errors"] or any(one["exit"] for one in last["verification"]))
            assert not late and last is not None and not against and last["status"] == "completed", seed
            assert "session_id" not in last, seed
        if "done.txt" in router.world.files:
            assert view.ended is not None and view.ended.exit in (0, 1, 3), seed
    assert accepted > number / 10
    for seed in range(number // 10):
        status = STATUSES[seed % 4]
        text = (f"Done.\n\n**Status**: {status}\n", f"Status: {status}", json.dumps({"status": status, "x": [1]}))[
            seed % 3
        ]
        router = Router({IMPLEMENT: HEADER.format("agent: implementer")})
        router.answers = [said(text, {"done.txt": b"worked\n"})]
        view = router.ask()
        expected: Mapping[str, int] = {"completed": 0, "partial": 1, "blocked": 3, "failed": 5}
        assert (view.ended.exit if view.ended else -1, router.output(view)) == (expected[status], text.encode()), seed
