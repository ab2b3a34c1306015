"""Answers are forms, and one function says whether a judge's pass stands (EVID-01, EVID-03).

A role's form is one pydantic model.  Its JSON Schema is in the brief and goes to the client where that can hold its
model to it; else the last fenced JSON block of the answer is read.  Valid or not: no prose is read, no synonym known.
A judge's form is a `Judgement`, or says of itself what `claim()` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.documents.model import Model
from interlock.engine.keys import shortly
from interlock.workspace.values import RemarkKind

_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*(?:json|JSON)?[ \t]*\r?\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
MISSING = object()


class Form(BaseModel):
    """What an agent answers: the fields that code acts on. What else it adds is left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def known(cls, criteria: Sequence[str], checked: bool) -> dict[str, Any]:
        """What of the best answer follows from the dispatch alone."""
        return {}


class Check(Form):
    """A check that you ran."""

    command: str = Field(min_length=1, description="The command, as typed in the folder where you began.")
    result: Literal["green", "red"]
    expected: bool = Field(False, description="True if it has to be red, and that is as it should be.")
    why: str = Field("", description="What it shows.")


class Criterion(Form):
    criterion: str = Field(min_length=1, description="The criterion, as it was given.")
    met: bool
    evidence: str = Field("", description="What shows it: a check, a place in a file.")


class Finding(Form):
    text: str = Field(min_length=1)
    criterion: str = Field("", description="Which criterion it speaks against; empty: none, then it is a note.")
    check: str = Field("", description="Which check fails because of it.")
    path: str = ""


class Weakened(Form):
    path: str
    why: str = Field(min_length=1, description="Why this change of a test or check is right.")


class Claim(Model):
    """A judge's answer, reduced to what decides."""

    passes: bool
    checks: tuple[tuple[str, Literal["green", "red"], bool], ...] = ()
    """Command, result, expected."""
    criteria: tuple[tuple[str, bool], ...] = ()
    blocking: tuple[str, ...] = ()
    """Findings that block, in a line each."""
    notes: tuple[str, ...] = ()
    no_check: str = ""
    """Why there is no check that could be green."""
    explained: tuple[str, ...] = ()
    """Weakened paths for which it says why."""
    reads_only: bool = False
    """A judge who by its spec only reads: enough where the engine ran commands, or has none."""


class Judgement(Form):
    """The usual form of a judge."""

    verdict: Literal["accept", "revise"] = Field(description="accept: this can be delivered as it is.")
    summary: str = ""
    criteria: list[Criterion] = Field(default=[], description="Each criterion that you were given, word for word.")
    checks: list[Check] = Field(default=[], description="Checks that you ran; they are run again.")
    no_check: str = Field("", description="If no check can show this work: why.")
    findings: list[Finding] = Field(
        default=[], description="What has to change, each with the criterion or check that it fails; else it is a note."
    )
    weakened: list[Weakened] = Field(
        default=[], description="For each weakened test you were told of: why it is right."
    )

    @classmethod
    def known(cls, criteria: Sequence[str], checked: bool) -> dict[str, Any]:
        met = [{"criterion": one, "met": True, "evidence": "seen"} for one in criteria]
        return {"criteria": met, **({} if checked else {"no_check": "there is none here"})}

    def claim(self, criteria: Sequence[str]) -> Claim:
        given = {_same(one) for one in criteria} | {_same(one.criterion) for one in self.criteria}
        blocks = [one for one in self.findings if _same(one.criterion) in given or one.check]
        return Claim(
            passes=self.verdict == "accept",
            checks=tuple((one.command, one.result, one.expected) for one in self.checks),
            criteria=tuple((one.criterion, one.met) for one in self.criteria),
            blocking=tuple(_line(one) for one in blocks),
            notes=tuple(_line(one) for one in self.findings if one not in blocks),
            no_check=self.no_check,
            explained=tuple(one.path for one in self.weakened),
        )


def _line(finding: Finding) -> str:
    about = finding.check or finding.criterion
    return " ".join(
        f"{finding.path + ': ' if finding.path else ''}{finding.text}{f' ({about})' if about else ''}".split()
    )


def _same(text: str) -> str:
    return " ".join(text.split()).strip(" .").casefold()


class Ruling(Model):
    """Whether a judge's pass stands, and what speaks against it."""

    passes: bool
    said: bool
    """What the judge itself said."""
    against: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    """Why the pass, or the refusal, does not fit what else it says: asked about once, then the worse counts."""
    notes: tuple[str, ...] = ()
    shown_by: tuple[str, ...] = ()
    """The green checks that bear it out."""


