"""The ticket rehearsed: every combination of at most two faults, a sample of three, and invariants shown to notice."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from interlock.engine import Options, Played, Status, explore
from interlock.playbooks.ticket import rehearsal
from interlock.playbooks.ticket.documents import edited
from interlock.playbooks.ticket.rehearsing import (
    HOME,
    PROJECT,
    TWO,
    git_of,
    graph,
    make,
    task,
    with_trusted_docs,
    working,
)
from interlock.settings.models import TicketSettings

OPTIONS = Options(settings=TicketSettings(), max_parallel=8)


def in_sample(schedule: Mapping[int, str]) -> bool:
    """About one in sixty of the runs with three deviations, always the same ones."""
    return zlib.crc32(repr(sorted(schedule.items())).encode()) % 60 == 0


def test_every_invariant_holds_on_every_path() -> None:
    """All paths with at most two deviations, and a sample of those with three, end in a known way."""
    setup = rehearsal()
    endings: Counter[str] = Counter()
    started = time.perf_counter()
    for played in explore(
        lambda agent: setup.make(agent, OPTIONS), setup.deviations, most=3, base=setup.base, sample_of=in_sample
    ):
        assert setup.broken(played) == []
        endings[f"{len(played.schedule)} deviations: {played.close.status}"] += 1
    print(f"\n{endings.total()} paths in {time.perf_counter() - started:.1f} s: {dict(endings)}")
    assert sum(count for name, count in endings.items() if not name.startswith("3")) > 350
    assert sum(count for name, count in endings.items() if name.startswith("3")) > 50
    assert {name.split(": ")[1] for name in endings} == {"complete", "stopped", "failed"}


OTHERS = {
    "short cut": (graph(task("T1")), with_trusted_docs(PROJECT)),
    "one after the other": (graph(task("T1"), task("T2"), strategies={"A": "sequential"}), with_trusted_docs(PROJECT)),
    "two groups": (graph(task("T1"), task("T2", "B", needs=("T1",))), with_trusted_docs(PROJECT)),
    "docs not trusted": (TWO, dict(PROJECT)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tickets_hold_with_one_fault(name: str) -> None:
    """The short cut, a sequential group, two groups, and documentation that is refreshed alongside."""
    tasks, files = OTHERS[name]
    setup = rehearsal()
    count = 0
    for played in explore(
        lambda agent: make(agent, OPTIONS, files=files), setup.deviations, most=1, base=working(tasks)
    ):
        assert setup.broken(played) == []
        count += 1
    assert count > 10


# -- each invariant notices


def committed_twice(played: Played) -> None:
    git = git_of(played)
    git._record(dict(git._committed()), "fix(ABC-12): again\n\nInterlock-Key: x")


def stopped_but_committed(played: Played) -> Played:
    return replace(played, close=replace(played.close, status=Status.STOPPED))


def unaccepted(played: Played) -> None:
    path = f"{HOME}/iteration_0/tasks.yaml"
    tree = played.simulation.world.tree
    tree.put(path, edited(tree.files[path].decode(), path, {("tasks", 0, "status"): "REJECTED"}).encode())


def gateless(played: Played) -> None:
    lines = played.simulation.lines
    lines[:] = [line for line in lines if line.event != "orchestrator.git.gate.complete"]


def strange_commit(played: Played) -> None:
    git = git_of(played)
    git.commits[git.head].files["strange.py"] = b"x"


def left_over(played: Played) -> None:
    played.simulation.world.tree.put("src/outside.c", b"x")


def sixth_attempt(played: Played) -> None:
    path = f"{HOME}/iteration_0/tasks.yaml"
    tree = played.simulation.world.tree
    tree.put(path, edited(tree.files[path].decode(), path, {("tasks", 0, "attempt"): 6}).encode())


def sixth_iteration(played: Played) -> None:
    played.simulation.world.tree.put(f"{HOME}/iteration_5/plan.md", b"x")


def untrue_state(played: Played) -> None:
    path = f"{HOME}/progress.yaml"
    tree = played.simulation.world.tree
    tree.put(path, edited(tree.files[path].decode(), path, {("status",): "PAUSED"}).encode())


def torn_log(played: Played) -> None:
    path = f"{HOME}/log.jsonl"
    tree = played.simulation.world.tree
    tree.put(path, b"\n".join(tree.files[path].splitlines()[1:]) + b"\n")


SUCCESS = "success means one commit, all tasks accepted, build and tests green"
SCOPE = "nothing outside the tasks is committed or left changed"
CAPS = "attempts and iterations stay within their caps"
STATE = "the state document tells the end"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (committed_twice, {SUCCESS}),
        (stopped_but_committed, {SUCCESS, STATE}),
        (unaccepted, {SUCCESS}),
        (gateless, {"no code is written before the git gate", "every step is in the log"}),
        (strange_commit, {SCOPE}),
        (left_over, {SCOPE}),
        (sixth_attempt, {CAPS}),
        (sixth_iteration, {CAPS}),
        (untrue_state, {STATE}),
        (torn_log, {"every step is in the log"}),
    ],
)
def test_each_invariant_notices_when_it_is_broken(
    change: Callable[[Played], Played | None], expected: set[str]
) -> None:
    """An invariant that cannot fail proves nothing."""
    setup = rehearsal()
    (clean,) = list(setup.paths(OPTIONS, most=0))
    assert setup.broken(clean) == []
    played = change(clean) or clean
    assert {problem.split(": ")[0] for problem in setup.broken(played)} == expected
