"""Which agent, how deep, how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from interlock.engine.model import Delegation
from interlock.playbooks.router.decisions import (
    TIMEOUTS_S,
    WORK_OF,
    TaskKind,
    about_language,
    check_cycle,
    check_depth,
    route,
    settled_already,
    time_limit,
)
from interlock.playbooks.router.documents import CommandFile, TaskEntry
from interlock.playbooks.router.problems import TASK_LIST, Problem

PLAN = ".opencode/command/plan.md"
BY_LANGUAGE = CommandFile(PLAN, language_based=True, default="planner", lean="lean-planner")


@pytest.mark.req("RT-40", "RT-41", "RT-42")
@pytest.mark.parametrize(
    ("language", "agent"),
    [
        ("lean", "lean-planner"),
        ("markdown", "planner"),
        ("python", "planner"),
        ("general", "planner"),
        ("lean4", "planner"),
        ("default", "planner"),
        ("language_based", "planner"),
    ],
)
def test_language_based_routing_knows_lean_and_the_rest(language: str, agent: str) -> None:
    """`lean` goes to its own agent, every other language to the default."""
    assert route(BY_LANGUAGE, language) == agent


@pytest.mark.req("RT-40", "RT-43")
def test_without_language_routing_the_default_gets_everything() -> None:
    """Not language based: `routing.default`, or the `agent` field."""
    assert route(CommandFile(PLAN, default="planner", lean="lean-planner"), "lean") == "planner"
    assert route(CommandFile(PLAN, agent="writer", default="planner"), "lean") == "planner"
    assert route(CommandFile(PLAN, agent="writer"), "lean") == "writer"


@pytest.mark.req("RT-06", "RT-43")
def test_the_router_is_never_its_own_target(bench: Any) -> None:
    """`agent: orchestrator` sends a command through the router and names no target; another value is one."""
    assert isinstance(route(CommandFile(PLAN), "general"), Problem)
    assert isinstance(route(CommandFile(PLAN, language_based=True, lean="a"), "general"), Problem)
    bench.files[PLAN] = "---\nagent: researcher\n---\n"
    bench.play("/plan 196")
    assert bench.requests[0].agent == "researcher"
    bench.files[PLAN] = "---\nagent: orchestrator\nrouting:\n  default: orchestrator\n---\n"
    bench.files[".opencode/agent/subagents/orchestrator.md"] = "I route.\n"
    assert bench.refuse("/plan 196").what == "Error: delegation cycle: orchestrator -> orchestrator"


@pytest.mark.req("RT-41")
def test_lean_without_an_agent_of_its_own_is_refused() -> None:
    """Proof work is never sent to another agent in silence."""
    found = route(CommandFile(PLAN, language_based=True, default="planner"), "lean")
    assert isinstance(found, Problem)


@pytest.mark.req("RT-44", "RT-45")
@pytest.mark.parametrize(
    ("line", "agent"),
    [
        ("/implement 259", "lean-implementation-agent"),
        ("/implement 196", "implementer"),
        ("/research 259", "lean-research-agent"),
        ("/research 197", "researcher"),
    ],
)
def test_the_examples_go_where_they_should(bench: Any, line: str, agent: str) -> None:
    """The shipped command files route Lean and general tasks to their agents."""
    assert bench.play(line).exit_code == 0
    assert bench.requests[0].agent == agent


@pytest.mark.req("RT-46")
def test_the_agent_file_must_exist(bench: Any) -> None:
    """Without the file no agent is called; a namesake elsewhere does not help."""
    text = bench.files.pop(".opencode/agent/subagents/planner.md")
    bench.files[".claude/agents/planner.md"] = bench.files[".opencode/agent/planner.md"] = text
    assert bench.refuse("/plan 196").what.startswith("Error: Agent planner not found\n")


@pytest.mark.req("RT-48")
def test_the_same_files_give_the_same_agent(bench: Any) -> None:
    """Two runs over the same entry and command file call the same agent and ask the same of it."""

    def asked() -> list[Any]:
        bench.play("/implement 259")
        return [(line.agent, line.data["in"]) for line in bench.lines if line.event == "dispatch.end"]

    first = asked()
    assert first and asked() == first


def test_an_agent_per_language_counts_only_where_settings_say_so(bench: Any) -> None:
    """`routing.<language>` is an extension that is off by default; with it on, its names are checked."""
    header = "---\nrouting:\n  language_based: true\n  default: planner\n  python: {}\n---\n"
    bench.files[PLAN] = header.format("reviser")
    bench.play("/plan 196")
    assert bench.requests[0].agent == "planner"
    bench.play("/plan 196", language_routing=True)
    assert bench.requests[0].agent == "reviser"
    bench.files[PLAN] = header.format("../x")
    bench.play("/plan 196")
    assert bench.requests[0].agent == "planner"
    assert bench.refuse("/plan 196", language_routing=True).what == f'Error: invalid agent name "../x" in {PLAN}'


@pytest.mark.req("RT-33", "RT-34")
@pytest.mark.parametrize(("outer", "allowed"), [(None, True), (1, True), (2, True), (3, False), (7, False)])
def test_a_delegation_is_at_most_three_deep(outer: int | None, allowed: bool) -> None:
    """Levels 1, 2 and 3 are fine; the fourth is refused."""
    parent = None if outer is None else Delegation(outer, ("orchestrator", "a"))
    found = check_depth(parent, 3)
    assert isinstance(found, Delegation) is allowed


@pytest.mark.req("RT-34")
def test_settings_may_lower_the_depth(bench: Any) -> None:
    """`max_depth = 1` refuses every nested call."""
    parent = Delegation(1, ("orchestrator", "researcher"))
    assert bench.play("/plan 196", parent=parent, max_depth=2).exit_code == 0
    assert bench.refuse("/plan 196", parent=parent, max_depth=1).what == (
        "Error: delegation depth 2 exceeds the maximum of 1 (path: orchestrator -> researcher)"
    )


@pytest.mark.req("RT-35")
def test_a_target_in_the_path_is_a_cycle() -> None:
    """Anywhere in the path, not only at its end."""
    here = Delegation(3, ("orchestrator", "a", "b"))
    assert isinstance(check_cycle(here, "a", True), Problem)
    assert check_cycle(here, "c", True) == Delegation(3, ("orchestrator", "a", "b", "c"))


@pytest.mark.req("RT-36", "RT-37")
def test_a_users_call_starts_the_path(bench: Any) -> None:
    """Depth 1, path of router and agent: in the context, in the record and in the request."""
    bench.play("/implement 259")
    expected = ["orchestrator", "lean-implementation-agent"]
    assert (bench.context()["delegation_depth"], bench.context()["delegation_path"]) == (1, expected)
    start = bench.events("dispatch.start")[0]
    assert (start["depth"], start["path"]) == (1, expected)
    assert (bench.requests[0].depth, bench.requests[0].path) == (1, tuple(expected))


@pytest.mark.req("RT-36", "RT-38")
def test_a_nested_call_extends_the_path(bench: Any) -> None:
    """Depth and path grow by one; a caller without a path counts as the router's."""
    bench.play("/plan 196", parent=Delegation(1, ("orchestrator", "implementer")))
    assert bench.context()["delegation_depth"] == 2
    assert bench.context()["delegation_path"] == ["orchestrator", "implementer", "planner"]
    assert bench.events("dispatch.start")[0]["path"] == ["orchestrator", "implementer", "planner"]
    assert check_depth(Delegation(1, ()), 3) == Delegation(2, ("orchestrator",))


