"""Broken copies of playbooks: only what a fault names is broken, only for its block, and only for the playbook."""

from __future__ import annotations

import pytest

from interlock.engine import Options
from interlock.playbooks.roadmap import decisions, iteration, playbook, rehearsal, rehearsing
from interlock.playbooks.roadmap.settings import RoadmapSettings
from tests.playbooks.broken import Fault, broken, expect_notice, noticed

OPTIONS = Options(settings=RoadmapSettings())
REPORTED = "each iteration is reported once"


def test_a_copy_without_a_fault_is_complained_about_by_nobody() -> None:
    """So that every complaint comes from a fault; whoever expects one is told that there was none."""
    assert list(noticed(rehearsal(), OPTIONS, Fault())) == [frozenset()]
    with pytest.raises(AssertionError, match=f"{REPORTED}.*\n.*nobody"):
        expect_notice(rehearsal(), OPTIONS, REPORTED, Fault())


def test_a_complaint_of_another_invariant_is_not_enough() -> None:
    """A fault that several notice proves nothing of the one that is meant."""
    silent = Fault({"report.iteration_block": lambda *_known: ""})
    expect_notice(rehearsal(), OPTIONS, REPORTED, silent)
    with pytest.raises(AssertionError, match=REPORTED):
        expect_notice(rehearsal(), OPTIONS, "only state fields change", silent)


def test_a_part_is_broken_wherever_the_room_uses_it_and_whole_for_its_invariants_and_afterwards() -> None:
    """Names that modules took over by import are broken too; the module that judges keeps its own."""
    original = decisions.SOURCE_OF
    with broken(rehearsal(), OPTIONS, Fault({"decisions.SOURCE_OF": {}})):
        assert decisions.SOURCE_OF == vars(iteration)["SOURCE_OF"] == {}
        assert vars(rehearsing)["SOURCE_OF"] is original
    assert decisions.SOURCE_OF is vars(iteration)["SOURCE_OF"] is original


def test_a_fault_of_a_name_that_is_not_there_is_refused() -> None:
    """A fault that breaks nothing would prove nothing."""
    with pytest.raises(AttributeError), broken(rehearsal(), OPTIONS, Fault({"playbook.nothing": None})):
        pass
    assert not hasattr(playbook, "nothing")
