"""Text as documents have it."""

from __future__ import annotations

import pytest

from interlock.documents import few, one_line


@pytest.mark.parametrize(
    ("texts", "said"),
    [((), ""), (("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d", "e"), "a, b, c and 2 more")],
)
def test_a_few_are_named_and_the_others_counted(texts: tuple[str, ...], said: str) -> None:
    """All of them where they are few."""
    assert few(texts) == said


def test_how_many_are_named_and_what_stands_between_them_can_be_said() -> None:
    """Commits have commas in them."""
    assert few(["a, b", "c", "d"], 2, "; ") == "a, b; c and 1 more"


def test_a_line_is_one_line_and_moves_no_cursor() -> None:
    """Line breaks are blanks, what is not printable is spelled out."""
    assert one_line(" a\n b\t\x1b[1m ") == r"a b \x1b[1m"
