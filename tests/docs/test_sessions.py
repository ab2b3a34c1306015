"""Whoever follows README, quickstart and the page about being away sees what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, blocks
from tests.docs.session import Reader
from tests.proofs import long

TYPED = (
    ROOT / "README.md",
    *(DOCS / name for name in ("quickstart.md", "away.md", "playbooks/adopt.md", "playbooks-in-yaml.md")),
)


@pytest.mark.parametrize("page", [TYPED[0], *long(*TYPED[1:])], ids=lambda page: page.name)
def test_every_command_of_the_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """The marked blocks, typed one after the other into an empty folder, end and print as written."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    reader = Reader(folder, tmp_path / "bin")
    reader.follow(blocks(page))
    assert reader.typed


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_no_command_of_the_page_is_left_untried(page: Path) -> None:
    """A shell block is typed by these tests, or is an installation, which needs the network."""
    for block in blocks(page):
        assert block.language != "sh" or block.marks.keys() & {"test", "install"}, f"{block} has no mark"


def test_make_targets_that_pages_name_exist() -> None:
    """`make demo` and the like are targets of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE))
    assert named and named <= targets
