"""A journal line as one line of text: the same words on the console, in the live view, in `logs` and in reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from interlock.telemetry.facts import LineLike

LONGEST = 200
"""Characters of one text that are shown; the journal has the rest."""


class Weight(StrEnum):
    """How much a line matters to somebody who watches."""

    DETAIL = "detail"
    """Bookkeeping: only in `logs`."""
    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    ATTENTION = "attention"
    """Something a person should look at or decide."""


@dataclass(frozen=True)
class Told:
    """What a journal line says."""

    text: str
    weight: Weight = Weight.PLAIN


def printable(text: object, limit: int = LONGEST) -> str:
    """The text in one line that a terminal prints as it is: control characters escaped, long texts cut.

    What Python calls printable is what is wanted here: no control character of either kind, no mark that turns the
    direction of writing, nothing invisible, no half of a character.
    """
    spelled = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    cut = spelled if len(spelled) <= limit else spelled[: limit - 1] + "…"
    return "".join(char if char.isprintable() else _escape(char) for char in cut)


def harmless(text: str) -> str:
    """The text with its lines and tabs, but without anything else that a terminal would obey."""
    if text.isprintable():
        return text
    kept = text.replace("\r\n", "\n")
    return "".join(char if char in _KEPT or char.isprintable() else _escape(char) for char in kept)


_KEPT = frozenset("\t\n")


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def clock(stamp: str) -> str:
    """The local time of day of a journal stamp."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%H:%M:%S")


def in_words(seconds: float) -> str:
    """A duration as people say it: 0.4 s, 12 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def tell(line: LineLike) -> Told:
    """What happened, in the words for people."""
    try:
        told = _TELL.get(line.event, _own_event)(line, line.data)
    except (LookupError, TypeError, ValueError, AttributeError):
        told = _own_event(line, line.data)  # a playbook's event of a name that is ours too, or another version's line
    return Told(printable(told.text, 2 * LONGEST), told.weight)


def dated(line: LineLike) -> str:
    """The line as it stands in a log: time, then what happened."""
    return f"{clock(line.ts)}  {tell(line).text}"


# -- dispatches


def who(line: LineLike) -> str:
    """The step and agent of a dispatch's line."""
    member, step = line.data.get("member"), line.data.get("step")
    name = str(member or line.agent or "?")
    return f"step {step}: {name}" if step and step != name else name


def _start(line: LineLike, data: Mapping[str, Any]) -> Told:
    again = "" if data["try"] == 1 else f", try {data['try']}"
    return Told(f"{who(line)}  started (attempt {line.attempt}{again}; runner {data['runner']})")


def _end(line: LineLike, data: Mapping[str, Any]) -> Told:
    good = data["outcome"] == "OK"
    parts = [f"{who(line)}  {outcome_word(data['outcome'], data['reason'])} in {in_words(data['seconds'])}"]
    if data["changes"]:
        parts.append(f"{data['changes']} {'file' if data['changes'] == 1 else 'files'} changed")
    if data["cost_usd"] is not None:
        parts.append(f"{data['cost_usd']:.2f} USD")
    if not good and (why := complaint(data)):
        parts.append(why)
    return Told(", ".join(parts), Weight.GOOD if good else Weight.BAD)


def outcome_word(outcome: str, reason: str | None) -> str:
    """The outcome as the console says it: ok, needs revision, blocked, failed (why)."""
    word = {"OK": "ok", "REVISE": "needs revision", "BLOCKED": "blocked", "FAIL": "failed"}.get(outcome, outcome)
    return f"{word} ({reason})" if reason else word


def complaint(data: Mapping[str, Any]) -> str:
    """The first thing that was wrong with a dispatch, if it was said."""
    complaints = data.get("complaints")
    first = complaints[0] if isinstance(complaints, list) and complaints else data.get("detail")
    return printable(first) if isinstance(first, str) else ""


