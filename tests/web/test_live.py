"""Pages that are watched: what changed is sent, to all who watch, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import IncompleteRead

import pytest

from interlock.pages import address
from tests.web.conftest import Client, Place, Site, Stream, until


def stream_of(client: Client, path: str) -> str:
    """The address of the stream that a page names, with what the page was made from."""
    found = re.search(r'data-stream="([^"]+)"', client.get(path).text)
    assert found, path
    return found[1].replace("&amp;", "&")


def until_said(stream: Stream, part: str, text: str) -> set[str]:
    """The parts that are sent until this one says this."""
    sent = set[str]()
    while True:
        heard = stream.part()
        sent.add(heard["id"])
        if heard["id"] == part and text in heard["html"]:
            return sent


@contextmanager
def watching(client: Client, path: str, last: str = "") -> Iterator[Stream]:
    stream = Stream(client, path, last)
    try:
        yield stream
    finally:
        stream.close()


@pytest.mark.req("WB-02", "WB-03")
def test_only_what_changed_is_sent(place: Place, site: Site) -> None:
    """The first that whoever watches hears is what happened after their page was made; two get the same."""
    run_id = place.waiting("a kite")
    one, other = site.client(), site.client()
    board, run = stream_of(one, "/"), stream_of(other, f"/{place.name}/runs/{run_id}")
    with watching(one, board) as first, watching(other, board) as second, watching(one, run) as third:
        assert first.answer.headers["content-type"].startswith("text/event-stream")
        place.waiting("a boat")
        for stream in (first, second):
            assert until_said(stream, "board-waiting", "a boat") <= {"board-waiting", "board-working"}
        assert place("approve", run_id, "--resume").returncode == 0
        assert third.part()["id"].startswith("run-")
        third_last = third.last
    assert third_last


@pytest.mark.req("WB-04")
def test_an_agent_is_watched_while_it_works(place: Place, site: Site) -> None:
    """The page of its dispatch is live, with what it says; another one of the run is another page."""
    place.scenario({"agent": "planner", "misbehave": "hang"})
    run_id = place.json("run", "ship", "a kite", "--detach")["run_id"]
    until(lambda: "dispatch.start" in place.events(run_id), "the agent is called")
    key = next(line["key"] for line in place.journal(run_id) if line["event"] == "dispatch.start")
    client = site.client()
    path = address.dispatch(place.name, run_id, key)
    assert "at work" in client.get(path).text
    with watching(client, stream_of(client, path)) as stream:
        transcript = next(place.folder(run_id).rglob("transcript.jsonl"))
        with transcript.open("a", encoding="utf-8") as file:
            file.write('{"ts": "2026-01-01T00:00:00Z", "kind": "text", "text": "I build a <b>kite</b>."}\n')
        assert until_said(stream, "dispatch", "I build a &lt;b&gt;kite&lt;/b&gt;.") == {"dispatch"}


@pytest.mark.req("WB-02")
def test_whoever_comes_back_gets_what_they_missed(place: Place, site: Site) -> None:
    """With the id of the last event that they got; what is not known by now is sent whole."""
    client = site.client()
    board = stream_of(client, "/")
    with watching(client, board) as stream:
        place.waiting("a kite")
        stream.part()
        last = stream.last
    place.waiting("a boat")
    with watching(client, board, last) as stream:
        assert until_said(stream, "board-waiting", "a boat")


@pytest.mark.req("WB-07")
def test_a_watched_server_ends_when_it_is_told(place: Place, site: Site) -> None:
    """Streams end with it, and it says that runs go on."""
    client = site.client()
    with watching(client, stream_of(client, "/")) as stream:
        assert site.end() == 0
        try:
            left = stream.answer.read()
        except IncompleteRead as cut:  # it may end in the middle of the stream, or behind it
            left = cut.partial
        assert b"data: " not in left
