"""Every brief beside its role: the two ask for the same things, in the words that the engine accepts."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from interlock.agents import parse_role
from interlock.contracts import (
    NO_CHANGE,
    Answer,
    Artifact,
    ArtifactCheck,
    ArtifactClass,
    Contract,
    Outcome,
    judge,
    parse_answer,
)
from interlock.documents import Sections
from interlock.engine import CommandResult
from interlock.engine.brief import SAID_TO_BE_DATA
from interlock.playbooks.harness.artifacts import claim_in, structure_of
from interlock.playbooks.harness.briefs import ANSWER
from interlock.playbooks.harness.stages import BUILD, LIFECYCLE, NO_SEARCH, QA, Stage
from tests.playbooks.harness.conftest import NEGATIVE, Bench, agents, qa, writing

ROOM = files("interlock.playbooks.harness") / "agents"
CRITERIA = ("AC1: greets by name", "AC2: greets the world", "AC3: spaces are no name")
every_stage = pytest.mark.parametrize("stage", LIFECYCLE.working, ids=lambda stage: stage.name)


def role(stage: Stage) -> Sections:
    name = f"{stage.agent}.md"
    return Sections(parse_role(ROOM.joinpath(name).read_text(encoding="utf-8"), name).body)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def briefs() -> dict[str, list[str]]:
    """The briefs of a task that QA sends back once, whose check is red until then, rejected at both gates."""
    bench = Bench()
    simulation: Any = bench.simulate(
        agents(qa=writing(NEGATIVE, qa(), qa() + "\n")),
        attended=False,
        check_commands=("make test",),
        command=lambda _call: CommandResult(int(bench.called.count("build") == 1), stdout="1 failed"),
    )
    for choice in ("reject", "approve", "reject", "approve"):
        assert simulation.go().gate is not None
        simulation.decide(choice, note="Do it well." if choice == "reject" else "")
    assert simulation.go().exit_code == 0
    found: dict[str, list[str]] = {stage.name: [] for stage in LIFECYCLE.working}
    for request in simulation.world.calls:
        found[request.step].append(request.brief)
    assert [len(texts) for texts in found.values()] == [1, 1, 2, 3, 3]
    return found


def asked(brief: str) -> str:
    """The part of a brief that the playbook writes."""
    return brief.split("## Task")[1].split("## Inputs", maxsplit=1)[0]


@pytest.mark.req("EV-46")
@every_stage
def test_the_words_of_a_verdict_are_those_that_the_engine_accepts(stage: Stage, briefs: dict[str, list[str]]) -> None:
    """Role and brief offer the same words, and each of them comes to what both say of it."""
    offered = {token for token in ANSWER.tokens if token not in ANSWER.unsaid}
    said = set(re.findall(r"`Status: (\w+)`", role(stage).text))
    assert said == offered
    for brief in briefs[stage.name]:
        assert set(re.findall(r"`Status: (\w+)`", brief)) <= offered
        rule = next(line for line in brief.splitlines() if "`status` is one of" in line)
        assert set(re.findall(r"`(\w+)`", rule)) - {"status"} == offered
    for token, outcome in (("completed", Outcome.OK), ("blocked", Outcome.BLOCKED), ("error", Outcome.FAIL)):
        found = parse_answer(ANSWER, code=0, result=None, message=f"Said.\n\nStatus: {token}\n", session="s")
        assert found.outcome is outcome


@pytest.mark.req("EV-46")
@every_stage
def test_the_form_that_a_brief_asks_for_is_the_one_of_the_role(stage: Stage, briefs: dict[str, list[str]]) -> None:
    """Every heading of the least structure is in both; the role's own example satisfies it."""
    contains = role(stage).body("## What your answer contains")
    assert stage.contract is not None
    for heading in stage.judging.headings if stage.judging else stage.contract.headings:
        assert f"`{heading}`" in contains
        assert all(f"`{heading}`" in asked(brief) for brief in briefs[stage.name])
    (example,) = role(stage).fences("markdown")
    assert structure_of(stage, stage.contract, CRITERIA).problem(example.content) is None


