"""The door that a command came through: the workspace, the common options, and where its answer goes.

Code of a workspace is used when a person says so: what they are shown, and how they are asked.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from interlock.cli.output import complain, print_json, print_lines, put_beside, selection
from interlock.errors import ConfigInvalid
from interlock.settings import find_workspace

if TYPE_CHECKING:
    from interlock.app import FromSettings
    from interlock.engine.definition import Playbook
    from interlock.engine.folder import KnownRun
    from interlock.engine.identity import Identity
    from interlock.engine.runs import Call, Runs, View
    from interlock.finding import Library, Request


T = TypeVar("T")


@dataclass
class Errand:
    """One call of the program, as far as it is known: what an error can still say about it."""

    json: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    """Common options that stood before the command."""
    playbook: str | None = None
    key: str | None = None
    run_id: str | None = None
    started_at: str | None = None
    moves: Mapping[str, Any] = field(default_factory=dict)
    """What was said to move a run that has stopped."""
    library: Library | None = None
    """The playbooks that can be asked for, once the workspace is known."""
    place: str = ""
    """The option that names the workspace, as it was given: commands that are told to people need it too."""

    def turn_to(self, identity: Identity) -> None:
        """From now on it is about this run."""
        self.playbook, self.key = identity.playbook, identity.key
        self.run_id, self.started_at = identity.run_id, identity.started_at


@dataclass(frozen=True)
class Door:
    """The common options, wherever on the line they stood, and what follows from them."""

    errand: Errand = field(repr=False)
    workspace: Path | None = None
    json: bool = False
    runner: str | None = None
    dry_run: bool = False
    new_run: bool = False
    take_over: bool = False
    budget: float | None = None
    accept_baseline: bool = False
    no_preflight: bool = False
    verbose: bool = False
    detach: bool = False
    fields: str | None = None
    """Of what programs get, the fields that were asked for; None: all of them."""
    trust: bool = False
    beside: tuple[Path, ...] = ()
    """Further workspaces, of a command that shows several."""

    @classmethod
    def of(cls, errand: Errand, own: Mapping[str, Any]) -> Door:
        """The options of the command itself, over those that stood before it."""
        for name, value in errand.given.items():
            if value and name not in own:
                raise ConfigInvalid(
                    f"--{name.replace('_', '-')} means nothing to this command",
                    where="command line",
                    remedy="Leave it out, or see the command's --help.",
                )
        known = {entry.name for entry in fields(cls)} - {"errand"}
        given = {name: value for options in (errand.given, own) for name, value in options.items() if said(value)}
        given |= {"json": True} if "fields" in given else {}
        if isinstance(several := given.pop("workspace", None), list):
            given |= {"workspace": several[0], "beside": tuple(several[1:])} if several else {}
        elif several is not None:
            given["workspace"] = several
        errand.place = f" -C {shlex.quote(str(given['workspace']))}" if "workspace" in given else ""
        return cls(errand, **{name: value for name, value in given.items() if name in known})

    @cached_property
    def roots(self) -> list[Path]:
        """All workspaces that were named."""
        return [self.root, *(find_workspace(self.root, other) for other in self.beside)]

    @cached_property
    def root(self) -> Path:
        try:
            here = Path.cwd()
        except FileNotFoundError:
            raise ConfigInvalid(
                "the folder you are in is gone", expected="a folder", remedy="Change into the workspace again: cd DIR"
            ) from None
        return find_workspace(here, self.workspace)

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def runs(self, view: View) -> Runs:
        """The runs of this workspace, watched."""
        from interlock.app import open_runs

        self._check_home()
        return open_runs(
            self.root, view, environ=self.environ, runner=self.runner, found=self.library, again=self.again
        )

    @property
    def setup(self) -> FromSettings:
        """What runs need, as the settings of this workspace say."""
        from interlock.app import FromSettings
        from interlock.engine.runs import Quiet

        setup = self.runs(Quiet()).setup
        assert isinstance(setup, FromSettings)
        return setup

    def _check_home(self) -> None:
        home = self.root / ".interlock"
        if home.is_symlink() and not home.exists():
            raise ConfigInvalid(
                "the folder of interlock is a link that leads nowhere",
                where=str(home),
                expected="a folder, or nothing",
                remedy="Remove the link, or put back what it led to.",
            )

    def call(
        self,
        *,
        retry: bool = False,
        accept_recorded: bool = False,
        note: str = "",
        flags: Mapping[str, Any] | None = None,
    ) -> Call:
        """What this process is asked for, beyond playbook and inputs."""
        from interlock.engine.people import person
        from interlock.engine.runs import Call

        if self.budget is not None and not math.isfinite(self.budget):
            raise ConfigInvalid(
                "a budget is a number", where="option --budget", expected="USD, from 0", found=str(self.budget)
            )
        return Call(
            new_run=self.new_run,
            retry=retry,
            accept_recorded=accept_recorded,
            take_over=self.take_over,
            budget_usd=self.budget,
            note=note.strip(),
            who=person() if note.strip() else "",
            flags={**self._looking_first, **(flags or {})},
        )

    @property
    def _looking_first(self) -> Mapping[str, Any]:
        """What was said about the look before the first agent, as flags of the run."""
        said = {"accept_baseline": self.accept_baseline, "no_preflight": self.no_preflight}
        return {name: value for name, value in said.items() if value}

    @property
    def library(self) -> Library:
        """The playbooks that can be asked for here."""
        if self.errand.library is None:
            self.errand.library = library(self.root, trust=self.trust, json=self.json)
        if self.errand.library.root != self.root:  # a word that is the value of another option
            raise ConfigInvalid(
                "it is not clear which workspace is meant",
                where="command line",
                found=f"{self.errand.library.root} and {self.root}",
                remedy="Name it before the command: interlock -C DIR run",
            )
        return self.errand.library

    def playbook(self, word: str) -> Playbook:
        """The playbook that a person means: by its name, or by a path from where they are."""
        return self.library.load(word, self.here)

    @property
    def here(self) -> Path:
        """From where paths are named: the workspace if it was named, else the folder the person is in."""
        return self.root if self.workspace is not None else Path.cwd()

    def again(self, playbook: Playbook, inputs: Mapping[str, Any]) -> str:
        """The command that starts a playbook with these inputs."""
        from interlock.engine.asking import spoken

        words = spoken(playbook.questions(playbook.inputs), inputs)
        return self.spoken(shlex.join(("run", self.word_for(playbook), *words)))

    def word_for(self, playbook: Playbook) -> str:
        """What a person types for a playbook."""
        source = playbook.source
        if source is None or source.origin != "path":
            return playbook.name
        path = os.path.relpath(self.root / source.place, self.here)
        return path if path.startswith("../") else f"./{path}"

    def find(self, name: str) -> KnownRun:
        """The run that a person means."""
        from interlock.engine.folder import find_run

        return find_run(self.root, name)

    def answer(self, facts: Any, lines: Iterable[str]) -> None:
        """What was asked for: one JSON value for programs, lines for people."""
        if self.json:
            self.give(facts)
        else:
            print_lines(lines)

    def give(self, facts: Any) -> None:
        """One JSON value for programs, with the fields that were asked for."""
        print_json(facts if self.fields is None else selection(facts, self.fields.split(",")))

    def spoken(self, command: str) -> str:
        """A command for the person to type, from where they are now."""
        return f"interlock{self.errand.place} {command}"


def said(value: object) -> bool:
    """Whether an option was given; a budget of 0 was."""
    return value is not None and value is not False


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of asynchronous work: async inside, sync at the door."""
    import asyncio

    try:
        return asyncio.run(work)
    finally:
        work.close()  # it was never begun if there was no descriptor left for the loop


