"""A run: the verbs through which a playbook touches the world, and their replay.

Theory of operation.  Each verb computes its key and the digest of its inputs.  If the journal has the outcome for
that key, the verb returns it at once (*replay*); a different digest stops the run as diverged.  If not, the verb
really happens: whatever has an effect outside the run folder journals its intent first, then acts, then journals
the outcome, and only then does the playbook see it.  A verb may really happen only when every recorded outcome
has been consumed, those of open sibling members excepted (EN-06).

Scopes (`step`, `loop`, cluster members) live in a context variable, so that concurrent members each see their
own.  A scope belongs to one task: verbs used concurrently outside of a cluster are a fault, because their keys
would depend on time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from interlock.agents.runner import AgentNews
from interlock.documents import Document, EditedMeanwhile, Written
from interlock.engine import excerpts
from interlock.engine.definition import Playbook
from interlock.engine.dispatch import Dispatcher
from interlock.engine.excerpts import Edit
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line
from interlock.engine.keys import Keys, checked_name, difference, digest_of, sha256, shown
from interlock.engine.model import (
    APPROVE,
    REJECT,
    Changed,
    Choice,
    CommandResult,
    Delegation,
    Dispatch,
    GateDecision,
    Report,
    plain,
)
from interlock.engine.options import Before, Halted, Options
from interlock.engine.past import RESUME, Record
from interlock.engine.projection import Render, completed
from interlock.engine.scopes import Scope, current
from interlock.engine.sharing import shared_area, side_by_side
from interlock.engine.slot import Slot
from interlock.engine.tables import name_of, row_name
from interlock.engine.world import CommandCall, Merged, World
from interlock.errors import AgentFailed, Diverged, EngineFault
from interlock.telemetry import dispatch_rows
from interlock.workspace import Scope as PathScope

T = TypeVar("T")
KEY = "\u27e6key\u27e7"
"""Stands in a command's arguments for ``<run>/<key>``, the mark by which its probe finds the effect (EN-11)."""


CODE_CHANGED = "The playbook's code changed since this run was recorded: install the version that run.json names."


