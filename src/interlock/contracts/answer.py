"""How an agent says its verdict, and what it said.

Everything an agent can return, sensible or not, becomes exactly one outcome (CM-11).  The order of questions:
was it cancelled; did it start; does its runner know of a fault; did it end in time; is there a verdict; is it ours
(session); does the exit status agree with it; does it carry what it must.  No verdict is never a pass (CM-12), except
where the artifact is the verdict (EN-42), which `judge` then demands.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from interlock.contracts.outcome import Outcome, Reason
from interlock.contracts.structure import alternatives, labelled, quoted
from interlock.documents import DuplicateKey, Fence, JsonInvalid, Sections, load_json
from interlock.errors import EngineFault

Completion = Literal["json", "line", "text", "none"]
SHORT = 2000
"""Characters up to which what a message says is remembered."""
SEARCHED = 200_000
"""Characters at the end of a message in which an object among other words is looked for."""


@dataclass(frozen=True)
class AnswerFormat:
    """The words an agent may use and where they are looked for.

    A JSON object in the result file always counts first.  Then, in the final message: ``json`` takes the whole message,
    a fenced JSON block, or the last object in it; ``line`` a line that begins with a token and a colon; ``text`` a
    JSON object that has the field, or a line ``Status: <token>``; ``none`` looks nowhere.  What is quoted, indented or
    stands in other code is not the agent's own word, and two different verdicts are none (EV-13).
    """

    tokens: Mapping[str, Outcome]
    best: str
    """The token of complete success; the scripted player says it."""
    unsaid: tuple[str, ...] = ()
    """Tokens that are understood but not offered: what they come to is known, but they are not this agent's to say."""
    field: str = "status"
    completion: Completion = "line"
    artifact_is_verdict: bool = False
    """Exit 0 is enough, since verified artifacts are demanded as well (EN-42)."""
    exit_is_verdict: bool = False
    """Any text with exit 0 is an answer, which without a token says nothing about the work; any other exit is a
    failure (router, ``returns: text``)."""
    late: str | None = None
    """The token of an answer that came only after partial results had been asked for."""
    check_data: Callable[[Mapping[str, Any]], str | None] | None = None
    """What else the answer's data must hold: a complaint, or ``None``."""
    from_text: Callable[[str], Mapping[str, Any]] | None = None
    """Makes the data of an answer given in words."""
    example: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further fields of a sample answer, such that `check_data` accepts it."""

    def __post_init__(self) -> None:
        for token in filter(None, (self.best, self.late)):
            if token not in self.tokens:
                raise EngineFault(
                    f"{token!r} is not a token of the answer format", expected=alternatives([*self.tokens])
                )


PLAIN = AnswerFormat(
    {"DONE": Outcome.OK, "NEEDS_REVISION": Outcome.REVISE, "ERROR": Outcome.FAIL}, "DONE", completion="line"
)
"""The words for how a call ended, where a playbook has none of its own."""


@dataclass(frozen=True)
class Answer:
    """What an agent's return comes to."""

    outcome: Outcome
    reason: Reason | None = None
    """Why, when the outcome is FAIL."""
    token: str | None = None
    """The word the agent used, also where it does not count."""
    data: Mapping[str, Any] | None = None
    detail: str = ""
    """The agent's own summary, or the complaint about its answer."""


@dataclass(frozen=True)
class _Said:
    """What was found in result file and message, before anything is decided."""

    token: str | None = None
    data: Mapping[str, Any] | None = None
    detail: str = ""
    problem: str = ""
    torn: bool = False
    """It gives two different verdicts."""


NOTHING_SAID = _Said()


def parse_answer(
    fmt: AnswerFormat,
    *,
    code: int | None,
    result: bytes | None = None,
    message: str = "",
    session: str = "",
    spawn_error: str | None = None,
    timed_out: bool = False,
    partial: bool = False,
    cancelled: bool = False,
    fault: tuple[Reason, str] | None = None,
) -> Answer:
    """The one outcome of what an agent returned; total, whatever the input.

    Args:
        fault: why nothing that was said counts, where the runner knows better than exit status and message.
    """
    if cancelled:
        return _failed(Reason.CANCELLED, _Said(), "cancelled")
    if spawn_error is not None or code is None:
        return _failed(Reason.SPAWN_FAILED, _Said(), spawn_error or "nothing was started")
    if fault is not None:
        return _failed(fault[0], _Said(), fault[1])
    said = _listen(fmt, result, message)
    answered = said.token is not None or (code == 0 and bool(message.strip()))
    if timed_out and not (partial and answered):
        return _failed(Reason.TIMEOUT, said, "the time limit passed without an answer")
    claimed = None if said.data is None else said.data.get("session_id")
    if session and claimed is not None and claimed != session:
        owner = quoted(claimed).strip('"')
        return _failed(Reason.SESSION_MISMATCH, said, f"answer belongs to session {owner}, expected {session}")
    if said.token is None:
        return _without_token(fmt, said, code, message, partial)
    return _with_token(fmt, said, code, message, partial)


