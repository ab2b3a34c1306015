"""`my-playbook`: one agent works, the checks run, one reviewer judges; what fails goes back, three times at most."""

from __future__ import annotations

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.forms import Form, Judgement
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Row, Run


class Inputs(Model):
    """What is asked of whoever starts a run: arguments and options of `interlock run my-playbook`."""

    what: str = Field(description="What is to be done.")


class Worked(Form):
    """What the worker may say; its answer is its files."""

    summary: str = ""


WORKER = Row("worker", "work", Worked, writes=("**",))
REVIEWER = Row("reviewer", "review", Judgement, judges=True)


async def play(run: Run, inputs: Inputs) -> Outcome:
    """Touches nothing but `run`: so it survives every crash, and is rehearsed as it is."""
    commands = await run.commands()
    await run.baseline(commands)
    against, asked = "", {"what": inputs.what}
    async for n in run.loop("round"):
        await run.dispatch(Call(WORKER, inputs=asked, texts={"against": against}, attempt=n, request=inputs.what))
        proved = await run.prove(commands)
        if red := run.against(proved):
            against = "\n\n".join(red.values())
            continue
        judged = await run.dispatch(
            Call(REVIEWER, inputs=asked, criteria=("the request",), attempt=n, proved=tuple(proved))
        )
        if judged.ruling is None or not judged.ruling.passes:
            against = "; ".join(judged.ruling.against) if judged.ruling else judged.reason
            continue
        landed = await run.land(commands, proved[0].tree if proved else judged.shown, f"{n}-")
        if landed.state in ("done", "nothing"):
            return Outcome.complete(f"accepted in round {n}")
        if landed.state == "away":
            return Outcome.degraded("another branch is checked out: nothing was delivered", next="interlock apply")
        against = "\n\n".join(landed.against.values())
    return Outcome.stopped(f"not accepted: {against}")


PLAYBOOK = Playbook(
    name="my-playbook",
    play=play,
    inputs=Inputs,
    rows=(WORKER, REVIEWER),
    caps={"round": 3},
    headline=lambda inputs: inputs.what,
    key=lambda inputs, where: inputs.what,
    summary="Work, checks, a review.",
)
