"""Answers are forms, and one function says whether a judge's pass stands (EVID-01, EVID-03).

A role's form is one pydantic model.  Its JSON Schema is in the brief and goes to the client where that can hold its
model to it; else the last fenced JSON block of the answer is read.  Valid or not: no prose is read, no synonym known.
A judge's form is a `Judgement`, or says of itself what `claim()` says.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.documents.model import Model
from interlock.engine.keys import shortly

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_MOST = 30
"""Problems of an answer that are told."""
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 80


class Form(BaseModel):
    """What an agent answers: the fields that code acts on. What else it adds is left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def known(cls, criteria: Sequence[str], green: bool) -> dict[str, Any]:
        """What of the best answer follows from the dispatch alone."""
        return {}

    def gives_up(self) -> bool:
        """It says that its work could not be done: then no documents are missed."""
        return False


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
    weakened: list[Weakened] = Field([], description="For each weakened test you were told of: why it is right.")

    @classmethod
    def known(cls, criteria: Sequence[str], green: bool) -> dict[str, Any]:
        met = [{"criterion": one, "met": True, "evidence": "seen"} for one in criteria]
        return {"criteria": met, **({} if green else {"no_check": "there is none here"})}

    def claim(self, criteria: Sequence[str]) -> Claim:
        given = {_same(one) for one in criteria} | {_same(one.criterion) for one in self.criteria}
        green = {one.command for one in self.checks if one.result == "green"}
        blocks = [f for f in self.findings if _same(f.criterion) in given or (f.check and f.check not in green)]
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
    return f"{finding.path + ': ' if finding.path else ''}{finding.text}{f' ({about})' if about else ''}"


def _same(text: str) -> str:
    return one_line(text).strip(" .").casefold()


def one_line(text: str) -> str:
    """What somebody said, so that it cannot pass for a heading."""
    return " ".join(text.split())


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

    @property
    def words(self) -> str:
        """What people are told of it: also, who it is that does not accept."""
        return "accepts" if self.passes else "accepts, but that does not stand" if self.said else "does not accept"


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
        replayed: command -> what came of running it: `agrees`, `in its layer only`, `refuted`, `not run`, `told`.
        green: commands that the engine ran on that very tree, green.
        ran: whether there is any command that the engine could run.
        weakened: changed checks and lost tests that it was told of, and has to say why for.
    """
    came = replayed or {}
    unmet = [text for text, met in claim.criteria if not met]
    named = {_same(text) for text, _ in claim.criteria}
    left_out = [text for text in criteria if _same(text) not in named]
    refuted = [command for command, _, _ in claim.checks if came.get(command) == "refuted"]
    red = [command for command, result, expected in claim.checks if result == "red" and not expected]
    told = {kind: {_same(line) for line, result, _ in claim.checks if result == kind} for kind in ("green", "red")}
    own = [
        command
        for command, result, expected in claim.checks
        if result == "green" and not expected and came.get(command, "agrees") in ("agrees", "not run", "told")
    ]
    shown_by = tuple(dict.fromkeys([*green, *own]))
    says = [
        *(f"criterion not met: {text}" for text in unmet),
        *(f"check is red: {command}" for command in red),
        *claim.blocking,
    ]
    against = [*says, *(f"told otherwise than it runs: {command}" for command in refuted)]
    contradictions: list[str] = []
    if claim.passes:
        contradictions += [f"it passes, but says: {text}" for text in says]
        contradictions += [f"it names `{command}`, which does not run as told" for command in refuted]
        contradictions += [f"it tells `{line}` both green and red" for line in sorted(told["green"] & told["red"])]
        contradictions += [f"it says nothing of the criterion: {text}" for text in left_out]
        if not shown_by and not claim.no_check.strip() and not (claim.reads_only and not ran):
            contradictions.append("it passes without a green check, and without a reason why there is none")
        silent = [one for one in weakened if _same(one) not in map(_same, claim.explained)]
        contradictions += [f"it does not say why this is right: {one}" for one in silent]
        against = contradictions
    elif not against:
        contradictions.append("it does not pass, but names no unmet criterion and no failing check")
        against = list(claim.notes or contradictions)
    return Ruling(
        passes=claim.passes and not contradictions,
        said=claim.passes,
        against=tuple(dict.fromkeys(map(one_line, against))),
        contradictions=tuple(map(one_line, contradictions)),
        notes=tuple(map(one_line, claim.notes)),
        shown_by=shown_by,
    )


class Unusable(Model):
    """Why an answer cannot be used: all that is missing, at once."""

    problems: tuple[str, ...]
    final: bool = False
    """It says itself that it failed, and is not asked again."""


@dataclass(frozen=True)
class Given:
    """What an agent gave for its answer, for a row that reads it in a layout of its own (EVID-01, EVID-02)."""

    structured: Any
    """What the client itself gave as structured answer; None: nothing."""
    text: str
    """Its last message."""
    outputs: Mapping[str, str]
    """The documents that it left, of those that its row names."""
    gone: tuple[str, ...] = ()
    """Documents that it may leave, and has deleted."""
    told: bool = False
    """It was asked once more already: what is still open counts as its worst."""
    late: bool = False
    """It came when partial results were asked for."""


def read_form(form: type[BaseModel], structured: Any, text: str) -> BaseModel | Unusable:
    """The form in an answer: what the client gave as structured output, else the last fenced JSON block, else the
    whole text where it is one JSON object."""
    try:
        if structured is not None:
            return form.model_validate(structured)
        block = _last_block(text)
        if block is None and not text.lstrip().startswith("{"):
            return Unusable(problems=("there is no JSON block in the answer",))
        return form.model_validate_json(text if block is None else block)
    except ValidationError as error:
        found = error.errors(include_url=False)
        more = [f"and {len(found) - _MOST} problems more"] if len(found) > _MOST else []
        return Unusable(problems=(*map(_complaint, found[:_MOST]), *more))


def _complaint(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"]) or "the answer"
    said = one_line(f"{path}: {error['msg']}")
    return said if error["type"] == "missing" else f"{said}, found {_shown.repr(error.get('input'))}"


def _last_block(text: str) -> str | None:
    """What stands in the last fence that says `json`, else in the last that says nothing; an open one ends the text."""
    found: dict[str, str] = {}
    mark, kind, begin = "", "", 0
    for fence in _FENCE.finditer(text):
        info = fence[2].strip()
        if not mark and not (fence[1][0] == "`" and "`" in info):
            mark, kind, begin = fence[1], info.partition(" ")[0].casefold(), fence.end() + 1
        elif mark and fence[1].startswith(mark) and not info:
            found[kind] = text[begin : fence.start()]
            mark = ""
    if mark:
        found[kind] = text[begin:]
    return found.get("json", found.get(""))


@cache
def schema(form: type[BaseModel]) -> dict[str, Any]:
    """The form's JSON Schema; made once, since it is slow to make."""
    return form.model_json_schema()


@cache
def fingerprint(form: type[BaseModel]) -> Any:
    """What of a form counts when it is asked whether a dispatch is still the same: fields, not words (RUN-21)."""
    return shortly({"form": _without_words(schema(form))})["form"]


def _without_words(value: Any) -> Any:
    words = ("description", "title", "examples", "default")
    if isinstance(value, dict):  # a field may be called so, too
        kept = {name: one for name, one in value.items() if name not in words or isinstance(one, dict)}
        return {name: _without_words(one) for name, one in kept.items()}
    return [_without_words(one) for one in value] if isinstance(value, list) else value