def sample(fmt: AnswerFormat, token: str | None = None) -> str:
    """A final message that says the token (the best one by default)."""
    said = fmt.best if token is None else token
    match fmt.completion:
        case "json":
            return _as_data(fmt, said)
        case "line":
            return f"{said}: as asked"
        case "text":
            return f"```json\n{_as_data(fmt, said)}\n```" if fmt.example else f"{fmt.field.capitalize()}: {said}"
        case "none":
            return "Finished."


def _as_data(fmt: AnswerFormat, token: str) -> str:
    return json.dumps({fmt.field: token, **fmt.example}, indent=2)


def _with_token(fmt: AnswerFormat, said: _Said, code: int, message: str, partial: bool) -> Answer:
    token = said.token or ""
    outcome = fmt.tokens[token]
    if code != 0 and outcome is Outcome.OK:
        return _failed(Reason.AGENT_ERROR, said, f"said {token} but ended with {_ending(code)}")
    if outcome is Outcome.FAIL:
        return _failed(Reason.AGENT_ERROR, said, said.detail or f"said {token}")
    data = said.data
    if data is None and fmt.from_text is not None:
        data = fmt.from_text(message)
    if fmt.check_data is not None and (problem := fmt.check_data(data or {})) is not None:
        return _failed(Reason.CONTRACT_VIOLATION, said, problem)
    if partial and fmt.late is not None and outcome is Outcome.OK:
        token, outcome = fmt.late, fmt.tokens[fmt.late]
    return Answer(outcome, None, token, data, said.detail)


def _without_token(fmt: AnswerFormat, said: _Said, code: int, message: str, partial: bool) -> Answer:
    spoken = bool(message.strip())
    ended = "; ".join(filter(None, (f"ended with {_ending(code)}", said.problem)))
    if fmt.exit_is_verdict and code > 0:
        return _failed(Reason.AGENT_ERROR, said, ended)
    if code != 0:
        return _failed(Reason.CRASHED, said, ended)
    if fmt.artifact_is_verdict and not said.torn:
        return Answer(Outcome.OK, data=said.data, detail=said.detail)
    if said.problem:
        return _failed(Reason.BAD_FORMAT, said, said.problem)
    if fmt.exit_is_verdict and spoken:
        late = fmt.late if partial else None
        return Answer(Outcome.OK if late is None else fmt.tokens[late], token=late, data=said.data, detail=said.detail)
    return _failed(Reason.NO_VERDICT, said, _nothing_said(fmt, spoken or said.data is not None))


def _failed(reason: Reason, said: _Said, detail: str) -> Answer:
    return Answer(Outcome.FAIL, reason, said.token, said.data, detail)


def _ending(code: int) -> str:
    return f"exit status {code}" if code > 0 else f"signal {-code}"


def _nothing_said(fmt: AnswerFormat, spoken: bool) -> str:
    if not spoken:
        return "no answer"
    match fmt.completion:
        case "line":
            return f"no {'/'.join(f'{token}:' for token in fmt.tokens)} line"
        case "json":
            return f'no "{fmt.field}" in the answer; expected {alternatives([*fmt.tokens])}'
        case _:
            return f"no {fmt.field.capitalize()}: line; expected {alternatives([*fmt.tokens])}"


def _listen(fmt: AnswerFormat, result: bytes | None, message: str) -> _Said:
    """The verdict: in the result file, or else in the message in the way the format says."""
    if fmt.completion == "none":
        return _Said()
    filed, spoken = NOTHING_SAID, _from_message(fmt, message)
    if result is not None and result.strip():
        filed = _from_bytes(fmt, result)
        if filed.token is not None:
            both = _one_of([spoken, filed])
            return both if both.torn else filed
        if fmt.completion == "json":
            return filed
    if spoken.token is None and (spoken.data is None and not spoken.problem):
        return filed
    # Data that the result file holds is not lost because the verdict was given in words.
    return spoken if spoken.data is not None or filed.data is None else dataclasses.replace(spoken, data=filed.data)


