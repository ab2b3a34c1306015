"""The `command` runner: any program that reads a brief and writes an answer is an agent (DESIGN 5)."""

from __future__ import annotations

import shutil
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.agents import process_table, records
from interlock.agents.environment import Redaction, agent_environment, looks_secret
from interlock.agents.process import run_process
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, ClientNeeds, FileOutput, Health, Observer
from interlock.agents.surroundings import beyond_system, home_of, hosts_of, named_places, program_places, real_start
from interlock.errors import ConfigInvalid

PLACEHOLDERS: Final = ("agent", "member", "step", "attempt", "model", "brief", "workspace")
"""What may stand in braces in `argv`; ``{model}`` is empty where none is set, a literal brace is doubled."""


class CommandRunner:
    """Starts `argv` for each call: the brief on standard input, the answer on standard output."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        inherit: Mapping[str, str],
        *,
        root: Path | None = None,
        grace_s: float = 5.0,
    ) -> None:
        """Refuses an `argv` that is empty or has an unknown placeholder.

        Args:
            env: the runner's own variables, from the settings.
            inherit: the caller's environment.
            root: where a program given as a relative path is looked for by `health`; a call looks in its workspace.
        """
        self.name = name
        if not argv or not argv[0]:
            raise ConfigInvalid(
                f"runner {name!r} has no program to start",
                where=f"runners.{name}.argv",
                expected="a list with the program and its arguments",
                found=repr(list(argv)),
            )
        self._argv = tuple(argv)
        self._env = dict(env)
        self._inherit = dict(inherit)
        self._root = root
        self._grace_s = grace_s
        self._redact = Redaction({**self._inherit, **self._env})
        for argument in self._argv:
            self._fill(argument, dict.fromkeys(PLACEHOLDERS, ""))

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        records.prepare(request)
        news = records.Transcript(request, observe, self._redact)

        def on_start(pid: int, pgid: int) -> None:
            news(AgentNews("started", {"pid": pid, "pgid": pgid, "started": process_table.started(pid)}))

        def ask_for_partial() -> None:
            records.ask_for_partial(request)
            news(AgentNews("partial.requested", {"grace_s": request.partial_grace_s}))

        ended = await run_process(
            self._command_line(request),
            cwd=request.workspace,
            env=agent_environment(self._inherit, {**request.env, **request.environment()}, self._env),
            stdin=request.brief.encode(),
            stdout=request.output_path,
            stderr=records.stderr_path(request),
            clean=self._redact.bytes if self._redact.needed else None,
            timeout_s=request.timeout_s,
            grace_s=self._grace_s,
            marker=request.marker,
            on_start=on_start,
            partial=ask_for_partial,
            partial_grace_s=request.partial_grace_s,
            within=request.within,
        )
        news(
            AgentNews(
                "ended", {"code": ended.code, "timed_out": ended.timed_out, "duration_s": round(ended.duration_s, 3)}
            )
        )
        if ended.spawn_error is not None:
            return AgentExit(code=None, spawn_error=self._redact(ended.spawn_error))
        result = self._result(request)
        return AgentExit(
            code=ended.code,
            output=FileOutput(request.output_path, cut=ended.stdout_cut),
            result=result,
            timed_out=ended.timed_out,
            partial=ended.partial,
            usage=records.usage_in(result),
        )

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        output, result = FileOutput(request.output_path), self._result(request)
        if not output.size and result is None:
            return None
        return AgentExit(code=code, output=output, result=result, usage=records.usage_in(result))

    def needs(self) -> ClientNeeds:
        """Its program, and what its command line and its own variables name; hosts by variables that name a service."""
        env = self._environment()
        named = (Path(argument) for argument in self._argv[1:] if argument.startswith("/"))
        files = (place for place in named_places(env, self._env) if place.is_file())
        return ClientNeeds(
            shown=tuple(dict.fromkeys((*program_places(self._argv[0], env), *beyond_system(named), *files))),
            home=home_of(env),
            hosts=hosts_of(value for name, value in env.items() if name.endswith("_BASE_URL")),
            secrets={name: value for name, value in self._env.items() if looks_secret(name)},
        )

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        program = self._argv[0]
        env = self._environment()
        looked_for = str(self._root / program) if self._root is not None and "/" in program else program
        found = shutil.which(looked_for, path=env.get("PATH"))
        if found is None:
            return Health(False, f"{program!r} is not found", f"Install it, or correct runners.{self.name}.argv.")
        return Health(True, f"starts {found}")

    def _environment(self) -> dict[str, str]:
        return agent_environment(self._inherit, {}, self._env)

    def _result(self, request: AgentRequest) -> bytes | None:
        result = records.read_result(request.result_path)
        return self._redact.bytes(result) if result is not None else None

    def _command_line(self, request: AgentRequest) -> list[str]:
        values = {
            "agent": request.agent,
            "member": request.member,
            "step": request.step,
            "attempt": str(request.attempt),
            "model": request.model or "",
            "brief": str(request.brief_path),
            "workspace": str(request.workspace),
        }
        program, *arguments = (self._fill(argument, values) for argument in self._argv)
        return [program if request.within is None else real_start(program, self._environment()), *arguments]

    def _fill(self, argument: str, values: Mapping[str, str]) -> str:
        """The argument with its placeholders replaced; values are never looked into for placeholders."""
        try:
            pieces = list(string.Formatter().parse(argument))
        except ValueError as error:
            raise self._not_usable(f"unbalanced braces in {argument!r} ({error})", argument) from error
        filled = ""
        for literal, field, spec, conversion in pieces:
            filled += literal
            if field is None:
                continue
            if field not in values or spec or conversion:
                raise self._not_usable(f"unknown placeholder {{{field}}}", argument)
            filled += values[field]
        return filled

    def _not_usable(self, what: str, argument: str) -> ConfigInvalid:
        return ConfigInvalid(
            f"runner {self.name!r}: {what}",
            where=f"runners.{self.name}.argv",
            expected="one of " + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS),
            found=repr(argument),
            remedy="Write {{ and }} for literal braces.",
        )
