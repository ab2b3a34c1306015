"""Diagrams come from what playbooks do: steps, gates and endings of rehearsals, and what led from one to the next."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.engine import Dispatch, Ending, Options, Playbook, Run, playbook
from interlock.engine.tracing import Trace
from interlock.testing import Rehearsal, SimulatedWorld, Simulation

ROOT = Path(__file__).parents[2]
ARROW = re.compile(r'    (state "[^"]+" as s\d+|(\[\*\]|s\d+) --> (\[\*\]|s\d+)(: [^:;#]+)?)')


@dataclass(frozen=True)
class Nothing:
    pass


def worth_it(outcome: str) -> str:
    return "try again" if outcome == "FAIL" else "good enough"


def built(*, skips: bool = False) -> Playbook:
    @playbook("toy", inputs=Nothing, key=lambda _inputs: "toy", steps={"make": "make it", "ask": "ask"}, caps={"t": 2})
    async def toy(run: Run, _inputs: Nothing) -> Ending:
        """Make it, twice at most, and ask."""
        async for _turn in run.loop("t"):
            with run.step("make"):
                report = await run.dispatch(Dispatch("maker", "Make it."))
            if run.decide(worth_it, report.outcome) == "good enough":
                break
        if not skips:
            with run.step("ask"):
                await run.gate("ship", "Ship it?", answered="approve")
        return Ending.complete()

    return toy


def drawn(toy: Playbook) -> str:
    rehearsal = Rehearsal(lambda agent, options: Simulation(toy, Nothing(), SimulatedWorld({}, agent), options=options))
    trace = Trace(toy)
    for played in rehearsal.paths(Options(), most=1):
        trace.take(played.simulation.lines)
    return trace.mermaid()


@pytest.mark.req("OW-12")
def test_a_picture_shows_what_happened_and_nothing_else() -> None:
    """Steps by their titles, gates, endings; on the arrows what was decided. What is not reached is not drawn."""
    assert drawn(built()) == (
        "stateDiagram-v2\n"
        '    state "make it" as s0\n'
        '    state "gate ship" as s1\n'
        '    state "run complete" as s2\n'
        "    [*] --> s0\n"
        "    s0 --> s1: good enough\n"
        "    s1 --> s2: approve\n"
        "    s2 --> [*]\n"
    )
    assert "gate" not in drawn(built(skips=True))


@pytest.mark.req("OW-12")
@pytest.mark.long
def test_the_pages_show_what_their_playbooks_do() -> None:
    """The diagram of each page is the one that its rehearsal draws."""
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "diagrams.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_arrow_has_both_ends() -> None:
    """Whatever stands on an arrow, the picture can be read: names of places are not taken from texts."""
    for page in (ROOT / "docs" / "playbooks").glob("*.md"):
        (picture,) = re.findall(r"```mermaid\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        assert all(map(ARROW.fullmatch, picture.splitlines()[1:]))
