"""What changed since a snapshot, waiting, and samples that belong together; the same in both worlds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.contracts import Artifact
from interlock.engine import Changed, Ending, Run, Status, changed_since, snapshot, wait
from interlock.engine.journal import Line
from interlock.engine.lifecycle import forgotten
from tests.conformance.harness import Death, Engine, reacting
from tests.engine.toys import Work, producing, toy

Start = Callable[..., Engine]
SEEN: list[Changed] = []


async def watching(run: Run, _work: Work) -> Ending:
    base = await snapshot(run)
    await run.dispatch(producing("out/b.md"))
    SEEN.append(await changed_since(run, base, besides=("notes/**",)))
    SEEN.append(await changed_since(run, await snapshot(run)))
    await wait(run, 0.01)
    await run.write("end.txt", "end\n")
    return Ending.complete()


WATCHING = toy(watching)


@pytest.mark.parametrize("death", [None, Death("changes", lost=False), Death("wait")])
def test_changes_since_a_snapshot_are_found_and_replayed(engine: Start, death: Death | None) -> None:
    """Paths under the globs are left out; a resume sees the same; what was waited for is not waited for again."""
    SEEN.clear()
    played = engine(WATCHING, Work(), {"a.txt": "one\n"}, reacting())
    if death is not None:
        played.dies(death)
    assert played.go().status is Status.COMPLETE
    first, second = SEEN[-2:]
    assert first.paths == ("out/b.md",)
    assert first.lines >= 1 and first.patch.endswith("changes.patch")
    assert (second.paths, second.lines) == ((), 0)
    assert len(played.events("wait")) == 1
    assert len(played.events("snapshot")) == 2


def test_a_sample_that_belongs_to_another_is_not_written_without_it() -> None:
    """What is required is always played; an optional sample only with the one that refers to it."""
    plan = Artifact("plan.md")
    task = Artifact("tasks/T01.md", required=False, sampled=True, beside="plan.md")
    assert plan.played() and task.played()
    assert not task.played({"plan.md"}) and not task.played({"tasks/T01.md"})
    assert not Artifact("x.md", required=False).played()


def test_what_decided_the_end_is_forgotten_whatever_its_outcome() -> None:
    """A verdict can end a run as well as a failure: the dispatches that the ending names are done again."""

    def line(seq: int, event: str, key: str | None, **data: object) -> Line:
        return Line(seq, "", "r", event, key, None, None, None, "d" if event.endswith("end") else None, data, "", "")

    lines = [
        line(1, "dispatch.start", "left#1"),
        line(2, "dispatch.end", "a#1", outcome="FAIL", out=1),
        line(3, "dispatch.end", "b#1", outcome="OK", out=1),
        line(4, "dispatch.end", "c#1", outcome="OK", out=1),
        line(5, "work.noticed", "a#1", what=["said later of what stands"]),
        line(6, "run.end", None, because=["b#1"]),
    ]
    assert forgotten(lines) == ["b#1", "c#1"]
