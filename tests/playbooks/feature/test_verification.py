"""Step 6: build gate, verifiers, replans."""

from __future__ import annotations

import pytest

from interlock.testing import both, leaves_out, says, writes

from .conftest import AT, ERROR, VERIFIERS, Bench, plans, remembers

FAIL = remembers("FAIL", finding="It does not build.")
REVISE = remembers("FAIL", status="NEEDS_REVISION")


def replans(bench: Bench, count: int) -> Bench:
    """A planner that adds one task per replan."""
    ids = [f"T{number:02}" for number in range(1, count + 2)]
    return bench.on("planner", *(plans(one, first=number) for number, one in enumerate(ids, 1)))


@pytest.mark.req("FT-48", "FT-73", "FT-79", "FT-83")
def test_a_build_that_fails_skips_the_others(bench: Bench) -> None:
    """Two calls of v-build, none of the others; then a replan and the whole cluster."""
    replans(bench, 1).on("v-build", ERROR, ERROR)
    assert bench.play().exit_code == 0
    first_replan = [n for n, name in enumerate(bench.called) if name == "planner"][1]
    before = bench.called[:first_replan]
    assert before.count("v-build") == 2
    assert not {"v-tests", "v-tasks", "v-feature"} & set(before)
    assert bench.called.count("v-tests") == 1


@pytest.mark.req("FT-74", "FT-75")
def test_verifiers_run_side_by_side_and_are_retried_once(bench: Bench) -> None:
    """Three overlap once the build is proven; an error of one is repeated once."""
    bench.on("v-tests", ERROR)
    assert bench.play().exit_code == 0
    assert bench.called.count("v-tests") == 2
    starts = [bench.position("dispatch.start", member=name) for name in VERIFIERS[1:]]
    ends = [bench.position("dispatch.end", member=name) for name in VERIFIERS[1:]]
    assert bench.position("dispatch.end", member="v-build") < min(starts) and max(starts) < min(ends)


@pytest.mark.req("FT-76", "FT-84", "FT-85")
@pytest.mark.parametrize(
    ("changes", "line", "exit_code"),
    [
        ({}, "V-Build=DONE, V-Tests=DONE, V-Tasks=DONE, V-Feature=DONE, result: DONE.", 0),
        ({"v-tests": ERROR}, "V-Build=DONE, V-Tests=ERROR, V-Tasks=DONE, V-Feature=DONE, result: DONE.", 1),
    ],
)
def test_the_decision_is_logged_and_memories_are_merged(
    bench: Bench, changes: dict[str, object], line: str, exit_code: int
) -> None:
    """One verifier without a verdict is passed with a flaw: exit 1, and it is said."""
    for name, change in changes.items():
        bench.ever(name, change)  # type: ignore[arg-type]
    close = bench.play()
    assert close.exit_code == exit_code
    assert f"- [orchestrator, step-6] V cluster decision: {line}" in bench.memory
    assert any(set(VERIFIERS[:1]) <= set(one["members"]) for one in bench.events("memory.merged"))
    if exit_code:
        assert "v-tests gave no verdict" in str(close.output)


@pytest.mark.req("FT-80")
def test_strict_wants_every_verdict(bench: Bench) -> None:
    """With --strict one error is a reason to replan."""
    replans(bench, 3).ever("v-tests", ERROR)
    bench.play(strict=True)
    assert bench.called.count("planner") == 4


@pytest.mark.req("FT-50", "FT-51", "FT-78", "FT-82", "FT-86")
def test_a_negative_verdict_leads_to_a_replan_and_the_whole_cluster_again(bench: Bench) -> None:
    """Entries are invalidated, the planner gets MODE: REPLAN and the four memories, then fix tasks, then all of V."""
    seen: list[str] = []

    def look(request: object, act: object) -> object:
        seen.append(bench.memory)
        return plans("T02", first=2)(request, act)  # type: ignore[arg-type]

    later: list[str] = []

    def remember(_request: object, act: object) -> object:
        later.append(bench.memory)
        return act

    bench.on("implementer-T02", remember)  # type: ignore[arg-type]
    bench.on("planner", None, look).on("v-tasks", both(REVISE, says("NEEDS_REVISION: T01 is half done")))  # type: ignore[arg-type]
    assert bench.play().exit_code == 0
    assert [bench.called.count(name) for name in VERIFIERS] == [2, 2, 2, 2]
    brief = bench.brief("planner", 1)
    assert "MODE: REPLAN" in brief and "### Wave 2" in brief
    assert [AT.mem(name) for name in VERIFIERS] == bench.inputs_of("planner", 1)[2:6]
    assert "- [INVALIDATED — work is being replanned] [v-tasks, step-6]" in seen[0]
    assert "[INVALIDATED" not in later[0], "cleaned as soon as the planner has finished"
    assert "[INVALIDATED" not in bench.memory
    order = [name for name in bench.called if name in ("planner", "implementer-T01", "implementer-T02", "v-build")]
    assert order == ["planner", "implementer-T01", "v-build", "planner", "implementer-T02", "v-build"]
    assert [one["iteration"] for one in bench.events("agent.returned") if one["agent"] == "v-build"] == [1, 2]
    assert "verifier.md" not in " ".join(bench.paths)


