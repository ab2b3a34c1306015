"""Pages that stay up to date: server-sent events, as a browser's EventSource gets them (PAGE-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.engine import events as ev
from interlock.web import live
from interlock.workspace.values import EMPTY
from tests.web.conftest import Site
from tests.web.many import NOTHING, STILL, lay

pytestmark = pytest.mark.req("PAGE-01")


LOOKS = 1000


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two looks; after so many, a page on which nothing is new counts as gone."""
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    looks, version = iter(range(LOOKS)), live.version

    def counted(stamp: tuple[Any, ...]) -> str:
        if next(looks, None) is None:
            raise LookupError
        return version(stamp)

    monkeypatch.setattr(live, "version", counted)


async def until(events: AsyncIterator[tuple[str, str, str]], said: str) -> tuple[str, str]:
    """The first part that has these words, with its id."""
    async for kind, id, html in events:
        if kind == "part" and said in html:
            return id, html
    raise AssertionError(f"the stream ended before {said!r}")


async def test_two_who_watch_the_board_see_what_begins(site: Site) -> None:
    """One look and one rendering for both; only the live part is sent."""
    runs = site.entry().path.parent
    async with site.watch("/stream/") as first, site.watch("/stream/") as second:
        seen = [await until(one, "Ship a kite?") for one in (first, second)]
        lay(runs, 9)
        seen += [await until(one, "the lamp number 9") for one in (first, second)]
        assert seen[0] == seen[1]
        assert seen[2] == seen[3]
        assert seen[2][1].startswith('<div id="live">')
        assert len(site.page.live._pages) == 1
    assert site.page.live._pages == {}


async def test_whoever_comes_back_gets_what_they_missed_and_nothing_twice(site: Site) -> None:
    """With the version of the page, or the id of the last event that they got."""
    version = (await asyncio.to_thread(site.get, "/")).text.partition('data-version="')[2].partition('"')[0]
    runs = site.entry().path.parent
    for how in ({"target": f"/stream/?since={version}"}, {"target": "/stream/", "last_event_id": version}):
        async with site.watch(**how) as events:
            lay(runs, 9)
            assert "the lamp number 9" in (await until(events, ""))[1], "the first part is not what they have"
        (runs / "task-20261118-000009-0000" / "journal.jsonl").unlink()


async def test_an_agent_is_watched_while_it_works(site: Site) -> None:
    """The run's page and its dispatch's, with what it says; as data."""
    runs = site.entry().path.parent
    facts = {"agent": "builder", "member": "", "attempt": 1, "runner": "mine"}
    call = ev.Called(
        **facts, step="x", n=1, standing=STILL, pair=NOTHING, shown=EMPTY, layer="x", brief=ev.Digest("0" * 64)
    )
    run = lay(runs, 9, dispatches=0, then=[("round-1/builder#1", call)])
    entry = site.entry(run)
    transcript = entry.folder.transcript("round-1/builder#1", 1)
    transcript.parent.mkdir(parents=True)
    with entry.lock():
        page = await asyncio.to_thread(site.get, f"/runs/{run}/dispatches/round-1%2Fbuilder%231")
        stream = page.text.partition('data-stream="')[2].partition('"')[0]
        assert stream == f"/stream/runs/{run}/dispatches/round-1/builder%231"
        async with site.watch(stream) as dispatch, site.watch(f"/stream/runs/{run}") as whole:
            await until(dispatch, "working")
            transcript.write_text("I build a <b>kite</b>.\n")
            assert "<b>kite" not in (await until(dispatch, "I build a &lt;b&gt;kite&lt;/b&gt;."))[1]
            assert 'class="working"' in (await until(whole, "&lt;b&gt;kite"))[1]
    assert "interrupted" in (await asyncio.to_thread(site.get, f"/runs/{run}")).words


async def test_streams_end_with_what_they_tell_of_and_stay_without_news(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the server, and with a run that is gone; what lies between closes one on which nothing is said."""
    run = site.entry("ship")
    async with site.watch(f"/stream/runs/{run.id}") as events:
        await until(events, "a kite")
        run.journal.unlink()
        run.journal.mkdir()
        assert [event async for event in events] == []
    async with site.watch("/stream/") as events:
        await until(events, "Make add right")
        site.page.live.close()
        assert [event async for event in events] == []
    monkeypatch.setattr(live, "STILL_THERE_S", 0.0)
    quiet = live.Live().events("x", lambda: (1,), lambda: "", live.version((1,)))
    assert [await anext(quiet) for _ in range(3)] == [b"retry: 1000\n\n", *2 * [b": still there\n\n"]]
    await quiet.aclose()  # type: ignore[attr-defined]
