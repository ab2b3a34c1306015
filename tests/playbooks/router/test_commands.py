"""What the user typed becomes a command and a number, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.playbooks.router.decisions import ValidatedCommand, parse_command
from interlock.playbooks.router.playbook import RouterInputs, run_key
from interlock.playbooks.router.problems import COMMANDS, Problem, Refusal


def refused(line: str) -> Problem:
    found = parse_command(line)
    assert isinstance(found, Problem), found
    return found


@pytest.mark.req("RT-01")
@pytest.mark.parametrize("command", ["research", "plan", "implement", "revise"])
def test_the_four_commands_are_routed(bench: Any, command: str) -> None:
    """Each of the four with a number reaches its agent; there is no fifth."""
    assert bench.play(f"/{command} 196").exit_code == 0
    assert len(bench.requests) == 1
    assert COMMANDS == ("research", "plan", "implement", "revise")


@pytest.mark.req("RT-02")
@pytest.mark.parametrize("line", ["/review 5", "/foo 259", "/ 5", "//plan 5", "/Plan 5", "/plans 196", "/research:196"])
def test_any_other_command_is_refused(bench: Any, line: str) -> None:
    """A command that is not one of the four is refused with their list, before anything happens."""
    error = bench.refuse(line)
    assert error.exit_code == 2
    assert error.what.endswith("Task commands: /research /plan /implement /revise")


@pytest.mark.req("RT-04")
@pytest.mark.parametrize(("line", "command"), [("/research 271", "research"), ("  /implement\t259", "implement")])
def test_the_command_is_the_first_word(line: str, command: str) -> None:
    """The command is the first word without its slash."""
    found = parse_command(line)
    assert isinstance(found, ValidatedCommand)
    assert found.command == command


@pytest.mark.req("RT-05")
def test_the_slash_is_optional_and_case_counts() -> None:
    """`implement 259` is `/implement 259`; `Implement` is no command."""
    assert parse_command("implement 259") == parse_command("/implement 259") == ValidatedCommand("implement", 259)
    assert refused("Implement 259").refusal is Refusal.UNKNOWN


@pytest.mark.req("RT-07", "RT-08", "RT-09", "RT-14")
@pytest.mark.parametrize(
    ("line", "number", "prompt"),
    [
        ("/implement 259 custom prompt", 259, "custom prompt"),
        ("/implement 259", 259, ""),
        ("/implement 259 fix 12", 259, "fix 12"),
        ("/implement   0259\n\tfix  two   spaces  ", 259, "fix  two   spaces"),
        ("/implement 271 --flag /plan 3", 271, "--flag /plan 3"),
    ],
)
def test_the_first_token_is_the_number_and_the_rest_is_kept(line: str, number: int, prompt: str) -> None:
    """The first token after the command is an integer; what follows is kept as it was typed."""
    found = parse_command(line)
    assert found == ValidatedCommand("implement", number, prompt)
    assert type(found.number) is int


@pytest.mark.req("RT-10", "RT-12")
@pytest.mark.parametrize(
    "token",
    ["abc", "25.9", "-3", "0", "000", "+5", "259.", "#259", "２５９", "²", "1_000", "0x10", "25e1", "٣"],
)
def test_what_is_no_positive_integer_is_refused(token: str) -> None:
    """Only ASCII digits of a number above zero are a task number; everything else is shown and refused."""
    problem = refused(f"/plan {token}")
    assert problem.refusal is Refusal.INVALID
    assert problem.text.startswith(f"Error: Task number must be an integer. Got: {token}\n\n")
    assert problem.short == "Task number must be an integer"


@pytest.mark.req("RT-11")
@pytest.mark.parametrize("line", ["/plan", "/plan   ", "plan\n"])
def test_no_number_is_refused(line: str) -> None:
    """A command without arguments asks for the number."""
    problem = refused(line)
    assert problem.refusal is Refusal.MISSING
    assert problem.short == "Task number required"


@pytest.mark.req("RT-13")
@pytest.mark.parametrize("line", ["/plan", "/plan abc", "/plan 0"])
def test_a_bad_number_is_found_before_any_file_is_read(bench: Any, line: str) -> None:
    """Without a single file in the workspace the error is about the number, and nothing was read."""
    bench.files.clear()
    error = bench.refuse(line)
    assert error.what.startswith("Error: Task number")
    assert [entry.event for entry in bench.lines] == ["run.start", "refused"]


def test_a_number_with_thousands_of_digits_is_not_found() -> None:
    """A number no program could convert is refused without being converted."""
    assert parse_command("/plan " + "0" * 9 + "9" * 1000) == ValidatedCommand("plan", 10**1000 - 1)
    assert refused("/plan " + "9" * 1001).refusal is Refusal.NOT_FOUND
    problem = refused("/plan " + "9" * 5000)
    assert problem.refusal is Refusal.NOT_FOUND
    assert problem.text.startswith(f"Error: Task {'9' * 40}… not found in TODO.md\n")


def test_the_run_key_is_command_and_number() -> None:
    """Spelling and prompt do not matter for the key; a line that is no command is its own key, made printable."""
    assert (
        run_key(RouterInputs("/implement 0259 be brief")) == run_key(RouterInputs("implement 259")) == "implement 259"
    )
    assert run_key(RouterInputs("/foo\x1b 1")) == "/foo\\x1b 1"
    assert run_key(RouterInputs("/plan " + "7" * 400)) == f"plan {'7' * 40}…"


@given(st.one_of(st.text(), st.builds("/{} {}".format, st.sampled_from(COMMANDS), st.text())))
@example("/plan 1\ud800")
@example("\x00")
def test_every_line_is_a_command_or_a_printable_problem(line: str) -> None:
    """Whatever is typed, the result is a valid command or a text that cannot steer a terminal."""
    found = parse_command(line)
    if isinstance(found, Problem):
        assert all(char.isprintable() or char == "\n" for char in found.text)
        assert found.text.startswith("Error: ")
    else:
        assert found.command in COMMANDS
        assert found.number >= 1
    assert run_key(RouterInputs(line)).isprintable()
