"""A playbook that calls another: one journal, keys below the caller's, nothing wider than the caller has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from interlock.contracts import Artifact, Contract
from interlock.engine import Dispatch, Ending, Playbook, Run, Status
from interlock.engine.run import behind
from interlock.errors import ConfigInvalid, Diverged, DocumentInvalid, EngineFault
from tests.conformance.harness import Death, Engine, Real, Simulated, also, instead, reacting
from tests.engine.toys import CHAINED, GATED, RESUMED, Work, producing, toy
from tests.proofs import long

Start = Callable[..., Engine]
OTHER = Work("other")


def calling(other: Playbook, inputs: Any = OTHER, *, known: dict[str, Any] | None = None, **how: Any) -> Playbook:
    """A playbook that makes one thing, calls another, and makes a last thing; it ends as the called one did."""

    async def body(run: Run, _work: Work) -> Ending:
        with run.step("first"):
            await run.dispatch(producing("first.md", "opener"))
        ending = await run.call(other, inputs, **how)
        await run.dispatch(producing("last.md", "closer"))
        return replace(ending, reason=f"it says: {ending.reason or ending.output}")

    return toy(body, **{"name": "caller", "calls": (other,), **(known or {})})


@pytest.mark.req("OW-06")
def test_the_called_one_has_keys_below_its_callers_in_one_journal(engine: Start) -> None:
    """Its name is their scope; its ending is a value, recorded like any other."""
    played = engine(calling(CHAINED), Work(), {})
    close = played.go()
    assert (close.status, close.reason) == (Status.COMPLETE, "it says: chain done")
    assert played.names == [
        "first/opener#1",
        "call#1",
        *("chained/one#1", "chained/after#1", "chained/two#1", "chained/after#2", "chained/three#1", "chained/after#3"),
        "called#1",
        "closer#1",
    ]
    assert played.agents == ["opener", "one", "two", "three", "closer"]
    assert {line.run for line in played.lines} == {played.lines[0].run}
    (end,) = played.events("called")
    assert (end.data["playbook"], end.data["status"]) == ("chained", "complete")
    assert [line.event for line in played.lines].count("run.end") == 1


@pytest.mark.req("OW-06")
def test_an_ending_that_is_none_of_success_is_the_callers_to_judge(engine: Start) -> None:
    """The run goes on after it."""
    played = engine(calling(CHAINED), Work(), {}, reacting(two=instead(message="ERROR: no")))
    close = played.go()
    assert (close.status, close.reason) == (Status.FAILED, "it says: two failed")
    assert played.agents == ["opener", "one", "two", "closer"]


async def unreadable(run: Run, _work: Work) -> Ending:
    (await run.read("missing.json")).require("What is asked for")
    return Ending.complete()


@pytest.mark.req("OW-06")
def test_what_the_called_one_cannot_read_is_its_ending(engine: Start) -> None:
    """As it would be if it ran by itself; the caller goes on."""
    played = engine(calling(toy(unreadable, name="reader")), Work(), {})
    close = played.go()
    assert close.status is Status.STOPPED
    assert "missing.json" in close.reason
    assert played.agents == ["opener", "closer"]


def test_a_start_that_is_refused_before_anything_happened_stays_refused(engine: Start) -> None:
    """No run comes into being for it."""

    async def body(run: Run, _work: Work) -> Ending:
        return await run.call(toy(unreadable, name="reader"), OTHER)

    played = engine(toy(body), Work(), {})
    with pytest.raises(DocumentInvalid):
        played.go()
    assert played.lines == [] if isinstance(played, Real) else played.world.records.identity is None


@pytest.mark.req("OW-06")
@pytest.mark.parametrize(
    "death",
    [
        Death("call", lost=False),
        Death("dispatch.end", key="chained/two#1"),
        Death("called"),
        *long(
            Death("call"),
            Death("dispatch.start", key="chained/two#1", lost=False),
            Death("dispatch.end", key="chained/three#1", lost=False),
            Death("called", lost=False),
            Death("dispatch.start", key="closer#1", lost=False),
        ),
    ],
    ids=lambda death: f"{death.event} {death.key or ''} {'lost' if death.lost else 'kept'}",
)
def test_a_crash_inside_the_called_one_repeats_nothing(engine: Start, death: Death) -> None:
    """Same keys and files as without it; who was paid is not called again, but for the one that was at work."""
    whole = engine(calling(CHAINED), Work(), {})
    whole.go()
    played = engine(calling(CHAINED), Work(), {})
    played.dies(death)
    assert played.go().status is Status.COMPLETE
    assert played.names == whole.names
    assert played.files == whole.files
    at_work = 1 if death.event.startswith("dispatch") else 0
    assert len(played.agents) <= len(whole.agents) + at_work


@pytest.mark.req("OW-06")
def test_a_gate_of_the_called_one_parks_the_whole_run(engine: Start) -> None:
    """The answer is given to the run, and the called one goes on with it."""
    played = engine(calling(GATED), Work(), {})
    close = played.go()
    assert close.status is Status.WAITING
    assert close.gate is not None
    assert close.gate["key"] == "gated/approval#1"
    played.decide("approve")
    assert played.go().status is Status.COMPLETE
    assert played.agents == ["opener", "planner", "builder", "closer"]
    assert json.loads(played.files["state.json"]) == {"stage": "approved"}


@pytest.mark.req("OW-06")
def test_the_hook_of_a_resume_is_called_for_what_is_still_open(engine: Start) -> None:
    """Not for a call that had not begun, and not for one that is over."""
    played = engine(calling(RESUMED), Work(), {})
    played.dies(Death("dispatch.start", key="first/opener#1", lost=False))
    played.dies(Death("dispatch.start", key="resumed/two#1", lost=False))
    played.dies(Death("dispatch.start", key="closer#1", lost=False))
    assert played.go().status is Status.COMPLETE
    assert [line.data["n"] for line in played.events("back")] == [2]
    assert [line.key for line in played.events("back")] == ["resume-2/resumed/note#1"]


@pytest.mark.req("OW-06")
def test_the_same_one_called_twice_has_keys_of_its_own_each_time(engine: Start) -> None:
    """Also side by side, as members of a cluster."""

    async def body(run: Run, _work: Work) -> Ending:
        one = await run.call(SMALL, Work("a"))
        two = await run.call(SMALL, Work("b"))
        both = await run.cluster("both", {name: (lambda name=name: run.call(SMALL, Work(name))) for name in "cd"})
        return Ending.complete(" ".join(str(ending.output) for ending in (one, two, *both.values())))

    played = engine(toy(body), Work(), {})
    played.dies(Death("dispatch.start", key="both/d/small/maker#1", lost=False))
    assert played.go().output == "a b c d"
    assert [name for name in played.names if "maker" in name] == [
        "small/maker#1",
        "small/maker#2",
        "both/c/small/maker#1",
        "both/d/small/maker#1",
    ]


async def small(run: Run, work: Work) -> Ending:
    await run.dispatch(producing(f"{work.name}.md"))
    return Ending.complete(work.name)


SMALL = toy(small, name="small")


@pytest.mark.req("OW-06")
def test_other_inputs_than_those_recorded_are_noticed(engine: Start) -> None:
    """The key of the call is named."""
    played = engine(calling(CHAINED), Work(), {})
    played.dies(Death("dispatch.start", key="chained/two#1", lost=False))
    played.playbook = calling(CHAINED, Work("another"))
    if played.kind == "simulated":
        played.simulation.playbook = played.playbook
    with pytest.raises(Diverged, match="another") as caught:
        played.go()
    assert caught.value.key == "call#1"


# -- nothing wider than the caller has


async def turning(run: Run, _work: Work) -> Ending:
    turns = [turn async for turn in run.loop("fix")]
    others = [turn async for turn in run.loop("other")]
    return Ending.complete(f"{len(turns)} {len(others)}")


@pytest.mark.req("OW-06")
@pytest.mark.parametrize(
    ("own", "given", "turns"),
    [({}, {}, "3 2"), ({"fix": 1}, {}, "1 2"), ({}, {"fix": 2}, "2 2"), ({"fix": 9}, {"fix": 9, "other": 1}, "3 1")],
)
def test_caps_are_lowered_and_never_raised(engine: Start, own: Any, given: Any, turns: str) -> None:
    """The least of its own, its caller's of the same name, and what the call says."""
    other = toy(turning, name="turning", caps={"fix": 3, "other": 2})
    played = engine(calling(other, caps=given, known={"caps": own}), Work(), {})
    assert played.go().reason == f"it says: {turns}"


