"""What can be answered to a form follows from its schema alone."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from interlock.agents.answers import best, deviations, said
from interlock.errors import EngineFault


class Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(Form):
    command: str = Field(min_length=1)
    result: Literal["green", "red"]
    expected: bool = False


class Criterion(Form):
    criterion: str
    met: bool


class Finding(Form):
    text: str
    check: str = ""


class Verdict(Form):
    verdict: Literal["accept", "revise"]
    checks: list[Check] = []
    criteria: list[Criterion] = []
    findings: list[Finding] = []


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Everything(Form):
    when: datetime
    size: Size
    other: Size | None = None
    maybe: str | None
    count: int = Field(ge=3)
    share: float = Field(gt=0)
    ident: str = Field(pattern="^[A-Z]-[0-9]$", examples=["A-1"])
    tags: list[str] = Field(min_length=2)
    table: dict[str, int] = {}
    word: Literal["only"]


def test_the_best_answer_is_the_first_of_each_enum_and_asks_for_nothing_more() -> None:
    """Lists stay empty, defaults hold, booleans are true unless their default says otherwise."""
    assert best(Verdict.model_json_schema()) == {"verdict": "accept", "checks": [], "criteria": [], "findings": []}


def test_the_best_answer_is_valid_for_every_kind_of_field() -> None:
    """Bounds, dates, patterns with an example, references and optional fields."""
    answer = Everything.model_validate(best(Everything.model_json_schema()))
    assert (answer.size, answer.other, answer.count, answer.ident, len(answer.tags)) == ("small", "small", 3, "A-1", 2)


def test_what_is_known_of_a_dispatch_stands_in_its_answer() -> None:
    """The criteria that a judge was given are no part of its form."""
    known = {"criteria": [{"criterion": "adds", "met": True}]}
    schema = Verdict.model_json_schema()
    assert best(schema, known)["criteria"] == known["criteria"]
    met = {deviation.name: deviation.value for deviation in deviations(schema, known)}["criteria: one, met=false"]
    assert met["criteria"] == [{"criterion": "adds", "met": False}]


def test_extras_of_a_field_say_what_order_and_defaults_do_not() -> None:
    """`best` for any field, `unchanged` for an agent that changed no file."""

    class Built(Form):
        status: Literal["blocked", "done"] = Field(json_schema_extra={"best": "done"})
        already_so: list[str] = Field(default=[], json_schema_extra={"unchanged": ["nothing to do"]})

    schema = Built.model_json_schema()
    assert best(schema) == {"status": "done", "already_so": []}
    assert best(schema, changed=False)["already_so"] == ["nothing to do"]


def test_a_pattern_without_an_example_is_a_fault_of_the_form() -> None:
    """It is named, not guessed at."""

    class Odd(Form):
        ident: str = Field(pattern="^[0-9]+$")

    with pytest.raises(EngineFault, match="ident"):
        best(Odd.model_json_schema())


@pytest.mark.req("PROOF-01")
def test_deviations_follow_from_the_form_by_themselves() -> None:
    """Enums, booleans, lists that are empty or not, a field that is missing, no JSON at all."""
    found = {deviation.name: deviation.value for deviation in deviations(Verdict.model_json_schema())}
    assert found["verdict=revise"]["verdict"] == "revise"
    assert found["checks: one"]["checks"][0]["result"] == "green"
    assert found["checks: one, result=red"]["checks"][0]["result"] == "red"
    assert found["checks: one, expected=true"]["checks"][0]["expected"] is True
    assert found["criteria: one, met=false"]["criteria"][0]["met"] is False
    assert found["findings: one"]["findings"][0]["check"], "a finding that blocks gives what fails because of it"
    assert found["findings: a bare one"]["findings"][0]["check"] == ""
    assert "verdict" not in found["without verdict"]
    assert isinstance(found["no JSON"], str)


def test_deviations_of_nested_and_optional_fields() -> None:
    """Fields of an object in an object, and what may be left out."""

    class Outer(Form):
        inner: Criterion
        size: Size | None = None

    names = [deviation.name for deviation in deviations(Outer.model_json_schema())]
    assert names == ["inner, met=false", "size=large", "no size", "without inner", "no JSON"]


def test_what_is_said_can_be_read_back() -> None:
    """A form stands in one fenced block below the text; what is no form is said as it is."""
    text = said({"a": "```"}, "Done.")
    assert text.startswith("Done.\n\n```json\n")
    assert json.loads(text.partition("```json\n")[2].removesuffix("```\n")) == {"a": "```"}
    assert said("no form") == "no form\n"


_SCALARS: Any = st.sampled_from(
    [
        (Literal["good", "bad", "worse"], ...),
        (bool, ...),
        (bool, False),
        (str, ...),
        (str, ""),
        (str | None, None),
        (int, 4),
        (Size | None, None),
        (list[str], []),
        (list[Check], []),
        (Criterion, ...),
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(_SCALARS, max_size=6))
def test_whatever_the_form_the_best_is_valid_and_each_deviation_is_another_answer(fields: list[Any]) -> None:
    """But for the two unusable ones each deviation is valid, too, and no two have one name."""
    form = create_model("Drawn", __base__=Form, **{f"f{n}": field for n, field in enumerate(fields)})
    schema = form.model_json_schema()
    good = best(schema)
    form.model_validate(good)
    found = deviations(schema)
    assert len({deviation.name for deviation in found}) == len(found)
    for name, value in found:
        assert value != good
        if name == "no JSON" or name.startswith("without "):
            with pytest.raises(ValidationError):
                form.model_validate(value)
        else:
            form.model_validate(value)
