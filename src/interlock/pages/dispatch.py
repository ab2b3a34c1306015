"""A dispatch: brief, answer, transcript, changes, the checks behind it, its tries and why they were repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from interlock.contracts import Evidence
from interlock.documents.files import read_plain
from interlock.engine.folder import KnownRun
from interlock.engine.journal import Line
from interlock.errors import Refused
from interlock.pages.changing import recorded_patch
from interlock.pages.diffs import DiffSummary
from interlock.pages.prose import decoded, prose
from interlock.pages.shelf import Shelf, headline, step_title
from interlock.pages.transcript import TranscriptPage, transcript_page
from interlock.telemetry import (
    UNKNOWN,
    Narrator,
    Tone,
    counted,
    in_words,
    is_good,
    lined,
    outcome_word,
    printable,
    seconds_between,
    spent,
    verdict_word,
)

MOST_TEXT = 400_000
LAST = 10**9
"""A page of a transcript that no transcript has: its last one is shown."""
AT_WORK, CUT_OFF = "at work", "cut off"


@dataclass(frozen=True)
class TryRow:
    """One call of the agent, and what followed it."""

    number: int
    started_at: str
    runner: str
    tone: Tone
    outcome: str
    why: str = ""
    followed: str = ""
    """What was done about it."""


@dataclass(frozen=True)
class CheckRow:
    """Something behind a verdict."""

    tone: Tone
    what: str
    said: str = ""


@dataclass(frozen=True)
class DispatchView:
    workspace: str
    run_id: str
    playbook: str
    headline: str
    """Of the run."""
    key: str
    about: str
    step: str
    agent: str
    member: str
    attempt: int
    tone: Tone
    outcome: str
    live: bool
    """Its agent is at work."""
    said: str
    """What the agent said of it in a sentence."""
    started_at: str
    took: str
    tokens: str
    cost: str
    brief: Markup
    answer: Markup
    tries: tuple[TryRow, ...]
    checks: tuple[CheckRow, ...]
    complaints: tuple[str, ...]
    artifacts: tuple[str, ...]
    refused: tuple[str, ...]
    """Changes outside its scope, or in the way of somebody else's: not taken over."""
    diff: DiffSummary
    accepted: bool
    transcript: TranscriptPage
    before: str | None
    after: str | None
    """The dispatches beside it, by their keys."""


def dispatch_keys(lines: Sequence[Line]) -> list[str]:
    """All dispatches of a run in the order in which they began."""
    return list(dict.fromkeys(str(line.key) for line in lines if line.event == "dispatch.start"))


def dispatch_view(
    shelf: Shelf, known: KnownRun, key: str, page: int | None = None, holder: str | None = None
) -> DispatchView:
    """One dispatch; `Refused` where the run has none of this key.

    Args:
        page: of its transcript, from 0; None for the first, or of an agent at work the last.
        holder: the process that works on the run, if one does.
    """
    return view_of(shelf, known, known.folder.lines(), key, page, holder)


def view_of(
    shelf: Shelf, known: KnownRun, lines: Sequence[Line], key: str, page: int | None = None, holder: str | None = None
) -> DispatchView:
    """The same, for whoever has read the journal already."""
    keys = dispatch_keys(lines)
    if key not in keys:
        raise Refused(
            f"run {known.identity.run_id} has no dispatch {printable(key)}",
            expected="the key of one of its dispatches",
            remedy=f"See all of them with: interlock show {known.identity.run_id}",
        )
    mine = [line for line in lines if line.key == key]
    begun = next(line for line in mine if line.event == "dispatch.start")
    end = next((line for line in reversed(mine) if line.event == "dispatch.end"), None)
    data: Mapping[str, Any] = end.data if end is not None else {}
    folder = known.folder.folder(key)
    result = _result(folder)
    number = keys.index(key)
    good = end is not None and is_good(data)
    live = end is None and holder is not None
    tone = Tone.WORKS if live else Tone.DONE if good else Tone.FAILED
    tries = tuple(_tries(mine, live=live))
    return DispatchView(
        shelf.name,
        known.identity.run_id,
        known.identity.playbook,
        headline(known.identity, lines),
        key,
        _about(lines, begun),
        step_title(shelf.steps(known.identity), key, str(begun.data.get("step") or "")),
        printable(str(begun.agent or ""), 60),
        printable(str(begun.data.get("member") or begun.agent or "?"), 80),
        int(begun.attempt or 1),
        tone,
        verdict_word(data) if end is not None else AT_WORK if live else CUT_OFF,
        live,
        lined(str(result.get("detail") or "")),
        begun.ts,
        in_words(_seconds(begun, data, mine, live=live)),
        _tokens(data),
        spent(data.get("cost_usd")) if data else UNKNOWN,
        prose(_text(folder / "brief.md")),
        prose(_text(folder / "output.md")),
        tries,
        tuple(_checks(result)),
        tuple(lined(str(one)) for one in _list(result, "complaints")),
        tuple(sorted(result["artifacts"])) if isinstance(result.get("artifacts"), dict) else (),
        tuple(_refused(result)),
        recorded_patch(known, key, _list(result, "changes")),
        bool(result.get("accepted", True)),
        transcript_page(folder / "transcript.jsonl", page if page is not None else LAST if live else 0),
        keys[number - 1] if number else None,
        keys[number + 1] if number + 1 < len(keys) else None,
    )


