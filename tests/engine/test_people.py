"""People, signals and other processes beside a run: locks, inbox, cancel, interrupt; on real folders."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from interlock.agents.runner import Usage
from interlock.app import open_runs
from interlock.engine import Delegation, Dispatch, Ending, Quoted, Run, Status
from interlock.engine.folder import known_runs
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import ended_as
from interlock.engine.locks import Lock, run_lock
from interlock.engine.people import cancel, decide, reopen_gate
from interlock.engine.runs import Call, Quiet, Runs
from interlock.errors import Locked, Refused
from tests.conformance.harness import (
    Death,
    Real,
    best,
    environment,
    instead,
    played_runs,
    reacting,
    until,
)
from tests.engine.toys import CHAINED, GATED, Work, producing, single, toy

Start = Callable[..., Real]
ROOT = Path(__file__).parents[2]


def command_runs(root: Path, playbook, script: str, **more) -> Runs:
    """The runs of a workspace with one playbook of the test and the real command runner."""
    (root / "agent.sh").write_text(script)
    (root / "interlock.toml").write_text(
        'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n'
    )
    return open_runs(root, Quiet(), playbooks=(playbook,), **{"environ": environment(root), **more})


def marked(run_id: str) -> list[int]:
    """Living processes that were started for a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("INTERLOCK_MARKER", "").startswith(run_id) and process.status() != "zombie":
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


# -- one run per key


@pytest.mark.req("CM-01")
def test_a_second_start_of_the_same_key_is_refused_while_the_first_works(real: Start) -> None:
    """Exit 6, with the holder's process, host and start."""
    refused: list[Locked] = []

    async def both() -> None:
        async def second() -> None:
            await until(lambda: played.agents)
            for attempt in (played.runs().run(CHAINED, Work()), played.runs().resume("latest")):
                with pytest.raises(Locked) as caught:
                    await attempt
                refused.append(caught.value)

        await asyncio.gather(played.runs().run(CHAINED, Work()), second())

    played = real(CHAINED, Work(), {}, reacting(one=instead(seconds=60.0)))
    asyncio.run(both())
    assert [error.exit_code for error in refused] == [6, 6]
    holder = refused[0].holder
    assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
    assert holder["started"]
    assert played.agents == ["one", "two", "three"]


@pytest.mark.req("CM-01")
def test_the_lock_of_a_dead_process_is_taken_over_with_a_warning(real: Start) -> None:
    """The note of a process that is gone does not stop the resume; the journal and the view say so."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    leave_note(played, host=socket.gethostname())
    assert played.go().status is Status.COMPLETE
    (line,) = played.events("lock.taken_over")
    assert "process 999999" in line.data["from"]
    assert any("dead process" in remark for remark in played.view.remarks)


@pytest.mark.req("CM-01")
def test_a_first_start_takes_over_a_dead_lock_too(real: Start) -> None:
    """A process that died before its run came into being leaves only a note."""
    played = real(CHAINED, Work(), {})
    leave_note(played, host=socket.gethostname())
    assert played.go().status is Status.COMPLETE
    (line,) = played.events("lock.taken_over")
    assert "process 999999" in line.data["from"]


@pytest.mark.req("EN-39")
def test_the_lock_of_another_host_needs_a_persons_word(real: Start) -> None:
    """It proves nothing here: exit 6 without --take-over."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    leave_note(played, host="another-host")
    with pytest.raises(Locked) as caught:
        played.go()
    assert "--take-over" in str(caught.value.remedy)
    assert played.go(take_over=True).status is Status.COMPLETE


def leave_note(played: Real, *, host: str, name: str | None = None) -> None:
    folder = played.root / ".interlock" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    name = name or run_lock(folder.parent, played.playbook.name, "x").name
    note = {"pid": 999999, "host": host, "started": "2026-01-04T12:00:00+00:00", "run": "toy-1"}
    (folder / f"{name}.json").write_text(json.dumps(note))


@pytest.mark.req("CM-01")
def test_a_lock_can_be_held_once_and_is_free_again_after_its_release(tmp_path: Path) -> None:
    """The same name in the same folder is the same lock, also for a second object of this process."""
    first, second = Lock(tmp_path / "locks", "a"), Lock(tmp_path / "locks", "a")
    assert first.is_free()
    assert first.acquire("run-1") is None
    assert not second.is_free()
    with pytest.raises(Locked, match="run-1"):
        second.acquire("run-2")
    first.release()
    assert second.acquire("run-2") is None
    second.release()
    assert second.holder() is None


