"""The documents of a feature: private memories, the shared one, plans, findings, logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Sections, load_yaml
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature import plan as plans
from interlock.playbooks.feature import shared_memory as shared
from interlock.playbooks.feature.calls import ClusterSummary, Returned
from interlock.playbooks.feature.closing import Telemetry, free_date
from interlock.playbooks.feature.clusters import grown
from interlock.playbooks.feature.findings import findings, of_severity
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import MEMBERS, PRODUCERS, TaskAgent, phase
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory, sample_memory

from .conftest import task

LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1, max_size=40).map(
    lambda text: " ".join(text.split())
)
NAME = st.sampled_from(["spec", "designer", "ct-security", "v-build", "implementer-T01"])
STEP = st.sampled_from(["1", "2", "3", "3b", "4", "5", "6"])
MEMORY = st.builds(
    MemoryFile,
    findings=st.lists(LINE.filter(bool), max_size=3).map(tuple),
    decisions=st.lists(LINE.filter(bool), max_size=3).map(tuple),
    lessons=st.lists(LINE.filter(bool), max_size=2).map(tuple),
    index=st.lists(st.tuples(LINE.filter(bool), LINE), max_size=2).map(tuple),
)


# -- private memories


def test_a_memory_is_read_as_it_is_written() -> None:
    """Comments, emphasis and several lines per bullet do not matter."""
    found = parse_memory(
        """# Memory: r-quality
## Status
NEEDS_REVISION   <!-- DONE | NEEDS_REVISION | ERROR -->
## Highest Severity
**Major**
## Medium Severity
None
## Key Findings
- The cache
  never ends.
