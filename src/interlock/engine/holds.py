"""What holds on every path of every playbook (PROOF-01): each a function that says why it does not, or nothing.

They read the journal's lines and what the simulated world saw, and no rule of the engine that they could share a fault
with.  That each of them can fail is shown by broken copies (tests/playbooks/broken.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from interlock.engine import events as ev
from interlock.engine.forms import Judgement
from interlock.engine.rehearsal import Path
from interlock.engine.simulation import HOOKS, is_green
from interlock.engine.stage import EACH, GUARDED, OUTSIDE, PEOPLE, PERSON
from interlock.errors import Status
from interlock.workspace.values import RemarkKind, Tree


def ends(path: Path) -> str:
    if path.fault or path.refused:
        return path.fault
    return "" if path.view.ended else f"it stands {path.view.status.value}: {path.view.why}"


def keeps_its_caps(path: Path) -> str:
    tried = Counter[tuple[str, str]]()
    for key, event in path.lines:
        if isinstance(event, ev.Turn) and event.n > path.caps.get(event.loop, event.cap):
            return f"turn {event.n} of {event.loop}"
        if isinstance(event, ev.Tried):
            tried[key, event.move] += 1
            row = path.row(event.report.agent, event.report.member)
            if tried[key, event.move] > {"repeat": row.repeats, "repair": row.repairs}.get(event.move, 100):
                return f"{key}: {event.move} {tried[key, event.move]}"
            if event.move == "gave up":
                tried[key, "repeat"] = tried[key, "repair"] = 0
    return ""


def records(path: Path) -> str:
    """What is called is recorded before and behind, one call more for each time that it was cut off."""
    started, came = Counter[str](), Counter[str]()
    for key, event in path.lines:
        started[key] += isinstance(event, ev.Called)
        came[key] += isinstance(event, ev.Tried) or (isinstance(event, ev.Done) and event.report.calls > 0)
    for key in {*started, *path.began}:
        began, ended = path.began[key], path.ended[key]
        if not began <= started[key] <= began + path.cut_off or began - ended > path.cut_off:
            return f"{key}: {started[key]} calls recorded, {began} made"
        unseen = path.cut_off if path.view.status is Status.CANCELLED else 0  # nobody went on from these
        if not ended - unseen <= came[key] <= ended:
            return f"{key}: {ended} calls paid for, {came[key]} recorded"
    return ""


def is_careful(path: Path) -> str:
    return "; ".join(path.wrong)


def people_decide(path: Path) -> str:
    said = Counter(path.answered)
    for key, event in path.lines:
        if isinstance(event, ev.GateDecided):
            said[key, event.choice] -= 1
            if event.who != PERSON or said[key, event.choice] < 0:
                return f"{key} was decided without a person"
    return ""


def peoples_work_stays(path: Path) -> str:
    """Nothing of theirs is lost but what an agent said that it takes back; what was moved aside lies in the attic."""
    meant = {name for remark in path.view.remarks if remark.kind is RemarkKind.TAKEN_BACK for name in remark.paths}
    aside = {name.partition("#")[2].partition("/")[2]: text for name, text in path.world.attic.items()}
    places: list[Mapping[str, bytes | None]] = [path.world.files, aside, *path.world.stashes.values()]
    there = {(name, line) for name, line in path.wrote for files in places if line in (files.get(name) or b"")}
    lost = [name for name, line in path.wrote if (name, line) not in there and name not in meant]
    return f"what a person wrote is lost: {', '.join(lost)}" if lost else ""


def leaves_out_what_is_refused(path: Path) -> str:
    theirs, files = path.theirs, path.world.files
    there = {name for name in {*theirs, *files} if theirs.get(name) != files.get(name)}
    told = {name for stash in path.world.stashes.values() for name in stash}
    told |= {name for _, event in path.lines if isinstance(event, ev.Delivered) for name in _paths(event)}
    told |= {event.facts.get("path", "") for _, event in path.lines if isinstance(event, ev.Intended)}
    if strays := [*sorted(there - told), *(name for name in (GUARDED, OUTSIDE) if name in there)]:
        return f"nobody delivered {', '.join(strays)}"
    return ""


def goes_by_evidence(path: Path) -> str:
    """No judge's pass counts against what it says or what runs; nothing red is delivered or committed."""
    for key, event in path.lines:
        report = event.report if isinstance(event, ev.Done) else None
        if report and report.ruling and report.ruling.passes and (why := against(path, key, report)):
            return f"{key} passed although {why}"
    for landing in landings(path):
        for line in landing.proven:
            if not _green(path, line, landing.after) and not _is_theirs(path, line, landing.before):
                return f"`{line}` is red on what was delivered"
        hooked = [run for run in path.runs.items() if run[0][0] == HOOKS and _agree(path, run[0][1], landing)]
        if landing.committed and not any(came.exit == 0 for _, came in hooked):
            return "the hooks had not agreed to what was committed"
    return ""


