"""Scripted agents: what a scenario means, and that it is really done."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from interlock.agents.scripted import OUTSIDE, Scenario, Scripted
from interlock.agents.values import Exit
from interlock.errors import DocumentInvalid
from tests.agents.conftest import Calls, says, too_long_when


class Built(BaseModel):
    status: Literal["done", "blocked"]
    files: list[str] = []


class Given:
    """Calls of the scripted client in a folder."""

    def __init__(self, calls: Calls) -> None:
        self.layer, self.calls = calls.layer, calls
        env = {"AGENT": "builder", "MEMBER": "builder-1", "STEP": "work", "ATTEMPT": "2"}
        calls.given |= {"form": Built.model_json_schema(), "env": {f"INTERLOCK_{key}": env[key] for key in env}}

    async def play(self, yaml: str = "", **asked: Any) -> Exit:
        return await self.calls(Scripted(scenario(yaml)), **asked)

    def files(self) -> dict[str, str]:
        root = self.layer.root
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def scenario(yaml: str) -> Scenario:
    return Scenario.parse(yaml.encode(), "play.yaml")


def answer(exit_: Exit) -> Any:
    return json.loads(exit_.text.partition("```json\n")[2].rpartition("```")[0])


@pytest.fixture
def given(calls: Calls) -> Given:
    return Given(calls)


@pytest.mark.req("AGENT-01")
async def test_where_a_scenario_is_silent_the_best_answer_is_given(given: Given) -> None:
    """Each output that the contract names gets its sample, and the form what follows from its schema."""
    exit_ = await given.play(samples={"docs/plan.md": "# Plan\n", "notes.md": ""}, known={"files": ["docs/plan.md"]})
    assert (exit_.finished, answer(exit_)) == (True, {"status": "done", "files": ["docs/plan.md"]})
    assert given.files()["docs/plan.md"] == "# Plan\n"
    assert "builder-1, attempt 2" in given.files()["notes.md"]
    exit_ = await given.play(form=None)
    assert (exit_.finished, "```" in exit_.text) == (True, False)


async def test_the_first_reaction_that_fits_is_really_done(given: Given) -> None:
    """By globs on agent or member, step, attempt; exactly the files that it names, and fields of the form."""
    exit_ = await given.play(
        """
reactions:
  - {agent: other, files: {never: ""}}
  - {attempt: [1, 3], files: {never: ""}}
  - {step: "w?", files: {never: ""}}
  - {agent: [x, "*-1"], step: "w*", attempt: 2, files: {"é 'b/a.py": "print({1: 2})\\n"}, form: {files: [src/a.py]}}
  - {files: {never: ""}}
""",
        samples={"src/a.py": "sample", "b": "sample"},
    )
    assert (given.files(), answer(exit_)) == (
        {"é 'b/a.py": "print({1: 2})\n"},
        {"status": "done", "files": ["src/a.py"]},
    )


@pytest.mark.parametrize(
    ("reaction", "files", "usable", "finished"),
    [
        ("misbehave: write_outside", {"a", "b", *OUTSIDE}, True, True),
        ("misbehave: no_verdict", {"a", "b"}, False, True),
        ("misbehave: bad_json", {"a", "b"}, False, True),
        ("misbehave: lie", set(), True, True),
        ("exit: 7", {"a", "b"}, True, False),
        ("misbehave: crash", {"a"}, False, False),  # half of the files, the last one torn, and half of the answer
        ("misbehave: hang", {"a", "b"}, False, False),
        pytest.param("misbehave: huge_output", {"a", "b"}, True, True, marks=pytest.mark.long),
    ],
)
async def test_misbehaviour(given: Given, reaction: str, files: set[str], usable: bool, finished: bool) -> None:
    """Each does its work, but for the lie, which claims it; an exit status, a signal, the deadline is its end."""
    late = too_long_when(says(given.layer.root / "b", b"whole")) if "hang" in reaction else None
    exit_ = await given.play(f"reactions: [{{{reaction}, files: {{a: torn, b: whole}}}}]")
    assert (set(given.files()), '"status": "done"' in exit_.text, exit_.finished) == (files, usable, finished)
    assert given.files().get("a") == (None if not files else "to" if "crash" in reaction else "torn")
    assert (exit_.timed_out, exit_.exit == -9, len(exit_.text) > 50_000_000) == (
        late is not None,
        "crash" in reaction,
        "huge" in reaction,
    )


@pytest.mark.parametrize(
    ("yaml", "line", "words"),
    [
        ("reactions:\n  - agent: a\n    missbehave: hang", 3, "misbehave"),
        ("reactions:\n  - exit: 300", 2, "exit"),
        ("reactions:\n  - files: {../a: x}", 2, "inside the workspace"),
        ("reactions:\n  - misbehave: explode", 2, "hang"),
        ("reactions: [\n", 2, "YAML"),
    ],
)
def test_a_mistake_is_named_with_its_line(yaml: str, line: int, words: str) -> None:
    """Before any agent is called."""
    with pytest.raises(DocumentInvalid) as caught:
        scenario(yaml)
    error = caught.value
    assert words in f"{error.what} {error.expected} {error.remedy}"
    assert str(error.where).split(":")[1] == str(line)
