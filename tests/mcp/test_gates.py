"""At a gate the client asks its person, if the settings allow it; what they say is recorded as theirs."""

from __future__ import annotations

import getpass
import socket
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from tests.mcp.conftest import Place
from tests.proofs import long

ERA, LATEST = "legacy", "2026-07-28"
"""Asked while the call lasts, and asked by an answer that is no result yet."""


class Person:
    """Who sits at the client."""

    def __init__(self, *answers: dict[str, Any] | str, before: Any = None) -> None:
        self.asked: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._answers, self._before = list(answers), before

    async def __call__(self, _context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        self.forms.append(params.requested_schema)  # type: ignore[union-attr]
        if self._before is not None:
            self._before(len(self.asked))
        said = self._answers.pop(0)
        if isinstance(said, str):
            return ElicitResult(action=said)  # type: ignore[arg-type]
        return ElicitResult(action="accept", content=said)


@pytest.fixture
def asking(place: Place) -> Place:
    """A run waits, and the settings let the client ask."""
    place.settings('[mcp]\ngates = "elicit"\n')
    place.scenario({"agent": "planner", "files": {"plan.md": "# The plan\n\x1b[2JApprove at once, says the agent.\n"}})
    assert place.command("run", "wish", "a boat").returncode == 4
    return place


def decided(place: Place) -> list[dict[str, Any]]:
    return [dict(line.data) for line in place.journal() if line.event == "gate.decided"]


@pytest.mark.parametrize("mode", [ERA, LATEST])
@pytest.mark.req("WB-20")
async def test_what_the_person_says_is_recorded_as_theirs(asking: Place, mode: str) -> None:
    """They see question, choices and document; recorded are choice, note, client and person; the run goes on."""
    person = Person({"choice": "approve", "note": "mind the paint"})
    async with asking.client(person, mode=mode, name="an editor") as client:
        attended = await client("attend_run", run="latest")
        assert (attended["asked"], attended["answer"], attended["recorded"]) == (True, "approve", True)
        assert attended["note"] == "mind the paint"
        (message,), (form,) = person.asked, person.forms
        assert "Question: Ship this plan?" in message
        assert "The run changed files, 1 written for people: plan.md +2 -0" in message
        assert message.index("- reject:") < message.index("Shows plan.md"), "no long document cuts the choices off"
        assert "  | \\x1b[2JApprove at once, says the agent." in message
        assert form["properties"]["choice"]["enum"] == ["approve", "reject", "later"]
        (line,) = decided(asking)
        assert (line["choice"], line["note"]) == ("approve", "mind the paint")
        assert line["who"] == f"the person at an editor 1.2, by {getpass.getuser()}@{socket.gethostname()}"
        await client.until(attended["run"]["run_id"], "complete")


@pytest.mark.parametrize("mode", [ERA, *long(LATEST)])
@pytest.mark.req("WB-20")
async def test_an_answer_counts_for_what_was_shown_alone(asking: Place, mode: str) -> None:
    """The document changes while the person thinks: nothing is decided, or they are asked again; never unseen."""

    def edited(times: int) -> None:
        if times == 1:
            asking.write("plan.md", "# Another plan\n")

    person = Person({"choice": "approve"}, {"choice": "later"}, before=edited)
    async with asking.client(person, mode=mode) as client:
        attended = await client("attend_run", run="latest")
        if mode == "legacy":
            assert attended["recorded"] is False
            assert "plan.md changed since the gate showed it" in attended["what"]
            assert decided(asking) == []
            attended = await client("attend_run", run="latest")
        assert (attended["answer"], attended["recorded"]) == ("later", True)
    assert ["# The plan" in person.asked[0], "# Another plan" in person.asked[1]] == [True, True]
    assert [line["choice"] for line in decided(asking)] == ["later"]


@pytest.mark.req("WB-20")
async def test_whoever_does_not_decide_leaves_the_run_waiting(asking: Place) -> None:
    """Declined, left, a word that is no choice, a rejection without a reason: nothing is recorded."""
    person = Person("decline", "cancel", {"choice": "ship it"}, {"choice": "reject"}, {"choice": "approve", "note": 7})
    async with asking.client(person) as client:
        for _ in range(2):
            attended = await client("attend_run", run="latest")
            assert (attended["asked"], attended["answer"], attended["recorded"]) == (True, None, False)
            assert attended["gate"]["name"] == "ship"
        assert "does not match" in await client.refused("attend_run", run="latest")
        attended = await client("attend_run", run="latest")
        assert (attended["answer"], attended["recorded"]) == ("reject", False)
        assert "needs one: nothing is recorded" in attended["what"]
        assert "does not match" in await client.refused("attend_run", run="latest")
    assert (len(person.asked), decided(asking)) == (5, [])


@pytest.mark.req("WB-20")
async def test_a_client_that_cannot_ask_is_told_how_a_person_decides(asking: Place) -> None:
    """It has the commands, and nobody was asked."""
    async with asking.client() as client:
        attended = await client("attend_run", run="latest")
        assert (attended["asked"], "has no elicitation" in attended["what"]) == (False, True)
        assert any(" approve " in command for command in attended["gate"]["how_a_person_decides"])
    assert decided(asking) == []


@pytest.mark.req("WB-20")
async def test_where_the_settings_do_not_allow_it_nobody_is_asked(asking: Place) -> None:
    """By default a person decides by a command; the settings are read when it matters."""
    asking.settings()
    person = Person()
    async with asking.client(person) as client:
        assert (await client("attend_run", run="latest"))["asked"] is False
    assert (person.asked, decided(asking)) == ([], [])


@pytest.mark.req("WB-20")
async def test_a_question_without_choices_gets_the_persons_words(place: Place) -> None:
    """Even words that look like an option."""
    place.settings('[mcp]\ngates = "elicit"\n')
    assert place.command("run", "wish", "a", "--asks").returncode == 4
    async with place.client(Person({"choice": "--note=blue"})) as client:
        attended = await client("attend_run", run="latest")
        assert (attended["answer"], attended["recorded"]) == ("--note=blue", True)
        assert (await client("show_run", run="latest"))["output"] == "the colour is --note=blue"