async def at_once(run: Run, work: Work) -> Ending:
    names = [f"{work.name}-{number}" for number in range(4)]
    await run.cluster("side", {name: (lambda name=name: run.dispatch(producing(f"{name}.md", name))) for name in names})
    return Ending.complete(str(behind(run).at_once))


@pytest.mark.req("OW-06")
@pytest.mark.parametrize(("callers", "own", "most"), [(2, 4, 2), (4, 3, 3), (4, 1, 1)])
def test_agents_side_by_side_are_no_more_than_either_allows(callers: int, own: int, most: int) -> None:
    """In all calls of the run together, too."""
    other = toy(at_once, name="wide", max_parallel=own)

    async def body(run: Run, _work: Work) -> Ending:
        await run.cluster("both", {name: (lambda name=name: run.call(other, Work(name))) for name in ("a", "b")})
        return Ending.complete()

    played = Simulated(toy(body, max_parallel=callers), Work(), {})
    assert played.go().status is Status.COMPLETE
    assert played.world.most_at_once <= callers
    alone = Simulated(calling(other, known={"max_parallel": callers}), Work(), {})
    assert alone.go().reason == f"it says: {most}"
    assert alone.world.most_at_once == most


CODE = Dispatch("maker", "Change things.", Contract((Artifact("made.md"),)), writes=("src/**", "docs/**"))


async def wide(run: Run, _work: Work) -> Ending:
    report = await run.dispatch(CODE)
    return Ending.complete(f"{report.outcome} {list(report.violations)}")


