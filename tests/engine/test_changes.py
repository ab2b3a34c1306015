"""What a run changed is told whole: each file is there, whatever it is called and whatever became of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.changes import LARGE, Changes, run_changes
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.journal import Line
from interlock.errors import JournalDamaged, WorkspaceFailed
from interlock.pages.diffs import changed_files
from interlock.workspace import Entry, KeptWork, Snapshot
from interlock.workspace.objects import Stored, store_bytes, store_tree
from interlock.workspace.shadow import Shadow
from tests.documents.test_patches import ODD

PLAIN, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120777
Was = tuple[int, bytes] | None
"""A file at one moment: its mode and what is in it; None where there is none."""


def line(event: str, data: Mapping[str, object], key: str = "s/builder#1") -> Line:
    return Line(0, "2026-01-04T12:00:00Z", "r", event, key, "builder", 1, None, None, data, "", "")


class Kept:
    """A shadow repository with what agents left in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shadow = Shadow(root / HOME)
        assert self.shadow.plain

    def work(self, files: Mapping[str, tuple[Was, Was]], trees: Callable[[str], str] = lambda _: "") -> Line:
        """The end of a dispatch that found and left files so; `trees` says in which nested repository each is."""
        blob = {
            content: store_bytes(self.shadow, content) for pair in files.values() for _, content in filter(None, pair)
        }
        found: dict[str, list[tuple[str, Stored]]] = {"": []}
        entries = []
        for path, (old, new) in files.items():
            home = trees(path)
            if old is not None:
                mode = 0o120000 if old[0] == LINK else old[0]
                found.setdefault(home, []).append((path[len(home) :].lstrip("/"), Stored(mode, blob[old[1]])))
            entries.append(Entry(path, 0, "") if new is None else Entry(path, new[0], blob[new[1]]))
        base = Snapshot(tuple((home, store_tree(self.shadow, some)) for home, some in found.items()))
        report = {"changes": list(files), "artifacts": {}, "work": KeptWork(base, tuple(entries)).to_json()}
        return line("dispatch.end", {"changes": len(files), "member": "builder", "out": report})

    def changes(self, *lines: Line, literal: bool = True) -> Changes:
        return run_changes(RunFolder(self.root, "r"), lines, ("docs/**",), literal=literal)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


BEFORE, AFTER = (PLAIN, b"one\ntwo\n"), (PLAIN, b"one\nevil()\n")


@pytest.mark.req("WB-05", "WB-09")
@pytest.mark.parametrize("was", [None, BEFORE], ids=["new", "changed"])
def test_one_odd_name_hides_no_file(kept: Kept, was: Was) -> None:
    """Every file is told with its lines, the odd one and those beside it, and git reads the patch."""
    paths = [path for path in ODD if path != "x b/x"]  # a file has no folder of its own name
    found = kept.changes(kept.work(dict.fromkeys(paths, (was, AFTER))))
    assert {one.path for one in found.code} == set(paths)
    assert all(b"+evil()" in one.patch and one.added for one in found.code)
    assert {file.path for file in changed_files(found.code)} == set(paths)
    tree = kept.root / "tree"
    for path in paths if was else ():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(BEFORE[1])
    tree.mkdir(exist_ok=True)
    subprocess.run(["git", "apply", "-"], cwd=tree, input=found.patch, check=True)
    assert all((tree / path).read_bytes() == AFTER[1] for path in paths)


@pytest.mark.req("WB-05")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ((PLAIN, b"/etc/passwd"), (LINK, b"/etc/passwd"), "link"),
        ((LINK, b"target"), (PLAIN, b"target"), "deleted, a link"),
        (None, (LINK, b"/etc/passwd"), "new, a link"),
        ((PLAIN, b"x\n"), (EXECUTABLE, b"x\n"), "can be executed now"),
        ((EXECUTABLE, b"x\n"), (PLAIN, b"x\n"), "can no longer be executed"),
        (None, (EXECUTABLE, b"x\n"), "new, executable"),
        (None, (PLAIN, b""), "new"),
        ((PLAIN, b""), None, "deleted"),
        (None, (PLAIN, b"\x89PNG\xff\0"), "new, binary"),
    ],
)
def test_what_became_of_a_file_is_said(kept: Kept, old: Was, new: Was, says: str) -> None:
    """A file that became a link of the same content, one that can be executed, an empty one: each is a change."""
    found = kept.changes(kept.work({"it": (old, new), "other": (BEFORE, AFTER)}), literal=False)
    assert [one.path for one in found.code] == ["it", "other"]
    assert says in "; ".join(file.what for file in changed_files(found.code) if file.path == "it")


