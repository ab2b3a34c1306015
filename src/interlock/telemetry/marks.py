"""One mark and one word for how something stands: the same in the terminal, on pages and in reports. Pure."""

from __future__ import annotations

from enum import StrEnum

from interlock.telemetry.steps import StepStand


class Tone(StrEnum):
    """How a run, a dispatch or a check stands: what colour is for."""

    WORKS = "works"
    WAITS = "waits"
    FAILED = "failed"
    DONE = "done"
    QUIET = "quiet"
    """Nothing of that: it lies ahead, or nobody asks for it any more."""


MARKS = {Tone.WORKS: ">", Tone.WAITS: "?", Tone.FAILED: "x", Tone.DONE: "+", Tone.QUIET: "."}
STEP_MARKS = {StepStand.DONE: "+", StepStand.SKIPPED: "-", StepStand.NOW: ">", StepStand.AHEAD: "."}
STATUS_TONES = {
    "running": Tone.WORKS,
    "waiting": Tone.WAITS,
    "interrupted": Tone.WAITS,
    "open": Tone.WAITS,
    "complete": Tone.DONE,
    "degraded": Tone.DONE,
    "stopped": Tone.FAILED,
    "failed": Tone.FAILED,
    "invalid": Tone.FAILED,
    "damaged": Tone.FAILED,
}
"""How each status of a run counts; anything else is quiet."""


def tone_of(status: str) -> Tone:
    return STATUS_TONES.get(status, Tone.QUIET)
