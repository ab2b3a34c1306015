"""Which runs a command is about: filters of the list, runs that need no name, fields for programs."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.output import selection
from interlock.errors import ConfigInvalid


@pytest.fixture
def three(workspace: Any) -> Any:
    """Runs of two playbooks: one complete, one that failed, one that waits."""
    assert workspace("run", "toy", "a", "--mode", "quick").code == 0
    workspace.scenario({"agent": "planner", "exit": 1})
    assert workspace("run", "toy", "b").code == 5
    workspace.scenario()
    assert workspace("run", "toy", "c").code == 4
    return workspace


def keys(answer: Any) -> list[str]:
    return [run["key"] for run in answer.json]


@pytest.mark.req("WB-24")
def test_the_list_of_runs_can_be_narrowed(three: Any) -> None:
    """By how they stand, by playbook, to the latest few; each together with the others."""
    assert keys(three("runs", "--json")) == ["a", "b", "c"]
    assert keys(three("runs", "--json", "--status", "waiting")) == ["c"]
    assert keys(three("runs", "--json", "--status", "failed", "--status", "complete")) == ["a", "b"]
    assert keys(three("runs", "--json", "--limit", "2")) == ["b", "c"]
    assert keys(three("runs", "--json", "--limit", "1", "--status", "complete", "--status", "failed")) == ["b"]
    assert keys(three("runs", "--json", "--playbook", "toy")) == ["a", "b", "c"]
    assert keys(three("runs", "--json", "--playbook", "router")) == []
    nothing = three("runs", "--playbook", "router")
    assert (nothing.code, nothing.stdout, "No run is like that" in nothing.stderr) == (0, b"", True)


@pytest.mark.req("WB-24")
@pytest.mark.parametrize("words", [["--status", "fine"], ["--limit", "0"], ["--limit", "x"]])
def test_a_filter_that_means_nothing_is_refused(workspace: Any, words: list[str]) -> None:
    """Exit code 2, with what was expected."""
    answer = workspace("runs", *words)
    assert (answer.code, words[0] in answer.stderr) == (2, True)


@pytest.mark.req("WB-24")
@pytest.mark.parametrize("command", ["show", "logs", "report", "why", "diff", "watch"])
def test_whoever_only_looks_means_the_latest_run(three: Any, command: str) -> None:
    """Without a name they print what they print for the run that began last."""
    unnamed, named = three(command), three(command, three.folders[-1].name)
    assert unnamed.code == named.code
    assert unnamed.stdout.splitlines()[1:] == named.stdout.splitlines()[1:]
    assert three.folders[-1].name.encode() in unnamed.stdout + unnamed.stderr.encode() or command in ("logs", "diff")


@pytest.mark.req("WB-24")
def test_a_decision_is_never_guessed(three: Any) -> None:
    """The only run that waits needs no name; where two wait, nothing is decided."""
    assert three("run", "toy", "d").code == 4
    before = three.digest()
    answer = three("approve")
    assert (answer.code, "2 runs wait for a decision" in answer.stderr) == (2, True)
    assert three.digest() == before
    assert three("reject", three.folders[-1].name, "--note", "no").code == 0
    assert three("approve").code == 0
    assert three.events(2).count("gate.decided") == 1


@pytest.mark.req("WB-24")
@pytest.mark.parametrize("command", ["cancel", "resume", "recover"])
def test_what_moves_a_run_needs_its_name(three: Any, command: str) -> None:
    """Nobody ends or starts work by a command that was typed too early."""
    answer = three(command)
    assert (answer.code, "Missing argument 'RUN'" in answer.stderr) == (2, True)


@pytest.mark.req("WB-24")
def test_programs_choose_the_fields_they_want(three: Any) -> None:
    """Of a list, of one object, of an object in an object; asking for fields is asking for JSON."""
    assert three("runs", "--fields", "key,status", "--limit", "1").json == [{"key": "c", "status": "waiting"}]
    facts = three("show", "--fields", "status,gate.question,dispatches.member,totals.cost_usd").json
    assert facts == {
        "status": "waiting",
        "gate": {"question": "Ship this plan?"},
        "dispatches": [{"member": "planner"}],
        "totals": {"cost_usd": None},
    }
    assert three("report", "--json", "--fields", "status").json == {"status": "waiting"}
    assert list(three("why", "--fields", "run_id").json) == ["run_id"]
    assert list(three("diff", "--fields", "code").json) == ["code"]


@pytest.mark.req("WB-24")
def test_a_field_that_is_not_there_is_refused_with_those_that_are(three: Any) -> None:
    """In JSON, since JSON was asked for."""
    answer = three("show", "--fields", "state")
    assert (answer.code, answer.json["error"]["what"]) == (2, "there is no field 'state'")
    assert "status" in answer.json["error"]["expected"]


def test_a_selection_keeps_the_shape_of_what_it_selects_from() -> None:
    """Named twice is named once, the whole contains its parts, of nothing there is nothing."""
    facts = {"a": 1, "b": {"c": 2, "d": 3}, "e": None}
    assert selection(facts, ["b.c", "a"]) == {"b": {"c": 2}, "a": 1}
    assert selection(facts, ["b.c", "b", "b.d"]) == {"b": {"c": 2, "d": 3}}
    assert selection([facts], ["e.x"]) == [{"e": None}]
    for wrong in ("a.b", "b.x", ""):
        with pytest.raises(ConfigInvalid):
            selection(facts, [wrong])
