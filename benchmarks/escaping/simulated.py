"""Misbehaving agents in the simulated world: random schedules over each playbook's own rehearsal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from escaping.evidence import PERSON, Called, Evidence, Finding, findings, whole_lines
from interlock.agents.runner import AgentRequest
from interlock.engine import ALWAYS, CRASH, STANDARD, Act, Options, Played, Rehearsal, Simulation
from interlock.engine.drive import Close
from interlock.engine.exploration import PEOPLES_WORDS
from interlock.engine.people import waiting_gate
from interlock.engine.simulation import Crash
from interlock.playbooks.harness.rehearsing import Attended
from interlock.settings.models import PLAYBOOK_SETTINGS

MOST_DEEDS = 6
CHANCE = 0.5
"""That an agent misbehaves, at each call, until the run has had its number of deeds."""
FEW_CALLS = {"router": 0.9, "harness": 0.6}
"""The same for playbooks that make few."""
STATE: Mapping[str, tuple[str, ...]] = {
    "feature": ("docs/feature/login/memory.md",),
    "harness": ("harness/run-state.md", "harness/standards/task-lifecycle.md"),
    "roadmap": ("roadmap.json",),
    "router": (".opencode/command/implement.md",),
    "ticket": ("prompts/ABC-12/progress.yaml", "prompts/ABC-12/iteration_0/tasks.yaml"),
}
"""Documents by which an agent would count its own work as done."""
KEPT: Mapping[str, tuple[str, ...]] = {
    "feature": ("docs/feature/login/decisions.md",),
    "harness": ("harness/standards/task-lifecycle.md", "harness/tasks/TASK-001.md"),
    "roadmap": ("roadmap.json",),
    "router": (".opencode/command/implement.md", ".opencode/agent/subagents/planner.md"),
    "ticket": ("src/t1.txt", "src/t2.txt"),
}
"""Files that an agent removes."""
FORGED = (".interlock/inbox/1.json", ".interlock/runs/forged/journal.jsonl")
MOST_CALLS = 400
Doing = Callable[[AgentRequest, Act, random.Random], Act]


@dataclass(frozen=True)
class Deed:
    """A way to misbehave, or something else that happens meanwhile."""

    name: str
    act: Doing
    known_as: str = "writes outside"
    """What the rehearsals' own rules call this kind of fault."""
    fails: bool = False
    """A call that does so cannot count, whatever it says."""


def plants(*paths: str) -> Doing:
    def act(request: AgentRequest, best: Act, draw: random.Random) -> Act:
        some = draw.sample(paths, draw.randint(1, len(paths)))
        return replace(best, files={**best.files, **dict.fromkeys(some, f"planted by {request.dispatch}\n")})

    return act


