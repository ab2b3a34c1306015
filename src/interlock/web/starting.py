"""The form that starts a run: made from the types of a playbook's inputs, its plan, and what is typed for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock.app import FromSettings, open_runs
from interlock.engine.asking import Question, completed
from interlock.engine.definition import Playbook
from interlock.engine.runs import Quiet
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding import Library
from interlock.pages import FieldKind, Foresight, FormField, Offer, StartForm

RUNNER = "runner."
BUDGET = "budget."
AFRESH = "afresh."
"""Fields of every form, beside the playbook's own: these names no input can have."""


@dataclass(frozen=True)
class Typed:
    """What somebody would type for what they filled in."""

    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    of_run: tuple[str, ...] = ()
    """Options that only a start has, and a plan has not."""
    problems: tuple[tuple[str, str], ...] = ()
    """Fields whose values cannot be, each with the reason."""

    @property
    def digest(self) -> str:
        said = [self.options, self.arguments, self.of_run]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def planned(self, playbook: str) -> tuple[str, ...]:
        return "plan", playbook, "--json", *self.options, "--", *self.arguments

    def started(self, playbook: str) -> tuple[str, ...]:
        return "run", playbook, "--detach", "--json", *self.options, *self.of_run, "--", *self.arguments


def offers(root: Path, environ: Mapping[str, str]) -> tuple[Offer, ...]:
    """The playbooks of a workspace; its code is read, never executed."""
    return tuple(Offer(one.found.name, one.purpose, one.why_not) for one in Library(root, environ).listing())


@dataclass(frozen=True)
class Form:
    """What can be said to start a playbook, and what is said by those who say nothing."""

    playbook: str
    about: str
    questions: tuple[Question, ...]
    unsaid: Mapping[str, Any]

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str], name: str) -> Form:
        """`ConfigInvalid` for a playbook that there is not, or that nobody trusts: it is not loaded then."""
        setup = open_runs(root, Quiet(), environ=environ).setup
        assert isinstance(setup, FromSettings)
        if name not in setup.finding.names():
            raise ConfigInvalid(
                f"there is no playbook {name!r} here", remedy="See which there are: interlock playbooks"
            )
        playbook = setup.finding.load(name)
        asked = (*playbook.questions(playbook.inputs), *playbook.questions(playbook.flags))
        return cls(playbook.name, playbook.summary, asked, _unsaid(playbook, asked, setup))

    def shown(self, filled: Mapping[str, Sequence[str]] | None = None, typed: Typed | None = None) -> StartForm:
        """The form as it stands: empty, or with what was filled in and what is wrong with it."""
        problems = dict(typed.problems) if typed is not None else {}
        fields = [self._field(one, filled) for one in self.questions]
        fields += [
            FormField(name, label, about, kind, main=False)
            for name, label, about, kind in (
                (RUNNER, "Runner", "For all agents, instead of what interlock.toml says.", FieldKind.LINE),
                (BUDGET, "Budget", "Wait for a person before spending more than this, in USD.", FieldKind.NUMBER),
                (AFRESH, "A new run", "Although the last one for the same is complete.", FieldKind.FLAG),
            )
        ]
        if filled is not None:
            fields[-3:] = [replace(one, value=_first(filled, one.name)) for one in fields[-3:]]
        return StartForm(
            self.playbook,
            self.about,
            tuple(replace(one, problem=problems.get(one.name, "")) for one in fields),
        )

    def _field(self, question: Question, filled: Mapping[str, Sequence[str]] | None) -> FormField:
        kind = _kind(question)
        if filled is not None:
            value = _first(filled, question.field)
        else:
            value = _as_text(self.unsaid.get(question.field, question.default), kind)
        return FormField(
            question.field,
            question.name.replace("-", " ").capitalize(),
            question.option.help,
            kind,
            value,
            choices=question.choices
            if question.required or question.default
            else ("", *question.choices) * bool(question.choices),
            required=question.required,
            main=question.required or question.option.argument,
        )

    def typed(self, filled: Mapping[str, Sequence[str]]) -> Typed:
        """What somebody would type on the command line for a filled form."""
        options, arguments, problems = list[str](), list[str](), list[tuple[str, str]]()
        for question in self.questions:
            try:
                words = _words(question, _first(filled, question.field))
            except ConfigInvalid as problem:
                problems.append((question.field, problem.what))
                continue
            (arguments if question.option.argument else options).extend(words)
        runner, budget = _first(filled, RUNNER).strip(), _first(filled, BUDGET).strip()
        options += [f"--runner={runner}"] if runner else []
        of_run = ["--new-run"] if _first(filled, AFRESH) else []
        if budget:
            if not _is(float, budget):
                problems.append((BUDGET, "this is no number"))
            of_run.append(f"--budget={budget}")
        return Typed(tuple(options), tuple(arguments), tuple(of_run), tuple(problems))


def foresight(outlook: Mapping[str, Any]) -> Foresight:
    """What `interlock plan --json` tells, for people."""
    return Foresight(tuple((str(title), tuple(map(str, lines))) for title, lines in outlook["told"]))


def _unsaid(playbook: Playbook, asked: Sequence[Question], setup: FromSettings) -> Mapping[str, Any]:
    try:
        return completed(asked, {}, setup.asking(playbook))
    except InterlockError:  # what is wrong with the settings is said when the plan is asked for
        return {}


def _kind(question: Question) -> FieldKind:
    if question.kind is bool:
        return FieldKind.FLAG
    if question.many:
        return FieldKind.LIST
    if question.choices:
        return FieldKind.CHOICE
    if question.kind in (int, float):
        return FieldKind.NUMBER
    return FieldKind.TEXT if question.option.argument and not question.option.file else FieldKind.LINE


def _as_text(value: Any, kind: FieldKind) -> str:
    if value is None or value is False:
        return ""
    if kind is FieldKind.FLAG:
        return "on"
    return "\n".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _words(question: Question, value: str) -> list[str]:
    """What is typed for one input; nothing where nothing was said."""
    text = value.replace("\r\n", "\n").strip()
    if question.kind is bool:
        if question.option.setting or bool(text) != bool(question.default):
            return [f"--{question.name}" if text else f"--no-{question.name}"]
        return []
    if question.many:
        return [f"--{question.name}={row.strip()}" for row in text.splitlines() if row.strip()]
    if not text:
        if question.required:
            raise ConfigInvalid("this is needed")
        return []
    if question.choices and text not in question.choices:
        raise ConfigInvalid(f"one of {', '.join(question.choices)}")
    if question.kind in (int, float) and not _is(question.kind, text):
        raise ConfigInvalid("this is no number")
    return [text if question.option.argument else f"--{question.name}={text}"]


def _is(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _first(filled: Mapping[str, Sequence[str]], name: str) -> str:
    return (filled.get(name) or ("",))[0]
