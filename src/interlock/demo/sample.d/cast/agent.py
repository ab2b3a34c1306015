"""What all programs of the cast share: the feature's folder, private memories, answers, and running things."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FEATURE = Path("docs/feature/csv-export")


@dataclass(frozen=True)
class Ran:
    """What a program did that was really run."""

    command: str
    code: int
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def shown(self) -> str:
        """Command, exit code and output, for a document."""
        return f"`{self.command}` ended with exit code {self.code}:\n\n```text\n{self.output.strip()}\n```"

    @property
    def refused(self) -> Ran:
        """The same as a check that the program refuses: it passes when the program ends with another code than 0."""
        return Ran(f"! {self.command}", int(self.ok), self.output)


def run(*words: str) -> Ran:
    """Run this Python with these words, in the workspace."""
    done = subprocess.run(
        [sys.executable, "-B", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return Ran(" ".join(("python3", *words)), done.returncode, done.stdout)


def document(path: str, *parts: str) -> None:
    """Write a document of the feature."""
    place = FEATURE / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n\n".join(parts) + "\n", "utf-8")


def remember(member: str, status: str, severity: str, findings: Sequence[str]) -> None:
    """Write a private memory."""
    document(
        f"memory/{member}.mem.md",
        f"# Memory: {member}",
        f"## Status\n\n{status}",
        f"## Highest Severity\n\n{severity}",
        "## Key Findings\n\n" + "\n".join(f"- {finding}" for finding in findings),
        "## Decisions",
        "## Artifact Index",
        "## Lessons Learned",
    )


def answer(status: str, findings: Sequence[str]) -> None:
    """Print an answer; its last line is the verdict, with the first finding as its summary."""
    print(*(f"- {finding}" for finding in findings), "", f"{status}: {findings[0]}", sep="\n")
