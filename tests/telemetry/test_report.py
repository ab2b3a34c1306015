"""Reports: made from the journal and the records alone, safe to look at."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from interlock.telemetry import REPORT, cost_line, markdown, read_report, spent, totals, write_report

from .conftest import START, MadeRun, page_of


@pytest.fixture
def run(tmp_path: Path, make_line: Any, dispatch_end: Any) -> MadeRun:
    decided = {"rule": "route", "row": "PASS", "result": "go"}
    lines = [
        make_line("run.start", ts=START, data={"playbook": "toy", "key": "a"}),
        make_line("decide", "x/route#1", ts=START, data={"in": {"inputs": ["PASS"]}, "out": decided}),
        dispatch_end(cost_usd=0.5, input_tokens=10, output_tokens=2),
        dispatch_end(ts="2026-01-01T10:00:09.000+00:00", outcome="FAIL", reason="timeout", member="<i>tester</i>"),
        make_line("warning", ts="2026-01-01T10:00:09.500+00:00", data={"text": "<script>alert(1)</script>"}),
        make_line("run.end", ts="2026-01-01T10:00:10.000+00:00", data={"status": "stopped", "reason": "enough"}),
    ]
    record = tmp_path / "dispatches" / "build" / "builder#1"
    record.mkdir(parents=True)
    (record / "result.json").write_text(json.dumps({"changes": ["src/a b.py"]}), "utf-8")
    return MadeRun(tmp_path, lines)


@pytest.mark.req("CM-38")
def test_markdown_has_the_facts(run: MadeRun) -> None:
    """Status, dispatches, decisions, changes and incidents, with cells that cannot break their table."""
    text = markdown(read_report(run))
    assert "- Status: stopped (enough)" in text
    assert "- Dispatches: 2, failed: 1, verdicts against the work: 0, time of agents: 8.0 s" in text
    assert "- Cost: 0.50 USD, and that of 1 dispatches unknown" in text
    assert "| build | builder | 1 | ok | 4.0 s | 1 | 10 in, 2 out | 0.50 USD |" in text
    assert "| 10:00:00 | route | PASS | go |" in text
    assert "- `src/a b.py` by builder" in text
    assert "# toy a\\|b" in text
    assert "<script>" not in text


def test_a_report_is_written_once_and_only_when_it_differs(run: MadeRun) -> None:
    """write_report brings report.md up to date; a second call does not touch it."""
    place = write_report(run)
    assert place == run.path / REPORT
    before = place.stat().st_mtime_ns
    assert write_report(run).stat().st_mtime_ns == before
    run.made = run.made[:-1]
    assert "- Status: open" in write_report(run).read_text("utf-8")


class Reader(HTMLParser):
    """Collects what a page is made of, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "col"):
            self.open.append(tag)
        self.outside += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing(run: MadeRun) -> None:
    """Every tag is closed, nothing comes from elsewhere, and what agents wrote stays text."""
    page = page_of(run)
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert [place for place in reader.outside if not place.startswith("#")] == []
    assert {"script", "link", "img", "i", "b"} & set(reader.tags) == set()
    assert page.count('class="stretch') == 2
    assert "&lt;i&gt;tester&lt;/i&gt;" in page


def test_a_run_without_dispatches_has_a_page_too(run: MadeRun) -> None:
    """Nothing to draw is said, not drawn."""
    run.made = run.made[:1]
    report = read_report(run)
    assert "No agent was called." in page_of(run)
    assert markdown(report).count("None.") == 3


def test_unknown_is_never_zero(run: MadeRun) -> None:
    """A cost or count that nobody said is the word unknown."""
    assert (spent(None), spent(0.0)) == ("unknown", "0.00 USD")
    assert cost_line(totals([])) == "unknown"
