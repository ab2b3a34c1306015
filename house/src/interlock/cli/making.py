"""`init`: an interlock.toml for the agent that is here, and what a playbook needs, nothing overwritten; completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from click.shell_completion import get_completion_class

from interlock.agents import clients
from interlock.app import playbook_named
from interlock.cli.commands import app
from interlock.cli.door import Door
from interlock.cli.output import print_lines, tell, write_output
from interlock.errors import BadInput
from interlock.settings import FILE

HEAD = """\
# Settings of interlock. Everything has a default; what is commented out is not set.
# Agents work in layers, never in your tree; what is accepted is merged into it.

"""
TAIL = """
# Commands that decide whether work is accepted. Unset: found by your tool chain; `interlock plan task` shows them.
# [commands]
# test = "..."

# The most that a run spends.
# [limits]
# budget_usd = 5.0
"""
NO_AGENT = """\
# Who does the agents' work. No coding agent was found on PATH; these are known: claude, codex, copilot, opencode,
# gemini, qwen. Or any program of yours: it gets the brief on standard input and works in its folder.
# runner = "mine"
# [runners.mine]
# type = "command"
# argv = ["python3", "tools/agent.py", "{agent}"]
"""


def init(door: Door, *, playbook: str, completion: str | None) -> int:
    if completion:
        return _completion(completion)
    brings = playbook_named(playbook).brings if playbook else {}
    there, top = clients.installed(os.environ, Path.home()), door.place.workspace.top
    for path, text in {FILE: HEAD + _runner(there) + TAIL, **brings}.items():
        written = _write(top / path, text)
        print_lines([f"{'written' if written else 'kept as it is'}: {os.path.relpath(top / path)}"])
    print_lines(f"found: {one.name}: {one.text}" for one in there)
    tell("  next    interlock doctor")
    return 0


def _write(place: Path, text: str) -> bool:
    """A new file; what is there is kept."""
    if os.path.lexists(place):
        return False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{place.name} cannot be written: {error.strerror}", where=str(place)) from error
    return True


def _runner(there: list[clients.Installed]) -> str:
    if not there:
        return NO_AGENT
    best = next((one for one in there if one.signed_in), there[0])
    lines = [f"# {best.text}.", f'runner = "{best.name}"']
    others = [one for one in there if one is not best]
    if others:
        lines += ["", "# Also here; another one may judge:", *(f"# {one.text}." for one in others)]
        lines.append(f'# judges = "{others[0].name}"')
    return "\n".join(lines) + "\n"


def _completion(shell: str) -> int:
    """The script of a shell, on stdout, and where it goes on stderr."""
    made: Any = get_completion_class(shell)
    write_output(made(app, {}, "interlock", "_INTERLOCK_COMPLETE").source().encode() + b"\n")
    places = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/interlock.fish"}
    how = ">" if shell == "fish" else ">>"
    tell(f"  next    interlock init --completion {shell} {how} {places[shell]}")
    return 0
