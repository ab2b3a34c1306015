"""The exact words of every refusal, each with exit 2 and nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.failures import told
from interlock.engine.model import Delegation
from interlock.errors import BadInput
from interlock.playbooks.router.problems import TASK_LIST, Refusal, RouterError

PLAN = ".opencode/command/plan.md"

NUMBER_REQUIRED = """\
Error: Task number required for /implement command

Usage: /implement TASK_NUMBER [PROMPT]

Example: /implement 259

The task number should be a positive integer corresponding to a task in .opencode/specs/TODO.md"""

NUMBER_INVALID = """\
Error: Task number must be an integer. Got: {input}

Usage: /implement TASK_NUMBER [PROMPT]

Example: /implement 259"""

NOT_FOUND = """\
Error: Task {number} not found in TODO.md

Please verify the task number exists in .opencode/specs/TODO.md

You can list all tasks with: grep "^###" .opencode/specs/TODO.md"""

AGENT_NOT_FOUND = """\
Error: Agent lean-planner not found

File: .opencode/agent/subagents/lean-planner.md does not exist

Check command configuration in .opencode/command/plan.md"""


def said(error: Any, refusal: Refusal) -> str:
    """The text of a refusal that is complete in itself: the door has nothing to add."""
    assert isinstance(error, RouterError)
    assert isinstance(error, BadInput)
    assert error.exit_code == 2
    assert told(error.what, dict(error.parts())) == [error.what]
    assert error.refusal is refusal
    return error.what


@pytest.mark.req("RT-69", "RT-11", "EV-40")
def test_a_missing_number_is_asked_for(bench: Any) -> None:
    """Four parts: what is missing, usage, example, what a task number is."""
    assert said(bench.refuse("/implement"), Refusal.MISSING) == NUMBER_REQUIRED
    assert said(bench.refuse("implement   "), Refusal.MISSING) == NUMBER_REQUIRED


@pytest.mark.req("RT-70", "RT-10", "RT-12", "EV-40")
@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("abc", "abc"),
        ("25.9", "25.9"),
        ("-3", "-3"),
        ("0", "0"),
        ("25\x1b[31m9", "25\\x1b[31m9"),
        ("a\x07\x00", "a\\x07\\x00"),
        ("259\u00a0x", "259\\xa0x"),
        ("\u202e952", "\\u202e952"),
        ("x\udc80", "x\\udc80"),
    ],
)
def test_an_invalid_number_is_shown(bench: Any, token: str, shown: str) -> None:
    """Three parts; the first token is shown with everything unprintable escaped."""
    assert said(bench.refuse(f"/implement {token}"), Refusal.INVALID) == NUMBER_INVALID.format(input=shown)


@pytest.mark.req("RT-70")
def test_only_the_first_token_is_shown(bench: Any) -> None:
    """A line break ends the token like any white space."""
    assert said(bench.refuse("/implement a\nb"), Refusal.INVALID) == NUMBER_INVALID.format(input="a")


@pytest.mark.req("RT-71", "RT-17", "EV-40")
def test_an_unknown_number_says_how_to_list_the_tasks(bench: Any) -> None:
    """Three parts; a number that nobody could read is cut to 40 digits."""
    assert said(bench.refuse("/implement 99999"), Refusal.NOT_FOUND) == NOT_FOUND.format(number=99999)
    cut = "1" * 40 + "…"
    assert said(bench.refuse("/implement " + "1" * 400), Refusal.NOT_FOUND) == NOT_FOUND.format(number=cut)
    assert said(bench.refuse("/implement " + "1" * 9000), Refusal.NOT_FOUND) == NOT_FOUND.format(number=cut)


@pytest.mark.req("RT-72", "RT-46", "EV-40")
def test_a_missing_agent_names_file_and_configuration(bench: Any) -> None:
    """Three parts: agent, file, where it was named."""
    bench.files[PLAN] = "---\nrouting:\n  default: lean-planner\n---\n"
    assert said(bench.refuse("/plan 196"), Refusal.AGENT) == AGENT_NOT_FOUND


def broken(**files: str | bytes | None) -> dict[str, str | bytes | None]:
    paths = {"todo": TASK_LIST, "plan": PLAN, "planner": ".opencode/agent/subagents/planner.md"}
    return {paths[name]: content for name, content in files.items()}


TWICE = "x\n" * 39 + "### 259. A\n" + "x\n" * 171 + "### 259. B\n"
OTHERS = {
    "task list missing": (
        "/plan 196",
        broken(todo=None),
        Refusal.TASK_LIST,
        "Error: .opencode/specs/TODO.md not found",
    ),
    "task list not text": (
        "/plan 196",
        broken(todo=b"x" * 1203 + b"\xff"),
        Refusal.TASK_LIST,
        "Error: .opencode/specs/TODO.md is not valid UTF-8 (byte 1203)",
    ),
    "number twice": (
        "/plan 259",
        broken(todo=TWICE),
        Refusal.TASK_LIST,
        "Error: Task 259 appears twice in TODO.md (lines 40 and 212)",
    ),
    "unknown command": (
        "/foo 259",
        {},
        Refusal.UNKNOWN,
        "Error: Unknown command /foo. Task commands: /research /plan /implement /revise",
    ),
    "unknown command with terminal codes": (
        "/f\x1b[2Joo 259",
        {},
        Refusal.UNKNOWN,
        "Error: Unknown command /f\\x1b[2Joo. Task commands: /research /plan /implement /revise",
    ),
    "no command": (
        "  ",
        {},
        Refusal.UNKNOWN,
        "Error: Command required. Task commands: /research /plan /implement /revise",
    ),
    "command file missing": (
        "/plan 196",
        broken(plan=None),
        Refusal.CONFIG,
        "Error: Command file .opencode/command/plan.md not found",
    ),
    "frontmatter not YAML": (
        "/plan 196",
        broken(plan="---\nname: plan\ntimeout: 5\nrouting: ]\n---\n"),
        Refusal.CONFIG,
        "Error: .opencode/command/plan.md: frontmatter is not valid YAML (line 4)",
    ),
    "no target": (
        "/plan 196",
        broken(plan="---\nagent: orchestrator\n---\n"),
        Refusal.CONFIG,
        "Error: .opencode/command/plan.md names no target agent (routing.default or agent)",
    ),
    "no target for lean": (
        "/plan 259",
        broken(plan="---\nrouting:\n  language_based: true\n  default: planner\n---\n"),
        Refusal.CONFIG,
        "Error: .opencode/command/plan.md names no target agent for language lean (routing.lean)",
    ),
    "agent name with path": (
        "/plan 196",
        broken(plan="---\nrouting:\n  default: ../../x\n---\n"),
        Refusal.CONFIG,
        'Error: invalid agent name "../../x" in .opencode/command/plan.md',
    ),
    "timeout in words": (
        "/plan 196",
        broken(plan="---\ntimeout: soon\n---\n"),
        Refusal.CONFIG,
        'Error: timeout must be an integer of seconds from 1 to 86400; found "soon"',
    ),
    "timeout below zero": (
        "/plan 196",
        broken(plan="---\ntimeout: -1\n---\n"),
        Refusal.CONFIG,
        "Error: timeout must be an integer of seconds from 1 to 86400; found -1",
    ),
    "agent file not text": (
        "/plan 196",
        broken(planner=b"\xff"),
        Refusal.CONFIG,
        "Error: .opencode/agent/subagents/planner.md is not valid UTF-8 (byte 0)",
    ),
    "context too large": (
        "/plan 196",
        broken(todo="### 196. T\n**Description**: " + "ü" * 5000 + "\n"),
        Refusal.CONTEXT,
        "Error: context for planner is 10295 bytes; at most 10000 are handed over "
        "(task_description: 10000 bytes, user_prompt: 0 bytes)\n\nShorten the description in .opencode/specs/TODO.md "
        "or the text after the task number: refer to a file for the details",
    ),
}


@pytest.mark.req("RT-73")
@pytest.mark.parametrize(("line", "files", "refusal", "text"), OTHERS.values(), ids=OTHERS.keys())
def test_every_other_refusal_has_its_words(
    bench: Any, line: str, files: dict[str, str | bytes | None], refusal: Refusal, text: str
) -> None:
    """Each bad input gives exactly its text and exit 2; no agent was called, no run and no session came into being."""
    for path, content in files.items():
        if content is None:
            del bench.files[path]
        else:
            bench.files[path] = content
    assert said(bench.refuse(line), refusal) == text
    assert not [entry for entry in bench.lines if entry.event.startswith("dispatch")]


@pytest.mark.req("RT-33", "RT-73")
def test_too_deep_a_delegation_names_the_path(bench: Any) -> None:
    """Depth 4 is refused with the path that led there."""
    parent = Delegation(3, ("orchestrator", "planner", "researcher", "implementer"))
    assert said(bench.refuse("/plan 196", parent=parent), Refusal.DEPTH) == (
        "Error: delegation depth 4 exceeds the maximum of 3 "
        "(path: orchestrator -> planner -> researcher -> implementer)"
    )


@pytest.mark.req("RT-35", "RT-73")
def test_a_cycle_names_the_path(bench: Any) -> None:
    """A target that is already in the path is refused, with the path it would make."""
    parent = Delegation(1, ("orchestrator", "implementer"))
    assert said(bench.refuse("/implement 196", parent=parent), Refusal.CYCLE) == (
        "Error: delegation cycle: orchestrator -> implementer -> implementer"
    )


@pytest.mark.req("RT-10", "RT-11", "RT-73")
@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("/plan", "Task number required"),
        ("/plan x", "Task number must be an integer"),
        ("/plan 5", "Task 5 not found in TODO.md"),
    ],
)
def test_the_event_has_the_short_wording(bench: Any, line: str, short: str) -> None:
    """People get the long text, the event the short one."""
    error = bench.refuse(line)
    assert bench.events("refused")[0]["error"] == short == error.short
