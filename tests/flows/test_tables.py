"""Tables are total over what can happen, and have nothing in them that cannot (OW-21)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import ConfigInvalid
from interlock.flows import read

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "check": ("passed", "failed"),
    "judge": ("pass", "revise", "blocked", "failed"),
    "ship": ("yes", "later", "never"),
}
HEAD = """playbook: tabled
summary: One table.
key: once
agents:
  judge: {instructions: You judge., judges: reading}
steps:
  - {run: check, command: make}
  - {agent: judge, task: Judge.}
  - {ask: ship, question: Ship it., choices: {"yes": a, later: b, never: c}}
  - decide: asked_at_all
    rows:
      - {ship: "yes", then: go on}
      - {ship: [later, never], judge: pass, then: go on}
      - {judge: [revise, blocked, failed], then: go on}
"""
TAIL = """
  - {end: good, status: complete, words: Good.}
  - {end: bad, status: failed, words: Bad.}
"""
Cells = Mapping[str, tuple[str, ...]]
cells: st.SearchStrategy[Cells] = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(st.sampled_from(words), min_size=1, max_size=3, unique=True).map(tuple)
        for name, words in COLUMNS.items()
    },
)


def written(rows: list[Cells]) -> str:
    lines = ["  - decide: table", "    rows:"]
    for number, row in enumerate(rows):
        said = [f"{name}: [{', '.join(repr(word) for word in words)}]" for name, words in row.items()]
        said.append(f"then: end {'bad' if number % 2 else 'good'}")
        lines.append(f"      - {{{', '.join(said)}}}")
    return HEAD + "\n".join(lines) + TAIL


def expected(rows: list[Cells]) -> tuple[set[tuple[str, ...]], set[int]]:
    """By trying everything: the combinations without a row, and the rows without a combination."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    used: set[int] = set()
    missing: set[tuple[str, ...]] = set()
    for one in itertools.product(*(COLUMNS[name] for name in names)):
        found = dict(zip(names, one, strict=True))
        fitting = [n for n, row in enumerate(rows) if all(found[name] in words for name, words in row.items())]
        if fitting:
            used.add(fitting[0])
        else:
            missing.add(one)
    return missing, set(range(len(rows))) - used


def complaints(text: str) -> list[Any]:
    try:
        read(text, "flow.yaml")
    except ConfigInvalid as error:
        return [error, *error.also]
    return []


@pytest.mark.req("OW-21")
@given(st.lists(cells, min_size=2, max_size=6))
def test_a_table_is_read_if_and_only_if_it_is_total_and_lean(rows: list[Cells]) -> None:
    """What is missing is counted, and each row out of reach is named by its line."""
    missing, useless = expected(rows)
    found = complaints(written(rows))
    if not any(rows):
        assert any("asks about nothing" in one.what for one in found)
        return
    told = [one for one in found if "does not say where it leads" in one.what]
    assert [one.found for one in told] == ([f"{len(missing)} without one"] if missing else [])
    first = HEAD.count("\n") + 3
    lines = {int(str(one.where).split(":")[1]) for one in found if "no combination comes to this row" in one.what}
    assert lines == {first + number for number in useless}


@pytest.mark.req("OW-21")
def test_missing_combinations_are_listed() -> None:
    """Each with its columns, as a person would say it."""
    (found,) = complaints(written([{"check": ("passed",), "judge": ("pass",)}, {"judge": ("revise", "failed")}]))
    assert found.what == (
        "the table 'table' does not say where it leads with check passed, judge blocked; "
        "with check failed, judge pass; with check failed, judge blocked"
    )
    assert found.where == f"flow.yaml:{HEAD.count(chr(10)) + 1}:5"


@pytest.mark.req("OW-21")
def test_a_table_answers_only_for_what_can_happen() -> None:
    """What an earlier table sends elsewhere, and what ends the run because nobody asks, needs no row."""
    text = """playbook: narrowed
summary: Two tables.
key: once
agents:
  worker: {instructions: You work., writes: src/**}
steps:
  - {agent: worker, task: Work.}
  - {run: check, command: make}
  - {run: lint, command: make lint}
  - decide: first
    rows:
      - {check: passed, then: go on}
      - {check: failed, then: end bad}
  - decide: second
    rows:
      - {check: passed, lint: passed, then: end good}
      - {check: passed, lint: failed, then: end bad}
  - {end: good, status: complete, words: Good.}
  - {end: bad, status: failed, words: Bad.}
"""
    assert complaints(text) == []
    (found,) = complaints(text.replace("{check: passed, lint: failed", "{check: failed, lint: failed"))
    assert found.what == "'check' cannot be 'failed' here"


@pytest.mark.req("OW-21")
def test_what_is_known_after_a_repeat_is_what_every_way_out_of_it_knows() -> None:
    """A step that some way passes by cannot be asked about behind the repeat."""
    text = """playbook: around
summary: A repeat with two ways out.
key: once
steps:
  - repeat: tries
    at_most: 2
    when_used_up: go on
    steps:
      - {run: first, command: a}
      - decide: after_first
        rows:
          - {first: passed, then: leave}
          - {first: failed, then: go on}
      - {run: second, command: b}
  - decide: behind
    rows:
      - {first: passed, tries: left, then: end good}
      - {first: passed, tries: used up, then: end good}
      - {first: failed, then: end bad}
  - {end: good, status: complete, words: Good.}
  - {end: bad, status: failed, words: Bad.}
"""
    assert complaints(text) == []
    passed_by = "{second: failed, then: end bad}\n      - {then: end bad}"
    (found,) = complaints(text.replace("{first: failed, then: end bad}", passed_by))
    assert found.what == "'second' has not run on every way to here"
