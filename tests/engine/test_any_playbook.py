"""Properties of whatever playbook: replay equals the first run, and no decision hangs on the clock."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import CommandResult, Dispatch, Ending, Quoted, Run, Status, dispatch_facts, scopes
from interlock.engine.simulation import Crash
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.engine.toys import NESTED, NESTED_FILES, Playbook, Work, producing, toy
from tests.proofs import examples

VERBS = (
    "read",
    "write",
    "list",
    "note",
    "now",
    "new_id",
    "say",
    "decide",
    "dispatch",
    "command",
    "telemetry",
    "update",
)


@dataclass(frozen=True)
class Node:
    """A piece of a generated playbook; `number` makes its paths its own."""

    kind: str
    number: int
    inside: tuple[tuple[Node, ...], ...] = ()
    turns: int = 1


@st.composite
def playbooks(draw: st.DrawFn) -> tuple[Node, ...]:
    """Trees of steps, loops and clusters over all verbs, at most three levels deep."""
    count = 0

    def block(depth: int) -> tuple[Node, ...]:
        nonlocal count
        nodes = []
        for _ in range(draw(st.integers(1, 3))):
            count += 1
            number = count
            kinds = VERBS if depth == 0 else (*VERBS, "step", "loop", "call", "cluster", "cluster")
            kind = draw(st.sampled_from(kinds))
            match kind:
                case "step" | "call":
                    nodes.append(Node(kind, number, (block(depth - 1),)))
                case "loop":
                    nodes.append(Node(kind, number, (block(depth - 1),), draw(st.integers(1, 2))))
                case "cluster":
                    nodes.append(Node(kind, number, tuple(block(depth - 1) for _ in range(draw(st.integers(1, 3))))))
                case _:
                    nodes.append(Node(kind, number))
        return tuple(nodes)

    return block(3)


@dataclass
class Player:
    """Plays a tree and keeps what every verb returned, by its place."""

    seen: dict[str, Any] = field(default_factory=dict)

    async def play(self, run: Run, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node.kind:
                case "step":
                    with run.step(f"step-{node.number}"):
                        await self.play(run, node.inside[0])
                case "call":
                    other = toy(lambda inner, _work, nodes=node.inside[0]: self.called(inner, nodes), name="other")
                    ending = await run.call(other, Work(str(node.number)))
                    self.seen[f"{scopes.here().path}:{node.number}"] = ending
                case "loop":
                    async for turn in run.loop(f"loop-{node.number}", 3):
                        await self.play(run, node.inside[0])
                        if turn == node.turns:
                            break
                case "cluster":
                    members = {
                        f"m{place}": (lambda inner=inner: self.play(run, inner))
                        for place, inner in enumerate(node.inside)
                    }
                    await run.cluster(f"cluster-{node.number}", members)
                case verb:
                    self.seen[f"{scopes.here().path}:{node.number}"] = await use(run, verb, node.number)

    async def called(self, run: Run, nodes: tuple[Node, ...]) -> Ending:
        await self.play(run, nodes)
        return Ending.complete(run.new_id("called-"))


async def use(run: Run, verb: str, number: int) -> Any:
    match verb:
        case "read":
            return (await run.read("a.txt")).text
        case "write":
            return (await run.write(f"written/{number}.txt", f"{number}\n" * 2000)).digest
        case "list":
            return await run.list(f"out-{number}")
        case "note":
            return run.note("noted", number=number)
        case "now":
            return run.now().isoformat()
        case "new_id":
            return run.new_id("id-")
        case "say":
            return run.say(f"{number}\n")
        case "decide":
            return run.decide(max, number, 5)
        case "dispatch":
            report = await run.dispatch(producing(f"out-{number}/made.md", f"agent-{number}"))
            return report.outcome, report.session, report.text(f"out-{number}/made.md")
        case "command":
            return (await run.command(("make", str(number)))).stdout
        case "telemetry":
            return None if in_company(run) else [row["key"] for row in dispatch_facts(run)]
        case "update":
            return (await run.update(f"state-{number}.txt", lambda document: document.text + "+")).text
    raise AssertionError(verb)


def in_company(run: Run) -> bool:
    """Side by side with others, what is finished so far depends on who was faster."""
    dispatch_facts(run)
    return "cluster-" in scopes.here().path


def simulated(nodes: tuple[Node, ...], seen: dict[str, Any]) -> Simulation:
    async def body(run: Run, _work: Work) -> Ending:
        await Player(seen).play(run, nodes)
        return Ending.complete("done")

    world = SimulatedWorld(
        {"a.txt": "hello\n"}, at_own_pace, command=lambda call: CommandResult(0, stdout=f"made {call.argv[1]}\n")
    )
    return Simulation(toy(body, max_parallel=3), Work(), world)


def at_own_pace(request) -> Act:
    """The best act, in a time that differs from agent to agent."""
    return replace(best(request), seconds=1.0 + zlib.crc32(request.dispatch.encode()) % 7)


def dying(simulation: Simulation, at: int, *, lose: bool) -> Callable[[str], None]:
    """Dies at the n-th point; if it lies before a sync, the line itself may be lost."""
    count = 0

    def trip(point: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            if point == "before-sync" and lose:
                content = simulation.medium.content
                del content[content.rfind(b"\n", 0, -1) + 1 :]
            raise Crash

    return trip


@pytest.mark.req("CM-22", "EN-01", "EN-02", "EN-05", "EN-06", "CM-36", "OW-06")
@examples(4)
@given(playbooks(), st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=3))
def test_a_run_that_died_anywhere_ends_as_if_it_had_not(nodes, deaths) -> None:
    """Same keys, same files, same output; what a verb once returned it returns again, ids and times included."""
    whole = simulated(nodes, {})
    assert whole.go().status is Status.COMPLETE
    earlier: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    played = simulated(nodes, seen)
    for at, lose in deaths:
        seen.clear()
        try:
            played.go(tripwire=dying(played, at, lose=lose))
            break
        except Crash:
            assert agree(earlier, seen)
            # Before its first effect a run promises nothing: what it held in memory may be lost with it.
            if effects(played):
                earlier |= seen
            else:
                earlier.clear()
                played.said.clear()
            if not played.medium.content:
                played.world.records.identity = None
    else:
        seen.clear()
        assert played.go().status is Status.COMPLETE
    assert agree(earlier, seen)
    assert sorted(keys(played)) == sorted(keys(whole))
    assert played.world.tree.files == whole.world.tree.files
    assert not Counter(played.said) - Counter(whole.said)  # never said twice


def effects(simulation: Simulation) -> bool:
    return any(mark in simulation.medium.content for mark in (b".intent", b"dispatch.start"))


def agree(earlier: dict[str, Any], now: dict[str, Any]) -> bool:
    return all(earlier[key] == value for key, value in now.items() if key in earlier)


def keys(simulation: Simulation) -> list[str]:
    found = [str(line.key) for line in simulation.lines if line.settles]
    assert len(found) == len(set(found))
    return found


@pytest.mark.req("EN-05", "CM-22")
@examples(2)
@given(playbooks())
def test_a_complete_replay_touches_nothing(nodes) -> None:
    """With every outcome recorded, calling the playbook again calls no agent, runs nothing and writes nothing."""
    first, second = {}, {}
    played = simulated(nodes, first)
    played.go()
    content = played.medium.content
    if not content:
        return
    del content[content.rfind(b"\n", 0, -1) + 1 :]  # all but run.end
    calls, commands, files = len(played.world.calls), len(played.world.commands), dict(played.world.tree.files)
    said = list(played.said)
    again = simulated(nodes, second)
    again.world, again.medium, again.said = played.world, played.medium, played.said
    assert again.go().status is Status.COMPLETE
    assert second == first
    assert (len(played.world.calls), len(played.world.commands)) == (calls, commands)
    assert played.world.tree.files == files
    assert played.said == said


class Clocked(SimulatedWorld):
    """A world whose clock says whatever it is told to say."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(NESTED_FILES, at_own_pace)
        self._clock = clock

    def now(self) -> datetime:
        return self._clock()


