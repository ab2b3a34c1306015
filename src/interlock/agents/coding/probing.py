"""A one-line question to a coding agent: whether it is really there, with its model, in the way that runs use it."""

from __future__ import annotations

import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.runner import AgentExit, AgentRequest, Runner

PROBE_LIMIT_S: Final = 120.0
_WORD: Final = "READY"
_QUESTION: Final = f"Answer with the single word {_WORD} and do nothing else: use no tool, change no file.\n"
_READ: Final = 4_000


@dataclass(frozen=True)
class Probe:
    """How the question was answered."""

    ok: bool
    text: str
    seconds: float


async def probe(runner: Runner, *, model: str | None = None, limit_s: float = PROBE_LIMIT_S) -> Probe:
    """Asks in an empty folder of its own; it costs what one short answer costs."""
    with tempfile.TemporaryDirectory(prefix="interlock-probe-") as place:
        request = _request(Path(place), model, limit_s)
        request.workspace.mkdir()
        began = time.monotonic()
        exit_ = await runner.call(request, lambda _news: None)
        return Probe(*_judged(exit_, limit_s), seconds=time.monotonic() - began)


def _request(place: Path, model: str | None, limit_s: float) -> AgentRequest:
    return AgentRequest(
        run_id="probe",
        playbook="doctor",
        step="probe",
        agent="probe",
        member="probe",
        attempt=1,
        dispatch="probe#1",
        session="probe",
        workspace=place / "workspace",
        folder=place / "records",
        brief=_QUESTION,
        timeout_s=limit_s,
        marker=f"probe:{secrets.token_hex(8)}",
        model=model,
        shell_writes=False,
    )


def _judged(exit_: AgentExit, limit_s: float) -> tuple[bool, str]:
    if exit_.spawn_error is not None:
        return False, exit_.spawn_error
    if exit_.timed_out:
        return False, f"no answer in {limit_s:g} s"
    if exit_.fault is not None:
        return False, exit_.fault.text
    said = exit_.output.tail(_READ).decode(errors="replace").strip()
    if exit_.code != 0:
        return False, f"ended with {exit_.code}"
    # Any answer shows that program, sign-in and model work; what a model makes of the word is not our business.
    return bool(said), "answers" if said else "an empty answer"
