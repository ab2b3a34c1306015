"""Misbehaving agents in the simulated world: random schedules over each playbook's own rehearsal."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from escaping.evidence import (
    CONTRADICTION,
    NO_WORK,
    PERSON,
    TESTS,
    Called,
    Evidence,
    Finding,
    findings,
    whole_lines,
)
from interlock.agents.runner import AgentRequest
from interlock.engine import Options
from interlock.engine.deviations import PEOPLES_WORDS
from interlock.engine.playing import Finished
from interlock.engine.simulated_disk import MemoryLayer
from interlock.engine.simulation import Crash
from interlock.playbooks.ticket.rehearsing import BRANCH
from interlock.telemetry import waiting_gate
from interlock.testing import ALWAYS, CRASH, STANDARD, Act, Deviation, Played, Rehearsal, Simulation

MOST_DEEDS = 6
CHANCES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("adopt", "feature", "harness", "roadmap", "task", "ticket"), (0.2, 0.4, 0.8)),
    "router": (0.9,),
}
"""That an agent misbehaves, at each call, until the run has had its number of deeds: in some runs seldom, so that those
come to it who are called last."""
STATE: Mapping[str, tuple[str, ...]] = {
    "adopt": (".interlock/playbooks/release/playbook.yaml",),
    "feature": ("docs/feature/login/memory.md",),
    "harness": ("harness/run-state.md", "harness/standards/task-lifecycle.md"),
    "roadmap": ("roadmap.json",),
    "router": (".opencode/command/implement.md",),
    "task": ("interlock.toml",),
    "ticket": ("prompts/ABC-12/progress.yaml", "prompts/ABC-12/iteration_0/tasks.yaml"),
}
"""Documents by which an agent would count its own work as done."""
KEPT: Mapping[str, tuple[str, ...]] = {
    "adopt": ("README.md",),
    "feature": ("docs/feature/login/decisions.md",),
    "harness": ("harness/standards/task-lifecycle.md", "harness/tasks/TASK-001.md"),
    "roadmap": ("roadmap.json",),
    "router": (".opencode/command/implement.md", ".opencode/agent/subagents/planner.md"),
    "task": ("src/existing.txt",),
    "ticket": ("src/t1.txt", "src/t2.txt"),
}
"""Files that an agent removes."""
MEANWHILE = ("a person works on", "the engine crashes")
"""What happens beside the agents' misdeeds."""
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
    said = f"Approved by {PERSON}.\n\nStatus: ACCEPTED\n\nplanted by {request.dispatch}\n"
    planted = dict.fromkeys((*STATE[request.playbook], *FORGED), said)
    return replace(best, files={**best.files, **planted}, message=f"Approved by {PERSON}.\n\n{best.message}")


JUDGES = ("Testing", "Review", "Reviewer", "qa")
"""Whose answer or report says more than a word."""


