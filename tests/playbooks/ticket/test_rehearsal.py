"""The ticket rehearsed: every combination of at most two faults, a sample of three, and invariants shown to notice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.engine import Ending, Options, Scope, Table
from interlock.playbooks.ticket import rehearsal
from interlock.playbooks.ticket.documents import log_entry
from interlock.playbooks.ticket.finishing import VERDICT, ReviewerSaid, accepted_work, commit
from interlock.playbooks.ticket.gate import Crossing, switch
from interlock.playbooks.ticket.graph import GraphLimits, Strategy
from interlock.playbooks.ticket.ledger import Ledger
from interlock.playbooks.ticket.planning import settle_tasks, split
from interlock.playbooks.ticket.rehearsing import PROJECT, TWO, graph, make, task, with_trusted_docs, working
from interlock.playbooks.ticket.settings import TicketSettings
from interlock.playbooks.ticket.validation import Red
from interlock.testing import explore
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice

PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "ticket.md"
OPTIONS = Options(settings=TicketSettings(), max_parallel=8)


SAMPLED = 0.01
"""Share of the paths with three faults that are played, besides those on which the review rejects three times."""


@pytest.mark.long
@pytest.mark.req("CM-22", "TK-71", "TK-101", "TK-137", "TK-145", "TK-152")
def test_every_invariant_holds_on_every_path(capsys: pytest.CaptureFixture[str]) -> None:
    """All paths with at most two deviations, and a sample of three drawn with a fixed seed, end in a known way."""
    setup, chance = rehearsal(), random.Random(5)
    endings, faults = Counter[str](), Counter[int]()

    def sampled(schedule: Mapping[int, str]) -> bool:
        return set(schedule.values()) == {"rejects"} or chance.random() < SAMPLED

    began = time.process_time()
    for played in setup.paths(OPTIONS, most=setup.most + 1, sample_of=sampled):
        assert setup.broken(played) == []
        endings[played.finished.status.value] += 1
        faults[len(played.schedule)] += 1
    seconds = time.process_time() - began
    with capsys.disabled():
        print(f"\nticket: {endings.total()} paths in {seconds:.1f} s of CPU, by faults {dict(faults)}, {dict(endings)}")
    assert faults[0] == 1
    assert faults[1] + faults[2] > 700
    assert faults[3] > 50
    assert set(endings) == {"complete", "stopped", "failed"}


OTHERS = {
    "short cut": (graph(task("T1")), with_trusted_docs(PROJECT)),
    "one after the other": (graph(task("T1"), task("T2"), strategies={"A": "sequential"}), with_trusted_docs(PROJECT)),
    "two groups": (graph(task("T1"), task("T2", "B", needs=("T1",))), with_trusted_docs(PROJECT)),
    "docs not trusted": (TWO, dict(PROJECT)),
}


@pytest.mark.long
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


# -- deliberately broken copies


def red(*_asked: Any) -> Awaitable[Red]:
    return answered(Red("src/t1.txt and src/t2.txt: red"))


def green(*_asked: Any) -> Awaitable[None]:
    return answered()


async def answered(what: Any = None) -> Any:
    return what


async def commits_twice(ledger: Ledger, hooks: str) -> None:
    await commit(ledger, hooks)
    await ledger.run.repository.commit(["src/t1.txt"], "fix(ABC-12): once more")


async def takes_everything(ledger: Ledger, _hooks: str) -> None:
    git = ledger.run.repository
    await git.commit(await git.changed(), "fix(ABC-12): all that lies around")
    ledger.log("iteration.accepted")


async def takes_src(ledger: Ledger) -> tuple[list[str], Scope]:
    names, scope = await accepted_work(ledger)
    return names, replace(scope, patterns=("src/**",))


async def works_at_once(ledger: Ledger) -> None:
    """Whoever has a graph can begin, branch or not."""
    await settle_tasks(ledger)
    graph = await ledger.graph()
    task = graph.tasks["T1"]
    spec = ledger.briefs.executor(task, graph.policy, attempt=1, strategy=Strategy.PARALLEL)
    await ledger.run.dispatch(replace(spec, writes=()))  # what came into the tree would keep the gate from opening


async def only_stashes(ledger: Ledger, crossing: Crossing) -> None:
    await ledger.run.repository.stash(crossing.along, "for later")
    await switch(ledger, crossing)


async def splits_for_ever(ledger: Ledger) -> None:
    """No graph is good enough."""
    while True:
        await split(ledger, GraphLimits(), "not good enough")


async def ends_only(ledger: Ledger, ending: Ending) -> Ending:
    ledger.log("stop", status=ledger.stops_as.value, reason=ending.reason)
    await ledger.publish()
    return ending


def without_groups(ticket: str) -> Any:
    render = log_entry(ticket)
    return lambda line: None if line.event == "orchestrator.group.start" else render(line)


ALL_REJECTED = Table("verdict", dict.fromkeys(VERDICT.rows, ReviewerSaid.REJECTED))
ALL_ACCEPTED = Table("verdict", dict.fromkeys(VERDICT.rows, ReviewerSaid.ACCEPTED))

SUCCESS = "success means one commit, all tasks accepted, build and tests green"
REVIEWED = "nothing is committed that no review accepted"
GATE = "no code is written before the git gate"
SCOPE = "nothing outside the tasks is committed or left changed"
KEPT = "what the user has not committed stays so, and no stash is left"
CAPS = "attempts and iterations stay within their caps"
STATE = "the state document tells the end"
LOG = "every step is in the log"

OUTSIDE = ("writes outside",)
BROKEN: Mapping[str, tuple[str, Fault]] = {
    **{name: (name, fault) for name, fault in ALWAYS_FAULTS.items()},
    "the Splitter is asked again and again": (
        "every path comes to an end",
        Fault({"planning.settle_tasks": splits_for_ever}),
    ),
    "the work is committed twice": (SUCCESS, Fault({"finishing.commit": commits_twice})),
    "a red build is green": (
        SUCCESS,
        Fault({"validation.validate": green, "validation.prove_for_good": green}, most=1, by=("breaks the build",)),
    ),
    "a rejection is an acceptance": (REVIEWED, Fault({"finishing.VERDICT": ALL_ACCEPTED}, most=1, by=("rejects",))),
    "nobody reviews": (REVIEWED, Fault({"finishing.review": lambda *_asked: answered(ReviewerSaid.ACCEPTED)})),
    "code comes before the branch": (GATE, Fault({"planning.settle_tasks": works_at_once})),
    "every file is in scope": (SCOPE, Fault({"graph.Policy.drift": lambda *_task: ("**",)}, most=1, by=OUTSIDE)),
    "every file is committed": (
        SCOPE,
        Fault(
            {"graph.Policy.drift": lambda *_task: ("src/**",), "finishing.accepted_work": takes_src},
            most=1,
            by=OUTSIDE,
        ),
    ),
    "all that lies around is committed": (KEPT, Fault({"finishing.commit": takes_everything})),
    "documentation stays in the stash": (KEPT, Fault({"gate.take_along": only_stashes})),
    "seven attempts": (CAPS, Fault({"documents.ATTEMPTS": 7, "validation.validate": red})),
    "six iterations": (CAPS, Fault({"documents.ITERATIONS": 6, "finishing.VERDICT": ALL_REJECTED})),
    "a stop is not put down": (STATE, Fault({"ledger.Ledger.stop": ends_only}, most=1, by=("defers research",))),
    "an acceptance is not put down": (STATE, Fault({"finishing.accept": lambda _ledger: answered()})),
    "groups are not logged": (LOG, Fault({"documents.log_entry": without_groups})),
    "the log is not written": (LOG, Fault({"ledger.Ledger.publish": lambda _ledger: answered()})),
}
"""What is broken in a copy: the invariant that notices, and the fault."""


@pytest.mark.parametrize("what", BROKEN)
def test_each_invariant_notices_a_broken_copy_of_the_playbook(what: str) -> None:
    """The real process with one fault has a path about which that invariant complains, and no other."""
    name, fault = BROKEN[what]
    expect_notice(rehearsal(), OPTIONS, name, fault)


def test_every_invariant_has_a_broken_copy_and_a_line_on_the_page() -> None:
    """An invariant that cannot fail proves nothing, and one that nobody knows of promises nothing."""
    names = [one.name for one in rehearsal().invariants]
    assert {name for name, _fault in BROKEN.values()} == set(names)
    assert "".join(f"- {name}\n" for name in names) in PAGE.read_text("utf-8")