def is_borne_out(path: Path) -> str:
    """A judge, a green check or a person has accepted each file that is delivered, and each completion, before."""
    if not path.deciding and not any(row.judges for row in path.playbook.rows):
        return ""
    landed, events = list(landings(path)), [event for _, event in path.lines]
    findings = path.view.status is Status.DEGRADED  # it ends with what was found against it
    for landing in landed if not findings else ():
        if not landing.asked and not any(_agree(path, tree, landing) for tree in landing.accepted):
            return f"nobody had accepted {', '.join(landing.paths)}"
    told = any(isinstance(one, ev.Proved) and one.word == "told" and one.after and one.after.green for one in events)
    asked = any(isinstance(one, ev.GateDecided) and one.choice != "reject" for one in events)
    accepted = bool(landed) or told or asked or any(_accepted(path, *line) for line in path.lines)
    return "nobody has accepted it" if path.view.status is Status.COMPLETE and not accepted else ""


def survives(path: Path) -> str:
    """Cut off and resumed, a run ends as it would have ended, and nobody whose turn had ended is called again."""
    usual = path.usual
    if usual is None or any(name in PEOPLE for name in usual.schedule.values()):
        return ""  # what a person does meanwhile may be seen earlier by who comes after
    weather = any(name.endswith(EACH) for name in usual.schedule.values())  # lasts until somebody comes back
    same = {
        "files": _told(path) == _told(usual),
        "commits": path.world.refs == usual.world.refs,
        "calls": weather or path.ended == usual.ended,
        "end": path.view.status == usual.view.status and path.view.why == usual.view.why,
        "refusal": path.refused == usual.refused,
    }
    return ", ".join(f"other {name}" for name, is_same in same.items() if not is_same)


def _told(path: Path) -> dict[str, bytes]:
    """The files, times and ids aside."""
    return {name: BY_CHANCE.sub(b"", content) for name, content in path.world.files.items()}


BY_CHANCE = re.compile(rb"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?(\.\d+)?(Z|[+-]\d\d:\d\d)?|d{3,}\d+")
"""Times and ids."""
HOLDS: Mapping[str, Callable[[Path], str]] = {
    "every path comes to an end": ends,
    "caps hold": keeps_its_caps,
    "what is called is recorded, and paid for once": records,
    "nothing is done before it is safe, nor after a person's word": is_careful,
    "no gate is decided without a person": people_decide,
    "people's work stays": peoples_work_stays,
    "refused work is not in the tree": leaves_out_what_is_refused,
    "nothing is accepted against evidence": goes_by_evidence,
    "what is accepted is borne out": is_borne_out,
    "a death changes nothing": survives,
}


def broken(path: Path) -> list[str]:
    """What does not hold on this path, each with why."""
    found = [f"{name}: {why}" for name, holds in HOLDS.items() if (why := holds(path))]
    own = path.playbook.invariants if path.view.ended is not None else {}
    return [*found, *(name for name, holds in own.items() if not holds(path.view))]


# --- what is known of deliveries and judges


