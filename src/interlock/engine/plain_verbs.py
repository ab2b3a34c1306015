"""The verbs that decide, tell and measure, and those that run commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from interlock.engine import commands
from interlock.engine.document_verbs import DocumentVerbs
from interlock.engine.model import CommandResult, plain
from interlock.engine.recording import CODE_CHANGED
from interlock.engine.tables import Table, name_of, names_of, row_name
from interlock.engine.world import KEPT_OF_OUTPUT, CommandCall
from interlock.errors import Diverged
from interlock.telemetry import dispatch_rows

T = TypeVar("T")


class PlainVerbs(DocumentVerbs):
    """Decisions, events, clock, output, commands."""

    def decide(self, rule: Callable[..., T], *inputs: Any, named: Mapping[str, Any] | None = None) -> T:
        """Apply a table or pure function; what it was given and what it said are recorded.

        Args:
            named: the inputs as people know them (``{"security": "High"}``), where the rule's own words say less.
        """
        name = name_of(rule)
        slot = self.recall(name, {"rule": name, "inputs": plain(inputs)})
        result = rule(*inputs)
        value = plain(result)
        if slot.recorded:
            recorded = slot.value()["result"]
            if recorded == value:
                return result
            if self.options.accept_recorded and isinstance(result, StrEnum):
                return type(result)(recorded)
            raise Diverged(
                f"{name} at {slot.key} now says {value!r}; recorded is {recorded!r}",
                key=slot.key,
                remedy=CODE_CHANGED,
            )
        out = {"rule": name, "row": row_name(inputs)[:400], "result": value}
        told = dict(named) if named is not None else dict(zip(names_of(rule, inputs), inputs, strict=False))
        facts = {"inputs": plain(inputs), "named": plain(told), "table": isinstance(rule, Table)}
        slot.settle("decide", out, facts=facts)
        return result

    def note(self, event: str, **facts: Any) -> None:
        """Record an event of the playbook."""
        slot = self.recall("note", {"event": event, "facts": plain(facts)})
        if not slot.recorded:
            slot.settle(event, None, facts=plain(facts))

    def warn(self, text: str, **facts: Any) -> None:
        """Record something a person should know that does not stop the run."""
        self.note("warning", text=text, **facts)

    def now(self) -> datetime:
        slot = self.recall("now", {})
        if slot.recorded:
            return datetime.fromisoformat(slot.value())
        moment = self.world.now()
        slot.settle("now", moment.isoformat())
        return moment

    async def wait(self, seconds: float) -> None:
        """Let time pass, once: a replay does not wait again."""
        slot = self.recall("wait", {"seconds": seconds})
        if not slot.recorded:
            await self.world.sleep(seconds)
            slot.settle("wait", seconds)

    def new_id(self, prefix: str, length: int = 6) -> str:
        slot = self.recall("new_id", {"prefix": prefix, "length": length})
        if slot.recorded:
            return str(slot.value())
        value = f"{prefix}{self.world.draw(length)}"
        slot.settle("new_id", value)
        return value

    def say(self, text: str | bytes) -> None:
        """The playbook's own output: shown once, silent when it is replayed."""
        slot = self.recall("say", {"text": text if isinstance(text, str) else text.decode("utf-8", "replace")})
        if not slot.recorded:
            slot.settle("say", text)
            self._say(text)

    def telemetry(self) -> Sequence[dict[str, Any]]:
        """The facts of all dispatches so far."""
        slot = self.recall("telemetry", {})
        if slot.recorded:
            return list(slot.value())
        rows = dispatch_rows(self.journal.lines)
        slot.settle("telemetry", rows)
        return rows

    def settle_once(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the first process that came here was told by its options; later ones keep to it."""
        slot = self.recall(name, {})
        if slot.recorded:
            return dict(slot.value())
        slot.settle("option", dict(value), facts=value)
        return value

    async def unready(self, agents: Sequence[str] | None = None) -> Sequence[str]:
        """Why these agents cannot be called (all of the playbook, where none are named), one sentence for each cause;
        nothing is asked of a model."""
        slot = self.recall("unready", {})
        if slot.recorded:
            return list(slot.value())
        problems = list(await self.world.unready(self.playbook.agents if agents is None else agents))
        slot.settle("unready", problems)
        return problems

    # -- commands

    async def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float = 1800.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        name: str = "command",
        writes: bool = False,
        as_of: tuple[Any, Sequence[str]] | None = None,
    ) -> CommandResult:
        """Run a build, test or check over the workspace, confined like an agent (LY-09).

        What the project ignores (caches, build outputs) is kept, so that the next build is incremental; other files
        that it changed are in the result, and dropped.

        Args:
            writes: it is made to change files (a formatter, a generator): they are brought into the tree.
            as_of: a snapshot and files that are, for this command, as they were then.
        """
        # The names of the variables say what was asked; their values may be secrets and stay out of the journal.
        parts = {
            "argv": [self.world.redact(word) for word in argv],
            "cwd": cwd,
            "stdin": stdin,
            "env": sorted(env or {}),
            **({"as_of": [as_of[0], list(as_of[1])]} if as_of is not None else {}),
        }
        slot = self.recall(name, parts)
        if slot.recorded:
            return CommandResult.from_json(slot.value())
        call = CommandCall(tuple(argv), cwd, timeout_s, dict(env or {}), stdin)
        self.stop_here(slot.key, "command", lambda: call)
        self.materialize()
        if slot.intent("command.intent"):
            self.world.end_leftovers(f"{self.identity.run_id}:{slot.key}:", None, None)
        shown_argv = [self.world.redact(word) for word in call.argv]
        result = await commands.in_a_layer(self, slot, call, shown_argv, writes=writes, as_of=as_of)
        slot.settle("command", asdict(result), facts={"argv": shown_argv[:20]})
        return result

    async def inspect(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float = 300.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        name: str = "inspect",
        keep: int = KEPT_OF_OUTPUT,
    ) -> CommandResult:
        """What a command says that only looks (git plumbing, say). It is no effect: the run does not come into being
        by it, a dry run makes it too, and after a crash it is simply made again. Of a long output the result carries
        the last `keep` bytes."""
        shown_argv = [self.world.redact(word) for word in argv]
        slot = self.recall(name, {"argv": shown_argv, "cwd": cwd, "stdin": stdin})
        if slot.recorded:
            return CommandResult.from_json(slot.value())
        call = CommandCall(tuple(argv), cwd, timeout_s, dict(env or {}), stdin, keep)
        result = await self.world.inspect(call, marker=f"{self.identity.run_id}:{slot.key}:inspect")
        slot.settle("inspect", asdict(result), facts={"argv": shown_argv[:20]})
        return result
