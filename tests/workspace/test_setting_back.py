"""What of a result is no work: older versions of what the person has not committed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from interlock.workspace.git import Entry, object_name
from interlock.workspace.place import Workspace
from interlock.workspace.setting_back import Mended, free, is_set_back, mend, owned
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Tree
from tests.workspace.conftest import texts, tree
from tests.workspace.person import Person

HEAD, OLD, NOW, NEW = (0o100644, "head"), (0o100644, "old"), (0o100644, "now"), (0o100644, "new")
PROGRAM = (0o100755, "head")

RULE: dict[str, tuple[Entry | None, Entry | None, Entry | None, bool]] = {
    "nothing unsaved": (HEAD, HEAD, OLD, False),
    "nothing unsaved, removed": (HEAD, HEAD, None, False),
    "not changed": (HEAD, NOW, NOW, False),
    "as it was committed": (HEAD, NOW, HEAD, True),
    "as it was once": (HEAD, NOW, OLD, True),
    "really changed": (HEAD, NOW, NEW, False),
    "removed": (HEAD, NOW, None, True),
    "untracked and removed": (None, NOW, None, True),
    "untracked and changed": (None, NOW, NEW, False),
    "untracked, as it was in another commit": (None, NOW, OLD, True),
    "removed by the person, there again": (HEAD, None, HEAD, True),
    "removed by the person, another there": (HEAD, None, NEW, False),
    "removed by the person and still so": (HEAD, None, None, False),
    "a mode taken back": (HEAD, PROGRAM, HEAD, True),
    "a mode given": (HEAD, NOW, (0o100755, "now"), False),
    "a link again": (HEAD, NOW, (0o120000, "head"), True),
}


@pytest.mark.req("TREE-03")
def test_the_rule() -> None:
    """One pure rule over what is committed, what the person has, what was left, and what git ever had."""
    for name, (head, now, result, wanted) in RULE.items():
        assert is_set_back(head, now, result, {"head": None, "old": None}) is wanted, name


@dataclass
class Work:
    """A person's repository: an older version, the committed one, and what they have not committed."""

    trees: Trees
    head: Tree
    now: Tree

    def mend(self, *, pending: dict[str, str | None] | None = None, **result: str | None) -> Mended:
        shown = tree(self.trees, pending or {}, self.now)
        left = tree(self.trees, {name.replace("_", "."): text for name, text in result.items()}, shown)
        return mend(self.trees, head=self.head, now=self.now, shown=shown, result=left, own={})

    def texts(self, mended: Mended) -> dict[str, str]:
        return texts(self.trees, mended.tree)


ROWS = [f"row {at}\n" for at in range(20)]


def _rows(**changes: str | None) -> str:
    """Twenty rows, some other, more, or not there."""
    rows = {f"r{at}": row for at, row in enumerate(ROWS)}
    return "".join(text for name in rows if (text := changes.get(name, rows[name])) is not None)


def _work(person: Person, now: str | None) -> Work:
    person.write("f.py", _rows(r3="old 3\n", r17="old 17\n"))
    person.commit()
    person.write("f.py", _rows())
    commit = person.commit()
    if now is None:
        (person.top / "f.py").unlink()
    else:
        person.write("f.py", now)
    trees = Trees(Workspace.find(person.top))
    taken = trees.standing("run", trees.where())
    return Work(trees, Tree(person.git("rev-parse", f"{commit}^{{tree}}").strip()), taken.tree)


REPLACED = _rows(r5="mine\n")
ADDED = _rows(r5="row 5\nmine\n")
DROPPED = _rows(r5=None)
PATCHY = _rows(r5="mine\n", r9="row 9\nand\nmore\nof mine\n")
MANY = _rows(**{f"r{at}": f"mine {at}\n" for at in range(8)})
OLDER = {"r3": "old 3\n", "r17": "old 17\n"}

A = "agent\n"
BOTH = _rows(r5="mine\n", r9=A)
ONE_BACK = MANY.replace("mine 3", "row 3")

