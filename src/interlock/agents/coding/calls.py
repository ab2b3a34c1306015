"""One call of a coding agent, as far as it is the same for both ways of speaking to them: process, records, verdict."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.agents import process_table, records
from interlock.agents.capped_file import CappedFile
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.dialect import Conclusion, StreamReader
from interlock.agents.coding.events import (
    Event,
    Planned,
    SessionBegan,
    Spent,
    Spoke,
    Thought,
    ToolState,
    ToolUsed,
    Waits,
)
from interlock.agents.coding.settling import last_line, settle
from interlock.agents.coding.stream import JsonLines
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.plain_files import set_aside
from interlock.agents.process import Dialogue, ProcessExit, run_process
from interlock.agents.runner import (
    AgentExit,
    AgentNews,
    AgentRequest,
    ClientNeeds,
    Fault,
    FileOutput,
    Limited,
    Observer,
    Usage,
)
from interlock.agents.surroundings import real_start
from interlock.contracts import Reason

_LAST_WORDS: Final = 64_000
"""Bytes at the end of standard error in which an agent's last words are looked for."""
_REFUSALS: Final = 5
_END_OF_TURN_S: Final = 1.0
"""How long an agent that has used up its allowance may take to report the end of its turn, if it was at that."""


class CodingCall:
    """A call that is being made: what it does is told, kept without secrets, and in the end judged."""

    def __init__(
        self,
        request: AgentRequest,
        observe: Observer,
        configured: Configured,
        inherit: Mapping[str, str],
        needs: ClientNeeds,
    ) -> None:
        self._request = request
        self._configured = configured
        self._inherit = inherit
        self._redact = Redaction({**inherit, **configured.env}).with_values(needs.secrets)
        self._news = records.Transcript(request, observe, self._redact)
        self._waiting = ""
        self._began = time.monotonic()
        self._session = ""
        self._purse = _Purse(request)
        self._refused: dict[tuple[str, str], str] = {}

    @property
    def program(self) -> str:
        """What is started."""
        if self._request.within is None:
            return self._configured.program
        return real_start(self._configured.program, agent_environment(self._inherit, {}, self._configured.env))

    def prepare(self, files: Mapping[Path, str], leaves: Iterable[Path] = ()) -> None:
        """Makes room in the folders of the call, and puts files there that the agent needs."""
        records.prepare(self._request)
        records.put(self._request.shared.absolute(), files)
        for path in leaves:
            set_aside(path)

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, SessionBegan):
                if event.session == self._session:
                    continue
                self._session = event.session
            elif isinstance(event, Waits):
                self._waiting = event.why
            elif isinstance(event, Spoke | Thought | ToolUsed | Planned):
                self._waiting = ""
            if isinstance(event, ToolUsed):
                self._remember_refusal(event)
            self._purse.hear(event)
            self._news(event.news())

    def _remember_refusal(self, used: ToolUsed) -> None:
        """What the agent was not let do, unless it could do it later after all."""
        what = used.name, used.subject
        if used.state is ToolState.REFUSED:
            self._refused[what] = used.refusal
        elif used.state is ToolState.DONE:
            self._refused.pop(what, None)

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
            timeout_s=max(0.0, request.timeout_s - (time.monotonic() - self._began)),
            grace_s=grace_s,
            marker=request.marker,
            on_start=self._started,
            tap=tap,
            partial=self._ask_for_partial,
            partial_grace_s=request.partial_grace_s,
            within=request.within,
            enough=self._purse.empty,
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
        set_aside(request.output_path)
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
        exhausted = said.exhausted or (self._purse.stopped and not said.finished)
        fault = Fault(Reason.AGENT_ERROR, self._purse.text) if exhausted else settled.fault
        return AgentExit(
            code=code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=self._redact.bytes(result) if result is not None else None,
            timed_out=ended.timed_out,
            partial=ended.partial,
            usage=said.usage or records.usage_in(result),
            session=said.session,
            fault=self._fault(fault),
            limited=None if exhausted else self._limited(settled.limited),
            exhausted=exhausted,
            refused=tuple(self._redact(text) for text in list(self._refused.values())[:_REFUSALS]),
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


def reread(request: AgentRequest, reader: StreamReader) -> bool:
    """Has a reader take the stream that was kept of a call; whether a line of it was too long to be read."""
    lines = JsonLines(lambda line: deque(reader.take(line), maxlen=0).clear())  # events were told when they came
    lines.feed(FileOutput(records.stream_path(request)).read())
    lines.close()
    return lines.cut


class _Purse:
    """Follows what a call costs, as far as the agent says so, and says when its allowance is used up.

    What an agent spends last may be its answer: then the end of its turn is there before we end it.
    """

    def __init__(self, request: AgentRequest) -> None:
        self._allowance = request.allowance
        self._working: set[str] = set()
        self._over = False
        self.empty: asyncio.Future[None] | None = None
        """Done when the agent is to be ended; None where nothing is limited."""
        if self._allowance is not None:
            self.empty = asyncio.get_running_loop().create_future()

    @property
    def stopped(self) -> bool:
        return self.empty is not None and self.empty.done()

    @property
    def text(self) -> str:
        allowance = self._allowance
        amounts = [f"{allowance.usd:g} USD"] if allowance and allowance.usd is not None else []
        amounts += [f"{allowance.tokens} tokens"] if allowance and allowance.tokens is not None else []
        return (
            f"the agent was stopped: it has used up its share of the budget ({', '.join(amounts) or 'its own limit'})"
        )

    def hear(self, event: Event) -> None:
        match event:
            case ToolUsed(call=call, state=ToolState.BEGAN):
                self._working.add(call)
                if self._over:
                    self._end()
            case ToolUsed(call=call):
                self._working.discard(call)
            case Spent(usage=usage):
                self._spend(usage)

    def _spend(self, usage: Usage) -> None:
        if self._allowance is None or self._over or not self._allowance.used_up(usage):
            return
        self._over = True
        if self._working:
            self._end()
        else:
            asyncio.get_running_loop().call_later(_END_OF_TURN_S, self._end)

    def _end(self) -> None:
        if self.empty is not None and not self.empty.done():
            self.empty.set_result(None)
