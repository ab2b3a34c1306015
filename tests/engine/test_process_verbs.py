"""Verbs for whole processes: units of work, branches, stashes, what is found in the tree, answers in documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.run import Call, Outcome, Run
from interlock.engine.simulation import Files
from interlock.errors import Status
from tests.engine.bench import WRITER, Bench, Nothing, said, small
from tests.engine.everything import PAGE, REVIEWER

HEAD: Files = {"lib.py": b"x = 1\n", "docs/a.md": b"old\n"}
UNSAVED: Files = {"lib.py": b"x = 2\n", "docs/a.md": b"old\n", "new.txt": b"new\n"}


@pytest.mark.req("RM-102")
def test_work_of_a_unit_is_seen_by_that_unit_alone() -> None:
    """Put by when another unit begins, taken up again when its own does; delivered with its own alone."""
    seen: list[list[str]] = []

    async def play(run: Run, inputs: Nothing) -> Outcome:
        for name in ("one", "two", "one"):
            await run.unit(name)
            seen.append([change.path for change in await run.changed()])
            await run.dispatch(Call(WRITER, member=f"writer-{len(seen)}"))
        await run.deliver("one")
        return Outcome.stopped("the other one is left")

    bench = Bench(small(play), files=HEAD)
    bench.cast.acts["writer"] = [said(None, {f"{n}.txt": b"1"}) for n in (1, 2, 3)]
    assert bench.start().status is Status.STOPPED
    assert seen == [[], [], ["1.txt"]]
    assert {"1.txt", "3.txt"} <= set(bench.world.files) and "2.txt" not in bench.world.files
    assert "two" in bench.last.view.units


@pytest.mark.req("TREE-15")
def test_a_run_follows_to_the_branch_that_it_makes() -> None:
    """What is not committed comes along, or is put away once under its name; a branch that is not there is said."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        gone = await run.switch("gone")
        dirty = await run.unsaved()
        put = await run.stash([change.path for change in dirty if change.path.startswith("new")], "of this run")
        problem = await run.switch("fix/it", new=True)
        return Outcome.complete(f"{gone}; {problem or run.where.branch}; {put.commit != ''}; {len(dirty)}")

    bench = Bench(small(play), files=UNSAVED, head=HEAD)
    view = bench.start()
    assert view.why == "there is no branch gone; refs/heads/fix/it; True; 2"
    assert view.where.branch == "refs/heads/fix/it"
    assert (bench.world.files, bench.world.stashes) == (
        {"lib.py": b"x = 2\n", "docs/a.md": b"old\n"},
        {"of this run": {"new.txt": b"new\n"}},
    )


@pytest.mark.req("EVID-01", "EVID-02")
@pytest.mark.parametrize(
    ("acts", "why", "calls"),
    [
        ([], "True", 1),
        ([said("I wrote nothing.")], "True", 2),
        ([said("broken", {PAGE: b"{"})], "True", 2),
        (
            [said("no", {PAGE: b'{"verdict": "revise", "criteria": [{"criterion": "it works", "met": false}]}'})],
            "False",
            1,
        ),
    ],
)
def test_a_document_can_be_the_answer(acts: list[Any], why: str, calls: int) -> None:
    """Read where it stands, asked for once more where it is missing or broken, delivered with its dispatch."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        report = await run.dispatch(Call(REVIEWER, criteria=("it works",)))
        return Outcome.complete(str(report.ruling is not None and report.ruling.passes))

    bench = Bench(small(play, REVIEWER), files=HEAD)
    bench.cast.acts["reviewer"] = acts
    assert bench.start().why == why
    assert len(bench.cast.asks) == calls
    assert PAGE in bench.world.files
    assert all(ask.form is None and "## Answer" not in ask.brief for ask in bench.cast.asks)


def test_documents_that_may_come_are_delivered_and_read_too() -> None:
    """Globs beside the outputs: what fits them comes with the dispatch, and nothing of it is missed."""
    read: list[Mapping[str, str]] = []
    row = replace(WRITER, writes=(), form=None, may=("tasks/*.md",), read=lambda given: read.append(given.outputs))

    async def play(run: Run, inputs: Nothing) -> Outcome:
        for n in (1, 2):
            await run.dispatch(Call(row, attempt=n))
        return Outcome.complete("done")

    bench = Bench(small(play, row), files=HEAD)
    bench.cast.acts["writer"] = [said("nothing"), said("some", {"tasks/T1.md": b"one"})]
    bench.start()
    assert read == [{}, {"tasks/T1.md": "one"}]
    assert bench.text("tasks/T1.md") == "one"