EDITS: dict[str, tuple[str | None, str | None, str | None, bool]] = {
    # what the person has, what the agent left, what it comes to, whether it is refused as a whole
    "an edit of what was shown": (REPLACED, BOTH, BOTH, False),
    "their line changed": (REPLACED, _rows(r5=A), _rows(r5=A), False),
    "their new line changed": (ADDED, _rows(r5=f"row 5\n{A}"), _rows(r5=f"row 5\n{A}"), False),
    "committed, then an edit": (REPLACED, _rows(r9=A), BOTH, False),
    "older, then an edit": (REPLACED, _rows(**OLDER, r9=A), BOTH, False),
    "added lines, then committed and an edit": (ADDED, _rows(r9=A), _rows(r5="row 5\nmine\n", r9=A), False),
    "added lines, then an edit beside": (ADDED, _rows(r5=A), ADDED, True),
    "older, then an edit in the same place": (ADDED, _rows(**OLDER, r5=A), ADDED, True),
    "older, then an edit beside what is newer": (REPLACED, _rows(**OLDER, r4=A), REPLACED, True),
    "dropped lines, then committed and an edit": (DROPPED, _rows(r9=A), _rows(r5=None, r9=A), False),
    "removed by the person, then an edit": (None, _rows(r9=A), _rows(r9=A), False),
    "their added lines removed, another kept": (PATCHY, _rows(r5="mine\n", r12=A), _rows(r5="mine\n", r12=A), False),
    "one of their many lines taken back": (MANY, ONE_BACK, ONE_BACK, False),
    "all written anew": (REPLACED, "other\n", "other\n", False),
    "just older": (REPLACED, _rows(**OLDER), REPLACED, False),
}


@pytest.mark.req("TREE-03")
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_on_an_older_version_is_put_on_the_present_one(person: Person, name: str) -> None:
    """What the person changed is still there, with the agent's edit; a clash refuses the file; a change is a change."""
    now, left, wanted, clash = EDITS[name]
    work = _work(person, now)
    mended = work.mend(f_py=left)
    assert work.texts(mended).get("f.py") == wanted
    assert mended.set_back == (("f.py",) if wanted != left else ())
    assert mended.clashes == (("f.py",) if clash else ())
    assert mended.changed == (("f.py",) if wanted != now else ())


@pytest.mark.req("TREE-03")
def test_versions_that_no_branch_has_are_known(person: Person, trees: Trees) -> None:
    """Of a commit that was amended, of a stash, and what is staged; also when many paths are asked about."""
    versions = [b"amended away\n", b"committed\n", b"stashed\n", b"staged\n"]
    for content, way in zip(versions, ("commit -qam x", "commit -q --amend -am y", "stash -q", "add ."), strict=True):
        person.write("a.txt", content)
        person.git(*way.split())
    found = trees.had([*(f"no/{at}" for at in range(600)), "a.txt"])["a.txt"]
    assert {object_name(content) for content in versions} <= set(found)


@pytest.mark.req("TREE-03")
def test_a_move_is_no_absence(person: Person) -> None:
    """A file whose content stands elsewhere was moved; one that was removed, or moved in an older version, is back."""
    work = _work(person, REPLACED)
    assert work.texts(work.mend(f_py=None, g_py=REPLACED + "agent\n"))["g.py"] == REPLACED + "agent\n"
    assert work.mend(f_py=None, g_py=REPLACED).set_back == () and work.mend(f_py=None, g_py=REPLACED).changed
    assert work.texts(work.mend(f_py=None))["f.py"] == REPLACED
    for older in (_rows(), _rows(**OLDER), _rows(r9="agent\n")):
        moved = work.mend(f_py=None, g_py=older)
        assert moved.set_back == ("f.py",) and work.texts(moved)["f.py"] == REPLACED


@pytest.mark.req("TREE-03")
def test_an_agent_may_take_back_its_own_work(person: Person) -> None:
    """What is pending of the run is no person's: back to what the person has is work, back to a commit is not."""
    work = _work(person, REPLACED)
    pending: dict[str, str | None] = {"f.py": _rows(r5="mine\n", r9="agent\n")}
    assert work.texts(work.mend(pending=pending, f_py=REPLACED))["f.py"] == REPLACED
    assert work.texts(work.mend(pending=pending, f_py=_rows()))["f.py"] == pending["f.py"]


