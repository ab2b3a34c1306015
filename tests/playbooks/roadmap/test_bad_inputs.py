"""Every bad input of the specification (section 6, by its number), at the command line and with real files."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import FILE, Terminal, item, spelled

LOGIN: dict[str, Any] = {"title": "Login"}
TOP = 'roadmap.json: top level must be an array of items or an object with "items"; found'


def login(**changes: Any) -> list[Any]:
    return [item(7, **LOGIN, **changes)]


REFUSED: dict[str, tuple[Any, str]] = {
    "2 empty": ("", 'roadmap.json is empty: expected a JSON array of items or {"items": [...]}'),
    "3 broken JSON": ('[\n  {"id" 7}]', "roadmap.json is not valid JSON: line 2 column 9: "),
    "4 a string": ('"items"', f"{TOP} string"),
    "4 a number": ("3", f"{TOP} number"),
    "5 zero items": ([], "roadmap.json has no items; nothing to run"),
    "6 no criteria": (
        login(acceptanceCriteria=...),
        'item 7 "Login": field acceptanceCriteria is missing; expected array of non-empty strings',
    ),
    "7 complexity": (
        login(complexity="hard"),
        'item 7 "Login": complexity is "hard"; expected simple | medium | complex',
    ),
    "8 priority": (login(priority="high"), 'item 7 "Login": priority is "high"; expected integer'),
    "9 duplicate ids": (
        [item(1), item(2), item(7), item(3), item(4), item(7)],
        "id 7 is used by items[2] and items[5]; ids must be unique",
    ),
    "10 unknown dependency": (login(dependencies=[99]), 'item 7 "Login": dependencies[0] is 99; no such item'),
    "11 cycle": ([item(3, dependencies=[7]), item(7, dependencies=[3])], "dependency cycle: 3 -> 7 -> 3"),
    "12 passes but ready": (login(passes=True), 'item 7 "Login": passes=true requires status=done; found ready'),
    "13 two in progress": (
        [item(3, status="in_progress"), item(7, status="in_progress")],
        "items 3 and 7 are both in_progress; only one may be. Set one back to ready.",
    ),
    "14 retries": (login(retryCount=5), 'item 7 "Login": retryCount is 5; expected integer 0..2'),
    "20 duplicate key": (
        spelled([item(7)]).replace('"status": "ready"', '"status": "ready", "status": "done"'),
        'item 7: key "status" appears twice',
    ),
    "21 verification": (
        login(verification="npm test"),
        'item 7 "Login": verification is a string; expected array of strings',
    ),
}


@pytest.mark.req("RM-04", "RM-08", "RM-97", "EN-24")
@pytest.mark.parametrize("row", REFUSED)
def test_a_roadmap_that_cannot_be_used_is_refused_at_the_door(terminal: Terminal, row: str) -> None:
    """Its message on stderr, exit 2, no token, the bytes as they were, and nothing is created."""
    content, message = REFUSED[row]
    (terminal.root / FILE).write_text(content if isinstance(content, str) else spelled(content), "utf-8")
    before = contents(terminal.root)
    code, out, err = terminal("run", "roadmap")
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {message}")
    assert contents(terminal.root) == before


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.req("RM-03", "EN-24")
def test_1_without_a_roadmap_nothing_is_created(terminal: Terminal) -> None:
    """The absolute path is named; exit 2."""
    (terminal.root / FILE).unlink()
    before = contents(terminal.root)
    code, out, err = terminal("run", "roadmap")
    assert (code, out) == (2, "")
    place = (terminal.root / FILE).resolve()
    assert err.startswith(f"Error: roadmap.json not found: {place}. The planner must create it first.\n")
    assert contents(terminal.root) == before


@pytest.mark.req("RM-19")
def test_15_when_all_wait_on_a_blocked_item(terminal: Terminal) -> None:
    """Exit 3, the bytes as they were."""
    terminal.roadmap(item(3, status="blocked"), item(7, dependencies=[3]))
    before = contents(terminal.root)
    code, out, err = terminal("run", "roadmap")
    assert code == 3
    assert "no selectable item: 7 waits on 3 (blocked)" in err
    assert "<promise>" not in out
    assert contents(terminal.root) == before


def only_state_of(terminal: Terminal, before: list[dict[str, Any]]) -> dict[str, Any]:
    """The first item, when nothing else in the file differs from before."""
    after = json.loads((terminal.root / FILE).read_text("utf-8"))
    state = ("status", "passes", "retryCount", "blockedReasons")
    assert [{name: one[name] for name in one if name not in state} for one in after] == [
        {name: one[name] for name in one if name not in state} for one in before
    ]
    found: dict[str, Any] = after[0]
    return found


@pytest.mark.req("RM-78", "EV-25")
def test_16_testing_answers_without_a_status(terminal: Terminal) -> None:
    """One re-ask, then exit 5 with the complaint on stderr; the item stays in progress, and `resume` asks Testing."""
    terminal.roadmap(*login())
    terminal.scenario({"agent": "Testing", "message": "All is well.", "times": 2})
    code, out, err = terminal("run", "roadmap")
    reason = "answer has no Status; expected success | blocked | needs_revision"
    assert code == 5
    assert f"Testing (item 7, attempt 1): {reason}" in err
    assert out == ""
    left = only_state_of(terminal, login())
    assert (left["status"], left.get("retryCount", 0), "blockedReasons" in left) == ("in_progress", 0, False)
    (command,) = set(re.findall(r"interlock (resume roadmap-[0-9a-f-]+)", err))
    terminal.scenario()
    code, out, _ = terminal(*command.split())
    assert (code, "- Dispatch: Implement#1, Testing#1, Testing#1, Review#1\n" in out) == (0, True)


@pytest.mark.req("RM-61", "EV-02", "EV-03")
def test_17_review_passes_without_evidence(terminal: Terminal) -> None:
    """Review itself is asked again, with what is missing; no retry is spent and nobody else is called."""
    terminal.roadmap(*login())
    bare = json.dumps({"status": "success", "verdict": "pass", "evidence": {}})
    terminal.scenario({"agent": "Review", "message": bare, "times": 1})
    code, out, _err = terminal("run", "roadmap")
    assert code == 0
    assert "- Dispatch: Implement#1, Testing#1, Review#1\n" in out
    assert "retryCount" not in only_state_of(terminal, login())
    brief = next(terminal.root.glob(".interlock/runs/*/dispatches/item-1/attempt-1/review/Review#1/brief.md"))
    assert "evidence.checks.lint is missing; expected pass | fail | skipped" in brief.read_text()


@pytest.mark.req("RM-39", "EV-03")
def test_18_validation_answers_something_else(terminal: Terminal) -> None:
    """One re-ask, then exit 5, said on stderr; nobody builds anything because of it."""
    terminal.roadmap(*login(complexity="complex"))
    strange = json.dumps({"status": "success", "verdict": "ok"})
    terminal.scenario({"agent": "Architect", "step": "validation", "message": strange, "times": 2})
    code, _out, err = terminal("run", "roadmap")
    assert code == 5
    assert 'Architect validation (item 7, attempt 1): verdict "ok"; expected aligned | drift_detected' in err
    assert "retryCount" not in only_state_of(terminal, login(complexity="complex"))
    terminal.scenario()
    assert terminal("run", "roadmap")[0] == 0


@pytest.mark.req("RM-89")
def test_19_a_roadmap_that_cannot_be_written(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 5 before any dispatch, the bytes as they were. (The system refuses; a test may run as one it never does.)"""
    terminal.roadmap(*login())
    before = (terminal.root / FILE).read_bytes()
    real = os.replace

    def refuse(source: Any, target: Any, **more: Any) -> None:
        if str(target).endswith(FILE):
            raise PermissionError(errno.EACCES, "Permission denied", str(target))
        real(source, target, **more)

    monkeypatch.setattr(os, "replace", refuse)
    code, out, err = terminal("run", "roadmap")
    assert (code, out) == (5, "")
    assert "cannot write roadmap.json: permission denied; item 7 stays ready" in err
    assert (terminal.root / FILE).read_bytes() == before
    assert list(terminal.root.glob(".interlock/runs/*/dispatches/*")) == []


def test_20_a_byte_order_mark_is_accepted_and_kept(terminal: Terminal) -> None:
    """The run goes on, and the file keeps its mark."""
    (terminal.root / FILE).write_text("\ufeff" + spelled(login()), "utf-8")
    assert terminal("run", "roadmap")[0] == 0
    after = (terminal.root / FILE).read_bytes()
    assert after.startswith(b"\xef\xbb\xbf[")
    assert b'"status": "done"' in after
