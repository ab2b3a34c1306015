"""The ticket's documents: what they must contain, and edits that keep what a person wrote."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import YamlDocument, edited_yaml, load_yaml, render_yaml
from interlock.engine.journal import Line
from interlock.playbooks.ticket.analysis import DOCS, DocsState, DocsTrust, cache_rule
from interlock.playbooks.ticket.artifacts import (
    AUTO_ACCEPT_NOTES,
    PLAN_RULE,
    REVIEW_RULE,
    accepting,
    deferrals,
    graph_rule,
    plan_problem,
    prompt_rule,
)
from interlock.playbooks.ticket.documents import (
    branch_name,
    commit_message,
    first_progress,
    log_entry,
    read_progress,
    with_ignored,
)
from interlock.playbooks.ticket.graph import GraphLimits
from interlock.playbooks.ticket.request import TicketError, WorkKind, reading
from interlock.playbooks.ticket.settings import TicketSettings

NOW = "2026-01-04T12:00:00Z"
FOUND = {
    "jira": "ABC-12",
    "type": "feature",
    "slug": "add_login_page",
    "branch": "feature/ABC-12_add_login_page",
    "build_command": "make",
    "test_command": "make test",
    "max_parallel_tasks": 4,
}
UNTRUSTED = DocsState(dict.fromkeys(DOCS, False), DocsTrust.UNKNOWN, DOCS)
PROGRESS = render_yaml(first_progress(FOUND, UNTRUSTED, ["a"], options={"fast_path": True}, head="", now=NOW))

leaf = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False)
)
plain = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
mappings = st.dictionaries(st.text(min_size=1, max_size=6), plain, min_size=1, max_size=4)


@given(mappings, st.text(min_size=1, max_size=6), plain)
def test_edits_say_what_was_asked(data: dict[str, Any], key: str, value: Any) -> None:
    """Whether it is our text or one with a person's comment: the value is there, everything else is as it was."""
    wanted = json.dumps({**data, key: value})
    own = render_yaml(data)
    assert json.dumps(load_yaml(edited_yaml(own, "x", {(key,): value}), "x")) == wanted
    foreign = "# mine\n" + own
    new = edited_yaml(foreign, "x", {(key,): value})
    assert json.dumps(load_yaml(new, "x")) == wanted
    assert new.startswith("# mine\n")


@given(mappings)
def test_our_own_text_is_written_as_the_parser_reads_it(data: dict[str, Any]) -> None:
    """What is remembered of a written text is what reading it would give."""
    assert json.dumps(load_yaml(render_yaml(data), "x")) == json.dumps(data)


def test_a_persons_comments_and_keys_survive() -> None:
    """A comment, an unknown key and the order of the document stay."""
    text = PROGRESS.replace("slug: add_login_page\n", "slug: add_login_page  # short\nmine: {x: 1}\n")
    new = edited_yaml(
        text, "progress.yaml", {("metrics", "tasks_total"): 3, ("status",): "IN_PROGRESS", ("extra",): [1]}
    )
    assert "slug: add_login_page  # short\nmine: {x: 1}\n" in new
    data = load_yaml(new, "x")
    assert (data["metrics"]["tasks_total"], data["status"], data["extra"]) == (3, "IN_PROGRESS", [1])


@given(st.lists(st.sampled_from(["a", "c", "e"]), unique=True), plain)
def test_a_batch_of_edits_equals_single_ones(keys: list[str], value: Any) -> None:
    """Reading back once or after every edit makes no difference to what is said."""
    document = YamlDocument.parse("a: 1  # one\nb:\n  - x\n  - y\nd: {e: 1}\n", "x")
    changes: dict[tuple[str | int, ...], Any] = {(key,): value for key in keys}
    changes |= {("d", "f"): 2, ("b", 0): "z", ("b", 2): value}
    single = document
    for path, new in changes.items():
        single = single.set(path, new)
    together = document.set_all(changes)
    assert json.dumps(together.data, sort_keys=True) == json.dumps(single.data, sort_keys=True)
    assert "# one" in together.text


