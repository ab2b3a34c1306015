"""Where a playbook is right now: the open steps, loop turns and cluster members.

Scopes live in a context variable, so that concurrent members each see their own.  A scope belongs to one task: verbs
used concurrently outside of a cluster are a fault, because their keys would depend on time.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.errors import EngineFault

if TYPE_CHECKING:
    from interlock.engine.recording import Recording


@dataclass(frozen=True)
class OpenScope:
    path: str
    parent: OpenScope | None
    task: Callable[[], asyncio.Task[Any] | None]
    """Whose it is, while that is there: a task holds its scopes, and would never be freed if they held it."""
    step: str = ""
    iteration: int | None = None
    member: str = ""
    """The path of the innermost cluster member around it."""

    def child(
        self, name: str, *, step: str | None = None, iteration: int | None = None, member: bool = False
    ) -> OpenScope:
        path = f"{self.path}/{name}" if self.path else name
        task = _running() if member else self.task
        lane = path if member else self.member
        return OpenScope(path, self, task, self.step if step is None else step, iteration or self.iteration, lane)

    def inside(self, other: OpenScope) -> bool:
        scope: OpenScope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other


current: ContextVar[OpenScope] = ContextVar("scope")
"""Of the running task; members of a cluster are tasks, so that each sees its own."""


def begin() -> None:
    """Make the current task the one that runs the playbook."""
    current.set(OpenScope("", None, _running()))


def _running() -> Callable[[], asyncio.Task[Any] | None]:
    task = asyncio.current_task()
    return (lambda: None) if task is None else weakref.ref(task)


def here() -> OpenScope:
    """The innermost open scope; a fault in a task that has none of its own."""
    scope = current.get()
    if scope.task() is not asyncio.current_task():
        raise EngineFault(
            f"a verb was used in {scope.path or 'the playbook'!r} from a task that is not its own",
            where=scope.path,
            remedy="Run things side by side as named members of run.cluster(...).",
        )
    return scope


class Within:
    """What is used in here has its key below this scope."""

    def __init__(self, inner: OpenScope) -> None:
        self._inner = inner

    def __enter__(self) -> None:
        self._outer = current.get()
        current.set(self._inner)

    def __exit__(self, *_error: object) -> None:
        current.set(self._outer)


def under(key: str, scope: str) -> bool:
    """Whether a key is one of a scope, by their paths."""
    return key.startswith(scope) and key[len(scope) : len(scope) + 1] in ("/", "#")


class Turns:
    """The turns of a loop, each in a scope of its own (``fix-1``, ``fix-2`` ...), counted in the journal."""

    def __init__(self, recording: Recording, name: str, cap: int) -> None:
        self._recording = recording
        self._name = name
        self._cap = cap
        self._turn = 0
        self._outer = here()
        self._inner: OpenScope | None = None

    def __aiter__(self) -> Turns:
        return self

    async def __anext__(self) -> int:
        self._leave()
        if self._turn >= self._cap:
            raise StopAsyncIteration
        self._turn += 1
        self._inner = self._outer.child(f"{self._name}-{self._turn}", iteration=self._turn)
        current.set(self._inner)
        slot = self._recording.recall("loop", {"loop": self._name, "turn": self._turn})
        if not slot.recorded:
            slot.settle("loop", self._turn, facts={"loop": self._name, "turn": self._turn, "cap": self._cap})
        return self._turn

    def _leave(self) -> None:
        if self._inner is not None and (now := current.get(None)) is not None and now.inside(self._inner):
            current.set(self._outer)
        self._inner = None

    def __del__(self) -> None:
        # `break` drops the iterator at once (CPython counts references): that is how a loop's scope ends early.
        self._leave()
