"""The database of the fleet: how it is reached, prepared, and what its errors are for a person.

The only module that imports procrastinate and psycopg, when it is used: they come with the extra `interlock[fleet]`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, LiteralString, ParamSpec, Self, TypeVar, cast

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.fleet.orders import JobState, Order, Queued

if TYPE_CHECKING:
    from procrastinate.jobs import Job
    from procrastinate.manager import JobManager
    from psycopg import AsyncConnection

TASK: Final = "interlock.run"
ANSWER_S: Final = 15.0
"""A database that takes longer for an answer counts as away."""
KEPT: Final = 2
"""Connections that are kept for the next question."""
PATIENCE: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "interlock",
}
"""What libpq is told where the address does not say otherwise: who vanishes is noticed within half a minute."""
SETUP_LOCK: Final = 7_015_460_212_263_291_153
"""Two who prepare the same database at once do it one after the other."""
SETTLE_LOCK: Final = SETUP_LOCK + 1
NOTED: Final = "for procrastinate "
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
        import procrastinate  # noqa: F401
        import psycopg  # noqa: F401 - whether they are there
    except ImportError as error:
        raise ConfigInvalid(
            "runs on a fleet need the packages procrastinate and psycopg",
            found=str(error),
            remedy="Install interlock with its extra: pip install 'interlock[fleet]'",
        ) from error
    for logger in (logging.getLogger("procrastinate"), logging.getLogger("psycopg")):
        if not logger.handlers:  # Python would print their warnings on the terminal
            logger.addHandler(logging.NullHandler())


class Connections:
    """Connections to one database, each made when it is needed; what procrastinate asks of a pool.

    psycopg's own pool makes connections in the background, with longer and longer pauses, and says to whoever waits
    only that they waited.  Here whoever asks hears at once what is wrong, and is heard at once when it is mended.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._connect = connect
        self._free: list[AsyncConnection] = []

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """One for a transaction: it is committed at the end, and lost with an error."""
        connection = await self._open()
        try:
            yield connection
            await connection.commit()
        except BaseException:
            await connection.close()
            raise
        if len(self._free) < KEPT:
            self._free.append(connection)
        else:
            await connection.close()

    async def _open(self) -> AsyncConnection:
        """A connection that works: one of those before a restart of the database does not."""
        from psycopg import OperationalError

        while self._free:
            connection = self._free.pop()
            try:
                await connection.execute("")
            except OperationalError:
                await connection.close()
            except BaseException:
                await connection.close()
                raise
            else:
                return connection
        return await self._connect()

    async def close(self) -> None:
        while self._free:
            await self._free.pop().close()


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
        from psycopg import AsyncConnection, ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = conninfo_to_dict(address)
        except ProgrammingError:
            parts = {"host": "@"}
        # With a '@' or '/' in it that is not escaped, the rest of a password counts as host, port or name.
        if "@" in f"{parts.get('host')}{parts.get('dbname')}" or not re.fullmatch(
            r"[\d,]*", str(parts.get("port") or "")
        ):
            # What is wrong could only be said with pieces of the address, and any of them may be the password.
            raise ConfigInvalid(
                "the address of the database cannot be read",
                where=SETTING,
                expected="postgresql://USER:PASSWORD@HOST/NAME, with % escapes for special characters",
            )
        self.secrets = tuple(str(parts[name]) for name in ("password", "sslpassword") if parts.get(name))
        self.shown = f"{parts.get('host') or 'this machine'}/{parts.get('dbname') or ''}"
        own: dict[str, Any] = {name: value for name, value in PATIENCE.items() if parts.get(name) is None}
        self._address = address
        self._lines = Connections(partial(AsyncConnection.connect, address, prepare_threshold=None, **own))
        self._patient = patient
        self.connector = PsycopgConnector()
        self.manager: JobManager = JobManager(self.connector)

    async def __aenter__(self) -> Self:
        if not self._patient:
            await self.asked(self._look)
        await self.connector.open_async(cast("Any", self._lines))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lines.close()

    async def _look(self) -> None:
        async with self._lines.connection():
            pass

    async def asked(self, question: Callable[P, Awaitable[T]], *args: P.args, **values: P.kwargs) -> T:
        """An answer of the database; `FleetUnreachable` when none comes, `ConfigInvalid` for what a person can mend."""
        import psycopg
        from procrastinate.exceptions import ConnectorException, UniqueViolation

        try:
            async with asyncio.timeout(ANSWER_S):
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
        return FleetUnreachable(
            "the database of the fleet cannot be reached",
            where=f"{SETTING}: {self.shown}",
            found=why,
            remedy="See that PostgreSQL runs there and can be reached from here, and that user and password are right.",
        )

    def _redacted(self, error: BaseException) -> str:
        text = re.sub(r"\s+", " ", str(error)).strip()
        for secret in (self._address, *self.secrets):
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
        async with self._lines.connection() as connection:
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
        """Makes the tables of procrastinate, or brings them to its version, and ours; says what was done."""
        return await self.asked(self._setup)

    async def _setup(self) -> list[str]:
        from procrastinate import __version__ as installed
        from procrastinate.schema import SchemaManager
        from psycopg.sql import SQL

        done: list[str] = []
        async with self._lines.connection() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [SETUP_LOCK])
            cursor = await connection.execute(
                "SELECT to_regclass('procrastinate_jobs'), obj_description(to_regclass('interlock_workers'))"
            )
            jobs, noted = await cursor.fetchone() or (None, None)
            if jobs is None:
                await connection.execute(SchemaManager.get_schema())
                done.append("made the tables of procrastinate")
            for place in migrations(Path(SchemaManager.get_migrations_path()), noted) if jobs is not None else ():
                await connection.execute(place.read_bytes())
                done.append(f"brought the tables of procrastinate up to {place.stem}")
            if noted != (note := f"{NOTED}{installed}"):
                await connection.execute(TABLE)
                await connection.execute(SQL("COMMENT ON TABLE interlock_workers IS {}").format(note))
                done.append("made the table of workers" if noted is None else f"noted {note}")
        return done


def migrations(folder: Path, noted: str | None) -> list[Path]:
    """What procrastinate changed since the version that a database was made for, in its order.

    Args:
        noted: on our table; None: the tables of procrastinate are somebody's who cares for them.
    """
    if noted is None:
        return []
    made_for = [int(number) for number in noted.removeprefix(NOTED).split(".")[:3]]
    places = sorted(folder.glob("*.sql"))
    return [place for place in places if [int(number) for number in place.name.split("_")[0].split(".")] > made_for]
