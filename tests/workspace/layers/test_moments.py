"""Repositories and persons at the wrong moment: an agent works, the person does something, the work is delivered."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.engine.real import thread
from interlock.errors import WorkspaceFailed
from interlock.workspace.delivery import Delivery
from interlock.workspace.trees import Trees

from .conftest import Bench, MakeBench, repository
from .test_layers import told

_BIG = "mkdir big; echo b > big/x; echo y > big/y; git add .; git commit -qm big"
_LIST = "ls -lR --time-style=+ | grep -v ^total"
_SUBMODULE = """
    git init -q ../other; git -C ../other commit -qm o --allow-empty
    git -c protocol.file.allow=always submodule --quiet add "$PWD/../other" sub; git commit -qm sub; rm -r sub"""
MOMENTS: dict[str, tuple[str, str, str, dict[str, str | None], list[str]]] = {
    # what was there, what the agent does, what the person does then; what lies there afterwards, what is told of
    "a sparse checkout": (
        f"{_BIG}; git sparse-checkout set src", "git sparse-checkout disable; echo m >> big/x; echo n > big/n", "",
        {"big/x": "b\nm\n", "big/n": "n\n", "big/y": None}, []),
    "a sparse checkout, begun meanwhile": (
        _BIG, "echo m >> big/x; rm big/y; echo m >> README.md", "git sparse-checkout set src", {"big/x": "b\nm\n"},
        ["big/y"]),
    "a submodule that is not there": (
        _SUBMODULE, "mkdir -p sub; echo i > sub/i; echo n > n", "", {"n": "n\n", "sub/i": "i\n"}, []),
    "a large file made small": (
        "head -c 2000 /dev/zero > large", "echo s > large; echo n > n", "", {"n": "n\n"}, ["large"]),
    "a pipe in the way": (
        "", "echo n > n; mkdir d; echo d > d/d", "mkfifo n d", {"README.md": "hello\n"}, ["d/d", "n"]),
    "an ignored file in the way": (
        "", "echo n > n.tmp; mkdir t; echo t > t/t; echo m > m",
        "printf '*.tmp\nt\n' >> .gitignore; echo p > n.tmp; echo p > t",
        {"n.tmp": "p\n", "t": "p\n", "m": "m\n"}, ["n.tmp", "t/t"]),
    "a folder renamed by the person": (
        "", "echo n > src/n", "git mv src lib", {"src/n": "n\n", "lib/app.py": "1\n"}, []),
    "a folder made a link by the person": (
        "", "echo n > n; echo i >> README.md", "mv src lib; ln -s lib src", {"n": "n\n", "lib/app.py": "1\n"}, []),
    "names that differ in case": (
        "", "mkdir Src; mv src/app.py Src/App.py; mv README.md readme.md", "",
        {"readme.md": "hello\n", "README.md": None, "Src/App.py": "1\n", "src/app.py": None}, []),
    "a link to a folder made a folder": (
        "ln -s src link; git add link; git commit -qm link",
        "echo n > link/n; rm link; mkdir link; echo i > link/i", "", {"src/n": "n\n", "link/i": "i\n"}, []),
    "a repository made of a folder meanwhile": (
        "", "echo n >> src/app.py", "git init -q src", {"src/app.py": "1\nn\n"}, []),
    "added in intent": ("echo l > l; git add -N l", "echo m >> l; git stash -q", "", {"l": "l\n"}, ["l"]),
    "no commit yet, one meanwhile": (
        "git update-ref -d HEAD", "echo m >> README.md; git add -A; git commit -qm x", "git commit -qm first",
        {"README.md": "hello\nm\n"}, ["README.md"]),  # in no commit when the agent changed it: named
}  # fmt: skip


@pytest.mark.req("TREE-12", "TREE-14", "TREE-06")
@pytest.mark.parametrize("name", MOMENTS)
def test_moments(bench: Bench, name: str) -> None:
    """What can be delivered is, the rest is told and as it was, and undo gives all of it back."""
    before, agent, person, wanted, left = MOMENTS[name]
    bench.trees = Trees(bench.trees.workspace, largest=1000)
    bench.anew(max_untracked_bytes=1000)
    bench.sh_outside(f"set -e\n{before}")
    layer = bench.open()
    bench.sh(layer, agent)
    found = layer.found({})
    assert not found.clashes and "you both wrote it" not in told(found)
    bench.sh_outside(f"set -e\n{person}")
    files, status, now = bench.sh_outside(_LIST), bench.git("status", "--porcelain"), bench.standing()
    after = bench.trees.merge(layer.shown, found.mended, now.tree).tree
    assert after
    delivery = Delivery(bench.trees)
    landing = delivery.deliver(now.tree, after)
    assert landing.state == "done"
    assert sorted(path for remark in (*found.remarks, *landing.refused) for path in remark.paths) == left
    for path, text in wanted.items():
        assert (place.read_text() if (place := bench.top / path).is_file() else None) == text, path
    target, kept = delivery.undoing(now.tree, after, bench.standing().tree)
    assert delivery.deliver(bench.standing().tree, target, modes=landing.modes).state == "done" and not kept
    assert bench.git("status", "--porcelain") == status
    if "sparse" not in name:
        assert bench.sh_outside(_LIST) == files


@pytest.mark.req("TREE-14", "TREE-05")
def test_ignored_documents_of_a_process_are_work_like_any_other(bench: Bench) -> None:
    """Seen by agents, in their result, delivered, merged with a person's; all else that is ignored stays out."""
    bench.trees.declare(["build/T-1/**", "notes.log", "**"])
    bench.write(**{"build/T-1/plan.md": "one\ntwo\nthree\n", "build/other/o": "theirs\n", "notes.log": "a\n"})
    layer = bench.open()
    assert bench.sh(layer, "cat build/T-1/plan.md notes.log; git status --porcelain") == "one\ntwo\nthree\na\n"
    bench.sh(layer, "sed -i s/two/TWO/ build/T-1/plan.md; echo x > build/T-1/new; echo y > build/o; rm notes.log")
    bench.write(**{"build/T-1/plan.md": "one\ntwo\nthree\nmine\n"})
    found = layer.found({})
    wanted = {"build/T-1/plan.md": "changed", "build/T-1/new": "added", "notes.log": "deleted"}
    assert bench.changes(layer, found) == wanted
    merged = bench.trees.merge(layer.shown, found.result, bench.standing().tree).tree
    assert merged is not None
    assert bench.trees.read(merged, "build/T-1/plan.md") == b"one\nTWO\nthree\nmine\n"
    layer.drop()
    after = bench.open(**{"build/T-1/new": "x"})
    assert bench.sh(after, "cat build/T-1/new build/T-1/plan.md build/other/o") == "xone\ntwo\nthree\nmine\ntheirs\n"
    assert bench.changes(after) == {}


