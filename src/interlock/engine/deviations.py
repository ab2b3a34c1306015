"""What can go otherwise than well in a run, whatever the playbook: at calls of agents, at commands, at gates."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from interlock.agents.runner import AgentRequest
from interlock.contracts import Contract, Outcome, sample
from interlock.engine.model import CommandResult
from interlock.engine.simulated_disk import MemoryLayer
from interlock.engine.simulated_repository import Trouble
from interlock.engine.simulation import Act
from interlock.engine.world import CommandCall


@dataclass(frozen=True)
class Commanded:
    """A command that is run."""

    call: CommandCall
    number: int
    """Of the occasion in its run, so that what is printed can differ each time."""


@dataclass(frozen=True)
class Gate:
    """A question that a person is asked."""

    name: str
    choices: tuple[str, ...]
    number: int

    @classmethod
    def of(cls, opened: Mapping[str, Any], number: int) -> Gate:
        return cls(str(opened["gate"]), tuple(str(choice["name"]) for choice in opened["choices"]), number)


Occasion = AgentRequest | Commanded | Gate
"""Where a run depends on somebody else's answer."""


def subject(occasion: Occasion) -> Hashable:
    """What is asked there: equal where it is the same question once more, in a later turn."""
    match occasion:
        case AgentRequest():
            return "agent", occasion.agent, occasion.member
        case Commanded():
            return "command", occasion.call.argv
        case Gate():
            return "gate", occasion.name


@dataclass(frozen=True)
class Deviation:
    """Something other than the best that an agent can do at one call."""

    name: str
    act: Callable[[AgentRequest, Act], Act]
    """From the request and the best act to the deviating one."""
    fits: Callable[[AgentRequest], bool] = lambda _request: True
    lasting: bool = False
    """It does so at every later call too."""


@dataclass(frozen=True)
class CommandDeviation:
    """Another result of a command than the one it has where all is well."""

    name: str
    act: Callable[[Commanded, CommandResult], CommandResult]
    fits: Callable[[Commanded], bool] = lambda _command: True
    lasting: bool = False


@dataclass(frozen=True)
class GateDeviation:
    """Another answer of a person than the first that is offered."""

    name: str
    act: Callable[[Gate, str], str]
    fits: Callable[[Gate], bool] = lambda _gate: True
    lasting: bool = False


AnyDeviation = Deviation | CommandDeviation | GateDeviation


Given = Act | CommandResult | str
"""What somebody does or says at an occasion."""


def fits(deviation: AnyDeviation, occasion: Occasion) -> bool:
    """Whether it can happen there."""
    match deviation, occasion:
        case Deviation(), AgentRequest():
            return deviation.fits(occasion)
        case CommandDeviation(), Commanded():
            return deviation.fits(occasion)
        case GateDeviation(), Gate():
            return deviation.fits(occasion)
    return False


def deviating(deviation: AnyDeviation, occasion: Occasion, usual: Given) -> Given:
    """What is answered in place of the usual."""
    match deviation, occasion, usual:
        case Deviation(), AgentRequest(), Act():
            return deviation.act(occasion, usual)
        case CommandDeviation(), Commanded(), CommandResult():
            return deviation.act(occasion, usual)
        case GateDeviation(), Gate(), str():
            return deviation.act(occasion, usual)
    return usual


CRASH = Deviation("crash", lambda _request, act: replace(act, crash=True))


def hung(request: AgentRequest, act: Act) -> Act:
    return replace(act, seconds=request.timeout_s + request.partial_grace_s + 60)


PEOPLES_FILE, PEOPLES_WORDS = "people/notes.txt", "by a person\n"


def interfered(request: AgentRequest, act: Act) -> Act:
    """A person works on meanwhile: on a file of their own, and on one that the agent writes too."""
    both = dict.fromkeys(list(act.files)[:1], PEOPLES_WORDS)
    return replace(act, people={**act.people, PEOPLES_FILE: PEOPLES_WORDS, **both})


REMARK = "a remark of a person"


def remarks(*paths: str, form: str = "{}\n", behind: str = "") -> Callable[[AgentRequest, Act], Act]:
    """While the agent works, a person writes a remark into these documents, as far as they are there and not its to
    write: at their end, or behind these words of them."""
    remark = form.format(REMARK).encode()

    def change(request: AgentRequest, act: Act) -> Act:
        assert isinstance(request.within, MemoryLayer)
        there = {path: request.within.facts(path).content for path in paths if path not in act.files}
        texts = {path: content for path, content in there.items() if content is not None}
        parts = {path: text.rpartition(behind.encode()) if behind else (text, b"", b"") for path, text in texts.items()}
        edits = {path: b"".join((before, found, remark, after)) for path, (before, found, after) in parts.items()}
        return replace(act, people={**act.people, **edits})

    return change


STANDARD: tuple[Deviation, ...] = (
    Deviation("says nothing", lambda _request, act: replace(act, message="", result=None)),
    Deviation("dies", lambda _request, act: replace(act, code=-9, message="", files={})),
    Deviation("hangs", hung),
    Deviation("cannot be started", lambda _request, act: replace(act, spawn_error="no such program")),
    Deviation("writes outside", lambda _request, act: replace(act, files={**act.files, "outside.txt": "x"})),
    Deviation("lies", lambda _request, act: replace(act, files={})),
    Deviation("a person works on", interfered),
)
"""What any agent can do wrong, and what people do meanwhile, whatever the playbook."""


def befallen(trouble: Trouble) -> Deviation:
    return Deviation(trouble.value, lambda _request, act: replace(act, befalls=trouble))


TROUBLES: tuple[Deviation, ...] = tuple(map(befallen, Trouble))
"""What happens to the user's repository while an agent works, for playbooks that use it."""


