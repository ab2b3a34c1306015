"""Qwen Code, by the Agent Client Protocol; what its updates mean is in `test_acp_stream`."""

from __future__ import annotations

from interlock.agents.coding.acp_profiles import profile_of
from interlock.agents.coding.acp_stream import AcpReader
from interlock.agents.coding.events import ToolState
from interlock.agents.runner import Usage
from tests.agents.coding.tables import Table, called, recorded, row

BEGAN, DONE = ToolState.BEGAN, ToolState.DONE
OK = recorded("qwen-ok")
REPLAYED = ({"result": {}}, *OK[2:], {"result": {"modes": {}}})

QWEN = Table(
    "qwen",
    lambda _asked: AcpReader(profile_of("qwen")),
    ends=lambda line: "stopReason" in str(line.get("result")),
    tools=called("edit", "/workspace/docs/note.md", BEGAN, DONE)
    | called("execute", "echo shell-was-here > shell.txt", BEGAN, DONE),
    refused=called("edit", "/elsewhere/secret.md", BEGAN),  # it was we who did not let it
    rows=(
        row("tokens while it works", *OK[:5], usage=Usage(1234, 56), finished=False),
        row("what was told again before the turn", *REPLAYED, finished=False, text="", acted=False, usage=None),
        row("a prompt that was answered", *OK[-1:], finished=True),
    ),
)
