"""Worktrees of tasks that start and end side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock.workspace import Workspace, open_worktree


async def test_tasks_that_start_and_end_at_once_do_not_disturb_each_other(repository: Path, cache: Path) -> None:
    """Git reads the entries of all worktrees when it adds one; a half-written entry of a neighbour would be fatal."""
    workspace = Workspace(repository, repository / ".interlock")
    snapshot = await workspace.snapshot()

    async def come_and_go(name: str) -> None:
        for _ in range(8):
            worktree = await open_worktree(workspace, snapshot, name, cache)
            assert (worktree.root / "README.md").is_file()
            await worktree.close()

    tasks = (come_and_go(f"task-{number}") for number in range(6))
    assert await asyncio.gather(*tasks, return_exceptions=True) == [None] * 6
