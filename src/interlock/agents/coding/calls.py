"""One call of a coding agent, as far as it is the same for both ways of speaking to them: process, records, verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.agents import process_table, records
from interlock.agents.capped_file import CappedFile
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.dialect import Conclusion
from interlock.agents.coding.events import Event, Planned, Said, Thought, ToolUsed, Waits
from interlock.agents.coding.settling import last_line, settle
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.process import Dialogue, ProcessExit, run_process
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Fault, FileOutput, Limited, Observer

_LAST_WORDS: Final = 64_000
"""Bytes at the end of standard error in which an agent's last words are looked for."""


class Call:
    """A call that is being made: what it does is told, kept without secrets, and in the end judged."""

    def __init__(
        self, request: AgentRequest, observe: Observer, configured: Configured, inherit: Mapping[str, str]
    ) -> None:
        records.prepare(request)
        self._request = request
        self._configured = configured
        self._inherit = inherit
        self._redact = Redaction({**inherit, **configured.env})
        self._news = records.Transcript(request, observe, self._redact)
        self._waiting = ""

    def put(self, files: Mapping[Path, str]) -> None:
        """Files that the agent needs, written before it starts."""
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Waits):
                self._waiting = event.why
            elif isinstance(event, Said | Thought | ToolUsed | Planned):
                self._waiting = ""
            self._news(event.news())

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: bytes | Dialogue,
        tap: Callable[[bytes], None],
        grace_s: float,
    ) -> ProcessExit:
        request = self._request
        ended = await run_process(
            argv,
            cwd=request.workspace,
            env=agent_environment(
                self._inherit, {**request.env, **request.environment()}, {**env, **self._configured.env}
            ),
            stdin=stdin,
            stdout=records.stream_path(request),
            stderr=records.stderr_path(request),
            clean=self._redact.bytes if self._redact.needed else None,
            timeout_s=request.timeout_s,
            grace_s=grace_s,
            marker=request.marker,
            on_start=self._started,
            tap=tap,
            partial=self._ask_for_partial,
            partial_grace_s=request.partial_grace_s,
        )
        facts = {"code": ended.code, "timed_out": ended.timed_out, "duration_s": round(ended.duration_s, 3)}
        self._news(AgentNews("ended", facts))
        return ended

    def last_words(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return FileOutput(records.stderr_path(self._request)).tail(_LAST_WORDS).decode(errors="replace")

    def exit(self, said: Conclusion, ended: ProcessExit, *, code: int | None, cut: bool) -> AgentExit:
        """What the call comes to. `code`: its exit status, as far as it means something."""
        request = self._request
        if ended.spawn_error is not None:
            return AgentExit(code=None, spawn_error=self._redact(ended.spawn_error))
        with CappedFile(request.output_path) as output:
            output.write(self._redact(said.text).encode(errors="replace"))
        settled = settle(
            said,
            code=ended.code,
            timed_out=ended.timed_out and not ended.partial,
            waiting=said.waiting or self._waiting,
            last_words=last_line(self.last_words()),
            cut=cut,
        )
        result = records.read_result(request.result_path)
        return AgentExit(
            code=code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=result,
            timed_out=ended.timed_out,
            partial=ended.partial,
            usage=said.usage or records.usage_in(result),
            session=said.session,
            fault=self._fault(settled.fault),
            limited=self._limited(settled.limited),
        )

    def _fault(self, fault: Fault | None) -> Fault | None:
        return Fault(fault.reason, self._redact(fault.text)) if fault is not None else None

    def _limited(self, limited: Limited | None) -> Limited | None:
        return Limited(self._redact(limited.text), limited.reset_s) if limited is not None else None

    def _started(self, pid: int, pgid: int) -> None:
        self._news(AgentNews("started", {"pid": pid, "pgid": pgid, "started": process_table.started(pid)}))

    def _ask_for_partial(self) -> None:
        records.ask_for_partial(self._request)
        self._news(AgentNews("partial.requested", {"grace_s": self._request.partial_grace_s}))
