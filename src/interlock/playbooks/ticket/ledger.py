"""The one writer of a ticket's state: progress.yaml, tasks.yaml and the log.

Each change is written before the work that it stands for.  A document that a person edited meanwhile is read again
and changed where it has to be, so that no edit is lost.  The log is a projection of the run's journal and is brought
up to date with every change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.contracts import ArtifactCheck, ArtifactClass, Reason
from interlock.documents import Document, DocumentState, FieldChanges, Key, edited_yaml, read_yaml, stamp
from interlock.engine import Checks, Dispatch, Ending, Proof, Report, Run, Stop, project
from interlock.errors import DocumentInvalid, EngineFault
from interlock.playbooks.ticket.analysis import CACHE
from interlock.playbooks.ticket.artifacts import graph_problem
from interlock.playbooks.ticket.briefs import CODE_WRITING, Briefs
from interlock.playbooks.ticket.documents import (
    MOST_BEFORE_ACCEPTANCE,
    Phase,
    RunStatus,
    checkpoint,
    home,
    iteration_entry,
    iteration_home,
    log_entry,
    metrics,
    minutes_between,
    moment_of,
    progress_line,
    read_progress,
)
from interlock.playbooks.ticket.graph import Graph, Task, read_graph


def stopped(text: str) -> Stop:
    """The ticket cannot go on; a person can mend that."""
    return Stop(Ending.stopped(f"ERROR: {text}. STOPPING."))


def checks_of(run: Run, ticket: str) -> Checks:
    """The user's build and test, which do not depend on the ticket's own documents."""
    return Checks(run, (), besides=(f"{home(ticket)}/**", CACHE))


class Ledger:
    """What is known of a ticket, as it stands on disk."""

    def __init__(self, run: Run, ticket: str, document: Document) -> None:
        self.run = run
        self.ticket = ticket
        self.path = f"{home(ticket)}/progress.yaml"
        self.head = ""
        """The commit on which everything is built, as far as is known."""
        self.checks = checks_of(run, ticket)
        self.told: list[Proof] = []
        """What was put into the log of the user's build and test."""
        self.stops_as = RunStatus.FAILED
        """What the state document says when the ticket stops."""
        self._take(document.text)

    def _take(self, text: str) -> None:
        self._text = text
        self.data: Mapping[str, Any] = read_progress(text, self.path, self.ticket)

    # -- where things are

    @property
    def iteration(self) -> int:
        return int(self.data["iteration_number"])

    @property
    def phase(self) -> Phase:
        return Phase(self.data["current_phase"])

    @property
    def status(self) -> RunStatus:
        return RunStatus(self.data["status"])

    @property
    def branch(self) -> str:
        return str(self.data["branch"])

    @property
    def folder(self) -> str:
        return iteration_home(self.ticket, self.iteration)

    @property
    def tasks_path(self) -> str:
        return f"{self.folder}/tasks.yaml"

    @property
    def report_path(self) -> str:
        return f"{self.folder}/review_report.yaml"

    @property
    def again(self) -> str:
        """The command that goes on with this ticket."""
        return f"interlock resume {self.run.identity.run_id}"

    def _place_of(self, number: int) -> int:
        """Index of an iteration's entry."""
        numbers = [entry.get("number") if isinstance(entry, dict) else None for entry in self.data["iterations"]]
        return numbers.index(number) if number in numbers else len(numbers)

    @property
    def place(self) -> int:
        return self._place_of(self.iteration)

    @property
    def entry(self) -> Mapping[str, Any]:
        entries: Sequence[Mapping[str, Any]] = self.data["iterations"]
        return entries[self.place] if self.place < len(entries) else {}

    @property
    def awaits_commit(self) -> bool:
        """Whether the current iteration was accepted; until the phase after it, its commit is not certain."""
        return self.entry.get("status") == "ACCEPTED" and self.phase is not Phase.DOC_REFRESH

    @property
    def fast_path(self) -> bool:
        """Whether the short cut may be taken; a document of before there was the choice allows it."""
        return self.data.get("fast_path") is not False

    @property
    def docs_written(self) -> Mapping[str, str]:
        """The documents that the Initializer wrote for this ticket, each with the digest of what it left."""
        known = self.data.get("docs_written")
        return known if isinstance(known, dict) else {}

    def listed(self, field: str) -> list[str]:
        """A list of texts that may not be there."""
        return [str(one) for one in self.data.get(field) or ()]

    def message_template(self) -> str:
        """The form of commit messages, as the settings had it when this commit was first tried."""
        return str(self.run.settle_once("message", {"template": self.run.settings.commit_message})["template"])

    # -- the log

    def log(self, event: str, **facts: Any) -> None:
        """An event of the ticket's log; it is in the file with the next change of the state."""
        self.run.note(f"orchestrator.{event}", iteration=self.iteration, step=self.data["current_step"], **facts)

    def tell(self, text: str, **facts: Any) -> None:
        """A line for whoever watches the run."""
        self.run.note("progress", text=text, **facts)

    async def publish(self) -> None:
        """Bring the log file up to date."""
        await project(self.run, f"{home(self.ticket)}/log.jsonl", log_entry(self.ticket))

    # -- progress.yaml

    async def change(self, changes: FieldChanges, *, now: datetime | None = None) -> datetime:
        """Write these values; the moment of the change."""
        now = now or self.run.now()
        whole = {**changes, ("last_updated",): stamp(now)}
        before = await self.run.update(self.path, lambda known: edited_yaml(known.require().text, self.path, whole))
        self._take(edited_yaml(before.text, self.path, whole))
        await self.publish()
        return now

    async def enter(self, phase: Phase, step: str, changes: FieldChanges | None = None) -> datetime:
        """Go on to a phase: the state document says so before anything of it happens."""
        now = self.run.now()
        whole = {**at(phase, step), ("last_checkpoint",): checkpoint(phase, step, self.head, stamp(now))}
        await self.change({**(changes or {}), **whole}, now=now)
        await self.run.write(f"{home(self.ticket)}/tmp/progress.bak.yaml", self._text)
        return now

    async def read_again(self) -> None:
        """See what a person changed since."""
        self._take((await self.run.read(self.path)).require().text)

    def new_iteration(self, number: int, now: datetime) -> FieldChanges:
        """The changes that begin an iteration."""
        entry = {**(self.entry if self.iteration == number else {}), **iteration_entry(number, stamp(now))}
        place = ("iterations", self._place_of(number))
        return {("iteration_number",): number, place: entry, ("status",): RunStatus.IN_PROGRESS.value}

    def ended(self, status: str, now: datetime) -> FieldChanges:
        """The changes that end an iteration."""
        took = minutes_between(moment_of(self.entry.get("started_at")), now)
        return {
            ("iterations", self.place, "status"): status,
            ("iterations", self.place, "completed_at"): stamp(now),
            ("metrics", "latest_iteration_cycle_minutes_estimate"): took,
        }

    async def stop(self, ending: Ending) -> Ending:
        """Put down how the ticket stopped, and end the run so."""
        self.log("stop", status=self.stops_as.value, reason=ending.reason)
        changes: dict[tuple[Key, ...], Any] = {("status",): self.stops_as.value}
        if self.data["metrics"].get("percent_complete") == 100:  # accepted, but not committed
            changes[("metrics", "percent_complete")] = MOST_BEFORE_ACCEPTANCE
        await self.change(changes)
        return ending

    # -- prompt.yaml and tasks.yaml

    async def prompt(self) -> Mapping[str, Any]:
        """What prompt.yaml says now; nothing where it cannot be used."""
        data = await data_of(self.run, f"{home(self.ticket)}/prompt.yaml")
        return data if isinstance(data, dict) else {}

    async def graph(self) -> Graph:
        """The task graph as it is on disk now."""
        text = (await self.run.read(self.tasks_path)).require("task graph").text
        if why := graph_problem(text, new=False):
            raise stopped(f"tasks.yaml: {why}")
        return read_graph(read_yaml(text, self.tasks_path))

    async def tasks_of(self, number: int) -> list[Task]:
        """The tasks of any iteration; none where its graph is not there, or cannot be used any more."""
        path = f"{iteration_home(self.ticket, number)}/tasks.yaml"
        document = await self.run.read(path)
        usable = document.state is DocumentState.OK and not graph_problem(document.text, new=False)
        return list(read_graph(read_yaml(document.text, path)).tasks.values()) if usable else []

    async def mark(self, marks: Mapping[str, Mapping[str, Any]]) -> Graph:
        """Write fields of tasks; the graph as it is then."""

        def change(document: Document) -> str:
            entries = read_yaml(document.require("task graph").text, self.tasks_path)["tasks"]
            places = {entry["id"]: number for number, entry in enumerate(entries)}
            fields = [(task, field, value) for task, said in marks.items() for field, value in said.items()]
            changes: FieldChanges = {("tasks", places[task], field): value for task, field, value in fields}
            return edited_yaml(document.text, self.tasks_path, changes)

        if marks:
            await self.run.update(self.tasks_path, change)
        return await self.graph()

    # -- metrics

    def counted(self, graph: Graph, *, minutes: float = 0.0, accepted: bool = False) -> FieldChanges:
        """The changes that put down how far the ticket is, after so many minutes more, and the first change of code:
        the earliest, once, with the time that led up to it."""
        known, done, groups = self.data["metrics"], len(graph.accepted), sum(map(graph.is_done, graph.order))
        elapsed = round(float(known.get("elapsed_minutes_estimate") or 0.0) + minutes, 2)
        now = metrics(len(graph.tasks), done, len(graph.order), groups, elapsed, accepted=accepted)
        moments = [moment_of(task.entry.get("first_code_change_at")) for task in graph.tasks.values()]
        if known.get("first_code_change_at") is None and (first := min(filter(None, moments), default=None)):
            lead = minutes_between(moment_of(self.data["created_at"]), first)
            now |= {"first_code_change_at": stamp(first), "lead_time_to_first_code_change_minutes": lead}
        return {
            **{("metrics", name): value for name, value in now.items()},
            ("iterations", self.place, "tasks_total"): len(graph.tasks),
            ("iterations", self.place, "tasks_accepted"): done,
        }

    async def count(self, changes: FieldChanges, rejected: Sequence[str] = (), now: datetime | None = None) -> None:
        """Put down how far the ticket is, and tell whoever watches."""
        await self.change(changes, now=now)
        self.tell(progress_line(self.data["metrics"]), rejected_tasks=list(rejected))

    # -- agents

    @property
    def briefs(self) -> Briefs:
        return Briefs(self.ticket, self.iteration, self.data)

    async def ask(self, spec: Dispatch) -> Report:
        """Call an agent and put down what was found of its work. Nobody who writes code is called before the gate."""
        if spec.agent in CODE_WRITING and not self.data["git_gate_completed"]:
            raise EngineFault(f"{spec.name} writes code and was called before the git gate", where="O4.5")
        report = await self.run.dispatch(spec)
        self.run.note(
            "artifact.check",
            agent=spec.name,
            artifacts=sorted(report.artifacts),
            outcome=report.outcome,
            complaints=report.complaints,
        )
        return report

    async def check_head(self, who: str) -> None:
        """People may commit while agents work: the ticket goes on from there. It stops where the next commit would come
        to lie on another branch, or on another history, than the work was begun on; nothing is reset."""
        now = (await self.run.repository.where()).head
        if now == self.head:
            return
        moved = f"HEAD moved from {self.head or '(no commit)'} to {now or '(no commit)'} while {who} worked"
        if self.data["git_gate_completed"] and (why := await self.gone(self.head)):
            raise stopped(f"{moved}: {why}. Nothing was reset. Put it right and go on with: {self.again}")
        self.run.warn(f"{moved}: somebody committed, and the ticket goes on from there")
        self.head = now

    async def gone(self, commit: str = "") -> str:
        """Why the repository is not on the ticket's branch with this commit in it any more; empty when it is."""
        if (await self.run.repository.where()).branch != self.branch:
            return f"{self.branch} is not checked out any more"
        if commit and not await self.run.repository.contains(self.branch, commit):
            return f"{self.branch} does not contain that commit any more"
        return ""


