"""Small playbooks that use every verb: what tests of the engine run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.contracts import Artifact, Contract, Outcome
from interlock.engine import Dispatch, Ending, Kind, Past, Playbook, Quoted, Report, Retries, Run, Table

ONCE = Retries(transient=0, contract=0, error=0)
"""No repeats by the dispatcher: one call is one try."""


@dataclass(frozen=True)
class Work:
    """What a toy is asked for."""

    name: str = "x"
    size: int = 1


def toy(function: Callable[[Run, Work], Awaitable[Ending]], **known: Any) -> Playbook:
    """The function as a playbook whose agents need no role files."""
    given = {"name": "toy", "inputs": Work, "key": lambda work: work.name, "needs_roles": False, "retries": ONCE}
    return Playbook(function=function, **{**given, **known})


class Move(StrEnum):
    GO = "go"
    STOP = "stop"


AFTER: Table[Move] = Table(
    "after",
    {(outcome,): Move.GO if outcome in (Outcome.OK, Outcome.REVISE) else Move.STOP for outcome in Outcome},
)


def producing(path: str, agent: str = "maker", **more: Any) -> Dispatch:
    """A dispatch that has to write one file."""
    return Dispatch(agent, f"Write {path}.", Contract((Artifact(path),)), **more)


def single(spec: Dispatch, **known: Any) -> Playbook:
    """A playbook of one dispatch, which ends as the dispatch does; its output is the report, as JSON."""

    async def body(run: Run, _work: Work) -> Ending:
        report = await run.dispatch(spec)
        output = json.dumps({**report.to_json(), "usage": None})
        return Ending.complete(output) if report.ok else Ending.stopped(str(report.reason or report.outcome), output)

    return toy(body, **known)


def members(*specs: Dispatch, name: str = "side", **known: Any) -> Playbook:
    """A playbook of one cluster with one dispatch per member."""

    async def body(run: Run, _work: Work) -> Ending:
        reports = await run.cluster(name, {spec.name: (lambda spec=spec: run.dispatch(spec)) for spec in specs})
        return Ending.complete(
            json.dumps([[member, report.outcome, report.reason] for member, report in reports.items()])
        )

    return toy(body, **known)


# -- clusters in loops in clusters


async def nested(run: Run, work: Work) -> Ending:
    """Plan, then workers side by side that each retry under the eyes of two judges, twice over."""
    document = await run.read("a.txt")
    with run.step("plan"):
        report = await run.dispatch(producing("plan.md", "planner", context=(Quoted("a.txt", document.text),)))
        if run.decide(AFTER, report.outcome) is Move.STOP:
            return Ending.stopped("no plan", because=(report.key,))
    async for turn in run.loop("fix"):
        found = await run.cluster(
            "work", {f"m{i}": (lambda i=i, turn=turn: worker(run, turn, i)) for i in range(work.size + 1)}
        )
        await run.write("state.json", json.dumps({"turn": turn, "members": list(found)}))
        run.note("turned", turn=turn)
        if turn == 2:
            break
    names = await run.list("out", "*.md")
    await run.write("done.txt", "\n".join([run.new_id("id-"), *names, "x" * 5000]))
    run.say("finished\n")
    return Ending.complete("all done")


async def worker(run: Run, turn: int, number: int) -> Report:
    path = f"out/{turn}-{number}.md"
    async for attempt in run.loop("attempt", 2):
        report = await run.dispatch(producing(path, "worker", member=f"worker-{number}", attempt=attempt))
        judged = await run.cluster(
            "judges", {name: (lambda name=name: judge(run, name, path)) for name in ("j1", "j2")}
        )
        if all(one.ok for one in judged.values()):
            break
    return report


async def judge(run: Run, name: str, path: str) -> Report:
    return await run.dispatch(Dispatch("judge", f"Judge {path}.", member=name, kind=Kind.JUDGE, inputs=(path,)))


NESTED = toy(nested, name="nested", caps={"fix": 3}, max_parallel=8)
NESTED_FILES = {"a.txt": "hello\n"}


# -- a person's decision


async def gated(run: Run, _work: Work) -> Ending:
    """Plan, ask a person, build what the person saw."""
    await run.write("state.json", '{"stage": "planning"}')
    await run.dispatch(producing("plan.md", "planner"))
    await run.write("state.json", '{"stage": "waiting"}')
    decision = await run.gate("approval", "Build this?", shows=("plan.md",))
    if not decision.approved:
        await run.write("state.json", '{"stage": "rejected"}')
        return Ending.stopped(f"rejected: {decision.note}")
    await run.write("state.json", '{"stage": "approved"}')
    plan = await run.read("plan.md")
    report = await run.dispatch(producing("built.md", "builder", context=(Quoted("plan.md", plan.text),)))
    return Ending.complete(report.outcome.value)


GATED = toy(gated, name="gated", state=lambda _work: ("state.json",))


async def questioned(run: Run, _work: Work) -> Ending:
    """One gate that is answered in words."""
    answer = await run.gate("questions", "Which database? Which port?", choices=())
    await run.dispatch(Dispatch("builder", f"Build with: {answer.choice}"))
    return Ending.complete(answer.choice)


QUESTIONED = toy(questioned, name="questioned")


# -- an effect that must happen once


async def committing(run: Run, _work: Work) -> Ending:
    """A branch and a commit of the user's own git."""
    await run.repository.checkout("work", create=True)
    await run.write("a.txt", "new\n")
    made = await run.repository.commit(["a.txt"], "work")
    await run.write("report.txt", f"{made.ok} {made.probed}\n")
    return Ending.complete()


COMMITTING = toy(committing, name="committing")


# -- a state document


async def counted(run: Run, work: Work) -> Ending:
    """Raise a counter in the state document before the work that it counts."""
    async for turn in run.loop("count", 5):
        await run.update("state.json", lambda document: raised(document.text))
        await run.dispatch(producing(f"out/{turn}.md"))
        if turn > work.size:
            break
    return Ending.complete((await run.read("state.json")).text)


def raised(text: str) -> str:
    state = json.loads(text or "{}")
    return json.dumps({**state, "count": state.get("count", 0) + 1})


def state_edited(_work: Work, past: Past, documents: Any) -> str | None:
    """A state document that is not as the run last wrote it."""
    written = past.last_written.get("state.json")
    return "state.json" if written and documents.facts("state.json").digest != written else None


COUNTED = toy(counted, name="counted", state=lambda _work: ("state.json",))
EDITED = toy(counted, name="edited", state=lambda _work: ("state.json",), edited=state_edited)


# -- ended runs


async def chained(run: Run, _work: Work) -> Ending:
    """Three dispatches; the first that fails ends the run."""
    for name in ("one", "two", "three"):
        report = await run.dispatch(producing(f"{name}.md", name))
        if run.decide(AFTER, report.outcome) is Move.STOP:
            return Ending.failed(f"{name} failed", because=(report.key,))
    return Ending.complete("chain done")


CHAINED = toy(chained, name="chained")
REOPENED = toy(chained, name="reopened", reopens=True)


async def back_again(run: Run, _work: Work, n: int) -> None:
    run.note("back", n=n, at=run.now().year)
    await run.write("resumes.txt", f"{n}\n")


RESUMED = toy(chained, name="resumed", on_resume=back_again)
