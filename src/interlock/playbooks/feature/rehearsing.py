"""The feature pipeline against what its agents can do: verdicts, faults, crashes, and what must hold all the same."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from interlock.engine import Line, Status
from interlock.playbooks.feature import shared_memory
from interlock.playbooks.feature.briefs import RETRIES
from interlock.playbooks.feature.decisions import Decided
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import CLUSTERS, MEMBERS, Members, R
from interlock.playbooks.feature.memory_file import parse_memory, sample_memory
from interlock.playbooks.feature.plan import TaskProgress
from interlock.playbooks.feature.playbook import CAPS, STEPS, feature_of
from interlock.playbooks.feature.work import FeatureInputs
from interlock.testing import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    WEAKENED_TEST,
    Act,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    best,
    by,
    remarks,
    says,
    simulated,
)

AT = Layout("login")
RETURNED = "agent.returned"
CODE = "src/made-by-"
FILES = {"src/a.py": "a = 1\n", AT.decisions: "# Decisions\n\n- Keep it small.\n"}


def of_these(deviation: Deviation, *members: str) -> Deviation:
    """The same, only by these members where it fits them."""
    return replace(deviation, fits=lambda request: request.member in members and deviation.fits(request))


def writes(files: Callable[[str], Mapping[str, str]]) -> Callable[[Any, Act], Act]:
    """Does its work, and writes these files, which depend on who it is."""
    return lambda request, act: replace(act, files={**act.files, **files(request.member)})


BY: Mapping[str, tuple[str, ...]] = {
    "says nothing": ("researcher-impact", "planner", "implementer-T01", "r-security"),
    "dies": ("spec", "implementer-T01", "v-build", "post-mortem"),
    "hangs": ("v-tests", "r-security"),
    "cannot be started": ("researcher-impact", "post-mortem"),
    "writes outside": ("researcher-impact", "designer", "ct-security", "v-tests", "r-knowledge"),
    "a person works on": (
        *("researcher-impact", "spec", "designer", "ct-security", "planner", "implementer-T01", "implementer-T02"),
        *("v-build", "v-tests", "r-security", "r-knowledge", "post-mortem"),
    ),
    **{liar.name: ("v-build", "v-tests", "implementer-T01") for liar in LIARS},
}
"""Who does what anybody could: the whole rehearsal has to stay affordable."""


IN_DECISIONS = remarks(AT.decisions, form=" {}\n", behind="Keep it small.")


def deviations(members: Members) -> tuple[Deviation, ...]:
    """What agents do other than their best; every judge gives every verdict."""
    worst = {row.name: row.words.worst for row in members.rows if row.judges}
    one_each = by("ct-security", "v-build", "r-security")
    judges_so = writes(lambda name: {AT.mem(name): sample_memory(name, worst[name])})
    strangely = writes(lambda name: {AT.mem(name): sample_memory(name, "Severe")})
    grave = writes(lambda name: {AT.output(name): f"# Review\n\n### {worst[name]}: it is open to all\n"})
    return (
        *(of_these(one, *BY[one.name]) if one.name in BY else one for one in (*STANDARD, *LIARS)),
        Deviation("says ERROR", says("ERROR: it broke")),
        Deviation("asks for revision", says("NEEDS_REVISION: not yet"), by(*worst, "spec", "implementer-T01")),
        Deviation("gives the worst verdict", judges_so, by(*worst)),
        Deviation("judges in other words", strangely, one_each),
        Deviation("finds something grave and is content", grave, by("ct-security", "r-security")),
        Deviation("changes the shared memory", writes(lambda _: {AT.memory: "mine"}), by("designer", "v-build")),
        Deviation("meddles with the plan", writes(lambda _: {AT.plan: "# Mine\n"}), by("implementer-T01")),
        Deviation("breaks the plan", writes(lambda _: {AT.plan: "# Plan\n"}), by("planner")),
        Deviation("rewrites the decisions", writes(lambda _: {AT.decisions: "# Mine\n"}), by("r-knowledge")),
        Deviation("a person edits the shared memory", remarks(AT.memory), by("spec", "implementer-T01", "v-tests")),
        Deviation("a person edits the decisions", IN_DECISIONS, by("r-knowledge")),
    )


PLAN = """# Plan

## Execution Waves

### Wave 1

- T01: the store
- T02: the page

### Wave 2

