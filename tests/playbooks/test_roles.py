"""The roles that interlock ships are complete, and what they show as an example is what the engine accepts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pytest

from interlock.agents import Role, parse_role
from interlock.contracts import PLAIN, Outcome, SectionValues, parse_answer
from interlock.documents import Sections, load_yaml, split_frontmatter
from interlock.playbooks.feature.members import ANYBODY, CT, MEMBERS, R, V
from interlock.playbooks.ticket.briefs import OF_TASK

SHARED = (
    "## What you are given",
    "## How you work",
    "## What your answer contains",
    "## Out of bounds",
    "## Example of a good answer",
)
EXAMPLE = SHARED[-1]
WITH_OUTPUTS = ("## What you write", "## When it cannot be done")
"""Sections that the roles of feature and ticket have besides: their agents write to paths that the brief names."""

CRITICS, VERIFIERS, REVIEWERS = (set(MEMBERS.names(cluster)) for cluster in (CT, V, R))
MAY_ASK_FOR_REVISION = {row.name for row in MEMBERS.rows if not row.answers.unsaid}
FEATURE_ROLES = set(MEMBERS.agents)
TICKET_ROLES = {"Interpreter", "Initializer", "Planner", "Splitter", "task-executor", "Developer", "Reviewer"}


def shipped() -> dict[str, str]:
    """Every role file of every playbook, by `<playbook>/<role>`."""
    return {
        f"{playbook.name}/{file.name.removesuffix('.md')}": file.read_text(encoding="utf-8")
        for playbook in files("interlock.playbooks").iterdir()
        if playbook.joinpath("agents").is_dir()
        for file in playbook.joinpath("agents").iterdir()
        if file.name.endswith(".md")
    }


TEXTS = dict(sorted(shipped().items()))
every_role = pytest.mark.parametrize("name", TEXTS)
feature_role = pytest.mark.parametrize("name", sorted(FEATURE_ROLES))


def role(name: str) -> Role:
    return parse_role(TEXTS[name], f"shipped:{name}.md")


def page(name: str) -> Sections:
    return Sections(role(name).body, name)


def examples(name: str, language: str) -> list[str]:
    """The blocks of a language in the example, also those inside a quoted answer."""
    found = []
    for fence in page(name).fences(title=EXAMPLE):
        if fence.info == language:
            found.append(fence.content)
        found += [inner.content for inner in Sections(fence.content).fences(language)]
    return found


def example(name: str, language: str) -> str:
    (found,) = examples(name, language)
    return found


def test_both_playbooks_ship_exactly_the_agents_that_they_name() -> None:
    """No agent of feature or ticket is left to the user, and there is none that nobody calls."""
    assert {name.removeprefix("feature/") for name in TEXTS if name.startswith("feature/")} == FEATURE_ROLES
    assert {name.removeprefix("ticket/") for name in TEXTS if name.startswith("ticket/")} == TICKET_ROLES


@every_role
def test_a_role_is_called_like_its_file_and_says_what_it_is_for(name: str) -> None:
    """Name and a description of one line; nothing that only one vendor's client would understand."""
    found = role(name)
    assert found.name == name.partition("/")[2]
    assert found.description.endswith(".")
    assert "\n" not in found.description
    assert (found.model, found.tools, found.meta) == (None, (), {})


@every_role
def test_a_role_has_the_sections_that_all_roles_share(name: str) -> None:
    """One title, a purpose below it, and in this order what comes in, how, what goes out, limits, an example."""
    document = page(name)
    titles = [section.heading for section in document.sections]
    assert sum(section.level == 1 for section in document.sections) == 1
    assert document.own_text(titles[0]).strip()
    assert [title for title in titles if title in SHARED] == list(SHARED)
    assert all(document.body(title).strip() for title in SHARED)


@every_role
def test_a_role_is_finished_text(name: str) -> None:
    """No placeholder of a template, no path of somebody's machine."""
    assert not [mark for mark in ("{{", "}}", "/home/", "/Users/", "FIXME") if mark in TEXTS[name]]


@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith(("feature/", "ticket/"))])
def test_where_outputs_are_written_is_left_to_the_brief(name: str) -> None:
    """A role has no write scope of its own, says where paths come from, and what to do when it cannot go on."""
    document = page(name)
    assert role(name).writes is None
    assert all(document.body(title).strip() for title in WITH_OUTPUTS)
    assert "Outputs" in document.body("## What you write")


# -- feature: the private memory and the completion line


def severities(agent: str) -> tuple[str, ...]:
    return (MEMBERS.row(agent) or ANYBODY).words.all


