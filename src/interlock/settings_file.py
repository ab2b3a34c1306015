"""Where settings come from: `interlock.toml`, then `INTERLOCK_...` variables, then options.

The nearest `interlock.toml` from the place upward counts, alone.  A playbook's table is the playbook's own model, which
`load` is handed by name; tables of other playbooks are left aside.  Everything that is wrong is told at once, with its
line, variable or option and the nearest known name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from interlock.documents.files import read, relative
from interlock.documents.model import Model
from interlock.documents.problems import problems
from interlock.documents.reading import Keys, Spot, Text, pointer, read_toml
from interlock.errors import BadInput, ConfigInvalid, DocumentInvalid, nearest
from interlock.settings import CLIENTS, FILE, Settings, with_tables

_PROTOCOL = {
    *("RUN_ID", "PLAYBOOK", "STEP", "AGENT", "MEMBER", "ATTEMPT", "DISPATCH", "SESSION", "WORKSPACE", "DEPTH"),
    *("PATH", "PARTIAL", "BRIEF", "RESULT", "SCHEMA", "MARKER", "TOKEN", "WORKER"),
}
"""What the engine tells an agent. What an agent starts inherits it: these are never settings."""
_COMMANDS = "[commands] build, test, and any other name"
_BEFORE = {
    "mcp.*": "nothing: a client that can ask its person asks",
    "workspace.*": "nothing: a process's documents are seen wherever they lie",
    "notify.urls": "[notify] command, which gets the run as JSON",
    "notify.on": "[notify] command, which may choose by the run's status",
    "sandbox.protected": "[sandbox] guarded",
    "runners.*.args": "env, or a runner of type `command`",
    "runners.*.sandbox.*": "network and hosts of the runner itself, or [sandbox]",
    "runners.*.mode": 'type = "acp" with argv',
    "*.check_commands": _COMMANDS,
    "ticket.build_command": _COMMANDS,
    "ticket.test_command": _COMMANDS,
    "ticket.max_parallel_tasks": "[limits] max_parallel",
    "ticket.base": "the branch that is checked out at the git gate",
}
"""Keys of 0.1, as patterns, and what to set instead."""


def load(
    place: Path,
    top: Path,
    environ: Mapping[str, str],
    options: Mapping[str, object] | None = None,
    tables: Mapping[str, type[Model]] | None = None,
) -> Settings:
    """The settings in force for somebody who stands in `place`; ConfigInvalid carries all that is wrong.

    Args:
        options: by dotted name (`limits.budget_usd`); None stands for an option that was not given.
        tables: the models of playbooks' tables, by name.
    """
    model = with_tables(tables or {})
    path, raw = _file(place, top)
    try:
        source = read_toml(Text.of(raw or b"", path).text, path)
    except DocumentInvalid as error:
        raise ConfigInvalid(error.what, where=error.where, expected="TOML", remedy=error.remedy) from None
    given, wrong = _variables(environ, model)
    given += [(tuple(name.split(".")), value, f"option {name}") for name, value in (options or {}).items()]
    merged, spots = deepcopy(source.data), dict[Keys, Spot]()
    for keys, value, origin in given:
        if value is not None:
            _set(merged, keys, value)
            spots[keys] = Spot(origin)
    merged = {name: value for name, value in merged.items() if not _is_foreign(name, value, model)}

    def find(keys: Keys) -> Spot:
        return next((spots[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in spots), source.spot(keys))

    try:
        settings = model.model_validate(merged)
    except ValidationError as error:
        wrong += problems(error, model, merged, find, kind=ConfigInvalid, secret=_is_secret)
    else:
        wrong += _unknown_runners(settings, find)
    wrong = _of_before(source.data, find, wrong)
    if wrong:
        raise BadInput.together(wrong)
    settings._file = "" if raw is None else path
    settings._in_file = {
        keys: value for keys, value in leaves(source.data) if not any(keys[: len(one)] == one for one in spots)
    }
    return settings


def _file(place: Path, top: Path) -> tuple[str, bytes | None]:
    """The nearest file from the place upward, from the workspace; its bytes, None where there is none."""
    folder = PurePosixPath(relative(top, place))
    for each in (folder, *folder.parents):
        path = (each / FILE).as_posix()
        try:
            raw = read(top, path)
        except DocumentInvalid as error:
            raise ConfigInvalid(error.what, where=path, expected="a readable file") from None
        if raw is not None:
            return path, raw
    return FILE, None


def _set(tree: dict[str, Any], keys: Keys, value: object) -> None:
    """Set a value, in place of whatever is there; what is no table in a table's place stays, to be complained of."""
    for key in keys[:-1]:
        tree = tree.setdefault(str(key), {})
        if not isinstance(tree, dict):
            return
    tree[str(keys[-1])] = value


