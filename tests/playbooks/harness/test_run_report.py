"""The run report: it grows, it never forgets, and a changed row shows."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState, one_line
from interlock.playbooks.harness import run_report, templates
from interlock.playbooks.harness.escalation import Escalation
from interlock.playbooks.harness.run_report import COLUMNS, Log, ReportRow, grown, parse_text
from tests.playbooks.harness.conftest import REPORT, TASK, Bench
from tests.playbooks.harness.test_run_state import PLAIN

FIRST = templates.first_report(templates.built_in(templates.RUN_REPORT), PLAIN, "Title")

entries = st.sampled_from(Log).flatmap(
    lambda log: st.builds(ReportRow, st.just(log), st.tuples(*[st.text(max_size=30) for _ in COLUMNS[log]]))
)


def rows(text: str) -> dict[Log, tuple[tuple[str, ...], ...]]:
    return dict(parse_text(text, REPORT).rows)


@given(st.lists(entries, max_size=6), st.lists(entries, max_size=3))
def test_what_was_added_is_there_in_its_order(first: list[ReportRow], second: list[ReportRow]) -> None:
    """Rows are read back as they were written, one line each, in two steps as in one; earlier ones do not change."""
    text = grown(FIRST, PLAIN, "Title", first)
    later = grown(text, PLAIN.blocked("why"), "Title", second)
    for log in Log:
        wanted = [tuple(map(one_line, entry.cells)) for entry in (*first, *second) if entry.log is log]
        assert list(rows(later)[log]) == wanted
        assert rows(later)[log][: len(rows(text)[log])] == rows(text)[log]
    for line in text.splitlines():
        if line.startswith("| ") and "Chain" not in line:
            assert line in later.splitlines()


@pytest.mark.req("HN-92")
@given(st.lists(entries, min_size=2, max_size=5), st.data())
def test_a_row_that_is_changed_or_gone_shows(added: list[ReportRow], data: st.DataObject) -> None:
    """Changing any cell, or removing any row but the last of its table, breaks the chain."""
    text = grown(FIRST, PLAIN, "Title", added)
    lines = text.splitlines(keepends=True)
    ours = [number for number, line in enumerate(lines) if re.search(r"\| [0-9a-f]{16} \|$", line)]
    number = data.draw(st.sampled_from(ours))
    changed = [*lines]
    changed[number] = changed[number].replace("| ", "| x", 1)
    with pytest.raises(Escalation, match="was changed"):
        parse_text("".join(changed), REPORT)
    followed = number + 1 in ours
    assume(followed)
    assume(lines[number] != lines[number + 1])
    with pytest.raises(Escalation, match="was changed"):
        parse_text("".join(lines[:number] + lines[number + 1 :]), REPORT)


@pytest.mark.req("HN-91")
def test_the_report_has_everything(bench: Bench) -> None:
    """Task, title, stage, run id, outcomes, paths, evidence; a stop reason while it is stopped."""
    bench.play(attended=False)
    fields = bench.report.fields
    assert (fields["Task ID"], fields["Task Title"]) == (TASK, "Greet by name")
    assert (fields["Current Stage"], fields["Status"]) == ("Build", "Awaiting Approval")
    assert fields["Current Run ID"] == bench.state.run_id
    assert fields["Stop Reason"] == "Approval required before Build"
    assert "\n".join(f"- {stage}: {path}" for stage, path in bench.state.artifacts.items()) in bench.text(REPORT)
    assert [row[:4] for row in bench.rows(Log.HISTORY)] == [
        ("RUN-2026-01-04-TASK-001-SPEC", "Specification", "po-spec", "Completed"),
        ("RUN-2026-01-04-TASK-001-DESIGN", "Design", "feature-design", "Completed"),
        ("RUN-2026-01-04-TASK-001-PLAN", "Implementation Planning", "tech-lead", "Completed"),
    ]
    for row, stage in zip(bench.rows(Log.HISTORY), ("spec", "design", "plan"), strict=True):
        path, digest = row[6], row[7]
        assert path == f"harness/artifacts/{TASK}/{stage}.md"
        assert digest == bench.simulation.world.documents.facts(path).digest
    assert [row[2] for row in bench.rows(Log.EVIDENCE)] == ["Artifact check"] * 3
    assert [row[1:] for row in bench.rows(Log.STOPS)] == [("Build", "Approval required before Build")]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("- Status:", "- State:", "field Status not found"),
        ("## Stage History", "## History", "table Stage History not found"),
        ("| Time | Stage | Reason | Chain |", "| Time | Reason | Chain |", "table Stops not found"),
        ("## Artifact Paths", "## Paths", "section Artifact Paths not found"),
    ],
)
def test_a_report_of_another_form_is_refused_at_the_start(bench: Bench, old: str, new: str, what: str) -> None:
    """Exit 2, before anything is written: history is not guessed at."""
    bench.files[REPORT] = FIRST.replace(old, new)
    error = bench.refuse()
    assert error.what == f"{REPORT}: malformed: {what}"
    assert error.exit_code == 2


@pytest.mark.req("HN-92")
def test_a_changed_history_is_refused_at_the_start(bench: Bench) -> None:
    """Whoever rewrites an outcome is found out by the next run."""
    bench.play(attended=False)
    bench.files = dict(bench.tree)
    bench.set(REPORT, "| feature-design | Completed |", "| feature-design | Approved |")
    assert bench.refuse().what == f"{REPORT}: malformed: entry 2 of Stage History was changed, or one before it removed"


@pytest.mark.req("HN-92")
def test_the_history_of_earlier_runs_stays(bench: Bench) -> None:
    """A task that is begun anew, with another run-state, adds to its report and removes nothing."""
    bench.play()
    before = bench.report.rows
    bench.files = {path: text for path, text in bench.tree.items() if path != "harness/run-state.md"}
    bench.play()
    for log in Log:
        assert bench.report.rows[log][: len(before[log])] == before[log]
        assert len(bench.report.rows[log]) > len(before[log])


def test_a_report_that_cannot_be_read() -> None:
    """Malformed, with the reason."""
    with pytest.raises(Escalation, match="is a directory"):
        run_report.parse(Document(REPORT, DocumentState.UNREADABLE, problem="is a directory"))
