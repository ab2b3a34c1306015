"""Scripted agents: what a scenario means, and that it is really done."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from interlock.agents import player
from interlock.agents.client import call
from interlock.agents.environment import Environment
from interlock.agents.redaction import Redaction
from interlock.agents.scenario import OUTSIDE, Scenario, react
from interlock.agents.scripted import Scripted, shows
from interlock.agents.values import Ask, Exit, News, Role, Usage
from interlock.errors import ConfigInvalid, DocumentInvalid
from tests.agents.conftest import says, too_long_when
from tests.real import NoLayer


class Built(BaseModel):
    status: Literal["done", "blocked"]
    files: list[str] = []


class Given:
    """Asks for tests, and calls of the scripted client in a folder."""

    def __init__(self, layer: NoLayer, marker: str) -> None:
        self.layer, self.marker = layer, marker
        self.news: list[News] = []

    def ask(self, agent: str = "builder", *, form: bool = True, **fields: Any) -> Ask:
        env = {"AGENT": agent, "MEMBER": f"{agent}-1", "STEP": "work", "ATTEMPT": "1", "PLAYBOOK": "task"}
        given: dict[str, Any] = {
            "role": Role(name=agent, runner="scripted", type="scripted"),
            "brief": "# Do it\n",
            "form": Built.model_json_schema() if form else None,
            "env": {f"INTERLOCK_{name}": value for name, value in env.items()},
            "marker": self.marker,
            "timeout_s": 600,
            "transcript": self.layer.exchange / "transcript",
        }
        return Ask(**{**given, **fields})

    async def play(self, yaml: str = "", ask: Ask | None = None, client: Scripted | None = None) -> Exit:
        made = client or Scripted(scenario(yaml))
        environment = Environment({"PATH": "/usr/bin:/bin"})
        return await call(made, ask or self.ask(), self.layer, self.news.append, Redaction(), env=environment)

    def text(self, path: str) -> str:
        return (self.layer.root / path).read_text()


def scenario(yaml: str) -> Scenario:
    return Scenario.parse(yaml.encode(), "play.yaml")


def answer(exit_: Exit) -> Any:
    return json.loads(exit_.text.partition("```json\n")[2].rpartition("```")[0])


@pytest.fixture
def given(no_layer: NoLayer, marker: str) -> Given:
    return Given(no_layer, marker)


# -- a silent scenario


async def test_where_a_scenario_is_silent_the_best_answer_is_given(given: Given) -> None:
    """Each output that the contract names gets its sample, and the form what follows from its schema."""
    ask = given.ask(samples={"docs/plan.md": "# Plan\n", "notes.md": ""}, known={"files": ["docs/plan.md"]})
    exit_ = await given.play(ask=ask)
    assert (exit_.finished, answer(exit_)) == (True, {"status": "done", "files": ["docs/plan.md"]})
    assert given.text("docs/plan.md") == "# Plan\n"
    assert "builder-1" in given.text("notes.md")


@pytest.mark.parametrize(("does", "left"), [("", ["a.txt"]), ("files: {b: x}", ["b"]), ("run: [touch c]", ["c"])])
async def test_who_is_to_change_something_does_unless_the_scenario_says_what(
    given: Given, does: str, left: list[str]
) -> None:
    """No file that nobody named comes along with those that somebody did."""
    await given.play(f"reactions: [{{{does}}}]", given.ask(example="a.txt"))
    assert [path.name for path in given.layer.root.iterdir()] == left


async def test_an_agent_without_a_form_says_a_word(given: Given) -> None:
    """Nothing is no end of a turn."""
    exit_ = await given.play(ask=given.ask(form=False))
    assert exit_.finished
    assert "```" not in exit_.text


# -- what a reaction does


async def test_a_reaction_is_really_done(given: Given) -> None:
    """Files, what is appended and deleted, commands of a shell, the form, the text and the cost."""
    (given.layer.root / "old.txt").write_text("old")
    exit_ = await given.play("""
reactions:
  - agent: build*
    files: {src/a.py: "print({1: 2})", "{member}.json": {attempt: 1}}
    append: {src/a.py: "  # {agent} {attempt}"}
    delete: [old.txt]
    run: [python3 src/a.py, echo really > ran.txt]
    form: {files: [src/a.py]}
    message: "It printed {run} {unknown}"
    usage: {input_tokens: 9, output_tokens: 1, cost_usd: 0.5}
""")
    assert given.text("src/a.py") == "print({1: 2})  # builder 1"
    assert json.loads(given.text("builder-1.json")) == {"attempt": 1}
    assert (given.text("ran.txt"), (given.layer.root / "old.txt").exists()) == ("really\n", False)
    assert exit_.text.startswith("It printed {1: 2}\n {unknown}\n")
    assert answer(exit_) == {"status": "done", "files": ["src/a.py"]}
    assert exit_.usage == Usage(input_tokens=9, output_tokens=1, cost_usd=0.5)


@pytest.mark.parametrize(
    ("extra", "finished", "status"), [("", False, ""), ("otherwise: {status: blocked}", True, "blocked")]
)
async def test_a_command_that_fails(given: Given, extra: str, finished: bool, status: str) -> None:
    """Its exit status is the agent's, or it says so in its form."""
    exit_ = await given.play(f"reactions: [{{run: [exit 3, touch never], {extra}}}]")
    assert (exit_.finished, exit_.exit) == (finished, 0 if finished else 3)
    assert not (given.layer.root / "never").exists()
    assert not status or answer(exit_)["status"] == status