def memory(agent: str) -> Sections:
    (text,) = [text for text in examples(f"feature/{agent}", "markdown") if text.startswith("# Memory: ")]
    return Sections(text, agent)


def said(agent: str) -> str:
    """The completion line of the example: in a quoted answer, or behind `The last line:`."""
    text = page(f"feature/{agent}").body(EXAMPLE)
    lines = [line.removeprefix("The last line: `").removesuffix("`") for line in text.splitlines()]
    (line,) = [line for line in lines if line.startswith(tuple(f"{token}: " for token in PLAIN.tokens))]
    return line


@feature_role
def test_the_example_memory_has_the_form_that_decisions_are_read_from(agent_memory: Sections, name: str) -> None:
    """Status and severity are single words of this agent's vocabulary; the index is a table of three columns."""
    rule = SectionValues({"## Status": tuple(PLAIN.tokens), "## Highest Severity": severities(name)})
    assert rule.problem(agent_memory.text) is None
    assert agent_memory.sections[0].title.startswith(f"Memory: {name}")
    assert agent_memory.items("## Key Findings")
    table = agent_memory.table("## Artifact Index")
    assert table is not None
    assert tuple(table.columns) == ("Artifact", "Key Sections", "Last Updated By")
    assert table.rows
    assert len(agent_memory.text.splitlines()) <= 60
    assert (agent_memory.find("## Medium Severity") is not None) == (name in CRITICS)
    assert (agent_memory.find("## Affected Tasks") is not None) == (name in VERIFIERS | REVIEWERS - {"r-knowledge"})


@pytest.fixture
def agent_memory(name: str) -> Sections:
    return memory(name)


@feature_role
def test_the_example_answer_ends_with_the_word_of_its_memory(agent_memory: Sections, name: str) -> None:
    """The engine understands the line, and it agrees with `## Status`."""
    answer = parse_answer(PLAIN, code=0, message=said(name))
    assert answer.token == agent_memory.own_text("## Status").strip()
    assert answer.detail


@feature_role
def test_a_role_offers_only_the_words_that_its_agent_may_use(name: str) -> None:
    """Only judges other than the critics, the gate and r-knowledge may ask for a revision."""
    offered = [item.text for item in page(f"feature/{name}").items("## What your answer contains")]
    words = {token for token in PLAIN.tokens if any(text.startswith(f"`{token}: ") for text in offered)}
    allowed = set(PLAIN.tokens) if name in MAY_ASK_FOR_REVISION else {"DONE", "ERROR"}
    assert words == allowed


@feature_role
def test_the_example_verdict_agrees_with_its_severity(agent_memory: Sections, name: str) -> None:
    """FAIL never goes with DONE, and reviewers ask for a revision exactly from Major on."""
    status = agent_memory.own_text("## Status").strip()
    severity = agent_memory.own_text("## Highest Severity").strip()
    if name in VERIFIERS:
        assert (severity == "PASS") == (status == "DONE")
    elif name in MAY_ASK_FOR_REVISION:
        assert (severity in ("Blocker", "Major")) == (status == "NEEDS_REVISION")
    else:
        assert status == "DONE"


@pytest.mark.parametrize("name", sorted(CRITICS | VERIFIERS | REVIEWERS - {"r-knowledge"}))
def test_the_example_finding_can_be_forwarded(name: str) -> None:
    """`### <severity>: <title>` with the files and tasks it concerns, as paths and ids alone."""
    texts = [text for text in examples(f"feature/{name}", "markdown") if "\nFiles: " in text]
    (text,) = texts
    (finding,) = [section for section in Sections(text).sections if section.level == 3]
    assert finding.title.partition(": ")[0] in severities(name)
    values = dict(line.split(": ", 1) for line in Sections(text).body(finding.heading).splitlines() if ": " in line)
    assert all("/" in path or path == "design.md" for path in values["Files"].split(", "))
    assert not [path for path in values["Files"].split(", ") if ":" in path or " " in path]
    assert (values["Tasks"] == "-") == (name in CRITICS)


def test_the_planner_shows_waves_and_a_task_file_that_fit() -> None:
    """Every listed task once, and frontmatter with the six fields."""
    plan, task, _ = examples("feature/planner", "markdown")
    document = Sections(plan)
    waves = [
        [item.text.partition(":")[0] for item in document.items(section.heading)]
        for section in document.sections
        if section.level == 3 and section.title.startswith("Wave ")
    ]
    assert waves == [["T01"], ["T02", "T03", "T04"]]
    data = split_frontmatter(task, "T03.md").data()
    assert set(data) == {"id", "title", "agent", "depends_on", "files", "acceptance"}
    assert data["id"] == "T03"
    assert data["depends_on"] == ["T01"]


