"""Keys name a verb by its place, digests what it was asked (RUN-02, RUN-04)."""

from __future__ import annotations

import asyncio
import contextvars
import string
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.model import canonical
from interlock.engine import keys
from interlock.engine.keys import KEY_BYTES, NAME_BYTES, Keys, Scope, checked_name, difference, shortly
from interlock.engine.run import Outcome, Run
from interlock.errors import BadInput, EngineFault
from tests.engine.bench import Bench, Nothing, small

GOOD = ["a", "ct-security", "Ünïcode", "a b", "x" * NAME_BYTES, "...", "-", "ü" * (NAME_BYTES // 2)]
BAD = ["", "a/b", "a#1", "a\\b", ".", "..", "a\n", "\0", "\x1f", "x" * (NAME_BYTES + 1), "ü" * 101, "\ud800"]
NAMES = st.text(string.ascii_letters + string.digits + "- .ü", min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", [*GOOD, *BAD], ids=repr)
def test_a_name_that_can_be_a_folder_is_taken_and_no_other(name: str) -> None:
    if name in GOOD:
        assert checked_name(name) == name
    else:
        with pytest.raises(BadInput):
            checked_name(name)
    with pytest.raises(BadInput, match="too long together"):
        Keys().next("/".join(["x" * NAME_BYTES] * (KEY_BYTES // NAME_BYTES + 1)), "verb")


@pytest.mark.req("RUN-02")
@given(st.lists(st.tuples(st.lists(NAMES, max_size=3), NAMES), max_size=20))
def test_each_use_has_a_key_of_its_own_the_same_on_every_machine(uses: list[tuple[list[str], str]]) -> None:
    one, two = ([made.next("/".join(scope), name) for scope, name in uses] for made in (Keys(), Keys()))
    assert one == two
    assert len(set(one)) == len(one)


@pytest.mark.parametrize(
    ("scope", "name", "key"),
    [
        ("", "plan", "plan#1"),
        ("3b", "plan", "3b/plan#1"),
        ("3b/review/ct-security", "ct-security", "3b/review/ct-security#1"),
        ("3b/review/ct-security", "again", "3b/review/ct-security/again#1"),
    ],
)
@pytest.mark.req("RUN-02")
def test_how_a_key_reads(scope: str, name: str, key: str) -> None:
    assert Keys().next(scope, name) == key


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=4))
def test_two_that_ask_alike_have_no_difference_and_long_values_stay_short(one: Any, two: Any) -> None:
    assert difference(shortly(one), {**shortly(one), "added by a later version": None}) == ""
    assert all(len(repr(value)) < 500 for value in shortly(one).values())
    differs = {name for name in {**one, **two} if canonical(one.get(name)) != canonical(two.get(name))}
    said = difference(shortly(one), shortly(two))
    assert bool(said) == bool(differs)
    assert all(f"{name}: recorded" in said for name in differs)


@pytest.mark.parametrize(("one", "two"), [(1, True), (0, False), (1, 1.0), ("1", 1), ([1], [True]), ({}, [])])
def test_what_only_python_takes_for_equal_differs(one: Any, two: Any) -> None:
    assert difference(shortly({"n": one}), shortly({"n": two}))


# --- scopes


def names(run_: Any) -> list[str]:
    """The keys of the notes that a playbook leaves."""
    bench = Bench(small(run_, caps={"round": 3, "part": 2}))
    bench.start()
    return [line.key for line in bench.lines if line.event.e == "noted"]


def test_a_loop_that_is_left_in_its_middle_or_by_an_error_closes_its_scope() -> None:
    """`break` drops the iterator: CPython's reference count ends the turn's scope."""

    async def broken(run: Run) -> None:
        async for _ in run.loop("round"):
            raise ValueError

    async def play(run: Run, inputs: Nothing) -> Outcome:
        async for n in run.loop("round"):
            run.note("in")
            async for _ in run.loop("part"):
                run.note("deep")
                break
            run.note("between")
            if n == 2:
                break
        run.note("after")
        with run.step("last"):
            run.note("in")
        with suppress(ValueError):
            await broken(run)
        run.note("after")
        return Outcome.complete("done")

    assert names(play) == [
        *("round-1/in#1", "round-1/part-1/deep#1", "round-1/between#1"),
        *("round-2/in#1", "round-2/part-1/deep#1", "round-2/between#1"),
        *("after#1", "last/in#1", "after#2"),
    ]


@pytest.mark.req("RUN-10")
def test_a_loop_without_a_cap_is_a_fault_and_a_cap_may_only_be_lowered() -> None:
    turns: list[int] = []

    async def play(run: Run, inputs: Nothing) -> Outcome:
        async for n in run.loop("round", cap=2):
            turns.append(n)
        async for n in run.loop("round", cap=99):
            turns.append(n)
        async for _ in run.loop("unknown"):
            pass
        return Outcome.complete("done")

    with pytest.raises(EngineFault, match="has no cap"):
        names(play)
    assert turns == [1, 2, 1, 2, 3]


def test_a_verb_from_a_task_that_is_no_member_is_a_fault() -> None:
    """gather() would make keys depend on time."""

    async def main() -> None:
        keys.begin()
        keys.enter(keys.here().child("review"))

        async def verb() -> str:
            return keys.here().path

        assert await verb() == "review"
        with pytest.raises(EngineFault, match="a task that is not its own"):
            await asyncio.gather(verb())

    asyncio.run(main())


def test_members_work_each_in_a_scope_of_their_own() -> None:
    async def play(run: Run, inputs: Nothing) -> Outcome:
        async def member(name: str) -> None:
            with run.step("part"):
                run.note(name)

        for _ in range(2):
            await run.together("group", {name: partial(member, name) for name in ("b", "a")})
        run.note("after")
        return Outcome.complete("done")

    assert names(play) == [*("group/b/part/b#1", "group/a/part/a#1", "group/b/part/b#2", "group/a/part/a#2", "after#1")]


def test_a_scope_of_the_same_path_in_another_run_is_another_one() -> None:
    def closes() -> None:
        keys.begin()
        outer = keys.here()
        ours, theirs = outer.child("x"), Scope().child("x")
        keys.enter(ours)
        keys.leave(theirs, outer)
        assert keys.here() is ours
        keys.leave(ours, outer)
        assert keys.here() is outer

    contextvars.copy_context().run(closes)
