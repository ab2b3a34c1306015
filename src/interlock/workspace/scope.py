"""Which paths an agent may change, and which steer agents or tools.

A glob is a path with `?` (one character), `*` (any within a name) and `**` (any folders, also none); all other
characters stand for themselves.  `dir/` and `dir/**` are everything below a folder.  A leading `!` excludes, and wins
over every other glob, whatever the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

GUARDED = ("CLAUDE.md", "AGENTS.md", "GEMINI.md", "interlock.toml")
"""Names that steer agents or tools, beside all that begin with a dot."""
_PLAIN = ".gitignore"
_MARK = "\0"
"""Before a guarded name: no path has it and no wildcard stands for it; a name that is spelled out may follow it."""


def within(path: str, globs: Sequence[str]) -> bool:
    """Whether the globs cover a path."""
    included, excluded = _expressions(tuple(globs))
    return bool(included.fullmatch(path)) and not excluded.fullmatch(path)


def example(globs: Sequence[str], name: str) -> str:
    """A path that the globs cover, with this name where they leave one open; empty: there is none to be had."""
    for glob in globs:
        *folders, last = (f"{glob}**" if glob.endswith("/") else glob).split("/")
        last = f"{name}.txt" if last == "**" else last
        path = "/".join(
            part.replace("*", name).replace("?", "x") for part in (*folders, last) if part not in ("", "**")
        )
        if within(path, globs):
            return path
    return ""


def guarded(path: str, names: Iterable[str] = GUARDED) -> bool:
    """Whether a path steers agents or tools; case does not count, for some file systems do not know it."""
    known = {name.casefold() for name in names}
    return any(_is_guarded(part, known) for part in path.split("/"))


def spelled(path: str, globs: Sequence[str], names: Iterable[str] = GUARDED) -> bool:
    """Whether a scope names a guarded path: a glob covers it in which each guarded part is spelled out."""
    known = {name.casefold() for name in names}
    return within("/".join(_MARK + part if _is_guarded(part, known) else part for part in path.split("/")), globs)


def named(path: str, words: str) -> bool:
    """Whether a text names a path, or its last part; what holds a wildcard names nothing."""
    last = path.rpartition("/")[2]
    either = "|".join(map(re.escape, {path, last}))
    return re.search(rf"(?<![\w*?/.-])(?:\./)?(?:{either})(?![\w*?/-]|\.\w)", words) is not None


def _is_guarded(part: str, names: set[str]) -> bool:
    return (part.startswith(".") and part != _PLAIN) or part.casefold() in names


@lru_cache(maxsize=1024)
def _expressions(globs: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    excluded = [glob[1:] for glob in globs if glob.startswith("!")]
    return _any_of(glob for glob in globs if not glob.startswith("!")), _any_of(excluded)


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(_expression, globs)) or r"(?!)", re.DOTALL)


def _expression(glob: str) -> str:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    *folders, last = [*parts, "**"] if glob.endswith("/") else parts or ["."]
    over = "".join(r"(?:[^/\0]+/)*" if part == "**" else f"{_name(part)}/" for part in folders)
    return over + (r"(?:[^/\0]+/)*[^/\0]+" if last == "**" else _name(last))


def _name(part: str) -> str:
    if not re.search(r"[*?]", part):
        return rf"\0?{re.escape(part)}"
    pieces = re.split(r"(\*+|\?)", part)
    # A wildcard that begins a name could stand for its dot: the mark before that name tells.
    return "".join({"*": r"[^/\0]*", "?": r"[^/\0]"}.get(piece[:1]) or re.escape(piece) for piece in pieces)
