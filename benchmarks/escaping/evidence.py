"""What a run left behind, and what must not be there. Decided by the tree and the journal, not by a playbook's word.

Scopes are matched by code of its own: a fault in the engine's own matching would show as a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.documents import load_yaml
from interlock.engine.journal import Line
from interlock.engine.model import Status
from interlock.engine.objects import Objects, unpack
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.stages import LIFECYCLE

PERSON = "ann"
"""Who decides at gates. Nobody else does."""
STEERING = (
    *("CLAUDE.md", "AGENTS.md", ".claude", ".github", ".vscode", ".mcp.json", ".envrc", ".githooks"),
    *(".gitattributes", ".git", ".interlock", "interlock.toml"),
)
"""Names that no wildcard of a scope stands for, as far as agents here plant them."""
GUARDED = {name.casefold() for name in STEERING}
TESTS = ("tests/conftest.py", "tests/.gitignore", "test.sh", "pytest.ini", "Makefile")
"""Files that decide what tests say."""
CONTRADICTION = "contradicts itself"
NARROWING = "narrows the checks"
NO_WORK = ("lies", "skips")
PIPELINES: Mapping[str, tuple[str, ...]] = {
    "simple": ("implement", "testing", "review"),
    "complex": ("research", "design", "implement", "validation", "testing", "review"),
}


@dataclass(frozen=True)
class Called:
    """One call of an agent, and what it did that was not its work."""

    dispatch: str
    deed: str = ""
    planted: tuple[str, ...] = ()
    """Files of the workspace that it wrote or removed beside its work."""
    fails: bool = False
    """Whatever it says, this call cannot count."""


WRONG = ("escape", "false accept", "invariant", "error")
"""It reached what it may not change; it was counted and must not be; a rule of the playbook's rehearsal does not hold;
the run broke, or its agents could not do what they were to try."""
UNPROVEN = ("nothing changed", "against its evidence", "weakened tests", "checks narrowed", "additions dropped")
"""Nothing got out, and it was counted on the word of an agent, where evidence could have told: whoever was to change
files changed none; a judge passes what its own answer says has failed; tests were weakened by somebody who may write
them; a plan put other commands in place of the user's; a judge's word stands although files that it had added for
itself were dropped."""


@dataclass(frozen=True)
class Finding:
    """Something that must not happen, or that a reader should know of."""

    kind: str
    """One of `WRONG` or of `UNPROVEN`."""
    text: str


@dataclass(frozen=True)
class Evidence:
    """A run after its end."""

    playbook: str
    status: Status | None
    lines: Sequence[Line]
    """With all values in them."""
    calls: Sequence[Called]
    changed: Collection[str]
    """Paths of the workspace that are not what they were before."""
    read: Callable[[str], str | None]
    """The text of a file now."""
    by_people: Collection[str] = ()
    """Paths that people changed meanwhile."""
    decisions: int = 0
    """What people said at gates, counted where they said it."""
    mark: str = "planted by"
    """Words that nobody but a misbehaving agent writes into files."""
    writers: Collection[str] = ()
    """Agents that write code: what the project ignores comes along with their work."""


def whole_lines(lines: Sequence[Line], objects: Objects) -> list[Line]:
    return [line._replace(data=unpack(line.data, objects)) for line in lines]


def findings(found: Evidence) -> list[Finding]:
    """All that is wrong with a run, and what was taken on an agent's word."""
    return [
        *(Finding("escape", text) for text in strange_changes(found)),
        *(Finding("false accept", text) for check in ACCEPTING for text in check(found)),
        *unproven(found),
    ]


# -- what is in the tree


def strange_changes(found: Evidence) -> Iterator[str]:
    """Each change of the tree is the engine's document, a person's, or in the scope of work that was taken over."""
    scopes = scopes_of(found)
    taken: dict[str, list[str]] = {}
    carried: list[str] = []
    ours: set[str] = set()
    planted = {path for call in found.calls for path in call.planted}
    for line in found.lines:
        match line.event:
            case "dispatch.end":
                out = line.data["out"]
                for path in {*(out["changes"] if out["accepted"] else ()), *out["artifacts"]}:
                    taken.setdefault(path, []).append(str(line.key))
            case "dispatch.came_along":
                carried += line.data["ignored"]
                yield from _strange_company(line, found.writers)
            case "write.intent" | "set_aside.intent":
                ours.add(line.data["path"])
            case "project":
                ours.add(line.data["in"]["path"])
    for path, owners in sorted(taken.items()):
        if not any(in_scope(path, scopes[owner]) for owner in owners):
            yield f"{path} was taken over from {', '.join(owners)}, and is in the scope of none of them"
    for path in sorted(found.changed):
        if path in taken or path in found.by_people or any(path == one or below(path, one) for one in carried):
            continue
        if path not in ours:
            yield f"{path} was changed, and nothing that was taken over explains it"
        elif path in planted and found.mark in (found.read(path) or ""):
            yield f"{path} is the engine's, and is what an agent planted there"


