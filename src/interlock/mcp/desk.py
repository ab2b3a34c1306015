"""The workspace behind the tools: looking is done here, everything else by the command line, in its own process.

Nothing of a workspace is executed to look at it.  Only a playbook that is trusted is loaded, where its inputs have to
be known by their types, and it is read anew for every call: a server lives long, and files change.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from interlock.commanding import CommandLine, Reply, typed
from interlock.documents import Store
from interlock.engine.folder import HOME, KnownRun, find_run, known_runs
from interlock.engine.glances import Glance, glance, running
from interlock.engine.journal import Line
from interlock.engine.lifecycle import ending_of
from interlock.engine.objects import unpack
from interlock.errors import ConfigInvalid, Refused
from interlock.finding import Library
from interlock.mcp.results import (
    MOST,
    PAGE,
    SAID,
    KnownInput,
    KnownPlaybook,
    KnownPlaybooks,
    OpenGate,
    PlannedRun,
    SeenDispatch,
    SeenRun,
    SeenRuns,
    StartedRun,
    TextPage,
    WholeRun,
    WithheldPlaybook,
    cut,
    first,
    short,
)
from interlock.settings import load_settings
from interlock.telemetry import Dispatched, ReportContent, WaitingGate, harmless, markdown, read_report, waiting_gate

LAST: Final = 30
"""Dispatches that are shown of a run; its report has all of them."""
REPORT: Final = "report"


@dataclass(frozen=True)
class Desk:
    """One workspace, as the tools see it."""

    root: Path
    environ: Mapping[str, str]
    said: CommandLine

    @property
    def library(self) -> Library:
        """The playbooks that are here now; nobody can be asked to trust one."""
        return Library(self.root, self.environ)

    @property
    def elicits(self) -> bool:
        """Whether the person at the client may be asked at gates."""
        from interlock.playbooks import settings_model

        model = settings_model(self.library.tables())
        return load_settings(self.root, self.environ, model=model).mcp.gates == "elicit"

    # -- looking

    def playbooks(self, offset: int = 0, limit: int = 50) -> KnownPlaybooks:
        everything = self.library.listing()
        listed = [one for one in everything if not one.why_not]
        withheld = [one for one in everything if one.why_not]
        page = [
            KnownPlaybook(
                name=short(one.found.name),
                purpose=short(one.purpose),
                origin=one.found.origin.value,
                place=short(one.found.place),
                inputs=None
                if one.inputs is None
                else [
                    KnownInput(name=short(it.name), kind=short(it.kind), required=it.required, help=short(it.help))
                    for it in first(one.inputs)
                ],
            )
            for one in listed[offset : offset + limit]
        ]
        return KnownPlaybooks(
            playbooks=page,
            not_offered=[
                WithheldPlaybook(name=short(one.found.name), why=short(one.why_not)) for one in first(withheld)
            ],
            next_offset=offset + limit if len(listed) > offset + limit else None,
        )

    def runs(self, *, status: str | None, playbook: str | None, after: str | None, limit: int) -> SeenRuns:
        """A page of the runs, the latest first; older than the one that is named."""
        known = [one for one in reversed(known_runs(self.root)) if playbook in (None, one.identity.playbook)]
        if after is not None:
            ids = [one.identity.run_id for one in known]
            known = known[ids.index(find_run(self.root, after).identity.run_id) + 1 :]
        live, found = running(self.root), list[SeenRun]()
        for one in known:
            seen = seen_run(glance(one, live))
            if status in (None, seen.status):
                if len(found) == limit:
                    return SeenRuns(runs=found, next_after=found[-1].run_id)
                found.append(seen)
        return SeenRuns(runs=found, next_after=None)

    def find(self, name: str) -> KnownRun:
        return find_run(self.root, name)

    def show(self, name: str) -> WholeRun:
        known = self.find(name)
        lines, report, now = known.folder.lines(), read_report(known.folder), glance(known)
        waiting = waiting_gate(lines) if now.status == "waiting" else None
        ending = ending_of(lines, known.folder.objects)
        output = "" if ending is None else ending.output
        return WholeRun(
            run=seen_run(now),
            inputs={short(field): cut(str(value), SAID) for field, value in known.identity.inputs.items() if value},
            gate=None if waiting is None else self.gate(known, waiting),
            dispatches=[_dispatch(one) for one in report.dispatches[-LAST:]],
            totals=asdict(report.totals),
            documents=[short(path) for path in documents_of(known, lines, report)][:MOST],
            output=cut(output if isinstance(output, str) else output.decode("utf-8", "replace")),
        )

    def gate(self, known: KnownRun, waiting: WaitingGate) -> OpenGate:
        return OpenGate(
            name=short(waiting.gate),
            question=cut(waiting.question),
            choices={short(one["name"]): short(one["leads_to"]) for one in waiting.choices},
            shows=first(map(short, waiting.digests)),
            how_a_person_decides=list(self.commands(known.identity.run_id, waiting.names)),
        )

    def commands(self, run_id: str, names: Sequence[str]) -> Iterator[str]:
        """How a person decides, from any terminal; the run goes on at once."""
        here = f"interlock -C {shlex.quote(str(self.root))}"
        yield f"{here} show {run_id}"
        for name in names:
            match name:
                case "approve":
                    yield f"{here} approve {run_id} --resume"
                case "reject":
                    yield f'{here} reject {run_id} --note "what is to be changed" --resume'
                case _:
                    yield f"{here} answer {run_id} {shlex.quote(name)} --resume"
        if not names:
            yield f'{here} answer {run_id} "your words" --resume'

    def report(self, name: str, offset: int) -> TextPage:
        known = self.find(name)
        return page_of(known, REPORT, markdown(read_report(known.folder)), offset)

    def document(self, name: str, path: str, offset: int) -> TextPage:
        """A document of the run as it is now; nothing else of the workspace."""
        known = self.find(name)
        paths = documents_of(known, known.folder.lines(), read_report(known.folder))
        wanted = next((one for one in paths if path in (one, short(one))), None)
        if wanted is None:
            raise Refused(
                f"run {known.identity.run_id} has no document {short(path)!r}",
                expected=", ".join(map(short, first(paths, 10))) or "one of its documents; it has none yet",
                remedy="show_run lists them.",
            )
        found = Store(self.root, self.root / HOME / "attic").read(wanted)
        return page_of(known, wanted, found.require("Document").text, offset)

    # -- by the command line

    async def plan(self, playbook: str, inputs: Mapping[str, Any]) -> PlannedRun:
        words = await asyncio.to_thread(self.words, playbook, inputs)
        facts = done(await self.said(self.root, "plan", playbook, "--json", *words)).facts
        return PlannedRun(
            playbook=facts["playbook"],
            key=short(facts["key"]),
            run_id=facts["run_id"],
            stages=first(facts["stages"]),
            agents=first(facts["agents"]),
            calls=facts["calls"],
            caps=facts["caps"],
            commands=[short(one) for one in first(facts["commands"])],
            documents=[short(one) for one in first(facts["documents"])],
            next={name: cut(value, SAID) if isinstance(value, str) else value for name, value in facts["next"].items()},
        )

    async def start(self, playbook: str, inputs: Mapping[str, Any], more: Sequence[str]) -> StartedRun:
        words = await asyncio.to_thread(self.words, playbook, inputs)
        facts = done(await self.said(self.root, "run", playbook, "--detach", "--json", *more, *words)).facts
        run_id, status = str(facts["run_id"] or ""), str(facts["status"])
        return StartedRun(
            run_id=run_id,
            playbook=playbook,
            key=short(facts["key"] or ""),
            status=status,
            reason=cut(str(facts["reason"])),
            output=cut(str(facts["output"])),
            next=f"attend_run with run {run_id!r}" if status in ("running", "waiting") else f"show_run {run_id!r}",
        )

    async def cancel(self, name: str) -> Reply:
        return done(await self.said(self.root, "cancel", "--json", "--", self.find(name).identity.run_id))

    async def decide(self, run_id: str, gate: WaitingGate, choice: str, note: str, by: str) -> Reply:
        """Record what a person said at a gate as it was shown to them, and go on in the background."""
        verb = choice if choice in ("approve", "reject") else "answer"
        words = [verb, f"--shown={gate.shown}", f"--by={by}", "--detach", "--json"]
        words += [f"--note={note}"] if note.strip() else []
        return await self.said(self.root, *words, "--", run_id, *(() if verb == choice else (choice,)))

    def words(self, playbook: str, inputs: Mapping[str, Any]) -> list[str]:
        """What is said of the inputs, as words; a playbook that nobody trusts is refused before anything of it runs."""
        if playbook.startswith("-"):
            raise ConfigInvalid(f"there is no playbook {short(playbook)!r}", remedy="list_playbooks lists them.")
        found = self.library.load(playbook)
        return typed((*found.questions(found.inputs), *found.questions(found.flags)), inputs)


def done(reply: Reply) -> Reply:
    """The reply; `Refused` in the words of the command line where it did not do what it was asked for."""
    if reply.error is not None:
        raise Refused(reply.trouble)
    return reply


def seen_run(one: Glance) -> SeenRun:
    return SeenRun(
        run_id=one.run_id,
        playbook=short(one.playbook),
        key=short(one.key),
        status=one.status,
        how=short(one.how),
        started_at=one.started_at,
        last_at=one.last_at,
        seconds=round(one.seconds, 3),
        dispatches=one.dispatches,
    )


def documents_of(known: KnownRun, lines: Sequence[Line], report: ReportContent) -> list[str]:
    """The files of the workspace that a run asked about, wrote, or had from its agents."""
    asked = [path for line in lines if line.event == "gate.opened" for path in line.data["digests"]]
    written = [line.data["path"] for line in lines if line.event == "write.intent"]
    changed = [path for one in report.dispatches for path in one.changes]
    ends = [line.data["out"] for line in lines if line.event == "dispatch.end" and line.data.get("out")]
    made = [path for out in ends for path in unpack(out, known.folder.objects)["artifacts"]]
    return list(dict.fromkeys((*asked, *written, *made, *changed)))


def page_of(known: KnownRun, path: str, text: str, offset: int) -> TextPage:
    """One page of a text; it never ends inside of a line that would fit."""
    whole = harmless(text)
    end = min(len(whole), offset + PAGE)
    if end < len(whole) and (cut_at := whole.rfind("\n", offset, end)) > offset:
        end = cut_at + 1
    return TextPage(
        run_id=known.identity.run_id,
        path=short(path),
        offset=offset,
        total=len(whole),
        next_offset=end if end < len(whole) else None,
        text=whole[offset:end],
    )


def _dispatch(one: Dispatched) -> SeenDispatch:
    return SeenDispatch(
        step=short(one.facts["step"]),
        agent=short(one.facts["member"]),
        attempt=one.facts["attempt"],
        outcome=one.outcome,
        seconds=round(one.facts["seconds"], 3),
        complaints=[short(text) for text in one.complaints[:5]],
        changes=[short(path) for path in one.changes[:20]],
    )
