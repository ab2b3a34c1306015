"""`roadmap`, rehearsed: every path holds, each rule can fail, a death changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.run import Outcome, Run
from interlock.engine.simulation import Act, Clean
from interlock.engine.stage import EACH
from interlock.playbooks.roadmap import ROADMAP, decisions, playbook
from interlock.playbooks.roadmap.decisions import PIPELINES, Step
from interlock.playbooks.roadmap.playbook import Inputs, Settings
from tests.engine.bench import SAMPLED, cut_off_anywhere, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.roads import FILE, Road, built, done, drift, item, output, ran_tests


def world(*items: dict[str, Any], **settings: Any) -> Playbook:
    files = {FILE: json.dumps(items)}
    return replace(ROADMAP, files=files, settings=partial(Settings, **settings))  # type: ignore[arg-type]


WHY = [{"attempt": 1, "source": "Review", "reason": "why"}]
WORLDS: dict[str, tuple[Playbook, dict[str, Any]]] = {
    "medium, run by the engine, committed": (world(item(complexity="medium"), verify="engine"), {"commit": True}),
    "in progress, the last try": (
        world(item(1, retryCount=2, blockedReasons=WHY, status="in_progress"), item(2), fail_fast=True),
        {},
    ),
}


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "RM-12", "RM-31", "RM-62", "RM-65")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    paths = list(explore(ROADMAP, Inputs(), sample=sample))  # type: ignore[call-arg]
    assert wrong(paths) == []
    assert sample or len(paths) > 500


@SAMPLED
@pytest.mark.req("PROOF-01", "RM-100", "RM-98")
@pytest.mark.parametrize("name", WORLDS)
def test_every_path_holds_with_other_roadmaps(name: str, sample: int) -> None:
    road, asked = WORLDS[name]
    paths = explore(road, Inputs.model_validate(asked), sample=sample)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(ROADMAP, Inputs(), deviations=2, sample=2000, seed=1)  # type: ignore[call-arg]
    assert wrong(paths) == []


async def _asks(run: Run, inputs: Any) -> Outcome:
    await run.gate("go", "Shall I?")
    return await playbook.roadmap(run, inputs)


async def _believes(work: Any, step: Step) -> None:
    await playbook.ask(work, step)


FAILS = f"verdict=fail{EACH}"
MIXED = (Step.IMPLEMENT, Step.REVIEW, Step.TESTING)
SIMPLE = item(1)
ORDERED, FIX, JUDGED, UNASKED = ROADMAP.invariants
COPIES = {
    "reviews first": Copy(ORDERED, "", swap(decisions, "PIPELINES", {"simple": MIXED}), world(SIMPLE)),
    "does all of it again": Copy(FIX, FAILS, swap(decisions, "RETRIES", PIPELINES), ROADMAP),
    "hears no judge": Copy(JUDGED, FAILS, swap(playbook, "judge", _believes), ROADMAP),
    "asks": Copy(UNASKED, "", playbook=replace(ROADMAP, play=_asks)),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("name", COPIES)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, Inputs(), only=lambda one: one == copy.by)  # type: ignore[call-arg]
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_its_own_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(ROADMAP.invariants)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05", "RM-17", "RM-63", "RM-75", "RM-102")
def test_a_process_that_dies_at_any_line_changes_nothing() -> None:
    """Two items, a drift, red tests, a conflict: the same files, the same words, nobody called twice."""

    by_key: dict[str, Act] = {
        "item-1/attempt-1/implement": built("worked on by: 1\n"),
        "item-1/attempt-1/validation": drift("elsewhere"),
        "item-1/attempt-2/implement": built("worked on by: 2\n"),
        "item-1/attempt-2/testing": ran_tests("fail", "test_a: boom"),
        "item-1/attempt-3/implement": built("worked on by: 3\n"),
    }

    def make() -> Road:
        road = Road(done(1), item(2, "complex"), item(3), verify="engine")
        road.usual = lambda ask, key, files: by_key.get(key.rpartition("/")[0]) or Clean().agent(ask, key, files)
        return road

    count = 0
    for line, usual, again in cut_off_anywhere(make):
        assert isinstance(again, Road)
        assert again.world.files == usual.world.files, line
        assert output(again, again.last.view) == output(usual, usual.last.view), line
        count += 1
    assert count > 100
