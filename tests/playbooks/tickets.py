"""A ticket in the simulated world, and agents that answer as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from interlock.agents.values import Ask
from interlock.app import left
from interlock.documents.changing import dumped, set_yaml
from interlock.documents.reading import Keys, read_yaml
from interlock.engine.simulation import FAULT, WORK, Act, Files
from interlock.engine.view import View
from interlock.engine.world import Command
from interlock.errors import BadInput
from interlock.playbooks.ticket import TICKET
from interlock.playbooks.ticket.playbook import Settings
from tests.engine.bench import Bench, said

REQUEST = "ABC-12 fix the sum of the lib: it should add"
BRANCH = "fix/ABC-12_fix_sum_lib"
P = "prompts/ABC-12/"
HEAD: Files = {"lib.py": b"x = 1\n", ".gitignore": b"*.pyc\n"}
GOOD, BAD = WORK + b"somebody\n", FAULT
FIVE: dict[str, Any] = {"status": "ACCEPTED", "mode": "prompt-review", "build": "PASSED", "tests": "PASSED"}
SEVEN: dict[str, Any] = {**FIVE, "files_verified": True, "notes": "fine", "reviewed_at": "2026-01-01T00:00:00Z"}


def task(name: str, group: str = "A", **more: Any) -> dict[str, Any]:
    known = {
        **{"id": name, "description": f"Do {name}", "files_to_modify": [f"src/{name.lower()}.py"]},
        **{"success_criteria": ["it works"], "parallel_group": group, "depends_on": [], "status": "PENDING"},
    }
    return {key: value for key, value in {**known, **more}.items() if value is not ...}


def graph(*tasks: Mapping[str, Any], sequential: str = "", **more: Any) -> dict[str, Any]:
    """A graph of these tasks, in groups by their letters."""
    groups: dict[str, list[str]] = {}
    for one in tasks:
        groups.setdefault(one.get("parallel_group", "A"), []).append(one["id"])
    order = [
        {"group": letter, "strategy": "sequential" if letter in sequential else "parallel", "tasks": members}
        for letter, members in groups.items()
    ]
    made = {"validation_policy": {}, "tasks": list(tasks), "parallel_groups": groups, "execution_order": order}
    return {key: value for key, value in {**made, "strategy": "groups", **more}.items() if value is not ...}


def leaves(files: Mapping[str, Any], form: Any = "Done.", **more: Any) -> Act:
    """An act: files as bytes, texts, or data to be spelled as YAML."""
    spelled = {
        path: one if isinstance(one, bytes | None) else (one if isinstance(one, str) else dumped(one)).encode()
        for path, one in files.items()
    }
    return said(form, spelled, **more)  # type: ignore[arg-type]


def plans(*tasks: Mapping[str, Any], n: int = 0, plan: str = "# Plan\n", **more: Any) -> Act:
    """A Planner's."""
    made = {"tasks.yaml": graph(*tasks, **more)} if tasks else {}
    return leaves({f"{P}iteration_{n}/{name}": text for name, text in {"plan.md": plan, **made}.items()})


def in_turn(make: Callable[[int], Act], times: int = 20) -> list[Callable[..., Act]]:
    """Acts that follow the iteration, however often they are asked for."""
    return [lambda ask, files: make(int(ask.outputs[0].split("iteration_")[1][0]))] * times


def reviews(n: int = 0, **fields: Any) -> Act:
    """A Reviewer's, with the seven fields of the seed and nothing else."""
    return leaves({f"{P}iteration_{n}/review_report.yaml": {**SEVEN, **fields}})


@cache
def _read(content: bytes, path: str) -> Any:
    return read_yaml(content.decode(), path).data


def _progress(files: Files) -> Any:
    content = files.get(f"{P}progress.yaml")
    return _read(content, "progress.yaml") if content is not None else {}


