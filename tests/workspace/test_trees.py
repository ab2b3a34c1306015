"""Trees: merged path by path, compared, grafted, and kept from anybody's gc."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.workspace.git import LINK
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Change
from tests.workspace.conftest import texts, tree
from tests.workspace.person import Person

TEN = "".join(f"{at}\n" for at in range(10))


@pytest.fixture
def bare(tmp_path: Path) -> Trees:
    """Trees of a folder that has no git."""
    (tmp_path / "w").mkdir()
    return Trees(Workspace(tmp_path / "w"))


MERGES = {
    "one side": ({"a": "1"}, {"a": "2"}, {"a": "1"}, {"a": "2"}),
    "both alike": ({"a": "1"}, {"a": "2"}, {"a": "2"}, {"a": "2"}),
    "different files": ({}, {"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}),
    "lines apart": (
        {"a": TEN},
        {"a": TEN.replace("1", "one")},
        {"a": TEN.replace("8", "eight")},
        {"a": TEN.replace("1", "one").replace("8", "eight")},
    ),
    "the same line": ({"a": TEN}, {"a": TEN.replace("5", "x")}, {"a": TEN.replace("5", "y")}, ["a"]),
    "added twice": ({}, {"a": "1"}, {"a": "2"}, ["a"]),
    "removed and changed": ({"a": "1", "b": ""}, {"b": ""}, {"a": "2", "b": ""}, ["a"]),
    "moved and changed": ({"a": TEN}, {"b": TEN}, {"a": TEN.replace("5", "x")}, ["a"]),
    "a folder moved, a file added": ({"d/a": TEN}, {"e/a": TEN}, {"d/a": TEN, "d/b": "b"}, {"e/a": TEN, "d/b": "b"}),
    "a file and a folder": ({}, {"a": "1"}, {"a/b": "2"}, ["a"]),
    "a folder and a file": ({"a/b": "2", "z": ""}, {"a/b": "3", "z": ""}, {"a": "2", "z": ""}, ["a/b"]),
    "removed and moved": ({"a": TEN, "c": TEN}, {"c": "c"}, {"b": TEN, "c": TEN}, {"b": TEN, "c": "c"}),
    "a mode and a line": ({"a": TEN}, {"a*": TEN}, {"a": TEN + "x"}, {"a": TEN + "x"}),
    "two in conflict": ({"a": "1", "b": "1"}, {"a": "2"}, {"a": "3", "b": "3"}, ["a", "b"]),
    "bytes": ({"a": "\0" + TEN}, {"a": "\0" + TEN + "1"}, {"a": "2\0" + TEN}, ["a"]),
    "odd names": ({}, {"ü\n\t a": "1"}, {'-"\\': "2"}, {"ü\n\t a": "1", '-"\\': "2"}),
}


@pytest.mark.req("TREE-04", "RUN-19")
@pytest.mark.parametrize("name", MERGES)
def test_a_merge_is_of_paths(bare: Trees, name: str) -> None:
    """A merge takes what one side changed; a conflict is a path's, whichever side is whose, and leaves no tree."""
    base, ours, theirs, wanted = MERGES[name]
    three = [tree(bare, dict(side)) for side in (base, ours, theirs)]
    for sides in (three, [three[0], three[2], three[1]]):
        merged = bare.merge(*sides)
        if isinstance(wanted, dict):
            assert merged.tree is not None and texts(bare, merged.tree) == wanted
        else:
            assert merged.tree is None and sorted(set(merged.conflicts)) == wanted


@pytest.mark.parametrize("name", [name for name, row in MERGES.items() if isinstance(row[3], list)])
def test_one_side_stands_on_each_path_in_conflict(bare: Trees, name: str) -> None:
    """`merge_for` leaves the paths in conflict as `theirs` has them, and merges the rest."""
    base, ours, theirs = (
        tree(bare, {**dict(side), **rest}) for side, rest in zip(MERGES[name][:3], _REST, strict=True)
    )
    merged, clashes = bare.merge_for(base, ours, theirs)
    assert set(clashes) == set(MERGES[name][3])
    rest = {path: text for path, text in texts(bare, ours).items() if path not in clashes}
    assert texts(bare, merged) == {**texts(bare, theirs), **rest}


_REST: list[dict[str, str | None]] = [{"rest": "0"}, {"rest": "1"}, {"rest": "0", "more": "2"}]


