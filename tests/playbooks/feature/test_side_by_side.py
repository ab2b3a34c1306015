"""Several runs at once in one workspace, each a process of its own: all complete, and none touches another's work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interlock.engine.folder import known_runs
from interlock.engine.journal import Line
from interlock.playbooks.harness import example_files as harness_files
from tests.playbooks.person import POLL_S, person

from .test_people import WAITS
from .test_real_runs import Place, documents, place

pytestmark = pytest.mark.long

__all__ = ["place"]

PATIENCE_S = 120.0


def started(root: Path, *words: str) -> subprocess.Popen[str]:
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-m", "interlock", "run", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=root, env=known, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


class Meeting:
    """A person who lets agents go on only when so many wait, and then writes a file of their own."""

    def __init__(self, root: Path, together: int) -> None:
        self.root, self.together, self.met = root, together, False

    def __call__(self, member: str) -> None:
        until, others = time.monotonic() + PATIENCE_S, threading.Event()
        while not self.met and time.monotonic() < until:
            waiting = list((self.root / ".interlock/layers").glob("[!.]*/exchange/waits"))
            self.met = len(waiting) >= self.together
            others.wait(POLL_S)
        assert self.met, f"{member} waited for the others in vain"
        (self.root / f"seen-{member}.txt").write_text("by a person\n")


def lines_of(place: Place, key: str) -> list[Line]:
    (known,) = [known for known in known_runs(place.root) if known.identity.key == key]
    assert known.folder.verify() == []
    return known.folder.lines()


RUNS = {
    "login": ("feature", "Add a login page", "--slug", "login"),
    "logout": ("feature", "Add a logout page", "--slug", "logout"),
    "TASK-001": ("harness", "TASK-001"),
}
LINES = {"login": 1, "logout": 20, "TASK-001": 38}
"""The line of the common file that each of them changes."""


def furnish(place: Place) -> None:
    """Agents of each run that build, in their own way, on the same file, and wait there."""
    for path, text in harness_files().items():
        place.write(path, text.replace("Workflow Mode: standard", "Workflow Mode: autonomous"))
    base, settings = (place.root / "src/app.py").read_text(), ""
    for name, line in LINES.items():
        code = base.replace(f"line_{line} = {line}\n", f"line_{line} = '{name}'\n")
        built = {"src/app.py": code, f"src/{name}.py": "x = 1\n"}
        reaction = {"agent": ["implementer", "build"], "files": built, "run": ["sh", "-c", WAITS]}
        place.write(f"cast/{name}.json", json.dumps({"reactions": [reaction]}))
        settings += f'[runners.{name}]\ntype = "scripted"\nscenario = "cast/{name}.json"\n'
    place.write("interlock.toml", settings)


def below(root: Path, folder: str) -> dict[str, str]:
    """The documents in a folder: path in it to text."""
    return {path.removeprefix(folder): text for path, text in documents(root).items() if path.startswith(f"{folder}/")}


@pytest.mark.req("LY-30", "LY-06", "EN-39")
def test_two_features_and_a_harness_at_once(place: Place) -> None:
    """All three are at work on one file when they meet, and a person beside them; each has all of its documents, all
    changes of the file are there, and reviewers are shown only what is their feature's own."""
    furnish(place)
    with person(place.root, Meeting(place.root, len(RUNS))) as seen:
        runs = {name: started(place.root, *words, "--runner", name) for name, words in RUNS.items()}
        said = {name: run.communicate(timeout=PATIENCE_S) for name, run in runs.items()}
    assert {name: run.returncode for name, run in runs.items()} == dict.fromkeys(RUNS, 0), said
    assert sorted(seen) == ["build", "implementer-T01", "implementer-T01"]
    text = (place.root / "src/app.py").read_text()
    assert all(f"line_{line} = '{name}'\n" in text for name, line in LINES.items())
    for name in RUNS:
        assert (place.root / f"src/{name}.py").read_text() == "x = 1\n"
    for member in set(seen):
        assert (place.root / f"seen-{member}.txt").read_text() == "by a person\n"
    assert "is Complete" in said["TASK-001"][0]
    for name in ("login", "logout"):
        lines = lines_of(place, name)
        assert not {"scope.violation", "foreign_write", "dispatch.conflict", "warning"} & {line.event for line in lines}
        (changes,) = [line.data["out"] for line in lines if line.event == "changes"]
        assert changes["paths"] == ["src/app.py", f"src/{name}.py"]
    login, logout = (below(place.root, f"docs/feature/{name}") for name in ("login", "logout"))
    assert {path: text.replace("login", "logout") for path, text in login.items()} == logout
    assert len(logout) > 40
    assert len(below(place.root, "harness/artifacts/TASK-001")) == 5
    assert list((place.root / ".interlock/layers").glob("*-*")) == []
