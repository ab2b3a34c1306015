"""Lists on pages are the lists in the code."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from interlock import engine
from interlock.agents.command import PLACEHOLDERS
from interlock.agents.runner import AgentRequest
from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.engine import Kind, Run, Status
from interlock.playbooks import NAMES
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, prose

CONCEPTS = DOCS / "concepts.md"
SCOPES = {"step", "loop"}


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    section = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(f"{heading}\n"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
    return [row for row in cells if not set(row[0]) <= set("-: ")]


def names(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", text)


def test_the_table_of_verbs_has_every_verb() -> None:
    """Concepts lists the public methods of a run that a playbook uses, and nothing else."""
    verbs = {name for name, _ in inspect.getmembers(Run, inspect.isfunction) if not name.startswith("_")} - SCOPES
    assert {name for row in rows(CONCEPTS, "Verbs") for name in names(row[0])} == verbs


def test_the_functions_beside_the_verbs_are_all_told() -> None:
    """Concepts lists the public functions to which a playbook hands its run, and nothing else."""
    public = {name: getattr(engine, name) for name in engine.__all__}
    taking = {
        name for name, one in public.items() if inspect.isfunction(one) and "run" in inspect.signature(one).parameters
    }
    assert {name for row in rows(CONCEPTS, "Beside the verbs") for name in names(row[0])} == taking


def test_the_table_of_exit_codes_is_the_one_in_the_code() -> None:
    """Code and status of each row agree with the engine's."""
    told = {names(row[1])[0]: int(row[0]) for row in rows(CONCEPTS, "Exit codes")[1:]}
    assert told == {status.value: status.exit_code for status in Status}


def test_outcomes_reasons_and_classes_are_all_described() -> None:
    """Concepts has each member of the closed sets that decisions are made of."""
    text = CONCEPTS.read_text("utf-8")
    assert [word for word in (*Outcome, *Reason, *ArtifactClass) if f"`{word}`" not in text] == []


def test_the_glossary_knows_the_closed_sets() -> None:
    """Statuses, outcomes, classes and kinds are in the glossary."""
    text = (DOCS / "glossary.md").read_text("utf-8")
    assert [word for word in (*Status, *Outcome, *ArtifactClass) if f"`{word}`" not in text] == []
    assert [word for word in Kind if f"*{word}*" not in text] == []


def test_a_word_is_defined_once() -> None:
    """The glossary has one row per word."""
    defined = re.findall(r"^\| (.*?) \|", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [word for cell in defined for word in re.findall(r"\*\*(.+?)\*\*", cell)]
    assert len(words) > 50 and len(words) == len(set(words))


def test_the_protocol_of_the_command_runner_is_complete(tmp_path: Path) -> None:
    """Quickstart names every variable and every placeholder that a program gets, and no other variable."""
    text = (DOCS / "quickstart.md").read_text("utf-8")
    request = AgentRequest("r", "p", "s", "a", "a", 1, "k", "sess", tmp_path, tmp_path, "", 1.0)
    told = set(re.findall(r"INTERLOCK_[A-Z_]+", text)) - {"INTERLOCK_RUNNER"}
    assert told == set(request.environment())
    assert [name for name in PLACEHOLDERS if f"`{{{name}}}`" not in text] == []


def test_the_readme_says_which_playbooks_there_are() -> None:
    """Every shipped playbook has its row and its page; a planned one is not shipped."""
    text = (ROOT / "README.md").read_text("utf-8")
    planned = re.findall(r"^\| playbooks (.*?) \| planned \|$", text, re.MULTILINE)
    assert not {name for one in planned for name in names(one)} & set(NAMES)
    assert [name for name in NAMES if f"[`{name}`](docs/playbooks/{name}.md)" not in text] == []


@cache
def commands() -> dict[str, set[str]]:
    """Each command of the program with its options; those of playbooks are under ``run``."""
    import typer

    from interlock.cli.commands import app

    found: dict[str, set[str]] = {}

    def visit(command: Any, name: str) -> None:
        context = command.context_class(command)
        options = {option for one in command.get_params(context) for option in (*one.opts, *one.secondary_opts)}
        found[name] = found.get(name, set()) | options
        names = command.list_commands(context) if hasattr(command, "list_commands") else ()
        for inner in (command.get_command(context, name) for name in names):
            visit(inner, name if name == "run" else inner.name)

    visit(typer.main.get_command(app), "")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    """`interlock WORD --option` in code is understood by the program."""
    known = commands()
    for line in spoken(page):
        word = re.match(r"[a-z]+\b", line)
        if word is not None:
            assert word[0] in known, f"{page.name}: interlock {line}"
        understood = known[word[0] if word else ""] | known[""] | {"--help"}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= understood, f"{page.name}: interlock {line}"


def spoken(page: Path) -> list[str]:
    """What follows the program's name in code spans and in shell blocks."""
    typed = [block.text for block in blocks(page) if block.language in ("sh", "console")]
    lines = [*re.findall(r"`([^`\n]+)`", prose(page)), *"".join(typed).splitlines()]
    return [found[1] for line in lines if (found := re.match(r"(?:\$ )?interlock (.*)", line))]
