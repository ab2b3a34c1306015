"""The format of `playbook.yaml`: every key with its help, and the JSON Schema that editors read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.flows.reading import Node, Problems
from interlock.flows.shapes import (
    NAME,
    Duration,
    ListOf,
    MappingKey,
    Named,
    Number,
    OneOf,
    Pattern,
    Shape,
    Template,
    WayKind,
    Word,
    YesNo,
)
from interlock.flows.tree import (
    AgentStep,
    AskStep,
    CallStep,
    Decide,
    End,
    Flow,
    FlowAgent,
    Goes,
    Input,
    Product,
    Repeat,
    Row,
    RunStep,
    Text,
    Together,
    Way,
)

MOST_TURNS = 100
MOST_ROWS = 100
TYPES = ("text", "number", "switch", "list", "file")
STATUSES = ("complete", "degraded", "stopped", "failed")
THEN = "then"
TEXT, PATH, NAMED = Template(), Template("a path inside the workspace", path=True), Word("a name", NAME)
WORDS = ListOf(Word())
PATHS = ListOf(PATH)


@dataclass(frozen=True)
class Default:
    """What counts where nothing is said: a simple value, or a list of texts; its type is checked with its input's."""

    def read(self, node: Node, problems: Problems) -> Any:
        if node.entries is not None:
            problems.add(node.at, "a mapping cannot be a default", expected="a simple value, or a list of texts")
            return Node(node.at, text="", plain=True)
        return node

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer", "boolean", "array"]}


INPUT = Shape(
    Input,
    {
        "help": MappingKey(Word(), "What it is for; stands in --help.", required=True),
        "type": MappingKey(
            OneOf(TYPES), "text (if not said), number, switch, list (of texts), or file (of the workspace)."
        ),
        "one_of": MappingKey(ListOf(Word(), least=2, alone=False), "The only texts that can be given."),
        "default": MappingKey(Default(), "What counts where it is not given; without a default it must be."),
        "argument": MappingKey(YesNo(), "It is given without a name, as the words behind the playbook's name."),
        "at_least": MappingKey(Number(), "The smallest number."),
        "at_most": MappingKey(Number(), "The largest number."),
    },
    "an input",
    help="Something that is asked of whoever starts a run.",
    ref="input",
    blanks={"help": ""},
)
AGENT = Shape(
    FlowAgent,
    {
        "role": MappingKey(
            NAMED, "Its role file; if neither this nor instructions are given, the one of its own name."
        ),
        "instructions": MappingKey(Word(), "Who it is and how it works, in place of a role file."),
        "writes": MappingKey(
            ListOf(Pattern()), "Paths and patterns that it may change, beside what its steps produce."
        ),
        "runner": MappingKey(Word(), "How it is called, where the settings do not say otherwise."),
        "judges": MappingKey(
            OneOf(("reading", "running")),
            "It judges the work of others. By `running`: a pass must show a command with its exit status.",
        ),
        "says": MappingKey(
            OneOf(("verdict", "severity")),
            "Its answer: a verdict (pass, revise, blocked, failed), or how bad what it found is "
            "(none, low, medium, high, critical, failed).",
        ),
        "time_limit": MappingKey(Duration(), "How long one call may take."),
        "retries": MappingKey(Number(0, 5), "How often a call that gave no verdict (it died, hung) is made again."),
    },
    "an agent",
    help="Whoever does a piece of work.",
    ref="agent",
)
PRODUCT = Shape(
    lambda at, **fields: Product(**fields),
    {
        "path": MappingKey(PATH, "Where it must write it.", required=True),
        "headings": MappingKey(
            ListOf(Word("a heading such as ## Steps", r"#{1,6} \S.*")), "Headings that it must have."
        ),
        "lines": MappingKey(
            Named(ListOf(Word()), "label", pattern=r"[^:\n]{1,80}"),
            "Lines `Label: value` that it must have, each with the values that may stand there, or `any`.",
        ),
        "optional": MappingKey(YesNo(), "It may be left out."),
    },
    "a product",
    help="A document that the agent must write; it counts only when it has what it must have.",
    short="path",
    ref="product",
    blanks={"path": Text("")},
)
WORK = {
    "task": MappingKey(TEXT, "What is to be done.", required=True),
    "reads": MappingKey(PATHS, "Files that it is told to read."),
    "produces": MappingKey(ListOf(PRODUCT), "Documents that it must write."),
    "quotes": MappingKey(
        ListOf(NAMED),
        "What earlier steps said or printed, quoted as data: names of steps, or `findings` for what did not go well "
        "in the turn before.",
    ),
}
MEMBER = Shape(
    AgentStep,
    {"agent": MappingKey(NAMED, "Who does it.", required=True), **WORK},
    "a member",
    help="One of those who work side by side.",
    ref="member",
    blanks={"task": Text(""), "agent": ""},
)


