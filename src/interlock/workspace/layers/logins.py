"""Login files of a client: a private copy goes in, and a refreshed token comes back out, nothing else.

A program in a layer can write anything into its copy, a command that the next client would run among it.  So of a
changed file only values come back whose name says that they are tokens or their times, in the place where they were.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.workspace.objects import open_plain

_LARGEST = 10 * 1024 * 1024
_ONE_LINE = 16 * 1024
_TOKEN = re.compile(r"token|access|refresh|expir", re.IGNORECASE)


def lay_in(logins: Mapping[Path, Path]) -> dict[str, str]:
    """Copy each login file to its private place, with its mode; digests of what was copied, by the user's path."""
    digests: dict[str, str] = {}
    for users, private in logins.items():
        content = _content(users.resolve())
        if content is None:
            continue
        _make_folders(private.parent)
        private.unlink(missing_ok=True)
        mode = stat.S_IMODE(users.stat().st_mode)
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
        digests[str(users)] = sha256(content).hexdigest()
    return digests


def bring_back(logins: Mapping[Path, Path], digests: Mapping[str, str]) -> dict[str, str]:
    """Write refreshed tokens into the user's own files, where those are still what was copied; the new digests."""
    known = dict(digests)
    for users, private in logins.items():
        target = users.resolve()
        new, old = _content(private), _content(target)
        if new is None or old is None or known.get(str(users)) != sha256(old).hexdigest():
            continue
        content = refreshed(old, new)
        if content is None or content == old:
            continue
        fresh = target.with_name(f".{target.name}.{uuid4().hex[:8]}.interlock")
        status = target.stat()
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        known[str(users)] = sha256(content).hexdigest()
    return known


def refreshed(old: bytes, new: bytes) -> bytes | None:
    """What the user's file may become: `old` with the tokens of `new`; None when there is nothing to take."""
    try:
        before, after = json.loads(old), json.loads(new)
    except ValueError:
        # Not JSON: a token by itself on its line, or a file that could hold anything.
        plain = all(len(text) <= _ONE_LINE and len(text.split()) == 1 for text in (old, new))
        return new if plain and not re.search(rb"[={\[<]", old + new) else None
    merged = _merged(before, after, "")
    if merged == after:
        return new
    return None if merged == before else json.dumps(merged, indent=2, ensure_ascii=False).encode() + b"\n"


def _merged(before: Any, after: Any, name: str) -> Any:
    match before, after:
        case dict(), dict():
            fresh = {key: value for key, value in after.items() if key not in before and _is_token(key, value)}
            known = {key: _merged(value, after[key], key) for key, value in before.items() if key in after}
            return {**before, **known, **fresh}
        case list(), list() if len(before) == len(after):
            return [_merged(one, two, name) for one, two in zip(before, after, strict=True)]
    return after if _is_token(name, after) and _is_token(name, before) else before


def _is_token(name: str, value: Any) -> bool:
    return _TOKEN.search(name) is not None and isinstance(value, str | int | float)


def _content(place: Path) -> bytes | None:
    try:
        handle = open_plain(place)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return None
        return file.read()


def _make_folders(folder: Path) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700)
