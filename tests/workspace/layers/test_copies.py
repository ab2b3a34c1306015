"""Private copies: kept, brought up to date, each with one layer at a time, and apart from the user's git."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.workspace import Workspace, open_layers
from interlock.workspace.layers import mirror

from .conftest import Bench, MakeBench

GitCall = Callable[..., str]


@pytest.fixture
def bench(repository: Path, make_bench: MakeBench) -> Bench:
    return make_bench(repository, "copy")


@pytest.mark.req("LY-10")
async def test_a_dispatch_costs_what_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next layer takes the same copy, and copies only what is not as it was on either side."""
    bench.write(**{f"many__{number}": "x" for number in range(50)}, build__ignored="i")
    first = await bench.layer("run-1")
    bench.sh(first, "echo agent > README.md; echo new > new; rm many/1; chmod 700 many/2; rm -r .git/hooks; git gc -q")
    await first.drop()
    bench.write(many__3="changed by a person", many__fresh="f")
    (bench.root / "many/4").unlink()
    copied = []
    clone = mirror.clone
    monkeypatch.setattr(mirror, "clone", lambda source, target: (copied.append(source.name), clone(source, target)))
    second = await bench.layer("run-2")
    assert second.root == first.root
    inside = {name for name in copied if not (bench.root / ".git").joinpath(name).exists() and not len(name) > 30}
    assert {"README.md", "1", "2", "3", "fresh"} <= set(copied)
    assert not {str(number) for number in range(5, 50)} & inside
    assert bench.sh(
        second, "cat README.md many/3; ls many | wc -l; ls new many/4 2>/dev/null || true; git status -s many/5"
    )
    for name in ("README.md", "many/1", "many/2", "many/3", "build/ignored"):
        assert (second.root / name).read_bytes() == (bench.root / name).read_bytes()
        assert (second.root / name).stat().st_mode == (bench.root / name).stat().st_mode
    assert not (second.root / "new").exists() and not (second.root / "many/4").exists()
    base = await bench.workspace.snapshot()
    assert (await second.found(base)).changes == ()


async def test_times_that_were_set_back_hide_nothing(bench: Bench) -> None:
    """A program that restores a file's times after changing it is noticed all the same."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    script = (
        "import os; s = os.stat('README.md'); open('README.md', 'w').write('HELLO\\n');"
        "os.utime('README.md', ns=(s.st_atime_ns, s.st_mtime_ns))"
    )
    bench.python(layer, script)
    assert await bench.found(layer, base) == {"README.md": "modified"}
    await layer.drop()
    assert ((await bench.layer("run-2")).root / "README.md").read_text() == "hello\n"


async def test_a_copy_belongs_to_one_layer(bench: Bench) -> None:
    """Layers that are there at once have a copy each; after a crash a copy is still its layer's."""
    one, two = await bench.layer("run-1"), await bench.layer("run-2")
    assert one.root != two.root
    bench.sh(one, "echo 1 > mine")
    again = open_layers(Workspace(bench.root, bench.root / ".interlock"), environ=bench.env, maker="copy")
    three = await again.make("run-3", bench.confinement)
    assert three.root not in (one.root, two.root)
    found = await again.find("run-1", bench.confinement)
    assert found is not None and (found.root / "mine").read_text() == "1\n"
    await two.drop()
    assert (await again.make("run-4", bench.confinement)).root == two.root


async def test_what_lies_around_does_not_matter(bench: Bench) -> None:
    """A manifest that is gone or no manifest costs a new look; a copy that is a link is made anew."""
    layer = await bench.layer("run-1")
    place = bench.root / ".interlock/layers/copies/0"
    await layer.drop()
    for content in (None, b"no json", b"[[1]]"):
        (place / "tree.json").unlink(missing_ok=True)
        if content is not None:
            (place / "tree.json").write_bytes(content)
        (place / "tree/stray").write_text("stray")
        layer = await bench.layer("run-1")
        assert not (layer.root / "stray").exists()
        await layer.drop()
    outside = bench.root.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    shutil.rmtree(place / "tree")
    (place / "tree").symlink_to(outside)
    layer = await bench.layer("run-1")
    assert (outside / "kept").read_text() == "kept"
    assert bench.sh(layer, "cat README.md") == "hello\n"


async def test_absolute_paths_of_repositories_lead_into_the_copy(bench: Bench, git: GitCall, tmp_path: Path) -> None:
    """A worktree inside of the workspace, and one of another repository, do not lead out of the copy."""
    git(bench.root, "worktree", "add", "-q", "trees/side", "-b", "side")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "x")
    git(other, "worktree", "add", "-q", str(bench.root / "trees/foreign"), "-b", "foreign")
    before = {
        str(file): file.read_bytes() for git_dir in (bench.root / ".git", other / ".git") for file in _files(git_dir)
    }
    layer = await bench.layer()
    bench.sh(layer, "cd trees/side; echo x > x; git add x; git commit -qm x; git log --oneline | wc -l")
    assert bench.sh(layer, "cd trees/foreign; git rev-parse --git-dir 2>&1 || true").startswith("fatal")
    after = {
        str(file): file.read_bytes() for git_dir in (bench.root / ".git", other / ".git") for file in _files(git_dir)
    }
    assert after == before


async def test_unreadable_and_odd_files_do_not_stop_a_copy(bench: Bench) -> None:
    """Pipes and sockets are left out; folders without rights are copied as far as they can be read."""
    os.mkfifo(bench.root / "pipe")
    (bench.root / "closed").mkdir(mode=0o000)
    layer = await bench.layer()
    assert bench.sh(layer, "cat README.md; ls pipe 2>/dev/null || true") == "hello\n"
    (bench.root / "closed").chmod(0o700)


def _files(folder: Path) -> list[Path]:
    return sorted(place for place in folder.rglob("*") if place.is_file())
