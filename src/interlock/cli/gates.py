"""`approve`, `reject`, `answer`, `cancel`: a gate as a person meets it, and what they say to a run.

Question, summary, documents, choices; answered in place on a terminal (EV-22), or by a command from anywhere.
"""

from __future__ import annotations

import difflib
import pydoc
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import DECIDE, Note, RunName, command
from interlock.cli.door import Door, complete_run, finish
from interlock.cli.elsewhere import check_ours, far_run, renew_own, spoken_to
from interlock.cli.history import change_lines, changes_of, readable_changes
from interlock.cli.live import PlainView
from interlock.cli.output import as_text, complain, envelope, print_json, put_beside, write_output
from interlock.cli.unattended import HeardView
from interlock.engine.folder import KnownRun, known_runs
from interlock.engine.openings import document, shown_before, since_asked
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.telemetry import harmless, indented, lined, printable, totals, verdict_word, waiting_gate

if TYPE_CHECKING:
    from interlock.engine import Ending
    from interlock.engine.journal import Line

QUEUED = "queued; a worker records it when it takes the run"
FIRST_LINES = 2
"""Of each document, so many lines are shown."""
VERDICTS = 6


@dataclass(frozen=True)
class Answered:
    """What a person chose at the terminal."""

    choice: str
    note: str = ""


# -- presenting


def gate_lines(door: Door, run_id: str, gate: Mapping[str, Any], *, commands: bool = True) -> list[str]:
    """A gate for people: the question, what led to it, what it shows, the choices and the exact commands."""
    known = door.find(run_id)
    lines = [f"  question: {indented(lined(gate['question']), '    ')}", *_summary(known)]
    for path in gate["digests"]:
        lines += _document(known, gate, path)
    choices = [(str(choice["name"]), str(choice["leads_to"])) for choice in gate["choices"]]
    lines += [f"  choice: {printable(name)} - {printable(leads)}" for name, leads in choices]
    return [*lines, *command_lines(door, run_id, gate)] if commands else lines


def command_lines(door: Door, run_id: str, gate: Mapping[str, Any]) -> list[str]:
    """How to decide at a gate from anywhere, and how to see more of what it is about."""
    known = door.find(run_id)
    away = known.folder.elsewhere() is not None
    if not away and not door.library.has(known.identity):
        return ["  decide in the program that runs this playbook: the command line does not have it"]
    names = [str(choice["name"]) for choice in gate["choices"]]
    words = _commands(run_id, names, "" if away else " --resume")
    lines = [f"  decide with: {door.spoken(command)}" for command in words]
    return [*lines, f"  see more: {door.spoken(f'diff {run_id}')}", f"            {door.spoken(f'why {run_id}')}"]


def _commands(run_id: str, names: Sequence[str], at_once: str) -> Iterator[str]:
    """Each way to decide as it is typed.

    Args:
        at_once: what lets the run go on here at once; a worker of the fleet goes on by itself.
    """
    for name in names:
        match name:
            case "approve":
                yield f"approve {run_id}{at_once}"
            case "reject":
                yield f'reject {run_id} --note "what is to be changed"{at_once}'
            case _:
                yield f"answer {run_id} {shlex.quote(name)}{at_once}"
    if not names:
        yield f'answer {run_id} "your words"{at_once}'


def _summary(known: KnownRun) -> Iterator[str]:
    """What happened since a person was last asked: how many were called, and what judges said."""
    lines = known.folder.lines()
    since = since_asked(lines)
    if not since.said:
        return
    yield f"  {since.said}"
    yield from (f"    {_verdict(line)}" for line in since.judged[-VERDICTS:])
    if (changes := readable_changes(known, lines)) is None:
        yield f"  code: what changed cannot be read; why: interlock diff {known.identity.run_id}"
    else:
        yield from (row for row in change_lines(changes) if row.startswith(("  code: ", "  documentation: ")))


def _verdict(line: Line) -> str:
    said = [str(one) for one in (*line.data.get("complaints", ()), *line.data.get("against", ()))]
    why = f": {printable(said[0])}" if said else ""
    return f"{printable(line.data['member'])} {verdict_word(line.data)}{why}"


