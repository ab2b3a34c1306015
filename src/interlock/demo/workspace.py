"""The sample workspace of the demo: a small project in git, a task list, agents that a scenario plays."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from interlock.engine.folder import GITIGNORE, HOME
from interlock.errors import Refused
from interlock.playbooks.router import example_files

MARKER = ".interlock-demo"
"""Says that a folder is ours to remove and make anew."""
GIT = ("git", "-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")


def make(folder: Path) -> Path:
    """The sample workspace, fresh; a folder of that name that is not ours is left alone and refused."""
    if folder.exists():
        if not (folder / MARKER).is_file() and any(folder.iterdir()):
            raise Refused(
                f"{folder} is there already and is not a demo",
                where=str(folder),
                expected=f"no such folder, an empty one, or one with the file {MARKER}",
                remedy="Name another folder: python -m interlock.demo FOLDER",
            )
        shutil.rmtree(folder)
    for path, text in files().items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--no-verify", "--message", "sample project")
    return folder


def files() -> Mapping[str, str]:
    """Path to text of everything in it."""
    sample = resources.files(__package__) / "sample"
    return {
        MARKER: "Made by `python -m interlock.demo`, which may remove this folder and make it anew.\n",
        f"{HOME}/.gitignore": GITIGNORE,
        **example_files(),
        "interlock.toml": (sample / "interlock.toml").read_text("utf-8"),
        "scenario.yaml": (sample / "scenario.yaml").read_text("utf-8"),
        "README.md": "# Sample\n\nA few proofs in modal logic.\n",
        "Modal/Basic.lean": "inductive Formula where\n  | atom (name : String)\n  | box (inner : Formula)\n",
    }


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL)
