"""Real coding agents in real layers: free of their own permissions, and nothing of what they do reaches the tree.

As root and as an ordinary user it is the same; the kernel decides, not the agent.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import AgentExit
from interlock.workspace import DiskLayer, Network, Workspace
from interlock.workspace.layers.relay import SOCKET_NAME, relay
from tests.real_clients.subjects import ROLE, SUBJECTS, Bench, Subject, marked, text, until
from tools.model_server import Rule, Say, Script, Serving, Shell

EACH = [
    pytest.param(one, id=one.label, marks=[pytest.mark.agents(name) for name in one.packages])
    for one in SUBJECTS
    if one.real
]
Open = Callable[..., Awaitable[DiskLayer]]
WORK = """\
@write {here}/docs/note.md :: in scope
@write {here}/elsewhere.md :: out of scope
@shell git add -A && git -c user.name=A -c user.email=a@b.c commit -qm mine && git tag mine
@shell setsid sleep 4321 > /dev/null 2>&1 < /dev/null & echo $! > docs/pid.txt
@shell echo x > /tmp/scratch.txt; echo y >> ~/.profile; id -u > docs/who.txt
@say OK: all is done"""


@pytest.fixture(params=EACH)
def bench(request: pytest.FixtureRequest, tmp_path: Path, model_server: Serving) -> Bench:
    subject: Subject = request.param
    bench = Bench(subject, tmp_path / "a bench", model_server).furnish()
    git(bench, "init", "-q")
    git(bench, "add", "-A")
    git(bench, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "first")
    return bench


@pytest.fixture
async def open_layer(bench: Bench) -> AsyncIterator[Open]:
    made: list[DiskLayer] = []

    async def make(**more: Any) -> DiskLayer:
        made.append(await bench.layer("", **more))
        return made[-1]

    yield make
    for layer in made:
        await layer.drop()


def git(bench: Bench, *words: str) -> str:
    done = subprocess.run(("git", *words), cwd=bench.workspace, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.req("LY-13", "LY-01")
async def test_what_an_agent_does_stays_in_its_layer(bench: Bench, open_layer: Open) -> None:
    """An edit in scope, one outside, a commit, a tag, a daemon, the home and /tmp: made there, and only there."""
    layer = await open_layer()
    before = (bench.files(), git(bench, "rev-parse", "HEAD"), git(bench, "tag"))
    exit_ = await bench.call(WORK.format(here=layer.root), **bench.inside(layer))
    assert (text(exit_).strip(), exit_.fault, exit_.code) == ("OK: all is done", None, 0), said(bench)
    found = await layer.found(await Workspace(bench.workspace, bench.workspace / ".interlock").snapshot())
    changed = {change.path for change in found.changes}
    assert changed >= {"docs/note.md", "elsewhere.md", "docs/pid.txt", "docs/who.txt"}
    assert found.repository
    assert (bench.files(), git(bench, "rev-parse", "HEAD"), git(bench, "tag")) == before
    assert git(bench, "status", "--porcelain", "--", ":!.interlock") == ""
    assert not (bench.home / ".profile").exists()
    assert not Path("/tmp/scratch.txt").exists()
    assert bench.processes() == []


GOES_ON = Script(
    (Rule((Shell("cat docs/first.md > docs/second.md"), Say("OK: went on")), ("You were cut off",)),),
)


@pytest.mark.long
@pytest.mark.req("LY-15")
@pytest.mark.parametrize("model_server", [GOES_ON], indirect=True, ids=["goes-on"])
async def test_a_session_goes_on_in_a_second_process_in_its_layer(bench: Bench, open_layer: Open) -> None:
    """Cut off in the middle of a command; the new process has the files, the brief and all that was said."""
    layer = await open_layer()
    task = f"# Task\n\nBRIEF-BEGINS\n@write {layer.root}/docs/first.md :: one\n@shell tail -f /dev/null\n@say late"
    first = bench.begin(task, **bench.inside(layer))
    await until(lambda: first.done() or "tail -f" in commands(bench), 60)
    assert not first.done(), said(bench)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    session = next(str(one.data["session"]) for one in bench.news if one.kind == "session")
    again = await bench.call(task, resume=session, **bench.inside(layer))
    assert (text(again).strip(), again.fault) == ("OK: went on", None), said(bench)
    assert again.session == session
    assert layer.facts("docs/second.md").content == b"one\n"
    last = bench.model.turns()[-1]
    assert any("BRIEF-BEGINS" in earlier for earlier in last.earlier)
    assert "You were cut off" in last.human
    assert "BRIEF-BEGINS" not in last.human
    if bench.subject.role == "system":
        assert ROLE in last.system
    assert not (bench.workspace / "docs" / "second.md").exists()


def commands(bench: Bench) -> str:
    """The command lines of everything that carries the mark of this call."""
    lines = (Path(f"/proc/{pid}/cmdline") for pid, _ in marked(bench.marker))
    return "\n".join(line.read_bytes().replace(b"\0", b" ").decode(errors="replace") for line in lines if line.exists())


@pytest.mark.long
@pytest.mark.req("LY-15")
async def test_a_session_that_is_lost_begins_anew(bench: Bench, open_layer: Open) -> None:
    """In the same call, with the whole brief."""
    layer = await open_layer()
    unknown = "ses_000000000000000000000000zz" if bench.subject.client == "opencode" else str(UNKNOWN)
    task = f"BRIEF-BEGINS\n@write {layer.root}/docs/a.md :: x\n@say OK: from the beginning"
    exit_ = await bench.call(task, resume=unknown, **bench.inside(layer))
    assert (text(exit_).strip(), exit_.fault) == ("OK: from the beginning", None), said(bench)
    assert "BRIEF-BEGINS" in bench.model.turns()[0].human


UNKNOWN = "00000000-0000-4000-8000-000000000009"


@pytest.mark.long
@pytest.mark.req("LY-11")
async def test_the_model_is_reached_where_nothing_else_is(
    bench: Bench, open_layer: Open, serve: Callable[[None], Serving]
) -> None:
    """By the hosts that the runner names, and no others: not even another server of this machine."""
    layer = await open_layer(network=Network.MODEL)
    other = serve(None).url.rpartition(":")[2]
    task = f"@shell (exec 3<>/dev/tcp/127.0.0.1/{other}) && echo reached > net.txt\n@say OK: done"
    async with relay(bench.runner("").needs().hosts, layer.exchange / SOCKET_NAME):
        exit_ = await bench.call(task, **bench.inside(layer))
    assert (text(exit_).strip(), exit_.fault) == ("OK: done", None), said(bench)
    assert layer.facts("net.txt").content is None


def said(bench: Bench) -> str:
    """What there is to know of a call that went wrong."""
    records = bench.place / "records"
    ends = [records / name for name in ("stream.jsonl", "stderr.log")]
    return "\n".join(path.read_text(errors="replace")[-3000:] for path in ends if path.exists())


@pytest.mark.long
async def test_a_recalled_call_is_the_call(bench: Bench, open_layer: Open) -> None:
    """Session, answer and tokens, from the stream that was kept."""
    layer = await open_layer()
    exit_ = await bench.call("@usage 1000 50\n@say OK: done", **bench.inside(layer))
    again = await bench.runner("").recall(bench.request("", brief="", **bench.inside(layer)), 0)
    assert again is not None
    assert facts(again) == facts(exit_)


def facts(exit_: AgentExit) -> tuple[Any, ...]:
    return text(exit_), exit_.session, exit_.usage, exit_.fault
