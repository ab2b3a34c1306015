"""Single values put into a person's document: all that is not set stays as they wrote it. Pure: text in, text out.

JSON by span, YAML by ruamel's round trip, Markdown by line.  A value that stands there already changes nothing, so that
what a crash left half done is done again.  A place that cannot be found is added at the end.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from interlock.documents.markdown import PIPE, REMARK, Field, bullet, cells, label, markdown, plain_value
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
        if json.dumps(json.loads(text[start:end])) == json.dumps(value):  # 1 is not true
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
    return f"{json.dumps(key, ensure_ascii=False)}: {_spelled(text, at, value)}"


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
    data, changed = yaml.load(text), False
    data = {} if data is None else data
    for (*above, last), value in values.items():
        inner = data
        for key in above:
            inner = inner[key]
        known = inner[last] if isinstance(last, int) or last in inner else ABSENT
        if (type(known) is bool, known) == (type(value) is bool, value):
            continue
        changed = True
        if value is ABSENT:
            del inner[last]
        else:
            inner[last] = _like(known)(value) if isinstance(value, str) else value
    return dumped(data, yaml) if changed else text


def dumped(data: Any, yaml: Any = None) -> str:
    """Data as YAML."""
    out = io.StringIO()
    (yaml or _yaml("")).dump(data, out)
    return out.getvalue()


def _like(known: Any) -> Any:
    """The kind of text that stands there: in the same quotes."""
    return type(known) if type(known).__name__ in ("DoubleQuotedScalarString", "SingleQuotedScalarString") else str


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
    """The text with these fields, in the spelling in which each stands (`Markdown.field`); a list is bullets, or stands
    behind its name with commas. What is not there comes to the end."""
    page, lines = markdown(text), text.split("\n")
    found = {name: page.field(name) for name in values}
    for field, value in sorted(((one, values[name]) for name, one in found.items() if one), key=lambda it: -it[0].line):
        _put(lines, field, value)
    missing = [line for name, field in found.items() if field is None for line in _new(name, values[name])]
    changed = "\n".join(lines)
    return changed if not missing else "\n".join([changed.rstrip(), *missing]).lstrip() + "\n"


def _put(lines: list[str], field: Field, value: str | Sequence[str]) -> None:
    """One value into the lines of its document."""
    at, begin, end = field.line - 1, field.items[0] - 1, field.items[1] - 1
    many = [value] if isinstance(value, str) else list(value)
    beside = _kept(field.value, ", ".join(many))
    if field.spelling == "row":
        parts = PIPE.split(lines[at])
        parts[2] = f" {_cell(beside)} "
        lines[at] = "|".join(parts)
    elif field.spelling == "label" and (isinstance(value, str) or field.value):
        found = label(lines[at])
        assert found is not None
        lines[begin:end] = []
        lines[at] = f"{lines[at][: found.start('value')].rstrip()} {beside}".rstrip()
    else:
        first = lines[begin] if begin < end else ""
        hangs = field.spelling == "label" and bullet(lines[at])
        indent = _indent(first) if bullet(first) else f"{_indent(lines[at])}  " if hangs else ""
        mark = first.lstrip()[0] if bullet(first) and first.lstrip()[0] in "*+" else "-"
        one_line = isinstance(value, str) and not bullet(first)
        new = [beside] if one_line else [f"{indent}{mark} {_kept('', one)}" for one in many]
        lines[begin:end] = new if begin < end or hangs else ["", *new]


def _kept(old: str, new: str) -> str:
    """A value on one line, with the remark that stood behind the old one, and as code where that was."""
    new = " ".join(new.split()).lstrip("# ").replace(" # ", " #").replace("<!--", "<! --")
    remark = REMARK.search(f" {old}")
    code = "`" if re.fullmatch(r"`[^`]+`", REMARK.sub("", f" {old}").strip()) and "`" not in new else ""
    return f"{code}{new}{code}{remark[0] if remark else ''}"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _cell(text: str) -> str:
    return PIPE.sub(r"\\|", text)


def _new(name: str, value: str | Sequence[str]) -> list[str]:
    return [f"- {name}: {value}"] if isinstance(value, str) else [f"- {name}:", *(f"  - {one}" for one in value)]


def add_below(text: str, title: str, line: str, head: Sequence[str] = ()) -> str:
    """The text with one line more at the end of what stands under a heading; nothing where it is there.

    Args:
        title: with its marks, `## Stops`; added at the end where there is no such heading.
        head: the lines above the first one, of a table.
    """
    found = markdown(text).find(title)
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


def add_row(text: str, title: str, row: Mapping[str, str]) -> str:
    """The text with one row more in the table of a section, by the names of its columns; columns that the table lacks
    come to its right, a table or section that is not there is made. Nothing where the row is there."""
    lines = text.split("\n")
    rows = markdown(text).rows(title)
    if not rows:
        head = [_row(row), _row(["---"] * len(row))]
        return add_below(text, title if markdown(text).find(title) else f"## {title}", _row(row.values()), head)
    known = [plain_value(cell) for cell in rows[0].cells]
    named = {name.casefold(): value for name, value in row.items()}
    more = [name for name in row if name.casefold() not in map(str.casefold, known)]
    new = _row(named.get(name.casefold(), "") for name in (*known, *more))
    at = rows[-1].line if len(rows) > 1 else rows[0].line + 1
    if not more and new in lines[rows[0].line : at]:
        return text
    lines.insert(at, new)
    if more:
        lines[rows[0].line - 1] = _row([*rows[0].cells, *more])
        lines[rows[0].line] = f"{lines[rows[0].line].rstrip().rstrip('|')}|{' --- |' * len(more)}"
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_cell(" ".join(one.split())) for one in cells) + " |"