- T03: both together
"""
TASKS = {
    AT.task("T01"): "---\nid: T01\n---\n\nDo it.\n",
    AT.task("T02"): "---\nid: T02\n---\n\nDo it.\n",
    AT.task("T03"): "---\nid: T03\ndepends_on: [T01, T02]\n---\n\nDo it.\n",
}


def plays(request: Any) -> Act:
    """Everybody does their best; the first plan has two tasks side by side, and one that needs both."""
    act = best(request)
    if request.contract.must_change:
        return works(request, act)
    if request.member != "planner":
        return act
    if AT.task("T01") in act.files:
        return replace(act, files={**act.files, AT.plan: PLAN, **TASKS})
    return replans(request, act)


def works(request: Any, act: Act) -> Act:
    """A task agent that changes a file of the project."""
    memory = sample_memory(request.member, "N/A")
    code = {f"{CODE}{request.member}.py": f"made = {request.dispatch!r}\n"}
    return replace(act, files={**act.files, AT.mem(request.member): memory, **code})


def replans(request: Any, act: Act) -> Act:
    """The tasks that are not done come again, one after the other, in waves that begin at 1; if all are, a new one
    does."""
    _, _, state = request.brief.partition("### Tasks so far")
    waiting = re.findall(r"^(T\d+): (?:failed|pending)", state.partition("\n### ")[0], re.MULTILINE)
    if not waiting:
        return act
    waves = "\n".join(f"### Wave {number}\n\n- {one}: again\n" for number, one in enumerate(waiting, 1))
    files = {path: text for path, text in act.files.items() if not path.startswith(f"{AT.tasks}/")}
    return replace(act, files={**files, AT.plan: f"# Plan\n\n## Execution Waves\n\n{waves}"})


def longest(members: Members) -> int:
    """Calls that no run can need, whatever its agents do; each crash of three may cost one more, and each time that a
    person edits the same document a whole dispatch."""
    researchers, critics, verifiers, reviewers = (len(members.of(cluster)) for cluster in CLUSTERS)
    tries = 1 + RETRIES.transient + RETRIES.contract  # an ERROR and an unusable answer share one retry
    before_planning = researchers + 1 + (1 + CAPS["ct"]) * (1 + critics)
    each_plan = CAPS["plan"] + len(TASKS) + verifiers
    plans = CAPS["pass"] + CAPS["replan"]
    # One for each pass, one confirmation, and a fix pass with at most all tasks, verified and reviewed again.
    reviews = (CAPS["pass"] + 2) * reviewers + len(TASKS) + plans + verifiers
    return tries * (before_planning + plans * each_plan + reviews + 1) + 3 * tries


def rehearsal(members: Members = MEMBERS) -> Rehearsal:
    """One small feature with three tasks in two waves."""
    return Rehearsal(
        simulated(feature_of(members), FeatureInputs("Add a login page", slug="login"), FILES),
        deviations=deviations(members),
        invariants=(*ALWAYS, ENDS, heeded(members), *INVARIANTS),
        base=plays,
        longest=longest(members),
    )


# -- what must hold


def decisions_of(played: Played, rule: str) -> list[str]:
    return [str(data["out"]["result"]) for data in played.told("decide") if data["out"]["rule"] == rule]


FINISHED = (Status.COMPLETE, Status.DEGRADED)


def unended(played: Played) -> bool:
    """Whether the path was cut off, which is `ENDS`' to say; then it has no result to judge."""
    return ENDS.broken(played) is not None


def done_only_by_review(played: Played) -> str | None:
    """DONE means that the reviewers' last decision was DONE, and the other way round unless tasks are open."""
    last = decisions_of(played, "r_cluster")[-1:]
    moves = decisions_of(played, "after_review")[-1:]
    content = last == ["DONE"] and moves == ["finish"]
    finished = played.finished.status in FINISHED
    if unended(played) or finished == (content and not open_tasks(played.lines)):
        return None
    return f"{played.finished.status} after reviews {last}, {moves}"


def heeded(members: Members) -> Invariant:
    """Whoever reviews, and whatever its row says of how it blocks: it is asked, and not passed over."""
    rows = [row for row in members.of(R) if row.weighed]

    def broken(played: Played) -> str | None:
        if played.finished.status not in FINISHED:
            return None
        said = {data["agent"]: data["status"] for data in played.told(RETURNED)}
        for row in rows:
            if row.name not in said:
                return f"{row.name} was not asked"
            memory = played.files.get(AT.mem(row.name), b"").decode()
            if said[row.name] != "ERROR" and parse_memory(memory).severity in row.words.grave:
                return f"{row.name} found something grave, and the end is {played.finished.status}"
        return None

    return Invariant("no reviewer is passed over", broken)


def open_tasks(lines: Iterable[Line]) -> list[str]:
    """The tasks of the plans that are not done, as far as these lines tell."""
    waiting: set[str] = set()
    for line in lines:
        match line.event:
            case "waves":
                waiting |= {one for ids in line.data["waves"].values() for one in ids}
            case "task" if line.data["state"] == TaskProgress.DONE:
                waiting.discard(line.data["task"])
            case "task":
                waiting.add(line.data["task"])
            case "tasks.dropped":
                waiting -= set(line.data["tasks"])
    return sorted(waiting)


def nothing_open_passes(played: Played) -> str | None:
    """While a task failed or was not begun, verification does not come to DONE (EV-07)."""
    lines = played.lines
    for number, line in enumerate(lines):
        passed = line.event == "decide" and line.data["out"]["rule"] == "v_cluster"
        if passed and Decided(line.data["out"]["result"]).passed and (waiting := open_tasks(lines[:number])):
            return f"verification passed with {', '.join(waiting)} open"
    return None


