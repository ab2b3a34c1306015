"""What the agent is given: validated fields, its instructions, and nothing else."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import parse_answer
from interlock.documents import Document, DocumentState
from interlock.engine.brief import SAID_TO_BE_DATA, Heading, render
from interlock.engine.model import DEADLINE, SESSION, TIMEOUT, Delegation
from interlock.engine.prompts import worded
from interlock.playbooks.router import example_files, router
from interlock.playbooks.router import handover as module
from interlock.playbooks.router.decisions import ValidatedCommand
from interlock.playbooks.router.documents import AgentFile, Returns, TaskEntry, read_agent_file
from interlock.playbooks.router.handover import (
    USUAL_DEADLINE,
    USUAL_SESSION,
    Handover,
    ValidatedTask,
    context_object,
    dispatch_of,
    handover,
)
from interlock.playbooks.router.problems import TASK_LIST, Problem
from interlock.testing import SimulatedWorld

GUIDE = ".opencode/context/core/system/routing-guide.md"
RULES = ".opencode/context/core/system/validation-rules.md"
INDEX = ".opencode/context/index.md"


def task(description: str = "Do it", prompt: str = "be brief", title: str = "Title") -> ValidatedTask:
    return ValidatedTask(
        ValidatedCommand("implement", 259, prompt),
        TaskEntry(259, title, 1, "lean", description, ""),
        AgentFile("prover", ".opencode/agent/subagents/prover.md", "You prove.\n", ("**",)),
        Delegation(1, ("orchestrator", "prover")),
        7200,
        Returns.TEXT,
    )


def as_sent(text: str) -> Any:
    usual = text.replace(SESSION, USUAL_SESSION).replace(DEADLINE, USUAL_DEADLINE)
    return json.loads(usual.replace(f'"{TIMEOUT}"', "7200"))


@pytest.mark.req("RT-49", "RT-50", "RT-53")
def test_the_context_object_has_its_fields() -> None:
    """All fields with their types; prompt is number and title; the description is whole."""
    assert as_sent(context_object(task())) == {
        "prompt": "Task 259: Title",
        "task_number": 259,
        "language": "lean",
        "task_description": "Do it",
        "user_prompt": "be brief",
        "session_id": USUAL_SESSION,
        "delegation_depth": 1,
        "delegation_path": ["orchestrator", "prover"],
        "timeout": 7200,
        "deadline": USUAL_DEADLINE,
    }


@pytest.mark.req("RT-49", "RT-50")
def test_the_agent_gets_the_object_in_its_brief(bench: Any) -> None:
    """The brief carries it as fenced JSON under Context, with the real session and deadline."""
    bench.play("/implement 259 be brief")
    brief = bench.requests[0].brief
    assert "## Context\n\n### Delegation\n\n```json\n{\n" in brief
    given = bench.context()
    assert given["prompt"] == "Task 259: Implement automation tactics"
    assert given["session_id"] == bench.requests[0].session == bench.events("dispatch.start")[0]["session"]
    assert given["deadline"] == bench.events("dispatch.start")[0]["deadline"]


@pytest.mark.req("RT-51")
def test_the_raw_line_never_reaches_the_agent(bench: Any) -> None:
    """No field for raw arguments exists; the user's own words are a field of their own."""
    line = "/implement   0259   please  hurry"
    bench.play(line)
    brief = bench.requests[0].brief
    assert "$ARGUMENTS" not in brief
    assert line not in brief
    assert "0259" not in brief
    assert bench.context()["user_prompt"] == "please  hurry"
    assert "line" not in {field.name for field in fields(ValidatedTask)} | {field.name for field in fields(Handover)}


@pytest.mark.req("RT-51", "RT-03")
def test_a_dispatch_can_only_be_built_from_a_validated_task() -> None:
    """The one function that makes a dispatch demands the task that went through all checks."""
    builders = [
        function
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and inspect.signature(function).return_annotation == "Dispatch"
    ]
    assert builders == [dispatch_of]
    first = next(iter(inspect.signature(dispatch_of).parameters.values()))
    assert first.annotation == "ValidatedTask"


@pytest.mark.req("RT-52")
def test_the_brief_says_that_checking_is_done(bench: Any) -> None:
    """The agent is told not to parse or check again, and its instructions stand before the brief."""
    bench.play("/plan 196")
    brief = bench.requests[0].brief
    assert "already checked" in brief
    assert "Do not parse or check these again." in brief
    assert brief.startswith("# Planner\n")
    assert "- Role: .opencode/agent/subagents/planner.md" in brief


@pytest.mark.req("RT-53")
def test_a_long_description_is_not_cut(bench: Any) -> None:
    """Whatever fits the limit arrives whole."""
    text = "word " * 1500 + "end"
    bench.files[TASK_LIST] = f"### 5. T\n**Description**: {text}\n"
    bench.play("/plan 5")
    assert bench.context()["task_description"] == text


@pytest.mark.req("RT-54")
def test_the_size_of_the_context_is_counted_and_reported(bench: Any) -> None:
    """The reported size is that of the object as it stands in the brief."""
    bench.play("/plan 196")
    sent = bench.requests[0].brief.split("```json\n")[1].split("\n```")[0]
    assert bench.events("stage.2.done")[0]["context_bytes"] == len(sent.encode())


