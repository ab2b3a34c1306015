"""Runs as they lie on disk, as many and as long as somebody wants: for what a page makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from interlock.agents.values import Usage
from interlock.engine import events as ev
from interlock.engine.folder import RunFolder
from interlock.engine.journal import Journal
from interlock.workspace.values import EMPTY, Pending, Standing, Where

STILL, NOTHING = Standing(tree=EMPTY), Pending(base=EMPTY, work=EMPTY)
BEGAN = datetime(2026, 11, 18, 18, 0, tzinfo=UTC)


def lay(
    runs: Path, number: int, *, dispatches: int = 2, side_by_side: int = 4, then: Sequence[tuple[str, ev.Event]] = ()
) -> str:
    """A run with so many dispatches, several in each round; its id.

    Args:
        then: what happened afterwards, in place of its end.
    """
    run = f"task-20261118-{number:06}-0000"
    folder = RunFolder(runs / run)
    folder.settle()
    journal, at = Journal(folder.medium), BEGAN + timedelta(minutes=number)

    def add(key: str, event: ev.Event) -> None:
        nonlocal at
        at += timedelta(seconds=7)
        journal.append(at, key, event)

    started = ev.RunStarted(
        run=run,
        playbook="task" if number % 3 else "feature",
        key=str(number),
        version="1",
        order=number,
        inputs={},
        caps={},
        where=Where(),
        standing=STILL,
        headline=f"Mend the lamp number {number}, and say what was wrong with it",
        at=at,
    )
    add("", started)
    text = folder.put(b"I looked at it.\n")
    for n in range(dispatches):
        top, agent = f"round-{n // side_by_side + 1}", ("builder", "reviewer", "tester", "writer")[n % side_by_side % 4]
        key = f"{top}/{agent}#{n % side_by_side + 1}"
        facts = {"agent": agent, "member": "", "attempt": 1}
        add(
            key,
            ev.Called(
                **facts,
                step=top,
                n=1,
                runner="claude",
                standing=STILL,
                pair=NOTHING,
                shown=EMPTY,
                layer="x",
                brief=text,
            ),
        )
        usage = Usage(input_tokens=9000 + n, output_tokens=700, cost_usd=0.02)
        report = ev.Report(**facts, outcome="done", text=text, paths=("lib.py",), usage=usage)
        add(key, ev.Done(report=report, pair=NOTHING, standing=STILL))
        if n % side_by_side == side_by_side - 1:
            add(
                f"{top}/next",
                ev.Decided(rule="after_round", inputs={"checks": "red", "review": "none"}, result="again"),
            )
    for key, event in then or [("", ev.Ended(status="complete", exit=0, reason="accepted"))]:
        add(key, event)
    journal.sync()
    return run
