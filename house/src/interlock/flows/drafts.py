"""A playbook in YAML that was made of a prompt: whether it does what its trace says, and how it reads for people.

The trace binds each statement of the prompt to places in the YAML, to words of a role, or says why nobody keeps it
(AD-05).  What it binds is looked up, never believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import ValidationError

from interlock.documents.model import Model
from interlock.documents.problems import problems
from interlock.documents.reading import Keys, read_yaml
from interlock.engine.holds import broken
from interlock.engine.outlook import outlook
from interlock.engine.rehearsal import explore, variants
from interlock.errors import BadInput, InterlockError
from interlock.flows import checking, format
from interlock.flows.compiling import compiled
from interlock.flows.format import AgentStep, AskStep, Decide, End, Flow, Repeat, RunStep, Together, step_name, walk

Kind = Literal["order", "branch", "limit", "gate", "scope", "output", "role", "advice", "context"]
RULES = ("order", "branch", "limit", "gate", "scope", "output")
"""Kinds of statements that code can keep."""
WHOLE = ("steps", "agents", "inputs")
"""Places that say nothing alone."""
PROSE = ("task", "words", "question", "summary", "help", "instructions")
_KEY = re.compile(r"\.?([A-Za-z][\w-]*)|\[(\d+)\]")
_TIME = re.compile(r"\b\d+ ?(?:s|sec|seconds?|min|minutes?|h|hours?)\b")
_FEW = 5


class Statement(Model):
    """A sentence of the prompt, where it stands, and what it is."""

    id: str
    quote: str
    lines: tuple[int, int]
    kind: Kind

    @property
    def is_rule(self) -> bool:
        return self.kind in RULES


class Bound(Model):
    """What keeps a statement."""

    places: list[str] = []
    """In the YAML, as `steps[0].at_most`."""
    role: str = ""
    words: str = ""
    """What of that role's text says it."""
    not_enforced: str = ""
    """Why nobody keeps it."""


class Trace(Model):
    statements: dict[str, Bound]


def wrong(yaml: str, trace: str, roles: Mapping[str, str], statements: Sequence[Statement], name: str) -> list[str]:
    """What is wrong with a draft; empty: nothing that code can see.

    Args:
        roles: the texts of `agents/*.md`, by their names.
    """
    found = _flow(yaml)
    if isinstance(found, list):
        return found
    complaints = [] if found.playbook == name else [f"playbook: expected {name!r}, found {found.playbook!r}"]
    complaints += [
        f"agents.{agent} has neither instructions nor a role file agents/{agent}.md"
        for agent, one in found.agents.items()
        if not one.instructions and (one.role or agent) not in roles
    ]
    for agent, one in found.agents.items():
        text = roles.get(one.role or agent, one.instructions)
        said = [glob for glob in one.writes if glob.strip("*/") and glob in text] + _TIME.findall(text)
        complaints += [f"the role of {agent} says what the YAML decides: {', '.join(said)}"] if said else []
    bound = _trace(trace)
    if isinstance(bound, list):
        return [*complaints, *bound]
    complaints += _untraced(bound, statements, read_yaml(yaml, "playbook.yaml").data, roles)
    return complaints or list(rehearsed(yaml)[0])


def _flow(yaml: str) -> Flow | list[str]:
    try:
        flow, source = format.read(yaml.encode(), "playbook.yaml")
        checking.check(flow, source)
    except BadInput as error:
        return [_told(one) for one in (error, *error.also)]
    return flow


def _told(error: InterlockError) -> str:
    parts = [error.where, error.what, error.expected and f"expected {error.expected}", error.remedy]
    return ": ".join(filter(None, parts))


def _trace(text: str) -> Trace | list[str]:
    try:
        data = json.loads(text)
        return Trace.model_validate({"statements": data.get("statements", data) if isinstance(data, dict) else data})
    except ValidationError as error:
        return [f"trace.json: {_told(one)}" for one in problems(error, Trace, {"statements": data})]
    except (ValueError, RecursionError) as problem:
        return [f"trace.json is no JSON: {problem}"]


