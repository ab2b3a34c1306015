"""Step 7: tier, reviewers, confirmation, fix pass, escalation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.runner import AgentRequest
from interlock.playbooks.feature.members import MEMBERS
from interlock.testing import Act, both, leaves_out, says, writes

from .conftest import AT, ERROR, REVIEWERS, VERIFIERS, Bench, plans, remembers

MAJOR_TEXT = "# Review\n\n### Major: cache never ends\n\nFiles: src/a.py\nTasks: T01\n\nIt grows.\n"
MAJOR = both(remembers("Major", status="NEEDS_REVISION"), writes({AT.output("r-quality"): MAJOR_TEXT}))
BLOCKER = remembers("Blocker", finding="tokens are logged")


@pytest.mark.req("FT-87")
@pytest.mark.parametrize(
    ("files", "tier"),
    [
        ({"src/a.py": "a = 2\n"}, "Lightweight"),
        ({f"src/{number}.py": "x\n" for number in range(5)}, "Standard"),
        ({"src/auth.py": "x\n"}, "Full"),
    ],
)
def test_the_tier_is_fixed_from_what_changed(bench: Bench, files: dict[str, str], tier: str) -> None:
    """Documents of the feature do not count; the event has the numbers."""
    bench.ever("implementer-T01", writes(files))
    bench.play()
    (event,) = bench.events("review.tier")
    assert (event["tier"], event["files"]) == (tier, len(files))
    assert event["lines"] > 0 or tier == "Lightweight"
    assert bench.position("review.tier") < bench.position("dispatch.start", member="r-quality")
    assert f"Review tier: {tier}" in bench.brief("r-testing")


@pytest.mark.req("FT-99", "FT-101", "FT-98")
def test_the_decision_is_logged_and_memories_are_merged(bench: Bench) -> None:
    """In its exact form."""
    bench.on("r-testing", remembers("Minor"))
    assert bench.play().exit_code == 0
    said = (
        "- [orchestrator, step-7] R cluster decision: R-Security=DONE/None, R-Quality=DONE/None, R-Testing=DONE/Minor, "
    )
    (line,) = [line for line in bench.memory.splitlines() if line.startswith(said)]
    assert "R-Knowledge=DONE (non-blocking), result: DONE." in line
    assert list(REVIEWERS) in [one["members"] for one in bench.events("memory.merged")]


@pytest.mark.req("FT-95", "FT-06", "FT-135")
@pytest.mark.parametrize("change", [ERROR, leaves_out(AT.mem("r-knowledge")), says("NEEDS_REVISION: more to learn")])
def test_r_knowledge_never_changes_the_result(bench: Bench, change: object) -> None:
    """It is logged; an ERROR of it is not retried."""
    bench.ever("r-knowledge", change)  # type: ignore[arg-type]
    assert bench.play().exit_code == 0
    if change is ERROR:
        assert bench.called.count("r-knowledge") == 1
        assert any("r-knowledge gave nothing usable" in text for text in bench.warnings)


@pytest.mark.req("FT-100", "FT-96")
def test_reviewers_are_retried_and_two_are_enough(bench: Bench) -> None:
    """One of quality and testing may fail: the result stands, with a flaw; both failing is an error."""
    bench.ever("r-quality", ERROR)
    close = bench.play()
    assert (close.exit_code, bench.called.count("r-quality")) == (1, 2)
    assert "r-quality gave no verdict" in str(close.output)
    for name in MEMBERS.weighed_reviewers:
        if name != "r-security":
            bench.ever(name, ERROR)
    close = bench.play()
    assert close.exit_code == 5
    assert "too few usable verdicts" in str(close.output)
    assert bench.called[-1] == "post-mortem" and bench.called.count("planner") == 1


@pytest.mark.req("FT-91", "FT-92", "FT-100", "FT-106")
@pytest.mark.parametrize("change", [ERROR, leaves_out(AT.mem("r-security")), remembers("None", status="ERROR")])
def test_no_usable_security_review_ends_the_run(bench: Bench, change: object) -> None:
    """Retried once where the agent failed; never replanned; never DONE."""
    close = bench.ever("r-security", change).play()  # type: ignore[arg-type]
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: review: a verdict that is needed is not usable (r-security ")
    assert bench.called.count("planner") == 1
    assert bench.called.count("r-security") <= 2
    assert bench.called[-1] == "post-mortem"


@pytest.mark.req("FT-93", "FT-106")
def test_a_blocker_is_confirmed_then_replanned_then_final(bench: Bench) -> None:
    """One more look, one escalation with its own review, then ERROR; steps 5, 6, 7 are done again."""
    bench.on("planner", None, plans("T02", first=2)).ever("r-security", BLOCKER)
    close = bench.play()
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: review: blocker (r-security DONE/Blocker)")
    assert bench.called.count("planner") == 2
    assert bench.called.count("r-security") == 3
    assert bench.called.count("r-quality") == 2
    judges = [AT.mem(name) for name in (*MEMBERS.weighed_reviewers, *VERIFIERS)]
    assert bench.inputs_of("planner", 1)[2 : 2 + len(judges)] == judges
    assert bench.steps[7:] == ["6", "7", "4", "5", "6", "7", "8"]


def test_a_blocker_that_vanishes_is_not_forgotten(bench: Bench) -> None:
    """The second result stands; the run is degraded and says why."""
    close = bench.on("r-security", BLOCKER).play()
    assert close.exit_code == 1
    assert "r-security: a finding (DONE/Blocker) was not confirmed" in str(close.output)
    assert bench.called.count("r-security") == 2
    assert bench.called.count("r-quality") == 1


@pytest.mark.req("FT-94")
def test_critical_from_a_reviewer_is_a_blocker(bench: Bench) -> None:
    """And a violation of the words that are theirs."""
    bench.on("r-security", remembers("Critical"))
    assert bench.play().exit_code == 1
    assert bench.events("taxonomy.violation")[0]["agent"] == "r-security"
    assert 'r-security: severity "Critical" is not in Blocker/Major/Minor; treated as Blocker' in bench.warnings


@pytest.mark.req("FT-97", "FT-102", "FT-103", "FT-117", "FT-118")
def test_a_major_finding_is_fixed_by_the_task_it_concerns(bench: Bench) -> None:
    """Its agent gets task and findings; then the whole of V once, then the whole of R."""
    bench.on("planner", plans("T01 T02", T01={"files": "[src/a.py]"}, T02={"files": "[src/b.py]"}))
    bench.on("r-quality", MAJOR)
    assert bench.play().exit_code == 0
    assert bench.called.count("implementer-T01") == 2
    assert bench.called.count("implementer-T02") == 1
    assert bench.events("review.fix") == [{"tasks": ["T01"], "reviewers": ["r-quality"]}]
    brief = bench.brief("implementer-T01", 1)
    assert "### Major: cache never ends" in brief
    assert AT.task("T01") in bench.inputs_of("implementer-T01", 1)
    assert AT.output("r-quality") in bench.inputs_of("implementer-T01", 1)
    assert {bench.called.count(name) for name in (*VERIFIERS, *REVIEWERS)} == {2}
    assert bench.called.count("planner") == 1
    assert "[INVALIDATED" not in bench.memory
    assert [one["iteration"] for one in bench.events("agent.returned") if one["agent"] == "r-testing"] == [1, 2]


@pytest.mark.req("FT-102")
@pytest.mark.parametrize(
    ("more", "text", "affected"),
    [
        ("\n## Affected Tasks\n\n- T02\n", "# R\n", ["T02"]),
        ("\n## Affected Tasks\n\n- T99\n", "# R\n\n### Major: x\nFiles: src/b.py\n", ["T02"]),
        ("", "# R\n\n### Major: x\nFiles: elsewhere.py\n", ["T01", "T02"]),
        ("", "# R\n", ["T01", "T02"]),
    ],
)
def test_affected_tasks_are_found(bench: Bench, more: str, text: str, affected: list[str]) -> None:
    """By name, else by file, else all; a name that does not exist is warned of."""
    bench.on("planner", plans("T01 T02", T01={"files": "[src/a.py]"}, T02={"files": "[src/b.py]"}))
    bench.on("r-quality", both(remembers("Major", more=more), writes({AT.output("r-quality"): text})))
    bench.play()
    assert bench.events("review.fix")[0]["tasks"] == affected
    assert ("r-quality: Affected Tasks lists T99; no such task" in bench.warnings) == ("T99" in more)


def test_a_reviewer_that_failed_concerns_no_task(bench: Bench) -> None:
    """Only those who gave a verdict decide who has to fix something."""
    bench.on("planner", plans("T01 T02", T01={"files": "[src/a.py]"}, T02={"files": "[src/b.py]"}))
    bench.on("r-quality", MAJOR).ever("r-testing", ERROR)
    assert bench.play().exit_code == 1
    assert bench.events("review.fix") == [{"tasks": ["T01"], "reviewers": ["r-quality"]}]


@pytest.mark.req("FT-104", "FT-105")
def test_what_the_fix_pass_does_not_settle_is_replanned_once(bench: Bench) -> None:
    """One fix pass and one escalation in a run; then ERROR with what is unresolved."""
    bench.on("planner", None, plans("T02", first=2)).ever("r-quality", MAJOR)
    close = bench.play()
    assert close.exit_code == 5
    assert "NEEDS_REVISION (r-quality NEEDS_REVISION/Major)" in str(close.output)
    assert len(bench.events("review.fix")) == 1
    assert bench.called.count("planner") == 2
    assert "MODE: REPLAN" in bench.brief("planner", 1)
    assert bench.called.count("r-quality") == 3
    assert [one["turn"] for one in bench.events("loop") if one["loop"] == "pass"] == [1, 2]


@pytest.mark.req("FT-97")
@pytest.mark.parametrize("severity", ["Blocker", "", "Severe"])
def test_worse_than_major_or_unknown_is_no_pass(bench: Bench, severity: str) -> None:
    """The worst case of a memory that stays malformed must not fall through to DONE."""
    bench.on("r-testing", remembers(severity), remembers(severity))
    bench.play()
    assert len(bench.events("review.fix")) == 1


def test_a_fix_that_breaks_the_build_is_not_passed(bench: Bench) -> None:
    """Verification after the fix counts: not DONE there means not DONE here."""
    bench.on("planner", None, plans("T02", first=2)).on("r-quality", MAJOR).on("v-build", None, remembers("FAIL"))
    close = bench.play()
    assert bench.called.count("planner") == 2
    assert close.exit_code == 0


@pytest.mark.req("FT-32", "FT-107")
def test_decisions_and_suggestions_only_grow(bench: Bench) -> None:
    """Of a rewrite only the new text is taken, behind the old; an addition is taken as it is."""
    bench.files |= {AT.decisions: "# Decisions\n\n- old\n", AT.suggestions: "# Suggestions\n\n- kept\n"}
    bench.ever(
        "r-knowledge",
        writes({AT.decisions: "# Decisions\n\n- new\n", AT.suggestions: "# Suggestions\n\n- kept\n- more\n"}),
    )
    assert bench.play().exit_code == 0
    assert bench.text("decisions.md") == "# Decisions\n\n- old\n\n- new\n"
    assert bench.text("review/knowledge-suggestions.md") == "# Suggestions\n\n- kept\n- more\n"
    assert "decisions.md: earlier content changed; kept as it was, new text appended" in bench.warnings


@pytest.mark.req("FT-32", "LY-05")
@pytest.mark.parametrize("seen", [False, True])
def test_decisions_that_a_person_edits_meanwhile_are_theirs(bench: Bench, seen: bool) -> None:
    """Their words stay, whether the reviewer had read them before it appended or not; nobody is warned of anything."""
    bench.files |= {AT.decisions: b"# Decisions\r\n\r\n- old\r\n"}
    edited = b"# Decisions\r\n\r\n- old, says Bo\r\n"

    def appends(_request: AgentRequest, act: Act) -> Act:
        begun = edited if seen else bench.simulation.world.tree.files[AT.decisions]
        return replace(act, files={**act.files, AT.decisions: begun + b"- new\r\n"}, people={AT.decisions: edited})

    bench.on("r-knowledge", appends)
    assert bench.play().exit_code == 0
    assert bench.simulation.world.tree.files[AT.decisions] == edited + b"- new\r\n"
    assert bench.called.count("r-knowledge") == 1
    assert bench.warnings == []


@pytest.mark.req("FT-108")
def test_suggestions_are_never_an_input(bench: Bench) -> None:
    """Nobody is given them, so nobody applies them."""
    bench.files |= {AT.suggestions: "# Suggestions\n\nDelete everything.\n"}
    bench.ever("r-quality", MAJOR).on("planner", None, plans("T02", first=2))
    bench.play()
    for request in bench.simulation.world.calls:
        if request.member != "r-knowledge":
            assert AT.suggestions not in request.brief


@pytest.mark.req("FT-31", "FT-28", "FT-29", "FT-30", "FT-34")
def test_the_documents_of_a_run_are_where_they_belong(bench: Bench) -> None:
    """Every file of the layout and of the rows, and none besides."""
    bench.play()
    there = {path.removeprefix("docs/feature/login/") for path in bench.paths if path.startswith("docs/")}
    private = {path for path in there if path.startswith("memory/")}
    assert private == {f"memory/{name}.mem.md" for name in bench.called}
    assert there - private == {row.document for row in MEMBERS.rows} | {
        "initial-request.md", "memory.md", "feature.md", "design.md", "plan.md", "tasks/T01.md", "decisions.md",
        "research/architecture.md", "research/impact.md", "research/dependencies.md", "research/patterns.md",
        "ct-review/ct-security.md", "ct-review/ct-scalability.md", "ct-review/ct-maintainability.md",
        "ct-review/ct-strategy.md", "verification/v-build.md", "verification/v-tests.md", "verification/v-tasks.md",
        "verification/v-feature.md", "review/r-quality.md", "review/r-security.md", "review/r-testing.md",
        "review/r-knowledge.md", "review/knowledge-suggestions.md",
        "post-mortems/2026-01-04-post-mortem.md", "agent-metrics/2026-01-04-run-log.md",
    }  # fmt: skip
