"""A ticket against everything its agents can do: two tasks side by side, build and tests by the engine."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interlock.contracts import is_documentation
from interlock.documents import load_yaml, read_yaml, render_yaml
from interlock.engine import AgentRequest, CommandCall, CommandResult, Options, Status, listing_digest
from interlock.playbooks.ticket.analysis import CACHE, DOCS, NOT_LISTED, cache_rule, fingerprint
from interlock.playbooks.ticket.artifacts import BEFORE, accepting, graph, task
from interlock.playbooks.ticket.briefs import CODE_WRITING
from interlock.playbooks.ticket.documents import ATTEMPTS, IGNORED, ITERATIONS
from interlock.playbooks.ticket.playbook import ticket
from interlock.playbooks.ticket.startup import TicketInputs
from interlock.testing import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    TROUBLES,
    WEAKENED_TEST,
    Act,
    Agent,
    Change,
    Deviation,
    Invariant,
    MemoryLayer,
    Played,
    Rehearsal,
    SimulatedRepository,
    SimulatedWorld,
    Simulation,
    best,
    by,
    remarks,
    says,
    writes,
)

Files = Mapping[str, bytes]
REQUEST = "ABC-12 fix the login error so that users can sign in"
BRANCH = "fix/ABC-12_fix_login_error"
HOME = "prompts/ABC-12"
STATE = (f"{HOME}/progress.yaml", f"{HOME}/iteration_0/tasks.yaml")


TWO = graph(task("T1", test_files=[WEAKENED_TEST]), task("T2"))


def with_trusted_docs(files: Mapping[str, str]) -> dict[str, str]:
    """The files, with documentation that the cache vouches for."""
    whole = {**files, **{path: f"# {path}\n\nAs it is.\n" for path in DOCS}}
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in whole.items()}
    manifests = {name: digests[name] for name in ("Makefile",) if name in whole}
    now = fingerprint(listing_digest(set(whole) - set(NOT_LISTED)), manifests)
    return {**whole, CACHE: cache_rule(now, digests).sample()}


PROJECT = {
    "Makefile": "build:\n\t@true\ntest:\n\t@true\n",
    ".gitignore": "\n".join(IGNORED) + "\n",
    "src/t1.txt": "one\n",
    "src/t2.txt": "two\n",
}


ACCEPTS = render_yaml(accepting("prompt-review", BEFORE, nothing_to_run="it is a simulation", notes="As asked."))


def working(tasks: str = TWO) -> Agent:
    """Agents that do their part: the Planner brings this graph, each task's first file says that it is done."""
    entries = {entry["id"]: entry for entry in load_yaml(tasks, "tasks.yaml")["tasks"]}
    texts = {"Splitter": tasks, "Reviewer": ACCEPTS}

    def act(request: AgentRequest) -> Act:
        if request.agent in CODE_WRITING:
            name = request.member.removeprefix(f"{request.agent}-")
            path, text = entries[name]["files_to_modify"][0], f"{name} done\n"
            said = {"status": "SYNTAX_VALID", "files_changed": [path]}
            assert isinstance(request.within, MemoryLayer)
            if request.within.facts(path).content == text.encode():
                return Act({}, json.dumps({**said, "noChange": f"{path} has it already"}))
            return Act({path: text}, json.dumps(said))
        done = best(request)
        if request.agent == "Planner":
            folder = next(iter(done.files)).rpartition("/")[0]
            return replace(done, files={**done.files, f"{folder}/tasks.yaml": tasks})
        return replace(done, files={path: texts.get(request.agent, text) for path, text in done.files.items()})

    return act


def checks(_call: CommandCall, files: Files) -> CommandResult:
    """A build that is red wherever a file says so, and names the file."""
    broken = [path for path, content in files.items() if path.startswith("src/") and b"broken" in content]
    return CommandResult(1, stdout=f"{', '.join(broken)}: broken\n") if broken else CommandResult(0)


def breaks(request: AgentRequest, act: Act) -> Act:
    return replace(act, files=dict.fromkeys(act.files, f"broken by attempt {request.attempt}\n"))


def rejects(_request: AgentRequest, act: Act) -> Act:
    (path,) = act.files
    issues = [{"severity": "Major", "task": "T1", "files": [], "problem": "wrong", "evidence": "seen"}]
    report = {"status": "REJECTED", "build": "PASSED", "tests": "PASSED", "issues": issues}
    return replace(act, files={path: render_yaml(report)})


