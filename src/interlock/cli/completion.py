"""What the shell offers for a half-typed word. Never an error: a shell has no place to show one."""

from __future__ import annotations

from pathlib import Path

import typer


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the workspace's runs, the latest first."""
    from interlock.engine.folder import known_runs
    from interlock.errors import InterlockError
    from interlock.settings import find_workspace

    try:
        root = find_workspace(Path.cwd(), _workspace(context))
        names = [known.identity.run_id for known in reversed(known_runs(root))]
    except (InterlockError, OSError):
        return []
    return [name for name in ("latest", *names) if name.startswith(incomplete) and name.isprintable()] if names else []


def complete_playbook(incomplete: str) -> list[str]:
    from interlock import playbooks

    return [name for name in playbooks.NAMES if name.startswith(incomplete)]


def complete_runner(context: typer.Context, incomplete: str) -> list[str]:
    """The runners of interlock.toml, and those that need no table there."""
    import os

    from interlock.errors import InterlockError
    from interlock.settings import READY_RUNNERS, find_workspace, load_settings

    try:
        own = tuple(load_settings(find_workspace(Path.cwd(), _workspace(context)), os.environ).runners)
    except (InterlockError, OSError):
        own = ()
    return sorted({name for name in (*own, *READY_RUNNERS) if name.startswith(incomplete)})


def _workspace(context: typer.Context) -> Path | None:
    """The workspace that was typed so far, before or after the command."""
    while context is not None:
        if (typed := context.params.get("workspace")) is not None:
            return Path(typed)
        if context.parent is None:
            return None
        context = context.parent  # type: ignore[assignment]
    return None
