"""The queue on real PostgreSQL: what is given to whom, and what becomes of it when workers or the database go away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from procrastinate.schema import SchemaManager

from interlock.errors import ConfigInvalid, InterlockError
from interlock.fleet.database import TABLE
from interlock.fleet.needs import Means, Needs
from interlock.fleet.queue import CancelOutcome, FleetUnreachable, JobState, Order, Queue, Queued, Served, Timing
from interlock.fleet.serving import TRIES
from tests.fleet.conftest import soon
from tests.fleet.database import PASSWORD, Server

QUICK = Timing(heartbeat_s=0.1, stalled_s=120.0, poll_s=0.03, retry_s=0.01)
HASTY = Timing(heartbeat_s=0.1, stalled_s=1.0, poll_s=0.03, retry_s=0.01)
APP = "host/team/app"


def order(run: str = "r1", key: str = "", *, labels: tuple[str, ...] = (), **more: Any) -> Order:
    return Order(run, "feature", key or run, f"what {run} is about", Needs(APP, labels), **more)


class Worker:
    """A worker of this process: it begins what it is given, and ends it when it is let go."""

    def __init__(self, queue: Queue, name: str = "w", timing: Timing = QUICK, served: Served = Served.DONE, **has: Any):
        self.queue, self.timing, self.served = queue, timing, served
        self.means = Means(
            name=name,
            repositories={APP: f"https://ada:{PASSWORD}@{APP}"},
            has_program=lambda _: True,
            trusts=lambda _: True,
            **has,
        )
        self.stop, self.go = asyncio.Event(), asyncio.Event()
        self.begun: list[Order] = []
        self.told: asyncio.Event | None = None
        self.said: list[str] = []
        self.reached = 0
        self.error: Exception | None = None
        self.task = asyncio.create_task(self._serve())

    async def _serve(self) -> Order | None:
        def reached() -> None:
            self.reached += 1

        return await self.queue.serve_one(
            self.means, self._work, timing=self.timing, stop=self.stop, reached=reached, tell=self.said.append
        )

    async def _work(self, found: Order, told: asyncio.Event) -> Served:
        self.begun.append(found)
        self.told = told
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.served

    async def at_work(self, run: str = "") -> Order:
        await soon(lambda: bool(self.begun) or self.task.done(), f"{self.means.name} has begun")
        assert self.begun or self.task.result()
        assert run in ("", self.begun[0].run)
        return self.begun[0]

    async def end(self) -> Order | None:
        self.go.set()
        await soon(self.task.done, f"{self.means.name} has ended; it said {self.said}")
        return self.task.result()

    async def die(self) -> None:
        """As a process that was killed: it tells nobody."""
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def done_by(queue: Queue, **how: Any) -> str:
    """The run that a worker of this kind is given."""
    found = await Worker(queue, **how).end()
    assert found is not None
    return found.run


@pytest_asyncio.fixture
async def queue(database: str) -> AsyncIterator[Queue]:
    async with Queue.of(database) as opened:
        await opened.setup()
        yield opened


async def states(queue: Queue) -> dict[str, JobState]:
    return {job.order.run: job.state for job in await queue.jobs()}


async def test_what_is_queued_is_done_once(queue: Queue) -> None:
    """An order reaches a worker as it was given; afterwards nothing is queued."""
    given = order(queue="night", by="Ada Grüß", message={"kind": "resume", "note": "mind the gap\n"})
    assert await queue.put(given) is Queued.NEW
    worker = Worker(queue)
    assert await worker.at_work() == given
    (job,) = await queue.jobs()
    assert (job.state, job.worker, job.attempts) == (JobState.DOING, "w", 0)
    (seen,) = await queue.workers()
    assert (seen.run, seen.repositories) == ("r1", (APP,))
    assert await worker.end() == given
    assert await queue.jobs() == await queue.workers() == []
    assert worker.reached > 0
    assert worker.said == []


async def test_the_same_is_queued_once(queue: Queue) -> None:
    """A second one of the same is refused while the first waits, and is queued once it is worked on."""
    assert [await queue.put(order()) for _ in range(2)] == [Queued.NEW, Queued.ALREADY]
    decision = {"kind": "decision", "gate": "g", "shown": "1", "choice": "yes"}
    answers = [
        await queue.put(order(message=message))
        for message in (decision, {**decision, "choice": "no"}, {**decision, "shown": "2"}, {"kind": "resume"})
    ]
    assert answers == [Queued.NEW, Queued.ALREADY, Queued.NEW, Queued.NEW]
    worker = Worker(queue)
    await worker.at_work()
    assert await queue.put(order()) is Queued.NEW
    await worker.end()


@pytest.mark.req("WK-05")
async def test_one_run_of_a_key_is_worked_on_at_once(queue: Queue) -> None:
    """The second run of a playbook and key waits for the end of the first, whoever is idle; one of another does not."""
    for given in (order("a", "same"), order("b", "same"), order("c", "other")):
        await queue.put(given)
    first, second, third = (Worker(queue, name) for name in "xyz")
    await soon(lambda: sum(len(one.begun) for one in (first, second, third)) == 2, "two are begun")
    idle = next(one for one in (first, second, third) if not one.begun)
    asked = idle.reached
    await soon(lambda: idle.reached > asked + 3, "the third asks again and again")
    assert await states(queue) == {"a": JobState.DOING, "c": JobState.DOING, "b": JobState.TODO}
    for worker in (first, second, third):
        worker.go.set()
    ended = await asyncio.gather(*(one.task for one in (first, second, third)))
    assert sorted(one.run for one in ended if one) == ["a", "b", "c"]


@pytest.mark.req("WK-05")
async def test_priority_comes_before_age(queue: Queue) -> None:
    """What is more urgent is given out first; of the same priority, what came first."""
    for run, priority in (("a", 0), ("b", 0), ("urgent", 5), ("later", -5)):
        await queue.put(order(run, priority=priority))
    assert [job.order.run for job in await queue.jobs()] == ["urgent", "a", "b", "later"]
    assert [await done_by(queue) for _ in range(4)] == ["urgent", "a", "b", "later"]


@pytest.mark.req("WK-05")
async def test_what_is_for_later_waits(queue: Queue) -> None:
    """A delay holds; when it is over, the run is given out."""
    now = datetime.now(UTC)
    await queue.put(order("tomorrow"), at=now + timedelta(days=1))
    await queue.put(order("soon"), at=now + timedelta(seconds=0.3))
    await queue.put(order("now"))
    assert {await done_by(queue) for _ in range(2)} == {"soon", "now"}
    (job,) = await queue.jobs()
    assert (job.order.run, job.at) == ("tomorrow", now + timedelta(days=1))


@pytest.mark.req("WK-16")
async def test_a_worker_is_never_given_what_it_lacks(queue: Queue) -> None:
    """It passes over what is first in the queue, says what it lacks, and the next one who has it gets it."""
    wanted = order("needs-gpu", labels=("gpu",), priority=9)
    await queue.put(wanted)
    plain = Worker(queue, "plain")
    await soon(lambda: plain.reached > 3, "it has looked")
    (seen,) = await queue.workers()
    assert seen.refuses == {wanted.name: ("label gpu",)}
    assert plain.begun == []
    await queue.put(order("simple"))
    await plain.at_work("simple")
    assert await done_by(queue, name="strong", labels=frozenset({"gpu"})) == "needs-gpu"
    await plain.end()


async def test_a_worker_listens_to_its_queues(queue: Queue) -> None:
    """One that names queues is given nothing of others; long names and names of other alphabets work too."""
    strange = "очередь-" * 5
    await queue.put(order("a", priority=9))
    await queue.put(order("b", queue=strange))
    assert await done_by(queue, queues=frozenset({strange, "night"})) == "b"
    assert await states(queue) == {"a": JobState.TODO}


async def test_a_queued_run_is_cancelled_at_once(queue: Queue) -> None:
    """Nobody is given it any more, and what was to be said to it neither."""
    await queue.put(order())
    await queue.put(order(message={"kind": "resume"}))
    await queue.put(order("other"))
    assert await queue.cancel("r1") is CancelOutcome.DROPPED
    assert await queue.cancel("r1") is CancelOutcome.NOTHING
    assert await states(queue) == {"other": JobState.TODO}


async def test_a_run_at_work_is_told_to_end(queue: Queue) -> None:
    """Its worker hears it and ends it in its own time."""
    await queue.put(order())
    worker = Worker(queue)
    await worker.at_work()
    assert worker.told is not None
    assert not worker.told.is_set()
    assert await queue.cancel("r1") is CancelOutcome.TOLD
    await asyncio.wait_for(worker.told.wait(), 120)
    (job,) = await queue.jobs()
    assert job.told_to_end
    await worker.end()
    assert await queue.jobs() == await queue.given_up() == []


async def test_a_dead_worker_is_replaced(queue: Queue) -> None:
    """Its job goes to whoever is idle, as it was."""
    await queue.put(order())
    dead = Worker(queue, "dead", HASTY)
    begun = await dead.at_work()
    await dead.die()
    heir = Worker(queue, "heir", HASTY)
    assert await heir.at_work() == begun
    (job,) = await queue.jobs()
    assert (job.worker, job.attempts) == ("heir", 1)
    await heir.end()
    assert heir.said == ["r1: its worker gave no sign of life; it is queued again"]
    assert await queue.jobs() == []


async def test_many_who_replace_dead_workers_do_each_job_once(queue: Queue) -> None:
    """Several idle workers find the same dead ones at the same time, and take nothing from each other."""
    runs = [f"r{number}" for number in range(6)]
    for run in runs:
        await queue.put(order(run))
    dead = [Worker(queue, f"dead{number}", HASTY) for number in range(6)]
    for worker in dead:
        await worker.at_work()
    await asyncio.gather(*(worker.die() for worker in dead))
    done: list[str] = []

    async def work() -> None:
        while len(done) < len(runs):
            worker = Worker(queue, f"heir{id(asyncio.current_task())}", HASTY)
            worker.go.set()
            await asyncio.wait({worker.task}, timeout=0.5)
            worker.stop.set()
            if (found := await worker.task) is not None:
                done.append(found.run)

    await asyncio.gather(*(work() for _ in range(4)))
    assert sorted(done) == runs


@pytest.mark.parametrize("fails", [False, True])
async def test_a_worker_that_wakes_up_does_not_end_anothers_job(queue: Queue, fails: bool) -> None:
    """A paused worker counts as dead.  Whatever it says when it wakes up, the job is the other's."""
    await queue.put(order())
    paused = Worker(queue, "paused", Timing(heartbeat_s=3600, poll_s=3600, stalled_s=1.0))
    await paused.at_work()
    heir = Worker(queue, "heir", HASTY)
    await heir.at_work()
    paused.error = RuntimeError("what a time") if fails else None
    await paused.end()
    (job,) = await queue.jobs()
    assert (job.state, job.worker, job.attempts) == (JobState.DOING, "heir", 1)
    await heir.end()
    assert await queue.jobs() == []


