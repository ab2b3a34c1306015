"""What code reads in a ticket's request, in a tree, and in a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from interlock.documents.changing import dumped
from interlock.engine.kept import parsed
from interlock.errors import BadInput
from interlock.playbooks.ticket import analysis
from interlock.playbooks.ticket.documents import Prompt, deferrals, filled, has_title, ignoring
from interlock.playbooks.ticket.graph import DOCUMENTATION, Graph, batches, blamed, faults, figures, is_trivial
from interlock.playbooks.ticket.request import (
    assigned_agent,
    find_ticket,
    needs_runtime,
    reading,
    slug,
    stated_criteria,
    tool_mandates,
    unclarity,
    work_type,
)
from interlock.workspace.scope import within
from interlock.workspace.values import Change
from tests.playbooks.tickets import graph, task

DEVTOOLS = "use chrome-devtools to inspect the page and add it"
NO_ID = "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING."


@pytest.mark.req("TK-10")
@pytest.mark.parametrize(
    ("request_", "given", "found"),
    [
        ("ABC-12 fix it", "", "ABC-12"),
        ("fix it (ABC-12), as ABC-12 says", "", "ABC-12"),
        ("store it as UTF-8 with SHA-256 and ISO-8601 for GPT-4, ABC-12", "", "ABC-12"),
        ("fix it", "ABC-12", "ABC-12"),
        ("ABC-1 and XYZ-2", "ABC-1", "ABC-1"),
        ("ABC-1 and XYZ-2", "", "ERROR: Several JIRA IDs found: ABC-1, XYZ-2. Use --jira."),
        ("fix the UTF-8 reader", "", NO_ID),
        ("fix abc-12", "", NO_ID),
        ("  ", "", NO_ID),
        ("ABC-12 fix it", "abc", NO_ID),
    ],
)
def test_a_ticket_is_found_in_a_request(request_: str, given: str, found: str) -> None:
    if not found.startswith("ERROR"):
        assert find_ticket(request_, given) == found
        return
    with pytest.raises(BadInput) as error:
        find_ticket(request_, given)
    assert error.value.what == found


@pytest.mark.req("TK-47", "TK-48")
@pytest.mark.parametrize(
    ("request_", "work", "unclear"),
    [
        ("ABC-12 fix the login page", "fix", ""),
        ("a bug in the login page of ABC-12", "fix", ""),
        ("ABC-12 two defects in the login page", "fix", ""),
        ("ABC-12 adding a login page", "feature", ""),
        ("ABC-12 Implement and fix the page now", "feature", ""),
        ("ABC-12 created pages need titles", "feature", ""),
        ("ABC-12 improve the page title", "chore", ""),
        ("ABC-12 cleanup of old pages", "chore", ""),
        ("ABC-12 the prefix of pages", "", "no work-type keyword"),
        ("ABC-12 look at the page", "", "no work-type keyword"),
        ("ABC-12 fix the page somewhere", "fix", "a vague word"),
        ("ABC-12 fix something in the page", "fix", "a vague word"),
        ("ABC-12 maybe fix the login page", "fix", "a vague word"),
        ("ABC-12 fix the page, probably", "fix", "a vague word"),
        ("ABC-12 fix it", "fix", "no success criteria"),
        ("ABC-12 fix it: it should add", "fix", ""),
    ],
)
def test_a_request_is_clear_or_not(request_: str, work: str, unclear: str) -> None:
    assert (work_type(request_), unclarity(request_)) == (work, unclear)


def test_a_clear_request_says_prompt_yaml() -> None:
    """Slug, criteria, and the request word for word (4.1)."""
    text = "ABC-12 add a login page. Users should see it.\n- it has a title\nWhen one logs in, then it closes."
    found = parsed(Prompt, dumped(reading("ABC-12", text, "2026-01-01T00:00:00Z")), "prompt.yaml")
    assert (found.type, found.slug, found.original_request) == ("feature", "add_login_page", text)
    said = ["Users should see it.", "When one logs in, then it closes.", "it has a title"]
    assert found.success_criteria == [*said, "build passes", "tests pass"]
    assert stated_criteria("ABC-12 fix the login page. Soon.") == ["fix the login page."]
    assert slug("ABC-12 fix it", "fix") == "fix_fix_task"
    assert slug("ABC-12 Ünï", "chore").count("_") == 2


@pytest.mark.req("TK-52", "TK-53")
@pytest.mark.parametrize(
    ("request_", "mandates"),
    [
        ("ABC-1 add a page, MUST use `vite`.", [("MUST use `vite`", "vite", "developer")]),
        ("ABC-1 add a page with pytest tests", [("with pytest tests", "pytest", "developer")]),
        ("ABC-1 add a page with care, use it", []),
        ("ABC-1 add a page using Django", [("using Django", "Django", "developer")]),
        ("ABC-1 leverage caching. Add it", [("leverage caching", "caching", "developer")]),
        ("ABC-1 integrate with the gateway; add it", [("integrate with the gateway", "gateway", "developer")]),
        (f"ABC-1 {DEVTOOLS}", [(DEVTOOLS, "chrome-devtools", "planner")]),
        ("ABC-1 investigate the page with Playwright", [("with Playwright", "Playwright", "planner")]),
        ("ABC-1 with UTF-8 add a page", []),
    ],
)
def test_tools_that_are_demanded_stand_word_for_word(request_: str, mandates: list[tuple[str, str, str]]) -> None:
    found = tool_mandates(request_)
    assert [(one["text"], one["tool"], one["assigned_agent"]) for one in found] == mandates
    assert all(one["text"] in request_ for one in found)


@pytest.mark.req("TK-53", "TK-97")
def test_who_a_mandate_is_for_and_whether_it_is_seen_running() -> None:
    assert assigned_agent("use `x` to see the page") == "planner"
    assert assigned_agent("use `x` to build and analyse it") == "developer"
    assert assigned_agent("use `x`") == "developer"
    assert assigned_agent("with Chrome", "Fix: see the page") == "planner"
    assert [needs_runtime(one) for one in ("verify in the browser", "use pydantic")] == [True, False]


# --- what is found in a tree


class Look:
    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def paths(self) -> Sequence[str]:
        return sorted(self.files)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


CODE = {"src/login.py": "def login(): ...", "src/other.py": "import login", "README.md": "x", "Makefile": "all:"}
PAGES = {path: f"# {path}\n" for path in analysis.DOCS}


def _cache(but: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, str]:
    entries = {path[5:]: {"sha256": _sha(text), "state": "fresh"} for path, text in PAGES.items()}
    entries |= {name: {**entries[name], **one} for name, one in (but or {}).items()}
    known = {"trust_status": "trusted", "workspace_fingerprint": analysis.fingerprint(Look({**CODE, **PAGES}))}
    return {"docs/docs_cache_state.yaml": dumped({**known, "refresh_required": False, "documents": entries, **fields})}


@pytest.mark.req("TK-40", "TK-42")
@pytest.mark.parametrize(
    ("files", "trust", "renew"),
    [
        ({**PAGES, **_cache()}, "trusted", []),
        ({**PAGES, **_cache(), "prompts/ABC-1/prompt.yaml": "x"}, "trusted", []),
        (PAGES, "unknown", list(PAGES)),
        ({}, "unknown", list(PAGES)),
        ({**PAGES, "docs/docs_cache_state.yaml": "{: broken"}, "unknown", list(PAGES)),
        ({**PAGES, **_cache(trust_status="stale")}, "stale", list(PAGES)),
        ({**PAGES, **_cache(refresh_required=True)}, "stale", list(PAGES)),
        ({**PAGES, **_cache(refresh_required="false")}, "stale", list(PAGES)),
        ({**PAGES, **_cache(workspace_fingerprint="<placeholder>")}, "unknown", list(PAGES)),
        ({**PAGES, **_cache({"FINDINGS.md": {"sha256": "TBD"}})}, "unknown", ["docs/FINDINGS.md"]),
        ({**PAGES, **_cache({"FINDINGS.md": {"state": "invalid"}})}, "stale", ["docs/FINDINGS.md"]),
        ({**PAGES, **_cache(), "docs/CODE_STYLE.md": "changed"}, "stale", ["docs/CODE_STYLE.md"]),
        ({**PAGES, **_cache(), "src/new.py": ""}, "stale", list(PAGES)),
        ({**PAGES, **_cache(), "Makefile": "all: other"}, "stale", list(PAGES)),
    ],
)
def test_documentation_is_trusted_by_its_evidence_alone(files: dict[str, str], trust: str, renew: list[str]) -> None:
    found = analysis.docs(Look({**CODE, **files}))
    assert (found["trust"], found["renew"]) == (trust, renew)
    assert found["state"]["docs_trusted_for_planning"] is (trust == "trusted")
    assert found["state"]["refresh_required"] is (trust != "trusted")
    assert found["state"]["findings_exists"] is ("docs/FINDINGS.md" in files)


@pytest.mark.req("TK-34")
def test_likely_files_are_those_that_words_and_paths_name() -> None:
    found = analysis.impact(Look({**CODE, "prompts/ABC-1/prompt.yaml": "login"}), "ABC-1 fix the login")
    assert found == {"affected_areas": ["src"], "likely_files": ["src/login.py", "src/other.py"]}
    many = {f"src/{n:02}/login.py": "" for n in range(30)}
    assert len(analysis.impact(Look(many), "login")["likely_files"]) == 20
    assert analysis.impact(Look(CODE), "")["likely_files"] == []


@pytest.mark.req("TK-36")
@pytest.mark.parametrize(("cores", "tasks"), [(0, 2), (1, 1), (4, 4), (64, 8)])
def test_as_many_tasks_as_cores(cores: int, tasks: int) -> None:
    assert analysis.parallel_tasks(cores) == tasks


@pytest.mark.req("TK-20")
def test_an_older_models_artifacts_are_found() -> None:
    legacy = ["context_compact.yaml", "logs/task_1_summary.yaml", "startup_context.yaml"]
    legacy += ["summaries/task_T1_summary.yaml", "task_packets/a/b.md", "validation_plan.yaml"]
    others = ["iteration_0/plan.md", "iteration_0/tasks.yaml", "log.jsonl", "logs/build.txt", "progress.yaml"]
    found = analysis.artifacts(Look({f"p/{one}": "" for one in (*legacy, *others)}), "p/")
    assert found["legacy"] == [f"p/{one}" for one in legacy]
    assert found["tasks"] == ["p/iteration_0/tasks.yaml"]


@pytest.mark.req("TK-102", "TK-158")
def test_what_is_documentation_and_what_it_describes() -> None:
    written = {"README.md": True, "docs/a/b.rst": True, "notes.txt": True, "src/a.md": False, "docs/a.py": False}
    written |= {"requirements.txt": False, "CMakeLists.txt": False, "docs/CMakeLists.txt": False}
    assert {path: within(path, DOCUMENTATION) for path in written} == written
    relevant = {("added", "src/a.py"): True, ("changed", "src/a.py"): False, ("deleted", "src/a.py"): True}
    relevant |= {("added", "tests/a.py"): False, ("added", "src/a_test.py"): False, ("changed", "pyproject.toml"): True}
    relevant |= {("changed", ".github/workflows/ci.yml"): True, ("added", "docs/FINDINGS.md"): False}
    relevant |= {("added", "prompts/ABC-1/prompt.yaml"): False, ("added", ".gitignore"): False}
    found = {one: analysis.architecture_relevant([Change(path=one[1], kind=one[0])]) for one in relevant}
    assert found == relevant


# --- plans and graphs


@pytest.mark.req("TK-83")
@pytest.mark.parametrize(
    ("line", "deferred"),
    [
        *[(f"We {words} it.", True) for words in ("confirm later", "RESEARCH LATER", "need to research", "figure out")],
        *[(f"x {words} y", True) for words in ("further research required", "where available", "if different")],
        *[(f"- {words}: x", True) for words in ("determine later", "tbd", "TODO")],
        ("see TODO.md and `TODO` there", False),
        ("TODOs and tbdx are words of their own", False),
        ("it is available where needed", False),
    ],
)
def test_a_plan_that_puts_research_off(line: str, deferred: bool) -> None:
    assert deferrals(f"# Plan\n\n{line}\n") == ([line] if deferred else [])
    assert deferrals(f"# Plan\n\n```\n{line}\n```\n") == []
    assert (has_title("# Plan\n"), has_title("## Plan\n"), has_title("```\n# Plan\n```\n")) == (True, False, False)


T1, T2, T3 = task("T1"), task("T2"), task("T3", "B", depends_on=["T1"])


def _graph(*tasks: Any, **more: Any) -> str:
    return dumped(graph(*tasks, **more))


def _order(*groups: tuple[str, list[str]], strategy: str = "parallel") -> list[dict[str, Any]]:
    return [{"group": letter, "strategy": strategy, "tasks": tasks} for letter, tasks in groups]


INVALID: dict[str, tuple[str, str]] = {
    "no tasks": (_graph(T1, tasks=...), "tasks"),
    "no policy": (_graph(T1, validation_policy=...), "validation_policy"),
    "empty": ("tasks: []\n", "tasks"),
    "no YAML": ("a: [", "tasks.yaml"),
    "groups are a list": (_graph(T1, parallel_groups=[["T1"]]), "parallel_groups"),
    "no criteria": (_graph(task("T2", success_criteria=...)), "task T2: success_criteria is missing"),
    "a cycle": (
        _graph(task("T1", depends_on=["T2"]), task("T2", depends_on=["T1"])),
        "depends_on cycle: T1 -> T2 -> T1",
    ),
    "unknown dependency": (_graph(task("T1", depends_on=["T9"])), "depends_on T9 is no task"),
    "too early": (_graph(T1, task("T2", depends_on=["T1"])), "T1, which is not done before it"),
    "unknown group": (
        _graph(T1, execution_order=_order(("A", ["T1"]), ("C", []))),
        'execution_order[1].group "C" not in parallel_groups',
    ),
    "twice in the order": (_graph(T1, execution_order=_order(("A", ["T1"]), ("A", ["T1"]))), "expected once"),
    "two of a name": (_graph(T1, T1), "T1 is 2 times a task"),
    "in no group": (
        _graph(T1, T2, parallel_groups={"A": ["T1"]}, execution_order=_order(("A", ["T1"]))),
        "T2 is 1 times a task",
    ),
    "another strategy": (_graph(T1, execution_order=_order(("A", ["T1"]), strategy="random")), "strategy"),
    "begun": (_graph(task("T1", status="ACCEPTED")), "expected PENDING"),
    "leaves": (_graph(task("T1", files_to_modify=["../x.py"])), "path leaves the repository"),
    "ours": (_graph(task("T1", files_to_modify=["prompts/x.yaml"])), "prompts/"),
    "git's": (_graph(task("T1", files_to_modify=["a/.git/hooks/x"])), ".git"),
    "the settings": (_graph(task("T1", files_to_modify=["Interlock.toml"])), "the user's own settings"),
    "anywhere": (_graph(task("T1", files_to_modify=["**"])), "anywhere"),
    "wide drift": (_graph(T1, validation_policy={"baseline_allowlist": ["src/*"]}), "one by one"),
    "leaves for a command": (_graph(T1, validation_policy={"working_directory": "../x"}), "leaves the repository"),
    "guarded": (_graph(task("T1", files_to_modify=["CLAUDE.md"])), '"CLAUDE.md" is guarded'),
}


@pytest.mark.req("TK-86", "TK-95")
@pytest.mark.parametrize("case", INVALID)
def test_what_is_wrong_with_a_graph_is_said(case: str) -> None:
    text, why = INVALID[case]
    found = faults(text, "x/tasks.yaml", ["CLAUDE.md"], "ABC-12 fix it")
    assert any(why in one for one in found), found


@pytest.mark.req("TK-86")
def test_a_graph_as_people_write_it_is_valid() -> None:
    """Comments, fields of their own, one text in place of a list, nothing in place of none."""
    loose = {"depends_on": None, "success_criteria": "it works", "files_to_modify": "src/*.py", "owner": "ann"}
    text = "# mine\n" + _graph(task("T1", **loose), strategy={"kind": "parallel"}, notes="x")
    assert faults(text, "x/tasks.yaml", [], "") == []
    assert parsed(Graph, text, "x").task("T1").files == ["src/*.py"]


def _parsed(*tasks: Any, **more: Any) -> Graph:
    return parsed(Graph, _graph(*tasks, **more), "tasks.yaml")


@pytest.mark.req("TK-97")
@pytest.mark.parametrize(
    ("tasks", "mandates", "trivial"),
    [
        ([T1], [], True),
        ([T1, T2], [], False),
        ([task("T1", files_to_modify=["a", "b", "c"])], [], True),
        ([task("T1", files_to_modify=["a", "b", "c", "d"])], [], False),
        ([task("T1", tool_mandates=["use pydantic"])], [], True),
        ([task("T1", tool_mandates=[{"text": "use playwright to check the page"}])], [], False),
        ([T1], ["check it in the browser"], False),
    ],
)
def test_which_graph_is_trivial(tasks: list[Any], mandates: list[str], trivial: bool) -> None:
    assert is_trivial(_parsed(*tasks), mandates) is trivial


@pytest.mark.req("TK-122", "TK-135")
def test_batches_are_as_large_as_limit_and_files_allow() -> None:
    shared = [task("T1"), task("T2", files_to_modify=["src/"]), task("T3"), task("T4", status="ACCEPTED")]
    many = _parsed(*shared, task("T5", test_files=["src/*_test.py"]), task("T6", status="REJECTED"))
    step = many.execution_order[0]
    assert [[one.id for one in batch] for batch in batches(step, many, 3)] == [["T1", "T3", "T6"], ["T2"], ["T5"]]
    assert [len(batch) for batch in batches(step, many, 1)] == [1] * 5
    alone = _parsed(T1, T2, sequential="A")
    assert [[one.id for one in batch] for batch in batches(alone.execution_order[0], alone, 8)] == [["T1"]]


@pytest.mark.req("TK-133")
@pytest.mark.parametrize(
    ("output", "blames"),
    [
        ("cc src/t1.py src/t2.py\nsrc/t2.py:3: error", ["T2"]),
        ('File "src/t1.py", line 4', ["T1"]),
        ("src/t1.py(7): bad", ["T1"]),
        ("FAILED src/t1.py", ["T1"]),
        ("xsrc/t1.py.bak", ["T2"]),
        ("1 failed", ["T2"]),
        ("src/t3.py:3: error", ["T3"]),
        ("src/t4.py:3: error", ["T2"]),
    ],
)
def test_who_is_to_blame_for_red(output: str, blames: list[str]) -> None:
    """Files that it points into, then files that it names, else all that were worked on; accepted ones once."""
    once, twice = task("T3", status="ACCEPTED"), task("T4", status="ACCEPTED", set_back=True)
    found = _parsed(task("T1"), task("T2", status="SYNTAX_VALID"), once, twice)
    assert blamed(output, found.tasks, [found.task("T2")]) == blames


@pytest.mark.req("TK-142")
def test_figures_follow_from_tasks_and_time() -> None:
    made = _parsed(task("T1", status="ACCEPTED"), T2, T3)
    told = {"tasks_total": 3, "tasks_completed": 1, "groups_total": 2, "groups_completed": 0, "percent_complete": 33}
    assert figures(made, 0).items() >= told.items()
    assert figures(_parsed(task("T1", status="ACCEPTED")), 0)["percent_complete"] == 95
    tasks = [[task(f"T{n}", **({"status": "ACCEPTED"} if n <= done else {})) for n in range(1, 6)] for done in _DONE]
    seen = [figures(_parsed(*some), 9) for some in tasks]
    assert [(one["remaining_minutes_estimate"], one["eta_confidence"]) for one in seen] == [*_DONE.values()]


_DONE = {0: (None, "low"), 1: (36, "low"), 2: (14, "medium"), 3: (6, "high"), 5: (0, "high")}
"""Of five tasks."""


@pytest.mark.req("TK-63")
@pytest.mark.parametrize(("old", "new"), [("", "+"), ("*.pyc", "*.pyc\n+"), ("# mine\n+", "# mine\n+")])
def test_two_lines_are_ignored(old: str, new: str) -> None:
    old, new = (text.replace("+", "prompts/\ndocs/docs_cache_state.yaml\n") for text in (old, new))
    assert ignoring(old) == new and ignoring(new) == new


def test_a_setting_is_filled_in() -> None:
    assert filled("{type}/{jira}_{x}", {"type": "fix", "jira": "A-1"}) == "fix/A-1_{x}"
