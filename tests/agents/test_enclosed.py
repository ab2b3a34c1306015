"""Programs that run in a layer: started by its launcher, in its folder, ended as everywhere; with real layers too."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from interlock.agents import AgentNews, AgentRequest, CommandRunner, Runner, Scenario, ScriptedRunner, process_table
from interlock.workspace import Confinement, DiskLayer, Workspace, open_layers
from tests.agents.conftest import Wrapped
from tests.deadlines import Deadline, says

Execute = Callable[..., Any]
Program = Callable[[str], list[str]]
RequestFor = Callable[..., AgentRequest]


# -- the launcher


@pytest.mark.req("LY-11")
async def test_a_program_runs_in_its_folder_by_the_launcher(execute: Execute, program: Program, tmp_path: Path) -> None:
    """With its input, output, environment and exit status; the launcher itself begins elsewhere."""
    (tmp_path / "inner").mkdir()
    argv = program(
        """
        import os, sys
        print(os.getcwd(), os.environ["WORD"], sys.stdin.read(), os.readlink(f"/proc/{os.getppid()}/cwd"))
        sys.exit(7)
        """
    )
    env = {**os.environ, "WORD": "word"}
    within = Wrapped(tmp_path)
    ended = await execute(argv, cwd=tmp_path / "inner", env=env, stdin=b"in", within=within)
    assert ended.code == 7
    assert (tmp_path / "out").read_text().split() == [str(tmp_path / "inner"), "word", "in", "/"]


async def test_a_program_that_a_signal_ended_is_told_as_that(execute: Execute, tmp_path: Path) -> None:
    """As without a launcher."""
    assert (await execute(["sh", "-c", "kill -USR1 $$"], within=Wrapped(tmp_path))).code == -10


@pytest.mark.parametrize("name", ["no-such-program", "/nowhere/program"])
async def test_a_program_that_is_not_there_is_told_as_that(execute: Execute, tmp_path: Path, name: str) -> None:
    """Not as the failure of a launcher that began well."""
    ended = await execute([name], within=Wrapped(tmp_path))
    assert ended.code is None
    assert name in ended.spawn_error


@pytest.mark.req("LY-11")
async def test_at_the_deadline_the_program_is_asked_to_end_and_not_its_launcher(
    execute: Execute, program: Program, tmp_path: Path, deadline: Deadline
) -> None:
    """Who would take everything with it, before the program could leave its last words."""
    argv = program(
        """
        import os, signal, sys, time
        def leave(number, frame):
            os.write(1, b"last words\\n")  # it may be told in the middle of the other print
            sys.exit(4)
        signal.signal(signal.SIGTERM, leave)
        print("began", flush=True)
        time.sleep(600)
        """
    )
    deadline(says(tmp_path / "out", b"began"))
    ended = await execute(argv, within=Wrapped(tmp_path), grace_s=120)
    assert (ended.timed_out, ended.code) == (True, 4)
    assert (tmp_path / "out").read_text() == "began\nlast words\n"
    assert not (tmp_path / "launcher-was-told").exists()


async def test_a_program_that_does_not_want_to_end_is_killed_with_its_launcher(
    execute: Execute, tmp_path: Path, marker: str
) -> None:
    """Nothing is left of either."""
    ended = await execute(["sh", "-c", "trap '' TERM; sleep 600 & wait"], within=Wrapped(tmp_path), timeout_s=0.5)
    assert ended.timed_out
    left = [one for one in process_table.processes() if not one.dead and process_table.marker(one.pid) == marker]
    assert left == []


async def test_a_program_is_ended_as_soon_as_it_is_enough(execute: Execute, program: Program) -> None:
    """Whoever listens decides that; it is no deadline that passed."""
    enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    argv = program("import time; print('x', flush=True); time.sleep(600)")
    ended = await execute(argv, tap=lambda chunk: enough.set_result(None) if chunk else None, enough=enough)
    assert (ended.timed_out, ended.code) == (False, -15)


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("confined", [True, False])
async def test_a_hidden_folder_for_temporary_files_is_not_named(
    execute: Execute, tmp_path: Path, confined: bool
) -> None:
    """In a layer /tmp is private; a folder of the workspace is the workspace's."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": "/home/somebody/tmp", "TEMP": str(tmp_path / "x")}
    await execute(["sh", "-c", "echo ${TMPDIR-none} ${TEMP-none}"], env=env, within=Wrapped(tmp_path, confined))
    told = ["none" if confined else "/home/somebody/tmp", str(tmp_path / "x")]
    assert (tmp_path / "out").read_text().split() == told


# -- real layers


