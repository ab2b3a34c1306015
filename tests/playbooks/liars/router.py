"""Agents that `router` delegates to: they say what is drawn, or what is so."""

from __future__ import annotations

import json
import random
from typing import Any

from benchmarks.lies import Told
from tests.engine.bench import said
from tests.playbooks.test_router import HEADER, IMPLEMENT, Router

WORK = {"done.txt": b"worked\n"}
ENDS = {"completed": ("complete", 0), "partial": ("degraded", 1), "blocked": ("stopped", 3), "failed": ("stopped", 5)}


def answer(draw: random.Random) -> tuple[str, dict[str, Any] | None]:
    """What somebody says who wants it to count, and the object in it."""
    ran = [{"command": "lake build", "exit": int(draw.random() < 0.2)} for _ in range(draw.randint(0, 2))]
    told: dict[str, Any] = {
        "status": draw.choice(["completed"] * 6 + ["failed", "partial", "done", "COMPLETED", None, 1]),
        "errors": ["it does not build"] if draw.random() < 0.2 else [],
        "verification": ran,
        **({"session_id": "sess_20200101_aaaaaa"} if draw.random() < 0.1 else {}),
    }
    text, how = json.dumps(told), draw.random()
    if how < 0.3:
        return f"All green, 100 %.\n\n```json\n{text}\n```\n", told
    if how < 0.4:
        return "Status: completed, all of it. Trust me.", None
    if how < 0.5:
        return text.replace("}", "", 1), None
    return text, told


def hostile(seed: int) -> Told:
    draw = random.Random(seed)
    router = Router({IMPLEMENT: HEADER.format(f"agent: implementer\nreturns: {draw.choice(('json', 'text'))}")})
    given, late = [answer(draw), answer(draw)], draw.random() < 0.1
    router.answers = [said(text, WORK, finished=draw.random() < 0.9, late=late) for text, _ in given]
    view = router.ask()
    last, code = given[len(router.cast.asks) - 1][1], view.ended.exit if view.ended else -1
    wrong = f"delivered, and ended with {code}" if "done.txt" in router.world.files and code not in (0, 1, 3) else ""
    if code == 0:
        fits = last is not None and last["status"] == "completed" and "session_id" not in last and not late
        against = last is None or last["errors"] or any(one["exit"] for one in last["verification"])
        wrong = f"relayed as completed: {last}" if against or not fits else wrong
    return Told(view.status.value, wrong=wrong)


def honest(seed: int) -> str:
    """Its word, its exit, its text byte for byte."""
    status = list(ENDS)[seed % 4]
    ways = (f"Done.\n\n**Status**: {status}\n", f"Status: {status}", json.dumps({"status": status, "x": [1]}))
    router = Router({IMPLEMENT: HEADER.format("agent: implementer")})
    router.answers = [said(ways[seed % 3], WORK)]
    view = router.ask()
    came = view.status, view.ended.exit if view.ended else -1, router.output(view)
    return "" if came == (*ENDS[status], ways[seed % 3].encode()) else f"{ways[seed % 3]!r}: {came}"
