"""`diff` and `why`: what a run changed, and what made it go the way it went."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.changes import accepted_work, changes_of
from interlock.cli.desk import Desk
from interlock.cli.gates import can_go_on_here
from interlock.cli.options import RunName, command
from interlock.cli.output import complain, print_json, print_lines, write_output
from interlock.cli.overview import glance
from interlock.cli.panels import LOOKING
from interlock.contracts import Evidence
from interlock.documents.files import read_plain
from interlock.engine.folder import Known, find_run
from interlock.engine.lifecycle import is_cancelled, waiting_gate
from interlock.errors import Refused
from interlock.telemetry import Narrator, Told, Weight, clock, decision, indented, is_good, lined, printable

if TYPE_CHECKING:
    from interlock.engine.journal import Line

REASONS = ("decide", "dispatch.end", "proof", "gate.decided", "preflight", "work.noticed", "scope.violation", "run.end")
"""Events that move a run."""
LAST = 8
"""Of a run without a named step, so many of them are told: the last."""


def add(app: typer.Typer) -> None:
    @command(app, "diff", example="interlock diff latest", panel=LOOKING)
    def diff(
        desk: Desk,
        run: RunName,
        agent: Annotated[
            str, typer.Argument(metavar="[AGENT]", help="Only the work of this agent.", show_default=False)
        ] = "",
        stat: Annotated[bool, typer.Option("--stat", help="Only the files, with lines added and removed.")] = False,
    ) -> int:
        """Print what the work of a run changed, as a patch: each file against how the run found it."""
        known = find_run(desk.root, run)
        lines = known.folder.lines()
        if agent:
            _check_agent(known, lines, agent)
        found = changes_of(known, lines, agent or None)
        if desk.json:
            files = [{"path": one.path, "added": one.added, "removed": one.removed} for one in found.code]
            patch = found.patch.decode("utf-8", "replace")
            facts = {"run_id": known.identity.run_id, "code": files, "documents": list(found.documents)}
            print_json({**facts, "patch": patch})
        elif stat:
            print_lines([*(one.shown for one in found.code), *(f"{path} (document)" for path in found.documents)])
        elif found.patch:
            write_output(found.patch)
        else:
            complain(f"Run {known.identity.run_id} has changed no file.")
        return 0

    @command(app, "why", example="interlock why latest", panel=LOOKING)
    def why(
        desk: Desk,
        run: RunName,
        step: Annotated[
            str,
            typer.Argument(
                metavar="[STEP]", help="A step, an agent, an item or a key of the journal.", show_default=False
            ),
        ] = "",
    ) -> int:
        """Say why a run went the way it went: the rule, its inputs by name, and the evidence."""
        known = find_run(desk.root, run)
        lines = known.folder.lines()
        moves = list(_moves(lines, step))
        if not moves and step:
            steps = list(dict.fromkeys(str(line.data["step"]) for line in lines if line.data.get("step")))
            raise Refused(
                f"nothing was decided in {step!r}",
                expected=f"one of {', '.join(steps[:20])}" if steps else "a step of this run",
                remedy=f"See all of them with: {desk.spoken(f'logs {known.identity.run_id}')}",
            )
        told = moves if step else moves[-LAST:]
        if desk.json:
            print_json({"run_id": known.identity.run_id, "because": [_facts(known, line) for line, _ in told]})
            return 0
        now = glance(known)
        how = f": {indented(lined(now.how), '  ')}" if now.how else ""
        print_lines([f"{known.identity.run_id} is {now.status}{how}"])
        print_lines([text for line, said in told for text in _explained(known, line, said)])
        if now.status not in ("complete", "degraded", "running") and can_go_on_here(known):
            complain(f"go on with: {desk.spoken(_way_on(known, lines))}")
        return 0


def _way_on(known: Known, lines: Sequence[Line]) -> str:
    """The command that lets the run go on; a cancelled one does not, and one at a gate waits for its answer."""
    name = known.identity.run_id
    if is_cancelled(lines):
        return "run --help"
    return f"show {name}" if waiting_gate(lines) is not None else f"resume {name}"


def _check_agent(known: Known, lines: Sequence[Line], agent: str) -> None:
    made = accepted_work(known, lines)
    if not any(agent in (one.agent, one.member, one.key) for one in made):
        names = list(dict.fromkeys(one.member for one in made))
        raise Refused(
            f"{agent!r} has changed nothing in run {known.identity.run_id}",
            expected=f"one of {', '.join(names)}" if names else "an agent whose work was accepted; there is none",
        )


def _moves(lines: Sequence[Line], step: str) -> Iterator[tuple[Line, Told]]:
    """What moved the run, in the place that is asked for."""
    narrator = Narrator()
    for line in lines:
        told = narrator.tell(line)
        names = [narrator.about(line), line.agent, line.data.get("member"), line.data.get("step"), line.key]
        here = {str(name).lower() for name in (*names, *(line.key or "").split("/"))}
        if line.event in REASONS and (step.lower() in here if step else _tells_something(line, told)):
            yield line, told


def _tells_something(line: Line, told: Told) -> bool:
    """Whether an event explains the way of the run: not what simply went well, nor bookkeeping."""
    if line.event == "dispatch.end":
        return line.data.get("passed") is not None or not is_good(line.data)
    return told.weight is not Weight.DETAIL


def _explained(known: Known, line: Line, told: Told) -> list[str]:
    head = f"{clock(line.ts)}  {line.key or ''}".rstrip()
    match line.event:
        case "decide":
            made = decision(line.data)
            given = made.named or ("what the log has at this key",)
            return ["", head, f"  rule: {printable(made.rule)}", *_listed("from", given), f"  result: {made.result}"]
        case "dispatch.end":
            report = _report(known, line)
            shown = Evidence.from_json(report.get("evidence") or {})
            checks = [check.shown for check in shown.checks]
            said = [] if is_good(line.data) else [lined(one) for one in line.data.get("complaints", ())]
            nothing = [f"nothing to run: {shown.nothing_to_run}"] if shown.nothing_to_run else []
            return [
                "",
                head,
                f"  {indented(told.text, '    ')}",
                *_listed("evidence", [*checks, *nothing]),
                *_listed("against", shown.contradictions),
                *_listed("complaint", said),
            ]
    return ["", head, f"  {indented(told.text, '    ')}"]


def _listed(name: str, texts: Sequence[str]) -> list[str]:
    return [f"  {name}: {indented(lined(text), '    ')}" for text in texts]


def _report(known: Known, line: Line) -> dict[str, Any]:
    try:
        value = json.loads(read_plain(known.folder.path / "dispatches" / str(line.key) / "result.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _facts(known: Known, line: Line) -> dict[str, Any]:
    facts: dict[str, Any] = {"at": line.ts, "key": line.key, "event": line.event}
    if line.event == "decide":
        out = line.data["out"]
        return {**facts, "rule": out.get("rule"), "inputs": line.data.get("named"), "result": out.get("result")}
    if line.event == "dispatch.end":
        report = _report(known, line)
        names = ("agent", "member", "outcome", "reason", "passed", "complaints", "evidence")
        return {**facts, **{name: report.get(name) for name in names}}
    return {**facts, **{name: value for name, value in line.data.items() if name not in ("in", "out")}}
