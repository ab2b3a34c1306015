"""The receipt: what was reached, and on what evidence; fit to be pasted into a pull request (EVID-12, CLI-03)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.engine.forms import one_line
from interlock.engine.junit import WHOLE
from interlock.engine.view import PairView, View

TESTS = 5
"""Names of tests that stand in a row."""


def markdown(view: View) -> str:
    """The run's report, the table of checks first."""
    if view.start is None:
        return ""
    return "\n".join([*_head(view), *_checks(view), *_judges(view), *_rounds(view), *_work(view)]) + "\n"


def _head(view: View) -> Iterator[str]:
    assert view.start is not None
    yield from (f"# {one_line(view.start.headline)[:120]}", "", f"**{view.status.value}**: {one_line(view.why)}")
    calls = view.called
    cost = view.usage.cost_usd
    known = "" if view.cost_known else " + unknown"
    spent = "cost unknown" if cost is None else f"{cost:.2f} USD{known}"
    minutes, seconds = divmod(int(view.seconds), 60)
    yield from ("", f"{minutes}:{seconds:02}, {calls} {'call' if calls == 1 else 'calls'}, {spent}; run `{view.run}`")


def _checks(view: View) -> Iterator[str]:
    """Each command before and after, by whom it was run and on which tree."""
    rows = [_pair(pair) for pair in view.pairs.values()]
    for call in view.last_words:
        assert call.report is not None
        for check in call.report.checks:
            tree = check.ran.tree if check.ran else call.report.shown
            word = f"{check.word}{', expected' if check.expected else ''}{f': {check.why}' if check.why else ''}"
            rows.append((f"`{check.command}`", "", check.told, word, call.name, _tree(tree)))
    yield ""
    yield from _table(("check", "before", "after", "", "run by", "on tree"), rows)
    if not rows:
        yield "| none | | | no command checks this work | | |"
    if view.is_blind:
        yield from ("", "No check tells this work from none.")
    yield from (f"\n{warning}" for warning in view.warnings)


def _pair(pair: PairView) -> tuple[str, ...]:
    proved = pair.proved
    both = pair.before, proved.after if proved else None
    states = ["" if run is None else "green" if run.green else "red" for run in both]
    words: list[str] = [] if proved is None or proved.word == "green" else [proved.word]
    words += ["flaky: two runs differ"] if proved and proved.flaky else []
    if proved is not None and (tests := [test for test in proved.tests if test != WHOLE]):
        words.append(", ".join(f"`{test}`" for test in tests[:TESTS]) + (" ..." if len(tests) > TESTS else ""))
    if proved is not None and proved.weak:
        words.append(f"rests on changed checks: {', '.join(f'`{one}`' for one in proved.weakened)}")
    tree = proved.tree if proved else pair.before.tree if pair.before else None
    return (f"`{pair.command}`", *states, "; ".join(words), "interlock", _tree(tree))


def _judges(view: View) -> Iterator[str]:
    """The last word of each judge: criteria, what it found, its summary and notes as they stand."""
    for call in view.last_words:
        report = call.report
        assert report is not None
        assert report.ruling is not None
        yield from ("", f"## {call.name}: {report.ruling.words}")
        if said := str(call.form.get("summary") or ""):
            yield from ("", *(f"> {line}" for line in said.splitlines()))
        criteria = [
            (str(one.get("criterion", "")), "yes" if one.get("met") else "no", str(one.get("evidence", "")))
            for one in call.form.get("criteria") or ()
        ]
        if criteria:
            yield ""
            yield from _table(("criterion", "met", "evidence"), criteria)
        left = [f"- against: {one_line(one)}" for one in report.ruling.against]
        left += [f"- note: {one_line(one)}" for one in report.ruling.notes]
        yield from ("", *left) if left else ()


def _rounds(view: View) -> Iterator[str]:
    """Who did what, a line each, with what the engine tells of it."""
    yield ""
    for call in view.calls.values():
        report = call.report
        if report is None:
            continue
        failed = "" if report.ok else f"{report.reason}: {one_line(report.complaint)}"
        word = (report.ruling and report.ruling.words) or failed or call.form.get("status") or "ok"
        said = "" if report.ruling else one_line(str(call.form.get("summary") or ""))
        yield f"- {call.name}, attempt {call.attempt}, {call.runner}: {word}{f'. {said}' if said else ''}"
        for remark in report.remarks:
            named = ", ".join(f"`{path}`" for path in remark.paths[:20])
            yield f"  - {remark.kind.value}: {one_line(remark.text)}{f': {named}' if named else ''}"


def _work(view: View) -> Iterator[str]:
    files = view.landed
    if files or not view.on_branch:
        yield from ("", f"Delivered: {', '.join(f'`{path}`' for path in files)}" if files else "Delivered: nothing.")
    for one in view.committed:
        if one.commit and not one.problem:
            yield from ("", f"{one.what.capitalize()} {one.commit[:10]} {one.ref} {one.url}".rstrip())
    if not view.on_branch and view.pending is not None and view.pending.base != view.pending.work:
        yield from ("", f"Not delivered: `interlock diff {view.run}` shows it, `interlock apply {view.run}` brings it.")


def _tree(tree: str | None) -> str:
    return f"`{tree[:10]}`" if tree else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
