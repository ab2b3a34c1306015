"""How a feature ends: its result in words, what is told to the post-mortem, the log that is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interlock.documents.changing import dumped
from interlock.engine.run import Outcome
from interlock.playbooks.feature.decisions import Kind, Reviewed, Said, free_date
from interlock.playbooks.feature.members import POST_MORTEM, VERIFIERS, WEIGHED
from interlock.playbooks.feature.work import Work


async def conclude(work: Work, reviewed: Reviewed) -> Outcome:
    """Complete only when R decides DONE and nothing that the engine knows is against it (FT-150)."""
    flaws = list(work.flaws)
    if work.verified is not Said.DONE:
        flaws.append(f"verification did not pass ({work.verified}): see {work.at('verification/')}")
    judges = [*(VERIFIERS if work.verified is Said.DONE else ()), *WEIGHED]
    flaws += [f"{name} gave no verdict" for name, one in work.last(judges).items() if one.form is None]
    said = ", ".join(f"{name} {one.verdict}" for name, one in work.last(WEIGHED).items())
    against = [*([f"review: {reviewed.logged} ({said})"] if reviewed is not Reviewed.DONE else []), *work.against]
    reason = "; ".join(against or dict.fromkeys(flaws)) or f"feature {work.slug} is complete"
    below = [f"- {line}" for line in dict.fromkeys([*flaws, *unsettled(work)])]
    head = f"ERROR: {reason}" if against else f"DONE: feature {work.slug} is complete"
    output = "\n".join([head, *below]) + "\n"
    if against:
        return work.stopped(reason, output, exit=5, again=work.decided)
    return (Outcome.degraded if flaws else Outcome.complete)(reason, output, next="interlock diff")


def unsettled(work: Work) -> Iterator[str]:
    """Findings that nobody settled: of the critics, of verification that did not pass, of the last review; then lasting
    errors, and work that changed nothing (FT-160)."""
    yield from (f"open, {line.removeprefix('- ')}" for line in work.constraints.splitlines())
    for name, one in work.last([*VERIFIERS, *WEIGHED]).items():
        if one.agent.kind is Kind.REVIEWER or work.verified is not Said.DONE:
            yield from (f"open, {name}: {line}" for line in one.findings)
    yield from (f"to know: {line}" for line in work.errors)


async def post_mortem(work: Work, ending: Outcome) -> None:
    """It looks back, and changes no result; where it fails the engine keeps the log itself (FT-147)."""
    run = work.run
    with run.step("8"):
        folders = "agent-metrics", "post-mortems"
        taken = [name for folder in folders for name in await run.names(work.at(folder), "*.md")]
        date = free_date(run.now().date().isoformat(), taken)
        report, log = work.at(f"post-mortems/{date}-post-mortem.md"), work.at(f"agent-metrics/{date}-run-log.md")
        rows = {"dispatches": dispatches(work), "clusters": work.clusters}
        heard = await work.alone(
            POST_MORTEM,
            leaves=(report, log),
            check=lambda given: [f"{path} is missing" for path in (report, log) if path not in given.outputs],
            samples={report: f"# Post-mortem {date}\n", log: f"# Run log {date}\n\n```yaml\n[]\n```\n"},
            texts={"telemetry": run.fill("telemetry", slug=work.slug, date=date, **rows), "outcome": ending.reason},
            report=report,
            log=log,
            slug=work.slug,
            date=date,
        )
        said = Said.DONE if heard.said is Said.DONE else Said.ERROR
        if said is Said.ERROR:
            data = {"feature": work.slug, "run_date": date, **rows}
            text = f"# Run log: {work.slug}, {date}\n\n```yaml\n{dumped(data).rstrip()}\n```\n"
            await run.change(log, lambda old: text)
            run.warn(f"the post-mortem gave nothing that counts; that changes nothing ({heard.why})")
        summary = (heard.form.summary if heard.form else heard.fault) or "no summary"
        words = f"PostMortem dispatch: {said}. {summary.rstrip('.')}."
        await work.merge("8", [heard] if said is Said.DONE else [], words)
        if work.unwritten:
            await work.remember()


def dispatches(work: Work) -> list[dict[str, Any]]:
    """A row for each dispatch (FT-23)."""
    return [
        {
            "Agent": one.member,
            "Step": one.agent.step,
            "Pattern": one.agent.pattern,
            "Status": (one.verdict.said if one.agent.kind.judges else one.said).value,
            "Retries": max(one.report.calls - 1, 0),
            "Failure": "" if one.form else one.fault,
            "Iteration": one.report.attempt,
            "Human": "yes" if one.human else "no",
            "Timestamp": one.ended,
        }
        for one in work.heard
    ]