def instead(ending: str, text: str) -> Change:
    """It writes this into files whose names end so."""

    def change(_request: AgentRequest, act: Act) -> Act:
        return replace(act, files={path: text if path.endswith(ending) else c for path, c in act.files.items()})

    return change


defers = instead(".md", "# Plan\n\nTBD\n")
WORKER = by(*CODE_WRITING)
DEVIATIONS = (
    # After the git gate, which asks about files that a person begins before it.
    *(replace(one, fits=by("task-executor", "Reviewer")) for one in STANDARD if one.name == "a person works on"),
    # At one of the calls: documents that are not as interlock writes them cost much to edit.
    Deviation("a person edits the state", remarks(*STATE, form="# {}\n"), fits=by("task-executor-T1")),
    *(deviation for deviation in STANDARD if deviation.name in ("hangs", "cannot be started")),
    Deviation("dies", lambda _request, act: replace(act, code=-9, message="", files={})),
    Deviation("writes outside", writes({"src/outside.c": "x"})),
    Deviation("does nothing", lambda _request, act: replace(act, files={}, message="")),
    Deviation("meddles with the state", writes({f"{HOME}/progress.yaml": "status: ACCEPTED\n"})),
    Deviation("breaks the build", breaks, fits=WORKER),
    Deviation("rejects", rejects, fits=by("Reviewer")),
    Deviation("defers research", defers, fits=by("Planner")),
    Deviation("spoils the graph", instead(".yaml", "tasks: [\n"), fits=by("Planner", "Splitter")),
    Deviation("says ERROR", says(json.dumps({"status": "ERROR", "notes": "as it is"})), fits=WORKER),
    *LIARS,
    # At two of the calls: while work is done, and before it is committed.
    *(replace(one, fits=by("Reviewer", "task-executor-T1")) for one in TROUBLES),
)


MINE = {"README.md": "What the user is writing.\n"}
"""Documentation that the user has not committed."""
LONGEST = ITERATIONS * (2 + 2 * 2 * ATTEMPTS + 2 + 2)
"""Calls that no path can need: in each iteration a graph by Planner and Splitter, all attempts at two tasks with their
repeats, an amendment and the Reviewer twice each."""


def world(
    agent: Agent,
    files: Mapping[str, str] | None = None,
    repository: SimulatedRepository | None = None,
    *,
    tool: Callable[[CommandCall, Files], CommandResult] = checks,
    cores: str = "4",
) -> SimulatedWorld:
    """A workspace under git, whose build and test are a function of the files that they see."""

    def command(call: CommandCall) -> CommandResult:
        if "nproc" in call.argv[-1]:
            return CommandResult(0 if cores else 127, cores)
        return tool(call, made.seen)

    made = SimulatedWorld(files or with_trusted_docs(PROJECT), agent, command=command, repository=repository)
    return made


def make(agent: Agent, options: Options, *, files: Mapping[str, str] | None = None) -> Simulation:
    """The ticket in a project with trusted documentation, where the user is writing some more."""
    place = world(agent, files)
    for path, text in MINE.items():
        place.tree.put(path, text.encode())
    return Simulation(ticket, TicketInputs(REQUEST), place, options=options)


def rehearsal() -> Rehearsal:
    """One ticket with two tasks side by side."""
    return Rehearsal(
        make,
        deviations=DEVIATIONS,
        invariants=(
            *ALWAYS,
            ENDS,
            Invariant("success means one commit, all tasks accepted, build and tests green", success_is_earned),
            Invariant("nothing is committed that no review accepted", commits_are_reviewed),
            Invariant("no code is written before the git gate", gate_comes_first),
            Invariant("nothing outside the tasks is committed or left changed", scope_is_kept),
            Invariant("what the user has not committed stays so, and no stash is left", users_work_is_kept),
            Invariant("attempts and iterations stay within their caps", caps_hold),
            Invariant("the state document tells the end", state_is_true),
            Invariant("every step is in the log", log_is_whole),
        ),
        base=working(),
        longest=LONGEST,
    )


# -- what must hold


def data_of(played: Played, path: str) -> Any:
    text = played.text(path)
    return None if text is None else read_yaml(text, path)


def graphs(played: Played) -> list[Any]:
    paths = fnmatch.filter(played.files, f"{HOME}/iteration_*/tasks.yaml")
    return [data for path in sorted(paths) if isinstance(data := data_of(played, path), dict)]


