"""From the text of a file to nodes that know where they stand; whatever plain data cannot say is refused.

Aliases are refused altogether: nobody needs them to declare a process, and they are how a small file becomes a large
one.  Size and depth are bounded, and nothing here recurses, so that a hostile file costs no more than a long one.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from interlock.errors import ConfigInvalid
from interlock.flows.tree import Place

LARGEST = 200_000
"""Characters of a file; a playbook of 200 steps has 30,000."""
MOST_MISTAKES = 100
"""So many are told at once."""
DEEPEST = 40
"""Levels of a file: eight repeats inside each other have less."""
SHOWN = 60


@dataclass(eq=False, slots=True)
class Node:
    """A value of the file."""

    at: Place
    text: str | None = None
    """Of a simple value."""
    plain: bool = False
    """It stands there without quotes."""
    items: list[Node] | None = None
    entries: list[tuple[Node, Node]] | None = None

    @property
    def shown(self) -> str:
        """What is there, in a few words."""
        if self.items is not None:
            return "a list"
        if self.entries is not None:
            return "a mapping"
        if not self.text:
            return "nothing" if self.plain else "an empty text"
        return repr(self.text if len(self.text) <= SHOWN else f"{self.text[: SHOWN - 1]}…")


@dataclass
class Problems:
    """The mistakes of one file, collected so that a person can mend all of them at once."""

    where: str
    found: list[ConfigInvalid] = field(default_factory=list)

    def add(
        self, at: Place, what: str, *, expected: str | None = None, found: str | None = None, remedy: str | None = None
    ) -> None:
        self.found.append(self.error(at, what, expected=expected, found=found, remedy=remedy))
        if len(self.found) >= MOST_MISTAKES:
            self.raise_all()

    def unknown(self, at: Place, what: str, word: str, known: Iterable[str]) -> None:
        """A name that nobody knows, with the nearest one that somebody does."""
        names = list(dict.fromkeys(known))
        self.add(
            at,
            f"{what} {word!r} is not known",
            expected=f"one of {', '.join(names)}" if names else "none: there is nothing that could be named here",
            found=word,
            remedy=nearest(word, names),
        )

    def error(self, at: Place, what: str, **more: str | None) -> ConfigInvalid:
        return ConfigInvalid(what, where=f"{self.where}:{at.line}:{at.column}", **more)

    def raise_all(self) -> None:
        if self.found:
            first, *rest = sorted(self.found, key=_position)
            first.also = tuple(rest)
            raise first


def _position(error: ConfigInvalid) -> tuple[int, int]:
    _, line, column = str(error.where).rsplit(":", 2)
    return int(line), int(column)


def nearest(word: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"Did you mean {near[0]}?" if near else None


def read_nodes(text: str | bytes, problems: Problems) -> Node:
    """The only document of a text; `ConfigInvalid` for what is no YAML, or more than a playbook may be."""
    if len(text) > LARGEST:
        raise problems.error(
            Place(1, 1),
            "the file is too large for a playbook",
            expected=f"at most {LARGEST:,} characters",
            found=f"{len(text):,}",
        )
    return _built(_decoded(text, problems).removeprefix("\ufeff"), problems)


def _decoded(text: str | bytes, problems: Problems) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start].split(b"\n")
        at = Place(len(before), len(before[-1]) + 1)
        raise problems.error(at, "the file is not UTF-8", expected="text in UTF-8") from None


_ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, Warning)
"""The parser's own checks have holes: odd input ends in whatever error its code runs into."""


def _built(text: str, problems: Problems) -> Node:
    from ruamel.yaml.error import YAMLError

    builder = _Builder(problems)
    try:
        for event in _events(text):
            builder.take(event)
    except ConfigInvalid:
        raise
    except (YAMLError, *_ODD) as error:
        raise _unreadable(error, problems, builder.last, text) from None
    if builder.root is None or builder.root.text == "":
        raise problems.error(Place(1, 1), "the file is empty", expected="a mapping with `playbook`, `steps` and so on")
    return builder.root


