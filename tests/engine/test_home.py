"""The engine's own folder, as git sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from interlock.engine.folder import SHARED_WITH_TEAM, prepare_home


def seen_by_git(root: Path) -> list[str]:
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()[1::2]


def test_the_folder_hides_itself_but_for_what_a_team_shares(tmp_path: Path) -> None:
    """A run leaves no trace in `git status`; roles, prompts and playbooks of a team can be committed."""
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    home = prepare_home(root)
    (home / "runs").mkdir()
    (home / "runs" / "journal.jsonl").write_text("{}\n")
    assert seen_by_git(root) == []
    for name in SHARED_WITH_TEAM:
        (home / name).mkdir()
        (home / name / "mine.md").write_text("mine\n")
    assert seen_by_git(root) == [f".interlock/{name}/mine.md" for name in sorted(SHARED_WITH_TEAM)]
