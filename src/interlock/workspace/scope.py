"""Write scopes: which paths an agent may change, and whether two agents could meet on one.

A pattern is a path with ``?`` (one character), ``*`` (any within a folder's name) and ``**`` (any folders, also
none); all other characters, brackets too, stand for themselves.  ``dir/`` and ``dir/**`` are everything below a
folder.  A leading ``!`` excludes; an exclusion wins over every other pattern, whatever the order.

Whether two scopes overlap is decided exactly: both are read as automata over characters, and the pairs of states
that one path can bring about are searched for one where both scopes cover the path.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from interlock.errors import PathRefused
from interlock.workspace.paths import normal

_SEARCHED = 20_000
"""Pairs of states looked at before an overlap is assumed; real scopes need a few hundred."""

_FRESH = "\N{WHITE SQUARE}"
"""Stands for every character that no pattern names."""


@dataclass(frozen=True)
class Scope:
    """The paths that at least one pattern covers, no exclusion hits, and every bound covers too."""

    patterns: tuple[str, ...]
    bounds: tuple[Scope, ...] = ()
    named: tuple[str, ...] = ()
    """Files covered although an exclusion hits them: what somebody must produce, they may write."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_normal_pattern(pattern) for pattern in self.patterns))

    def covers(self, path: str) -> bool:
        """Whether the file `path` may be changed; never for a path that leaves the workspace."""
        try:
            path = normal(path)
        except PathRefused:
            return False
        return self._covers(path)

    def within(self, parent: Scope) -> Scope:
        """The scope of what both cover: a nested run never gets more than its parent's dispatch has."""
        return Scope(self.patterns, (*self.bounds, parent), self.named)

    def narrowed(self, inner: Scope) -> Scope:
        """`inner`, cut down to this scope."""
        return inner.within(self)

    def _covers(self, path: str) -> bool:
        included, excluded = self._regexes
        hit = included is not None and included.fullmatch(path) and not (excluded and excluded.fullmatch(path))
        if not hit and path not in self.named:
            return False
        return all(bound._covers(path) for bound in self.bounds)

    @cached_property
    def _regexes(self) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
        return _any_of(self._included), _any_of(self._excluded)

    @cached_property
    def _included(self) -> tuple[str, ...]:
        return tuple(pattern for pattern in self.patterns if not pattern.startswith("!"))

    @cached_property
    def _excluded(self) -> tuple[str, ...]:
        return tuple(pattern[1:] for pattern in self.patterns if pattern.startswith("!"))

    def _layers(self) -> Iterator[Scope]:
        """This scope and its bounds, each to be met by a path."""
        yield self
        for bound in self.bounds:
            yield from bound._layers()


def overlap(a: Scope, b: Scope) -> str | None:
    """A path that both scopes cover, or None when there is provably none."""
    for path in (*a.named, *b.named):
        if a.covers(path) and b.covers(path):
            return path
    layers = (*a._layers(), *b._layers())
    if _apart(a._included, b._included):
        return None
    start = tuple(_Reading.start(layer) for layer in layers)
    seen = {(start, True)}
    queue = deque([(start, "")])
    while queue:
        if len(seen) > _SEARCHED:
            return f"{_literal_prefix(a._included[0])}... (too many patterns to tell apart)"
        state, path = queue.popleft()
        opening = not path or path.endswith("/")
        if not opening and all(reading.accepts() for reading in state):
            return path
        letters = [*sorted({letter for reading in state for letter in reading.letters()}), _FRESH]
        for letter in letters if opening else [*letters, "/"]:
            after = tuple(reading.read(letter) for reading in state)
            key = (after, letter == "/")
            if all(reading.alive for reading in after) and key not in seen:
                seen.add(key)
                queue.append((after, path + letter))
    return None


@dataclass(frozen=True)
class _Reading:
    """How far one scope's patterns have got with a path."""

    included: frozenset[tuple[str, int]]
    excluded: frozenset[tuple[str, int]]

    @classmethod
    def start(cls, scope: Scope) -> _Reading:
        return cls(
            frozenset(state for pattern in scope._included for state in _closure(pattern, 0)),
            frozenset(state for pattern in scope._excluded for state in _closure(pattern, 0)),
        )

    @property
    def alive(self) -> bool:
        return bool(self.included)

    def accepts(self) -> bool:
        return any(_ends(*state) for state in self.included) and not any(_ends(*state) for state in self.excluded)

    def letters(self) -> Iterator[str]:
        for pattern, position in (*self.included, *self.excluded):
            tokens = _tokens(pattern)
            if position % 2 == 0 and position // 2 < len(tokens):
                token = tokens[position // 2]
                if token not in ("*", "?", "/", "**/"):
                    yield token

    def read(self, letter: str) -> _Reading:
        return _Reading(
            frozenset(after for state in self.included for after in _step(*state, letter)),
            frozenset(after for state in self.excluded for after in _step(*state, letter)),
        )


# A state of a pattern's automaton is 2 * position, plus 1 while it is inside a folder's name that "**/" takes in.


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str, ...]:
    """Single characters, with ``**/`` as one token."""
    tokens: list[str] = []
    parts = pattern.split("/")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            tokens.append("**/")
            if last:
                tokens.append("*")
            continue
        tokens.extend(re.sub(r"\*+", "*", part))
        if not last:
            tokens.append("/")
    return tuple(tokens)


def _closure(pattern: str, state: int) -> Iterator[tuple[str, int]]:
    tokens = _tokens(pattern)
    yield pattern, state
    while state % 2 == 0 and state // 2 < len(tokens) and tokens[state // 2] in ("*", "**/"):
        state += 2
        yield pattern, state


@lru_cache(maxsize=65536)
def _step(pattern: str, state: int, letter: str) -> tuple[tuple[str, int], ...]:
    tokens = _tokens(pattern)
    if state % 2:
        return tuple(_closure(pattern, state - 1)) if letter == "/" else ((pattern, state),)
    if state // 2 >= len(tokens):
        return ()
    token = tokens[state // 2]
    if token == "**/":
        return () if letter == "/" else ((pattern, state + 1),)
    if token == "*":
        return () if letter == "/" else tuple(_closure(pattern, state))
    if token == letter or (token == "?" and letter != "/"):
        return tuple(_closure(pattern, state + 2))
    return ()


def _ends(pattern: str, state: int) -> bool:
    return state == 2 * len(_tokens(pattern))


@lru_cache(maxsize=4096)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(_regex(pattern) for pattern in patterns), re.DOTALL) if patterns else None


def _regex(pattern: str) -> str:
    written = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    return "".join(written.get(token) or re.escape(token) for token in _tokens(pattern))


@lru_cache(maxsize=4096)
def _normal_pattern(pattern: str) -> str:
    bare = pattern.removeprefix("!")
    path = normal(bare)
    if bare.endswith("/"):
        path += "/**"
    return "!" + path if pattern.startswith("!") else path


def _literal_prefix(pattern: str) -> str:
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def _apart(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether the fixed beginnings alone tell every pattern of `a` from every pattern of `b`."""
    ours = [_literal_prefix(pattern) for pattern in a]
    theirs = [_literal_prefix(pattern) for pattern in b]
    return not any(one.startswith(other) or other.startswith(one) for one in ours for other in theirs)
