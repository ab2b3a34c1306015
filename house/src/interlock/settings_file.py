"""Where settings come from: `interlock.toml`, then `INTERLOCK_...` variables, then options.

The nearest `interlock.toml` from the place upward counts, alone.  A playbook's table is the playbook's own model, which
`load` is handed by name; tables of other playbooks are left aside.  Everything that is wrong is told at once, with its
line, variable or option and the nearest known name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from interlock.documents.files import digest, read, relative
from interlock.documents.model import Model
from interlock.documents.problems import problems
from interlock.documents.reading import Key, Keys, Spot, Text, pointer, read_toml
from interlock.errors import BadInput, ConfigInvalid, DocumentInvalid, nearest
from interlock.settings import FILE, Settings, with_tables

PROTOCOL = frozenset(
    f"INTERLOCK_{name}"
    for name in (
        *("RUN_ID", "PLAYBOOK", "STEP", "AGENT", "MEMBER", "ATTEMPT", "DISPATCH", "SESSION", "WORKSPACE", "DEPTH"),
        *("PATH", "PARTIAL", "BRIEF", "RESULT", "SCHEMA", "MARKER", "TOKEN"),
    )
)
"""What the engine tells an agent (DESIGN 5). What an agent starts inherits it: these are never settings."""


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
    merged, spots = dict(source.data), dict[Keys, Spot]()
    for keys, value, origin in given:
        if value is None:
            continue
        merged = _with(merged, keys, value)
        spots[keys] = Spot(origin)
    foreign = {name: merged.pop(name) for name in list(merged) if _is_foreign(name, merged[name], model)}

    def find(keys: Keys) -> Spot:
        return next((spots[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in spots), source.spot(keys))

    for keys in OLD.keys() & {(name, key) for name, table in foreign.items() for key in table}:
        wrong.append(ConfigInvalid(f"{pointer(keys)} is no setting", where=str(find(keys)), remedy=OLD[keys]))
    try:
        settings = model.model_validate(merged)
    except ValidationError as error:
        wrong += problems(
            error,
            model,
            merged,
            find,
            settings=True,
            advice=_advice,
            secret=lambda keys: "env" in keys[2:] or keys[:1] == ("fleet",),
        )
    else:
        wrong += _unknown_runners(settings, find)
    if wrong:
        raise BadInput.together(wrong)
    settings._file, settings._digest = ("", "") if raw is None else (path, digest(raw))
    settings._in_file = {
        keys: value
        for keys, value in _leaves(source.data)
        if not any(keys[:end] in spots for end in range(1, len(keys) + 1))
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


def _with(tree: Mapping[str, Any], keys: Keys, value: object) -> dict[str, Any]:
    """The tree with a value; tables are merged, and what is no table in a table's place stays, to be complained of."""
    name, inner = str(keys[0]), keys[1:]
    old = tree.get(name, {})
    if inner and isinstance(old, dict):
        value = _with(old, inner, value)
    elif inner:
        value = old
    elif isinstance(value, dict) and isinstance(old, dict):
        for each in value:
            old = _with(old, (each,), value[each])
        value = old
    return {**tree, name: value}