class Landing(NamedTuple):
    """Work that came into the tree, or into a commit."""

    before: Tree
    after: Tree
    paths: tuple[str, ...]
    accepted: tuple[Tree, ...]
    """What a judge or a green check had accepted by then."""
    asked: bool
    """A person had been asked since the last agent ended."""
    proven: tuple[str, ...]
    """The commands that decided about it."""
    committed: bool = False
    """On the person's own branch, where their hooks have a say."""


def landings(path: Path) -> Iterator[Landing]:
    accepted: tuple[Tree, ...] = ()
    proven: tuple[str, ...] = ()
    asked = landed = False
    for key, event in path.lines:
        if (tree := _accepted(path, key, event)) is not None:
            accepted += (tree,)
        if isinstance(event, ev.GateDecided | ev.Done):
            asked = isinstance(event, ev.GateDecided)
        if isinstance(event, ev.Proved) and event.word != "told":
            proven += (event.command,)
        elif isinstance(event, ev.Done) and landed:  # what comes now is decided about anew
            proven, landed = (), False
        elif isinstance(event, ev.Delivered) and event.label != "documents" and event.before and event.merged:
            if paths := _paths(event):
                landed = True
                yield Landing(event.before, event.merged, paths, accepted, asked, proven)
        elif isinstance(event, ev.Committed) and event.commit and event.what in ("branch", "commit"):
            base, tree, parent = path.world.commits[event.commit]
            was, now = path.world.trees[parent], path.world.trees[tree]
            changed = tuple(name for name in now if was.get(name) != now.get(name))
            landed = True
            yield Landing(base, tree, changed, accepted, asked, proven, committed=event.what == "commit")


def _paths(event: ev.Delivered) -> tuple[str, ...]:
    return event.landing.paths if event.state == "done" and event.landing else ()


def _accepted(path: Path, key: str, event: ev.Event) -> Tree | None:
    """The tree that this line bears out: a green check's, or that of a judge against whom nothing speaks."""
    if isinstance(event, ev.Proved) and event.word != "told":
        return event.tree if path.green(event.command, event.tree) else None
    report = event.report if isinstance(event, ev.Done) else None
    if report is None or report.form is None or not path.row(report.agent, report.member).judges:
        return None
    return None if against(path, key, report) else report.shown


def _agree(path: Path, tree: Tree, landing: Landing) -> bool:
    one, other = path.world.trees[tree], path.world.trees[landing.after]
    return all(one.get(name) == other.get(name) for name in landing.paths)


def _green(path: Path, line: str, tree: Tree) -> bool:
    came = path.green(line, tree)
    return is_green(path.world.trees[tree]) if came is None else came


def _is_theirs(path: Path, line: str, before: Tree) -> bool:
    """Red without the work, too, and so no fault of it: a person has made it so since, or allows it."""
    based = {event.command: event.run for _, event in path.lines if isinstance(event, ev.Based)}
    allowed = line not in based or based[line].green or bool(getattr(path.inputs, "accept_baseline", False))
    return allowed and not _green(path, line, before)


def against(path: Path, key: str, report: ev.Report) -> str:
    """What speaks against a judge's word: itself, or what runs."""
    form = path.row(report.agent, report.member).form or Judgement
    given = [one["criterion"] for one in path.asks[key].known.get("criteria", ())]
    claim = form.model_validate(report.form).claim(given)  # type: ignore[attr-defined]
    told = [(line, told == "green", expected) for line, told, expected in claim.checks]
    green = any(path.green(event.command, event.tree) for _, event in path.lines if isinstance(event, ev.Proved))
    ended = path.ended_at_all
    came = {line: (ended(line, report.shown), ended(line, report.shown, own=True)) for line, _, _ in told}
    why = {
        "it does not pass": not claim.passes,
        "it names what is not met": bool(claim.blocking) or not all(met for _, met in claim.criteria),
        "it leaves a criterion out": not {*given} <= {name for name, _ in claim.criteria},
        "it names a red check": any(not is_green and not expected for _, is_green, expected in told),
        "a check runs otherwise": any(came[one][0] is not None and said not in came[one] for one, said, _ in told),
        "it shows nothing": not green and not claim.no_check.strip() and not any(said for _, said, _ in told),
    }
    return next((text for text, speaks in why.items() if speaks), "")
