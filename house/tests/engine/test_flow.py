"""A process that is data runs on the same verbs: steps of YAML, made into a playbook by hand, rehearsed and killed.

No more of a format than these steps need; it shows that nothing in the verbs asks for a playbook that is code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import Discriminator, Field, Tag, TypeAdapter

from interlock.agents.values import Ask as Asked
from interlock.documents.model import Model
from interlock.documents.reading import read_yaml
from interlock.engine.forms import Judgement
from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.run import Call, Outcome, Report, Row, Run
from interlock.engine.simulation import Act, Files
from interlock.engine.tables import Table
from interlock.errors import Status
from tests.engine.bench import Bench, cut_off_anywhere, verdict

FLOW = """\
agents:
  doctor: {task: "Mend {{ what }}. {{ against }}", writes: ["**"]}
  judge: {task: "Judge what was done about {{ what }}.", judges: true}
steps:
  - repeat: mending
    at_most: 2
    steps:
      - agent: doctor
      - agent: judge
    leave: {judge: pass}
    used_up: not mended
  - ask: Deliver it?
  - end: mended
"""


class Said(StrEnum):
    PASS, REVISE = "pass", "revise"


class Turn(StrEnum):
    LEAVE, AGAIN = "leave", "again"


class Agent(Model):
    task: str
    writes: tuple[str, ...] = ()
    judges: bool = False


class AgentStep(Model):
    agent: str


class Repeat(Model):
    repeat: str
    at_most: int
    steps: list[AnyStep]
    leave: dict[str, Said]
    used_up: str


class Ask(Model):
    ask: str


class End(Model):
    end: str


AnyStep = Annotated[
    Annotated[AgentStep, Tag("agent")]
    | Annotated[Repeat, Tag("repeat")]
    | Annotated[Ask, Tag("ask")]
    | Annotated[End, Tag("end")],
    Discriminator(lambda step: next(iter(step)) if isinstance(step, dict) else None),
]


class Flow(Model):
    agents: dict[str, Agent]
    steps: list[AnyStep]

    def play(self, rows: Mapping[str, Row]) -> Any:
        async def play(run: Run, inputs: Inputs) -> Outcome:
            return await _walk(run, inputs, rows, self.steps, {}) or Outcome.stopped("no end")

        return play


class Inputs(Model):
    what: str = Field(description="What is broken.")


async def _walk(
    run: Run, inputs: Inputs, rows: Mapping[str, Row], steps: Sequence[Any], said: dict[str, Report]
) -> Outcome | None:
    """Step by step; an ending, or None behind the last one."""
    for step in steps:
        match step:
            case AgentStep(agent=name):
                against = "; ".join(line for one in said.values() if one.ruling for line in one.ruling.against)
                call = Call(
                    rows[name], inputs={"what": inputs.what}, texts={"against": against}, criteria=(inputs.what,)
                )
                said[name] = await run.dispatch(call)
            case Repeat():
                if (ended := await _repeat(run, inputs, rows, step)) is not None:
                    return ended
            case Ask(ask=question):
                if (await run.gate("ask", question)).choice == "reject":
                    return Outcome.stopped("rejected")
            case End(end=words):
                landed = await run.deliver("end")
                return Outcome.complete(words) if landed.state in ("done", "nothing") else Outcome.stopped(landed.state)
    return None


async def _repeat(run: Run, inputs: Inputs, rows: Mapping[str, Row], step: Repeat) -> Outcome | None:
    ((judge, wanted),) = step.leave.items()
    after = Table(f"after {step.repeat}", {(one,): Turn.LEAVE if one is wanted else Turn.AGAIN for one in Said})
    said: dict[str, Report] = {}
    async for _ in run.loop(step.repeat, cap=step.at_most):
        if (ended := await _walk(run, inputs, rows, step.steps, said)) is not None:
            return ended
        ruling = said[judge].ruling
        if run.decide(after, Said.PASS if ruling and ruling.passes else Said.REVISE) is Turn.LEAVE:
            return None
    return Outcome.stopped(step.used_up)


def compiled(text: str) -> Playbook:
    flow = TypeAdapter(Flow).validate_python(read_yaml(text, "flow.yaml").data)
    rows = {
        name: Row(name, name, Judgement if one.judges else None, judges=one.judges, writes=one.writes)
        for name, one in flow.agents.items()
    }
    return Playbook(
        name="flow",
        play=flow.play(rows),
        inputs=Inputs,
        rows=tuple(rows.values()),
        caps={step.repeat: step.at_most for step in flow.steps if isinstance(step, Repeat)},
        headline=lambda inputs: inputs.what,
        key=lambda inputs, where: inputs.what,
        texts={name: one.task for name, one in flow.agents.items()},
    )


MEND = compiled(FLOW)
WAYS: list[tuple[list[str], list[str], Status, str, str]] = [
    (["accept"], ["approve"], Status.COMPLETE, "mended", "mending-1"),
    (["revise", "accept"], ["approve"], Status.COMPLETE, "mended", "mending-2"),
    (["revise", "revise"], [], Status.STOPPED, "not mended", "mending-2"),
    (["accept"], ["reject"], Status.STOPPED, "rejected", "mending-1"),
]


def _bench(verdicts: Sequence[str], decisions: Sequence[str]) -> Bench:
    """What the judge says in each turn, however often it is asked; what the person says, at any time."""
    bench = Bench(MEND, commands=())

    def judge(ask: Asked, files: Files) -> Act:
        turn = int(ask.env["INTERLOCK_DISPATCH"].partition("/")[0].removeprefix("mending-"))
        met = [{"criterion": "the lamp", "met": verdicts[turn - 1] == "accept"}]
        return verdict(verdicts[turn - 1], criteria=met, no_check="there is none", checks=[])

    bench.cast.acts["judge"] = [judge] * 9
    bench.cast.decisions = [{"choice": choice, "note": "because"} for choice in decisions for _ in range(9)]
    return bench


@pytest.mark.req("PROOF-01", "OWN-02")
@pytest.mark.parametrize(("verdicts", "decisions", "status", "words", "last"), WAYS)
def test_a_process_that_is_data_goes_every_way(
    verdicts: list[str], decisions: list[str], status: Status, words: str, last: str
) -> None:
    view = (bench := _bench(verdicts, decisions)).start(what="the lamp")
    assert (view.status, view.why) == (status, words)
    assert next(key for key in reversed(view.calls) if "judge" in key) == f"{last}/judge#1"
    assert ("criterion not met: the lamp" in bench.briefs("doctor")[-1]) is (len(verdicts) == 2)


@pytest.mark.req("PROOF-01")
def test_every_path_of_it_holds() -> None:
    paths = list(explore(MEND, Inputs(what="the lamp")))
    assert [(dict(path.schedule), why) for path in paths if (why := broken(path))] == []
    assert len(paths) > 100


@pytest.mark.req("RUN-03")
def test_killed_behind_each_line_it_ends_as_undisturbed() -> None:
    def make() -> Bench:
        bench = _bench(["revise", "accept"], ["approve"])
        start = bench.start
        bench.start = lambda **more: start(what="the lamp", **more)  # type: ignore[method-assign]
        return bench

    for line, usual, bench in cut_off_anywhere(make):
        assert bench.last.view.why == usual.last.view.why == "mended", line
        assert bench.world.files == usual.world.files, line
