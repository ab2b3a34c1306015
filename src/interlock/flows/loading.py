"""From the text of a `playbook.yaml` to its typed tree, or to all of its mistakes at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from interlock.flows import checking, outcomes, texts
from interlock.flows.format import FLOW, THEN
from interlock.flows.reading import Node, Problems, read_nodes
from interlock.flows.tree import Flow, Input, Place, walk

RESERVED = frozenset(
    {checking.FINDINGS, checking.TURN, checking.MEMBER, THEN, "loop", "any", "self", "context"}
    | {"and", "or", "not", "in", "is", "if", "else", "elif", "for", "set", "true", "false", "none"}
)
"""Words that mean something else in a table or a text."""

MOST_STEPS = 1000


def read(text: str | bytes, where: str) -> Flow:
    """The flow that a text declares; `ConfigInvalid` for the first mistake, with all others in its `also`.

    Args:
        where: the file, as messages name it.
    """
    problems = Problems(where)
    flow: Flow = FLOW.read(read_nodes(text, problems), problems)
    flow = replace(flow, where=where, inputs=tuple(_inputs(flow.inputs, problems)))
    if (count := sum(1 for _ in outcomes.all_names(flow))) > MOST_STEPS:
        what = "the playbook has too many steps"
        raise problems.error(flow.at, what, expected=f"at most {MOST_STEPS}, with members", found=str(count))
    _check_names(flow, problems)
    checking.check(flow, problems)
    problems.raise_all()
    return flow


def _check_names(flow: Flow, problems: Problems) -> None:
    """One name for one thing: inputs, steps and members are all filled in and asked about by their names."""
    given: list[tuple[str, Place]] = [(one.name, one.at) for one in flow.inputs]
    given += [(name, step.at) for name, step in outcomes.all_names(flow)]
    seen: dict[str, Place] = {}
    for name, at in given:
        if texts.word(name) in RESERVED:
            problems.add(at, f"{name!r} means something else in texts and tables", expected="another name", found=name)
        elif (first := seen.setdefault(texts.word(name), at)) is not at:
            problems.add(
                at,
                f"the name {name!r} is taken: it stands in line {first.line} already",
                expected="a name of its own for each input, step and member",
                found=name,
                remedy="Give an agent step or a call a `name`." if _unnamed(flow, name) else None,
            )
    runners: dict[str, str] = {}
    for agent in flow.agents:
        role = agent.role or agent.name
        if runners.setdefault(role, agent.runner) != agent.runner:
            what = f"agent {agent.name!r} has the role {role} with another runner"
            problems.add(agent.at, what, expected="one runner for a role")
        if agent.role and agent.instructions:
            problems.add(agent.at, f"agent {agent.name!r} has a role and instructions", expected="one of them")
        if agent.judges and agent.writes:
            problems.add(
                agent.at,
                f"agent {agent.name!r} judges, and may write",
                expected="a judge that writes only what it produces",
            )
        if agent.says == "severity" and not agent.judges:
            problems.add(
                agent.at, f"agent {agent.name!r} says severities, and judges nothing", expected="judges: reading"
            )


def _unnamed(flow: Flow, name: str) -> bool:
    return any(getattr(step, "agent", getattr(step, "playbook", None)) == name for step in walk(flow.steps))


# -- inputs


def _inputs(inputs: Iterable[Input], problems: Problems) -> Iterator[Input]:
    arguments = 0
    for one in inputs:
        arguments += one.argument
        if one.argument and arguments > 1:
            problems.add(one.at, f"input {one.name!r} is a second argument", expected="one `argument: true`")
        if one.argument and one.type not in ("text", "file"):
            problems.add(
                one.at, f"input {one.name!r} cannot be an argument", expected="type text or file", found=one.type
            )
        if one.one_of and one.type != "text":
            problems.add(one.at, f"input {one.name!r} has one_of", expected="type text", found=one.type)
        if (one.at_least is not None or one.at_most is not None) and one.type != "number":
            problems.add(
                one.at, f"input {one.name!r} has a smallest or largest number", expected="type number", found=one.type
            )
        elif one.at_least is not None and one.at_most is not None and one.at_least > one.at_most:
            problems.add(one.at, f"input {one.name!r}: at_least is more than at_most", expected="at_least <= at_most")
        yield replace(one, default=_default(one, problems))


def _default(one: Input, problems: Problems) -> Any:
    node = one.default
    if not isinstance(node, Node):
        return False if one.type == "switch" else None
    value = _of_type(one.type, node)
    if value is None:
        problems.add(
            node.at, f"{node.shown} is no default for {one.name!r}", expected=f"a {one.type}", found=node.shown
        )
    elif one.one_of and value not in one.one_of:
        problems.unknown(node.at, f"the default of {one.name}", str(value), one.one_of)
    elif one.type == "number" and not (one.at_least or 0) <= value <= (value if one.at_most is None else one.at_most):
        problems.add(node.at, f"the default of {one.name!r} is out of its range", found=str(value))
    return value


def _of_type(kind: str, node: Node) -> Any:
    match kind:
        case "number":
            return int(node.text) if node.text and node.plain and re.fullmatch(r"\d{1,9}", node.text) else None
        case "switch":
            return {"true": True, "yes": True, "false": False, "no": False}.get(node.text or "") if node.plain else None
        case "list":
            items = node.items if node.items is not None else None
            return tuple(str(item.text) for item in items if item.text) if items is not None else None
        case _:
            return node.text if node.text is not None and not (node.plain and not node.text) else None
