"""How a run ends: its result in words, and the log that is kept of it."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.engine import Ending
from interlock.playbooks.feature.clusters import BLOCKING, Panel
from interlock.playbooks.feature.crew import DONE, Crew
from interlock.playbooks.feature.decisions import Reviewed, Verified
from interlock.playbooks.feature.run_log import free_date, run_log


def conclude(crew: Crew, panel: Panel) -> Ending:
    """DONE only when the reviewers are; with flaws it is a degraded one."""
    flaws = list(crew.flaws)
    if crew.verified is Verified.DEGRADED:
        flaws.append(f"{', '.join(crew.unverified)} gave no verdict")
    elif crew.verified is not None and not crew.verified.passed:
        flaws.append(f"verification did not pass ({crew.verified.result}); see {crew.at.folder}/verification")
    flaws += [f"{name} gave no verdict" for name in BLOCKING if not panel.reviews[name].said.usable]
    flaws += [f"task {one} {state.partition(chr(10))[0]}" for one, state in crew.task_state.items() if state != DONE]
    if panel.reviewed is Reviewed.DONE:
        output = report(crew, f"DONE: feature {crew.at.slug} is complete", flaws)
        return Ending.degraded("; ".join(flaws), output) if flaws else Ending.complete(output)
    wanting = [name for name in BLOCKING if panel.reviews[name].wants_change or not panel.reviews[name].said.usable]
    verdicts = ", ".join(f"{name} {panel.reviews[name].shown}" for name in wanting)
    reason = "; ".join([f"review: {panel.reviewed.value.removeprefix('ERROR: ')} ({verdicts})", *flaws])
    because = tuple(panel.heard[name].report.key for name in wanting)
    return Ending.failed(reason, report(crew, f"ERROR: {reason}", ()), because)


def report(crew: Crew, first: str, flaws: Sequence[str]) -> str:
    """The final lines: the result, what is not settled, and what failed on the way."""
    lines = [" ".join(first.split()), *(f"- {flaw}" for flaw in flaws)]
    lines += [f"- failed on the way: {one}" for one in dict.fromkeys(crew.lasting)]
    return "\n".join(lines)


async def date_of(crew: Crew) -> str:
    run = crew.run
    taken = [*await run.list(crew.at.at("agent-metrics"), "*.md"), *await run.list(crew.at.at("post-mortems"), "*.md")]
    return free_date(run.now().date().isoformat(), taken)


async def keep_run_log(crew: Crew, run_date: str, ending: Ending) -> None:
    """The engine's own run log, where no agent wrote one."""
    run, path = crew.run, crew.at.run_log(run_date)
    outcome = str(ending.output).partition(":")[0]
    await run.write_anew(path, run_log(crew.at.slug, run_date, outcome, crew.returns, crew.clusters, run.telemetry()))
