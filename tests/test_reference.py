"""Generated reference pages: complete, and stale ones fail the check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
import typer.main

from tools import reference


def program() -> typer.Typer:
    app = typer.Typer(help="Does things.")
    runs = typer.Typer(help="About runs.")
    app.add_typer(runs, name="runs")

    @app.callback()
    def top() -> None: ...

    @app.command()
    def start(
        name: Annotated[str, typer.Argument(help="Who | what.")],
        count: Annotated[int, typer.Option("--count", "-c", help="How many.", envvar="INTERLOCK_COUNT")] = 3,
        loud: Annotated[bool, typer.Option(help="Shout.")] = False,
        secret: Annotated[bool, typer.Option(hidden=True)] = False,
    ) -> None:
        """Start it."""

    @app.command(hidden=True)
    def internal() -> None:
        """Not for people."""

    @runs.command("list")
    def list_them() -> None:
        """List them."""

    return app


def test_the_command_line_page_has_every_visible_command() -> None:
    """Commands at all depths with help, options, defaults and variables; hidden ones are left out."""
    page = reference.command_page("tool", typer.main.get_command(program()))  # type: ignore[arg-type]
    assert "## `tool start`\n\nStart it.\n" in page
    assert "## `tool runs list`\n\nList them.\n" in page
    assert "| `NAME` | required | | Who \\| what. |" in page
    assert "| `--count`, `-c` | `3` | `INTERLOCK_COUNT` | How many. |" in page
    assert "| `--loud`, `--no-loud` | | | Shout. |" in page
    assert "secret" not in page
    assert "internal" not in page
    assert "completion" not in page


def test_pages_are_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written pages pass the check; a changed or missing one is named."""
    assert reference.main(["--check"], tmp_path) == 1
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    json.loads((tmp_path / "docs" / "interlock.schema.json").read_text(encoding="utf-8"))
    page = tmp_path / "docs" / "reference" / "settings.md"
    page.write_text(page.read_text(encoding="utf-8").replace("`3`", "`4`"), encoding="utf-8")
    capsys.readouterr()
    assert reference.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "docs/reference/settings.md is stale: run `make docs`\n"
