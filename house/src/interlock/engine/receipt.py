"""The receipt: what was reached, and on what evidence; fit to be pasted into a pull request (EVID-12)."""

from __future__ import annotations

from interlock.engine import events as ev
from interlock.engine.view import PairView, View


def markdown(view: View) -> str:
    """The run's report, the table of checks first."""
    start = view.start
    if start is None:
        return ""
    lines = [f"# {' '.join(start.headline.split())[:120]}", "", f"**{view.status.value}**: {view.why}", ""]
    lines += ["| check | before | after | |", "| --- | --- | --- | --- |"]
    lines += [_row(pair) for pair in view.pairs.values()]
    if not view.pairs:
        lines.append("| none | - | - | no command checks this work |")
    if view.shown_by is not None and not view.shown_by.get("by"):
        lines += ["", "No check tells this work from none."]
    for call in view.calls.values():
        report = call.report
        if report is None:
            continue
        form = report.form or {}
        said = form.get("summary") or ""
        verdict = form.get("verdict") or form.get("status") or report.outcome
        lines += ["", f"## {call.member or call.agent}, attempt {call.attempt}: {verdict}", ""]
        lines += [said] if said else []
        for check in report.checks:
            lines.append(f"- `{check.command}`: told {check.told}, {check.word}")
        if report.ruling:
            lines += [f"- against: {text}" for text in report.ruling.against]
            lines += [f"- note: {text}" for text in report.ruling.notes]
        for remark in report.remarks:
            named = ", ".join(f"`{path}`" for path in remark.paths[:20])
            lines.append(f"- {remark.kind.value}: {remark.text}{f': {named}' if named else ''}")
    files = sorted({path for one in view.delivered if one.landing for path in one.landing.paths})
    lines += ["", f"Delivered: {', '.join(f'`{path}`' for path in files)}" if files else "Delivered: nothing."]
    lines += [f"Commit {one.commit} on {one.ref}" for one in view.committed if one.commit]
    return "\n".join(lines) + "\n"


def _row(pair: PairView) -> str:
    proved = pair.proved
    return (
        f"| `{pair.command}` | {_state(pair.before)} | {_state(proved.after if proved else None)} | {_words(proved)} |"
    )


def _state(run: ev.Run1 | None) -> str:
    return "-" if run is None else "green" if run.green else "red"


def _words(proved: ev.Proved | None) -> str:
    if proved is None:
        return ""
    words = [proved.word, *(["flaky"] if proved.flaky else [])]
    if proved.weak:
        words.append(f"weakened: {', '.join((*proved.weak.paths, *proved.weak.gone))}")
    return ", ".join(words) + (f" ({', '.join(proved.tests[:5])})" if proved.tests else "")
