"""What a playbook in YAML is made of, and how its file is read (OWN-02).

Eight kinds of steps, each known by its first word.  There are no expressions: texts fill in names, and where a run goes
next stands in tables.  The models here are the format, its messages and its JSON Schema at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import Keys, Source, Text, read_yaml
from interlock.errors import DocumentInvalid, nearest, place

MOST_CHARACTERS, MOST_TURNS, MOST_ROWS = 200_000, 100, 100
THEN, FINDINGS = "then", "findings"

VERDICTS = ("pass", "revise", "blocked", "failed")
"""From the best to the worst; so are all of these."""
COMMANDS, GATE = ("passed", "failed"), ("approve", "reject")
PROGRESS = ("moving", "stuck")
"""Of a repeat, for tables inside of it: whether this turn found something else than the one before."""
TURNS = ("left", "used up")
"""Of a repeat, for tables after it."""


# --- small values


def _alone(value: Any) -> Any:
    """One thing stands for a list of it."""
    return value if isinstance(value, list) or value is None else [value]


def _duration(value: Any) -> Any:
    found = re.fullmatch(r"(\d+) *(s|sec|min|h)?", str(value).strip()) if not isinstance(value, bool) else None
    if not found:
        raise ValueError("expected a time such as 90 s, 30 min or 1 h")
    return int(found[1]) * {"min": 60, "h": 3600}.get(found[2] or "", 1)


def _is_inside(path: Any) -> Any:
    if isinstance(path, str) and (path[:1] in ("", "/", "~") or ".." in path.split("/")):
        raise ValueError("expected a path inside the workspace, without '..'")
    return path


NAME = r"[A-Za-z][A-Za-z0-9_-]{0,59}"
_WAYS = f"^(go on|again|leave|end {NAME})$"


def _way(value: Any) -> str:
    words = " ".join(str(value).split())
    if not re.match(_WAYS, words):
        raise ValueError("expected go on, again, leave, or end NAME")
    return words


_ONE_OR_MANY = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Words = Annotated[tuple[str, ...], BeforeValidator(_alone), Field(strict=False), WithJsonSchema(_ONE_OR_MANY)]
Path = Annotated[str, BeforeValidator(_is_inside)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(_alone), Field(strict=False), WithJsonSchema(_ONE_OR_MANY)]
Duration = Annotated[int, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "integer"]})]
Goes = Annotated[str, BeforeValidator(_way), WithJsonSchema({"type": "string", "pattern": _WAYS})]
"""Where a row, or a repeat that is used up, leads."""
ON, ENDS = "go on", "end "


# --- parts


class Input(Model):
    """Something that is asked of whoever starts a run."""

    help: str = Field(description="What it is for; stands in --help.")
    type: Literal["text", "number", "switch", "list", "file"] = "text"
    one_of: Words = Field((), description="The only texts that can be given.")
    default: str | int | bool | list[str] | None = Field(None, description="Without a default it must be given.")
    argument: bool = Field(False, description="Given without a name, as the words behind the playbook's name.")
    at_least: int | None = Field(None, description="The smallest number.")
    at_most: int | None = Field(None, description="The largest number.")

    @property
    def kind(self) -> Any:
        """The type of what can be given."""
        if self.one_of:
            return Literal[self.one_of]
        if self.type == "number":
            return Annotated[int, Field(ge=self.at_least, le=self.at_most)]
        return {"text": str, "file": str, "switch": bool, "list": tuple[str, ...]}[self.type]

    @model_validator(mode="after")
    def _can_be_given(self) -> Input:
        if self.type != "text" and self.one_of:
            raise ValueError("one_of is for texts")
        if self.type != "number" and (self.at_least, self.at_most) != (None, None):
            raise ValueError("at_least and at_most are for numbers")
        try:
            TypeAdapter(self.kind).validate_python(self.default, strict=self.type != "list")
        except ValidationError:
            if self.default is not None:
                raise ValueError(f"the default {self.default!r} cannot be given") from None
        return self


class Agent(Model):
    """Whoever does a piece of work."""

    role: Name | None = Field(None, description="Its role file; else its instructions, else the file of its own name.")
    instructions: str = Field("", description="Who it is and how it works, in place of a role file.")
    writes: Words = Field((), description="Patterns that it may change, beside what its steps produce.")
    judges: Literal["reading", "running"] | None = Field(
        None, description="It judges the work of others; by `running`: a pass shows a check that it ran."
    )
    runner: Name | None = Field(None, description="Who does its work, where the settings do not say otherwise.")
    time_limit: Duration = Field(3600, description="How long one call may take.")
    retries: int = Field(2, ge=0, le=5, description="How often a call that died or hung is made again.")

    @model_validator(mode="after")
    def _judges_others(self) -> Agent:
        if self.judges and self.writes:
            raise ValueError("who judges writes nothing but what its steps produce")
        return self


class Product(Model):
    """A document that an agent must write."""

    path: Path
    headings: Words = Field((), description="Headings that it must have, such as `## Steps`.")
    optional: bool = False

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class Named(Model):
    """A step whose first word has its name beside it."""

    @property
    def name(self) -> str:
        """What tables, texts and the journal call it."""
        return str(getattr(self, next(iter(type(self).model_fields))))


class AgentStep(Model):
    """One call of one agent."""

    agent: Name
    name: Name = ""
    task: str = Field(description="What is to be done.")
    reads: Paths = Field((), description="Files that it is told to read.")
    produces: Annotated[tuple[Product, ...], BeforeValidator(_alone)] = ()
    quotes: Words = Field((), description="Earlier steps whose words it gets as data; `findings`: what went wrong.")


def _called(members: dict[str, AgentStep]) -> dict[str, AgentStep]:
    if odd := [name for name, one in members.items() if one.name not in ("", name)]:
        raise ValueError(f"the name of a member is its key; {odd[0]} has another one")
    return {name: one.model_copy(update={"name": name}) for name, one in members.items()}


class Together(Named):
    """Several calls side by side."""

    together: Name
    members: Annotated[dict[Name, AgentStep], Field(min_length=1), AfterValidator(_called)]
    at_once: int | None = Field(None, ge=1)


class RunStep(Named):
    """A command that interlock runs itself."""

    run: Name
    command: str
    time_limit: Duration = 1800
    must: Literal["pass"] | None = Field(None, description="No run is complete while it fails.")


class AskStep(Named):
    """A question to a person."""

    ask: Name
    question: str
    choices: dict[Name, str] = Field({}, description="Each with what it leads to; approve and reject, if not said.")
    shows: Paths = ()


class Row(Model):
    """Names of earlier steps, each with an outcome or several, and where that leads."""

    then: Goes
    cells: dict[str, Words] = {}

    @model_validator(mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        then = {THEN: value[THEN]} if THEN in value else {}
        return {**then, "cells": {name: cell for name, cell in value.items() if name != THEN}}


class Decide(Named):
    """A table over the outcomes of earlier steps; the first row that fits counts."""

    decide: Name
    rows: Annotated[tuple[Row, ...], Field(min_length=1, max_length=MOST_ROWS)]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows for name in row.cells))

    def row_for(self, found: Callable[[str], str]) -> int | None:
        """The first row that fits."""
        fits = (all(found(column) in words for column, words in row.cells.items()) for row in self.rows)
        return next((number for number, fit in enumerate(fits) if fit), None)


class Repeat(Named):
    """Its steps again and again."""

    repeat: Name
    at_most: int = Field(ge=1, le=MOST_TURNS)
    steps: list[Step] = Field(min_length=1)
    when_used_up: Goes = Field(
        description="Where it leads after the last turn: nobody succeeds by running out of them."
    )


class End(Named):
    """The run ends so."""

    end: Name
    status: Literal["complete", "degraded", "stopped", "failed"]
    words: str
    quotes: Words = ()


STEPS: dict[str, type[Model]] = {
    next(iter(kind.model_fields)): kind for kind in (AgentStep, Together, Repeat, RunStep, AskStep, Decide, End)
}
"""By the first word."""


def _kind(value: Any) -> str:
    """The verb of a step, as the union knows it: not as the file has it, where it is a key."""
    known = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, Model) else ()
    return next((f"{key} step" for key in known if key in STEPS), "")


def _is_step(value: Any) -> Any:
    if _kind(value):
        return value
    said = str(next(iter(value), "")) if isinstance(value, dict) else str(value)
    near = nearest(said, STEPS)
    raise ValueError(f"this is no step; expected one of {', '.join(STEPS)}{f'. Did you mean {near}?' if near else ''}")


if TYPE_CHECKING:
    Step = Any
else:
    _kinds = Union[tuple(Annotated[kind, Tag(f"{verb} step")] for verb, kind in STEPS.items())]  # noqa: UP007
    Step = Annotated[_kinds, Discriminator(_kind), BeforeValidator(_is_step)]


class Flow(Model):
    """A process: who takes part, what happens, and where each outcome leads."""

    playbook: Name
    summary: str
    inputs: dict[Name, Input] = {}
    key: str = Field(description="Of which one run is open at a time.")
    agents: dict[Name, Agent] = {}
    steps: list[Step] = Field(min_length=1)

    @property
    def asked_about(self) -> set[str]:
        """Steps that a table asks about; of a group that it asks about the members, too."""
        steps = [step for step, _ in walk(self.steps)]
        asked = {name for step in steps if isinstance(step, Decide) for name in step.columns}
        groups = [step for step in steps if isinstance(step, Together) and step.name in asked]
        return asked.union(*(group.members for group in groups))


# --- reading


def step_name(step: Any) -> str:
    """What tables, texts and the journal call it."""
    return str(step.name or step.agent)


def walk(steps: Sequence[Any], at: Keys = ("steps",)) -> Iterator[tuple[Any, Keys]]:
    """Every step with its place in the file, in order; members are their group's."""
    for number, step in enumerate(steps):
        yield step, (*at, number)
        if isinstance(step, Repeat):
            yield from walk(step.steps, (*at, number, "steps"))


