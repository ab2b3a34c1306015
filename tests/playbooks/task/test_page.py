"""What is published about the task playbook is what the code does."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from interlock.agents import parse_role
from interlock.contracts import Outcome, parse_answer
from interlock.documents import Sections
from interlock.finding.purity import touches
from interlock.playbooks.task import rehearsal, task
from interlock.playbooks.task.briefs import AGENTS, REVIEW, WORK
from interlock.playbooks.task.settings import TaskSettings

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "playbooks" / "task.md").read_text(encoding="utf-8")
ROOM = resources.files("interlock.playbooks.task")


def test_the_page_names_every_setting_with_its_default() -> None:
    """And only those."""
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = tomllib.loads(block)["task"]
    assert settings.keys() == TaskSettings.model_fields.keys()
    assert TaskSettings(**{**settings, "check_commands": ()}) == TaskSettings()


@pytest.mark.req("OW-31")
def test_the_page_on_writing_a_playbook_walks_through_it() -> None:
    """Its files are all there, and each piece of code on the page stands so in one of them."""
    page = (DOCS / "writing-a-playbook.md").read_text(encoding="utf-8").partition("## A whole one, read")[2]
    page = page.partition("\n## ")[0]
    sources = [file.read_text("utf-8") for file in ROOM.iterdir() if file.name.endswith(".py")]
    pieces = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert len(pieces) >= 5
    assert [piece for piece in pieces if not any(piece in source for source in sources)] == []
    named = set(re.findall(r"`([a-z]+\.py)`", page)) - {"fix.py"}
    assert named == {file.name for file in ROOM.iterdir() if file.name.endswith(".py")} - {"__init__.py"}


def test_the_page_lists_what_the_rehearsal_holds() -> None:
    """Each rule that is its own stands there, word for word."""
    own = [one.name for one in rehearsal().invariants if one.broken.__module__.endswith("task.rehearsing")]
    assert re.findall(r"^- (.*)$", PAGE.partition("## What is proven")[2], re.MULTILINE) == own


@pytest.mark.req("OW-31")
def test_it_is_an_ordinary_playbook() -> None:
    """One folder, nothing but the verbs, and a process that fits on three screens."""
    assert touches(task) == []
    assert len((ROOM / "playbook.py").read_text("utf-8").splitlines()) <= 180
    assert sorted(task.prompts) == ["review", "work"]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_example_of_each_role_is_an_answer_that_counts(agent: str) -> None:
    """In the words and the form that the engine reads; the role offers no other word."""
    role = parse_role((ROOM / "agents" / f"{agent}.md").read_text("utf-8"), agent)
    (example,) = Sections(role.body, agent).fences(title="## Example of a good answer")
    fmt = WORK if agent == "builder" else REVIEW
    message = example.content if agent == "builder" else f"```json\n{example.content}\n```"
    answer = parse_answer(fmt, code=0, message=message)
    assert answer.outcome is (Outcome.OK if agent == "builder" else Outcome.REVISE), answer.detail
    said = Sections(role.body, agent).body("## What your answer contains")
    assert all(f"`{token}" in said for token in fmt.tokens)
