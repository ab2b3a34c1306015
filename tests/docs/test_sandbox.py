"""The page on the sandbox: its lists are the lists in the code, its examples are settings that load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.settings import FILE_NAME, SandboxSettings, load_settings
from interlock.workspace import DEFAULT_PROTECTED, Mode, Network
from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "sandbox.md"


@pytest.mark.req("LY-33")
def test_the_page_has_every_protected_name() -> None:
    """In the order of the code, none more, none less."""
    listed = re.search(r"<!-- protected:begin -->(.*)<!-- protected:end -->", PAGE.read_text("utf-8"), re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(.+?)`", listed[1]) == list(DEFAULT_PROTECTED)


@pytest.mark.parametrize("block", [block for block in blocks(PAGE) if block.language == "toml"], ids=str)
def test_every_example_can_be_put_into_a_settings_file(block: Block, tmp_path: Path) -> None:
    """It loads, and says something about the sandbox."""
    (tmp_path / FILE_NAME).write_text(block.text, "utf-8")
    assert "sandbox" in load_settings(tmp_path, {}).model_fields_set


def test_the_example_with_every_key_shows_the_defaults(tmp_path: Path) -> None:
    """Copied as it stands it changes nothing."""
    example = next(block for block in blocks(PAGE) if "max_files" in block.text)
    (tmp_path / FILE_NAME).write_text(example.text, "utf-8")
    assert load_settings(tmp_path, {}).sandbox == SandboxSettings()
    assert all(name in example.text for name in SandboxSettings.model_fields)


def test_every_mode_and_network_has_its_row() -> None:
    """The closed sets are described, value by value."""
    text = PAGE.read_text("utf-8")
    assert [word for word in (*Mode, *Network) if f"| `{word}` |" not in text] == []


def test_the_places_for_what_is_measured_are_there() -> None:
    """Others fill them by their marks."""
    text = PAGE.read_text("utf-8")
    for name in ("tried", "figures"):
        assert text.index(f"<!-- {name}:begin -->") < text.index(f"<!-- {name}:end -->")
