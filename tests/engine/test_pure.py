"""The pure parts: keys, tables, retries, attribution, lifecycle, briefs."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import TRANSIENT, UNUSABLE, Artifact, Contract, Outcome, Reason
from interlock.engine import DEADLINE, SESSION, AfterComplete, Dispatch, Kind, Quoted, Retries, Status, Table
from interlock.engine.brief import SAID_TO_BE_DATA, Heading, quoted, render
from interlock.engine.examination import sort_changes
from interlock.engine.keys import Keys, canonical, checked_name, difference, digest_of, sha256, shown
from interlock.engine.lifecycle import START, Last, Start, last_of
from interlock.engine.model import EXIT_CODES
from interlock.engine.retry import AfterTry, Used, delay_s, next_move, wait_s
from interlock.errors import EngineFault, NameRefused
from interlock.workspace import ChangeKind, Found, PathChange
from tests.engine.toys import producing

# -- keys


@pytest.mark.req("EN-01")
def test_keys_count_the_uses_of_a_name_in_its_scope() -> None:
    """The n-th use has `#n`; a member named like its dispatch needs no second name."""
    keys = Keys()
    issued = [keys.next(scope, name) for scope, name in [("", "read"), ("", "read"), ("a/b", "read"), ("3b/ct", "ct")]]
    assert issued == ["read#1", "read#2", "a/b/read#1", "3b/ct#1"]
    assert Keys().next("ct", "ct") == "ct#1"


@pytest.mark.req("EN-01")
@given(st.lists(st.tuples(st.sampled_from(["", "a", "a/b", "a/b/b", "b"]), st.sampled_from(["a", "b", "c"]))))
def test_no_key_is_given_out_twice(asked: list[tuple[str, str]]) -> None:
    """Also where two scopes and names come to the same words: a member's dispatch is named like the member."""
    keys = Keys()
    given_out = [keys.next(scope, name) for scope, name in asked]
    assert len(set(given_out)) == len(given_out)
    assert Keys().next("a/b", "b") == Keys().next("a", "b") == "a/b#1"


@pytest.mark.req("EN-01", "LY-31")
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a#1", "a\\b", "a\nb", "x" * 201, "ä" * 101, "\ud800"])
def test_names_that_cannot_stand_in_a_key_are_refused(name: str) -> None:
    """A name may not look like two names, leave the run folder, or be longer than a folder's may be."""
    with pytest.raises(NameRefused):
        Keys().next("a", name)
    with pytest.raises(NameRefused) as caught:
        checked_name(name)
    assert caught.value.exit_code == 2
    assert caught.value.expected is not None
    assert len(caught.value.what) < 200


@pytest.mark.req("LY-31", "LY-42")
@pytest.mark.parametrize("name", ["x" * 120, "x" * 200, "ä" * 100, "[id]", "a b", "*?", "caf\udce9"])
def test_names_of_any_kind_have_a_folder_of_their_own(name: str, tmp_path: Path) -> None:
    """With its number behind it, a name is still one that a file system takes."""
    key = Keys().next(f"{name}/{name}-{10**9}", checked_name(name))
    (tmp_path / key).mkdir(parents=True)
    assert os.fsencode(key) == os.fsencode(os.path.relpath(next((tmp_path / name).glob("*/*")), tmp_path))


@pytest.mark.req("LY-31")
def test_names_that_are_too_long_together_are_refused() -> None:
    """A key is the path of its records; a path has a length that it may not have."""
    with pytest.raises(NameRefused, match="too long together"):
        Keys().next("/".join("x" * 200 for _ in range(5)), "read")
    assert Keys().next("x" * 996, "read")
    with pytest.raises(NameRefused) as caught:
        Keys().next("x" * 997, "read")
    assert (caught.value.expected, caught.value.found) == ("at most 1000 bytes", "1001 bytes")
    assert caught.value.where == "x" * 57 + "..."


@pytest.mark.req("LY-31")
@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("x" * 201, "x" * 57 + "...", "201 bytes"),
        ("/" + "x" * 60, "/" + "x" * 56 + "...", repr("/" + "x" * 60)),
        ("/" + "x" * 59, "/" + "x" * 59, repr("/" + "x" * 59)),
        ("/" + "x" * 199, "/" + "x" * 56 + "...", repr("/" + "x" * 199)),
    ],
)
def test_a_name_that_is_refused_is_shown_in_part(name: str, said: str, found: str) -> None:
    """Up to 60 characters as it is; what was found is its length where that is what is wrong."""
    with pytest.raises(NameRefused) as caught:
        checked_name(name)
    assert caught.value.what.startswith(f"{said!r} cannot be the name")
    assert caught.value.found == found


