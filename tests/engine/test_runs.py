"""What starts, goes on with, reopens and ends a run; on real folders."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.app import open_runs
from interlock.engine import AfterComplete, Ending, Run, Status, pause
from interlock.engine.folder import known_runs
from interlock.engine.lifecycle import ended_as
from interlock.engine.runs import Call, Quiet
from interlock.errors import AgentFailed, ConfigInvalid, Refused, WorkspaceFailed
from tests.conformance.harness import Death, Real, environment, in_turn, instead, played_runs, reacting, until
from tests.engine.toys import CHAINED, COUNTED, EDITED, GATED, REOPENED, Work, producing, toy

Start = Callable[..., Real]
FAIL = instead(message="ERROR: no")


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def start(played: Real, inputs: Work | None = None, **call):
    """`interlock run`: not a resume of whatever is there, but a start with these inputs."""
    runs = played.runs()
    return asyncio.run(runs.run(played.playbook, inputs or played.inputs, Call(**call)))


@pytest.mark.req("EN-16")
@pytest.mark.parametrize("how", ["crashed", "waiting", "paused", "interrupted"])
def test_a_run_is_open_until_its_journal_has_an_end(real: Start, how: str) -> None:
    """Crashed, waiting, paused and interrupted runs are open and can be found; an ended one is not open."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        if how == "paused" and run.flags.get("bounded"):
            pause(run, "bounded")
        if how == "waiting":
            await run.gate("g", "Go on?")
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete()

    played = real(toy(body), Work(), {})
    if how == "crashed":
        played.dies(Death("dispatch.start", key="two#1", lost=False))
    elif how == "interrupted":
        asyncio.run(interrupted(played))
    else:
        assert played.go(flags={"bounded": True}).exit_code == 4
    assert ended_as(played.lines) is None
    assert [known.identity.key for known in known_runs(played.root)] == ["x"]
    if how == "waiting":
        played.decide("approve")
    assert played.go().status is Status.COMPLETE
    assert ended_as(played.lines) is Status.COMPLETE
    assert played.agents.count("one") == 1


async def interrupted(played: Real) -> None:
    """A process that is interrupted while the second agent works."""
    played.agent = reacting(two=instead(seconds=1000.0))
    work = asyncio.ensure_future(played.runs().run(played.playbook, played.inputs))
    await until(lambda: "two" in played.agents)
    work.cancel()
    await asyncio.wait([work])
    played.agent = reacting()


@pytest.mark.req("EN-16", "CM-22")
@pytest.mark.parametrize("left", [b"", b'{"seq":1,"ts":"2026'])
def test_a_run_that_died_before_its_first_line_was_whole_goes_on(real: Start, left: bytes) -> None:
    """run.json is there and the journal is not, or is torn in its first line: an open run all the same."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("run.start"))
    played.overwrite(left)
    assert played.go().status is Status.COMPLETE
    assert len(known_runs(played.root)) == 1
    assert played.run.folder.verify() == []


@pytest.mark.req("EN-17")
def test_a_start_with_the_inputs_of_an_open_run_goes_on_with_it_and_says_so(real: Start) -> None:
    """No second run, and a remark that names the first."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    finished = start(played)
    assert finished.status is Status.COMPLETE
    assert len(known_runs(played.root)) == 1
    assert any(finished.run_id in remark and "goes on" in remark for remark in played.view.remarks)
    assert played.agents.count("one") == 1


