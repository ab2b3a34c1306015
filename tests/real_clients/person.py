"""Somebody who works on in their repository while agents do, at the moments that a script of the model names."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.model_server import Meanwhile

CODES = Meanwhile("codes")
"""The person edits code, begins a file, commits, makes a branch and a stash."""
REMARKS = Meanwhile("remarks")
"""The person writes into the documents of the run."""

COMMIT, BRANCH, STASH = "by a person", "an-idea", "for later"


@dataclass(frozen=True)
class Remark:
    """Words that a person writes into a file: in place of others, or at its end."""

    path: str
    words: str
    instead_of: str = ""

    def into(self, text: str) -> str:
        if not self.instead_of:
            return text + self.words
        assert text.count(self.instead_of) == 1, (self.path, self.instead_of, text)
        return text.replace(self.instead_of, self.words)


FILES = {
    "README.md": "# Shop\n\nPeople sign in, and are greeted.\n",
    "CHANGES.md": "# Changes\n",
    "ideas.md": "# Ideas\n",
}
"""What the person edits and no agent changes."""

CODE = (
    Remark("README.md", "People sign in, and are greeted by name.", "People sign in, and are greeted."),
    # At another place of this file an agent is at work.
    Remark("shop/login.py", '"""Who may come in, and who may not."""', '"""Who may come in."""'),
)
NEW = {"notes/mine.md": "Ask Bo before this goes out.\n"}


@dataclass
class Person:
    """The owner of a repository; called with the name of a moment, they do their part."""

    root: Path
    remarks: Sequence[Remark]
    moments: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def __call__(self, moment: str) -> None:
        acts: Mapping[str, Callable[[], None]] = {CODES.name: self._code, REMARKS.name: self._remark}
        self.moments.append(moment)
        try:
            acts[moment]()
        except Exception as error:
            self.failures.append(error)
            raise

    def git(self, *words: str) -> str:
        done = subprocess.run(("git", *words), cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def missed(self) -> Iterator[str]:
        """What this person wrote and does not find any more, or finds twice."""
        for remark in (*CODE, *self.remarks):
            times = (self.root / remark.path).read_text("utf-8").count(remark.words)
            if times != 1:
                yield f"{remark.path}: {remark.words!r} is there {times} times"
        for path, text in NEW.items():
            if (self.root / path).read_text("utf-8") != text:
                yield path

    def _code(self) -> None:
        self._write(CODE)
        for path, text in NEW.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        self._write([Remark("CHANGES.md", "\n- Names are typed in any way.\n")])
        self.git("commit", "-q", "-m", COMMIT, "CHANGES.md")
        self.git("branch", BRANCH)
        self._write([Remark("ideas.md", "\n- Sell more.\n")])
        self.git("stash", "push", "-q", "-m", STASH, "--", "ideas.md")

    def _remark(self) -> None:
        self._write(self.remarks)

    def _write(self, remarks: Sequence[Remark]) -> None:
        for remark in remarks:
            place = self.root / remark.path
            place.write_text(remark.into(place.read_text("utf-8")), "utf-8")
