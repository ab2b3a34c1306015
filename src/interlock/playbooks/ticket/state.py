"""A ticket under way: what its documents say, and how they are brought up to date.

`progress.yaml` is the state, `tasks.yaml` that of the tasks, `log.jsonl` tells what happened.  People read all of them
and may edit some fields; the engine alone writes them (TK-05).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

from interlock.engine.kept import edited, load, parsed, put, watch
from interlock.engine.run import Call, Command, Outcome, Proved, Report, Run, Stop
from interlock.playbooks.ticket import documents as doc
from interlock.playbooks.ticket import graph as tasks
from interlock.playbooks.ticket.analysis import artifacts
from interlock.playbooks.ticket.graph import Graph, Step
from interlock.playbooks.ticket.request import find_ticket

if TYPE_CHECKING:
    from interlock.playbooks.ticket.playbook import Inputs

OWN = ("prompts/", ".interlock/", "interlock.toml", ".gitignore", doc.CACHE)
"""What is interlock's, and no change of the person's that anything is decided about."""
MIXED = (
    "ERROR: Mixed artifact model detected. Migrate legacy task state into tasks.yaml and remove legacy derived "
    "artifacts before resume. STOPPING."
)
MOST_TOLD = 6000
"""Characters of a failure that the next attempt is told."""


class Ticket:
    """One ticket, in one run."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        self.run, self.inputs = run, inputs
        self.jira = find_ticket(inputs.request, inputs.jira)
        self.n = 0
        """The iteration, from 0."""
        self.begins = "INITIALIZED"
        """The phase at which the next iteration begins."""
        self.data: doc.Progress
        """progress.yaml, as last seen; there from I2 on."""
        self.begun = False
        self.now: Any = None
        """The time of the last stamp."""
        self.choices: dict[str, str] = {}
        """Uncommitted files about which the person has decided, and how."""
        self.stash = ""
        self.group_minutes = 0.0
        self.proved: list[Proved] = []
        """The person's commands, as they last ran on the work."""
        self.relevant = False
        """What the documentation describes has changed."""
        self.docs_left: dict[str, str | None] = {}
        """Documentation as the Initializer left it."""
        self._log: list[dict[str, Any]] = []
        self._others: list[Command] = []
        self._based: list[Command] = []
        watch(run, self.at("prompt.yaml"), doc.Prompt, doc.PEOPLES)
        watch(run, self.at("progress.yaml"), doc.Progress, doc.PEOPLES)
        run.watch(self.at("log.jsonl"))

    # --- where things are

    def at(self, name: str) -> str:
        return f"prompts/{self.jira}/{name}"

    def here(self, name: str) -> str:
        """In the folder of the present iteration."""
        return self.at(f"iteration_{self.n}/{name}")

    @property
    def primary(self) -> str:
        """What the Planner plans from (TK-78)."""
        return self.at(f"iteration_{self.n - 1}/review_report.yaml" if self.n else "prompt.yaml")

    @property
    def facts(self) -> dict[str, Any]:
        """What all briefs name."""
        build, test = self.data.build_command, self.data.test_command
        return {"jira": self.jira, "iteration": self.n, "build": build, "test": test}

    async def message(self) -> str:
        """Of the commit."""
        prompt, graph = await self.prompt(), await self.graph()
        summary = " ".join(prompt.refined_prompt.split())
        summary = summary if len(summary) <= 72 else summary[:73].rsplit(" ", 1)[0][:72]
        values = {"type": prompt.type, "kind": "feat" if prompt.type == "feature" else prompt.type, "jira": self.jira}
        values |= {"slug": prompt.slug, "summary": summary}
        values["tasks"] = f"Tasks: {', '.join(task.id for task in graph.tasks)}"
        return f"{doc.filled(self.run.settings.commit_message, values).strip()}\n"

    def stamp(self) -> str:
        self.now = self.run.now()
        return str(self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def minutes(self, since: str) -> float:
        return max(0.0, float((self.now - self.now.fromisoformat(since)).total_seconds()) / 60)

    # --- documents

    async def prompt(self) -> doc.Prompt:
        return await load(self.run, doc.Prompt, self.at("prompt.yaml"))

    async def read(self) -> None:
        """progress.yaml as it stands, with what people changed where they may."""
        self.begun = True
        self.data = await load(self.run, doc.Progress, self.at("progress.yaml"))

    async def legacy(self) -> str:
        """What an older model left beside these documents (TK-21)."""
        found = await self.run.look("artifacts", partial(artifacts, folder=self.at("")))
        return ", ".join(found["legacy"]) if found["tasks"] else ""

    async def resumes(self) -> None:
        await self.log("resume", "I0", phase=self.data.current_phase, at=self.data.current_step)

    async def graph(self) -> Graph:
        """tasks.yaml as it stands."""
        self.run.watch(self.here("tasks.yaml"), tasks.owned)
        return await load(self.run, Graph, self.here("tasks.yaml"))

    async def set(self, phase: str = "", step: str = "", head: str = "", **values: Any) -> None:
        """Bring progress.yaml up to date."""
        stamp, path = self.stamp(), self.at("progress.yaml")
        if self.data.status != "ACCEPTED":
            values = {"status": "IN_PROGRESS", **values}
        if phase:
            if phase != "TASK_EXECUTION":
                values |= {"current_task_id": None, "current_task_attempt": 0}
            where = {"timestamp": stamp, "git_head": head or self.data.last_checkpoint["git_head"]}
            point = {**where, "phase": phase, "step": step}
            values |= {"current_phase": phase, "current_step": step, "last_checkpoint": point}
        self.data = parsed(doc.Progress, await put(self.run, path, {**values, "last_updated": stamp}), path)

    async def end_iteration(self, status: str) -> None:
        """The iteration's own entry, and how long it took."""
        entry = {"status": status, "completed_at": self.stamp()}
        took = round(self.minutes(self.data.iterations[self.n].started_at), 1)
        metrics = {"latest_iteration_cycle_minutes_estimate": took}
        await self.set(iterations={self.n: entry}, metrics=metrics)

    async def mark(self, graph: Graph, changes: Mapping[str, Mapping[str, Any]]) -> Graph:
        """The graph with these fields of these tasks, on disk, too."""
        path, places = self.here("tasks.yaml"), [task.id for task in graph.tasks]
        values = {"tasks": {places.index(name): dict(some) for name, some in changes.items()}}
        return parsed(Graph, await put(self.run, path, values), path) if changes else graph

    async def log(self, event: str, step: str, **data: Any) -> None:
        """Tell it in log.jsonl, as soon as there is a ticket."""
        told = {"ts": self.stamp(), "event": f"orchestrator.{event}", "jira": self.jira, "iteration": self.n}
        self._log.append({**told, "step": step, "data": data})
        if self.begun:
            await self.run.change(self.at("log.jsonl"), doc.appended(self._log))
            self._log = []

    # --- metrics

    async def measure(self, graph: Graph, metrics: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Counts and outlook, by code, and shown (TK-142, TK-143, TK-146)."""
        values = {**tasks.figures(graph, self.group_minutes), **(metrics or {})}
        self.stamp()
        age = self.minutes(self.data.created_at)
        values["elapsed_minutes_estimate"] = round(age)
        first = min((task.first_code_change_at for task in graph.tasks if task.first_code_change_at), default=None)
        if first and not self.data.metrics["first_code_change_at"]:
            lead = max(0, round(age - self.minutes(first)))
            values |= {"first_code_change_at": first, "lead_time_to_first_code_change_minutes": lead}
        total, done = values["tasks_total"], values["tasks_completed"]
        counts = {"tasks_total": total, "tasks_accepted": done}
        await self.set(metrics=values, iterations={self.n: counts}, **more)
        left = values["remaining_minutes_estimate"]
        self.run.say(
            f"Progress: {values['percent_complete']}% | Completed: {done}/{total} tasks | "
            f"ETA: ~{'?' if left is None else left} min remaining"
        )

    # --- commands

    async def find_commands(self) -> dict[str, str]:
        """Lines of build and test as they are found; commands of the settings by other names count beside them."""
        limit = self.run.settings.command_timeout_s
        found = [replace(one, timeout_s=limit) for one in await self.run.commands()]
        self._others = [one for one in found if one.name not in ("build", "test")]
        return {one.name: one.line for one in found}

    async def commands(self, lines: Mapping[str, str] | None = None) -> list[Command]:
        """The person's commands, as progress.yaml has them now; a mended one has a before of its own (RUN-16)."""
        limit = self.run.settings.command_timeout_s
        lines = lines or {"build": self.data.build_command, "test": self.data.test_command}
        own = [Command(name, line, "progress.yaml", limit) for name, line in lines.items() if line != "none"]
        await self.run.baseline([one for one in (*own, *self._others) if one not in self._based])
        self._based = [*own, *self._others]
        return self._based

    def proposed(self, graph: Graph, step: Step) -> list[Command]:
        """What the graph wants to have run for a group, beside the person's commands (TK-132)."""
        policy, limit = graph.validation_policy, self.run.settings.command_timeout_s
        group = policy.groups.get(step.group, tasks.Commands())
        folder = group.working_directory or policy.working_directory or "."
        found = []
        for name, users in (("build", self.data.build_command), ("test", self.data.test_command)):
            line = getattr(group, f"{name}_command") or getattr(policy, f"{name}_command") or users
            if line != "none" and (line != users or folder != "."):
                placed = line if folder == "." else f"cd {quote(folder)} && {line}"
                found.append(Command(f"{step.group}-{name}", placed, f"group {step.group}", limit))
        return found

    def red(self, proved: Sequence[Proved], *, last: bool = True) -> list[str]:
        """What is red, as it is told; what was red before may stay so up to the last group (TK-166)."""
        return [*self.run.against([one for one in proved if last or one.word != "still red"]).values()]

    # --- agents and ends

    async def call(self, call: Call) -> Report:
        """A dispatch that has to come to something: what is unusable ends it, and is done again by a resume."""
        return await self.answered(await self.run.dispatch(call), self.run.scope)

    async def answered(self, report: Report, scope: str, *, scoped: bool = False) -> Report:
        if report.reason == "edited":
            raise edited(self.run, report.complaint)
        if report.ok or report.reason == "conflict" or (scoped and report.reason == "scope"):
            return report
        why = "; ".join(report.complaint.splitlines()) or report.reason
        raise await self.stop(f"{report.agent}: {why}", exit=5, again=scope)

    async def stop(self, reason: str, status: str = "FAILED", *, again: str = "", exit: int | None = None) -> Stop:
        """The documents say that it stopped; to be raised. A resume goes on at `again`, else in the present scope."""
        again = again or self.run.scope
        if self.begun:
            await self.set(status=status)
        anew = f"interlock run ticket --jira {self.jira} --fresh {quote(self.inputs.request)}"
        next = anew if status == "REJECTED" else f"interlock resume {self.run.id}"
        return Stop(self.ended(Outcome.stopped(reason, exit=exit, again=again, next=next)))

    def ended(self, outcome: Outcome) -> Outcome:
        """A kept stash is named at every end."""
        kept = f" Your changes are kept in the stash {self.stash!r}." if self.stash else ""
        return replace(outcome, reason=f"{outcome.reason}{kept}")


def weakened(proved: Sequence[Proved]) -> list[str]:
    """Changed checks and lost tests on which a green rests."""
    return list(dict.fromkeys(name for one in proved for name in one.weakened))