@pytest.mark.req("EN-04")
def test_inputs_are_kept_short_and_without_secrets() -> None:
    """Up to 120 characters as they are, and texts up to 60 however they are spelled; longer ones as a digest."""

    def kept(value: object) -> object:
        return shown({"a": value}, lambda text: text.replace("secret", "***"))["a"]

    assert [kept(value) for value in ("", None, 0, [], ["b"], 7)] == ["", None, 0, [], ["b"], 7]
    assert kept("x" * 118) == "x" * 118
    assert kept("x" * 119) == "sha256:" + sha256(canonical("x" * 119))
    assert kept("ä" * 60) == "ä" * 60
    assert str(kept("ä" * 61)).startswith("sha256:")
    assert kept("a secret") == "a ***"
    assert kept(["secret", 1]) == ["***", 1]
    assert kept("secret" + "x" * 80) == "***" + "x" * 80


@pytest.mark.req("EN-04")
def test_what_differs_is_named() -> None:
    """Also what is there on one side only."""
    assert difference({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "b: recorded 2, now 3"
    assert difference({"a": 1}, {"c": 3}) == "a: recorded 1, now None; c: recorded None, now 3"
    assert difference({"a": 1}, {"a": 1}) == "nothing"


@pytest.mark.req("EN-04")
@given(st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists), max_size=5), st.text(), st.text())
def test_a_digest_changes_with_every_part_and_with_nothing_else(parts, name, value) -> None:
    """Order does not count; a changed part does, and it is named."""
    assert digest_of(parts) == digest_of(dict(reversed(parts.items())))
    changed = {**parts, name: [value, "changed"]}
    if changed != parts:
        assert digest_of(changed) != digest_of(parts)
        assert difference(shown(parts), shown(changed)).startswith(f"{name}: recorded")
    assert canonical(parts) == canonical(parts)


@pytest.mark.req("EN-04")
def test_a_dispatch_digests_its_task_inputs_outputs_context_and_rules_only() -> None:
    """Session, deadline, attempt, step, time limit and scope of the process are not part of it."""
    spec = producing("a.md")
    same = replace(spec, attempt=3, step="x", timeout_s=1.0, iteration=2, partial_grace_s=1.0, kind=Kind.JUDGE)
    assert digest_of(same.parts()) == digest_of(spec.parts())
    others = [
        replace(spec, agent="b"),
        replace(spec, member="m"),
        replace(spec, task="t"),
        replace(spec, inputs=("i",)),
        replace(spec, contract=Contract((Artifact("b.md"),))),
        replace(spec, context=(Quoted("t", "x"),)),
        replace(spec, rules=("r",)),
        replace(spec, failure="f"),
    ]
    assert len({digest_of(one.parts()) for one in (spec, *others)}) == len(others) + 1


# -- tables


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@pytest.mark.req("CM-17")
def test_a_table_knows_which_rows_it_lacks() -> None:
    """Totality over closed enums can be tested."""
    rows = {(a, b): f"{a}{b}" for a in Colour for b in Colour}
    assert list(Table("full", rows).missing()) == []
    del rows[Colour.RED, Colour.GREEN]
    partial = Table("partial", rows)
    assert list(partial.missing()) == [(Colour.RED, Colour.GREEN)]
    with pytest.raises(EngineFault, match="partial has no row for RED, GREEN"):
        partial(Colour.RED, Colour.GREEN)


@pytest.mark.req("CM-17", "EN-17", "EN-18")
def test_what_a_start_means_is_total_and_as_written() -> None:
    """Every standing of the last run under every playbook's rule has exactly one move."""
    assert list(START.missing()) == []
    for after in AfterComplete:
        assert START(Last.NONE, after) is Start.NEW
        assert START(Last.OPEN_SAME, after) is Start.RESUME
        assert START(Last.OPEN_OTHER, after) is Start.REFUSE_INPUTS
        assert START(Last.ENDED, after) is Start.SUCCESSOR
    assert START(Last.COMPLETE, AfterComplete.SAY_SO) is Start.SAY_COMPLETE
    assert START(Last.COMPLETE, AfterComplete.NEW_ON_REQUEST) is Start.REFUSE_COMPLETE
    assert START(Last.COMPLETE, AfterComplete.ALWAYS_NEW) is Start.NEW
    assert last_of(None, {}, {}) is Last.NONE


