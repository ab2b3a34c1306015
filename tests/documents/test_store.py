"""The store reads with care, writes whole or not at all, and deletes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.documents import LIMIT, Document, DocumentState, EditedMeanwhile, FileFacts, Store
from interlock.documents.files import remove_leftovers
from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed
from tests.ordinary_user import ordinary_user


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "workspace"
    root.mkdir()
    return Store(root, root / ".interlock/attic")


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A workspace of an ordinary user: permissions mean nothing to root."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        yield place


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


@pytest.mark.req("CM-27")
def test_a_bom_and_crlf_are_accepted_and_can_be_given_back(store: Store) -> None:
    """The text has neither; `encode` restores both, so that a person's file keeps its form."""
    content = b"\xef\xbb\xbfone\r\ntwo\r\n"
    (store.root / "a.md").write_bytes(content)
    found = store.read("a.md")
    assert (found.state, found.text, found.bom, found.crlf) == (DocumentState.OK, "one\ntwo\n", True, True)
    assert found.digest == digest(content)
    assert found.encode(found.text) == content
    (store.root / "mixed.md").write_bytes(b"one\r\ntwo\n")
    assert not store.read("mixed.md").crlf


@pytest.mark.req("CM-27")
def test_another_encoding_is_reported_with_the_byte(store: Store) -> None:
    """`<path> is not valid UTF-8 (byte n)`, n being the offset of the first bad byte."""
    (store.root / "latin.md").write_bytes(b"x" * 1203 + b"\xe9t\xe9")
    found = store.read("latin.md")
    assert (found.state, found.position) == (DocumentState.UNREADABLE, 1203)
    with pytest.raises(DocumentInvalid, match=r"^latin\.md is not valid UTF-8 \(byte 1203\)$"):
        found.require("Task list")


@pytest.mark.req("CM-28")
def test_a_document_over_10_mb_is_refused_in_both_directions(store: Store) -> None:
    """The message has the size; exactly the limit is still read."""
    (store.root / "big.md").write_bytes(b"x" * (LIMIT + 1))
    (store.root / "full.md").write_bytes(b"x" * LIMIT)
    with pytest.raises(DocumentInvalid, match=rf"big\.md: {LIMIT + 1} bytes; documents over 10 MB"):
        store.read("big.md").require()
    assert store.facts("big.md").content is None
    assert store.read("full.md").state is DocumentState.OK
    with pytest.raises(DocumentInvalid, match="10 MB"):
        store.write("new.md", b"x" * (LIMIT + 1))
    assert not (store.root / "new.md").exists()


def test_a_missing_document_says_so_in_the_callers_words(store: Store) -> None:
    """`not found`, with the path, and with what the caller calls it."""
    found = store.read("command/plan.md")
    assert (found.state, found.digest) == (DocumentState.MISSING, "")
    with pytest.raises(DocumentInvalid, match=r"^command/plan\.md not found$"):
        found.require()
    with pytest.raises(DocumentInvalid, match=r"^Command file command/plan\.md not found$"):
        found.require("Command file")


def test_what_is_not_a_plain_file_is_unreadable(store: Store, tmp_path: Path) -> None:
    """Folders, pipes, loops and links out of the workspace are values with a reason; a pipe does not block."""
    (tmp_path / "secret").write_text("secret")
    (store.root / "folder").mkdir()
    os.mkfifo(store.root / "pipe")
    (store.root / "loop").symlink_to("loop")
    (store.root / "out").symlink_to(tmp_path / "secret")
    for path, reason in [("folder", "directory"), ("pipe", "not a plain"), ("loop", "levels"), ("out", "leaves")]:
        facts, found = store.facts(path), store.read(path)
        assert (facts.exists, facts.plain, facts.readable, facts.content) == (True, False, False, None)
        assert found.state is DocumentState.UNREADABLE
        assert found.text == ""
        assert found.problem is not None and reason in found.problem


@pytest.mark.req("CM-26")
def test_a_path_with_dots_is_refused_by_every_verb(store: Store) -> None:
    """The store has no way out of its root."""
    for act in (
        lambda: store.read("../x"),
        lambda: store.facts("/etc/passwd"),
        lambda: store.write("../x", "x"),
        lambda: store.list(".."),
        lambda: store.list(".", "../*"),
        lambda: store.set_aside("../x", "run"),
        lambda: store.set_aside("x", "../run"),
    ):
        with pytest.raises(PathRefused):
            act()


