"""The roadmap against everything its agents can do: a complex item, and a simple one that depends on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from interlock.engine import AgentRequest, Options, Status
from interlock.playbooks.roadmap.decisions import AGENTS, JUDGES, PIPELINES, RETRY_PIPELINES, SOURCE_OF, Step
from interlock.playbooks.roadmap.playbook import DEFAULT_FILE, RoadmapInputs, roadmap
from interlock.playbooks.roadmap.report import HEADING, TOKEN
from interlock.playbooks.roadmap.schema import MOST_RETRIES, STATE_FIELDS, Complexity
from interlock.testing import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    Act,
    Agent,
    Deviation,
    Invariant,
    MemoryDocuments,
    MemoryLayer,
    MemoryTree,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    best,
    writes,
)


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


FILE: Final = json.dumps(
    [item("2", "simple", dependencies=["1"]), item("1", "complex", priority=2)],
    indent=2,
)
"""Neither the order of the file nor priority alone gives the right order."""


def at(*steps: Step) -> Callable[[AgentRequest], bool]:
    return lambda request: request.step in steps


def answers(name: str, steps: Sequence[Step], **changes: Any) -> Deviation:
    """An agent that says something else than the best, at one of these steps."""

    def act(_request: Any, best: Act) -> Act:
        said = json.loads(best.message.removeprefix("```json\n").removesuffix("\n```"))
        return replace(best, message=json.dumps({**said, **changes}))

    return Deviation(name, act, fits=at(*steps))


def working(request: AgentRequest) -> Act:
    """Agents that do their part: Implement leaves a file, the others a good word."""
    act = best(request)
    return replace(act, files={**act.files, "src/work.py": request.dispatch}) if request.step == Step.IMPLEMENT else act


def remarks(request: AgentRequest, act: Act) -> Act:
    """A person writes a remark beside every item of the roadmap, as it is while the agent works."""
    assert isinstance(request.within, MemoryLayer)
    items = _parsed(request.within.facts(DEFAULT_FILE).content or b"")
    noted = json.dumps([{**one, "notes": BY_A_PERSON} for one in items], indent=2)
    return replace(act, people={**act.people, DEFAULT_FILE: noted})


BY_A_PERSON: Final = "by a person"
PEOPLE: Final = (
    *(replace(one, fits=at(Step.IMPLEMENT, Step.TESTING)) for one in STANDARD if one.name == "a person works on"),
    Deviation("a person edits the roadmap", remarks, fits=at(Step.TESTING)),
)
"""What people do meanwhile; it says nothing about the agent's word either."""
FAILING: Final = tuple(one for one in STANDARD if one.name in ("says nothing", "dies", "hangs"))
"""One of each kind that the engine tells apart: no usable answer, no answer at all, none in time."""
WRITING: Final = (
    Deviation("writes outside", writes({"src/new.py": "mine"}), at(Step.RESEARCH, Step.DESIGN, Step.REVIEW)),
    Deviation("writes the roadmap", writes({DEFAULT_FILE: "mine"}), at(Step.IMPLEMENT)),
)
"""What is not taken over; what a judge saw with it says nothing about the tree without it."""
LYING: Final = tuple(
    replace(one, fits=at(Step.TESTING, Step.REVIEW)) if one.name == "passes against its own evidence" else one
    for one in LIARS
)
DEVIATIONS: Final = (
    *FAILING,
    *WRITING,
    *PEOPLE,
    *LYING,
    answers("judges negatively", (Step.REVIEW,), verdict="fail", issues=["src/a.py:1: wrong"]),
    answers("passes without evidence", (Step.TESTING,), evidence={}),
    answers("finds drift", (Step.VALIDATION,), verdict="drift_detected", issues=["src/a.py is not in the design"]),
    answers("says something unheard of", (Step.VALIDATION,), verdict="splendid"),
    answers("is not finished", (Step.DESIGN, Step.IMPLEMENT), status="needs_revision", issues=["half done"]),
    answers("is blocked", (Step.RESEARCH, Step.IMPLEMENT), status="blocked", issues=["no access"]),
)
"""What can go wrong at each step, once for each way in which the playbook can tell it apart."""