def _document(known: KnownRun, gate: Mapping[str, Any], path: str) -> Iterator[str]:
    """One document: its size, what is new in it since the gate was last opened, how it begins."""
    text, before = _texts(known, gate, path)
    if text is None:
        yield f"  shows: {printable(path)} (no such file)"
        return
    rows = text.splitlines()
    size = f"{len(rows)} {'line' if len(rows) == 1 else 'lines'}, {len(text.encode())} bytes"
    yield f"  shows: {printable(path)} ({size}{_since(before, text)})"
    said = [row.strip() for row in rows if row.strip() and not row.startswith(("#", "---", "```", "|--"))]
    yield from (f"    {printable(row, 100)}" for row in said[:FIRST_LINES])


def _since(before: str | None, text: str) -> str:
    """What changed since the same gate showed it before; nothing for what is shown the first time."""
    if before is None:
        return ""
    if before == text:
        return ", just as you saw it before"
    added, removed = 0, 0
    for row in difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0):
        added += row.startswith("+") and not row.startswith("+++")
        removed += row.startswith("-") and not row.startswith("---")
    return f", changed since you saw it: +{added} -{removed}"


def _texts(known: KnownRun, gate: Mapping[str, Any], path: str) -> list[str | None]:
    """A document as it is, and as the same gate showed it before; None where there is none."""
    before = shown_before(known.folder, known.folder.lines(), gate["gate"], gate["digests"], path)
    now = document(known.folder, path).content
    return [None if raw is None else as_text(raw) for raw in (now, before)]


# -- asking


def ask(door: Door, run_id: str, gate: Mapping[str, Any]) -> Answered | None:
    """The answer of the person at the terminal; None when they would rather decide later."""
    names = [str(choice["name"]) for choice in gate["choices"]]
    keys = _keys(names)
    try:
        while True:
            menu = "  ".join([*(_marked(name, key) for key, name in keys.items()), "[v]iew", "[q]uit"])
            said = _read(f"{menu}: " if names else "Your answer, or [v]iew, [q]uit: ")
            if said in ("q", "quit"):
                complain(*command_lines(door, run_id, gate))
                return None
            if said in ("v", "view"):
                _view(door, run_id, gate)
            elif not names and said:
                return Answered(said)
            elif (choice := keys.get(said) or next((name for name in names if name == said), None)) is not None:
                must = choice == "reject"
                note = _read("What is to be changed? " if must else "A note for whoever works next (or Enter): ")
                if note or not must:
                    return Answered(choice, note)
    except (EOFError, KeyboardInterrupt):
        complain("", *command_lines(door, run_id, gate))
        return None


def _keys(names: Sequence[str]) -> dict[str, str]:
    """A letter for each choice: the first of its own that is free, else a number."""
    keys: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        letter = next((char for char in name.lower() if char.isalpha() and char not in {*keys, "v", "q"}), str(number))
        keys[letter] = name
    return keys


def _marked(name: str, key: str) -> str:
    place = name.lower().find(key)
    return f"[{key}] {name}" if place < 0 else f"{name[:place]}[{name[place]}]{name[place + 1 :]}"


def _read(prompt: str) -> str:
    put_beside(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _view(door: Door, run_id: str, gate: Mapping[str, Any]) -> None:
    """Everything that the decision is about: what changed in each document, the documents, the patch."""
    known = door.find(run_id)
    parts = []
    for path in gate["digests"]:
        text, before = _texts(known, gate, path)
        text = text or "(no such file)\n"
        if before is not None and before != text:
            rows = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now", lineterm="")
            parts.append("\n".join([f"=== what changed in {path}", *rows]))
        parts.append(f"=== {path}\n\n{text}")
    try:
        changes = changes_of(known, known.folder.lines(), literal=False)
    except InterlockError as error:
        parts.append(f"=== what the run changed cannot be shown: {error.what}")
    else:
        if changes.patch:
            parts.append(f"=== what the run changed\n\n{changes.patch.decode('utf-8', 'replace')}")
        if changes.besides:
            parts.append("\n".join(["=== what came along beside it, not shown", *map(printable, changes.besides)]))
    whole = harmless("\n\n".join(parts))
    if sys.stdout.isatty():
        pydoc.pager(whole)
    else:
        complain(whole)


# -- deciding


WaitingRun = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="The run: its id, the beginning of it, or 'latest'. Default: the only one that waits.",
        autocompletion=complete_run,
        show_default=False,
    ),
]
GoOn = Annotated[bool, typer.Option("--resume", help="Go on with the run at once, in this process.")]
ShownDigest = Annotated[
    str | None,
    typer.Option(
        "--shown",
        metavar="DIGEST",
        help="Only where the gate is as it was shown: `shown` of the gate, from show --json.",
        show_default=False,
    ),
]
By = Annotated[
    str,
    typer.Option(
        "--by", metavar="NAME", help="Who decided, if not you; your own name is kept behind it.", show_default=False
    ),
]


