"""Programs that an agent plants where git would run them are not run by the engine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import WorkspaceFailed
from interlock.workspace import Confinement, Mode, Workspace, bring_in, open_layers, work_patch
from interlock.workspace.git import Git

GitCall = Callable[..., str]

pytestmark = pytest.mark.req("EN-46")


class Trap:
    """A program that leaves a mark when it is run."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "mark"
        self.program = folder / "trap"
        self.program.write_text(f'#!/bin/sh\necho "$0 $@" >> {self.mark}\ncat\n')
        self.program.chmod(0o755)

    @property
    def sprung(self) -> str:
        return self.mark.read_text() if self.mark.exists() else ""

    def config(self) -> str:
        run = self.program
        return (
            f"[core]\n\tfsmonitor = {run}\n\thooksPath = {run.parent}/hooks\n\tsshCommand = {run}\n\tpager = {run}\n"
            f"\tattributesFile = {run.parent}/attributes\n\teditor = {run}\n\taskPass = {run}\n"
            f'[diff]\n\texternal = {run}\n[diff "x"]\n\tcommand = {run}\n\ttextconv = {run}\n'
            f'[filter "x"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true\n'
            f'[merge "x"]\n\tdriver = {run} %A\n[alias]\n\tls-files = !{run}\n'
            f"[credential]\n\thelper = !{run}\n[gpg]\n\tprogram = {run}\n[commit]\n\tgpgSign = true\n"
            f'[remote "origin"]\n\turl = ext::{run}\n\tpromisor = true\n\tpartialclonefilter = blob:none\n'
        )

    def plant_hooks(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(self.program)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    folder = tmp_path / "trap"
    folder.mkdir()
    trap = Trap(folder)
    trap.plant_hooks(folder / "hooks")
    (folder / "attributes").write_text("* filter=x diff=x merge=x\n")
    return trap


def _plant(trap: Trap, git_dir: Path) -> None:
    with (git_dir / "config").open("a") as config:
        config.write(trap.config())
    trap.plant_hooks(git_dir / "hooks")
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text("* filter=x diff=x merge=x\n")


async def _everything(workspace: Workspace) -> None:
    """Each thing the engine does with git, once."""
    root = workspace.root
    before = await workspace.snapshot()
    (root / "README.md").write_text("changed by the agent\n")
    (root / "fresh.txt").write_text(f"{time.monotonic_ns()}\n")
    after = await workspace.snapshot()
    assert {c.path for c in await workspace.changes(before, after)} >= {"README.md", "fresh.txt"}
    assert b"changed by the agent" in await workspace.patch(before, after, ["README.md"])
    (root / "README.md").write_text("hello\n")
    base = await workspace.snapshot()
    layers = open_layers(workspace, environ=os.environ)
    layer = await layers.make("run-1", Confinement(mode=Mode.OFF))
    (layer.root / "src/app.py").write_text("print('one')\nprint('two')\nprint('last')\n")
    (layer.root / "new.py").write_text(f"{time.monotonic_ns()}\n")
    (layer.root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    found = await layer.found(base)
    assert {change.path for change in found.changes} >= {"new.py"}
    work = await layer.work(base, [change.path for change in found.changes])
    assert b"new.py" in await work_patch(workspace, work)
    (root / "src/app.py").write_text("print('first')\nprint('two')\nprint('three')\n")
    result = await bring_in(workspace, work, label="w")
    assert result.conflicts or "new.py" in result.paths
    await layer.drop()
    await layers.sweep("run")


async def test_what_is_planted_in_the_users_repository_is_not_run(repository: Path, trap: Trap) -> None:
    """fsmonitor, hooks, filters, drivers, helpers and aliases of the user's .git do nothing."""
    _plant(trap, repository / ".git")
    (repository / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    await _everything(Workspace(repository, repository / ".interlock"))
    assert trap.sprung == ""


@pytest.mark.parametrize("with_repository", [True, False])
async def test_what_is_planted_in_the_shadow_repository_is_not_run(
    repository: Path, trap: Trap, with_repository: bool
) -> None:
    """Its control files are put back before each use; a commondir file leads nowhere."""
    if not with_repository:
        (repository / ".git").rename(repository.with_name("gone"))
    workspace = Workspace(repository, repository / ".interlock")
    await workspace.snapshot()
    shadow = repository / ".interlock/snapshots.git"
    _plant(trap, shadow)
    evil = trap.program.parent / "evil.git"
    (evil / "info").mkdir(parents=True)
    (evil / "HEAD").write_text("ref: refs/heads/x\n")
    (evil / "config").write_text("[core]\n\tbare = false\n" + trap.config())
    (evil / "info/attributes").write_text("* filter=x diff=x merge=x\n")
    (evil / "objects").symlink_to(shadow / "objects")
    (evil / "refs").mkdir()
    (shadow / "commondir").write_text(str(evil))
    (shadow / "config.worktree").write_text(trap.config())
    await _everything(workspace)
    assert trap.sprung == ""
    assert not (shadow / "commondir").exists()
    (shadow / "config").unlink()
    (shadow / "config").symlink_to(evil / "config")
    await _everything(workspace)
    assert trap.sprung == ""


async def test_what_is_planted_in_a_nested_repository_is_not_run(repository: Path, trap: Trap, git: GitCall) -> None:
    """A nested repository's settings and hooks do nothing, and neither do those of one that was a submodule."""
    for name in ("nested", "born"):
        nested = repository / name
        nested.mkdir()
        git(nested, "init", "-q")
        (nested / "n.txt").write_text("n\n")
        if name == "born":
            git(nested, "add", ".")
            git(nested, "commit", "-qm", "n")
            git(repository, "add", name)
            git(repository, "commit", "-qm", "a gitlink")
        _plant(trap, nested / ".git")
        (nested / ".gitattributes").write_text("* filter=x diff=x\n")
    workspace = Workspace(repository, repository / ".interlock")
    await workspace.snapshot()
    (repository / "born/n.txt").write_text("edited\n")
    await _everything(workspace)
    assert trap.sprung == ""


@pytest.mark.parametrize("maker", ["namespaces", "copy"])
async def test_what_is_planted_in_a_layer_is_not_run(repository: Path, trap: Trap, maker: str) -> None:
    """Hooks, filters and settings of the git in a layer do nothing when the engine looks at it, or brings it in."""
    workspace = Workspace(repository, repository / ".interlock")
    base = await workspace.snapshot()
    layers = open_layers(workspace, environ=os.environ, maker=maker)
    if layers.probe().maker != maker:
        pytest.skip(layers.probe().why)
    layer = await layers.make("run-1", Confinement())
    planted = trap.program.parent / "planted"
    shutil.copytree(repository / ".git", planted)
    _plant(trap, planted)
    script = 'cp -rf "$1"/. .git/; echo "* filter=x diff=x merge=x" > .gitattributes; echo x >> README.md; echo y > new'
    shown = Confinement(shown=(planted,))
    again = await layers.find("run-1", shown)
    assert again is not None
    words = again.command_line(["sh", "-ec", script, "sh", str(planted)], cwd=again.root, env=os.environ)
    assert subprocess.Popen(words).wait() == 0
    found = await again.found(base)
    assert {change.path for change in found.changes} == {".gitattributes", "README.md", "new"}
    assert "git's settings were changed" in found.repository
    work = await again.work(base, [change.path for change in found.changes])
    assert await work_patch(workspace, work)
    (repository / "README.md").write_text("first\nhello\n")
    await bring_in(workspace, work, label="w")
    await layer.drop()
    assert trap.sprung == ""


async def test_a_git_file_put_into_the_workspace_later_is_not_followed(repository: Path, trap: Trap) -> None:
    """The user's repository is the one that was there first; a replaced .git does not become the user's."""
    workspace = Workspace(repository, repository / ".interlock")
    await workspace.snapshot()
    (repository / ".git").rename(repository.with_name("real.git"))
    evil = trap.program.parent / "evil.git"
    for name in ("objects", "refs"):
        (evil / name).mkdir(parents=True)
    (evil / "HEAD").write_text("ref: refs/heads/x\n")
    (evil / "config").write_text(trap.config())
    (repository / ".git").write_text(f"gitdir: {evil}\n")
    before = await workspace.snapshot()
    (repository / "README.md").write_text("changed\n")
    assert [c.path for c in await workspace.changes(before, await workspace.snapshot())] == ["README.md"]
    fresh = Workspace(repository, repository / ".interlock")
    await _everything(fresh)
    assert trap.sprung == ""


async def test_links_planted_in_the_engines_folder_lead_no_write_elsewhere(repository: Path, git: GitCall) -> None:
    """A shadow repository or attic replaced by a link is made anew; what the link names stays as it was."""
    workspace = Workspace(repository, repository / ".interlock")
    await workspace.snapshot()
    config = (repository / ".git/config").read_bytes()
    (repository / ".git/hooks").mkdir(exist_ok=True)
    (repository / ".git/hooks/users-own").write_text("kept")
    shutil.rmtree(repository / ".interlock/snapshots.git")
    (repository / ".interlock/snapshots.git").symlink_to(repository / ".git")
    (repository / ".interlock/attic").symlink_to(repository / ".git")
    await workspace.snapshot()
    for name in ("root", "root.tree"):
        (repository / ".interlock/snapshots.git/indexes" / name).unlink()
        (repository / ".interlock/snapshots.git/indexes" / name).symlink_to(repository / "src/app.py")
    await workspace.snapshot()
    assert (repository / "src/app.py").read_text().startswith("print")
    assert workspace.attic.take(repository, "README.md", "hooks") is not None
    assert (repository / ".git/config").read_bytes() == config
    assert (repository / ".git/hooks/users-own").exists()
    assert not (repository / ".git/hooks/README.md").exists()
    assert (repository / ".interlock/attic/hooks/README.md").exists()
    assert git(repository, "log", "--oneline").count("\n") == 1


async def test_the_callers_git_variables_do_not_reach_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap, tmp_path: Path
) -> None:
    """GIT_DIR and its like, which git exports in hooks, change nothing; neither do the user's global settings."""
    (tmp_path / "home/.gitconfig").write_text(trap.config())
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(trap.program))
    await _everything(Workspace(repository, repository / ".interlock"))
    assert trap.sprung == ""
    assert not (tmp_path / "objects").exists()


def test_the_trap_works(repository: Path, trap: Trap, git: GitCall) -> None:
    """The planted programs do run when the user's own git is called, so the tests above prove something."""
    _plant(trap, repository / ".git")
    (repository / ".git/config").write_text(
        (repository / ".git/config").read_text().replace("required = true", "required = false")
    )
    os.utime(repository / "README.md", (0, 0))
    git(repository, "status")
    assert "trap" in trap.sprung
    assert stat.S_IMODE(trap.program.stat().st_mode) == 0o755


async def test_a_failed_command_tells_command_code_and_words(repository: Path) -> None:
    """The error of a git call carries what was called, the exit code and what git said."""
    with pytest.raises(WorkspaceFailed) as failed:
        await Git(repository / ".git", repository).run("rev-parse", "--verify", "nonsense")
    assert failed.value.what == "git rev-parse --verify nonsense failed with exit code 128"
    assert "Needed a single revision" in (failed.value.found or "")
