"""The database of the fleet: how it is reached, prepared, and what its errors are for a person.

The only module that imports procrastinate and psycopg, when it is used: they come with the extra `interlock[fleet]`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, LiteralString, ParamSpec, Self, TypeVar

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.fleet.orders import JobState, Order, Queued

if TYPE_CHECKING:
    from procrastinate.jobs import Job
    from procrastinate.manager import JobManager

TASK: Final = "interlock.run"
ANSWER_S: Final = 15.0
"""A database that takes longer for an answer counts as away."""
CONNECT_S: Final = 5
LOST_S: Final = 3.0
"""So long a lost connection is tried to be made anew, before whoever asks is told."""
SETUP_LOCK: Final = 7_015_460_212_263_291_153
"""Two who prepare the same database at once do it one after the other."""
SETTLE_LOCK: Final = SETUP_LOCK + 1
SETTING: Final = "interlock.toml: fleet.database"

AT_ONCE: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Clocks differ: what is in the past for everybody is due at once."""

P = ParamSpec("P")
T = TypeVar("T")

TABLE: LiteralString = """
CREATE TABLE IF NOT EXISTS interlock_workers (
    worker_id bigint PRIMARY KEY REFERENCES procrastinate_workers(id) ON DELETE CASCADE,
    facts jsonb NOT NULL
)
"""


class FleetUnreachable(WorkspaceFailed):
    """The database of the fleet does not answer, or does not let us in; nothing is known of what was asked."""

    exit_code = 2


class Forgotten(WorkspaceFailed):
    """A worker that was not seen for so long that the database knows it no more."""


def _check_installed() -> None:
    try:
        import procrastinate
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ConfigInvalid(
            "runs on a fleet need the packages procrastinate and psycopg",
            found=str(error),
            remedy="Install interlock with its extra: pip install 'interlock[fleet]'",
        ) from error
    for name in (procrastinate.__name__, "psycopg"):
        logging.getLogger(name).addHandler(logging.NullHandler())  # else Python prints their warnings on the terminal