def _untraced(trace: Trace, statements: Sequence[Statement], data: Any, roles: Mapping[str, str]) -> Iterator[str]:
    known = {one.id: one for one in statements}
    yield from (f"trace.json: there is no statement {name!r}" for name in trace.statements.keys() - known.keys())
    for name, one in known.items():
        bound = trace.statements.get(name)
        if bound is None:
            yield f"trace.json: the statement {name} is not traced: {one.quote[:80]!r}"
            continue
        ways = [bool(bound.places), bool(bound.role), bool(bound.not_enforced.strip())]
        if sum(ways) != 1:
            yield f"trace.json: {name}: expected places, or role and words, or not_enforced; one of them"
        elif bound.role and one.is_rule:
            yield f"trace.json: {name} is a rule ({one.kind}): no role keeps it; bind it to a place, or say why not"
        elif bound.role and (not bound.words.strip() or _plain(bound.words) not in _plain(roles.get(bound.role, ""))):
            yield f"trace.json: {name}: these words do not stand in agents/{bound.role}.md: {bound.words[:80]!r}"
        for place in bound.places:
            if _at(data, place) is None:
                yield f"trace.json: {name}: there is no place {place!r} in playbook.yaml"
            elif one.is_rule and (place in WHOLE or place.rpartition(".")[2] in PROSE):
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


@lru_cache(maxsize=32)
def rehearsed(yaml: str) -> tuple[tuple[str, ...], int, int]:
    """What does not hold with one deviation; the fewest and the most calls of agents."""
    flow, _ = format.read(yaml.encode(), "playbook.yaml")
    playbook = compiled(flow)
    inputs = next(iter(variants(playbook)))
    found = [
        f"rehearsed: {why}, where {dict(path.schedule)}" for path in explore(playbook, inputs) for why in broken(path)
    ]
    takes = outlook(playbook, inputs)
    return tuple(found[:_FEW]), takes.fewest, takes.most


# --- for people


def outline(flow: Flow) -> str:
    """The steps as an indented list, tables with where each row leads."""
    lines: list[str] = []
    for step, at in walk(flow.steps):
        indent = "  " * at.count("steps")
        lines.append(f"{indent[2:]}- {_line(step)}")
        if isinstance(step, Together):
            lines += [f"{indent}- {name}: {member.agent}" for name, member in step.members.items()]
        if isinstance(step, Decide):
            lines += [f"{indent}- {_row(row.cells)} leads to: {row.then.words}" for row in step.rows]
    return "\n".join(lines)


def _row(cells: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{column} {' or '.join(words)}" for column, words in cells.items())


def _line(step: Any) -> str:
    match step:
        case AgentStep():
            made = f", which writes {', '.join(one.path for one in step.produces)}" if step.produces else ""
            return f"**{step_name(step)}**: the agent {step.agent}{made}"
        case Together():
            return f"**{step.name}**, side by side:"
        case Repeat():
            return f"**{step.name}**, at most {step.at_most} times, then: {step.when_used_up.words}"
        case RunStep():
            return f"**{step.name}**: `{step.command}`{', which must pass' if step.must else ''}"
        case AskStep():
            choices = ", ".join(step.choices or ("approve", "reject"))
            return f"**{step.name}**: a person is asked: {step.question} ({choices})"
        case Decide():
            return f"**{step.name}**, a table:"
        case End():
            return f"**{step.name}**: it ends, {step.status}: {step.words}"
    raise AssertionError(step)


def summary(yaml: str, trace: str, statements: Sequence[Statement]) -> str:
    """What a person approves: the process, what keeps each rule, what is left to roles, what is kept by nobody."""
    flow, bound = _flow(yaml), _trace(trace)
    assert isinstance(flow, Flow)
    assert isinstance(bound, Trace)
    rows: dict[str, list[str]] = {"structure": [], "roles": [], "nobody": []}
    for one in statements:
        how = bound.statements[one.id]
        quote = f"> {' '.join(one.quote.split())} (lines {one.lines[0]} to {one.lines[1]})"
        if how.places:
            rows["structure"].append(f"- {one.kind}, `{'`, `'.join(how.places)}`\n  {quote}")
        elif how.role:
            rows["roles"].append(f"- {how.role}\n  {quote}")
        else:
            rows["nobody"].append(f"- {' '.join(how.not_enforced.split())}\n  {quote}")
    _, fewest, most = rehearsed(yaml)
    parts = [f"# {flow.playbook}: {flow.summary}", outline(flow), f"Calls of agents: {fewest} to {most}."]
    titles = {"structure": "Kept by the process", "roles": "Left to roles", "nobody": "Kept by nobody"}
    parts += [f"## {titles[part]}\n\n" + ("\n".join(lines) or "Nothing.") for part, lines in rows.items()]
    return "\n\n".join(parts) + "\n"
