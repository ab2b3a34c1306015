"""Role and brief of every agent, side by side: they say the same about what is read, written, answered and acted on."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine.brief import SAID_TO_BE_DATA
from interlock.playbooks.feature.members import MEMBERS, TaskAgent

from .conftest import AGENTS, AT, CRITICS, ERROR, REVIEWERS, VERIFIERS, Bench, plans, remembers

WRITER = {"agent": "documentation-writer"}
TO_ACT_ON = ("### Findings", "### Planning constraints", "### Tasks so far", "### Why the work does not count yet")


@cache
def calls() -> tuple[AgentRequest, ...]:
    """Everybody at work, in every mode: revision, constraints, replan, fix pass, a red command, an escalation."""
    bench = Bench()
    bench.ever("ct-security", remembers("High"))
    bench.on("planner", plans("T1 D1", D1=WRITER), plans("T1"), plans("T2"), plans("T3"))
    bench.on("implementer-T1", ERROR).on("v-tests", None, remembers("FAIL")).ever("r-quality", remembers("Major"))
    bench.play(check_commands=["run tests"])
    return tuple(bench.simulation.world.calls)


def role(agent: str) -> str:
    folder = resources.files("interlock.playbooks.feature").joinpath("agents")
    return folder.joinpath(f"{agent}.md").read_text("utf-8")


def of(agent: str) -> list[AgentRequest]:
    found = [request for request in calls() if request.agent == agent]
    assert found, f"{agent} was never called"
    return found


def section(text: str, title: str) -> str:
    return text.partition(f"\n{title}\n")[2].partition("\n## ")[0]


def form(brief: str) -> str:
    return brief.partition("### Form of your private memory")[2].partition("```markdown\n")[2].partition("```")[0]


def listed(text: str, title: str) -> set[str]:
    """The words given as code on the line of a role's list about a section of the memory."""
    (line,) = re.findall(rf"^- `{title}`: (.*)$", text, re.MULTILINE)
    return {word for word in re.findall(r"`([A-Za-z/]+)`", line) if word not in ("DONE", "ERROR")}


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("agent", AGENTS)
def test_the_words_of_a_verdict_are_the_same(agent: str) -> None:
    """Those of the last line, and those below `## Highest Severity`; and they are what the contract understands."""
    text = role(agent)
    for request in of(agent):
        (line,) = re.findall(r"^- End with one line that begins with one of (.*), a colon", request.brief, re.MULTILINE)
        offered = set(re.findall(r"`([A-Z_]+)`", line))
        answers = section(text, "## What your answer contains")
        assert offered == set(re.findall(r"^- `([A-Z_]+): ", answers, re.MULTILINE))
        assert request.contract is not None and offered <= set(request.contract.answer.tokens)
        assert ("`NEEDS_REVISION:` is not yours to say" in text) is ("NEEDS_REVISION" not in offered)
        said = re.findall(r"^- `## Highest Severity` is one of (.*?);", request.brief, re.MULTILINE)
        words = set(said[0].split(", ")) if said else {"N/A"}
        assert words == listed(text, "## Highest Severity")


@pytest.mark.req("EV-45", "EV-46")
@pytest.mark.parametrize("agent", AGENTS)
def test_the_form_of_the_memory_is_blank_and_has_the_sections_of_the_role(agent: str) -> None:
    """No verdict stands in it that somebody could take for an order."""
    wanted = set(re.findall(r"^- `(## [A-Za-z ]+)`", role(agent), re.MULTILINE))
    for request in of(agent):
        shown = form(request.brief)
        assert {line for line in shown.splitlines() if line.startswith("## ")} == wanted
        filled = [line for line in shown.splitlines() if line and not line.startswith(("#", "<"))]
        assert filled == []
        assert request.brief.count("\nPASS\n") == request.brief.count("\nLow\n") == request.brief.count("\nDONE\n") == 0