def words_of_the_end(played: Played) -> str | None:
    text = str(played.finished.output)
    expected = "DONE: " if played.finished.status in FINISHED else "ERROR: "
    return None if unended(played) or text.startswith(expected) else f"the output is {text[:60]!r}"


def loops_are_bounded(played: Played) -> str | None:
    turns, fixes = Counter(data["loop"] for data in played.told("loop")), len(played.told("review.fix"))
    most = {"ct": CAPS["ct"], "replan": CAPS["replan"], "pass": CAPS["pass"], "again": 2}
    wrong = [f"{name} {turns[name]} times" for name, cap in most.items() if turns[name] > cap]
    return ", ".join([*wrong, *(["two fix passes"] if fixes > 1 else [])]) or None


def steps_of(lines: Iterable[Line]) -> list[str]:
    """The steps that a run went through, by the keys of its journal."""
    parts = [line.key.partition("#")[0].split("/") for line in lines if line.key]
    steps = [known[-1] for names in parts if (known := [name for name in names if name in STEPS])]
    return [step for before, step in zip(["", *steps], steps, strict=False) if step != before]


def no_step_is_left_out(played: Played) -> str | None:
    """A run may go back, and goes on only to the step behind the one where it is; one that finishes, up to the last."""
    order, walked = list(STEPS), steps_of(played.lines)
    for before, after in itertools.pairwise(walked):
        if order.index(after) > order.index(before) + 1:
            return f"step {before} was followed by {after}"
    if walked[:1] != order[:1]:
        return f"it began with {walked[:1]}"
    unfinished = played.finished.status in FINISHED and walked[-1] != order[-1]
    return f"it ended in step {walked[-1]}" if unfinished else None


def four_at_once(played: Played) -> str | None:
    most = played.simulation.world.most_at_once
    return None if most <= 4 else f"{most} agents at once"


def needs_come_first(played: Played) -> str | None:
    """No task agent starts before those that it needs are through with success."""
    needs: dict[str, list[str]] = {}
    done: set[str] = set()
    for line in played.lines:
        match line.event:
            case "schedule":
                needs |= line.data["needs"]
            case "dispatch.end" if line.data["outcome"] == "OK":
                done.add(line.data["member"])
            case "dispatch.start" if not done.issuperset(needs.get(line.data["member"], ())):
                return f"{line.data['member']} did not wait for {', '.join(needs[line.data['member']])}"
    return None


def memory_is_whole(played: Played) -> str | None:
    text = played.files[AT.memory].decode()
    return shared_memory.problem(text) or ("; ".join(shared_memory.marked_entries(text)) or None)


def nothing_elsewhere(played: Played) -> str | None:
    """The source is as it was but for what task agents made, and nothing else lies outside of the feature's folder."""
    ours = (f"{AT.folder}/", ".interlock/", CODE, WEAKENED_TEST)
    changed = played.altered(lambda path: not path.startswith(ours))
    return f"changed: {', '.join(changed)}" if changed else None


def decisions_grow(played: Played) -> str | None:
    before = played.people.get(AT.decisions) or FILES[AT.decisions].encode()
    assert isinstance(before, bytes)
    return None if played.files[AT.decisions].startswith(before.rstrip(b"\n")) else "earlier decisions are gone"


def one_retry_each(played: Played) -> str | None:
    """At most two tries with a verdict per dispatch; accidents have repeats of their own."""
    retries = Counter(
        line.key for line in played.lines if line.event == "dispatch.try" and line.data["move"] in ("repair", "retry")
    )
    wrong = [str(key) for key, count in retries.items() if count > 1]
    return f"retried twice: {', '.join(wrong)}" if wrong else None


def telemetry_is_complete(played: Played) -> str | None:
    ends = Counter(data["member"] for data in played.told("dispatch.end"))
    told = Counter(data["agent"] for data in played.told(RETURNED))
    if ends != told:
        return f"returned but not told: {', '.join((ends - told) or (told - ends))}"
    log = [path for path in played.files if path.startswith(AT.at("agent-metrics/"))]
    return None if log else "there is no run log"


INVARIANTS = (
    Invariant("DONE when the reviewers are, and only then", done_only_by_review),
    Invariant("nothing passes while a task is open", nothing_open_passes),
    Invariant("the end is DONE or ERROR", words_of_the_end),
    Invariant("loops are bounded", loops_are_bounded),
    Invariant("no step is left out", no_step_is_left_out),
    Invariant("never more than four at once", four_at_once),
    Invariant("no task starts before what it needs is done", needs_come_first),
    Invariant("the shared memory is whole and has no mark", memory_is_whole),
    Invariant("nothing changes outside of its scope", nothing_elsewhere),
    Invariant("decisions only grow", decisions_grow),
    Invariant("one retry each", one_retry_each),
    Invariant("telemetry is complete", telemetry_is_complete),
)
