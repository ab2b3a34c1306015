"""The table of moves, and the page that shows it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from interlock.errors import EngineFault
from interlock.playbooks.router import diagram
from interlock.playbooks.router.states import MOVES, START, Finding, State, Walk

PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "router.md"


def test_only_moves_of_the_table_are_possible() -> None:
    """Every legal move leads where the table says; every other one is refused and changes nothing."""
    for state, finding in product(State, Finding):
        walk = Walk()
        walk.state = state
        if (state, finding) in MOVES:
            assert walk.go(finding) is MOVES[state, finding]
        else:
            with pytest.raises(EngineFault):
                walk.go(finding)
            assert walk.state is state


def test_every_state_can_be_reached_and_left_towards_an_end() -> None:
    """No state is decoration, none is a trap; refusals and the cleaned-up session are the only ends."""
    reached = {START}
    while more := {after for (before, _), after in MOVES.items() if before in reached} - reached:
        reached |= more
    assert reached == set(State)
    assert {finding for _, finding in MOVES} == set(Finding)
    ends = set(State) - {before for before, _ in MOVES}
    assert ends == {State.CLEANED, *(state for state in State if state.refuses)}


@pytest.mark.req("RT-03", "RT-73")
def test_an_agent_is_reached_only_through_all_checks() -> None:
    """The one way to a started agent passes every check, in order; no refusal leads to one."""
    ways = [[START]]
    complete: list[list[State]] = []
    while ways:
        way = ways.pop()
        if way[-1] is State.DELEGATED:
            complete.append(way)
            continue
        ways += [[*way, after] for (before, _), after in MOVES.items() if before is way[-1]]
    assert complete == [
        [
            State.EXTRACT,
            State.LOOKUP,
            State.METADATA,
            State.LOAD_COMMAND,
            State.SESSION,
            State.ROUTE,
            State.PREPARE,
            State.REGISTERED,
            State.DELEGATED,
        ]
    ]


def test_the_page_shows_the_table() -> None:
    """The diagram in the documentation is the one that the code makes."""
    assert f"```mermaid\n{diagram()}\n```\n" in PAGE.read_text(encoding="utf-8")


def test_the_diagram_has_one_line_for_each_move() -> None:
    """Nothing is left out and nothing is drawn that is not in the table."""
    lines = diagram().splitlines()
    moves = [line for line in lines if ": " in line]
    assert len(moves) == len(MOVES)
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> Extract"]