@pytest.mark.req("EN-17")
def test_a_start_with_other_inputs_than_the_open_run_shows_both_commands(real: Start) -> None:
    """Exit 2; nothing is called, nothing is written."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    before, calls = contents(played.root), len(played.calls)
    with pytest.raises(Refused) as caught:
        start(played, Work(size=7))
    run_id = played.run.identity.run_id
    assert caught.value.exit_code == 2
    assert f"interlock resume {run_id}" in str(caught.value.remedy)
    assert f"interlock cancel {run_id}" in str(caught.value.remedy)
    assert len(played.calls) == calls
    assert contents(played.root) == before


@pytest.mark.req("EN-18")
def test_a_start_after_an_ended_run_is_a_new_run_that_continues_it(real: Start) -> None:
    """It begins from the documents, with `continues` in run.json, and replays nothing."""
    played = real(COUNTED, Work(), {}, reacting())
    stopping = real(toy(stopped_after_counting, name="counted", state=COUNTED.state), Work(), {})
    assert start(stopping).status is Status.STOPPED
    first = played.run.identity
    finished = start(played)
    assert finished.status is Status.COMPLETE
    assert played.run.identity.continues == first.run_id
    assert json.loads((played.run.folder.path / "run.json").read_text())["continues"] == first.run_id
    assert json.loads(str(finished.output)) == {"count": 3}


async def stopped_after_counting(run: Run, _work: Work) -> Ending:
    await run.update("state.json", lambda _document: '{"count": 1}')
    return Ending.stopped("blocked")


@pytest.mark.req("EN-18", "CM-23")
def test_a_complete_run_is_said_to_be_complete_and_nothing_changes(real: Start) -> None:
    """Exit 0, the message, the output again; every file is as it was. Resuming it is the same."""
    played = real(CHAINED, Work(), {})
    start(played)
    before, calls = contents(played.root), len(played.calls)
    finished = start(played)
    assert (finished.exit_code, finished.output) == (0, "chain done")
    assert any("already ended: complete" in remark for remark in played.view.remarks)
    resumed = asyncio.run(played.runs().resume("latest"))
    assert (resumed.exit_code, resumed.output) == (0, "chain done")
    assert contents(played.root) == before
    assert len(played.calls) == calls


@pytest.mark.req("EN-18")
def test_a_new_run_of_a_complete_one_is_made_on_request_or_always(real: Start) -> None:
    """feature: exit 2 without --new-run; router: always anew."""
    asked = real(replace(CHAINED, after_complete=AfterComplete.NEW_ON_REQUEST), Work(), {})
    start(asked)
    with pytest.raises(Refused) as caught:
        start(asked)
    assert caught.value.exit_code == 2
    assert "--new-run" in str(caught.value.remedy)
    assert len(known_runs(asked.root)) == 1
    assert start(asked, new_run=True).status is Status.COMPLETE
    always = real(replace(CHAINED, after_complete=AfterComplete.ALWAYS_NEW), Work(), {})
    start(always)
    assert len(known_runs(asked.root)) == 3


@pytest.mark.req("EN-19")
@pytest.mark.parametrize("ending", [Ending.stopped("blocked"), Ending.failed("agents failed")])
def test_resuming_a_stopped_or_failed_run_starts_its_successor(real: Start, ending: Ending) -> None:
    """No key of the old run is replayed."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        return ending

    played = real(toy(body), Work(), {})
    start(played)
    first = played.run.identity.run_id
    finished = asyncio.run(played.runs().resume(first))
    assert finished.run_id != first
    assert played.run.identity.continues == first
    assert played.agents == ["one", "one"]


@pytest.mark.req("EN-20")
def test_a_retry_of_an_ended_run_forgets_what_failed_and_all_after_it(real: Start) -> None:
    """`run.reopened` names the forgotten keys; finished work before stands and is not paid again."""
    played = real(REOPENED, Work(), {}, reacting(two=in_turn(FAIL, None)))
    assert start(played).status is Status.FAILED
    run_id = played.run.identity.run_id
    finished = asyncio.run(played.runs().resume(run_id, Call(retry=True)))
    assert (finished.run_id, finished.status) == (run_id, Status.COMPLETE)
    assert played.agents == ["one", "two", "two", "three"]
    (line,) = played.events("run.reopened")
    assert line.data["forgotten"] == ["after#2", "two#1"]