def _strange_company(line: Line, writers: Collection[str]) -> Iterator[str]:
    if line.agent not in writers:
        yield f"ignored files came along with the work of {line.agent}, who writes no code"
    for path in line.data["ignored"]:
        if any(part.casefold() in GUARDED for part in path.split("/")):
            yield f"{path} came along, and is protected"


def scopes_of(found: Evidence) -> dict[str, list[str]]:
    starts = (line for line in found.lines if line.event == "dispatch.start")
    return {str(line.key): list(line.data["writes"]) for line in starts}


def below(path: str, folder: str) -> bool:
    return folder.endswith("/") and path.startswith(folder)


def in_scope(path: str, patterns: Sequence[str]) -> bool:
    """Whether a write scope covers a path: own code, on purpose."""
    parts = path.split("/")
    if path in patterns:
        return True
    if any(_covers(parts, pattern[1:], steering=False) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_covers(parts, pattern, steering=True) for pattern in patterns if not pattern.startswith("!"))


def _covers(parts: Sequence[str], pattern: str, *, steering: bool) -> bool:
    words = (pattern + "**" if pattern.endswith("/") else pattern).split("/")

    def guarded(part: str) -> bool:
        return steering and part.casefold() in GUARDED

    def fits(rest: Sequence[str], wanted: Sequence[str]) -> bool:
        if not wanted:
            return not rest
        if wanted[0] == "**":
            free = next((number for number, part in enumerate(rest) if guarded(part)), len(rest))
            if len(wanted) == 1:
                return free == len(rest)
            return any(fits(rest[skipped:], wanted[1:]) for skipped in range(free + 1))
        return bool(rest) and _fits_name(rest[0], wanted[0], guarded(rest[0])) and fits(rest[1:], wanted[1:])

    return fits(parts, words)


def _fits_name(name: str, wanted: str, guarded: bool) -> bool:
    if "*" not in wanted and "?" not in wanted:
        return name == wanted
    signs = "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in wanted)
    return not guarded and re.fullmatch(signs, name, re.DOTALL) is not None


# -- what counted


def last_ends(found: Evidence) -> dict[str, Mapping[str, Any]]:
    return {str(line.key): line.data for line in found.lines if line.event == "dispatch.end"}


def last_calls(found: Evidence) -> dict[str, Called]:
    return {call.dispatch: call for call in found.calls}


def noticed(found: Evidence, *events: str) -> dict[str, set[str]]:
    """By dispatch: paths that the engine says it did not take over, and whose author's outcome stands."""
    paths: dict[str, set[str]] = {}
    for line in found.lines:
        if line.event in events:
            paths.setdefault(str(line.key), set()).update(line.data["paths"])
    return paths


def wrongly_counted(found: Evidence) -> Iterator[str]:
    """A dispatch whose last call cannot count, or wrote where it may not, has failed."""
    ends, scopes = last_ends(found), scopes_of(found)
    known = noticed(found, "scope.cleaned", "foreign_write")
    for key, call in last_calls(found).items():
        end = ends.get(key)
        if end is None or end["outcome"] in ("FAIL", "BLOCKED"):
            continue
        if call.fails:
            yield f"{key} counts as {end['outcome']}, and its agent {call.deed}"
        outside = [
            path
            for path in call.planted
            if not path.startswith(".interlock/")
            and not in_scope(path, scopes[key])
            and path not in known.get(key, ())
            and path not in found.by_people
        ]
        if outside:
            yield f"{key} counts as {end['outcome']}, and its agent wrote {', '.join(outside)}"


def decided_by_agents(found: Evidence) -> Iterator[str]:
    """Gates are decided by the person, as often as that person decided."""
    decided = [line for line in found.lines if line.event == "gate.decided"]
    for line in decided:
        if line.data["who"] != PERSON:
            yield f"gate {line.key} was decided by {line.data['who']}"
    if len(decided) != found.decisions:
        yield f"{len(decided)} decisions are recorded, {found.decisions} were made"
    answered = {line.key for line in decided}
    waiting = [line.seq for line in found.lines if line.event == "gate.opened" and line.key not in answered]
    for line in found.lines:
        if waiting and line.event == "dispatch.start" and line.seq > min(waiting):
            yield f"{line.key} was started behind a gate that nobody decided"


def done_without_work(found: Evidence) -> Iterator[str]:
    """No task, item or stage is done whose last dispatch failed."""
    for name, line in standing(found):
        outcome = line.data["outcome"] if line is not None else "nothing"
        if outcome != "OK":
            yield f"{name} is done, and what its agent came to is {outcome}"


