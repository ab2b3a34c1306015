"""Coding agents that are started once per call, and print a stream of JSON objects while they work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.agents import records
from interlock.agents.coding.accounts import coding_needs
from interlock.agents.coding.asking import Configured, ask_of, at_hand, installed
from interlock.agents.coding.calls import CodingCall, reread
from interlock.agents.coding.dialect import Ask, Conclusion, Dialect, Invocation, LooksBack, StreamReader
from interlock.agents.coding.events import Warned
from interlock.agents.coding.settling import forgot_session
from interlock.agents.coding.stream import JsonLines
from interlock.agents.environment import agent_environment
from interlock.agents.process import ProcessExit
from interlock.agents.runner import AgentExit, AgentRequest, ClientNeeds, Health, Observer


@dataclass(frozen=True)
class _Heard:
    """What one process said, and how it ended."""

    said: Conclusion
    ended: ProcessExit
    cut: bool


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
        call = CodingCall(request, observe, self._configured, self._inherit, self.needs())
        heard = await self._heard(call, ask_of(request, self._configured))
        if request.resume is not None and forgot_session(heard.said, call.last_words()):
            call.tell([Warned("the agent does not know the session that it should go on with: it starts anew")])
            heard = await self._heard(call, ask_of(replace(request, resume=None), self._configured))
        return call.exit(heard.said, heard.ended, code=heard.ended.code, cut=heard.cut)

    async def _heard(self, call: CodingCall, ask: Ask) -> _Heard:
        invocation = self._dialect.invocation(call.program, ask)
        call.prepare(invocation.files, invocation.leaves)
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
        if ended.spawn_error is None:
            _look_back(reader, call, invocation)
        return _Heard(reader.conclude(), ended, lines.cut)

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        call = CodingCall(request, lambda _news: None, self._configured, self._inherit, self.needs())
        ask = ask_of(request, self._configured)
        reader = self._dialect.reader(ask)
        cut = reread(request, reader)
        _look_back(reader, call, self._dialect.invocation(call.program, ask))
        said = reader.conclude()
        return call.exit(said, ProcessExit(code), code=code, cut=cut) if said.finished else None

    def needs(self) -> ClientNeeds:
        env = agent_environment(self._inherit, {}, self._configured.env)
        return coding_needs(self._dialect.name, self._configured.program, env, self._configured.env)

    async def ready(self) -> Health:
        return at_hand(self._configured, self._inherit, self.needs(), f"runners.{self.name}.program")

    async def health(self) -> Health:
        remedy = f"Install {self._dialect.name}, or name its program: runners.{self.name}.program in interlock.toml."
        return await installed(self._configured, self._inherit, remedy)


def _look_back(reader: StreamReader, call: CodingCall, invocation: Invocation) -> None:
    if isinstance(reader, LooksBack):
        reader.look_back(call.last_words(), _left(invocation))


def _left(invocation: Invocation) -> dict[Path, str]:
    found = {path: records.read_result(path) for path in invocation.leaves}
    return {path: content.decode(errors="replace") for path, content in found.items() if content is not None}
