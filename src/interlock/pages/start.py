"""The form that starts a run, and pages that only say something. The server fills them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Offer:
    """A playbook of a workspace."""

    name: str
    about: str
    why_not: str = ""
    """Why it cannot be started: a person has to trust it first, or it is wrong."""


class FieldKind(StrEnum):
    LINE = "line"
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"
    LIST = "list"
    """Several values, one on each line."""


@dataclass(frozen=True)
class FormField:
    """One input of a playbook."""

    name: str
    label: str
    help: str
    kind: FieldKind
    value: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    main: bool = True
    """What everybody fills in; the others are options, which most leave alone."""
    problem: str = ""


@dataclass(frozen=True)
class Foresight:
    """What a run would take, as `plan` says it: headings with their lines."""

    parts: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class StartForm:
    playbook: str
    about: str
    fields: tuple[FormField, ...]
    problem: str = ""
    plan: Foresight | None = None
    planned: str = ""
    """For which inputs the plan is shown, in a word."""
    changed: bool = False
    """Something else was filled in than what the plan had been shown for."""


@dataclass(frozen=True)
class StartView:
    workspace: str
    playbooks: tuple[Offer, ...]
    form: StartForm | None = None


@dataclass(frozen=True)
class MessageView:
    """A page that says one thing: an error, a refusal, how to sign in."""

    title: str
    text: str
    remedy: str = ""
    back: str = "/"
