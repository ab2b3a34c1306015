"""How a run ends: its result in words, and the log that is kept of it."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.engine import Ending, Status
from interlock.playbooks.feature.clusters import BLOCKING, Panel
from interlock.playbooks.feature.crew import Crew
from interlock.playbooks.feature.decisions import Concluded, Reviewed, Verified, conclusion
from interlock.playbooks.feature.findings import findings
from interlock.playbooks.feature.layout import CRITICS, FEATURES, V_BUILD
from interlock.playbooks.feature.run_log import free_date, run_log


async def conclude(crew: Crew, panel: Panel) -> Ending:
    """DONE only when the reviewers are, every task is and the named commands pass; with flaws it is a degraded one."""
    against = await still_against(crew)
    flaws = list(crew.flaws)
    if crew.verified is Verified.DEGRADED:
        flaws.append(f"{', '.join(crew.unverified)} gave no verdict")
    elif crew.verified is not None and not crew.verified.passed:
        flaws.append(f"verification did not pass ({crew.verified.result}); see {crew.at.folder}/verification")
    flaws += [f"{name} gave no verdict" for name in BLOCKING if not panel.reviews[name].said.usable]
    open_ones = await open_findings(crew, panel)
    match crew.run.decide(conclusion, panel.reviewed, against, flaws):
        case Concluded.DONE:
            return Ending.complete(report(crew, f"DONE: feature {crew.at.slug} is complete", open_ones))
        case Concluded.DEGRADED:
            first = f"DONE: feature {crew.at.slug} is reviewed, but not everything is settled"
            return Ending.degraded("; ".join(flaws), report(crew, first, (*flaws, *open_ones)))
        case Concluded.ERROR:
            said, because = unreviewed(crew, panel)
            reason = "; ".join([*said, *against, *flaws])
            return Ending.failed(reason, report(crew, f"ERROR: {reason}", open_ones), because)


def unreviewed(crew: Crew, panel: Panel) -> tuple[list[str], tuple[str, ...]]:
    """What the reviewers want and whose work that is; where they are content, the failed tasks are done again, or else
    the last verification is."""
    if panel.reviewed is Reviewed.DONE:
        members = [crew.tasks[one].member for one, state in crew.task_state.items() if state.failed] or [V_BUILD]
        last = {one.agent: one.key for one in crew.returns}
        return [], tuple(last[member] for member in members)
    wanting = [name for name in BLOCKING if panel.reviews[name].wants_change or not panel.reviews[name].said.usable]
    verdicts = ", ".join(f"{name} {panel.reviews[name].shown}" for name in wanting)
    keys = tuple(panel.heard[name].report.key for name in wanting)
    return [f"review: {panel.reviewed} ({verdicts})"], keys


async def still_against(crew: Crew) -> tuple[str, ...]:
    """What the engine itself knows against the result; commands run again if something else than the feature's own
    documents changed since they did."""
    if crew.proofs:
        changed = await crew.run.changes(crew.proven_at, besides=(f"{FEATURES}/**",))
        if changed.paths:
            with crew.run.step("proof"):
                await crew.prove()
    return (*crew.unfinished, *crew.red)


async def open_findings(crew: Crew, panel: Panel) -> tuple[str, ...]:
    """The findings that nobody settled: of the critics where the design was not revised again, and of the last
    review."""
    judges = [*(CRITICS if crew.constraints else ()), *(name for name in BLOCKING if panel.reviews[name].said.usable)]
    paths = {name: crew.at.output(name) for name in judges if crew.at.output(name) in crew.available}
    found = {name: findings((await crew.run.read(path)).text) for name, path in paths.items()}
    return tuple(f"open, {name}: {one.severity}: {one.title}" for name, some in found.items() for one in some)


def report(crew: Crew, first: str, more: Sequence[str]) -> str:
    """The final lines: the result, what is not settled, what else is to be known, and what failed on the way."""
    crew.result = " ".join(first.split())
    lines = [crew.result, *(f"- {one}" for one in more)]
    lines += [f"- to know: {one}" for one in dict.fromkeys(crew.remarks)]
    lines += [f"- failed on the way: {one}" for one in dict.fromkeys(crew.lasting)]
    return "\n".join(lines)


async def date_of(crew: Crew) -> str:
    run = crew.run
    taken = [*await run.list(crew.at.at("agent-metrics"), "*.md"), *await run.list(crew.at.at("post-mortems"), "*.md")]
    return free_date(run.now().date().isoformat(), taken)


async def keep_run_log(crew: Crew, run_date: str, ending: Ending) -> None:
    """The engine's own run log, where no agent wrote one."""
    run, path = crew.run, crew.at.run_log(run_date)
    outcome = Concluded.ERROR if ending.status is Status.FAILED else Concluded.DONE
    await run.write_anew(path, run_log(crew.at.slug, run_date, outcome, crew.returns, crew.clusters, run.telemetry()))