@pytest.mark.req("OW-06")
def test_scopes_end_where_the_caller_says(engine: Start) -> None:
    """What its agents write beyond is refused as any violation is, at any depth of calls."""
    agent = reacting(maker=also({"src/a.py": "a\n", "docs/b.md": "b\n"}))
    inner = toy(wide, name="wide")
    free = engine(calling(inner), Work(), {}, agent)
    assert free.go().reason == "it says: OK []"
    assert free.files["docs/b.md"] == "b\n"

    async def between(run: Run, work: Work) -> Ending:
        return await run.call(inner, work, writes=("**",))

    middle = toy(between, name="middle", calls=(inner,))
    played = engine(calling(middle, writes=("src/**", "made.md")), Work(), {}, agent)
    assert played.go().reason == "it says: FAIL ['docs/b.md']"
    assert "docs/b.md" not in played.files
    assert "src/a.py" not in played.files


@pytest.mark.req("OW-06")
def test_state_documents_of_both_belong_to_the_engine(engine: Start) -> None:
    """An agent of the called one changes neither its own nor its caller's."""

    async def body(run: Run, _work: Work) -> Ending:
        report = await run.dispatch(replace(CODE, writes=("**",)))
        return Ending.complete(str(sorted(report.foreign)))

    other = toy(body, name="other", state=lambda _work: ("inner.json",))
    agent = reacting(maker=also({"outer.json": "mine\n", "inner.json": "mine\n"}))
    played = engine(calling(other, known={"state": lambda _work: ("outer.json",)}), Work(), {}, agent)
    assert played.go().reason == "it says: ['inner.json', 'outer.json']"
    assert not {"outer.json", "inner.json"} & set(played.files)


# -- without end


@dataclass(frozen=True)
class Count:
    number: int = 0


@pytest.mark.req("OW-06")
def test_a_playbook_that_calls_itself_with_the_same_inputs_is_refused(engine: Start) -> None:
    """The chain is named, whichever of its playbooks it comes back to."""

    async def there(run: Run, work: Work) -> Ending:
        return await run.call(BACK, work)

    async def back(run: Run, work: Work) -> Ending:
        await run.dispatch(producing("made.md"))
        return await run.call(toy(there, name="there"), work)

    BACK = toy(back, name="back")
    played = engine(BACK, Work(), {})
    with pytest.raises(EngineFault, match="without end: back -> there -> back") as caught:
        played.go()
    assert caught.value.remedy is not None
    assert played.agents == ["maker"]


@pytest.mark.req("OW-06")
def test_calls_are_bounded_in_depth(engine: Start) -> None:
    """Whatever the inputs are."""

    async def down(run: Run, count: Count) -> Ending:
        await run.dispatch(producing(f"made-{count.number}.md"))
        return await run.call(DOWN, Count(count.number + 1))

    DOWN = Playbook("down", down, Count, key=lambda count: str(count.number), needs_roles=False)
    played = engine(DOWN, Count(), {})
    with pytest.raises(EngineFault, match="more than 8 deep"):
        played.go()
    assert played.agents == ["maker"] * 8


# -- its own agents and settings


@pytest.mark.req("OW-06")
def test_agents_of_a_declared_call_are_bound_before_the_first_dispatch(tmp_path) -> None:
    """One that cannot be called is said at the start; undeclared, where the call begins."""
    needy = toy(small, name="needy", agents=("maker",), needs_roles=True)
    (tmp_path / "declared").mkdir()
    played = Real(calling(needy), Work(), {}, root=tmp_path / "declared")
    with pytest.raises(ConfigInvalid, match="no role of this name was found for needy"):
        played.go()
    assert played.agents == []
    (tmp_path / "undeclared").mkdir()
    late = Real(calling(needy, known={"calls": ()}), Work(), {}, root=tmp_path / "undeclared")
    assert late.go().status is Status.STOPPED
    assert late.agents == ["opener"]


@pytest.mark.req("OW-06")
def test_the_called_one_has_its_own_roles_settings_and_prompts(tmp_path) -> None:
    """They are looked up by its name, whoever calls it; its documents are seen where the project ignores them."""

    async def asking(run: Run, _work: Work) -> Ending:
        await run.dispatch(Dispatch("maker", "Do it.", Contract((Artifact("ignored/made.md"),))))
        return Ending.complete(f"{type(run.settings).__name__} {run.identity.playbook}")

    other = toy(asking, name="ticket", agents=("maker",), needs_roles=True, documents=lambda _work: ("ignored/**",))
    files = {
        ".interlock/agents/ticket/maker.md": "---\nname: maker\ndescription: d\n---\nWork as ticket's maker does.\n",
        ".gitignore": "ignored/\n",
    }
    played = Real(calling(other), Work(), files, root=tmp_path)
    played.put_under_git()
    assert played.go().reason == "it says: TicketSettings ticket"
    made = next(call for call in played.calls if call.member == "maker")
    assert "Work as ticket's maker does." in made.instructions
    assert made.playbook == "ticket"
    assert played.files["ignored/made.md"]