@pytest.mark.req("EN-39", "LY-30")
def test_two_runs_in_one_tree_work_side_by_side_and_leave_each_others_work_alone(workspace: Path) -> None:
    """Each agent waits until the other one works too; both documents are there, and nobody strayed."""
    working: set[str] = set()
    both_work = threading.Event()

    def agent(request):
        working.add(request.run_id)
        if len(working) == 2:
            both_work.set()
        return best(request)

    async def body(run: Run, work: Work) -> Ending:
        report = await run.dispatch(producing(f"{work.name}.md"))
        await until(both_work.is_set)
        again = await run.dispatch(producing(f"{work.name}-2.md"))
        return Ending.complete(f"{report.outcome} {again.outcome}")

    async def both() -> list[str]:
        playbook = toy(body)
        processes = [played_runs(workspace, playbook, agent) for _ in range(2)]
        ends = await asyncio.gather(*(app.run(playbook, Work(name)) for app, name in zip(processes, "ab", strict=True)))
        return [str(end.output) for end in ends]

    assert asyncio.run(both()) == ["OK OK", "OK OK"]
    assert {"a.md", "a-2.md", "b.md", "b-2.md"} <= {path.name for path in workspace.iterdir()}


# -- decisions

APPROVERS = """
import asyncio, os, sys, time
from pathlib import Path
from interlock.engine.people import decide
from tests.conformance.harness import best, played_runs
from tests.engine.toys import GATED

root, ready = Path(sys.argv[1]), Path(sys.argv[2])
children = []
for number in range(20):
    pid = os.fork()
    if pid == 0:
        while not ready.exists():
            time.sleep(0.001)
        try:
            asyncio.run(decide(played_runs(root, GATED, best), "latest", "approve", who=f"person-{number}"))
            os._exit(0)
        except Exception as error:
            os._exit(7 if type(error).__name__ == "Refused" else 1)
    children.append(pid)
ready.touch()
print(sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""


@pytest.mark.req("EN-15", "CM-19")
def test_of_twenty_people_who_decide_at_once_exactly_one_counts(real: Start, tmp_path: Path) -> None:
    """Separate processes, one gate: the chain stays whole, one decision is recorded, the run goes on by it."""
    played = real(GATED, Work(), {})
    assert played.go().status is Status.WAITING
    done = subprocess.run(
        [sys.executable, "-c", APPROVERS, str(played.root), str(tmp_path / "ready")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    codes = json.loads(done.stdout)
    assert set(codes) <= {0, 7}
    assert played.run.folder.verify() == []
    (decided,) = played.events("gate.decided")
    assert decided.data["who"].startswith("person-")
    assert played.go().status is Status.COMPLETE
    assert len(played.events("gate.decided")) == 1
    assert [line.seq for line in played.lines] == list(range(1, len(played.lines) + 1))
    assert played.agents == ["planner", "builder"]


@pytest.mark.req("EN-15")
def test_a_decision_sent_while_the_run_works_is_journaled_by_its_process(real: Start) -> None:
    """The lock is taken: the decision goes to the inbox, and the live process goes on by it."""

    async def body(run: Run, _work: Work) -> Ending:
        async def asking() -> str:
            return (await run.gate("g", "Go on?")).choice

        async def working() -> None:
            await run.dispatch(producing("a.md", "slow"))
            with run.step("after"):
                await run.dispatch(producing("b.md", "slow"))

        found = await run.cluster("side", {"ask": asking, "work": working})
        return Ending.complete(str(found["ask"]))

    async def both() -> str:
        runs = played.runs()
        work = asyncio.ensure_future(runs.run(played.playbook, Work()))
        await until(lambda: known_runs(played.root) and played.events("gate.opened"))
        await decide(played.runs(), "latest", "approve", who="ann")
        return str((await work).output)

    played = real(toy(body), Work(), {}, reacting(slow=instead(seconds=60.0)))
    assert asyncio.run(both()) == "approve"
    assert played.agents == ["slow", "slow"]
    (line,) = played.events("gate.decided")
    assert line.data["who"] == "ann"
    assert played.run.folder.verify() == []


@pytest.mark.req("EN-31")
def test_an_approval_brings_the_state_document_up_to_date_at_once(real: Start) -> None:
    """No resume is needed for the document to say what was decided; no agent was called for it."""
    played = real(GATED, Work(), {})
    played.go()
    assert played.files["state.json"] == '{"stage": "waiting"}'
    played.decide("approve")
    assert played.files["state.json"] == '{"stage": "approved"}'
    assert played.agents == ["planner"]


@pytest.mark.req("EN-29")
def test_looking_at_a_gate_whose_files_changed_opens_it_anew(real: Start) -> None:
    """`show` opens it again with the new digests; approving binds to that opening."""
    played = real(GATED, Work(), {})
    played.go()
    played.edit("plan.md", "# Better\n")
    runs = played.runs()
    waiting = reopen_gate(runs, runs.find("latest"))
    assert waiting is not None
    assert (waiting.opening, dict(waiting.digests)) == (2, {"plan.md": sha256(b"# Better\n")})
    same = reopen_gate(runs, runs.find("latest"))
    assert same is not None
    assert same.opening == 2
    played.decide("approve")
    assert played.events("gate.decided")[0].data["opening"] == 2
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("EN-29")
def test_a_question_too_long_for_a_line_is_shown_in_full(real: Start) -> None:
    """Large values stand elsewhere; the gate that is shown has them all the same."""
    question = "Which of these?\n" + "x" * 9000

    async def body(run: Run, _work: Work) -> Ending:
        return Ending.complete((await run.gate("g", question)).choice)

    played = real(toy(body), Work(), {})
    close = played.go()
    assert close.gate is not None
    assert close.gate["question"] == question
    runs = played.runs()
    waiting = reopen_gate(runs, runs.find("latest"))
    assert waiting is not None
    assert waiting.question == question


# -- cancel and interrupt


@pytest.mark.parametrize("how", ["its playbook", "a rejection", "cancel"])
def test_whoever_ends_a_run_leaves_its_report(real: Start, how: str) -> None:
    """Whichever way people came in: the report says the end, not how the run stood before."""
    played = real(GATED, Work(), {})
    played.go()
    report = played.run.folder.path / "report.md"
    assert "waiting" in report.read_text()
    if how == "cancel":
        asyncio.run(cancel(played.runs(), "latest"))
    else:
        played.decide("approve" if how == "its playbook" else "reject", note="no")
    if how == "its playbook":
        played.go()
    status = ended_as(played.lines)
    assert status is not None
    assert f"{status}" in report.read_text()
    assert "waiting" not in report.read_text().splitlines()[2]


@pytest.mark.req("EN-26")
def test_cancelling_a_run_that_waits_writes_its_end_and_leaves_the_documents(real: Start) -> None:
    """stopped/cancelled; the next start begins from the documents as they are."""
    played = real(GATED, Work(), {})
    played.go()
    first = played.run.identity.run_id
    asyncio.run(cancel(played.runs(), "latest"))
    end = played.lines[-1]
    assert (end.event, end.data["status"], end.data["reason"]) == ("run.end", "stopped", "cancelled")
    assert played.files["state.json"] == '{"stage": "waiting"}'
    with pytest.raises(Refused):
        asyncio.run(cancel(played.runs(), "latest"))
    played.go()
    assert played.run.identity.continues == first


@pytest.mark.req("EN-26", "EN-14")
def test_cancelling_a_crashed_run_ends_what_it_left_running(real: Start) -> None:
    """Nobody takes the run up again: its agent must not go on writing into the next run's tree."""
    played = real(GATED, Work(), {})
    played.go()
    mark = f"{played.run.identity.run_id}:some/agent#1:1"
    left, others = (
        subprocess.Popen(["sleep", "600"], env={**os.environ, "INTERLOCK_MARKER": one}) for one in (mark, "other:x:1")
    )
    with left, others:
        try:
            asyncio.run(cancel(played.runs(), "latest"))
            assert left.wait(120) != 0
            assert others.poll() is None
        finally:
            for one in (left, others):
                one.kill()


