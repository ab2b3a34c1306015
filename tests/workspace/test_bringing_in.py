"""Work is brought into the tree whole or not at all, merged with what people did, and finished after a crash."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import PathRefused, WorkspaceFailed
from interlock.workspace import Entry, KeptWork, Snapshot, Workspace, bring_in, bringing_in, turns, work_patch
from interlock.workspace.objects import store_bytes
from interlock.workspace.three_ways import CONFLICT_BYTES

GitCall = Callable[..., str]
LINES = "".join(f"line {number}\n" for number in range(20))
FILE, LINK = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777


class Meeting:
    """A workspace at a snapshot, and a work that somebody makes from it."""

    def __init__(self, workspace: Workspace, base: Snapshot) -> None:
        self.workspace = workspace
        self.base = base
        self.root = workspace.root
        self.entries: list[Entry] = []

    def theirs(self, path: str, content: str | bytes | None, mode: int = FILE) -> None:
        if content is None:
            self.entries.append(Entry(path, 0, ""))
        else:
            data = content.encode() if isinstance(content, str) else content
            self.entries.append(Entry(path, mode, store_bytes(self.workspace.shadow, data)))

    @property
    def work(self) -> KeptWork:
        return KeptWork(self.base, tuple(self.entries))

    async def bring(self) -> bringing_in.BroughtIn:
        return await bring_in(self.workspace, self.work, label="implementer-T1")


def kept(root: Path) -> Path:
    """A copy of the tree, to go back to."""
    place = root.with_name("kept")
    shutil.copytree(root, place, symlinks=True, ignore=shutil.ignore_patterns(".git", ".interlock"))
    return place


def put_back(root: Path, copy: Path) -> None:
    for place in root.iterdir():
        if place.name not in (".git", ".interlock"):
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    shutil.copytree(copy, root, symlinks=True, dirs_exist_ok=True)


@pytest.fixture
async def meeting(repository: Path) -> Meeting:
    (repository / "text.txt").write_text(LINES)
    (repository / "bin").write_bytes(b"\x00\x01\x02")
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / "old/deep").mkdir(parents=True)
    (repository / "old/deep/x").write_text("x")
    (repository / os.fsdecode(b"n\xe9")).write_bytes(b"\xe9\n" * 9)
    workspace = Workspace(repository, repository / ".interlock")
    return Meeting(workspace, await workspace.snapshot())


@pytest.mark.req("LY-05", "LY-37")
async def test_changes_of_both_sides_meet(meeting: Meeting) -> None:
    """Different files, and different places of one file, are joined; added, deleted, modes and bytes too."""
    odd = os.fsdecode(b"n\xe9")
    root = meeting.root
    (root / "text.txt").write_text(LINES.replace("line 1\n", "ours\n"))
    (root / "ours.txt").write_text("ours")
    meeting.theirs("text.txt", LINES.replace("line 18\n", "theirs\n"))
    meeting.theirs("new/deep/x.bin", b"\x00\xff", stat.S_IFREG | 0o600)
    meeting.theirs("tool", "#!/bin/sh\n", stat.S_IFREG | 0o755)
    meeting.theirs("bin", None)
    meeting.theirs("old/deep/x", None)
    meeting.theirs("link", "text.txt", LINK)
    meeting.theirs(odd, b"\xe9\n" * 10)
    result = await meeting.bring()
    assert result.conflicts == {}
    assert result.paths == tuple(sorted(["bin", "link", "new/deep/x.bin", "old/deep/x", "text.txt", "tool", odd]))
    assert (root / "text.txt").read_text() == LINES.replace("line 1\n", "ours\n").replace("line 18", "theirs")
    assert (root / "ours.txt").read_text() == "ours"
    assert (root / "new/deep/x.bin").read_bytes() == b"\x00\xff"
    assert stat.S_IMODE((root / "new/deep/x.bin").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o755
    assert not (root / "bin").exists()
    assert not (root / "old").exists()
    assert (root / "link").readlink() == Path("text.txt")


@pytest.mark.req("LY-05")
async def test_a_conflict_writes_nothing_and_is_the_evidence(meeting: Meeting, git: GitCall) -> None:
    """The same lines changed twice: no file changes, the conflict shows both sides by name, both versions are kept."""
    (meeting.root / "text.txt").write_text(LINES.replace("line 5\n", "ours\n"))
    meeting.theirs("text.txt", LINES.replace("line 5\n", "theirs\n"))
    meeting.theirs("other.txt", "would be clean")
    before = await meeting.workspace.snapshot()
    result = await meeting.bring()
    assert result.paths == ()
    assert list(result.conflicts) == ["text.txt"]
    text = result.conflicts["text.txt"]
    assert "<<<<<<< the tree\nours\n=======\ntheirs\n>>>>>>> implementer-T1\n" in text
    assert await meeting.workspace.snapshot() == before
    shadow = meeting.root / ".interlock/snapshots.git"
    kept = [line.split(" object ")[1].split(" ")[0].split(": ")[-1] for line in text.splitlines() if "object" in line]
    contents = [git(meeting.root, f"--git-dir={shadow}", "cat-file", "blob", name) for name in kept]
    assert contents == [LINES.replace("line 5", "ours"), LINES.replace("line 5", "theirs")]


@pytest.mark.parametrize(
    "kind", ["binary", "deleted here", "deleted there", "added twice", "file and folder", "folder and file", "link"]
)
async def test_what_cannot_be_merged_is_a_conflict(meeting: Meeting, kind: str) -> None:
    """Binary, deleted and modified, added on both sides, and changes of type are conflicts that name the path."""
    root, path = meeting.root, "text.txt"
    match kind:
        case "binary":
            path = "bin"
            (root / path).write_bytes(b"\x00ours")
            meeting.theirs(path, b"\x00theirs")
        case "deleted here":
            (root / path).unlink()
            meeting.theirs(path, LINES + "more\n")
        case "deleted there":
            (root / path).write_text(LINES + "more\n")
            meeting.theirs(path, None)
        case "added twice":
            path = "added"
            (root / path).write_text("ours\n")
            meeting.theirs(path, "theirs\n")
        case "file and folder":
            path = "added/x"
            (root / "added").write_text("ours\n")
            meeting.theirs(path, "theirs\n")
        case "folder and file":
            path = "added"
            (root / "added").mkdir()
            (root / "added/mine").write_text("ours\n")
            meeting.theirs(path, "theirs\n")
        case "link":
            path = "added"
            (root / path).symlink_to("a")
            meeting.theirs(path, "b", LINK)
    before = await meeting.workspace.snapshot()
    result = await meeting.bring()
    assert list(result.conflicts) == [path]
    assert result.conflicts[path].startswith("CONFLICT (")
    assert await meeting.workspace.snapshot() == before


async def test_the_same_change_on_both_sides_is_no_conflict(meeting: Meeting) -> None:
    """What both did alike is done: content, deletion, addition."""
    (meeting.root / "text.txt").write_text(LINES + "same\n")
    (meeting.root / "bin").unlink()
    (meeting.root / "new").write_text("new")
    meeting.theirs("text.txt", LINES + "same\n")
    meeting.theirs("bin", None)
    meeting.theirs("new", "new")
    assert (await meeting.bring()).paths == ("bin", "new", "text.txt")


@pytest.mark.req("LY-05", "LY-37")
async def test_modes_are_merged_apart_from_content(meeting: Meeting) -> None:
    """A mode changed on one side and content on the other are both there afterwards; other bits are exact."""
    (meeting.root / "tool").chmod(0o755)
    (meeting.root / "text.txt").write_text(LINES + "ours\n")
    meeting.theirs("tool", "#!/bin/sh\nexit\n")
    meeting.theirs("text.txt", LINES, stat.S_IFREG | 0o700)
    assert (await meeting.bring()).conflicts == {}
    assert (meeting.root / "tool").read_text() == "#!/bin/sh\nexit\n"
    assert stat.S_IMODE((meeting.root / "tool").stat().st_mode) == 0o755
    assert (meeting.root / "text.txt").read_text() == LINES + "ours\n"
    assert stat.S_IMODE((meeting.root / "text.txt").stat().st_mode) == 0o700


async def test_files_and_folders_may_change_places(meeting: Meeting) -> None:
    """A folder becomes a file and a file a folder; ignored files that were left in the folder are in the attic."""
    (meeting.root / "old/deep/x.log").write_text("ignored")
    meeting.theirs("old", "a file now")
    meeting.theirs("old/deep/x", None)
    meeting.theirs("tool", None)
    meeting.theirs("tool/inner/y", "y")
    assert (await meeting.bring()).conflicts == {}
    assert (meeting.root / "old").read_text() == "a file now"
    assert (meeting.root / "tool/inner/y").read_text() == "y"
    kept = [file.read_text() for file in (meeting.root / ".interlock/attic").rglob("x.log")]
    assert kept == ["ignored"]


@pytest.mark.req("LY-03")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", ".git/hooks/pre-commit", "sub/.git/x", ".interlock/runs/x", "a//.GIT"]
)
async def test_paths_that_are_never_written_are_refused(meeting: Meeting, path: str) -> None:
    """Outside of the workspace, in git's folder or the engine's: refused before anything is written."""
    meeting.theirs("text.txt", "changed")
    meeting.theirs(path, "x")
    with pytest.raises(PathRefused):
        await meeting.bring()
    assert (meeting.root / "text.txt").read_text() == LINES


@pytest.mark.req("LY-03")
@pytest.mark.parametrize("mode", [stat.S_IFREG | 0o4755, stat.S_IFREG | 0o2755, stat.S_IFIFO | 0o644, stat.S_IFCHR])
async def test_odd_modes_are_refused(meeting: Meeting, mode: int) -> None:
    """Set-uid, set-gid, pipes and devices never come in."""
    meeting.theirs("x", "x", mode)
    with pytest.raises(PathRefused):
        await meeting.bring()


@pytest.mark.req("LY-03")
async def test_no_link_is_followed(meeting: Meeting, tmp_path: Path) -> None:
    """A folder that became a link is a conflict; what it leads to is not touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (meeting.root / "old/deep/x").unlink()
    (meeting.root / "old/deep").rmdir()
    (meeting.root / "old/deep").symlink_to(outside)
    (outside / "x").write_text("outside")
    meeting.theirs("old/deep/x", None)
    assert (await meeting.bring()).conflicts == {}
    assert (outside / "x").read_text() == "outside"
    meeting.entries = []
    meeting.theirs("old/deep/new", "new")
    assert "is no folder" in (await meeting.bring()).conflicts["old/deep/new"]
    assert [file.name for file in outside.iterdir()] == ["x"]


