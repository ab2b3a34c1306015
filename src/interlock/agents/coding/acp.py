"""Coding agents that speak the Agent Client Protocol: a session with one prompt per call."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from interlock.agents.coding.accounts import coding_needs
from interlock.agents.coding.acp_client import Authority
from interlock.agents.coding.acp_profiles import Profile
from interlock.agents.coding.acp_session import GREETING_S, AcpSession, Introduction, Met
from interlock.agents.coding.acp_stream import AcpReader
from interlock.agents.coding.asking import Configured, ask_of, at_hand
from interlock.agents.coding.calls import CodingCall, reread
from interlock.agents.coding.dialect import Ask
from interlock.agents.coding.trouble import CallTrouble
from interlock.agents.environment import agent_environment
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.runner import AgentExit, AgentRequest, ClientNeeds, Health, Observer


class AcpRunner:
    """One process and one session per call; what the agent asks in between is answered without a person."""

    def __init__(
        self, profile: Profile, configured: Configured, inherit: Mapping[str, str], *, grace_s: float = 5.0
    ) -> None:
        self.name = configured.name
        self._profile = profile
        self._configured = configured
        self._inherit = dict(inherit)
        self._grace_s = grace_s

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        call = CodingCall(request, observe, self._configured, self._inherit, self.needs())
        ask = ask_of(request, self._configured)
        opening = self._profile.opening(ask)
        call.prepare(opening.files)
        authority = Authority((request.workspace, request.shared), everything=request.confined)
        anew = ask_of(replace(request, resume=None), self._configured)
        session = AcpSession(self._profile, opening, ask, authority, call.tell, anew=anew)
        try:
            ended = await call.run(
                [call.program, *opening.args],
                env=opening.env,
                stdin=session,
                tap=session.transport.feed,
                grace_s=self._grace_s,
            )
        finally:
            await session.close()
        said = session.conclude()
        if ended.partial and (not said.finished or said.trouble is not None):
            ended = replace(ended, partial=False)
        # What the process does after the end of its turn, and how we end it, says nothing about the turn.
        return call.exit(said, ended, code=0 if said.finished else ended.code, cut=session.transport.cut)

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        reader = AcpReader(self._profile)
        cut = reread(request, reader)
        said = reader.conclude()
        if not said.finished:
            return None
        call = CodingCall(request, lambda _news: None, self._configured, self._inherit, self.needs())
        return call.exit(replace(said, session=said.session or request.resume), ProcessExit(code), code=0, cut=cut)

    def needs(self) -> ClientNeeds:
        env = agent_environment(self._inherit, {}, self._configured.env)
        return coding_needs(self._profile.name, self._configured.program, env, self._configured.env)

    async def ready(self) -> Health:
        return at_hand(self._configured, self._inherit, self.needs(), f"runners.{self.name}.program")

    async def health(self) -> Health:
        """Whether the program is there and returns a greeting; nothing is asked of a model."""
        program = self._configured.program
        env = agent_environment(self._inherit, {}, self._configured.env)
        found = shutil.which(program, path=env.get("PATH"))
        if found is None:
            remedy = f"Install it, or name its program: runners.{self.name}.program in interlock.toml."
            return Health(False, f"{program!r} is not found", remedy)
        met = await self._meet(found, env)
        if isinstance(met, Met):
            version = f"version {met.version}, " if met.version else ""
            return Health(True, f"{version}{found}")
        why = met.text if met is not None else "it ends without an answer"
        return Health(False, f"{found}: {why}", f"Run it by hand: {program}")

    async def _meet(self, program: str, env: Mapping[str, str]) -> Met | CallTrouble | None:
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
