"""What a person reads: the block of each iteration, why an item is blocked, why none can be selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from interlock.contracts import quoted
from interlock.playbooks.roadmap.briefs import Attempt
from interlock.playbooks.roadmap.decisions import QualityGate
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.forwarding import short_line
from interlock.playbooks.roadmap.ledger import Remaining
from interlock.playbooks.roadmap.schema import STATE_FIELDS, ItemStatus

HEADING: Final = "## Orchestration Iteration"
TOKEN: Final = "<promise>COMPLETE</promise>"
IN_REASON: Final = 10
"""Items that the one-line reason names; the report has all."""


def iteration_block(
    before: Item, after: Item, called: Sequence[str], gates: Mapping[QualityGate, bool], upcoming: str
) -> str:
    """The block that ends an iteration."""
    summed_up = ", ".join(f"{gate}={'pass' if gates[gate] else 'fail'}" for gate in QualityGate if gate in gates)
    bullets = {
        "Selected item": before.name,
        "Dispatch": ", ".join(called) or "none",
        "Gates": summed_up or "none",
        "State updates": ", ".join(state_updates(before, after)) or "none",
        "Next candidate": upcoming,
    }
    return "\n".join([HEADING, "", *(f"- {name}: {text}" for name, text in bullets.items())])


def state_updates(before: Item, after: Item) -> list[str]:
    """The state fields that the iteration changed, with old and new value."""
    old, new = before.state(), after.state()
    changed = [name for name in STATE_FIELDS if old.get(name) != new.get(name)]
    return [f"{name}: {_value(name, old)} -> {_value(name, new)}" for name in changed]


def _value(name: str, state: Mapping[str, Any]) -> str:
    if name not in state:
        return "0" if name == "retryCount" else "absent"
    value = state[name]
    if name == "blockedReasons":
        return f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
    return value if isinstance(value, str) else quoted(value)


def blocked_text(item: Item, attempts: Sequence[Attempt], file: str) -> str:
    """The accumulated failure evidence, and how to go on."""
    lines = [f"Item {item.name} is blocked:"]
    for attempt in attempts:
        lines += [f"- attempt {attempt.number}, {one.source}: {short_line(one.reason)}" for one in attempt.failures]
    lines += [
        "",
        f'To try it again: in {file} set its status to "{ItemStatus.READY}", reset retryCount to 0 to allow retries, '
        "and run again. The next attempt is told the blockedReasons.",
    ]
    return "\n".join(lines)


def nothing_reason(remaining: Sequence[Remaining]) -> str:
    """Why no item can be selected, in one line."""
    waiting = [
        f"{one.id} waits on {', '.join(f'{other} ({status})' for other, status in one.waits_on)}"
        for one in remaining
        if one.status == ItemStatus.READY
    ]
    said = waiting or [f"{one.id} is {one.status}" for one in remaining]
    more = [] if len(said) <= IN_REASON else [f"{len(said) - IN_REASON} more"]
    return f"no selectable item: {'; '.join([*said[:IN_REASON], *more])}"


def nothing_text(remaining: Sequence[Remaining]) -> str:
    """The same for each remaining item."""
    lines = ["No item can be selected. What remains:"]
    for one in remaining:
        waits = "".join(f"; waits on {other} ({status})" for other, status in one.waits_on)
        reason = f": {short_line(one.reason)}" if one.status == ItemStatus.BLOCKED and one.reason else ""
        lines.append(f"- {one.id} {short_line(one.title)}: {one.status}{reason}{waits}")
    return "\n".join(lines)
