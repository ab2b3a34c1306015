"""The Python of the pages is real: it is executed, block after block, as a reader would."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import DOCS, PAGES, blocks, files_of

PAGE = DOCS / "writing-a-playbook.md"


@pytest.fixture
def fix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The playbook of the page as the module that its reader has saved."""
    module = ModuleType("fix")
    monkeypatch.setitem(sys.modules, "fix", module)
    exec(compile(files_of(PAGE)["fix.py"], "fix.py", "exec"), module.__dict__)
    return module


@pytest.mark.long
def test_the_example_playbook_can_be_simulated_and_explored_as_the_page_shows(fix: ModuleType) -> None:
    """All blocks that are not files run in one namespace; their assertions are the page's claims."""
    told = [block for block in blocks(PAGE) if block.language == "python" and "file" not in block.marks]
    known: dict[str, object] = {}
    for block in told:
        exec(compile("\n" * block.line + block.text, str(block.page), "exec"), known)
    assert len(told) >= 6


def test_the_example_process_has_the_summary_that_the_page_gives_it(fix: ModuleType) -> None:
    """The decorator takes the first line of the docstring; caps and agents are those that the page names."""
    playbook = fix.FIX
    assert playbook.summary == "Plan, build until the reviewers agree, then ask a person."
    assert playbook.caps == {"revise": 3} and playbook.agents == ("planner", "builder", "reviewer")


def test_all_python_on_pages_compiles() -> None:
    """No page shows Python that Python would not take."""
    shown = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    for block in shown:
        compile(block.text, str(block), "exec")
    assert {Path(block.page).name for block in shown} >= {"writing-a-playbook.md", "quickstart.md"}
