"""The `scripted` runner: plays a scenario in place of agents, on real files.

It is for demos, for tests and for trying out a workflow.  What happens is decided by `scenario.react`; this module
does it, and keeps deadline and cancellation as every runner must.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from interlock.agents import player, records
from interlock.agents.capped_file import CappedFile
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.plain_files import read_plain, set_aside, write_plain
from interlock.agents.process import run_process
from interlock.agents.runner import (
    AgentExit,
    AgentNews,
    AgentRequest,
    ClientNeeds,
    FileOutput,
    Health,
    MemoryOutput,
    Observer,
    Usage,
)
from interlock.agents.scenario import RUN, Facts, Misbehaviour, Reaction, Scenario, react
from interlock.agents.surroundings import home_of, program_places

_HUGE: Final = 60 * 1000 * 1000
_RUN_SHOWN: Final = 4000


class ScriptedRunner:
    """An agent for every name, doing what the scenario says and otherwise what the contract asks for."""

    def __init__(
        self, scenario: Scenario | None = None, *, name: str = "scripted", inherit: Mapping[str, str] | None = None
    ) -> None:
        """Args:
        inherit: the caller's environment, for what `run` starts; that of this process by default.
        """
        self.name = name
        self._scenario = scenario or Scenario()
        self._inherit = dict(os.environ if inherit is None else inherit)
        self._redact = Redaction(self._inherit)
        self._uses: Counter[int] = Counter()

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        records.prepare(request)
        set_aside(_mark(request))
        news = records.Transcript(request, observe)
        reaction = react(self._scenario, Facts.of(request), request.contract, self._uses)
        if reaction.rule is not None:
            self._uses[reaction.rule] += 1
        if reaction.refused is not None:
            news(AgentNews("refused", {"reason": reaction.refused}))
            return AgentExit(code=None, spawn_error=reaction.refused)
        news(AgentNews("started", {"rule": reaction.rule}))
        playing = asyncio.create_task(self._play(request, reaction))
        try:
            timed_out = not await _ends_within(request.timeout_s, playing)
            in_grace = False
            if timed_out and request.partial_grace_s > 0:
                records.ask_for_partial(request)
                news(AgentNews("partial.requested", {"grace_s": request.partial_grace_s}))
                in_grace = await _ends_within(request.partial_grace_s, playing)
        finally:
            if not playing.done():
                playing.cancel()
                await asyncio.wait([playing])
        ended = AgentExit(code=-signal.SIGTERM) if playing.cancelled() else playing.result()
        news(AgentNews("ended", {"code": ended.code, "timed_out": timed_out}))
        return AgentExit(
            code=ended.code,
            output=ended.output,
            result=ended.result,
            timed_out=timed_out,
            partial=in_grace and ended.code == 0,
            usage=ended.usage,
        )

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        rules = len(self._scenario.rules)
        return Health(True, f"plays {rules} reaction{'' if rules == 1 else 's'}, no model is called")

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        """By the mark of a reaction that was played to its end; the exit of a single program of it says nothing."""
        mark = read_plain(_mark(request), records.RESULT_LIMIT)
        if mark is None:
            return None
        played = json.loads(mark)
        result = records.read_result(request.result_path)
        usage = records.usage_from(played["usage"]) or records.usage_in(result)
        return AgentExit(code=played["code"], output=FileOutput(request.output_path), result=result, usage=usage)

    def needs(self) -> ClientNeeds:
        """The interpreter that plays in a layer, and whatever reactions really run."""
        env = agent_environment(self._inherit, {}, {})
        programs = [sys.executable, *(rule.run[0] for rule in self._scenario.rules if rule.run)]
        shown = (place for program in programs for place in program_places(program, env))
        return ClientNeeds(shown=tuple(dict.fromkeys(shown)), home=home_of(env))

    async def _play(self, request: AgentRequest, reaction: Reaction) -> AgentExit:
        # No threads for the files: one that is cancelled goes on writing after the call has ended.
        await asyncio.sleep(reaction.delay_s)
        if reaction.misbehave is Misbehaviour.CRASH:
            await self._apply(request, _half(reaction))
            write_plain(request.output_path, reaction.message[: len(reaction.message) // 2].encode())
            return AgentExit(code=-signal.SIGKILL, output=FileOutput(request.output_path))
        if (problem := await self._apply(request, reaction)) is not None:
            return AgentExit(code=1, output=MemoryOutput(f"The scripted agent cannot write: {problem}\n".encode()))
        if reaction.misbehave is Misbehaviour.HANG:
            await asyncio.Event().wait()
        message, code = reaction.message, reaction.exit
        if reaction.run:
            ran, shown = await self._run(request, reaction)
            if ran != 0 and reaction.failed_message is None:
                code = ran
            elif ran != 0 and reaction.failed_message is not None:
                message = reaction.failed_message
            message = message.replace(RUN, shown)
        if reaction.result is not None:
            write_plain(request.result_path, reaction.result)
        with CappedFile(request.output_path) as output:
            for piece in _pieces(message, huge=reaction.misbehave is Misbehaviour.HUGE_OUTPUT):
                output.write(piece)
                await asyncio.sleep(0)
        result = records.read_result(request.result_path)
        write_plain(_mark(request), json.dumps({"code": code, "usage": asdict(reaction.usage or Usage())}).encode())
        return AgentExit(
            code=code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=result,
            usage=reaction.usage or records.usage_in(result),
        )

    async def _apply(self, request: AgentRequest, reaction: Reaction) -> str | None:
        """Does to the workspace what the reaction says, where it is; why that was not possible."""
        order = player.order(request.workspace, reaction.files, reaction.append, reaction.delete)
        if request.within is None:
            try:
                player.play(order)
            except OSError as error:
                return str(error)
            return None
        program = [sys.executable, "-I", "-S", "-c", inspect.getsource(player)]
        code, said = await self._program(request, program, request.folder / "player.log", order.encode())
        return None if code == 0 else said

    async def _run(self, request: AgentRequest, reaction: Reaction) -> tuple[int, str]:
        """Exit status and the end of the output of the program that a reaction really runs."""
        return await self._program(request, reaction.run, request.folder / "run.log", None)

    async def _program(
        self, request: AgentRequest, argv: Sequence[str], output: Path, stdin: bytes | None
    ) -> tuple[int, str]:
        ended = await run_process(
            argv,
            cwd=request.workspace,
            env=agent_environment(self._inherit, {**request.env, **request.environment()}, {}),
            stdin=stdin,
            stdout=output,
            stderr=records.stderr_path(request),
            clean=self._redact.bytes if self._redact.needed else None,
            timeout_s=None,
            marker=request.marker,
            within=request.within,
        )
        if ended.code is None:
            return 127, f"{ended.spawn_error}\n"
        shown = FileOutput(output).tail(_RUN_SHOWN).decode(errors="replace")
        return ended.code, shown


def _mark(request: AgentRequest) -> Path:
    return request.folder / "played.json"


def _half(reaction: Reaction) -> Reaction:
    """The first half of the files, the last of them torn."""
    whole = reaction.files[: (len(reaction.files) + 1) // 2]
    torn = [(path, content[: len(content) // 2]) for path, content in whole[-1:]]
    return Reaction(files=(*whole[:-1], *torn))


def _pieces(message: str, *, huge: bool) -> Iterator[bytes]:
    if huge:
        line = b"The scripted agent talks and talks and talks.\n" * 1000
        for _ in range(_HUGE // len(line) + 1):
            yield line
    yield message.encode()


async def _ends_within(seconds: float, task: asyncio.Task[AgentExit]) -> bool:
    done, _ = await asyncio.wait([task], timeout=seconds)
    return bool(done)
