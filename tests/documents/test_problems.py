"""What is wrong with data is told at once: where, expected, found, meant."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from interlock.documents.model import Model
from interlock.documents.problems import MOST, load, problems, shown
from interlock.documents.reading import Spot, read_yaml
from interlock.errors import ConfigInvalid, DocumentInvalid, InterlockError


class Part(Model):
    model_config = ConfigDict(strict=True)
    size: int = Field(ge=1)
    colour: Literal["red", "green"] | None = None
    names: tuple[str, ...] = ()


class Square(Model):
    type: Literal["square"]
    side: Annotated[str, Field(min_length=1)]


class Circle(Model):
    type: Literal["circle"]
    radius: float


class Ask(Model):
    ask: Part


class Say(Model):
    say: str


def _first(data: Any) -> str:
    return next(iter(data), "") if isinstance(data, dict) else ""


class Whole(Model):
    part: Part
    shapes: dict[str, Annotated[Square | Circle, Field(discriminator="type")]] = {}
    either: int | list[str] | Part = 3
    items: list[Part] = []
    steps: list[Annotated[Annotated[Ask, Tag("ask")] | Annotated[Say, Tag("say")], Discriminator(_first)]] = []

    @model_validator(mode="after")
    def _seven(self) -> Whole:
        if self.either == 7:
            raise ValueError("seven is no number for this")
        return self


def _told(text: str) -> list[tuple[str, str | None, str | None, str | None, str | None]]:
    with pytest.raises(DocumentInvalid) as caught:
        load(Whole, read_yaml(text, "f.yaml"))
    assert caught.value.exit_code == 2
    first: InterlockError = caught.value
    return [(each.what, each.where, each.expected, each.found, each.remedy) for each in (first, *first.also)]


@pytest.mark.req("CLI-05", "RUN-11")
def test_all_problems_are_told_at_once_with_their_places() -> None:
    """A wrong value, an unknown name with the nearest, a missing one, a wrong kind, in lists and tables."""
    told = _told(
        """\
part:
  size: 0
  colour: gren
  sizes: 3
  names: x
items:
- size: 1
- size: '3'
- 4
itmes: 3
zzz: 1
"""
    )
    assert told == [
        ("part.size cannot be used", "f.yaml:2:3", "greater than or equal to 1", "0 (integer)", None),
        ("part.colour cannot be used", "f.yaml:3:3", "'red' or 'green'", '"gren" (text)', "Did you mean 'green'?"),
        ("part.names cannot be used", "f.yaml:5:3", "a list", '"x" (text)', None),
        ("part.sizes is not known", "f.yaml:4:3", None, None, "Did you mean part.size?"),
        ("items[1].size cannot be used", "f.yaml:8:3", "an integer", '"3" (text)', None),
        ("items[2] cannot be used", "f.yaml:9:3", "a mapping", "4 (integer)", None),
        ("itmes is not known", "f.yaml:10:1", None, None, "Did you mean items?"),
        ("zzz is not known", "f.yaml:11:1", None, None, "Known here: part, shapes, either, items, steps."),
    ]


@pytest.mark.req("CLI-05")
@pytest.mark.parametrize(
    ("text", "what", "expected", "remedy"),
    [
        ("shapes: {a: {type: squar}}", "shapes.a.type cannot be used", "one of 'square', 'circle'", "mean 'square'?"),
        ("shapes: {a: {side: x}}", "shapes.a.type is missing", None, None),
        ("shapes: {a: {type: square, side: ''}}", "shapes.a.side cannot be used", "at least 1 character", None),
        ("shapes: {a: {type: circle, radius: 1, b: 2}}", "shapes.a.b is not known", None, "here: type, radius."),
        ("either: x", "either cannot be used", "an integer or a list or a mapping", None),
        ("either: {size: x}", "either.size cannot be used", "an integer", None),
        ("steps: [{ask: {size: 1, hu: 2}}]", "steps[0].ask.hu is not known", None, "here: size, colour, names."),
        ("steps: [{sai: x}]", "steps[0] cannot be used", "one of 'ask', 'say'", "mean 'say'?"),
        ("either: 7", "seven is no number for this", None, None),
    ],
)
def test_a_branch_of_a_union_is_told_as_what_it_is(
    text: str, what: str, expected: str | None, remedy: str | None
) -> None:
    """By its own names, without pydantic's; what is wrong inside the branch that was meant, not beside it."""
    (found,) = _told(f"part: {{size: 1}}\n{text}\n")
    assert (found[0], found[2]) == (what, expected)
    assert str(found[4] or "").endswith(remedy or "")


def test_of_a_thousand_problems_the_first_are_told() -> None:
    """Of the rest the number; a document of another kind is one problem."""
    told = _told("part: {size: 1}\nitems: [" + "{}, " * 500 + "]\n")
    assert (len(told), told[-1][0]) == (MOST + 1, f"and {500 - MOST} more problems")
    assert [one[:3] for one in _told("5")] == [("the document cannot be used", "f.yaml:1:1", "a mapping")]


@pytest.mark.req("RUN-18")
def test_a_secret_is_not_shown() -> None:
    """What stands where secrets are is told without its value; settings are errors of their own kind."""
    source = read_yaml("part: {size: hunter2}", "f.yaml")
    try:
        Whole.model_validate(source.data)
    except ValueError as error:
        (told,) = problems(
            error,  # type: ignore[arg-type]
            Whole,
            source.data,
            lambda keys: Spot("environment"),
            kind=ConfigInvalid,
            secret=lambda keys: keys == ("part", "size"),
        )
    assert isinstance(told, ConfigInvalid)
    assert (told.where, told.found) == ("environment", "(not shown)")
    assert "hunter2" not in str(told.to_json())


def test_what_was_found_fits_on_a_line() -> None:
    """With its kind; lists and mappings by their kind alone."""
    told = {"a\nb": '"a\\nb" (text)', True: "true (true or false)", None: "nothing"}
    assert {value: shown(value) for value in told} == told
    assert (shown({"a": 1}), len(shown("x" * 1000)) < 80) == ("mapping", True)
