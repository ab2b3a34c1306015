"""YAML of people and agents: read as plain data, edited in place.

Two doors.  `load` gives plain JSON-able data of a text that may come from anywhere: no tags, no objects, no
exploding aliases, dates as the text that was written.  `YamlDocument` edits a text by replacing the characters
of one value, so that comments, order, quoting, spacing and unknown keys stay as a person left them; each edit
is read back, and refused if it would say anything else than what was asked.

ruamel.yaml is the parser; its marks say where each value stands.  Its own round trip is not used, because it
rewrites spacing, ``null`` and escapes in lines that nobody touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.documents.plain import Key, changed, lookup, pointer
from interlock.documents.yaml_reader import Reader
from interlock.documents.yaml_text import block, dump, flow
from interlock.errors import DocumentInvalid


def load(text: str, path: str, *, first_line: int = 1, what: str | None = None) -> Any:
    """The plain data of one YAML document; ``None`` for an empty text.

    Args:
        first_line: line of the file on which the text begins, for messages.
        what: what the text is called in messages; the path by default.
    """
    reader = Reader(path, first_line, what or path)
    return reader.data(reader.compose(text))


@dataclass(frozen=True)
class YamlDocument:
    """A YAML text and its data.  Edits give a new document and leave every character beside the edit alone."""

    path: str
    text: str = field(repr=False)
    data: Any = field(repr=False)
    root: Any = field(repr=False, compare=False)
    """The parser's node of the whole document."""

    @classmethod
    def parse(cls, text: str, path: str) -> YamlDocument:
        reader = Reader(path)
        root = reader.compose(text)
        return cls(path, text, reader.data(root), root)

    def render(self) -> str:
        return self.text

    def get(self, keys: Sequence[Key], default: Any = None) -> Any:
        """The value at a path such as ``("tasks", 0, "status")``, or the default."""
        return lookup(self.data, keys, default)

    def line(self, keys: Sequence[Key]) -> int | None:
        """The line, from 1, on which the value at the path begins."""
        node = self._node(keys)
        return None if node is None else int(node.start_mark.line) + 1

    def set(self, keys: Sequence[Key], value: Any) -> YamlDocument:
        """With the value at the path replaced; a new last key is added at the end of its mapping."""
        wanted = changed({} if self.data is None and keys else self.data, tuple(keys), value, self.path)
        try:
            new = YamlDocument.parse(self._edited(keys, value, wanted), self.path)
            if _canonical(new.data) == _canonical(wanted):
                return new
        except (DocumentInvalid, ValueError):  # no longer YAML, or no colon or dash where one was looked for
            pass
        raise DocumentInvalid(
            f"{self.path}: {pointer(keys)} cannot be edited in place",
            path=self.path,
            line=self.line(keys),
            remedy="Write the value out there instead of using an anchor, an alias or an unusual form.",
        )

    def set_all(self, changes: Mapping[tuple[Key, ...], Any]) -> YamlDocument:
        """With several values replaced or added, read back once instead of once for each."""
        wanted, text = self.data, self.text
        for keys, value in changes.items():
            wanted = changed(wanted, keys, value, self.path)
        try:
            # From the last place to the first: what stands before an edit keeps its marks.
            backwards = list(changes.items())[::-1]
            for keys, value in sorted(backwards, key=lambda item: self._place(item[0]), reverse=True):
                text = replace(self, text=text)._edited(keys, value, wanted)
            new = YamlDocument.parse(text, self.path)
            if _canonical(new.data) == _canonical(wanted):
                return new
        except (DocumentInvalid, ValueError, AttributeError):
            pass
        new = self
        for keys, value in changes.items():
            new = new.set(keys, value)
        return new

    def _place(self, keys: Sequence[Key]) -> int:
        node = self._node(keys)
        return self._end(self._node(keys[:-1])) if node is None else int(node.start_mark.index)

    def append(self, keys: Sequence[Key], value: Any) -> YamlDocument:
        """With the value added at the end of the sequence at the path."""
        items = self.get(keys)
        if not isinstance(items, list):
            raise DocumentInvalid(f"{self.path}: {pointer(keys)} is not a list", path=self.path, line=self.line(keys))
        return self.set((*keys, len(items)), value)

    def _node(self, keys: Sequence[Key]) -> Any:
        node = self.root
        for key in keys:
            if node is None or not isinstance(node.value, list):
                return None
            if isinstance(key, int):
                node = node.value[key] if node.id == "sequence" and key < len(node.value) else None
            else:
                node = next((value for name, value in _pairs(node) if name.value == key), None)
        return node

    def _edited(self, keys: Sequence[Key], value: Any, wanted: Any) -> str:
        """The text as it should be; `set` makes sure that it says what is wanted."""
        if not keys or self.data is None:
            return self._rewritten(wanted)
        parent, node = self._node(keys[:-1]), self._node(keys)
        if node is None:
            return self._added(parent, keys[-1], value)
        return self._replaced(parent, keys[-1], node, value)

    def _rewritten(self, value: Any) -> str:
        """The whole value replaced; what stands before and behind it (comments, markers) is kept."""
        start, end = len(self.text), len(self.text)
        if self.root is not None and not _is_empty(self.root):
            start, end = self.root.start_mark.index, self._end(self.root)
        head = self.text[:start]
        if head and not head.endswith("\n") and start == end:
            head += "\n"
        tail = self.text[end:]
        return head + dump(value).removesuffix("\n" if tail.startswith("\n") else "") + tail

    def _replaced(self, parent: Any, key: Key, node: Any, value: Any) -> str:
        text, slot = self.text, self._slot(parent, key, node)
        start, end = (slot, slot) if _is_empty(node) else (node.start_mark.index, self._end(node))
        below = "\n" in text[slot:start]
        if _inline(parent, node, value):
            new = flow(value, node.style if node.id == "scalar" else None)
            if below and not _is_flow(parent):
                return f"{text[:slot]} {new}{text[slot : _line_end(text, slot)].rstrip()}{text[end:]}"
            return f"{text[:start]}{' ' if start == slot else ''}{new}{text[end:]}"
        lines = block(value, " " * self._column(parent, node, value), self._step())
        if isinstance(key, int) and not below:
            return f"{text[:slot].rstrip(' ')} {lines[0].lstrip()}{_joined(lines[1:])}{text[end:]}"
        if below:
            return text[: _line_end(text, slot)] + _joined(lines) + text[end:]
        line_end = _line_end(text, end)
        return text[:slot] + text[end:line_end].rstrip() + _joined(lines) + text[line_end:]

    def _added(self, parent: Any, key: Key, value: Any) -> str:
        """The text with a new last entry in a mapping or sequence, written in its style."""
        text, end = self.text, self._end(parent)
        if _is_flow(parent):
            entry = flow(value) if isinstance(key, int) else flow({key: value})[1:-1]
            if not parent.value:
                return text[: parent.start_mark.index + 1] + entry + text[end - 1 :]
            last = parent.value[-1]
            place = self._end(last) if parent.id == "sequence" else self._entry_end(parent, *last)
            return f"{text[:place]}, {entry}{text[place:]}"
        indent = " " * parent.start_mark.column
        if isinstance(key, str):
            lines = block({key: value}, indent, self._step())
        elif parent.value and _is_flow(parent.value[-1]):
            lines = [f"{indent}- {flow(value)}"]
        else:
            lines = block([value], indent, self._step())
        place = _line_end(text, end)
        return text[:place] + _joined(lines) + text[place:]

    def _column(self, parent: Any, node: Any, value: Any) -> int:
        """Where the lines of a new block begin: where the old ones did, if the new ones may stand there."""
        column, outer = int(node.start_mark.column), int(parent.start_mark.column)
        if not _is_empty(node) and node.id != "scalar" and not _is_flow(node):
            alike = node.id == "sequence" and isinstance(value, list)
            return column if alike or column > outer else outer + self._step()
        return outer + (2 if parent.id == "sequence" else self._step())

    def _step(self) -> int:
        """How far the document indents."""
        found = re.search(r"^( +)[^\s#-]", self.text, re.MULTILINE)
        return len(found[1]) if found else 2

    def _slot(self, parent: Any, key: Key, node: Any) -> int:
        """Just behind the colon of a key, or behind the dash of an item."""
        if isinstance(key, str):
            name = next(name for name, _ in _pairs(parent) if name.value == key)
            return self.text.index(":", name.end_mark.index) + 1
        if _is_flow(parent):
            return int(node.start_mark.index)
        dash = re.compile(rf"^ {{{parent.start_mark.column}}}-(?=\s|\Z)", re.MULTILINE)
        slot = int(parent.start_mark.index) + 1
        for item in parent.value[:key]:
            found = dash.search(self.text, slot if _is_empty(item) else max(slot, self._end(item)))
            if found is None:
                raise ValueError("no dash")
            slot = found.end()
        return slot

    def _end(self, node: Any) -> int:
        """Where the last character of a value stands, without the comments and blank lines behind it."""
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        if node.id == "scalar":
            return start + len(self.text[start:end].rstrip()) if node.style in ("|", ">") else end
        if _is_flow(node) or not node.value:
            return end
        if node.id == "sequence":
            last = node.value[-1]
            return self._slot(node, len(node.value) - 1, last) if _is_empty(last) else self._end(last)
        return self._entry_end(node, *node.value[-1])

    def _entry_end(self, parent: Any, name: Any, value: Any) -> int:
        if not _is_empty(value):
            return self._end(value)
        if _is_flow(parent):
            return int(value.end_mark.index)
        return self.text.index(":", name.end_mark.index) + 1


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    return list(node.value) if node.id == "mapping" else []


def _is_flow(node: Any) -> bool:
    return node.id != "scalar" and bool(node.flow_style)


def _is_empty(node: Any) -> bool:
    """Nothing was written for this value: ``key:`` at the end of a line."""
    return bool(node.id == "scalar" and node.start_mark.index == node.end_mark.index)


def _inline(parent: Any, node: Any, value: Any) -> bool:
    """Whether the new value stays on its line: it fits there, or the old one was written so."""
    if _is_flow(parent) or not isinstance(value, dict | list) or not value:
        return True
    if not _is_flow(node):
        return False
    items = value.values() if isinstance(value, dict) else value
    return bool(node.value) or not any(isinstance(item, dict | list) and item for item in items)


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"\n{line}" for line in lines)


def _canonical(data: Any) -> str:
    """Tells ``1`` from ``True`` and ``1.0``, which ``==`` does not."""
    return json.dumps(data, sort_keys=True)
