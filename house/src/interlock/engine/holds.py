"""What holds on every path of every playbook (PROOF-01): each a function that says why it does not, or nothing.

They read the journal's lines and what the simulated world saw, and use no rule of the engine that they could share a
fault with.  That each of them can fail is shown by broken copies (tests/playbooks/broken.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.engine import events as ev
from interlock.engine.rehearsal import EACH, GUARDED, KILLED, OUTSIDE, PEOPLE, PERSON, UNSAVED, Path
from interlock.workspace.values import Tree


def comes_to_an_end(path: Path) -> str:
    if path.fault or path.refused:
        return path.fault
    return "" if path.view.ended else f"it stands {path.view.status.value}: {path.view.why}"


def keeps_its_caps(path: Path) -> str:
    start, tried = path.view.start, Counter[tuple[str, str]]()
    for key, event in path.lines:
        if isinstance(event, ev.Turn) and start and event.n > start.caps.get(event.loop, event.cap):
            return f"turn {event.n} of {event.loop}"
        if isinstance(event, ev.Tried):
            tried[key, event.move] += 1
            row = path.stage.rows[event.report.agent]
            most = {"repeat": row.repeats, "repair": row.repairs}.get(event.move)
            if most is not None and tried[key, event.move] > most:
                return f"{key}: {event.move} {tried[key, event.move]}"
            if event.move == "gave up":
                tried[key, "repeat"] = tried[key, "repair"] = 0
    return ""


def is_recorded(path: Path) -> str:
    """What is called is recorded before and after, one call more for a death in the middle of it."""
    started, came = Counter[str](), Counter[str]()
    for key, event in path.lines:
        started[key] += isinstance(event, ev.Started) and event.n > 0
        came[key] += isinstance(event, ev.Tried) or (isinstance(event, ev.Done) and event.report.calls > 0)
    for key in {*started, *path.stage.began}:
        called, ended = path.stage.began[key], path.stage.ended[key]
        if not called <= started[key] <= called + path.stage.kills or called - ended > path.stage.kills:
            return f"{key}: {called} calls, {ended} ended, {started[key]} recorded"
        if came[key] != ended and not path.refused:
            return f"{key}: {ended} calls ended, {came[key]} recorded"
    return ""


def is_seen(path: Path) -> str:
    """Nothing is paid for twice, nothing happens before what led to it is safe."""
    return "; ".join(path.stage.wrong)


def people_decide(path: Path) -> str:
    said = Counter(path.stage.answered)
    for key, event in path.lines:
        if isinstance(event, ev.GateDecided):
            said[key, event.choice] -= 1
            if event.who != PERSON or said[key, event.choice] < 0:
                return f"{key} was decided without a person"
    return ""


def peoples_work_stays(path: Path) -> str:
    edits = [*path.stage.edits, (UNSAVED, path.stage.theirs.get(UNSAVED, b""))]
    lost = [name for name, line in edits if line not in path.files.get(name, b"")]
    return f"what a person wrote is lost: {', '.join(lost)}" if lost else ""


def only_what_was_delivered_is_there(path: Path) -> str:
    theirs, files = path.stage.theirs, path.files
    there = {name for name in {*theirs, *files} if theirs.get(name) != files.get(name)}
    landed = {name for _, event in path.lines if isinstance(event, ev.Delivered) for name in _paths(event)}
    ours = path.playbook.state_documents
    if strays := [name for name in there if name not in landed and name not in ours]:
        return f"refused work is in the tree: {', '.join(strays)}"
    if strays := [name for name in (GUARDED, OUTSIDE) if name in files]:
        return f"nobody let it be written: {', '.join(strays)}"
    return ""


def stands_on_evidence(path: Path) -> str:
    """No pass of a judge counts against what it says or what runs; nothing red is delivered."""
    lines = path.lines
    for key, event in lines:
        if isinstance(event, ev.Done) and event.report.ruling and event.report.ruling.passes:
            if why := against(path, key, event.report):
                return f"{key} passed although {why}"
    for landing in landings(path):
        for line in path.decides:
            if path.green(line, landing.after) is False and not _allowed(path, line, landing.before):
                return f"delivered although `{line}` is red"
    return ""


def is_accepted_by_somebody(path: Path) -> str:
    """A judge's pass that stands, or a green check, bears out each file that is delivered, and each completion."""
    judged = any(row.judges for row in path.playbook.rows)
    checked = any(isinstance(event, ev.Based | ev.Proved) for _, event in path.lines)
    if not judged and not checked:
        return ""
    for landing in landings(path):
        if not landing.asked and not any(_agree(path, tree, landing) for tree in _borne_out(path)):
            return f"nobody accepted what was delivered: {', '.join(landing.paths)}"
    complete = path.view.ended is not None and path.view.ended.status == "complete"
    return "nobody accepted it" if complete and not any(True for _ in _borne_out(path)) else ""


