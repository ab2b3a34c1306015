"""Errors of ours, in words for the client: what, where, expected, found, what to do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError

from interlock.errors import EngineFault, InterlockError, WorkspaceFailed
from interlock.mcp.results import cut

F = TypeVar("F", bound=Callable[..., Any])


def told(function: F) -> F:
    """The same function; what it raises on purpose, and what the operating system refuses, the client is told."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waits(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except (InterlockError, OSError) as error:
                raise in_words(error) from error

        return cast(F, waits)

    @functools.wraps(function)
    def answers(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (InterlockError, OSError) as error:
            raise in_words(error) from error

    return cast(F, answers)


def in_words(error: InterlockError | OSError) -> Exception:
    """All that is known of an error, in one text; a fault of ours is left to be logged as one."""
    known = WorkspaceFailed.of(error) if isinstance(error, OSError) else error
    if isinstance(known, EngineFault):
        return known
    rows = [
        row
        for one in (known, *known.also)
        for row in (one.what, *(f"  {label}: {text}" for label, text in one.parts()))
    ]
    return ToolError(cut("\n".join(rows)))