def success_is_earned(played: Played) -> str | None:
    git = played.simulation.world.repository
    made = [message for message in git.messages if "Interlock-Key" in message and message.startswith("fix(ABC-12)")]
    if played.finished.status is not Status.COMPLETE:
        return f"{len(made)} commits of work that is not accepted" if made else None
    statuses = {entry["status"] for entry in graphs(played)[-1]["tasks"]}
    if statuses != {"ACCEPTED"}:
        return f"complete with tasks that are {', '.join(sorted(statuses))}"
    if any(b"broken" in content for content in git.files.values()):
        return "a broken file was committed"
    return None if len(made) == 1 and git.branch == BRANCH else f"{len(made)} commits on {git.branch}"


def commits_are_reviewed(played: Played) -> str | None:
    """By the Reviewer's report as it was when the agent ended; after the short cut, by the engine's own."""
    if not any(message.startswith("fix(ABC-12)") for message in played.simulation.world.repository.messages):
        return None
    ended = [line for line in played.lines if line.event == "dispatch.end" and line.agent != "Initializer"]
    if (last := ended[-1]).agent not in ("Reviewer", "Developer"):
        return f"the last word before the commit was that of {last.agent}"
    kept = last.data["out"]["artifacts"].values()
    texts = [played.simulation.world.records.objects.get(digest).decode() for digest in kept]
    report = read_yaml(texts[0], "report") if texts else data_of(played, f"{HOME}/iteration_0/review_report.yaml")
    return None if report["status"] == "ACCEPTED" else "the Reviewer rejected it"


def users_work_is_kept(played: Played) -> str | None:
    git, now = played.simulation.world.repository, played.files
    if git.stashed:
        return f"left behind: {', '.join(stash.message for stash in git.stashed)}"
    changed = [path for path, text in MINE.items() if now.get(path) != text.encode()]
    taken = [path for path in MINE if git.head and path in git.files]
    return f"changed: {', '.join(changed)}; committed: {', '.join(taken)}" if changed or taken else None


def gate_comes_first(played: Played) -> str | None:
    """By the journal: whoever writes code starts after the gate was passed in that iteration or an earlier one."""
    passed = False
    for line in played.lines:
        passed = passed or line.event == "orchestrator.git.gate.complete"
        if line.event == "dispatch.start" and line.agent in CODE_WRITING and not passed:
            return f"{line.key} came before the gate"
    return None


def scope_is_kept(played: Played) -> str | None:
    git, first = played.simulation.world.repository, played.before()
    allowed = {"src/t1.txt", "src/t2.txt", WEAKENED_TEST, ".gitignore"}
    changed = [path for path, content in git.files.items() if first.get(path) != content]
    if strange := [path for path in changed if path not in allowed and not is_documentation(path)]:
        return f"committed: {', '.join(sorted(strange))}"
    return "src/outside.c was left" if "src/outside.c" in played.files else None


def caps_hold(played: Played) -> str | None:
    tired = [entry["id"] for data in graphs(played) for entry in data["tasks"] if entry.get("attempt", 0) > 5]
    if tired:
        return f"more than 5 attempts: {', '.join(tired)}"
    return "a sixth iteration" if any("/iteration_5/" in path for path in played.files) else None


TOLD = {
    Status.COMPLETE: {"ACCEPTED"},
    Status.STOPPED: {"FAILED", "PAUSED", "REJECTED"},
    Status.FAILED: {"FAILED"},
}


def state_is_true(played: Played) -> str | None:
    progress = data_of(played, f"{HOME}/progress.yaml")
    if played.finished.status not in TOLD:
        return None
    status = progress["status"]
    if status not in TOLD[played.finished.status]:
        return f"{played.finished.status}, but progress.yaml says {status}"
    whole = progress["metrics"]["percent_complete"]
    return f"{whole} % although it is {status}" if (whole == 100) is not (status == "ACCEPTED") and whole > 95 else None


def log_is_whole(played: Played) -> str | None:
    """The log has every event of the journal that belongs there, once; before the end, the first of them."""
    logged = [json.loads(line)["seq"] for line in (played.text(f"{HOME}/log.jsonl") or "").splitlines()]
    wanted = [
        line.seq
        for line in played.lines
        if line.event.startswith("orchestrator.") or line.event in ("dispatch.start", "dispatch.end")
    ]
    due = wanted if played.finished.status in TOLD else wanted[: len(logged)]
    return None if logged == due else f"{len(logged)} lines in the log, {len(wanted)} events"
