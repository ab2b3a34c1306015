"""A remote, and people with clones of it, each at a command line of their own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, person

__all__ = ["person"]


@dataclass
class Office:
    """Where everybody has a clone of the same project."""

    folder: Path
    capture: pytest.CaptureFixture[bytes] | None
    people: dict[str, CommandLine] = field(default_factory=dict)

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    def first(self, mode: str = "off") -> CommandLine:
        """Whoever made the project, and the remote."""
        made = CommandLine(self.folder / "ada", mode=mode)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.remote)], check=True)
        made.run_git("remote", "add", "origin", str(self.remote))
        made.run_git("push", "-q", "origin", "main")
        made.run_git("fetch", "-q")
        return self._sits("ada", made)

    def clone(self, name: str) -> CommandLine:
        subprocess.run(["git", "clone", "-q", str(self.remote), str(self.folder / name)], check=True)
        made = CommandLine.__new__(CommandLine)
        made.top, made.git = self.folder / name, True
        made.run_git("config", "user.name", "P")
        made.run_git("config", "user.email", "p@example.org")
        return self._sits(name, made)

    def _sits(self, name: str, made: CommandLine) -> CommandLine:
        if self.capture is not None:
            made.capture = self.capture
        self.people[name] = made
        return made

    def refs(self) -> list[str]:
        words = ["git", "-C", str(self.remote), "for-each-ref", "--format=%(refname)"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def office(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Office:
    return Office(tmp_path, capsysbinary)


@pytest.fixture
def ada(office: Office) -> CommandLine:
    made = office.first()
    made.trust()
    return made


@pytest.fixture
def waiting(ada: CommandLine) -> str:
    """A run of Ada's that waits for a person: it rests on a changed check."""
    ada.weakens()
    ada.write("notes.txt", "one\ntwo\nthree\nhers, unsaved\n")
    assert ada("Make add right").code == 4
    return ada.latest()
