"""The router rehearsed: every combination of at most two faults, and its invariants shown to notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from interlock.engine import Ending, Options
from interlock.playbooks.router import example_files, rehearsal, rehearsing
from interlock.playbooks.router.settings import RouterSettings
from interlock.testing import Played

OPTIONS = Options(settings=RouterSettings())


COMMAND = ".opencode/command/implement.md"
FILES = example_files()
IN_JSON = {**FILES, COMMAND: FILES[COMMAND].replace("agent: orchestrator", "agent: orchestrator\nreturns: json")}


@pytest.mark.req("EV-01", "EV-12")
@pytest.mark.parametrize("files", [FILES, IN_JSON], ids=["text", "json"])
def test_every_invariant_holds_on_every_path(files: Mapping[str, str]) -> None:
    """All paths with at most two deviations end in a known way, and none breaks a rule."""
    setup = rehearsing.rehearsal(files)
    endings: Counter[str] = Counter()
    for played in setup.paths(OPTIONS):
        assert setup.broken(played) == []
        endings[played.finished.status] += 1
    assert endings.total() > 20
    assert {"complete", "degraded", "failed"} <= set(endings) <= {"complete", "degraded", "stopped", "failed"}


@pytest.mark.req("RT-03", "RT-73")
def test_an_agent_is_reached_only_through_all_checks() -> None:
    """On every path what stage 1 and stage 2 established stands in the journal before an agent is called."""
    for played in rehearsal().paths(OPTIONS):
        events = [line.event for line in played.simulation.lines]
        called = [number for number, event in enumerate(events) if event == "dispatch.start"]
        assert all(
            events[:number].count("stage.1.done") == events[:number].count("stage.2.done") == 1 for number in called
        )


async def _claims_success(run: object, inputs: object) -> Ending:
    return Ending.complete("done")


def broken_by(change: object) -> set[str]:
    setup = rehearsal()
    (clean,) = list(setup.paths(OPTIONS, most=0))
    played: Played = change(clean)  # type: ignore[operator]
    return {problem.split(":")[0] for problem in setup.broken(played)}


def without_dispatch(played: Played) -> Played:
    """As a playbook that claims success without asking anyone would leave it."""
    simulation = replace(played.simulation, playbook=replace(played.simulation.playbook, function=_claims_success))
    simulation.world.calls.clear()
    simulation.lines = [line for line in simulation.lines if not line.event.startswith("dispatch")]
    return replace(played, simulation=simulation)


def with_changed_routing(played: Played) -> Played:
    played.simulation.world.tree.put(".opencode/command/implement.md", b"mine")
    return played


def with_changed_line(played: Played) -> Played:
    content = played.simulation.medium.content
    content[content.index(b"implement")] ^= 1
    return played


def with_a_persons_file_overwritten(played: Played) -> Played:
    """As an import would leave it that merges nothing."""
    played.simulation.world.people_during["stage-3/lean-implementation-agent#1"] = {"src/work.txt": "theirs"}
    return played


def called_twice(played: Played) -> Played:
    played.simulation.world.calls.append(played.simulation.world.calls[0])
    return played


def believed_against_its_word(played: Played) -> Played:
    """As an engine would leave it that takes any text for a completed task."""
    return replace(played, schedule={len(played.simulation.world.calls) - 1: "gives up in words"})


def passed_against_its_evidence(played: Played) -> Played:
    """As an engine would leave it that weighs nothing."""
    for line in played.simulation.lines:
        if line.event == "dispatch.end":
            line.data["out"] |= {"passed": True, "evidence": {"failed": 1}}
    return played


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without_dispatch, {"exactly one agent is asked", "success is never claimed without a verdict"}),
        (with_changed_routing, {"the task list and the configuration stay as they were"}),
        (with_changed_line, {"the chain is whole"}),
        (called_twice, {"no dispatch is paid twice"}),
        (believed_against_its_word, {"success is never claimed without a verdict"}),
        (passed_against_its_evidence, {"nothing is accepted against evidence"}),
        (with_a_persons_file_overwritten, {"what people write meanwhile is theirs"}),
    ],
)
def test_each_invariant_notices_when_it_is_broken(change: object, expected: set[str]) -> None:
    """An invariant that cannot fail proves nothing."""
    assert broken_by(change) == expected