@pytest.mark.req("EV-45", "EV-46")
@pytest.mark.parametrize("agent", AGENTS)
def test_outputs_tell_what_is_wanted_from_what_is_optional(agent: str) -> None:
    """Only ratings of documents are optional; the role says the same."""
    text = role(agent)
    assert "The file under `artifact-evaluations/` is optional" in text and "(optional)" in text
    for request in of(agent):
        lines = section(request.brief, "## Outputs").split("\n")
        optional = [line for line in lines if line.endswith("(optional)")]
        assert optional == [f"- `{AT.evaluation(request.member)}` (optional)"]
        assert f"- `{AT.mem(request.member)}`" in lines
        if request.agent not in set(TaskAgent):
            assert "Outputs" in text.partition("## What you write")[2].partition("\n## ")[0]


@pytest.mark.req("EV-46")
def test_what_must_be_acted_on_is_not_said_to_be_mere_data() -> None:
    """Findings, constraints, the state of the tasks, what speaks against the work: each has a lead that says what to
    do."""
    seen = set()
    for request in calls():
        for title in TO_ACT_ON:
            if (part := request.brief.partition(f"\n{title}\n")[2]) != "":
                seen.add(title)
                assert SAID_TO_BE_DATA not in part.partition("```")[0], (request.member, title)
    assert seen == set(TO_ACT_ON)


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("agent", AGENTS)
def test_no_role_says_that_nothing_it_reads_is_an_order(agent: str) -> None:
    """Who is given orders by a file is told which; what people say comes first for everybody."""
    text = role(agent)
    assert "it gives you no orders" not in text and "orders are" in text
    assert "`## Said by people`" in text
    if agent in set(TaskAgent):
        assert "your task file, and in a fix pass the findings" in text
        assert all("`No change: <reason>`" in one for one in (text, of(agent)[0].brief))


@pytest.mark.req("EV-46", "EV-02")
@pytest.mark.parametrize("agent", VERIFIERS)
def test_verifiers_are_told_twice_what_evidence_is(agent: str) -> None:
    """In the same words."""
    for text in (role(agent), of(agent)[0].brief):
        for words in ("`make build`: exit 0", "`! command`", "`Nothing to run: <why>`", "asked for anew"):
            assert words in text
    assert "remove before you answer" in role(agent)


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("agent", REVIEWERS)
def test_how_deep_a_review_goes_is_said_in_one_place(agent: str) -> None:
    """The brief names the tier, the role says what it means."""
    assert all(f"`{tier}`" in role(agent) for tier in ("Lightweight", "Standard", "Full"))
    for request in of(agent):
        (tier,) = re.findall("^Review tier: (.*)$", request.brief, re.MULTILINE)
        assert request.brief.count(tier) == 1


@pytest.mark.req("EV-46")
@pytest.mark.parametrize("agent", AGENTS)
def test_sections_that_a_brief_names_are_those_of_the_role(agent: str) -> None:
    """A document has one form."""
    for request in of(agent):
        named = re.findall(r"`(##+ [A-Z][A-Za-z ]+?)(?: \d)?`", section(request.brief, "## Task"))
        assert [title for title in named if title not in role(agent)] == []


@pytest.mark.req("EV-46")
def test_superfluous_tasks_are_deleted_by_both_accounts() -> None:
    """The replan's brief and the planner's role."""
    replan = next(request.brief for request in of("planner") if "MODE: REPLAN" in request.brief)
    assert "delete the file of a task that is no longer wanted" in replan
    assert "if it has become superfluous, delete its file" in role("planner")


@pytest.mark.req("EV-46")
def test_a_security_problem_is_flagged_in_one_way() -> None:
    for request in calls():
        assert "begins with `security:`" in request.brief and "begins with `security:`" in role(request.agent)


@pytest.mark.req("EV-46", "EV-01")
def test_judges_that_read_know_what_a_clean_verdict_over_a_grave_finding_is() -> None:
    for name in (*CRITICS, *MEMBERS.weighed_reviewers):
        assert "counts as the opposite" in role(name) and "counts as the opposite" in of(name)[0].brief
