"""Keys name a verb by its path in the playbook; digests say what it was asked (EN-01, EN-04).

A key is the open scopes joined by ``/``, then the verb's name, then ``#n`` for its n-th use there:
``3b/ct-security#1``.  It never depends on time, so that the same playbook with the same inputs gives the
same keys on every machine, and parallel members cannot take each other's records.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from interlock.errors import NameRefused

_NAME = re.compile(r"[^/#\\\x00-\x1f]+")
NAME_BYTES = 200
"""Of one name in a key; a file system allows 255 for a folder, and numbers come behind."""
KEY_BYTES = 1000
"""Of a whole key: the path of its records is longer by that of the workspace, and may have 4096."""
SHOWN = 120
"""Inputs up to this many characters stand in the journal as they are, longer ones as a digest."""


_spell = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def canonical(value: object) -> bytes:
    """The one JSON spelling of a value; names that are not UTF-8 survive as escapes."""
    return _spell(value).encode("ascii")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_of(parts: Mapping[str, Any]) -> str:
    return sha256(canonical(parts))


def shown(parts: Mapping[str, Any], redact: Callable[[str], str] = str) -> dict[str, Any]:
    """The parts in the form in which the journal keeps them, to say later *what* differs; secrets stay out of it."""
    return {name: _shown(value, redact) for name, value in parts.items()}


def _shown(value: Any, redact: Callable[[str], str]) -> Any:
    if not value:
        return value
    if isinstance(value, str) and len(value) <= SHOWN // 2:
        return redact(value)
    spelled = canonical(value)
    if len(spelled) > SHOWN:
        return "sha256:" + sha256(spelled)
    said = redact(text := spelled.decode())
    return value if said == text else json.loads(said)


def difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which inputs differ, as a sentence part."""
    names = [name for name in {**recorded, **now} if recorded.get(name) != now.get(name)]
    return "; ".join(f"{name}: recorded {recorded.get(name)!r}, now {now.get(name)!r}" for name in names) or "nothing"


@lru_cache(maxsize=4096)
def checked_name(name: str) -> str:
    """A scope or verb name that can stand in a key and in a folder's path."""
    size = _size(name)
    if not _NAME.fullmatch(name) or name in (".", "..") or not 0 < size <= NAME_BYTES:
        raise NameRefused(
            f"{_short(name)!r} cannot be the name of a step, loop, member or verb",
            expected=f"1 to {NAME_BYTES} bytes of text without '/', '#', '\\' or control characters",
            found=f"{size} bytes" if size > NAME_BYTES else f"{name!r}",
            remedy="Give what is named so (a task, an item, an agent) a shorter and plain name.",
        )
    return name


@lru_cache(maxsize=4096)
def _size(text: str) -> int:
    """Bytes of a name on disk; 0 for what cannot be one."""
    try:
        return len(os.fsencode(text))
    except UnicodeEncodeError:
        return 0


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


class Keys:
    """Hands out the keys of one run."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}

    def next(self, scope: str, name: str) -> str:
        """The next key for `name` in `scope`; a dispatch named like its member needs no second name."""
        base = _base(scope, name)
        self._uses[base] = count = self._uses.get(base, 0) + 1
        return f"{base}#{count}"

    def coming(self, scope: str, name: str) -> str:
        """The key that `next` would give."""
        base = _base(scope, name)
        return f"{base}#{self._uses.get(base, 0) + 1}"


@lru_cache(maxsize=4096)
def _base(scope: str, name: str) -> str:
    """A key without its number."""
    checked_name(name)
    if (size := _size(scope) + _size(name)) > KEY_BYTES:
        raise NameRefused(
            f"names nested as deeply as {_short(scope)!r} are too long together",
            where=_short(scope),
            expected=f"at most {KEY_BYTES} bytes",
            found=f"{size} bytes",
            remedy="Give what is named so (a task, an item, an agent) a shorter name.",
        )
    return scope if scope and scope.rpartition("/")[2] == name else f"{scope}/{name}" if scope else name
