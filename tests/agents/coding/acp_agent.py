"""An agent that speaks the Agent Client Protocol and does what its prompt says, line by line; started by tests.

Each line is a JSON list: a word and its arguments (see `SpeakingAgent.prompt`).  What it is beyond that, its
capabilities, modes and bad manners, stands in the environment variable AGENT.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema

NATURE: dict[str, Any] = json.loads(os.environ.get("AGENT", "{}"))


def note(name: str, line: str) -> None:
    with Path(name).open("a") as file:
        file.write(f"{line}\n")


def appears(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


class SpeakingAgent:
    def __init__(self) -> None:
        self.client: Any = None
        self.stopping = asyncio.Event()
        self.calls = 0
        self.session = "sess-1"
        self.seen: dict[str, Any] = {"argv": sys.argv[1:]}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **more: Any) -> Any:
        if NATURE.get("mute"):
            await asyncio.Event().wait()
        if NATURE.get("dies at the greeting"):
            print("cannot find my configuration", file=sys.stderr, flush=True)
            os._exit(3)
        self.seen["capabilities"] = client_capabilities.model_dump(by_alias=True, exclude_none=True)
        version = NATURE.get("protocol", protocol_version)
        return schema.InitializeResponse(
            protocol_version=version,
            agent_capabilities=schema.AgentCapabilities(load_session="loads" in NATURE),
            agent_info=schema.Implementation(name="speaking", version="1.2.3"),
        )

    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **meta: Any
    ) -> Any:
        if "refuses sessions" in NATURE:
            raise acp.RequestError(-32000, NATURE["refuses sessions"])
        self.seen |= {"cwd": cwd, "meta": meta}
        options: list[Any] = [
            schema.SessionConfigOptionSelect(
                type="select",
                id=what,
                name=what,
                category=cast(Any, what),
                current_value=values[0],
                options=[schema.SessionConfigSelectOption(value=value, name=value) for value in values],
            )
            for what, values in NATURE.get("options", {}).items()
        ]
        modes = None
        if "modes" in NATURE:
            known = [schema.SessionMode(id=one, name=one) for one in NATURE["modes"]]
            modes = schema.SessionModeState(current_mode_id=NATURE["modes"][0], available_modes=known)
        return schema.NewSessionResponse(session_id="sess-1", config_options=options or None, modes=modes)

    async def load_session(
        self, cwd: str, session_id: str, additional_directories: Any = None, mcp_servers: Any = None, **meta: Any
    ) -> Any:
        if session_id not in NATURE["loads"]:
            raise acp.RequestError.resource_not_found(session_id)
        self.seen["loaded"] = session_id
        if not NATURE.get("forgetful"):
            for kind in ("user_message_chunk", "agent_message_chunk"):
                chunk = {"sessionUpdate": kind, "content": {"type": "text", "text": "said long ago"}}
                await self.client._conn.send_notification("session/update", {"sessionId": session_id, "update": chunk})
        return schema.LoadSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.seen["mode"] = mode_id
        return schema.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.seen[config_id] = value
        kept = NATURE["options"][config_id][0] if NATURE.get("stubborn") else value
        options = schema.SessionConfigOptionSelect(
            type="select", id=config_id, name=config_id, category=cast(Any, config_id), current_value=kept, options=[]
        )
        return schema.SetSessionConfigOptionResponse(config_options=[options])

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        text = prompt[0].text
        self.seen["prompt"] = text
        self.session = session_id
        if "cut off" in text:
            await self.do_confess()
            await self.do_say("went on")
        for line in text.splitlines():
            if line.startswith("["):
                word, *arguments = json.loads(line)
                ended = await getattr(self, f"do_{word}")(*arguments)
                if ended is not None:
                    return ended
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        Path("told-to-stop").touch()
        if not NATURE.get("deaf"):
            self.stopping.set()

    async def update(self, what: str, **fields: Any) -> None:
        message = {"sessionId": self.session, "update": {"sessionUpdate": what, **fields}}
        await self.client._conn.send_notification("session/update", message)

    async def do_say(self, text: str, **fields: Any) -> None:
        await self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    async def do_think(self, text: str) -> None:
        await self.update("agent_thought_chunk", content={"type": "text", "text": text})

    async def do_send(self, kind: str, fields: dict[str, Any]) -> None:
        await self.update(kind, **fields)

    async def do_raw(self, line: str) -> None:
        os.write(1, line.encode() + b"\n")

    async def do_elsewhere(self, text: str) -> None:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        await self.client._conn.send_notification("session/update", {"sessionId": "other", "update": chunk})

    async def do_edit(self, path: str, content: str, changes: dict[str, Any] | None = None) -> Any:
        """Asks like the real ones do, writes by itself if it may, and goes on in either case."""
        self.calls += 1
        call = f"call-{self.calls}"
        target = str(Path(path).absolute())
        asked = {"toolCallId": call, "kind": "edit", "title": "Write", "locations": [{"path": target}]}
        await self.update("tool_call", **{**asked, "status": "pending"})
        kinds = ("allow_always", "allow_once", "reject_once", "reject_always")
        offered = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        request = {"sessionId": "sess-1", "toolCall": asked, "options": offered, **(changes or {})}
        answer = await self.client._conn.send_request("session/request_permission", request)
        Path(f"{call}.answer").write_text(json.dumps(answer["outcome"]))
        allowed = str(answer["outcome"].get("optionId", "")).startswith("allow")
        if allowed:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(content)
        await self.update("tool_call_update", toolCallId=call, status="completed" if allowed else "failed")
        if not allowed and NATURE.get("easily discouraged"):
            return schema.PromptResponse(stop_reason="end_turn")
        return None

    async def do_ask(self, method: str, params: dict[str, Any]) -> None:
        """Any request; the answer, or the error, stands in the file `answers`."""
        try:
            answer = await self.client._conn.send_request(method, {"sessionId": "sess-1", **params})
        except acp.RequestError as error:
            answer = {"error": error.code, "message": str(error)}
        note("answers", json.dumps(answer))

    async def do_stop(self, reason: str, fields: dict[str, Any] | None = None) -> Any:
        return {"stopReason": reason, **(fields or {})}

    async def do_fail(self, code: int, message: str, data: Any = None) -> None:
        raise acp.RequestError(code, message, data)

    async def do_hang(self) -> Any:
        await self.stopping.wait()
        return schema.PromptResponse(stop_reason="cancelled")

    async def do_wait_for(self, path: str) -> None:
        await asyncio.to_thread(appears, path)

    async def do_die(self, code: int, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
        os._exit(code)

    async def do_mutter(self, size: int) -> None:
        sys.stderr.write("x" * size)
        sys.stderr.flush()

    async def do_close_output(self) -> None:
        os.close(1)

    async def do_start(self, *argv: str) -> None:
        """A tool in a session of its own that outlives the turn."""
        child = subprocess.Popen(argv, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
        note("children", str(child.pid))

    async def do_confess(self) -> None:
        """What it was given, as a file."""
        Path("seen.json").write_text(json.dumps({**self.seen, "env": dict(os.environ)}))


asyncio.run(acp.run_agent(cast(acp.Agent, SpeakingAgent())))
