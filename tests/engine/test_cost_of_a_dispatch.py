"""What a dispatch costs, counted: processes that are started, and looks at the user's tree. No clock is read."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interlock.engine import Dispatch, Ending, Playbook, Run
from interlock.workspace import Confinement, Workspace, open_layers
from interlock.workspace.layers import layer as layer_module
from tests.engine.test_people import command_runs
from tests.engine.toys import Work, toy

CODER = Dispatch("coder", "Write code.", writes=("area0/**",), timeout_s=600.0)
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork")
LOOKS = ("open", "os.scandir", "os.listdir")


@dataclass
class Watched:
    """What this process did between two moments, as the interpreter tells it."""

    root: str
    on: bool = False
    started: list[str] = field(default_factory=list)
    looks: Counter[str] = field(default_factory=Counter)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in STARTS:
            self.started.append(_program(event, given))
        elif event in LOOKS:
            self.looked(event, given[0])

    def looked(self, how: str, place: object) -> None:
        """A look at the user's files; the engine's own folder does not count."""
        if self.on and isinstance(place, str | os.PathLike):
            path = os.fsdecode(os.fspath(place))
            if path.startswith(self.root) and not path.startswith(f"{self.root}/.interlock"):
                self.looks[how] += 1


def _program(event: str, given: tuple[Any, ...]) -> str:
    if event != "subprocess.Popen":
        return event
    words = [str(word) for word in given[1]]
    known = ("diff-files", "ls-files", "diff-tree", "check-ignore", "cat-file", "update-index", "write-tree", "config")
    return next((f"git {word}" for word in words if word in known), words[0])


_watching: list[Watched] = []
sys.addaudithook(lambda event, given: _watching[-1].hear(event, given) if _watching else None)


@pytest.fixture
def watched(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    one = Watched(str(workspace))
    for name in ("stat", "lstat"):
        original = getattr(os, name)

        def look(place: Any, *args: Any, name: str = name, original: Any = original, **more: Any) -> Any:
            one.looked(name, place)
            return original(place, *args, **more)

        monkeypatch.setattr(os, name, look)
    _watching.append(one)
    yield one
    _watching.remove(one)


def lay_out(root: Path, files: int) -> None:
    for number in range(files):
        place = root / f"area{number // 100}" / f"{number}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{number}\n")
    settings = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", *settings, *words], cwd=root, check=True)


def third_of_three(watched: Watched) -> Playbook:
    """Three dispatches of which the last one is watched: the first looks at the tree, the second knows it."""

    async def body(run: Run, _work: Work) -> Ending:
        for number in range(3):
            watched.on = number == 2
            report = await run.dispatch(CODER)
            watched.on = False
            assert report.ok, report
            assert report.changes
        return Ending.complete()

    return toy(body)


WRITES = """cat > /dev/null
for n in 1 2 3; do mktemp area0/newXXXXXX > /dev/null; done
echo changed >> area0/0.py
echo DONE: fine
"""


def dispatched(root: Path, watched: Watched, files: int) -> Watched:
    lay_out(root, files)
    playbook = third_of_three(watched)
    finished = asyncio.run(command_runs(root, playbook, WRITES).run(playbook, Work()))
    assert finished.exit_code == 0, finished
    return watched


@pytest.mark.req("LY-22")
def test_a_dispatch_starts_few_processes(workspace: Path, watched: Watched) -> None:
    """Its launcher is forked, not started; git runs for the snapshot, the ignore rules and the patch, and no more."""
    started = Counter(dispatched(workspace, watched, 100).started)
    assert started == {
        # the snapshot, while the agent works: changed, new and wanted files, the tree of what the last one brought
        "git diff-files": 1,
        "git ls-files": 2,
        "git update-index": 1,
        "git write-tree": 1,
        # what has changed since the snapshot before, and the patch of the agent's work
        "git diff-tree": 2,
        "git check-ignore": 1,
    }


@pytest.mark.req("LY-22")
def test_a_dispatch_looks_at_what_changed_and_not_at_the_tree(
    tmp_path_factory: pytest.TempPathFactory, workspace: Path, watched: Watched
) -> None:
    """Twenty times as many files, as many looks; a few depend on what else is looked at just then."""
    small = dict(dispatched(workspace, watched, 100).looks)
    watched.looks.clear()
    large = tmp_path_factory.mktemp("large")
    watched.root = str(large)
    looks = dispatched(large, watched, 2000).looks
    assert {how: count for how, count in looks.items() if count > small[how] + 5} == {}
    assert small["lstat"] < 100


@pytest.mark.req("LY-22")
async def test_a_dropped_layer_is_removed_while_others_go_on(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is free at once, nobody waits for the disk, and `sweep` or the end of the loop frees it."""
    held, removed = threading.Event(), []
    original = layer_module.remove_folders

    def slowly(folders: list[Path]) -> None:
        held.wait(600)
        original(folders)
        removed.extend(folders)

    monkeypatch.setattr(layer_module, "remove_folders", slowly)
    (workspace / ".interlock").mkdir(exist_ok=True)
    layers = open_layers(Workspace(workspace, workspace / ".interlock"), environ=dict(os.environ))
    layer = await layers.make("run-1", Confinement())
    (layer.exchange / "large").write_bytes(b"x" * 1000)
    await layer.drop()
    place = workspace / ".interlock" / "layers"
    assert await layers.find("run-1", Confinement()) is None
    assert removed == []
    again = await layers.make("run-1", Confinement())
    assert not (again.exchange / "large").exists()
    held.set()
    await again.drop()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert removed
    assert [name.name for name in place.iterdir() if "run-1" in name.name] == []


@pytest.mark.req("LY-22", "LY-34")
async def test_what_a_killed_engine_had_set_aside_is_removed_by_the_next_sweep(workspace: Path) -> None:
    """Whoever ends a run of the workspace frees what others could not."""
    (workspace / ".interlock").mkdir(exist_ok=True)
    layers = open_layers(Workspace(workspace, workspace / ".interlock"), environ=dict(os.environ))
    layer = await layers.make("run-1", Confinement())
    left = layer.exchange.parent.rename(layer.exchange.parent.with_name(".run-1.0123abcd.gone"))
    assert await layers.sweep("run") == []
    assert not left.exists()