@pytest.mark.req("EN-20")
def test_a_retry_may_fail_and_be_tried_again(real: Start) -> None:
    """Each reopening forgets only what the last end was decided by."""
    played = real(REOPENED, Work(), {}, reacting(two=in_turn(FAIL, FAIL, None), three=in_turn(FAIL, None)))
    start(played)
    for status in (Status.FAILED, Status.FAILED, Status.COMPLETE):
        assert asyncio.run(played.runs().resume("latest", Call(retry=True))).status is status
    assert played.agents == ["one", "two", "two", "two", "three", "three"]
    assert played.run.folder.verify() == []


@pytest.mark.req("EN-22")
def test_an_edited_state_document_ends_the_open_run_and_a_new_one_starts_from_it(real: Start) -> None:
    """The person's edit counts: `stopped: state document edited`, then a run that continues from the document."""
    played = real(EDITED, Work(), {"state.json": '{"count": 0}'})
    played.dies(Death("dispatch.end", key="count-2/maker#1"))
    first = played.run
    played.edit("state.json", '{"count": 40}')
    close = played.go()
    assert json.loads(str(close.output)) == {"count": 42}
    end = first.folder.lines()[-1]
    assert (end.event, end.data["status"]) == ("run.end", "stopped")
    assert end.data["reason"].startswith("state document edited")
    assert played.run.identity.continues == first.identity.run_id


@pytest.mark.req("EN-22")
def test_an_untouched_state_document_lets_the_open_run_go_on(real: Start) -> None:
    """Nothing was edited: the run is resumed, not replaced."""
    played = real(EDITED, Work(), {"state.json": '{"count": 0}'})
    played.dies(Death("dispatch.end", key="count-2/maker#1"))
    assert json.loads(str(played.go().output)) == {"count": 2}
    assert len(known_runs(played.root)) == 1


@pytest.mark.req("EN-25")
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending.complete(), 0),
        (Ending.degraded("findings"), 1),
        (Ending.stopped("capped"), 3),
        (Ending.failed("no agent did its part"), 5),
        (AgentFailed("agents failed"), 5),
        (ConfigInvalid("bad"), 3),
    ],
    ids=str,
)
def test_how_a_playbook_ends_is_the_exit_code(real: Start, ending: Ending | Exception, code: int) -> None:
    """Judged negative is 3, an agent that failed after its retries is 5."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("a.txt", "a")
        if isinstance(ending, Exception):
            raise ending
        return ending

    played = real(toy(body), Work(), {})
    assert start(played).exit_code == code
    assert played.lines[-1].event == "run.end"


@pytest.mark.req("EN-25")
def test_a_failing_file_system_is_exit_5_and_leaves_the_run_open(real: Start) -> None:
    """What failed is not the run's work: mended, it goes on."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("a.txt", "a")
        await run.write("folder/file.txt", "b")
        return Ending.complete()

    played = real(toy(body), Work(), {"folder": "a file is in the way\n"})
    with pytest.raises(WorkspaceFailed) as caught:
        played.go()
    assert caught.value.exit_code == 5
    played.edit("folder", None)
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("EN-04")
def test_a_run_goes_on_in_another_folder_without_divergence(real: Start, tmp_path: Path) -> None:
    """A run is its folder: moved with its workspace, it resumes; nothing in digests names the place."""
    played = real(GATED, Work(), {})
    played.go()
    other = tmp_path / "elsewhere" / "moved"
    shutil.copytree(played.root, other)
    shutil.rmtree(played.root)
    moved = Real(GATED, Work(), {}, root=other)
    moved.decide("approve")
    assert moved.go().status is Status.COMPLETE
    assert str(other) not in moved.calls[0].brief
    assert moved.calls[0].environment()["INTERLOCK_WORKSPACE"] == str(other)
    assert moved.agents == ["builder"]