async def test_the_text_of_a_conflict_is_bounded(meeting: Meeting) -> None:
    """A conflict in a huge file keeps its beginning and says how long it was; control characters are no label."""
    (meeting.root / "huge").write_text("ours\n" * 20_000)
    meeting.theirs("huge", "theirs\n" * 20_000)
    result = await bring_in(meeting.workspace, meeting.work, label="a\x1b[31m\nb")
    assert len(result.conflicts["huge"]) < CONFLICT_BYTES + 500
    assert "[cut:" in result.conflicts["huge"]
    assert "\x1b" not in result.conflicts["huge"]


class Cut(BaseException):
    """The process is gone."""


@pytest.mark.req("LY-03")
async def test_a_crash_after_any_file_is_finished(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut after each write, another process brings in the rest: result and tree are those of an uncut import."""
    (meeting.root / "text.txt").write_text(LINES.replace("line 1\n", "ours\n"))
    meeting.theirs("text.txt", LINES.replace("line 18\n", "theirs\n"))
    meeting.theirs("bin", None)
    meeting.theirs("old/deep/x", None)
    meeting.theirs("a/b/c", "new")
    meeting.theirs("tool", "#!/bin/sh\nexit\n", stat.S_IFREG | 0o755)
    before = await meeting.workspace.snapshot()
    first = kept(meeting.root)
    whole = await meeting.bring()
    after = await meeting.workspace.snapshot()
    originals = {name: getattr(bringing_in, name) for name in ("place_file", "remove_file")}
    for cut in range(6):
        put_back(meeting.root, first)
        assert await meeting.workspace.snapshot() == before
        left = cut

        def counted(name: str) -> Callable[..., None]:
            def write(*words: object) -> None:
                nonlocal left
                if not left:
                    raise Cut
                left -= 1
                originals[name](*words)

            return write

        for name in originals:
            monkeypatch.setattr(bringing_in, name, counted(name))
        if cut < 5:
            with pytest.raises(Cut):
                await meeting.bring()
        for name, original in originals.items():
            monkeypatch.setattr(bringing_in, name, original)
        again = Workspace(meeting.root, meeting.root / ".interlock")
        assert await bring_in(again, meeting.work, label="implementer-T1") == whole
        assert await meeting.workspace.snapshot() == after
        assert await bring_in(again, meeting.work, label="implementer-T1") == whole
    tmp = meeting.root / ".interlock/snapshots.git/tmp"
    assert not list(tmp.glob("*.note"))


@pytest.mark.req("LY-05")
async def test_an_edit_between_decision_and_writing_is_merged_too(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who saves a file at the worst moment loses nothing; a conflict then takes back what was written."""
    write = bringing_in._write
    edits = iter([LINES.replace("line 1\n", "person\n")])

    def late(*words: object) -> None:
        for edit in edits:
            (meeting.root / "text.txt").write_text(edit)
        write(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(bringing_in, "_write", late)
    meeting.theirs("a-first", "first")
    meeting.theirs("text.txt", LINES.replace("line 18\n", "theirs\n"))
    first = kept(meeting.root)
    assert (await meeting.bring()).conflicts == {}
    assert (meeting.root / "text.txt").read_text() == LINES.replace("line 1\n", "person\n").replace("line 18", "theirs")
    put_back(meeting.root, first)
    edits = iter([LINES.replace("line 18\n", "person\n")])
    assert list((await meeting.bring()).conflicts) == ["text.txt"]
    assert not (meeting.root / "a-first").exists()
    assert (meeting.root / "text.txt").read_text() == LINES.replace("line 18", "person")


async def test_a_file_that_never_rests_is_said(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that writes all the time ends the import with a sentence, not a loop."""
    write = bringing_in._write
    number = 0

    def late(*words: object) -> None:
        nonlocal number
        number += 1
        (meeting.root / "text.txt").write_text(LINES.replace("line 1\n", f"again {number}\n"))
        write(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(bringing_in, "_write", late)
    meeting.theirs("text.txt", LINES.replace("line 18\n", "theirs\n"))
    with pytest.raises(WorkspaceFailed, match="again and again"):
        await meeting.bring()


@pytest.mark.req("LY-06", "LY-30")
async def test_results_come_in_one_after_the_other(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports asked for at once each see what the one before wrote; who waits for another process says for which."""
    works = []
    for number in range(4):
        meeting.entries = []
        meeting.theirs("text.txt", LINES.replace(f"line {number * 5}\n", f"changed {number}\n"))
        works.append(meeting.work)
    others = [Workspace(meeting.root, meeting.root / ".interlock") for _ in works]
    results = await asyncio.gather(*(bring_in(one, work, label="w") for one, work in zip(others, works, strict=True)))
    assert all(result.paths == ("text.txt",) for result in results)
    assert (meeting.root / "text.txt").read_text().count("changed") == 4
    code = (
        "import fcntl, os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    lock = meeting.root / ".interlock/snapshots.git/import.lock"
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(lock), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None and other.stdin is not None
    await other.stdout.readline()
    meeting.entries = []
    meeting.theirs("late", "late")
    monkeypatch.setattr(turns, "PATIENCE_S", 0.0)
    told: asyncio.Queue[str] = asyncio.Queue()
    meeting.workspace.tell = told.put_nowait
    waiting = asyncio.ensure_future(meeting.bring())
    assert f"Waiting for the import: process {other.pid} (" in await told.get()
    assert not waiting.done()
    other.stdin.close()
    assert (await waiting).paths == ("late",)
    assert told.empty(), "said once"
    await other.wait()


@pytest.mark.req("LY-35")
async def test_an_object_that_is_not_what_its_name_says_is_not_used(meeting: Meeting) -> None:
    """A planted or missing object of the work is an error, and nothing is written."""
    meeting.theirs("text.txt", LINES + "theirs\n")
    meeting.theirs("other", "other content")
    objects = meeting.root / ".interlock/snapshots.git/objects"
    planted = store_bytes(meeting.workspace.shadow, b"planted")
    victim = meeting.entries[1].blob
    place = objects / victim[:2] / victim[2:]
    place.unlink()
    place.write_bytes((objects / planted[:2] / planted[2:]).read_bytes())
    with pytest.raises(WorkspaceFailed, match="cannot be used"):
        await meeting.bring()
    place.unlink()
    with pytest.raises(WorkspaceFailed, match="cannot be used"):
        await meeting.bring()
    assert (meeting.root / "text.txt").read_text() == LINES


async def test_a_patch_holds_the_work_and_nothing_else(meeting: Meeting, git: GitCall) -> None:
    """Applied to the base it gives the same tree, for odd names, binary content, links and modes."""
    odd = os.fsdecode(b"n\xe9")
    meeting.theirs("bin", b"\x00\x02\xff")
    meeting.theirs("tool", "#!/bin/sh\n", stat.S_IFREG | 0o755)
    meeting.theirs(odd, None)
    meeting.theirs("a [x]\nb", "new")
    meeting.theirs("link", "text.txt", LINK)
    patch = await work_patch(meeting.workspace, meeting.work)
    assert b"README" not in patch
    first = kept(meeting.root)
    git(meeting.root, "apply", "-", stdin=patch)
    applied = await meeting.workspace.snapshot()
    put_back(meeting.root, first)
    await meeting.bring()
    assert await meeting.workspace.snapshot() == applied
    assert await work_patch(meeting.workspace, KeptWork(meeting.base, ())) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.req("LY-14")
async def test_files_of_others_stay_theirs(meeting: Meeting) -> None:
    """As root, a replaced file keeps its owner."""
    os.chown(meeting.root / "text.txt", 12345, 23456)
    meeting.theirs("text.txt", "changed")
    await meeting.bring()
    status = (meeting.root / "text.txt").stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
