"""A git that waits to be asked answers as one does that is started for the question."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import psutil
import pytest

from interlock.workspace import KeptWork, Snapshot, Workspace, patches, work_patch
from interlock.workspace.layers import ignoring
from interlock.workspace.layers.ignoring import sort_out
from interlock.workspace.layers.seam import Entry
from interlock.workspace.objects import store_bytes


def gits(root: Path) -> list[psutil.Process]:
    """The gits of this process that wait for questions about a workspace."""
    words = ("check-ignore", "diff-tree")
    children = (child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE)
    lines = ((child, child.cmdline()) for child in children)
    return [child for child, line in lines if set(words) & set(line) and str(root) in " ".join(line)]


async def ready(root: Path) -> tuple[Workspace, Snapshot]:
    """A workspace that is ready for questions."""
    workspace = Workspace(root, root / ".interlock")
    base = await workspace.snapshot()
    await ignoring.prepare(workspace)
    await patches.prepare(workspace)
    assert len(gits(root)) == 2
    return workspace, base


async def ignored(workspace: Workspace, *paths: str) -> set[str]:
    return set((await sort_out(workspace, "", paths, frozenset())).ignored)


async def test_rules_that_changed_while_git_waited_count(repository: Path) -> None:
    """Those in the tree, those of the repository alone, and those of the user."""
    workspace, _ = await ready(repository)
    (repository / ".gitignore").write_text("*.new\n")
    assert await ignored(workspace, "a.log", "b.new", "c.mine", "d.all") == {"b.new"}

    await ignoring.prepare(workspace)
    (repository / ".git/info/exclude").write_text("*.mine\n")
    assert await ignored(workspace, "a.log", "b.new", "c.mine", "d.all") == {"b.new", "c.mine"}

    await ignoring.prepare(workspace)
    users = Path(os.environ["HOME"], ".config/git/ignore")
    users.parent.mkdir(parents=True)
    users.write_text("*.all\n")
    assert await ignored(workspace, "a.log", "b.new", "c.mine", "d.all") == {"b.new", "c.mine", "d.all"}


async def test_one_git_answers_one_asker(repository: Path) -> None:
    """What it remembers of the rules does not outlive that: the next one sees others."""
    workspace, _ = await ready(repository)
    assert await ignored(workspace, "a.log") == {"a.log"}
    (repository / ".gitignore").write_text("")
    assert await ignored(workspace, "a.log") == set()


async def test_the_patch_is_that_of_objects_made_while_git_waited(repository: Path) -> None:
    """To the byte what a git prints that is started for it; also where nothing differs."""
    workspace, base = await ready(repository)
    blob = store_bytes(workspace.shadow, b"print('two')\n")
    work = KeptWork(
        base, (Entry("src/app.py", 0o100644, blob), Entry("README.md", 0, ""), Entry("new", 0o100755, blob))
    )
    patch = await work_patch(workspace, work)
    assert patch == await work_patch(Workspace(repository, repository / ".interlock"), work)
    assert patch.startswith(b"diff --git a/README.md b/README.md\ndeleted file mode 100644\n")
    assert patch.endswith(b"@@ -1,3 +1 @@\n-print('one')\n print('two')\n-print('three')\n")
    assert await work_patch(workspace, KeptWork(base, ())) == b""


async def test_a_git_that_died_while_it_waited_is_replaced(repository: Path) -> None:
    """Whoever asks does not notice."""
    workspace, base = await ready(repository)
    for process in gits(repository):
        process.kill()
        psutil.wait_procs([process], timeout=120)
    assert await ignored(workspace, "a.log") == {"a.log"}
    assert await work_patch(workspace, KeptWork(base, (Entry("README.md", 0, ""),)))


async def test_git_that_waits_ends_with_its_workspace(repository: Path) -> None:
    """Nobody has to close it."""
    workspace, _ = await ready(repository)
    waiting = gits(repository)
    del workspace
    gc.collect()
    _, left = psutil.wait_procs(waiting, timeout=120)
    assert not left


async def test_a_workspace_can_be_forgotten_while_another_hands_work_to_a_thread(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python tidies up at any moment, also in the middle of that: nothing is handed to a thread then."""
    workspace, _ = await ready(repository)
    (talk,) = [there[1] for place in (workspace.ignoring,) if (there := place._there) is not None]
    monkeypatch.setattr(talk._child, "collect_aside", lambda: pytest.fail("work for a thread"))
    workspace.ignoring._last_rites()
    assert len(gits(repository)) == 1
