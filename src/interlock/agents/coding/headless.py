"""Coding agents that are started once per call, and print a stream of JSON objects while they work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from interlock.agents import process_table, records
from interlock.agents.capped_file import CappedFile
from interlock.agents.coding.asking import Configured, ask_of, installed
from interlock.agents.coding.dialect import Conclusion, Dialect, Invocation, LooksBack
from interlock.agents.coding.settling import last_line, settle
from interlock.agents.coding.stream import JsonLines
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, FileOutput, Health, Observer

_LAST_WORDS: Final = 64_000


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
        self._redact = Redaction({**self._inherit, **configured.env})

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        records.prepare(request)
        news = records.Transcript(request, observe, self._redact)
        ask = ask_of(request, self._configured)
        invocation = self._dialect.invocation(self._configured.program, ask)
        for path, text in invocation.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        for path in invocation.leaves:
            records.set_aside(path)
        reader = self._dialect.reader(ask)

        def take(line: Mapping[str, Any]) -> None:
            for event in reader.take(line):
                news(event.news())

        lines = JsonLines(take)
        ended = await self._run(request, invocation, lines, news)
        lines.close()
        facts = {"code": ended.code, "timed_out": ended.timed_out, "duration_s": round(ended.duration_s, 3)}
        news(AgentNews("ended", facts))
        if ended.spawn_error is not None:
            return AgentExit(code=None, spawn_error=self._redact(ended.spawn_error))
        words = FileOutput(records.stderr_path(request)).tail(_LAST_WORDS).decode(errors="replace")
        if isinstance(reader, LooksBack):
            reader.look_back(words, _left(invocation))
        return self._exit(request, reader.conclude(), ended, words, cut=lines.cut)

    async def health(self) -> Health:
        remedy = f"Install {self._dialect.name}, or name its program: runners.{self.name}.program in interlock.toml."
        return await installed(self._configured, self._inherit, remedy)

    async def _run(
        self, request: AgentRequest, invocation: Invocation, lines: JsonLines, news: records.Transcript
    ) -> ProcessExit:
        def on_start(pid: int, pgid: int) -> None:
            news(AgentNews("started", {"pid": pid, "pgid": pgid, "started": process_table.started(pid)}))

        def ask_for_partial() -> None:
            records.ask_for_partial(request)
            news(AgentNews("partial.requested", {"grace_s": request.partial_grace_s}))

        own = {**invocation.env, **self._configured.env}
        return await run_process(
            invocation.argv,
            cwd=request.workspace,
            env=agent_environment(self._inherit, {**request.env, **request.environment()}, own),
            stdin=invocation.stdin.encode(errors="surrogateescape"),
            stdout=records.stream_path(request),
            stderr=records.stderr_path(request),
            timeout_s=request.timeout_s,
            grace_s=self._grace_s,
            marker=request.marker,
            on_start=on_start,
            tap=lines.feed,
            partial=ask_for_partial,
            partial_grace_s=request.partial_grace_s,
        )

    def _exit(self, request: AgentRequest, said: Conclusion, ended: ProcessExit, words: str, *, cut: bool) -> AgentExit:
        with CappedFile(request.output_path) as output:
            output.write(said.text.encode(errors="surrogateescape"))
        settled = settle(said, code=ended.code, timed_out=ended.timed_out, last_words=last_line(words), cut=cut)
        result = records.read_result(request.result_path)
        return AgentExit(
            code=ended.code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=result,
            timed_out=ended.timed_out,
            partial=ended.partial,
            usage=said.usage or records.usage_in(result),
            session=said.session,
            fault=settled.fault,
            limited=settled.limited,
        )


def _left(invocation: Invocation) -> dict[Path, str]:
    found = {path: records.read_result(path) for path in invocation.leaves}
    return {path: content.decode(errors="replace") for path, content in found.items() if content is not None}