def test_documents_and_facts_survive_json(store: Store) -> None:
    """What the journal keeps comes back equal; facts leave their content behind."""
    store.write("a.md", "text")
    for path in ("a.md", "none.md"):
        found = store.read(path)
        assert Document.from_json(json.loads(json.dumps(found.to_json()))) == found
        facts = store.facts(path)
        again = FileFacts.from_json(json.loads(json.dumps(facts.to_json())))
        assert again.same_as(facts)
        assert again.content is None


@pytest.mark.req("CM-02")
def test_a_write_is_whole_verified_and_keeps_the_mode(store: Store) -> None:
    """Folders are made, the mode of the old file stays, no temporary file is left."""
    first = store.write("a/b/c.md", "one\n")
    assert (first.before, first.digest) == ("", digest(b"one\n"))
    place = store.root / "a/b/c.md"
    place.chmod(0o640)
    second = store.write("a/b/c.md", b"two\n")
    assert (second.before, second.digest) == (first.digest, digest(b"two\n"))
    assert place.read_bytes() == b"two\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert names(place.parent) == ["c.md"]


@pytest.mark.req("EN-23")
def test_a_write_on_a_condition_leaves_an_edited_file_alone(store: Store) -> None:
    """A file that is not what it was expected to be is not touched; both digests are told."""
    seen = store.write("state.md", "mine")
    (store.root / "state.md").write_text("a person's")
    with pytest.raises(EditedMeanwhile) as caught:
        store.write("state.md", "mine again", expect=seen.digest)
    assert (caught.value.expected_digest, caught.value.found_digest) == (seen.digest, digest(b"a person's"))
    assert (store.root / "state.md").read_text() == "a person's"
    with pytest.raises(EditedMeanwhile):
        store.write("state.md", "x", expect="")
    with pytest.raises(EditedMeanwhile):
        store.write("new/none.md", "x", expect=seen.digest)
    assert not (store.root / "new").exists()
    store.write("state.md", "mine", expect=digest(b"a person's"))
    store.write("fresh.md", "mine", expect="")
    assert names(store.root) == ["fresh.md", "state.md"]


@pytest.mark.req("EN-23")
def test_an_edit_in_the_last_moment_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what changes between the comparison and the rename is not overwritten."""
    seen = store.write("state.md", "mine")
    sync = os.fsync

    def edit_then_sync(descriptor: int) -> None:
        (store.root / "state.md").write_text("a person's")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", edit_then_sync)
    with pytest.raises(EditedMeanwhile):
        store.write("state.md", "mine again", expect=seen.digest)
    assert (store.root / "state.md").read_text() == "a person's"
    assert names(store.root) == ["state.md"]


@pytest.mark.req("CM-02")
def test_a_failed_write_changes_nothing_and_says_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the file system on the way leaves the old file and no temporary one."""
    store.write("a.md", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceFailed, match=r"^cannot write a\.md: no space left on device$"):
        store.write("a.md", "new")
    assert (store.root / "a.md").read_text() == "old"
    assert names(store.root) == ["a.md"]


def test_a_write_without_permission_says_so(unprivileged: Path) -> None:
    """`cannot write <path>: permission denied`; reading without permission is unreadable."""
    (unprivileged / "docs").mkdir()
    (unprivileged / "docs/a.md").write_text("x")
    (unprivileged / "docs/a.md").chmod(0o000)
    (unprivileged / "docs").chmod(0o555)
    store = Store(unprivileged, unprivileged / "attic")
    with ordinary_user():
        with pytest.raises(WorkspaceFailed, match=r"^cannot write docs/b\.md: permission denied$"):
            store.write("docs/b.md", "x")
        facts, found = store.facts("docs/a.md"), store.read("docs/a.md")
    assert (facts.exists, facts.plain, facts.readable) == (True, True, False)
    assert found.problem == "cannot read docs/a.md: permission denied"
    (unprivileged / "docs").chmod(0o755)


def test_a_symlink_is_not_written_through(store: Store) -> None:
    """Not even to a place inside the workspace."""
    store.write("real.md", "real")
    (store.root / "state.md").symlink_to("real.md")
    with pytest.raises(DocumentInvalid, match=r"^state\.md is a symlink; refusing to write$"):
        store.write("state.md", "x")
    assert (store.root / "real.md").read_text() == "real"
    assert store.read("state.md").text == "real"


def test_places_that_cannot_hold_a_file_are_clean_errors(store: Store) -> None:
    """A folder in the way, a file as a folder, a name too long, a text that is none."""
    store.write("file", "x")
    (store.root / "folder").mkdir()
    for path in ("folder", "file/below.md", "n" * 300):
        with pytest.raises(WorkspaceFailed, match="cannot write"):
            store.write(path, "x")
    with pytest.raises(DocumentInvalid, match="not valid Unicode"):
        store.write("a.md", "\ud800")
    assert store.write("n" * 255, "x").before == ""
    assert store.read("n" * 300).state is DocumentState.UNREADABLE
    assert store.read("file/below.md").state is DocumentState.MISSING


