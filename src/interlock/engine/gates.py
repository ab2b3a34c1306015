"""Where a person decides: a gate is opened, shown with the digests of its files, and parks the run until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from interlock.engine.model import Choice, GateDecision
from interlock.engine.options import Halted
from interlock.engine.recording import Recording


async def ask(
    run: Recording, name: str, question: str, choices: Sequence[Choice], shows: Sequence[str], answered: str | None
) -> GateDecision:
    """The recorded decision, or one that was given beforehand; else the run is parked."""
    parts = {
        "gate": name,
        "question": question,
        "choices": [choice.name for choice in choices],
        "shows": list(shows),
    }
    slot = run.recall(name, parts)
    if slot.recorded:
        return GateDecision(**slot.value())
    opening = slot.intent("gate.opened")
    digests = {path: run.world.documents.facts(path).digest or "" for path in shows}
    if opening is None or opening.data["digests"] != digests:
        if opening is None:
            run.stop_here(slot.key, "gate", lambda: parts)
        run.materialize()
        opening = run.journal.append(
            "gate.opened",
            key=slot.key,
            data={
                "gate": name,
                "question": question,
                "choices": [asdict(choice) for choice in choices],
                "digests": digests,
                "inputs": slot.digest,
                "opening": 1 if opening is None else opening.data["opening"] + 1,
            },
        )
    if answered is None or (choices and answered not in {choice.name for choice in choices}):
        raise Halted(f"waiting for a decision: {question}", gate={"key": slot.key, **opening.data})
    decision = GateDecision(answered, "given beforehand", run.world.now().isoformat(), digests=digests)
    slot.settle(
        "gate.decided",
        asdict(decision),
        facts={
            "gate": name,
            "opening": opening.data["opening"],
            "choice": decision.choice,
            "who": decision.who,
            "note": "",
        },
    )
    return decision
