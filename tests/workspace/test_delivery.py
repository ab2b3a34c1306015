"""Deliveries: all of it or nothing, whoever writes and whatever dies meanwhile, and out again hunk by hunk."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import WorkspaceFailed
from interlock.workspace import delivery as module
from interlock.workspace.delivery import Delivery
from interlock.workspace.git import LINK
from interlock.workspace.trees import Trees
from interlock.workspace.values import Landing, RemarkKind, Tree
from tests.workspace.conftest import texts, tree
from tests.workspace.person import Person

WORK: dict[str, str | None] = {
    "a.txt": "agent\n", "lib/b.txt": None, "lib/new.txt": "n\n", "deep/er/x": "x\n", "d": "a file now\n", "d/x": None
}  # fmt: skip


def _prepared(person: Person, trees: Trees) -> tuple[Tree, Tree]:
    person.write("d/x", "x\n")
    person.write("f", "f\n")
    person.settle()
    before = trees.standing("run", trees.where()).tree
    return before, tree(trees, {**WORK, "f": None, "f/in": "i\n"}, before)


def _lies(person: Person) -> dict[str, str]:
    return {path: content.decode() for path, content in person.files().items()}


@pytest.mark.req("TREE-14")
def test_a_delivery_makes_the_tree_what_was_decided(person: Person, trees: Trees) -> None:
    """Changed, new and removed files, folders for files and files for folders, and emptied folders go."""
    before, after = _prepared(person, trees)
    landing = Delivery(trees).deliver(before, after)
    assert _lies(person) == texts(trees, after)
    assert landing.state == "done" and landing.paths == tuple(delta.path for delta in trees.deltas(before, after))
    assert not (person.top / "lib/b.txt").exists() and not list((trees.folder / "landing").iterdir())
    assert Delivery(trees).deliver(after, after) == Landing(state="done")
    assert Delivery(trees).deliver(after, before).state == "done" and _lies(person) == texts(trees, before)


LATE = {
    "changed": ("a.txt", "echo x > a.txt"), "removed": ("a.txt", "rm a.txt"), "mode": ("a.txt", "chmod +x a.txt"),
    "folder": ("a.txt", "rm a.txt; mkdir a.txt; echo i > a.txt/in"), "link": ("a.txt", "ln -sf lib/b.txt a.txt"),
    "changed, to be removed": ("lib/b.txt", "echo x > lib/b.txt"), "to be a folder": ("f", "echo x > f"),
    "new": ("lib/new.txt", "echo x > lib/new.txt"), "new below": ("deep/er/x", "mkdir -p deep/er; echo x > deep/er/x"),
    "folder above": ("deep/er/x", "echo file > deep"), "link above": ("deep/er/x", "ln -s .. deep"),
}  # fmt: skip


@pytest.mark.req("TREE-14")
@pytest.mark.parametrize("what", LATE)
def test_a_late_difference_delivers_nothing(person: Person, trees: Trees, what: str) -> None:
    """A file that is not what was decided about is named, and every other file is as it was."""
    before, after = _prepared(person, trees)
    path, script = LATE[what]
    person.sh(script)
    lies = _lies(person)
    landing = Delivery(trees).deliver(before, after)
    assert (landing.state, landing.conflicts, landing.paths) == ("late", (path,), ())
    assert _lies(person) == lies and not (person.top.parent / "er").exists()


@pytest.fixture(params=["exchanged", "without renameat2"])
def moving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system or the file system cannot exchange files."""
    if request.param == "without renameat2":
        monkeypatch.setattr(module, "_renameat2", lambda *_: errno.ENOSYS)


MOVED = ("a.txt", "d", "deep/er/x", "f/in", "lib/new.txt")


