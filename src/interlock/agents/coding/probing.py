"""A one-line question to a coding agent: whether it is really there, with its model, in the way that runs use it."""

from __future__ import annotations

import secrets
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from interlock.agents.coding.trouble import Cause, trouble
from interlock.agents.runner import AgentExit, AgentRequest, Runner

PROBE_LIMIT_S: Final = 120.0
_WORD: Final = "READY"
_QUESTION: Final = f"Answer with the single word {_WORD} and do nothing else: use no tool, change no file.\n"
_READ: Final = 4_000


class NoAnswer(StrEnum):
    """Why there was no answer, told apart by what a person can do about it."""

    LIMIT = "limit"
    """Its model service takes no more requests for now: nothing is wrong here."""
    ACCESS = "access"
    """It is not signed in, or its key does not count."""
    REQUEST = "request"
    """The service refuses what it was asked, as with a model that it does not know."""
    START = "start"
    """The program could not be started."""
    TIME = "time"
    """It was still at it when the time was up."""
    OTHER = "other"
    """It failed in another way, or its service did."""


@dataclass(frozen=True)
class ProbeReply:
    """How the question was answered."""

    text: str
    seconds: float
    failure: NoAnswer | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None


async def probe(runner: Runner, *, model: str | None = None, limit_s: float = PROBE_LIMIT_S) -> ProbeReply:
    """Asks in an empty folder of its own; it costs what one short answer costs."""
    with tempfile.TemporaryDirectory(prefix="interlock-probe-") as place:
        request = _request(Path(place), model, limit_s)
        request.workspace.mkdir()
        began = time.monotonic()
        exit_ = await runner.call(request, lambda _news: None)
        seconds = time.monotonic() - began
        text, failure = _judged(exit_, limit_s)
        return ProbeReply(text, seconds, failure)


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
    )


def _judged(exit_: AgentExit, limit_s: float) -> tuple[str, NoAnswer | None]:
    if exit_.limited is not None:  # first: an agent may sit a limit out until its time is up
        return exit_.limited.text, NoAnswer.LIMIT
    if exit_.spawn_error is not None:
        return exit_.spawn_error, NoAnswer.START
    if exit_.timed_out:
        return f"no answer in {limit_s:g} s", NoAnswer.TIME
    if exit_.fault is not None:
        return exit_.fault.text, _FAILURES.get(trouble(exit_.fault.text).cause, NoAnswer.OTHER)
    if exit_.code != 0:
        return f"ended with {exit_.code}", NoAnswer.OTHER
    # Any answer shows that program, sign-in and model work; what a model makes of the word is not our business.
    said = exit_.output.tail(_READ).strip()
    return ("answers", None) if said else ("an empty answer", NoAnswer.OTHER)


_FAILURES: Final = {Cause.ACCESS: NoAnswer.ACCESS, Cause.REQUEST: NoAnswer.REQUEST}
