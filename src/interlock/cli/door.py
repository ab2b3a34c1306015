"""The door that a command came through: the options that commands share, the workspace, and where its answer goes."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from interlock.cli.output import at_terminal, print_json, print_lines, selection
from interlock.errors import ConfigInvalid, InterlockError
from interlock.settings import find_workspace

if TYPE_CHECKING:
    from interlock.app import FromSettings
    from interlock.engine.definition import Playbook
    from interlock.engine.folder import KnownRun
    from interlock.engine.identity import Identity
    from interlock.engine.runs import Call, Runs, View
    from interlock.finding import Library


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


# -- what the shell offers for a half-typed word: never an error, a shell has no place to show one


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the workspace's runs, the latest first."""
    from interlock.engine.folder import known_runs

    try:
        root = find_workspace(Path.cwd(), _workspace(context))
        names = [known.identity.run_id for known in reversed(known_runs(root))]
    except (InterlockError, OSError):
        return []
    return [name for name in ("latest", *names) if name.startswith(incomplete) and name.isprintable()] if names else []


def complete_playbook(context: typer.Context, incomplete: str) -> list[str]:
    """The playbooks that are here, by their names; none is loaded for it."""
    from interlock.finding import Library

    try:
        names = Library(find_workspace(Path.cwd(), _workspace(context)), os.environ).names()
    except (InterlockError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]


def complete_runner(context: typer.Context, incomplete: str) -> list[str]:
    """The runners of interlock.toml, and those that need no table there."""
    from interlock.settings import READY_RUNNERS, load_settings

    try:
        own = tuple(load_settings(find_workspace(Path.cwd(), _workspace(context)), os.environ).runners)
    except (InterlockError, OSError):
        own = ()
    return sorted({name for name in (*own, *READY_RUNNERS) if name.startswith(incomplete)})


def _workspace(context: typer.Context) -> Path | None:
    """The workspace that was typed so far, before or after the command."""
    while context is not None:
        if (typed := context.params.get("workspace")) is not None:
            return Path(typed)
        if context.parent is None:
            return None
        context = context.parent  # type: ignore[assignment]
    return None


# -- the options that commands share


def shared(help: str, *short: str, **how: Any) -> Any:
    """An option that is called as its field is."""
    return typer.Option(*short, help=help, show_default=False, **how)


@dataclass(frozen=True)
class Door:
    """The options that commands share, wherever on the line they stood, and what follows from them.

    This is where each of them is declared: a command takes those that it honours.
    """

    errand: Errand = field(repr=False)
    workspace: Annotated[
        Path | None,
        shared(
            "Workspace to work in. Default: the nearest parent folder with interlock.toml, else the git top level.",
            "-C",
            metavar="DIR",
        ),
    ] = None
    json: Annotated[bool, shared("Print one JSON object on stdout; progress goes to stderr.")] = False
    runner: Annotated[
        str | None,
        shared(
            "Runner for all agents, instead of what interlock.toml says.",
            metavar="NAME",
            autocompletion=complete_runner,
        ),
    ] = None
    dry_run: Annotated[
        bool, shared("Show the next step and its brief; change nothing. The whole way: interlock plan.")
    ] = False
    new_run: Annotated[bool, shared("Start a new run although the last one is complete.")] = False
    take_over: Annotated[bool, shared("Take over the lock of another machine that surely works no more.")] = False
    budget: Annotated[
        float | None, shared("Wait for a person before spending more than this.", metavar="USD", min=0.0)
    ] = None
    accept_baseline: Annotated[
        bool, shared("Named commands may fail before the work begins; only what fails newly counts.")
    ] = False
    no_preflight: Annotated[bool, shared("Call agents without looking first whether they and the commands work.")] = (
        False
    )
    verbose: Annotated[bool, shared("Tell the bookkeeping too, and what agents say and do.")] = False
    detach: Annotated[bool, shared("Go on in the background, as a process of its own; see: interlock watch.")] = False
    fields: Annotated[
        str | None,
        shared(
            "With --json, which this implies: only these fields; of a field in a field, as totals.cost_usd.",
            metavar="NAME,...",
        ),
    ] = None
    trust: Annotated[
        bool, shared("I have read the playbook: its code may be used, as it is now. Asked for once on a terminal.")
    ] = False
    beside: tuple[Path, ...] = ()
    """Further workspaces, of a command that shows several."""

    @classmethod
    def of(cls, errand: Errand, own: Mapping[str, Any]) -> Door:
        """The options of the command itself, over those that stood before it."""
        for name, value in errand.given.items():
            if value and name not in own:
                raise ConfigInvalid(
                    f"{option_of(name)} means nothing to this command",
                    where="command line",
                    remedy="Leave it out, or see the command's --help.",
                )
        given = {name: value for options in (errand.given, own) for name, value in options.items() if said(value)}
        given |= {"json": True} if "fields" in given else {}
        if isinstance(several := given.pop("workspace", None), list):
            given |= {"workspace": several[0], "beside": tuple(several[1:])} if several else {}
        elif several is not None:
            given["workspace"] = several
        errand.place = f" -C {shlex.quote(str(given['workspace']))}" if "workspace" in given else ""
        return cls(errand, **given)

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
            from interlock.cli.playbooks import library

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

    @property
    def can_ask(self) -> bool:
        """Whether somebody sits at a terminal who can be asked here and now."""
        return not self.json and at_terminal()

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


def option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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


def _options() -> Iterator[tuple[str, tuple[Any, Any]]]:
    kinds = get_type_hints(Door, include_extras=True)
    for one in fields(Door):
        if isinstance(how := getattr(kinds[one.name], "__metadata__", (None,))[0], typer.models.OptionInfo):
            how.param_decls = (option_of(one.name), *(how.param_decls or ()))
            yield one.name, (kinds[one.name], one.default)


SHARED: Final = dict(_options())
"""How typer reads each option that commands share, and what it is where nobody gave it."""
