"""Whole commands against simulated agents: what the journal says about them."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Any

import pytest

from interlock.documents import Document, DocumentState
from interlock.engine.model import Status
from interlock.engine.options import Options
from interlock.engine.simulation import Act, Crash
from interlock.errors import AgentFailed, ConfigInvalid
from interlock.playbooks import NAMES, load
from interlock.playbooks.router import example_files
from interlock.playbooks.router.documents import CommandFile, TaskEntry, find_task, read_agent_file, read_command_file
from interlock.playbooks.router.settings import RouterSettings

CHECKED = ["stage.1.done", "stage.2.done"]
SESSION = re.compile(r"sess_\d{8}_[0-9a-z]{6}")


@pytest.mark.req("RT-03", "RT-74")
def test_each_stage_states_what_it_established(bench: Any) -> None:
    """The two checkpoints of the checks come before the dispatch, the third after its end, all in one run."""
    bench.play("/implement 259")
    events = [line.event for line in bench.lines]
    order = [*CHECKED, "dispatch.start", "dispatch.end", "stage.3.done", "run.end"]
    assert [event for event in events if event in order] == order
    one, two, three = (bench.events(f"stage.{n}.done")[0] for n in (1, 2, 3))
    assert (one["command"], one["task_number"], one["title"], one["language"], one["depth"]) == (
        "implement",
        259,
        "Implement automation tactics",
        "lean",
        1,
    )
    assert (two["agent"], two["path"]) == (
        "lean-implementation-agent",
        ["orchestrator", "lean-implementation-agent"],
    )
    assert (three["state"], three["status"]) == ("Relayed", "completed")
    assert three["session"] == bench.events("dispatch.start")[0]["session"]
    assert {line.run for line in bench.lines} == {"router-20260104-120000-0000"}


def test_the_two_decisions_are_recorded(bench: Any) -> None:
    """Where the command went and how it ended stand in the journal as decisions, with the row that fired."""
    bench.play("/implement 259")
    said = [line.data["out"] for line in bench.lines if line.event == "decide"]
    decisions = [(one["rule"], one["result"]) for one in said]
    assert decisions == [("route", "lean-implementation-agent"), ("ending", "complete")]


@pytest.mark.req("RT-28", "RT-30")
def test_the_session_is_registered_before_the_agent_starts(bench: Any) -> None:
    """Its id has the form of the format; the record is in the journal, synced, when the agent is called."""
    seen: list[Any] = []

    def agent(request: Any) -> Act:
        assert bench.simulation.medium.content.count(request.session.encode()) >= 1
        seen.append(bench.events("dispatch.start")[0])
        return Act(message="ok")

    bench.play("/plan 196", agent)
    record = seen[0]
    assert SESSION.fullmatch(record["session"])
    assert record["session"].startswith("sess_20260104_")
    assert record["path"] == ["orchestrator", "planner"]
    assert record["deadline"]


@pytest.mark.req("RT-29")
def test_a_session_id_that_is_taken_is_drawn_again(bench: Any) -> None:
    """Two delegations never share an id, also when chance repeats itself."""
    drawn = deque(["aaaaaa", "aaaaaa", "bbbbbb"])
    simulation = bench.simulate("/plan 196")
    world = simulation.world
    draw = world.draw
    world.draw = lambda length: drawn.popleft() if length == 6 and drawn else draw(length)
    assert world.claim_session("sess_20260104_aaaaaa", "another run")
    simulation.go()
    assert bench.requests[0].session == "sess_20260104_bbbbbb"


@pytest.mark.req("RT-32")
@pytest.mark.parametrize(
    "act",
    [
        Act(message="ok"),
        Act(message="no", code=1),
        Act(spawn_error="gone"),
        Act(seconds=999_999),
        Act(files={"src/x": "1"}, message="ok"),
    ],
)
def test_every_session_is_closed(bench: Any, act: Act) -> None:
    """Whatever happens, each start has its end and the run has ended; the journal keeps both."""
    bench.play("/plan 196", act)
    starts, ends = bench.events("dispatch.start"), bench.events("dispatch.end")
    assert len(starts) == len(ends) == 1
    assert ends[0]["session"] == starts[0]["session"]
    assert bench.lines[-1].event == "run.end"
    assert len(bench.events("stage.3.done")) == 1


@pytest.mark.req("RT-56")
@pytest.mark.parametrize(
    ("act", "calls"),
    [
        (Act(message="ok"), 1),
        (Act(message=""), 2),
        (Act(code=1), 1),
        (Act(spawn_error="x"), 1),
        (Act(seconds=1e6), 1),
    ],
)
def test_exactly_one_agent_is_called(bench: Any, act: Act, calls: int) -> None:
    """One dispatch, also where it failed; only who answers nothing that can be used is asked once more."""
    bench.play("/plan 196", act)
    assert {request.agent for request in bench.requests} == {"planner"}
    assert len(bench.events("dispatch.end")) == 1
    assert len(bench.requests) == calls


@pytest.mark.req("EV-05")
def test_an_agent_that_cannot_be_called_is_found_before_the_call(bench: Any) -> None:
    """Only the one that is needed is asked about; exit 3, no agent, no run."""
    simulation = bench.simulate("/plan 196")

    async def unready(agents: Any) -> list[str]:
        assert [*agents] == ["planner"]
        return ["agent x cannot be called: not signed in."]

    simulation.world.unready = unready
    close = simulation.go()
    assert (close.exit_code, bench.requests, simulation.world.records.identity) == (3, [], None)
    assert "not signed in" in close.reason


@pytest.mark.req("RT-57")
def test_nothing_is_said_before_the_agent_returned(bench: Any) -> None:
    """The answer is the only output, and it comes with the end."""

    def agent(_request: Any) -> Act:
        assert bench.simulation.said == []
        return Act(message="The answer", seconds=50)

    close = bench.play("/plan 196", agent)
    assert close.output == b"The answer"
    assert bench.simulation.said == []


@pytest.mark.req("RT-65")
@pytest.mark.parametrize("grace", [0, 10, 30])
def test_the_agent_ends_by_its_deadline_and_grace(bench: Any, grace: float) -> None:
    """The call takes no longer than time limit and grace period together."""
    bench.play("/plan 196", Act(seconds=1e6), partial_grace_s=grace)
    assert bench.events("dispatch.end")[0]["seconds"] == 1800 + grace
    assert bool(bench.events("partial.requested")) is (grace > 0)


def test_a_change_of_the_routers_configuration_is_not_taken_over_and_said(bench: Any) -> None:
    """An agent cannot send the next command elsewhere; its answer still counts."""
    path = ".opencode/command/plan.md"
    close = bench.play("/implement 196", Act(files={path: "---\nagent: evil\n---\n"}, message="Status: completed"))
    assert close.status is Status.COMPLETE
    assert bench.simulation.world.tree.files[path] == example_files()[path].encode()
    assert path in bench.events("warning")[-1]["text"]


def test_remarks_on_the_agent_file_are_warnings(bench: Any) -> None:
    """A file whose name differs from its header is used, with a warning."""
    bench.files[".opencode/agent/subagents/planner.md"] = "---\nname: other\n---\nPlan.\n"
    assert bench.play("/plan 196").exit_code == 0
    assert "not the name of the file" in bench.events("warning")[0]["text"]


@pytest.mark.parametrize("spot", range(1, 60))
def test_a_crash_anywhere_changes_nothing(bench: Any, spot: int) -> None:
    """Killed at any line of the journal, the resumed run ends as the uninterrupted one, with one counted dispatch."""
    simulation = bench.simulate("/implement 259 be brief")
    count = 0

    def tripwire(_event: str) -> None:
        nonlocal count
        count += 1
        if count == spot:
            raise Crash

    try:
        close = simulation.go(tripwire=tripwire)
    except Crash:
        close = simulation.go()
    assert (close.exit_code, close.output) == (0, b"Done.\n\nStatus: completed\n")
    assert len(bench.events("dispatch.end")) == 1
    assert len({start["session"] for start in bench.events("dispatch.start")}) == 1


def test_settings_may_change_between_a_crash_and_its_resume(bench: Any) -> None:
    """Limits are read again at resume and are no part of what is compared."""
    first = True

    def agent(_request: Any) -> Act:
        nonlocal first
        crash, first = first, False
        return Act(message="Status: completed", crash=crash)

    simulation = bench.simulate("/plan 196", agent)
    with pytest.raises(Crash):
        simulation.go()
    changed = RouterSettings(
        max_depth=2,
        cycle_detection=False,
        partial_grace_s=1,
        language_routing=True,
        max_context_bytes=9000,
        timeout_s=5,
    )
    assert simulation.go(options=Options(settings=changed)).exit_code == 0


@pytest.mark.req("RT-68")
def test_the_routers_own_work_is_limited(bench: Any) -> None:
    """A file system that hangs ends the command after 60 s, with exit 5 and no agent."""
    simulation = bench.simulate("/plan 196")
    documents = simulation.world.documents
    read = documents.read

    def slow(path: str) -> Any:
        asyncio.get_running_loop().virtual += 61  # type: ignore[attr-defined]
        return read(path)

    documents.read = slow
    with pytest.raises(AgentFailed) as caught:
        simulation.go()
    assert caught.value.what == "router timed out after 60 s"
    assert caught.value.exit_code == 5
    assert bench.requests == []


def test_the_registry_opens_rooms_by_name() -> None:
    """A playbook is loaded by its name; another name is refused with those there are."""
    assert "router" in NAMES
    assert load("router").name == "router"
    with pytest.raises(ConfigInvalid) as caught:
        load("nothing")
    assert "router" in (caught.value.expected or "")


def test_the_example_files_fit_together() -> None:
    """Every shipped command file is valid, names agents that are shipped, and the list has tasks for both languages."""
    files = example_files()
    shipped = {path.rsplit("/", 1)[1].removesuffix(".md") for path in files if "/subagents/" in path}
    assert shipped == {
        "researcher",
        "planner",
        "implementer",
        "reviser",
        "lean-research-agent",
        "lean-implementation-agent",
    }
    for path, text in files.items():
        document = Document(path, DocumentState.OK, text)
        if path.startswith(".opencode/command/"):
            command = read_command_file(document)
            assert isinstance(command, CommandFile)
            assert command.agent == "orchestrator"
            assert {command.default, command.lean} - {None} <= shipped
        elif "/subagents/" in path:
            name = path.rsplit("/", 1)[1].removesuffix(".md")
            agent = read_agent_file(document, name, "")
            assert getattr(agent, "remarks", None) == ()
            for part in ("## What you are given", "## How you work", "## Out of bounds", "Status: completed"):
                assert part in text
        else:
            languages = {
                entry.language for n in (196, 197, 259) if isinstance(entry := find_task(document, n), TaskEntry)
            }
            assert languages == {"python", "general", "lean"}
