"""Codex: `codex exec --json`.

Its sandbox is one of the operating system and holds every command that the agent runs, not only its own edits.  Inside
another sandbox it does not work: commands then fail, and codex ends with 0.
"""

from __future__ import annotations

import json
from typing import Any

from interlock.agents.client import ClientRow, Start
from interlock.agents.reading import BEGAN, DONE, FAILED, REFUSED, Json, Reading, parsed
from interlock.agents.schemas import strict
from interlock.agents.trouble import trouble, used_up
from interlock.agents.values import Ask, Room

ROW = ClientRow(
    name="codex",
    title="Codex",
    program="codex",
    install="npm install -g @openai/codex",
    sign_in="Run `codex login`, or set CODEX_API_KEY.",
    logins=(".codex/auth.json", ".codex/config.toml"),
    signed_in=(".codex/auth.json", "CODEX_API_KEY"),
    variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
    hosts=("api.openai.com", "chatgpt.com", "auth.openai.com"),
    urls=("OPENAI_BASE_URL",),
)
_SETTINGS = (
    'approval_policy="never"',
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "feedback.enabled=false",
)
_HELD = (
    'default_permissions="interlock"',
    'permissions.interlock.extends=":workspace"',
    "permissions.interlock.network.enabled=true",
)
"""A profile that is chosen here wins over every sandbox setting of the person's own files. Commands keep the network,
which codex would take from them: builds and tests need it, if only on loopback."""
_SCHEMA = "schema-codex.json"


def start(ask: Ask, room: Room) -> Start:
    argv, settings, files = [room.program, "exec", "--color", "never"], [*_SETTINGS], {}
    settings += [f"features.rollout_budget.{name}={json.dumps(value)}" for name, value in rollout_budget(ask).items()]
    argv += [*(("resume",) if ask.session else ()), "--json", "--skip-git-repo-check"]
    if room.confined:
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    else:
        settings += [*_HELD, f'permissions.interlock.filesystem={{{json.dumps(room.exchange)}="write"}}']
    for setting in settings:
        argv += ["-c", setting]
    if ask.role.model:
        argv.append(f"--model={ask.role.model}")
    if ask.form is not None and (schema := strict(ask.form)) is not None:
        files[_SCHEMA] = json.dumps(schema)
        argv += ["--output-schema", f"{room.exchange}/{_SCHEMA}"]
    return Start((*argv, *(("--", ask.session) if ask.session else ()), "-"), ask.brief, files=files)


def rollout_budget(ask: Ask) -> dict[str, Any]:
    """Codex counts by itself, after each answer of its model; it says what it took at the end of its turn alone."""
    if ask.budget_tokens is None:
        return {}
    weights = {"sampling_token_weight": 1.0, "prefill_token_weight": 1.0, "reminder_at_remaining_tokens": []}
    return {"enabled": True, "enforce_limit": True, "limit_tokens": max(ask.budget_tokens, 1), **weights}


class Stream(Reading):
    def read(self, line: Json) -> None:
        match line.text("type"):
            case "thread.started":
                self.began(line.text("thread_id"))
            case "turn.started":
                self.finished = False
            case "item.started" | "item.updated" | "item.completed" as state:
                self._item(line.at("item"), ended=state == "item.completed")
            case "error" if line.text("message").startswith("Reconnecting"):
                self.wait(f"model service: {line.text('message')}")
            case "error":
                self.wrong = trouble(line.text("message") or "an error without a word")
            case "turn.completed":
                self.finished, self.wrong, self.exhausted = True, None, False
                used = line.at("usage")
                self.spend(used.count("input_tokens"), used.count("output_tokens"), whole=True)
                # Held to a form, its final message is that.
                self.form = parsed(self.text) if self.ask.form and strict(self.ask.form) else None
            case "turn.failed":
                said, self.finished = line.text("error", "message"), True
                self.wrong = trouble(said) if said else self.wrong or trouble("the turn failed")
                self.exhausted = used_up(self.wrong.text)

    def _item(self, item: Json, *, ended: bool) -> None:
        text = item.text("text")
        match item.text("type"):
            case "agent_message" if ended and text.strip():
                self.words = [text]
                self.speak(text)
            case "command_execution" | "file_change" | "mcp_tool_call" | "collab_tool_call" | "web_search" as kind:
                self._tool(kind, item, ended=ended)

    def _tool(self, kind: str, item: Json, *, ended: bool) -> None:
        state = {"failed": FAILED, "declined": REFUSED}.get(item.text("status"), DONE) if ended else BEGAN
        name = ".".join(filter(None, (item.text("server"), item.text("tool")))) or kind
        changed = " ".join(change.text("path") for change in item.each("changes"))
        subject = changed or item.text("command") or item.text("query")
        why = item.text("aggregated_output")
        if state == FAILED and why.startswith(("bwrap:", "codex-linux-sandbox")):
            state, why = REFUSED, f"the sandbox of codex does not work here: {why.splitlines()[0]}"
        self.tool(item.text("id"), name, subject, state, why)


reader = Stream
