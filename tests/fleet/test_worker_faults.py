"""Workers that die, are paused, are cut off: their runs go on elsewhere, and what was finished is not done again."""

from __future__ import annotations

import signal

import pytest

from tests.fleet.fleet import Fleet, Member
from tests.proofs import long


def assert_once(fleet: Fleet, run: str) -> None:
    """It ended once, whole, and nothing that the ref had was done again."""
    assert fleet.state(run)["status"] == "complete"
    assert [line["event"] for line in fleet.journal(run)].count("run.end") == 1
    assert len(fleet.ends(run)) == len(set(fleet.ends(run)))
    fleet.check_cuts(run)
    fleet.until_idle(run)
    assert [state for state, _ in fleet.jobs(run)] == ["succeeded"]


@pytest.mark.req("WK-12")
@pytest.mark.req("WK-13")
def test_the_run_of_a_killed_worker_goes_on_from_its_last_recorded_dispatch(fleet: Fleet) -> None:
    """kill -9: its agents are gone with it, and another one goes on."""
    run = fleet.submit("relay", "word")
    fleet.stage.hold("anna", "bert")
    first = fleet.worker("first")
    calls = [fleet.stage.waiting("anna"), fleet.stage.waiting("bert")]
    assert fleet.ends(run) == ["look/scout#1"]
    first.kill()
    fleet.until(lambda: all(call.gone for call in calls), "its agents are gone")
    fleet.stage.hold()
    for call in calls:
        call.answered = True
    fleet.stage.release()
    fleet.worker("second").ended()
    assert_once(fleet, run)
    assert [fleet.stage.count(key) for key in ("look/scout#1", "work/anna#1", "close/closer#1")] == [1, 2, 1]


@pytest.mark.req("WK-11")
@pytest.mark.req("WK-12")
def test_a_paused_worker_that_wakes_up_is_fenced(fleet: Fleet) -> None:
    """Its agents are ended, it exits with 75, and neither the run nor the queue hears of it."""
    run = fleet.submit("relay", "word")
    fleet.stage.hold("anna", "bert")
    first = fleet.worker("first")
    one, other = fleet.stage.waiting("anna"), fleet.stage.waiting("bert")
    first.kill(signal.SIGSTOP)
    second = fleet.worker("second")
    again = fleet.stage.waiting("anna", but=[one])
    claimed, jobs = fleet.commits(run), fleet.jobs(run)
    assert fleet.state(run)["holder"] == "second.1"
    first.kill(signal.SIGCONT)
    one.answer()
    assert first.ended().code == 75
    assert other.gone
    assert "somebody else has it" in first.log
    assert fleet.commits(run) == claimed
    assert fleet.jobs(run) == jobs
    again.answer()
    fleet.stage.waiting("bert", but=[other]).answer()
    assert second.ended().code == 0
    assert_once(fleet, run)
    assert fleet.stage.count("look/scout#1") == 1


@pytest.mark.req("WK-13")
def test_a_worker_that_reaches_nobody_ends_its_agents_and_itself(fleet: Fleet) -> None:
    """Neither database nor remote: exit 69; another one goes on."""
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    lost = fleet.worker("lost", start=False)
    lost.start(INTERLOCK_FLEET_STALL_S="2")
    call = fleet.stage.waiting("planner")
    lost.database.cut()
    lost.remote.cut()
    assert lost.ended().code == 69
    fleet.until(lambda: call.gone, "its agent is gone")
    assert fleet.state(run)["holder"] == "lost.1"
    call.answered = True
    fleet.stage.release()
    fleet.worker("other").ended()
    assert_once(fleet, run)


def away(fleet: Fleet, worker: Member, what: str) -> None:
    if "database" in what:
        worker.database.cut()
    if "remote" in what:
        worker.remote.cut()


@pytest.mark.req("WK-14")
@pytest.mark.parametrize("what", ["database and remote", *long("database", "remote")])
def test_what_is_away_while_an_agent_works_is_waited_for(fleet: Fleet, what: str) -> None:
    """The agent ends while nobody can be told; when they are back, the same worker goes on, or another one did."""
    run = fleet.submit("relay", "word")
    fleet.stage.hold("scout")
    worker = fleet.worker("one")
    call = fleet.stage.waiting("scout")
    away(fleet, worker, what)
    call.answer()
    if "remote" in what:
        fleet.until(lambda: "it is tried again" in worker.log, "it misses the remote")
    else:
        fleet.until(lambda: "waits for it" in worker.log, "it misses the database")
    worker.database.mend()
    worker.remote.mend()
    fleet.until_ended(run)
    assert worker.ended().code == 0
    assert_once(fleet, run)
    assert fleet.stage.count("look/scout#1") == 1


@pytest.mark.long
@pytest.mark.req("WK-14")
def test_a_push_whose_answer_got_lost_fences_nobody(fleet: Fleet) -> None:
    """The claim, a checkpoint and the end: each was carried out, and its answer did not come."""
    run = fleet.submit("relay", "word")
    worker = fleet.worker("one", start=False)
    fleet.stage.hold("scout", "closer")
    worker.remote.lose = b"unpack ok"
    worker.start()

    def lost() -> None:
        fleet.until(lambda: worker.remote.lose == b"", "an answer is lost")
        worker.remote.mend()

    lost()
    for agent in ("scout", "closer"):
        call = fleet.stage.waiting(agent)
        worker.remote.lose = b"unpack ok"
        call.answer()
        lost()
    assert worker.ended().code == 0, worker.log
    assert_once(fleet, run)
    assert all(fleet.stage.count(key) == 1 for key in fleet.ends(run))


@pytest.mark.req("WK-14")
def test_a_restarted_database_loses_nothing(fleet: Fleet) -> None:
    """Idle and working: both find it again."""
    worker = fleet.worker("one")
    fleet.until(lambda: "works for" in worker.log, "it looks for work")
    fleet.server.stop()
    fleet.until(lambda: "waits for it" in worker.log, "it misses the database")
    fleet.server.start()
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    call = fleet.stage.waiting("planner")
    fleet.server.stop()
    call.answer()
    fleet.until(lambda: fleet.state(run)["status"] == "complete" and not fleet.state(run)["held"], "it is given back")
    fleet.server.start()
    assert worker.ended().code == 0
    assert_once(fleet, run)


@pytest.mark.long
def test_told_twice_while_the_remote_is_away_it_ends(fleet: Fleet) -> None:
    """It can save nothing: exit 69, and others go on from what was saved."""
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    worker = fleet.worker("one")
    call = fleet.stage.waiting("planner")
    worker.remote.cut()
    call.answer()
    fleet.until(lambda: "it is tried again" in worker.log, "it misses the remote")
    worker.kill(signal.SIGTERM)
    fleet.until(lambda: "leaving when" in worker.log, "it hears the signal")
    worker.kill(signal.SIGTERM)
    assert worker.ended().code == 69
    fleet.stage.release()
    fleet.worker("other").ended()
    assert_once(fleet, run)