def _from_bytes(fmt: AnswerFormat, content: bytes) -> _Said:
    try:
        return _from_json(fmt, content.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        return _Said(problem=f"a result that is not valid UTF-8 (byte {error.start})")


def _from_json(fmt: AnswerFormat, text: str, line_before: int = 0) -> _Said:
    try:
        data = load_json(text, "answer")
    except JsonInvalid as error:
        return _Said(problem=f"invalid JSON (line {line_before + error.line} column {error.column}): {error.reason}")
    except DuplicateKey as error:
        return _Said(problem=f"JSON in which the key {quoted(error.key)} appears twice")
    if not isinstance(data, dict):
        return _Said(problem=f"JSON that is not an object: {quoted(data)}")
    value = data.get(fmt.field)
    if value is None:
        return _Said(data=data)
    if not isinstance(value, str) or value not in fmt.tokens:
        return _Said(data=data, problem=_unknown(fmt, value))
    summary = data.get("summary")
    return _Said(value, data, summary if isinstance(summary, str) else "")


def _from_message(fmt: AnswerFormat, message: str) -> _Said:
    match fmt.completion:
        case "json":
            return _from_objects(fmt, message)
        case "line":
            return _from_line(fmt, message)
        case _:
            return _from_text(fmt, message)


def _one_of(said: Sequence[_Said]) -> _Said:
    """The one verdict that was given, in its last form; two different ones are none."""
    given = [one for one in said if one.token is not None]
    for words in ([one.token for one in given], [(one.data or {}).get("verdict") for one in given]):
        different = list(dict.fromkeys(word for word in words if isinstance(word, str)))
        if len(different) > 1:
            return _Said(problem=f"two different verdicts: {' and '.join(different)}; say one", torn=True)
    return given[-1] if given else _Said()


def _own_fences(message: str) -> list[Fence]:
    return [fence for fence in Sections(message).fences("json") if not fence.quoted]


def _from_objects(fmt: AnswerFormat, message: str) -> _Said:
    if not message.strip():
        return _Said()
    whole = _from_json(fmt, message)
    if whole.data is not None:
        return whole
    fences = [_from_json(fmt, fence.content, fence.line) for fence in _own_fences(message)]
    bare = [_from_json(fmt, text) for text in _objects(Sections(message).prose())]
    found = _one_of([*bare, *fences])
    if found.token is not None or found.torn:
        return found
    return (fences or bare or [whole])[-1]


def _objects(text: str) -> Sequence[str]:
    """The JSON objects in a text that has other words around them."""
    text, found, at = text[-SEARCHED:], list[str](), 0
    decoder = json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            found.append(text[at:end])
            at = end
    return found


def _from_line(fmt: AnswerFormat, message: str) -> _Said:
    read = _read_line if len(message) <= SHORT else _read_line.__wrapped__
    return read(tuple(fmt.tokens), message)


# A rehearsal hears the same few answers on thousands of paths.
@lru_cache(maxsize=1024)
def _read_line(tokens: tuple[str, ...], message: str) -> _Said:
    words = "|".join(map(re.escape, tokens))
    pattern = rf"^ {{0,3}}[*_`]{{0,3}}({words})[*_`]{{0,3}}:[*_`]{{0,3}}[ \t]*(.*)$"
    found = re.findall(pattern, Sections(message).prose(), re.MULTILINE)
    return _one_of([_Said(token, detail=text.strip()) for token, text in found])


def _from_text(fmt: AnswerFormat, message: str) -> _Said:
    said: list[_Said] = []
    strange: list[object] = []
    if not fmt.exit_is_verdict:  # else the text is free, and JSON in it may be about anything
        blocks = [fence.content for fence in _own_fences(message)]
        for text in (message, *blocks):
            said.append(_from_json(fmt, text))
            if said[-1].data is not None and said[-1].problem:
                strange.append((said[-1].data or {})[fmt.field])
    spelled = {token.casefold(): token for token in fmt.tokens}
    in_words = []
    for value in labelled(Sections(message).prose(), fmt.field):
        if token := spelled.get(value.strip("*_`.! ").casefold()):
            in_words.append(_Said(token))
        elif value and not fmt.exit_is_verdict:
            strange.append(value)
    given = _one_of([*in_words, *said])  # of two ways to say the same, the one with data counts
    if given.token is None and not given.torn and strange:
        return _Said(problem=_unknown(fmt, strange[-1]))
    return given


def _unknown(fmt: AnswerFormat, value: object) -> str:
    return f"{fmt.field} {quoted(value)}; expected {alternatives([*fmt.tokens])}"