def _leaves(data: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _is_foreign(name: str, value: object, model: type[Settings]) -> bool:
    """Whether it is a table of a playbook that is not at hand, and not one of ours misspelt."""
    return isinstance(value, dict) and name not in model.model_fields and nearest(name, model.model_fields, 0.8) is None


# variables


def _names(model: type[Settings]) -> dict[str, tuple[Keys, bool]]:
    """Every setting by its variable, and whether its value is a text; a table with names of its own is one setting."""
    schema = model.model_json_schema()
    found: dict[str, tuple[Keys, bool]] = {}

    def walk(node: Mapping[str, Any], above: Keys) -> None:
        for name, field in node.get("properties", {}).items():
            branches = [field, *field.get("anyOf", ())]
            inner = next(
                (schema["$defs"][each["$ref"].rpartition("/")[2]] for each in branches if "$ref" in each), field
            )
            if "properties" in inner:
                walk(inner, (*above, name))
            else:
                variable = "INTERLOCK_" + "_".join((*map(str, above), name)).upper()
                found[variable] = ((*above, name), any(each.get("type") == "string" for each in (inner, *branches)))

    walk(schema, ())
    return found


def _variables(
    environ: Mapping[str, str], model: type[Settings]
) -> tuple[list[tuple[Keys, object, str]], list[BadInput]]:
    """What the environment sets, and what in it plainly was meant to: others may use our prefix, too.

    Text is taken as it stands, all else is written as in TOML; an empty variable is unset.
    """
    ours = sorted(name for name in environ.keys() - PROTOCOL if name.startswith("INTERLOCK_") and environ[name])
    known = _names(model) if ours else {}
    old = {"INTERLOCK_" + "_".join(keys).upper(): said for keys, said in OLD.items()}
    given: list[tuple[Keys, object, str]] = []
    wrong: list[BadInput] = []
    for variable in ours:
        raw, where = environ[variable], f"environment variable {variable}"
        table, _, name = variable.removeprefix("INTERLOCK_").partition("_")
        if variable in known:
            keys, is_text = known[variable]
            given.append((keys, raw if is_text else _toml_value(raw), where))
        elif table == "COMMANDS":
            given.append((("commands", name.lower()), raw, where))
        elif table == "FLEET":
            given.append((("fleet", name.lower()), _toml_value(raw), where))
        else:
            near = nearest(
                variable.removeprefix("INTERLOCK_"), [name.removeprefix("INTERLOCK_") for name in known], 0.75
            )
            if remedy := old.get(variable) or (near and f"Did you mean INTERLOCK_{near}?"):
                wrong.append(ConfigInvalid(f"{variable} is no setting", where="environment", remedy=remedy))
    return given, wrong


def _toml_value(raw: str) -> object:
    """The value a variable holds; what is no TOML stays text, for validation to refuse."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    return parsed["value"] if parsed.keys() == {"value"} else raw


# what is wrong


OLD: dict[tuple[str, ...], str] = {
    ("sandbox", "protected"): "It is sandbox.guarded now: patterns of paths.",
    ("workspace", "watch"): "It is sandbox.ignored now.",
    ("mcp", "gates"): "Clients that can ask the person do: delete this line.",
    ("notify", "on"): "The command gets all of it as JSON and can choose: delete this line.",
    ("notify", "urls"): "Name a program that sends it in notify.command.",
    ("ticket", "build_command"): "It is commands.build now.",
    ("ticket", "test_command"): "It is commands.test now.",
    ("ticket", "max_parallel_tasks"): "It is limits.max_parallel now.",
    **{
        (name, "check_commands"): "They stand in [commands] now, each by a name."
        for name in ("task", "feature", "harness")
    },
    ("runners", "args"): "They stand in argv, behind the program (types acp and command).",
    ("runners", "mode"): "Each type has one way now; delete this line, or use type acp.",
    ("runners", "sandbox"): "network and hosts stand in the runner's own table now.",
}
"""Settings that older files may still have, and what became of each; of a runner's table without its name."""


def _advice(keys: Keys) -> str | None:
    return OLD.get((str(keys[0]), str(keys[-1])))


def _unknown_runners(settings: Settings, find: Callable[[Keys], Spot]) -> list[BadInput]:
    named: list[tuple[tuple[Key, ...], str | None]] = [(("runner",), settings.runner), (("judges",), settings.judges)]
    named += [(("agents", name, "runner"), agent.runner) for name, agent in settings.agents.items()]
    wrong: list[BadInput] = []
    for keys, name in named:
        try:
            if name is not None:
                settings.runner_named(name)
        except ConfigInvalid as error:
            error.where = str(find(keys))
            wrong.append(error)
    return wrong