def _try(line: LineLike, data: Mapping[str, Any]) -> Told:
    delay = in_words(data["delay_s"]) if data["delay_s"] else ""
    reason = outcome_word(data["outcome"], data["reason"])
    said = f": {printable(data['detail'])}" if isinstance(data["detail"], str) and data["detail"] else ""
    if data.get("exhausted"):
        return Told(f"{_at(line)}: {line.agent} was ended: its share of the budget is used up", Weight.ATTENTION)
    if data["move"] == "wait":
        what = f"waiting {delay} for it" if delay else "it lasts longer than may be waited"
        return Told(f"{_at(line)}: the limit of {line.agent}'s service is reached{said}; {what}", Weight.ATTENTION)
    after = f" after {delay}" if delay else ""
    return Told(f"{_at(line)}: {line.agent} {reason}{said}; {data['move']}{after}", Weight.ATTENTION)


def _recovered(line: LineLike, data: Mapping[str, Any]) -> Told:
    how = data.get("how") or f"{len(data.get('restored', ()))} changes put back"  # as older runs said it
    return Told(f"{_at(line)}: the try that was cut off: {how}{_kept(data)}", Weight.ATTENTION)


def _scope(line: LineLike, data: Mapping[str, Any]) -> Told:
    text = f"{data['by']} changed what it may not; not taken over: {_listing(data['paths'])}{_kept(data)}"
    return Told(text, Weight.BAD)


def _cleaned(line: LineLike, data: Mapping[str, Any]) -> Told:
    return Told(
        f"by-products of {data['by']} were not taken over: {_listing(data['paths'])}{_kept(data)}", Weight.DETAIL
    )


def _kept(data: Mapping[str, Any]) -> str:
    """Where changes are that were not taken over."""
    return f" (kept in {data['patch']})" if data.get("patch") else ""


def _foreign(line: LineLike, data: Mapping[str, Any]) -> Told:
    paths = _listing(data["paths"])
    return Told(f"{data['by']} changed a document of the engine; not taken over: {paths}{_kept(data)}", Weight.BAD)


def _conflict(line: LineLike, data: Mapping[str, Any]) -> Told:
    paths = _listing(data["paths"])
    return Told(
        f"{_at(line)}: both it and somebody else changed {paths}; nothing was taken over{_kept(data)}", Weight.BAD
    )


def _came_along(line: LineLike, data: Mapping[str, Any]) -> Told:
    folders = [f"{path} ({count})" for path, count in data["ignored"].items()]
    return Told(f"{_at(line)}: came along, ignored by the project: {_listing(folders)}")


def _repository(line: LineLike, data: Mapping[str, Any]) -> Told:
    return Told(f"{data['by']} used git in its layer; the repository is as it was: {_listing(data['what'])}")


def _dropped(line: LineLike, data: Mapping[str, Any]) -> Told:
    text = f"{_at(line)}: what the command changed was not taken over ({data['why']}): {_listing(data['paths'])}"
    return Told(text, Weight.ATTENTION)


# -- decisions and people


def _decide(line: LineLike, data: Mapping[str, Any]) -> Told:
    rule, row, result = decision(data)
    return Told(f"decision {rule}: {row} -> {result}" if row else f"decision {rule} -> {result}")