@pytest.mark.req("EN-26")
def test_cancelling_a_run_that_works_interrupts_it_first(real: Start) -> None:
    """The agent is stopped, then the end is written, once, by the process that held the run."""

    async def both():
        work = asyncio.ensure_future(played.runs().run(CHAINED, Work()))
        await until(lambda: played.agents)
        await cancel(played.runs(), "latest")
        return await work

    played = real(CHAINED, Work(), {}, reacting(one=instead(seconds=1500.0)))
    close = asyncio.run(both())
    assert (close.status, close.reason) == (Status.STOPPED, "cancelled")
    assert [line.event for line in played.lines][-2:] == ["run.interrupted", "run.end"]
    assert len(played.events("run.end")) == 1


@pytest.mark.req("EN-26")
def test_a_cancel_that_comes_with_the_last_line_ends_the_run_once(real: Start) -> None:
    """A run that came to its own end has that end and no second one."""

    def cancelling(request, act):
        if request.agent == "three":
            played.run.folder.send({"kind": "cancel"})
        return act

    played = real(CHAINED, Work(), {}, reacting(three=cancelling))
    played.go()
    assert len(played.events("run.end")) == 1


@pytest.mark.req("CM-21", "CM-09")
def test_an_interrupt_ends_the_agents_and_saves_the_state(workspace: Path) -> None:
    """Exit 130, no process left, `run.interrupted` in the journal; resuming works."""
    spec = producing("made.md", timeout_s=60.0)
    slow = "touch started; sleep 100 & sleep 100"
    runs = command_runs(workspace, single(spec), slow)

    async def main():
        async def strike() -> None:
            await until(lambda: list(workspace.glob(".interlock/layers/*/upper/started")))
            os.kill(os.getpid(), signal.SIGINT)

        striking = asyncio.ensure_future(strike())
        finished = await runs.run(runs.setup.playbooks[0], Work())
        await striking
        return finished

    finished = asyncio.run(main())
    assert (finished.status, finished.exit_code) == (Status.INTERRUPTED, 130)
    assert finished.lines[-1].event == "run.interrupted"
    assert marked(str(finished.run_id)) == []
    again = command_runs(workspace, single(spec), "cat > /dev/null; echo made > made.md; echo DONE: fine")
    assert asyncio.run(again.resume("latest")).status is Status.COMPLETE


