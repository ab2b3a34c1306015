"""Writes docs/reference/ from the code: commands, settings, promises, schemas. `--check`: is it as that is?"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from interlock.app import SHIPPED, playbook_named
from interlock.cli.commands import app
from interlock.flows.format import schema
from interlock.settings import with_tables

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
TESTS = Path(__file__).parents[1] / "tests"
WHERE = """\
The nearest `interlock.toml` from where you stand upward counts, then variables (`INTERLOCK_LIMITS_BUDGET_USD` for
`limits.budget_usd`), then options. Everything has a default; a key that nobody knows is an error."""
MADE = "<!-- made by tools/reference.py from the code -->"


def commands() -> str:
    """Every command as its help tells it."""
    lines = ["# Commands", "", MADE, "", "Before the command: `-C DIR` stands in another folder.", ""]
    context = click.Context(app, info_name="interlock")
    for name, command in app.commands.items():
        parts = [(name, command)]
        if isinstance(command, click.Group):
            below = [(f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)]
            parts = [*(parts if command.invoke_without_command else []), *below]  # type: ignore[list-item]
        for words, one in parts:
            if name != "plan":
                lines += _command(words, one)
    lines += ["## `interlock plan PLAYBOOK`", "", "What `run` takes, it takes, and shows what that would take.", ""]
    return "\n".join(lines)


def _command(words: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"interlock {words}", max_content_width=80, terminal_width=80)
    usage = command.get_usage(context).removeprefix("Usage: ").replace(" [OPTIONS]", "")
    yield from (f"## `{' '.join(usage.split())}`", "", command.help or "", "")
    options = [one for one in command.params if isinstance(one, click.Option)]
    rows = [record for one in options if (record := one.get_help_record(context))]
    if rows:
        yield from (
            "| option | |",
            "| --- | --- |",
            *(f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows),
            "",
        )


def _tables() -> dict[str, Any]:
    return {name: model for name in SHIPPED if (model := playbook_named(name).settings) is not None}


def settings() -> str:
    """Every key of interlock.toml with its default."""
    known = with_tables(_tables()).model_json_schema()
    lines = ["# Settings", "", MADE, ""]
    lines += [WHERE, ""]
    lines += ["| key | default | |", "| --- | --- | --- |", *_rows(known, known["properties"], "")]
    return "\n".join([*lines, ""])


def _rows(schema: Mapping[str, Any], properties: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, field in properties.items():
        inner = _inner(schema, field)
        if "properties" in inner:
            yield from _rows(schema, inner["properties"], f"{above}{name}.")
        elif "properties" in (each := _inner(schema, field.get("additionalProperties"))):
            yield f"| `[{above}{name}.NAME]` | | {field.get('description', '')} |"
            yield from _rows(schema, each["properties"], f"{above}{name}.NAME.")
        else:
            about = field.get("description") or ", ".join(filter(None, inner.get("enum", ())))
            default = field.get("default")
            spelled = default if isinstance(default, str) else json.dumps(default)
            shown = "" if default in (None, [], {}, "") else f"`{_cell(spelled)}`"
            yield f"| `{above}{name}` | {shown} | {_cell(about)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "\\n")


def _inner(schema: Mapping[str, Any], field: Any) -> Mapping[str, Any]:
    if not isinstance(field, Mapping):
        return {}
    found: Mapping[str, Any] = schema["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else field
    return found


def promises() -> str:
    """Every promise with the tests that carry its id."""
    carried: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for row in (row for mark in node.decorator_list for row in _rows_of(mark)):
                    carried.setdefault(row, []).append(f"`{file.relative_to(TESTS)}::{node.name}`")
    lines = ["# Promises", "", MADE, "", "Ids of promises to users, and the tests that hold them.", ""]
    lines += ["| id | tests |", "| --- | --- |"]
    numbered = sorted(carried, key=lambda row: (row.partition("-")[0], int(row.partition("-")[2])))
    return "\n".join([*lines, *(f"| {row} | {', '.join(carried[row])} |" for row in numbered), ""])


def _rows_of(mark: ast.expr) -> list[str]:
    if not isinstance(mark, ast.Call) or not ast.unparse(mark.func).endswith("mark.req"):
        return []
    return [str(one.value) for one in mark.args if isinstance(one, ast.Constant)]


def pages() -> dict[str, str]:
    """Every file of the reference, as the code is."""
    schemas = {"interlock.schema.json": with_tables(_tables()).model_json_schema(), "playbook.schema.json": schema()}
    spelled = {name: json.dumps(one, indent=1) + "\n" for name, one in schemas.items()}
    return {"commands.md": commands(), "settings.md": settings(), "promises.md": promises(), **spelled}


def main() -> None:
    if "--check" in sys.argv:
        stale = [name for name, text in pages().items() if (FOLDER / name).read_text("utf-8") != text]
        sys.exit(f"not as the code is: {', '.join(stale)}; python -m tools.reference writes them" if stale else 0)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