@pytest.mark.req("TK-61", "TK-62")
def test_the_first_progress_document() -> None:
    """Every field of the format with its initial value."""
    data = load_yaml(PROGRESS, "progress.yaml")
    assert data["branch"] == "feature/ABC-12_add_login_page"
    assert (data["git_gate_completed"], data["cycle_acceleration_mode"], data["iteration_number"]) == (
        False,
        "standard",
        0,
    )
    assert (data["current_phase"], data["current_step"], data["status"]) == ("INITIALIZED", "I2", "PENDING")
    assert data["metrics"] == {
        "tasks_total": 0,
        "tasks_completed": 0,
        "groups_total": 0,
        "groups_completed": 0,
        "percent_complete": 0,
        "elapsed_minutes_estimate": 0,
        "remaining_minutes_estimate": None,
        "eta_confidence": "low",
        "first_code_change_at": None,
        "lead_time_to_first_code_change_minutes": None,
        "latest_group_cycle_minutes_estimate": None,
        "latest_iteration_cycle_minutes_estimate": None,
    }
    entry = {
        "number": 0,
        "status": "PENDING",
        "started_at": NOW,
        "completed_at": None,
        "tasks_total": 0,
        "tasks_accepted": 0,
    }
    assert data["iterations"] == [entry]
    assert data["startup"]["docs_state"]["refresh_required"] is True
    assert data["last_checkpoint"] == {"timestamp": NOW, "git_head": "", "phase": "INITIALIZED", "step": "I2"}
    assert read_progress(PROGRESS, "p", "ABC-12") == data


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("current_phase: INITIALIZED", "current_phase: TESTING", 'current_phase "TESTING" unknown'),
        ("status: PENDING\ncreated", "status: DONE\ncreated", 'status "DONE" unknown'),
        ("current_step: I2", "current_step: O9", 'current_step "O9" unknown in phase INITIALIZED'),
        ("jira: ABC-12", "jira: ABC-1", "jira is ABC-1, expected ABC-12"),
        ("slug: add_login_page\n", "", "slug missing"),
        ("iteration_number: 0", "iteration_number: many", "iteration_number is text; expected integer"),
        ("iteration_number: 0", "iteration_number: -1", "iteration_number is no count"),
        ("git_gate_completed: false", "git_gate_completed:", "git_gate_completed is empty; expected true or false"),
    ],
)
def test_a_state_document_with_a_wrong_field_is_refused(old: str, new: str, what: str) -> None:
    """The field and what is wrong with it are said; nothing is guessed."""
    assert old in PROGRESS
    with pytest.raises(TicketError) as caught:
        read_progress(PROGRESS.replace(old, new), "prompts/ABC-12/progress.yaml", "ABC-12")
    assert caught.value.what == f"ERROR: progress.yaml: {what}"
    assert caught.value.exit_code == 2


def test_a_state_document_that_is_no_yaml_is_refused() -> None:
    """The line is named, and both ways out."""
    lines = PROGRESS.splitlines()
    broken = "\n".join([*lines[:11], "x: [", *lines[12:]])
    with pytest.raises(TicketError) as caught:
        read_progress(broken, "prompts/ABC-12/progress.yaml", "ABC-12")
    begin, end = "ERROR: progress.yaml is not valid YAML: line 1", "tmp/progress.bak.yaml or start over with --fresh."
    assert caught.value.what.startswith(begin)
    assert caught.value.what.endswith(end)


# -- prompt.yaml

REQUEST = "ABC-12 add a page. You MUST use `htmx`."


def prompt(**changes: Any) -> str:
    data = {**reading("ABC-12", REQUEST), "created_at": NOW, **changes}
    return render_yaml({name: value for name, value in data.items() if value != "(gone)"})


def prompt_problem(text: str) -> str | None:
    return prompt_rule("ABC-12", REQUEST).problem(text)


@pytest.mark.req("TK-54")
def test_a_prompt_has_its_eight_fields() -> None:
    """All are there, mandates with who they are for."""
    data = load_yaml(prompt(), "prompt.yaml")
    assert list(data) == [
        "jira", "type", "slug", "tool_mandates", "original_request", "refined_prompt", "success_criteria", "created_at",
    ]  # fmt: skip
    assert data["tool_mandates"] == [{"text": "MUST use `htmx`", "tool": "htmx", "assigned_agent": "developer"}]
    assert prompt_problem(prompt()) is None