def at(phase: Phase, step: str) -> FieldChanges:
    return {("current_phase",): phase.value, ("current_step",): step}


def failure(agent: str, report: Report, path: str) -> str:
    """Why an agent's work does not count, in the words of the process."""
    name = path.rsplit("/", 1)[-1]
    flaw = flaw_of(report, path)
    if flaw is not None and flaw.cls is ArtifactClass.MALFORMED:
        return f"ERROR: {name}: {flaw.detail}"
    if flaw is not None:
        return f"ERROR: {agent} produced no {'plan' if name == 'plan.md' else name} at {path}. STOPPING."
    why = report.detail or "; ".join(report.complaints) or str(report.reason or report.outcome)
    return f"ERROR: {agent} failed: {why}. STOPPING."


def flaw_of(report: Report, path: str) -> ArtifactCheck | None:
    """What is wrong with this document, where that is why its author's work does not count."""
    decides = report.reason is Reason.CONTRACT_VIOLATION
    return next((found for found in report.flaws if found.path == path), None) if decides else None


async def data_of(run: Run, path: str) -> Any:
    """What a YAML document says now; None where there is none that can be read."""
    document = await run.read(path)
    try:
        return read_yaml(document.text, path) if document.state is DocumentState.OK else None
    except DocumentInvalid:
        return None


def digest_of(document: Document) -> str:
    return document.digest


async def files_digest(run: Run, paths: Iterable[str]) -> str:
    """One SHA-256 that tells whether any of these files changed."""
    lines = [f"{path} {await run.read(path, digest_of)}" for path in sorted(paths)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