@pytest.fixture(params=["namespaces", "copy"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path / "tree", request.param)
    yield made
    for layer in made.layers:
        await layer.drop()


class Place:
    """A user's tree, and layers over it for runners."""

    def __init__(self, root: Path, maker: str) -> None:
        self.root, self._maker = root, maker
        root.mkdir()
        self.layers: list[DiskLayer] = []
        (root / "kept.md").write_text("kept\n")
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=root, check=True)
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, "commit", "-qm", "first"], cwd=root, check=True)
        self.workspace = Workspace(root, root / ".interlock")

    async def layer(self, runner: Runner) -> DiskLayer:
        layers = open_layers(self.workspace, environ=os.environ, maker=self._maker)
        if layers.probe().maker != self._maker:
            pytest.skip(layers.probe().why)
        needs = runner.needs()
        confinement = Confinement(home=needs.home, login=needs.login, shown=needs.shown, hosts=needs.hosts)
        self.layers.append(await layers.make("run-00000001", confinement))
        return self.layers[-1]

    def files(self) -> dict[str, str]:
        """What is in the user's own tree."""
        places = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return {str(path): (self.root / path).read_text() for path in places if path.parts[0][0] != "."}

    def request(self, request_for: RequestFor, layer: DiskLayer, **more: Any) -> AgentRequest:
        return request_for(within=layer, workspace=layer.root, exchange=layer.exchange, **more)