@pytest.mark.req("TK-57")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        *(({field: "(gone)"}, f"field {field} missing") for field in ("slug", "success_criteria", "created_at")),
        ({"type": "(gone)"}, "type missing; expected fix, feature or chore"),
        ({"jira": "XYZ-1"}, "jira is XYZ-1, expected ABC-12"),
        ({"type": "hack"}, 'type is "hack"; expected fix, feature or chore'),
        ({"slug": "two_words"}, 'slug "two_words"; expected three words in snake_case'),
        ({"success_criteria": []}, "success_criteria is no list with at least one item"),
        ({"original_request": "other"}, "original_request is not the request as it was given"),
        (
            {"tool_mandates": [{"text": "must use htmx", "assigned_agent": "developer"}]},
            "tool_mandates: 'must use htmx' is not a part of the request",
        ),
        (
            {"tool_mandates": [{"text": "MUST use `htmx`", "assigned_agent": "me"}]},
            "tool_mandates: assigned_agent 'me'; expected planner or developer",
        ),
    ],
)
def test_a_prompt_that_lacks_something_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Field by field, in the words that the Interpreter is told; mandates must be the user's own words."""
    assert prompt_problem(prompt(**changes)) == problem


def test_questions_may_stand_instead() -> None:
    """An Interpreter that has to ask need not fill in the rest."""
    assert prompt_problem("questions: [Which page?]\n") is None


# -- plan.md


@pytest.mark.req("TK-83")
@pytest.mark.parametrize(
    "phrase",
    [
        "confirm later", "research later", "need to research", "further research required", "figure out",
        "where available", "if different", "determine later", "TBD", "TODO", "todo", "Figure  Out",
    ],
)  # fmt: skip
def test_deferred_research_is_found(phrase: str) -> None:
    """Each phrase, in any case, with its line."""
    assert deferrals(f"# Plan\n\nWe {phrase}, then.\n") == [(3, f"We {phrase}, then.")]


@pytest.mark.parametrize(
    "text",
    [
        "`TODO` marks",
        "```\nTBD\n```",
        "the file TODO.md",
        "configure output",
        "TODOs",
        "~~~py\n# TODO\n~~~",
        "```\n```py\nTBD\n```",
        "``a ` TBD``",
    ],
)
def test_harmless_text_is_not_taken_for_deferral(text: str) -> None:
    """Code, quoted names and longer words do not count."""
    assert deferrals(text) == []


def test_a_plan_has_one_title() -> None:
    """None or several are refused; one in a fence is none."""
    assert plan_problem("# Plan\n\ntext") is None
    assert plan_problem("text") == "0 titles (lines starting with '# '); expected one"
    assert plan_problem("# A\n# B\n") == "2 titles (lines starting with '# '); expected one"
    assert plan_problem("# A\n```\n# B\n```\n") is None


# -- review_report.yaml


@pytest.mark.req("TK-150")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("build: PASSED\n", "status missing; expected ACCEPTED or REJECTED"),
        ("status: DONE\nbuild: PASSED\ntests: FAILED\n", 'status is "DONE"; expected ACCEPTED or REJECTED'),
        ("status: ACCEPTED\n", "build missing; expected PASSED or FAILED"),
        (
            "status: REJECTED\nbuild: PASSED\ntests: PASSED\n",
            "a rejection needs issues: a list with at least one mapping",
        ),
        ("- x\n", "not a YAML mapping"),
    ],
)
def test_a_review_that_says_too_little_is_refused(text: str, problem: str) -> None:
    """Only ACCEPTED and REJECTED count, a rejection with its issues."""
    assert REVIEW_RULE.problem(text) == problem