@pytest.mark.req("RT-39")
def test_cycle_detection_is_on_unless_switched_off(bench: Any) -> None:
    """Off by explicit setting only; the depth limit stays."""
    parent = Delegation(1, ("orchestrator", "planner"))
    assert bench.refuse("/plan 196", parent=parent).what.startswith("Error: delegation cycle")
    assert bench.play("/plan 196", parent=parent, cycle_detection=False).exit_code == 0
    assert bench.context()["delegation_path"] == ["orchestrator", "planner", "planner"]
    deep = Delegation(3, ("orchestrator", "planner"))
    assert "exceeds the maximum" in bench.refuse("/plan 196", parent=deep, cycle_detection=False).what


@pytest.mark.req("RT-62", "RT-63")
@pytest.mark.parametrize(
    ("command", "seconds"),
    [("research", 3600), ("plan", 1800), ("implement", 7200), ("review", 3600), ("revise", 1800), ("other", 1800)],
)
def test_the_time_limit_is_the_commands_or_its_kinds(command: str, seconds: int) -> None:
    """The file's number first, then the one set explicitly, then the table."""
    assert time_limit(command, None, None) == seconds
    assert time_limit(command, 90, 3600) == 90
    assert time_limit(command, None, 3600) == 3600
    assert set(TIMEOUTS_S) == set(TaskKind)
    assert "revise" not in WORK_OF and WORK_OF["plan"] is TaskKind.PLANNING


