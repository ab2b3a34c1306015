"""Submitting is beginning, sending and queueing: whoever is cut off on the way asks again for the same."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Process, Workspace
from tests.fleet.conftest import run_of
from tests.fleet.fleet import Fleet
from tests.fleet.stage import Wire

QUEUEING = b"procrastinate_defer_job"
"""What the database is asked when a job is to be queued."""
TOY = ("toy", "word", "--mode", "quick")


def cut_off(fleet: Fleet) -> tuple[Workspace, Wire]:
    """A clone whose submit is killed when its run was sent, and before it is queued."""
    wire = fleet.wire(fleet.server.port)
    clone = fleet.clone("cut", wire)
    started: list[Process] = []

    def die() -> None:
        started[0].send(signal.SIGKILL)
        wire.cut()

    wire.on(QUEUEING, die, answers=False)
    started.append(clone.start("submit", *TOY))
    assert started[0].wait().code == -signal.SIGKILL
    wire.mend()
    return clone, wire


@pytest.mark.req("WK-01")
@pytest.mark.req("WK-02")
def test_a_run_that_was_sent_and_never_queued_is_seen_from_everywhere(fleet: Fleet) -> None:
    """`fleet`, its figures and `runs --fleet` name it, with what to do; nobody is shown so who is queued."""
    clone, _ = cut_off(fleet)
    run = run_of(clone)
    assert fleet.jobs() == []
    desk = fleet.clone("desk")
    seen = desk("fleet")
    assert "NOT QUEUED" in seen.stdout.decode() and f"interlock resume {run}" in seen.stdout.decode()
    assert [one["run"] for one in desk("fleet", "--json").json["unqueued"]] == [run]
    assert "interlock_fleet_runs_unqueued 1" in desk("fleet", "--metrics").stdout.decode()
    (row,) = desk("runs", "--fleet", "--json").json
    assert row["now"] == f"not queued: interlock resume {run}"
    assert desk("resume", run).code == 0
    assert desk("fleet", "--json").json["unqueued"] == []
    (row,) = desk("runs", "--fleet", "--json").json
    assert row["now"] == "free to be taken"
    fleet.worker("one").ended()
    assert fleet.state(run)["status"] == "complete", fleet.told()


@pytest.mark.req("WK-02")
def test_whoever_submits_again_queues_what_was_sent(fleet: Fleet) -> None:
    """The same run, once, as it was submitted; asking a third time changes nothing, and says so."""
    clone, _ = cut_off(fleet)
    run = run_of(clone)
    again = clone("submit", *TOY)
    assert again.code == 0, again.stderr
    assert again.stdout.decode().strip() == run
    assert fleet.jobs() == [("todo", "")]
    third = clone("submit", *TOY)
    assert third.code == 0, third.stderr
    assert f"run {run} is queued already" in third.stderr
    assert fleet.jobs() == [("todo", "")]
    fleet.worker("one").ended()
    assert fleet.state(run)["status"] == "complete", fleet.told()
    # What the fleet ended is over here too, although nobody looked at it.
    after = clone("submit", *TOY, "--new-run")
    assert after.code == 0, after.stderr
    assert after.stdout.decode().strip() != run


@pytest.mark.long
@pytest.mark.req("WK-02")
def test_a_run_that_colleagues_ended_among_themselves_is_in_nobodys_way(fleet: Fleet) -> None:
    """It was sent by git alone, and never was the fleet's: what is submitted for its key is a new run."""
    desk = fleet.clone("desk")
    assert fleet.laptop("run", "toy", "word").code == 4
    run = run_of(fleet.laptop)
    assert fleet.laptop("send", run).code == 0
    for words in (("take", run), ("cancel", run), ("send", run)):
        done = desk(*words)
        assert done.code == 0, done.stderr
    submitted = fleet.laptop("submit", "toy", "word")
    assert submitted.code == 0, submitted.stderr
    assert submitted.stdout.decode().strip() != run


