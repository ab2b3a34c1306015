"""How a person asks for a run: which of a playbook's inputs can be said, and what becomes of what they said.

The inputs of a playbook are a frozen dataclass.  A field whose annotation holds an `Option` is offered at every door,
with its help.  One without is offered too, with its docstring as the help, unless the playbook understands words in a
way of its own: then it is the playbook's own business.  What concerns one call only and not the run (`--once`) is a
second dataclass of the same kind, and so is what moves a run that has stopped (`resume --from`).  Doors read these
descriptions; none knows a playbook.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from interlock.engine.world import Documents


@dataclass(frozen=True)
class Option:
    """How a person gives an input: ``slug: Annotated[str, Option("Name of its folder.")] = ""``."""

    help: str
    metavar: str = ""
    """What stands for its value in help texts."""
    name: str = ""
    """How it is called, where that is not the name of the field."""
    argument: bool = False
    """It has no name: the words that stand behind the command, together."""
    setting: str = ""
    """The setting of the playbook that says it for those who do not."""
    variable: str = ""
    """The variable of the environment that says it before the setting does."""
    file: bool = False
    """A file of the workspace, named from where the person is."""
    must_exist: bool = True
    """One that is not there is refused before anything runs; not where the playbook writes it, or says so itself."""
    at_least: int | None = None
    at_most: int | None = None


CHECK = Option(
    "A command that must pass, run by interlock itself; may be given several times. "
    "Default: check_commands of the settings.",
    metavar="COMMAND",
    name="check",
)
"""The commands that a person names, wherever a playbook lets them."""


@dataclass(frozen=True)
class Question:
    """One thing that can be said."""

    field: str
    option: Option
    kind: type
    """`str`, `int`, `float` or `bool`."""
    many: bool
    """It can be said several times."""
    choices: tuple[str, ...]
    """All that can be said; empty: anything."""
    default: Any
    """What counts for those who say nothing and have no setting for it."""
    required: bool

    @property
    def name(self) -> str:
        return self.option.name or self.field.replace("_", "-")

    @property
    def denies(self) -> bool:
        """What can be said of it is that it is not to be."""
        return self.kind is bool and self.default is True and not self.option.setting

    @property
    def words(self) -> str:
        """What is typed for it: a switch that is on can be switched off, and one with a setting both."""
        on, off = f"--{self.name}", f"--no-{self.name}"
        if self.kind is not bool:
            return on
        return f"{on}/{off}" if self.option.setting else off if self.denies else on


@cache
def questions(kind: type, *, plain: bool = False) -> tuple[Question, ...]:
    """What can be said of a dataclass of inputs, in the order of its fields. `TypeError` for a type no door has.

    Args:
        plain: fields without an `Option` too; one that has a default and a type no door has is left out.
    """
    hints = get_type_hints(kind, include_extras=True)
    words = field_docs(kind) if plain else {}
    asked = []
    for one in fields(kind):
        hint = hints[one.name]
        option = next((more for more in get_args(hint)[1:] if isinstance(more, Option)), None)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if option is not None:
            asked.append(_question(one.name, option, bare, default))
        elif plain and one.init and (default is MISSING or _sayable(bare)):
            asked.append(_question(one.name, Option(words.get(one.name, "")), bare, default))
    return tuple(asked)


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a class, on one line; nothing where its source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    return docs_in(tree.body[0].body) if isinstance(tree.body[0], ast.ClassDef) else {}


def docs_in(body: Iterable[ast.stmt]) -> dict[str, str]:
    """The text that stands below each annotated name of a class."""
    statements = list(body)
    return {
        one.target.id: " ".join(below.value.value.split())
        for one, below in pairwise(statements)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _parted(hint: Any) -> tuple[Any, bool, tuple[str, ...]]:
    """What one value of a type is, whether there may be several, and the choices there are."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    if get_origin(hint) in (Union, UnionType) and len(parts) == 1:
        hint = parts[0]
    many = get_origin(hint) in (list, tuple)
    if many:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    return str if choices else hint, many, choices


def _sayable(hint: Any) -> bool:
    return _parted(hint)[0] in (str, int, float, bool)


def _question(name: str, option: Option, hint: Any, default: Any) -> Question:
    kind, many, choices = _parted(hint)
    if not _sayable(hint):
        raise TypeError(
            f"{name}: nobody can say a {kind}; expected str, int, float, bool, a Literal or a list of these"
        )
    return Question(
        field=name,
        option=option,
        kind=kind,
        many=many,
        choices=choices,
        default=None if default is MISSING else default,
        required=default is MISSING,
    )


@dataclass(frozen=True)
class Asking:
    """Where somebody asks for a run, for playbooks that look there before they know their inputs."""

    documents: Documents
    settings: Any = None
    """The playbook's own."""
    environ: Mapping[str, str] = field(default_factory=dict)
    who: str = ""
    """The person who asks."""


@dataclass(frozen=True)
class Asked:
    """What somebody asked for, as the playbook understands it."""

    inputs: Any
    flags: Mapping[str, Any] = field(default_factory=dict)
    """What concerns this call only."""
    note: str = ""
    """Words for whoever works next."""
    afresh: bool = False
    """A new run, although there is one for the same key."""


def completed(asked: Iterable[Question], said: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
    """What a person's words come to; what they did not say the environment may, or the settings, or else the type."""
    given: dict[str, Any] = {}
    for question in asked:
        option, value = question.option, said.get(question.field)
        if value is None and option.variable:
            value = _truth(option.variable, asking.environ.get(option.variable))
        if value is None and option.setting:
            value = getattr(asking.settings, option.setting)
        if value is not None:
            given[question.field] = list(value) if question.many else value
            if option.file and option.must_exist:
                _check_files(question, value if question.many else [value], asking.documents)
    return given


def _check_files(question: Question, paths: Iterable[str], documents: Documents) -> None:
    """`ConfigInvalid` for a file that is to be read and is not there."""
    for path in paths:
        facts = documents.facts(path)
        if not facts.plain:
            raise ConfigInvalid(
                f"{question.name}: {path} is no file" if facts.exists else f"{question.name}: there is no file {path}",
                where="command line",
                expected="a file of the workspace",
                found=facts.problem or None,
                remedy="Name one that is there: its path counts from where you are.",
            )


def _truth(variable: str, value: str | None) -> bool | None:
    if value is None or not value.strip():
        return None
    if value.strip().lower() not in ("true", "false"):
        raise ConfigInvalid(
            f'{variable} must be true or false; found "{value}"',
            where=f"environment variable {variable}",
            expected="true or false",
            found=value,
        )
    return value.strip().lower() == "true"


def spoken(asked: Iterable[Question], inputs: Mapping[str, Any]) -> list[str]:
    """The words that ask for these inputs again; what has its default is left out."""
    words, options = list[str](), list[str]()
    for question in asked:
        value = inputs.get(question.field)
        option = question.option
        if value is None or (value == question.default and not option.setting and not option.variable):
            continue
        if option.argument:
            words.append(str(value))
        elif question.kind is bool:
            options.append(f"--{question.name}" if value else f"--no-{question.name}")
        else:
            for one in value if question.many else (value,):
                options += [f"--{question.name}", str(one)]
    return [*words, *options]
