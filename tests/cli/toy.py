"""A playbook in one file that needs people, for the tests of the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from interlock.contracts import Artifact, Contract
from interlock.engine import APPROVE, REJECT, Choice, Dispatch, Ending, Option, Options, Run, playbook
from interlock.testing import Agent, Deviation, Invariant, Rehearsal, SimulatedWorld, Simulation


@dataclass(frozen=True)
class ToyInputs:
    word: Annotated[str, Option("A word.", metavar="WORD", argument=True)]
    mode: Annotated[str, Option("How.")] = "ship"


def dispatch_to(agent: str, path: str, step: str = "") -> Dispatch:
    return Dispatch(agent=agent, task=f"Write {path}.", contract=Contract(artifacts=(Artifact(path),)), step=step)


@playbook(
    "toy",
    inputs=ToyInputs,
    first="word",
    key=lambda inputs: inputs.word,
    agents=("planner", "builder", "tester", "worker"),
    state=lambda _inputs: ("state.txt",),
    needs_roles=False,
)
async def toy(run: Run, inputs: ToyInputs) -> Ending:
    """Plan, ask a person, build and test side by side."""
    with run.step("plan"):
        planned = await run.dispatch(dispatch_to("planner", "plan.md"))
    if not planned.ok:
        return Ending.failed(f"planner: {planned.reason}")
    if inputs.mode == "quick":
        run.say("planned")
        return Ending.complete("done quickly")
    if inputs.mode == "question":
        said = await run.gate("colour", "Which colour?", choices=())
        return Ending.complete(f"the colour is {said.choice}")
    if inputs.mode == "side":
        answers = await run.cluster(
            "side",
            {
                "asker": lambda: run.gate("beside", "Go on?"),
                "worker": lambda: run.dispatch(dispatch_to("worker", "worked.txt")),
            },
        )
        return Ending.complete(f"{list(answers)}")
    choices = (APPROVE, REJECT, Choice("later", "the run stops, to be started again"))
    decision = await run.gate("ship", "Ship this plan?", choices=choices, shows=("plan.md",))
    await run.write("state.txt", f"{decision.choice}\n")
    if decision.choice != "approve":
        return Ending.stopped(f"{decision.choice}: {decision.note}")
    run.warn("building takes a while")
    reports = await run.cluster(
        "build",
        {
            "builder": lambda: run.dispatch(dispatch_to("builder", "built.txt")),
            "tester": lambda: run.dispatch(dispatch_to("tester", "tested.txt")),
        },
    )
    if not all(report.ok for report in reports.values()):
        return Ending.degraded("not everything was built", b"half\xff\n")
    return Ending.complete(b"shipped\xff")


def simulate(agent: Agent, options: Options) -> Simulation:
    return Simulation(toy, ToyInputs("a", "quick"), SimulatedWorld({}, agent), options=options)


def rehearsal() -> Rehearsal:
    """Every run of the quick toy whose planner fails at most once; no rule of it can hold for all of them."""

    return Rehearsal(
        lambda agent, options: simulate(agent, options),  # noqa: PLW0108 - a test may put another in its place
        deviations=(Deviation("fails", lambda _request, act: replace(act, code=1)),),
        invariants=(Invariant("all is well", lambda played: None if played.finished.exit_code == 0 else "it is not"),),
        most=1,
    )


def example_files() -> dict[str, str]:
    return {"notes/first.md": "# First\n"}