def decision(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """Rule, row and result of a decision; the row only where it is one of a table (names of enum members)."""
    out, given = data["out"], data.get("in")
    if not isinstance(out, Mapping) or "rule" not in out:
        return str(given.get("rule", "?")) if isinstance(given, Mapping) else "?", "", "(long)"
    row = str(out["row"])
    of_table = all(name.isidentifier() and name.isupper() for name in row.split(", "))
    return str(out["rule"]), row if of_table else "", compact(out["result"])


def compact(value: object) -> str:
    """A recorded value in a few words: of an object, the parts that say something."""
    if isinstance(value, Mapping):
        said = {name: part for name, part in value.items() if part not in (None, "", False, [], {})}
        return printable(", ".join(f"{name}={printable(part, 40)}" for name, part in said.items()), 100)
    return printable(value, 100)


def _gate(line: LineLike, data: Mapping[str, Any]) -> Told:
    again = "" if data["opening"] == 1 else " (opened anew: what it shows has changed)"
    return Told(f"gate {data['gate']}: {printable(data['question'])}{again}", Weight.ATTENTION)


def _decided(line: LineLike, data: Mapping[str, Any]) -> Told:
    note = f": {printable(data['note'])}" if data["note"] else ""
    return Told(f"gate {data['gate']}: {data['choice']} by {data['who']}{note}", Weight.ATTENTION)


def _warning(line: LineLike, data: Mapping[str, Any]) -> Told:
    return Told(f"warning: {printable(data['text'])}", Weight.ATTENTION)


def _own_event(line: LineLike, data: Mapping[str, Any]) -> Told:
    """An event that the playbook itself recorded, or one that this version does not know."""
    facts = {name: value for name, value in data.items() if name not in ("in", "out")}
    shown = ", ".join(f"{name}={printable(value, 60)}" for name, value in facts.items())
    return Told(f"{line.event}  {shown}".rstrip(), Weight.DETAIL)


# -- the run


def _run_end(line: LineLike, data: Mapping[str, Any]) -> Told:
    status, reason = str(data["status"]), data.get("reason")
    weight = {"complete": Weight.GOOD, "degraded": Weight.ATTENTION}.get(status, Weight.BAD)
    return Told(f"run {status}" + (f": {printable(reason)}" if reason else ""), weight)


def _command(line: LineLike, data: Mapping[str, Any]) -> Told:
    out = data["out"]
    code = out.get("exit") if isinstance(out, Mapping) else None
    took = f" in {in_words(out['seconds'])}" if isinstance(out, Mapping) and "seconds" in out else ""
    said = "ok" if code == 0 else f"exit {code}"
    return Told(
        f"command {said}{took}: {printable(spoken_command(data), 100)}", Weight.GOOD if code == 0 else Weight.BAD
    )


def spoken_command(data: Mapping[str, Any]) -> str:
    """The command as a person reads it; a script that begins with a comment says itself what it does."""
    argv = data.get("argv")
    if not isinstance(argv, list):
        return "?"
    script = str(argv[2]) if len(argv) > 2 and argv[:2] == ["sh", "-c"] else ""
    if script.startswith("# "):
        return script.splitlines()[0].removeprefix("# ")
    return " ".join(map(str, argv))


def _at(line: LineLike) -> str:
    return str(line.key)


def _listing(names: Any, most: int = 3) -> str:
    if not isinstance(names, (list, tuple)):
        return "(many)"
    shown = ", ".join(printable(name, 80) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _said(text: str, weight: Weight = Weight.PLAIN) -> Callable[[LineLike, Mapping[str, Any]], Told]:
    """A fixed sentence, with the facts and key of the line filled in."""

    def told(line: LineLike, data: Mapping[str, Any]) -> Told:
        facts = {name: printable(value) for name, value in data.items()}
        return Told(text.format_map(_Gaps(facts, at=line.key)), weight)

    return told


class _Gaps(dict[str, Any]):
    """Facts that an older journal may not have are shown as unknown."""

    def __init__(self, facts: Mapping[str, Any], at: str | None) -> None:
        super().__init__(facts, at=at or "")

    def __missing__(self, name: str) -> str:
        return "?"


_TELL: Mapping[str, Callable[[LineLike, Mapping[str, Any]], Told]] = {
    "run.start": _said("run started: {playbook} {key}"),
    "run.resumed": _said("run resumed ({n})"),
    "run.reopened": lambda _line, data: Told(
        f"run opened again: {data.get('because') or 'what failed will be done again'}", Weight.ATTENTION
    ),
    "run.end": _run_end,
    "run.paused": _said("run paused: {reason}", Weight.ATTENTION),
    "run.interrupted": _said("run interrupted; its state is saved", Weight.ATTENTION),
    "run.fault": _said("run stopped by a fault: {what}", Weight.BAD),
    "lock.taken_over": _said("lock taken over from {from}", Weight.ATTENTION),
    "divergence.accepted": _said("going on with what was recorded, although the playbook differs", Weight.ATTENTION),
    "journal.cut": _said("a torn last line of {bytes} bytes was cut off the journal", Weight.ATTENTION),
    "journal.recovered": _said(
        "the journal was damaged; it goes on with the {lines} lines that are whole ({dropped} are gone)",
        Weight.ATTENTION,
    ),
    "dispatch.start": _start,
    "dispatch.running": lambda line, data: Told(
        f"{_at(line)}: running" + (f" as process {data['pid']}" if "pid" in data else ""), Weight.DETAIL
    ),
    "dispatch.try": _try,
    "dispatch.end": _end,
    "dispatch.recovered": _recovered,
    "partial.requested": _said("{at}: the time is up; partial results were asked for", Weight.ATTENTION),
    "agent.waiting": _said("{at}: the agent waits ({why})", Weight.ATTENTION),
    "scope.violation": _scope,
    "scope.cleaned": _cleaned,
    "foreign_write": _foreign,
    "dispatch.session": _said("{at}: session {session}", Weight.DETAIL),
    "dispatch.importing": _said("{at}: its work is being taken over", Weight.DETAIL),
    "dispatch.recalled": _said("{at}: it had ended before the engine died, and is not called again", Weight.ATTENTION),
    "dispatch.conflict": _conflict,
    "dispatch.came_along": _came_along,
    "repository.touched": _repository,
    "command.dropped": _dropped,
    "dispatch.spent": _said("{at}: what it has cost so far", Weight.DETAIL),
    "network.refused": lambda line, data: Told(
        f"{_at(line)}: not let through to {_listing(list(data['hosts']))}", Weight.ATTENTION
    ),
    "decide": _decide,
    "gate.opened": _gate,
    "gate.decided": _decided,
    "gate.refused": _said("a decision was refused at gate {gate}: {why}", Weight.BAD),
    "message.refused": _said("a message was refused: {file}", Weight.BAD),
    "warning": _warning,
    "progress": _said("{text}"),
    "command.intent": _said("{at}: command about to run", Weight.DETAIL),
    "command": _command,
    "loop": _said("{loop}: turn {turn} of at most {cap}"),
    "cluster.end": lambda line, data: Told(f"side by side, all through: {_listing(data['members'], 8)}"),
    "schedule": lambda line, data: Told(
        f"{data['part']}: {len(data['needs'])} to be done, {data['policy']}, at most {data['at_once']} at once"
    ),
    "say": _said("{at}: output", Weight.DETAIL),
    "now": _said("{at}: clock read", Weight.DETAIL),
    "new_id": _said("{at}: id drawn", Weight.DETAIL),
    "telemetry": _said("{at}: facts so far", Weight.DETAIL),
    "list": lambda line, data: Told(f"listed {_input(data, 'folder')}", Weight.DETAIL),
    "read": lambda line, data: Told(f"read {_input(data, 'path')}", Weight.DETAIL),
    "write.intent": _said("{at}: writing {path}", Weight.DETAIL),
    "write": lambda line, data: Told(f"wrote {_input(data, 'path')}", Weight.DETAIL),
    "project": lambda line, data: Told(f"log {_input(data, 'path')} brought up to date", Weight.DETAIL),
    "set_aside.intent": _said("{at}: setting {path} aside", Weight.DETAIL),
    "set_aside": lambda line, data: Told(f"set {_input(data, 'path')} aside (kept in the attic)"),
}


def _input(data: Mapping[str, Any], name: str) -> str:
    given = data.get("in")
    return _short(given.get(name, "?")) if isinstance(given, Mapping) else "?"


def _short(value: object) -> str:
    return printable(value, 100)
