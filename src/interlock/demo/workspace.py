"""The sample workspace of the demo: a small project in git, with a cast of scripted agents."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from interlock.engine.folder import prepare_home
from interlock.errors import Refused

MARKER = ".interlock-demo"
"""Says that a folder is ours to remove and make anew."""
SAMPLE = "sample.d"
"""The files of the workspace, as they are. The dot keeps it from being taken for a package of ours."""
SCENARIO = "cast/scenario.yaml"
GIT = ("git", "-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
_DELAY = re.compile(r"delay_s: [\d.]+")


def make(folder: Path, *, pauses: bool = True) -> Path:
    """The sample workspace, fresh; a folder of that name that is not ours is left alone and refused.

    Args:
        pauses: whether the agents take the time that lets a person watch them.
    """
    if folder.exists():
        if not folder.is_dir() or (not (folder / MARKER).is_file() and any(folder.iterdir())):
            raise Refused(
                f"{folder} is there already and is not a demo",
                where=str(folder),
                expected=f"no such folder, an empty one, or one with the file {MARKER}",
                remedy="Name another folder: python -m interlock.demo FOLDER",
            )
        shutil.rmtree(folder)
    for path, content in files():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    if not pauses:
        scenario = folder / SCENARIO
        scenario.write_text(_DELAY.sub("delay_s: 0", scenario.read_text("utf-8")), "utf-8")
    prepare_home(folder)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--no-verify", "--message", "sample project")
    return folder


def files() -> Iterator[tuple[str, bytes]]:
    """Path and content of everything in it."""
    yield MARKER, b"Made by `python -m interlock.demo`, which may remove this folder and make it anew.\n"
    yield from _below(resources.files(__package__) / SAMPLE)


def _below(folder: Traversable, at: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield f"{at}{entry.name}", entry.read_bytes()
        elif entry.name != "__pycache__":  # an installer compiles whatever looks like a module
            yield from _below(entry, f"{at}{entry.name}/")


def environment() -> dict[str, str]:
    """For commands in the workspace: `python3`, which the cast calls, is this Python; no setting comes from outside."""
    foreign = ("INTERLOCK_", "GIT_", "APPROVAL_MODE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**own, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, env=environment(), check=True, stdin=subprocess.DEVNULL)
