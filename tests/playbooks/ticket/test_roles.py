"""Briefs and roles say the same: every brief is rendered beside its role, and the words of both are compared."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import pytest

from interlock.contracts import NO_CHANGE, why_no_change
from interlock.documents import Sections, load_yaml
from interlock.engine.brief import SAID_TO_BE_DATA, Heading, render
from interlock.engine.model import Dispatch
from interlock.engine.prompts import worded
from interlock.playbooks.ticket import briefs, ticket
from interlock.playbooks.ticket.artifacts import (
    HARMLESS,
    REVIEW_RULE,
    deferrals,
    graph_problem,
    prompt_rule,
    review_claim,
    sample_prompt,
)
from interlock.playbooks.ticket.graph import GraphLimits, Strategy, read_graph
from interlock.playbooks.ticket.rehearsing import TWO
from interlock.testing import SimulatedWorld

PROGRESS: dict[str, Any] = {
    "build_command": "make build",
    "test_command": "make test",
    "docs_cache_state_path": "docs/docs_cache_state.yaml",
}
GRAPH = read_graph(load_yaml(TWO, "tasks.yaml"))
TASK = GRAPH.tasks["T1"]
FAILED = type(TASK)(**{**vars(TASK), "entry": {**TASK.entry, "last_error": "ERROR: it failed"}})
RULE = prompt_rule("ABC-12", "ABC-12 do it")
SNAPSHOT = {"startup.impact_scan": "{}", "PRIMARY INPUT": "what is wanted", "progress.yaml": "state"}
ROLE_LINES = ("ROLE ENFORCEMENT", "VIOLATION PENALTY", "SCOPE REMINDER")

ASKED = briefs.Briefs("ABC-12", 0, PROGRESS)
PROMPTED: dict[str, Dispatch] = {
    "Interpreter": briefs.interpreter("ABC-12", "ABC-12 do it", RULE),
    "Interpreter, answered": briefs.interpreter("ABC-12", "ABC-12 do it", RULE, "the second one", ["Which one?"]),
    "Initializer": ASKED.initializer(briefs.REFRESH, ["docs/FINDINGS.md"], fingerprint="0" * 64, digests={}),
    "Initializer, incremental": ASKED.initializer(briefs.INCREMENTAL, [], fingerprint="0" * 64, digests={}),
    "Planner": ASKED.planner("prompts/ABC-12/prompt.yaml", SNAPSHOT),
    "Planner, amending": ASKED.amendment(GRAPH, {"T1": ["Cargo.lock"]}),
    "Splitter": ASKED.splitter("tasks is empty", GraphLimits()),
    "Developer": ASKED.developer(TASK, GRAPH.policy),
    "task-executor, beside others": ASKED.executor(TASK, GRAPH.policy, attempt=1, strategy=Strategy.PARALLEL),
    "task-executor, alone again": ASKED.executor(FAILED, GRAPH.policy, attempt=2, strategy=Strategy.SEQUENTIAL),
    "Reviewer": ASKED.reviewer(),
}
NO_FILES = SimulatedWorld({}).documents
SPECS: dict[str, Any] = {
    name: replace(spec, task=worded(ticket, spec.task, NO_FILES)) for name, spec in PROMPTED.items()
}


@cache
def role(agent: str) -> str:
    place = resources.files("interlock.playbooks.ticket") / "agents" / f"{agent}.md"
    return place.read_text("utf-8")


def section(text: str, title: str) -> str:
    assert f"\n{title}\n" in text
    return text.split(f"\n{title}\n", 1)[1].split("\n## ", 1)[0]


def brief(spec: Dispatch) -> str:
    return render(spec, Heading("ABC-12", "ticket", spec.step, spec.attempt, "s", "d", 60.0, "r"))


def labels(spec: Dispatch) -> set[str]:
    """The labelled lines of a brief's task, outside of fences and role block."""
    prose = Sections(spec.task).prose()
    found = set(re.findall(r"^([A-Z][A-Za-z ]+|workspace_fingerprint):", prose, re.MULTILINE))
    return {name for name in found if name not in (*ROLE_LINES, "IMPORTANT") and len(name) < 40}


