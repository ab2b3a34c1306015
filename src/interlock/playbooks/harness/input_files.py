"""What a contract names as input, looked for on disk."""

from __future__ import annotations

from interlock.documents import DocumentState
from interlock.engine import Run
from interlock.playbooks.harness.standards import place_of


async def is_there(run: Run, path: str) -> bool:
    """Whether an input is a file with something in it, or a folder or pattern with at least one file."""
    folder, pattern = place_of(path)
    if pattern:
        return bool(await run.list(folder, pattern))
    document = await run.read(path)
    if document.state is DocumentState.OK:
        return bool(document.text.strip())
    return bool(await run.list(path, "**/*"))