@pytest.mark.req("LY-01")
async def test_a_program_s_work_stays_in_its_layer(
    place: Place, request_for: RequestFor, program: Program, tmp_path: Path
) -> None:
    """It finds its brief, leaves its answer and its files; the user's tree is as it was, and nothing runs on."""
    argv = program(
        """
        import os, pathlib, subprocess, sys
        brief = pathlib.Path(os.environ["INTERLOCK_BRIEF"]).read_text()
        pathlib.Path("kept.md").write_text("changed")
        pathlib.Path("new.md").write_text(brief)
        pathlib.Path(os.environ["INTERLOCK_RESULT"]).write_text('{"status": "success"}')
        subprocess.Popen(["setsid", "sleep", "600"], stdin=-3, stdout=-3, stderr=-3)
        print(os.getcwd(), sys.stdin.read() == brief)
        """
    )
    runner = CommandRunner("mine", argv, {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    layer = await place.layer(runner)
    request = place.request(request_for, layer)
    ended = await runner.call(request, lambda _news: None)
    assert (ended.code, ended.result) == (0, b'{"status": "success"}'), (request.folder / "stderr.log").read_text()
    assert ended.output.read().split() == [str(layer.root).encode(), b"True"]
    found = await layer.found(await place.workspace.snapshot())
    assert {change.path for change in found.changes} == {"kept.md", "new.md"}
    assert place.files() == {"kept.md": "kept\n"}
    assert {path.name for path in request.folder.iterdir()} >= {"output.md", "stderr.log", "transcript.jsonl"}


@pytest.mark.req("LY-11")
async def test_an_agent_that_is_cut_off_in_a_layer_can_say_goodbye(
    place: Place, request_for: RequestFor, program: Program, tmp_path: Path, deadline: Deadline
) -> None:
    """The request to end reaches the agent itself, through the launcher that does not end of it."""
    argv = program(
        """
        import pathlib, signal, sys, time
        def leave(number, frame):
            pathlib.Path("goodbye.md").write_text("left")
            sys.exit(4)
        signal.signal(signal.SIGTERM, leave)
        print("began", flush=True)
        time.sleep(600)
        """
    )
    runner = CommandRunner("mine", argv, {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    layer = await place.layer(runner)
    request = place.request(request_for, layer)
    deadline(says(request.output_path, b"began"))
    ended = await runner.call(request, lambda _news: None)
    assert (ended.timed_out, ended.code) == (True, 4)
    assert layer.facts("goodbye.md").content == b"left"


@pytest.mark.parametrize("script", ["setsid sleep 600 & exit 3", "exec 2>&-; (sleep 600 &) ; exit 3"])
async def test_where_the_kernel_ends_everything_nobody_looks_at_all_processes(
    place: Place, request_for: RequestFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """A launcher that ended in order has taken its namespace along; without one, everything is looked at."""
    runner = CommandRunner("mine", ["sh", "-c", script], {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    layer = await place.layer(runner)
    look = process_table.processes
    looked = Mock(side_effect=look)
    monkeypatch.setattr(process_table, "processes", looked)
    request = place.request(request_for, layer)
    assert (await runner.call(request, lambda _news: None)).code == 3
    assert looked.called != layer.sealed
    assert not [one.pid for one in look() if not one.dead and process_table.marker(one.pid) == request.marker]


async def test_a_launcher_that_was_killed_is_not_trusted_to_have_ended_everything(
    place: Place, request_for: RequestFor, tmp_path: Path
) -> None:
    """Then all processes are looked at, and nothing is left when the call returns."""
    runner = CommandRunner("mine", ["sleep", "600"], {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    layer = await place.layer(runner)
    request = place.request(request_for, layer)

    def told(news: AgentNews) -> None:
        if news.kind == "started":
            os.kill(int(str(news.data["pid"])), 9)

    assert (await runner.call(request, told)).code == -9
    left = [one.pid for one in process_table.processes() if not one.dead]
    assert not [pid for pid in left if process_table.marker(pid) == request.marker]


async def test_a_program_that_is_not_in_the_layer_is_told_as_that(
    place: Place, request_for: RequestFor, tmp_path: Path
) -> None:
    """Only the launcher can know: it counts from a folder of the layer."""
    runner = CommandRunner("mine", ["./none"], {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    layer = await place.layer(runner)
    ended = await runner.call(place.request(request_for, layer), lambda _news: None)
    assert ended.code is None
    assert "./none" in (ended.spawn_error or "")


@pytest.mark.req("LY-01")
async def test_a_scripted_agent_plays_in_its_layer(place: Place, request_for: RequestFor) -> None:
    """Files, additions, deletions and what it really runs."""
    scenario = """
reactions:
- files: {docs/a.md: "new\\n"}
  append: {kept.md: "more\\n"}
  run: [sh, -c, "cat kept.md; echo built > built.txt"]
  message: "done: {run}"
"""
    runner = ScriptedRunner(Scenario.parse(scenario, "s.yaml"), inherit=os.environ)
    layer = await place.layer(runner)
    request = place.request(request_for, layer)
    ended = await runner.call(request, lambda _news: None)
    assert (ended.code, ended.output.read()) == (0, b"done: kept\nmore\n"), (request.folder / "stderr.log").read_text()
    assert layer.facts("docs/a.md").content == b"new\n"
    assert layer.facts("built.txt").content == b"built\n"
    assert place.files() == {"kept.md": "kept\n"}


@pytest.mark.req("LY-38")
async def test_what_was_played_can_be_recalled(place: Place, request_for: RequestFor) -> None:
    """Once it was played to its end; not by a program of it that ended."""
    scenario = "reactions:\n- message: done\n  usage: {input_tokens: 5}\n  exit: 3\n"
    runner = ScriptedRunner(Scenario.parse(scenario, "s.yaml"), inherit=os.environ)
    layer = await place.layer(runner)
    request = place.request(request_for, layer)
    assert await runner.recall(request, 0) is None
    first = await runner.call(request, lambda _news: None)
    again = await runner.recall(request, 0)
    assert again is not None
    assert (again.code, again.usage, again.output.read()) == (3, first.usage, b"done")


@pytest.mark.req("LY-38")
async def test_a_program_s_answer_can_be_recalled(
    place: Place, request_for: RequestFor, program: Program, tmp_path: Path
) -> None:
    """From what it printed or wrote; where there is neither, nobody can tell."""
    argv = program("import sys; print(sys.stdin.read()[:11]); sys.exit(2)")
    runner = CommandRunner("mine", argv, {}, {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    layer = await place.layer(runner)
    request = place.request(request_for, layer)
    assert await runner.recall(request, 0) is None
    await runner.call(request, lambda _news: None)
    left = layer.exit()
    assert left is not None
    again = await runner.recall(request, left.code)
    assert again is not None
    assert (again.code, again.output.read()) == (2, b"# Implement\n")


def test_the_player_is_a_program_by_itself(tmp_path: Path) -> None:
    """An interpreter gets it as text, without anything of ours beside it."""
    import inspect

    from interlock.agents import player

    (tmp_path / "out").symlink_to("/etc")
    order = player.order(tmp_path, [("a/b", b"1")], [("a/b", b"2")], ["gone"])
    source = [sys.executable, "-I", "-S", "-c", inspect.getsource(player)]
    assert subprocess.run(source, input=order, text=True, check=False, cwd="/").returncode == 0
    assert (tmp_path / "a" / "b").read_bytes() == b"12"
    order = player.order(tmp_path, [("out/x", b"1")], [], [])
    refused = subprocess.run(source, input=order, text=True, check=False, cwd="/", capture_output=True)
    assert (refused.returncode, "leads out" in refused.stdout) == (1, True)
