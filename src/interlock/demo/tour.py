"""The tour: real commands of the command line, each with a sentence about what is seen."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from interlock.demo.workspace import make
from interlock.errors import InterlockError

STOPS: Sequence[tuple[str, tuple[str, ...], int]] = (
    (
        "A task of the list goes to the agent that its command file names. Code checks the number, finds the task, "
        "chooses the agent by its language, gives it a deadline and a write scope, and records every step. "
        "The agent's answer comes out unchanged.",
        ("run", "router", "/implement 259 be brief"),
        0,
    ),
    ("Every run is a folder. Here they are:", ("runs",), 0),
    ("And this is known about the last one: facts, not claims.", ("show", "latest"), 0),
    (
        "A task that does not exist is refused before any agent is called: exit code 2, and nothing is left behind.",
        ("run", "router", "/implement 260"),
        2,
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Make the sample workspace and walk through it; 0 when every command did what was said."""
    folder = Path(arguments[0]) if arguments else Path("demo")
    try:
        make(folder)
    except InterlockError as error:
        print(
            f"Error: {error.what}", *(f"  {label}: {text}" for label, text in error.parts()), sep="\n", file=sys.stderr
        )
        return error.exit_code
    print(f"A sample project with scripted agents (no model is called) is in {folder}/.", flush=True)
    good = True
    for text, command, expected in STOPS:
        print(f"\n{_wrapped(text)}\n\n  $ interlock {_spoken(command)}\n", flush=True)
        code = subprocess.run([sys.executable, "-m", "interlock", *command], cwd=folder, check=False).returncode
        if code != expected:
            good = False
            print(f"This ended with exit code {code}; {expected} was expected.", file=sys.stderr, flush=True)
    print(_further(folder), flush=True)
    return 0 if good else 1


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100)


def _spoken(command: Sequence[str]) -> str:
    return " ".join(f'"{word}"' if " " in word else word for word in command)


def _further(folder: Path) -> str:
    program = "interlock" if shutil.which("interlock") else str(Path(sys.executable).with_name("interlock"))
    commands = {
        "git status": "what the agent really changed",
        f"{program} logs latest": "every event of the run",
        f"{program} report latest --html report.html": "a page with a timeline",
        f'{program} run router "/plan 196" --dry-run': "what would happen next, without doing it",
        f"{program} doctor": "what interlock finds here",
    }
    width = max(map(len, commands))
    listed = "\n".join(f"  {command:<{width}}  {why}" for command, why in commands.items())
    return f"\nTo look further:\n\n  cd {folder}\n{listed}"
