"""Undo: files get back what they were, and nothing anybody wrote is lost on the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.errors import PathRefused
from interlock.workspace import ChangeKind, Workspace


def workspace_at(root: Path) -> Workspace:
    return Workspace(root, root / ".interlock")


@pytest.mark.req("CM-14")
async def test_restoring_gives_back_content_mode_and_links(repository: Path) -> None:
    """Named files are exactly as they were; files that are not named keep their changes."""
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / "tool").chmod(0o755)
    (repository / "link").symlink_to("nowhere")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "tool").write_text("changed")
    (repository / "tool").chmod(0o644)
    (repository / "link").unlink()
    (repository / "link").symlink_to("elsewhere")
    (repository / "README.md").write_text("kept")
    (repository / "extra").write_text("x")
    await workspace.restore(before, ["tool", "link", "extra", "never/was"])
    assert (repository / "tool").read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE((repository / "tool").stat().st_mode) & 0o111
    assert (repository / "link").readlink() == Path("nowhere")
    assert (repository / "README.md").read_text() == "kept"
    assert not (repository / "extra").exists()


async def test_folders_that_a_restore_empties_go_only_if_they_are_new(repository: Path) -> None:
    """An emptied folder is removed unless the snapshot had it."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "new/deep").mkdir(parents=True)
    (repository / "new/deep/a").write_text("x")
    (repository / "new/b").write_text("x")
    (repository / "src/extra").write_text("x")
    (repository / "src/app.py").unlink()
    await workspace.restore(before, ["new/deep/a", "src/extra"])
    assert (repository / "new/b").exists()
    assert not (repository / "new/deep").exists()
    assert (repository / "src").is_dir()
    await workspace.restore(before, ["new/b"])
    assert not (repository / "new").exists()


@pytest.mark.req("CM-34")
async def test_what_stands_in_the_way_is_moved_to_the_attic(repository: Path) -> None:
    """A folder where a file was, or a file where a folder was, is set aside whole."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "README.md").unlink()
    (repository / "README.md").mkdir()
    (repository / "README.md/precious.log").write_text("ignored, so in no snapshot")
    (repository / "src/app.py").unlink()
    (repository / "src").rmdir()
    (repository / "src").write_text("a file")
    await workspace.restore(before, ["README.md", "src/app.py"])
    assert (repository / "README.md").read_text() == "hello\n"
    assert (repository / "src/app.py").is_file()
    kept = {file.name: file.read_text() for file in (repository / ".interlock/attic").rglob("*") if file.is_file()}
    assert kept == {"precious.log": "ignored, so in no snapshot", "src": "a file"}


@pytest.mark.req("CM-26")
async def test_no_link_is_followed_out_of_the_tree(repository: Path, tmp_path: Path) -> None:
    """A folder that became a link to elsewhere is replaced; what it pointed at is not touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("outside")
    (outside / "extra").write_text("outside")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "src/app.py").unlink()
    (repository / "src").rmdir()
    (repository / "src").symlink_to(outside)
    await workspace.restore(before, ["src/extra"])
    assert (outside / "extra").read_text() == "outside"
    await workspace.restore(before, ["src/app.py"])
    assert not (repository / "src").is_symlink()
    assert (repository / "src/app.py").read_text().startswith("print")
    assert (outside / "app.py").read_text() == "outside"