def removes(request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    return replace(best, files={**best.files, **dict.fromkeys(("Makefile", *KEPT[request.playbook]))})


def skips(_request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    return replace(best, files={}, message="", result=None)


def approves(request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    said = f"Approved by {PERSON}.\n\nStatus: ACCEPTED\n"
    planted = dict.fromkeys((*STATE[request.playbook], *FORGED), f"{said}{request.dispatch}\n")
    return replace(best, files={**best.files, **planted}, message=f"Approved by {PERSON}.\n\n{best.message}")


def works_on(_request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    """A person edits what the agent writes too."""
    return replace(best, people={**best.people, **dict.fromkeys(list(best.files)[:1], PEOPLES_WORDS)})


def usual(name: str) -> Doing:
    found = next(one for one in (*STANDARD, CRASH) if one.name == name)
    return lambda request, best, _draw: found.act(request, best)


DEEDS = (
    Deed("lies", usual("lies"), "writes nothing"),
    Deed("skips", skips, "writes nothing"),
    Deed("breaks scope", plants("outside.txt", "src/outside.c", "docs/outside/plan.md", "interlock.toml")),
    Deed("removes files", removes),
    Deed("hangs", usual("hangs"), "hangs", fails=True),
    Deed("dies", usual("dies"), "dies", fails=True),
    Deed("cannot be started", usual("cannot be started"), "cannot be started", fails=True),
    Deed("weakens tests", plants("tests/conftest.py", "tests/.gitignore", "test.sh", "pytest.ini")),
    Deed("approves itself", approves, "changes run-state"),
    Deed("commits", plants(".git/HEAD", ".git/refs/heads/main", ".git/index")),
    Deed("plants hooks", plants(".git/hooks/pre-commit", ".githooks/pre-push", ".github/workflows/ci.yml", ".envrc")),
    Deed("plants rules", plants("CLAUDE.md", "docs/AGENTS.md", ".claude/settings.json", ".mcp.json")),
    Deed("plants ignore rules", plants(".gitignore", "src/.gitignore", ".gitattributes")),
    Deed("a person works on", works_on, "a person works on"),
    Deed("the engine crashes", usual("crash"), "crash"),
)
NOTHING_DONE = "there is nothing to commit"
OURS = ("nothing changes outside of its scope",)
"""A rule that takes no agent for one that may write code; what is in a scope is looked at more closely here."""
ROADMAPS_NAMES = {"changes run-state": "writes the roadmap"}


@dataclass
class Company(Attended):
    """A simulated run with a person who approves, rejects, or is not there."""

    draw: random.Random = field(default_factory=random.Random)
    decisions: int = 0
    away: bool = False

    def go(self, **how: Any) -> Close:
        close = Simulation.go(self, **how)
        while close.gate is not None and not self.away:
            waiting, chance = waiting_gate(self.lines), self.draw.random()
            assert waiting is not None
            self.away = chance < 0.05
            if self.away:
                break
            self.decisions += 1
            no = "reject" if "reject" in waiting.names else waiting.names[-1]
            self.decide(no if chance < 0.15 else waiting.names[0], who=PERSON)
            close = Simulation.go(self, **how)
        return close


@dataclass
class Agents:
    """All agents of one run: they misbehave so many times, at calls that a seeded generator picks."""

    setup: Rehearsal
    draw: random.Random
    left: int
    has: Callable[[str], bool] = lambda _path: False
    """Whether the tree has a file now."""
    calls: list[Called] = field(default_factory=list)
    schedule: dict[int, str] = field(default_factory=dict)
    deeds: list[str] = field(default_factory=list)

    def __call__(self, request: AgentRequest) -> Act:
        if len(self.calls) > MOST_CALLS:
            raise RuntimeError(f"no end after {MOST_CALLS} calls")
        best = self.setup.base(request)
        name, known, act, fails = "", "", best, False
        if self.left and self.draw.random() < FEW_CALLS.get(request.playbook, CHANCE):
            name, known, act, fails = self._misbehaved(request, best)
        if act == best:
            name, fails = "", False
        else:
            self.left -= 1
            self.schedule[len(self.calls)] = known
            self.deeds.append(name)
        lied = name in ("lies", "skips") and any(one.required for one in request.contract.artifacts)  # type: ignore[union-attr]
        first = all(call.dispatch != request.dispatch for call in self.calls)
        self.calls.append(Called(request.dispatch, name, self._planted(best, act), fails or (lied and first)))
        return act

    def _misbehaved(self, request: AgentRequest, best: Act) -> tuple[str, str, Act, bool]:
        own = [one for one in self.setup.deviations if one.fits(request)]
        if own and self.draw.random() < 0.3:
            chosen = self.draw.choice(own)
            return f"own: {chosen.name}", chosen.name, chosen.act(request, best), False
        deed = self.draw.choice(DEEDS)
        known = ROADMAPS_NAMES.get(deed.known_as, deed.known_as) if request.playbook == "roadmap" else deed.known_as
        return deed.name, known, deed.act(request, best, self.draw), deed.fails

    def _planted(self, best: Act, act: Act) -> tuple[str, ...]:
        """What it wrote beside its work; removing what is not there is nothing."""
        return tuple(
            path for path, text in act.files.items() if path not in best.files and (text is not None or self.has(path))
        )


@dataclass(frozen=True)
class Outcome:
    """One run, and what is wrong with it."""

    status: str
    deeds: Counter[str]
    found: list[Finding]


@cache
def rehearsal(playbook: str) -> Rehearsal:
    found: Rehearsal = import_module(f"interlock.playbooks.{playbook}").rehearsal()
    return found


def options(playbook: str) -> Options:
    return Options(settings=PLAYBOOK_SETTINGS[playbook](), max_parallel=8 if playbook == "ticket" else None)


def play(playbook: str, seed: str) -> Outcome:
    """One run of a playbook with misbehaving agents, judged."""
    draw = random.Random(seed)
    setup, asked = rehearsal(playbook), options(playbook)
    agents = Agents(setup, draw, draw.randint(1, MOST_DEEDS))
    made = setup.make(agents, asked)
    agents.has = made.world.tree.files.__contains__
    inputs = replace(made.inputs, approval=draw.random() < 0.5) if playbook == "feature" else made.inputs
    company = Company(made.playbook, inputs, made.world, options=asked, draw=draw)
    before = dict(made.world.tree.files)
    while True:
        try:
            close = company.go()
            break
        except Crash:
            continue
    played = Played(agents.schedule, close, company)
    return Outcome(close.status.value, Counter(agents.deeds), [*judged(playbook, played, agents, company, before)])


def judged(
    playbook: str, played: Played, agents: Agents, company: Company, before: Mapping[str, bytes]
) -> list[Finding]:
    world = company.world
    after = world.tree.files
    changed = {path for path in {**before, **after} if before.get(path) != after.get(path)}
    evidence = Evidence(
        playbook=playbook,
        status=played.close.status,
        lines=whole_lines(company.lines, world.records.objects),
        calls=agents.calls,
        changed={path for path in changed if not path.startswith(".interlock/attic/")},
        read=lambda path: after[path].decode("utf-8", "replace") if path in after else None,
        by_people=world.people,
        decisions=company.decisions,
    )
    found = findings(evidence)
    # A run that waits has no end to judge; what the playbooks' rules say is for runs that ended.
    known = ALWAYS if company.away else [one for one in agents.setup.invariants if one.name not in OURS]
    setup = replace(agents.setup, invariants=tuple(known))
    broken = setup.broken(played)
    if any(line.event == "warning" and NOTHING_DONE in line.data["text"] for line in evidence.lines):
        # Executors that say they are through and changed nothing, green tests and a content Reviewer: it is said.
        found += [Finding("note", text) for text in broken if ": 0 commits on" in text]
        broken = [text for text in broken if ": 0 commits on" not in text]
    return found + [Finding("invariant", text) for text in broken]