async def test_a_cancel_outlives_the_worker_that_was_told(queue: Queue) -> None:
    """When it dies before it did so, the next one gets the run with the word to end it."""
    await queue.put(order())
    dead = Worker(queue, "dead", HASTY)
    await dead.at_work()
    assert await queue.cancel("r1") is CancelOutcome.TOLD
    await dead.die()
    heir = Worker(queue, "heir", HASTY)
    assert (await heir.at_work("r1")).message == {"kind": "cancel"}
    await heir.end()
    assert await queue.jobs() == []


async def test_what_was_queued_meanwhile_replaces_what_a_dead_worker_left(queue: Queue) -> None:
    """Both mean the same: one of them is done."""
    await queue.put(order())
    dead = Worker(queue, "dead", HASTY)
    await dead.at_work()
    assert await queue.put(order()) is Queued.NEW
    await dead.die()
    assert await done_by(queue, timing=HASTY) == "r1"
    assert await queue.jobs() == []


async def test_a_run_that_is_handed_over_goes_to_the_next(queue: Queue) -> None:
    """It is queued at once, without a fault of anybody."""
    await queue.put(order())
    first = Worker(queue, "first", served=Served.AGAIN)
    assert (await first.end() or order("none")).run == "r1"
    (job,) = await queue.jobs()
    assert (job.state, job.at) == (JobState.TODO, None)
    assert await done_by(queue) == "r1"


