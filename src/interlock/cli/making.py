"""`init`: an interlock.toml for the agent that is here, and what a playbook needs, nothing overwritten; completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from click.shell_completion import get_completion_class
from jinja2 import Template

from interlock.agents import clients
from interlock.app import playbook_named
from interlock.cli.commands import app
from interlock.cli.door import Door
from interlock.cli.output import print_lines, tell, write_output
from interlock.settings import CLIENTS, FILE


def init(door: Door, *, playbook: str, completion: str | None) -> int:
    if completion:
        return _completion(completion)
    brings = playbook_named(playbook).brings if playbook else {}
    there, top = clients.installed(os.environ, Path.home()), door.place.workspace.top
    for path, text in {FILE: _settings(there), **brings}.items():
        written = _write(top / path, text)
        print_lines([f"{'written' if written else 'kept as it is'}: {os.path.relpath(top / path)}"])
    print_lines(f"found: {one.name}: {one.text}" for one in there)
    tell("  next    interlock doctor")
    return 0


def _settings(there: list[clients.Installed]) -> str:
    best = next((one for one in there if one.signed_in), there[0] if there else None)
    template = Path(__file__).with_name("init.toml.jinja").read_text("utf-8")
    made = Template(template, trim_blocks=True, keep_trailing_newline=True)
    return str(made.render(best=best, others=[one for one in there if one is not best], known=CLIENTS))


def _write(place: Path, text: str) -> bool:
    """A new file; what is there is kept."""
    if os.path.lexists(place):
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("x", encoding="utf-8") as file:
        file.write(text)
    return True


def _completion(shell: str) -> int:
    """The script of a shell, on stdout, and where it goes on stderr."""
    made: Any = get_completion_class(shell)
    write_output(made(app, {}, "interlock", "_INTERLOCK_COMPLETE").source().encode() + b"\n")
    places = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/interlock.fish"}
    how = ">" if shell == "fish" else ">>"
    tell(f"  next    interlock init --completion {shell} {how} {places[shell]}")
    return 0
