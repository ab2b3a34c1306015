"""What can be answered to a form follows from its schema alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from interlock.agents.answers import best, deviations


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


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Verdict(Form):
    verdict: Literal["accept", "revise"]
    whole: Criterion
    size: Size | None = None
    checks: list[Check] = []
    criteria: list[Criterion] = []
    findings: list[Finding] = []


SCHEMA = Verdict.model_json_schema()
KNOWN = {"criteria": [{"criterion": "adds", "met": True}]}


@pytest.mark.req("PROOF-01")
def test_deviations_follow_from_the_form_by_themselves() -> None:
    """Of the best answer, the first of each enum, which asks for nothing more and holds what is known of the dispatch:
    enums, booleans, lists that are empty or not, what may be left out, a field that is missing, no JSON at all."""
    whole = {"criterion": "Played: criterion.", "met": True}
    good = {"verdict": "accept", "whole": whole, "size": "small", "checks": [], "findings": [], **KNOWN}
    found = deviations(SCHEMA, KNOWN)
    assert best(SCHEMA, KNOWN) == good
    check = {"command": "Played: command.", "result": "green", "expected": False}
    assert {
        one.name: {key: one.value[key] for key in one.value if one.value[key] != good[key]} for one in found[:-2]
    } == {
        "verdict=revise": {"verdict": "revise"},
        "whole, met=false": {"whole": {**good["whole"], "met": False}},
        "size=large": {"size": "large"},
        "no size": {"size": None},
        "checks: one": {"checks": [check]},
        "checks: one, result=red": {"checks": [{**check, "result": "red"}]},
        "checks: one, expected=true": {"checks": [{**check, "expected": True}]},
        "no criteria": {"criteria": []},
        "criteria: one, met=false": {"criteria": [{"criterion": "adds", "met": False}]},
        "findings: one": {"findings": [{"text": "Played: text.", "check": "Played: check."}]},
        "findings: a bare one": {"findings": [{"text": "Played: text.", "check": ""}]},
    }
    assert [one.name for one in found[-2:]] == ["without verdict", "no JSON"]
    assert ("verdict" in found[-2].value, isinstance(found[-1].value, str)) == (False, True)


_FIELDS: Any = st.sampled_from(
    [
        (Literal["good", "bad", "worse"], ...),
        (Literal["only"], ...),
        (bool, ...),
        (bool, False),
        (str, ...),
        (str, ""),
        (str, Field(min_length=30, max_length=40)),
        (str, Field(pattern="^[A-Z]-[0-9]$", examples=["A-1"])),
        (str | None, None),
        (str | None, ...),
        (int, 4),
        (int, Field(ge=3)),
        (float, Field(gt=0)),
        (Size | None, None),
        (list[str], []),
        (list[str], Field(min_length=2)),
        (list[Check], []),
        (dict[str, int], {}),
        (Criterion, ...),
    ]
)


@settings(deadline=None, max_examples=100)
@given(st.lists(_FIELDS, max_size=6))
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