class Run:
    """One execution of a playbook, as its function sees it."""

    def __init__(
        self,
        playbook: Playbook,
        identity: Identity,
        journal: Journal,
        world: World,
        *,
        options: Options | None = None,
        say: Callable[[str | bytes], None] = lambda _text: None,
    ) -> None:
        self.identity = identity
        self.playbook = playbook
        self.options = options = options or Options()
        self.world = world
        self.journal = journal
        self.record = Record(journal.lines)
        self._keys = Keys()
        self._say = say
        self._open_members: set[str] = set()
        self._serial = asyncio.Semaphore(options.max_parallel or playbook.max_parallel)
        self.own_writes: dict[str, str | None] = {}
        """Path to digest of what the engine itself wrote in this process: never taken for an agent's change."""
        self.state_scope = PathScope(playbook.state(playbook.parse_inputs(identity.inputs)))
        self.on_live: Callable[[], None] = lambda: None
        """Called before a verb really happens; delivers what people sent meanwhile."""
        self.on_news: Callable[[str, AgentNews], None] = lambda _key, _news: None
        """Called with what a running agent does; for live views, not recorded."""
        self._dispatcher = Dispatcher(self)

    # -- what a playbook knows of itself

    @property
    def settings(self) -> Any:
        return self.options.settings

    @property
    def flags(self) -> Mapping[str, Any]:
        """Options of this process, such as a bounded stop; never part of a digest."""
        return self.options.flags

    @property
    def live(self) -> bool:
        """Whether all that is recorded has been replayed: the next verb will really happen. For bounded stops only
        (EN-21); nothing that is recorded may depend on it."""
        return self.record.replayed

    @property
    def parent(self) -> Delegation | None:
        return self.options.parent

    # -- scopes

    def adopt(self) -> None:
        """Make the current task the one that runs the playbook."""
        current.set(Scope("", None, asyncio.current_task()))

    @property
    def scope(self) -> Scope:
        scope = current.get()
        if scope.task is not asyncio.current_task():
            raise EngineFault(
                f"a verb was used in {scope.path or 'the playbook'!r} from a task that is not its own",
                where=scope.path,
                remedy="Run things side by side as named members of run.cluster(...).",
            )
        return scope

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A named part of the process; the verbs inside have its name in their keys."""
        outer = self.scope
        current.set(outer.child(checked_name(name), step=name))
        try:
            yield
        finally:
            current.set(outer)

    @contextmanager
    def outside_replay(self, name: str) -> Iterator[None]:
        """Verbs in here are recorded and never replayed: for what an option of this process asks for (EN-21)."""
        outer = self.scope
        processes = sum(line.event == "run.resumed" for line in self.journal.lines)
        current.set(Scope(f"{RESUME}{processes}/{checked_name(name)}", outer, outer.task, step=name))
        try:
            yield
        finally:
            current.set(outer)

    def loop(self, name: str, cap: int | None = None) -> Turns:
        """Turns 1, 2, ... up to the cap; `break` leaves early. Settings may lower a cap, never raise it."""
        declared = self.playbook.caps.get(name) if cap is None else cap
        if declared is None:
            raise EngineFault(f"loop {name!r} has no cap", where=self.scope.path)
        return Turns(self, checked_name(name), min(declared, self.identity.caps.get(name, declared)))

    # -- the record

    def _recall(self, name: str, parts: Mapping[str, Any]) -> Slot:
        """The key of the verb that is being used, with its recorded outcome or leave to really happen."""
        scope = self.scope
        key = self._keys.next(scope.path, name)
        digest = digest_of(parts)
        line = self.record.consume(key)
        if line is None:
            self._may_happen(key)
            return Slot(self, key, digest, parts, None, scope)
        if line.digest != digest:
            self._check_difference(key, line, parts)
        return Slot(self, key, digest, parts, line, scope)

    def _check_difference(self, key: str, line: Line, parts: Mapping[str, Any]) -> None:
        if self.options.accept_recorded:
            return
        what = difference(line.data.get("in", {}), shown(parts, self.world.redact))
        raise Diverged(
            f"the playbook asks at {key} for something else than what is recorded there ({what})",
            key=key,
            remedy=(
                f"The code or the inputs changed since run {self.identity.run_id} was recorded. Go on with what was "
                f"recorded: interlock resume {self.identity.run_id} --accept-recorded. Or start a new run."
            ),
        )

    def _may_happen(self, key: str) -> None:
        if key.startswith(RESUME):
            return
        other = self.record.first_unconsumed(lambda recorded: self._excused(recorded, key))
        if other is not None:
            raise Diverged(
                f"the playbook wants to do {key}, but {other} was already recorded and has not been asked for",
                key=key,
                other=other,
                remedy=CODE_CHANGED,
            )
        self.on_live()

    def _excused(self, recorded: str, key: str) -> bool:
        return any(under(recorded, member) and not under(key, member) for member in self._open_members)

    def check_consumed(self) -> None:
        """At the playbook's end: nothing recorded may be left over."""
        other = self.record.first_unconsumed(lambda _key: False)
        if other is not None:
            raise Diverged(
                f"the playbook ended, but {other} was recorded and has not been asked for",
                key="end",
                other=other,
                remedy=CODE_CHANGED,
            )

    def materialize(self) -> None:
        """The run comes into being with its first effect (EN-24)."""
        if self.journal.held:
            self.world.records.create(identity_bytes(self.identity))
            self.journal.release()

    def _effect(self) -> None:
        self.journal.tripwire("effect")

    def stop_here(self, key: str, verb: str, detail: Callable[[], Any]) -> None:
        if self.options.stop_before_work:
            raise Before(key, verb, detail())

    # -- documents

    async def read(self, path: str) -> Document:
        """A document of the workspace as it is now; a missing one is a value, not an error."""
        slot = self._recall("read", {"path": path})
        if slot.recorded:
            return Document.from_json(slot.value())
        document = await self.world.patiently(lambda: self.world.documents.read(path))
        slot.settle("read", document.to_json())
        return document

    async def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        """Write a document whole, atomically; with `expect`, only over a file that still has that digest (EN-23)."""
        raw = content.encode("utf-8") if isinstance(content, str) else content
        digest = sha256(raw)
        slot = self._recall("write", {"path": path, "content": digest})
        if slot.recorded:
            value = slot.value()
            if "conflict" in value:
                raise EditedMeanwhile(path, **value["conflict"])
            self.own_writes[path] = digest
            return Written(path, value["digest"], value["before"])
        self.materialize()
        facts = self.world.documents.facts(path)
        if (intent := slot.intent("write.intent")) and facts.digest == digest:
            written = Written(path, digest, intent.data["before"])
        else:
            if intent is None:
                slot.append("write.intent", {"path": path, "digest": digest, "before": facts.digest or ""})
            self._effect()
            try:
                written = self.world.documents.write(path, raw, expect=expect)
            except EditedMeanwhile as edit:
                slot.settle(
                    "write", {"conflict": {"expected_digest": edit.expected_digest, "found_digest": edit.found_digest}}
                )
                raise
        self.own_writes[path] = digest
        slot.settle("write", {"path": path, "digest": digest, "before": written.before})
        return written

    async def update(self, path: str, change: Callable[[Document], str], *, tries: int = 10) -> Document:
        """Read, change, write: repeated when a person edited the file in between, so that no edit is lost."""
        for _ in range(tries - 1):
            document = await self.read(path)
            try:
                await self.write(path, change(document), expect=document.digest)
                return document
            except EditedMeanwhile:
                continue
        document = await self.read(path)
        await self.write(path, change(document), expect=document.digest)
        return document

    async def look(self, path: str, view: Callable[[Document], Any]) -> Any:
        """What a pure function finds in a document as it is now, as JSON data. Only that is recorded: for documents
        that are large and looked at often."""
        return await excerpts.look(self, path, view)

    async def edit(self, path: str, what: Any, change: Callable[[Document], Edit], *, tries: int = 10) -> Any:
        """Change a document; `what` names the change (JSON data, for the digest), and what it told is returned.

        Repeated when a person edited the file in between, so that no edit is lost. The document is not recorded.
        """
        return await excerpts.edit(self, path, what, change, tries=tries)

    async def project(self, path: str, render: Render) -> None:
        """Bring a log up to date with the journal; `render` says what each line looks like there, or None."""
        slot = self._recall("project", {"path": path})
        if slot.recorded:
            return
        self.materialize()
        before = self.world.documents.read(path)
        log = completed(before.text, self.journal.lines, render)
        if log != before.text:
            self._effect()
            self.own_writes[path] = self.world.documents.write(path, log, expect=before.digest).digest
        slot.settle("project", len(log))

    async def list(self, folder: str, pattern: str = "*") -> list[str]:
        """The files of a folder, sorted, as workspace-relative paths."""
        slot = self._recall("list", {"folder": folder, "pattern": pattern})
        if slot.recorded:
            return list(slot.value())
        paths = await self.world.patiently(lambda: self.world.documents.list(folder, pattern))
        slot.settle("list", paths)
        return paths

    async def set_aside(self, path: str) -> str:
        """Move a file to the attic; returns where it is now."""
        slot = self._recall("set_aside", {"path": path})
        self.own_writes[path] = None
        if slot.recorded:
            return str(slot.value())
        self.materialize()
        intent = slot.intent("set_aside.intent")
        destination = (
            str(intent.data["destination"])
            if intent
            else self.world.documents.place_aside(path, f"{self.identity.run_id}/{slot.key}")
        )
        if intent is None:
            slot.append("set_aside.intent", {"path": path, "destination": destination})
        self._effect()
        self.world.documents.set_aside_to(path, destination)
        slot.settle("set_aside", destination)
        return destination

    async def snapshot(self) -> Any:
        """The workspace as it is now, to be asked later what `changes` there are since."""
        slot = self._recall("snapshot", {})
        if slot.recorded:
            return slot.value()
        self.materialize()
        async with self.world.working():
            token = await self.world.tree.snapshot()
        slot.settle("snapshot", token)
        return token

    async def changes(self, since: Any, *, besides: Sequence[str] = ()) -> Changed:
        """What changed since a snapshot, paths under these globs left out; the difference is kept in the run folder."""
        slot = self._recall("changes", {"since": since, "besides": list(besides)})
        if slot.recorded:
            return Changed.from_json(slot.value())
        left_out, tree = PathScope(tuple(besides)), self.world.tree
        async with self.world.working():
            now = await tree.snapshot()
            paths = [one.path for one in await tree.changes(since, now) if not left_out.covers(one.path)]
            patch = await tree.patch(since, now, paths) if paths else b""
        lines = sum(line[:1] in (b"+", b"-") and line[:4] not in (b"+++ ", b"--- ") for line in patch.split(b"\n"))
        kept = self.world.records.keep(slot.key, "changes.patch", patch)
        found = Changed(tuple(paths), lines, kept)
        slot.settle("changes", asdict(found))
        return found

    # -- decisions, events, clock

    def decide(self, rule: Callable[..., T], *inputs: Any) -> T:
        """Apply a table or pure function; what it was given and what it said are recorded."""
        name = name_of(rule)
        slot = self._recall(name, {"rule": name, "inputs": plain(inputs)})
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
        slot.settle("decide", out, facts={"inputs": plain(inputs)})
        return result

    def note(self, event: str, **facts: Any) -> None:
        """Record an event of the playbook."""
        slot = self._recall("note", {"event": event, "facts": plain(facts)})
        if not slot.recorded:
            slot.settle(event, None, facts=plain(facts))

    def warn(self, text: str, **facts: Any) -> None:
        """Record something a person should know that does not stop the run."""
        self.note("warning", text=text, **facts)

    def now(self) -> datetime:
        slot = self._recall("now", {})
        if slot.recorded:
            return datetime.fromisoformat(slot.value())
        moment = self.world.now()
        slot.settle("now", moment.isoformat())
        return moment

    async def wait(self, seconds: float) -> None:
        """Let time pass, once: a replay does not wait again."""
        slot = self._recall("wait", {"seconds": seconds})
        if not slot.recorded:
            await self.world.sleep(seconds)
            slot.settle("wait", seconds)

    def new_id(self, prefix: str, length: int = 6) -> str:
        slot = self._recall("new_id", {"prefix": prefix, "length": length})
        if slot.recorded:
            return str(slot.value())
        value = f"{prefix}{self.world.draw(length)}"
        slot.settle("new_id", value)
        return value

    def say(self, text: str | bytes) -> None:
        """The playbook's own output: shown once, silent when it is replayed."""
        slot = self._recall("say", {"text": text if isinstance(text, str) else text.decode("utf-8", "replace")})
        if not slot.recorded:
            slot.settle("say", text)
            self._say(text)

    def telemetry(self) -> Sequence[dict[str, Any]]:
        """The facts of all dispatches so far."""
        slot = self._recall("telemetry", {})
        if slot.recorded:
            return list(slot.value())
        rows = dispatch_rows(self.journal.lines)
        slot.settle("telemetry", rows)
        return rows

    # -- commands

    async def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float = 1800.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        probe: Sequence[str] | None = None,
        name: str = "command",
    ) -> CommandResult:
        """Run a build, test or git command. After a crash the probe says whether its effect is already there:
        it is if the probe exits 0 and prints something; without a probe the command runs again (EN-10)."""
        # The names of the variables say what was asked; their values may be secrets and stay out of the journal.
        parts = {
            "argv": [self.world.redact(word) for word in argv],
            "cwd": cwd,
            "stdin": stdin,
            "env": sorted(env or {}),
        }
        slot = self._recall(name, parts)
        if slot.recorded:
            return CommandResult.from_json(slot.value())
        mark = f"{self.identity.run_id}/{slot.key}"
        call = CommandCall(tuple(word.replace(KEY, mark) for word in argv), cwd, timeout_s, dict(env or {}), stdin)
        shown_argv = [self.world.redact(word) for word in call.argv]
        self.stop_here(slot.key, "command", lambda: call)
        self.materialize()
        marker = f"{self.identity.run_id}:{slot.key}:"
        if (area := shared_area()) is not None:
            area.commands = True
        async with self.world.working():
            result = None
            if slot.intent("command.intent"):
                self.world.end_leftovers(marker, None, None)
                if probe is not None:
                    question = CommandCall(
                        tuple(word.replace(KEY, mark) for word in probe), cwd, timeout_s, dict(env or {})
                    )
                    answer = await self.world.command(question, key=slot.key, marker=marker + "probe")
                    if answer.ok and answer.stdout.strip():
                        result = CommandResult(0, stdout=answer.stdout, probed=True)
            else:
                slot.append("command.intent", {"argv": shown_argv, "cwd": cwd})
            if result is None:
                self._effect()
                result = await self.world.command(call, key=slot.key, marker=marker + "1")
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
    ) -> CommandResult:
        """What a command says that only looks (git plumbing, say). It is no effect: the run does not come into being
        by it, a dry run makes it too, and after a crash it is simply made again."""
        shown_argv = [self.world.redact(word) for word in argv]
        slot = self._recall(name, {"argv": shown_argv, "cwd": cwd, "stdin": stdin})
        if slot.recorded:
            return CommandResult.from_json(slot.value())
        call = CommandCall(tuple(argv), cwd, timeout_s, dict(env or {}), stdin)
        result = await self.world.inspect(call, marker=f"{self.identity.run_id}:{slot.key}:inspect")
        slot.settle("inspect", asdict(result), facts={"argv": shown_argv[:20]})
        return result

    # -- people

    async def gate(
        self,
        name: str,
        question: str,
        *,
        choices: Sequence[Choice] = (APPROVE, REJECT),
        shows: Sequence[str] = (),
        answered: str | None = None,
    ) -> GateDecision:
        """Ask a person. The run is parked until there is a recorded answer, bound to what the gate showed.

        Args:
            answered: the choice that the person who started this process, or wrote its settings, made beforehand;
                it is recorded like any other decision, and the run is not parked.
        """
        parts = {
            "gate": name,
            "question": question,
            "choices": [choice.name for choice in choices],
            "shows": list(shows),
        }
        slot = self._recall(name, parts)
        if slot.recorded:
            return GateDecision(**slot.value())
        opening = slot.intent("gate.opened")
        digests = {path: self.world.documents.facts(path).digest or "" for path in shows}
        if opening is None or opening.data["digests"] != digests:
            if opening is None:
                self.stop_here(slot.key, "gate", lambda: parts)
            self.materialize()
            opening = self.journal.append(
                "gate.opened",
                key=slot.key,
                data={
                    "gate": name,
                    "question": question,
                    "choices": [asdict(choice) for choice in choices],
                    "digests": digests,
                    "inputs": slot.digest,
                    "opening": 1 if opening is None else opening.data["opening"] + 1,
                },
            )
        if answered is not None and (not choices or answered in {choice.name for choice in choices}):
            decision = GateDecision(answered, "given beforehand", self.world.now().isoformat(), digests=digests)
            slot.settle(
                "gate.decided",
                asdict(decision),
                facts={
                    "gate": name,
                    "opening": opening.data["opening"],
                    "choice": decision.choice,
                    "who": decision.who,
                    "note": "",
                },
            )
            return decision
        raise Halted(f"waiting for a decision: {question}", gate={"key": slot.key, **opening.data})

    def wait_for_budget(self, spent: float, budget: float) -> None:
        """Park the run because its money is used up (EN-45)."""
        self.materialize()
        reason = f"budget reached: {spent:.2f} of {budget:.2f} USD spent"
        self.journal.append("run.paused", data={"reason": reason, "spent_usd": spent, "budget_usd": budget})
        raise Halted(f"{reason}; go on with: interlock resume {self.identity.run_id} --budget USD")

    def pause(self, reason: str) -> None:
        """A bounded stop: the run stays open and goes on with the next resume (EN-21)."""
        self.materialize()
        self.journal.append("run.paused", data={"reason": reason})
        raise Halted(reason)

    # -- agents

    async def dispatch(self, spec: Dispatch) -> Report:
        """Call one agent and come back with what is proven about it."""
        slot = self._recall(spec.name, spec.parts())
        if slot.recorded:
            report = Report.from_json(slot.value(), self.world.records.objects.get)
            if (area := shared_area()) is not None and report.left:
                area.remember(report, slot.intents("dispatch.start")[0].data["snapshot"])
            return report
        async with self._serial:
            return await self._dispatcher.perform(spec, slot)

    async def cluster(
        self, name: str, members: Mapping[str, Callable[[], Awaitable[T]]], *, cap: int | None = None
    ) -> dict[str, T]:
        """Members side by side, at most `cap` at a time; their results in declared order."""
        for member in members:
            checked_name(member)
        limit = cap or self.options.max_parallel or self.playbook.max_parallel
        with side_by_side(len(members)) as area, self.step(name) if name else nullcontext():
            results = await self._run_members(members, limit)
            slot = self._recall("cluster", {"members": list(members)})
            if not slot.recorded:
                await self._dispatcher.examiner.clean_up(area, slot)
                slot.settle("cluster.end", None, facts={"members": list(members)})
        return results

    async def merge(self, report: Report) -> Merged:
        """Bring the changes of an isolated dispatch into the shared tree; a conflict leaves the tree as it was."""
        slot = self._recall("merge", {"dispatch": report.key})
        if slot.recorded:
            return Merged.from_json(slot.value())
        self.materialize()
        if not slot.intent("merge.intent"):
            slot.append("merge.intent", {"dispatch": report.key, "paths": list(report.changes)})
        async with self.world.working():
            self._effect()
            merged = await self.world.merge(report.base, report.theirs, report.changes, report.member)
        self.own_writes |= {path: self.world.documents.facts(path).digest for path in merged.paths}
        slot.settle("merge", merged.to_json(), facts={"dispatch": report.key, "conflicts": len(merged.conflicts)})
        return merged

    async def _run_members(self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int) -> dict[str, T]:
        base = self.scope
        places = {member: f"{base.path}/{member}" if base.path else member for member in members}
        if taken := self._open_members & set(places.values()):
            raise EngineFault(f"two members would have the same keys: {sorted(taken)[0]}", where=base.path)
        self._open_members |= set(places.values())
        slots = asyncio.Semaphore(cap)

        async def work(member: str, body: Callable[[], Awaitable[T]]) -> T:
            current.set(base.child(member))
            async with slots:
                try:
                    return await body()
                finally:
                    self._open_members.discard(places[member])

        tasks = {member: asyncio.ensure_future(work(member, body)) for member, body in members.items()}
        try:
            await settle_all(tasks.values())
        finally:
            self._open_members -= set(places.values())
        return {member: task.result() for member, task in tasks.items()}

    @asynccontextmanager
    async def time_limit(self, seconds: float, message: str) -> AsyncIterator[None]:
        """Bound the engine's own work, whether it waits or blocks; the clock decides nothing else here."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise AgentFailed(message) from None
        if loop.time() - started > seconds:
            raise AgentFailed(message)


async def settle_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait for all members. One that halts lets the others finish (their work is paid for); an error ends them."""
    members = list(tasks)
    pending = set(members)
    failure: BaseException | None = None
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                error = None if task.cancelled() else task.exception()
                if error is not None and not isinstance(error, Halted) and failure is None:
                    failure = error
                    for other in pending:
                        other.cancel()
    except asyncio.CancelledError:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending) if pending else None
        raise
    if failure is not None:
        raise failure
    for task in members:  # of several that halt, the first in declared order
        if not task.cancelled() and isinstance(halt := task.exception(), Halted):
            raise halt


