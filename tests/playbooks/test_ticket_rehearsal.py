"""`ticket`, rehearsed: every path holds, and each of its own rules can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.engine.rehearsal import FILES, Make, Path, explore, project, variants
from interlock.engine.simulation import WORK, Simulated
from interlock.engine.stage import EACH, WRONG, Stage
from interlock.engine.world import Command, Toolbox
from interlock.errors import Status
from interlock.playbooks.ticket import TICKET, execution, gate, playbook, review
from interlock.playbooks.ticket.state import Ticket
from tests.engine.bench import SAMPLED, wrong
from tests.playbooks.broken import Patch, seen, swap


def _inputs(**asked: Any) -> Any:
    return TICKET.inputs.model_validate({**TICKET.example, **asked})


def _dirty(stage: Stage) -> Simulated:
    """Code that a person has not committed, and a second command."""
    toolbox = Toolbox([Command("build", "make", "found"), Command("test", "make test", "found")])
    files = {**FILES, "src/mine.py": b"mine\n"}
    return Simulated(files, head=FILES, cast=stage, toolbox=toolbox, branch="refs/heads/main")


def _green_before(stage: Stage) -> Simulated:
    world = project(stage)
    world.files["done.py"] = world.head["done.py"] = WORK + b"somebody\n"
    return world


@pytest.mark.req("PROOF-01", "TK-01")
def test_the_clean_path_of_each_variant_holds() -> None:
    paths = [Path(TICKET, inputs, {}).play() for inputs in variants(TICKET)]
    assert wrong(paths) == []
    assert {path.view.status for path in paths} == {Status.COMPLETE}


@SAMPLED
@pytest.mark.req("PROOF-01", "PROOF-03", "RUN-03", "RUN-10", "EVID-10")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    paths = list(explore(TICKET, _inputs(), sample=sample))
    assert wrong(paths) == []
    assert sample or len(paths) > 500


WAYS: dict[str, tuple[Make, dict[str, Any]]] = {
    "through groups and a review": (project, {"fast_path": False}),
    "with a pull request": (project, {"pr": True}),
    "over what was there": (project, {"fresh": True}),
    "beside uncommitted code": (_dirty, {"fast_path": False}),
    "where all is green before": (_green_before, {}),
    "where it is not clear": (project, {"request": "ABC-12 look at the sum, MUST use `pytest`"}),
}


@pytest.mark.long
@pytest.mark.req("PROOF-01", "TK-103")
@pytest.mark.parametrize("way", WAYS)
def test_every_path_holds_in_other_ways(way: str) -> None:
    make, asked = WAYS[way]
    paths = explore(TICKET, _inputs(**asked), make=make)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(TICKET, _inputs(), deviations=2, sample=2000, seed=1)
    assert wrong(paths) == []


# --- broken copies


async def _no_gate(t: Ticket) -> None:
    await t.set("GIT_GATE", "O4.5", git_gate_completed=True)


async def _no_commit(t: Ticket) -> str:
    await t.set(status="ACCEPTED")
    return ""


async def _believes(t: Ticket) -> str:
    """Whatever the Reviewer says."""
    await _review(t)
    return ""


_review, ON_ITS_BRANCH, COMMITTED, ACCEPTED, CAPPED, UNPAID = review.review, *TICKET.invariants
BLIND: Callable[..., list[Any]] = lambda t, proved, *, last=True: []  # noqa: E731
COPIES: dict[str, tuple[str, str, str, Patch]] = {
    "writes where it stands": (ON_ITS_BRANCH, "", "", swap(gate, "git_gate", _no_gate)),
    "never commits": (COMMITTED, "", "", swap(playbook, "commit", _no_commit)),
    "commits what was rejected": (ACCEPTED, "O6", f"status=REJECTED{EACH}", swap(playbook, "review", _believes)),
    "works for ever": (CAPPED, "T1", f"{WRONG}{EACH}", swap(execution, "ATTEMPTS", 7)),
    "pays for red work": (UNPAID, "T", WRONG, swap(Ticket, "red", BLIND)),
}
"""The rule that sees it, who deviates and how, what is broken."""


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("copy", COPIES)
def test_a_broken_copy_is_seen(copy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, who, by, patch = COPIES[copy]
    patch(monkeypatch)
    assert rule in seen(TICKET, _inputs(fast_path=False), who, by)


def test_every_rule_has_a_copy_that_breaks_it() -> None:
    assert {rule for rule, *_ in COPIES.values()} == set(TICKET.invariants)
