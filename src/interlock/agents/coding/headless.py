"""Coding agents that are started once per call, and print a stream of JSON objects while they work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interlock.agents import records
from interlock.agents.coding.asking import Configured, ask_of, installed
from interlock.agents.coding.calls import Call
from interlock.agents.coding.dialect import Dialect, Invocation, LooksBack
from interlock.agents.coding.stream import JsonLines
from interlock.agents.runner import AgentExit, AgentRequest, Health, Observer


class HeadlessRunner:
    """One process per call: the brief goes in, events come out as they happen, the final message is the answer."""

    def __init__(
        self, dialect: Dialect, configured: Configured, inherit: Mapping[str, str], *, grace_s: float = 5.0
    ) -> None:
        self.name = configured.name
        self._dialect = dialect
        self._configured = configured
        self._inherit = dict(inherit)
        self._grace_s = grace_s

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        call = Call(request, observe, self._configured, self._inherit)
        ask = ask_of(request, self._configured)
        invocation = self._dialect.invocation(self._configured.program, ask)
        call.put(invocation.files)
        for path in invocation.leaves:
            records.set_aside(path)
        reader = self._dialect.reader(ask)
        lines = JsonLines(lambda line: call.tell(reader.take(line)))
        ended = await call.run(
            invocation.argv,
            env=invocation.env,
            stdin=invocation.stdin.encode(errors="surrogateescape"),
            tap=lines.feed,
            grace_s=self._grace_s,
        )
        lines.close()
        if isinstance(reader, LooksBack) and ended.spawn_error is None:
            reader.look_back(call.last_words(), _left(invocation))
        return call.exit(reader.conclude(), ended, code=ended.code, cut=lines.cut)

    async def health(self) -> Health:
        remedy = f"Install {self._dialect.name}, or name its program: runners.{self.name}.program in interlock.toml."
        return await installed(self._configured, self._inherit, remedy)


def _left(invocation: Invocation) -> dict[Path, str]:
    found = {path: records.read_result(path) for path in invocation.leaves}
    return {path: content.decode(errors="replace") for path, content in found.items() if content is not None}
