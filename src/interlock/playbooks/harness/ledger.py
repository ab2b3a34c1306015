"""The two documents that the engine owns, and the only code that writes them.

Theory of operation.  A step ends with one `commit`: the report first, run-state last, because run-state is what a new
run starts from.  Each write is compare-and-set against what was just read, and is followed by opening the file again
and reading back what it should say; a file that does not say it is written once more, then the run halts.

The files are people's as well.  Remarks stay wherever they were written, also when they come between reading and
writing: then the file is read again.  Somebody who changes where the task stands has the last word: the run stops, and
the next one starts from what run-state says.  The top of the report only shows what run-state says; a value that was
changed there while an agent worked becomes a row of evidence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from interlock.contracts import ArtifactClass
from interlock.documents import Document, DocumentState, EditedMeanwhile, stamp
from interlock.engine import Ending, Run, Status, Stop
from interlock.errors import DocumentInvalid, EngineFault, WorkspaceFailed
from interlock.playbooks.harness import run_report, run_state, templates
from interlock.playbooks.harness.artifacts import Inspection, inspect
from interlock.playbooks.harness.run_report import Fact, ReportRow, RunReport, evidence, report_path, stop
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.stages import TaskStatus
from interlock.playbooks.harness.task_file import Task, with_approval

MISSING = "Initialization verification failed \u2014 required artifacts missing"
OWN = ("harness/runs/",)
EDITS = 10
"""Times that a document is read again because somebody edited it in between."""

Says = Callable[[Document], bool]
"""Whether a document says what was written into it."""


@dataclass
class Ledger:
    """Where the task stands, and the documents that say so."""

    run: Run
    task: Task
    state: RunState
    shown: Mapping[str, str] | None = None
    """What the top of the report said when the agent that is at work was called."""

    @property
    def report(self) -> str:
        return report_path(self.task.task_id)

    # -- beginning

    async def begin(self, first_state: str | bytes | None, report_template: str, *, replaces: str = "") -> None:
        """Make the documents that are not there yet, and prove that both are (HN-37).

        Args:
            first_state: the text of the run-state that is to be made; None: it is there and stays as it is.
            replaces: digest of the run-state of another task, which is kept elsewhere.
        """

        async def made(current: Document) -> str:
            if current.state is not DocumentState.MISSING:
                return current.text
            return templates.first_report(report_template, self.state, self.task.title)

        await self._change(self.report, made, self._says_rows)
        if first_state is not None:
            await self._grow(self.state, ())
            try:
                await self._write(run_state.PATH, first_state, replaces, self._says_state(self.state))
            except EditedMeanwhile:
                raise Stop(Ending.stopped(f"{run_state.PATH} was written by somebody else meanwhile")) from None
        state, report = await self.run.read(run_state.PATH), await self.run.read(self.report)
        facts = {
            "run_state_exists": state.state is not DocumentState.MISSING,
            "run_report_exists": report.state is not DocumentState.MISSING,
            "non_empty": bool(state.text.strip() and report.text.strip()),
            "reopened": state.state is DocumentState.OK and report.state is DocumentState.OK,
        }
        self.run.note("initialisation.verified", **facts)
        if not all(facts.values()):
            raise Stop(Ending.failed(MISSING))

    # -- writing

    async def commit(self, state: RunState, *entries: ReportRow, at: str) -> None:
        """One transition: rows and top of the report, then run-state. A stop that is new gets a row of its own."""
        self._must_be_ours(await self.run.read(run_state.PATH))  # else the report would be ahead of it
        stops = (stop(state, at),) if state.stop_reason else ()
        await self._grow(state, (*entries, *stops), at)
        await self.save(state)

    async def record(self, *entries: ReportRow, at: str) -> None:
        """Rows of the report about something that leaves the task where it stands."""
        await self._grow(self.state, entries, at)

    async def save(self, state: RunState) -> None:
        """Run-state alone; everything that this run does not know of it stays as it is."""

        async def rewritten(current: Document) -> str:
            self._must_be_ours(current)
            return run_state.rewritten(current.text, state)

        await self._change(run_state.PATH, rewritten, lambda _text: self._says_state(state))
        self.state, self.shown = state, None

    async def _grow(self, state: RunState, entries: tuple[ReportRow, ...], at: str = "") -> None:
        async def grown(current: Document) -> str:
            found = await self._usable(current)
            edits = self.evidence(at, Fact.EDITED, *changed_top(self.shown, found.fields))
            return run_report.grown(current.text, state, self.task.title, (*edits, *entries))

        await self._change(self.report, grown, self._says_rows)

    async def _change(
        self, path: str, changed: Callable[[Document], Awaitable[str]], says: Callable[[str], Says]
    ) -> None:
        """Read a document, write it if it changes, and do both again when somebody edited it in between."""
        for _ in range(EDITS):
            current = await self.run.read(path)
            text = await changed(current)
            try:
                if text != current.text:
                    await self._write(path, current.encode(text), current.digest, says(text))
                return
            except EditedMeanwhile:
                continue
        raise Stop(Ending.stopped(f"{path} is being edited all the time"))

    async def _write(self, path: str, content: str | bytes, expect: str, says: Says) -> None:
        """Write, open again, verify; one repair, then the run halts (HN-18, HN-38)."""
        if path != run_state.PATH and not path.startswith(OWN):
            raise EngineFault(f"{path} is not the controller's to write", where=path)
        found = await self._write_once(path, content, expect, says)
        if not found.ok:
            self.run.note("repair", path=path, problem=found.cls)
            if found.cls not in (ArtifactClass.MISSING, ArtifactClass.EMPTY):
                await self.run.set_aside(path)
                found = replace(found, digest="")
            found = await self._write_once(path, content, found.digest, says)
        if not found.ok:
            raise WorkspaceFailed(found.complaint, where=path, remedy="See whether the folder can be written.")

    async def _write_once(self, path: str, content: str | bytes, expect: str, says: Says) -> Inspection:
        written = await self.run.write(path, content, expect=expect)
        document = await self.run.read(path)
        found = inspect(document, None)
        if found.ok and (problem := _unsaid(document, says)):
            found = Inspection(path, ArtifactClass.MALFORMED, problem, document.digest)
        if found.ok:
            self.run.note("write.verified", path=path, digest=written.digest, **found.answers())
        return found

    def _says_state(self, state: RunState) -> Says:
        return lambda document: run_state.parse(document, state.lifecycle) == state

    def _says_rows(self, text: str) -> Says:
        rows = run_report.parse_text(text, self.report).rows
        return lambda document: run_report.parse(document).rows == rows

    # -- what others did to them

    async def checkpoint(self) -> RunReport:
        """Before each dispatch: both documents are there now, on disk, or the run halts (HN-40..43)."""
        state, report = await self.run.read(run_state.PATH), await self.run.read(self.report)
        self.run.note("checkpoint", run_state=_answer(state), run_report=_answer(report))
        self._must_be_ours(state)
        found = await self._usable(report)
        self.shown = found.fields
        return found

    def _must_be_ours(self, document: Document) -> None:
        """Run-state still says what this run last wrote there, but for its notes; a stop reason may come from a bound
        of an earlier process, as long as no agent is at work."""
        if document.state is not DocumentState.OK:
            raise Stop(Ending.failed(MISSING))
        try:
            found = run_state.parse(document, self.state.lifecycle)
            same = found.position == self.state.position
            same = same and (self.shown is None or found.stop_reason == self.state.stop_reason)
        except DocumentInvalid:
            same = False
        if not same:
            raise Stop(
                Ending.stopped(
                    f"{run_state.PATH} was edited while the run worked; the next run starts from what it says"
                )
            )

    async def _usable(self, report: Document) -> RunReport:
        """The report, which is there and whose chains are whole; else run-state says why and the run halts."""
        if report.state is not DocumentState.OK:
            reason = MISSING
        else:
            try:
                return run_report.parse(report)
            except DocumentInvalid as error:
                reason = error.what
        await self.save(self.state.blocked(reason))
        raise Stop(Ending.failed(reason))

    # -- where a run stops, and where a step has brought the task

    async def block(self, reason: str, *entries: ReportRow, status: Status = Status.STOPPED, at: str = "") -> Ending:
        """Both documents say why the run stops where it stands."""
        await self.commit(self.state.blocked(reason), *entries, at=at or self.stamp())
        self.run.note("stage.blocked", stage=self.state.stage, reason=self.state.stop_reason)
        return Ending(status, self.state.stop_reason)

    async def move(self, state: RunState, *entries: ReportRow, at: str) -> None:
        """A step that brought the task somewhere: to a next stage, an approval stop, or its completion."""
        await self.commit(state, *entries, at=at)
        ways = {TaskStatus.AWAITING_APPROVAL: "stage.approval", TaskStatus.COMPLETE: "stage.complete"}
        self.run.note(ways.get(state.status, "stage.next"), stage=state.stage, run=state.run_id)

    # -- small things

    def evidence(self, at: str, kind: str, *findings: str) -> tuple[ReportRow, ...]:
        """Rows of evidence about the current stage."""
        return tuple(evidence(self.state, at, kind, finding) for finding in findings)

    def stamp(self) -> str:
        return stamp(self.run.now())

    async def record_in_task(self, gate: str, who: str, at: str) -> None:
        """Write an approval into the task file: only on a person's explicit word (HN-11)."""

        def approved(document: Document) -> str:
            return with_approval(document, gate, who, at) or document.text

        document = await self.run.read(self.task.path)
        if document.state is DocumentState.OK and with_approval(document, gate, who, at):
            await self.run.update(self.task.path, approved)
        else:
            self.run.warn(f"{self.task.path} has no field '{gate} Approved By'; the approval is in {run_state.PATH}")


def _unsaid(document: Document, says: Says) -> str:
    """Why a document does not say what was written; empty when it does."""
    try:
        return "" if says(document) else "it does not say what was written"
    except DocumentInvalid as error:
        return error.what


def changed_top(shown: Mapping[str, str] | None, found: Mapping[str, str]) -> Iterator[str]:
    """What somebody wrote into the top of the report, where it can only show what run-state says."""
    for name, value in (shown or {}).items():
        if name in run_report.SCALARS and found[name] != value:
            yield f"{name}: {found[name]}"


def _answer(document: Document) -> str:
    """Whether the file exists, as far as opening it shows; what cannot be determined is NO."""
    return "YES" if document.state is DocumentState.OK else "NO"
