"""The queue of a fleet: procrastinate's, in PostgreSQL. It places runs; whose a run is, the ref of the run says.

A job is a run's name and what it needs of a worker.  Its queue is named after these needs, and a worker names the
queues whose needs it meets: what it lacks, it is never given.  procrastinate's own `Worker` is not used: it ends when
the database restarts, and listens to queues that are named once and for all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString

from interlock.errors import ConfigInvalid, WorkspaceFailed

if TYPE_CHECKING:
    from psycopg import Connection

TASK = "interlock.run"
STALLED_S = 25.0
"""A worker without a sign of life for so long counts as dead, and others take its job."""
KEPT_HOURS = 7 * 24
_FORGOTTEN_S = 3600.0
_SETUP_LOCK = 7_015_460_212_263_291_153
_AT_ONCE = datetime(2000, 1, 1, tzinfo=UTC)
"""Clocks differ: what is in the past for everybody is due at once."""
_PATIENCE: dict[str, Any] = {
    **{"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
    **{"tcp_user_timeout": 10_000, "options": "-c statement_timeout=15000", "application_name": "interlock"},
}
"""What libpq is told where the address does not say otherwise: who vanishes is noticed within half a minute."""
_TABLE: LiteralString = """
CREATE TABLE interlock_workers (
    worker_id bigint PRIMARY KEY REFERENCES procrastinate_workers(id) ON DELETE CASCADE, facts jsonb NOT NULL)
"""
_JOBS: LiteralString = """
SELECT job.args, job.status::text, job.attempts, job.scheduled_at > now() AS later, own.facts ->> 'name' AS worker,
       worker.last_heartbeat > now() - make_interval(secs => %(stalled)s) AS alive
  FROM procrastinate_jobs AS job LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
  LEFT JOIN interlock_workers AS own ON own.worker_id = job.worker_id
 WHERE job.task_name = %(task)s AND (job.status IN ('todo', 'doing') OR (job.status = 'failed' AND NOT EXISTS (
       SELECT FROM procrastinate_jobs AS newer WHERE newer.id > job.id AND newer.args ->> 'run' = job.args ->> 'run')))
 ORDER BY job.status = 'todo', job.id
"""
_WORKERS: LiteralString = """
SELECT own.facts, worker.last_heartbeat > now() - make_interval(secs => %(stalled)s) AS alive
  FROM procrastinate_workers AS worker JOIN interlock_workers AS own ON own.worker_id = worker.id
 ORDER BY own.facts ->> 'name', worker.last_heartbeat
"""
_SHOW: LiteralString = """
INSERT INTO interlock_workers (worker_id, facts) SELECT id, %(facts)s FROM procrastinate_workers WHERE id = %(worker)s
    ON CONFLICT (worker_id) DO UPDATE SET facts = EXCLUDED.facts RETURNING worker_id
"""
_MINE: LiteralString = """
SELECT id, queueing_lock, args ->> 'run' AS run FROM procrastinate_jobs
 WHERE status = 'doing' AND id = %(job)s AND worker_id = %(worker)s FOR UPDATE
"""
_DEAD: LiteralString = """
SELECT job.id, job.queueing_lock, job.args ->> 'run' AS run
  FROM procrastinate_jobs AS job LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
 WHERE job.status = 'doing' AND job.task_name = %(task)s AND (worker.id IS NULL
       OR worker.last_heartbeat < now() - make_interval(secs => %(stalled)s)) FOR UPDATE OF job SKIP LOCKED
