"""Coding agents that speak the Agent Client Protocol: a session with one prompt per call."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from interlock.agents import process_table, records
from interlock.agents.capped_file import CappedFile
from interlock.agents.coding.acp_client import Authority
from interlock.agents.coding.acp_profiles import Opening, Profile
from interlock.agents.coding.acp_session import GREETING_S, AcpSession, Introduction, Met
from interlock.agents.coding.asking import Configured, ask_of
from interlock.agents.coding.dialect import Ask, Conclusion
from interlock.agents.coding.events import Event
from interlock.agents.coding.settling import last_line, settle
from interlock.agents.coding.trouble import Trouble
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, FileOutput, Health, Observer

_LAST_WORDS: Final = 4_000


class AcpRunner:
    """One process and one session per call; what the agent asks in between is answered by the scope of its role."""

    def __init__(
        self, profile: Profile, configured: Configured, inherit: Mapping[str, str], *, grace_s: float = 5.0
    ) -> None:
        self.name = configured.name
        self._profile = profile
        self._configured = configured
        self._inherit = dict(inherit)
        self._grace_s = grace_s
        self._redact = Redaction({**self._inherit, **configured.env})

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        records.prepare(request)
        news = records.Transcript(request, observe, self._redact)
        ask = ask_of(request, self._configured)
        opening = self._profile.opening(ask)
        for path, text in opening.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")

        def tell(events: Iterable[Event]) -> None:
            for event in events:
                news(event.news())

        covers = request.covers or (ask.rules.covers if ask.rules else None)
        authority = Authority(request.workspace, covers, always=(request.result_path,))
        session = AcpSession(self._profile, opening, ask, request.brief, authority, tell)
        try:
            ended = await self._run(request, opening, session, news)
        finally:
            await session.close()
        said = session.conclude()
        facts = {"code": ended.code, "timed_out": ended.timed_out, "duration_s": round(ended.duration_s, 3)}
        news(AgentNews("ended", facts))
        if ended.spawn_error is not None:
            return AgentExit(code=None, spawn_error=self._redact(ended.spawn_error))
        return self._exit(request, said, ended, cut=session.transport.cut)

    async def health(self) -> Health:
        """Whether the program is there and returns a greeting; nothing is asked of a model."""
        program = self._configured.program
        env = agent_environment(self._inherit, {}, self._configured.env)
        found = shutil.which(program, path=env.get("PATH"))
        if found is None:
            remedy = (
                f"Install {self._profile.name}, or name its program: runners.{self.name}.program in interlock.toml."
            )
            return Health(False, f"{program!r} is not found", remedy)
        met = await self._meet(found, env)
        if isinstance(met, Met):
            version = f"version {met.version}, " if met.version else ""
            return Health(True, f"{version}{found}")
        why = met.text if met is not None else "it ends without an answer"
        return Health(False, f"{found}: {why}", f"Run it by hand: {program}")

    async def _meet(self, program: str, env: Mapping[str, str]) -> Met | Trouble | None:
        introduction = Introduction()
        with tempfile.TemporaryDirectory(prefix="interlock-greeting-") as place:
            folder = Path(place)
            ask = Ask("", folder, folder, args=self._configured.args)
            await run_process(
                [program, *self._profile.opening(ask).args],
                cwd=folder,
                env=env,
                stdin=introduction,
                stdout=folder / "out",
                stderr=folder / "err",
                timeout_s=GREETING_S,
                marker=f"greeting:{folder.name}",
                tap=introduction.transport.feed,
            )
        return introduction.met

    async def _run(
        self, request: AgentRequest, opening: Opening, session: AcpSession, news: records.Transcript
    ) -> ProcessExit:
        def on_start(pid: int, pgid: int) -> None:
            news(AgentNews("started", {"pid": pid, "pgid": pgid, "started": process_table.started(pid)}))

        def ask_for_partial() -> None:
            records.ask_for_partial(request)
            news(AgentNews("partial.requested", {"grace_s": request.partial_grace_s}))

        own = {**opening.env, **self._configured.env}
        return await run_process(
            [self._configured.program, *opening.args],
            cwd=request.workspace,
            env=agent_environment(self._inherit, {**request.env, **request.environment()}, own),
            stdin=session,
            stdout=records.stream_path(request),
            stderr=records.stderr_path(request),
            timeout_s=request.timeout_s,
            grace_s=self._grace_s,
            marker=request.marker,
            on_start=on_start,
            tap=session.transport.feed,
            partial=ask_for_partial,
            partial_grace_s=request.partial_grace_s,
        )

    def _exit(self, request: AgentRequest, said: Conclusion, ended: ProcessExit, *, cut: bool) -> AgentExit:
        with CappedFile(request.output_path) as output:
            output.write(said.text.encode(errors="surrogateescape"))
        words = FileOutput(records.stderr_path(request)).tail(_LAST_WORDS).decode(errors="replace")
        settled = settle(said, code=ended.code, timed_out=ended.timed_out, last_words=last_line(words), cut=cut)
        result = records.read_result(request.result_path)
        return AgentExit(
            # What the process does after the end of its turn, and how we end it, says nothing about the turn.
            code=0 if said.finished else ended.code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=result,
            timed_out=ended.timed_out,
            partial=ended.partial and said.finished and said.trouble is None,
            usage=said.usage or records.usage_in(result),
            session=said.session,
            fault=settled.fault,
            limited=settled.limited,
        )
