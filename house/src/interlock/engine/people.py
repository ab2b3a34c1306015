"""People are heard: gates, decisions, and what waits in the run's inbox (PERSON-*).

A decision is bound to what its maker saw: the opening of the gate and the digests of what was shown.  Changed since,
the gate opens anew.  `approve` on the command line takes the documents as they are now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.engine import events as ev
from interlock.engine.folder import Message
from interlock.engine.halts import Cancelled, Parked
from interlock.engine.keys import sha256

if TYPE_CHECKING:
    from interlock.engine.replay import Slot
    from interlock.engine.run import Run


def listen(run: Run) -> None:
    """Take up a cancellation; decisions wait for their gate."""
    for name, message in run.world.folder.messages():
        if message.what == "cancel":
            run.world.folder.taken(name)
            raise Cancelled(message.who)


async def gate(
    run: Run, name: str, question: str, summary: str, choices: tuple[str, ...], shows: tuple[str, ...]
) -> ev.GateDecided:
    """A person's decision; parks the run where nobody has decided yet."""
    slot: Slot[ev.GateDecided] = run.slot(f"gate-{name}", {"gate": name, "choices": list(choices)}, ev.GateDecided)
    while slot.outcome is None:
        listen(run)
        shown = {path: await _digest(run, path) for path in shows}
        openings = [one for one in slot.traces if isinstance(one, ev.GateOpened)]
        if not openings or openings[-1].shown != shown:
            slot.add(
                ev.GateOpened(
                    gate=name,
                    question=question,
                    summary=summary,
                    choices=choices,
                    shown=shown,
                    opening=len(openings) + 1,
                ),
                sync=True,
            )
            openings = [one for one in slot.traces if isinstance(one, ev.GateOpened)]
        view = run.full.gates[slot.key]
        file, message = _waiting(run, name)
        message = message or await run.world.ask(view)
        if message is None:
            raise Parked("waiting", question, f"interlock approve {run.id}")
        if why := _wrong(message, openings[-1], choices):
            run.recorder.add("", ev.Refused(what=message.what, who=message.who, why=why))
            run.recorder.sync()
            run.world.folder.taken(file)
            if not file:
                raise Parked("waiting", question, f"interlock approve {run.id}")
            continue
        now = {path: await _digest(run, path) for path in shows}
        slot.settle(
            ev.GateDecided(
                gate=name,
                choice=_choice(message, choices),
                who=message.who,
                note=message.note,
                at=message.at,
                shown=now,
            )
        )
        run.recorder.sync()
        run.world.folder.taken(file)
    return slot.outcome


def _waiting(run: Run, name: str) -> tuple[str, Message | None]:
    """The oldest message about this gate; it leaves the inbox once it stands in the journal."""
    decided = {gate.decision.at for gate in run.full.gates.values() if gate.decision}
    for file, message in run.world.folder.messages():
        if message.at in decided:  # a process died between the record and this
            run.world.folder.taken(file)
        elif message.what != "cancel" and message.gate in ("", name):
            return file, message
    return "", None


def _choice(message: Message, choices: tuple[str, ...]) -> str:
    return {"approve": choices[0], "reject": choices[-1]}.get(message.what, message.choice)


def _wrong(message: Message, opening: ev.GateOpened, choices: tuple[str, ...]) -> str:
    """Why a message decides nothing; empty: it does."""
    if message.opening and (message.opening != opening.opening or message.shown != opening.shown):
        return "what it showed has changed since: look at it anew"
    if _choice(message, choices) not in choices and choices != ("*",):
        return f"it is none of {', '.join(choices)}"
    if message.what == "reject" and not message.note.strip():
        return "a rejection needs words: --note"
    return ""


async def _digest(run: Run, path: str) -> str:
    content = await run.world.document(path)
    return "" if content is None else sha256(content)