def _about(lines: Sequence[Line], begun: Line) -> str:
    narrator = Narrator()
    for line in lines:
        narrator.tell(line)
        if line is begun:
            break
    return narrator.about(begun)


def _seconds(begun: Line, data: Mapping[str, Any], mine: Sequence[Line], *, live: bool) -> float:
    """How long it took, or has taken until now; of one that was cut off, as far as anybody knows."""
    if data:
        return float(data["seconds"])
    return seconds_between(begun.ts, datetime.now(UTC).isoformat() if live else mine[-1].ts)


def _tries(mine: Sequence[Line], *, live: bool) -> Iterator[TryRow]:
    """Each call: when it began, how it ended, and what followed."""
    open_: Line | None = None
    number = 0
    for line in mine:
        data = line.data
        match line.event:
            case "dispatch.start":
                if open_ is not None:
                    yield _try(number, open_, Tone.FAILED, CUT_OFF, "", "begun anew")
                open_, number = line, number + 1
            case "dispatch.try" if open_ is not None:
                why = "\n".join(lined(str(one)) for one in (data.get("complaints") or [data.get("detail") or ""]))
                delay = f" after {in_words(data['delay_s'])}" if data.get("delay_s") else ""
                followed = _MOVES.get(str(data.get("move")), str(data.get("move"))) + delay
                yield _try(number, open_, Tone.FAILED, outcome_word(data["outcome"], data["reason"]), why, followed)
                open_ = None
            case "dispatch.end" if open_ is not None:
                good = is_good(data)
                why = "" if good else "\n".join(lined(str(one)) for one in data.get("complaints", ()))
                yield _try(number, open_, Tone.DONE if good else Tone.FAILED, verdict_word(data), why, "")
                open_ = None
    if open_ is not None:
        yield _try(number, open_, Tone.WORKS if live else Tone.FAILED, AT_WORK if live else CUT_OFF, "", "")


_MOVES = {
    "repeat": "called again",
    "repair": "asked to mend it",
    "retry": "asked again",
    "wait": "waited for its service",
}


def _try(number: int, begun: Line, tone: Tone, outcome: str, why: str, followed: str) -> TryRow:
    return TryRow(number, begun.ts, printable(str(begun.data.get("runner") or ""), 40), tone, outcome, why, followed)


def _checks(result: Mapping[str, Any]) -> Iterator[CheckRow]:
    """What stands behind its verdict."""
    try:
        shown = Evidence.from_json(result.get("evidence") or {})
    except (TypeError, ValueError, AttributeError):
        return
    for check in shown.checks:
        tone = Tone.FAILED if check.red else Tone.QUIET if check.exit is None else Tone.DONE
        code = check.said if check.exit is None else f"exit {check.exit}"
        yield CheckRow(tone, check.command, ": ".join(filter(None, (code, lined(check.summary)))))
    if shown.passed or shown.failed:
        tone = Tone.FAILED if shown.failed else Tone.DONE
        yield CheckRow(tone, "tests", f"{shown.passed} passed, {shown.failed} failed")
    for name, word in shown.marks.items():
        tone = {"pass": Tone.DONE, "fail": Tone.FAILED}.get(word, Tone.QUIET)
        yield CheckRow(tone, name, word)
    for name, texts in (("failure", shown.failures), ("not met", shown.unmet), ("blocking", shown.blocking)):
        for text in texts:
            yield CheckRow(Tone.FAILED, name, lined(text))
    if shown.nothing_to_run:
        yield CheckRow(Tone.QUIET, "nothing to run", lined(shown.nothing_to_run))


def _refused(result: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{path}: outside its scope" for path in _list(result, "violations"))
    yield from (f"{path}: a document of the engine" for path in _list(result, "foreign"))
    conflicts = result.get("conflicts")
    yield from (f"{path}: {why}" for path, why in (conflicts if isinstance(conflicts, dict) else {}).items())


def _list(result: Mapping[str, Any], name: str) -> list[str]:
    found = result.get(name)
    return [str(one) for one in found] if isinstance(found, list) else []


def _tokens(data: Mapping[str, Any]) -> str:
    if not data or None in (data.get("input_tokens"), data.get("output_tokens")):
        return UNKNOWN
    return f"{counted(data['input_tokens'])} in, {counted(data['output_tokens'])} out"


def _result(folder: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(read_plain(folder / "result.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(path: Path) -> str:
    return decoded(_bytes(path, MOST_TEXT))


def _bytes(path: Path, limit: int) -> bytes:
    try:
        return read_plain(path, limit=limit)
    except OSError:
        return b""
