"""What people say to a run: a decision at its gate, or that it is to end (EN-15, EN-26, EN-29, CM-19, CM-20).

Whoever holds the run's lock writes it into the journal; what is said while a process works on the run is left in its
inbox, and that process writes it.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from interlock.engine.folder import KnownRun, RunFolder
from interlock.engine.journal import Journal, Line, stamp_now
from interlock.engine.lifecycle import ended_as
from interlock.engine.model import Ending, GateDecision
from interlock.engine.nesting import is_nested, only_people
from interlock.engine.objects import Objects, pack
from interlock.errors import Locked, Refused
from interlock.telemetry import WaitingGate, standing, waiting_gate

if TYPE_CHECKING:
    from interlock.engine.runs import Runs

CANCELLED = {**Ending.stopped("cancelled").to_json(), "cancelled": True}
"""The end of a run that a person ended for good."""
POLL_S = 0.3
PATIENCE_S = 30.0


def person() -> str:
    """Who speaks: the user of this process."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


async def decide(
    runs: Runs, name: str, choice: str, *, note: str = "", who: str | None = None, shown: str | None = None
) -> WaitingGate:
    """Record a person's decision where the run waits, or hand it to the process that works on the run.

    The state documents are brought up to date at once: the playbook is played up to its next piece of work.

    Args:
        who: the person, where that is not the user of this process.
        shown: the opening that the person saw (`WaitingGate.shown`): at another one nothing is decided.
    """
    known = runs.find(name)
    playbook = runs.playbook_of(known)
    only_people(runs.environ, runs.root, "decide at a gate")
    identity, folder = known.identity, known.folder
    lines = folder.lines()
    if playbook.standing is not None and waiting_gate(lines) is None:
        said = playbook.standing(playbook.parse_inputs(identity.inputs), runs.documents)
        remedy = f"See how it stands with: interlock show {identity.run_id}"
        raise Refused(f"No approval is pending ({said})", found=str(standing(lines)), remedy=remedy)
    waiting = check_decision(lines, choice, runs.digest, run_id=identity.run_id, shown=shown)
    decision = GateDecision(choice, who or person(), stamp_now(), note, waiting.digests)
    try:
        with runs.holding(known) as journal:
            seen = {"gate": waiting.key, "shown": shown}
            waiting = check_decision(journal.lines, choice, runs.digest, run_id=identity.run_id, **seen)
            journal.listen(runs.view.line)
            record_decision(journal, waiting, decision, folder.objects)
            take_messages(folder, journal, runs.digest)
            await runs.bring_up_to_date(known, playbook, journal)
    except Locked:
        folder.send({"kind": "decision", "gate": waiting.key, "shown": shown, **asdict(decision)})
        return replace(waiting, handed_over=True)
    return waiting


async def cancel(runs: Runs, name: str, *, patience_s: float = PATIENCE_S) -> None:
    """End a run for good: interrupt whoever works on it, then write its end."""
    known = runs.find(name)
    only_people(runs.environ, runs.root, "cancel a run")
    identity, folder = known.identity, known.folder
    if (status := ended_as(folder.lines())) is not None:
        raise Refused(f"run {identity.run_id} has already ended ({status})")
    asked = False
    for _ in range(max(1, int(patience_s / POLL_S))):
        try:
            with runs.holding(known) as journal:
                if ended_as(journal.lines) is None:
                    journal.listen(runs.view.line)
                    take_messages(folder, journal, runs.digest)
                    await runs.clear_up(identity.run_id)
                    journal.append("run.end", data=CANCELLED)
                return
        except Locked:
            if not asked:
                folder.send({"kind": "cancel"})
                asked = True
            await asyncio.sleep(POLL_S)
    raise Locked(f"run {identity.run_id} was asked to stop, but its process still works on it")


