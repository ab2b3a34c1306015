"""A playbook as a picture: the steps that its rehearsals went through, and what led from one to the next (OW-12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from interlock.engine.definition import Playbook
from interlock.engine.journal import Line

BEGIN = "[*]"
SHOWN = 4
"""Reasons on one arrow; what is left out is said to be more."""


@dataclass
class Trace:
    """What many runs of a playbook went through, in the order in which it was first seen."""

    playbook: Playbook
    arrows: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)

    def take(self, lines: Iterable[Line]) -> None:
        """Add the journal of one run."""
        for source, target, why in passages(self.playbook.steps, lines):
            self.arrows.setdefault((source, target), {})[why] = None

    @property
    def places(self) -> list[str]:
        """Steps in the order of the playbook, gates and endings as they came."""
        found = dict.fromkeys(place for arrow in self.arrows for place in arrow if place != BEGIN)
        steps = [title for title in self.playbook.steps.values() if title in found]
        return list(dict.fromkeys((*steps, *found)))

    def mermaid(self) -> str:
        """As a Mermaid state diagram."""
        names = {place: f"s{number}" for number, place in enumerate(self.places)} | {BEGIN: BEGIN}
        order = [BEGIN, *self.places]
        arrows = sorted(self.arrows, key=lambda arrow: (order.index(arrow[0]), order.index(arrow[1])))
        text = ["stateDiagram-v2"]
        text += [f'    state "{place}" as {names[place]}' for place in self.places]
        for source, target in arrows:
            why = _reasons(self.arrows[source, target])
            text.append(f"    {names[source]} --> {names[target]}" + (f": {why}" if why else ""))
        inner = {source for source, _target in self.arrows}
        text += [f"    {names[place]} --> {BEGIN}" for place in self.places if place not in inner]
        return "\n".join(text) + "\n"


def passages(steps: Mapping[str, str], lines: Iterable[Line]) -> Iterator[tuple[str, str, str]]:
    """From where to where one run went, and why: what was decided last in the place itself, else on the way, else who
    failed there. Its end is a place too."""
    here, inside, on_the_way, failed = BEGIN, "", "", ""
    for line in lines:
        place = _place(steps, line)
        if place is not None and place != here:
            yield here, place, inside or on_the_way or failed
            here, inside, on_the_way, failed = place, "", "", ""
        if line.event == "dispatch.end":
            failed = "" if line.data["outcome"] == "OK" else f"{line.data['outcome']} of {line.agent}"
        elif place == here or line.event == "gate.decided":
            inside = _decided(line) or inside
        else:
            on_the_way = _decided(line) or on_the_way


def _place(steps: Mapping[str, str], line: Line) -> str | None:
    if line.event == "run.end":
        return f"run {line.data['status']}"
    if line.event == "gate.opened":
        return f"gate {line.data['gate']}"
    if not line.key or line.event == "gate.decided":
        return None
    *parts, verb = re.sub(r"#\d+$", "", line.key).split("/")
    if line.event.startswith(("dispatch.", "command")):  # a step that is one call or one command has its name
        parts.append(verb)
    return next((steps[part] for part in parts if part in steps), None)


def _decided(line: Line) -> str:
    """What a line says about where the run goes from here; only closed words, never an agent's."""
    if line.event == "gate.decided":
        return str(line.data["choice"])
    out = line.data.get("out") if line.event == "decide" else None
    result = out.get("result") if isinstance(out, Mapping) else None
    return result if isinstance(result, str) and len(result) <= 60 else ""


def _reasons(found: Mapping[str, None]) -> str:
    """What stands on an arrow; a failure that some runs went the same way without is none."""
    decided = [why for why in found if why and not ("" in found and " of " in why)]
    said = sorted(re.sub(r"[:;#\n]+ *", ", ", why) for why in decided)
    return ", ".join(said[:SHOWN]) + (", ..." if len(said) > SHOWN else "")
