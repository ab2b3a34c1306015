"""Files in places where somebody else can write: links are never followed, and nothing that stands there can block us.

An agent decides what stands under a name that we look at: a pipe would keep a reader waiting for ever, a link would
lead a writer anywhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path


def open_plain(path: Path, flags: int, mode: int = 0o644) -> int:
    """A descriptor of a regular file; OSError for a link, pipe, socket, device or folder."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no plain file", str(path))
    return handle


def read_plain(path: Path, limit: int) -> bytes | None:
    """What is in the file; None if there is none, or it is longer than that or no plain file."""
    try:
        handle = open_plain(path, os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        try:
            content = file.read(limit + 1)
        except OSError:
            return None
    return content if len(content) <= limit else None


def write_plain(path: Path, content: bytes) -> None:
    """Puts a new file there, whole at once; whatever stood under the name is replaced, not written into."""
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    with os.fdopen(open_plain(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def append_plain(path: Path, content: bytes) -> None:
    """Adds to a file; where no plain file stands under its name, what does is set aside first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        handle = open_plain(path, flags)
    except OSError:
        set_aside(path)
        handle = open_plain(path, flags)
    with os.fdopen(handle, "ab") as file:
        file.write(content)


def set_aside(path: Path) -> None:
    """Nothing stands there any more; what did keeps its name, with a number."""
    if os.path.lexists(path):
        number = 1
        while os.path.lexists(aside := path.with_name(f"{path.name}.{number}")):
            number += 1
        path.rename(aside)