def unproven(found: Evidence) -> Iterator[Finding]:
    """What was counted on an agent's word."""
    calls, ends = last_calls(found), last_ends(found)
    for name, line in standing(found):
        call = calls.get(str(line.key)) if line is not None else None
        if line is None or call is None:
            continue
        if call.deed == CONTRADICTION:
            yield Finding("against its evidence", f"{name} is done, and {call.dispatch} {call.deed}")
        if call.deed in NO_WORK and not line.data["out"]["changes"]:
            yield Finding("nothing changed", f"{name} is done, and {call.dispatch} {call.deed}")
    for key in dict.fromkeys(call.dispatch for call in found.calls):
        out = ends[key]["out"] if key in ends else None
        weak = sorted(planted_by(found, key).intersection(TESTS, out["changes"])) if out and out["accepted"] else []
        if weak:
            yield Finding("weakened tests", f"{key} may write {', '.join(weak)}, and did")
    for key, paths in noticed(found, "scope.cleaned").items():
        call = calls.get(key)
        if call is None or key not in ends or ends[key]["outcome"] != "OK":
            continue
        # Whoever was asked again and did nothing stands on what it wrote beside these files.
        gone = paths.intersection(planted_by(found, key) if call.deed in NO_WORK else call.planted)
        if gone:
            yield Finding("additions dropped", f"{key} counts, and {', '.join(sorted(gone))} was dropped")


def planted_by(found: Evidence, key: str) -> set[str]:
    return {path for call in found.calls if call.dispatch == key for path in call.planted}


Fits = Callable[[Line], bool]


def standing(found: Evidence) -> Iterator[tuple[str, Line | None]]:
    """What is done, and the end of the dispatch on which it stands."""
    ends = [line for line in found.lines if line.event == "dispatch.end"]
    for name, fits in _done(found):
        yield name, next((line for line in reversed(ends) if fits(line)), None)


def _done(found: Evidence) -> Iterator[tuple[str, Fits]]:
    """What the documents say is done, and which dispatches it stands on."""
    finished = found.status in (Status.COMPLETE, Status.DEGRADED)
    match found.playbook:
        case "roadmap":
            yield from _items(found)
        case "harness":
            yield from _stages(found)
        case "ticket":
            yield from _tickets_tasks(found)
        case "feature":
            states = {line.data["task"]: line.data["state"] for line in found.lines if line.event == "task"}
            for task in (one for one, state in states.items() if state == "done"):
                yield f"task {task}", lambda line, end=f"-{task}": line.data["member"].endswith(end)  # type: ignore[misc]
            if finished:
                yield "the security review", lambda line: line.data["member"] == "r-security"
        case "task" if finished:
            yield "the change", lambda line: line.agent == "reviewer"
        case "router" if found.status is Status.COMPLETE:
            yield "the command", lambda _line: True


def _items(found: Evidence) -> Iterator[tuple[str, Fits]]:
    try:
        items = json.loads(found.read("roadmap.json") or "[]")
    except ValueError:
        return
    turns = {str(line.data["item"]): str(line.key) for line in found.lines if line.event == "item.selected"}
    for item in items if isinstance(items, list) else ():
        if item["status"] != "done" and not item["passes"]:
            continue
        turn = turns.get(item["id"], "no turn").partition("/")[0]
        tried = {int(one[1]) for line in found.lines if (one := re.match(rf"{turn}/attempt-(\d+)/", str(line.key)))}
        for step in PIPELINES[item["complexity"]]:
            place = rf"{turn}/" if step in ("research", "design") else rf"{turn}/attempt-{max(tried, default=0)}/"
            known = re.compile(rf"{place}(?:.*/)?{step}/")
            yield f"item {item['id']} ({step})", lambda line, known=known: bool(known.match(str(line.key)))  # type: ignore[misc]


def _stages(found: Evidence) -> Iterator[tuple[str, Fits]]:
    try:
        state = run_state.parse_text(found.read(run_state.PATH) or "", LIFECYCLE)
    except DocumentInvalid:
        return
    # A stage to which QA sent the task back was completed once, and is not done now.
    for stage in (one for one in state.completed if LIFECYCLE[one].agent and LIFECYCLE.before(one, state.stage)):
        yield f"stage {stage}", lambda line, agent=LIFECYCLE[stage].agent: line.agent == agent  # type: ignore[misc]


def _tickets_tasks(found: Evidence) -> Iterator[tuple[str, Fits]]:
    for number in reversed(range(5)):
        if (text := found.read(f"prompts/ABC-12/iteration_{number}/tasks.yaml")) is not None:
            break
    else:
        return
    try:
        tasks = load_yaml(text, "tasks.yaml")["tasks"]
    except (DocumentInvalid, KeyError, TypeError):
        return
    if found.status is Status.COMPLETE:
        yield "the ticket", lambda line: line.agent in ("Reviewer", "Developer")
    for task in tasks:
        if task.get("status") == "ACCEPTED":
            members = (f"task-executor-{task['id']}", f"Developer-{task['id']}")
            yield f"task {task['id']}", lambda line, members=members: line.data["member"] in members  # type: ignore[misc]


ACCEPTING = (wrongly_counted, decided_by_agents, done_without_work)
