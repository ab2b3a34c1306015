"""An agent that speaks the Agent Client Protocol: it says and does a few things, and then takes its time."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import acp
from acp import schema

SAYS = (
    "The rounding happens in two places, and they disagree: `Entry` keeps the amount as it was written, while the "
    "total rounds at the end.\n\n",
    "I will round **once**, where an amount is read, and leave the total alone. First I look at what the tests expect.",
)
CALLS = (
    ("read", "Read", "purse/entries.py"),
    ("read", "Read", "tests/test_entries.py"),
    ("search", "Grep", "quantize|round\\("),
    ("execute", "Bash", "python3 -B -m unittest -q tests.test_entries"),
)
PLAN = (
    ("see where amounts are rounded today", "completed"),
    ("round once, where an amount is read", "in_progress"),
    ("a test with a third of a cent", "pending"),
)


class Speaking:
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        return schema.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=schema.AgentCapabilities(),
            agent_info=schema.Implementation(name="speaking", version="1"),
        )

    async def new_session(self, **_: Any) -> Any:
        return schema.NewSessionResponse(session_id="sess-1")

    async def prompt(self, session_id: str, **_: Any) -> Any:
        async def tell(what: str, **fields: Any) -> None:
            message = {"sessionId": session_id, "update": {"sessionUpdate": what, **fields}}
            await self.client._conn.send_notification("session/update", message)

        entries = [{"content": text, "priority": "medium", "status": state} for text, state in PLAN]
        await tell("plan", entries=entries)
        for number, (kind, title, subject) in enumerate(CALLS):
            if number < len(SAYS):
                await tell("agent_message_chunk", content={"type": "text", "text": SAYS[number]})
            call = {"toolCallId": f"call-{number}", "kind": kind, "title": title}
            raw = {"command": subject} if kind == "execute" else {"path": subject}
            await tell("tool_call", **call, status="in_progress", rawInput=raw)
            if number + 1 < len(CALLS):
                await tell("tool_call_update", toolCallId=call["toolCallId"], status="completed")
        await asyncio.sleep(float(os.environ.get("SPEAKING_S", "600")))
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, **_: Any) -> None:
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Speaking()))  # type: ignore[arg-type]
