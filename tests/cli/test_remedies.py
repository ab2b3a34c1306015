"""Every command that a message prints works as printed: those in the sources, and those of whole refusals."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import interlock
from interlock import playbooks
from interlock.cli import commands

SOURCES = Path(interlock.__file__).parent
GAP = "\u27e6\u27e7"
"""Stands for what a message fills in."""
TOLD = re.compile(r"\binterlock((?: -C \S+)? [a-z]+[^\n]*)")
SPOKEN = re.compile(
    r"\binterlock((?: -C \S+)? (?:run|resume|show|diff|why|approve|reject|answer|cancel|runs|doctor)\b[^\n]*)"
)
PLACEHOLDER = re.compile(r"\b(RUN|PLAYBOOK|TEXT|USD|NAME|FILE|WHY|STEP|AGENT)\b|\.\.\.|\[--")


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring, with gaps where something is filled in."""
    tree = ast.parse(file.read_text("utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else GAP for one in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | inner:
            yield node.lineno, node.value


def commands_in(text: str, known: set[str]) -> Iterator[str]:
    """The commands that a text tells, each without the sentence around it."""
    for found in TOLD.finditer(text):
        words = found[1].split()
        if words and words[0] in known:
            yield re.split(
                r"`|[.;,)]\s|[.;,)']*$|\s(?:and|or|Or|-|writes|works)\b|   |\"$", found[1].strip(), maxsplit=1
            )[0]


def problem_with(command: str, top: Any) -> str | None:
    """What is wrong with a told command: a command, option or playbook that is not there, a word to be replaced."""
    words = re.findall(r'"[^"]*"|\S+', command)
    name, rest = words[0], words[1:]
    group = top.commands[name]
    if name == "run" and rest and not rest[0].startswith("-"):
        if rest[0] != GAP and rest[0] not in playbooks.NAMES:
            return f"no playbook {rest[0]!r}"
        group = group.get_command(None, "roadmap" if rest[0] == GAP else rest[0])
    options = {option for parameter in group.get_params(group.context_class(group)) for option in parameter.opts} | {
        "--help"
    }
    unknown = [word for word in rest if re.match(r"--?[a-z]", word) and word.split("=")[0] not in options]
    if unknown:
        return f"no option {unknown[0]}"
    return "a word that somebody has to replace" if PLACEHOLDER.search(command) else None


@pytest.mark.req("EV-26")
def test_commands_in_messages_name_what_exists() -> None:
    """In every text of every module: command, playbook and options are there, and nothing is left to be replaced."""
    top: Any = typer.main.get_command(commands.build())
    wrong = []
    for file in sorted(SOURCES.rglob("*.py")):
        for number, text in texts_of(file):
            for told in commands_in(text, set(top.commands)):
                if (problem := problem_with(told, top)) is not None:
                    wrong.append(f"{file.relative_to(SOURCES)}:{number}: interlock {told}: {problem}")
    assert wrong == []


def spoken(text: str) -> list[list[str]]:
    """The commands that stand in what a person reads, as the words that they would type."""
    found = []
    for match in SPOKEN.finditer(text):
        for part in re.split(r"   |\. Or |\. Then |, or ", match[0]):
            clean = re.sub(r"[.;:]?$", "", re.split(r"interlock ", part, maxsplit=1)[-1].split(" - that")[0]).strip()
            found.append(shlex.split(clean))
    return [words for words in found if words]


def tried(workspace: Any, said: str) -> int:
    """Type every command that was printed; none may be one that the program does not understand."""
    told = spoken(said)
    for words in told:
        answer = workspace(*words)
        for refusal in ("No such option", "No such command", "there is no run", "Missing argument", "unexpected extra"):
            assert refusal not in answer.stderr, (words, answer.stderr)
    return len(told)


@pytest.mark.req("EV-26")
def test_commands_of_whole_refusals_work_as_printed(workspace: Any) -> None:
    """Each way to be refused or stopped that a person meets; what it advises is typed in, as it stands there."""
    said = [workspace("show", "latest").stderr]  # no runs
    said += [workspace("runs").stderr]
    waiting = workspace("run", "toy", "a").stderr
    said += [workspace("run", "toy", "a", "--mode", "quick").stderr]  # open, with other inputs
    said += [workspace("answer", "latest", "perhaps").stderr, workspace("reject", "latest").stderr]
    (workspace.root / "plan.md").write_text("changed\n", "utf-8")
    said += [workspace("approve", "latest").stderr]  # what it showed has changed
    assert all(spoken(one) for one in said), said
    for one in (*said, waiting):
        tried(workspace, one)
    workspace("run", "toy", "b", "--mode", "quick")
    ended = [workspace("approve", "latest").stderr, workspace("resume", "latest", "--note", "x").stderr]
    workspace("run", "toy", "c")
    workspace("cancel", "latest")
    ended += [workspace("resume", "latest").stderr]
    workspace.scenario({"agent": "planner", "exit": 1})
    ended += [workspace("run", "toy", "d").stderr]
    assert all(spoken(one) for one in ended), ended
    assert sum(tried(workspace, one) for one in ended) >= len(ended)


@pytest.mark.req("EV-26")
def test_commands_are_printed_for_where_the_person_is(workspace: Any) -> None:
    """Whoever named the workspace with -C can type what is advised from the same place."""
    workspace("run", "toy", "a")
    place = str(workspace.root)
    name = workspace.folders[0].name
    for answer in (workspace("-C", place, "run", "toy", "a", "--mode", "quick"), workspace("show", "-C", place, name)):
        said = answer.stderr + answer.stdout.decode()
        assert f"interlock -C {place} " in said
        assert "interlock resume" not in said