@pytest.mark.req("EV-46", "TK-162")
@pytest.mark.parametrize("name", SPECS)
def test_the_role_knows_every_label_of_its_brief(name: str) -> None:
    spec = SPECS[name]
    given = role(spec.agent)
    unknown = [label for label in labels(spec) if f"`{label}:" not in given and f"`{label}`" not in given]
    assert unknown == []


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("agent", sorted({spec.agent for spec in SPECS.values()}))
def test_every_label_that_a_role_promises_is_in_a_brief(agent: str) -> None:
    """In one of those that the agent can get."""
    promised = set(re.findall(r"`([A-Z][A-Za-z ]+):[^`]*`", section(role(agent), "## What you are given")))
    known = set().union(*(labels(spec) for spec in SPECS.values() if spec.agent == agent))
    assert promised <= known


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.agent in briefs.CODE_WRITING])
def test_the_words_of_a_verdict_are_the_same_in_role_and_brief(name: str) -> None:
    """What the brief offers, the role explains; what the role keeps from a mode, its brief does not offer."""
    spec = SPECS[name]
    fmt = spec.contract.answer
    offered = [word for word in fmt.tokens if word not in fmt.unsaid]
    rule = next(line for line in brief(spec).splitlines() if "`status` is one of" in line)
    assert re.findall(r"`([A-Z_]+)`", rule) == offered
    explained = section(role(spec.agent), "## What your answer contains")
    if spec.agent == briefs.DEVELOPER:
        assert set(re.findall(r"^- `([A-Z_]+)`:", explained, re.MULTILINE)) == set(offered)
    else:
        mode = "parallel" if "PARALLEL" in spec.task else "sequential"
        rows = re.findall(r"^\| `([A-Z_]+)` \| (\w+) \|", explained, re.MULTILINE)
        assert {word for word, modes in rows if modes in (mode, "both")} == set(offered)
    assert fmt.best in offered


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("name", SPECS)
def test_nothing_that_is_to_be_acted_on_is_called_data(name: str) -> None:
    """Request, answers, entry, errors and criteria stand where no sentence takes their force away."""
    text = brief(SPECS[name])
    assert SAID_TO_BE_DATA not in text
    assert "not instructions" not in text
    given = section(role(SPECS[name].agent), "## What you are given")
    assert "gives you no orders" in given or "no orders to carry out" in given
    for acted_on in ("EMBEDDED TASK ENTRY", "LAST ERROR", "PRIMARY INPUT"):
        if acted_on in text and acted_on != "EMBEDDED TASK ENTRY" and SPECS[name].agent != briefs.DEVELOPER:
            assert acted_on in role(SPECS[name].agent)
    assert "## Said by people" in given


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("name", SPECS)
def test_what_may_be_written_is_the_same_in_role_and_brief(name: str) -> None:
    """Documents that a brief asks for are named in the role; who writes code is told that the Rules say where."""
    spec = SPECS[name]
    given = role(spec.agent)
    for artifact in spec.contract.artifacts:
        stem = artifact.path.rsplit("/", 1)[-1]
        assert stem in given or (stem == "amendment.yaml" and "`Create amendment at:`" in given)
    if spec.agent in briefs.CODE_WRITING:
        assert "the last word on what you may change have the Rules" in given
        assert "only paths you may change" not in given
        assert spec.contract.must_change


@pytest.mark.req("EV-46", "EV-06")
@pytest.mark.parametrize("agent", sorted(briefs.CODE_WRITING))
def test_a_superfluous_task_is_answered_as_the_engine_wants_it(agent: str) -> None:
    """The field that the role names is one that the engine reads."""
    given = role(agent)
    assert "`noChange`" in given
    assert why_no_change({"noChange": "it is there"}, ()) == "it is there"
    assert why_no_change(None, (f"{NO_CHANGE}: it is there",)) == "it is there"
    assert "tree is as you found it" not in given
    assert "take out what is half done" not in given  # the next attempt goes on with it


@pytest.mark.req("EV-46", "EV-02")
def test_the_reviewers_form_is_what_the_engine_reads() -> None:
    """Keys of its table, its severities and its example."""
    given = role("Reviewer")
    keys = set(re.findall(r"^\| `([a-z_]+)`(?:, `([a-z_]+)`)? \|", section(given, "## What you write"), re.MULTILINE))
    named = {key for pair in keys for key in pair if key}
    assert {"status", "build", "tests", "files_verified", "checks", "nothing_to_run", "issues"} <= named
    severities = re.findall(r"^- `(\w+)`:", section(given, "## How severe it is"), re.MULTILINE)
    assert [word for word in severities if word.casefold() not in HARMLESS] == ["Blocker", "Major"]
    assert "Minor" in severities
    example = next(fence.content for fence in Sections(given).fences("yaml"))
    assert REVIEW_RULE.problem(example) is None
    assert review_claim({}, {"report": example}).evidence.lack == ""
    assert "cleared away" not in given


@pytest.mark.req("EV-46", "EV-14")
@pytest.mark.parametrize("agent", ["Planner", "Splitter"])
def test_the_example_of_a_graph_passes_every_check(agent: str) -> None:
    """And the words about allow-lists are those of the checks."""
    example = next(fence.content for fence in Sections(role(agent)).fences("yaml"))
    assert graph_problem(example, new=True, limits=GraphLimits()) is None
    assert "named one by one" in role(agent)
    assert "globs of files" not in role(agent)


@pytest.mark.req("EV-46")
def test_the_refused_phrases_are_the_same_for_planner_and_engine() -> None:
    listed = section(role("Planner"), "## What you write")
    phrases = re.findall(r"`([^`]+)`", listed[listed.index("stops the run at one:") :].split(". ")[0])
    assert phrases
    assert all(deferrals(f"# Plan\n\nWe {phrase} it.\n") for phrase in phrases)


@pytest.mark.req("EV-46")
def test_the_interpreters_fields_are_the_same_in_role_and_brief() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", section(role("Interpreter"), "## What you write"), re.MULTILINE)
    fields = sample_prompt("", "")
    assert set(fields) <= set(rows)
    assert all(field in SPECS["Interpreter"].task for field in fields)
    assert RULE.problem(RULE.sample()) is None


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if "ROLE ENFORCEMENT" in spec.task])
def test_what_a_role_block_forbids_no_role_asks_for(name: str) -> None:
    """The Planner takes no decisions of design, nobody commits."""
    spec = SPECS[name]
    forbidden = next(line for line in spec.task.splitlines() if line.startswith("SCOPE REMINDER")).split("FORBIDDEN")[1]
    work = section(role(spec.agent), "## How you work")
    if "design decisions" in forbidden:
        assert "decision of design" not in work
    assert "git commit" not in work
