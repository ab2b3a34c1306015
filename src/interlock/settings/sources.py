"""Where settings come from: file, environment, options, each as a tree of plain values; and where each key stands."""

from __future__ import annotations

import difflib
import errno
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.settings.inventory import ANY_NAME, Setting, catalogue, variable_of
from interlock.settings.location import FILE_NAME
from interlock.settings.models import REMOVED, OpenTable, Settings

LARGEST_FILE: Final = 10_000_000
NOT_THE_FILES_FAULT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)

PROTOCOL_VARIABLES: Final = frozenset(
    "INTERLOCK_" + name
    for name in (
        *("RUN_ID", "PLAYBOOK", "STEP", "AGENT", "MEMBER", "ATTEMPT", "DISPATCH", "SESSION", "WORKSPACE"),
        *("DEPTH", "PATH", "PARTIAL", "BRIEF", "RESULT", "MARKER", "TOKEN"),
    )
)
"""What the engine tells an agent (DESIGN 5). A nested run inherits them: they are never settings."""


def read(path: Path) -> str:
    where = FILE_NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno in NOT_THE_FILES_FAULT:
            raise WorkspaceFailed.of(error, f"{FILE_NAME} cannot be read", where=where) from error
        raise ConfigInvalid(
            f"{FILE_NAME} cannot be read: {error.strerror}", where=where, expected="a readable file"
        ) from error
    if len(raw) > LARGEST_FILE:
        raise ConfigInvalid(
            f"{FILE_NAME} is too large",
            where=where,
            expected=f"at most {LARGEST_FILE} bytes",
            found=f"{len(raw)} bytes",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(
            f"{FILE_NAME} is not UTF-8",
            where=f"{where}:{line}",
            expected="UTF-8 text",
            found=f"byte 0x{raw[error.start]:02x} at position {error.start}",
            remedy="Save the file as UTF-8.",
        ) from error


def parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigInvalid(
            f"{FILE_NAME} is nested too deeply", where=FILE_NAME, expected="tables of settings"
        ) from error
    except ValueError as error:  # TOMLDecodeError, and what int() says of thousands of digits
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = (place and place[1]) or text.count("\n") + 1
        raise ConfigInvalid(
            f"{FILE_NAME} is not valid TOML: {str(error).replace(place[0] if place else '', '')}",
            where=f"{FILE_NAME}:{line}" if place else FILE_NAME,
            expected="TOML 1.0",
            remedy="Correct this line; texts need quotes, tables stand in [brackets].",
        ) from error


def environment(environ: Mapping[str, str], model: type[Settings]) -> tuple[dict[str, Any], dict[str, str]]:
    """What the environment sets; and what is wrong with variables that were meant as settings, with what to do.

    Text is taken as it stands, everything else is written as in TOML; an empty variable is unset.
    """
    known = {setting.variable: setting for setting in catalogue(model)}
    removed = {variable_of(key): remedy for key, remedy in REMOVED.items()}
    unknown = tuple(
        f"{variable_of((name,))}_" for name, one in model.model_fields.items() if one.annotation == OpenTable
    )
    tree: dict[str, Any] = {}
    strays: dict[str, str] = {}
    for name in sorted(name for name in environ if name.startswith("INTERLOCK_") and environ[name]):
        if (setting := known.get(name)) is not None:
            by_name = ANY_NAME in setting.key
            value = environ[name] if setting.is_text and not by_name else _toml_value(environ[name])
            tree = merged_over(tree, nested({setting.key[0] if by_name else setting.dotted: value}))
        elif name in removed:
            strays[f"{name} is no setting any more"] = removed[name]
        elif (
            name not in PROTOCOL_VARIABLES and not name.startswith(unknown) and (near := _nearest_variable(name, known))
        ):
            strays[f"unknown setting {name}"] = f"Did you mean {near}?"
    return tree, strays


def _nearest_variable(name: str, known: Mapping[str, Setting]) -> str | None:
    """The setting a variable was meant for, if it plainly was meant for one: others may use our prefix too."""
    in_a_table = any(name.startswith(f"INTERLOCK_{s.key[0].upper()}_") for s in known.values() if len(s.key) > 1)
    prefix = len("INTERLOCK_")
    near = difflib.get_close_matches(name[prefix:], [k[prefix:] for k in known], 1, 0.0 if in_a_table else 0.8)
    return f"INTERLOCK_{near[0]}" if near else None


def _toml_value(raw: str) -> object:
    """The value a variable holds, written as in TOML; what is no TOML stays text, for validation to refuse."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    return parsed["value"] if parsed.keys() == {"value"} else raw


def nested(values: Mapping[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for dotted, value in values.items():
        branch: object = value
        for part in reversed(dotted.split(".")):
            branch = {part: branch}
        tree = merged_over(tree, branch)  # type: ignore[arg-type]  # at least one part: a dict
    return tree


def merged_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; where the base has something else in a table's place it stays, to be complained of."""
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and key in base:
            result[key] = merged_over(base[key], value) if isinstance(base[key], Mapping) else base[key]
        else:
            result[key] = value
    return result


class Places:
    """Where each key was set, for error messages: looked up only when something is wrong."""

    def __init__(self, text: str, variables: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._text, self._variables, self._options = text, variables, options

    def of(self, path: tuple[str, ...]) -> str:
        """The place of the value in force at `path`, or of the nearest table around it."""
        lines = _lines(self._text)
        variables, options = dict(_paths(self._variables)), dict(_paths(self._options))
        for end in range(len(path), 0, -1):
            part = path[:end]
            # a table is merged, not replaced: its place is where the file has it, if it has it
            is_table = isinstance(options.get(part, variables.get(part)), Mapping)
            if part in lines and (is_table or part not in (options | variables)):
                return f"{FILE_NAME}:{lines[part]}"
            if part in options:
                return f"option {'.'.join(part)}"
            if part in variables:
                key = part[:1] if part[0] in ("runners", "agents") else part
                return f"environment variable INTERLOCK_{'_'.join(key).upper()}"
        return FILE_NAME


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each key and table first stands.

    tomllib keeps no positions.  But a TOML file is a list of statements, and a statement alone is a valid
    file: lines are taken together until they parse, and what they parse to is what they set.
    """
    places: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        statement.append(line)
        try:
            parsed = tomllib.loads("\n".join(statement))
        except (ValueError, RecursionError):
            continue
        paths = [path for path, _ in _paths(parsed)]
        if line_opens_table := statement[0].lstrip().startswith("["):
            table = ()
        for path in paths:
            places.setdefault((*table, *path), number - len(statement) + 1)
        if line_opens_table:
            table = paths[-1]
        statement = []
    return places


def _paths(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in tree.items():
        yield (*above, key), value
        if isinstance(value, Mapping):
            yield from _paths(value, (*above, key))
