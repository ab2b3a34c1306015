"""Work comes into the tree when it is accepted, once, and never over what a person wrote (TREE-04, TREE-14, RUN-05)."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import playing
from interlock.engine.journal import Journal
from interlock.engine.run import Call, Outcome, Run
from interlock.engine.simulation import drive
from interlock.engine.view import fold
from interlock.errors import Status
from interlock.workspace.values import Landing
from tests.engine.bench import WRITER, Bench, Died, Nothing, said, small

BOTH = replace(WRITER, outputs=("docs/plan.md",))


def dies() -> None:
    raise Died


async def delivering(run: Run, inputs: Nothing) -> Outcome:
    """A dispatch with a document and code, then all of it."""
    report = await run.dispatch(Call(BOTH))
    await run.gate("look", "Look!")
    changed = await run.changed()
    run.note("changed", paths=[one.path for one in changed])
    delivered = await run.deliver("all")
    return Outcome.complete(f"{report.reason or 'ok'} {delivered.state}")


def bench(**files: bytes) -> Bench:
    made = Bench(small(delivering, BOTH), files={"lib.py": b"x", "docs/plan.md": b"old"})
    made.cast.decisions = [{"choice": "approve"}] * 2
    return made.acts("writer", said(None, {"docs/plan.md": b"plan", "code.py": b"1", **files}))


@pytest.mark.req("TREE-14")
def test_documents_come_at_once_and_code_waits_until_it_is_accepted() -> None:
    seen: list[dict[str, bytes]] = []
    made = bench()
    made.cast.moments["ask look"] = [lambda: seen.append(dict(made.world.files))]
    assert made.start().why == "ok done"
    assert seen == [{"lib.py": b"x", "docs/plan.md": b"plan"}]
    assert made.text("code.py") == "1"
    assert made.last.view.notes == [("changed", {"paths": ["code.py"]})]


@pytest.mark.req("TREE-04", "TREE-14")
def test_a_document_that_a_person_writes_meanwhile_is_theirs_and_its_author_hears_of_it() -> None:
    made = bench()
    made.cast.moments["deliver"] = [lambda: made.world.files.update({"docs/plan.md": b"person"})]
    view = made.start()
    assert view.why == "conflict conflict"
    assert (made.text("docs/plan.md"), made.text("code.py")) == ("person", "")
    assert view.pending is not None
    assert made.world.trees[view.pending.work]["code.py"] == b"1", "kept"


# --- how a delivery ends


async def plain(run: Run, inputs: Nothing) -> Outcome:
    await run.dispatch(Call(WRITER))
    return Outcome.complete((await run.deliver("it")).state)


@pytest.mark.req("TREE-14", "TREE-15", "EVID-09")
@pytest.mark.parametrize(
    ("moment", "happens", "state", "there"),
    [
        ("never", "", "done", True),
        ("called", "nothing", "nothing", False),
        ("called", "README", "other", False),
        ("looked", "lib.py", "conflict", False),
        ("called", "away", "away", False),
        # between the last look and the writing of files: taken back, merged anew, and then it is another tree
        ("deliver", "README", "done", True),
        ("deliver", "a.py", "conflict", False),
    ],
)
def test_how_a_delivery_ends(moment: str, happens: str, state: str, there: bool) -> None:
    made = Bench(small(plain))
    made.cast.acts["writer"] = [said(None, {} if happens == "nothing" else {"lib.py": b"run", "a.py": b"1"})]

    def act() -> None:
        if happens == "away":
            made.world.away = True
        elif happens not in ("", "nothing"):
            made.world.files[happens] = b"person"

    made.cast.moments[moment] = [act] if moment != "looked" else []
    keep = made.world.keep

    async def looked(trees: Any) -> None:  # the agent's layer was looked at
        act()
        await keep(trees)

    made.world.keep = looked if moment == "looked" else keep  # type: ignore[method-assign]
    view = made.start()
    assert view.why == state
    assert (made.world.files.get("a.py") == b"1") == there
    if happens not in ("", "nothing", "away"):
        assert made.text(happens) == "person"
    if state not in ("done", "nothing"):
        assert view.pending is not None
        assert made.world.trees[view.pending.work]["a.py"] == b"1", "it waits"


@pytest.mark.req("TREE-14")
def test_a_tree_that_never_holds_still_is_a_conflict_after_three_tries() -> None:
    made, tries = Bench(small(plain)), []

    async def late(before: Any, after: Any) -> Landing:
        tries.append(before)
        return Landing(state="late")

    made.world.deliver = late  # type: ignore[method-assign]
    assert made.start().why == "conflict"
    assert len(tries) == 3


@pytest.mark.req("RUN-05", "TREE-14")
@pytest.mark.parametrize("moment", ["deliver", "delivered"])
@pytest.mark.parametrize("person", ["", "README", "b.py"])
def test_killed_in_the_middle_of_a_delivery_it_is_finished_or_taken_back_whole(moment: str, person: str) -> None:
    made = Bench(small(plain))
    made.cast.acts["writer"] = [said(None, {"a.py": b"1", "b.py": b"1", "c.py": b"1"})]
    made.cast.moments[moment] = [dies]
    with pytest.raises(Died):
        made.start()
    if person:
        made.world.files[person] = b"person"
    view = made.resume()
    there = {path for path in ("a.py", "b.py", "c.py") if made.world.files.get(path) == b"1"}
    if person == "b.py":
        assert (view.why, there) == ("conflict", set())
    else:
        assert (view.why, there) == ("done", {"a.py", "b.py", "c.py"})
    assert not person or made.text(person) == "person"
    assert len(made.events("intended")) == 1
    assert len(made.world.paid) == 1


PATHS = ["a", "b", "c"]
MOMENTS = ["call writer#1", "called writer#1", "call writer#2", "called writer#2", "deliver", "delivered"]
EDITS = st.lists(
    st.tuples(st.sampled_from(MOMENTS), st.sampled_from(PATHS), st.sampled_from([b"p", b"q", None])), max_size=4
)
WRITES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([b"r", b"s", None]), max_size=3)


@pytest.mark.req("TREE-03", "TREE-04")
@given(WRITES, WRITES, EDITS, st.booleans())
def test_whatever_a_person_does_meanwhile_what_they_wrote_stands(
    first: dict[str, bytes | None], second: dict[str, bytes | None], changes: list[Any], unsaved: bool
) -> None:
    """Two dispatches and a delivery; at any moment a person writes or removes a file."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        await run.dispatch(Call(WRITER))
        await run.dispatch(Call(WRITER, attempt=2))
        delivered, n = await run.deliver("0"), 0
        while delivered.state == "other" and n < 5:
            n += 1
            delivered = await run.deliver(str(n), delivered.merged)
        return Outcome.complete(delivered.state)

    files = dict.fromkeys(PATHS, b"old")
    made = Bench(small(play), files=files, head={} if unsaved else files)
    made.cast.acts["writer"] = [said({"status": "done"}, work) for work in (first, second)]  # type: ignore[arg-type]
    theirs: dict[str, bytes | None] = {}

    def edit(path: str, content: bytes | None) -> None:
        if content is not None:
            theirs[path] = made.world.files[path] = content
        elif made.world.files.pop(path, None) is not None:  # what is not there (a delivery took it) nobody removes
            theirs[path] = None

    for moment, path, content in changes:
        happens = made.cast.moments.setdefault(moment, [])
        happens.append(partial(edit, path, content))
    view = made.start()
    assert view.status is Status.COMPLETE
    delivered = view.why == "done"
    for path in PATHS:
        now = made.world.files.get(path)
        written = {work[path] for work in (first, second) if path in work}
        if path in theirs:
            assert now == theirs[path] or (delivered and now in written), "theirs, or work on top of what they wrote"
        elif not delivered:
            assert now == b"old", "nothing of what was not delivered is there"
        else:
            assert now in {b"old", *written}
            assert now is not None or not unsaved, "what is in no commit is not taken away"


