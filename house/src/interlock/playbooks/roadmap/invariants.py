"""What holds on every path of `roadmap`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from interlock.engine.view import CallView, View
from interlock.playbooks.roadmap.decisions import Step

ORDER = list(Step)


def _step(call: CallView) -> int:
    return ORDER.index(Step(call.key.split("/")[-2]))


def in_order(view: View) -> bool:
    """Each attempt goes through its steps in the one order there is."""
    for _, calls in groupby(view.calls.values(), key=lambda call: call.key.rsplit("/", 2)[0]):
        steps = [_step(call) for call in calls]
        if steps != sorted(steps):
            return False
    return True


def a_retry_is_a_fix(view: View) -> bool:
    """Research and design belong to the first attempt alone."""
    late = (call for call in view.calls.values() if "/attempt-1/" not in f"/{call.key}")
    return all(_step(call) >= ORDER.index(Step.IMPLEMENT) for call in late)


def judged(view: View) -> bool:
    """Who is complete has passed the last judge of each kind."""
    last = {_step(call): call.report for call in view.calls.values() if call.report and call.report.ruling}
    passed = [report.ruling.passes for report in last.values() if report.ruling]
    return view.status != "complete" or not view.calls or (len(passed) >= 2 and all(passed))


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "attempts are in order": in_order,
    "a retry is a fix": a_retry_is_a_fix,
    "both judges have passed what is done": judged,
    "nobody is asked": lambda view: not view.gates,
}