def under(key: str, member: str) -> bool:
    return key.startswith(member) and key[len(member) : len(member) + 1] in ("/", "#")


class Turns:
    """The turns of a loop, each in a scope of its own (``fix-1``, ``fix-2`` ...), counted in the journal."""

    def __init__(self, run: Run, name: str, cap: int) -> None:
        self._run = run
        self._name = name
        self._cap = cap
        self._turn = 0
        self._outer = run.scope
        self._inner: Scope | None = None

    def __aiter__(self) -> Turns:
        return self

    async def __anext__(self) -> int:
        self._leave()
        if self._turn >= self._cap:
            raise StopAsyncIteration
        self._turn += 1
        self._inner = self._outer.child(f"{self._name}-{self._turn}", iteration=self._turn)
        current.set(self._inner)
        slot = self._run._recall("loop", {"loop": self._name, "turn": self._turn})
        if not slot.recorded:
            slot.settle("loop", self._turn, facts={"loop": self._name, "turn": self._turn, "cap": self._cap})
        return self._turn

    def _leave(self) -> None:
        if self._inner is not None and (now := current.get(None)) is not None and now.inside(self._inner):
            current.set(self._outer)
        self._inner = None

    def __del__(self) -> None:
        # `break` drops the iterator at once (CPython counts references): that is how a loop's scope ends early.
        self._leave()