@pytest.mark.req("TREE-05")
def test_rules_of_pending_work_count(bench: Bench) -> None:
    """What a new ignore file names is no work of the next dispatch, stays for it, and what `setup` made of it for
    checks."""
    pending = {".gitignore": "*.log\nbuild/\ndist/\n"}
    for times in (1, 2):
        layer = bench.open(**pending)
        bench.sh(layer, "mkdir -p dist; echo x >> dist/x; echo y > y")
        found = layer.found({})
        assert bench.changes(layer, found) == {"y": "added"}
        assert bench.sh(layer, "cat dist/x") == "x\n" * times
        layer.drop(keep_ignored=True)
    setup = bench.command(keeps=True, **pending)
    bench.sh(setup, "mkdir dist; echo s > dist/s; echo t > t")
    setup.drop(keep_ignored=True)
    for _ in range(2):
        check = bench.command(**pending)
        assert bench.sh(check, "cat dist/s; ls") == "s\nREADME.md\ndist\nsrc\n"
        check.drop()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.req("RUN-19")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_a_full_disk_is_said_and_nothing_is_lost(small: Path, make: MakeBench) -> None:
    """At delivery: the tree is as it was, the error says what helps, and with room again the work comes."""
    bench = make(repository(small), "copy")
    before = bench.standing().tree
    after = bench.tree(before, **{"README.md": "agent\n", "new": "n" * 50_000})
    with (small / "fill.log").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with pytest.raises(WorkspaceFailed, match="no space left") as failed:
        asyncio.run(thread(Delivery(bench.trees).deliver, before, after))
    assert failed.value.remedy and (small / "README.md").read_text() == "hello\n" and not (small / "new").exists()
    (small / "fill.log").unlink()
    assert Delivery(bench.trees).deliver(before, after).state == "done"