@pytest.mark.req("WB-05")
def test_what_can_be_read_is_no_binary_file_for_people(kept: Kept) -> None:
    """One NUL in a program hides none of its lines; for `git apply` it is as git has it."""
    sly = (PLAIN, b"// \0\nevil()\n")
    (file,) = changed_files(kept.changes(kept.work({"a.js": (None, sly)}), literal=False).code)
    assert "evil" in "".join(str(row.code) for row in file.rows)
    assert b"GIT binary patch" in kept.changes(kept.work({"a.js": (None, sly)})).patch


@pytest.mark.req("WB-05", "WB-10")
def test_a_huge_file_is_named_and_costs_nothing(kept: Kept) -> None:
    (file,) = changed_files(kept.changes(kept.work({"a": (None, (PLAIN, b"x\n" * LARGE))}), literal=False).code)
    assert (file.path, file.what, file.rows) == ("a", "too large to be shown", ())


@pytest.mark.req("WB-05")
def test_work_on_work_is_told_against_how_the_run_found_it(kept: Kept) -> None:
    """Undone work is none; a folder that was a file, and a repository in the tree, are seen."""
    first = kept.work(
        {"a": (None, AFTER), "b": (BEFORE, AFTER), "sub/c": (BEFORE, AFTER)}, lambda p: "sub" * ("/" in p)
    )
    second = kept.work({"a": (AFTER, None), "b": (AFTER, None), "b/d": (None, AFTER)})
    found = kept.changes(first, second)
    assert [(one.path, one.added, one.removed) for one in found.code] == [("b", 0, 2), ("b/d", 2, 0), ("sub/c", 1, 1)]


@pytest.mark.req("WB-05")
def test_what_looks_like_a_document_is_told_apart_and_not_left_out(kept: Kept) -> None:
    found = kept.changes(kept.work({"docs/evil.sh": (None, AFTER), "a.py": (None, AFTER)}))
    assert [one.path for one in found.code] == ["a.py"]
    assert [(one.path, one.added) for one in found.papers] == [("docs/evil.sh", 2)]


@pytest.mark.req("WB-05")
def test_what_came_along_is_told(kept: Kept) -> None:
    """Files that git ignores, and what a command wrote that may write; not what was dropped."""
    out = {"changed": ["gen.py"]}
    found = kept.changes(
        line("dispatch.came_along", {"ignored": {"dist/": 3}}),
        line("command", {"out": out, "argv": ["make", "format"]}, "format"),
        line("command.dropped", {}, "test"),
        line("command", {"out": out, "argv": ["make", "test"]}, "test"),
    )
    assert found.besides == ("dist/ (3 files), ignored by git", "gen.py, by the command make format")


@pytest.mark.req("WB-05")
def test_what_cannot_be_read_is_no_change_that_is_not_there(kept: Kept) -> None:
    """A record that is gone is a fault that is said, not an empty difference."""
    work = kept.work({"a": (BEFORE, AFTER)})
    for place in (kept.shadow.path / "objects").glob("??/*"):
        place.unlink()
    with pytest.raises(WorkspaceFailed):
        kept.changes(work)


@pytest.mark.parametrize(
    "odd",
    [
        line("dispatch.end", {"changes": 1, "member": "builder", "out": {}}),
        line("dispatch.end", {"changes": 1, "member": "builder", "out": "words"}),
        line("dispatch.end", {"changes": 1, "out": {"changes": ["a"], "artifacts": {}, "work": {"base": []}}}),
        line("dispatch.came_along", {"ignored": ["a"]}),
        line("command", {"argv": ["make"], "out": 1}),
    ],
)
def test_records_that_say_something_else_are_said_to_be_damaged(kept: Kept, odd: Line) -> None:
    """Whoever asks gets an error for people, that leads to what is wrong."""
    with pytest.raises(JournalDamaged, match="cannot be read from its records") as told:
        kept.changes(odd)
    assert "interlock show r --verify" in str(told.value.remedy)


sides = st.none() | st.tuples(st.sampled_from((PLAIN, EXECUTABLE, LINK)), st.binary(max_size=40))
parts = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]) | st.sampled_from('\n\t" \\'), min_size=1
)


@pytest.mark.req("WB-05", "WB-09")
@given(
    st.dictionaries(parts.filter(lambda name: name not in (".", "..")), st.tuples(sides, sides), max_size=6),
    st.booleans(),
)
def test_each_changed_file_is_listed(files: dict[str, tuple[Was, Was]], literal: bool) -> None:
    """For any names and contents: the files that differ are those that are told and those that a page lists."""
    with TemporaryDirectory() as place:
        found = Kept(Path(place)).changes(Kept(Path(place)).work(files), literal=literal)
    differing = {path for path, (old, new) in files.items() if old != new}
    told = (*found.code, *found.documentation)
    assert {one.path for one in told} == differing
    assert {file.path for file in changed_files(told)} == differing
    assert all(one.patch and one.patch in found.patch for one in told)