- SECURITY: a token is logged
## Decisions
- Use a map. Rationale: order does not matter.
## Artifact Index
| Artifact | Key Sections | Last Updated By |
| --- | --- | --- |
| `review/r-quality.md` | Findings | r-quality |
## Lessons Learned
- flaky clock → fixed clock
## Affected Tasks
- T03: the cache
- T04
"""
    )
    assert found == MemoryFile(
        status="NEEDS_REVISION",
        severity="Major",
        medium=(),
        findings=("The cache never ends.", "SECURITY: a token is logged"),
        decisions=("Use a map. Rationale: order does not matter.",),
        index=(("review/r-quality.md", "Findings"),),
        lessons=("flaky clock → fixed clock",),
        tasks=("T03", "T04"),
        lines=23,
    )
    assert found.security_flags == ("SECURITY: a token is logged",)


@given(st.text())
def test_any_text_is_a_memory(text: str) -> None:
    """Reading never fails; it finds little in most texts."""
    assert parse_memory(text).lines >= 1


def test_the_sample_memory_is_complete() -> None:
    """What the brief shows is what is read."""
    found = parse_memory(sample_memory("ct-strategy", "Low"))
    assert (found.status, found.severity, found.medium, found.tasks) == ("DONE", "Low", (), ())


# -- the shared memory


def edited(text: str, edit: Callable[..., shared.Shared], *given: Any) -> str:
    """The text after one edit."""
    return shared.edited(text, lambda memory: edit(memory, *given))


@pytest.mark.req("FT-109")
def test_the_template_has_its_sections_and_table() -> None:
    """Exactly the headings, and the head of the index."""
    headings = [line for line in shared.TEMPLATE.splitlines() if line.startswith("#")]
    assert headings == [
        "# Operational Memory",
        "## Artifact Index",
        "## Recent Decisions",
        "## Lessons Learned",
        "## Recent Updates",
    ]
    assert "| Artifact | Key Sections | Last Updated By |" in shared.TEMPLATE
    assert shared.problem(shared.TEMPLATE) is None


@pytest.mark.req("FT-112")
def test_a_merge_puts_each_part_in_its_section() -> None:
    """Findings are updates, decisions are decisions, index rows are put in by path, lessons are left to learned()."""
    memory = MemoryFile(
        findings=("Two modules.",),
        decisions=("Keep both. Rationale: cheap.",),
        index=(("feature.md", "Scope"),),
        lessons=("a → b",),
    )
    text = edited(shared.TEMPLATE, shared.merged, "spec", "2", memory, ("feature.md",))
    document = Sections(text)
    assert "- [spec, step-2] Two modules.\n" in document.body("## Recent Updates") + "\n"
    assert "- [spec, step-2] Keep both. Rationale: cheap.\n" in document.body("## Recent Decisions")
    assert "| feature.md | Scope | spec |" in document.body("## Artifact Index")
    assert "a → b" not in text
    newer = edited(text, shared.merged, "designer", "3", MemoryFile(index=(("feature.md", "Goals"),)), ())
    assert "| feature.md | Goals | designer |" in newer and "| Scope |" not in newer
    assert edited(text, shared.merged, "spec", "2", memory, ("feature.md",)) == text


@given(st.lists(st.tuples(NAME, STEP, MEMORY), max_size=4))
def test_merging_never_breaks_the_memory(entries: list[tuple[str, str, MemoryFile]]) -> None:
    """Whatever agents write into their memories, the shared one stays whole, and merging it again changes nothing."""
    text = shared.rebuilt(entries)
    assert shared.problem(text) is None
    for member, step, memory in entries:
        again = edited(edited(text, shared.learned, member, step, memory), shared.merged, member, step, memory)
        assert shared.problem(again) is None


@pytest.mark.req("FT-113", "FT-115")
@given(st.lists(st.tuples(NAME, STEP, MEMORY), max_size=4), st.integers(1, 6))
def test_pruning_keeps_the_current_and_the_previous_phase(
    entries: list[tuple[str, str, MemoryFile]], current: int
) -> None:
    """Older decisions and updates go; index, lessons and what a person wrote stay."""
    text = shared.rebuilt(entries).replace("## Recent Updates\n", "## Recent Updates\n\nNote to self: ask Ada.\n")
    after = edited(text, shared.pruned, current)
    for title in ("## Recent Decisions", "## Recent Updates"):
        before_lines, lines = Sections(text).body(title).splitlines(), Sections(after).body(title).splitlines()
        kept = [
            line
            for line in before_lines
            if not (found := re.match(r"- \[[^],]+, step-(\d+)", line)) or int(found[1]) >= current - 1
        ]
        assert lines == kept
    for title in ("## Artifact Index", "## Lessons Learned"):
        assert Sections(after).body(title) == Sections(text).body(title)
    assert "Note to self: ask Ada." in after


@pytest.mark.req("FT-117", "FT-118")
@given(st.lists(st.tuples(NAME, STEP, MEMORY), min_size=1, max_size=4))
def test_invalidated_entries_are_marked_and_then_gone(entries: list[tuple[str, str, MemoryFile]]) -> None:
    """Only those of the named agents, with the reason; what is merged anew replaces them; cleaning leaves no mark."""
    text = shared.rebuilt(entries)
    member, step, memory = entries[0]
    marked = edited(text, shared.invalidated, {member}, "design revised")
    assert edited(marked, shared.invalidated, {member}, "design revised") == marked
    for line in shared.marked_entries(marked):
        assert line.startswith(f"- [INVALIDATED — design revised] [{member}, step-")
    others = [line for line in text.splitlines() if line.startswith("- [") and not line.startswith(f"- [{member}, ")]
    assert [line for line in marked.splitlines() if line in others] == [
        line for line in text.splitlines() if line in others
    ]
    replaced = edited(marked, shared.merged, member, step, memory)
    assert shared.marked_entries(replaced) == []
    cleaned = edited(marked, shared.cleaned)
    assert shared.marked_entries(cleaned) == []
    assert [line for line in cleaned.splitlines() if line in others] == [
        line for line in text.splitlines() if line in others
    ]


@pytest.mark.req("FT-116")
def test_lessons_are_appended() -> None:
    """In their own section, once."""
    memory = MemoryFile(lessons=("port taken → ask the system for a free one",))
    text = edited(shared.TEMPLATE, shared.learned, "implementer-T01", "5", memory)
    line = "- [implementer-T01, step-5] port taken → ask the system for a free one"
    assert line in Sections(text).body("## Lessons Learned")
    assert edited(text, shared.learned, "implementer-T01", "5", memory) == text


@pytest.mark.parametrize("heading", shared.SECTIONS)
def test_a_missing_section_is_a_problem(heading: str) -> None:
    """It is named."""
    assert shared.problem(shared.TEMPLATE.replace(f"{heading}\n", "")) == f'section "{heading}" missing'


def test_conflict_markers_and_a_lost_table_are_problems() -> None:
    """Both are what a bad merge by hand leaves behind."""
    assert "conflict" in str(shared.problem(shared.TEMPLATE + "<<<<<<< mine\n"))
    assert "no table" in str(shared.problem(shared.TEMPLATE.replace("|", "")))


@given(LINE, LINE)
def test_text_of_a_person_survives_every_edit(before: str, after: str) -> None:
    """Paragraphs beside the entries stay byte for byte."""
    mine, other = f"Remember: {before}", f"And also: {after}"
    text = shared.TEMPLATE.replace("## Recent Updates\n", f"## Recent Updates\n\n{mine}\n").rstrip() + f"\n\n{other}\n"
    text = edited(text, shared.merged, "spec", "2", MemoryFile(findings=("x",), decisions=("y",)))
    text = edited(edited(text, shared.noted, "2", "z"), shared.pruned, 4)
    text = edited(edited(text, shared.invalidated, {"spec"}, "why"), shared.cleaned)
    assert mine in text and other in text


@given(st.lists(st.tuples(NAME, STEP, MEMORY), min_size=1, max_size=4))
def test_edits_in_one_go_are_the_edits_one_by_one(entries: list[tuple[str, str, MemoryFile]]) -> None:
    """The file is taken apart once, whatever is done to it."""
    step_by_step = shared.TEMPLATE
    edits: list[shared.SharedEdit] = []
    for one in entries:
        for edit in (shared.merged, shared.learned):
            step_by_step = edited(step_by_step, edit, *one)
            edits.append(lambda memory, edit=edit, one=one: edit(memory, *one))  # type: ignore[misc]
    edits += [lambda memory: shared.invalidated(memory, {"spec"}, "why"), shared.cleaned]
    step_by_step = edited(edited(step_by_step, shared.invalidated, {"spec"}, "why"), shared.cleaned)
    assert shared.edited(shared.TEMPLATE, *edits) == step_by_step


def test_what_an_agent_said_before_stays_when_it_says_more() -> None:
    """Only its invalidated entries are replaced."""
    once = edited(shared.TEMPLATE, shared.merged, "spec", "2", MemoryFile(findings=("first",), decisions=("one",)))
    twice = edited(once, shared.merged, "spec", "2", MemoryFile(findings=("second",), decisions=("two",)))
    assert [line for line in twice.splitlines() if line.startswith("- [spec")] == [
        *("- [spec, step-2] one", "- [spec, step-2] two", "- [spec, step-2] first", "- [spec, step-2] second")
    ]


@pytest.mark.parametrize("end", ["", "\n\nlast words", "\n\n- x\n\n"])
def test_a_file_may_end_without_a_line_break(end: str) -> None:
    """What is added has a line of its own all the same."""
    text = shared.TEMPLATE.partition("## Recent Updates")[0] + "## Recent Updates" + end
    after = edited(text, shared.noted, "1", "hello")
    assert after.startswith(text.rstrip("\n") + "\n")
    assert "- [orchestrator, step-1] hello" in after.splitlines()
    assert shared.problem(after) is None


def test_an_edit_that_changes_what_the_sections_are_is_refused() -> None:
    """None of ours does; it would cost a person's text."""
    with pytest.raises(DocumentInvalid, match="would change its sections"):
        shared.edited(shared.TEMPLATE, lambda memory: memory.with_lines(shared.DECISIONS, ["```\n"]))


