"""A journal line as text: the same words on the console, in the live view, in `logs` and in reports.

Most are one line. What people or programs said keeps its own line breaks; whoever shows it indents all but the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from interlock.documents.words import few
from interlock.telemetry.facts import LineLike, is_good

LONGEST = 200
"""Characters of one name, path or value that are shown; the journal has the rest."""
LONGEST_SAID = 1200
"""Characters of what somebody said: a reason, a complaint, a note."""
MOST_LINES = 12
MOST_WORDS = 4
"""Words of an input that a line tells; of more it is what somebody wrote."""
FEW = 6
"""Parts of an input that are told with it; of more the rest of the line would not be read."""


class Weight(StrEnum):
    """How much a line matters to somebody who watches."""

    DETAIL = "detail"
    """Bookkeeping: only with `--verbose`."""
    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    ATTENTION = "attention"
    """Something a person should look at or decide."""


@dataclass(frozen=True)
class Telling:
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
    seen = _UNSEEN.sub(lambda found: _escape(found[0]), cut)
    return "".join(char if char.isprintable() else _escape(char) for char in seen)


def lined(text: object, limit: int = LONGEST_SAID) -> str:
    """What somebody said, with its line breaks and nothing else that a terminal would obey; long texts are cut."""
    spelled = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    lines = [line.rstrip() for line in spelled.strip().replace("\r\n", "\n").expandtabs(4).split("\n")]
    kept = [line for line in lines if line] if len(lines) > MOST_LINES else lines
    if len(kept) > MOST_LINES:
        kept = [*kept[: MOST_LINES - 1], f"(and {len(kept) - MOST_LINES + 1} lines more)"]
    shown = "\n".join(kept)
    return harmless(shown if len(shown) <= limit else shown[: limit - 1] + "…")


def indented(text: str, by: str) -> str:
    """The text with all its lines but the first moved in, so that none passes for a line of its own."""
    return "\n".join(f"{by}{row}" if row and number else row for number, row in enumerate(text.split("\n")))


def harmless(text: str) -> str:
    """The text with its lines and tabs, but without anything else that a terminal would obey, or that nobody sees."""
    kept = _UNSEEN.sub(lambda found: _escape(found[0]), text)
    if kept.isprintable():
        return kept
    kept = kept.replace("\r\n", "\n")
    return "".join(char if char in _KEPT or char.isprintable() else _escape(char) for char in kept)


_KEPT = frozenset("\t\n")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    "|(?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
"""Characters that count as printable and show nothing: a text can be written in them that models read and people do
not.  The two that choose between the pictures of a sign are fine behind one."""


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


def tell(line: LineLike) -> Telling:
    """What happened, in the words for people."""
    try:
        told = _TELL.get(line.event, _own_event)(line, line.data)
    except (LookupError, TypeError, ValueError, AttributeError):
        told = _own_event(line, line.data)  # a playbook's event of a name that is ours too, or another version's line
    return Telling(lined(told.text), told.weight)


# -- dispatches


def who(line: LineLike) -> str:
    """The agent of a dispatch's line, with its step where that says more: neither the same word nor a mere code."""
    name, step = printable(str(line.data.get("member") or line.agent or "?")), str(line.data.get("step") or "")
    told = step and step.casefold() != name.casefold() and not _CODE.fullmatch(step)
    return f"step {printable(step)}: {name}" if told else name


_CODE = re.compile(r"[A-Z][\d.]+")
"""A step that a process only numbers, such as O4.5."""


def started(line: LineLike, *, runner: bool) -> Telling:
    """A call of an agent, with the runner that makes it where that is asked for."""
    tried = line.data["try"]
    first = (line.attempt or tried) - tried + 1
    again = "" if tried == 1 else f", try {tried}"
    by = f"; runner {printable(line.data['runner'])}" if runner else ""
    return Telling(f"{who(line)}  started (attempt {first}{again}{by})")


def _end(line: LineLike, data: Mapping[str, Any]) -> Telling:
    parts = [f"{who(line)}  {verdict_word(data)} in {in_words(data['seconds'])}"]
    if data["changes"]:
        parts.append(f"{data['changes']} {'file' if data['changes'] == 1 else 'files'} changed")
    if data["cost_usd"] is not None:
        parts.append(f"{data['cost_usd']:.2f} USD")
    why = "" if is_good(data) else complaint(data)
    return Telling(", ".join(parts) + (f": {why}" if why else ""), Weight.GOOD if is_good(data) else Weight.BAD)