WRITER = """
import sys
from pathlib import Path
from interlock.documents import Store
from tests.ordinary_user import ordinary_user
store = Store(Path(sys.argv[1]), Path(sys.argv[1], "attic"))
print("ready", flush=True)
n = 0
while True:
    n += 1
    store.write("state.json", f"{n % 10}" * 300_000)
"""


@pytest.mark.req("CM-02")
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(store: Store) -> None:
    """Twenty kills at odd moments: always one whole content; leftovers are known and cleaned."""
    store.write("state.json", "0" * 300_000)
    store.write(".mine.tmp", "a person's")
    for turn in range(20):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(store.root)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(timeout=0.003 + turn * 0.0017)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        text = store.read("state.json").require().text
        assert len(text) == 300_000
        assert len(set(text)) == 1
        remove_leftovers(store.root)
        assert names(store.root) == [".mine.tmp", "state.json"]


def test_only_leftovers_are_cleaned(store: Store) -> None:
    """A file that merely looks similar stays."""
    ours = ".state.json.interlock-0123456789abcdef.tmp"
    keep = [".x.tmp", ".x.interlock-xyz.tmp", "x.interlock-0123456789abcdef.tmp", "a.md"]
    for name in (ours, *keep):
        (store.root / name).write_text("x")
    assert store.list(".") == sorted(keep)
    assert list(remove_leftovers(store.root)) == [store.root / ours]
    assert names(store.root) == sorted(keep)


def test_a_listing_is_sorted_and_stays_inside(store: Store, tmp_path: Path) -> None:
    """Plain files only, deep with `**`, links out left out, a missing folder empty."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("x")
    for path in ("t/b.md", "t/a.md", "t/deep/c.md", "t/n.txt"):
        store.write(path, "x")
    (store.root / "t/out").symlink_to(tmp_path / "outside")
    (store.root / "t/out.md").symlink_to(tmp_path / "outside/x.md")
    (store.root / "t/in.md").symlink_to("a.md")
    assert store.list("t", "*.md") == ["t/a.md", "t/b.md", "t/in.md"]
    assert store.list("t", "**/*.md") == ["t/a.md", "t/b.md", "t/deep/c.md", "t/in.md"]
    assert store.list("t", "out/*.md") == []
    assert store.list("none") == []
    assert store.list("t/a.md") == []


@pytest.mark.req("CM-34")
def test_what_is_set_aside_is_kept_and_never_overwritten(store: Store) -> None:
    """Each time a place of its own; folders go with all they hold; a link goes as a link."""
    places = []
    for text in ("one", "two", "three"):
        store.write("docs/a.md", text)
        places.append(store.set_aside("docs/a.md", "run-1"))
        assert not (store.root / "docs/a.md").exists()
    attic = ".interlock/attic/run-1/docs"
    assert places == [f"{attic}/a.md", f"{attic}/a-2.md", f"{attic}/a-3.md"]
    assert [store.read(place).text for place in places] == ["one", "two", "three"]

    store.write("tree/x/y.md", "y")
    (store.root / "tree/out").symlink_to("/etc")
    moved = store.set_aside("tree", "run-2")
    assert store.read(f"{moved}/x/y.md").text == "y"
    (store.root / "planted").symlink_to("/etc/passwd")
    assert (store.root / store.set_aside("planted", "run-2")).is_symlink()


@pytest.mark.req("CM-34")
def test_setting_aside_again_after_a_crash_does_nothing_more(store: Store) -> None:
    """With the place chosen before, the second call finds it done, even if the file was written anew."""
    store.write("a.md", "old")
    place = store.place_aside("a.md", "run")
    assert store.set_aside_to("a.md", place) == place
    assert store.set_aside_to("a.md", place) == place
    store.write("a.md", "new")
    assert store.set_aside_to("a.md", place) == place
    assert (store.read("a.md").text, store.read(place).text) == ("new", "old")


def test_setting_aside_has_limits(store: Store) -> None:
    """Not the attic itself, not to another place, not what is not there."""
    store.write("a.md", "x")
    with pytest.raises(PathRefused, match="not in"):
        store.set_aside_to("a.md", "elsewhere/a.md")
    for path in (".interlock", "."):
        with pytest.raises(PathRefused):
            store.set_aside(path, "run")
    with pytest.raises(DocumentInvalid, match=r"none\.md not found"):
        store.set_aside("none.md", "run")