def test_between_counts_what_differs(bare: Trees) -> None:
    """Every kind of change has its name, with lines where there are lines."""
    old = tree(bare, {"same": "s", "text": "a\nb\n", "gone": "x\n", "mode": "m\n", "bytes": "\0", "to-link": "t"})
    target = bare.write(b"same")
    new = tree(bare, {"text": "a\nc\nd\n", "gone": None, "mode*": "m\n", "bytes": "\0\1", "new": "n\n"}, old)
    new = bare.tree_of(new, {"to-link": (LINK, target), "ü": (LINK, target)})
    assert {change.path: change for change in bare.between(old, new)} == {
        "bytes": Change(path="bytes", kind="changed"),
        "gone": Change(path="gone", kind="deleted", added=0, removed=1),
        "mode": Change(path="mode", kind="mode", added=0, removed=0),
        "new": Change(path="new", kind="added", added=1, removed=0),
        "text": Change(path="text", kind="changed", added=2, removed=1),
        "to-link": Change(path="to-link", kind="link", added=1, removed=1),
        "ü": Change(path="ü", kind="link", added=1, removed=0),
    }
    assert [change.path for change in bare.between(old, new, ["text", "new"])] == ["new", "text"]


def test_a_patch_can_be_applied(bare: Trees, tmp_path: Path) -> None:
    """What `patch` says, `git apply` makes of the old tree, bytes and modes included."""
    old = tree(bare, {"text": TEN, "bytes": "\0\1", "d/gone": "x\n"})
    new = tree(bare, {"text": TEN + "more\n", "bytes": "\0\2", "d/gone": None, "new ü*": "n\n"}, old)
    person = Person(tmp_path / "w")
    for path, content in texts(bare, old).items():
        person.write(path, content)
    (tmp_path / "patch").write_bytes(bare.patch(old, new))
    person.git("init", "-q")
    person.git("apply", str(tmp_path / "patch"))
    assert {path: content.decode() for path, content in person.files().items()} == texts(bare, new)
    assert (person.top / "new ü").stat().st_mode & stat.S_IXUSR


def test_graft_takes_files_folders_and_absence(bare: Trees) -> None:
    """The named paths are as in the other tree, present or not, and nothing else is."""
    one = tree(bare, {"a": "1", "d/x": "1", "d/y": "1", "f": "file"})
    two = tree(bare, {"a": "2", "d/x": "2", "f/in": "2", "new": "2"})
    assert texts(bare, bare.graft(one, two, ["d", "new"])) == {"a": "1", "d/x": "2", "f": "file", "new": "2"}
    assert texts(bare, bare.graft(one, two, ["f"])) == {"a": "1", "d/x": "1", "d/y": "1", "f/in": "2"}
    assert texts(bare, bare.graft(two, one, ["f"])) == {"a": "2", "d/x": "2", "f": "file", "new": "2"}
    assert bare.graft(one, two, []) == one


def test_from_folder_takes_what_lies_there(bare: Trees, tmp_path: Path) -> None:
    """Files, programs and links of a folder get into the tree; what is no file there, or beyond a link, is gone."""
    base = tree(bare, {"keep": "k", "gone": "g", "d/x": "x", "dir": "was a file"})
    folder = tmp_path / "upper"
    person = Person(folder)
    person.write("new", "n")
    person.write("prog", "#!", mode=0o755)
    person.write("dir/in", "i")
    (folder / "link").symlink_to("anywhere/at all")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/x").write_text("not mine")
    (folder / "d").symlink_to("elsewhere")
    made = bare.from_folder(base, folder, ["new", "prog", "link", "gone", "d/x", "d", "dir/in", "dir"])
    wanted = {"keep": "k", "new": "n", "prog": "#!", "link": "anywhere/at all", "d": "elsewhere", "dir/in": "i"}
    assert texts(bare, made) == wanted
    modes = {path: mode for path, (mode, _) in bare.entries(made).items() if mode != 0o100644}
    assert modes == {"prog": 0o100755, "link": LINK, "d": LINK}


def test_read_and_entries(bare: Trees) -> None:
    """A file is read by its path, a folder lists what is below it, and what is not there is None."""
    made = tree(bare, {"a/b": "1", "a/c": "2", "a.b": "3", ":(glob)x": "4"})
    assert [bare.read(made, path) for path in ("a/b", ":(glob)x", "a", "none")] == [b"1", b"4", None, None]
    for many in (["a"], [*(f"no/{at}" for at in range(1000)), "a"]):
        assert sorted(bare.entries(made, many)) == ["a/b", "a/c"]
        assert [change.path for change in bare.between(EMPTY, made, many)] == ["a/b", "a/c"]


