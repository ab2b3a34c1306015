"""`diff`: what a run changed, and the same in a few lines for its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import LOOK, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.elsewhere import look
from interlock.cli.output import complain, print_lines, write_output
from interlock.engine.changes import Changes, accepted_work, git_says, run_changes
from interlock.engine.folder import KnownRun
from interlock.errors import Refused
from interlock.telemetry import printable

if TYPE_CHECKING:
    from interlock.engine.journal import Line

LISTED = 12
"""Files that the end of a run names; `diff` has them all."""


@command("diff", example="interlock diff latest", honours=("fields",), panel=LOOK)
def diff(
    door: Door,
    run: LatestRun = "latest",
    agent: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="Only the work of this agent.", show_default=False)
    ] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, with lines added and removed.")] = False,
) -> int:
    """Print what the work of a run changed, as a patch: each file against how the run found it."""
    known = look(door, run)
    lines = known.folder.lines()
    if agent:
        _check_agent(known, lines, agent)
    found = changes_of(known, lines, agent or None)
    if door.json:
        files = [{"path": one.path, "added": one.added, "removed": one.removed} for one in found.code]
        patch = found.patch.decode("utf-8", "replace")
        facts = {"run_id": known.identity.run_id, "code": files, "documents": list(found.documents)}
        door.give({**facts, "patch": patch})
    elif stat:
        print_lines([*(one.shown for one in found.code), *(f"{path} (document)" for path in found.documents)])
    elif found.patch:
        write_output(found.patch)
    else:
        complain(f"Run {known.identity.run_id} has changed no file.")
    return 0


def _check_agent(known: KnownRun, lines: Sequence[Line], agent: str) -> None:
    made = accepted_work(known.folder, lines)
    if not any(agent in (one.agent, one.member, one.key) for one in made):
        names = list(dict.fromkeys(one.member for one in made))
        raise Refused(
            f"{agent!r} has changed nothing in run {known.identity.run_id}",
            expected=f"one of {', '.join(names)}" if names else "an agent whose work was accepted; there is none",
        )


def changes_of(known: KnownRun, lines: Sequence[Line], agent: str | None = None) -> Changes:
    """The changes of a run, each file against what it was before the first dispatch that changed it."""
    from interlock.finding import Library

    documents = Library(known.folder.root, os.environ).documents_of(known.identity)
    return run_changes(known.folder, lines, documents, agent)


def branch_line(root: Path, since: str) -> str | None:
    """The branch that the user's repository is on, and the commits made on it since a moment; None without git."""
    branch = git_says(root, "symbolic-ref", "--quiet", "--short", "HEAD").decode("utf-8", "replace").strip()
    if not branch:
        return None
    commits = git_says(root, "log", "-20", f"--since={since}", "--format=%h %s").decode("utf-8", "replace").splitlines()
    said = "; ".join(printable(commit, 80) for commit in commits[:3]) or "nothing committed"
    more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
    return f"{printable(branch)}: {said}{more}"


def change_lines(changes: Changes) -> list[str]:
    """The changes for the end of a run: code file by file, documents in one line."""
    lines = []
    if changes.code:
        added = sum(one.added or 0 for one in changes.code)
        removed = sum(one.removed or 0 for one in changes.code)
        lines.append(f"  code: {_files(len(changes.code))}, +{added} -{removed}")
        lines += [f"    {one.shown}" for one in changes.code[:LISTED]]
        if len(changes.code) > LISTED:
            lines.append(f"    and {len(changes.code) - LISTED} more")
    elif changes.documents:
        lines.append("  code: no file changed")
    if changes.documents:
        lines.append(f"  documents: {_files(len(changes.documents))}{_where(changes.documents)}")
    return lines


def _where(paths: Sequence[str]) -> str:
    """Where files are: by name where they are few, else the folder that all of them are in."""
    folder = os.path.commonpath(paths)
    if len(paths) > 3 and folder:
        return f" below {printable(folder)}/"
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f": {', '.join(printable(path) for path in paths[:3])}{more}"


def _files(number: int) -> str:
    return f"{number} {'file' if number == 1 else 'files'}"
