"""Commands are read from every shape in which agents report them, and what speaks against them as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import Check, checks_in_data, checks_in_text, failed_marks, nothing_to_run
from interlock.contracts.reading import DEEP, failures_in_data
from tests.contracts.told import ENDINGS


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("- `npm test`: exit 0", [Check("npm test", 0)]),
        ("| `make all` | exit status 2 |", [Check("make all", 2)]),
        ("Ran ``echo `id` `` and it exited with 1.", [Check("echo `id`", 1)]),
        ("- `pytest -q` → exit code: **5**", [Check("pytest -q", 5)]),
        ("`a` exit 0\n\n> `b`: exit 1\n\n```\n`c`: exit 1\n```\n", [Check("a", 0)]),
        ("`npm test` passed", []),
        ("exit 0", []),
        ("- `npm test`\n  - exit 1", [Check("npm test", 1)]),
        ("- `a`: exit 0, then `b`: exit 1", [Check("a", 0, "then"), Check("b", 1)]),
        ("- `sh -c 'exit 1'`: exit 0", [Check("sh -c 'exit 1'", 0)]),
        ("- npm test: exit 1", [Check("npm test", 1)]),
        ("- The program: exit 1", []),
        ("- `npm test` rc=1", [Check("npm test", 1)]),
        ("- `npm test` finished with code 2", [Check("npm test", 2)]),
        ("- `a`: exit code 3221225477", [Check("a", 3221225477)]),
        ("- `npm test` exited non-zero", [Check("npm test", said="non-zero")]),
        ("- `npm test`: 2 of 10 tests failed", [Check("npm test", said="2 of 10 tests failed")]),
        ("- `npm test`: 1 failed, exit 0", [Check("npm test", 0, "1 failed")]),
        ("- `npm test` \u274c", [Check("npm test", said="failed (\u274c)")]),
        ("| `npm test` | FAILED |", [Check("npm test", said="failed")]),
        ("- `parse('')`: fails with ValueError", []),
        ("| Command | Exit |\n|---|---|\n| `a` | 1 |\n| `b` | **0** |", [Check("a", 1), Check("b", 0)]),
        ("| Exit code | What |\n|---|---|\n| well | `a` |\n| - | `b` |", [Check("a", said="well")]),
        ("Command | Exit\n--- | ---\n`a` | 1\n\n`b` | 1", [Check("a", 1)]),
        ("- `a`: exit 0; it exits with 1 on bad input", [Check("a", 0, "it exits with 1 on bad input")]),
        ("- `a`: exit 0, then exit 1", [Check("a", 0, "then exit 1"), Check("a", 1)]),
        ("exit 0: `a`, exit 1: `b`", [Check("a", 0), Check("a", 1)]),
        ("- `a`: exit 0, --- FAIL: T (0.1s)", [Check("a", 0, "--- FAIL: T (0.1s)")]),
        ("- `a` and `b`: exit 1", [Check("a", 1)]),
        ("- `sh -c 'exit 1'` and `b`: exit 0", [Check("sh -c 'exit 1'", 0)]),
        ("- `a`: exit 0 with `b`, 1 failed", [Check("a", 0, "with `b`, 1 failed")]),
        ("| Command | Time | Result |\n|---|---|---|\n| `b` | 3 s | Failed |", [Check("b", said="failed")]),
        ("| Command | Exit |\n|---|---|\n| `b` | 1 | more |", [Check("b", 1)]),
        ("- `a`\n  of the project\n  exit 1", [Check("a", 1)]),
        ("- `a`\n x exit 1", [Check("a", 1)]),
        ("- `a`\ntext\n  exit 1", []),
        ("- `a`\nexit 1", []),
        ("- `a`: exit 0\n  - exit 1", [Check("a", 0)]),
        ("- `a`: exit 12345678901234", [Check("a", 1234567890)]),
        ("| Call | Status |\n|---|---|\n| `a` | 404 |\n| `b` | Failed |", [Check("b", said="failed")]),
    ],
)
def test_commands_are_read_from_text(text: str, checks: list[Check]) -> None:
    """A command as code and its status on one line; what is quoted or code is nobody's word."""
    assert list(checks_in_text(text)) == checks


def test_commands_are_read_from_data() -> None:
    """Objects and lines, however the status is spelled."""
    given = [
        {"command": "make", "exit": 0, "summary": "ok"},
        {"command": "a\n b", "exitCode": "3"},
        {"command": "c", "exit": True},
        "`npm test`: exit 1",
        "make lint",
        7,
        "  ",
        {"cmd": "x"},
        {"note": "y"},
        {"command": "d", "exit": "1 (one failed)"},
        {"command": ["e", "f"], "returncode": 2.0},
        {"command": "g", "exit": 0, "passed": False},
        {"command": "h", "exit": 0, "failed": 3, "result": "ok"},
        {"name": "unit", "runs": [{"command": "i", "status": "failed"}]},
    ]
    assert checks_in_data(given) == (
        Check("make", 0, "ok"),
        Check("a b", 3),
        Check("c", said="True"),
        Check("npm test", 1),
        Check("make lint"),
        Check("x"),
        Check("d", 1),
        Check("e f", 2),
        Check("g", said="passed: false"),
        Check("h", said="failed: 3"),
        Check("i", said="failed"),
    )
    assert checks_in_data("make") == checks_in_data(None) == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x) | st.dictionaries(st.sampled_from(["command", "exit", "summary", "failed", "passed", "x"]), x)
        ),
    )
)
def test_reading_is_total(value: object) -> None:
    """Whatever an agent hands over."""
    assert all(isinstance(check, Check) for check in checks_in_data(value))
    assert isinstance(checks_in_text(str(value)), tuple)
    assert all(isinstance(said, str) for said in failures_in_data(value))


