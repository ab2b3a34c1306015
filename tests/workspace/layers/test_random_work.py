"""Random sequences of operations: what is found is what the program itself sees, and so is what is brought in.

Many sequences share one program and one layer, each in a folder of its own, so that thousands cost seconds.
"""

from __future__ import annotations

import json
import os
import random
import stat
from pathlib import Path

import pytest

from interlock.workspace import bring_in
from tests.proofs import long

from .conftest import MAKERS, Bench, MakeBench

SEQUENCES = 400
"""Per maker, in two rounds each."""

_NAMES = ("a", "b", "c.txt", "d e", "build", "x.log", "f\n", os.fsdecode(b"g\xff"), "[h]")

_PROGRAM = r"""
import errno, json, os, random, shutil, stat, sys

NAMES = json.loads(sys.argv[1])
first, last, round_number = map(int, sys.argv[2:5])


def anything(chance, folder):
    places = [os.path.join(above, name) for above, dirs, files in os.walk(folder) for name in dirs + files]
    return chance.choice(sorted(places)) if places and chance.random() < 0.7 else fresh(chance, folder)


def fresh(chance, folder):
    folders = sorted(above for above, _, _ in os.walk(folder))
    return os.path.join(chance.choice(folders), chance.choice(NAMES))


def move(source, target):
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(source, target, symlinks=True)  # as mv does
        shutil.rmtree(source)


def remove(place):
    shutil.rmtree(place) if os.path.isdir(place) and not os.path.islink(place) else os.unlink(place)


def step(chance, folder):
    place, other = anything(chance, folder), fresh(chance, folder)
    kind = chance.randrange(16)
    if kind <= 2:
        open(place, "w").write(chance.choice(["", "one", "two\n" * 50]))
    elif kind == 3:
        open(place, "a").write("more")
    elif kind == 4:
        content, mode = open(place, "rb").read(), os.stat(place).st_mode
        open(other, "wb").write(content)
        os.chmod(other, stat.S_IMODE(mode))
        os.replace(other, place)  # the same again, by another file
    elif kind == 5:
        remove(place)
    elif kind == 6:
        os.makedirs(os.path.join(other, chance.choice(NAMES)))
    elif kind == 7:
        move(place, other)
    elif kind == 8:
        os.symlink(chance.choice(["a", "b", "../a", "nowhere"]), other)
    elif kind == 9:
        os.link(place, other, follow_symlinks=False)
    elif kind == 10:
        os.chmod(place, chance.choice([0o644, 0o755, 0o600, 0o640] if not os.path.isdir(place) else [0o755, 0o700]))
    elif kind == 11:
        os.utime(place, (0, 0), follow_symlinks=False)
    elif kind == 12:
        remove(place)
        os.mkdir(place)
        open(os.path.join(place, chance.choice(NAMES)), "w").write("below")
    elif kind == 13:
        remove(place)
        open(place, "w").write("instead of a folder")
    elif kind == 14:
        content = open(place, "rb").read()
        os.unlink(place)
        open(place, "wb").write(content)
    else:
        os.truncate(place, 1)


def seen(folder):
    found = {}
    for above, dirs, files in os.walk(folder):
        for name in dirs + files:
            place = os.path.join(above, name)
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                found[place] = [stat.S_IFLNK, os.fsencode(os.readlink(place)).hex()]
            elif stat.S_ISREG(status.st_mode):
                found[place] = [status.st_mode, open(place, "rb").read().hex()]
    return found


os.umask(0o022)
view = {}
for number in range(first, last):
    chance = random.Random(number * 2 + round_number)
    folder = "s%d" % number
    os.makedirs(folder, exist_ok=True)
    for _ in range(chance.randrange(1, 9)):
        try:
            step(chance, folder)
        except (OSError, shutil.Error):
            pass
    view.update(seen(folder))
json.dump(view, sys.stdout)
"""

View = dict[str, tuple[int, bytes]]