def standing_still() -> datetime:
    return datetime(2026, 1, 4, 12, 0, tzinfo=UTC)


def running_backwards() -> Callable[[], datetime]:
    moments = (datetime(2031, 5, 5, tzinfo=UTC) - timedelta(hours=7 * n) for n in range(10_000))
    return lambda: next(moments)


@pytest.mark.req("CM-35")
@pytest.mark.parametrize("clock", [running_backwards(), lambda: datetime(1999, 12, 31, 23, 59, tzinfo=UTC)])
def test_no_decision_depends_on_the_clock(clock) -> None:
    """With a clock that stands, leaps or runs backwards: equal keys, files, outcomes and briefs."""

    def played(world: Clocked) -> tuple[Any, ...]:
        simulation = Simulation(NESTED, Work(size=2), world)
        assert simulation.go().status is Status.COMPLETE
        briefs = {call.dispatch: call.brief.replace(call.session, "S") for call in world.calls}
        outcomes = {line.key: line.data["outcome"] for line in simulation.lines if line.event == "dispatch.end"}
        return keys(simulation), world.tree.files, outcomes, briefs

    assert played(Clocked(standing_still)) == played(Clocked(clock))


@pytest.mark.req("CM-35", "EN-05")
def test_the_time_a_playbook_sees_is_recorded() -> None:
    """After a crash `now` is what it was, although the clock went on."""

    async def body(run: Run, _work: Work) -> Ending:
        moment = run.now()
        await run.dispatch(Dispatch("teller", "Tell.", context=(Quoted("now", moment.isoformat()),)))
        return Ending.complete(moment.isoformat())

    playbook: Playbook = toy(body)
    simulation = Simulation(playbook, Work(), Clocked(running_backwards()))
    with pytest.raises(Crash):
        simulation.go(tripwire=dying(simulation, 3, lose=False))
    first = next(line for line in simulation.lines if line.event == "now").data["out"]
    assert simulation.go().output == first