# -- plans


def plan(*waves: str) -> str:
    parts = [
        f"### Wave {number}\n\n" + "".join(f"- {one}: do {one}\n" for one in wave.split())
        for number, wave in enumerate(waves, 1)
    ]
    return "# Plan\n\n## Execution Waves\n\n" + "\n".join(parts)


@pytest.mark.req("FT-136")
def test_waves_are_read_in_order() -> None:
    """Numbers, ids, and what each task file says."""
    waves = "### Wave 2: later\n- **T02**: b\n\n### Wave 1\n- T01: a\n- `D1`\n\n"
    text = f"# P\n\n## Execution Waves\n\n{waves}## Notes\n- x\n"
    tasks = {
        "T01": task("T01", files="[src/**]"),
        "T02": task("T02", depends_on="[T01]"),
        "D1": task("D1", agent="documentation-writer"),
    }
    found = plans.read_plan(text, tasks)
    assert [(wave.number, [one.id for one in wave.tasks]) for wave in found.waves] == [(1, ["T01", "D1"]), (2, ["T02"])]
    assert found.tasks[0].files == ("src/**",)
    assert [one.worker for one in found.tasks] == [
        TaskAgent.IMPLEMENTER,
        TaskAgent.DOCUMENTATION_WRITER,
        TaskAgent.IMPLEMENTER,
    ]
    assert [one.member for one in found.tasks] == ["implementer-T01", "documentation-writer-D1", "implementer-T02"]


