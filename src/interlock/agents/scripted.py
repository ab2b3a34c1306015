"""The `scripted` runner: plays a scenario in place of agents, on real files.

It is for demos, for tests and for trying out a workflow.  What happens is decided by `scenario.react`; this module
does it, and keeps deadline and cancellation as every runner must.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from interlock.agents import records
from interlock.agents.capped_file import CappedFile
from interlock.agents.environment import agent_environment
from interlock.agents.process import run_process
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, FileOutput, Health, MemoryOutput, Observer
from interlock.agents.scenario import RUN, Facts, Misbehaviour, Reaction, Scenario, react
from interlock.documents import inside
from interlock.errors import PathRefused

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
        self._uses: Counter[int] = Counter()

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        records.prepare(request)
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

    async def health(self) -> Health:
        rules = len(self._scenario.rules)
        return Health(True, f"plays {rules} reaction{'' if rules == 1 else 's'}, no model is called")

    async def _play(self, request: AgentRequest, reaction: Reaction) -> AgentExit:
        # No threads for the files: one that is cancelled goes on writing after the call has ended.
        await asyncio.sleep(reaction.delay_s)
        if reaction.misbehave is Misbehaviour.CRASH:
            apply(request.workspace, _half(reaction))
            request.output_path.write_text(reaction.message[: len(reaction.message) // 2], encoding="utf-8")
            return AgentExit(code=-signal.SIGKILL, output=FileOutput(request.output_path))
        try:
            apply(request.workspace, reaction)
        except (OSError, PathRefused) as error:
            return AgentExit(code=1, output=MemoryOutput(f"The scripted agent cannot write: {error}\n".encode()))
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
            request.result_path.write_bytes(reaction.result)
        with CappedFile(request.output_path) as output:
            for piece in _pieces(message, huge=reaction.misbehave is Misbehaviour.HUGE_OUTPUT):
                output.write(piece)
                await asyncio.sleep(0)
        result = records.read_result(request.result_path)
        return AgentExit(
            code=code,
            output=FileOutput(request.output_path, cut=output.cut),
            result=result,
            usage=reaction.usage or records.usage_in(result),
        )

    async def _run(self, request: AgentRequest, reaction: Reaction) -> tuple[int, str]:
        """Exit status and the end of the output of the program that a reaction really runs."""
        output = request.folder / "run.log"
        ended = await run_process(
            reaction.run,
            cwd=request.workspace,
            env=agent_environment(self._inherit, {**request.env, **request.environment()}, {}),
            stdin=None,
            stdout=output,
            stderr=records.stderr_path(request),
            timeout_s=None,
            marker=request.marker,
        )
        if ended.code is None:
            return 127, f"{ended.spawn_error}\n"
        shown = FileOutput(output).tail(_RUN_SHOWN).decode(errors="replace")
        return ended.code, shown


def apply(workspace: Path, reaction: Reaction) -> None:
    """Does to the workspace what the reaction says; PathRefused for a path that a link leads out of it."""
    for mode, contents in (("wb", reaction.files), ("ab", reaction.append)):
        for path, content in contents:
            place = inside(workspace, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open(mode) as file:
                file.write(content)
    for path in reaction.delete:
        inside(workspace, path).unlink(missing_ok=True)


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
