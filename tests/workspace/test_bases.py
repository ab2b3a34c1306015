"""From what a program started, when the snapshot is taken while it works: never from more than it can have seen."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.workspace import Base, Confinement, DiskLayer, Snapshot, Workspace, bring_in, open_layers

Edit = Callable[[Path], object]

FRONT = "1i zero"
FIRST = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


class Ground:
    """A workspace with a file that an earlier snapshot knows, and a layer over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".interlock").mkdir()
        (root / ".interlock/.gitignore").write_text("*\n")
        (root / "src/app.py").write_text(FIRST)
        self.workspace = Workspace(root, root / ".interlock")
        self.env = {"HOME": str(root.parent / "home"), "PATH": os.environ.get("PATH", os.defpath)}
        self.layers = open_layers(self.workspace, environ=self.env)
        self.place = root / ".interlock/base.json"
        if not self.layers.probe().confined:
            pytest.skip("programs work in copies here, which wait for their snapshot")

    async def layer(self) -> tuple[DiskLayer, Base]:
        base = await Base.before(self.workspace, self.place, live=True)
        return await self.layers.make("run-1", Confinement()), base

    def run(self, layer: DiskLayer, *argv: str) -> None:
        words = layer.command_line(argv, cwd=self.root, env=self.env)
        subprocess.run(words, env=self.env, check=True)

    async def merged(self, edit: str, *, before: Edit = id, meanwhile: Edit = id, late: Edit = id) -> dict[str, str]:
        """The conflicts when a program edits what it saw, and a person does before, meanwhile and afterwards."""
        await self.workspace.snapshot()
        before(self.root)
        layer, base = await self.layer()
        await base.allows_start()
        self.run(layer, "sed", "-i", edit, "src/app.py")
        meanwhile(self.root)
        taken = await base.snapshot()
        late(self.root)
        work = await layer.work(taken, ["src/app.py"])
        await layer.drop()
        return dict((await bring_in(self.workspace, work, label="agent")).conflicts)


@pytest.fixture
def ground(repository: Path) -> Ground:
    return Ground(repository)


def appended(root: Path) -> None:
    with (root / "src/app.py").open("a") as file:
        file.write("a person's line\n")


def replaced(root: Path) -> None:
    """As editors save: another file takes the place of the old one, with its old times."""
    fresh = root / "src/app.py~"
    shutil.copy2(root / "src/app.py", fresh)
    with fresh.open("a") as file:
        file.write("a person's line\n")
    os.utime(fresh, ns=(0, 0))
    fresh.rename(root / "src/app.py")


def swapped(root: Path) -> None:
    """The folder gives way to another one, whose files are older than the program's start."""
    (root / "src").rename(root / "old")
    (root / "other").rename(root / "src")


@pytest.mark.req("LY-05", "LY-22")
@pytest.mark.parametrize("edit", [appended, replaced])
async def test_an_edit_made_while_the_snapshot_is_taken_is_kept(ground: Ground, edit: Edit) -> None:
    """The program had read the file before: merged from a later one, the edit would look like one it took back."""
    assert await ground.merged(FRONT, meanwhile=edit) == {}
    assert (ground.root / "src/app.py").read_text() == f"zero\n{FIRST}a person's line\n"


@pytest.mark.req("LY-05", "LY-22")
async def test_a_folder_put_in_place_while_the_snapshot_is_taken_is_no_base(ground: Ground) -> None:
    """Its files are old; what the program started from is what the folder before it held."""
    shutil.copytree(ground.root / "src", ground.root / "other")
    with (ground.root / "other/app.py").open("a") as file:
        file.write("a person's line\n")
    assert await ground.merged(FRONT, meanwhile=swapped) == {}
    assert (ground.root / "src/app.py").read_text() == f"zero\n{FIRST}a person's line\n"


@pytest.mark.req("LY-05", "LY-22")
async def test_what_changed_before_the_start_is_what_the_program_saw(ground: Ground) -> None:
    """Also when the snapshot before does not know it, and a person goes on editing the file."""

    def rewritten(root: Path) -> None:
        (root / "src/app.py").write_text(FIRST.replace("one", "uno"))

    assert await ground.merged("1s/.*/eins/", before=rewritten, late=appended) == {}
    assert (ground.root / "src/app.py").read_text() == FIRST.replace("one", "eins") + "a person's line\n"


@pytest.mark.req("LY-05", "LY-22")
async def test_a_file_that_a_person_deletes_while_the_snapshot_is_taken_is_a_conflict(ground: Ground) -> None:
    """It does not come back as if the program had made it."""
    conflicts = await ground.merged(FRONT, meanwhile=lambda root: (root / "src/app.py").unlink())
    assert "delete/modify" in conflicts["src/app.py"]
    assert not (ground.root / "src/app.py").exists()


@pytest.mark.req("LY-22")
async def test_a_program_starts_before_its_snapshot_is_there(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first one waits; of the others nothing is looked at before their start but the layer's own folder."""
    taken = await ground.workspace.snapshot()
    gate = asyncio.Event()
    original = ground.workspace.snapshot

    async def slow() -> Snapshot:
        await gate.wait()
        return await original()

    monkeypatch.setattr(ground.workspace, "snapshot", slow)
    layer, base = await ground.layer()
    await base.allows_start()
    gate.set()
    assert await base.snapshot() == taken
    await layer.drop()


@pytest.mark.req("LY-15", "LY-22")
async def test_whoever_goes_on_after_a_crash_has_a_base_that_is_not_too_new(ground: Ground) -> None:
    """Killed before the snapshot was there: the one before is the base."""
    before = await ground.workspace.snapshot()
    layer, base = await ground.layer()
    await base.allows_start()
    appended(ground.root)
    kept = Base.kept(ground.workspace, ground.place)
    assert kept is not None
    assert await kept.snapshot() == before
    await base.rest()
    await layer.drop()


@pytest.mark.req("LY-05")
async def test_a_copy_waits_for_its_snapshot(ground: Ground) -> None:
    """What it holds is older than its start: a snapshot that is taken later would know more than its program saw."""
    await ground.workspace.snapshot()
    appended(ground.root)
    base = await Base.before(ground.workspace, ground.place, live=False)
    assert await base.snapshot() == ground.workspace.latest
    kept = Base.kept(ground.workspace, ground.place)
    assert kept is not None
    assert await kept.snapshot() == await base.snapshot()
