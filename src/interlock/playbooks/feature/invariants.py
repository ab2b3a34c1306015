"""What holds on every path of `feature`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.view import View
from interlock.errors import Status


def _well(view: View) -> bool:
    return view.status in (Status.COMPLETE, Status.DEGRADED)


def _reviewed(view: View) -> bool:
    """What ends well, the R cluster decided last."""
    said = [one.result for one in view.decisions if one.rule == "r_cluster"]
    return not _well(view) or said[-1:] == ["done"]


def _verified(view: View) -> bool:
    """No reviewer sees work that no verifier was asked about, but for what the one fix pass changed."""
    last = ""
    for key, call in view.calls.items():
        if call.agent.startswith("r-") and last not in ("v-", "r-") and "fix-" not in key:
            return False
        last = call.agent[:2]
    return True


def _looks_back(view: View) -> bool:
    """Behind the post-mortem comes nobody; without it nothing ends well."""
    called = [call.agent for call in view.calls.values()]
    behind = called[called.index("post-mortem") :] if "post-mortem" in called else []
    return {*behind} <= {"post-mortem"} and (bool(behind) or not _well(view))


def _bounded(view: View) -> bool:
    """One revision of a design, one second look at a Blocker."""
    looks = [key for key in view.calls if "/confirm/" in key]
    return len(looks) <= 1 and [call.agent for call in view.calls.values()].count("designer") <= 2


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "what ends well the reviewers decided": _reviewed,
    "no unverified work is reviewed": _verified,
    "the post-mortem is the last": _looks_back,
    "agents work within their bounds": _bounded,
}
