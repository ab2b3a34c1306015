"""A write scope in the form in which coding agents take path rules, where it can be said in theirs. Pure.

Our patterns know ``?``, ``*`` and ``**``, everything else stands for itself.  Agents read theirs like a gitignore file,
in which brackets and backslashes mean more.  A rule that says something else than the scope would forbid work that is
allowed: then there is none, and the comparison after the call is what holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_SPECIAL: Final = re.compile(r"[\[\]{}()\\,;'\"`$#\s\x00-\x1f]")


@dataclass(frozen=True)
class PathRules:
    """Which paths may be edited, as patterns relative to the workspace; what `denied` hits stays forbidden."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether the whole workspace may be edited."""
        return "**" in self.allowed and not self.denied

    def covers(self, path: str) -> bool:
        """Whether a path, relative to the workspace, may be edited."""
        return _hits(self.allowed, path) and not _hits(self.denied, path)


def path_rules(writes: Sequence[str]) -> PathRules | None:
    """The scope as rules; None when an agent would read one of its patterns differently."""
    if any(_SPECIAL.search(pattern) for pattern in writes):
        return None
    allowed = tuple(dict.fromkeys(_spelled(pattern) for pattern in writes if not pattern.startswith("!")))
    denied = tuple(dict.fromkeys(_spelled(pattern[1:]) for pattern in writes if pattern.startswith("!")))
    # An output may lie under an exclusion (Scope.named); agents let the prohibition win.
    if set(allowed) & set(denied):
        return None
    return PathRules(allowed, denied)


def _spelled(pattern: str) -> str:
    return f"{pattern}**" if pattern.endswith("/") else pattern


def _hits(patterns: Sequence[str], path: str) -> bool:
    return any(re.fullmatch(_regex(pattern), path, re.DOTALL) for pattern in patterns)


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> str:
    *folders, last = pattern.split("/")
    written = "".join("(?:[^/]+/)*" if part == "**" else f"{_name(part)}/" for part in folders)
    return written + ("(?:[^/]+/)*[^/]+" if last == "**" else _name(last))


def _name(part: str) -> str:
    """One name on a path as a regular expression."""
    spelled = {"*": "[^/]*", "?": "[^/]"}
    return "".join(spelled.get(one) or re.escape(one) for one in re.sub(r"\*+", "*", part))
