"""Snapshots: the workspace as it lies on disk, whatever kind of repository it is, and what another branch changes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from interlock.errors import Refused
from interlock.workspace.git import LINK
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Standing, Where
from tests.workspace.conftest import texts
from tests.workspace.person import Person


def _look(person: Person, run: str = "run", **settings: int) -> tuple[Trees, Standing]:
    trees = Trees(Workspace.find(person.top), **settings)
    return trees, trees.standing(run, trees.where())


KINDS = {
    "plain": """
        echo staged > a.txt; git add a.txt; echo more >> a.txt; echo g > gone; git add gone; git commit -qm more
        rm gone; echo n > 'new ü
'; chmod +x lib/b.txt; echo ignored > cache.o; ln -s nowhere link""",
    "tracked and ignored": "echo k > kept.o; git add -f kept.o",
    "kinds change": """  # a file becomes a folder, a folder a file, a folder a link
        mkdir d e twin; echo x > d/x; echo x > e/x; echo another > twin/x; git add -A; git commit -qm more
        rm a.txt; mkdir a.txt; echo i > a.txt/in; rm -r d; echo file > d; rm -r e; ln -s twin e""",
    "hidden flags": """  # what was told to look unchanged is looked at all the same
        git update-index --assume-unchanged a.txt; git update-index --skip-worktree lib/b.txt
        echo changed > a.txt; echo changed > lib/b.txt""",
    "intent": "echo l > later; git add -N later",
    "merging": """
        git checkout -qb side; echo theirs > a.txt; git commit -qam more; git checkout -q main
        echo ours > a.txt; git commit -qam more; ! git merge -q side""",
    "crlf": r"""
        git config core.autocrlf true; printf 'one\r\ntwo\r\n' > a.txt; printf 'one\r\n' > b.bat
        git add -A; git commit -qm more; printf 'one\r\ntwo\r\n' > b.bat""",
    "new attributes": r"""  # attributes that nobody has added convert already what is added
        echo '*.txt text eol=crlf' > .gitattributes; printf 'one\r\n' > a.txt; git add a.txt""",
    "filter": """
        git config filter.turn.clean 'tr a-y b-z'; git config filter.turn.required true
        echo '*.txt filter=turn' > .gitattributes; git add -A; git commit -qm more; echo other > lib/b.txt""",
    "split index": "git update-index --split-index",
    "no commit": "git update-ref -d HEAD",
    "no index": "rm .git/index",
    "detached": "git checkout -q --detach",
    "shallow": """
        echo second > a.txt; git commit -qam more; cd ..; mv 'my work' deep
        git clone -q --depth=1 "file://$PWD/deep" 'my work'""",
    "worktree": "cd ..; mv 'my work' 'main one'; git -C 'main one' worktree add -q '../my work' -b work",
    "own folder": """  # what a team shares of interlock's folder counts, and nothing else of it, even if it was added
        mkdir -p .interlock/agents .interlock/runs/r; echo x > .interlock/agents/x.md
        echo {} > .interlock/runs/r/journal.jsonl; git add -f .interlock/runs""",
}
_PARTIAL = """
    echo second > a.txt; git commit -qam more; git config uploadpack.allowFilter true; cd ..; mv 'my work' whole
    git clone -q --filter=blob:none --sparse "file://$PWD/whole" 'my work'; echo third > 'my work/a.txt'"""


@pytest.mark.req("TREE-02", "TREE-12")
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_is_what_lies_on_disk(person: Person, kind: str) -> None:
    """Byte for byte what is not ignored, tracked or not, and neither the index nor a ref of the person changes."""
    person.sh(KINDS[kind])
    person.settle()
    git_dir = person.git("rev-parse", "--absolute-git-dir").strip()
    index = Path(git_dir, "index")

    def untouched() -> object:
        return index.exists() and index.read_bytes(), person.git("for-each-ref"), person.git("stash", "list")

    before = untouched()
    hidden = set(person.git("ls-files", "-z", "-o", "-i", "--exclude-standard").split("\0"))
    wanted = {path: os.fsdecode(content) for path, content in person.files().items() if path not in hidden}
    wanted |= {path: person.read(path).decode() for path in (".interlock/agents/x.md",) if (person.top / path).exists()}
    trees, standing = _look(person)
    found = texts(trees, standing.tree)
    found = {path: text for path, text in found.items() if path != ".interlock/.gitignore"}
    assert found == wanted
    for path, (mode, _) in trees.entries(standing.tree).items():
        place = person.top / path
        assert mode == (LINK if place.is_symlink() else 0o100755 if place.stat().st_mode & 0o100 else 0o100644)
    assert standing.unsaved == (kind not in ("split index", "shallow", "worktree", "detached", "no index")), kind
    assert untouched() == before
    # Again, with an index that is there; and after a change that keeps size and place.
    assert trees.standing("run", trees.where()) == standing
    if "a.txt" in wanted:
        content = person.read("a.txt")
        person.write("a.txt", content.swapcase() if content.swapcase() != content else content + b"x")
        assert trees.read(trees.standing("run", trees.where()).tree, "a.txt") == person.read("a.txt")


