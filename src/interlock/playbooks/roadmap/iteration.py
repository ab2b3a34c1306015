"""The hands of one iteration: calling agents and keeping the item's state, always in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from shlex import quote
from typing import Any

from interlock.contracts import TRANSIENT, Outcome, Reason
from interlock.documents import plain_parts
from interlock.engine import (
    Checks,
    NamedCommand,
    Quoted,
    Report,
    Run,
    Status,
    failure_context,
    fenced,
    pause,
    quoted,
)
from interlock.errors import PathRefused, WorkspaceFailed
from interlock.playbooks.roadmap.answers import FileNote, StepAnswer, read_answer
from interlock.playbooks.roadmap.briefs import Attempt, Known, Rules, dispatch_of
from interlock.playbooks.roadmap.decisions import (
    SOURCE_OF,
    AfterCall,
    Failure,
    QualityGate,
    Ruling,
    Source,
    Step,
    after_call,
)
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.forwarding import short_line
from interlock.playbooks.roadmap.ledger import Persisted, fingerprint, standing, transition

NO_STATUS = "answer has no Status; expected success | blocked | needs_revision"


class ItemBlocked(Exception):
    """The item cannot go on, whatever retries are left: an agent says so, or does not get ready."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class ItemEdited(Exception):
    """A person changed the item while it was worked on. What they wrote stands; the iteration is over."""


@dataclass
class Iteration:
    """One item on its way through the pipeline, and all that has come of it so far."""

    run: Run
    file: str
    place: str
    """The file's absolute path, for messages only."""
    known: Known
    """What is passed on to later steps; its item is the item as it was found."""
    item: Item
    """The item as it stands now."""
    checks: Checks
    """The item's commands, where the engine runs them."""
    rules: Rules = field(default_factory=Rules)
    gates: dict[QualityGate, bool] = field(default_factory=dict)
    """The verdicts of the present attempt."""
    failures: list[Failure] = field(default_factory=list)
    """What the present attempt failed by."""
    files: dict[str, str] = field(default_factory=dict)
    """Path to its line, for what the present attempt created or changed."""
    called: list[str] = field(default_factory=list)
    upcoming: str = ""
    """The next candidate, after the last change of state."""

    @property
    def attempt(self) -> int:
        return self.item.retries + 1

    def heed_settings(self) -> None:
        """Take what settings and options say now. Recorded: a replay keeps to it, and a resume obeys what changed."""
        now = Rules.of(self.run.settings, self.run.flags)
        self.rules = Rules.from_json(self.run.settle_once("rules", now.to_json()))
        commands = self.item.verification if self.rules.verify == "engine" else ()
        self.checks.commands = tuple(
            NamedCommand(f"verification-{number}", command, f"item {self.item.id} of {self.file}")
            for number, command in enumerate(commands, 1)
        )

    def begin_attempt(self) -> None:
        self.gates, self.failures, self.files = {}, [], {}

    def end_attempt(self) -> None:
        """A failed attempt joins the evidence that every later one gets."""
        ended = Attempt(self.attempt, tuple(self.files.values()), tuple(self.failures))
        self.known = replace(self.known, attempts=(*self.known.attempts, ended))

    def know(self, **more: Any) -> None:
        self.known = replace(self.known, **more)

    def rule(self, source: Source, ruling: Ruling) -> Ruling:
        """Take a ruling into the attempt."""
        self.gates |= ruling.gates
        self.failures += ruling.failures
        self.run.note(
            "verdict",
            item=self.item.id,
            attempt=self.attempt,
            source=source,
            gates=ruling.gates,
            passed=ruling.passed,
            failures=[failure.reason for failure in ruling.failures],
        )
        return ruling

    async def persist(self, changes: Mapping[str, Any]) -> None:
        """Change the item's state in the file, before whatever it announces; ItemEdited if it is not ours any more."""
        run, item = self.run, self.item
        facts = {"item": item.id, "fingerprint": fingerprint(item)}
        before, after = standing(item), standing(item, changes)
        run.note("item.state", **facts, before=before, after=after, persisted=False)
        change = partial(transition, place=self.place, item=item, changes=changes)
        what = {"item": item.id, "before": item.state(), "changes": dict(changes)}
        try:
            done = Persisted.from_json(await run.update(self.file, change, what=what))
        except WorkspaceFailed as error:
            raise WorkspaceFailed(
                f"{error.what}; item {item.id} stays {item.status}", where=error.where, remedy=error.remedy
            ) from error
        if done.edited is not None:
            run.note("item.edited", item=item.id, what=done.edited)
            raise ItemEdited(done.edited)
        run.note("item.state", **facts, before=before, after=after, persisted=True)
        self.item, self.upcoming = done.item, done.upcoming

    async def call(self, step: Step, *, attempt: int = 1, narrowed: Sequence[str] | None = None) -> Report:
        """One step by its agent. One that did not finish, wrote where it may not, or changed what somebody else changed
        meanwhile, is asked once more and goes on with its work; ItemBlocked when the pipeline cannot go on behind it.

        Behind an agent that did not do its part the process ends and the run stays open.  Whoever resumes it finds that
        call recorded, passes it over and makes the next one.
        """
        spec = dispatch_of(step, self.known, self.rules, attempt=attempt, narrowed=narrowed)
        asked_before = False
        while True:
            self.run.note("step", item=self.item.id, step=step, agent=spec.agent, attempt=attempt)
            happens = self.run.live
            report = await self.run.dispatch(spec)
            self.called.append(f"{SOURCE_OF[step]}#{attempt}")
            if report.foreign:
                self.run.note("roadmap.foreign_write", item=self.item.id, agent=spec.agent, paths=report.foreign)
            if report.ok:
                return report
            match self.run.decide(
                after_call, step, report.outcome, report.reason, asked_before, bool(report.conflicts)
            ):
                case AfterCall.GO_ON:
                    return report
                case AfterCall.BLOCK:
                    raise ItemBlocked(Failure(SOURCE_OF[step], _why(report)))
                case AfterCall.ASK_AGAIN:
                    asked_before = True
                    said = "\n\n".join(filter(None, (spec.failure, _remark(report))))
                    spec = replace(spec, failure=said, starts_from=None if report.accepted else report.work)
                case AfterCall.LEAVE_OPEN:
                    self._say_why(step, report, attempt)
                    if happens:
                        self._leave_open(step, report)
                    self.heed_settings()
                    again = dispatch_of(step, self.known, self.rules, attempt=attempt, narrowed=narrowed)
                    spec = replace(again, failure=spec.failure, starts_from=spec.starts_from)

    def _say_why(self, step: Step, report: Report, attempt: int) -> None:
        self.run.warn(f"{SOURCE_OF[step]} (item {self.item.id}, attempt {attempt}): {_why(report)}")
        if report.patch and not report.accepted:
            where = f"to take it over: git apply {quote(report.patch)}"
            self.run.warn(f"{SOURCE_OF[step]} (item {self.item.id}): its work is not in the tree; {where}")

    def _leave_open(self, step: Step, report: Report) -> None:
        again = f"To make the same call again: interlock resume {self.run.identity.run_id}"
        said = f"item {self.item.id}: {SOURCE_OF[step]}: {short_line(_why(report))}"
        pause(self.run, f"{said}. The item stays in progress. {again}", status=Status.FAILED)

    def changed_files(self, report: Report) -> dict[str, str]:
        """One line for each file that Implement reported or that really changed; differences are noted (RM-85)."""
        reported, refused = _sorted_out(read_answer(report.data).files)
        lacking = [path for path in report.changes if path not in reported]
        unseen = [path for path in reported if path not in report.changes]
        if lacking or unseen or refused:
            self.run.note(
                "evidence.mismatch",
                item=self.item.id,
                attempt=self.attempt,
                reported=list(reported),
                changed=report.changes,
                refused=refused,
            )
        lines = {path: _file_line(path, note, seen=path not in unseen) for path, note in reported.items()}
        return lines | {path: f"- `{path}` (changed; not reported by Implement)" for path in lacking}