@dataclass(frozen=True)
class Signed:
    """What is to be known of a decision beyond its words: who made it, and about which opening."""

    by: str = ""
    shown: str | None = None

    @property
    def who(self) -> str | None:
        from interlock.engine.people import person

        return f"{printable(self.by, 200)}, by {person()}" if self.by.strip() else None


YOURS = Signed()
"""By the user of this process, about whatever the gate shows."""


@command(
    "approve",
    example='interlock approve latest --note "looks good" --resume',
    honours=("runner", "trust", "detach"),
    panel=DECIDE,
)
def approve(
    door: Door,
    run: WaitingRun = "",
    note: Note = "",
    resume: GoOn = False,
    record_in_task: Annotated[
        bool, typer.Option("--record-in-task", help="Also fill in the approval field of the task's own file.")
    ] = False,
    shown: ShownDigest = None,
    by: By = "",
) -> int:
    """Approve what a waiting run shows; it is recorded at once, and the run can go on."""
    return decide(door, run, "record" if record_in_task else "approve", note, Signed(by, shown), go_on=resume)


@command(
    "reject",
    example='interlock reject latest --note "the plan forgets the tests"',
    honours=("runner", "trust", "detach"),
    panel=DECIDE,
)
def reject(
    door: Door, run: WaitingRun = "", note: Note = "", resume: GoOn = False, shown: ShownDigest = None, by: By = ""
) -> int:
    """Reject what a waiting run shows, and say why."""
    if not note.strip():
        raise ConfigInvalid(
            "a rejection needs a reason",
            where="option --note",
            expected="--note TEXT",
            remedy=f'For example: {door.spoken(f"reject {run}".rstrip())} --note "the plan forgets the tests"',
        )
    return decide(door, run, "reject", note, Signed(by, shown), go_on=resume)


@command("answer", example="interlock answer latest stash", honours=("runner", "trust", "detach"), panel=DECIDE)
def answer(
    door: Door,
    choice: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] CHOICE",
            help="The run, if several wait; then one of the gate's choices, or a text.",
            autocompletion=complete_run,
            show_default=False,
        ),
    ],
    note: Note = "",
    resume: GoOn = False,
    shown: ShownDigest = None,
    by: By = "",
) -> int:
    """Answer the question at which a run waits."""
    if len(choice) > 2:
        raise ConfigInvalid(
            "an answer is one word or one text in quotes",
            where="command line",
            found=printable(" ".join(choice)),
            remedy=f"For example: {door.spoken(shlex.join(('answer', choice[0], ' '.join(choice[1:]))))}",
        )
    return decide(door, choice[0] if len(choice) == 2 else "", choice[-1], note, Signed(by, shown), go_on=resume)


@command("cancel", example="interlock cancel latest", panel=DECIDE)
def cancel(door: Door, run: RunName) -> int:
    """End a run for good: whoever works on it is interrupted; documents stay as they are."""
    from interlock.engine import people

    known = _find(door, run)
    if (far := far_run(door, known, "cancel a run")) is not None:
        told = finish(far.cancel())
        if door.json:
            print_json(_object(known, "running", "told to end") if told else as_queued(known))
        how = "its worker was told" if told else "queued; a worker ends it"
        complain(f"Run {far.run_id} is to end for good: {how}.", _see_next(door, far.run_id))
        return 0
    check_ours(door, known.identity.run_id)
    view = PlainView(door.errand, keep_output=True)
    with HeardView(door, view) as heard:
        try:
            heard.turn_to(known.identity, known.folder.lines())
        except ConfigInvalid as problem:  # a run can be ended whatever the settings say
            view.remark(f"nobody else is told of it: {problem.what}")
        finish(people.cancel(door.runs(heard), known.identity.run_id))
    if door.json:
        print_json(_object(known, "stopped", "cancelled"))
    complain(f"Run {known.identity.run_id} is cancelled.")
    return 0


