"""Somebody at work in a folder: what they write is aged, and every line of it is known again.

Aged, because a file that is as young as the index is read again by git whatever its stat data say: faults of stat data
stay hidden in fresh repositories.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_STEP_S = 3
_HOURS = 6 * 3600
LINES = 24


class Person:
    def __init__(self, top: Path) -> None:
        self.top = top
        self._clock = time.time() - _HOURS
        self._said = 0

    # -- git

    def git(self, *args: str, ok: Sequence[int] = (0,), cwd: Path | None = None) -> str:
        """The person's own git, with nothing of this machine's settings."""
        return self._run(["git", *args], ok, cwd or self.top)

    def sh(self, script: str) -> None:
        """What they type, in the workspace; the files that it writes are aged."""
        begun = time.time() - 1
        self._run(["sh", "-ec", script], (0,), self.top)
        for path in sorted(self.files()):
            if (self.top / path).lstat().st_mtime > begun:
                self.age(path)

    def _run(self, words: Sequence[str], ok: Sequence[int], cwd: Path) -> str:
        settings = {"user.name": "Pat Person", "user.email": "pat@example.org", "commit.gpgSign": "false",
                    "protocol.file.allow": "always"}  # fmt: skip
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top.parent / "home"), "LC_ALL": "C.UTF-8",
               "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": str(len(settings))}  # fmt: skip
        for at, (name, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
        ended = subprocess.run(words, cwd=cwd, env=env, capture_output=True, check=False, timeout=120)
        assert ended.returncode in ok, (words, ended.returncode, ended.stderr.decode(errors="replace"))
        return os.fsdecode(ended.stdout)

    def init(self) -> None:
        self.top.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.introduce()

    def introduce(self) -> None:
        """Say in this repository who they are."""
        self.git("config", "user.name", "Pat Person")
        self.git("config", "user.email", "pat@example.org")

    def commit(self, message: str = "more") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def settle(self) -> None:
        """Let their git look at everything, as a prompt does: the index has the stat data of aged files."""
        self.git("status", "--porcelain", ok=(0, 128))

    # -- files

    def age(self, path: str | Path) -> None:
        self._clock += _STEP_S
        os.utime(self.top / path, (self._clock, self._clock), follow_symlinks=False)

    def write(self, path: str, content: bytes | str, *, mode: int | None = None) -> None:
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            place.chmod(mode)
        self.age(path)

    def read(self, path: str) -> bytes:
        return (self.top / path).read_bytes()

    def says(self, path: str) -> bytes:
        """A line that nobody else writes."""
        self._said += 1
        return b"mine %04d of %s" % (self._said, os.fsencode(path.rpartition("/")[2]))

    def files(self) -> dict[str, bytes]:
        """Everything in the workspace but git's folder and the engine's; a link by its target."""
        found = {}
        for folder, inner, names in os.walk(self.top):
            links = [name for name in inner if Path(folder, name).is_symlink()]
            inner[:] = [name for name in inner if name not in (".git", ".interlock", *links)]
            for place in (Path(folder, name) for name in (*names, *links) if name != ".git"):
                content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
                found[str(place.relative_to(self.top))] = content
        return found


def base_line(path: str, number: int) -> bytes:
    return b"%s line %02d" % (os.fsencode(path.rpartition("/")[2].replace(" ", "-")), number)


def text(path: str, *, eol: bytes = b"\n", version: int = 0) -> bytes:
    """A file as it was committed: each line is its own; a version differs in every seventh."""
    rows = [base_line(path, at) for at in range(LINES)]
    rows = [row + b" v%d" % version if version and at % 7 == version else row for at, row in enumerate(rows)]
    return b"".join(row + eol for row in rows)
