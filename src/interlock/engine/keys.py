"""Keys name a verb by its place in the playbook; digests say what it was asked (RUN-02, RUN-04).

A key is the open scopes joined by ``/``, then the verb's name, then ``#n`` for its n-th use there:
``3b/review/ct-security#1``.  It never depends on time, so that the same playbook with the same inputs gives the same
keys on every machine, and members side by side cannot take each other's records.

Scopes live in a context variable.  One belongs to the task that opened it: verbs used from another task, outside of
`together`, are a fault, because their keys would depend on time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from interlock.documents.files import sha256
from interlock.documents.model import canonical
from interlock.errors import BadInput, EngineFault

_NAME = re.compile(r"[^/#\\\x00-\x1f]+")
_PLAIN = re.compile(r"[ !#-\[\]-~]{0,118}")
"""Text that JSON spells as it is, and short."""
NAME_BYTES = 200
"""Of one name in a key; a file system allows 255 for a folder, and numbers come behind."""
KEY_BYTES = 1000
"""Of a whole key: the path of its records is longer by that of the workspace, and may have 4096."""


def shortly(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a verb is asked, in the form in which the journal keeps it: long values by digest.

    Names of trees and documents belong into it, never texts that a program made of them (RUN-21).
    """
    return {name: _short(value) for name, value in asked.items()}


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return value
    spelled = canonical(value)
    return json.loads(spelled) if len(spelled) <= 120 else f"sha256:{sha256(spelled)[:32]}"


def difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which parts differ, as a sentence part; empty: none."""
    every = {**recorded, **now}  # compared as it is spelled: in Python 1 is True
    names = [name for name in every if canonical(recorded.get(name)) != canonical(now.get(name))]
    return "; ".join(f"{name}: recorded {recorded.get(name)!r}, now {now.get(name)!r}" for name in names)


@lru_cache(maxsize=4096)
def checked_name(name: str) -> str:
    """A scope or verb name that can stand in a key and in a folder's path."""
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        size = 0
    if not _NAME.fullmatch(name) or name in (".", "..") or not 0 < size <= NAME_BYTES:
        raise BadInput(
            f"{name if len(name) <= 60 else name[:57] + '...'!r} cannot be the name of a step, loop, member or verb",
            expected=f"1 to {NAME_BYTES} bytes of text without '/', '#', '\\' or control characters",
            found=f"{size} bytes" if size > NAME_BYTES else f"{name!r}",
            remedy="Give what is named so (a task, an item, an agent) a shorter and plain name.",
        )
    return name


class Keys:
    """Hands out the keys of one run."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}

    def next(self, scope: str, name: str) -> str:
        """The next key for `name` in `scope`; a dispatch named like its member needs no second name."""
        checked_name(name)
        base = scope if scope and scope.rpartition("/")[2] == name else f"{scope}/{name}" if scope else name
        if (size := len(os.fsencode(base))) > KEY_BYTES:
            raise BadInput(
                "names nested as deeply as these are too long together",
                where=base[:60],
                expected=f"at most {KEY_BYTES} bytes",
                found=f"{size} bytes",
                remedy="Give what is named so (a task, an item, an agent) a shorter name.",
            )
        self._uses[base] = count = self._uses.get(base, 0) + 1
        return f"{base}#{count}"


@dataclass(frozen=True)
class Scope:
    """Where a playbook is: the open steps, turns and members."""

    path: str = ""
    step: str = ""
    lane: Callable[[], object] = lambda: None
    """The task that it belongs to, while that is there."""
    outer: Scope | None = None

    def child(self, name: str, *, step: str = "") -> Scope:
        path = f"{self.path}/{checked_name(name)}" if self.path else checked_name(name)
        return Scope(path, step or self.step, self.lane, self)


_current: ContextVar[Scope] = ContextVar("scope")


def _lane() -> Callable[[], object]:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # the simulated world needs no loop
        task = None
    return (lambda: None) if task is None else weakref.ref(task)


def begin() -> None:
    """Make the current task the one that runs the playbook."""
    _current.set(Scope(lane=_lane()))


def here() -> Scope:
    """The innermost open scope; a fault in a task that has none of its own."""
    scope = _current.get()
    if scope.lane() is not _lane()():
        raise EngineFault(
            f"a verb was used in {scope.path or 'the playbook'!r} from a task that is not its own",
            where=scope.path,
            remedy="Run things side by side as named members of run.together(...).",
        )
    return scope


def enter_member(scope: Scope, name: str) -> None:
    """Begin a member in its own task (or, simulated, in the one task there is)."""
    _current.set(replace(scope.child(name), lane=_lane()))


def leave(inner: Scope | None, outer: Scope) -> None:
    """Close a scope that no `with` holds, if it is still open; one of the same path in another run is another one."""
    scope = _current.get(None)
    while scope is not None and scope is not inner:
        scope = scope.outer
    if scope is not None:
        _current.set(outer)


def enter(scope: Scope) -> None:
    """What is used from here on has its key below this scope."""
    _current.set(scope)