def library(root: Path, *, trust: bool, json: bool) -> Library:
    """The playbooks of a workspace, for somebody at the command line.

    Args:
        trust: they have said so already, with --trust.
        json: a program reads the answer: nobody is asked.
    """
    from interlock.finding import Library

    def consent(request: Request) -> bool:
        if trust:
            complain(f"Trusted from now on: {request.what}, digest {request.bundle.digest}")
            return True
        return not json and at_terminal() and asked(request)

    return Library(root, os.environ, consent=consent)


def at_terminal() -> bool:
    """Whether somebody sits at a terminal who can be asked here and now."""
    streams = (sys.stdin, sys.stderr)  # one that is closed is None
    attended = all(stream is not None and stream.isatty() for stream in streams)
    return attended and os.environ.get("TERM", "") != "dumb"


def asked(request: Request) -> bool:
    """What the person at the terminal says; anything but yes is no."""
    complain(f"{request.why}. It would be loaded and executed:", *request.lines)
    put_beside("Do you trust it? It can do what you can do. [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Peek(NamedTuple):
    """What is said further along a command line that is not parsed yet."""

    workspace: Path | None
    trust: bool
    json: bool


def peek(arguments: Sequence[str]) -> Peek:
    """The options that decide which playbook is meant, and whether it may be loaded: before its own are known."""
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    workspace = None
    for number, word in enumerate(words):
        if word in ("-C", "--workspace") and number + 1 < len(words):
            workspace = Path(words[number + 1])
        elif word.startswith("--workspace="):
            workspace = Path(word.partition("=")[2])
        elif word.startswith("-C") and len(word) > 2:
            workspace = Path(word[2:])
    return Peek(workspace, _trusting(words), "--json" in words)


def _trusting(words: Sequence[str]) -> bool:
    """Whether --trust is surely an option: behind one that may take a value, it may be somebody's text."""
    from interlock.cli.commands import SWITCHES

    return any(
        word == "--trust" and (not above.startswith("-") or "=" in above or above in SWITCHES)
        for above, word in zip(["", *words], words, strict=False)
    )