async def test_of_a_run_that_is_lost_the_queue_is_told_nothing(queue: Queue) -> None:
    """Whoever has it now says what becomes of it."""
    await queue.put(order())
    await Worker(queue, served=Served.LOST).end()
    assert await states(queue) == {"r1": JobState.DOING}


async def test_failures_of_workers_are_retried_and_end(queue: Queue) -> None:
    """With a growing delay, a few times; then a person finds it, and can put it into the queue again."""
    await queue.put(order())
    quiet = Timing(heartbeat_s=0.1, stalled_s=120, poll_s=0.01, retry_s=0.0001)
    for attempt in range(TRIES):
        worker = Worker(queue, timing=quiet)
        worker.error = RuntimeError("no space left")
        await worker.end()
        assert "r1: this worker failed at it: no space left" in worker.said[0]
        left = await queue.jobs()
        assert [job.attempts for job in left] == ([attempt + 1] if attempt + 1 < TRIES else [])
    (job,) = await queue.given_up()
    assert (job.order.run, job.attempts) == ("r1", TRIES)
    assert await queue.put(order()) is Queued.NEW
    assert await queue.given_up() == []


async def test_an_idle_worker_stops_at_once_and_is_gone(queue: Queue) -> None:
    """It returns nothing, and is shown no more."""
    worker = Worker(queue, timing=Timing(poll_s=3600))
    await soon(lambda: worker.reached > 0, "it has looked")
    assert [one.name for one in await queue.workers()] == ["w"]
    worker.stop.set()
    assert await worker.task is None
    assert await queue.workers() == []


