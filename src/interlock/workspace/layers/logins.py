"""What of a person's HOME is copied into a private one: logins of a client, and of git's settings what commits need.

A program in a layer can write anything into its copy, a command that the next client would run among it.  So of a
changed login only values come back whose name says that they are tokens or their times, in the place where they were.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from interlock.documents.files import read_plain, replace, sha256
from interlock.workspace.git import Git
from interlock.workspace.layers.upper import remove, way
from interlock.workspace.place import above

_LARGEST = 10 << 20
_TOKEN = re.compile(r"token|access|refresh|expir", re.IGNORECASE)
_GIT_FILES = (".config/git/ignore", ".config/git/attributes")
_GIT = re.compile(
    r"user\.(name|email)|core\.(autocrlf|eol|safecrlf|excludesfile|attributesfile|quotepath|ignorecase|precomposeunicode)"
    r"|(filter|merge|diff|difftool|mergetool|alias|init|pull|rebase|rerere|color|safe|lfs|status|log)\..+"
)
"""What of git's settings goes along: an allow-list, for addresses and headers may hold keys."""


def lay_in(home: Path, private: Path, logins: Iterable[str]) -> dict[str, str]:
    """Copy each login to its private place, with its mode; digests of what was copied. A name may be a pattern."""
    digests: dict[str, str] = {}
    for place in (place for login in logins for place in sorted(home.glob(login))):
        with suppress(OSError):
            login, users = place.relative_to(home).as_posix(), place.resolve()
            content = read_plain(users, limit=_LARGEST)
            _put(private, login, content, stat.S_IMODE(users.stat().st_mode))
            digests[login] = sha256(content)
    return digests


def bring_back(home: Path, private: Path, digests: dict[str, str]) -> None:
    """Write refreshed tokens into the person's own files, where those are still what was copied."""
    for login, known in digests.items():
        with suppress(OSError):
            users = (home / login).resolve()
            # Not followed: a program may have put a link there.
            if any((private / part).is_symlink() for part in (login, *above(login))):
                continue
            old, new = read_plain(users, limit=_LARGEST), read_plain(private / login, limit=_LARGEST)
            content = refreshed(old, new) if sha256(old) == known else None
            if content is not None and content != old:
                replace(users, content, mode=stat.S_IMODE(users.stat().st_mode))
                digests[login] = sha256(content)


def refreshed(old: bytes, new: bytes) -> bytes | None:
    """What the person's file may become: `old` with the tokens of `new`; None when there is nothing to take."""
    try:
        before, after = json.loads(old), json.loads(new)
        merged = _merged(before, after, "")
    except (ValueError, RecursionError):
        return None
    if merged == before:
        return None
    return new if merged == after else json.dumps(merged, indent=2, ensure_ascii=False).encode() + b"\n"


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


@cache
def _git_settings(home: Path) -> dict[str, str]:
    """Who commits, line ends, filters, as git knows them for this person."""
    words = ("config", "--global", "--includes", "-z", "--list")
    listed = Git(home, personal=True).reply(*words, env={"HOME": str(home)})
    pairs = (entry.partition("\n") for entry in listed.out.decode("utf-8", "surrogateescape").split("\0")[:-1])
    return {key: value for key, _, value in pairs if _GIT.fullmatch(key)}


def lay_git_settings(home: Path, private: Path) -> None:
    """What of git's settings goes along in a private HOME, with the person's ignore files."""
    lines = []
    for key, value in _git_settings(home).items():
        section, _, name = key.rpartition(".")
        first, _, rest = section.partition(".")
        head = f'{first} "{_escaped(rest)}"' if rest else first
        lines.append(f'[{head}]\n\t{name} = "{_escaped(value)}"\n')
        if key in ("core.excludesfile", "core.attributesfile"):
            _copy(home, private, os.path.relpath(Path(value).expanduser(), home))
    _put(private, ".gitconfig", "".join(lines).encode("utf-8", "surrogateescape"), 0o644)
    for name in _GIT_FILES:
        _copy(home, private, name)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _copy(home: Path, private: Path, name: str) -> None:
    if not name.startswith(".."):
        with suppress(OSError):
            _put(private, name, read_plain(home / name, follow=True, limit=_LARGEST), 0o644)


def _put(private: Path, name: str, content: bytes, mode: int) -> None:
    """A file in the private HOME, whatever a program of before left on the way."""
    folder, _, last = name.rpartition("/")
    place = (way(private, folder) if folder else private) / last
    remove(place)
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
