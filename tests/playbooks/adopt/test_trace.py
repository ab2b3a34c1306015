"""Each statement goes to a place that exists, to words of a role, or is not enforced and why; rules not to prose."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks.adopt.draft import Draft, examined
from interlock.playbooks.adopt.statements import RULES, Statement, StatementKind
from interlock.playbooks.adopt.trace import (
    Binding,
    Keeper,
    TraceOf,
    is_structure,
    keeper,
    places_of,
    rendered,
    unbound,
)
from interlock.playbooks.adopt.verdicts import StatementVerdict, VerdictsOn
from interlock.playbooks.adopt.verdicts import rendered as spoken

from .adoptions import ALL, BUGFIX, Adoption

PLACES = places_of(BUGFIX.yaml)


def problems(adoption: Adoption, change: Binding) -> list[str]:
    """What is said of the hand-made trace with one binding changed."""
    tracing = TraceOf(adoption.statements)
    bindings = [change if one.id == change.id else one for one in adoption.bindings]
    found = tracing.problems(text := rendered(bindings))
    return found or list(
        unbound(adoption.statements, tracing.bindings(text), places_of(adoption.yaml), adoption.role_files)
    )


def first(kind: StatementKind) -> Statement:
    return next(one for one in BUGFIX.statements if one.kind is kind)


@pytest.mark.parametrize("adoption", ALL, ids=lambda adoption: adoption.file)
@pytest.mark.req("OW-52", "OW-55")
def test_a_faithful_trace_has_no_problem(adoption: Adoption) -> None:
    assert problems(adoption, adoption.bindings[0]) == []


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("steps[2].at_most", ("steps", 2, "at_most")),
        ("rounds.at_most", ("steps", 2, "at_most")),
        ("rounds", ("steps", 2)),
        ("tests.command", ("steps", 2, "steps", 1, "command")),
        ("after-review.rows[5]", ("steps", 2, "steps", 3, "rows", 5)),
        ("agents.fixer.writes[1]", ("agents", "fixer", "writes", 1)),
        ("review.members.style", ("steps", 2, "steps", 2, "members", "style")),
        ("key", ("key",)),
        ("steps[99]", None),
        ("rounds.at_least", None),
        ("after-review.rows[6]", None),
        ("nobody", None),
        ("", None),
        ("steps[-1]", None),
        ("steps[2]at_most", None),
        (".steps", None),
        ("steps..at_most", None),
        ("steps[2].at_most.more", None),
    ],
)
@pytest.mark.req("OW-52")
def test_a_place_is_a_path_or_the_name_of_a_step(place: str, keys: tuple[object, ...] | None) -> None:
    assert PLACES.keys(place) == keys


def test_a_place_has_a_line() -> None:
    line = PLACES.line("rounds.at_most")
    assert line is not None
    assert BUGFIX.yaml.split("\n")[line - 1].strip() == "at_most: 3"
    assert PLACES.line("nowhere") is None


@pytest.mark.req("OW-52", "OW-55")
def test_a_rule_bound_to_nothing_is_told() -> None:
    """A place that does not exist keeps nothing, however good it sounds."""
    one = first(StatementKind.LIMIT)
    assert problems(BUGFIX, Binding(one.id, places=("rounds.at_most", "limits.rounds"))) == [
        f'{one.id}: "limits.rounds" is no place in playbook.yaml'
    ]


@pytest.mark.parametrize("whole", ["steps", "agents", "inputs", "rounds.steps"])
@pytest.mark.req("OW-52")
def test_a_rule_bound_to_everything_is_told(whole: str) -> None:
    one = first(StatementKind.ORDER)
    assert problems(BUGFIX, Binding(one.id, places=(whole,)))[0].startswith(f'{one.id}: "{whole}" is nearly everything')


@pytest.mark.parametrize("kind", sorted(RULES))
@pytest.mark.req("OW-52")
def test_a_rule_that_only_stands_in_prose_is_told(kind: StatementKind) -> None:
    """A task and a role are words; whoever forgets them breaks the rule. Every kind of rule is held to that."""
    one = replace(BUGFIX.statements[0], kind=kind)
    adoption = replace(BUGFIX)
    adoption.__dict__["statements"] = (one, *BUGFIX.statements[1:])
    for change in (
        Binding(one.id, places=("reproducer.task",)),
        Binding(one.id, role="fixer", words="Look for the cause"),
    ):
        assert "only stands in prose, which nobody keeps" in problems(adoption, change)[0]
    assert problems(adoption, Binding(one.id, reason="nobody can keep it")) == []
    assert problems(adoption, Binding(one.id, places=("rounds.at_most",))) == []


@pytest.mark.parametrize("kind", sorted(set(StatementKind) - RULES))
@pytest.mark.req("OW-52")
def test_what_is_no_rule_may_stand_in_a_role(kind: StatementKind) -> None:
    one = replace(BUGFIX.statements[0], kind=kind)
    adoption = replace(BUGFIX)
    adoption.__dict__["statements"] = (one, *BUGFIX.statements[1:])
    assert problems(adoption, Binding(one.id, role="fixer", words="Look for the cause before")) == []


@pytest.mark.req("OW-52")
def test_words_of_a_role_have_to_stand_in_it() -> None:
    one = first(StatementKind.CONTEXT)
    assert problems(BUGFIX, Binding(one.id, role="fixer", words="Take care.")) == [
        f'{one.id}: "Take care." does not stand in agents/fixer.md'
    ]
    assert problems(BUGFIX, Binding(one.id, role="boss", words="Take care.")) == [
        f'{one.id}: there is no role "boss" in agents/'
    ]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"not_enforced": " "}, "S1.1: not enforced, and no reason given"),
        ({"places": []}, "S1.1: needs one of: places"),
        ({"places": [1]}, "S1.1: needs one of: places"),
        ({"places": ["steps[0]", 1]}, "S1.1: needs one of: places"),
        ({"places": "steps[0]"}, "S1.1: needs one of: places"),
        ({"role": "fixer", "words": ""}, "S1.1: needs one of: places"),
        ({"places": ["steps[0]"], "not_enforced": "both"}, "S1.1: needs one of: places"),
        ({}, "S1.1: needs one of: places"),
        ({"id": 1}, "entry 1: needs an id"),
        ({"id": "S9.9", "not_enforced": "why"}, "S9.9: there is no such statement to be traced"),
        ({"id": "S1.2", "not_enforced": "why"}, "S1.2: traced 2 times"),
    ],
)
@pytest.mark.req("OW-52")
def test_an_entry_that_is_none_is_told(entry: dict[str, Any], said: str) -> None:
    entries = [one.to_json() for one in BUGFIX.bindings]
    entries[0] = {"id": "S1.1", **entry}
    assert any(one.startswith(said) for one in TraceOf(BUGFIX.statements).problems(json.dumps({"trace": entries})))


@pytest.mark.req("OW-52")
def test_a_statement_that_is_not_traced_is_told() -> None:
    assert TraceOf(BUGFIX.statements).problems(rendered(BUGFIX.bindings[1:])) == ["S1.1: not traced"]


@pytest.mark.parametrize(
    ("binding", "by"),
    [
        (Binding("x", places=("rounds.at_most",)), Keeper.CODE),
        (Binding("x", places=("reproducer.task", "rounds.at_most")), Keeper.CODE),
        (Binding("x", places=("reproducer.task",)), Keeper.ROLES),
        (Binding("x", places=("close.question", "closed.words", "summary", "inputs.report.help")), Keeper.ROLES),
        (Binding("x", role="fixer", words="x"), Keeper.ROLES),
        (Binding("x", reason="x"), Keeper.NOBODY),
    ],
)
@pytest.mark.req("OW-52")
def test_code_keeps_what_is_bound_to_structure(binding: Binding, by: Keeper) -> None:
    assert keeper(binding, PLACES) is by


@pytest.mark.req("OW-52")
def test_a_sample_binds_every_rule_and_nothing_else() -> None:
    """What a scripted author writes holds together with the sample of its YAML."""
    tracing = TraceOf(BUGFIX.statements)
    assert tracing.problem(tracing.sample()) is None
    bound = {name for name, one in tracing.bindings(tracing.sample()).items() if one.places}
    assert bound == {one.id for one in BUGFIX.statements if one.is_rule}
    assert tracing.problem("{}") == 'expected an object with a list "trace"'


def test_nothing_is_no_structure() -> None:
    assert not is_structure(())


# -- what the critic says


IDS = ("S1.1", "S1.2")


@pytest.mark.req("OW-53")
def test_a_critic_has_to_cover_every_statement_once() -> None:
    """Whoever approves without saying what of gets it back."""
    judging = VerdictsOn(IDS)
    assert judging.problems(judging.sample()) == []
    assert judging.problem(judging.sample()) is None
    assert judging.rejected(judging.sample()) == ()
    assert judging.problem("{}") == 'expected an object with a list "verdicts"'
    assert judging.problems('{"verdicts": [{}]}') == ["entry 1: needs an id"]
    assert judging.problems('{"verdicts": []}') == ["S1.1: not judged", "S1.2: not judged"]
    twice = spoken(
        [StatementVerdict("S1.1", True, "x"), StatementVerdict("S1.1", False, "y"), StatementVerdict("S3.1", True, "z")]
    )
    assert judging.problems(twice) == [
        "S3.1: there is no such statement to be judged",
        "S1.1: judged 2 times",
        "S1.2: not judged",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "S1.1", "faithful": "yes", "why": "x"},
        {"id": "S1.1", "faithful": True},
        {"id": "S1.1", "faithful": False, "why": " "},
        {"id": "S1.1", "faithful": 1, "why": "x"},
    ],
)
@pytest.mark.req("OW-53")
def test_a_verdict_is_a_yes_or_no_with_a_reason(entry: dict[str, Any]) -> None:
    said = VerdictsOn(("S1.1",)).problems(json.dumps({"verdicts": [entry]}))
    assert said[0] == "S1.1: needs faithful (true or false) and why (a sentence)"


@pytest.mark.req("OW-53")
def test_what_is_rejected_is_what_is_not_faithful() -> None:
    text = spoken([StatementVerdict("S1.1", True, "fine"), StatementVerdict("S1.2", False, "three became\nfour")])
    assert VerdictsOn(IDS).rejected(text) == (StatementVerdict("S1.2", False, "three became four"),)


# -- whatever they write


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "places", "role", "why"]), inner)
    ),
)


@given(JSON)
def test_any_trace_and_any_verdicts_are_judged_without_a_fault(data: Any) -> None:
    for name in ("trace", "verdicts"):
        for text in (json.dumps({name: data}), json.dumps({name: [data]}), json.dumps(data)):
            assert TraceOf(BUGFIX.statements).problems(text)
            assert VerdictsOn(IDS).problems(text)


@given(st.text(st.sampled_from("steps[].0129abrounds-at_most"), max_size=20))
@pytest.mark.req("OW-52")
def test_any_place_is_looked_up_without_a_fault(place: str) -> None:
    """What is found is really there."""
    keys = PLACES.keys(place)
    if keys is not None:
        assert PLACES.document.get(keys, None) is not None


@given(st.sets(st.sampled_from([one.id for one in BUGFIX.statements])))
@pytest.mark.req("OW-52")
def test_whatever_is_left_out_of_a_trace_is_noticed(gone: set[str]) -> None:
    kept = [one for one in BUGFIX.bindings if one.id not in gone]
    found = TraceOf(BUGFIX.statements).problems(rendered(kept))
    assert {one.partition(":")[0] for one in found} == gone


# -- drafts with holes


@pytest.mark.long
@pytest.mark.req("OW-52")
def test_a_yaml_without_any_one_line_is_judged_without_a_fault() -> None:
    """Most are told what is missing; those that are still playbooks have their places looked up."""
    lines = BUGFIX.yaml.splitlines(keepends=True)
    told = 0
    for gone in range(len(lines)):
        text = "".join(lines[:gone] + lines[gone + 1 :])
        draft = Draft(text, BUGFIX.role_files, rendered(BUGFIX.bindings), examined(text))
        told += bool(draft.problems("bugfix", BUGFIX.statements))
    assert told > len(lines) // 2