@pytest.mark.long
@pytest.mark.req("WK-02")
@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_is_killed_while_it_is_sent_submits_again(
    fleet: Fleet, killing: Callable[[str, str], str], when: str
) -> None:
    """Whether the push was carried out or not: one run, on the remote and queued."""
    clone = fleet.clone("cut")
    assert clone("submit", *TOY, PATH=killing("push", when)).code == -signal.SIGKILL
    run = run_of(clone)
    again = clone("submit", *TOY)
    assert again.code == 0, again.stderr
    assert again.stdout.decode().strip() == run
    assert fleet.jobs(run) == [("todo", "")]
    fleet.worker("one").ended()
    assert fleet.state(run)["status"] == "complete", fleet.told()


@pytest.mark.long
@pytest.mark.req("WK-02")
def test_a_database_that_went_away_meanwhile_is_said_with_what_to_do(fleet: Fleet) -> None:
    """The run was sent: the message names it, and the command that queues it."""
    wire = fleet.wire(fleet.server.port)
    clone = fleet.clone("cut", wire)
    wire.on(QUEUEING, wire.cut, answers=False)
    refused = clone("submit", *TOY)
    run = run_of(clone)
    assert refused.code == 2
    assert "the database of the fleet cannot be reached" in refused.stderr
    assert f"interlock resume {run}" in refused.stderr
    assert run in fleet.state(run)["run"]
    assert clone("fleet").code == 2
    away = clone("runs", "--fleet")
    assert away.code == 0 and "Nobody can say which runs are queued" in away.stderr


@pytest.mark.long
@pytest.mark.req("WK-02")
def test_what_waits_for_somebody_is_not_queued_by_submitting_it_again(fleet: Fleet) -> None:
    """A run at its gate, and one that a person took: refused, by name; nothing is queued."""
    run = fleet.submit("toy", "word")
    fleet.worker("one").ended()
    assert fleet.state(run)["status"] == "waiting"
    jobs = fleet.jobs()
    asked = fleet.laptop("submit", "toy", "word")
    assert asked.code == 2
    assert f"run {run} waits for a decision" in asked.stderr
    assert fleet.laptop("approve", run).code == 0
    fleet.server.sql("DELETE FROM procrastinate_jobs WHERE status = 'todo'", fleet.database)
    assert fleet.clone("desk")("take", run).code == 0
    taken = fleet.laptop("submit", "toy", "word")
    assert taken.code == 2
    assert f"run {run} is not free" in taken.stderr or "waits for a decision" in taken.stderr
    assert fleet.jobs() == jobs


WAITING = """#!/bin/sh
# Git, whose first push waits until it may go on.
for word in "$@"; do
  if [ "$word" = push ] && mkdir "{folder}/pushing" 2>/dev/null; then
    while [ ! -e "{folder}/go" ]; do sleep 0.05; done
  fi
done
exec {git} "$@"
"""


@pytest.mark.req("WK-05")
def test_of_two_who_submit_at_once_one_is_live_and_the_other_is_told(fleet: Fleet, tmp_path: Path) -> None:
    """Both saw that nobody had the key. The loser's run is over and in nobody's way, when the key is free again too."""
    held = tmp_path / "held"
    held.mkdir()
    (held / "git").write_text(WAITING.format(folder=held, git=shutil.which("git")), "utf-8")
    (held / "git").chmod(0o755)
    other = fleet.clone("other")
    late = other.start("submit", *TOY, PATH=f"{held}:{os.environ['PATH']}")
    fleet.until((held / "pushing").exists, "its push is under way")
    run = fleet.submit(*TOY)
    (held / "go").touch()
    refused = late.wait()
    assert refused.code == 2
    assert f"run {run} is live" in refused.stderr
    assert fleet.jobs() == [("todo", "")]
    assert [one["status"] for one in other("runs", "--json").json] == ["stopped"]
    fleet.worker("one").ended()
    again = other("submit", *TOY, "--new-run")
    assert again.code == 0, again.stderr
