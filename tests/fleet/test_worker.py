"""Workers: real processes, a real database, a real remote; agents that end when the test says so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.folder import known_runs
from interlock.engine.lifecycle import ended_as
from tests.cli.conftest import TOY
from tests.fleet.conftest import files, git
from tests.fleet.fleet import QUICKLY, Fleet


@pytest.mark.req("WK-02")
@pytest.mark.req("WK-04")
@pytest.mark.req("WK-10")
def test_each_dispatch_is_on_the_ref_before_the_next_begins(fleet: Fleet) -> None:
    """The claim before the first agent; each finished one before the next; the end before the job returns."""
    (fleet.laptop.root / "code.txt").write_text("changed, and not committed\n", "utf-8")
    (fleet.laptop.root / "new.txt").write_text("never added\n", "utf-8")
    main, before = git(fleet.office.bare, "rev-parse", "main"), files(fleet.laptop.root)
    run = fleet.submit("relay", "word")
    submitted = fleet.journal(run)
    fleet.stage.hold("scout", "anna", "closer")
    worker = fleet.worker("one")

    call = fleet.stage.waiting("scout")
    assert len(fleet.commits(run)) == 2
    assert fleet.state(run)["held"] and fleet.state(run)["holder"] == "one.1"
    assert fleet.journal(run) == submitted  # nothing but the claim
    call.answer()
    call = fleet.stage.waiting("anna")
    assert fleet.ends(run)[:1] == ["look/scout#1"]
    call.answer()
    call = fleet.stage.waiting("closer")
    assert set(fleet.ends(run)) == {"look/scout#1", *(f"work/{name}#1" for name in ("anna", "bert", "carl"))}
    assert fleet.state(run)["status"] == "open"
    call.answer()
    assert worker.ended().code == 0, worker.log
    assert fleet.state(run)["status"] == "complete" and not fleet.state(run)["held"]
    assert fleet.journal(run)[-1]["event"] == "run.end"
    assert fleet.jobs(run) == [("succeeded", "")]
    fleet.check_cuts(run)
    assert all(fleet.stage.count(key) == 1 for key in set(fleet.ends(run)))
    made = fleet.files(run)
    assert made["code.txt"] == "changed, and not committed" and made["new.txt"] == "never added"
    assert worker.workspaces == []

    assert files(fleet.laptop.root) == before
    fetched = fleet.laptop("fetch", run)
    assert fetched.code == 0, fetched.stderr
    assert git(fleet.laptop.root, "show", f"interlock/{run}:closed.txt") == "closed.txt by closer"
    assert git(fleet.office.bare, "rev-parse", "main") == main
    assert [ref for ref in fleet.office.refs() if ref.startswith("refs/heads/")] == ["refs/heads/main"]


@pytest.mark.long
@pytest.mark.req("WK-13")
def test_whoever_is_to_leave_finishes_what_is_under_way_and_begins_nothing(fleet: Fleet) -> None:
    """In a cluster too, where the work of one member waits for that of another: both count, a third never began."""
    run = fleet.submit("relay", "word")
    fleet.stage.hold("smith")
    worker = fleet.worker("one")
    first, second = fleet.stage.waiting("anna"), fleet.stage.waiting("bert")
    worker.kill(signal.SIGTERM)
    fleet.until(lambda: "leaving when" in worker.log, "it hears the signal")
    second.answer()
    first.answer()
    assert worker.ended().code == 0
    assert sorted(fleet.ends(run)) == ["look/scout#1", "work/anna#1", "work/bert#1"]
    assert not fleet.state(run)["held"] and fleet.state(run)["status"] == "open"
    assert fleet.jobs(run) == [("todo", "")]
    assert fleet.stage.count("work/carl#1") == 0
    fleet.stage.release()
    assert fleet.worker("two").ended().code == 0
    assert fleet.state(run)["status"] == "complete", fleet.told()
    assert all(fleet.stage.count(key) == 1 for key in set(fleet.ends(run)))
    fleet.check_cuts(run)


@pytest.mark.long
@pytest.mark.req("WK-13")
def test_told_twice_it_leaves_at_once(fleet: Fleet) -> None:
    """Its agents are ended; what they had begun, another begins anew."""
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    worker = fleet.worker("one")
    call = fleet.stage.waiting("planner")
    worker.kill(signal.SIGTERM)
    fleet.until(lambda: "leaving when" in worker.log, "it hears the first signal")
    worker.kill(signal.SIGTERM)
    assert worker.ended().code == 0
    assert call.gone
    assert not fleet.state(run)["held"]
    assert fleet.jobs(run) == [("todo", "")]
    fleet.stage.release()
    assert fleet.worker("two").ended().code == 0
    assert fleet.state(run)["status"] == "complete"


@pytest.mark.req("WK-13")
def test_told_to_leave_without_a_run_or_before_the_remote_answers_it_leaves(fleet: Fleet) -> None:
    """Nothing was claimed, so nothing has to be given back but the job."""
    idle = fleet.worker("idle")
    fleet.until(lambda: "works for" in idle.log, "it looks for work")
    idle.kill(signal.SIGTERM)
    assert idle.ended().code == 0
    run = fleet.submit("toy", "word", "--mode", "quick")
    cut = fleet.worker("cut", start=False)
    cut.remote.cut()
    cut.start()
    fleet.until(lambda: "it is tried again" in cut.log, "it misses the remote")
    cut.kill(signal.SIGTERM)
    assert cut.ended().code == 0
    assert fleet.jobs(run) == [("todo", "")]
    assert len(fleet.commits(run)) == 1


@pytest.mark.long
@pytest.mark.req("WK-05")
def test_one_run_is_live_for_a_key(fleet: Fleet) -> None:
    """Queued, worked on, waiting at its gate: another clone that submits the same is refused, by name of the run."""
    other = fleet.clone("other")
    run = fleet.submit("toy", "word")

    def refused() -> None:
        answer = other("submit", "toy", "word")
        assert answer.code == 2, answer.stderr
        assert f"run {run} is live" in answer.stderr
        # what was begun for it is over: it is in nobody's way
        assert all(ended_as(one.folder.lines()) is not None for one in known_runs(other.root))

    refused()
    fleet.stage.hold("planner")
    worker = fleet.worker("one")
    fleet.stage.waiting("planner")
    refused()
    fleet.stage.release()
    worker.ended()
    assert fleet.state(run)["status"] == "waiting" and not fleet.state(run)["held"]
    refused()
    assert fleet.laptop("reject", run, "--note", "no").code == 0
    fleet.worker("two").ended()
    assert fleet.state(run)["status"] == "stopped"
    assert fleet.submit("toy", "word", clone=other) != run


def delivered_again(fleet: Fleet, kind: str) -> None:
    """The queue gives a job out once more, as it was."""
    copy = "INSERT INTO procrastinate_jobs (queue_name, task_name, args) SELECT queue_name, task_name, args "
    fleet.server.sql(f"{copy} FROM procrastinate_jobs WHERE args -> 'message' ->> 'kind' = '{kind}'", fleet.database)


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_what_people_say_is_said_to_the_run_once(fleet: Fleet) -> None:
    """A note and a decision whose job is given out again: to an open run, after a worker died, and when all is over."""
    run = fleet.submit("toy", "word")
    fleet.server.sql("DELETE FROM procrastinate_jobs", fleet.database)
    assert fleet.laptop("resume", run, "--note", "mind the gap").code == 0
    assert fleet.worker("one").ended().code == 0
    assert fleet.state(run)["status"] == "waiting"
    delivered_again(fleet, "resume")
    assert fleet.worker("two").ended().code == 0

    assert fleet.laptop("approve", run, "--note", "go").code == 0
    fleet.stage.hold("tester")
    dying = fleet.worker("three")
    fleet.stage.waiting("tester")
    fleet.until(lambda: "build/builder#1" in fleet.ends(run), "the builder is on the ref")
    dying.kill()
    dying.ended()
    fleet.stage.release()
    assert fleet.worker("four").ended().code == 0
    assert fleet.state(run)["status"] == "complete", fleet.told()

    lines = fleet.journal(run)
    delivered_again(fleet, "decision")
    assert fleet.worker("five").ended().code == 0
    assert fleet.journal(run) == lines
    events = [line["event"] for line in lines]
    assert (events.count("gate.decided"), events.count("gate.refused")) == (1, 0)
    assert [line["data"]["note"] for line in lines if line["data"].get("note")] == ["mind the gap", "go"]
    assert fleet.stage.count("build/builder#1") == 1
    assert {state for state, _ in fleet.jobs(run)} == {"succeeded"}


def test_a_cancelled_run_ends_at_its_worker(fleet: Fleet) -> None:
    """Its agents are ended, and its end is on the ref."""
    run = fleet.submit("toy", "word")
    fleet.stage.hold("planner")
    worker = fleet.worker("one")
    call = fleet.stage.waiting("planner")
    told = fleet.laptop("cancel", run)
    assert told.code == 0, told.stderr
    assert worker.ended().code == 0
    assert call.gone
    assert fleet.state(run)["status"] == "stopped" and not fleet.state(run)["held"]
    assert fleet.journal(run)[-1]["data"]["cancelled"] is True


@pytest.mark.long
def test_a_successor_whose_job_was_lost_is_queued_again(fleet: Fleet) -> None:
    """A stopped run is resumed twice by the same message: it has one successor, and that has a job."""
    run = fleet.submit("toy", "word")
    fleet.worker("one").ended()
    assert fleet.laptop("reject", run, "--note", "not yet").code == 0
    fleet.worker("two").ended()
    assert fleet.state(run)["status"] == "stopped"
    resumed = fleet.laptop("resume", run)
    assert resumed.code == 0, resumed.stderr
    delivered_again(fleet, "resume")
    fleet.worker("three").ended()
    (successor,) = {ref.split("/")[2] for ref in fleet.office.refs() if ref.endswith("/state")} - {run}
    fleet.server.sql(f"DELETE FROM procrastinate_jobs WHERE args ->> 'run' = '{successor}'", fleet.database)
    fleet.worker("four").ended()
    assert fleet.jobs(successor) == [("todo", "")]
    fleet.worker("five").ended()
    assert fleet.state(successor)["status"] == "waiting"
    assert {ref.split("/")[2] for ref in fleet.office.refs() if ref.endswith("/state")} == {run, successor}


def test_a_job_whose_run_is_gone_is_done(fleet: Fleet) -> None:
    """Somebody deleted the ref: there is nothing to do, and nobody tries again."""
    run = fleet.submit("toy", "word")
    git(fleet.office.bare, "update-ref", "-d", f"refs/interlock/{run}/state")
    worker = fleet.worker("one")
    assert worker.ended().code == 0
    assert fleet.jobs(run) == [("succeeded", "")], worker.log


@pytest.mark.long
def test_a_damaged_clone_is_made_anew(fleet: Fleet) -> None:
    """What a worker keeps of a repository can be thrown away."""
    worker = fleet.worker("one", start=False)
    for number, damage in enumerate(("packs", "head"), start=1):
        run = fleet.submit("toy", f"word{number}", "--mode", "quick")
        for clone in (worker.clone.root / ".interlock" / "fleet" / "clones").glob("*.git"):
            if damage == "packs":
                for pack in clone.glob("objects/pack/*"):
                    pack.unlink()
            else:
                (clone / "HEAD").write_text("nonsense", "utf-8")
        worker.start()
        fleet.until_ended(run)
        worker.ended()
        assert fleet.state(run)["status"] == "complete"


@pytest.mark.req("WK-13")
def test_told_to_leave_while_the_database_does_not_answer_it_leaves_at_once(fleet: Fleet) -> None:
    """It waits for no answer: nobody hears that it missed one."""
    worker = fleet.worker("one", start=False)
    worker.database.hang()
    worker.start()
    fleet.until(lambda: worker.database.lines > 0, "it asks the database")
    worker.kill(signal.SIGTERM)
    assert worker.ended().code == 0
    assert "leaving when" in worker.log
    assert "waits for it" not in worker.log


TELLING = """#!{python}
# Git, whose caller is asked to leave when it is a fresh process for the second time.
import os, signal, sys
if "get-url" in sys.argv:
    with open("{folder}/held", "w") as file:
        file.write(repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))))
    try:
        os.mkdir("{folder}/first")
    except FileExistsError:
        os.kill(os.getppid(), signal.SIGTERM)
