"""What a playbook is to the engine: a function, and what must be known of it before it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.engine.asking import Asked, Asking, Question, completed, questions
from interlock.engine.model import Ending, Retries
from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from interlock.engine.run import Run
    from interlock.engine.world import Documents


class AfterComplete(StrEnum):
    """What `run` does with a key whose last run is complete (EN-18)."""

    SAY_SO = "say so"
    NEW_ON_REQUEST = "new run only on request"
    ALWAYS_NEW = "always a new run"


def _nothing(_inputs: Any) -> tuple[str, ...]:
    return ()


def _same_inputs(inputs: Any, _flags: Mapping[str, Any]) -> Any:
    return inputs


def _unchanged(inputs: Any) -> Any:
    return inputs


@dataclass(frozen=True)
class Nothing:
    """Nothing can be said."""


def _no_samples(_asking: Asking) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Provenance:
    """Where a playbook was found, and what it was made of then (OW-05)."""

    origin: str
    place: str
    """By this it is found again: a path, from the workspace where it lies in it; or the name of a package."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Each file of its folder, with its digest."""

    def changes(self, before: Mapping[str, Any]) -> tuple[str, ...]:
        """What is not as it was, given what an earlier process noted: where it is from, and its files."""
        then, now = ((one.get("origin"), one.get("place")) for one in (before, vars(self)))
        moved = () if then == now else (f"from {now[0]} {now[1]}, before from {then[0]} {then[1]}",)
        return (*moved, *changed_files(before.get("files") or {}, self.files))


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The files that are not what they were, given their digests; with a word for those that came and went."""
    changed = [path for path in sorted({*before, *now}) if before.get(path) != now.get(path)]
    return tuple(
        f"{path} (new)" if path not in before else path if path in now else f"{path} (gone)" for path in changed
    )


@dataclass(frozen=True)
class Playbook:
    """A process that can be run, resumed, rehearsed and described."""

    name: str
    function: Callable[[Run, Any], Awaitable[Ending]]
    inputs: type
    """A frozen dataclass of JSON values; equal inputs and code give an equal run."""
    key: Callable[[Any], str]
    summary: str = ""
    first: str = ""
    """Arguments to try it with."""
    flags: type = Nothing
    """A dataclass of what concerns one call and not the run; given to the playbook as `Run.flags`."""
    settings: type = Nothing
    """Its table of `interlock.toml`; everything in it has a default."""
    moves: type = Nothing
    """A dataclass of what `resume` can be told to move a run that has stopped; given to `successor`."""
    understand: Callable[[Mapping[str, Any], Mapping[str, Any], Asking], Asked] | None = None
    """What a person's words for inputs and flags come to; unset: just these inputs and flags."""
    samples: Callable[[Asking], Iterable[Any]] = _no_samples
    """Inputs with which `validate` plays it up to its first work; an error that is raised is one that it reports."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """The parts of its keys that are its steps, in their order, each with its title: for those who watch."""
    agents: tuple[str, ...] = ()
    """All agents that it can need; they are bound before the first dispatch (CM-06)."""
    calls: tuple[Playbook, ...] = ()
    """The playbooks that it calls (`Run.call`): their agents are bound before the first dispatch too."""
    documents: Callable[[Any], tuple[str, ...]] = _nothing
    """Globs of its documents: seen by snapshots even where git ignores them (EN-33)."""
    state: Callable[[Any], tuple[str, ...]] = _nothing
    """Globs of documents that only the engine writes (CM-04)."""
    caps: Mapping[str, int] = field(default_factory=dict)
    max_parallel: int = 4
    retries: Retries = field(default_factory=Retries)
    after_complete: AfterComplete = AfterComplete.SAY_SO
    complete: Callable[[Any], str] | None = None
    """What a refused start says of a key whose last run is complete; unset: that it is."""
    reopens: bool = False
    """Its journal is its state: a retry of an ended run forgets what failed and goes on (EN-20)."""
    needs_roles: bool | frozenset[str] = True
    """Every agent, or each of these, needs a role file; not where the playbook brings the instructions itself."""
    runners: Mapping[str, str] = field(default_factory=dict)
    """How agents are called, where nobody's settings say it."""
    successor: Callable[[Any, Mapping[str, Any]], Any] = _same_inputs
    """The inputs of the run that follows a stopped or failed one, given the options of `resume` (EN-19)."""
    afresh: Callable[[Any], Any] = _unchanged
    """The inputs of the run that starts from an edited state document (EN-22), without what only moved the old one."""
    on_resume: Callable[[Run, Any, int], Awaitable[None]] | None = None
    edited: Callable[[Any, Past, Documents], str | None] | None = None
    """Whether a person changed what an open run depends on, and what (EN-22)."""
    standing: Callable[[Any, Documents], str] | None = None
    """How its state document says that the work stands, in a few words for somebody who decides where nothing waits."""
    home: Traversable | None = None
    """Where its roles and prompts are, where that is not the package of its function."""
    rehearsal: Callable[[], Any] | None = None
    """Its `Rehearsal`, where no function of this name in its folder offers one."""
    source: Provenance | None = None
    """Where it was found; unset: a program brought it along."""

    @property
    def folder(self) -> Traversable:
        """Where its code, roles and prompts are."""
        if self.home is not None:
            return self.home
        module = sys.modules[self.function.__module__]
        return resources.files(module.__package__) if module.__package__ else Path(str(module.__file__)).parent

    @cached_property
    def prompts(self) -> Mapping[str, str]:
        """The texts of its folder by name, like its code as they were when it was loaded."""
        folder = self.folder / "prompts"
        files = [file for file in folder.iterdir() if file.name.endswith(".md")] if folder.is_dir() else []
        return {file.name[:-3]: file.read_text(encoding="utf-8") for file in files}

    def questions(self, kind: type) -> tuple[Question, ...]:
        """What people can say of its inputs, its flags or its moves."""
        return questions(kind, plain=self.understand is None)

    @property
    def all_called(self) -> tuple[Playbook, ...]:
        """Those that it calls, and those that they call, each once."""
        found: dict[str, Playbook] = {}
        waiting = list(self.calls)
        while waiting:
            if (other := waiting.pop(0)).name not in found:
                found[other.name] = other
                waiting += other.calls
        return tuple(other for other in found.values() if other.name != self.name)

    def asked(self, said: Mapping[str, Any], asking: Asking) -> Asked:
        """What a person asks for who says this, by the names of fields."""
        given, flags = (completed(self.questions(kind), said, asking) for kind in (self.inputs, self.flags))
        if self.understand is not None:
            return self.understand(given, flags, asking)
        return Asked(self.inputs(**given), flags)

    def parse_inputs(self, value: Mapping[str, Any]) -> Any:
        try:
            return self.inputs(**value)
        except TypeError as error:
            raise ConfigInvalid(f"these are not the inputs of playbook {self.name}: {error}") from error

    def inputs_json(self, inputs: Any) -> dict[str, Any]:
        """The inputs as ``run.json`` has them: a tuple is a list there."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(inputs)))
        return plain


@dataclass(frozen=True)
class Past:
    """What the journal of an open run says, for the check before its replay."""

    last_written: Mapping[str, str]
    """Path to digest of each document the run wrote, as last written."""
    last_read: Mapping[str, str]
    notes: tuple[tuple[str, Mapping[str, Any]], ...]
    """The run's own events, in order."""
    begun: Mapping[str, str] = field(default_factory=dict)
    """Path to digest of the last write that was begun: a crash may have kept it from being recorded."""


def playbook(
    name: str, *, inputs: type, key: Callable[[Any], str], **known: Any
) -> Callable[[Callable[[Run, Any], Awaitable[Ending]]], Playbook]:
    """Make an async function a playbook."""

    def wrap(function: Callable[[Run, Any], Awaitable[Ending]]) -> Playbook:
        summary = (function.__doc__ or "").strip().split("\n", 1)[0]
        return Playbook(name=name, function=function, inputs=inputs, key=key, summary=summary, **known)

    return wrap
