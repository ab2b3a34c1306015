"""What the page tells: the board, a run, a dispatch, what changed, one file (PAGE-01, PAGE-03)."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil

import pytest

from interlock.engine.runs import Entry
from interlock.web.dispatch import dispatch_page
from interlock.web.rendering import static
from interlock.web.run import ROWS
from interlock.web.shelf import Shelf
from tests.web.conftest import Site
from tests.web.many import lay


def parts(site: Site, query: str = "") -> list[list[str]]:
    """The runs of each part of the board."""
    sections = site.get(f"/{query}").text.split("<section")[1:]
    return [re.findall(r'<li id="([^"]+)" class="run"', section) for section in sections]


@pytest.mark.req("PAGE-01")
def test_the_board_has_first_what_waits_for_a_person(site: Site) -> None:
    task, ship = site.entry("task").id, site.entry("ship").id
    assert parts(site) == [[ship], [], [task]]
    board = site.get("/").text
    for piece in ("Ship a kite?", f'href="/runs/{ship}/gate"', f'href="/runs/{task}"', "<title>(1) Runs"):
        assert piece in board, piece
    narrowed = {"?q=KITE": [[ship], [], []], "?q=complete": [[], [], [task]], "?q=ship+waiting": [[ship], [], []]}
    for query, found in narrowed.items():
        assert parts(site, query) == found
    nothing = site.get("/?q=%3Cb%3E%22&page=9999999999")
    assert ("No run is like that." in nothing.words, "<b>" in nothing.text) == (True, False)


@pytest.mark.req("PAGE-01")
def test_runs_that_cannot_be_read_or_are_elsewhere_stand_on_the_board(site: Site) -> None:
    """A damaged one says what to do, and so does its page; one of elsewhere is looked at and not decided here."""
    task, ship, form = site.entry("task"), site.entry("ship"), site.deciding()
    task.journal.write_bytes(b'{"<b>"\n' + task.journal.read_bytes())
    away = ship.path.parents[1] / "far" / ship.id
    away.parent.mkdir()
    ship.path.rename(away)
    (away / "held.json").write_text(json.dumps({"holder": "worker-7", "remote": "origin"}))
    board = site.get("/")
    assert parts(site) == [[], [ship.id], [task.id]]
    assert f"interlock doctor --mend {task.id}" in board.words
    damaged = site.get(f"/runs/{task.id}")
    assert (damaged.status, "doctor --mend" in damaged.words, "<b>" in damaged.text) == (409, True, False)
    page = site.get(f"/runs/{ship.id}")
    assert "working elsewhere" in page.words
    assert "<form" not in page.text
    assert site.get(f"/runs/{ship.id}/gate").status == 303
    late = site.post(f"/runs/{ship.id}/gate", form)
    assert (late.status, f"interlock fleet take {ship.id}" in late.words) == (409, True)
    assert Entry(away).folder.messages() == []


@pytest.mark.req("PAGE-01", "CLI-03", "CLI-07")
def test_a_run_tells_request_verdict_and_receipt(site: Site) -> None:
    page = site.get(site.at("task"))
    head, receipt, steps = re.split(r"<dl class=\"receipt\">|<h2>Steps</h2>", page.text)
    assert "<h1>Make add right</h1>" in head
    assert 'class="verdict done"' in head
    told = re.sub(r"\s+", " ", re.sub("<[^>]*>", "", receipt))
    for words in ("sh check.sh red → green, mended", "reviewer accepts", "the request", "lib.py +1 −1", "untouched"):
        assert words in told, words
    assert re.sub("<[^>]*>", "", steps).count("builder") >= 2, "in its step and in the timeline"
    assert "interlock diff task-" in page.words


@pytest.mark.req("PAGE-01", "CLI-07")
def test_decisions_are_told_by_what_they_came_from_and_not_by_their_rules(site: Site) -> None:
    site.post(site.at("ship", "/gate"), site.deciding(choice="reject", note="no"))
    view = site.entry("ship").view()
    (decided,) = view.decisions
    page = site.get(site.at("ship")).words
    assert f"decided {decided.result}" in page
    assert decided.rule not in page
    assert all(f"{name} {value}" in page for name, value in decided.inputs.items())


@pytest.mark.req("PAGE-01")
def test_a_dispatch_has_brief_answer_transcript_diff_and_checks(site: Site) -> None:
    page = site.get(site.dispatch("builder", "task"))
    for words in ("builder: ok", "I mended add.", "return a + b", "Make add right"):
        assert words in page.words, words
    assert "I mended <em>add</em>." in page.text, "its answer as Markdown"
    assert "<pre>I mended *add*.</pre>" in page.text, "its transcript as it is"
    judged = site.get(site.dispatch("reviewer", "task")).words
    assert "reviewer: accepts" in judged and "1 criterion" in judged


@pytest.mark.req("PAGE-01")
def test_what_changed_is_shown_and_can_be_taken_along(site: Site) -> None:
    assert "return a + b" in site.get(site.at("task", "/diff")).words
    patch = site.get(site.at("task", "/changes.patch"))
    assert patch.header("content-disposition").startswith("attachment")
    site.interlock.run_git("stash", "-q")
    (site.interlock.top / "work.patch").write_bytes(patch.body)
    site.interlock.run_git("apply", "work.patch")
    assert "a + b" in site.interlock.read("lib.py")


@pytest.mark.req("PAGE-01")
def test_what_cannot_be_put_together_is_not_nothing(site: Site) -> None:
    """Where the trees are gone the page says so, beside the button too."""
    form = site.deciding()
    shutil.rmtree(site.interlock.top / ".interlock/trees.git/objects")
    for more in ("", "/gate", "/diff"):
        assert "cannot be read" in site.get(site.at("ship", more)).words, more
    assert "perhaps more than that" in site.get(site.at("ship", "/gate")).words
    assert site.post(site.at("ship", "/gate"), {**form, "seen": "{}"}).status == 400


@pytest.mark.req("PAGE-01", "PERSON-01")
def test_looking_changes_nothing(site: Site) -> None:
    run = site.at("ship")
    every = ("/", run, f"{run}/gate", f"{run}/diff", f"{run}/changes.patch", site.dispatch("planner", "ship"))
    assert site.get(every[3]).status == 200, "trees that were copied with their workspace learn where it is"
    before = site.interlock.bytes_of_all()
    for where in every:
        assert site.get(where).status == 200, where
    assert site.interlock.bytes_of_all() == before


@pytest.mark.req("PAGE-01", "PAGE-04")
def test_a_long_run_is_folded_and_paged(site: Site) -> None:
    """Of many steps the latest is open; what is too much for a page is on the one before."""
    run = lay(site.entry().path.parent, 1, dispatches=400)
    last, first = site.get(f"/runs/{run}"), site.get(f"/runs/{run}?page=0")
    steps = [re.findall(r"<summary>.*?<b>(round [0-9]+)</b>", page.text) for page in (first, last)]
    assert (steps[0][0], steps[1][-1]) == ("round 1", "round 100")
    assert len(re.findall('<li class="[a-z]+"><span class="who">', last.text)) <= ROWS
    assert ("later" in first.words, "earlier" in last.words) == (True, True)
    assert '<details class="fold step" open' not in first.text
    assert len(last.body) < 100_000


@pytest.mark.req("PAGE-03", "PAGE-02")
def test_a_run_is_one_file(site: Site) -> None:
    """From the same templates: no script, nothing from elsewhere, no form; its style is the one that it allows."""
    file = site.interlock.top / "run.html"
    done = site.interlock("show", "task", "--html", "run.html")
    assert (done.code, done.out) == (0, ""), done.err
    text = html.unescape(file.read_text("utf-8"))
    digest = base64.b64encode(hashlib.sha256(static()["page.css"]).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text
    assert f"<style>{static()['page.css'].decode()}</style>" in text
    assert not re.findall(r"<script|<form|<link|<img|\son\w+=|(?:src|action)=", text)
    assert "return a + b" in text
    assert "red → green, mended" in text
    file.write_text("mine")
    assert site.interlock("show", "ship", "--html", str(file)).code == 0
    assert "Ship a kite?" in file.read_text("utf-8")
    assert site.interlock("show", "task", "--html", "nowhere/run.html").code == 5


@pytest.mark.req("RUN-18")
def test_no_secret_is_on_the_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of documents, differences and records what is secret now is not shown, whatever was known when they were made."""
    monkeypatch.setenv("THE_API_KEY", "mended *add*")
    monkeypatch.setenv("A_TOKEN", "return a + b")
    monkeypatch.setenv("B_TOKEN", "Cut the **sails**")
    for where in (site.at("task", "/diff"), site.at("task", "/changes.patch"), site.dispatch("builder", "task")):
        got = site.get(where)
        assert "return a + b" not in got.words, where
        assert "[redacted:A_TOKEN]" in got.text, where
    assert "[redacted:B_TOKEN]" in site.get(site.at("ship", "/gate")).words
    assert "<em>add</em>" not in site.get(site.dispatch("builder", "task")).text


