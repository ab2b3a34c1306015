"""How a run ends: its result in words, and the log that is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.documents import render_yaml
from interlock.engine import Ending, Status, changed_since, dispatch_facts
from interlock.playbooks.feature.calls import ClusterSummary, Returned
from interlock.playbooks.feature.clusters import Panel
from interlock.playbooks.feature.decisions import Concluded, Decided, conclusion
from interlock.playbooks.feature.findings import findings
from interlock.playbooks.feature.layout import FEATURES
from interlock.playbooks.feature.members import CT, V
from interlock.playbooks.feature.plan import TaskProgress
from interlock.playbooks.feature.work import Work

NONE = "—"


async def conclude(work: Work, panel: Panel) -> Ending:
    """DONE only when the reviewers are, every task is and the named commands pass; with flaws it is a degraded one."""
    against = await still_against(work)
    last, flaws = work.verification, list(work.flaws)
    if last is not None and last.verified is Decided.DEGRADED:
        flaws.append(f"{', '.join(last.lacking)} gave no verdict")
    elif last is not None and not last.verified.passed:
        flaws.append(f"verification did not pass ({last.verified.result}); see {work.at.folder}/verification")
    flaws += [f"{name} gave no verdict" for name in work.members.weighed_reviewers if not panel.reviews[name].usable]
    open_ones = await open_findings(work, panel)
    match work.run.decide(conclusion, panel.reviewed, against, flaws):
        case Concluded.DONE:
            return Ending.complete(report(work, f"DONE: feature {work.at.slug} is complete", open_ones))
        case Concluded.DEGRADED:
            first = f"DONE: feature {work.at.slug} is reviewed, but not everything is settled"
            return Ending.degraded("; ".join(flaws), report(work, first, (*flaws, *open_ones)))
        case Concluded.ERROR:
            said, because = unreviewed(work, panel)
            reason = "; ".join([*said, *against, *flaws])
            return Ending.failed(reason, report(work, f"ERROR: {reason}", open_ones), because)


def unreviewed(work: Work, panel: Panel) -> tuple[list[str], tuple[str, ...]]:
    """What the reviewers want and whose work that is; where they are content, the failed tasks are done again, or else
    the last verification is."""
    if panel.reviewed is Decided.DONE:
        failed = [work.tasks.listed[one].member for one in work.tasks.of(TaskProgress.FAILED)]
        last = {one.agent: one.key for one in work.calls.returns}
        return [], tuple(last[member] for member in failed or work.members.names(V)[:1])
    reviews = {name: panel.reviews[name] for name in work.members.weighed_reviewers}
    wanting = {name: one for name, one in reviews.items() if one.vote.against or not one.usable}
    verdicts = ", ".join(f"{name} {one.shown}" for name, one in wanting.items())
    keys = tuple(panel.round.heard[name].report.key for name in wanting)
    return [f"review: {panel.reviewed} ({verdicts})"], keys


async def still_against(work: Work) -> tuple[str, ...]:
    """What the engine itself knows against the result; commands run again if something else than the feature's own
    documents changed since they did."""
    if work.proofs:
        changed = await changed_since(work.run, work.proven_at, besides=(f"{FEATURES}/**",))
        if changed.paths:
            with work.run.step("proof"):
                await work.prove()
    return work.against


async def open_findings(work: Work, panel: Panel) -> tuple[str, ...]:
    """The findings that nobody settled: of the critics where the design was not revised again, and of the last
    review."""
    judges = [*(work.members.names(CT) if work.constraints else ())]
    judges += [name for name in work.members.weighed_reviewers if panel.reviews[name].usable]
    paths = {name: work.at.output(name) for name in judges if work.at.output(name) in work.calls.available}
    found = {name: findings((await work.run.read(path)).text) for name, path in paths.items()}
    return tuple(f"open, {name}: {one.severity}: {one.title}" for name, some in found.items() for one in some)


def report(work: Work, first: str, more: Sequence[str]) -> str:
    """The final lines: the result, what is not settled, what else is to be known, and what failed on the way."""
    lines = [" ".join(first.split()), *(f"- {one}" for one in more)]
    lines += [f"- to know: {one}" for one in dict.fromkeys(work.calls.remarks)]
    lines += [f"- failed on the way: {one}" for one in dict.fromkeys(work.calls.lasting)]
    return "\n".join(lines)


# -- telemetry and log


DISPATCHES = ("Agent", "Step", "Pattern", "Status", "Retries", "Failure", "Iteration", "Human", "Timestamp")
SUMMARIES = ("Step", "Cluster", "Dispatched", "Errors", "Outcome")


@dataclass(frozen=True)
class Telemetry:
    """What is known of the dispatches of a run; `facts`: the journal's own rows of them."""

    slug: str
    run_date: str
    returns: Sequence[Returned]
    clusters: Sequence[ClusterSummary]
    facts: Sequence[Mapping[str, Any]]

    @property
    def _dispatches(self) -> list[dict[str, Any]]:
        facts = {row["key"]: {"timestamp": row["ended_at"], "seconds": row["seconds"]} for row in self.facts}
        known = [(vars(one), facts.get(one.key, {"timestamp": "", "seconds": 0.0})) for one in self.returns]
        return [{name: one[name] for name in one if name != "key"} | more for one, more in known]

    @property
    def told(self) -> str:
        """In the form that the post-mortem agent gets."""
        head = f"## Dispatch Telemetry\n\n**Feature:** {self.slug}\n**Run Date:** {self.run_date}\n\n"
        summaries = _table(SUMMARIES, map(vars, self.clusters))
        return (
            f"{head}### Agent Dispatches\n\n{_table(DISPATCHES, self._dispatches)}\n\n"
            f"### Cluster Summaries\n\n{summaries}"
        )

    def log(self, outcome: str) -> str:
        """As the engine keeps it where no agent did: as YAML in a fence."""
        data = {
            "feature": self.slug,
            "run_date": self.run_date,
            "outcome": outcome,
            "dispatches": self._dispatches,
            "clusters": [dict(vars(one)) for one in self.clusters],
        }
        return f"# Run log: {self.slug}, {self.run_date}\n\n```yaml\n{render_yaml(data).rstrip()}\n```\n"


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_cell(row[name.lower()]) for name in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split()).replace("|", "\\|") or NONE


async def telemetry_of(work: Work) -> Telemetry:
    """All of this run so far, under a date that no earlier run has."""
    run, at, calls = work.run, work.at, work.calls
    taken = [*await run.list(at.at("agent-metrics"), "*.md"), *await run.list(at.at("post-mortems"), "*.md")]
    run_date = free_date(run.now().date().isoformat(), taken)
    return Telemetry(at.slug, run_date, calls.returns, calls.clusters, dispatch_facts(run))


async def keep_run_log(work: Work, telemetry: Telemetry, ending: Ending) -> None:
    """The engine's own run log, where no agent wrote one."""
    text = telemetry.log(Concluded.ERROR if ending.status is Status.FAILED else Concluded.DONE)
    await work.run.write(work.at.run_log(telemetry.run_date), text, anew=True)


def free_date(day: str, taken: Collection[str]) -> str:
    """The day, with `-2`, `-3` ... behind it for further runs; `taken`: names of run logs and post-mortems."""
    number, name = 1, day
    while any(one.rsplit("/", 1)[-1] in (f"{name}-run-log.md", f"{name}-post-mortem.md") for one in taken):
        number += 1
        name = f"{day}-{number}"
    return name
