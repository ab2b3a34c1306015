"""A playbook in YAML that was made of a prompt: whether it does what its trace says, and how it reads for people.

The trace binds each statement of the prompt to places in the YAML, to words of a role, or says why nobody keeps it
(AD-05).  What it binds is looked up, never believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import RootModel

from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import Keys, read_json
from interlock.errors import BadInput
from interlock.flows.reviewing import Reviewed, outline, reviewed
from interlock.playbooks.adopt.statements import Statement

RULES = ("order", "branch", "limit", "gate", "scope", "output")
"""Kinds of statements that code can keep."""
WHOLE = ("steps", "agents", "inputs")
"""Places that say nothing alone."""
PROSE = ("task", "words", "question", "summary", "help", "instructions")
_KEY = re.compile(r"\.?([A-Za-z][\w-]*)|\[(\d+)\]")
_TIME = re.compile(r"\b\d+ ?(?:s|sec|seconds?|min|minutes?|h|hours?)\b")


class Bound(Model):
    """What keeps a statement."""

    places: list[str] = []
    """In the YAML, as `steps[0].at_most`."""
    role: str = ""
    words: str = ""
    """What of that role's text says it."""
    not_enforced: str = ""
    """Why nobody keeps it."""


class Trace(RootModel[dict[str, Bound]]):
    """By statement."""


class Made(NamedTuple):
    """A draft with nothing against it that code can see."""

    process: Reviewed
    trace: Mapping[str, Bound]


def checked(
    yaml: str, trace: str, roles: Mapping[str, str], statements: Sequence[Statement], name: str
) -> Made | list[str]:
    """The draft, or all that is wrong with it.

    Args:
        roles: the texts of `agents/*.md`, by their names.
    """
    try:
        process = reviewed(yaml, "playbook.yaml")
        bound = load(Trace, read_json(trace, "trace.json")).root
    except BadInput as error:
        return [_told(one) for one in (error, *error.also)]
    flow = process.flow
    wrong = [] if flow.playbook == name else [f"playbook: expected {name!r}, found {flow.playbook!r}"]
    for agent, one in flow.agents.items():
        role = one.role or agent
        if not one.instructions and role not in roles:
            wrong.append(f"agents.{agent} has neither instructions nor a role file agents/{role}.md")
        text = roles.get(role, one.instructions)
        if said := [glob for glob in one.writes if glob.strip("*/") and glob in text] + _TIME.findall(text):
            wrong.append(f"the role of {agent} says what the YAML decides: {', '.join(said)}")
    wrong += _untraced(bound, statements, process.source.data, roles)
    return [*wrong, *process.wrong] or Made(process, bound)


def _told(error: Any) -> str:
    parts = [error.where, error.what, error.expected and f"expected {error.expected}", error.remedy]
    return ": ".join(filter(None, parts))


def _untraced(
    trace: Mapping[str, Bound], statements: Sequence[Statement], data: Any, roles: Mapping[str, str]
) -> Iterator[str]:
    known = {one.id: one for one in statements}
    yield from (f"trace.json: there is no statement {name!r}" for name in trace.keys() - known.keys())
    for name, one in known.items():
        is_rule, bound = one.kind in RULES, trace.get(name)
        if bound is None:
            yield f"trace.json: the statement {name} is not traced: {one.quote[:80]!r}"
            continue
        ways = [bool(bound.places), bool(bound.role), bool(bound.not_enforced.strip())]
        if sum(ways) != 1:
            yield f"trace.json: {name}: expected places, or role and words, or not_enforced; one of them"
        elif bound.role and is_rule:
            yield f"trace.json: {name} is a rule ({one.kind}): no role keeps it; bind it to a place, or say why not"
        elif bound.role and (not bound.words.strip() or _plain(bound.words) not in _plain(roles.get(bound.role, ""))):
            yield f"trace.json: {name}: these words do not stand in agents/{bound.role}.md: {bound.words[:80]!r}"
        for place in bound.places:
            if _at(data, place) is None:
                yield f"trace.json: {name}: there is no place {place!r} in playbook.yaml"
            elif is_rule and (place in WHOLE or place.rpartition(".")[2] in PROSE):
                yield f"trace.json: {name} is a rule ({one.kind}): {place!r} is prose or a whole part: it keeps nothing"


def _at(data: Any, place: str) -> Any:
    keys: Keys = tuple(found[1] or int(found[2]) for found in _KEY.finditer(place))
    if not keys or "".join(found[0] for found in _KEY.finditer(place)) != place:
        return None
    for key in keys:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def summary(made: Made, statements: Sequence[Statement]) -> str:
    """What a person approves: the process, what keeps each rule, what is left to roles, what is kept by nobody."""
    kept: dict[str, list[str]] = {"Kept by the process": [], "Left to roles": [], "Kept by nobody": []}
    for one in statements:
        how = made.trace[one.id]
        title = "Kept by the process" if how.places else "Left to roles" if how.role else "Kept by nobody"
        kept[title].append(f"- {one.kind}, {_by(how)}\n  > {one.told}")
    flow, _, _, fewest, most = made.process
    parts = [f"# {flow.playbook}: {flow.summary}", outline(flow), f"Calls of agents: {fewest} to {most}."]
    parts += [f"## {title}\n\n" + ("\n".join(lines) or "Nothing.") for title, lines in kept.items()]
    return "\n\n".join(parts) + "\n"


def traced(made: Made, statements: Sequence[Statement]) -> str:
    """Each statement of the prompt, in its order, with what becomes of it."""
    rows = (f"- {one.id}, {one.kind}: {_by(made.trace[one.id])}\n  > {one.told}\n" for one in statements)
    return f"# What becomes of each statement: {made.process.flow.playbook}\n\n{''.join(rows)}"


def _by(how: Bound) -> str:
    if how.places:
        return ", ".join(f"`{one}`" for one in how.places)
    return f"left to {how.role}" if how.role else f"kept by nobody: {' '.join(how.not_enforced.split())}"