@pytest.mark.req("EN-25")
def test_every_status_has_its_exit_code() -> None:
    """complete 0, degraded 1, invalid 2, stopped 3, waiting 4, failed 5, locked 6, interrupted 130."""
    assert {status.value: code for status, code in EXIT_CODES.items()} == {
        "complete": 0,
        "degraded": 1,
        "invalid": 2,
        "stopped": 3,
        "waiting": 4,
        "failed": 5,
        "locked": 6,
        "interrupted": 130,
    }
    assert set(EXIT_CODES) == set(Status)


# -- retries


@pytest.mark.req("EN-41", "CM-17")
@pytest.mark.parametrize("shared", [False, True])
def test_the_dispatcher_always_comes_to_an_end(shared: bool) -> None:
    """For every sequence of failures the number of repeats is within what is allowed, by kind and together."""
    allowed = Retries(transient=2, contract=1, error=1, shared=shared)
    of_each_kind = (Reason.TIMEOUT, Reason.CONTRACT_VIOLATION, Reason.AGENT_ERROR, Reason.SCOPE_VIOLATION)
    for reasons in itertools.product(of_each_kind, repeat=6):
        used = Used()
        for reason in reasons:
            move = next_move(Outcome.FAIL, reason, used, allowed)
            if move is AfterTry.END:
                break
            expected = (
                AfterTry.REPEAT if reason in TRANSIENT else AfterTry.REPAIR if reason in UNUSABLE else AfterTry.RETRY
            )
            assert move is expected
            used = used.after(move)
        else:
            pytest.fail(f"no end after {reasons}")
        assert used.transient <= 2
        assert max(used.contract, used.error) <= 1
        assert not shared or used.contract + used.error <= 1


@pytest.mark.req("EN-41")
@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.REVISE, Outcome.BLOCKED])
def test_only_a_failure_is_repeated(outcome: Outcome) -> None:
    """A negative verdict is the playbook's to loop over; a cancelled call is nobody's."""
    generous = Retries(transient=9, contract=9, error=9)
    assert next_move(outcome, None, Used(), generous) is AfterTry.END
    assert next_move(Outcome.FAIL, Reason.CANCELLED, Used(), generous) is AfterTry.END
    assert [delay_s(Used(transient=n)) for n in range(3)] == [1.0, 5.0, 5.0]


@pytest.mark.req("EN-41")
def test_repeats_are_counted_by_their_kind() -> None:
    """Ending and waiting are none."""
    used = Used(1, 2, 4)
    assert [used.after(move) for move in AfterTry] == [used, used, Used(2, 2, 4), Used(1, 3, 4), Used(1, 2, 5)]
    assert (used.total, Used().total) == (7, 0)


@pytest.mark.req("EN-41")
def test_shared_repeats_are_as_many_as_the_larger_kind_has() -> None:
    """Beside those of a transient failure, which gave no verdict."""
    allowed = Retries(transient=1, contract=1, error=2, shared=True)
    assert next_move(Outcome.FAIL, Reason.AGENT_ERROR, Used(contract=1), allowed) is AfterTry.RETRY
    assert next_move(Outcome.FAIL, Reason.AGENT_ERROR, Used(contract=1, error=1), allowed) is AfterTry.END
    assert next_move(Outcome.FAIL, Reason.TIMEOUT, Used(contract=1, error=1), allowed) is AfterTry.REPEAT
    assert next_move(Outcome.FAIL, None, Used(), allowed) is AfterTry.END
    assert next_move(Outcome.FAIL, Reason.NO_VERDICT, Used(), allowed) is AfterTry.REPAIR
    assert next_move(Outcome.FAIL, Reason.NO_VERDICT, Used(), replace(allowed, contract=0)) is AfterTry.END