@pytest.mark.req("CM-09")
def test_a_hanging_agent_is_ended_at_its_deadline_with_all_that_it_started(workspace: Path) -> None:
    """FAIL `timeout`, and no process of the call is left."""
    spec = producing("made.md", timeout_s=0.5, timeout_fixed=True)
    runs = command_runs(workspace, single(spec), "sleep 100 & sleep 100")
    finished = asyncio.run(runs.run(runs.setup.playbooks[0], Work()))
    assert finished.reason == "timeout"
    assert marked(str(finished.run_id)) == []


# -- secrets


@pytest.mark.req("CM-29")
def test_secrets_of_the_environment_stand_in_no_brief_and_no_log(workspace: Path) -> None:
    """A task, a file, a command's output and an agent's answer that hold a secret variable's value are redacted."""
    secret = "hunter2-very-secret-value"

    async def body(run: Run, _work: Work) -> Ending:
        await run.command(("sh", "-c", "echo token is $0", secret))
        await run.dispatch(Dispatch("maker", f"Use {secret}.", context=(Quoted("file", f"key={secret}"),)))
        return Ending.complete()

    environ = {**environment(workspace), "MY_API_TOKEN": secret}
    runs = command_runs(workspace, toy(body), f"cat > /dev/null; echo DONE: said {secret}", environ=environ)
    finished = asyncio.run(runs.run(runs.setup.playbooks[0], Work()))
    assert finished.status is Status.COMPLETE
    folder = known_runs(workspace)[0].folder.path
    assert "[redacted:MY_API_TOKEN]" in (folder / "dispatches" / "maker#1" / "brief.md").read_text()
    (result,) = (line for line in finished.lines if line.event == "command")
    assert secret not in result.data["out"]["stdout"]
    (end,) = (line for line in finished.lines if line.event == "dispatch.end")
    assert end.data["detail"] == end.data["out"]["detail"] == "said [redacted:MY_API_TOKEN]"
    assert secret not in (folder / "dispatches" / "maker#1" / "brief.md").read_text()


# -- runs inside runs


def nested_start(played: Real, inner, outcome: list, **change):
    """An agent that starts a run of its own, with the environment it was given."""

    def agent(request):
        environ = {**environment(played.root), **request.environment(), **change}
        runs = played_runs(played.root, inner, best, environ=environ)
        outcome.append((runs, request))
        return best(request)

    return agent


