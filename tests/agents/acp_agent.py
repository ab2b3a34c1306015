"""An agent that speaks the Agent Client Protocol and plays what its first argument says, as JSON; started by tests.

greeting, session, load    what is added to these answers (`load`: what was said before, an error, or null: unknown)
mute                       it never answers
turn                       what it does when it is asked: [kind, value] one after the other, see `turn`
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NATURE: dict[str, Any] = json.loads(sys.argv[1])
SEEN = Path("seen.jsonl")


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def hear() -> dict[str, Any]:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    with SEEN.open("ab") as seen:
        seen.write(line)
    message: dict[str, Any] = json.loads(line)
    return message


def update(fields: dict[str, Any]) -> None:
    send(method="session/update", params={"sessionId": "s1", "update": fields})


def ask(method: str, params: Any) -> None:
    send(id="q1", method=method, params=params)
    while "method" in hear():
        pass


def turn(number: int) -> None:
    for kind, value in NATURE.get("turn", []):
        match kind:
            case "say":
                update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": value}})
            case "update":
                update(value)
            case "ask":
                ask("session/request_permission", {"sessionId": "s1", **value})
            case "request":
                ask(value, {})
            case "raw":
                os.write(1, value.encode() + b"\n")
            case "fail":
                return send(id=number, error=value)
            case "end":
                return send(id=number, result=value)
            case "until cancelled":
                while hear().get("method") != "session/cancel":
                    pass
            case "die":
                sys.stderr.write(value)
                sys.exit(3)
    return send(id=number, result={"stopReason": "end_turn"})


def main() -> None:
    while True:
        message = hear()
        number, params = message.get("id"), message.get("params", {})
        if NATURE.get("mute"):
            time.sleep(1e6)
        match message["method"]:
            case "initialize":
                send(id=number, result={"protocolVersion": 1, **NATURE.get("greeting", {})})
            case "session/new":
                send(id=number, result={"sessionId": "s1", **NATURE.get("session", {})})
            case "session/load" if not isinstance(NATURE.get("load"), list):
                send(id=number, error=NATURE.get("load") or {"code": -32002, "message": "Resource not found"})
            case "session/load":
                for fields in NATURE["load"]:
                    update(fields)
                send(id=number, result=NATURE.get("session", {}))
            case "session/set_config_option":
                kept = NATURE.get("keeps") or params["value"]
                option = {"id": params["configId"], "category": "model", "currentValue": kept}
                send(id=number, result={"configOptions": [option]})
            case "session/prompt":
                turn(message["id"])
            case _ if number is not None:
                send(id=number, result={})


main()