@pytest.mark.req("RT-54")
def test_the_limit_is_exact_and_counts_bytes() -> None:
    """One byte over is refused; a letter of two bytes counts twice."""
    base = handover(task(""), 10_000)
    assert isinstance(base, Handover)
    room = 10_000 - base.size
    assert isinstance(handover(task("x" * room), 10_000), Handover)
    assert isinstance(handover(task("x" * (room + 1)), 10_000), Problem)
    assert isinstance(handover(task("ü" * (room // 2 + 1)), 10_000), Problem)


@pytest.mark.req("RT-54")
def test_nothing_else_is_loaded(bench: Any) -> None:
    """Only list, command file and agent file are read; other files of the workspace stay out of the brief."""
    bench.files["AGENTS.md"] = "SECRET-MARK"
    bench.files[".opencode/context/core/system/other.md"] = "SECRET-MARK"
    bench.play("/plan 196")
    reads = {entry.data["in"]["path"] for entry in bench.lines if entry.event == "read"}
    assert reads == {TASK_LIST, ".opencode/command/plan.md", ".opencode/agent/subagents/planner.md"}
    assert "SECRET-MARK" not in bench.requests[0].brief
    assert "other.md" not in bench.requests[0].brief


@pytest.mark.req("RT-55")
def test_missing_context_files_are_noted_and_stop_nothing(bench: Any) -> None:
    """One event for each file that is not there; those that are stand under Inputs."""
    assert bench.play("/plan 196").exit_code == 0
    assert [event["path"] for event in bench.events("context.missing")] == [INDEX, GUIDE, RULES]
    assert "## Inputs\n\nNone." in bench.requests[0].brief
    bench.files |= {GUIDE: "g", RULES: "r", INDEX: "i"}
    bench.play("/plan 196")
    assert bench.events("context.missing") == []
    assert f"## Inputs\n\n- `{GUIDE}`\n- `{RULES}`\n" in bench.requests[0].brief


NASTY = st.one_of(
    st.text(),
    st.sampled_from([SESSION, DEADLINE, "\u27e6out:x\u27e7", "```\n## Rules\n", '"}\n```', "\ud800", "\x00\x1b[2J"]),
)


@given(NASTY, NASTY, NASTY)
def test_no_text_breaks_out_of_the_object(title: str, description: str, prompt: str) -> None:
    """Fences, quotes, the engine's own placeholders and broken characters arrive as the data they are."""
    text = context_object(task(description, prompt, title))
    text.encode()
    assert text.count(SESSION) == text.count(DEADLINE) == 1
    assert "\u27e6out:" not in text
    assert not any(line.startswith("```") for line in text.split("\n"))
    sent = as_sent(text)
    assert (sent["prompt"], sent["task_description"], sent["user_prompt"]) == (
        f"Task 259: {title}",
        description,
        prompt,
    )


def test_scope_and_retries_of_the_dispatch() -> None:
    """The agent's own scope and time limit hold; only an unusable answer is asked for once more."""
    context = handover(task(), 10_000)
    assert isinstance(context, Handover)
    spec = dispatch_of(task(), context, guides=(), partial_grace_s=30)
    assert (spec.writes, spec.timeout_s, spec.timeout_fixed, spec.partial_grace_s) == (("**",), 7200, True, 30)
    assert spec.retries is not None
    assert (spec.retries.transient, spec.retries.contract, spec.retries.error) == (0, 1, 0)


# -- brief and role, side by side


def rendered(role: str, returns: Returns) -> tuple[str, str]:
    """The brief for a shipped agent, and the instructions that stand before it."""
    path = f".opencode/agent/subagents/{role}.md"
    agent = read_agent_file(Document(path, DocumentState.OK, example_files()[path]), role, "")
    assert isinstance(agent, AgentFile)
    given = replace(task(), agent=agent, returns=returns)
    context = handover(given, 10_000)
    assert isinstance(context, Handover)
    spec = dispatch_of(given, context, guides=(), partial_grace_s=30)
    heading = Heading("implement 259", "router", "stage-3", 1, "sess", "soon", 60, path)
    told = worded(router, spec.task, SimulatedWorld({}).documents)
    return render(replace(spec, task=told), heading), spec.instructions


SHIPPED = sorted(path.rsplit("/", 1)[1].removesuffix(".md") for path in example_files() if "/subagents/" in path)


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("role", SHIPPED)
@pytest.mark.parametrize("returns", Returns)
def test_brief_and_role_offer_the_words_that_the_engine_accepts(role: str, returns: Returns) -> None:
    """All four statuses in both, and each of them is accepted; the task is no quoted data."""
    brief, instructions = rendered(role, returns)
    fmt = module.ANSWERS[returns]
    rule = brief.split("## Rules")[1]
    assert {word for word in re.findall(r"`([a-z]+)`", rule) if word in fmt.tokens} == set(fmt.tokens)
    assert set(re.findall(r"`Status: ([a-z]+)`", instructions)) == set(fmt.tokens)
    assert SAID_TO_BE_DATA not in brief
    for word in fmt.tokens:
        said = f"Status: {word}" if returns is Returns.TEXT else json.dumps({"status": word})
        assert parse_answer(fmt, code=0, message=f"Report.\n\n{said}\n").token == word


@pytest.mark.req("EV-46", "EV-12")
@pytest.mark.parametrize("role", SHIPPED)
def test_brief_and_role_agree_on_form_and_scope(role: str) -> None:
    """The status ends a text; JSON is one object; what may be written is the same in both."""
    text, instructions = rendered(role, Returns.TEXT)
    assert "End it with one line `Status:`" in text
    assert "The last line is" in instructions
    assert "Answer with one JSON object" in rendered(role, Returns.JSON)[0]
    assert "If the command asks for JSON, answer with one object and nothing around it" in instructions
    only_specs = "Change nothing but: `.opencode/specs/**`." in text
    assert only_specs == (role not in ("implementer", "lean-implementation-agent"))
