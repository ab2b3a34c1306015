"""What an agent in a test does to the workspace: by a program of its own, in the layer of its call."""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from interlock.agents.process import run_process
from interlock.agents.runner import AgentRequest

_PROGRAM = """
import base64, json, os, sys
for path, content in json.load(sys.stdin).items():
    path = path.encode("utf-8", "surrogateescape")
    if content is None:
        os.unlink(path)
        continue
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(content))
"""


async def write_within(request: AgentRequest, files: Mapping[str, str | bytes | None]) -> None:
    """Write these files (None deletes) where the agent of this call works."""

    def encoded(content: str | bytes | None) -> str | None:
        raw = content.encode() if isinstance(content, str) else content
        return None if raw is None else base64.b64encode(raw).decode()

    if not files:
        return
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "stderr")
        ended = await run_process(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            cwd=request.workspace,
            env={"PATH": os.environ["PATH"]},
            stdin=json.dumps({path: encoded(content) for path, content in files.items()}).encode(),
            stdout=Path(folder, "stdout"),
            stderr=said,
            timeout_s=600,
            marker=request.marker,
            within=request.within,
        )
        if ended.code != 0:
            raise AssertionError(f"the agent of the test could not act: {ended}\n{said.read_text()}")
