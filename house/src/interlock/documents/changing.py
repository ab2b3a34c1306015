"""Single values put into a person's document: all that is not set stays as they wrote it. Pure: text in, text out.

JSON by span, YAML by ruamel's round trip, Markdown by line.  A value that stands there already changes nothing, so that
what a crash left half done is done again.  A place that cannot be found is added at the end.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from interlock.documents.markdown import Markdown, bullet, cells, label
from interlock.documents.reading import Key, Keys, entries

ABSENT = object()
"""In place of a value: the entry is taken out."""
_decoder = json.JSONDecoder()


# JSON


def set_json(text: str, values: Mapping[Keys, Any]) -> str:
    """The text with these entries; what holds them must be there, a new one takes the form of those beside it."""
    for keys, value in values.items():
        text = _set_json(text, keys, value)
    return text


def _set_json(text: str, keys: Keys, value: Any) -> str:
    at = dict(entries(text))
    if keys in at:
        start, end = _span(text, at[keys], keys)
        if value is ABSENT:
            return _without(text, at, keys)
        if json.loads(text[start:end]) == value and json.dumps(json.loads(text[start:end])) == json.dumps(value):
            return text
        return text[:start] + _spelled(text, at[keys], value) + text[end:]
    if value is ABSENT:
        return text
    beside = _members(at, keys[:-1])
    if not beside:
        start, _ = _span(text, at[keys[:-1]], keys[:-1])
        return f"{text[: start + 1]}{_named(text, at[keys[:-1]], keys[-1], value)}{text[start + 1 :]}"
    last = beside[-1]
    end = _span(text, at[last], last)[1]
    line = text[: at[last]].rpartition("\n")[2]
    gap = f"\n{line}" if not line.strip() and "\n" in text[: at[last]] else " "
    return f"{text[:end]},{gap}{_named(text, at[last], keys[-1], value)}{text[end:]}"


def _members(at: Mapping[Keys, int], keys: Keys) -> list[Keys]:
    return [one for one in at if len(one) == len(keys) + 1 and one[:-1] == keys]


def _without(text: str, at: Mapping[Keys, int], keys: Keys) -> str:
    beside = _members(at, keys[:-1])
    n = beside.index(keys)
    if n + 1 < len(beside):
        return text[: at[keys]] + text[at[beside[n + 1]] :]
    before = _span(text, at[beside[n - 1]], beside[n - 1])[1] if n else at[keys]
    return text[:before] + text[_span(text, at[keys], keys)[1] :]


def _span(text: str, at: int, keys: Keys) -> tuple[int, int]:
    """Of the value of the entry that begins there."""
    if keys and isinstance(keys[-1], str):
        at = re.compile(r"\s*:\s*").match(text, scanstring(text, at + 1)[1]).end()  # type: ignore[union-attr]
    return at, _decoder.raw_decode(text, at)[1]


def _named(text: str, at: int, key: Key, value: Any) -> str:
    colon = ":" if re.search(r'":[^\s]', text) and not re.search(r'":\s', text) else ": "
    return f"{json.dumps(key, ensure_ascii=False)}{colon}{_spelled(text, at, value)}"


def _spelled(text: str, at: int, value: Any) -> str:
    """Over several lines where the document is written so."""
    unit = re.search(r"\n([ \t]+)\S", text)
    if not isinstance(value, dict | list) or not value or unit is None:
        return json.dumps(value, ensure_ascii=False)
    line = text[:at].rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip())]
    return json.dumps(value, ensure_ascii=False, indent=unit[1]).replace("\n", f"\n{indent}")


# YAML


def set_yaml(text: str, values: Mapping[Keys, Any]) -> str:
    """The text with these entries; comments, order and quotes stay."""
    yaml = _yaml(text)
    data = yaml.load(text)
    data = {} if data is None else data
    changed = False
    for keys, value in values.items():
        inner = data
        for key in keys[:-1]:
            inner = inner[key]
        known = inner[keys[-1]] if isinstance(keys[-1], int) or keys[-1] in inner else ABSENT
        if value is ABSENT and known is not ABSENT:
            del inner[keys[-1]]
        elif value is not ABSENT and (type(known) is bool, known) != (type(value) is bool, value):
            inner[keys[-1]] = _like(known)(value) if isinstance(value, str) else value
        else:
            continue
        changed = True
    return dumped(data, yaml) if changed else text


def dumped(data: Any, yaml: Any = None) -> str:
    """Data as YAML."""
    out = io.StringIO()
    (yaml or _yaml("")).dump(data, out)
    return out.getvalue()


def _like(known: Any) -> Any:
    """The kind of text that stands there: in the same quotes."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    return type(known) if isinstance(known, DoubleQuotedScalarString | SingleQuotedScalarString) else str


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    found = re.search(r"^( *)[^\s#-][^\n]*:[ \t]*\n(?:\s*\n)*( *)- ", text, re.MULTILINE)
    offset = len(found[2]) - len(found[1]) if found else 2
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    yaml.representer.add_representer(type(None), lambda it, _: it.represent_scalar("tag:yaml.org,2002:null", "null"))
    return yaml


