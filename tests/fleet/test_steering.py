"""What people say to runs of the fleet, from any clone: it goes through the queue, and one word counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.fleet.queue import Queue
from tests.cli.conftest import Workspace
from tests.fleet.conftest import Office, free_port, git, run_of, until
from tests.fleet.database import Server
from tests.fleet.test_moving import waiting_run


class Fleet:
    """An office whose clones know a queue, and a worker that does one job when it is told to."""

    def __init__(self, office: Office, address: str) -> None:
        self.office, self.address = office, address
        self.worker = self.clone("worker")

    def clone(self, name: str) -> Workspace:
        made = self.office.clone(name)
        made.env["INTERLOCK_FLEET_DATABASE"] = self.address
        return made

    def submitted(self, clone: Workspace, *words: str) -> str:
        """A run that waits at its gate on the fleet."""
        said = clone("submit", "toy", "word", *words)
        assert said.code == 0, said.stderr
        self.work()
        return said.stdout.decode().strip()

    def work(self) -> None:
        """A worker takes one job, does what it says, and gives the run back."""
        worked = self.worker("worker", "--once")
        assert worked.code == 0, worked.stderr

    def queued(self) -> list[Mapping[str, Any]]:
        """What was said to runs, and nobody has heard yet."""

        async def jobs() -> list[Mapping[str, Any]]:
            async with Queue.of(self.address) as queue:
                return [job.order.message or {} for job in await queue.jobs()]

        return asyncio.run(jobs())


@pytest.fixture
def fleet(office: Office, newest: Server) -> Fleet:
    return Fleet(office, newest.prepared())


def journal(clone: Workspace, run: str, event: str) -> list[dict[str, Any]]:
    assert clone("show", run).code == 0
    lines = (clone.root / ".interlock" / "runs" / run / "journal.jsonl").read_bytes().splitlines()
    return [line["data"] for raw in lines if (line := json.loads(raw))["event"] == event]


@pytest.mark.req("WK-03")
def test_a_decision_from_any_clone_lets_the_run_go_on_elsewhere(fleet: Fleet) -> None:
    """Said in a clone that never had the run, recorded by the worker, seen where it was submitted from."""
    laptop, phone = fleet.clone("laptop"), fleet.clone("phone")
    run = fleet.submitted(laptop)
    (phone.root / "plan.md").write_text("somebody else's plan\n", "utf-8")
    approved = phone("approve", run, "--note", "looks good", "--by", "Ada")
    assert approved.code == 0, approved.stderr
    assert f"Gate ship of {run}: approved; queued." in approved.stderr
    assert f"interlock watch {run}" in approved.stderr
    assert phone("show", run, "--json").json["status"] == "waiting", "nothing is recorded here"
    watch = laptop.start("watch", run)
    fleet.work()
    assert watch.wait().code == 0
    (decided,) = journal(laptop, run, "gate.decided")
    assert decided["choice"] == "approve"
    assert decided["note"] == "looks good"
    assert decided["who"].startswith("Ada, by ")
    assert laptop("show", run, "--json").json["status"] == "complete"
    fetched = laptop("fetch", run)
    assert fetched.code == 0, fetched.stderr
    assert git(laptop.root, "show", f"interlock/{run}:built.txt") != ""


@pytest.mark.req("WK-03")
def test_of_two_who_decide_at_once_one_counts_and_the_other_is_told(fleet: Fleet) -> None:
    """Both looked at the same opening of the gate; the second is told who was first, then and ever after."""
    laptop, ada, bob = fleet.clone("laptop"), fleet.clone("ada"), fleet.clone("bob")
    run = fleet.submitted(laptop)
    said = [
        (ada, ada.start("approve", run, "--by", "Ada")),
        (bob, bob.start("reject", run, "--by", "Bob", "--note", "no")),
    ]
    answers = [process.wait() for _, process in said]
    assert sorted(answer.code for answer in answers) == [0, 2], [answer.stderr for answer in answers]
    first = next(index for index, answer in enumerate(answers) if answer.code == 0)
    name, choice = (("Ada", "approve"), ("Bob", "reject"))[first]
    loser, refused = said[1 - first][0], answers[1 - first]
    assert "somebody else decided at gate ship" in refused.stderr
    assert f"{name}, by " in refused.stderr
    assert f"chose {choice}" in refused.stderr
    assert [message["choice"] for message in fleet.queued()] == [choice]
    fleet.work()
    (decided,) = journal(loser, run, "gate.decided")
    assert decided["choice"] == choice
    late = loser("approve", run)
    assert late.code == 2
    assert fleet.queued() == []


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_a_decision_is_checked_before_it_is_queued(fleet: Fleet) -> None:
    """What is no choice, what was shown before, and a document that is not what the gate showed: refused, and nothing
    is queued."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    shown = desk("show", run, "--json").json["gate"]["shown"]
    assert "is no choice" in desk("answer", run, "maybe").stderr
    assert "is not as it was shown any more" in desk("approve", run, "--shown", "0" * 16).stderr
    assert laptop("take", run).code == 0
    (laptop.root / "plan.md").write_text("another plan, behind the gate's back\n", "utf-8")
    assert laptop("send", run).code == 0
    changed = desk("approve", run, "--shown", shown)
    assert changed.code == 2
    assert "plan.md changed since the gate showed it" in changed.stderr
    assert f"interlock resume {run}" in changed.stderr
    assert fleet.queued() == []
    assert desk("approve", "nobody").code == 2
    assert desk("resume", run).code == 0
    fleet.work()
    gate = desk("show", run, "--json").json["gate"]
    assert gate["opening"] == 2
    assert desk("approve", run, "--shown", shown).code == 2
    assert desk("approve", run, "--shown", gate["shown"]).code == 0