def leaves(data: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value that is no table, or an empty one, with where it stands."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _is_foreign(name: str, value: object, model: type[Settings]) -> bool:
    """Whether it is a table of a playbook that is not at hand, and not one of ours misspelt."""
    return isinstance(value, dict) and name not in model.model_fields and nearest(name, model.model_fields, 0.8) is None


def _of_before(data: Any, find: Callable[[Keys], Spot], wrong: list[BadInput]) -> list[BadInput]:
    """What is wrong, where keys of 0.1 are told as such, with what to set now."""
    old, told = list[BadInput](), set[str | None]()
    for keys, _ in leaves(data):
        if now := next((now for pattern, now in _BEFORE.items() if fnmatchcase(".".join(keys), pattern)), ""):
            told |= {str(find(keys[:end])) for end in range(2, len(keys) + 1)}
            what = f"{pointer(keys)} is no setting any more"
            old.append(ConfigInvalid(what, where=str(find(keys)), remedy=f"Of 0.1; now: {now}"))
    return [*old, *(one for one in wrong if one.where not in told)]


def _is_secret(keys: Keys) -> bool:
    return "env" in keys[2:] or keys[:1] == ("fleet",)


def _unknown_runners(settings: Settings, find: Callable[[Keys], Spot]) -> Iterator[BadInput]:
    named: dict[Keys, str | None] = {("runner",): settings.runner, ("judges",): settings.judges}
    named |= {("agents", name, "runner"): agent.runner for name, agent in settings.agents.items()}
    for keys, name in named.items():
        try:
            settings.runner_named(name or CLIENTS[0])
        except ConfigInvalid as error:
            error.where = str(find(keys))
            yield error


def _variables(
    environ: Mapping[str, str], model: type[Settings]
) -> tuple[list[tuple[Keys, object, str]], list[BadInput]]:
    """What the environment sets, and what in it plainly was meant to: others may use our prefix, too.

    A table with names of its own (`[runners]`) is one setting, but for `[commands]`; an empty variable is unset.
    """
    said = {name.removeprefix("INTERLOCK_"): environ[name] for name in environ if name.startswith("INTERLOCK_")}
    ours = sorted(name for name in said.keys() - _PROTOCOL if said[name])
    known = {"_".join(keys).upper(): keys for keys, _ in leaves(model().model_dump())} if ours else {}
    given: list[tuple[Keys, object, str]] = []
    wrong: list[BadInput] = []
    for name in ours:
        command = ("commands", name.removeprefix("COMMANDS_").lower()) if name.startswith("COMMANDS_") else None
        if keys := command or known.get(name):
            given.append((keys, _value(said[name], keys, model), f"environment variable INTERLOCK_{name}"))
        elif near := nearest(name, known, 0.75):
            remedy = f"Did you mean INTERLOCK_{near}?"
            wrong.append(ConfigInvalid(f"INTERLOCK_{name} is no setting", where="environment", remedy=remedy))
    return given, wrong


def _value(raw: str, keys: Keys, model: type[Settings]) -> object:
    """What a variable holds: text where the setting takes it as it stands, else as in TOML; validation refuses it."""
    tree: dict[str, Any] = {}
    _set(tree, keys, raw)
    try:
        model.model_validate(tree)
    except ValidationError:
        with suppress(ValueError, RecursionError):
            parsed = tomllib.loads(f"value = {raw}")
            return parsed["value"] if parsed.keys() == {"value"} else raw
    return raw
