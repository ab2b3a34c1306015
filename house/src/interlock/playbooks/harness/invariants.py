"""What holds on every path of `harness`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.view import View
from interlock.errors import Status
from interlock.playbooks.harness.stages import AGENTS, REMEDIATIONS, Stage

_ORDER = tuple(AGENTS.values())


def _in_order(view: View) -> bool:
    """Each stage follows the one before it, is repeated, or goes back to where a return or a rejection leads; behind
    the last one it is complete."""
    back = {"build", "tech-lead"}
    places = [_ORDER.index(call.agent) for call in view.calls.values() if call.calls]
    steps = zip([-1, *places], places, strict=False)
    ordered = all(now <= last + 1 and (now >= last or _ORDER[now] in back) for last, now in steps)
    return ordered and (view.status is not Status.COMPLETE or places[-1] == len(_ORDER) - 1)


def _approved(view: View) -> bool:
    """Nobody builds before a person approved the plan, and nothing is complete before a person approved it."""
    gates = [one for one in view.gates.values() if one.decision and one.decision.choice == "approve"]
    opened = {one.gate for one in gates}
    built = any(call.agent == AGENTS[Stage.BUILD] and call.calls for call in view.calls.values())
    return ("build" in opened or not built) and ("complete" in opened or view.status is not Status.COMPLETE)


def _bounded(view: View) -> bool:
    """QA is asked at most three times between two words of people."""
    said = [one.decision.at for one in view.gates.values() if one.decision]
    asked = [call.started for call in view.calls.values() if call.agent == AGENTS[Stage.QA]]
    for begin, end in zip([None, *said], [*said, None], strict=True):
        between = [at for at in asked if (begin is None or at > begin) and (end is None or at < end)]
        if len(between) > REMEDIATIONS + 1:
            return False
    return True


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "stages come in their order": _in_order,
    "people approve before Build and before Complete": _approved,
    "remediations are bounded": _bounded,
}
