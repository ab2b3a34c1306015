"""Whatever agents, files and people put into a journal: log lines, report and page show it as words."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.telemetry import (
    Narrator,
    dated,
    harmless,
    markdown,
    printable,
    read_report,
    tell,
    write_report,
)
from interlock.telemetry.lines import _TELL
from tests.proofs import examples

from .conftest import page_of

START = "2026-01-01T10:00:00.000+00:00"
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\x7f\u202eevil\u2066\rover\x00|<b>`"
any_text = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=60) | st.just(EVIL)
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "in",
    "out",
    "member",
    "step",
    "outcome",
    "reason",
    "text",
    "paths",
    "patch",
    "by",
    "again",
    "gate",
    "choice",
    "choices",
    "question",
    "opening",
    "who",
    "note",
    "try",
    "runner",
    "detail",
    "complaints",
    "seconds",
    "changes",
    "cost_usd",
    "move",
    "delay_s",
    "status",
    "what",
    "from",
    "bytes",
    "pid",
    "argv",
    "loop",
    "turn",
    "cap",
    "members",
    "part",
    "needs",
    "policy",
    "at_once",
    "dispatch",
    "conflicts",
    "path",
    "folder",
    "file",
    "why",
    "playbook",
    "key",
    "version",
    "n",
    "how",
    "restored",
    "left",
    "ignored",
    "session",
    "lines",
    "dropped",
    "commands",
    "problems",
    "red",
    "named",
    "item",
    "task",
    "title",
    "reasons",
    "passed",
    "against",
    "name",
    "command",
    "problem",
    "tail",
    "known",
    "new",
    "definitions",
]
data = st.dictionaries(st.sampled_from(FIELDS) | any_text, values, max_size=6)


class Made:
    """A journal line with anything in it."""

    def __init__(self, event: str, facts: dict[str, Any], text: str) -> None:
        self.event, self.data = event, facts
        self.key = self.agent = text
        self.attempt = self.iteration = None
        self.ts = START


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.req("LY-43")
@examples(4)
@given(st.sampled_from([*_TELL, "an.event.of.a.playbook"]) | any_text, data, any_text)
def test_every_event_is_told_in_words_alone(event: str, facts: dict[str, Any], text: str) -> None:
    """All events that have words of their own, those that have none, and fields that nobody expects; in a log every
    further line is moved in, so that none passes for another event."""
    line: Any = Made(event, facts, text)
    assert is_harmless(tell(line).text)
    first, *more = dated(line, Narrator().tell(line)).split("\n")
    assert first.isprintable()
    assert all(row.isprintable() and row.startswith(" " * 10) for row in more if row)


@pytest.mark.req("LY-43")
@pytest.mark.parametrize("event", [*_TELL, "an.event.of.a.playbook"])
def test_every_event_is_told_when_all_its_texts_are_meant_for_the_terminal(event: str) -> None:
    """Each field that carries text, of every event there is."""
    facts: dict[str, Any] = dict.fromkeys(FIELDS, EVIL)
    lists = {
        name: [EVIL] for name in ("paths", "complaints", "members", "argv", "restored", "left", "what", "commands")
    }
    inner = {EVIL: EVIL, "rule": EVIL, "row": EVIL, "result": EVIL, "path": EVIL, "folder": EVIL}
    mappings: dict[str, Any] = {"in": inner, "out": inner, "needs": {EVIL: [EVIL]}, "ignored": {EVIL: 1}}
    numbers = {"seconds": 1.0, "try": 2, "changes": 1, "cost_usd": 0.5, "delay_s": 1.0, "opening": 2, "at_once": 1}
    for shape in (facts, {**facts, **lists}, {**facts, **lists, **mappings, **numbers}):
        line: Any = Made(event, shape, EVIL)
        told = tell(line).text
        assert is_harmless(told)
    assert "owned" in told or event in QUIET


QUIET = frozenset({"run.resumed", "run.interrupted", "run.reopened", "divergence.accepted"})
"""Events that are told without any text of others."""


class Page(HTMLParser):
    """What a browser would take for tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


@pytest.mark.req("LY-43", "LY-31")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_text)
def test_report_and_page_show_words_only(tmp_path: Path, dispatch_end: Any, make_line: Any, text: str) -> None:
    """Names of files, agents, steps and runs, notes, inputs, complaints: in both forms, and in the kept file."""
    run = made_run(tmp_path, dispatch_end, make_line, text)
    report = read_report(run)
    for page in (markdown(report), page_of(run), write_report(run).read_text("utf-8")):
        assert is_harmless(page)
        assert page.encode()
    seen = Page()
    seen.feed(page_of(run))
    assert "b" not in seen.tags
    table = [line for line in markdown(report).splitlines() if line.startswith("| ") and "attempt" not in line]
    assert all(line.count("|") - line.count("\\|") in (5, 10) for line in table)


def made_run(folder: Path, dispatch_end: Any, make_line: Any, text: str) -> Any:
    """A run in which everything that can be called anything is called so."""
    end = dispatch_end(member=text, step=text, reason=text, outcome="FAIL", complaints=[text], detail=text)
    records = folder / "dispatches" / end.key
    records.mkdir(parents=True, exist_ok=True)
    lists = {name: [text, text] for name in ("changes", "violations", "complaints")}
    (records / "result.json").write_text(json.dumps(lists))
    gate = {"gate": text, "question": text, "opening": 1, "choice": text, "who": text, "note": text, "digests": {}}
    out = {"rule": text, "row": text, "result": {text: text}}
    lines = [
        make_line("run.start", data={"playbook": text, "key": text}),
        end,
        make_line("decide", text, data={"in": {}, "out": out, "inputs": [text, {text: text}]}),
        make_line("gate.opened", text, data=gate),
        make_line("gate.decided", text, data=gate),
        make_line("warning", text, data={"text": text}),
        make_line("run.end", data={"status": "stopped", "reason": text}),
    ]

    class Run:
        path = folder

        def identity(self) -> Any:
            class Identity:
                run_id, playbook, key, inputs = text, text, text, {text: text}
                version, started_at, continues = text, START, text

            return Identity()

        def lines(self) -> list[Any]:
            return lines

    return Run()


@pytest.mark.req("LY-43")
def test_lines_and_tabs_stay_and_nothing_else_that_moves() -> None:
    """Of both kinds of text: one line, and several."""
    assert printable(EVIL).isprintable()
    assert printable("a\tb\nc") == "a\\tb\\nc"
    assert harmless("a\tb\r\nc\rd\n") == "a\tb\nc\\rd\n"
    assert harmless("\x1b[31m\x9b1m\u202e\ud800\x7f") == "\\x1b[31m\\x9b1m\\u202e\\ud800\\x7f"


@pytest.mark.req("LY-40", "LY-42")
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"\xff", b"[" * 50_000, b'{"changes": "x"}', b'{"changes": 5}']
)
def test_odd_records_of_a_dispatch_are_passed_over(
    tmp_path: Path, dispatch_end: Any, make_line: Any, content: bytes
) -> None:
    """The journal has the facts; a result that cannot be read adds nothing."""
    run = made_run(tmp_path, dispatch_end, make_line, "x")
    (tmp_path / "dispatches" / "build" / "builder#1" / "result.json").write_bytes(content)
    assert read_report(run).dispatches[0].changes == ()
