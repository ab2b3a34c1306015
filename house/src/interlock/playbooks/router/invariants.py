"""What holds on every path of `router`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.view import View


def one_agent(view: View) -> bool:
    return len(view.calls) <= 1


def relays_what_counts(view: View) -> bool:
    """Nothing is delivered, and nothing is complete, without an answer that says so."""
    reports = [call.report for call in view.calls.values() if call.report]
    came = [report.form["came"] for report in reports if report.ok and report.form]
    landed = [one for one in view.delivered if one.state == "done"]
    return (
        bool(came) and came[-1] in ("completed", "partial", "blocked", "unverified")
        if landed
        else (view.status != "complete" or came == ["completed"])
    )


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "one agent is called": one_agent,
    "only what an agent vouches for counts": relays_what_counts,
    "nobody is asked": lambda view: not view.gates,
}