def test_a_reason_for_running_nothing() -> None:
    assert nothing_to_run("- **Nothing to run**: documentation only\n") == "documentation only"
    assert nothing_to_run("> Nothing to run: so they say\n") == ""


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("summary", "red"),
    [
        *((said, True) for said in ("1 failed, 3 passed", "one test failed", "FAILED (failures=1)", "failed: 2")),
        *((said, True) for said in ("Found 3 errors in 2 files", "2 of 10 tests failed", "1 test is still failing")),
        *((said, False) for said in ("", "12 passed", "0 failed, 12 passed", "no errors", "failures: 0", "1 xfailed")),
        *((said, False) for said in ("3 failed before the change", "2 failure modes", "3 error cases, all handled")),
        *(
            (said, False)
            for said in ("one test fails if the file is gone", "10.1 failed over", "the 2 tests that failed")
        ),
    ],
)
def test_a_number_of_failures_speaks_against_a_command_that_ended_well(summary: str, red: bool) -> None:
    """In figures and in words; what is about something else does not."""
    assert Check("npm test", 0, summary).red is red


@pytest.mark.req("EV-01")
def test_no_ending_but_a_good_one_is_green() -> None:
    """However the status of a command is spelled; what was before is not looked at."""
    for ending in ENDINGS:
        (check,) = checks_in_data([{"command": "make test", **ending}])
        assert check.red, ending
    assert checks_in_data({"before": [{"command": "a", "exit": 1}], "now": [{"command": "a", "exit": 0}]}) == (
        Check("a", 0),
    )


@pytest.mark.req("EV-02")
def test_what_shows_nothing_says_why() -> None:
    """A command that cannot fail, and tests of which none ran."""
    assert Check("make test || true", 0).idle == "ends well whatever happens"
    assert Check("pytest", 0, "collected 0 items").idle == "ran nothing (collected 0 items)"
    assert Check("pytest", 0, "3 passed").idle == Check("true or false", 0).idle == ""
    assert not Check("pytest", 0, "collected 0 items").shows


@pytest.mark.parametrize(
    ("entry", "check"),
    [
        ({"command": "  ", "cmd": "a"}, Check("a")),
        ({"command": "a", "exit": None}, Check("a")),
        ({"command": "a", "exit": "", "code": 0}, Check("a", 0)),
        ({"command": "a", "exit": "", "status": "as usual"}, Check("a", said="as usual")),
        ({"command": "a", "exit": None, "status": "as usual"}, Check("a", said="as usual")),
        ({"command": "a", "exit": 0, "cached": False, "passed": True}, Check("a", 0)),
        ({"command": "a", "exit": 0, "result": "ok"}, Check("a", 0)),
        ({"command": "a", "exit": [0, 1], "result": "failed"}, Check("a", 1)),
        ({"command": "a", "exit": 0, "summary": "fine", "output": "1 failed"}, Check("a", 0, "1 failed")),
        ({"command": "a", "exit": 0, "output": ["so", "1 failed"]}, Check("a", 0, "1 failed")),
        ({"command": "a", "exit": 0, "summary": "so\n\n  it  is"}, Check("a", 0, "so; it is")),
        ({"command": "a", "exit": "0 ok"}, Check("a", 0)),
        ({"command": "a", "exit": "12345678901234"}, Check("a", 1234567890)),
        ({"command": "a", "exit": "0, but 2 failed"}, Check("a", 0, "0, but 2 failed")),
        ({"command": "a", "signal": "SIGSEGV"}, Check("a", said="failed (signal: sigsegv)")),
        ({"command": "a", "errors": "x" * 200}, Check("a", said=f"errors: {'x' * 92}")),
    ],
)
def test_what_is_known_of_a_command_in_data(entry: dict[str, object], check: Check) -> None:
    """Its worst status, the word for it where there is no number, and what it printed that speaks against it."""
    assert checks_in_data([entry]) == (check,)


def test_data_is_looked_at_to_a_depth() -> None:
    """Of so many levels, and not of more."""
    red: object = {"command": "a", "exit": 1}
    lists: object = [red]
    for _ in range(DEEP):
        lists = [lists]
    assert len(checks_in_data(lists)) == 1
    assert checks_in_data([lists]) == ()
    names: object = {"failed": 1}
    for _ in range(DEEP):
        names = {"a": names}
    assert len(failures_in_data(names)) == 1
    assert failures_in_data({"a": names}) == ()
    assert len(failures_in_data([{"failed": 1}])) == 1
    nested: object = {"failed": 1}
    for _ in range(DEEP):
        nested = [nested]
    assert len(failures_in_data(nested)) == 1
    assert failures_in_data([nested]) == ()
    assert failures_in_data({"failures": "x" * 200}) == (f"failures: {'x' * 100}",)
    assert failures_in_data({"names": ["2 failed"], "tests": ["a", 1]}) == ()


@pytest.mark.parametrize("text", ["\t" * 400_000, "\n" * 400_000, "a|b\n" + "---|---\n" * 60_000, "# a\n" * 40_000])
def test_a_report_of_nothing_is_read_to_its_end(text: str) -> None:
    """However long: no form is looked for again from each place of it."""
    assert checks_in_text(text) == ()
    assert failures_in_data({"output": text}) == ()
    assert failed_marks(text) == ()