def test_the_post_mortem_shows_a_run_log_with_every_column() -> None:
    """Nine values for a dispatch, five for a cluster, and steps that stay text."""
    log = plain("feature/post-mortem")
    (dispatch,), (cluster,) = log["dispatches"], log["clusters"]
    columns = "agent step pattern status retries failure iteration human timestamp"
    assert set(dispatch) == set(columns.split())
    assert set(cluster) == {"step", "cluster", "dispatched", "errors", "outcome"}
    assert dispatch["step"] == cluster["step"] == "1.1"


# -- ticket: the artifacts


def plain(name: str) -> Mapping[str, Any]:
    data = load_yaml(example(name, "yaml"), name)
    assert isinstance(data, dict)
    return data


def test_the_interpreter_shows_a_complete_prompt() -> None:
    """Eight fields, and each mandate is a literal part of the request."""
    prompt = plain("ticket/Interpreter")
    fields = "jira type slug tool_mandates original_request refined_prompt success_criteria created_at"
    assert set(prompt) == set(fields.split())
    assert prompt["type"] in ("fix", "feature", "chore")
    assert len(prompt["slug"].split("_")) == 3
    assert prompt["tool_mandates"]
    for mandate in prompt["tool_mandates"]:
        assert set(mandate) == {"text", "tool", "assigned_agent"}
        assert mandate["text"] in prompt["original_request"]


def test_the_initializer_shows_a_complete_cache_file() -> None:
    """Full hashes for all three documents."""
    cache = plain("ticket/Initializer")
    assert set(cache) == {"trust_status", "workspace_fingerprint", "refresh_required", "documents"}
    assert set(cache["documents"]) == {"ARCHITECTURE.md", "CODE_STYLE.md", "FINDINGS.md"}
    hashes = [cache["workspace_fingerprint"], *(entry["sha256"] for entry in cache["documents"].values())]
    assert all(len(value) == 64 and int(value, 16) for value in hashes)


@pytest.mark.parametrize("name", ["Planner", "Splitter"])
def test_the_example_graph_keeps_its_own_rules(name: str) -> None:
    """Groups, order and tasks name the same ids; what a task needs comes in an earlier group."""
    graph = plain(f"ticket/{name}")
    assert set(graph) == {"strategy", "validation_policy", "tasks", "parallel_groups", "execution_order"}
    needed = {"id", "description", "files_to_modify", "success_criteria", "parallel_group", "depends_on", "status"}
    assert all(needed <= set(task) for task in graph["tasks"])
    order = {entry["group"]: entry["tasks"] for entry in graph["execution_order"]}
    assert order == graph["parallel_groups"]
    assert [one for ids in order.values() for one in ids] == [task["id"] for task in graph["tasks"]]
    place = {one: number for number, ids in enumerate(order.values()) for one in ids}
    for task in graph["tasks"]:
        assert task["id"] in order[task["parallel_group"]]
        assert all(place[one] < place[task["id"]] for one in task["depends_on"])


@pytest.mark.parametrize(("name", "word"), [("task-executor", "SYNTAX_VALID"), ("Developer", "ACCEPTED")])
def test_the_example_result_of_a_task_is_understood(name: str, word: str) -> None:
    """The word counts as a success, and the other three fields come with it."""
    document = page(f"ticket/{name}")
    (message,) = [fence.content for fence in document.fences(title=EXAMPLE)]
    answer = parse_answer(OF_TASK, code=0, message=message)
    assert (answer.outcome, answer.token) == (Outcome.OK, word)
    assert set(answer.data or {}) == {"status", "files_changed", "first_code_change_at", "notes"}
    offered = document.body("## What your answer contains")
    assert all(f"`{token}`" in offered for token in OF_TASK.tokens)


def test_the_reviewer_shows_a_rejection_with_evidence() -> None:
    """The report's fields, and an issue that the next planner can start from."""
    report = plain("ticket/Reviewer")
    fields = {"status", "mode", "build", "tests", "files_verified", "checks", "notes", "reviewed_at", "issues"}
    assert set(report) == fields
    assert (report["status"], report["mode"]) == ("REJECTED", "prompt-review")
    (issue,) = report["issues"]
    assert set(issue) == {"severity", "task", "files", "problem", "evidence"}
    assert issue["severity"] in ("Blocker", "Major")