@pytest.mark.req("TREE-02")
def test_a_kept_tree_survives_every_gc(person: Person, trees: Trees) -> None:
    """What a run keeps is whole after the person threw its commit and staged files away and collected garbage."""
    person.write("a.txt", "staged\n")
    person.git("add", "-A")
    taken = trees.standing("run", trees.where()).tree
    trees.keep("run", [taken])
    merged = tree(trees, {"new": "n"}, taken)
    trees.keep("run", [merged])
    person.git("reset", "-q", "--hard")
    person.git("checkout", "-q", "--orphan", "other")
    person.git("rm", "-rqf", ".")
    person.write("z", "z")
    person.commit()
    person.git("branch", "-D", "main")
    person.git("reflog", "expire", "--expire=now", "--all")
    person.git("gc", "-q", "--prune=now")
    again = Trees(trees.workspace)
    assert again.read(merged, "new") == b"n" and again.read(taken, "a.txt") == b"staged\n"
    assert again.merge(taken, merged, tree(again, {"other": "o"}, taken)).tree
    again.forget("run")
    assert again.git.text("for-each-ref") == ""


@pytest.mark.req("RUN-17")
def test_deliveries_and_snapshots_wait_for_each_other(trees: Trees) -> None:
    """Many look at once; whoever delivers is alone."""
    inside: list[str] = []

    def deliver() -> None:
        with trees.writing():
            inside.append("delivered")

    with trees.reading(), trees.reading():
        other = threading.Thread(target=deliver)
        other.start()
        inside.append("looked")
    other.join()
    assert inside == ["looked", "delivered"]


def test_ignored_by_the_persons_rules(person: Person, trees: Trees) -> None:
    """Rules of every place count; what is tracked is never ignored, and links and nested repositories stop nobody."""
    person.write("tracked.o", "t")
    person.git("add", "-f", "tracked.o")
    person.write(".git/info/exclude", "private/\n")
    person.write("nested/x.o", "x")
    person.git("init", "-q", cwd=person.top / "nested")
    (person.top / "link").symlink_to("lib")
    asked = ["a.o", "tracked.o", "private/x", "private/", "nested/x.o", "link/y.o", ":(top)z.o", "plain"]
    assert trees.ignored(asked) == {"a.o", "private/x", "private/", ":(top)z.o"}
    assert Trees(Workspace(person.top / "lib")).ignored(["x.o"]) == set()


@pytest.mark.req("RUN-17")
def test_members_of_a_group_work_side_by_side(person: Person, trees: Trees) -> None:
    """Many threads look, merge, keep and build trees at once; each gets what it would get alone."""
    person.write("a.txt", "unsaved\n")
    where = trees.where()

    def member(at: int) -> dict[str, str]:
        taken = trees.standing(f"run-{at % 2}", where).tree
        mine = tree(trees, {f"member {at}": str(at)}, taken)
        trees.keep(f"run-{at % 2}", [taken, mine])
        merged = trees.merge(taken, mine, tree(trees, {"lib/b.txt": str(at)}, taken)).tree
        assert merged is not None
        return texts(trees, merged)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(member, range(16)))
    common = {".gitignore": "*.o\n", "a.txt": "unsaved\n"}
    assert found == [{**common, f"member {at}": str(at), "lib/b.txt": str(at)} for at in range(16)]
    assert all(trees.git.text("rev-list", "--count", f"refs/interlock/run-{at}") == "8" for at in (0, 1))


@pytest.mark.req("TREE-12")
def test_whether_a_tree_converts(person: Person, trees: Trees) -> None:
    """It does where attributes of any folder, or of the person, say so; what only forbids it does not."""
    rows = {
        "*.png binary\n*.sh -text\n# a text=auto\n": False,
        "*.x text\n": True,
        "a -diff\n": False,
        "*.x eol=lf": True,
        "* filter=lfs": True,
        "*.x -filter !eol": False,
    }
    base = trees.standing("run", trees.where()).tree
    for text, converts in rows.items():
        assert trees.converts(tree(trees, {"deep/.gitattributes": text}, base)) is converts, text
    person.write(".git/info/attributes", "* ident\n")
    assert Trees(trees.workspace).converts(base)
