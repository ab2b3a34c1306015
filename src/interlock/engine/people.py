"""People are heard: gates, decisions, and what waits in the run's inbox (PERSON-*).

A decision is bound to what its maker saw: the opening of the gate and the digests of what was shown.  Changed since,
the gate opens anew.  `approve` on the command line takes the documents as they are now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from interlock.documents.files import sha256
from interlock.engine import documents
from interlock.engine import events as ev
from interlock.engine.folder import Message
from interlock.engine.halts import Cancelled, Parked

if TYPE_CHECKING:
    from interlock.engine.run import Run

MOOT = "not required"


def stop_if_cancelled(run: Run) -> None:
    """Raises Cancelled where a person has cancelled the run; what else waits in the inbox is left to its gate."""
    for file, message in run.world.folder.messages():
        if message.what == "cancel":
            raise Cancelled(message.who, file)


async def gate(
    run: Run,
    name: str,
    question: str,
    *,
    summary: str = "",
    choices: tuple[str, ...] = ("approve", "reject"),
    shows: tuple[str, ...] = (),
    given: str = "",
    moot: tuple[str, Callable[[str], bool]] | None = None,
) -> ev.GateDecided:
    """A person's decision, or the one `given` by an option; raises Parked where nobody has decided yet.

    Args:
        moot: a document, and whether as it stands by now nobody has to decide any more; the choice is `MOOT`.
    """
    slot = run.slot(f"gate-{name}", {"gate": name, "choices": list(choices)}, ev.GateDecided)
    opened = next((one for one in reversed(slot.traces) if isinstance(one, ev.GateOpened)), None)
    if slot.outcome is not None:
        for waiting, said in run.world.folder.messages():
            if said.at == slot.outcome.at:  # a process died between the record and this
                run.world.folder.taken(waiting)
        if slot.outcome.shown == await _shown(run, shows) or not run.recorder.reopen(slot, _OVERTAKEN):
            return slot.outcome
        opened = None
    elif opened is None:
        _too_early(run)
    while slot.outcome is None:
        stop_if_cancelled(run)
        shown = await _shown(run, shows)
        if opened is None or opened.shown != shown:
            number = run.full.openings.get(slot.key, 0) + 1
            opened = ev.GateOpened(
                gate=name, question=question, summary=summary, choices=choices, shown=shown, opening=number
            )
            slot.add(opened, sync=True)
        if moot and moot[1](await documents.stands(run, moot[0])):
            return slot.settle(ev.GateDecided(gate=name, choice=MOOT, who=moot[0], at=run.world.now(), shown=shown))
        file, message = _waiting(run, name)
        if message is None and given:
            message = Message(what="answer", who="an option", at=run.world.now(), gate=name, choice=given)
        message = message or await run.world.ask(run.full.gates[slot.key])
        if message is None:  # nothing was said here, or somewhere else meanwhile
            file, message = _waiting(run, name)
        now, parked = await _shown(run, shows), Parked("waiting", question, f"interlock approve {run.id}")
        if message is None:
            raise parked
        if why := _wrong(message, opened, now, choices):
            _refuse(run, file, message, why)
            if not file and now == shown:
                raise parked
            continue
        choice = _choice(message, choices)
        who, note, at = message.who, message.note, message.at
        slot.settle(ev.GateDecided(gate=name, choice=choice, who=who, note=note, at=at, shown=now))
        run.recorder.sync()
        if file:
            run.world.folder.taken(file)
    return slot.outcome


async def approve(
    run: Run,
    name: str,
    question: str,
    revise: Callable[[str], Awaitable[None]],
    *,
    rounds: int = 5,
    **shown: Any,
) -> ev.GateDecided:
    """Asks until a person approves; after each rejection `revise` gets their words. After the last round the rejection
    itself is returned (PERSON-03).

    Args:
        shown: as of `gate`; a function is called anew for each question.
    """
    async for n in run.loop(name, cap=rounds + 1):
        now = {part: one() if callable(one) else one for part, one in shown.items()}
        decided = await gate(run, name, question, **now)
        if decided.choice == "approve" or n > rounds:
            break
        await revise(decided.note)
    return decided


_OVERTAKEN = "what was approved has changed before it was carried out"


def _too_early(run: Run) -> None:
    """Refuse what was said before a gate opened: it was about an earlier one, which somebody else has decided."""
    for file, message in run.world.folder.messages():
        if message.what != "cancel":
            _refuse(run, file, message, "it was said before this was asked")


def _refuse(run: Run, file: str, message: Message, why: str) -> None:
    run.recorder.add("", ev.Refused(what=message.what, who=message.who, why=why), sync=True)
    if file:
        run.world.folder.taken(file)


def _waiting(run: Run, name: str) -> tuple[str, Message | None]:
    """The oldest message about this gate; it leaves the inbox once it stands in the journal."""
    for file, message in run.world.folder.messages():
        if message.what != "cancel" and message.gate in ("", name):
            return file, message
    return "", None


def _choice(message: Message, choices: tuple[str, ...]) -> str:
    return {"approve": choices[0], "reject": choices[-1]}.get(message.what, message.choice)


def _wrong(message: Message, opened: ev.GateOpened, now: dict[str, str], choices: tuple[str, ...]) -> str:
    """Why a message decides nothing; empty: it does."""
    # Documents that changed while nobody worked open it anew: who saw them as they are now decides about them.
    if message.shown != now if message.shown else message.opening not in (0, opened.opening):
        return "what it showed has changed since: look at it anew"
    if message.what != "answer" and (choices == ("*",) or (message.what == "reject" and len(choices) == 1)):
        return "an answer is asked for: interlock answer"
    if _choice(message, choices) not in choices and choices != ("*",):
        return f"it is none of {', '.join(choices)}"
    if "reject" in (message.what, _choice(message, choices)) and not message.note.strip():
        return "a rejection needs words: --note"
    return ""


async def _shown(run: Run, paths: tuple[str, ...]) -> dict[str, str]:
    return {path: sha256(await run.world.document(path)) for path in paths}
