"""Looking at runs: `runs`, `show`, `logs`, `report`."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def shipped(workspace: Any) -> Any:
    """A workspace with a run that has ended, and known costs for one of its agents."""
    workspace.scenario(
        {"agent": "planner", "usage": {"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.25}},
        {"agent": "tester", "misbehave": "no_verdict", "exit": 3, "files": {"tested.txt": None}},
    )
    workspace("run", "toy", "a")
    assert workspace("approve", "latest", "--resume").code == 1
    return workspace


@pytest.mark.req("EN-16")
def test_runs_lists_every_run_with_how_it_stands(shipped: Any) -> None:
    """One row per run: id, playbook, key, status, start, duration, dispatches; the same as a JSON list."""
    shipped("run", "toy", "second key")
    rows = shipped("runs").stdout.decode().splitlines()
    assert rows[0].split() == ["RUN", "PLAYBOOK", "KEY", "STATUS", "STARTED", "DURATION", "DISPATCHES"]
    assert [row.split()[0] for row in rows[1:]] == [folder.name for folder in shipped.folders]
    assert "second key" in rows[2]
    listed = shipped("runs", "--json").json
    assert [(run["status"], run["dispatches"]) for run in listed] == [("degraded", 3), ("waiting", 1)]
    assert listed[1]["how"] == "for a decision"


def test_a_workspace_without_runs_says_how_to_start_one(workspace: Any) -> None:
    """No run is no error: exit 0, an empty list, a hint on stderr."""
    answer = workspace("runs")
    assert (answer.code, answer.stdout) == (0, b"")
    assert "interlock run --help" in answer.stderr
    assert workspace("runs", "--json").json == []
    assert workspace("show", "latest").code == 2


@pytest.mark.req("CM-38")
def test_show_has_every_dispatch_with_what_it_cost(shipped: Any) -> None:
    """Outcome, reason, time, changes, tokens and cost of each dispatch; what nobody said is unknown, never zero."""
    page = shipped("show", "latest").stdout.decode()
    planner, tester = (
        next(line for line in page.splitlines() if f"  {name}  " in line) for name in ("planner", "tester")
    )
    assert "900 in, 100 out" in planner
    assert "0.25 USD" in planner
    assert "failed (crashed)" in tester
    assert "unknown" in tester
    assert "cost: 0.25 USD, and that of 2 dispatches unknown" in page
    assert f"records: .interlock/runs/{shipped.folders[0].name}" in page
    facts = shipped("show", "latest", "--json").json
    assert facts["status"] == "degraded"
    planned = facts["dispatches"][0]
    assert (planned["member"], planned["changes"]) == ("planner", ["plan.md"])


@pytest.mark.req("CM-38")
def test_telemetry_can_be_printed_at_any_time(shipped: Any) -> None:
    """report prints Markdown from the journal; --json the same facts; report.md is kept in the run folder."""
    text = shipped("report", "latest").stdout.decode()
    assert "| plan | planner | 1 | ok |" in text
    assert "| gate ship |" in text
    assert "- `plan.md` by planner" in text
    assert text == (shipped.folders[0] / "report.md").read_text("utf-8")
    facts = shipped("report", "latest", "--json").json
    assert facts["totals"]["dispatches"] == 3
    assert facts["totals"]["unknown_cost"] == 2


def test_the_page_stands_alone(shipped: Any) -> None:
    """--html writes one page with a timeline and nothing from elsewhere; a bad place is exit 2."""
    answer = shipped("report", "latest", "--html", "report.html")
    assert (answer.code, answer.stdout) == (0, b"")
    page = (shipped.root / "report.html").read_text("utf-8")
    assert "<svg" in page
    assert page.count('class="stretch') == 4  # three dispatches and the gate
    for foreign in ("http:", "https:", "<script", "<link", "<form"):
        assert foreign not in page
    assert page.count("url(") == page.count("url(#")
    assert shipped("report", "latest", "--html", "no/such/folder/x.html").code == 2


def test_verify_finds_a_changed_journal_and_a_changed_object(shipped: Any) -> None:
    """show --verify is exit 0 for whole records, 2 with what is wrong for others."""
    assert shipped("show", "latest", "--verify").code == 0
    folder = shipped.folders[0]
    stored = next(path for path in (folder / "objects").iterdir())
    content = stored.read_bytes()
    stored.chmod(0o644)
    stored.unlink()
    stored.write_bytes(content + b"!")
    damaged = shipped("show", "latest", "--verify", "--json")
    assert damaged.code == 2
    assert "was changed" in damaged.json["findings"][0]
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"outcome":"FAIL"', b'"outcome":"OK"', 1))
    changed = shipped("show", "latest", "--verify")
    assert changed.code == 2
    assert "its hash does not fit its content" in changed.stderr
    assert shipped("show", "latest").code == 2
    assert shipped("doctor").code == 2


@pytest.mark.req("CM-30")
def test_logs_tell_every_event_in_printable_lines(shipped: Any) -> None:
    """With --verbose one for each line of the journal; what agents wrote cannot move the cursor of a terminal."""
    shipped.scenario({"agent": "planner", "exit": 1, "message": "\x1b[2Jgone\r\n\u202eevil"})
    shipped("run", "toy", "b")
    lines = shipped("logs", "latest", "--verbose").stdout.decode().splitlines()
    assert len(lines) == len(shipped.journal())
    assert all(line.isprintable() for line in lines)
    assert sum("planner  failed" in line for line in lines) == 1
    assert shipped("logs", "latest", "--json").stdout.count(b"\n") == len(lines)


def test_a_run_is_named_by_the_beginning_of_its_id(shipped: Any) -> None:
    """A unique prefix is enough; an ambiguous one is refused with the ids."""
    name = shipped.folders[0].name
    assert json.loads(shipped("show", name[:-1], "--json").stdout)["run_id"] == name
    shipped("run", "toy", "b")
    refused = shipped("show", "toy-")
    assert refused.code == 2
    assert "fits 2 runs" in refused.stderr
