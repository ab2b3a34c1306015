"""The roadmap against everything its agents can do: a complex item, and a simple one that depends on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from interlock.engine import (
    ALWAYS,
    STANDARD,
    Act,
    Deviation,
    Invariant,
    Options,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    Status,
)
from interlock.engine.simulation import Agent
from interlock.playbooks.roadmap.decisions import AGENTS, Step
from interlock.playbooks.roadmap.playbook import DEFAULT_FILE, RoadmapInputs, roadmap
from interlock.playbooks.roadmap.report import HEADING, TOKEN
from interlock.playbooks.roadmap.schema import MOST_RETRIES, STATE_FIELDS


def item(identity: str, complexity: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "title": f"Item {identity}",
        "complexity": complexity,
        "priority": 1,
        "status": "ready",
        "passes": False,
        "acceptanceCriteria": ["It works."],
        "verification": ["make test"],
        **more,
    }


FILE: Final = json.dumps([item("1", "complex"), item("2", "simple", dependencies=["1"])], indent=2)


def answers(name: str, steps: Sequence[Step], **changes: Any) -> Deviation:
    """An agent that says something else than the best, at one of these steps."""

    def act(_request: Any, best: Act) -> Act:
        said = json.loads(best.message.removeprefix("```json\n").removesuffix("\n```"))
        return replace(best, message=json.dumps({**said, **changes}))

    return Deviation(name, act, fits=lambda request: request.step in steps)


def writes(name: str, path: str, steps: Sequence[Step]) -> Deviation:
    return Deviation(
        name,
        lambda _request, act: replace(act, files={**act.files, path: "mine"}),
        fits=lambda request: request.step in steps,
    )


FAILING: Final = tuple(one for one in STANDARD if one.name in ("says nothing", "dies"))
"""One of each kind that the engine tells apart: no usable answer, no answer at all."""
DEVIATIONS: Final = (
    *FAILING,
    writes("writes outside", "src/new.py", (Step.RESEARCH, Step.DESIGN, Step.REVIEW)),
    writes("writes the roadmap", DEFAULT_FILE, (Step.IMPLEMENT,)),
    answers("judges negatively", (Step.REVIEW,), verdict="fail", issues=["src/a.py:1: wrong"]),
    answers("passes without evidence", (Step.TESTING,), evidence={}),
    answers("finds drift", (Step.VALIDATION,), verdict="drift_detected", issues=["src/a.py is not in the design"]),
    answers("says something unheard of", (Step.VALIDATION,), verdict="splendid"),
    answers("is not finished", (Step.DESIGN, Step.IMPLEMENT), status="needs_revision", issues=["half done"]),
    answers("is blocked", (Step.RESEARCH, Step.IMPLEMENT), status="blocked", issues=["no access"]),
)
"""What can go wrong at each step, once for each way in which the playbook can tell it apart."""


def rehearsal(file: str = FILE, deviations: Sequence[Deviation] = DEVIATIONS) -> Rehearsal:
    """A roadmap in a workspace with nothing else."""

    def make(agent: Agent, options: Options) -> Simulation:
        return Simulation(roadmap, RoadmapInputs(), SimulatedWorld({DEFAULT_FILE: file}, agent), options=options)

    return Rehearsal(
        make,
        deviations=tuple(deviations),
        invariants=(
            *ALWAYS,
            Invariant("only state fields change", only_state),
            Invariant("the token is printed when all items pass, and only then", token_is_true),
            Invariant("done means that every verdict passed in the last attempt", done_is_proven),
            Invariant("no item has more than three attempts", few_attempts),
            Invariant("nothing follows a blocked item", stops_at_blocked),
            Invariant("the steps keep their order", in_order),
            Invariant("only the five agents are called", only_known_agents),
            Invariant("every brief has the item and the skills line", whole_briefs),
            Invariant("each iteration is reported once", reported_once),
        ),
    )


def _items(played: Played) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(played.simulation.world.tree.files[DEFAULT_FILE])
    return found


def _first(played: Played) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(played.simulation.world.tree.at(0)[DEFAULT_FILE])
    return found


def _notes(played: Played, event: str) -> list[Mapping[str, Any]]:
    return [line.data for line in played.simulation.lines if line.event == event and line.settles]


def only_state(played: Played) -> str | None:
    """The items, their order and everything planned of them are as they were."""
    planned = [
        [{name: value for name, value in one.items() if name not in STATE_FIELDS} for one in items]
        for items in (_first(played), _items(played))
    ]
    return None if planned[0] == planned[1] else "something planned was changed"


def token_is_true(played: Played) -> str | None:
    printed = TOKEN in str(played.close.output) or any(TOKEN in str(text) for text in played.simulation.said)
    passed = all(one["passes"] for one in _items(played))
    if printed != passed:
        return f"printed: {printed}, all pass: {passed}"
    return None if passed == (played.close.status is Status.COMPLETE) else f"the end is {played.close.status}"


def done_is_proven(played: Played) -> str | None:
    for one in _items(played):
        if one["status"] != "done":
            continue
        attempt = one.get("retryCount", 0) + 1
        last = {note["source"]: note for note in _notes(played, "verdict") if note["item"] == one["id"]}
        wanted = {"Testing", "Review", *(["Architect validation"] if one["complexity"] == "complex" else [])}
        proven = {source for source, note in last.items() if note["passed"] and note["attempt"] == attempt}
        if proven != wanted:
            return f"item {one['id']} is done by {sorted(proven)} of attempt {attempt}"
    return None


def few_attempts(played: Played) -> str | None:
    counts = [
        (one["id"], one.get("retryCount", 0)) for one in _items(played) if one.get("retryCount", 0) > MOST_RETRIES
    ]
    starts = {
        line.key for line in played.simulation.lines if line.event == "dispatch.start" and line.agent == "Implement"
    }
    attempts = {re.sub(r"/implement/.*", "", str(key)) for key in starts}
    per_item = max((sum(key.startswith(f"item-{n}/") for key in attempts) for n in (1, 2)), default=0)
    return f"{counts or per_item} attempts" if counts or per_item > 1 + MOST_RETRIES else None


def stops_at_blocked(played: Played) -> str | None:
    if not any(one["status"] == "blocked" for one in _items(played)):
        return None
    later = [note["item"] for note in _notes(played, "item.selected")][1:]
    blocked = [one["id"] for one in _items(played) if one["status"] == "blocked"]
    if blocked == ["1"] and later:
        return "another item was selected behind a blocked one"
    return None if played.close.status in (Status.STOPPED, Status.FAILED) else f"the end is {played.close.status}"


ORDER: Final = {
    "complex": re.compile(r"(research )+(design )*((implement )+((validation )+((testing )+(review )*)?)?)*"),
    "simple": re.compile(r"((implement )+((testing )+(review )*)?)*"),
}


def in_order(played: Played) -> str | None:
    """Research, design, implement, validate, test, review; back to implement only behind a verdict."""
    for number, one in enumerate(_first(played), start=1):
        steps = [note["step"] for note in _steps(played, number)]
        said = "".join(f"{step} " for step in steps)
        if not ORDER[one["complexity"]].fullmatch(said):
            return f"item {one['id']}: {said}"
    return None


def _steps(played: Played, number: int) -> list[Mapping[str, Any]]:
    lines = played.simulation.lines
    return [
        line.data
        for line in lines
        if line.event == "step" and str(line.key).startswith(f"item-{number}/") and line.settles
    ]


def only_known_agents(played: Played) -> str | None:
    strange = {request.agent for request in played.simulation.world.calls} - set(AGENTS)
    return f"called: {', '.join(sorted(strange))}" if strange else None


def whole_briefs(played: Played) -> str | None:
    for request in played.simulation.world.calls:
        for part in (
            '"id": ',
            '"title": ',
            '"complexity": ',
            '"acceptanceCriteria": ',
            '"verification": ',
            ".github/skills/",
        ):
            if part not in request.brief:
                return f"{request.dispatch} lacks {part}"
    return None


def reported_once(played: Played) -> str | None:
    said = [text for text in played.simulation.said if HEADING in str(text)]
    ended = [one for one in _items(played) if one["status"] in ("done", "blocked")]
    return None if len(said) == len(ended) else f"{len(said)} reports for {len(ended)} items"