def make_first_state(root: Path, number: int) -> None:
    """A few files, links and folders for one sequence to begin with."""
    chance = random.Random(-number)
    folder = root / f"s{number}"
    folder.mkdir()
    for _ in range(chance.randrange(7)):
        parts = [chance.choice(_NAMES) for _ in range(chance.randrange(1, 4))]
        place = folder.joinpath(*parts)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if chance.random() < 0.2:
                place.symlink_to(chance.choice(["a", "b", "nowhere"]))
            else:
                place.write_text(chance.choice(["one", "two\n" * 50, ""]))
                place.chmod(chance.choice([0o644, 0o755, 0o600]))
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue


def tree(root: Path) -> View:
    found: View = {}
    for folder in root.glob("s[0-9]*"):
        for place in folder.rglob("*"):
            if place.is_symlink():
                found[str(place.relative_to(root))] = (stat.S_IFLNK, os.fsencode(place.readlink()))
            elif place.is_file():
                found[str(place.relative_to(root))] = (place.stat().st_mode, place.read_bytes())
    return found


def ignored(path: str, first: View) -> bool:
    """By the rules ``build/`` and ``*.log``: a folder of either name, a file of the second; nothing behind a link."""
    parts = path.split("/")
    for number, name in enumerate(parts, start=1):
        last = number == len(parts)
        if not last and first.get("/".join(parts[:number]), (0,))[0] == stat.S_IFLNK:
            return False
        if name.endswith(".log") or (name == "build" and not last):
            return True
    return False


def run(bench: Bench, layer: object, round_number: int) -> View:
    words = (json.dumps(_NAMES), "0", str(SEQUENCES), str(round_number))
    told = json.loads(bench.python(layer, _PROGRAM, *words))  # type: ignore[arg-type]
    return {path: (mode, bytes.fromhex(content)) for path, (mode, content) in told.items()}


@pytest.mark.req("LY-02", "LY-08", "LY-31")
@pytest.mark.parametrize("maker", [MAKERS[0], *long(*MAKERS[1:])])
async def test_what_is_found_is_what_the_program_sees(maker: str, repository: Path, make_bench: MakeBench) -> None:
    """Over random sequences: changes, ignored files and the tree after the import agree with the program's own view."""
    (repository / ".gitignore").write_text("build/\n*.log\n")
    for number in range(SEQUENCES):
        make_first_state(repository, number)
    bench = make_bench(repository, maker)
    first = tree(repository)
    base = await bench.workspace.snapshot()
    known = {path for path in first if not ignored(path, first)}
    layer = await bench.layer()
    for round_number in range(2):
        view = run(bench, layer, round_number)
        assert tree(repository) == first
        found = await layer.found(base)
        # Through some links a program writes into the workspace itself, beside the sequences.
        kinds = {change.path: change.kind.value for change in found.changes if "/" in change.path}
        counting = {path for path in view if path in known or not ignored(path, first)}
        expected = dict.fromkeys(known - view.keys(), "deleted")
        expected |= dict.fromkeys(counting - known, "added")
        expected |= {path: "modified" for path in known & view.keys() if view[path] != first[path]}
        assert kinds == expected
        others = (first.keys() | view.keys()) - known - counting
        differing = {path for path in others if first.get(path) != view.get(path)}
        keys = tuple(found.ignored)
        # What is gone with a folder that the snapshot knows is not told one by one.
        assert {path for path in differing & view.keys() if not path.startswith(keys)} == set()
        assert [key for key in keys if not any(path.startswith(key) for path in differing)] == []
    result = await bring_in(bench.workspace, await layer.work(base, list(kinds)), label="agent")
    # An ignored link of the user's where the program made a folder is in the way of that.
    behind_links = {path for path in result.conflicts if "is no folder" in result.conflicts[path]}
    assert result.conflicts.keys() == behind_links
    kinds = {path: kind for path, kind in kinds.items() if path not in behind_links}
    result = await bring_in(bench.workspace, await layer.work(base, list(kinds)), label="agent")
    assert (result.conflicts, set(result.paths)) == ({}, kinds.keys())
    after = tree(repository)
    assert {path: after.get(path) for path in kinds} == {path: view.get(path) for path in kinds}
    assert {path for path in after if after[path] != first.get(path)} <= kinds.keys()