def survives(path: Path) -> str:
    """Resumed after a death, a run ends as it would have ended."""
    usual = path.usual
    if usual is None or any(name in PEOPLE for name in usual.schedule.values()):
        return ""  # what a person does meanwhile may be seen earlier by who comes after
    world, other = path.stage.world, usual.stage.world
    same = {
        "files": world.files == other.files,
        "commits": world.refs == other.refs,
        "end": (path.view.status, path.view.why, path.refused) == (usual.view.status, usual.view.why, usual.refused),
    }
    return ", ".join(f"other {name}" for name, is_same in same.items() if not is_same)


HOLDS: Mapping[str, Callable[[Path], str]] = {
    "every path comes to an end": comes_to_an_end,
    "caps hold": keeps_its_caps,
    "what is called is recorded": is_recorded,
    "nothing is paid twice, nothing happens before it is safe": is_seen,
    "no gate is decided without a person": people_decide,
    "people's work stays": peoples_work_stays,
    "refused work is not in the tree": only_what_was_delivered_is_there,
    "nothing is accepted against evidence": stands_on_evidence,
    "a judge or a check bears it out": is_accepted_by_somebody,
    "a death changes nothing": survives,
}


def broken(path: Path) -> list[str]:
    """The invariants that do not hold on this path, with why."""
    found = [f"{name}: {why}" for name, holds in HOLDS.items() if (why := holds(path))]
    own = path.playbook.invariants if path.view.ended is not None else {}
    return [*found, *(name for name, holds in own.items() if not holds(path.view))]


# --- what is known of deliveries and judges


@dataclass(frozen=True)
class Landing:
    """Work that came into the tree, or on a branch."""

    before: Tree
    after: Tree
    paths: tuple[str, ...]
    asked: bool
    """A person was asked since the last agent had ended."""


def landings(path: Path) -> Iterator[Landing]:
    asked = False
    for _, event in path.lines:
        if isinstance(event, ev.GateDecided | ev.Done):
            asked = isinstance(event, ev.GateDecided)
        if isinstance(event, ev.Delivered) and event.label != "documents" and _paths(event):
            assert event.before is not None and event.merged is not None
            yield Landing(event.before, event.merged, _paths(event), asked)
        elif isinstance(event, ev.Committed) and event.commit and event.what == "branch":
            order, trees = path.stage.world.commits[event.commit], path.stage.world.trees
            base, work = trees[order.base], trees[order.work]
            changed = tuple(name for name in {*base, *work} if base.get(name) != work.get(name))
            yield Landing(order.base, order.work, changed, asked)


def _paths(event: ev.Delivered) -> tuple[str, ...]:
    return event.landing.paths if event.state == "done" and event.landing else ()


def _borne_out(path: Path) -> Iterator[Tree]:
    """The trees that a green check, or a judge against whom nothing speaks, has accepted."""
    for key, event in path.lines:
        if isinstance(event, ev.Proved) and path.green(event.command, event.tree):
            yield event.tree
        elif isinstance(event, ev.Done) and path.stage.rows[event.report.agent].judges and event.report.shown:
            if event.report.form is not None and not against(path, key, event.report):
                yield event.report.shown


def _agree(path: Path, tree: Tree, landing: Landing) -> bool:
    trees = path.stage.world.trees
    return all(trees[tree].get(name) == trees[landing.after].get(name) for name in landing.paths)


def _allowed(path: Path, line: str, before: Tree) -> bool:
    """Red without the work, too, and so no fault of it: the person's, or allowed."""
    start, based = path.view.start, {event.command for _, event in path.lines if isinstance(event, ev.Based)}
    changed = start is not None and before != start.standing.tree
    accepts = bool(getattr(path.inputs, "accept_baseline", False))
    return path.green(line, before) is False and (changed or accepts or line not in based)


def against(path: Path, key: str, report: ev.Report) -> str:
    """What speaks against a judge's word: itself, or what runs."""
    form = path.stage.rows[report.agent].form
    given = [one["criterion"] for one in path.stage.asks[key].known.get("criteria", ())]
    claim: Any = form.model_validate(report.form).claim(given) if form and report.form else None  # type: ignore[attr-defined]
    if claim is None or not claim.passes:
        return "it does not pass"
    if claim.blocking or not all(met for _, met in claim.criteria):
        return "it names what is not met"
    if {*given} - {name for name, _ in claim.criteria}:
        return "it leaves a criterion out"
    for line, told, expected in claim.checks:
        if told == "red" and not expected:
            return f"it says that `{line}` is red"
        came = path.green(line, report.shown), path.green(line, report.shown, own=True)
        if came[0] is not None and (told == "green") not in came:
            return f"`{line}` runs otherwise"
    green = any(path.green(event.command, event.tree) for _, event in path.lines if isinstance(event, ev.Proved))
    own = any(told == "green" and not expected for _, told, expected in claim.checks)
    return "" if green or own or claim.no_check.strip() else "it shows nothing"


__all__ = ["EACH", "HOLDS", "KILLED", "broken"]