def judge(
    claim: Claim,
    *,
    criteria: Sequence[str] = (),
    replayed: Mapping[str, str] | None = None,
    green: Sequence[str] = (),
    ran: bool = True,
    weakened: Sequence[str] = (),
) -> Ruling:
    """Whether a judge's claim stands. Pure and total, for all playbooks.

    Args:
        criteria: what it was given to judge by.
        replayed: command -> what came of running it: `agrees`, `in its layer only`, `refuted`, `not run`.
        green: commands that the engine ran on that very tree, green.
        ran: whether there is any command that the engine could run.
        weakened: paths of changed checks that it was told of, and has to say why for.
    """
    came = replayed or {}
    unmet = [text for text, met in claim.criteria if not met]
    named = {_same(text) for text, _ in claim.criteria}
    left_out = [text for text in criteria if _same(text) not in named]
    refuted = [command for command, _, _ in claim.checks if came.get(command) == "refuted"]
    red = [command for command, result, expected in claim.checks if result == "red" and not expected]
    own = [
        command
        for command, result, expected in claim.checks
        if result == "green" and not expected and came.get(command, "agrees") in ("agrees", "not run")
    ]
    shown_by = tuple(dict.fromkeys([*green, *own]))
    against = [
        *(f"criterion not met: {text}" for text in unmet),
        *(f"check is red: {command}" for command in red),
        *(f"told otherwise than it runs: {command}" for command in refuted),
        *claim.blocking,
    ]
    contradictions: list[str] = []
    if claim.passes:
        contradictions += [f"it passes, but says: {text}" for text in against if not text.startswith("told otherwise")]
        contradictions += [f"it names `{command}`, which does not run as told" for command in refuted]
        contradictions += [f"it says nothing of the criterion: {text}" for text in left_out]
        if not shown_by and not claim.no_check.strip() and not (claim.reads_only and not ran):
            contradictions.append("it passes without a green check, and without a reason why there is none")
        explained = set(claim.explained)
        contradictions += [f"it does not say why this is right: {path}" for path in weakened if path not in explained]
    elif not against:
        contradictions.append("it does not pass, but names no unmet criterion and no failing check")
    passes = claim.passes and not contradictions
    return Ruling(
        passes=passes,
        said=claim.passes,
        against=tuple(dict.fromkeys([*against, *([] if passes else contradictions if claim.passes else [])])),
        contradictions=tuple(contradictions),
        notes=claim.notes,
        shown_by=shown_by,
    )


class Unusable(Model):
    """Why an answer cannot be used: all that is missing, at once."""

    problems: tuple[str, ...]


def read_form(form: type[BaseModel], structured: Any, text: str) -> BaseModel | Unusable:
    """The form in an answer: what the client gave as structured output, else the last fenced JSON block, else the
    whole text where it is one JSON object."""
    value = structured if structured is not None else _fenced(text)
    if value is MISSING:
        return Unusable(problems=("there is no JSON block in the answer",))
    if isinstance(value, str):
        return Unusable(problems=(value,))
    try:
        return form.model_validate(value)
    except ValidationError as error:
        return Unusable(problems=tuple(_complaint(one) for one in error.errors(include_url=False)))
    except RecursionError:
        return Unusable(problems=("the JSON is nested too deeply",))


def _complaint(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"]) or "the answer"
    found = repr(error.get("input"))
    said = f"{path}: {error['msg']}"
    return said if error["type"] == "missing" else f"{said}, found {found if len(found) < 80 else found[:77] + '...'}"


def _fenced(text: str) -> Any:
    """The last fenced block's value; MISSING; or a sentence that says what is wrong with it."""
    blocks = [match.group(2) for match in _FENCE.finditer(text)]
    candidates = blocks[-1:] if blocks else [text] if text.lstrip().startswith("{") else []
    if not candidates:
        return MISSING
    try:
        value = json.loads(candidates[0], parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return f"the last JSON block cannot be read: {str(error)[:200]}"
    return value if isinstance(value, dict) else "the last JSON block is no object"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


@cache
def schema(form: type[BaseModel]) -> dict[str, Any]:
    """The form's JSON Schema; made once, since it is slow to make."""
    return form.model_json_schema()


@cache
def fingerprint(form: type[BaseModel]) -> Any:
    """What of a form counts when it is asked whether a dispatch is still the same: fields, not words (RUN-21)."""
    return shortly({"form": _without_words(schema(form))})["form"]


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_words(one)
            for name, one in value.items()
            if not (name in ("description", "title", "examples", "default") and not isinstance(one, dict))
        }
    return [_without_words(one) for one in value] if isinstance(value, list) else value


COUNTS_AGAINST = frozenset({RemarkKind.OUTSIDE, RemarkKind.STATE})
"""Remarks on a writer's work that fail its dispatch; all others are told."""