@pytest.mark.req("CM-26")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", ".git/hooks/pre-commit", "sub/.git", "a/../../b", ".GIT/config"]
)
async def test_paths_out_of_the_workspace_are_refused(repository: Path, path: str) -> None:
    """Restoring or setting aside a path outside, or inside git's folder, is refused and nothing is done."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "README.md").write_text("kept")
    with pytest.raises(PathRefused):
        await workspace.restore(before, ["README.md", path])
    with pytest.raises(PathRefused):
        await workspace.move_to_attic([path], "run")
    with pytest.raises(PathRefused):
        await workspace.move_to_attic(["README.md"], "../outside")
    assert (repository / "README.md").read_text() == "kept"


@pytest.mark.req("CM-34")
async def test_by_products_are_moved_to_the_attic_never_over_each_other(repository: Path) -> None:
    """Files, links and folders are moved with their paths; a second visit takes another place."""
    workspace = workspace_at(repository)
    for content in ("one", "two"):
        (repository / "out/deep").mkdir(parents=True, exist_ok=True)
        (repository / "out/deep/a.txt").write_text(content)
        (repository / "dangling").symlink_to("nowhere")
        places = await workspace.move_to_attic(["out/deep/a.txt", "dangling", "not/there"], "run/step 1")
        assert len(places) == 2
        assert (repository / places[0]).read_text() == content
        assert (repository / places[1]).is_symlink()
        assert not (repository / "out/deep/a.txt").exists()
    (repository / "out/deep/b").mkdir()
    (repository / "out/deep/b/c").write_text("c")
    (place,) = await workspace.move_to_attic(["out/deep/b"], "run/step 1")
    assert (repository / place / "c").read_text() == "c"


_NAMES = st.sampled_from([b"a", b"b", b"c.txt", b"d\xff", b"e f"])
_PATH = st.lists(_NAMES, min_size=1, max_size=3).map(b"/".join)
_FILE = st.tuples(st.binary(max_size=6), st.sampled_from([0o644, 0o755, 0o120000]))
_STATE = st.dictionaries(_PATH, _FILE, max_size=6)


def _write(root: Path, state: dict[bytes, tuple[bytes, int]]) -> None:
    """Make the tree hold `state`; a name that is both a file and a folder's stays what came first."""
    for file in sorted(root.rglob("*"), reverse=True):
        if ".interlock" not in file.parts:
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
    for name, (content, mode) in state.items():
        file = root / os.fsdecode(name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if mode == 0o120000:
                file.symlink_to(os.fsdecode(b"to-" + content.replace(b"\0", b"")))
            else:
                file.write_bytes(content)
                file.chmod(mode)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue


def _held(root: Path) -> dict[str, tuple[int, bytes]]:
    """What the tree holds, by looking at every file."""
    held: dict[str, tuple[int, bytes]] = {}
    for file in root.rglob("*"):
        if file.relative_to(root).parts[0] == ".interlock" or (file.is_dir() and not file.is_symlink()):
            continue
        is_link = file.is_symlink()
        content = os.fsencode(file.readlink()) if is_link else file.read_bytes()
        held[str(file.relative_to(root))] = (0 if is_link else file.stat().st_mode & 0o777, content)
    return held


@pytest.mark.req("CM-14")
@given(_STATE, _STATE)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_edits_are_told_exactly_and_undone_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[bytes, tuple[bytes, int]],
    second: dict[bytes, tuple[bytes, int]],
) -> None:
    """Changes equal a slow comparison of every file, and restoring them gives back the identical tree."""
    import asyncio

    root = tmp_path_factory.mktemp("tree")

    async def check() -> None:
        workspace = workspace_at(root)
        _write(root, first)
        old = _held(root)
        before = await workspace.snapshot()
        _write(root, second)
        new = _held(root)
        after = await workspace.snapshot()
        changes = await workspace.changes(before, after)
        assert {c.path: c.kind for c in changes} == {
            name: ChangeKind.ADDED
            if name not in old
            else ChangeKind.DELETED
            if name not in new
            else ChangeKind.MODIFIED
            for name in old.keys() | new.keys()
            if old.get(name) != new.get(name)
        }
        assert [c.path for c in changes] == sorted(c.path for c in changes)
        await workspace.restore(before, [c.path for c in changes])
        assert _held(root) == old
        folders = {str(f.relative_to(root)) for f in root.rglob("*") if f.is_dir() and not f.is_symlink()}
        expected = {str(parent) for name in old for parent in Path(name).parents if str(parent) != "."}
        assert {f for f in folders if not f.startswith(".interlock")} == expected
        assert await workspace.snapshot() == before

    asyncio.run(check())