@dataclass(frozen=True)
class RowKind:
    """Columns with their outcomes, and where that leads."""

    def read(self, node: Node, problems: Problems) -> Row:
        if node.entries is None:
            problems.add(node.at, f"{node.shown} is no row", expected="{step: outcome, then: where it leads}")
        cells: dict[str, tuple[str, ...]] = {}
        then: Way | None = None
        for key, value in node.entries or ():
            if key.text == THEN:
                then = WayKind().read(value, problems)
            else:
                cells.setdefault(str(key.text), WORDS.read(value, problems))
        if then is None and node.entries is not None:
            problems.add(node.at, "a row does not say where it leads", expected=f"then: {WayKind.expected}")
        return Row(cells, then or Way(Goes.NOWHERE, at=node.at), node.at)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "description": "Names of earlier steps, each with an outcome or a list of them, and where that leads. "
            "A column that is left out may be anything.",
            "required": [THEN],
            "properties": {THEN: {**WayKind().schema(), "description": f"Where it leads: {WayKind.expected}."}},
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        }


class StepKind:
    """One of the eight kinds of steps, told by its first word."""

    def read(self, node: Node, problems: Problems) -> Any:
        keys = [str(key.text) for key, _ in node.entries or ()]
        verbs = [key for key in keys if key in STEPS]
        if len(verbs) != 1:
            known = ", ".join(STEPS)
            what = f"a step is {' and '.join(verbs)} at once" if verbs else "this is no step"
            said = next(((key.text or "", key.at) for key, _ in node.entries or ()), (node.text or "", node.at))
            if node.entries and not verbs:
                problems.unknown(said[1], "the step", said[0], STEPS)
            else:
                problems.add(node.at, what, expected=f"one of {known}", found=node.shown)
            return None
        return STEPS[verbs[0]].read(node, problems)

    def schema(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/step"}

    def definition(self) -> dict[str, Any]:
        return {"type": "object", "anyOf": [shape.schema() for shape in STEPS.values()]}


@dataclass(frozen=True)
class StepsKind:
    """Steps in their order."""

    def read(self, node: Node, problems: Problems) -> tuple[Any, ...]:
        found = ListOf(StepKind(), alone=False).read(node, problems)
        return tuple(step for step in found if step is not None)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}


def _agent_step(agent: str, name: str = "", **fields: Any) -> AgentStep:
    return AgentStep(name=name or agent, agent=agent, **fields)


def _together(members: Mapping[str, AgentStep], **fields: Any) -> Together:
    return Together(members=tuple(members.values()), **fields)


def _run(must: str = "", **fields: Any) -> RunStep:
    return RunStep(must_pass=must == "pass", **fields)


def _call(playbook: str, name: str = "", **fields: Any) -> CallStep:
    return CallStep(name=name or playbook, playbook=playbook, **fields)