@pytest.mark.req("FT-136")
@pytest.mark.parametrize(
    ("text", "tasks", "message"),
    [
        ("# Plan\n", {}, 'plan.md: section "## Execution Waves" not found'),
        ("# Plan\n\n## Execution Waves\n\n### Wave 1\n", {}, 'plan.md: "## Execution Waves" lists no task'),
        (plan("T01", "T09"), {"T01": task("T01")}, "plan.md: wave 2 lists T09 but tasks/T09.md does not exist"),
        (
            plan("T03", "T05"),
            {"T03": task("T03", depends_on="[T05]"), "T05": task("T05")},
            "T03 (wave 1) depends on T05 (wave 2)",
        ),
        (plan("T01"), {"T01": task("T01", depends_on="[T01]")}, "T01 (wave 1) depends on T01 (wave 1)"),
        (plan("T01"), {"T01": task("T01", depends_on="[T77]")}, "T01 (wave 1) depends on T77; no such task"),
        (plan("T01"), {"T01": task("T01"), "T07": task("T07")}, "tasks/T07.md is in no wave"),
        (plan("T01", "T01"), {"T01": task("T01")}, "plan.md: T01 is listed twice (wave 1 and wave 2)"),
        (plan("T01"), {"T01": "---\nid: T01\nfiles: [a\n---\n"}, "tasks/T01.md: frontmatter is not valid YAML: line "),
        (plan("T01"), {"T01": task("T02")}, 'tasks/T01.md: id is "T02"; expected T01'),
        (plan("T01"), {"T01": task("T01", files="[../x]")}, 'tasks/T01.md: files: "../x" is not a path pattern'),
        (plan("T01"), {"T01": task("T01", depends_on="{a: b}")}, "tasks/T01.md: depends_on must be a list of texts"),
        ("## Execution Waves\n### Wave 1\n- T01: a\n### Wave 1\n- T02: b\n", {}, "plan.md: wave 1 appears twice"),
        ("## Execution Waves\n### Wave 1\n- do things\n", {}, 'plan.md: wave 1: "do things" does not begin'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_said_exactly(text: str, tasks: dict[str, str], message: str) -> None:
    """The first problem, with its place."""
    with pytest.raises(plans.PlanInvalid) as caught:
        plans.read_plan(text, tasks)
    assert caught.value.what.startswith(message)


def test_frontmatter_errors_name_the_line_in_the_file() -> None:
    """Line 3 of the task file, not of its YAML."""
    with pytest.raises(plans.PlanInvalid, match=r"tasks/T04\.md: frontmatter is not valid YAML: line 3"):
        plans.parse_task("T04", "---\nid: T04\ntitle: a: b\n---\n")


def test_a_replan_lists_only_waves_behind_the_old_ones() -> None:
    """Done tasks keep their files and may be depended on; earlier waves are history; no new wave is refused."""
    tasks = {"T01": task("T01"), "T02": task("T02", depends_on="[T01]")}
    text = "## Execution Waves\n### Wave 1\n- T01: a\n### Wave 2\n- T02: b\n"
    found = plans.read_plan(text, tasks, done={"T01"}, after=1)
    assert [wave.number for wave in found.waves] == [2]
    only_new = plans.read_plan("## Execution Waves\n### Wave 2\n- T02: b\n", tasks, done={"T01"}, after=1)
    assert only_new == found
    with pytest.raises(plans.PlanInvalid, match="no wave after wave 1"):
        plans.read_plan(plan("T01"), {"T01": task("T01")}, done={"T01"}, after=1)
    with pytest.raises(plans.PlanInvalid, match=r"tasks/T01\.md is in no wave"):
        plans.read_plan("## Execution Waves\n### Wave 2\n- T02: b\n", {**tasks, "T02": task("T02")}, done=(), after=1)


@pytest.mark.req("FT-15", "FT-16")
def test_the_agent_of_a_task() -> None:
    """Absent: implementer. Unknown: implementer, and it shows."""
    assert plans.parse_task("T1", "no frontmatter").worker is TaskAgent.IMPLEMENTER
    unknown = plans.parse_task("T1", task("T1", agent="reviewer"))
    assert (unknown.worker, unknown.agent_unknown) == (TaskAgent.IMPLEMENTER, True)
    assert not plans.parse_task("T1", task("T1", agent="documentation-writer")).agent_unknown


@given(st.lists(st.lists(st.sampled_from([f"T{n:02}" for n in range(12)]), max_size=4), min_size=1, max_size=4))
def test_rendered_plans_are_read_back(waves: list[list[str]]) -> None:
    """Every plan whose tasks are each in one wave is read as it was meant."""
    seen: set[str] = set()
    waves = [[one for one in wave if not (one in seen or seen.add(one))] for wave in waves]
    if not seen:
        return
    found = plans.read_plan(plan(*map(" ".join, waves)), {one: task(one) for one in seen})
    assert [[one.id for one in wave.tasks] for wave in found.waves] == [wave for wave in waves if wave]


@given(st.text())
def test_any_text_is_a_plan_or_is_refused(text: str) -> None:
    """Never anything else."""
    for read in (plans.listed_waves, lambda text: plans.parse_task("T01", text)):
        try:
            read(text)
        except plans.PlanInvalid as error:
            assert error.what


def test_the_samples_make_a_plan() -> None:
    """What the scripted player writes is accepted; the next free id is found."""
    assert plans.read_plan(plans.sample_plan(1, "T01"), {"T01": plans.sample_task("T01")}).last_wave == 1
    assert plans.next_id([]) == "T01"
    assert plans.next_id(["T01", "T09", "docs"]) == "T10"


# -- findings


def test_findings_carry_severity_files_and_tasks() -> None:
    """A heading with a severity begins one; what stands above the first or under other headings is none."""
    text = """# Review
### Overview
nothing
### Major: cache never ends
Files: `src/cache.py`, src/b.py
**Tasks:** T03
It grows.
### Minor: typo
- Files: README.md
"""
    first, second = findings(text)
    assert (first.severity, first.title, first.files, first.tasks) == (
        "Major",
        "cache never ends",
        ("src/cache.py", "src/b.py"),
        ("T03",),
    )
    assert "It grows." in first.text
    assert second.files == ("README.md",)
    assert of_severity(text, ["major", "High"]) == first.text


@given(st.text())
def test_any_text_has_findings_or_none(text: str) -> None:
    """Reading never fails."""
    assert all(one.severity for one in findings(text))


# -- telemetry and logs

RETURNS = [
    Returned("1/researcher-impact#1", "researcher-impact", "1.1", "A", "DONE", 0),
    Returned("4/planner#1", "planner", "4", "sequential", "ERROR", 1, "no | line\nat all", 2, human=True),
]
CLUSTERS = [ClusterSummary("1.1", "research", 4, 0, "DONE")]
FACTS = [{"key": "1/researcher-impact#1", "ended_at": "2026-01-04T12:00:01Z", "seconds": 1.0}]
TELEMETRY = Telemetry("login", "2026-01-04", RETURNS, CLUSTERS, FACTS)


@pytest.mark.req("FT-146")
def test_telemetry_has_its_exact_form() -> None:
    """Headings, labels, columns; a dash where nothing failed; a cell cannot break the table."""
    assert TELEMETRY.told == (
        "## Dispatch Telemetry\n"
        "\n"
        "**Feature:** login\n"
        "**Run Date:** 2026-01-04\n"
        "\n"
        "### Agent Dispatches\n"
        "\n"
        "| Agent | Step | Pattern | Status | Retries | Failure | Iteration | Human | Timestamp |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| researcher-impact | 1.1 | A | DONE | 0 | — | 1 | no | 2026-01-04T12:00:01Z |\n"
        "| planner | 4 | sequential | ERROR | 1 | no \\| line at all | 2 | yes | — |\n"
        "\n"
        "### Cluster Summaries\n"
        "\n"
        "| Step | Cluster | Dispatched | Errors | Outcome |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| 1.1 | research | 4 | 0 | DONE |"
    )


def test_the_run_log_is_fenced_yaml() -> None:
    """Every row of the telemetry, as data."""
    text = TELEMETRY.log("ERROR")
    (fence,) = Sections(text).fences("yaml")
    data = load_yaml(fence.content, "log")
    assert data["outcome"] == "ERROR"
    assert [row["agent"] for row in data["dispatches"]] == ["researcher-impact", "planner"]
    assert data["dispatches"][0]["timestamp"] == "2026-01-04T12:00:01Z"
    assert data["clusters"][0]["cluster"] == "research"


def test_further_runs_on_a_day_are_numbered() -> None:
    """By what is there, of either kind."""
    assert free_date("2026-01-04", []) == "2026-01-04"
    taken = [
        "docs/feature/x/agent-metrics/2026-01-04-run-log.md",
        "docs/feature/x/post-mortems/2026-01-04-2-post-mortem.md",
    ]
    assert free_date("2026-01-04", taken) == "2026-01-04-3"


@pytest.mark.req("FT-32", "FT-107")
@given(st.lists(LINE), st.lists(LINE), st.lists(LINE))
def test_a_growing_document_keeps_what_it_has(old: list[str], new: list[str], now: list[str]) -> None:
    """The text as it is now is a prefix of the result, whatever an agent made of it; every line that it added is
    there, and what it only read is not repeated."""
    before, after, there = ("".join(f"{one}\n" for one in some) for some in (old, new, now))
    result = grown(there, before, after)
    assert result.startswith(there.rstrip("\n"))
    assert set(after.splitlines()) - set(old) <= set(result.splitlines()) | {""}
    assert set(result.splitlines()) <= {*now, *new, ""}
    assert grown(before, before, before + "more\n") == before + "more\n"
    assert grown(there, before, before + "more\n").startswith(there)
    assert grown(there, before, before) == there


@pytest.mark.req("FT-32", "LY-05")
@pytest.mark.parametrize(
    ("now", "new", "expected"),
    [
        ("# D\n\n- one\n", "# D\n\n- one\n- two\n", "# D\n\n- one\n- two\n"),
        ("# D\n\n- ONE\n", "# D\n\n- one\n- two\n", "# D\n\n- ONE\n- two\n"),
        ("# D\n\n- one\n- by Bo\n", "# D\n\n- one\n\n- two\n", "# D\n\n- one\n- by Bo\n\n- two\n"),
        ("# D\n\n- ONE\n", "# D\n\n- ONE\n- two\n", "# D\n\n- ONE\n- two\n"),
        ("# D\n\n- ONE\n", "# Mine\n- two\n", "# D\n\n- ONE\n\n# Mine\n- two\n"),
        ("- no line break", "# D\n\n- one\n- two\n", "- no line break\n- two\n"),
        ("# D\n\n- one\n", "# D\n", "# D\n\n- one\n"),
        ("", "# D\n\n- one\n- two\n", "- two\n"),
    ],
)
def test_additions_go_behind_what_is_there_now(now: str, new: str, expected: str) -> None:
    """From `# D`, `- one`: added, while a person changed or added a line, before or after the agent saw it; rewritten;
    shortened; and where a person removed the document."""
    assert grown(now, "# D\n\n- one\n", new) == expected


# -- layout


@pytest.mark.req("FT-26", "FT-28", "FT-29", "FT-30", "FT-31", "FT-34")
def test_everything_is_below_the_folder_of_the_feature() -> None:
    """The paths of the layout."""
    at = Layout("login")
    assert {at.output(name) for name in (*PRODUCERS, *(row.name for row in MEMBERS.rows))} >= {
        f"docs/feature/login/{path}"
        for path in (
            "research/architecture.md", "research/impact.md", "research/dependencies.md", "research/patterns.md",
            "feature.md", "design.md", "plan.md",
            "ct-review/ct-security.md", "ct-review/ct-scalability.md", "ct-review/ct-maintainability.md",
            "ct-review/ct-strategy.md",
            "verification/v-build.md", "verification/v-tests.md", "verification/v-tasks.md",
            "verification/v-feature.md",
            "review/r-quality.md", "review/r-security.md", "review/r-testing.md", "review/r-knowledge.md",
        )
    }  # fmt: skip
    assert at.suggestions == "docs/feature/login/review/knowledge-suggestions.md"
    assert at.run_log("2026-01-04") == "docs/feature/login/agent-metrics/2026-01-04-run-log.md"
    assert at.post_mortem("2026-01-04") == "docs/feature/login/post-mortems/2026-01-04-post-mortem.md"
    assert at.mem("spec") == "docs/feature/login/memory/spec.mem.md"


@pytest.mark.req("FT-154")
def test_there_is_no_agent_that_aggregates() -> None:
    """The registry of names."""
    assert len(MEMBERS.agents) == len(set(MEMBERS.agents))
    assert not [name for name in MEMBERS.agents if "aggregat" in name or "orchestr" in name or "merge" in name]
    assert [phase(name) for name in ("researcher-impact", "spec", "designer", "ct-security", "planner")] == [
        "1",
        "2",
        "3",
        "3b",
        "4",
    ]
    assert [phase(name) for name in ("implementer-T01", "v-build", "r-security", "post-mortem")] == ["5", "6", "7", "8"]
