"""What happened in the run of the demo, told from its journal: which row decided what, and from which inputs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.engine.journal import Line

WIDTH = 96


@dataclass(frozen=True)
class ClusterDecision:
    """One decision of a cluster: the words it was made from, and its result."""

    rule: str
    words: Mapping[str, str]
    result: str

    def __str__(self) -> str:
        given = (f"{judge} {word}" for judge, word in self.words.items())
        return f"{self.rule} -> {self.result}, from: {', '.join(given)}"


@dataclass(frozen=True)
class Sight:
    """One thing that was to be seen: a sentence, and the facts behind it."""

    sentence: str
    facts: tuple[str, ...]

    def render(self, number: int) -> str:
        return "\n".join(
            (filled(self.sentence, f"{number}. ", "   "), *(filled(one, "     ", "       ") for one in self.facts))
        )


def filled(text: str, first: str = "", then: str = "") -> str:
    """The text in lines that fit; paths stay whole, to be copied."""
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
    )


class Account:
    """Reads the journal of a run of the playbook `feature`; `folder` is the workspace as people name it."""

    def __init__(self, lines: Sequence[Line], folder: Path) -> None:
        self._lines = lines
        self._folder = folder

    def told(self) -> tuple[Sight, ...]:
        """Everything worth telling, in the order of the run."""
        return (self.revision(), self.waves(), *self.refusals(), self.replan(), self.review())

    def revision(self) -> Sight:
        return Sight(
            "Four critics judged the design, and a rule decided: anything above Low sends it back. "
            f"It went back {self._often('ct')}.",
            (*self._said("OK", "ct-security")[:1], *map(str, self.decisions("ct_cluster"))),
        )

    def waves(self) -> Sight:
        waves = {number: tasks for line in self._of("waves") for number, tasks in line.data["waves"].items()}
        return Sight(
            f"{sum(map(len, waves.values()))} tasks ran in {len(waves)} waves, each task in a layer of its own, "
            f"taken over in the order of the plan. Never more than {most_at_once(self._lines)} agents worked at once.",
            tuple(f"wave {number}: {', '.join(tasks)}" for number, tasks in waves.items()),
        )

    def refusals(self) -> Iterator[Sight]:
        """One for each agent that wrote where it may not."""
        for line in self._of("scope.violation"):
            yield Sight(
                f"{line.data['by']} also changed {', '.join(line.data['paths'])}, which its task does not name. "
                "That was not taken over but kept as a patch, and the agent was sent back with it.",
                (f"{self._folder / line.data['patch']}",),
            )

    def replan(self) -> Sight:
        return Sight(
            "Each task was done by itself; put together, they failed the test of the whole, which was really run. One "
            f"judge who says no is enough: what was missing was planned anew, {self._often('replan')}. interlock "
            "ran the tests itself as well: before the first agent, and at each verification.",
            (*self._said("REVISE", "v-tests", "v-feature"), *self.proofs(), *map(str, self.decisions("v_cluster"))),
        )

    def proofs(self) -> tuple[str, ...]:
        """How the named commands ended, each time that interlock ran them."""
        ends: dict[str, list[str]] = {}
        for line in self._of("proof"):
            ends.setdefault(line.data["command"], []).append(str(line.data["exit"]))
        return tuple(f"interlock ran {command}: exit {', '.join(codes)}" for command, codes in ends.items())

    def review(self) -> Sight:
        return Sight(
            "Only then the reviewers were asked. Security is judged before anything else; Minor findings do not block.",
            tuple(map(str, self.decisions("r_cluster"))),
        )

    def decisions(self, rule: str) -> tuple[ClusterDecision, ...]:
        return tuple(
            ClusterDecision(rule, _words(line.data["named"]), str(line.data["out"]["result"]))
            for line in self._of("decide")
            if line.data["out"]["rule"] == rule
        )

    def turns(self, loop: str) -> int:
        """How often a loop was taken."""
        return len(self._caps(loop))

    def dispatch(self, member: str, outcome: str) -> str:
        """The key of the first dispatch of a member that came to this outcome."""
        return next(str(line.key) for line in self._ends(outcome, member))

    def _often(self, loop: str) -> str:
        caps = self._caps(loop)
        often = {0: "never", 1: "once", 2: "twice"}.get(len(caps), f"{len(caps)} times")
        return f"{often} (cap: {caps[0]})" if caps else often

    def _caps(self, loop: str) -> list[int]:
        """The cap that was in force at each turn of a loop."""
        return [line.data["cap"] for line in self._of("loop") if line.data["loop"] == loop]

    def _said(self, outcome: str, *members: str) -> tuple[str, ...]:
        """The summary of each answer of these members that came to this outcome."""
        return tuple(f"{line.data['member']}: {line.data['detail']}" for line in self._ends(outcome, *members))

    def _ends(self, outcome: str, *members: str) -> Iterator[Line]:
        for line in self._of("dispatch.end"):
            if line.data["outcome"] == outcome and line.data["member"] in members:
                yield line

    def _of(self, event: str) -> Iterator[Line]:
        return (line for line in self._lines if line.event == event)


def most_at_once(lines: Iterable[Line]) -> int:
    """How many dispatches were under way at the same time, at most."""
    running: set[str | None] = set()
    most = 0
    for line in lines:
        if line.event == "dispatch.start":
            running.add(line.key)
        elif line.event == "dispatch.end":
            running.discard(line.key)
        most = max(most, len(running))
    return most


def _words(named: Mapping[str, Any]) -> dict[str, str]:
    """By judge: the word that a rule of a cluster was given; what else it was given is not a word."""
    return {judge: word for judge, word in named.items() if isinstance(word, str)}
