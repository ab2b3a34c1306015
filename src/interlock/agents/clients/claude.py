"""Claude Code: `claude -p` with its stream of JSON lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from interlock.agents.client import ClientRow, Start, chosen
from interlock.agents.reading import Json, Reading, other
from interlock.agents.schemas import plain
from interlock.agents.trouble import after, trouble
from interlock.agents.values import Ask, Room

ROW = ClientRow(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    sign_in="Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
    logins=(".claude/.credentials.json", ".claude/settings.json"),
    signed_in=(".claude/.credentials.json", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    hosts=("api.anthropic.com", "platform.claude.com", "console.anthropic.com", "claude.ai"),
    urls=("ANTHROPIC_BASE_URL",),
    tells_cost=True,
)
_ENVIRONMENT = {
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",  # long waits are ours: between calls, outside of the deadline
}
_FREE = "Bash,Glob,Grep,Read,Skill,Task,TodoWrite,WebFetch,WebSearch"
"""What an agent may use without asking where nothing holds it, besides editing in its folder."""


def start(ask: Ask, room: Room) -> Start:
    argv, env = [room.program, "-p", "--output-format", "stream-json", "--verbose"], _ENVIRONMENT
    if room.confined:
        argv.append("--dangerously-skip-permissions")
        env = {**env, "IS_SANDBOX": "1"}  # else it refuses that to root
    else:  # Nobody is there to be asked: what is not allowed is refused.
        argv += ["--permission-mode", "acceptEdits", "--add-dir", room.exchange, "--allowedTools", _FREE]
    if ask.budget_usd is not None:
        argv += ["--max-budget-usd", f"{max(ask.budget_usd, 0.000001):.6f}"]
    if ask.form is not None:
        argv += ["--json-schema", json.dumps(plain(ask.form))]
    return Start((*argv, *chosen(ask)), ask.brief, env)


class Stream(Reading):
    whole = False
    """Its result counts the whole session."""

    def __init__(self, ask: Ask, room: Room) -> None:
        super().__init__(ask, room)
        self._until: datetime | None = None
        self._spoken: list[str] = []
        """Since the last tool."""
        self._messages: dict[str, int] = {}
        """Tokens that the model read for each message, as long as there is no result."""

    def read(self, line: Json) -> None:
        match line.text("type"), line.text("subtype"):
            case "system", "init":
                self.began(line.text("session_id"), line.text("model"))
            case "system", "api_retry":
                delay, why = line.number("retry_delay_ms"), line.text("error") or line.count("error_status")
                self.wait(f"model service: {why}", None if delay is None else delay / 1000)
            case "rate_limit_event", _:
                self._limit(line.at("rate_limit_info"))
            case "assistant", _:
                self._assistant(line.at("message"))
            case "user", _:
                for block in line.each("message", "content"):
                    if block.text("type") == "tool_result":
                        words = json.dumps(block.at("content").value).strip('"')
                        self.tool_ended(block.text("tool_use_id"), words, done=not block.at("is_error").value)
            case "result", _:
                self._end(line)

    def _limit(self, info: Json) -> None:
        resets = info.number("resetsAt")
        left = None if resets is None else max(0.0, resets - datetime.now(UTC).timestamp())
        if info.text("status") == "rejected" and (until := after(left)):
            self._until = until
            self.wait(f"limit of {info.text('rateLimitType') or 'the subscription'} reached", left)

    def _assistant(self, message: Json) -> None:
        for block in message.each("content"):
            if block.text("type") == "text" and (text := block.text("text")).strip():
                self._spoken.append(text)
                self.speak(text)
            elif block.text("type") == "tool_use" and block.text("name") == "StructuredOutput":  # its form
                self.form = block.at("input").value
            elif block.text("type") == "tool_use":
                self._spoken = []
                self.tool(block.text("id"), block.text("name"), block.at("input").subject)
        # A message comes in several lines, each with the same account; of what it wrote that has the first count.
        if read := _input(message):
            self._messages[message.text("id")] = read
            self.spend(sum(self._messages.values()), None)

    def _end(self, line: Json) -> None:
        self.finished, given = True, line.at("structured_output").value
        self.form = self.form if given is None else given  # one that misses a field it does not repeat
        # Asked for a form its result is that again, or what it said to being asked for it once more.
        self.words = ["\n\n".join(self._spoken) if self.ask.form is not None else line.text("result")]
        self.exhausted = line.text("subtype") == "error_max_budget_usd"
        read, written, cost = _input(line), line.count("usage", "output_tokens"), line.number("total_cost_usd")
        # Zeros say that nothing was asked: the messages know better.
        told = (read, written, cost) if read or written else (self.usage.input_tokens, None, cost)
        self.spend(*told, whole=self.whole and bool(read))
        stopped, status = line.text("subtype"), line.count("api_error_status")
        if line.at("is_error").value or stopped.startswith("error"):
            errors = [*(str(one.value) for one in line.each("errors")), line.text("error", "message")]
            said = "; ".join(filter(None, errors)) or line.text("result")
            self.wrong = trouble(said or stopped, status=status, until=self._until)
            if status is None and stopped.startswith("error_max"):
                self.wrong = other(f"it stopped by itself ({stopped}): {said}".rstrip(": "))


def _input(said: Json) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(said.count("usage", name) or 0 for name in names)


reader = Stream
