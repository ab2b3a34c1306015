"""`doctor`: what would keep a run from working here, and what to do about it (AGENT-01, AGENT-04, TREE-11)."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from interlock.agents import client as clients_client
from interlock.agents import clients
from interlock.agents.client import ClientRow
from interlock.agents.environment import Environment, environment
from interlock.agents.values import Ask, Role, TroubleKind
from interlock.cli import text
from interlock.cli.door import Door
from interlock.cli.output import print_json, print_lines, tell
from interlock.engine.journal import mend as cut
from interlock.errors import Exit, InterlockError
from interlock.settings import CLIENTS, Runner
from interlock.workspace.git import OLDEST_GIT, Git

QUESTION = "Answer with this one word and do nothing else: ready"
ANSWERS_S = 120.0


@dataclass(frozen=True)
class Found:
    """One thing that was looked at."""

    state: Literal["ok", "note", "BROKEN"]
    subject: str
    said: str
    remedy: str = ""
    text: str = ""
    """What is to be copied as it stands."""


def doctor(door: Door, *, mend: str | None, no_ask: bool) -> int:
    """Look at everything; nothing is changed."""
    if mend:
        return _mend(door, mend)
    found = list[Found]()
    looks = (("git", _git), ("settings", _settings), ("sandbox", _layers), ("agent", partial(_agents, ask=not no_ask)))
    for subject, look in looks:
        try:
            for one in look(door):
                found.append(one)
                print_lines(() if door.json else _lines(one))
        except InterlockError as error:
            for known in (error, *error.also):
                parts = [" ".join(part) for part in known.parts() if part[0] != "to do"]
                found.append(Found("BROKEN", subject, "; ".join([known.what, *parts]), known.remedy or ""))
                print_lines(() if door.json else _lines(found[-1]))
            if subject == "settings":  # all else asks for them
                break
    ok = all(one.state != "BROKEN" for one in found)
    if door.json:
        print_json({"ok": ok, "checks": [vars(one) for one in found]})
    return int(Exit.DONE if ok else Exit.INPUT)


def _lines(one: Found) -> Iterator[str]:
    said = text.fitted(" " * 19 + one.said, text.WIDTH, 0).lstrip()
    yield f"{text.padded(one.state, 6)}  {text.padded(one.subject, 9)}  {said}"
    if one.remedy:
        yield text.fitted(" " * 19 + f"to do: {one.remedy}", text.WIDTH, 2)
    yield from (f"    {line}" for line in one.text.splitlines())


def _git(door: Door) -> Iterator[Found]:
    said = Git(door.workspace.top).text("version")
    if tuple(map(int, re.findall(r"\d+", said)[:2])) >= OLDEST_GIT:
        yield Found("ok", "git", said)
    else:
        yield Found("BROKEN", "git", said, f"Install git {'.'.join(map(str, OLDEST_GIT))} or later.")


def _settings(door: Door) -> Iterator[Found]:
    place = door.place
    yield Found("ok", "workspace", str(place.workspace.top))
    yield Found("ok", "settings", place.settings.file or "no interlock.toml: all defaults")
    if place.trees.repository is None:
        yield Found("note", "workspace", "no git repository: runs work, but commits are not possible", "git init")
    damaged = [entry.id for entry in place.runs.all() if entry.head() is None]
    yield from (Found("BROKEN", "run", f"{run} cannot be read", f"interlock doctor --mend {run}") for run in damaged)


def _layers(door: Door) -> Iterator[Found]:
    """How agents are kept apart from the tree, and how to get them confined."""
    made = door.place.layers.maker()
    if made.confined:
        yield Found("ok", "sandbox", f"agents are confined {made.why}")
        return
    cost = "" if made.shares_blocks else f"; a copy takes {text.size(made.cost_bytes)}"
    said = f"agents work in a private copy, not confined: {made.why}{cost}"
    yield Found("note", "sandbox", said, made.remedy, made.profile)


# --- agents


def _agents(door: Door, *, ask: bool) -> Iterator[Found]:
    place = door.place
    for one in clients.installed(os.environ, Path.home()):
        yield Found("ok" if one.signed_in else "note", "agent", one.text, "" if one.signed_in else one.row.sign_in)
    named = [door.runner or place.settings.runner, place.settings.judges]
    named += [one.runner for one in place.settings.agents.values()]
    first = named[0] or clients.first_found(os.environ, Path.home()).name
    for name in dict.fromkeys([first, *filter(None, named[1:])]):
        table = place.settings.runner_named(name)
        row = clients.row(table.type, table.argv or ())
        given = environment(os.environ, place.workspace.top, needed=row.variables, allowed=place.settings.sandbox.env)
        if table.type in CLIENTS and ask:
            yield asyncio.run(_asked(door, name, table, row, given))
        elif table.type in ("command", "acp"):
            yield _program(door, name, table, given)
        else:
            yield Found("ok", "runner", f"{name}: {row.title}")
        if left_out := given.left_out:
            said = f"{name} does not get variables that look like keys: {text.few(left_out, 8)}"
            wanted = f'[sandbox]\nenv = ["{left_out[0]}"]'
            yield Found("note", "sandbox", said, "Name those that it needs in interlock.toml:", wanted)


def _program(door: Door, name: str, table: Runner, given: Environment) -> Found:
    program = (table.argv or ("",))[0]
    local = "/" in program and (door.workspace.top / program).exists()
    if local or shutil.which(program, path=given.variables.get("PATH")):
        return Found("ok", "runner", f"{name}: {shlex.join(table.argv or ())}")
    return Found("BROKEN", "runner", f"{name}: {program!r} is not found", f"Correct [runners.{name}] argv.")


async def _asked(door: Door, name: str, table: Runner, row: ClientRow, given: Environment) -> Found:
    """Whether it answers: asked in an empty folder, with the person's own login."""
    place = door.place
    role = Role(name="doctor", runner=name, type=table.type, program=table.program or "", model=table.model or "")
    with tempfile.TemporaryDirectory(prefix="interlock-doctor-") as folder:
        how: dict[str, Any] = {"env": table.env, "timeout_s": ANSWERS_S, "transcript": Path(folder, "transcript")}
        ask = Ask(role=role, brief=QUESTION, marker=f"doctor/{name}", **how)
        program, seat = clients.client(table, place.workspace.top), Nowhere(Path(folder))
        came = await clients_client.call(program, ask, seat, lambda news: None, place.redaction, env=given)
    if came.finished:
        tokens = f"{text.amount(came.usage.tokens)} tokens" if came.usage.tokens else ""
        cost = text.money(came.usage.cost_usd) if came.usage.cost_usd is not None else ""
        spent = ", ".join(filter(None, (text.duration(came.seconds), tokens, cost)))
        return Found("ok", "runner", f"{name}{f' ({came.model})' if came.model else ''} answers: {spent}")
    said = came.trouble.text if came.trouble else f"it did not answer within {ANSWERS_S:.0f} s"
    kind = came.trouble.kind if came.trouble else TroubleKind.OTHER
    if kind is TroubleKind.LIMIT:
        return Found("note", "runner", f"{name}: {said}", "Nothing: runs wait for it.")
    by_hand = f"Run it by hand and see what it says: {table.program or row.program}"
    remedy = {TroubleKind.LOGIN: row.sign_in, TroubleKind.MODEL: f"Correct its model. {by_hand}"}.get(kind, by_hand)
    return Found("BROKEN", "runner", f"{name}: {said}", remedy if came.started else f"Install it: {row.install}")


class Nowhere:
    """An empty folder in a layer's place."""

    confined = False

    def __init__(self, root: Path) -> None:
        self.root = self.exchange = root
        self.inside_exchange = str(root)

    def wrap(self, argv: Sequence[str], env: Mapping[str, str], *, cwd: str = ".") -> Any:
        return SimpleNamespace(argv=argv, env=env, cwd=str(self.root), pass_fds=(), exit_file=None)

    def over(self) -> str:
        return ""


# --- mending


def _mend(door: Door, name: str) -> int:
    """Cut a damaged journal before its first bad line; the rest is kept beside."""
    door.people_only("mend runs")
    entry = door.place.runs.find(name)
    with entry.lock():
        count, beside = cut(entry.journal)
    if beside is None:
        tell(f"{entry.id}: {text.count(count, 'line')}, all whole; nothing was changed.")
    else:
        tell(f"{entry.id}: {text.count(count, 'line')} are whole; what came after is kept in {beside}.")
        tell("What it stood for happens again.", f"  next    interlock resume {entry.id}")
    if door.json:
        print_json({"run_id": entry.id, "lines": count, "kept": str(beside) if beside else None})
    return 0
