"""`interlock fleet`: why each run waits, in words; and what is wrong when there is no fleet."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import ConfigInvalid
from interlock.fleet.needs import Needs
from interlock.fleet.orders import JobState, Order, QueuedJob, WorkerSeen
from interlock.fleet.overview import SILENT_S, Overview
from interlock.fleet.queue import Queue
from interlock.settings import SettingsInvalid, load_settings
from tests.docs.pages import DOCS, blocks
from tests.docs.session import Reader
from tests.fleet.conftest import Office
from tests.fleet.database import PASSWORD, Server
from tests.fleet.test_moving import waiting_run
from tests.fleet.test_queue import APP, Worker, order
from tests.proofs import long

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(run: str = "r1", number: int = 1, state: JobState = JobState.TODO, **more: Any) -> QueuedJob:
    about = {name: more.pop(name) for name in ("at", "worker", "attempts", "told_to_end") if name in more}
    needs = Needs(APP, **{name: more.pop(name) for name in ("labels", "programs", "playbook", "files") if name in more})
    made = Order(run, "feature", more.pop("key", run), "about", needs, **more)
    return QueuedJob(
        number, made, state, NOW - timedelta(minutes=1), **{"at": None, "worker": "", "attempts": 0} | about
    )


def worker(name: str = "w", **more: Any) -> WorkerSeen:
    usual = {
        "host": "h",
        "version": "1",
        "labels": (),
        "queues": (),
        "repositories": (APP,),
        "run": "",
        "silent_s": 1.0,
    }
    return WorkerSeen(name=name, **{**usual, "refuses": {}, **more})


WAITING = job(labels=("gpu",))
BUSY = worker("busy", run="other")
REASONS = {
    "nobody": (job(), [], [], "no worker is there: start one with interlock worker"),
    "all dead": (job(), [worker(silent_s=SILENT_S)], [], "no worker is there: start one with interlock worker"),
    "label": (WAITING, [worker(), worker("v")], [], "no worker has label gpu"),
    "repository": (job(), [worker(repositories=("host/x",))], [], f"no worker has repository {APP}"),
    "several": (
        job(labels=("gpu", "big")),
        [worker(labels=("gpu",)), worker("v", labels=("big",))],
        [],
        "no worker has all it needs: w lacks label big; v lacks label gpu",
    ),
    "said": (WAITING, [worker(refuses={WAITING.order.name: ("program x",)})], [], "no worker has program x"),
    "queue": (job(queue="night"), [worker(queues=("day",))], [], "nobody listens to queue night"),
    "one listens": (
        job(queue="night", labels=("gpu",)),
        [worker(queues=("day",)), worker("v")],
        [],
        "no worker has label gpu",
    ),
    "one busy": (
        WAITING,
        [worker(), worker("v", labels=("gpu",), run="x")],
        [],
        "the only worker that could do it is busy",
    ),
    "all busy": (job(), [BUSY, worker("v", run="x")], [], "all who could do it are busy"),
    "idle": (job(), [BUSY, worker()], [], "about to be taken"),
    "later": (
        job(at=NOW + timedelta(hours=1)),
        [worker()],
        [],
        f"scheduled for {(NOW + timedelta(hours=1)).astimezone():%Y-%m-%d %H:%M:%S}",
    ),
    "tried again": (
        job(at=NOW + timedelta(hours=1), attempts=2),
        [worker()],
        [],
        f"a worker failed at it: tried again at {(NOW + timedelta(hours=1)).astimezone():%Y-%m-%d %H:%M:%S}",
    ),
    "due": (job(at=NOW - timedelta(hours=1)), [worker()], [], "about to be taken"),
    "same key": (
        job(key="k"),
        [worker()],
        [job("first", 0, JobState.DOING, key="k")],
        "first is worked on, with the same key",
    ),
    "same run": (job(), [worker()], [job("r1", 0, JobState.DOING)], "r1 is worked on"),
    "after another": (
        job(key="k"),
        [worker()],
        [job("urgent", 2, key="k", priority=1)],
        "urgent comes first, with the same key",
    ),
    "before another": (job(key="k"), [worker()], [job("later", 2, key="k")], "about to be taken"),
    "worked on": (job(state=JobState.DOING, worker="w"), [worker(run="r1")], [], ""),
    "to end": (job(state=JobState.DOING, worker="w", told_to_end=True), [worker(run="r1")], [], "told to end"),
    "orphan": (job(state=JobState.DOING), [worker()], [], "its worker gives no sign of life: others will take it"),
    "given up": (
        job(state=JobState.FAILED, attempts=8),
        [worker()],
        [],
        "begun 8 times, and workers failed at it: their logs say why",
    ),
}


@pytest.mark.req("WK-16")
@pytest.mark.parametrize(("one", "workers", "others", "why"), REASONS.values(), ids=REASONS)
def test_it_is_said_why_a_run_waits(
    one: QueuedJob, workers: list[WorkerSeen], others: list[QueuedJob], why: str
) -> None:
    """Each reason in words, the first that holds."""
    assert Overview(workers, [*others, one], [], NOW).why(one) == why


def test_figures_are_in_the_form_of_prometheus() -> None:
    """Each family has its type, each sample its labels, whatever stands in them."""
    lost = job("lost", 3, labels=("gpu",), queue='a"b\\c\nd')
    seen = Overview(
        [worker(), BUSY, worker("v", silent_s=SILENT_S)], [job(), lost], [job("x", 4, JobState.FAILED)], NOW
    )
    lines = list(seen.metrics())
    sample = re.compile(r'interlock_fleet_[a-z_]+(\{([a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? [0-9.e+-]+')
    assert all(sample.fullmatch(line) or re.fullmatch("# (HELP|TYPE) interlock_fleet_.+", line) for line in lines)
    for line in (
        'interlock_fleet_workers{state="idle"} 1',
        'interlock_fleet_workers{state="busy"} 1',
        'interlock_fleet_workers{state="silent"} 1',
        'interlock_fleet_jobs{queue="default",state="todo"} 1',
        'interlock_fleet_jobs{queue="default",state="failed"} 1',
        'interlock_fleet_longest_wait_seconds{queue="default"} 60',
        'interlock_fleet_longest_wait_seconds{queue="a\\"b\\\\c\\nd"} 60',
        "interlock_fleet_jobs_nobody_can_take 1",
    ):
        assert line in lines


@pytest.mark.req("WK-01")
async def test_a_fleet_is_prepared_and_shown(office: Office, server: Server) -> None:
    """`setup`, then workers, what they do, what waits and why, on 80 columns, and for programs."""
    clone = office.clone("laptop")
    address = server.fresh()

    async def ask(*words: str) -> str:
        told = await asyncio.to_thread(clone, *words, INTERLOCK_FLEET_DATABASE=address)
        assert (told.code, told.stderr) == (0, "")
        return told.stdout.decode()

    assert "The database is ready" in await ask("fleet", "setup")
    assert await ask("fleet", "setup") == "The database was ready already.\n"
    assert await ask("fleet") == "No worker is there. Start one: interlock worker\nNothing is queued.\n"
    name = "feature-20260102-030405-abcd"
    async with Queue.of(address) as queue:
        await queue.put(order(name, by="Ada"))
        working = Worker(queue, "a-machine-with-a-long-name:some-folder", labels=frozenset({"gpu", "large"}))
        await working.at_work()
        await queue.put(order("next", labels=("tpu",), queue="night", priority=3))
        await queue.put(order("wide", key="k" * 300))
        shown = (await ask("fleet")).splitlines()
        found = json.loads(await ask("fleet", "--json"))
        figures = await ask("fleet", "--metrics")
        await working.end()
    assert max(map(len, shown)) <= 80
    text = re.sub(r"\s+", " ", re.sub(r"[\d.]+ s\b", "N s", " ".join(shown)))
    assert text == (
        "WORKERS a-machine-with-a-long-name:some-folder works on feature-20260102-030405-abcd; labels gpu, large "
        "WORKED ON feature-20260102-030405-abcd on a-machine-with-a-long-n…, for N s: what "
        "feature-20260102-030405-abcd is about "
        "QUEUED next, for N s, queue night, priority 3: what next is about no worker has label tpu "
        "wide, for N s: what wide is about the only worker that could do it is busy"
    )
    assert [(one["order"]["run"], one["state"], one["why"]) for one in found["jobs"]] == [
        (name, "doing", ""),
        ("next", "todo", "no worker has label tpu"),
        ("wide", "todo", "the only worker that could do it is busy"),
    ]
    assert [(one["name"], one["run"], one["alive"]) for one in found["workers"]] == [
        ("a-machine-with-a-long-name:some-folder", name, True)
    ]
    assert 'interlock_fleet_jobs{queue="night",state="todo"} 1\n' in figures
    assert PASSWORD not in "".join([*shown, figures, str(found)])


@pytest.mark.req("WK-01", "WK-16")
def test_without_a_fleet_it_is_said_what_to_do(office: Office, server: Server) -> None:
    """No database, one that is not prepared, a wrong password, nobody there: exit 2 and a remedy, no password."""
    clone = office.clone("laptop")
    for address, remedy in {
        "": "INTERLOCK_FLEET_DATABASE",
        server.fresh(): "interlock fleet setup",
        server.address("postgres", PASSWORD + "x"): "user and password are right",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x": "PostgreSQL runs there",
    }.items():
        told = clone("fleet", INTERLOCK_FLEET_DATABASE=address)
        assert told.code == 2
        assert remedy in told.stderr
        assert PASSWORD not in told.stderr + told.stdout.decode()


@pytest.mark.req("WK-01")
def test_the_page_says_what_is_seen(tmp_path: Path, database: str) -> None:
    """Whoever follows the page about fleets sees what it says; no command on it is left untried."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    reader = Reader(folder, tmp_path / "bin", INTERLOCK_FLEET_DATABASE=database)
    page = list(blocks(DOCS / "fleet.md"))
    reader.follow(iter(page))
    assert reader.typed
    assert all(block.marks.keys() & {"test", "install"} for block in page if block.language == "sh")