class Database:
    """A database; `async with`."""

    def __init__(self, address: str, *, patient: bool = False) -> None:
        """
        Args:
            patient: it is opened without being asked: it may be away now.
        """
        if not address:
            raise ConfigInvalid(
                "no database is set, so there is no fleet",
                where=SETTING,
                expected="postgresql://USER:PASSWORD@HOST/NAME",
                remedy="Set it there, or in the environment: INTERLOCK_FLEET_DATABASE. Then: interlock fleet setup.",
            )
        _check_installed()
        from procrastinate import PsycopgConnector
        from procrastinate.manager import JobManager
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = conninfo_to_dict(address)
        except ProgrammingError:
            # What is wrong is said with pieces of the address, and any of them may be the password.
            raise ConfigInvalid(
                "the address of the database cannot be read",
                where=SETTING,
                expected="postgresql://USER:PASSWORD@HOST/NAME, with % escapes for special characters",
            ) from None
        self.secrets = tuple(str(parts[name]) for name in ("password", "sslpassword") if parts.get(name))
        self.shown = f"{parts.get('host') or 'this machine'}/{parts.get('dbname') or ''}"
        patience = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 1000 * CONNECT_S, "application_name": "interlock"}
        self._settings: dict[str, Any] = {"conninfo": address, "kwargs": {**patience, **_given(parts, patience)}}
        self.connector = PsycopgConnector(
            **self._settings,
            min_size=0,
            max_size=3,
            timeout=LOST_S,
            reconnect_timeout=LOST_S,
        )
        self.manager: JobManager = JobManager(self.connector)
        self.patient = patient
        self._lost = False

    async def __aenter__(self) -> Self:
        """`FleetUnreachable` when it cannot be reached, with the reason; a pool would only say that it waited."""
        if not self.patient:
            await self.asked(self._connect)
        await self.connector.open_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connector.close_async()

    async def _connect(self) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self._settings["conninfo"], **self._settings["kwargs"]):
            pass

    async def asked(self, question: Callable[P, Awaitable[T]], *args: P.args, **values: P.kwargs) -> T:
        """An answer of the database; `FleetUnreachable` when none comes, `ConfigInvalid` for what a person can mend."""
        import psycopg
        from procrastinate.exceptions import ConnectorException, UniqueViolation

        try:
            async with asyncio.timeout(ANSWER_S):
                if self._lost:  # a pool waits longer and longer until it tries again, and does not say what is wrong
                    await self._connect()
                    self._lost = False
                return await question(*args, **values)
        except TimeoutError as error:
            raise self._away("no answer") from error
        except UniqueViolation:
            raise
        except (psycopg.Error, ConnectorException) as error:
            cause = error if isinstance(error, psycopg.Error) else error.__cause__
            raise self._explained(cause or error) from None

    def _explained(self, error: BaseException) -> Exception:
        from psycopg import InterfaceError, OperationalError, errors

        match error:
            case errors.UndefinedTable() | errors.UndefinedFunction() | errors.UndefinedObject():
                return ConfigInvalid(
                    "the database is not prepared for a fleet, or for an older version",
                    where=f"{SETTING}: {self.shown}",
                    found=self._redacted(error),
                    remedy="Prepare it: interlock fleet setup",
                )
            case errors.ForeignKeyViolation():
                return Forgotten("the database knows this worker no more", where=self.shown)
            case OperationalError() | InterfaceError() | errors.ReadOnlySqlTransaction():
                return self._away(self._redacted(error))
            case _:
                return WorkspaceFailed(
                    "the database of the fleet refuses what it was asked",
                    where=self.shown,
                    found=self._redacted(error),
                    remedy="The user of the address needs the rights to use and create tables there.",
                )

    def _away(self, why: str) -> FleetUnreachable:
        self._lost = True
        return FleetUnreachable(
            "the database of the fleet cannot be reached",
            where=f"{SETTING}: {self.shown}",
            found=why,
            remedy="See that PostgreSQL runs there and can be reached from here, and that user and password are right.",
        )

    def _redacted(self, error: BaseException) -> str:
        text = re.sub(r"\s+", " ", str(error)).strip()
        for secret in (self._settings["conninfo"], *self.secrets):
            text = text.replace(secret, "***")
        return text

    async def rows(self, query: LiteralString, **values: Any) -> list[dict[str, Any]]:
        return await self.asked(self.connector.execute_query_all_async, query, **values)

    async def put(self, order: Order, at: datetime | None = None) -> Queued:
        from procrastinate.exceptions import AlreadyEnqueued
        from procrastinate.jobs import Job

        job = Job(
            queue=order.name,
            priority=order.priority,
            lock=order.lock,
            queueing_lock=order.once,
            task_name=TASK,
            task_kwargs=order.to_json(),
            scheduled_at=at,
        )
        try:
            await self.asked(self.manager.defer_job_async, job)
        except AlreadyEnqueued:
            return Queued.ALREADY
        return Queued.NEW

    async def settle(self, job: Job, worker: int | None, record: Callable[[Job], Awaitable[None]]) -> bool:
        """Records what became of a job, if it is still with this worker; in the whole fleet one at a time."""
        return await self.asked(self._settle, job, worker, record)

    async def _settle(self, job: Job, worker: int | None, record: Callable[[Job], Awaitable[None]]) -> bool:
        async with self.connector.pool.connection() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [SETTLE_LOCK])
            for now in await self.manager.list_jobs_async(id=job.id, status=JobState.DOING):
                if now.worker_id in (worker, None):
                    await record(now)
                    return True
        return False

    async def finish(self, job: Job) -> None:
        from procrastinate.jobs import Status

        await self.manager.finish_job(job, Status.SUCCEEDED, delete_job=False)

    async def give_up(self, job: Job) -> None:
        from procrastinate.jobs import Status

        await self.manager.finish_job(job, Status.FAILED, delete_job=False)

    async def queue_again(self, job: Job, at: datetime = AT_ONCE) -> None:
        """Queues a job again that is worked on.  Where its run is to end, that is queued instead: procrastinate would
        give the job up, and nobody would tell the run."""
        from procrastinate.exceptions import UniqueViolation

        if job.abort_requested:
            await self.put(replace(Order.from_json(job.task_kwargs), message={"kind": "cancel"}))
            await self.finish(job)
            return
        try:
            await self.manager.retry_job(job, at)
        except UniqueViolation:  # the same was queued meanwhile
            await self.finish(job)

    async def setup(self) -> list[str]:
        """Makes the tables of procrastinate, and ours; says what was done."""
        return await self.asked(self._setup)

    async def _setup(self) -> list[str]:
        import psycopg
        from procrastinate.schema import SchemaManager

        done: list[str] = []
        async with await psycopg.AsyncConnection.connect(
            self._settings["conninfo"], **self._settings["kwargs"]
        ) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [SETUP_LOCK])
            for table, text in (("procrastinate_jobs", SchemaManager.get_schema()), ("interlock_workers", TABLE)):
                cursor = await connection.execute("SELECT to_regclass(%s)", [table])
                if await cursor.fetchone() == (None,):
                    await connection.execute(text)
                    done.append(f"made {table}")
        return done


def _given(parts: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """What the address itself says of these."""
    return {name: parts[name] for name in names if parts.get(name) is not None}
