"""git is started in one way: with nothing of the environment that leads it elsewhere, and no program of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.errors import Refused, WorkspaceFailed
from interlock.workspace.git import Git
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from tests.workspace.person import Person

_PROGRAMS = {
    "core.fsmonitor": "{}", "core.sshCommand": "{}", "core.askPass": "{}", "core.pager": "{}",
    "core.alternateRefsCommand": "{}", "diff.external": "{}", "diff.planted.command": "{}",
    "diff.planted.textconv": "{}", "merge.planted.driver": "{}", "filter.planted.clean": "{}",
    "filter.planted.process": "{}", "gpg.program": "{}", "trailer.sign.command": "{}", "credential.helper": "{}"
}  # fmt: skip


@pytest.mark.req("TREE-12")
def test_no_program_that_settings_name_is_started(person: Person, trees: Trees) -> None:
    """Snapshots, merges, patches and history run nothing, whatever a file of settings, attributes or hooks says."""
    ran = person.top.parent / "ran"
    script = person.top.parent / "planted.sh"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    script.chmod(0o755)
    for name, value in _PROGRAMS.items():
        person.git("config", name, value.format(f"'{script}'"))
    person.git("config", "core.hooksPath", str(script.parent))
    person.git("config", "gpg.program", str(script))  # no shell takes the quotes off
    person.git("config", "log.showSignature", "true")
    person.sh("git cat-file commit HEAD | sed 's/^committer.*/&\\ngpgsig -----BEGIN PGP SIGNATURE-----/' > signed")
    person.git("update-ref", "HEAD", person.git("hash-object", "-w", "-t", "commit", "signed").strip())
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"):
        (script.parent / hook).symlink_to(script)
    person.write(".gitattributes", "* diff=planted merge=planted filter=planted\n")
    ran.unlink(missing_ok=True)
    trees.standing("run", trees.where())
    person.write("a.txt", "changed\n")
    first = trees.standing("run", trees.where()).tree
    person.write("a.txt", "again\n")
    second = trees.standing("run", trees.where()).tree
    trees.keep("run", [first, second])
    assert trees.patch(first, second).count(b"\n+again") == 1
    trees.merge(first, second, trees.tree_of(first, {"n": (0o100644, trees.write(b"n"))}))
    trees.merge(first, second, trees.tree_of(first, {"a.txt": (0o100644, trees.write(b"n"))}))
    trees.had(["a.txt"])
    trees.ignored(["a.txt"])
    assert trees.repository and trees.repository.is_dirty()
    assert not ran.exists()


@pytest.mark.req("TREE-12")
def test_variables_that_hooks_export_lead_nowhere(
    person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interlock called from a git hook looks at the workspace, not at what the hook's git was at."""
    wanted = trees.standing("run", trees.where())
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "x")
    again = Trees(trees.workspace)
    assert again.standing("other", again.where()) == wanted


def test_failures_say_what(person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails, a folder that is gone, a machine without git."""
    git = Git(person.top / ".git", person.top)
    with pytest.raises(WorkspaceFailed, match="exit code 128"):
        git.run("cat-file", "blob", "0" * 40)
    with pytest.raises(WorkspaceFailed, match="folder is gone"):
        Git(tmp_path / "none").run("status")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkspaceFailed, match="cannot be started"):
        git.run("status")


def test_a_git_that_is_too_old_is_bad_input(person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named before anything is written."""
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.37.9\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Refused, match=r"2\.37\.9 is too old"):
        Trees(Workspace.find(person.top)).keep("run", [])
    assert not (person.top / ".interlock").exists()


@pytest.mark.req("RUN-19")
def test_any_name_of_a_file(person: Person, trees: Trees) -> None:
    """What git can hold goes through snapshot, difference, tree and reading."""
    names = ["ü", "a\nb", 'q"\\', " lead", os.fsdecode(b"\xff\xfe"), "-x", ":(glob)**", "é" * 120]
    paths = sorted(f"d/{name}" for name in names)
    old = trees.standing("run", trees.where()).tree
    for path in paths:
        person.write(path, "x\n")
    new = trees.standing("run", trees.where()).tree
    assert sorted(change.path for change in trees.between(old, new)) == paths
    assert all(trees.read(new, path) == b"x\n" for path in paths) and trees.graft(old, new, paths) == new
    assert trees.from_folder(old, person.top, paths) == new
    assert trees.had(paths) == {path: {} for path in paths}