def contract_of(request: AgentRequest) -> Contract:
    return request.contract or Contract()


RED = {"command": "make test", "exit": 1, "summary": "1 failed"}
WEAKENED_TEST = "tests/test_existing.py"


def against_its_evidence(request: AgentRequest, act: Act) -> Act:
    """The same verdict, and behind it a command that failed: in the answer's data, and in every document."""
    line = f"\n- `{RED['command']}`: exit {RED['exit']}\n"
    files = {path: _with_red(path, text, line) for path, text in act.files.items()}
    message = act.message
    if (start := message.find("{")) >= 0:
        data, end = json.JSONDecoder().raw_decode(message, start)
        evidence = data.get("evidence") if isinstance(data.get("evidence"), dict) else {}
        message = (
            message[:start] + json.dumps({**data, "evidence": {**evidence, "verification": [RED]}}) + message[end:]
        )
    return replace(act, message=message, files=files)


def _with_red(path: str, text: str | bytes | None, line: str) -> str | bytes | None:
    if not isinstance(text, str) or not path.endswith((".md", ".yaml")):
        return text
    return text + (line if path.endswith(".md") else f"checks:\n- {json.dumps(RED)}\n")


def only_its_documents(request: AgentRequest, act: Act) -> Act:
    owed = {artifact.path for artifact in contract_of(request).artifacts}
    return replace(act, files={path: text for path, text in act.files.items() if path in owed})


LIARS: tuple[Deviation, ...] = (
    Deviation(
        "passes against its own evidence",
        against_its_evidence,
        fits=lambda request: contract_of(request).claim is not None,
    ),
    Deviation("changes nothing", only_its_documents, fits=lambda request: contract_of(request).must_change),
    Deviation(
        "weakens tests",
        lambda _request, act: replace(act, files={**act.files, WEAKENED_TEST: "@pytest.mark.skip\n"}),
        fits=lambda request: contract_of(request).must_change,
    ),
)
"""Agents that want to be believed, whatever the playbook."""


# -- words of agents


def _token(request: AgentRequest, outcome: Outcome) -> str | None:
    """The word with which this agent says that, where it has one."""
    answer = contract_of(request).answer
    return next(
        (word for word, is_for in answer.tokens.items() if is_for is outcome and word not in answer.unsaid), None
    )


def _says(request: AgentRequest, act: Act, word: str | None) -> Act:
    return replace(act, message=sample(contract_of(request).answer, word))


def _finding(request: AgentRequest, act: Act) -> Act:
    """The same with something new in it each time: in the answer, and in every document of text."""
    new = f"\nFinding {request.attempt}.\n"
    files = {
        path: text + new if isinstance(text, str) and path.endswith(".md") else text for path, text in act.files.items()
    }
    return replace(act, message=f"Finding {request.attempt}.\n\n{act.message}", files=files)


def verdict(outcome: Outcome, *, lasting: bool = False) -> Deviation:
    """An agent that does its part and says this of it."""
    name = {Outcome.REVISE: "wants a revision", Outcome.BLOCKED: "is blocked", Outcome.FAIL: "says that it failed"}
    return Deviation(
        name[outcome] + (" each time" if lasting else ""),
        lambda request, act: _says(request, act, _token(request, outcome)),
        fits=lambda request: _token(request, outcome) is not None,
        lasting=lasting,
    )


VERDICTS: tuple[Deviation, ...] = (
    *map(verdict, (Outcome.REVISE, Outcome.BLOCKED, Outcome.FAIL)),
    verdict(Outcome.REVISE, lasting=True),
    Deviation(
        "finds something else each time",
        lambda request, act: _finding(request, _says(request, act, _token(request, Outcome.REVISE))),
        fits=lambda request: _token(request, Outcome.REVISE) is not None,
        lasting=True,
    ),
)
"""What any agent can say of its work beside the best, in the words of its contract."""


def other_words(tokens: Iterable[str]) -> tuple[Deviation, ...]:
    """Words that are no verdict of their own, such as severities: each, where it is not the best one."""
    return tuple(deviation for token in tokens for deviation in _word(token))


def _word(token: str) -> Iterator[Deviation]:
    def known(request: AgentRequest) -> bool:
        answer = contract_of(request).answer
        return token in answer.tokens and token != answer.best

    def said(request: AgentRequest, act: Act) -> Act:
        return _says(request, act, token)

    yield Deviation(f"says {token}", said, known)
    yield Deviation(f"says {token} each time", said, known, lasting=True)
    yield Deviation(
        f"says {token} of something else each time",
        lambda request, act: _finding(request, said(request, act)),
        known,
        lasting=True,
    )


# -- commands and people


def _red(number: int) -> CommandResult:
    return CommandResult(1, stdout=f"FAILED test_{number}\n1 failed\n")


COMMANDS: tuple[CommandDeviation, ...] = (
    CommandDeviation("fails", lambda _command, _result: _red(0)),
    CommandDeviation("does not end", lambda _command, _result: CommandResult(None, timed_out=True)),
    CommandDeviation("fails each time", lambda _command, _result: _red(0), lasting=True),
    CommandDeviation("fails elsewhere each time", lambda command, _result: _red(command.number), lasting=True),
)
"""What any command can do beside passing."""


def _answers(place: int, *, lasting: bool) -> GateDeviation:
    return GateDeviation(
        f"answers with choice {place + 1}" + (" each time" if lasting else ""),
        lambda gate, _first: gate.choices[place],
        fits=lambda gate: len(gate.choices) > place,
        lasting=lasting,
    )


MOST_CHOICES = 6
ANSWERS: tuple[GateDeviation, ...] = tuple(
    _answers(place, lasting=lasting) for place in range(1, MOST_CHOICES) for lasting in (False, True)
)
"""What a person can say beside the first choice."""