# --- commits


async def committing(run: Run, inputs: Nothing) -> Outcome:
    await run.dispatch(Call(WRITER))
    await run.deliver("it")
    committed = await run.commit("Work\n")
    return Outcome.complete(committed.problem or committed.ref)


@pytest.mark.req("TREE-15")
def test_a_commit_holds_what_was_delivered_and_nothing_of_the_persons() -> None:
    made = Bench(small(committing), files={"lib.py": b"x", "mine": b"unsaved"}, head={"lib.py": b"x"})
    made.start()
    assert made.world.head == {"lib.py": b"x", "writer.txt": made.world.files["writer.txt"]}


@pytest.mark.req("TS-09", "TS-10", "TS-11")
@pytest.mark.parametrize(
    ("inputs", "fails", "status", "why"),
    [
        ({"commit": True}, "", Status.COMPLETE, "Accepted in round 1, commit"),
        ({"commit": True}, "publish", Status.DEGRADED, "not committed: no"),
        ({"branch": "topic"}, "", Status.COMPLETE, "on branch topic"),
        ({"branch": "topic"}, "plan commit", Status.DEGRADED, "no branch: no"),
        ({"pr": True}, "", Status.COMPLETE, "https://example.org/interlock/make-it-work"),
        ({"pr": True}, "push", Status.DEGRADED, "no pull request: no"),
    ],
)
def test_what_was_asked_for_and_cannot_be_done_is_said(
    inputs: dict[str, Any], fails: str, status: Status, why: str
) -> None:
    made = Bench()
    moment = made.cast.moment
    made.cast.moment = lambda what: "no" if what == fails else moment(what)  # type: ignore[method-assign]
    view = made.start(**inputs)
    assert (view.status, why in view.why) == (status, True), view.why
    assert ("builder.txt" in made.world.files) == ("commit" in inputs), "a branch comes in place of a delivery"