def _tasks(files: Files) -> dict[str, Any]:
    path = f"iteration_{_progress(files).get('iteration_number', 0)}/tasks.yaml"
    with suppress(BadInput):  # one that nobody can read
        known = _read(files[f"{P}{path}"], path) if f"{P}{path}" in files else {}
        return {one["id"]: one for one in known.get("tasks", ())}
    return {}


class Desk(Bench):
    """One ticket, through as many processes and runs as it takes."""

    def __init__(
        self, files: Files | None = None, *, commands: Sequence[str] = ("build", "test"), **settings: Any
    ) -> None:
        playbook = replace(TICKET, settings=partial(Settings, **settings))  # type: ignore[arg-type]
        lines = {"build": "make", "test": "make test", "lint": "make lint"}
        toolbox = [Command(name, lines[name], "Makefile") for name in commands]
        now = {path: content for path, content in {**HEAD, **(files or {})}.items() if content is not None}
        super().__init__(playbook, now, HEAD, toolbox)
        self._seen: list[tuple[str, dict[str, bytes]]] = []
        self.usual = self.cast.agent
        self.cast.agent = self._agent  # type: ignore[method-assign]
        self.inputs: dict[str, Any] = {}
        self.flags: dict[str, Any] = {}

    def player(self) -> Any:
        player = super().player()
        player._more["flags"] = self.flags
        return player

    def _agent(self, ask: Ask, key: str, files: Files) -> Act:
        self._seen.append((ask.env["INTERLOCK_MEMBER"], dict(self.world.files)))
        return self.usual(ask, key, files)

    def start(self, **inputs: Any) -> View:
        return super().start(**{"request": REQUEST, **inputs})

    def run(self, request: str = REQUEST, dirty: str = "", **inputs: Any) -> View:
        self.flags, self.inputs = {"dirty": dirty}, {"request": request, **inputs}
        return self.start(**self.inputs)

    def again(self, *, trees: bool = True, **inputs: Any) -> View:
        """A new run of the ticket, of what the last one left on disk; without its trees as in another clone."""
        ended = self.last.view
        self.forgets()
        given = self.playbook.inputs(**{**(self.inputs or {"request": REQUEST}), **inputs})
        units = left(ended) if trees else {}
        return self.begins(given, run="ticket-2", order=2, units=units)

    def yaml(self, path: str) -> Any:
        return _read(self.world.files[f"{P}{path}"], path)

    def edit(self, path: str, values: Mapping[Keys, Any]) -> None:
        """A person changes a document."""
        self.world.files[f"{P}{path}"] = set_yaml(self.text(f"{P}{path}"), values).encode()

    @property
    def progress(self) -> Any:
        return _progress(self.world.files)

    @property
    def tasks(self) -> dict[str, Any]:
        return _tasks(self.world.files)

    @property
    def stood(self) -> list[tuple[str, Any, dict[str, Any]]]:
        """At each call: who is called, progress.yaml and the tasks as they stood on disk."""
        return [(who, _progress(files), _tasks(files)) for who, files in self._seen]

    @property
    def called(self) -> list[str]:
        return [who for who, _ in self._seen]

    @property
    def events(self) -> list[str]:  # type: ignore[override]
        lines = self.text(f"{P}log.jsonl").splitlines()
        return [json.loads(line)["event"].removeprefix("orchestrator.") for line in lines]

    @property
    def said(self) -> list[str]:
        view = self.last.view
        return "".join(self.world.folder.get(one).decode() + "\n" for one in view.said.values()).splitlines()

    def intended(self, what: str) -> list[Any]:
        return [line.event for line in self.lines if line.event.e == "intended" and line.event.what == what]

    def red_while(self, bad: Callable[[Files], bool], line: str = "make test", out: str = "1 failed") -> None:
        """A command that is red while that holds of the files."""
        from tests.engine.bench import GREEN, CommandExit

        self.cast.commands[line] = lambda files: CommandExit(exit=1, out=out) if bad(files) else GREEN