@pytest.mark.req("TREE-14", "TREE-13")
@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("path", MOVED)
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_person_who_writes_at_that_moment_loses_nothing(
    person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch, path: str, how: str
) -> None:
    """Whichever file is written while another is exchanged: it is found, all goes back, and theirs stands."""
    before, after = _prepared(person, trees)
    lies, place, real = _lies(person), person.top / path, module._move
    seen: list[str] = []

    def moves(source: Path, target: Path, **rest: Any) -> None:
        if how == "after":
            real(source, target, **rest)
        if target == place and not seen and (how == "after" or path not in ("d", "f/in")):
            seen.append(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("a person\n")
        if how == "before":
            real(source, target, **rest)

    monkeypatch.setattr(module, "_move", moves)
    if Delivery(trees).deliver(before, after).state == "late":
        assert seen and {**_lies(person), path: ""} == {**lies, path: ""}
    else:  # they wrote to what was delivered already
        assert {**_lies(person), path: ""} == {**texts(trees, after), path: ""}
    assert not seen or place.read_text() == "a person\n"


@pytest.mark.req("TREE-14")
def test_who_has_a_file_open_loses_nothing(person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written to a file after it was exchanged, by somebody who had it open, takes the delivery back."""
    before, after = _prepared(person, trees)
    with (person.top / "a.txt").open("a") as file:
        real = module._move

        def moves(source: Path, place: Path, **how: bool) -> None:
            real(source, place, **how)
            if place.name == "new.txt":
                file.write("late\n")
                file.flush()

        monkeypatch.setattr(module, "_move", moves)
        assert Delivery(trees).deliver(before, after).conflicts == ("a.txt",)
    assert person.read("a.txt").endswith(b"late\n") and not (person.top / "lib/new.txt").exists()


@pytest.mark.req("TREE-14", "TREE-13")
@pytest.mark.parametrize("path", ["a.txt", "deep/er/x"])
@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_taking_back_leaves_what_a_person_made_of_it_meanwhile(
    person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch, path: str, how: str
) -> None:
    """A delivered file that a person has changed before the delivery is taken back is theirs, and stays."""
    before, after = _prepared(person, trees)
    person.write("lib/new.txt", "late\n")
    lies = _lies(person)
    real = module._move

    def moves(source: Path, place: Path, **way: bool) -> None:
        if place.name == "new.txt":
            if how != "written":
                (person.top / path).unlink()
            if how != "removed":
                (person.top / path).write_text("theirs\n")
        real(source, place, **way)

    monkeypatch.setattr(module, "_move", moves)
    assert Delivery(trees).deliver(before, after).state == "late"
    lies.pop(path, None)
    assert _lies(person) == {**lies, **({path: "theirs\n"} if how != "removed" else {})}


def _killed(work: Callable[[], object], at: int, *, late: Callable[[str], None] | None = None) -> bool:
    """Do it in a process that dies at its n-th step, before or after it; whether it died."""
    child = os.fork()
    if child == 0:
        steps = [0]

        def dying(real: Callable[..., None]) -> Callable[..., None]:
            def step(*args: Any, **rest: Any) -> None:
                if steps[0] == at:
                    os._exit(9)
                if late is not None and steps[0] + 1 == at:
                    late(args[1].name)
                real(*args, **rest)
                steps[0] += 2
                if steps[0] - 1 == at:
                    os._exit(9)

            return step

        module._move = dying(module._move)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.req("RUN-05", "TREE-14")
@pytest.mark.parametrize("at", range(0, 18, 3))
def test_a_delivery_that_died_is_finished(person: Person, trees: Trees, at: int) -> None:
    """Killed at any step, with a person who went on working since, it is brought to its end and nothing is lost."""
    (person.top / "a.txt").chmod(0o640)
    before, after = _prepared(person, trees)
    died = _killed(lambda: Delivery(trees).deliver(before, after), at)
    person.write("other.txt", "more\n")
    landing = Delivery(Trees(trees.workspace)).finish(before, after)
    assert landing.state == "done" and _lies(person) == {**texts(trees, after), "other.txt": "more\n"}
    assert landing.paths == tuple(delta.path for delta in trees.deltas(before, after))
    assert not died or landing.modes.get("a.txt") == 0o640
    assert not list((trees.folder / "landing").iterdir()) and (died or at > 14)


@pytest.mark.req("RUN-05", "TREE-14", "TREE-04")
@pytest.mark.parametrize("at", range(1, 16, 2))
def test_what_came_out_at_the_last_moment_is_back(person: Person, trees: Trees, at: int) -> None:
    """A person writes, the file is exchanged, the process dies before it looks: their version is in the tree again."""
    before, after = _prepared(person, trees)
    noted = person.top.parent / "wrote"

    def late(name: str) -> None:
        if path := {"a.txt": "a.txt", "b.txt": "lib/b.txt", "f": "f"}.get(name):
            (person.top / path).write_text("at the last moment\n")
            noted.write_text(path)

    _killed(lambda: Delivery(trees).deliver(before, after), at, late=late)
    landing = Delivery(Trees(trees.workspace)).finish(before, after)
    if noted.exists():
        assert landing.state == "conflict" and landing.conflicts == (noted.read_text(),)
        assert _lies(person) == {**texts(trees, before), noted.read_text(): "at the last moment\n"}
    else:
        assert landing.state == "done" and _lies(person) == texts(trees, after)


@pytest.mark.req("TREE-12")
def test_modes_links_and_owners(person: Person, trees: Trees) -> None:
    """A file keeps what git does not know of its mode, new ones get the usual, and links are links."""
    (person.top / "a.txt").chmod(0o640)
    person.write("prog", "#!", mode=0o755)
    before = trees.standing("run", trees.where()).tree
    after = tree(trees, {"a.txt*": "x", "prog": "y", "new": "n", "new-prog*": "n"}, before)
    after = trees.tree_of(after, {"link": (LINK, trees.write(b"a.txt")), "lib/b.txt": (LINK, trees.write(b"z"))})
    landing = Delivery(trees).deliver(before, after)
    modes = {name: stat.S_IMODE((person.top / name).stat().st_mode) for name in ("a.txt", "prog", "new", "new-prog")}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {"a.txt": 0o750, "prog": 0o644, "new": 0o666 & ~umask, "new-prog": 0o777 & ~umask}
    assert (person.top / "link").readlink().name == "a.txt" and str((person.top / "lib/b.txt").readlink()) == "z"
    assert landing.modes == {"a.txt": 0o640, "prog": 0o755, "lib/b.txt": 0o644}
    (person.top / "a.txt").chmod(0o755)
    assert Delivery(trees).deliver(after, before, modes=landing.modes).state == "done"
    assert stat.S_IMODE((person.top / "a.txt").stat().st_mode) == 0o640


@pytest.mark.req("TREE-05")
def test_a_file_does_not_take_the_place_of_a_folder_with_ignored_files(person: Person, trees: Trees) -> None:
    """That path is refused and named, with what it would replace; everything else is delivered."""
    before, after = _prepared(person, trees)
    person.write("d/cache.o", "ignored")
    landing = Delivery(trees).deliver(before, after)
    assert landing.state == "done" and "d" not in landing.paths and "d/x" not in landing.paths
    assert [(remark.kind, remark.paths) for remark in landing.refused] == [(RemarkKind.REFUSED, ("d",))]
    assert person.read("d/cache.o") == b"ignored" and person.read("a.txt") == b"agent\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written_is_an_error_and_nothing_is_delivered(person: Person, trees: Trees) -> None:
    """The error names the operating system's reason; what was done before is taken back."""
    before, after = _prepared(person, trees)
    lies = _lies(person)
    (person.top / "lib").chmod(0o555)
    try:
        with pytest.raises(WorkspaceFailed, match="permission"):
            Delivery(trees).deliver(before, after)
        assert _lies(person) == lies
    finally:
        (person.top / "lib").chmod(0o755)


ROWS = "".join(f"{at}\n" for at in range(30))
Files = dict[str, str | None]
UNDO: dict[str, tuple[Files, Files, Files, dict[str, str], list[str]]] = {
    # before, after, as it is now (on top of after), what it comes to, what stays
    "nothing since": ({"a": ROWS}, {"a": ROWS + "x\n"}, {}, {"a": ROWS}, []),
    "other lines since": ({"a": ROWS}, {"a": "x\n" + ROWS}, {"a": "x\n" + ROWS + "y\n"}, {"a": ROWS + "y\n"}, []),
    "one hunk changed since": ({"a": ROWS}, {"a": f"x\n{ROWS}z\n"}, {"a": f"x and mine\n{ROWS}z\n"},
                               {"a": f"x and mine\n{ROWS}"}, ["a"]),
    "a new file": ({}, {"n": "n"}, {}, {}, []),
    "a new file, changed since": ({}, {"n": "n", "m": "m"}, {"n": "mine"}, {"n": "mine"}, ["n"]),
    "a removed file": ({"r": "r"}, {"r": None}, {}, {"r": "r"}, []),
    "a removed file, made anew": ({"r": "r"}, {"r": None}, {"r": "mine"}, {"r": "mine"}, ["r"]),
    "a changed file, removed since": ({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, {"a": None}, {"b": "1"}, ["a"]),
    "a moved file, changed since": ({"a": ROWS}, {"a": None, "b": ROWS}, {"b": ROWS + "m\n"},
                                    {"a": ROWS, "b": ROWS + "m\n"}, ["b"]),
}  # fmt: skip


@pytest.mark.req("TREE-06")
@pytest.mark.parametrize("name", UNDO)
def test_undo_takes_out_what_nobody_has_changed_since(trees: Trees, name: str) -> None:
    """Hunk by hunk: what a person has changed since stays, and its file is named."""
    before, after, since, wanted, kept = UNDO[name]
    first = tree(trees, {"rest": "r", **before})
    second = tree(trees, after, first)
    target, stays = Delivery(trees).undoing(first, second, tree(trees, since, second))
    assert texts(trees, target) == {"rest": "r", **wanted} and list(stays) == kept