def _events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    with warnings.catch_warnings():  # the parser quotes the text in them, for whatever terminal there is
        warnings.simplefilter("ignore")
        yield from YAML(typ="safe").parse(text)  # in C where its library is there: ten times as fast


def _unreadable(error: Exception, problems: Problems, last: Place, text: str) -> ConfigInvalid:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = Place(mark.line + 1, mark.column + 1) if mark is not None else last
    reason = getattr(error, "problem", None) or str(error).partition("\n")[0] or type(error).__name__
    line = text.split("\n")[at.line - 1 :][:1]
    tab = line and line[0][at.column - 1 : at.column] == "\t"
    return problems.error(
        at,
        "a tab stands where YAML has spaces" if tab else f"this is not YAML: {reason}"[:300],
        expected="spaces" if tab else None,
        remedy=None if tab else "Put quotes around a text that has {{, ': ' or ' #' in it, or begins with a sign.",
    )


class _Builder:
    """Puts events together, with a stack of its own instead of the interpreter's."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.root: Node | None = None
        self.last = Place(1, 1)
        self._open: list[Node] = []
        self._keys: list[Node | None] = []
        self._seen: list[set[str]] = []

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
            return
        self.last = at = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        if kind == "DocumentStartEvent":
            if self.root is not None:
                self._refuse(at, "a second document begins here", "one document in a file, and no line ---")
            return
        if kind == "AliasEvent":
            self._refuse(at, f"an alias (*{event.anchor}) stands here", "the value itself, written out")
        if kind in ("SequenceEndEvent", "MappingEndEvent"):
            self._close()
            return
        if event.anchor is not None:
            self._refuse(at, f"an anchor (&{event.anchor}) stands here", "the value alone: aliases are not used")
        if (tag := _tag(event)) is not None:
            self._refuse(at, f"a tag ({tag}) stands here", "the value alone, without a tag")
        self._add(kind, event, at)

    def _add(self, kind: str, event: Any, at: Place) -> None:
        if kind == "ScalarEvent":
            node = Node(at, text=event.value, plain=bool(event.implicit[0]))
            self._check(node)
        else:
            node = Node(at, items=[]) if kind == "SequenceStartEvent" else Node(at, entries=[])
        self._place(node)
        if node.text is None:
            if len(self._open) >= DEEPEST:
                self._refuse(at, "this is nested too deeply", f"at most {DEEPEST} levels")
            self._open.append(node)
            self._keys.append(None)
            self._seen.append(set())

    def _check(self, node: Node) -> None:
        text = node.text or ""
        if "\0" in text:
            self._refuse(node.at, "a text has a NUL character", "text")
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError:
            self._refuse(node.at, "half of a surrogate pair is no text", "text")

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        if above.items is not None:
            above.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            if node.text is None:
                self._refuse(
                    node.at,
                    "a key must be a simple word",
                    "a word and a colon",
                    "Put quotes around a text with {{ in it.",
                )
            if node.text in self._seen[-1]:
                self.problems.add(node.at, f"key {node.text!r} appears twice", expected="each key once in a mapping")
            self._seen[-1].add(str(node.text))
            self._keys[-1] = node
        else:
            assert above.entries is not None
            if node.text == "" and node.plain:  # nothing stands there: its place is that of its key
                node.at = key.at
            above.entries.append((key, node))
            self._keys[-1] = None

    def _close(self) -> None:
        self._open.pop()
        self._keys.pop()
        self._seen.pop()

    def _refuse(self, at: Place, what: str, expected: str, remedy: str | None = None) -> NoReturn:
        raise self.problems.error(at, what, expected=expected, remedy=remedy)


def _tag(event: Any) -> str | None:
    tag = getattr(event, "ctag", None) or getattr(event, "tag", None)
    text = "" if tag is None else str(tag)
    return text if text not in ("", "None", "!") else None