# Markdown


def set_fields(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """The text with these fields, in the spelling in which each stands: `- Name: value`, `Name: value`, a row of a
    table, or a heading with the value below; a list is bullets, or stands behind its name with commas."""
    for name, value in values.items():
        text = _set_field(text, name, value)
    return text


def _set_field(text: str, name: str, value: str | Sequence[str]) -> str:
    lines, many = text.split("\n"), [value] if isinstance(value, str) else list(value)
    page = Markdown(text)
    for line, number in page.open_lines(deep=True):
        at = number - 1
        row = cells(line)
        if len(row) == 2 and _same(row[0], name):
            lines[at] = f"{line[: line.index('|', line.index('|') + 1)]}| {', '.join(many)} |"
            return "\n".join(lines)
        if (found := label(line)) is not None and _same(found["name"], name):
            end = _below(lines, at + 1, len(line) - len(line.lstrip()))
            head = line[: found.start("value")].rstrip() or line
            if isinstance(value, str) or (found["value"].strip() and end == at + 1):
                lines[at : at + 1] = [f"{head} {', '.join(many)}".rstrip()]
            else:
                indent = line[: len(line) - len(line.lstrip())] + ("  " if line.lstrip()[:1] in "-*+" else "")
                lines[at:end] = [head, *(f"{indent}- {one}" for one in many)]
            return "\n".join(lines)
    for section in page.find(name):
        begin = section.line
        while begin < section.own_end - 1 and not lines[begin].strip():
            begin += 1
        bulleted = bullet(lines[begin]) is not None if begin < len(lines) else False
        end = begin + 1
        while bulleted and end < section.own_end - 1 and (bullet(lines[end]) or lines[end].startswith("  ")):
            end += 1
        new = [f"- {one}" for one in many] if bulleted or not isinstance(value, str) else many
        empty = begin >= section.own_end - 1 or not lines[begin].strip()
        lines[section.line if empty else begin : section.line if empty else end] = new
        return "\n".join(lines)
    tail = [f"- {name}: {value}"] if isinstance(value, str) else [f"- {name}:", *(f"  - {one}" for one in many)]
    return f"{text.rstrip()}\n" + "\n".join(tail) + "\n"


def _below(lines: Sequence[str], at: int, indent: int) -> int:
    """The end of the bullets that stand deeper than this."""
    while at < len(lines) and bullet(lines[at]) and len(lines[at]) - len(lines[at].lstrip()) > indent:
        at += 1
    return at


def add_below(text: str, title: str, line: str, head: Sequence[str] = ()) -> str:
    """The text with one line more at the end of what stands under a heading; nothing where it is there.

    Args:
        title: with its marks, `## Stops`; added at the end where there is no such heading.
        head: the lines above the first one, of a table.
    """
    page = Markdown(text)
    found = page.find(title)
    if not found:
        return f"{text.rstrip()}\n\n{title}\n\n" + "\n".join([*head, line]) + "\n"
    section, lines = found[0], text.split("\n")
    if line in lines[section.line : section.own_end - 1]:
        return text
    end = min(section.own_end - 1, len(lines))
    while end > section.line and not lines[end - 1].strip():
        end -= 1
    body = [one for one in lines[section.line : end] if one.strip()]
    known = not head or any(cells(one) for one in body)
    lines[end:end] = [line] if known and body else [*([""] if not body or head else []), *(() if known else head), line]
    return "\n".join(lines)


def _same(one: str, other: str) -> bool:
    return " ".join(one.strip(" *_`:").split()).casefold() == " ".join(other.split()).casefold()