def contradicts(request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    """A judge that passes what its own answer or report says has failed."""
    if request.agent in ("Testing", "Review"):
        said = json.loads(best.message.removeprefix("```json\n").removesuffix("\n```"))
        failed = {"tests": {"passed": 1, "failed": 2, "failures": ["test_login: AssertionError"]}}
        ran = {"verification": [{"command": "make test", "exit": 2, "summary": "2 failed"}]}
        evidence = {**said["evidence"], **ran, **(failed if request.agent == "Testing" else {})}
        return replace(best, message=json.dumps({**said, "evidence": evidence, "issues": ["src/a.py:1: wrong"]}))
    return replace(best, files={path: against_itself(str(text)) for path, text in best.files.items()})


def against_itself(report: str) -> str:
    """A report of ticket's Reviewer or of harness' QA with its good verdict, and findings that say otherwise."""
    for before, after in (("tests: PASSED", "tests: FAILED"), ("- None\n", "- It does not work\n"), ("[x]", "[ ]")):
        report = report.replace(before, after)
    return report


def works_on(_request: AgentRequest, best: Act, _draw: random.Random) -> Act:
    """A person edits what the agent writes too."""
    words = f"# {PEOPLES_WORDS}"  # a remark, in whatever format
    return replace(best, people={**best.people, **dict.fromkeys(list(best.files)[:1], words)})


def usual(name: str) -> Doing:
    found = next(one for one in (*STANDARD, CRASH) if one.name == name)
    return lambda request, best, _draw: found.act(request, best)


AGAINST_ITSELF = Deed(CONTRADICTION, contradicts, CONTRADICTION)
DEEDS = (
    Deed("lies", usual("lies"), "writes nothing"),
    Deed("skips", skips, "writes nothing"),
    Deed("breaks scope", plants("outside.txt", "src/outside.c", "docs/outside/plan.md", "interlock.toml")),
    Deed("removes files", removes),
    Deed("hangs", usual("hangs"), "hangs", fails=True),
    Deed("dies", usual("dies"), "dies", fails=True),
    Deed("dies after its word", lambda _request, best, _draw: replace(best, code=-9), "dies", fails=True),
    Deed("cannot be started", usual("cannot be started"), "cannot be started", fails=True),
    Deed("weakens tests", plants(*TESTS)),
    Deed("approves itself", approves, "changes run-state"),
    Deed("commits", plants(".git/HEAD", ".git/refs/heads/main", ".git/index")),
    Deed("plants hooks", plants(".git/hooks/pre-commit", ".githooks/pre-push", ".github/workflows/ci.yml", ".envrc")),
    Deed("plants rules", plants("CLAUDE.md", "docs/AGENTS.md", ".claude/settings.json", ".mcp.json")),
    Deed("plants ignore rules", plants(".gitignore", "src/.gitignore", ".gitattributes")),
    Deed(MEANWHILE[0], works_on, "a person works on"),
    Deed(MEANWHILE[1], usual("crash"), "crash"),
)
OURS = ("nothing changes outside of its scope", "no gate is passed without a person")
"""Rules for rehearsals, where no agent may write code and one person answers: both are looked at more closely here."""
ROADMAPS_NAMES = {"changes run-state": "writes the roadmap"}


@dataclass
class Company(Simulation):
    """A simulated run with a person who approves, rejects, or is not there."""

    draw: random.Random = field(default_factory=random.Random)
    decisions: int = 0
    away: bool = False

    def go(self, **how: Any) -> Finished:
        close = super().go(**how)
        while close.gate is not None and not self.away:
            waiting, chance = waiting_gate(self.lines), self.draw.random()
            assert waiting is not None
            self.away = chance < 0.05
            if self.away:
                break
            self.decisions += 1
            no = "reject" if "reject" in waiting.names else waiting.names[-1]
            self.decide(no if chance < 0.15 else waiting.names[0], who=PERSON)
            close = super().go(**how)
        return close


@dataclass
class Agents:
    """All agents of one run: they misbehave so many times, at calls that a seeded generator picks."""

    setup: Rehearsal
    draw: random.Random
    left: int
    """How many times yet."""
    chance: float = 0.5
    has: Callable[[str], bool] = lambda _path: False
    """Whether the tree has a file now."""
    calls: list[Called] = field(default_factory=list)
    schedule: dict[int, str] = field(default_factory=dict)
    deeds: list[str] = field(default_factory=list)
    worked: set[str] = field(default_factory=set)
    """Dispatches in whose layer somebody has done their part."""

    def __call__(self, request: AgentRequest) -> Act:
        if len(self.calls) > MOST_CALLS:
            raise RuntimeError(f"no end after {MOST_CALLS} calls")
        best = self.setup.base(request)
        name, known, act, fails = "", "", best, False
        if self.left and self.draw.random() < self.chance:
            name, known, act, fails = self._misbehaved(request, best)
        if act == best:
            name, fails = "", False
        else:
            self.left -= 1
            self.schedule[len(self.calls)] = known
            self.deeds.append(name)
        fails = fails or (name in NO_WORK and self._owes(request, act))
        self.calls.append(Called(request.dispatch, name, self._planted(best, act), fails))
        if any(path in act.files for path in best.files):
            self.worked.add(request.dispatch)
        return act

    def _owes(self, request: AgentRequest, act: Act) -> bool:
        """Whether a call that brings nothing cannot count: an artifact or an answer is still wanted."""
        assert request.contract is not None and isinstance(request.within, MemoryLayer)
        there = {one.path for one in request.contract.artifacts if request.within.facts(one.path).exists}
        owed = [one for one in request.contract.artifacts if one.required and (one.fresh or one.path not in there)]
        lacks = request.dispatch not in self.worked and bool(owed)
        return lacks or not (act.message or act.result or request.contract.answer.artifact_is_verdict)

    def _misbehaved(self, request: AgentRequest, best: Act) -> tuple[str, str, Act, bool]:
        own = [one for one in self.setup.deviations if isinstance(one, Deviation) and one.fits(request)]
        if own and self.draw.random() < 0.3:
            chosen = self.draw.choice(own)
            name = MEANWHILE[0] if chosen.name.startswith("a person") else f"own: {chosen.name}"
            return name, chosen.name, chosen.act(request, best), False
        judges = request.agent in JUDGES and self.draw.random() < 0.25
        deed = AGAINST_ITSELF if judges else self.draw.choice(DEEDS)
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
    return Options(max_parallel=8 if playbook == "ticket" else None)


def play(playbook: str, seed: str) -> Outcome:
    """One run of a playbook with misbehaving agents, judged; another one where nobody has happened to misbehave."""
    for number in itertools.count():
        outcome = play_once(playbook, f"{seed}/{number}")
        if outcome.found or any(deed not in MEANWHILE for deed in outcome.deeds):
            break
    return outcome


def play_once(playbook: str, seed: str) -> Outcome:
    draw = random.Random(seed)
    setup, asked = rehearsal(playbook), options(playbook)
    agents = Agents(setup, draw, draw.randint(1, MOST_DEEDS), draw.choice(CHANCES[playbook]))
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
        status=played.finished.status,
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
    return found + [Finding("invariant", text) for text in broken if not told(text.partition(" (deviations")[0], found)]


SAME = {
    "against its evidence": f" {CONTRADICTION}",
    "nothing changed": f": 0 commits on {BRANCH}",
    "additions dropped": " QA writes nothing",
}
"""How a rule of a rehearsal ends that does not hold for the same reason."""


def told(broken: str, found: Sequence[Finding]) -> bool:
    """Whether a broken rule is the same that was found to stand on an agent's word only."""
    return any(finding.kind in SAME and broken.endswith(SAME[finding.kind]) for finding in found)