@pytest.mark.req("EV-46")
@every_stage
def test_how_far_an_agent_may_look_is_the_same_in_both(stage: Stage, briefs: dict[str, list[str]]) -> None:
    """Specification works from its inputs alone; design and plan from files that these name; Build and QA from what
    their work needs."""
    given = words(role(stage).body("## What you are given"))
    beyond = {
        "Specification": ("open nothing besides", "Open nothing besides"),
        "Design": ("source files that these inputs name", "source files that they name"),
        "Implementation Planning": ("source files that the design names", "source files that they name"),
        "Build": ("how the project is built and tested", "how the project is built and tested"),
        "QA": ("how the project is built and tested", "how the project is built and tested"),
    }[stage.name]
    assert beyond[0] in given
    for brief in briefs[stage.name]:
        assert beyond[1] in asked(brief)
        assert NO_SEARCH in asked(brief)


@pytest.mark.req("EV-46")
@every_stage
def test_what_is_to_be_acted_on_is_not_called_data(stage: Stage, briefs: dict[str, list[str]]) -> None:
    """Criteria, changed files, red commands and people's words stand outside of everything that is quoted."""
    for brief in briefs[stage.name]:
        parts = re.split(r"\n(?=###? )", brief)
        data = "\n".join(part for part in parts if SAID_TO_BE_DATA in part)
        for said in ("Do it well.", "AC1: `python", "make test", "QA sent the task back", "src/built.py"):
            assert said not in data
    failure = briefs["Build"][1].split("## Failure context")[1]
    assert "make test: ended with exit status 1" in failure
    assert "Do it well." in briefs["Build"][2].split("## Said by people")[1].split("## Inputs")[0]
    assert "Do it well." in briefs["Implementation Planning"][1].split("## Said by people")[1].split("## Inputs")[0]


@pytest.mark.req("EV-46")
@every_stage
def test_what_may_be_written_is_the_same_in_both(stage: Stage, briefs: dict[str, list[str]]) -> None:
    """Every stage but Build its artifact alone."""
    bounds = words(role(stage).body("## Out of bounds"))
    rules = [brief.split("## Rules")[1] for brief in briefs[stage.name]]
    alone = {"QA": "Changing any file but your report", "Build": "Everything under `harness/` but your report"}
    assert alone.get(stage.name, "Every file but the artifact") in bounds
    for text in rules:
        (line,) = [line for line in text.splitlines() if "Change nothing but: " in line]
        assert ("`**`" in line) is (stage is BUILD)


@pytest.mark.req("EV-46", "EV-01", "EV-02")
def test_the_example_of_a_qa_report_is_one_that_can_be_used(briefs: dict[str, list[str]]) -> None:
    """Its commands have their exit status; with the issue gone and its boxes ticked it passes."""
    (example,) = role(QA).fences("markdown")
    assert QA.judging is not None
    contract = Contract((Artifact("qa.md"),), ANSWER, claim=claim_in(QA.judging, "qa.md"))

    def passed(text: str) -> bool | None:
        good = [ArtifactCheck("qa.md", ArtifactClass.OK)]
        return judge(contract, Answer(Outcome.OK), good, {"qa.md": text}).passed

    assert passed(example.content) is False
    better = re.sub(r"(?<=## Blocking Issues\n\n)- .*", "- None", example.content).replace("- [ ]", "- [x]")
    better = better.replace("Issues Found", "Passed").replace("Back to Build", "Ready")
    assert passed(better) is True
    assert "Nothing to run:" in role(QA).text
    assert all("Nothing to run:" in brief for brief in briefs["QA"])


@pytest.mark.req("EV-06", "EV-46")
def test_build_is_told_how_to_say_that_nothing_needs_changing() -> None:
    """In the words that the engine looks for."""
    assert f"`{NO_CHANGE}: the reason`" in role(BUILD).text


@pytest.mark.req("EV-08", "EV-46")
def test_qa_is_told_that_what_its_commands_leave_must_go() -> None:
    """As the engine holds it to that."""
    assert "Remove what your commands leave behind before you answer" in role(QA).text
