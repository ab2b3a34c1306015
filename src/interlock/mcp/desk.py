"""The workspace behind the tools: looking is done here, all else by the command line in a process of its own.

So no lock is held and no playbook is played by the server, which may end at any moment; and who may do what, who is
told of it and what is recorded are the same as for a person who types.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import typed
from interlock.cli.commands import options_of
from interlock.cli.door import Door
from interlock.documents.files import read, sha256
from interlock.errors import BadInput, Refused, unknown

if TYPE_CHECKING:  # heavy: a client waits for the server's first words
    from interlock.engine.playbook import Playbook
    from interlock.engine.runs import Entry
    from interlock.engine.view import View

PATIENCE_S = 50.0
"""The most that one call takes: clients give it a minute."""
PAGE = 16_000
"""Characters of a text in one answer; clients cut longer ones, or refuse them."""
TEXT, ITEMS = 2_000, 30
"""The most of a text and of a list in the account of a run; `read` has all of it."""


@dataclass(frozen=True)
class Asked:
    """What a gate asks a person, as it is at one moment."""

    headline: str
    question: str
    summary: str
    choices: tuple[str, ...]
    opening: int
    shown: Mapping[str, str]
    """Digests of the documents."""
    documents: Mapping[str, str | None]


class Desk:
    """One workspace; all of it is read anew for each call, since a server lives long."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._under_way: dict[tuple[str, ...], asyncio.Task[str]] = {}

    @property
    def door(self) -> Door:
        return Door(dir=str(self.folder))

    # --- by the command line

    async def says(self, *words: str) -> str:
        """What the command line prints; Refused in its words where it does not do what it is asked for."""
        if words not in self._under_way:
            typing = asyncio.to_thread(typed.prints, self.folder, ("-C", str(self.folder), *words))
            self._under_way[words] = asyncio.create_task(typing)
        task = self._under_way[words]
        if not (await asyncio.wait([task], timeout=PATIENCE_S))[0]:
            raise Refused("it has not begun to work yet", remedy="Call the same again, to hear what comes of it.")
        self._under_way.pop(words, None)
        return task.result()

    async def facts(self, *words: str) -> dict[str, Any]:
        """The one JSON object that a command prints."""
        found: dict[str, Any] = json.loads(await self.says(*words))
        return found

    def words(self, playbook: str, inputs: Mapping[str, Any], *more: str) -> list[str]:
        """A playbook with what is said of its inputs, as it is typed: nothing of it can pass for another option."""
        known, said = _inputs(self.door.place.playbook(playbook)), dict[str, list[str]]()
        for name, value in inputs.items():
            if name not in known:
                raise unknown(f"{playbook} takes no {name!r}", name, known, where="inputs")
            param = known[name]
            flag = isinstance(param, click.Option) and param.is_flag
            several = value if isinstance(value, list) and (param.multiple or param.nargs < 0) else [value]
            plain = all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in several)
            if not (value == param.flag_value if flag else plain):
                what, found = f"{name} cannot be this", json.dumps(value)[:200]
                raise BadInput(what, where="inputs", expected=_kind(param), found=found)
            said[str(param.name)] = list(map(str, several))
        return [playbook, *more, *typed.words(known.values(), said)]

    def by_people(self, playbook: str) -> bool:
        """Whether people start it, and no model."""
        return self.door.place.playbook(playbook).by_people

    # --- looking

    def playbooks(self) -> Iterator[dict[str, Any]]:
        """Those that can be run, with what they take; of those that nobody trusts, why not. None of these is loaded."""
        for found, playbook, why in self.door.place.library.offered():
            one: dict[str, Any] = {"name": found.name, "origin": found.origin}
            if playbook is None:
                yield one | {"not_offered": why}
            else:
                inputs = {name: _kind(param) for name, param in _inputs(playbook).items()}
                yield one | {"does": playbook.summary, "inputs": inputs, "a_person_confirms": playbook.by_people}

    def run(self, name: str) -> tuple[Entry, View, bool]:
        """A run as it stands, and whether somebody works on it."""
        entry = self.door.runs.find(name)
        held = entry.holder() is not None  # asked first: whoever left has written all
        return entry, entry.view(), held

    def works(self, name: str) -> bool:
        """Whether somebody works on it, and it does not wait for a person."""
        _, view, held = self.run(name)
        return held and view.gate is None

    def asked(self, name: str) -> Asked | None:
        """What a run asks a person now, with its documents as they are now."""
        _, view, _ = self.run(name)
        gate, top = view.gate, self.door.workspace.top
        if gate is None or view.start is None:
            return None
        contents = {path: read(top, path) for path in gate.shown}
        texts = {path: None if raw is None else raw.decode("utf-8", "replace") for path, raw in contents.items()}
        shown = {path: sha256(raw) for path, raw in contents.items()}
        return Asked(view.start.headline, gate.question, gate.summary, gate.choices, gate.opening, shown, texts)

    async def decide(self, name: str, gate: Asked, choice: str, note: str, by: str) -> None:
        """Record what a person said about what they saw; whoever works on the run takes it up, or somebody begins to.

        Raises:
            Refused: it has changed since.
        """
        from interlock.app import who  # heavy

        entry, place = self.door.runs.find(name), self.door.place
        seen: dict[str, Any] = {"opening": gate.opening, "shown": gate.shown}
        await asyncio.to_thread(place.decide, entry, "answer", choice=choice, note=note, by=f"{by}, {who()}", **seen)
        if entry.holder() is None:
            await self.says("resume", "--detach", "--json", "--", entry.id)

    def account(self, name: str) -> dict[str, Any]:
        """How a run stands: `View.to_json()` with an end to every list and text, and what a person is told."""
        door = self.door
        entry, view, held = self.run(name)
        output = entry.output(view).decode("utf-8", "replace")
        told = "\n".join(door.ending(view, view.status_now(held)))
        facts: dict[str, Any] = short(view.to_json(worked_on=held, output=output))
        return facts | {"told": cut(told, 2 * TEXT), "documents": documents(view)[:ITEMS]}

    async def text(self, name: str, what: str) -> str:
        """A text of a run, whole."""
        entry, view, _ = self.run(name)
        if what in documents(view):
            return self.door.place.text(what) or ""
        if what == "output":
            return entry.output(view).decode("utf-8", "replace")
        words = {"report": ("show", "--markdown"), "log": ("show", "--log"), "diff": ("diff",)}
        return await self.says(*words.get(what, ("show",)), "--", entry.id, *([] if what in words else [what]))


def documents(view: View) -> list[str]:
    """What people may want to read of it: what its gates show, what it wrote and what it delivered."""
    shown = [path for gate in view.gates.values() for path in gate.shown]
    return list(dict.fromkeys((*shown, *view.documents, *view.landed)))


def short(value: Any) -> Any:
    """The same with an end to every text and list: of a list the last."""
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value[-ITEMS:]]
    return cut(value, TEXT) if isinstance(value, str) else value


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} (and {len(text) - most} characters more: read has them)"


def _inputs(playbook: Playbook) -> dict[str, Any]:
    return {str(param.name).strip("_"): param for param in options_of(playbook)}


def _kind(param: Any) -> str:
    flag = isinstance(param, click.Option) and param.is_flag
    kind = json.dumps(param.flag_value) if flag else "texts" if param.multiple else param.type.name
    needed = isinstance(param, click.Argument) and not (param.metavar or "").startswith("[")
    return f"{'needed, ' if needed else ''}{kind}. {getattr(param, 'help', None) or ''}".strip()