@pytest.mark.req("CM-37", "EN-39")
def test_an_agent_cannot_start_a_run_of_its_own_key_nor_decide(real: Start) -> None:
    """Refused, proven by the journal of the outer run; what only people may do is refused too."""
    made: list = []
    played = real(CHAINED, Work(), {})
    played.agent = nested_start(played, CHAINED, made)
    played.go()
    runs, _request = made[0]
    with pytest.raises(Refused, match="may not start a run of the same key"):
        asyncio.run(runs.run(CHAINED, Work()))
    for attempt in (cancel(runs, "latest"), decide(runs, "latest", "approve")):
        with pytest.raises(Refused, match="only a person"):
            asyncio.run(attempt)


@pytest.mark.req("CM-37", "EN-39")
def test_a_nested_run_is_one_deeper_and_has_no_wider_scope_than_its_parent(real: Start, workspace: Path) -> None:
    """Another key may be run inside a dispatch; its agents write only what the outer dispatch may."""
    made: list = []
    spec = replace(producing("outer.md"), writes=("inner/**",))
    played = real(single(spec), Work(), {})
    inner_spec = replace(producing("inner/in.md", "inside"), writes=("**",))
    inner = single(inner_spec, name="inner")
    played.agent = nested_start(played, inner, made)
    played.go()
    runs, request = made[0]
    runs.setup = replace(
        runs.setup, react=reacting(inside=lambda _r, act: replace(act, files={**act.files, "outside.md": "no\n"}))
    )
    finished = asyncio.run(runs.run(inner, Work("other")))
    (first, end) = (
        next(line for line in finished.lines if line.event == event) for event in ("dispatch.start", "dispatch.end")
    )
    assert (first.data["depth"], first.data["path"]) == (2, ["toy", "maker", "inside"])
    assert end.data["reason"] == "scope_violation"
    assert not (workspace / "outside.md").exists()
    assert (workspace / "inner" / "in.md").exists()
    assert json.loads((workspace / ".interlock" / "runs" / str(finished.run_id) / "run.json").read_text())[
        "parent"
    ] == {
        "run": request.run_id,
        "depth": 1,
    }


@pytest.mark.req("CM-37")
@pytest.mark.parametrize("change", [{"INTERLOCK_DEPTH": "0"}, {"INTERLOCK_TOKEN": "guessed"}, {"INTERLOCK_PATH": "x"}])
def test_an_agent_cannot_talk_its_depth_away(real: Start, change: dict[str, str]) -> None:
    """What the environment says is checked against the outer journal."""
    made: list = []
    played = real(CHAINED, Work(), {})
    other = single(SPEC, name="other")
    played.agent = nested_start(played, other, made, **change)
    played.go()
    with pytest.raises(Refused):
        asyncio.run(made[0][0].run(other, Work("other")))


SPEC = producing("made.md")


@pytest.mark.req("CM-37")
def test_the_fourth_level_is_refused(real: Start) -> None:
    """Depth 3 is the deepest."""
    made: list = []
    played = real(single(replace(SPEC, delegation=Delegation(3, ("a", "b", "c")))), Work(), {})
    other = single(SPEC, name="other")
    played.agent = nested_start(played, other, made)
    played.go()
    with pytest.raises(Refused, match="depth 4 exceeds the maximum of 3"):
        asyncio.run(made[0][0].run(other, Work("other")))


@pytest.mark.req("EN-45")
def test_the_budget_can_be_raised_for_one_resume(real: Start) -> None:
    """`resume --budget` is an option of the process: the settings keep their number."""
    costly = instead(usage=Usage(cost_usd=3.0))
    played = real(CHAINED, Work(), {}, reacting(one=costly, two=costly, three=costly), budget_usd=2.0)
    assert played.go().status is Status.WAITING
    finished = asyncio.run(played.runs().resume("latest", Call(budget_usd=5.0)))
    assert finished.status is Status.WAITING
    assert played.agents == ["one", "two"]


@pytest.mark.req("LY-32", "EN-29")
def test_a_document_changed_after_its_approval_opens_the_gate_anew(real: Start) -> None:
    """What was approved is what is carried out: nobody builds a plan that somebody rewrote in between."""
    played = real(GATED, Work(), {})
    assert played.go().status is Status.WAITING
    played.decide("approve")
    played.edit("plan.md", "another plan\n")
    close = played.go()
    assert close.status is Status.WAITING
    assert "builder" not in played.agents
    assert any("plan.md changed after it was decided about" in text for text in played.view.remarks)
    played.decide("approve")
    assert played.go().status is Status.COMPLETE
    assert "another plan" in played.calls[-1].brief