def _killed_over_it() -> Bench:
    """A process died over a delivery."""
    made = bench(**{"more.py": b"2"})
    made.cast.moments["delivered"] = [lambda: None, dies]  # the documents are delivered, too
    with pytest.raises(Died):
        made.start()
    return made


@pytest.mark.req("TREE-14", "TREE-15", "RUN-05")
def test_a_delivery_that_was_cut_off_is_not_finished_on_another_branch() -> None:
    made = _killed_over_it()
    made.world.away = True
    view = made.resume()
    assert (view.status, "another branch" in view.why) == (Status.WAITING, True)
    made.world.away = False
    assert made.resume().why == "ok done"
    assert made.text("more.py") == "2"


@pytest.mark.req("TREE-06", "RUN-05", "RUN-07")
@pytest.mark.parametrize("live", [False, True], ids=["where nobody works on it", "while it is made"])
def test_a_run_that_is_cancelled_over_a_delivery_has_recorded_it_and_can_be_undone(live: bool) -> None:
    if live:
        made = bench(**{"more.py": b"2"})

        def cancelled() -> None:
            made.says("cancel", who="bob")
            raise CancelledError  # as `Place` ends the work of its task

        made.cast.moments["delivered"] = [lambda: None, cancelled]  # the documents are delivered, too
        made.start()
    else:
        made = _killed_over_it()
        world = made.world
        playing.cancel(world.folder, world.now, "bob", lambda before, after: drive(world.finish(before, after)))
    view = fold(Journal(made.world.folder.medium).lines)
    assert (view.status, view.why) == (Status.CANCELLED, "cancelled by bob")
    assert (made.text("code.py"), made.text("more.py")) == ("1", "2")
    assert {path for one in view.delivered if one.landing for path in one.landing.paths} >= {"code.py", "more.py"}
    assert view.came[-1].base != view.came[-1].work


@pytest.mark.req("TREE-14", "RUN-05")
def test_work_beside_documents_over_which_a_process_died_is_pending_still() -> None:
    made = bench()
    made.cast.moments["delivered"] = [dies]
    with pytest.raises(Died):
        made.start()
    world = made.world
    playing.cancel(world.folder, world.now, "bob", lambda before, after: drive(world.finish(before, after)))
    pending = fold(Journal(world.folder.medium).lines).pending
    assert pending is not None and "code.py" not in world.files
    assert world.trees[pending.work]["code.py"] == b"1" and "code.py" not in world.trees[pending.base]