@pytest.mark.req("TK-114")
def test_the_report_of_an_auto_accept() -> None:
    """Its fields and words."""
    assert accepting("auto-accept-trivial", NOW, notes=AUTO_ACCEPT_NOTES) == {
        "status": "ACCEPTED",
        "mode": "auto-accept-trivial",
        "build": "PASSED",
        "tests": "PASSED",
        "files_verified": True,
        "notes": "Trivial-graph auto-accepted: 1 task, build green, tests green.",
        "reviewed_at": NOW,
    }


def test_every_rule_accepts_its_own_sample() -> None:
    """What the scripted player writes passes."""
    cache = cache_rule("a" * 64, {})
    for rule in (graph_rule(GraphLimits()), PLAN_RULE, REVIEW_RULE, cache, prompt_rule("ABC-12", "ABC-12 do it")):
        assert rule.problem(rule.sample()) is None
    assert cache.problem(cache.sample().replace("a" * 64, "...")) == f"workspace_fingerprint is not {'a' * 64}"


# -- .gitignore, log, commits


@pytest.mark.req("TK-63", "TK-64")
@given(st.lists(st.sampled_from(["*.pyc", "prompts/", "docs/docs_cache_state.yaml", "", "# x"])).map("\n".join))
def test_both_lines_stand_in_gitignore_once(text: str) -> None:
    """Added where they lack, never twice, nothing else touched; an absent file gets exactly these two."""
    new = with_ignored(text)
    assert new.startswith(text)
    assert with_ignored(new) == new
    for line in ("prompts/", "docs/docs_cache_state.yaml"):
        assert new.splitlines().count(line) == max(1, text.splitlines().count(line))
    assert with_ignored("") == "prompts/\ndocs/docs_cache_state.yaml\n"


def test_a_log_line_has_its_fields() -> None:
    """Events of the ticket and dispatches are in the log; bookkeeping is not."""
    render = log_entry("ABC-12")
    data = {"in": {}, "out": None, "iteration": 2, "step": "O5", "group": "A"}
    line = Line(7, "t", "r", "orchestrator.group.start", "k", None, None, None, "d", data, "", "")
    assert render(line) == {
        "ts": "t",
        "event": "orchestrator.group.start",
        "jira": "ABC-12",
        "iteration": 2,
        "step": "O5",
        "data": {"group": "A"},
    }
    assert render(line._replace(event="write")) is None


@pytest.mark.req("TK-156")
@given(st.text(max_size=200), st.sampled_from(WorkKind))
def test_commit_messages_are_conventional(summary: str, work: WorkKind) -> None:
    """Type, ticket, a summary of at most 72 characters, and the tasks."""
    message = commit_message(TicketSettings().commit_message, "ABC-12", work, "a_b_c", summary, ["T1", "T2"])
    subject, _, body = message.partition("\n")
    found = re.fullmatch(r"(feat|fix|chore)\(ABC-12\): (.*)", subject)
    assert found
    assert len(found[2]) <= 72
    assert "- T1\n- T2\n" in body


@pytest.mark.req("EV-43")
def test_messages_and_branches_have_the_form_that_the_settings_want() -> None:
    """Whatever a hook asks for; braces in what is filled in stay as they are."""
    template = "[{ticket}] {summary} ({type}, {slug})"
    message = commit_message(template, "ABC-12", WorkKind.FEATURE, "a_b_c", "Add {x}.", ["T1"])
    assert message == "[ABC-12] Add {x} (feature, a_b_c)\n\nTasks:\n- T1\n"
    whole = commit_message("{summary}\n\nTicket: {ticket}\n", "ABC-12", WorkKind.FIX, "a_b_c", "Mend it", ["T1"])
    assert whole == "Mend it\n\nTicket: ABC-12\n"
    docs = commit_message(TicketSettings().commit_message, "ABC-12", None, "a_b_c", "refresh documentation")
    assert docs == "docs(ABC-12): refresh documentation\n"
    assert branch_name("{ticket}-{kind}", "ABC-12", WorkKind.FEATURE, "a_b_c") == "ABC-12-feat"
    with pytest.raises(ValueError, match="can stand in braces"):
        TicketSettings(branch="{user}/{ticket}")
    with pytest.raises(ValueError, match="can stand in braces"):
        TicketSettings(commit_message="{summary")
