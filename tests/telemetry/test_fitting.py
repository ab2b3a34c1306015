"""Words for people go on below at a word, and what is copied stays whole."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.main import app
from interlock.telemetry.fitting import COMMANDS, LEAST, columns, fitted

RUN = "feature-20261118-092450-2bcc"
words = st.lists(st.text("abcé漢", min_size=1, max_size=12), min_size=1, max_size=30)


@pytest.mark.req("EV-30")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("short enough", ["short enough"]),
        ("  reason: the reviewer objects to it", ["  reason: the reviewer", "    objects to it"]),
        ("12:00:00  the reviewer objects to it", ["12:00:00  the reviewer objects", "          to it"]),
        ("- the reviewer objects to it", ["- the reviewer objects", "  to it"]),
        (f"  {'x' * 30} and more", [f"  {'x' * 30}", "    and more"]),
        ("a   b   and so on, as it goes", ["a   b   and so on, as it", "  goes"]),
        ("", [""]),
        ("one\ntwo of them are longer than that", ["one", "two of them are longer", "  than that"]),
    ],
)
def test_a_row_goes_on_below_at_a_word(text: str, rows: list[str]) -> None:
    """Set in below its beginning; a longer word has a row of its own, and columns of a table stay apart."""
    assert fitted(text, 24).split("\n") == rows


@pytest.mark.req("EV-26")
@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (f'reject: interlock reject {RUN} --note "what is to be changed" --resume', ["interlock reject"]),
        (f"It stopped; go on with interlock resume {RUN} --retry, or not.", [f"interlock resume {RUN} --retry,"]),
        (f"interlock -C 'a b' show {RUN} or interlock why {RUN}", [f"'a b' show {RUN}", f"interlock why {RUN}"]),
        (f"take it back: interlock diff {RUN} | git apply -R", [f"interlock diff {RUN} | git apply -R"]),
    ],
)
def test_a_command_is_never_broken(text: str, whole: list[str]) -> None:
    """It is copied from there; the terminal knows where it broke a line, and nobody else does."""
    rows = fitted(text, 30).split("\n")
    assert len(rows) > 1
    assert all(any(one in row for row in rows) for one in whole)
    if "--note" in text:
        assert rows[-1].endswith('--note "what is to be changed" --resume')


def test_prose_about_interlock_is_prose() -> None:
    assert fitted("interlock refuses what nobody asked for", 24).split("\n") == [
        "interlock refuses what",
        "  nobody asked for",
    ]


@given(words, st.integers(LEAST, 60))
def test_nothing_is_lost_and_no_row_is_too_wide(said: list[str], width: int) -> None:
    """Whatever the letters: a row that is too wide is a single word."""
    rows = fitted(" ".join(said), width).split("\n")
    assert " ".join(rows).split() == said
    assert all(columns(row) <= max(width, LEAST + 2) or len(row.split()) == 1 for row in rows)


def test_every_command_is_known() -> None:
    """The list is that of the command line."""
    assert set(COMMANDS) == set(typer.main.get_command(app).list_commands(None))  # type: ignore[attr-defined]


def test_columns_are_what_a_terminal_takes() -> None:
    """Two for a wide letter, none for a mark on the one before it."""
    texts = ("abc", "\u00e9", "e\u0301", "e\u0334", "\u6f22", "\uff21", "a\u6f22e\u0301")
    assert [columns(text) for text in texts] == [3, 1, 1, 1, 2, 2, 4]


def test_what_fits_is_left_as_it_is() -> None:
    assert fitted("abc ", 4) == "abc "
    assert fitted("  a   b  ", 80) == "  a   b  "


def test_words_get_some_columns_however_narrow_it_is() -> None:
    """Twenty behind what a row begins with."""
    rows = ["  aaaaa aaaaa aaaaa", "    aaaaa aaaaa aaaaa", "    aaaaa aaaaa"]
    assert fitted("  " + "aaaaa " * 8, 5).split("\n") == rows
    assert fitted("  aaaaaaaaa bbbbbbbbbb c", 5).split("\n") == ["  aaaaaaaaa bbbbbbbbbb c"]
