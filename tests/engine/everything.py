"""A process that uses each verb there is, as playbooks do: documents, a gate, members side by side, judges, git."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from interlock.documents.changing import set_json
from interlock.documents.reading import read_json
from interlock.engine.forms import Given, Judgement, Unusable
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Row, Run
from tests.engine.bench import Done, Nothing

STATE, PAGE = "state.json", "docs/review.json"


def _read(given: Given) -> Judgement | Unusable:
    try:
        return Judgement.model_validate(json.loads(given.outputs[PAGE]))
    except (KeyError, ValueError) as error:
        return Unusable(problems=(f"{PAGE}: {type(error).__name__}",))


def _spell(form: Mapping[str, Any], outputs: Sequence[str]) -> Mapping[str, str]:
    return {PAGE: json.dumps(dict(form))}


PLANNER = Row("planner", "do", Done, outputs=("docs/plan.md",))
CODER = Row("coder", "do", Done, writes=("src/**",), outputs=("docs/code.md",), lost=True)
TESTER = Row("tester", "do", Done, writes=("checks/**", "src/**"), lost=True)
REVIEWER = Row("reviewer", "do", Judgement, judges=True, outputs=(PAGE,), read=_read, spell=_spell)
ROWS = (PLANNER, CODER, TESTER, REVIEWER)


def turn(text: str) -> Any:
    return read_json(text, STATE).data["turn"]


def enough(rounds: int, against: str) -> bool:
    return rounds >= 2 and not against


def counted(**seen: int) -> int:
    return sum(seen.values())


async def everything(run: Run, inputs: Nothing) -> Outcome:
    """Decides about all that a playbook may look at."""

    def look() -> None:
        view, pending = run.view, run.view.pending
        work = int(pending is not None and pending.base != pending.work)
        run.decide(counted, calls=len(view.calls), notes=len(view.notes), gates=len(view.gates), pending=work)

    async def keep(**values: Any) -> bool:
        wrote = await run.change(STATE, lambda text: set_json(text, {(name,): one for name, one in values.items()}))
        return wrote.state == "edited"

    run.watch(STATE, turn)
    await run.read(STATE)
    await run.set_aside("old.txt")
    if await keep(begun=run.now().isoformat(), id=run.new_id()):
        return Outcome.stopped("a person edits the state")
    unsaved = await run.unsaved()
    await run.stash([change.path for change in unsaved if change.path != STATE], "of this run")
    if problem := await run.switch("work", new=True):
        return Outcome.stopped(problem)
    with run.step("plan"):

        async def plan(note: str) -> None:
            await run.dispatch(Call(PLANNER, texts={"words": note}))

        await plan("")
        decided = await run.approve("approve", "Go on?", plan, rounds=1, shows=PLANNER.outputs)
        if decided.choice == "reject":
            return Outcome.stopped("rejected")
    look()
    commands, against = await run.commands(), ""
    await run.baseline(commands)
    async for n in run.loop("round"):
        if await keep(turn=n):
            return Outcome.stopped("a person edits the state")
        calls = {row.agent: partial(run.dispatch, Call(row, texts={"words": against})) for row in (CODER, TESTER)}
        came = await run.together("wave", calls)
        look()
        proved = await run.prove(commands)
        against = "; ".join(one.reason for one in came.values() if not one.ok)
        against = against or "; ".join(one.word for one in proved if one.after is None or not one.after.green)
        if not against:
            judged = await run.dispatch(Call(REVIEWER, criteria=("it works",), proved=tuple(proved)))
            passes = judged.ruling is not None and judged.ruling.passes
            against = "" if passes else judged.reason or "the reviewer"
        if run.decide(enough, rounds=n, against=against):
            break
    if against:
        return Outcome.stopped(against)
    run.note("changed", paths=tuple(one.path for one in await run.changed()))
    delivered = await run.deliver("all", proved[0].tree)
    if delivered.state != "done":
        return Outcome.stopped(delivered.state)
    look()
    if hooks := await run.hooks("Work\n"):
        return Outcome.stopped(f"the hooks: {hooks.problem}")
    committed = await run.commit("Work\n")
    run.say("first")
    run.say("second")
    return Outcome.complete(f"{delivered.state}, {bool(committed.commit)}")


EVERYTHING = Playbook(
    name="everything",
    play=everything,
    inputs=Nothing,
    rows=ROWS,
    caps={"round": 3, "approve": 2},
    headline=lambda inputs: "All of it",
    key=lambda inputs, where: "everything",
    texts={"do": "Do it. {{ words | default('') }}"},
    documents=lambda inputs: (STATE,),
    files={STATE: '{"turn": 0}\n', "old.txt": "old\n"},
)
