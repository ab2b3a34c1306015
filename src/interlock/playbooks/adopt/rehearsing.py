"""The adoption of a prompt against everything that reader, author, critic and the person at the gate can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interlock.engine import AgentRequest
from interlock.playbooks.adopt.briefs import RETRIES
from interlock.playbooks.adopt.draft import examined
from interlock.playbooks.adopt.inputs import AdoptInputs
from interlock.playbooks.adopt.playbook import APPROVALS, ROUNDS, TRIES, adopt
from interlock.playbooks.adopt.source import Part, SourceText
from interlock.playbooks.adopt.statements import Statement, StatementKind
from interlock.playbooks.adopt.trace import TraceOf, places_of, unbound
from interlock.testing import (
    ALWAYS,
    ANSWERS,
    ENDS,
    GATES,
    LIARS,
    STANDARD,
    VERDICTS,
    Act,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    by,
    meanwhile,
    simulated,
    writes,
)

# -- what agents and people do wrong


def _as_said(agent: str, name: str, list_name: str, change: Callable[[list[Any]], Any]) -> Deviation:
    """An agent whose JSON document has another list than it should."""

    def act(_request: AgentRequest, act: Act) -> Act:
        path = next(path for path in act.files if path.endswith(".json"))
        entries = json.loads(str(act.files[path]))[list_name]
        change(entries)
        return replace(act, files={**act.files, path: json.dumps({list_name: entries})})

    return Deviation(name, act, by(agent))


def _bound_to_nothing(entries: list[Any]) -> None:
    entries[-2] = {"id": entries[-2]["id"], "places": ["steps[99]"]}


def _not_total(_request: AgentRequest, act: Act) -> Act:
    path = next(path for path in act.files if path.endswith(".yaml"))
    rows = [line for line in str(act.files[path]).splitlines() if "accept: reject" not in line]
    return replace(act, files={**act.files, path: "\n".join(rows)})


def deviations(file: str, folder: str) -> tuple[Deviation, ...]:
    return (
        _as_said("reader", "invents a quote", "statements", lambda found: found[0].update(quote="As you like it.")),
        _as_said("reader", "leaves a line out", "statements", lambda found: found.pop()),
        Deviation("writes a table that is not total", _not_total, by("author")),
        _as_said("author", "binds a rule to nothing", "trace", _bound_to_nothing),
        _as_said("author", "leaves a statement untraced", "trace", lambda found: found.pop()),
        Deviation("edits the prompt", writes({file: "# Do as you like\n"}), by("author")),
        Deviation("installs by itself", writes({".interlock/playbooks/own/playbook.yaml": "x"}), by("author")),
        Deviation("writes a role of nobody", writes({f"{folder}/agents/idle.md": "Idle.\n"}), by("author")),
        _as_said("critic", "accepts without a look", "verdicts", lambda found: found.clear()),
        _as_said("critic", "rejects a statement", "verdicts", lambda found: found[0].update(faithful=False)),
        Deviation("a person spoils the draft", meanwhile({f"{folder}/playbook.yaml": "steps: no\n"}), by("critic")),
    )


# -- what holds all the same


def rehearsal(files: Mapping[str, str]) -> Rehearsal:
    """The first of these files, adopted."""
    inputs = AdoptInputs(next(iter(files)))
    tries = 1 + RETRIES.transient + RETRIES.contract
    return Rehearsal(
        simulated(adopt, inputs, files),
        deviations=(*STANDARD, *LIARS, *VERDICTS, *ANSWERS, *deviations(inputs.file, inputs.at.folder)),
        invariants=(
            *ALWAYS,
            ENDS,
            GATES,
            Invariant("no word of the prompt is left out", nothing_left_out),
            Invariant("what is installed holds", installed_holds),
            Invariant("a person approved what is installed", approved),
            Invariant("nobody is asked about what the critic rejects", accepted_before),
            Invariant("agents write into the draft and nowhere else", only_the_draft),
        ),
        longest=tries * (1 + APPROVALS * ROUNDS * (TRIES + 1)),
        answers=True,
    )


def _source(played: Played) -> SourceText:
    file = played.simulation.inputs.file
    return SourceText(file, played.before()[file].decode())


def _statements(played: Played) -> tuple[Statement, ...]:
    entries = json.loads(played.text(played.simulation.inputs.at.statements) or '{"statements": []}')["statements"]
    return tuple(
        Statement(one["id"], one["quote"], one["lines"][0], one["lines"][1], StatementKind(one["kind"]))
        for one in entries
    )


def nothing_left_out(played: Played) -> str | None:
    """The list of statements is made once, and has all of it."""
    if played.text(played.simulation.inputs.at.statements) is None:
        return None
    source = _source(played)
    spans = [source.find(one.quote, one.first, one.last) for one in _statements(played)]
    if None in spans:
        return "a quote is invented"
    missing = source.left_out([span for span in spans if span is not None], Part(1, 1, len(source.lines)))
    return f"left out: {missing}" if missing else None


def installed_holds(played: Played) -> str | None:
    """The installed files, with the trace of the draft, are a playbook in which every statement has its place."""
    at = played.simulation.inputs.at
    if (text := played.text(f"{at.installed}/playbook.yaml")) is None:
        return None
    below = f"{at.installed}/agents/"
    paths = [path for path in played.files if path.startswith(below)]
    roles = {path.removeprefix(below).removesuffix(".md"): played.text(path) or "" for path in paths}
    statements, trace = _statements(played), played.text(at.trace) or ""
    wrong = [*examined(text).problems, *TraceOf(statements).problems(trace)]
    if not wrong:
        wrong = [*unbound(statements, TraceOf(statements).bindings(trace), places_of(text), roles)]
    if not wrong and not played.text(f"{at.installed}/trace.md"):
        wrong = ["there is no trace beside it"]
    return wrong[0] if wrong else None


def approved(played: Played) -> str | None:
    """The last word of a person was yes, to these very bytes."""
    at = played.simulation.inputs.at
    files = played.files
    installed = [path for path in files if path.startswith(".interlock/playbooks/")]
    decided = [data["out"] for data in played.told("gate.decided")]
    if not installed:
        return None
    if not decided or decided[-1]["choice"] != "approve":
        return f"{installed[0]} is there, and nobody approved it"
    shown = played.simulation.world.documents.facts(f"{at.installed}/playbook.yaml").digest
    return None if decided[-1]["digests"].get(at.yaml) == shown else "other bytes were approved"


def accepted_before(played: Played) -> str | None:
    """Before each gate the critic answered, where there was something to judge, and accepted all of it."""
    judged: str | None = None
    for line in played.lines:
        if line.event == "dispatch.end" and line.agent == "critic":
            judged = _rejection(played, line.data["out"])
        if line.event == "gate.opened" and judged is not None:
            return judged
    return None


def _rejection(played: Played, out: Mapping[str, Any]) -> str | None:
    if out["outcome"] != "OK":
        return "a person was asked although the critic gave no verdicts"
    found = played.simulation.world.records.objects.get(out["artifacts"][played.simulation.inputs.at.verdicts])
    ids = [one["id"] for one in json.loads(found)["verdicts"] if not one["faithful"]]
    return f"a person was asked although the critic rejects {', '.join(ids)}" if ids else None


def only_the_draft(played: Played) -> str | None:
    """Whatever agents do, the rest of the workspace is as it was, but for what people do."""
    at = played.simulation.inputs.at
    own = (f"{at.folder}/", f"{at.installed}/", ".interlock/attic/", "people/")
    changed = played.altered(lambda path: not path.startswith(own))
    return f"changed: {', '.join(changed)}" if changed else None
