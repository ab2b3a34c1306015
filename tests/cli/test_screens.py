"""What is seen of a run: rows, head, stages, the block of the end; on terminals of any width."""

from __future__ import annotations

import asyncio
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from interlock.agents.values import News, NewsKind
from interlock.cli import output, screens, text
from interlock.cli.live import PlainView, doing
from interlock.cli.picture import LiveView
from interlock.cli.telling import Narrator, Row, laid
from interlock.engine.afterwards import Work
from interlock.engine.events import Report
from interlock.engine.view import CallView, View
from interlock.errors import Status
from interlock.workspace.values import Change
from tests.cli.acted import RUN, Strict, play

MYPY = ".venv/bin/python -m mypy --strict src tests tools benchmarks"


def rows_of(**how: object) -> tuple[list[Row], View]:
    narrator, rows = Narrator(), list[Row]()
    view = play(lambda view, key: rows.extend(narrator.take(view, key)), **how)  # type: ignore[arg-type]
    return rows, view


# --- text


HARMLESS = {
    "a\x1b[2Jb": "a\\x1b[2Jb",
    "a\rb": "a\\rb",
    "right\u202eleft": "right\\u202eleft",
    "tag\U000e0041": "tag\\U000e0041",
    "half \ud800": "half \\ud800",
    "filler\u3164": "filler\\u3164",
    "kept\ttab\nand line, ümläut, \U0001f600\ufe0f": "kept\ttab\nand line, ümläut, \U0001f600\ufe0f",
}


def test_what_a_terminal_would_obey_or_nobody_sees_is_spelled_out() -> None:
    assert {said: text.harmless(said) for said in HARMLESS} == HARMLESS
    assert text.line("13 s  2 files\n\tand more ") == "13 s  2 files and more"
    assert text.line("日本語" * 10, 9) == "日本語日…"
    assert text.columns(text.line("日本語" * 10, 9)) == 9


def test_a_command_is_never_broken() -> None:
    words = "It waits for you, and there is much more to be said of it: interlock resume " + RUN + " --note TEXT"

    assert text.fitted(words, 40).split("\n")[-1].strip() == f"interlock resume {RUN} --note TEXT"


def test_no_row_is_wider_than_the_terminal_but_for_what_is_whole() -> None:
    """A pipe gets each row in one line."""
    rows, _ = rows_of(cast=Strict(), commands=("pytest -q", MYPY))

    for width in (20, 34, 48, 79, 80, 110):
        for row in rows:
            assert "\n" not in row.laid()
            for line in row.laid(width).split("\n"):
                assert text.columns(line) <= max(width, 18 + text.LEAST)


def test_values_in_words() -> None:
    told = {0.04: "0.0 s", 9.96: "10.0 s", 13.2: "13 s", 185: "3:05", 7800: "2:10:00"}
    assert {seconds: text.duration(seconds) for seconds in told} == told
    money = [text.money(None), text.money(0.5, False), text.money(0.0)]
    assert money == ["cost unknown", "0.50 USD + unknown", "0.00 USD"], "what nobody told is never 0"