async def test_a_message_without_a_form_is_the_whole_answer(given: Given) -> None:
    """As it is, whatever a form would be."""
    exit_ = await given.play("reactions: [{message: Just this.}]")
    assert exit_.text == "Just this."


async def test_null_keeps_even_the_sample_back(given: Given) -> None:
    """An output that is missing is a case, too."""
    await given.play("reactions: [{files: {plan.md: null}}]", given.ask(samples={"plan.md": "# Plan\n"}))
    assert not (given.layer.root / "plan.md").exists()


async def test_the_first_reaction_that_fits_is_played_and_no_more_often_than_it_says(given: Given) -> None:
    """By globs on agent, member, step, attempt and playbook; strings, numbers or lists."""
    client = Scripted(
        scenario("""
reactions:
  - {agent: other, message: never}
  - {attempt: [2, 3], message: never}
  - {agent: [x, "b*"], step: work, playbook: task, times: 2, message: twice}
  - {member: builder-1, message: then}
""")
    )
    assert [(await given.play(client=client)).text for _ in range(3)] == ["twice", "twice", "then"]


# -- what goes wrong


async def test_hang_is_ended_by_the_deadline_with_its_work_written(given: Given) -> None:
    """Nothing of it is left."""
    late = too_long_when(says(given.layer.root / "a", b"x"))
    exit_ = await given.play("reactions: [{misbehave: hang, files: {a: x}}]")
    await late
    assert (exit_.finished, exit_.timed_out, given.text("a")) == (False, True, "x")


async def test_crash_is_a_death_by_a_signal_in_the_middle(given: Given) -> None:
    """Half of the files, the last one torn, and half of the answer."""
    exit_ = await given.play("reactions: [{misbehave: crash, files: {a: whole, b: torn, c: never}}]")
    assert (exit_.finished, exit_.exit, exit_.trouble is not None) == (False, -9, True)
    assert (given.text("a"), given.text("b"), (given.layer.root / "c").exists()) == ("whole", "to", False)


async def test_huge_output_is_cut_and_its_answer_heard(given: Given) -> None:
    """60 MB of talk before it."""
    exit_ = await given.play("reactions: [{misbehave: huge_output}]")
    assert exit_.finished
    assert len(exit_.text) <= 50_100_000
    assert exit_.text.endswith("```\n")


@pytest.mark.parametrize(
    ("kind", "files", "usable"),
    [
        ("write_outside", {"a", *OUTSIDE}, True),
        ("no_verdict", {"a"}, False),
        ("bad_json", {"a"}, False),
        ("lie", set(), True),
    ],
)
def test_other_misbehaviour(given: Given, kind: str, files: set[str], usable: bool) -> None:
    """Each does its work, but for the lie, which only claims it."""
    order = react(scenario(f"reactions: [{{misbehave: {kind}, files: {{a: x}}}}]"), given.ask(), Counter(), "/").order
    assert {path for path, _ in order["files"]} == files
    assert ('"status": "done"' in order["say"]) == usable


# -- scenarios that are wrong


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
    assert error.line == line


def test_a_strict_scenario_fills_nothing_in(given: Given) -> None:
    """It fails loudly where it ends."""
    with pytest.raises(ConfigInvalid, match=r"agent 'builder'.*attempt '1'"):
        react(scenario("strict: true\nreactions: [{agent: other}]"), given.ask(), Counter(), "/")


def test_an_empty_scenario_is_one(given: Given) -> None:
    """Everybody does their part well."""
    assert scenario("") == Scenario()


# -- the player


def test_the_player_needs_nothing_but_an_interpreter(tmp_path: Path) -> None:
    """Neither packages nor a site: it works where only what `shows` names is to be seen."""
    order = {"root": str(tmp_path), "delay": 0, "files": [["é/a", "ü"]], "append": [], "delete": ["none"], "run": []}
    order |= {"say": "done ü\n", "otherwise": None, "exit": 7, "then": "", "account": [str(tmp_path / "account"), "{}"]}
    argv = [sys.executable, "-I", "-S", player.__file__]
    played = subprocess.run(argv, input=json.dumps(order).encode(), env={}, capture_output=True, check=False)
    assert (played.returncode, played.stdout.decode(), (tmp_path / "é/a").read_text()) == (7, "done ü\n", "ü")
    assert any(Path(player.__file__).is_relative_to(place) for place in shows())


async def test_what_cannot_be_written_is_said(given: Given) -> None:
    """It is the agent's failure, with its reason."""
    (given.layer.root / "a").mkdir()
    exit_ = await given.play("reactions: [{files: {a: x}}]")
    assert (exit_.finished, exit_.exit) == (False, 1)
    assert "cannot do this" in exit_.text