async def test_a_worker_that_was_forgotten_registers_anew(queue: Queue, server: Server, database: str) -> None:
    """A machine that slept for hours is served again."""
    worker = Worker(queue)
    await soon(lambda: worker.reached > 0, "it has looked")
    server.sql("DELETE FROM procrastinate_workers", database)
    await queue.put(order())
    await worker.at_work("r1")
    assert [one.run for one in await queue.workers()] == ["r1"]
    await worker.end()


async def test_no_password_is_shown_of_a_worker(queue: Queue, server: Server, database: str) -> None:
    """Addresses of repositories can hold one: they are not written into the database."""
    await queue.put(order())
    worker = Worker(queue)
    await worker.at_work()
    assert PASSWORD not in str(server.sql("SELECT facts::text FROM interlock_workers", database))
    await worker.end()


# -- the database goes away


@pytest.mark.req("WK-14")
async def test_an_idle_worker_survives_the_database(queue: Queue, server: Server) -> None:
    """It waits, says so once, and works when the database is back."""
    worker = Worker(queue)
    await soon(lambda: worker.reached > 0, "it has looked")
    await asyncio.to_thread(server.stop)
    await soon(lambda: bool(worker.said), "it has noticed")
    await asyncio.to_thread(server.start)
    await soon(lambda: len(worker.said) > 1, "it is back")
    await queue.put(order())
    await worker.at_work("r1")
    await worker.end()
    assert [text.partition("(")[0].strip() for text in worker.said] == [
        "the database of the fleet cannot be reached",
        "the database of the fleet answers again",
    ]


@pytest.mark.req("WK-14")
async def test_a_job_survives_the_database(queue: Queue, server: Server) -> None:
    """The work goes on while it is away; that it ended is recorded as soon as it is back, once."""
    await queue.put(order())
    worker = Worker(queue)
    await worker.at_work()
    await asyncio.to_thread(server.stop, "immediate")
    await soon(lambda: bool(worker.said), "it has noticed")
    worker.go.set()
    await asyncio.to_thread(server.start)
    assert await worker.end() == order()
    assert await queue.jobs() == await queue.given_up() == await queue.workers() == []