@pytest.mark.req("TREE-03")
def test_what_the_run_delivered_is_its_own(person: Person) -> None:
    """A delivered file may be set back by the run, unless something unsaved of the person was or is in it."""
    work = _work(person, REPLACED)
    after = tree(work.trees, {"f.py": _rows(r5="mine\n", r9="agent\n"), "a.txt": "agent\n", "new": "agent\n"}, work.now)
    own = owned(work.trees, {}, head=work.head, before=work.now, after=after)
    assert sorted(own) == ["a.txt", "new"]
    back = work.trees.graft(after, work.head, ["f.py", "a.txt", "new"])
    mended = mend(work.trees, head=work.head, now=after, shown=after, result=back, own=own)
    assert mended.set_back == ("f.py",)
    edited = tree(work.trees, {"a.txt": "agent\nand mine\n"}, after)
    mended = mend(work.trees, head=work.head, now=edited, shown=edited, result=back, own=own)
    assert mended.set_back == ("a.txt", "f.py")
    moved = tree(work.trees, {"f.py": None, "g.py": REPLACED}, work.now)
    assert owned(work.trees, {}, head=work.head, before=work.now, after=moved) == {}
    further = tree(work.trees, {"a.txt": "agent 2\n", "new": None}, after)
    own = owned(work.trees, own, head=work.head, before=after, after=further)
    assert own == {"a.txt": work.trees.entries(further)["a.txt"][1]}


@pytest.mark.req("TREE-03", "TREE-12")
def test_versions_are_compared_as_they_are_committed(person: Person) -> None:
    """Where line ends are converted an older version is known by its committed bytes and given back as it lay there."""
    person.git("config", "core.autocrlf", "true")
    work = _work(person, REPLACED.replace("\n", "\r\n"))
    trees, clean_now = work.trees, tree(work.trees, {"f.py": REPLACED}, work.head)
    for left, wanted in ((_rows(), REPLACED), (_rows(r9="agent\n"), _rows(r5="mine\n", r9="agent\n"))):
        raw = tree(trees, {"f.py": left.replace("\n", "\r\n")}, work.now)
        clean = (clean_now, clean_now, tree(trees, {"f.py": left}, work.head))
        mended = mend(trees, head=work.head, now=work.now, shown=work.now, result=raw, own={}, clean=clean)
        assert texts(trees, mended.tree)["f.py"] == wanted.replace("\n", "\r\n") and mended.set_back == ("f.py",)


LIVE: dict[str, tuple[str | None, str | None, str | None, str | None, bool]] = {
    # as the layer began, as it is now, what lies in the layer, what of that is the agent's, whether nobody can tell
    "taken up and edited": (_rows(), _rows(r5="mine\n"), _rows(r5="mine\n", r9="agent\n"), _rows(r9="agent\n"), False),
    "edited before the person wrote": (_rows(), _rows(r5="mine\n"), _rows(r9="agent\n"), _rows(r9="agent\n"), False),
    "taken up and not edited": (_rows(), _rows(r5="mine\n"), _rows(r5="mine\n"), _rows(), False),
    "their line edited": (_rows(), _rows(r5="mine\n"), _rows(r5="mine, says the agent\n"), _rows(), True),
    "their new file edited": (None, "mine\n", "mine\nagent\n", None, True),
    "their new file as it is": (None, "mine\n", "mine\n", None, False),
    "removed by the agent": (_rows(), _rows(r5="mine\n"), None, None, False),
    "removed by the person": (_rows(), None, _rows(r9="agent\n"), _rows(r9="agent\n"), False),
}  # fmt: skip


@pytest.mark.req("TREE-13")
@pytest.mark.parametrize("name", LIVE)
def test_a_result_is_freed_of_what_the_person_wrote_meanwhile(person: Person, trees: Trees, name: str) -> None:
    """What an agent's program took up from the live folder is no work of its; what cannot be told is not taken."""
    began, now, left, wanted, clash = LIVE[name]
    base, present, result = (tree(trees, {"f": text, "other": "o"}) for text in (began, now, left))
    freed, clashes = free(trees, base=base, now=present, shown=base, result=result)
    assert texts(trees, freed).get("f") == wanted and clashes == (("f",) if clash else ())
    assert freed != EMPTY and free(trees, base=base, now=base, shown=base, result=result) == (result, ())
