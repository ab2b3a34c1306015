"""Prompts: a playbook's texts, a team's own in their place, and values that are never read as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Store
from interlock.engine import Dispatch, Prompt
from interlock.engine.prompts import check, filled, worded
from interlock.errors import ConfigInvalid, EngineFault
from interlock.playbooks import NAMES, load
from interlock.playbooks.router import router
from interlock.testing import SimulatedWorld

OWN = ".interlock/prompts/router/task.md"
ASKED = Prompt.of("task", command="implement", number=7, then=("And no other.",))


def told(own: str | None = None, task: str | Prompt = ASKED) -> str:
    return worded(router, task, SimulatedWorld({} if own is None else {OWN: own}).documents)


def test_the_playbook_says_it_in_its_own_words() -> None:
    """Without a text of the workspace, the one in the playbook's folder is filled in; text is taken as it is."""
    assert told().startswith("Carry out `/implement` for task 7,") and told().endswith("\n\nAnd no other.")
    assert told(task="Do {{ this }}.") == "Do {{ this }}."


def test_a_team_says_it_in_its_own_words() -> None:
    """`.interlock/prompts/<playbook>/<name>.md` stands in the place of the shipped text; what must follow follows."""
    assert told("Do {{ number }}{% if command == 'implement' %}, properly{% endif %}.\n") == (
        "Do 7, properly.\n\nAnd no other."
    )


@given(st.text())
def test_values_are_never_read_as_text(value: str) -> None:
    """Whatever is filled in stands there as it is: braces and tags in it do nothing."""
    assert filled("<{{ value }}>", {"value": value}, "here") == f"<{value}>"


def test_what_is_recorded_is_the_name_and_the_values() -> None:
    """The digest of a dispatch covers what was asked, not the words that a team may change meanwhile."""
    assert Dispatch("a", ASKED).parts()["task"] == {
        "name": "task",
        "values": {"command": "implement", "number": 7},
        "then": ["And no other."],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ nubmer }}", "asks for 'nubmer', which nobody fills in"),
        ("{{ number", "cannot be filled in"),
        ("{% for %}", "cannot be filled in"),
        ("{{ number.__class__.__mro__ }}", "cannot be filled in"),
    ],
)
def test_a_text_that_cannot_be_filled_in_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said) as refused:
        told(text)
    assert str(refused.value.where).startswith(OWN)


def put(root: Path, path: str, text: str) -> Store:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")
    return Store(root, root / ".interlock" / "attic")


def test_own_prompts_are_checked_before_anything_is_paid(tmp_path: Path) -> None:
    """One that no brief is made of, and one that asks for something in vain, are named with what was meant."""
    check(router, put(tmp_path, OWN, "Do {{ number }}."))
    with pytest.raises(ConfigInvalid, match="which nobody fills in") as refused:
        check(router, put(tmp_path, OWN, "\n{% if x %}{{ numbr }}{% endif %}"))
    assert refused.value.expected == "one of command, number"
    with pytest.raises(ConfigInvalid, match="cannot be filled in") as broken:
        check(router, put(tmp_path, OWN, "\n{% if"))
    assert broken.value.where == f"{OWN}:2"
    (tmp_path / OWN).unlink()
    with pytest.raises(ConfigInvalid, match="router has no prompt 'tsak'") as unknown:
        check(router, put(tmp_path, OWN.replace("task", "tsak"), "Do it."))
    assert unknown.value.remedy == "Did you mean task?"


def test_a_prompt_that_a_playbook_does_not_have_is_its_own_fault() -> None:
    with pytest.raises(EngineFault, match="has no prompt 'none'"):
        told(task=Prompt.of("none"))


@pytest.mark.parametrize("name", NAMES)
def test_shipped_prompts_can_be_read(name: str, tmp_path: Path) -> None:
    """Copied into the workspace as they are, the prompts of a playbook pass its check."""
    playbook = load(name)
    for prompt in playbook.prompts:
        text = (playbook.folder / "prompts" / f"{prompt}.md").read_text(encoding="utf-8")
        put(tmp_path, f".interlock/prompts/{name}/{prompt}.md", text)
    check(playbook, Store(tmp_path, tmp_path / "attic"))
