"""A flow becomes a playbook of the engine: its inputs, agents, caps and documents, and the function that plays it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from interlock.engine import AfterComplete, Ending, Option, Playbook, Run
from interlock.errors import ConfigInvalid
from interlock.flows import handover, texts
from interlock.flows.checking import MEMBER, TURN
from interlock.flows.performing import Performance
from interlock.flows.reading import Problems
from interlock.flows.tree import AgentStep, AskStep, CallStep, Decide, End, Flow, Input, Product, Repeat, Together, walk

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Find = Callable[[str], Playbook]
_being_compiled: ContextVar[tuple[str, ...]] = ContextVar("being_compiled", default=())


def compiled(
    flow: Flow,
    home: Traversable | None = None,
    find: Find | None = None,
    *,
    comes_to: Callable[[str], None] = lambda _step: None,
) -> Playbook:
    """The flow as a playbook of the engine.

    Args:
        home: its folder, where roles are.
        find: the playbooks that it may call, by name.
        comes_to: is told each step that is reached, for those who watch what is played.
    """
    called = _called(flow, find)

    async def play(run: Run, inputs: Any) -> Ending:
        return await Performance(flow, run, _values(flow, inputs), called, comes_to).whole()

    play.__doc__ = flow.summary
    roles = [agent.role or agent.name for agent in flow.agents]
    inputs_class = _inputs_class(flow)
    return Playbook(
        name=flow.name,
        function=play,
        inputs=inputs_class,
        samples=lambda _asking: (inputs_class(**samples(flow)),),
        key=lambda inputs: texts.fill(flow.key, _values(flow, inputs)),
        summary=flow.summary,
        first=_first(flow),
        steps=_titles(flow),
        agents=tuple(dict.fromkeys(roles)),
        calls=tuple(called.values()),
        documents=partial(_documents, flow),
        caps={step.name: step.at_most for step in walk(flow.steps) if isinstance(step, Repeat)},
        needs_roles=frozenset(agent.role or agent.name for agent in flow.agents if not agent.instructions),
        runners={agent.role or agent.name: agent.runner for agent in flow.agents if agent.runner},
        after_complete=AfterComplete.ALWAYS_NEW,
        home=home,
    )


# -- inputs


_TYPES: Mapping[str, Any] = {"text": str, "file": str, "number": int, "switch": bool, "list": tuple[str, ...]}


def _inputs_class(flow: Flow) -> type:
    """A frozen dataclass, as a playbook in Python would have it."""
    ordered = sorted(flow.inputs, key=lambda one: one.default is not None)
    return make_dataclass(
        "".join(part.capitalize() for part in texts.word(flow.name).split("_")) + "Inputs",
        [(texts.word(one.name), _annotated(one, flow), field(**_default(one))) for one in ordered],
        frozen=True,
        namespace={"__doc__": f"What {flow.name} is asked for."},
    )


def _annotated(one: Input, flow: Flow) -> Any:
    option = Option(
        one.help,
        argument=one.argument,
        file=one.type == "file",
        must_exist=all(texts.word(one.name) not in texts.asked(product.path) for _, product in _products(flow)),
        at_least=one.at_least,
        at_most=one.at_most,
    )
    kind = Literal[one.one_of] if one.one_of else _TYPES[one.type]
    return Annotated[kind, option]


def samples(flow: Flow) -> dict[str, Any]:
    """Something that could be given for each input."""
    return {texts.word(one.name): texts.sample(one) for one in flow.inputs}


def _first(flow: Flow) -> str:
    """Arguments to try it with: what must be said."""
    needed = [one for one in flow.inputs if one.default is None]
    words = [f'"{one.name.upper()}"' if one.argument else f"--{_option(one)} {one.name.upper()}" for one in needed]
    return " ".join(sorted(words))


def _option(one: Input) -> str:
    return one.name.replace("_", "-")


def _default(one: Input) -> dict[str, Any]:
    return {} if one.default is None else {"default": one.default}


def _values(flow: Flow, inputs: Any) -> dict[str, Any]:
    return {(name := texts.word(one.name)): getattr(inputs, name) for one in flow.inputs}


# -- what is known of it before it runs


def _titles(flow: Flow) -> dict[str, str]:
    """The parts of its keys that are its steps."""
    shown = (step for step in walk(flow.steps) if not isinstance(step, Repeat | Decide | End | AskStep))
    return {step.name: step.name for step in shown}


def _documents(flow: Flow, inputs: Any) -> tuple[str, ...]:
    values = {TURN: 1, **_values(flow, inputs)}
    paths = []
    for member, product in _products(flow):
        known = {**dict.fromkeys(texts.asked(product.path), "*"), **values, MEMBER: member.name}
        paths.append(texts.fill(product.path, known))
    return tuple(dict.fromkeys(paths))


def _products(flow: Flow) -> Iterator[tuple[AgentStep, Product]]:
    """Every document that a step must write, with who writes it."""
    for step in walk(flow.steps):
        members = step.members if isinstance(step, Together) else (step,) if isinstance(step, AgentStep) else ()
        for member in members:
            yield from ((member, product) for product in member.produces)


def _found(find: Find, step: CallStep, problems: Problems) -> Playbook:
    """The playbook that a step calls; an error that has no place of its own has that of the step."""
    try:
        return find(step.playbook)
    except ConfigInvalid as error:
        if error.where is not None:
            raise
        raise problems.error(
            step.at, error.what, expected=error.expected, found=error.found, remedy=error.remedy
        ) from None


def _called(flow: Flow, find: Find | None) -> dict[str, Playbook]:
    """The playbooks that it calls, by name; what is asked of them is checked before anything runs."""
    problems = Problems(flow.where)
    found: dict[str, Playbook] = {}
    around = (*_being_compiled.get(), flow.name)
    token = _being_compiled.set(around)
    try:
        for step in walk(flow.steps):
            if not isinstance(step, CallStep):
                continue
            if step.playbook in around:
                problems.add(step.at, f"playbook {step.playbook!r} would call itself: {' -> '.join(around)}")
            elif find is None:
                problems.add(step.at, f"playbook {step.playbook!r} cannot be found from here", expected="its folder")
            else:
                found[step.playbook] = _found(find, step, problems)
                handover.check(step, found[step.playbook], problems)
    finally:
        _being_compiled.reset(token)
    problems.raise_all()
    return found
