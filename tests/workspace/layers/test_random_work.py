"""Random work in a layer, round after round: what is found is what a git in there sees, and what is shown again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.workspace.values import Needs, RemarkKind

from .conftest import MAKERS, MakeBench, repository

SEEDS = int(os.environ.get("INTERLOCK_SEQUENCES", "40")) // 10
ROUNDS = 3

_PROGRAM = r"""
import errno, os, random, shutil, stat, sys

NAMES = ["a", "b", "c.txt", "d e", "build", "x.log", "f\n", os.fsdecode(b"g\xff"), "[h]", "src"]
chance = random.Random(sys.argv[1])


def walked():
    for above, dirs, files in os.walk("."):
        dirs[:] = sorted(name for name in dirs if name not in (".git", ".interlock"))
        yield above, dirs, sorted(name for name in files if name not in (".gitignore", ".git"))


def move(source, target):
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(source, target, symlinks=True)  # as mv does
        shutil.rmtree(source)


def step():
    there = [os.path.join(above, name) for above, dirs, files in walked() for name in dirs + files]
    place = chance.choice(there or ["."])
    other = os.path.join(chance.choice([above for above, _, _ in walked()]), chance.choice(NAMES))
    match chance.randrange(12):
        case 0 | 1:
            open(other, "w").write(chance.choice(["", "one", "two\n" * 50]))
        case 2:
            open(place, "a").write("more")
        case 3:
            content, mode = open(place, "rb").read(), os.stat(place).st_mode
            open(place + "~", "wb").write(content)
            os.chmod(place + "~", stat.S_IMODE(mode))
            os.replace(place + "~", place)  # the same again, by another file
        case 4 | 5:
            shutil.rmtree(place) if os.path.isdir(place) and not os.path.islink(place) else os.unlink(place)
        case 6:
            os.makedirs(os.path.join(other, chance.choice(NAMES)))
        case 7 | 8:
            move(place, other)
        case 9:
            os.symlink(chance.choice(["a", "b", "nowhere"]), other)
        case 10:
            os.link(place, other, follow_symlinks=False)
        case 11:
            os.chmod(place, chance.choice([0o644, 0o755, 0o600]) if not os.path.isdir(place) else 0o755)


for _ in range(chance.randint(1, 25)):
    try:
        step()
    except (OSError, shutil.Error):
        pass
"""


@pytest.mark.req("TREE-02", "TREE-05")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_found_is_what_is_seen(seed: int, maker: str, tmp_path: Path, make: MakeBench) -> None:
    """Three rounds in one slot: each begins with the result of the one before, ignored files and all."""
    bench = make(repository(tmp_path / "work"), maker)
    bench.write(**{"a": "a\n", "src/b": "b\n", "src/deep/c.txt": "c\n", "build/mine": "m\n"})
    bench.write(**{".gitignore": "*.log\nbuild\n"})
    bench.git("add", ".")
    bench.git("commit", "-qm", "more")
    bench.write(**{"a": "unsaved\n", "d e": "new\n"})
    ignored = "git ls-files -z -o -i --exclude-standard"
    standing = bench.standing()
    shown, kept = standing.tree, ""
    for number in range(ROUNDS):
        layer = bench.layers.open("run-1", "writer", standing, shown, Needs())
        assert bench.sh(layer, f"git status --porcelain; {ignored}") == kept or not number
        bench.python(layer, _PROGRAM, f"{seed}.{number}")
        found = layer.found({})
        seen = bench.sh(layer, "git add -A; git write-tree").strip()
        assert found.result == seen, (bench.sh(layer, f"git diff-tree -r {layer.shown} {seen}"), found)
        assert {remark.kind for remark in found.remarks} <= {RemarkKind.CHANGED}
        shown, kept = found.result, bench.sh(layer, ignored)
        layer.drop(keep_ignored=True)
    assert bench.standing().tree == standing.tree