def _sorted_out(files: Sequence[FileNote]) -> tuple[dict[str, FileNote], list[str]]:
    """Reported files by their plain path, and the paths that are refused: absolute, or out of the workspace."""
    known: dict[str, FileNote] = {}
    refused = []
    for file in files:
        try:
            known["/".join(plain_parts(file.path))] = file
        except PathRefused:
            refused.append(file.path)
    return known, refused


def _file_line(path: str, file: FileNote, *, seen: bool) -> str:
    unseen = "" if seen else "; no change of it was seen"
    return f"- `{path}` ({file.change}{unseen})" + (f": {file.note}" if file.note else "")


def _remark(report: Report) -> str:
    """What an agent is told when it is asked again."""
    if report.conflicts:
        before = (
            "While you worked, somebody else changed the same places. Below is what could not be merged: these files "
            "are in your tree as the others left them. Your changes to all other files are there. Work the rest in "
            "again, and keep what the others did."
        )
        return "\n\n".join([before, *(quoted(Quoted(path, text, "diff")) for path, text in report.conflicts.items())])
    if report.outcome is not Outcome.REVISE:
        return failure_context(report)
    answer = read_answer(report.data)
    own = "\n".join(f"- {text}" for text in (*answer.issues, *answer.findings, *answer.next_steps)) or "- (no remark)"
    return fenced(
        Quoted("Your remark", own), "You were asked before and said that you were not finished. Finish it now."
    )


def _why(report: Report) -> str:
    """Why a call leads no further, in the words that are stored with the item."""
    answer: StepAnswer = read_answer(report.data)
    match report.outcome, report.reason:
        case Outcome.BLOCKED, _:
            return f"blocked: {answer.reason}"
        case Outcome.REVISE, _:
            return f"not finished when asked again: {answer.reason}"
        case _, Reason.NO_VERDICT:
            return NO_STATUS
        case _, reason if reason in TRANSIENT:
            return f"dispatch failed: {reason}" + (f": {short_line(report.detail)}" if report.detail else "")
        case _:
            return "; ".join(dict.fromkeys(map(short_line, report.complaints))) or str(report.reason)