STEPS: dict[str, Shape] = {
    "agent": Shape(
        _agent_step,
        {
            "agent": MappingKey(NAMED, "Who does it: one of `agents`.", required=True),
            "name": MappingKey(NAMED, "What the step is called, where that is not the agent's name."),
            **WORK,
        },
        "an agent step",
        help="One call of one agent.",
        ref="agent_step",
        blanks={"task": Text("")},
    ),
    "together": Shape(
        _together,
        {
            "together": MappingKey(NAMED, "What the step is called.", required=True, name="name"),
            "members": MappingKey(Named(MEMBER, "member"), "Who works side by side, by name.", required=True),
            "at_once": MappingKey(Number(1, 100), "How many of them work at the same time, at most."),
        },
        "a together step",
        help="Several calls side by side; its outcome is the worst of its members'.",
        ref="together_step",
        blanks={"members": {}},
    ),
    "repeat": Shape(
        Repeat,
        {
            "repeat": MappingKey(NAMED, "What the step is called.", required=True, name="name"),
            "at_most": MappingKey(Number(1, MOST_TURNS), "How many turns there are, at most.", required=True),
            "steps": MappingKey(
                StepsKind(), "What is done in each turn; after the last one comes the next turn.", required=True
            ),
            "when_used_up": MappingKey(
                WayKind(), "Where it leads when the last turn is over and nothing left it before.", required=True
            ),
        },
        "a repeat step",
        help="Steps that come again until a table says `leave` or `end`, a bounded number of times.",
        ref="repeat_step",
        blanks={"at_most": 1, "steps": (), "when_used_up": Way(Goes.NOWHERE)},
    ),
    "run": Shape(
        _run,
        {
            "run": MappingKey(NAMED, "What the step is called.", required=True, name="name"),
            "command": MappingKey(TEXT, "For a shell. What is filled in is one word, quoted.", required=True),
            "time_limit": MappingKey(Duration(), "How long it may take; 30 min if not said."),
            "must": MappingKey(
                OneOf(("pass",)),
                "It must pass, on the final tree too: no run completes while it fails. "
                "If not said, its outcome is recorded, and tables may ask about it.",
            ),
        },
        "a run step",
        help="A command that interlock runs itself, in a layer of its own.",
        ref="run_step",
        blanks={"command": Text("")},
    ),
    "ask": Shape(
        AskStep,
        {
            "ask": MappingKey(NAMED, "What the step is called.", required=True, name="name"),
            "question": MappingKey(TEXT, "What a person is asked.", required=True),
            "choices": MappingKey(
                Named(Word(), "choice", least=2),
                "What can be answered, each with what it leads to. If not said: approve and reject.",
            ),
            "shows": MappingKey(PATHS, "Documents that the answer is about; it counts for them as they are then."),
        },
        "an ask step",
        help="A question to a person; the run waits for the answer.",
        ref="ask_step",
        blanks={"question": Text("")},
    ),
    "decide": Shape(
        Decide,
        {
            "decide": MappingKey(NAMED, "What the step is called.", required=True, name="name"),
            "rows": MappingKey(
                ListOf(RowKind(), alone=False, most=MOST_ROWS),
                "The first row that fits counts; every combination needs one.",
                required=True,
            ),
        },
        "a decide step",
        help="A table over the outcomes of earlier steps.",
        ref="decide_step",
        blanks={"rows": ()},
    ),
    "call": Shape(
        _call,
        {
            "call": MappingKey(NAMED, "The playbook.", required=True, name="playbook"),
            "name": MappingKey(NAMED, "What the step is called, where that is not the playbook's name."),
            "with": MappingKey(Named(TEXT, "input", least=0), "Its inputs.", name="inputs"),
        },
        "a call step",
        help="Another playbook, as a step of this one.",
        ref="call_step",
    ),
    "end": Shape(
        End,
        {
            "end": MappingKey(NAMED, "What the ending is called.", required=True, name="name"),
            "status": MappingKey(OneOf(STATUSES), "How the run stands then.", required=True),
            "words": MappingKey(TEXT, "What is said.", required=True),
            "quotes": MappingKey(ListOf(NAMED), "What earlier steps said, printed with it."),
        },
        "an end step",
        help="An ending. Tables lead to it by name, or the steps before it do.",
        ref="end_step",
        blanks={"status": "failed", "words": Text("")},
    ),
}


def _flow(
    inputs: Mapping[str, Input] | None = None, agents: Mapping[str, FlowAgent] | None = None, **fields: Any
) -> Flow:
    return Flow(inputs=tuple((inputs or {}).values()), agents=tuple((agents or {}).values()), **fields)


FLOW = Shape(
    _flow,
    {
        "playbook": MappingKey(NAMED, "Its name.", required=True, name="name"),
        "summary": MappingKey(Word(), "What it does, in a sentence.", required=True),
        "inputs": MappingKey(Named(INPUT, "input"), "What is asked of whoever starts a run."),
        "key": MappingKey(TEXT, "What names the work, made of inputs: there is one live run per key.", required=True),
        "agents": MappingKey(Named(AGENT, "agent"), "Who takes part."),
        "steps": MappingKey(StepsKind(), "What happens, in this order.", required=True),
    },
    "a playbook",
    help="A playbook of interlock: who takes part, what happens, and where each outcome leads.",
    blanks={"name": "", "summary": "", "key": Text(""), "steps": ()},
)


def schema_text() -> str:
    """The schema as the file that editors read."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of `playbook.yaml`: keys, words and forms; what only the loader can see is not in it."""
    shapes = (INPUT, AGENT, PRODUCT, MEMBER, *STEPS.values())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "interlock playbook",
        **FLOW.definition(),
        "$defs": {"step": StepKind().definition(), **{shape.ref: shape.definition() for shape in shapes}},
    }