@pytest.mark.req("RT-62", "RT-64")
def test_the_time_limit_reaches_context_record_and_request(bench: Any) -> None:
    """The number of the frontmatter is the agent's; its deadline is the start plus this."""
    bench.files[PLAN] = "---\ntimeout: 90\nrouting:\n  default: planner\n---\n"
    bench.play("/plan 196", timeout_default_s=3600)
    start = bench.events("dispatch.start")[0]
    assert bench.context()["timeout"] == start["timeout_s"] == bench.requests[0].timeout_s == 90
    began = next(line.ts for line in bench.lines if line.event == "dispatch.start")
    deadline = datetime.fromisoformat(began).replace(microsecond=0) + timedelta(seconds=90)
    assert bench.context()["deadline"] == start["deadline"] == deadline.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("command", "status", "settled"),
    [
        ("implement", "[COMPLETED]", True),
        ("implement", "[Abandoned] ", True),
        ("implement", "[NOT STARTED]", False),
        ("implement", "", False),
        ("research", "[COMPLETED]", False),
    ],
)
def test_a_settled_task_is_implemented_with_a_warning(bench: Any, command: str, status: str, settled: bool) -> None:
    """The list's status stops nothing; implementing what is done or given up is remarked."""
    assert settled_already(command, status) is settled
    bench.files[".opencode/specs/TODO.md"] = f"### 5. T\n**Language**: general\n**Status**: {status}\n"
    assert bench.play(f"/{command} 5").exit_code == 0
    assert bool(bench.events("warning")) is settled


@pytest.mark.req("RT-40")
@pytest.mark.parametrize(
    ("file", "language", "named", "said"),
    [
        (BY_LANGUAGE, "lean", True, None),
        (BY_LANGUAGE, "general", True, None),
        (CommandFile(PLAN, default="planner"), "rust", True, None),
        (CommandFile(PLAN, language_based=True, languages={"rust": "r"}), "rust", True, None),
        (BY_LANGUAGE, "general", False, f"Task 5 names no language in {TASK_LIST}; as general it goes to planner"),
        (BY_LANGUAGE, "rust", True, f"{PLAN} has no agent for language rust of task 5; planner gets it"),
    ],
)
def test_a_language_that_decides_nothing_is_remarked(
    file: CommandFile, language: str, named: bool, said: str | None
) -> None:
    """Where the language decides who is called: a task that names none, or one that the file does not know."""
    entry = TaskEntry(5, "T", 1, language, "", "", names_language=named)
    assert about_language(file, entry, "planner") == (() if said is None else (said,))


@pytest.mark.req("RT-41")
def test_an_agent_by_language_is_taken_where_it_has_a_name() -> None:
    """Before the one for Lean and before the default."""
    file = CommandFile(PLAN, language_based=True, default="d", lean="l", languages={"lean": "own", "rust": "../x"})
    assert route(file, "lean") == "own"
    assert isinstance(route(file, "rust"), Problem)
    assert route(file, "general") == "d"