@pytest.mark.req("EN-45")
@pytest.mark.parametrize(
    ("reset_s", "waits", "waited_s", "allowed_s", "expected"),
    [
        (None, 0, 0.0, 1000.0, 2.0),
        (None, 1, 0.0, 1000.0, 4.0),
        (None, 7, 0.0, 1000.0, 256.0),
        (None, 8, 0.0, 1000.0, 300.0),
        (None, 5000, 0.0, 1000.0, 300.0),
        (None, 2, 5.0, 10.0, 5.0),
        (None, 0, 8.0, 10.0, 2.0),
        (None, 0, 8.5, 10.0, None),
        (10.0, 0, 0.0, 1000.0, 10.0),
        (1.0, 0, 0.0, 1000.0, 2.0),
        (10.0, 0, 5.0, 15.0, 10.0),
        (10.0, 0, 5.5, 15.0, None),
    ],
)
def test_how_long_a_limit_is_waited_for(
    reset_s: float | None, waits: int, waited_s: float, allowed_s: float, expected: float | None
) -> None:
    """As long as the service says, else twice as long each time, from two seconds to five minutes; never longer than
    may be waited, and not at all for less than the shortest wait."""
    assert wait_s(reset_s, waits, waited_s, allowed_s) == expected


# -- attribution


@pytest.mark.req("EN-35", "LY-02")
def test_every_change_in_a_layer_is_in_exactly_one_place() -> None:
    """All combinations of scope, state, kind of agent and kind of change; what cannot be imported is never work."""
    options = (False, True)
    for covered, state, refused, kind, change in itertools.product(options, options, options, Kind, ChangeKind):
        found = sort_changes(
            Found((PathChange("f", change),), refused={"f": "a pipe"} if refused else {}),
            covers=lambda _path, covered=covered: covered,
            is_state=lambda _path, state=state: state,
            kind=kind,
        )
        where = [name for name, paths in vars(found).items() if paths]
        if state:
            assert where == ["foreign"]
        elif covered and not refused:
            assert where == ["mine"]
        elif kind is Kind.JUDGE and change is ChangeKind.ADDED:
            assert where == ["dropped"]
        else:
            assert where == ["violations"]


def test_caches_are_by_products_only_where_they_are_new() -> None:
    """A tracked file of such a name that was changed is a change like any other."""
    for change, place in ((ChangeKind.ADDED, "byproducts"), (ChangeKind.MODIFIED, "violations")):
        found = sort_changes(
            Found((PathChange("a/__pycache__/b.pyc", change),)),
            covers=lambda _path: False,
            is_state=lambda _path: False,
            kind=Kind.PRODUCER,
        )
        assert [name for name, paths in vars(found).items() if paths] == [place]


# -- briefs

HEADING = Heading(
    run_key="x",
    playbook="toy",
    step="plan",
    attempt=2,
    session="sess_20260104_abcdef",
    deadline="2026-01-04T12:30:00Z",
    role="shipped",
    timeout_s=1800.0,
)


def test_a_brief_has_its_parts_in_order() -> None:
    """Title, header lines, Task, Inputs, Outputs, Context, Rules, and on a repair Failure context."""
    spec = replace(producing("a.md"), inputs=("in.md",), context=(Quoted("in.md", "text"),), rules=("Be brief.",))
    text = render(spec, HEADING, instructions="You make things.", failure="It was empty.")
    assert text.startswith("You make things.")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# toy: plan: maker",
        *("## Task", "## Inputs", "## Outputs", "## Context", "### in.md", "## Rules", "## Failure context"),
    ]
    assert "- Session: sess_20260104_abcdef" in text
    assert "- Attempt: 2" in text
    assert "- `in.md`" in text
    assert "Be brief." in text
    assert "It was empty." in text
    assert "## Failure context" not in render(spec, HEADING)


@pytest.mark.req("EN-04", "EN-47")
def test_session_and_deadline_are_put_in_by_the_engine() -> None:
    """The playbook writes marks; the digest never sees what stands for them. Outputs are named by their real places."""
    spec = replace(producing("a.md"), task=f"Write a.md by {DEADLINE} as {SESSION}.")
    text = render(spec, HEADING)
    assert "Write a.md by 2026-01-04T12:30:00Z as sess_20260104_abcdef." in text
    assert "## Outputs\n\n- `a.md`" in text


@given(st.text())
def test_quoted_text_cannot_leave_its_fence(text: str) -> None:
    """What comes from files and agents is said to be data, and no line of it closes the fence."""
    shown_as = quoted(Quoted("file", text))
    assert SAID_TO_BE_DATA in shown_as
    fence = shown_as.splitlines()[4].removesuffix("text")
    body = "\n".join(shown_as.split("\n")[5:-1])
    assert fence not in body
    assert shown_as.endswith("\n" + fence)


@pytest.mark.req("CM-07")
def test_a_brief_without_a_task_is_refused() -> None:
    """An empty task is our own fault, found before anything is sent."""
    with pytest.raises(EngineFault, match="no task"):
        render(Dispatch("a", "  "), HEADING)
