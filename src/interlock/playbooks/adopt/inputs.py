"""What is asked of adopt: which file, and what its playbook is called; and where the files of that lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from interlock.engine import Option
from interlock.errors import ConfigInvalid

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


@dataclass(frozen=True)
class AdoptInputs:
    """A prompt of the workspace."""

    file: Annotated[
        str,
        Option(
            "The prompt: an agent file, a command, a skill, any Markdown of the workspace.",
            metavar="FILE",
            argument=True,
            file=True,
            must_exist=False,
        ),
    ]
    name: Annotated[
        str,
        Option("What the playbook is called. Default: the name of the file, or of the folder of a SKILL.md."),
    ] = ""
    replace: Annotated[
        bool, Option("Put it in the place of a playbook of this name; the old one goes to the attic.")
    ] = False

    @property
    def called(self) -> str:
        """The name of the playbook; `ConfigInvalid` where none is given and the file's is none."""
        path = PurePosixPath(self.file)
        stem = path.parent.name if path.name.lower() == "skill.md" else path.name.partition(".")[0]
        name = self.name or re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-").lower()
        if not NAME.fullmatch(name):
            raise ConfigInvalid(
                f"{name!r} cannot be the name of a playbook",
                where="command line",
                expected="a letter, then letters, digits, _ or -, at most 60",
                found=name,
                remedy="Say what it is called with --name NAME.",
            )
        return name

    @property
    def at(self) -> AdoptedFiles:
        return AdoptedFiles(self.called)


@dataclass(frozen=True)
class AdoptedFiles:
    """Where the files of one adoption are.

    Agents write below `folder`; `.interlock/` is closed to them, so what was approved is installed by the engine.
    """

    name: str

    @property
    def folder(self) -> str:
        return f"docs/adopted/{self.name}"

    @property
    def statements(self) -> str:
        return f"{self.folder}/statements.json"

    def reading(self, part: int) -> str:
        """What the reader of a part writes; it goes no further than to the engine."""
        return f"{self.folder}/statements-{part}.json"

    @property
    def yaml(self) -> str:
        return f"{self.folder}/playbook.yaml"

    @property
    def roles(self) -> str:
        return f"{self.folder}/agents"

    @property
    def trace(self) -> str:
        return f"{self.folder}/trace.json"

    @property
    def verdicts(self) -> str:
        """What the critic writes; it goes no further than to the engine."""
        return f"{self.folder}/verdicts.json"

    @property
    def summary(self) -> str:
        return f"{self.folder}/summary.md"

    @property
    def page(self) -> str:
        """The trace as people read it."""
        return f"{self.folder}/trace.md"

    @property
    def installed(self) -> str:
        return f".interlock/playbooks/{self.name}"
