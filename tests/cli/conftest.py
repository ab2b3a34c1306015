"""The command line on a small project: called in this process, or started as a program of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.cli import door
from interlock.cli.main import answer
from interlock.errors import Status
from interlock.playbooks.task import TASK
from tests.whole.bench import Answer, Bench


class CommandLine(Bench):
    """A person at the project's folder."""

    capture: pytest.CaptureFixture[bytes]

    def __call__(self, *arguments: str) -> Answer:
        """Call it in this process."""
        here = Path.cwd()
        os.chdir(self.top)
        try:
            self.capture.readouterr()
            code = answer(arguments)
        finally:
            os.chdir(here)
        said = self.capture.readouterr()
        return Answer(code, said.out.decode(), said.err.decode())

    def trust(self) -> None:
        """In the person's own folder."""
        assert self("playbooks", "trust", "interlock.toml").code == 0

    def spawn(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        """Start it as a program."""
        program = [sys.executable, "-P", "-m", "interlock.cli.main", *arguments]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(program, cwd=self.top, text=True, **{**streams, **how})

    def latest(self) -> str:
        return str(self("show", "latest", "--json").json["run_id"])

    def weakens(self) -> None:
        """Its work rests on a changed check: a person is asked."""
        self.act("builder", "echo '# looked at' >> lib.py; echo true > check.sh; echo done")
        settings = (self.top / "interlock.toml").read_text() + '[evidence]\nweakened = "ask"\n'
        self.write("interlock.toml", settings)
        explains = '"weakened": [{"path": "check.sh", "why": "it was wrong"}]'
        met = '"criteria": [{"criterion": "the request", "met": true}]'
        self.act("reviewer", f"echo '```json'\necho '{{\"verdict\": \"accept\", {met}, {explains}}}'\necho '```'\n")

    def refuses(self, who: str = "reviewer") -> None:
        """Its reviewer does not accept, in no round or in one alone."""
        finding = '"findings": [{"text": "it is not nice", "criterion": "the request"}]'
        unmet = '"criteria": [{"criterion": "the request", "met": false}]'
        self.act(who, f"echo '```json'\necho '{{\"verdict\": \"revise\", {unmet}, {finding}}}'\necho '```'\n")

    def bytes_of_all(self) -> dict[str, tuple[int, bytes]]:
        """Every file, with its time of change."""
        files = [file for file in sorted(self.top.rglob("*")) if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever calls is a person, wherever these tests run; nothing of the developer's shell gets through."""
    for name in list(os.environ):
        if name.startswith(("INTERLOCK_", "GIT_")) or name in ("COLUMNS", "NO_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(door, "inside_dispatch", lambda: False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Projects that a person has trusted: as it begins, with a run that is complete, with one that waits."""
    folder = tmp_path_factory.mktemp("made")
    Bench(folder / "begun", mode="off")
    waits = CommandLine(folder / "waits", mode="off")
    waits.weakens()
    assert waits.run().status is Status.WAITING
    complete = Bench(folder / "done", mode="off")
    assert complete.run().status is Status.COMPLETE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "inside_dispatch", lambda: False)
        complete.trust()
    return folder


def _copied(made: Path, name: str, to: Path, capture: pytest.CaptureFixture[bytes]) -> CommandLine:
    shutil.copytree(made / "done-data", to / "data")
    shutil.copytree(made / name, to / "work", symlinks=True)
    project = CommandLine.there(to / "work")
    project.capture = capture
    return project


@pytest.fixture
def interlock(made: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    return _copied(made, "begun", tmp_path, capsysbinary)


@pytest.fixture
def done(made: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    """A project with a run that is complete."""
    return _copied(made, "done", tmp_path, capsysbinary)


@pytest.fixture
def waits(made: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    """A project with a run that waits, since its work rests on a changed check."""
    return _copied(made, "waits", tmp_path, capsysbinary)


@pytest.fixture
def plays() -> Iterator[Callable[[Any], None]]:
    """Has `task` go as a function says, for what no playbook of today does at once."""
    before = TASK.play
    yield lambda play: object.__setattr__(TASK, "play", play)
    object.__setattr__(TASK, "play", before)