@pytest.mark.req("WK-01")
def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed it is told how to."""
    monkeypatch.setitem(sys.modules, "procrastinate", None)
    with pytest.raises(ConfigInvalid) as raised:
        Queue.of("postgresql://h/x")
    assert "interlock[fleet]" in str(raised.value.remedy)


@pytest.mark.req("WK-16")
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:s%2Fcret-word@h/x",
        *long("host=h password='s/cret-word' dbname=x", "postgresql://h/x?password=s/cret-word&sslmode=require"),
    ],
)
def test_the_database_does_not_travel(office: Office, address: str) -> None:
    """In settings that are not committed it refuses the send, in other new work its password does; none is shown."""
    laptop = office.clone("laptop")
    run = waiting_run(laptop)
    settings = laptop.root / "interlock.toml"
    before = settings.read_text("utf-8")
    settings.write_text(f'{before}[fleet]\ndatabase = "{address}"\n', "utf-8")
    refused = laptop("send", run)
    assert (refused.code, "interlock.toml" in refused.stderr) == (2, True)
    settings.write_text(before, "utf-8")
    (laptop.root / "notes.txt").write_text("it is s/cret-word\n", "utf-8")
    again = laptop("send", run, INTERLOCK_FLEET_DATABASE=address)
    assert (again.code, "notes.txt" in again.stderr) == (2, True)
    assert not any(word in refused.stderr + again.stderr for word in ("cret-word", address))
    (laptop.root / "notes.txt").unlink()
    settings.write_text(f'{before}[fleet]\ndatabase = "postgresql://h/without-a-password"\n', "utf-8")
    assert laptop("send", run).code == 0


@pytest.mark.req("WK-16")
def test_settings_that_cannot_be_used_do_not_show_the_database(tmp_path: Path) -> None:
    """Not the value that is wrong, nor the settings as Python shows them."""
    (tmp_path / "interlock.toml").write_text('[fleet]\ndatabase = "postgresql://u:s-cret\\u0000@h/x"\n', "utf-8")
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(tmp_path, {})
    assert "fleet.database" in str(raised.value)
    assert "s-cret" not in " ".join([str(raised.value), *(text for _, text in raised.value.parts())])
    shown = repr(load_settings(tmp_path.parent, {"INTERLOCK_FLEET_DATABASE": "postgresql://u:s-cret@h/x"}))
    assert "s-cret" not in shown