@pytest.mark.req("TREE-12")
def test_what_sparse_and_partial_clones_lack_is_not_removed(person: Person) -> None:
    """Files outside of a sparse checkout are in the tree though nobody has them on disk, and nothing is fetched."""
    person.sh(_PARTIAL)
    assert not (person.top / "lib").exists()
    trees, standing = _look(person)
    assert sorted(trees.entries(standing.tree)) == [".gitignore", "a.txt", "lib/b.txt"]
    changed = trees.deltas(trees.committed(standing.head), standing.tree)
    assert standing.unsaved and [change.path for change in changed] == ["a.txt"]
    trees.keep("run", [standing.tree])
    person.git("config", "index.sparse", "true")
    person.git("sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    assert _look(person)[1].tree == standing.tree


@pytest.mark.req("TREE-12")
def test_without_git_there_are_snapshots_too(tmp_path: Path) -> None:
    """A folder without a repository has everything but what its ignore files name."""
    person = Person(tmp_path / "plain")
    for path, content in {"a": "1", ".gitignore": "*.o\n", "b.o": "2", "d/c": "3"}.items():
        person.write(path, content)
    trees, standing = _look(person)
    assert texts(trees, standing.tree) == {"a": "1", ".gitignore": "*.o\n", "d/c": "3"}
    assert trees.where().branch == "" and standing.unsaved and standing.head == ""


@pytest.mark.req("TREE-12", "RUN-19")
def test_what_no_snapshot_can_hold_is_told(person: Person) -> None:
    """Large files, repositories of their own, pipes and names that git refuses are left out and named, or not seen."""
    person.write("large", b"x" * 2048)
    person.write("small", b"x" * 100)
    person.write(".GIT/x", "x")
    person.git("init", "-q", "empty repo", cwd=person.top)
    inner = Person(person.top / "inner")
    inner.init()
    inner.write("x", "x")
    inner.commit()
    os.mkfifo(person.top / "pipe")
    (person.top / "lib/b.txt").unlink()
    os.mkfifo(person.top / "lib/b.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(person.top)
        listener.bind("door")
    trees, standing = _look(person, largest=1024)
    assert sorted(trees.entries(standing.tree)) == [".gitignore", "a.txt", "small"]
    told = {remark.kind.value: remark.paths for remark in standing.left_out}
    assert told == {"nested": ("empty repo/", "inner/"), "large": ("large",), "refused": (".GIT/x",)}
    person.write("small", b"x" * 3000)
    assert "small" not in trees.entries(trees.standing("run", trees.where()).tree)


@pytest.mark.req("RUN-19")
@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_what_cannot_be_read_counts_as_it_was(person: Person) -> None:
    """A tracked file without the right to read it stays as it was committed, a new one is left out; both are named."""
    person.write("a.txt", "changed", mode=0)
    person.write("new", "n", mode=0)
    trees, standing = _look(person)
    assert "new" not in trees.entries(standing.tree) and trees.read(standing.tree, "a.txt") != b"changed"
    assert standing.left_out[0].paths == ("a.txt", "new")


@pytest.mark.req("TREE-12")
def test_rules_outside_of_the_tree_count(person: Person) -> None:
    """The repository's own exclude file and the person's for all repositories are heard."""
    person.write(".git/info/exclude", b"\xef\xbb\xbfprivate\n!keep.o")
    person.write("../ignore", "everywhere\nkeep.*\n")
    person.git("config", "core.excludesFile", str(person.top.parent / "ignore"))
    for name in ("private", "everywhere", "keep.x", "seen"):
        person.write(name, name)
    trees, standing = _look(person)
    assert sorted(trees.entries(standing.tree)) == [".gitignore", "a.txt", "lib/b.txt", "seen"]
    person.git("add", "-f", "private")  # their index is asked again when it has changed
    assert "private" in trees.entries(trees.standing("run", trees.where()).tree)


def test_objects_of_another_kind_are_refused(tmp_path: Path) -> None:
    """A repository whose objects are named by SHA-256 is bad input, said before anything is done."""
    person = Person(tmp_path / "w")
    person.top.mkdir()
    person.git("init", "-q", "--object-format=sha256")
    person.write("a", "a")
    with pytest.raises(Refused, match="SHA-256"):
        _look(person)


# -- branches


AWAY = {
    # what the person does before a run begins, what they do then, what the run sees, whether no commit has all of it
    "saved as it was seen": (
        "echo mine > a.txt", "git commit -qam saved; git checkout -qb other; echo other > a.txt", {"a.txt": "mine\n"},
        False),
    "its branch gained": (
        "echo mine > a.txt",
        "git commit -qam saved; git checkout -qb other; git worktree add -q ../gained main;"
        "(cd ../gained; echo more > a.txt; echo new > lib/b.txt; git commit -qam more); git worktree remove ../gained",
        {"a.txt": "more\n", "lib/b.txt": "new\n"}, False),
    "a commit stands over what was seen unsaved": (
        "echo half > lib/b.txt; echo u > new", "echo done > lib/b.txt; git commit -qam done; git checkout -q --detach",
        {"lib/b.txt": "done\n", "new": "u\n"}, True),
    "its branch is gone": (
        "echo mine > a.txt", "git checkout -qb other; git branch -qD main", {"a.txt": "mine\n"}, True),
    "it began detached": (
        "git checkout -q --detach", "git checkout -q main; echo x > lib/b.txt", {"lib/b.txt": "b\n"}, False),
}  # fmt: skip


@pytest.mark.req("TREE-15")
@pytest.mark.parametrize("name", AWAY)
def test_another_branch_leaves_the_runs_tree_alone(person: Person, trees: Trees, name: str) -> None:
    """While another branch is checked out a run sees its last tree, with what its own branch has gained, and back on
    its branch the workspace again. A detached HEAD is a place like a branch."""
    begins, goes_on, wanted, unsaved = AWAY[name]
    person.sh(begins)
    where = trees.where()
    first = trees.standing("run", where)
    person.sh(goes_on)
    away = trees.standing("run", where, first)
    assert away.away and {path: texts(trees, away.tree)[path] for path in wanted} == wanted
    head = person.git("rev-parse", "-q", "--verify", "main", ok=(0, 1)).strip()
    assert away.unsaved is unsaved and away.head == (head or first.head)
    person.git("checkout", "-q", "-f", *(("--detach",) if where.branch == "detached" else ("-B", "main")))
    person.write("a.txt", "back\n")
    back = trees.standing("run", where, away)
    assert not back.away and texts(trees, back.tree)["a.txt"] == "back\n"
    assert trees.standing("run", Where(branch="refs/heads/none")).tree == EMPTY


@pytest.mark.req("TREE-15")
def test_a_checkout_in_the_middle_of_a_look(person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that was looked at while the branch changed is nobody's: the run's last one stands."""
    where, real = trees.where(), trees.snapshots.take
    first = trees.standing("run", where)

    def take(run: str) -> object:
        person.git("checkout", "-q", "-b", "other")
        person.write("a.txt", "of the other branch\n")
        return real(run)

    monkeypatch.setattr(trees.snapshots, "take", take)
    assert trees.standing("run", where, first).tree == first.tree


@pytest.mark.req("TREE-15")
def test_where_a_workspace_is(person: Person, tmp_path: Path) -> None:
    """The top is git's; else the nearest folder with settings; else the folder; an ignored folder is no part of git."""
    assert Workspace.find(person.top / "lib") == Workspace(person.top, "lib")
    person.write("out.o/deep/x", "x")
    assert Workspace.find(person.top / "out.o/deep") == Workspace(person.top / "out.o/deep")
    person.write("out.o/interlock.toml", "")
    assert Workspace.find(person.top / "out.o/deep") == Workspace(person.top / "out.o", "deep")
    assert Workspace.find(tmp_path) == Workspace(tmp_path)
    workspace = Workspace.find(person.top)
    assert not workspace.own.exists()
    workspace.prepared()
    assert person.git("status", "--porcelain") == ""
    for name in ("agents", "prompts", "playbooks", "runs"):
        person.write(f".interlock/{name}/x", "x")
    person.git("add", ".interlock")
    shared = [f".interlock/{name}/x" for name in ("agents", "playbooks", "prompts")]
    assert person.git("diff", "--cached", "--name-only").split() == shared
