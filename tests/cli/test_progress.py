"""Where a run stands among its steps, for those who watch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks import load
from interlock.telemetry import Pipeline, StepStand

STEPS = {"1": "research", "2": "spec", "3": "design", "4": "plan"}
keys = st.sampled_from(["1/a#1", "2/b#1", "pass.1/3/c#1", "4", "note#1", None, ""])


def stands(pipeline: Pipeline) -> list[StepStand]:
    return [stand for _, stand in pipeline]


def test_steps_are_behind_now_or_ahead() -> None:
    """Seen ones are done, unseen ones before the present one were left out."""
    pipeline = Pipeline(STEPS)
    assert stands(pipeline) == [StepStand.AHEAD] * 4
    for key in ("1/a#1", "pass.1/3/c#1", "note#1", None):
        pipeline.pass_by(key)
    assert list(pipeline) == [
        ("research", StepStand.DONE),
        ("spec", StepStand.SKIPPED),
        ("design", StepStand.NOW),
        ("plan", StepStand.AHEAD),
    ]


def test_going_back_opens_what_follows_again() -> None:
    """A revision: the steps after it are ahead once more, and skipped only if they really are."""
    pipeline = Pipeline(STEPS)
    for key in ("1/a", "2/b", "3/c", "2/b#2"):
        pipeline.pass_by(key)
    assert stands(pipeline) == [StepStand.DONE, StepStand.NOW, StepStand.AHEAD, StepStand.AHEAD]
    pipeline.pass_by("4/d")
    assert stands(pipeline)[2] is StepStand.SKIPPED


@given(st.lists(keys))
def test_exactly_one_step_is_now_once_any_was_seen(passed: list[str | None]) -> None:
    """Whatever the order of lines; the share of the way lies between 0 and 1."""
    pipeline = Pipeline(STEPS)
    for key in passed:
        pipeline.pass_by(key)
    seen = any(key and key[0] in "12p4" for key in passed)
    assert stands(pipeline).count(StepStand.NOW) == (1 if seen else 0)
    assert 0 <= pipeline.share < 1


@pytest.mark.parametrize("name", ["adopt", "roadmap", "harness", "feature", "router", "ticket"])
def test_every_playbook_says_what_its_steps_are(name: str) -> None:
    """In order, each with a title that fits into a row."""
    steps = load(name).steps
    assert len(steps) >= 3
    assert all(0 < len(title) <= 25 for title in steps.values())