def test_json_has_no_character_that_moves_a_cursor_and_no_number_without_a_name(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    output.print_json({"a": "x\x1b[2J\u202e", "b": float("nan"), "c": "ü"})

    raw = capsysbinary.readouterr().out.decode()
    assert raw.strip().isprintable()
    assert json.loads(raw) == {"a": "x\x1b[2J\u202e", "b": None, "c": "ü"}


@pytest.mark.req("CLI-04")
def test_only_a_terminal_is_protected_from_a_playbooks_output(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.write_output(b"a\x1b[2J")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    output.write_output(b"b\x1b[2J")
    output.print_patch(b"+\xff\x1b[2J\n")

    assert capsysbinary.readouterr().out == b"a\x1b[2Jb\\x1b[2J\n+\\xff\\x1b[2J\n"


# --- rows


@pytest.mark.req("TS-03")
def test_red_before_is_told_in_one_row_with_both_ways_on() -> None:
    rows, _ = rows_of(commands=("pytest -q", MYPY))

    told = [row.rest for row in rows if row.who == "check"][:2]
    assert told == ["red: this is what is to be done (if not: --accept-baseline)", "red: this is what is to be done"]
    allowed, _ = rows_of(accept_baseline=True)
    assert "it may stay red (--accept-baseline)" in next(row.rest for row in allowed if row.who == "check")


def test_each_thing_is_told_once_and_a_long_command_in_full_once() -> None:
    rows, view = rows_of(cast=Strict(), commands=(MYPY,))

    assert [row.what for row in rows if row.who == "check"] == [MYPY, ".venv/bin/python …", ".venv/bin/python …"]
    assert [row.rest for row in rows if row.what == "begins"] == ["simulated", "", "", ""]
    assert [(row.who, row.what) for row in rows if row.who == "round"] == [("round", "2 of 3")]
    narrator = Narrator()
    narrator.pass_by(view)
    assert narrator.take(view, "round-1/builder#1") == []


@pytest.mark.req("RUN-15", "CLI-02")
async def test_a_limit_is_told_with_its_end() -> None:
    """In the row of it, and beside who waits."""
    until, report = (
        datetime(2026, 1, 2, 17, 30, tzinfo=UTC),
        Report(agent="builder", member="", attempt=1, outcome="fault", reason="limit", complaint="used up"),
    )
    waits: dict[str, Any] = {"state": "waiting", "until": until, "tries": [report], "calls": 1}
    call = CallView("b#1", "builder", "", "round-1", 1, "claude", datetime.now(UTC), **waits)
    run = play()
    run.calls, run.ended, run.status = {"b#1": call}, None, Status.WORKING

    words = f"waits until {text.clock(until)}"
    assert ("builder", words, "limit: used up", "note") in Narrator().about(run, "b#1")
    console, file = terminal()
    with LiveView(console=console) as view:
        view.told(run, "b#1")
        assert words in drawn(view, file)


def test_what_speaks_against_the_work_stands_below_the_verdict() -> None:
    rows, _ = rows_of(cast=Strict())

    at = next(number for number, row in enumerate(rows) if row.what == "does not accept")
    assert rows[at].tone == "bad"
    assert rows[at + 1].what == "- criterion not met: the request"
    assert rows[at + 2].what.startswith("- tests/test_lib.py: there is no test")


def test_the_columns_of_design_4() -> None:
    assert laid("18:33:49  ", "check", "pytest -q", "red, 1 failed: this is what is to be done", 80) == (
        "18:33:49  check   pytest -q            red, 1 failed: this is what is to be done"
    )
    assert laid("18:34:02  ", "builder", "ok", "13 s  2 files  0.09 USD", 80) == (
        "18:34:02  builder ok                   13 s  2 files  0.09 USD"
    )
    assert laid("  ", "checks", "pytest -q", "red -> green, mended", 80) == (
        "  checks  pytest -q                    red -> green, mended"
    )


# --- head, stages, end


@pytest.mark.req("CLI-02")
def test_the_head_of_design_4() -> None:
    _, view = rows_of()
    view.calls.clear()
    view.seconds = 41
    facts = [*screens.facts(view, view.status, 121), "0.12 USD"]

    assert screens.head(view, 80, facts) == (
        "task  Make add right                             0:41  about 1:20 left  0.12 USD"
    )
    assert screens.head(view, 40, facts) == "task  Make add right      0:41  0.12 USD"


@pytest.mark.req("CLI-02")
def test_the_stages_name_who_is_in_the_present_one() -> None:
    seen: list[str] = []
    play(lambda view, key: seen.append(screens.stages(view, 80)))

    assert f"+ before   > round 1: builder  checks  reviewer        {RUN}" in seen
    assert seen[-1].startswith("+ before   + round 1 ")
    _, view = rows_of(cast=Strict())
    assert screens.stages(view, 24) == "…   + round 2"


@pytest.mark.req("CLI-03", "EVID-14")
def test_the_end_has_evidence_first_and_the_next_command_last() -> None:
    _, view = rows_of(cast=Strict())
    view.shown_by = {"by": None}
    changes = [Change(path=f"src/{n}.py", kind="changed", added=n, removed=1) for n in range(12)]

    lines = screens.ending(view, Work(changes, changes[:1]), view.status)

    assert [line[2:10].strip() for line in lines[1:6]] == ["checks", "", "judged", "", "code"]
    assert lines[1] == "  checks  pytest -q                    red -> green, mended"
    assert lines[2] == "          no check tells this work from none"
    assert lines[3] == "  judged  reviewer accepts: add returns the sum"
    assert lines[4] == "          - a docstring would help"
    assert "          and 4 more" in lines
    assert "  kept    src/0.py +0 -1               not delivered" in lines
    assert lines[-1] == "  next    interlock diff"
    view.ended = None
    assert screens.ending(view, Work(), Status.INTERRUPTED)[-1] == f"  next    interlock resume {RUN}"


# --- while it works


def drawn(view: LiveView, file: io.StringIO) -> str:
    """What the picture shows now."""
    file.truncate(0)
    file.seek(0)
    view.draw()
    return Text.from_ansi(file.getvalue()).plain.lstrip("\r")


def terminal(width: int = 80, height: int = 24) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=width, height=height, _environ={"TERM": "xterm"}), file


@pytest.mark.req("CLI-02")
async def test_the_picture_shows_who_works_with_clock_tokens_and_tool() -> None:
    console, file = terminal()
    seen: list[str] = []

    with LiveView(console=console, usual_s=1e9) as view:

        def told(run: View, key: str) -> None:
            view.told(run, key)
            call = run.calls.get(key)
            if call is not None and call.report is None and call.agent == "reviewer":
                call.started = datetime.now(UTC) - timedelta(seconds=36)
                call.spent = call.spent.model_copy(update={"input_tokens": 4100})
                facts = {"name": "Read", "subject": "lib.py", "state": "began"}
                view.hear(key, News(kind=NewsKind.TOOL, facts=facts))
                seen.append(drawn(view, file))

        play(told)
        await asyncio.sleep(0)

    assert "> reviewer        0:36  4.1k tokens    reads lib.py" in seen[-1]
    assert "> round 1: builder  checks  reviewer" in seen[-1]
    assert "left" in seen[-1].splitlines()[0]
    assert "builder begins" not in seen[-1]
    assert "check   pytest -q            green: mended" in seen[-1]


async def test_a_command_that_runs_is_seen_before_it_has_ended() -> None:
    console, file = terminal()
    facts = {"name": "setup", "subject": "pytest -q"}
    with LiveView(console=console) as view:
        view.view = View()
        view.hear("", News(kind=NewsKind.TOOL, facts={**facts, "state": "began"}))
        assert "> setup           0:00                 pytest -q" in drawn(view, file)
        view.hear("", News(kind=NewsKind.TOOL, facts={**facts, "state": "done"}))
        assert "> setup" not in drawn(view, file)


async def test_what_stays_on_a_small_terminal_reads_like_a_pipe() -> None:
    console, file = terminal(80, 8)
    with LiveView(console=console) as view:

        def told(run: View, key: str) -> None:
            view.told(run, key)
            view.draw()

        play(told, cast=Strict())
    left = Text.from_ansi(file.getvalue()).plain
    pipe, _ = rows_of(cast=Strict())
    for row in pipe:
        if row.tone != "begin":
            assert row.laid(80).split("\n")[0][10:] in left
    assert len(re.findall(rf"task  Make add right +{RUN}", left)) == 1


def test_a_typo_makes_no_noise(capsys: pytest.CaptureFixture[str]) -> None:
    view, lines = PlainView(preface=[("agents", "claude", "signed in")]), 0

    def told(run: View, key: str) -> None:
        nonlocal lines
        if not (run.ran or run.calls):
            view.told(run, key)
            lines += 1

    play(told)
    assert (lines > 0, capsys.readouterr().err) == (True, "")


DOING: list[tuple[NewsKind, dict[str, object], str]] = [
    (NewsKind.TEXT, {"text": "one\ntwo\n"}, "two"),
    (NewsKind.TOOL, {"name": "Bash", "subject": "pytest -q", "state": "began"}, "runs pytest -q"),
    (NewsKind.TOOL, {"name": "odd_tool", "subject": "", "state": "refused"}, "odd_tool refused"),
    (NewsKind.TOOL, {"name": "Bash", "subject": "x", "state": "done"}, ""),
    (NewsKind.WAITING, {"why": "limit reached"}, "waits: limit reached"),
    (NewsKind.USAGE, {"input_tokens": 3}, ""),
]


def test_what_an_agent_is_at_in_a_few_words() -> None:
    assert [doing(News(kind=kind, facts=facts)) for kind, facts, _ in DOING] == [said for *_, said in DOING]