"""


class DatabaseAway(WorkspaceFailed):
    """It does not answer, or does not let us in: nothing is known of what was asked."""


@dataclass(frozen=True)
class Job:
    """A run that this worker was given."""

    id: int
    run: str
    words: tuple[str, ...]
    """What was typed behind `resume RUN`."""
    lines: int
    """Of the journal when somebody had it go on: a job that comes twice does not open again what has ended since."""
    attempts: int


class Queue:
    """The queue in one database."""

    def __init__(self, address: str | None) -> None:
        if not address:
            raise ConfigInvalid(
                "no database is set, so nobody places runs on workers",
                where="fleet.database",
                expected="postgresql://USER:PASSWORD@HOST/NAME",
                remedy="Set it there, or in the environment: INTERLOCK_FLEET_DATABASE. Then: interlock fleet setup",
            )
        try:
            from procrastinate import SyncPsycopgConnector
            from procrastinate.manager import JobManager
        except ImportError as error:
            remedy = "Install interlock with its extra: pip install 'interlock[fleet]'"
            raise ConfigInvalid("workers need procrastinate and psycopg", found=str(error), remedy=remedy) from None
        logging.getLogger("procrastinate").addHandler(logging.NullHandler())  # Python would print its warnings
        self._address, self._parts = address, _parts(address)
        self._connector = SyncPsycopgConnector()
        self._connector.open(self)  # type: ignore[arg-type]
        self._manager = JobManager(self._connector)

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """What procrastinate asks of a pool: here one for each question, so that who asks hears what is wrong."""
        import psycopg

        own = {name: value for name, value in _PATIENCE.items() if self._parts.get(name) is None}
        with psycopg.connect(self._address, prepare_threshold=None, **own) as connection:
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong, as what a person can do about it; no address and no password of it is shown."""
        import psycopg
        from procrastinate.exceptions import ConnectorException

        try:
            yield
        except (psycopg.Error, ConnectorException) as error:
            cause = error if isinstance(error, psycopg.Error) else error.__cause__ or error
            where = f"fleet.database: {self._parts.get('host') or 'this machine'}/{self._parts.get('dbname') or ''}"
            found = " ".join(str(cause).split())
            for secret in (self._address, self._parts.get("password"), self._parts.get("sslpassword")):
                found = found.replace(str(secret), "***") if secret else found
            if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedFunction):
                what = "the database is not prepared for a fleet"
                remedy = "Prepare it: interlock fleet setup --database"
                raise ConfigInvalid(what, where=where, found=found, remedy=remedy) from None
            away = isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
            away = away or isinstance(cause, psycopg.errors.ReadOnlySqlTransaction)
            what = "cannot be reached" if away else "refuses what it was asked"
            remedy = "See that PostgreSQL runs there, and that the user of the address may use and create tables."
            kind = DatabaseAway if away else WorkspaceFailed
            raise kind(f"the database of the fleet {what}", where=where, found=found, remedy=remedy) from None

    def _rows(self, query: LiteralString, **values: Any) -> list[dict[str, Any]]:
        with self._told():
            return self._connector.execute_query_all(query, task=TASK, stalled=STALLED_S, **values)

    # -- what doors ask

    def put(self, run: str, needs: Sequence[str], words: Sequence[str] = (), lines: int = 0) -> None:
        """Have a worker go on with a run; queued twice it means the same."""
        from procrastinate.exceptions import AlreadyEnqueued
        from procrastinate.jobs import Job as Queued

        args: dict[str, Any] = {"run": run, "needs": sorted(needs), "words": list(words), "lines": lines}
        once: dict[str, Any] = {"id": None, "priority": 0, "lock": run, "queueing_lock": " ".join((run, *words))}
        with self._told(), suppress(AlreadyEnqueued):
            self._manager.defer_job(Queued(queue=named(needs), task_name=TASK, task_kwargs=args, **once))

    def jobs(self) -> list[dict[str, Any]]:
        """What is worked on, given up, and waits; the last in the order in which it is given out."""
        return self._rows(_JOBS)

    def workers(self) -> list[dict[str, Any]]:
        """What the workers that are alive say of themselves."""
        return [row["facts"] for row in self._rows(_WORKERS) if row["alive"]]

    def setup(self) -> list[str]:
        """Make the tables that are not there; what was done."""
        from procrastinate.schema import SchemaManager

        done = []
        with self._told(), self.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SETUP_LOCK])
            there = connection.execute("SELECT to_regclass('procrastinate_jobs'), to_regclass('interlock_workers')")
            jobs, workers = there.fetchone() or (None, None)
            if jobs is None:
                connection.execute(SchemaManager.get_schema())
                done.append("made the tables of procrastinate")
            if workers is None:
                connection.execute(_TABLE)
                done.append("made the table of workers")
        return done

    # -- what a worker asks

    def register(self) -> int:
        with self._told():
            self._connector.execute_query(
                _query("delete_old_jobs"),
                nb_hours=KEPT_HOURS,
                queue=None,
                statuses=["succeeded", "failed", "cancelled", "aborted"],
            )
        return int(self._rows(_query("register_worker"))[0]["worker_id"])

    def alive(self, worker: int, facts: Mapping[str, Any]) -> bool:
        """A sign of life. False: it was not seen for so long that the database knows it no more."""
        self._rows(_query("update_heartbeat"), worker_id=worker)
        return bool(self._rows(_SHOW, worker=worker, facts=dict(facts)))

    def leave(self, worker: int) -> None:
        with self._told():
            self._connector.execute_query(_query("unregister_worker"), worker_id=worker)

    def wanted(self) -> dict[str, list[str]]:
        """Each queue with something in it, and what its runs need."""
        asked: LiteralString = """SELECT DISTINCT queue_name, args -> 'needs' AS needs FROM procrastinate_jobs
            WHERE status = 'todo' AND task_name = %(task)s"""
        return {row["queue_name"]: row["needs"] for row in self._rows(asked)}

    def given(self, worker: int, queues: Collection[str]) -> Job | None:
        """The next run for this worker; also one that it was given before, by an answer that was lost."""
        asked: LiteralString = """SELECT id, args, attempts FROM procrastinate_jobs
            WHERE status = 'doing' AND worker_id = %(worker)s AND task_name = %(task)s"""
        rows = self._rows(asked, worker=worker)
        if not rows and queues:
            rows = self._rows(_query("fetch_job"), queues=list(queues), worker_id=worker)
        if not rows or rows[0]["id"] is None:
            return None
        args = rows[0]["args"]
        return Job(rows[0]["id"], args["run"], tuple(args["words"]), args["lines"], rows[0]["attempts"])

    def settle(self, job: Job, worker: int, how: str, delay_s: float = 0, why: str = "") -> bool:
        """Record what became of a job: `succeeded`, `failed` or `again`. False: it is not this worker's any more."""
        return bool(self._settle(_MINE, {"job": job.id, "worker": worker}, how, delay_s, why))

    def revive(self) -> list[str]:
        """Queue again what dead workers had; the names of these runs."""
        self._rows(_query("prune_stalled_workers"), seconds_since_heartbeat=_FORGOTTEN_S)
        return self._settle(_DEAD, {"task": TASK, "stalled": STALLED_S}, "again")

    def _settle(
        self, which: LiteralString, values: Mapping[str, Any], how: str, delay_s: float = 0, why: str = ""
    ) -> list[str]:
        """In one transaction: who was paused and wakes up settles nothing that is another's by now."""
        settled = []
        at = datetime.now(UTC) + timedelta(seconds=delay_s) if delay_s else _AT_ONCE
        told: LiteralString = "UPDATE procrastinate_jobs SET args = args || %s::jsonb WHERE id = %s"
        same: LiteralString = "SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = %s"
        own = {"retry_at": at, "new_priority": None, "new_queue_name": None, "new_lock": None}
        with self._told(), self.connection() as connection:
            for id_, once, run in connection.execute(which, values).fetchall():
                connection.execute(told, [json.dumps({"why": why}), id_])
                if how == "again" and not connection.execute(same, [once]).fetchone():
                    connection.execute(_query("retry_job"), {"job_id": id_, **own})
                else:
                    status = "failed" if how == "failed" else "succeeded"
                    connection.execute(_query("finish_job"), {"job_id": id_, "status": status, "delete_job": False})
                settled.append(run)
        return settled


def _parts(address: str) -> dict[str, Any]:
    """What the address says; ConfigInvalid where that cannot be told."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    parts: dict[str, Any] = {"host": "@"}
    with suppress(ProgrammingError):
        parts = dict(conninfo_to_dict(address))
    # With an '@' or '/' in it that is not escaped, the rest of a password counts as host, port or name.
    if "@" in f"{parts.get('host')}{parts.get('dbname')}" or not re.fullmatch(r"[\d,]*", str(parts.get("port") or "")):
        raise ConfigInvalid(
            "the address of the database cannot be read",  # no piece of it may be shown: any may be the password
            where="fleet.database",
            expected="postgresql://USER:PASSWORD@HOST/NAME, with % escapes for special characters",
        )
    return parts


def named(needs: Sequence[str]) -> str:
    """The queue of runs with these needs; short, since PostgreSQL's channels are."""
    return f"interlock.{hashlib.sha256(json.dumps(sorted(needs)).encode()).hexdigest()[:24]}"


def _query(name: str) -> LiteralString:
    from procrastinate.sql import queries

    return queries[name]