@pytest.mark.req("WK-03")
def test_a_run_is_cancelled_from_any_clone(fleet: Fleet) -> None:
    """Nobody works on one that waits at a gate: a worker is asked to end it. What is ended is ended."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    cancelled = desk("cancel", run, "--json")
    assert cancelled.code == 0, cancelled.stderr
    assert cancelled.json["reason"].startswith("queued")
    assert [message["kind"] for message in fleet.queued()] == ["cancel"]
    fleet.work()
    assert journal(desk, run, "run.end")[-1]["cancelled"] is True
    again = desk("cancel", run)
    assert again.code == 2
    assert "has already ended" in again.stderr
    assert desk("resume", run).code == 2
    assert fleet.queued() == []


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_who_works_on_a_run_that_is_cancelled_is_told(fleet: Fleet) -> None:
    """An agent that would never end is ended with it; whoever watches sees it."""
    (fleet.office.folder / "seed" / "scenario.yaml").write_text(
        json.dumps({"reactions": [{"agent": "tester", "misbehave": "hang"}]}), "utf-8"
    )
    git(fleet.office.folder / "seed", "commit", "--quiet", "--all", "--message", "tester hangs")
    git(fleet.office.folder / "seed", "push", "--quiet", str(fleet.office.bare), "main")
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    assert desk("approve", run).code == 0
    working, watch = fleet.worker.start("worker", "--once"), laptop.start("watch", run)
    until(lambda: "builder" in watch.seen and "ok in" in watch.seen.rpartition("builder")[2], "the builder has ended")
    assert desk("show", run, "--json").json["status"] == "running"
    assert "is worked on by" in desk("resume", run).stderr
    cancelled = desk("cancel", run)
    assert cancelled.code == 0, cancelled.stderr
    assert "its worker was told" in cancelled.stderr
    assert working.wait().code == 0
    assert watch.wait().code == 3
    assert journal(desk, run, "run.end")[-1]["cancelled"] is True


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_a_run_that_stopped_is_resumed_from_any_clone(fleet: Fleet) -> None:
    """What is said goes along; one that waits for a decision, or is queued, is not queued for nothing."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    waits = desk("resume", run)
    assert waits.code == 2
    assert "waits for a decision" in waits.stderr
    assert desk("answer", run, "later", "--note", "not now").code == 0
    fleet.work()
    resumed = desk("resume", run, "--retry", "--note", "try once more", "--json")
    assert resumed.code == 0, resumed.stderr
    (message,) = fleet.queued()
    assert (message["kind"], message["retry"], message["note"]) == ("resume", True, "try once more")
    again = desk("resume", run, "--retry")
    assert again.code == 2
    assert f"run {run} is queued already" in again.stderr
    fleet.work()
    fleet.work()
    (after,) = [one for one in desk("runs", "--fleet", "--json").json if one["run_id"] != run]
    assert (after["key"], after["status"]) == ("word", "waiting")
    assert desk("show", after["run_id"], "--json").json["continues"] == run
    here = desk("resume", run, "--runner", "played")
    assert here.code == 2
    assert f"interlock take {run}" in here.stderr


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_without_a_name_the_only_run_that_waits_is_meant_wherever_it_is(fleet: Fleet) -> None:
    """A run that was given to the fleet from here is one of this place's; somebody else's is not."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    assert desk("show", run).code == 0
    assert "no run waits for a decision" in desk("approve").stderr
    for words in (("approve", "latest"), ("cancel", "latest"), ("resume", "latest")):
        refused = desk(*words)
        assert refused.code == 2
        assert f"{run} is somebody else's" in refused.stderr
    approved = laptop("approve")
    assert approved.code == 0, approved.stderr
    assert [message["choice"] for message in fleet.queued()] == ["approve"]


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_nothing_is_said_where_nobody_could_hear_it(fleet: Fleet, office: Office) -> None:
    """A remote or a database that is away: a clear word, exit code and no half of a decision."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    assert desk("show", run).code == 0
    unreachable = desk("approve", run, INTERLOCK_FLEET_DATABASE=f"postgresql://nobody:secret@127.0.0.1:{free_port()}/x")
    assert unreachable.code == 2
    assert "the database of the fleet cannot be reached" in unreachable.stderr
    assert "secret" not in unreachable.stderr
    away = office.bare.with_name("away.git")
    office.bare.rename(away)
    refused = desk("approve", run)
    assert refused.code == 2
    assert "Nothing was said to it" in refused.stderr
    away.rename(office.bare)
    assert fleet.queued() == []
    assert desk("approve", run).code == 0


def test_a_run_that_is_not_on_the_fleet_is_not_steered_by_its_queue(fleet: Fleet) -> None:
    """It was sent from one person to another: whoever wants to decide takes it."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = waiting_run(laptop)
    assert run == run_of(laptop)
    assert laptop("send", run).code == 0
    refused = desk("approve", run)
    assert refused.code == 2
    assert f"interlock take {run}" in refused.stderr
    assert fleet.queued() == []


@pytest.mark.req("WK-03")
def test_an_agent_decides_nothing_on_the_fleet(fleet: Fleet) -> None:
    """What was started inside a dispatch is no person, whatever it can reach."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    for words in (("approve", run), ("cancel", run), ("resume", run)):
        refused = desk(*words, INTERLOCK_DISPATCH="1")
        assert refused.code == 2
        assert "only a person may" in refused.stderr
    assert fleet.queued() == []
