"""Playbooks that tests plant."""

from __future__ import annotations

SHIP = '''"""A playbook with one agent and one gate."""

from dataclasses import dataclass
from typing import Annotated

from interlock.engine import Dispatch, Ending, Option, Run, playbook


@dataclass(frozen=True)
class Asked:
    what: Annotated[str, Option("What is to be shipped.", metavar="WHAT")]
    times: int = 1
    """How often
    it is done."""


@playbook("ship", inputs=Asked, key=lambda asked: asked.what, agents=("worker",), needs_roles=False)
async def process(run: Run, asked: Asked) -> Ending:
    """Work, then ask a person.

    And more.
    """
    for turn in range(asked.times):
        await run.dispatch(Dispatch("worker", f"Do {asked.what}.", writes=("src/**",), attempt=turn + 1))
    decision = await run.gate("ship", "Ship it?")
    return Ending.complete("shipped") if decision.approved else Ending.stopped("kept")
'''

FLOW = """\
playbook: flow
summary: Ask a person.
inputs:
  what: {help: What it is about., argument: true}
key: "{{ what }}"
steps:
  - ask: fine
    question: Is {{ what }} fine?
  - end: done
    status: complete
    words: fine
"""


def poisoned(mark: object, text: str = SHIP) -> str:
    """The same playbook; whoever executes it leaves a mark."""
    return f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n{text}"