@pytest.mark.req("PAGE-01")
def test_a_transcript_is_read_in_pages_whatever_stands_in_it(site: Site) -> None:
    """Lines longer than memory should hold, broken ones, ones of another client: pages of whole lines, all of them."""
    entry = site.entry("task")
    call = next(iter(entry.view().calls.values()))
    place = entry.folder.transcript(call.key, 1)
    rows = [f"line {number} {'x' * 90}" for number in range(3000)]
    place.write_text("\n".join([*rows[:1500], "y" * 300_000, *rows[1500:]]))
    shelf, seen, page = Shelf(site.interlock.top), list[str](), 0
    while True:
        facts = dispatch_page(shelf, entry, call.key, None, page)["transcript"]
        seen += [row for one in facts["said"] for row in str(one.body).splitlines()]
        if (page := page + 1) == facts["pages"]:
            break
    assert [row for row in seen if not row.startswith("y")] == rows
    assert [len(row) for row in seen if row.startswith("y")] == [len("y" * 2000 + " (this line goes on)")]


STREAM = """\
{"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
{"type": "assistant", "message": {"id": "1", "usage": {"input_tokens": 5, "output_tokens": 5}, "content": [
 {"type": "text", "text": "I look at **it**, the-secret-that-was-split"},
 {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls -la"}}]}}
{"type": "user", "message": {"content": [
 {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no"}]}}
{"type": "assistant", "message": broken
"""


@pytest.mark.req("PAGE-01", "RUN-18")
def test_a_stream_is_read_by_its_client(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said, each tool once with how it ended, a line that is none as it is; no secret in pieces."""
    monkeypatch.setenv("A_TOKEN", "the-secret-that-was-split")
    run = lay(site.entry().path.parent, 5, dispatches=1)
    place = site.entry(run).folder.transcript("round-1/builder#1", 1)
    place.parent.mkdir(parents=True)
    place.write_text(STREAM.replace("\n ", " "))
    page = site.get(f"/runs/{run}/dispatches/round-1/builder%231").text
    assert "I look at <strong>it</strong>, [redacted:A_TOKEN]" in page
    assert page.count("runs ls -la") == 1
    assert '<span class="mark failed" aria-hidden="true">✕</span> <code>runs ls -la' in page
    assert "<pre>{&#34;type&#34;: &#34;assistant&#34;, &#34;message&#34;: broken</pre>" in page