def decide(door: Door, name: str, choice: str, note: str, signed: Signed = YOURS, *, go_on: bool) -> int:
    """Record a decision, say how it goes on and, if asked for, go on."""
    from interlock.cli.run import carry
    from interlock.engine import people
    from interlock.engine.lifecycle import ending_of

    known = _find(door, name)
    run_id = known.identity.run_id
    verb = {"approve": "approved", "record": "approved", "reject": "rejected"}.get(
        choice, f"answered with {printable(choice, 60)}"
    )
    if (far := far_run(door, known, "decide at a gate")) is not None:
        gate = finish(far.decide(choice, note, signed.who, signed.shown))
        if door.json:
            print_json(as_queued(known))
        complain(f"Gate {gate.gate} of {run_id}: {verb}; queued.", _see_next(door, run_id))
        return 0
    check_ours(door, run_id)
    view = PlainView(door.errand, keep_output=door.json)
    with HeardView(door, view) as heard:  # the run may end with the decision
        heard.turn_to(known.identity, known.folder.lines())
        gate = finish(people.decide(door.runs(heard), run_id, choice, note=note, who=signed.who, shown=signed.shown))
    if gate.handed_over:
        complain(f"Gate {gate.gate} of {run_id}: {verb}; handed over to the process that works on the run.")
        if door.json:
            print_json(_object(known, "running", "handed over"))
        return 0
    complain(f"Gate {gate.gate} of {run_id}: {verb}, recorded.")
    ending = ending_of(known.folder.lines(), known.folder.objects)
    if (go_on or door.detach) and ending is None:
        call = door.call()
        return carry(door, lambda runs: runs.resume(run_id, call))
    if ending is not None:
        return _ended(door, known, ending, view.said, go_on=go_on)
    complain(f"  go on with: {door.spoken(f'resume {run_id}')}")
    if door.json:
        print_json(_object(known, "waiting", f"{verb}; resume goes on"))
    return 0


def _ended(door: Door, known: KnownRun, ending: Ending, said: list[str | bytes], *, go_on: bool) -> int:
    """Nothing was left to do behind the decision: the run has ended with it."""
    code = ending.status.exit_code if go_on else 0
    reason = f": {indented(lined(ending.reason), '  ')}" if ending.reason else ""
    if door.json:
        output = "".join(map(as_text, (*said, ending.output)))
        print_json(_object(known, ending.status.value, ending.reason, output=output, exit_code=code))
    else:
        write_output(ending.output)
    complain(f"With that the run has ended: {ending.status.value}{reason}")
    return code


def _see_next(door: Door, run_id: str) -> str:
    return f"  a worker records it when it takes the run; see: {door.spoken(f'watch {run_id}')}"


def _find(door: Door, name: str) -> KnownRun:
    """The run that is meant; without a name, the only one that waits."""
    known = spoken_to(door, name) if name else only_waiting(door)
    door.errand.turn_to(known.identity)
    return known


def only_waiting(door: Door) -> KnownRun:
    """The one run of the workspace that waits for a decision; `Refused` where there is none, or more than one.

    One that went to the fleet from here counts; a copy of somebody else's is meant only by whoever names it.
    """
    renew_own(door)
    own = (known for known in known_runs(door.root) if not known.is_copy)
    waiting = [known for known in own if waiting_gate(known.folder.lines()) is not None]
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise Refused("no run waits for a decision", remedy=f"See how they stand with: {door.spoken('runs')}")
    ids = [known.identity.run_id for known in waiting]
    raise Refused(
        f"{len(ids)} runs wait for a decision",
        expected=f"one of {', '.join(ids)}",
        remedy=f"Say which one, for example: {door.spoken(f'show {ids[-1]}')}",
    )


def as_queued(known: KnownRun) -> dict[str, Any]:
    """A run of the fleet to which something was said."""
    return _object(known, "waiting", QUEUED)


def _object(known: KnownRun, status: str, reason: str, *, output: str = "", exit_code: int = 0) -> dict[str, Any]:
    """The one object of ``--json``: how the run stands after what was said to it."""
    lines = known.folder.lines()
    return envelope(
        known.identity,
        status=status,
        exit_code=exit_code,
        reason=reason,
        output=output,
        sums=totals(lines),
        finished_at=lines[-1].ts if lines else None,
    )
