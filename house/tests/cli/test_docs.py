"""What the pages say of the command line is true: made pages are as the code is, examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from interlock.cli.commands import app
from interlock.errors import Exit
from tests.cli.conftest import CommandLine
from tools import reference

HOUSE = Path(__file__).parents[2]
PAGES = [HOUSE / "README.md", *sorted((HOUSE / "docs").rglob("*.md"))]


def examples(page: Path) -> list[list[str]]:
    """The command lines of its shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.startswith("interlock")]


@pytest.mark.req("HOUSE-05", "CLI-01")
def test_the_reference_is_as_the_code_is() -> None:
    for name, text in reference.pages().items():
        assert (reference.FOLDER / name).read_text("utf-8") == text, "python -m tools.reference writes it"


@pytest.mark.req("HOUSE-05")
def test_the_quickstart_runs_as_it_stands(interlock: CommandLine) -> None:
    for words in examples(HOUSE / "docs" / "quickstart.md"):
        said = interlock(*words)
        assert said.code == 0, (words, said.err)


@pytest.mark.req("HOUSE-05")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_pages_can_be_typed(page: Path) -> None:
    named = [words.split() for words in re.findall(r"`interlock ([^`\"]+)`", page.read_text("utf-8"))]
    for words in [*examples(page), *named]:
        if words and not words[0].startswith("-"):
            context = click.Context(app, info_name="interlock")
            name, command, rest = app.resolve_command(context, words)
            assert command is not None
            command.make_context(name, [*rest], parent=context, resilient_parsing=True)


def test_the_exit_codes_are_those_of_the_table() -> None:
    told = re.findall(r"^\| (\d+) \|", (HOUSE / "docs" / "quickstart.md").read_text("utf-8"), re.MULTILINE)

    assert [int(code) for code in told] == [int(code) for code in Exit]