def verdict_word(data: Mapping[str, Any]) -> str:
    """How a dispatch ended as the console says it; of a judge, what it says of the work."""
    if data["outcome"] != "FAIL" and data.get("passed") is not None:
        word = "passes" if data["passed"] else "does not pass"
        return f"{word} ({data['reason']})" if data.get("reason") else word
    return outcome_word(data["outcome"], data["reason"])


def outcome_word(outcome: str, reason: str | None) -> str:
    """The outcome as the console says it: ok, needs revision, blocked, failed (why)."""
    word = {"OK": "ok", "REVISE": "needs revision", "BLOCKED": "blocked", "FAIL": "failed"}.get(outcome, outcome)
    return f"{word} ({reason})" if reason else word


def complaint(data: Mapping[str, Any]) -> str:
    """The first thing that was wrong with a dispatch, or with what it judged, if it was said."""
    for name in ("complaints", "against"):
        if isinstance(said := data.get(name), list) and said:
            return lined(said[0])
    if isinstance(said := data.get("detail"), str) and said:
        return lined(said)
    match data.get("out"):
        case {"data": {"findings": [str(first), *_]}}:
            return lined(first)
    return ""


def _try(line: LineLike, data: Mapping[str, Any]) -> Telling:
    delay = in_words(data["delay_s"]) if data["delay_s"] else ""
    reason = outcome_word(data["outcome"], data["reason"])
    said = f": {why}" if (why := complaint(data)) else ""
    if data.get("exhausted"):
        return Telling(f"{_at(line)}: {line.agent} was ended: its share of the budget is used up", Weight.ATTENTION)
    if data["move"] == "wait":
        what = f"waiting {delay} for it" if delay else "it lasts longer than may be waited"
        return Telling(f"{_at(line)}: the limit of {line.agent}'s service is reached{said}; {what}", Weight.ATTENTION)
    after = f" after {delay}" if delay else ""
    again = {"repeat": "called again", "repair": "asked to mend it", "retry": "asked again"}.get(data["move"], "again")
    return Telling(f"{line.agent} {reason}{said}; {again}{after}", Weight.ATTENTION)


def _recovered(line: LineLike, data: Mapping[str, Any]) -> Telling:
    how = data.get("how") or f"{len(data.get('restored', ()))} changes put back"  # as older runs said it
    return Telling(f"{_at(line)}: the try that was cut off: {how}{_kept(data)}", Weight.ATTENTION)


def _scope(line: LineLike, data: Mapping[str, Any]) -> Telling:
    text = f"{data['by']} changed what it may not; not taken over: {_listing(data['paths'])}{_kept(data)}"
    return Telling(text, Weight.BAD)