@pytest.mark.req("EN-07")
def test_settings_are_read_again_at_resume(real: Start, workspace: Path) -> None:
    """A time limit changed between crash and resume holds for what comes; inputs and caps are those of run.json."""
    (workspace / "interlock.toml").write_text("[agents.two]\ntimeout_s = 11\n")
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    (workspace / "interlock.toml").write_text("[agents.two]\ntimeout_s = 22\n[limits]\nmax_parallel = 1\n")
    assert played.go().status is Status.COMPLETE
    assert [line.data["timeout_s"] for line in played.events("dispatch.start") if line.agent == "two"] == [11, 22]


@pytest.mark.req("EN-07")
def test_caps_are_fixed_when_the_run_begins(real: Start) -> None:
    """A playbook upgraded to more turns does not give an old run more."""

    async def body(run: Run, _work: Work) -> Ending:
        turns = []
        async for turn in run.loop("fix"):
            turns.append(turn)
            await run.dispatch(producing(f"{turn}.md", f"turn-{turn}"))
        return Ending.complete(str(turns))

    played = real(toy(body, caps={"fix": 2}), Work(), {})
    played.dies(Death("dispatch.start", nth=2, lost=False))
    played.playbook = toy(body, caps={"fix": 5})
    assert played.go().output == "[1, 2]"
    assert json.loads((played.run.folder.path / "run.json").read_text())["caps"] == {"fix": 2}


@pytest.mark.req("CM-06", "EN-44")
def test_agents_that_are_not_bound_are_all_named_before_anything_happens(workspace: Path) -> None:
    """Exit 2 at the start with every missing role; no folder, no file."""
    playbook = replace(CHAINED, needs_roles=True, agents=("one", "two", "three"))
    (workspace / ".interlock" / "agents").mkdir(parents=True)
    (workspace / ".interlock" / "agents" / "one.md").write_text("---\nname: one\n---\nYou are one.\n")
    before = contents(workspace)
    runs = played_runs(workspace, playbook, reacting())
    with pytest.raises(ConfigInvalid) as caught:
        asyncio.run(runs.run(playbook, Work()))
    assert caught.value.exit_code == 2
    assert "two" in caught.value.what
    assert "three" in caught.value.what
    assert "Agent one " not in caught.value.what
    assert contents(workspace) == before


@pytest.mark.req("EN-44")
def test_an_unknown_runner_is_exit_2_and_a_missing_program_is_a_failed_dispatch(workspace: Path) -> None:
    """The name must be bound at the start; whether its program can be started shows at the dispatch."""

    with pytest.raises(ConfigInvalid, match="no runner"):
        asyncio.run(open_runs(workspace, Quiet(), environ=environment(workspace)).run(CHAINED, Work()))
    assert list(workspace.iterdir()) == []
    (workspace / "interlock.toml").write_text(
        'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["./no-such-program"]\n'
    )
    finished = asyncio.run(open_runs(workspace, Quiet(), environ=environment(workspace)).run(CHAINED, Work()))
    assert (finished.status, finished.exit_code) == (Status.FAILED, 5)
    (end,) = (line for line in finished.lines if line.event == "dispatch.end")
    assert end.data["reason"] == "spawn_failed"


@pytest.mark.req("CM-32")
def test_a_dry_run_shows_the_next_step_and_its_brief_and_changes_nothing(real: Start) -> None:
    """Before the first start, and in the middle of an open run: the tree is as it was, nobody was called."""
    played = real(GATED, Work(), {"a.txt": "a\n"})
    before = contents(played.root)
    plan = asyncio.run(played.runs().plan(GATED, Work()))
    assert plan.run_id is None
    assert plan.before is not None
    assert (plan.before.key, plan.before.verb) == ("planner#1", "dispatch")
    assert "Write plan.md." in plan.before.detail.brief
    assert contents(played.root) == before
    played.go()
    played.decide("approve")
    before = contents(played.root)
    plan = asyncio.run(played.runs().plan(GATED, Work()))
    assert plan.run_id == played.run.identity.run_id
    assert plan.before is not None
    assert plan.before.key == "builder#1"
    assert contents(played.root) == before
    assert played.agents == ["planner"]
