"""Pages of real runs, as data and in a real browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from interlock.engine.folder import Elsewhere, KnownRun
from interlock.errors import Refused
from interlock.pages import (
    BoardQuery,
    DispatchView,
    MessageView,
    Shelf,
    Visit,
    board_view,
    dispatch_view,
    gate_view,
    headline,
    listed,
    one_file_of,
    parts,
    render,
    run_view,
)
from interlock.pages.dispatch import view_of
from interlock.pages.timeline import _ticks
from interlock.pages.transcript import PAGE, transcript_page
from interlock.telemetry import Tone, waiting_gate
from tests.browser import tab
from tools.pictures import scenes
from tools.pictures.__main__ import START, served

VISIT = Visit("ann", "the-token", workspaces=("purse",))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf.of("purse", scenes.prepare(tmp_path_factory.mktemp("pages") / "purse", pauses=False))


@pytest.fixture(scope="module")
def troubled(shelf: Shelf) -> KnownRun:
    return scenes.had_trouble(shelf.root)


@pytest.fixture(scope="module")
def waiting(shelf: Shelf, troubled: KnownRun) -> KnownRun:
    return scenes.waits(shelf.root)


@pytest.fixture(scope="module")
def found(shelf: Shelf, troubled: KnownRun, waiting: KnownRun) -> Iterator[dict[str, str]]:
    gate = waiting_gate(waiting.folder.lines())
    assert gate is not None
    view = run_view(shelf, troubled, None)
    yield {
        "board": render(board_view([listed(shelf, one, None) for one in (troubled, waiting)]), VISIT),
        "run": render(view, VISIT),
        "dispatch": render(dispatch_view(shelf, troubled, view.dispatches[0].key), VISIT),
        "transcript": render(_at_work(shelf, troubled), VISIT),
        "nothing": render(board_view([]), replace(VISIT, workspaces=("purse", "ledger"))),
        "start": render(START, VISIT),
        "message": render(MessageView("There is no such page", "Nothing.", "Go back."), VISIT),
        "gate": render(gate_view(shelf, waiting, gate), VISIT),
        "report": one_file_of(shelf, troubled),
    }


def _at_work(shelf: Shelf, known: KnownRun) -> DispatchView:
    """A dispatch as it was while its agent worked, which said and did something of each kind."""
    lines = known.folder.lines()
    begun = next(number for number, line in enumerate(lines) if line.event == "dispatch.start")
    key = str(lines[begun].key)
    said = (
        {"kind": "started"},
        {"kind": "plan", "entries": [["look", "completed"], ["mend", "in_progress"], ["test", "pending"]]},
        {"kind": "text", "text": "### I look\n\nat `it`."},
        {"kind": "thought", "text": "Hm."},
        {"kind": "tool", "name": "Bash", "subject": "make test", "state": "failed", "call": "1"},
        {"kind": "waiting", "why": "a limit"},
    )
    text = "".join(json.dumps({"ts": lines[begun].ts, **one}) + "\n" for one in said)
    (known.folder.folder(key) / "transcript.jsonl").write_text(text, "utf-8")
    return view_of(shelf, known, lines[: begun + 1], key, holder="process 7")


@pytest.mark.req("WB-02")
def test_the_board_has_what_waits_first_and_finds_by_words(shelf: Shelf, troubled: KnownRun, waiting: KnownRun) -> None:
    """In the words of whoever asked, with stage and question; filters and search leave the rest out."""
    rows = [listed(shelf, one, None) for one in (troubled, waiting)]
    board = board_view(rows)
    assert [one.headline for one in board.waiting] == [scenes.REQUEST]
    assert board.waiting[0].asks
    assert board.waiting[0].stage
    assert [one.headline for one in board.past] == [scenes.TROUBLED]
    assert board.past[0].cost
    assert not board_view(rows, BoardQuery.of({"q": "calendar"})).waiting
    assert board_view([listed(shelf, troubled, "process 7")]).working


@pytest.mark.req("WB-02")
def test_a_run_of_ones_own_playbook_is_called_what_was_asked_for(troubled: KnownRun) -> None:
    """Also where its inputs have other names than ours."""
    inputs = {"slug": "x", "text": "Mend the gate", "check": "make test"}
    assert headline(replace(troubled.identity, inputs=inputs)) == "Mend the gate"


@pytest.mark.req("WB-03")
def test_a_run_page_says_how_it_stands_and_why(shelf: Shelf, troubled: KnownRun) -> None:
    """Headline, stages, timeline with retries, decisions with inputs, cost over time, code apart from documents."""
    view = run_view(shelf, troubled, None)
    assert (view.headline, view.tone) == (scenes.TROUBLED, Tone.DONE)
    assert view.steps
    assert any(one.retries for row in view.timeline.rows for one in row.stretches)
    assert all(one.given and one.rule for one in view.decisions)
    assert [plot.name for plot in view.plots] == ["Cost", "Tokens"]
    assert "purse/entries.py" in [file.path for file in view.code.files]
    assert set(parts(view, VISIT)) == set(re.findall(r'id="(run-[a-z]+)"', render(view, VISIT)))


@pytest.mark.req("WB-04")
def test_a_dispatch_page_has_its_tries_and_why(shelf: Shelf, troubled: KnownRun) -> None:
    """The crash and what followed, brief, answer, difference; a key that is none is refused."""
    first = run_view(shelf, troubled, None).dispatches[0]
    view = dispatch_view(shelf, troubled, first.key)
    assert [one.tone for one in view.tries] == [Tone.FAILED, Tone.DONE]
    assert view.brief and view.answer and view.diff.files
    with pytest.raises(Refused):
        dispatch_view(shelf, troubled, "../../../etc/passwd")


@pytest.mark.req("WB-04")
def test_a_dispatch_without_an_end_is_at_work_or_was_cut_off(shelf: Shelf, troubled: KnownRun) -> None:
    """Which of both, whoever holds the run says; while it works, its page begins with the last of its transcript."""
    lines = troubled.folder.lines()
    begun = next(number for number, line in enumerate(lines) if line.event == "dispatch.start")
    open_, key = lines[: begun + 1], str(lines[begun].key)
    works = view_of(shelf, troubled, open_, key, holder="process 7")
    died = view_of(shelf, troubled, open_, key)
    assert [(one.tone, one.outcome, one.live) for one in (works, died)] == [
        (Tone.WORKS, "at work", True),
        (Tone.FAILED, "cut off", False),
    ]
    assert "data-stream=" in render(works, replace(VISIT, since="x"))
    assert "data-stream=" not in render(died, replace(VISIT, since="x"))


@pytest.mark.req("WB-03")
def test_a_list_of_dispatches_has_what_judges_said_and_the_playbooks_own_attempts(
    shelf: Shelf, troubled: KnownRun
) -> None:
    """An agent that was called again is at the same attempt; a verdict against the work has its reason."""
    view = run_view(shelf, troubled, None)
    assert [(one.member, one.attempt, one.retries) for one in view.dispatches][:3] == [
        ("builder", 1, 1),
        ("builder", 2, 0),
        ("reviewer", 2, 0),
    ]
    assert view.dispatches[2].complaints == ("tests/: nothing tests what was asked for",)
    assert view.totals.against == 1
    assert {one.step for one in view.dispatches} <= {title for title, _ in view.steps}


@pytest.mark.req("WB-03")
@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (11.4, ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (7000, ["0", "30 min", "1 h", "1 h 30 min"]),
    ],
)
def test_times_along_the_timeline_are_round(seconds: float, words: list[str]) -> None:
    """As people count them, however long it took."""
    assert [word for _, word in _ticks(seconds)] == words


@pytest.mark.req("WB-04")
def test_a_long_transcript_is_shown_page_by_page(tmp_path: Path) -> None:
    """Every line stands on exactly one page."""
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(f'{{"kind": "text", "text": "line {n:06} {"x" * 50}"}}\n' for n in range(5000)))
    first = transcript_page(path)
    assert first.pages == -(-path.stat().st_size // PAGE)
    texts = [str(one.body) for number in range(first.pages) for one in transcript_page(path, number).entries]
    assert [int(text.split()[1]) for text in texts] == list(range(5000))


@pytest.mark.req("WB-05")
def test_a_gate_page_carries_the_digests_of_what_it_shows(shelf: Shelf, waiting: KnownRun) -> None:
    """Question, documents rendered, choices with a note; the form is bound to the bytes shown."""
    gate = waiting_gate(waiting.folder.lines())
    assert gate is not None
    view = gate_view(shelf, waiting, gate)
    assert {one.now.path: one.now.digest for one in view.documents} == gate.digests
    page = render(view, VISIT)
    assert gate.question in page
    assert all(f'name="choice" value="{name}"' in page for name in gate.names)
    assert "the-token" not in render(view, Visit("ann", "the-token", may_act=False))


@pytest.mark.req("WB-02", "WB-03")
def test_a_run_that_somebody_else_has_can_only_be_read(shelf: Shelf, waiting: KnownRun) -> None:
    """Board and page say who has it; it asks nobody here, and has no button that would be refused."""
    waiting.folder.leave_to(
        Elsewhere("bob@build has it (origin)", "2026-11-18T01:00:00Z", "sent", "Get it back with: interlock take X")
    )
    try:
        row, view = listed(shelf, waiting, None), run_view(shelf, waiting, None)
    finally:
        waiting.folder.leave_to(None)
    assert (row.part, row.asks, "bob@build has it" in row.how) == ("past", False, True)
    page = render(view, VISIT)
    assert "bob@build has it" in page
    assert not re.search(r"<form|/gate", page)


@pytest.mark.req("WK-03")
def test_a_run_of_the_fleet_is_steered_where_only_a_copy_is(shelf: Shelf, waiting: KnownRun) -> None:
    """What people say here reaches it: it asks, and has its buttons; the board says who has it."""
    waiting.folder.leave_to(Elsewhere("bob@build has it on origin", "", "fetched", "", listens=True))
    try:
        row, view = listed(shelf, waiting, None), run_view(shelf, waiting, None)
    finally:
        waiting.folder.leave_to(None)
    assert (row.part, row.asks, row.where) == ("waiting", True, "bob@build has it on origin")
    assert re.search(r"<form", render(view, VISIT))


@pytest.mark.req("WB-12")
def test_the_one_file_needs_no_server(found: dict[str, str]) -> None:
    """Request as headline, brief, answer and patch to unfold; no link to a server, no form, no script."""
    page = found["report"]
    assert f"<h1>{scenes.TROUBLED}</h1>" in page
    assert all(word in page for word in ("Brief", "Answer", "Decisions", "critical", "purse/entries.py"))
    assert not re.search(r"<(script|form|link)\b", page)
    assert "default-src 'none'" in html.unescape(page).partition("<style>")[0]
    links = re.findall(r'href="([^"]*)"', page)
    anchors = set(re.findall(r'id="([^"]*)"', page))
    assert links and all(link[0] == "#" and link[1:] in anchors for link in links)


@pytest.mark.req("WB-12")
def test_the_one_file_of_a_long_run_says_what_it_leaves_out(
    shelf: Shelf, troubled: KnownRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not go well is there; what is not is in the list without a link, and counted."""
    monkeypatch.setattr("interlock.pages.rendering.IN_ONE_FILE", 2)
    page = one_file_of(shelf, troubled)
    number = len(run_view(shelf, troubled, None).dispatches)
    assert number > 2
    assert f"2 of {number}: those that did not go well" in page
    anchors = set(re.findall(r'id="([^"]*)"', page))
    assert all(link[1:] in anchors for link in re.findall(r'href="([^"]*)"', page))
    assert len([one for one in anchors if re.fullmatch(r"dispatch-\d+", one)]) == 2


@pytest.mark.req("WB-11")
@pytest.mark.parametrize(
    "name", ["board", "nothing", "run", "dispatch", "transcript", "gate", "start", "message", "report"]
)
def test_pages_fit_a_phone_and_everybody(chromium: Browser, found: dict[str, str], name: str) -> None:
    """390 px without sideways scrolling, dark and light, and axe-core has nothing to say, whatever is unfolded."""
    with served(found) as address:
        for width, dark in ((390, True), (1440, False)):
            with tab(chromium, width=width, dark=dark) as page:
                page.goto(f"{address}/{name}")
                page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                code = "[...document.querySelectorAll('.diff .code')].map(one => one.getBoundingClientRect().width)"
                assert all(wide > width / 2 for wide in page.evaluate(code)), "code needs room to be read"
                page.context.new_cdp_session(page).send("Page.setBypassCSP", {"enabled": True})
                page.reload()
                page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
                found_there = Axe().run(page).response["violations"]
                assert [(one["impact"], one["id"], one["nodes"][0]["html"][:200]) for one in found_there] == []
