"""The one writer of a ticket's state: progress.yaml, tasks.yaml and the log.

Each change is written before the work that it stands for.  A document that a person edited meanwhile is read again
and changed where it has to be, so that no edit is lost.  The log is a projection of the run's journal and is brought
up to date with every change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock import engine
from interlock.documents import Document, EditedMeanwhile, Key
from interlock.engine import Checks, Ending, Proof, Run
from interlock.playbooks.ticket import problems
from interlock.playbooks.ticket.artifacts import graph_problem, task_place
from interlock.playbooks.ticket.documents import (
    Changes,
    edited,
    home,
    iteration_entry,
    iteration_home,
    log_entry,
    read_progress,
    read_yaml,
)
from interlock.playbooks.ticket.graph import TASK_MOVES, Graph, TaskStatus, read_graph
from interlock.playbooks.ticket.progress import (
    MOST_BEFORE_ACCEPTANCE,
    Metrics,
    Phase,
    RunStatus,
    check_move,
    check_status,
    moment_of,
    stamp,
)
from interlock.playbooks.ticket.project import CACHE


class Stop(engine.Stop):
    """The ticket stops here: how the run ends, and what its state document says from now on."""

    def __init__(self, ending: Ending, status: RunStatus = RunStatus.FAILED) -> None:
        super().__init__(ending)
        self.status = status


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
        self._take(document)

    def _take(self, document: Document) -> None:
        self._text, self._digest = document.text, document.digest
        self.data: Mapping[str, Any] = read_progress(document.text, self.path, self.ticket)

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
    def folder(self) -> str:
        return iteration_home(self.ticket, self.iteration)

    @property
    def tasks_path(self) -> str:
        return f"{self.folder}/tasks.yaml"

    @property
    def report_path(self) -> str:
        return f"{self.folder}/review_report.yaml"

    @property
    def place(self) -> int:
        """Index of the current iteration's entry."""
        numbers = [entry.get("number") if isinstance(entry, dict) else None for entry in self.data["iterations"]]
        return numbers.index(self.iteration) if self.iteration in numbers else len(numbers)

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

    # -- the log

    def log(self, event: str, **facts: Any) -> None:
        """An event of the ticket's log; it is in the file with the next change of the state."""
        self.run.note(f"orchestrator.{event}", iteration=self.iteration, step=self.data["current_step"], **facts)

    def tell(self, text: str, **facts: Any) -> None:
        """A line for whoever watches the run."""
        self.run.note("progress", text=text, **facts)

    async def publish(self) -> None:
        """Bring the log file up to date."""
        await self.run.project(f"{home(self.ticket)}/log.jsonl", log_entry(self.ticket))

    # -- progress.yaml

    async def change(self, changes: Changes, *, now: datetime | None = None) -> datetime:
        """Write these values; the moment of the change."""
        now = now or self.run.now()
        if ("status",) in changes:
            check_status(self.status, RunStatus(changes[("status",)]))
        whole = {**changes, ("last_updated",): stamp(now)}
        new = edited(self._text, self.path, whole)
        try:
            written = await self.run.write(self.path, new, expect=self._digest)
            self._text, self._digest = new, written.digest
            self.data = read_progress(new, self.path, self.ticket)
        except EditedMeanwhile:
            await self.run.update(self.path, lambda document: edited(document.require().text, self.path, whole))
            self._take(await self.run.read(self.path))
        await self.publish()
        return now

    async def enter(self, phase: Phase, step: str, changes: Changes | None = None, **facts: Any) -> datetime:
        """Go on to a phase: the state document says so before anything of it happens."""
        check_move(self.phase, phase)
        now = self.run.now()
        await self.change(
            {
                **(changes or {}),
                ("current_phase",): phase.value,
                ("current_step",): step,
                ("last_checkpoint",): {
                    "timestamp": stamp(now),
                    "git_head": self.head,
                    "phase": phase.value,
                    "step": step,
                    **facts,
                },
            },
            now=now,
        )
        await self.run.write(f"{home(self.ticket)}/tmp/progress.bak.yaml", self._text)
        return now

    async def read_again(self) -> None:
        """See what a person changed since."""
        self._take((await self.run.read(self.path)).require())

    def new_iteration(self, number: int, now: datetime) -> Changes:
        """The changes that begin an iteration."""
        entry = {**(self.entry if self.iteration == number else {}), **iteration_entry(number, stamp(now))}
        numbers = [old.get("number") for old in self.data["iterations"] if isinstance(old, dict)]
        place = numbers.index(number) if number in numbers else len(numbers)
        return {("iteration_number",): number, ("iterations", place): entry, ("status",): RunStatus.IN_PROGRESS.value}

    async def stop(self, stop: Stop) -> Ending:
        """Put down how the ticket stopped, and end the run so."""
        self.log("stop", status=stop.status.value, reason=stop.ending.reason)
        changes: dict[tuple[Key, ...], Any] = {("status",): stop.status.value}
        if self.data["metrics"].get("percent_complete") == 100:  # accepted, but not committed
            changes[("metrics", "percent_complete")] = MOST_BEFORE_ACCEPTANCE
        await self.change(changes)
        return stop.ending

    # -- tasks.yaml

    async def graph(self) -> Graph:
        """The task graph as it is on disk now."""
        self._tasks = (await self.run.read(self.tasks_path)).require("task graph")
        if why := graph_problem(self._tasks.text, new=False):
            raise Stop(Ending.stopped(f"ERROR: tasks.yaml: {why}. STOPPING."))
        return read_graph(read_yaml(self._tasks.text, self.tasks_path))

    async def mark(self, marks: Mapping[str, Mapping[str, Any]]) -> Graph:
        """Write fields of tasks; the graph as it is then."""
        if not marks:
            return await self.graph()

        def change(document: Document) -> str:
            data = read_yaml(document.require("task graph").text, self.tasks_path)
            for task, fields in marks.items():
                self._check(data["tasks"][task_place(data, task)], fields)
            return edited(
                document.text,
                self.tasks_path,
                {
                    ("tasks", task_place(data, task), field): value
                    for task, fields in marks.items()
                    for field, value in fields.items()
                },
            )

        new = change(self._tasks)
        try:
            await self.run.write(self.tasks_path, self._tasks.encode(new), expect=self._tasks.digest)
        except EditedMeanwhile:
            await self.run.update(self.tasks_path, change)
        return await self.graph()

    def _check(self, entry: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        if "status" in fields:
            before, after = TaskStatus(entry["status"]), TaskStatus(fields["status"])
            if after is not before and after not in TASK_MOVES[before]:
                raise problems.bad_document(
                    self.tasks_path, f"task {entry['id']} is {before}; it cannot become {after}"
                )

    # -- metrics

    def metrics(self, graph: Graph, *, elapsed: float | None = None, accepted: bool = False) -> Metrics:
        known = self.data["metrics"].get("elapsed_minutes_estimate") or 0.0
        return Metrics(
            tasks_total=len(graph.tasks),
            tasks_completed=len(graph.accepted),
            groups_total=len(graph.order),
            groups_completed=graph.groups_completed,
            elapsed=known if elapsed is None else elapsed,
            accepted=accepted,
        )

    def counted(self, metrics: Metrics) -> Changes:
        """The changes that put these metrics down."""
        return {
            **{("metrics", name): value for name, value in metrics.fields().items()},
            ("iterations", self.place, "tasks_total"): metrics.tasks_total,
            ("iterations", self.place, "tasks_accepted"): metrics.tasks_completed,
        }

    def first_change(self, graph: Graph) -> Changes:
        """The earliest change of code, put down once, with the time that led up to it."""
        if self.data["metrics"].get("first_code_change_at") is not None:
            return {}
        moments = [moment_of(task.entry.get("first_code_change_at")) for task in graph.tasks.values()]
        if not (known := [moment for moment in moments if moment is not None]):
            return {}
        first, created = min(known), moment_of(self.data["created_at"])
        lead = round(max(0.0, (first - created).total_seconds() / 60), 2) if created else None
        return {
            ("metrics", "first_code_change_at"): stamp(first),
            ("metrics", "lead_time_to_first_code_change_minutes"): lead,
        }