@pytest.mark.req("WK-14")
async def test_nobody_counts_as_dead_because_the_database_was_away(queue: Queue, server: Server, database: str) -> None:
    """Whoever reaches it first does not take the jobs of those who had no chance yet to give a sign of life."""
    role = f"late{server.port}"
    server.sql(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    await queue.put(order("long"))
    async with Queue.of(database.replace("//postgres:", f"//{role}:")) as late:
        busy = Worker(late, "busy")
        await busy.at_work("long")
        server.sql(f"ALTER ROLE {role} NOLOGIN")
        server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")
        await soon(lambda: bool(busy.said), "it has noticed")
        server.sql("UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 hour'", database)
        first = Worker(queue, "first", Timing(heartbeat_s=60.0, stalled_s=120.0, poll_s=0.03))
        await soon(lambda: first.reached > 5, "the other one has looked")
        server.sql(f"ALTER ROLE {role} LOGIN")
        await soon(lambda: len(busy.said) > 1, "it is back")
        await queue.put(order("short"))
        await first.at_work("short")
        assert await states(queue) == {"long": JobState.DOING, "short": JobState.DOING}
        assert await busy.end() == order("long")
        await first.end()
    assert first.said == []
    server.sql(f"DROP ROLE {role}")


async def test_a_job_whose_message_was_lost_is_not(queue: Queue, server: Server, database: str) -> None:
    """The database gave a job to a worker and went away before that heard of it; when it is back, it is found."""
    await queue.put(order(labels=("never",)))
    worker = Worker(queue)
    await soon(lambda: worker.reached > 0, "it has looked")
    given = "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)"
    server.sql(given, database)
    await asyncio.to_thread(server.stop)
    await soon(lambda: bool(worker.said), "it has noticed")
    assert worker.begun == []
    await asyncio.to_thread(server.start)
    await worker.at_work("r1")
    await worker.end()


@pytest.mark.req("WK-14")
async def test_a_worker_can_begin_before_the_database(server: Server, database: str) -> None:
    """A patient one waits; a person is told at once."""
    async with Queue.of(database) as queue:
        await queue.setup()
    await asyncio.to_thread(server.stop)
    try:
        with pytest.raises(FleetUnreachable):
            async with Queue.of(database):
                pass
        async with Queue.of(database, patient=True) as queue:
            worker = Worker(queue)
            await soon(lambda: bool(worker.said), "it has noticed")
            await asyncio.to_thread(server.start)
            await soon(lambda: worker.reached > 0, "it is there")
            await queue.put(order())
            await worker.at_work("r1")
            await worker.end()
    finally:
        await asyncio.to_thread(server.start_if_stopped)


# -- what a person reads


def test_what_is_used_says_nothing_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python prints warnings of packages that nobody listens to; what a person must know, the worker tells."""
    Queue.of("postgresql://h/x")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for name in ("procrastinate.worker", "psycopg", "psycopg.pool"):
        logging.getLogger(name).warning("noise")
    assert capfd.readouterr() == ("", "")


@pytest.mark.req("WK-01")
async def test_two_prepare_a_database_at_once(database: str) -> None:
    """It is done once, whoever comes first; a third time changes nothing."""
    async with Queue.of(database) as one, Queue.of(database) as other:
        done = await asyncio.gather(one.setup(), other.setup())
        assert sorted(map(len, done)) == [0, 2]
        assert await one.setup() == []


@pytest.mark.req("WK-01")
async def test_an_older_database_is_brought_up(server: Server, database: str) -> None:
    """One that was made for an earlier procrastinate gets what changed since, and keeps what is queued."""
    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    for place in files:
        if place.name < "03.04":
            server.sql(place.read_text("utf-8"), database)
    server.sql(f"{TABLE}; COMMENT ON TABLE interlock_workers IS 'for procrastinate 3.3.0'", database)
    async with Queue.of(database) as queue:
        await queue.put(order())
        with pytest.raises(ConfigInvalid) as raised:
            await Worker(queue, served=Served.AGAIN).end()
        assert "interlock fleet setup" in str(raised.value.remedy)
        done = await queue.setup()
        assert [text for text in done if "03.04" in text] == done[: len([one for one in files if one.name > "03.04"])]
        assert len(done) > 1
        assert await queue.setup() == []
        await queue.cancel("r1")
        await queue.put(order("r2"))
        await Worker(queue, served=Served.AGAIN).end()
        assert await done_by(queue) == "r2"


def _wrong(server: Server, database: str) -> dict[str, tuple[str | None, type[InterlockError], str]]:
    host = f"127.0.0.1:{server.port}"
    return {
        "none": (None, ConfigInvalid, "INTERLOCK_FLEET_DATABASE"),
        "not prepared": (database, ConfigInvalid, "interlock fleet setup"),
        "a wrong password": (f"postgresql://postgres:{PASSWORD}x@{host}/x", FleetUnreachable, "user and password"),
        "no such database": (server.address("nowhere"), FleetUnreachable, "PostgreSQL runs there"),
        "nobody there": (f"postgresql://u:{PASSWORD}@127.0.0.1:1/x", FleetUnreachable, "PostgreSQL runs there"),
        "no address": (f"postgresql:/u:{PASSWORD}@{host}", ConfigInvalid, "postgresql://USER"),
        "an option that is none": (f"host=h pasword={PASSWORD}", ConfigInvalid, "postgresql://USER"),
        "a port that is none": (f"postgresql://u:{PASSWORD}@h:{PASSWORD}/x", ConfigInvalid, "% escapes"),
        "a password with @": (f"postgresql://u:x@{PASSWORD}@127.0.0.1:1/x", ConfigInvalid, "% escapes"),
        "a password with /": (f"postgresql://u:1/{PASSWORD}@127.0.0.1:1/x", ConfigInvalid, "% escapes"),
        "said by libpq": (f"host=127.0.0.1 password={PASSWORD} sslmode={PASSWORD}", FleetUnreachable, "runs there"),
    }


@pytest.mark.req("WK-01", "WK-16")
async def test_what_is_wrong_is_said_without_the_password(server: Server, database: str) -> None:
    """Each error has a remedy, the exit code of what a person can mend, and no secret in any part."""
    for case, (address, kind, remedy) in _wrong(server, database).items():
        with pytest.raises(kind) as raised:
            async with Queue.of(address) as queue:
                await queue.put(order())
        said = " ".join([str(raised.value), *(text for _, text in raised.value.parts())])
        assert remedy in said, case
        assert PASSWORD not in said, case
        assert raised.value.exit_code == 2, case
        assert raised.value.__cause__ is None or PASSWORD not in repr(raised.value.__cause__), case
