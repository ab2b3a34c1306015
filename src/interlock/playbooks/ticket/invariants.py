"""What holds on every path of `ticket`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.view import CallView, View
from interlock.errors import Status
from interlock.playbooks.ticket.graph import ATTEMPTS

WORKERS = ("Developer", "task-executor")


def _calls(view: View, *agents: str) -> list[CallView]:
    return [call for call in view.calls.values() if call.agent in agents and call.report]


def _committed(view: View) -> bool:
    return any(one.what == "commit" and one.commit for one in view.committed)


def _on_its_branch(view: View) -> bool:
    """Nobody writes code before the git gate."""
    return view.start is None or not _calls(view, *WORKERS) or view.start.key in view.where.branch


def _is_committed(view: View) -> bool:
    """Complete is what is committed, or left nothing to commit."""
    nothing = any("nothing to commit" in one for one in view.warnings)
    return view.status not in (Status.COMPLETE, Status.DEGRADED) or _committed(view) or nothing


def _was_accepted(view: View) -> bool:
    """The last word before a commit is the Reviewer's, or that of the short cut."""
    last = _calls(view, "Reviewer", *WORKERS)[-1:]
    passes = [
        one.agent == "Developer" or (one.report and one.report.ruling and one.report.ruling.passes) for one in last
    ]
    return not _committed(view) or all(passes)


def _is_capped(view: View) -> bool:
    return all(call.attempt <= ATTEMPTS for call in _calls(view, *WORKERS))


def _unpaid(view: View) -> bool:
    """No Reviewer is paid while a command is red because of the work."""
    for step in view.steps:
        red: dict[str, bool] = {}
        for key in step.keys:
            if (pair := view.ran.get(key)) is not None and pair.proved is not None:
                red[pair.name] = pair.proved.word in ("broken", "still red")
            elif any(red.values()) and key in view.calls and view.calls[key].agent == "Reviewer":
                return False
    return True


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "code is written on the ticket's branch alone": _on_its_branch,
    "complete is committed": _is_committed,
    "what is committed was accepted": _was_accepted,
    "no task has more than five attempts": _is_capped,
    "no Reviewer is paid for red work": _unpaid,
}
