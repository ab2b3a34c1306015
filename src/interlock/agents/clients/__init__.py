"""The coding agents, a module each, and which of them a person has on this machine.

A module here is a client by being here: its name is its type in settings.  Nothing here asks a model anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from interlock.agents.client import Client, ClientRow
from interlock.documents.files import read
from interlock.errors import ConfigInvalid
from interlock.settings import CLIENTS, Runner


def client(runner: Runner, top: Path) -> Client:
    """The client that a table of settings means; its scenario's path counts from the workspace's top."""
    if runner.type != "scripted" or not runner.scenario:
        return _client(runner.type, runner.argv or ())
    from interlock.agents.scripted import Scenario, Scripted

    raw = read(top, runner.scenario)
    if raw is None:
        raise ConfigInvalid("the scenario is not there", found=runner.scenario)
    return Scripted(Scenario.parse(raw, runner.scenario))


def row(type: str, argv: Sequence[str] = ()) -> ClientRow:
    """What is to be known of a client; of `acp` and `command` by their command line."""
    return _client(type, argv).ROW


def rows() -> list[ClientRow]:
    """Of all coding agents with a module of their own."""
    return [row(name) for name in CLIENTS]


def _client(type: str, argv: Sequence[str]) -> Client:
    if type in CLIENTS:
        return cast("Client", import_module(f"{__name__}.{type}"))
    return cast("Client", getattr(import_module(f"interlock.agents.{type}"), type.capitalize())(*argv))


@dataclass(frozen=True)
class Installed:
    """A coding agent that is there."""

    row: ClientRow
    signed_in: bool
    """As far as a file or a variable tells; a login in the system's key ring does not."""

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def text(self) -> str:
        return f"{self.row.title}, {'signed in' if self.signed_in else 'not signed in as far as can be seen'}"


def installed(environ: Mapping[str, str], home: Path) -> list[Installed]:
    """Those on PATH."""
    there = [one for one in rows() if shutil.which(one.program, path=environ.get("PATH"))]
    marks = {one.name: any(environ.get(mark) or (home / mark).is_file() for mark in one.signed_in) for one in there}
    return [Installed(one, marks[one.name]) for one in there]


def first_found(environ: Mapping[str, str], home: Path) -> Installed:
    """The one to use where nobody chose: the first that is signed in, else the first; ConfigInvalid: there is none."""
    there = installed(environ, home)
    if not there:
        raise ConfigInvalid(
            "no coding agent was found",
            expected=f"one of {', '.join(one.program for one in rows())} on PATH",
            remedy=f"Install one ({rows()[0].install}), or name any program of yours in interlock.toml: "
            '[runners.mine] type = "command"; runner = "mine".',
        )
    return next((one for one in there if one.signed_in), there[0])
