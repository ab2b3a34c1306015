"""What a command's output says has failed, so that two outputs can be compared."""

from __future__ import annotations

import pytest

from interlock.contracts.failures import failures_in, told_failed, told_idle
from tests.contracts.told import EMPTY_OUTPUT, GREEN_OUTPUT, RED_OUTPUT


@pytest.mark.req("EV-05")
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("FAILED tests/test_a.py::test_it - assert 1 == 2", "tests/test_a.py::test_it"),
        ("ERROR tests/test_a.py", "tests/test_a.py"),
        ("FAIL: test_it (tests.A)", "test_it (tests.A)"),
        ("    --- FAIL: TestIt (0.00s)", "TestIt"),
        ("  ✕ adds two numbers (5 ms)", "adds two numbers"),
        (" FAIL  src/a.test.ts > adds [12ms]", "src/a.test.ts > adds"),
        ("not ok 3 - adds", "adds"),
        ("test a::adds ... FAILED", "a::adds"),
        ("  1) adds two numbers", "adds two numbers"),
        ("[ERROR] ATest.adds:12", "ATest.adds:12"),
        ("src/a.c:3:5: error: missing ;", "src/a.c missing ;"),
        ("src/a.ts(3,5): error TS1005: ';' expected.", "src/a.ts TS1005: ';' expected."),
        ("\x1b[31mFAILED tests/a.py::b\x1b[0m", "tests/a.py::b"),
    ],
)
def test_what_failed_is_known_by_its_name(line: str, name: str) -> None:
    """In the words of each runner, without colours, times and line numbers; what else is printed does not count."""
    assert failures_in(f"collected 3 items in 0.12s\n{line}\n3 passed\n") == {name}


@pytest.mark.req("EV-05")
def test_without_names_every_line_counts_but_for_its_numbers() -> None:
    """The same output of another time, at other addresses, is the same."""
    assert failures_in("it broke at 0x7f3a after 12 tries\n\n  in 3.5 seconds\n") == {
        "it broke at # after # tries",
        "in",
    }
    assert failures_in("\n \n") == frozenset()


@pytest.mark.req("EV-01")
def test_what_programs_print_when_something_failed() -> None:
    """It is quoted; colours do not hide it, and nothing else is taken for it."""
    for text in RED_OUTPUT:
        assert told_failed(text) and told_failed(f"$ make test\n{text}"), text
        assert told_failed(told_failed(text)), text
    assert [text for text in (*GREEN_OUTPUT, *EMPTY_OUTPUT) if told_failed(text)] == []
    assert told_failed("\x1b[31m2 failed\x1b[0m, 3 passed") == "2 failed"
    assert told_failed("ok. FAILED tests/test_a.py::b") == "FAILED tests/test_a.py::b"
    assert told_failed("4 of 7 passed") == "4 of 7 passed"


@pytest.mark.req("EV-02")
def test_what_programs_print_when_nothing_ran() -> None:
    """Unless something else did."""
    for text in EMPTY_OUTPUT:
        assert told_idle(text), text
        assert told_idle(f"{text}, 3 passed") == "", text
    assert [text for text in (*GREEN_OUTPUT, *RED_OUTPUT) if told_idle(text)] == []
    assert told_idle("collected 0 items") == "collected 0 items"