os.execv("{git}", ["git", *sys.argv[1:]])
"""


@pytest.mark.long
@pytest.mark.req("WK-13")
def test_told_to_leave_between_two_runs_it_leaves(fleet: Fleet, tmp_path: Path) -> None:
    """The signal comes while the process is made anew, and is heard when it listens: exit 0, and no run is taken.

    Programs that it starts hear signals too: what is held while it is made anew is not held in them.
    """
    worker = fleet.worker("one", start=False)
    program = tmp_path / "telling" / "git"
    program.parent.mkdir()
    program.write_text(TELLING.format(python=sys.executable, folder=program.parent, git=shutil.which("git")), "utf-8")
    program.chmod(0o755)
    runs = [fleet.submit("toy", f"word{number}", "--mode", "quick") for number in range(2)]
    words = [sys.executable, str(TOY), "worker"]
    env = worker.clone.env | QUICKLY | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    started = subprocess.Popen(words, cwd=worker.clone.root, env=env, stdin=subprocess.DEVNULL)
    try:
        assert started.wait(120) == 0
    finally:
        started.kill()
    assert sorted(str(fleet.state(run)["status"]) for run in runs) == ["complete", "open"]
    assert sorted(fleet.jobs()) == [("succeeded", ""), ("todo", "")]
    assert (program.parent / "held").read_text("utf-8") == "[]"


@pytest.mark.long
def test_a_worker_is_a_fresh_process_for_each_run(fleet: Fleet) -> None:
    """Two workers in one folder do not meet; each goes on after its run, and leaves when it is told."""
    clone = fleet.worker("both", start=False).clone
    runs = [fleet.submit("toy", f"word{number}", "--mode", "quick") for number in range(4)]
    words = [sys.executable, str(TOY), "worker"]
    started = [
        subprocess.Popen(words, cwd=clone.root, env=clone.env | QUICKLY, stdin=subprocess.DEVNULL, stderr=None)
        for _ in range(2)
    ]
    try:
        fleet.until_ended(*runs)
        fleet.until_idle()
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in started]
    assert set(codes) <= {0, -signal.SIGTERM}
    assert len({fleet.claim(fleet.commits(run)[1])["holder"] for run in runs}) <= 2
    assert all(fleet.stage.count("plan/planner#1", run) == 1 for run in runs)


@pytest.mark.req("WB-22")
def test_whom_a_workers_settings_name_hears_of_its_runs(fleet: Fleet, tmp_path: Path) -> None:
    """The end of a run is told before its process is the next one's."""
    told = tmp_path / "told"
    run = fleet.submit("relay", "word")
    worker = fleet.worker("one", INTERLOCK_NOTIFY_COMMAND=json.dumps(["sh", "-c", f"cat >> {told}; echo >> {told}"]))
    assert worker.ended().code == 0, worker.log
    notices = [json.loads(line) for line in told.read_text("utf-8").splitlines() if line]
    assert [(notice["kind"], notice["run_id"]) for notice in notices] == [("end", run)]