class Watched(MemoryTree):
    """Files of which every version of the roadmap is kept."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self.versions = [self.files[DEFAULT_FILE]]

    def put(self, path: str, content: bytes | None) -> None:
        super().put(path, content)
        if path == DEFAULT_FILE and content is not None:
            self.versions.append(content)


TRIES: Final = 2 * (1 + roadmap.retries.transient + roadmap.retries.contract)
"""Calls of one step at most: it may be asked again once, and each time the engine repeats what failed."""


def longest(file: str) -> int:
    """Calls that no run of this roadmap can need, whatever its agents do; each crash of three may cost one more."""
    steps = [Complexity(one["complexity"]) for one in json.loads(file)]
    in_all = sum(len(PIPELINES[one]) + MOST_RETRIES * len(RETRY_PIPELINES[one]) for one in steps)
    return TRIES * in_all + 3


def rehearsal(file: str = FILE, deviations: Sequence[Deviation] = DEVIATIONS) -> Rehearsal:
    """A roadmap in a workspace with nothing else."""

    def make(agent: Agent, options: Options) -> Simulation:
        world = SimulatedWorld({DEFAULT_FILE: file}, agent)
        world.tree = Watched(world.tree.files)
        world.documents = MemoryDocuments(world.tree)
        return Simulation(roadmap, RoadmapInputs(), world, options=options)

    return Rehearsal(
        make,
        deviations=tuple(deviations),
        invariants=(
            *ALWAYS,
            ENDS,
            Invariant("only state fields change", only_state),
            Invariant("at most one item is in progress at any moment", one_at_a_time),
            Invariant("items are taken by priority and id, none before what it depends on", taken_in_turn),
            Invariant("nothing follows a blocked item", stops_at_blocked),
            Invariant("the steps keep their order", in_order),
            Invariant("no item has more than three attempts", few_attempts),
            Invariant("done means that every verdict passed in the last attempt", done_is_proven),
            Invariant(
                "no verdict counts that is negative, unusable or not borne out by its evidence", done_on_good_words
            ),
            Invariant("the token is printed when all items pass, and only then", token_is_true),
            Invariant("only the five agents are called", only_known_agents),
            Invariant("every brief has the item and the skills line", whole_briefs),
            Invariant("each iteration is reported once", reported_once),
            Invariant("an agent that did not do its part blocks no item", weather_blocks_nothing),
        ),
        base=working,
        longest=longest(file),
    )


# -- what is known of a path


Items = list[dict[str, Any]]


@lru_cache(maxsize=256)
def _parsed(content: bytes) -> Items:
    found: Items = json.loads(content)
    return found


def _versions(played: Played) -> Iterator[Items]:
    """The roadmap as it stood, version by version."""
    tree = played.simulation.world.tree
    assert isinstance(tree, Watched)
    return (_parsed(content) for content in tree.versions if content.startswith(b"["))


def _first(played: Played) -> Items:
    return next(_versions(played))


def _items(played: Played) -> Items:
    return _parsed(played.files[DEFAULT_FILE])


def _notes(played: Played, *events: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(line.event, line.data) for line in played.lines if line.event in events and line.settles]


def _item_of(played: Played) -> Mapping[str, str]:
    """From the turn of the loop, as keys begin, to the item that was worked on in it."""
    lines = played.lines
    return {_turn(line.key): str(line.data["item"]) for line in lines if line.event == "item.selected"}


def _turn(key: object) -> str:
    return str(key).partition("/")[0]


def _wanted(one: Mapping[str, Any]) -> list[Step]:
    """The steps whose verdicts an item needs."""
    return [step for step in PIPELINES[Complexity(one["complexity"])] if step in JUDGES]


# -- what must hold


def only_state(played: Played) -> str | None:
    """The items, their order and everything planned of them are as they were, or as a person left them."""
    people = played.people.get(DEFAULT_FILE)
    planned = [
        [{name: value for name, value in one.items() if name not in STATE_FIELDS} for one in items]
        for items in (_parsed(str(people).encode()) if people else _first(played), _items(played))
    ]
    return None if planned[0] == planned[1] else "something planned was changed"


def one_at_a_time(played: Played) -> str | None:
    for items in _versions(played):
        begun = [one["id"] for one in items if one["status"] == "in_progress"]
        if len(begun) > 1:
            return f"in progress: {', '.join(begun)}"
    return None


def taken_in_turn(played: Played) -> str | None:
    """Each time the first by priority and id of those that are not over and wait on nothing."""
    done: set[str] = set()
    over: set[str] = set()
    for event, note in _notes(played, "item.selected", "item.done", "item.blocked"):
        if event != "item.selected":
            over.add(note["item"])
            done |= {note["item"]} if event == "item.done" else set()
            continue
        free = [one for one in _first(played) if one["id"] not in over and done.issuperset(one.get("dependencies", ()))]
        turn = min(((one["priority"], len(one["id"]), one["id"]) for one in free), default=(0, 0, "none"))[-1]
        if note["item"] != turn:
            return f"item {note['item']} was selected, and item {turn} has its turn"
    return None


def stops_at_blocked(played: Played) -> str | None:
    events = [event for event, _note in _notes(played, "item.selected", "item.blocked")]
    if "item.blocked" not in events:
        return None
    if events[-1] != "item.blocked":
        return "another item was selected behind a blocked one"
    return None if played.finished.status in (Status.STOPPED, Status.FAILED) else f"the end is {played.finished.status}"


ORDER: Final = {
    "complex": re.compile(r"(research )+(design )*((implement )+((validation )+((testing )+(review )*)?)?)*"),
    "simple": re.compile(r"((implement )+((testing )+(review )*)?)*"),
}


def in_order(played: Played) -> str | None:
    """Research, design, implement, validate, test, review; back to implement only behind a verdict."""
    complexity = {one["id"]: one["complexity"] for one in _first(played)}
    for turn, identity in _item_of(played).items():
        lines = [line for line in played.lines if line.event == "step" and line.settles]
        said = "".join(f"{line.data['step']} " for line in lines if _turn(line.key) == turn)
        if not ORDER[complexity[identity]].fullmatch(said):
            return f"item {identity}: {said}"
    return None


def few_attempts(played: Played) -> str | None:
    """As the file counts them, and as they were really begun."""
    starts = [line for line in played.lines if line.event == "dispatch.start" and line.agent == "Implement"]
    begun = {re.sub(r"/implement/.*", "", str(line.key)) for line in starts}
    for one in _items(played):
        turns = [turn for turn, identity in _item_of(played).items() if identity == one["id"]]
        attempts = max(1 + one.get("retryCount", 0), sum(_turn(key) in turns for key in begun))
        if attempts > 1 + MOST_RETRIES:
            return f"item {one['id']} had {attempts} attempts"
    return None


def done_is_proven(played: Played) -> str | None:
    """By the rulings that were recorded."""
    for one in _items(played):
        if one["status"] != "done":
            continue
        attempt = one.get("retryCount", 0) + 1
        last = {note["source"]: note for _event, note in _notes(played, "verdict") if note["item"] == one["id"]}
        proven = {source for source, note in last.items() if note["passed"] and note["attempt"] == attempt}
        if proven != {SOURCE_OF[step] for step in _wanted(one)}:
            return f"item {one['id']} is done by {sorted(proven)} of attempt {attempt}"
    return None


def done_on_good_words(played: Played) -> str | None:
    """By what the judges really did: whose last word was no good one must not have let the item pass."""
    calls, turns = played.calls, _item_of(played)
    harmless = {None, *(one.name for one in PEOPLE)}
    for one in _items(played):
        for step in _wanted(one) if one["status"] == "done" else ():
            asked = [
                n for n, call in enumerate(calls) if call.step == step and turns[_turn(call.dispatch)] == one["id"]
            ]
            if asked and (fault := played.schedule.get(asked[-1])) not in harmless:
                return f"item {one['id']} is done, and {SOURCE_OF[step]} {fault}"
    return None


def token_is_true(played: Played) -> str | None:
    printed = TOKEN in str(played.finished.output) or any(TOKEN in str(text) for text in played.simulation.said)
    passed = all(one["passes"] for one in _items(played))
    if printed != passed:
        return f"printed: {printed}, all pass: {passed}"
    return None if passed == (played.finished.status is Status.COMPLETE) else f"the end is {played.finished.status}"


def only_known_agents(played: Played) -> str | None:
    strange = {request.agent for request in played.calls} - set(AGENTS)
    return f"called: {', '.join(sorted(strange))}" if strange else None


def whole_briefs(played: Played) -> str | None:
    for request in played.calls:
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


def weather_blocks_nothing(played: Played) -> str | None:
    """Whose last call failed, decided nothing: the item is in progress, the run open, and the process ended with it."""
    ends = played.told("dispatch.end")
    failed = bool(ends) and ends[-1]["outcome"] == "FAIL"
    closed = any(line.event == "run.end" for line in played.lines)
    begun = [one["id"] for one in _items(played) if one["status"] == "in_progress"]
    if failed != (played.finished.status is Status.FAILED):
        return f"the last call failed: {failed}; the end is {played.finished.status}"
    return f"closed: {closed}, in progress: {begun}" if failed and (closed or len(begun) != 1) else None