def _cleaned(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return Telling(
        f"by-products of {data['by']} were not taken over: {_listing(data['paths'])}{_kept(data)}", Weight.DETAIL
    )


def _kept(data: Mapping[str, Any]) -> str:
    """Where changes are that were not taken over."""
    return f" (kept in {data['patch']})" if data.get("patch") else ""


def _foreign(line: LineLike, data: Mapping[str, Any]) -> Telling:
    paths = _listing(data["paths"])
    return Telling(f"{data['by']} changed a document of the engine; not taken over: {paths}{_kept(data)}", Weight.BAD)


def _conflict(line: LineLike, data: Mapping[str, Any]) -> Telling:
    paths = _listing(data["paths"])
    return Telling(
        f"{_at(line)}: both it and somebody else changed {paths}; nothing was taken over{_kept(data)}", Weight.BAD
    )


def _came_along(line: LineLike, data: Mapping[str, Any]) -> Telling:
    folders = [f"{path} ({count})" for path, count in data["ignored"].items()]
    return Telling(f"{_at(line)}: came along, ignored by the project: {_listing(folders)}")


def _repository(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return Telling(f"{data['by']} used git in its layer; the repository is as it was: {_listing(data['what'])}")


def _dropped(line: LineLike, data: Mapping[str, Any]) -> Telling:
    text = f"{_at(line)}: what the command changed was not taken over ({data['why']}): {_listing(data['paths'])}"
    return Telling(text, Weight.DETAIL if data.get("byproducts") else Weight.ATTENTION)


# -- decisions and people


def _decide(line: LineLike, data: Mapping[str, Any]) -> Telling:
    made = decision(data)
    if made.inputs and not made.repeats:
        return Telling(f"decision {made.rule}: {made.inputs} -> {made.result}")
    return Telling(f"decision {made.rule} -> {made.result}", Weight.DETAIL)  # without its inputs it explains nothing


@dataclass(frozen=True)
class ShownDecision:
    """A decision as people read it."""

    rule: str
    named: tuple[str, ...]
    """Each input behind its name."""
    result: str
    short: tuple[str, ...] = ()
    """Those of them that a line can show: not what somebody wrote, or a program put out."""

    @property
    def inputs(self) -> str:
        """The short ones in a line; empty where that would be long."""
        row = ", ".join(self.short)
        return row if len(row) <= LONGEST else ""

    @property
    def repeats(self) -> bool:
        """Whether it says no more than its only input does."""
        return len(self.short) == 1 and self.short[0].rpartition(" ")[2] == self.result


def decision(data: Mapping[str, Any]) -> ShownDecision:
    """Rule, named inputs and result of a decision; inputs of older journals by the table's row."""
    out, given = data["out"], data.get("in")
    if not isinstance(out, Mapping) or "rule" not in out:
        return ShownDecision(str(given.get("rule", "?")) if isinstance(given, Mapping) else "?", (), "(long)")
    told = data.get("named")
    rule, result = str(out["rule"]), compact(out["result"])
    if not isinstance(told, Mapping):
        row = _row_of_table(str(out["row"]))
        return ShownDecision(rule, row, result, row)
    words = {name: value for name, value in told.items() if not _is_prose(value)}
    return ShownDecision(rule, tuple(_named(told, whole=True)), result, tuple(_named(words)))


def _is_prose(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) > MOST_WORDS


def _named(values: Mapping[str, Any], *, whole: bool = False) -> Iterator[str]:
    """Each value behind its name; what is unset says nothing. `whole`: of one with many parts, at least their names."""
    for name, value in values.items():
        match value:
            case None | False | "" | []:
                continue
            case True:
                yield printable(name)
            case Mapping():
                if parts := _parts(value) or (whole and _names(value)):
                    yield f"{printable(name)} {parts}"
            case list() if all(isinstance(one, str | int | float) for one in value):
                yield f"{printable(name)} {' '.join(printable(str(one)) for one in value)}"
            case list():
                said = [_parts(one) if isinstance(one, Mapping) else compact(one) for one in value]
                if any(said):
                    yield f"{printable(name)} {'; '.join(filter(None, said))}"
            case str():
                yield f"{printable(name)} {printable(value)}"
            case _:
                yield f"{printable(name)} {printable(str(value))}"


def _parts(value: Mapping[str, Any]) -> str:
    """An input of several parts by what they say; nothing of one that has many."""
    if len(value) > FEW or any(isinstance(part, Mapping | list) for part in value.values()):
        return ""
    said = (part for part in value.values() if part not in (None, "") and not isinstance(part, bool))
    return "/".join(printable(str(part)) for part in said)


def _names(value: Mapping[str, Any]) -> str:
    """The names of many parts: some of them, and how many more there are."""
    more = f" and {len(value) - FEW} more" if len(value) > FEW else ""
    return " ".join(printable(str(name)) for name in list(value)[:FEW]) + more


def _row_of_table(row: str) -> tuple[str, ...]:
    """The row of an older journal, where it is one of a table: names of enum members."""
    names = tuple(row.split(", "))
    return names if all(name.isidentifier() and name.isupper() for name in names) else ()


def compact(value: object) -> str:
    """A recorded value in a few words: of an object, the parts that say something."""
    if isinstance(value, Mapping):
        said = {name: part for name, part in value.items() if part not in (None, "", False, [], {})}
        return printable(", ".join(f"{name}={printable(part, 40)}" for name, part in said.items()), 100)
    return printable(value, 100)


def _gate(line: LineLike, data: Mapping[str, Any]) -> Telling:
    again = "" if data["opening"] == 1 else " (opened anew: what it shows has changed)"
    return Telling(f"gate {printable(data['gate'])}: {lined(data['question'])}{again}", Weight.ATTENTION)


def _decided(line: LineLike, data: Mapping[str, Any]) -> Telling:
    note = f": {lined(data['note'])}" if data["note"] else ""
    choice, person = printable(data["choice"]), printable(data["who"])
    return Telling(f"gate {printable(data['gate'])}: {choice} by {person}{note}", Weight.ATTENTION)


def _called(line: LineLike, data: Mapping[str, Any]) -> Telling:
    reason = f": {lined(data['reason'])}" if data["reason"] else ""
    weight = Weight.PLAIN if data["status"] == "complete" else Weight.ATTENTION
    return Telling(f"{printable(data['playbook'])} ended {printable(data['status'])}{reason}", weight)


def _resumed(line: LineLike, data: Mapping[str, Any]) -> Telling:
    note = f", {printable(data['who'])} says: {lined(data['note'])}" if data.get("note") else ""
    if not (changed := [printable(one) for one in data.get("playbook_changed", ())]):
        return Telling(f"run resumed ({data['n']}){note}")
    since = f"; the playbook changed since the run began: {', '.join(changed)}"
    return Telling(f"run resumed ({data['n']}){note}{since}", Weight.ATTENTION)


def _warning(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return Telling(f"warning: {lined(data['text'])}", Weight.ATTENTION)


# -- evidence


def _preflight(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return preflight(data, ())


def preflight(data: Mapping[str, Any], known: Collection[str]) -> Telling:
    """What the look before the first agent came to, with the commands that will be used.

    Args:
        known: commands as they were told before; of these only where they come from is said, if it was not.
    """
    commands = _texts(data["commands"])
    if data.get("skipped"):
        return Telling("\n".join(["not looked at before the first agent, as asked:", *commands]), Weight.ATTENTION)
    bad = [*_texts(data.get("problems", ())), *_texts(data.get("red", ()))]
    if bad:  # each command has told it already, and so does the end of the run
        return Telling("\n".join(["before the first agent, this is wrong:", *bad]), Weight.DETAIL)
    if not commands:
        return Telling("before the first agent: agents can be called; no command is named", Weight.DETAIL)
    if all(command in known for command in commands):
        return Telling("before the first agent, all is well", Weight.DETAIL)
    origins = {_origin(command, known) for command in commands}
    if len(origins) == 1 and (origin := origins.pop()):
        return Telling(f"before the first agent, all is well; what will decide is {origin}", Weight.GOOD)
    return Telling("\n".join(["before the first agent, all is well; these will decide:", *commands]), Weight.GOOD)


def _origin(command: str, known: Collection[str]) -> str:
    """Where a command that was told is from; empty where it was not told."""
    rests = (command.removeprefix(f"{told}, ") for told in known)
    return next((rest for rest in rests if rest != command and rest.startswith("from ")), "")


def named_as(data: Mapping[str, Any]) -> str:
    """A command that a person named, with what it is for."""
    return f"{printable(data['name'])}: {printable(data['command'])}"


def _proof(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return proof(data, known=False)


def proof(data: Mapping[str, Any], *, known: bool) -> Telling:
    """How a command that a person named ended when the engine ran it; one that is known by what it is for."""
    old = f" (with {_listing(data['definitions'])} as before the work)" if data.get("definitions") else ""
    said = f"{printable(data['name']) if known else named_as(data)}{old}"
    took = f"in {in_words(data['seconds'])}"
    if not data["problem"]:
        before = f", but for {len(data['known'])} that failed before" if data.get("known") else ""
        return Telling(f"{said} passes {took}{before}", Weight.GOOD)
    # Without failures of before, all are new, and what was put out shows them.
    new = f"; new: {_listing(data['new'])}" if data.get("new") and data.get("known") else ""
    tail = "\n".join(lined(data["tail"], 4000).splitlines()[-4:])
    return Telling(f"{said} {printable(data['problem'])}, {took}{new}" + (f"\n{tail}" if tail else ""), Weight.BAD)


def _noticed(line: LineLike, data: Mapping[str, Any]) -> Telling:
    return Telling("\n".join(["noticed, and told to the judges:", *_texts(data["what"])]), Weight.ATTENTION)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise TypeError(value)
    return [lined(one) for one in value]


def _option(line: LineLike, data: Mapping[str, Any]) -> Telling:
    """What a process was told by its options and the run keeps to."""
    told = [name for name, value in data.items() if value and name not in ("in", "out")]
    asked = any(value is True for value in data.values())
    return Telling(f"settled for this run: {_at(line)}: {_listing(told)}", Weight.PLAIN if asked else Weight.DETAIL)


def _own_event(line: LineLike, data: Mapping[str, Any]) -> Telling:
    """An event that the playbook itself recorded, or one that this version does not know."""
    facts = {name: value for name, value in data.items() if name not in ("in", "out")}
    shown = ", ".join(f"{name}={printable(value, 60)}" for name, value in facts.items())
    return Telling(f"{line.event}  {shown}".rstrip(), Weight.DETAIL)


# -- the run


def _run_end(line: LineLike, data: Mapping[str, Any]) -> Telling:
    status, reason = str(data["status"]), data.get("reason")
    weight = {"complete": Weight.GOOD, "degraded": Weight.ATTENTION}.get(status, Weight.BAD)
    return Telling(f"run {status}" + (f": {lined(reason)}" if reason else ""), weight)


def _command(line: LineLike, data: Mapping[str, Any]) -> Telling:
    out = data["out"]
    code = out.get("exit") if isinstance(out, Mapping) else None
    took = f" in {in_words(out['seconds'])}" if isinstance(out, Mapping) and "seconds" in out else ""
    said = "ok" if code == 0 else f"exit {code}"
    proven = str(line.key).rpartition("/")[2].startswith("check-")  # how that ended is told as a proof
    weight = Weight.DETAIL if code == 0 or proven else Weight.BAD
    return Telling(f"command {said}{took}: {printable(spoken_command(data), 100)}", weight)


def spoken_command(data: Mapping[str, Any]) -> str:
    """The command as a person reads it; a script that begins with a comment says itself what it does."""
    argv = data.get("argv")
    if not isinstance(argv, list):
        return "?"
    script = str(argv[2]) if len(argv) > 2 and argv[:2] == ["sh", "-c"] else ""
    if script.startswith("# "):
        return script.splitlines()[0].removeprefix("# ")
    return script or " ".join(map(str, argv))


def _at(line: LineLike) -> str:
    return printable(str(line.key))


def _listing(names: Any, most: int = 3) -> str:
    if not isinstance(names, (list, tuple)):
        return "(many)"
    return few([printable(name, 80) for name in names], most)


def _said(text: str, weight: Weight = Weight.PLAIN) -> Callable[[LineLike, Mapping[str, Any]], Telling]:
    """A fixed sentence, with the facts and key of the line filled in."""

    def told(line: LineLike, data: Mapping[str, Any]) -> Telling:
        facts = {name: lined(value) for name, value in data.items()}
        return Telling(text.format_map(_Gaps(facts, at=line.key)), weight)

    return told


class _Gaps(dict[str, Any]):
    """Facts that an older journal may not have are shown as unknown."""

    def __init__(self, facts: Mapping[str, Any], at: str | None) -> None:
        super().__init__(facts, at=printable(at or ""))

    def __missing__(self, name: str) -> str:
        return "?"


_TELL: Mapping[str, Callable[[LineLike, Mapping[str, Any]], Telling]] = {
    "run.start": _said("run started: {playbook} {key}"),
    "run.resumed": _resumed,
    "run.reopened": lambda _line, data: Telling(
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
    "dispatch.start": lambda line, _data: started(line, runner=True),
    "dispatch.running": lambda line, data: Telling(
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
    "network.refused": lambda line, data: Telling(
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
    "loop": _said("{loop}: turn {turn} of at most {cap}", Weight.DETAIL),
    "cluster.end": lambda line, data: Telling(
        f"side by side, all through: {_listing(data['members'], 8)}", Weight.DETAIL
    ),
    "call": _said("{playbook} begins: {key}"),
    "called": _called,
    "preflight": _preflight,
    "proof": _proof,
    "work.noticed": _noticed,
    "option": _option,
    "snapshot": _said("{at}: snapshot taken", Weight.DETAIL),
    "unready": _said("{at}: agents looked at", Weight.DETAIL),
    "schedule": lambda line, data: Telling(
        f"{data['part']}: {len(data['needs'])} to be done, at most {data['at_once']} at once"
    ),
    "say": _said("{at}: output", Weight.DETAIL),
    "now": _said("{at}: clock read", Weight.DETAIL),
    "new_id": _said("{at}: id drawn", Weight.DETAIL),
    "telemetry": _said("{at}: facts so far", Weight.DETAIL),
    "list": lambda line, data: Telling(f"listed {_input(data, 'folder')}", Weight.DETAIL),
    "read": lambda line, data: Telling(f"read {_input(data, 'path')}", Weight.DETAIL),
    "write.intent": _said("{at}: writing {path}", Weight.DETAIL),
    "write": lambda line, data: Telling(f"wrote {_input(data, 'path')}", Weight.DETAIL),
    "project": lambda line, data: Telling(f"log {_input(data, 'path')} brought up to date", Weight.DETAIL),
    "set_aside.intent": _said("{at}: setting {path} aside", Weight.DETAIL),
    "set_aside": lambda line, data: Telling(f"set {_input(data, 'path')} aside (kept in the attic)"),
}


def _input(data: Mapping[str, Any], name: str) -> str:
    given = data.get("in")
    return _short(given.get(name, "?")) if isinstance(given, Mapping) else "?"


def _short(value: object) -> str:
    return printable(value, 100)