def read(raw: bytes, path: str) -> tuple[Flow, Source]:
    """The flow that a file declares, and where each of its parts stands; one error with all that is wrong in form."""
    from ruamel.yaml import YAML
    from ruamel.yaml.tokens import AliasToken, AnchorToken

    text = Text.of(raw, path).text
    if len(text) > MOST_CHARACTERS:
        raise DocumentInvalid(f"{path} is too long", expected=f"at most {MOST_CHARACTERS:,} characters")
    source = read_yaml(text, path)
    for token in YAML(typ="safe", pure=True).scan(text):
        if isinstance(token, AliasToken | AnchorToken):  # what it stands for would be said twice, and changed once
            where = place(path, token.start_mark.line + 1)
            raise DocumentInvalid("anchors and aliases are not taken", where=where, expected="the value itself")
    return load(Flow, source), source


def schema() -> dict[str, Any]:
    """The format as JSON Schema, for editors."""
    made = Flow.model_json_schema()
    parts = made["$defs"]
    parts["Row"]["properties"].pop("cells")
    parts["Row"]["additionalProperties"] = _ONE_OR_MANY
    parts["Product"] = {"anyOf": [{"type": "string"}, parts["Product"]]}
    products = parts["AgentStep"]["properties"]["produces"]
    parts["AgentStep"]["properties"]["produces"] = {"anyOf": [products["items"], products]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "interlock playbook", **made}
