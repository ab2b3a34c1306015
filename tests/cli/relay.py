"""A playbook with everything that changes a tree: agents one after the other and side by side, commands, documents.

It asks nobody.  What its documents hold depends on nothing but its inputs, however often its process died.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from interlock.contracts import Artifact, Contract
from interlock.engine import Dispatch, Ending, Option, Run, playbook

MEMBERS = ("anna", "bert", "carl")


@dataclass(frozen=True)
class RelayInputs:
    word: Annotated[str, Option("A word.", metavar="WORD", argument=True)]


def carried(agent: str, path: str, member: str = "") -> Dispatch:
    return Dispatch(
        agent=agent, member=member, task=f"Write {path}.", contract=Contract(artifacts=(Artifact(path),)), step=""
    )


@playbook(
    "relay",
    inputs=RelayInputs,
    first="word",
    key=lambda inputs: inputs.word,
    agents=("scout", "smith", "closer"),
    state=lambda _inputs: ("log.txt",),
    max_parallel=2,
    needs_roles=False,
)
async def relay(run: Run, _inputs: RelayInputs) -> Ending:
    """Look, work side by side, close."""
    with run.step("look"):
        await run.command(["sh", "-c", "ls *.txt > seen.list"], writes=True)
        looked = await run.dispatch(carried("scout", "scouted.txt"))
    await run.write("log.txt", "looked\n")

    async def member(name: str) -> bool:
        return (await run.dispatch(carried("smith", f"{name}.txt", name))).ok

    worked = await run.cluster("work", {name: lambda name=name: member(name) for name in MEMBERS})
    await run.write("log.txt", "looked\nworked\n")
    with run.step("close"):
        await run.command(["sh", "-c", "cat *.txt > all.list"], writes=True)
        closed = await run.dispatch(carried("closer", "closed.txt"))
    if not (looked.ok and all(worked.values()) and closed.ok):
        return Ending.degraded("somebody failed")
    return Ending.complete("carried")