@pytest.mark.req("FT-49", "FT-52", "FT-30")
def test_three_replans_and_a_last_verification(bench: Bench) -> None:
    """Four rounds of V; then the review, with the findings documented; the run is degraded at best."""
    replans(bench, 3).ever("v-feature", REVISE)
    close = bench.play()
    assert bench.called.count("planner") == 4
    assert bench.called.count("v-build") == 4
    assert bench.events("verify.unresolved")[0]["result"] == "NEEDS_REVISION"
    assert "r-quality" in bench.called
    assert close.exit_code == 1
    assert "verification did not pass (NEEDS_REVISION)" in str(close.output)
    turns = [one["turn"] for one in bench.events("loop") if one["loop"] == "replan"]
    assert turns == [1, 2, 3]


def test_an_unverified_error_is_let_through_to_the_review_only(bench: Bench) -> None:
    """V ERROR after three replans: the review decides, and the run is degraded."""
    replans(bench, 3).ever("v-build", FAIL)
    close = bench.play()
    assert (close.exit_code, bench.called.count("v-build")) == (1, 4)
    assert "v-tests" not in bench.called


@pytest.mark.req("FT-81")
def test_two_without_a_verdict_are_an_error(bench: Bench) -> None:
    """Replanned like a negative verdict."""
    replans(bench, 1).on("v-tests", ERROR, ERROR)
    gone = leaves_out(AT.mem("v-feature"))
    bench.on("v-feature", gone, gone)
    assert bench.play().exit_code == 0
    assert bench.called.count("planner") == 2


@pytest.mark.req("FT-58")
def test_a_memory_of_an_earlier_round_does_not_count(bench: Bench) -> None:
    """A build that fails in round two: the verifiers' memories of round one are gone, not taken for new."""
    replans(bench, 2).on("v-tests", FAIL).on("v-build", None, FAIL)
    assert bench.play().exit_code == 0
    decisions = [line.data["out"]["result"] for line in bench.lines if "v_cluster" in str(line.data.get("in"))]
    assert decisions == ["NEEDS_REVISION", "a verdict that is needed is not usable", "DONE"]


def test_what_is_left_out_of_a_replan_is_refused(bench: Bench) -> None:
    """A failed task can be listed again or its file deleted; it cannot be forgotten."""
    bench.on("planner", plans("T1 T2"), plans("T3", first=2), plans("T3", first=2)).on("implementer-T1", ERROR)
    bench.on("v-tasks", FAIL)
    close = bench.play()
    assert str(close.output).startswith("ERROR: tasks/T1.md is in no wave")
    deleted = Bench().on("planner", plans("T1 T2"), both(plans("T3", first=2), writes({AT.task("T1"): None})))
    deleted.on("implementer-T1", ERROR).on("v-tasks", FAIL)
    assert deleted.play().exit_code == 0


def test_no_approval_of_replans_unless_asked_for(bench: Bench) -> None:
    """The gate belongs to the first plan; --approve-replans opens it for each."""
    for wanted, gates in ((False, 1), (True, 2)):
        again = replans(Bench(), 1).on("v-tasks", FAIL)
        simulation = again.simulate(approval=True, approval_fallback="proceed", approve_replans=wanted)
        assert simulation.go().exit_code == 0
        assert sum("proceeding autonomously" in text for text in again.warnings) == 1 + gates
    assert bench.play().exit_code == 0


@pytest.mark.req("FT-49", "FT-105")
def test_replans_are_counted_for_the_whole_run(bench: Bench) -> None:
    """One plan, three replans, one escalation; the escalation brings no further replans of its own."""
    major = remembers("Major")
    replans(bench, 4).ever("v-feature", REVISE).ever("r-quality", major)
    assert bench.play().exit_code == 5
    assert bench.called.count("planner") == 5
    assert bench.called.count("v-build") == 4 + 1 + 1, "four rounds, one after the fix pass, one after the escalation"
