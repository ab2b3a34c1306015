"""A gate: the question, what led to it, what it shows and what of that is new; the answer is bound to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from interlock.engine.folder import KnownRun
from interlock.engine.journal import Line
from interlock.engine.openings import document, shown_before, since_asked
from interlock.pages.changing import shown_changes
from interlock.pages.diffs import DiffFile, DiffSummary, between, changed_files
from interlock.pages.documents import ShownDocument, shown_document
from interlock.pages.prose import decoded
from interlock.pages.run import RunDispatch, listed_dispatches
from interlock.pages.shelf import Shelf, headline
from interlock.telemetry import WaitingGate, read_report


@dataclass(frozen=True)
class GateDocument:
    """A document that the decision is about."""

    now: ShownDocument
    changed: DiffFile | None
    """What is new in it since the gate showed it last; None where it is shown the first time, or is as before."""
    seen_before: bool


@dataclass(frozen=True)
class GateView:
    workspace: str
    run_id: str
    playbook: str
    headline: str
    gate: WaitingGate
    documents: tuple[GateDocument, ...]
    since: str
    """What was done since a person was last asked, in a line."""
    judged: tuple[RunDispatch, ...]
    """Verdicts and failures among it, the latest last."""
    code: DiffSummary
    papers: DiffSummary
    """Documents that agents changed and that the gate does not show."""
    besides: tuple[str, ...]
    """What else came into the tree, of which nothing can be shown."""
    cost: str

    @property
    def seen(self) -> str:
        """The digests of the bytes that this page shows, as its form carries them; empty where there is no file."""
        return json.dumps({one.now.path: one.now.digest for one in self.documents}, sort_keys=True)

    @property
    def changes_anything(self) -> bool:
        """Whether there is something to show beside the documents."""
        return bool(self.code.files or self.code.problem or self.papers.files or self.besides)

    @property
    def unseen(self) -> str:
        """What this page does not show of what there is, in a sentence; whoever decides is told."""
        lines, files = self.code.left_out + self.papers.left_out, self.code.unseen + self.papers.unseen
        said = [f"{lines} of the changed lines"] if lines else []
        said += [f"what is in {files} of the files"] if files else []
        said += [f"the rest of {one.now.path}" for one in self.documents if one.now.is_cut]
        said += ["perhaps more than that"] if self.code.problem else []
        return f"Not all is on this page: {', '.join(said)}." if said else ""

    @property
    def choices(self) -> tuple[Mapping[str, str], ...]:
        return self.gate.choices


JUDGED = 12


def gate_view(shelf: Shelf, known: KnownRun, waiting: WaitingGate) -> GateView:
    """The gate at which a run waits, with its documents as they are now."""
    report = read_report(known.folder)
    lines = known.folder.lines()
    since = since_asked(lines)
    keys = {line.key for line in since.judged}
    judged = [one for one in report.dispatches if one.facts["key"] in keys]
    changes = shown_changes(shelf, known, lines)
    papers = (one for one in changes.papers if one.path not in waiting.digests)
    return GateView(
        shelf.name,
        known.identity.run_id,
        known.identity.playbook,
        headline(known.identity, lines),
        waiting,
        tuple(_documents(known, lines, waiting)),
        since.said,
        tuple(listed_dispatches(judged[-JUDGED:], shelf.steps(known.identity), lines)),
        changes.code,
        DiffSummary(changed_files(papers)),
        changes.besides,
        "" if not report.totals.cost_usd else f"{report.totals.cost_usd:.2f} USD",
    )


def _documents(known: KnownRun, lines: Sequence[Line], waiting: WaitingGate) -> Iterator[GateDocument]:
    for path in waiting.digests:
        facts = document(known.folder, path)
        shown = shown_before(known.folder, lines, waiting.gate, waiting.digests, path)
        before = None if shown is None else decoded(shown)
        changed = None
        if before is not None and facts.content is not None and before != decoded(facts.content):
            changed = between(path, before, decoded(facts.content))
        yield GateDocument(shown_document(facts), changed, before is not None)