def reopen_gate(runs: Runs, known: KnownRun) -> WaitingGate | None:
    """The gate at which the run waits; opened anew when what it shows has changed (EN-29)."""
    waiting = waiting_gate(known.folder.lines())
    if waiting is None or all(runs.digest(path) == seen for path, seen in waiting.digests.items()):
        return waiting
    if is_nested(runs.environ, runs.root) or known.folder.elsewhere() is not None:
        return waiting
    try:
        with runs.holding(known) as journal:
            opened = next(line for line in reversed(journal.lines) if line.event == "gate.opened")
            digests = {path: runs.digest(path) for path in waiting.digests}
            data = {**opened.data, "digests": digests, "opening": waiting.opening + 1}
            journal.append("gate.opened", key=opened.key, data=data)
            return waiting_gate(journal.lines)
    except Locked:
        return waiting


def take_messages(folder: RunFolder, journal: Journal, digest_now: Callable[[str], str]) -> bool:
    """Journal what people left in the inbox; whether one of them ended the run."""
    cancelled = False
    for path, message in folder.messages():
        match message:
            case {"kind": "cancel"}:
                cancelled = True
            case {
                "kind": "decision",
                "gate": str(gate),
                "choice": str(choice),
                "who": str(who),
                "at": str(at),
                "note": str(note),
            }:
                seen = message.get("shown")
                try:
                    waiting = check_decision(
                        journal.lines, choice, digest_now, gate=gate, run_id=folder.run_id, shown=seen
                    )
                except Refused as refusal:
                    journal.append("gate.refused", data={"gate": gate, "choice": choice, "why": refusal.what})
                else:
                    decision = GateDecision(choice, who, at, note, waiting.digests)
                    record_decision(journal, waiting, decision, folder.objects)
            case _:
                journal.append("message.refused", data={"file": path.name})
        archive = folder.inbox / "taken"
        archive.mkdir(exist_ok=True)
        path.rename(archive / path.name)
    return cancelled


def check_decision(
    lines: Sequence[Line],
    choice: str,
    digest_now: Callable[[str], str],
    *,
    gate: str | None = None,
    run_id: str,
    shown: str | None = None,
) -> WaitingGate:
    """The gate that this choice decides; `Refused` when it decides nothing."""
    waiting = waiting_gate(lines)
    if waiting is None or (gate is not None and waiting.key != gate):
        raise Refused(
            f"nothing waits for a decision in run {run_id}",
            found=f"gate {waiting.key} is open" if waiting else str(standing(lines)),
            remedy=f"See how it stands with: interlock show {run_id}",
        )
    if shown is not None and shown != waiting.shown:
        raise Refused(
            f"gate {waiting.gate} is not as it was shown any more",
            where=waiting.key,
            expected=f"opening {shown}",
            found=f"opening {waiting.shown}",
            remedy=f"Look at it again with: interlock show {run_id} - and decide then.",
        )
    if waiting.names and choice not in waiting.names:
        raise Refused(
            f"{choice!r} is no choice of gate {waiting.gate}",
            expected=" | ".join(waiting.names),
            remedy=f"interlock answer {run_id} {waiting.names[0]}",
        )
    now = {path: digest_now(path) for path in waiting.digests}
    changed = [path for path in now if now[path] != waiting.digests[path]]
    if changed:
        path = changed[0]
        raise Refused(
            f"{path} changed since the gate showed it",
            where=waiting.key,
            expected=f"digest {waiting.digests[path] or '(no file)'}",
            found=f"digest {now[path] or '(no file)'}",
            remedy=f"Look at it again with: interlock show {run_id} - that opens the gate anew - and decide then.",
        )
    return waiting


def record_decision(journal: Journal, waiting: WaitingGate, decision: GateDecision, objects: Objects) -> Line:
    """The line that lets the run leave its gate."""
    opened = next(line for line in reversed(journal.lines) if line.event == "gate.opened" and line.key == waiting.key)
    return journal.append(
        "gate.decided",
        key=waiting.key,
        digest=opened.data["inputs"],
        data={
            "in": {},
            **decision.facts(waiting.gate, waiting.opening),
            "out": pack(asdict(decision), objects),
        },
    )
