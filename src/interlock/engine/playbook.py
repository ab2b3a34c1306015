"""What a playbook is: an async function over verbs, with its inputs, rows and texts (OWN-01)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from interlock.documents.model import Model
from interlock.engine.run import Outcome, Row, Run
from interlock.engine.view import View
from interlock.workspace.values import Where


@dataclass(frozen=True)
class Playbook:
    """A process, in a folder that reads like it."""

    name: str
    play: Callable[[Run, Any], Awaitable[Outcome]]
    inputs: type[Model]
    rows: Sequence[Row]
    caps: Mapping[str, int]
    """Loop -> most turns; settings may lower it."""
    headline: Callable[[Any], str]
    key: Callable[[Any, Where], str]
    """Of which one run is open at a time."""
    package: str = ""
    """Where its `prompts/` and `agents/` are."""
    folder: str = ""
    """The same, where it is in no package."""
    source: str = ""
    """Of one's own: where it was found, and the digest of what it was loaded from."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Prompts that are in no file."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Instructions of agents, where nobody has a file for them."""
    runners: Mapping[str, str] = field(default_factory=dict)
    """Who does an agent's work, where the settings do not say it of that agent."""
    settings: type[Model] | None = None
    summary: str = ""
    documents: Callable[[Any], Sequence[str]] = lambda inputs: ()
    """Globs of the process's own documents, by its inputs: they are in every tree, also where git ignores them."""
    flags: type[Model] | None = None
    """Options of one process and not of the run: never recorded, given anew with each `run` and `resume`."""
    by_people: bool = False
    """A person starts it, and no model: over MCP they confirm it."""
    nests: bool = False
    """An agent whose dispatch hands something on (`Call.hands`) may start it, within its own layer (RUN-20)."""
    goes_on: bool = False
    """A new run of its key takes over what the one before had pending."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Input -> a variable of the environment that says it, too."""
    repeats: Callable[[Any], str] | None = None
    """Why a key whose last run is complete is not run again without the flag `new_run`."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Inputs with which it is rehearsed, as far as their types do not say enough."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Documents of a workspace in which it is rehearsed, by path."""
    invariants: Mapping[str, Callable[[View], bool]] = field(default_factory=dict)
    """What holds on every path, beside what holds for all playbooks."""
    settle: Callable[[Any, Callable[[str], str | None]], Any] = lambda inputs, read: inputs
    """The inputs with what documents say where a person said nothing; gets them, and who reads a document by path."""
    check: Callable[[Any, Callable[[str], str]], None] | None = None
    """Refuses inputs before the first effect; gets them, and who says why nothing can be committed on a new branch of
    that name, or on the run's own."""

    @cached_property
    def brings(self) -> dict[str, str]:
        """Documents that a workspace needs for it, by path: the files below its `workspace/`; `init` writes them."""
        folder = (self.home or Path()) / "workspace"
        found = sorted(folder.rglob("*.md")) if self.home else []
        return {file.relative_to(folder).as_posix(): file.read_text("utf-8") for file in found}

    @cached_property
    def home(self) -> Path | None:
        """The folder that reads like it."""
        return Path(self.folder) if self.folder else Path(str(files(self.package))) if self.package else None

    @cached_property
    def prompts(self) -> dict[str, str]:
        places = sorted((self.home / "prompts").glob("*.md")) if self.home else []
        return {**self.texts, **{place.name.removesuffix(".md"): place.read_text("utf-8") for place in places}}
