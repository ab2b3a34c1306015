"""Step 3b: the critics, one revision of the design, and what becomes of findings that stay."""

from __future__ import annotations

import pytest

from interlock.testing import both, leaves_out, says, writes

from .conftest import AT, CRITICS, ERROR, RESEARCHERS, Bench, remembers

HIGH = both(
    remembers("High", finding="No rate limit."),
    writes(
        {AT.output("ct-scalability"): "# Review\n\n### High: no rate limit\n\nIt will drown.\n\n### Low: a name\n\nx\n"}
    ),
)


@pytest.mark.req("FT-59", "FT-63", "FT-64", "FT-65")
def test_all_low_leads_on(bench: Bench) -> None:
    """The four memories are read, the decision is logged, the memories are merged."""
    bench.play()
    read = [line.data["in"]["path"] for line in bench.lines if line.event == "read"]
    assert all(AT.mem(name) in read for name in CRITICS)
    assert (
        "- [orchestrator, step-3b] CT cluster decision: severity values [Low, Low, Low, Low], result: DONE."
        in bench.memory
    )
    assert list(CRITICS) in [one["members"] for one in bench.events("memory.merged")]
    assert bench.called.count("designer") == 1


@pytest.mark.req("FT-62", "FT-65", "FT-66", "FT-67", "FT-68", "FT-117", "FT-118", "FT-07", "FT-58")
def test_findings_go_back_to_the_designer_once(bench: Bench) -> None:
    """Entries are marked, the designer gets memories and reviews, all four critics look again; no mark is left."""
    marked: list[str] = []

    def look(_request: object, act: object) -> object:
        marked.extend(line for line in bench.memory.splitlines() if "[INVALIDATED" in line)
        return act

    bench.on("ct-scalability", HIGH).on("designer", None, look)  # type: ignore[arg-type]
    assert bench.play().exit_code == 0
    assert bench.called.count("designer") == 2
    assert [bench.called.count(name) for name in CRITICS] == [2, 2, 2, 2]
    assert "- [INVALIDATED — design is being revised] [ct-scalability, step-3b] No rate limit." in marked
    assert {line.partition("] [")[2].partition(",")[0] for line in marked} == {*CRITICS, "designer"}
    assert "[INVALIDATED" not in bench.memory
    assert bench.inputs_of("designer", 1) == [
        AT.request, AT.memory, *map(AT.mem, (*CRITICS, "spec", *RESEARCHERS)), *map(AT.output, CRITICS), AT.design,
        AT.feature, *map(AT.output, RESEARCHERS),
    ]  # fmt: skip
    assert [one["iteration"] for one in bench.events("agent.returned") if one["agent"] == "ct-strategy"] == [1, 2]
    aside = [line.data["in"]["path"] for line in bench.lines if line.event == "set_aside"]
    assert {AT.mem(name) for name in CRITICS} <= set(aside)
    assert bench.steps[4:8] == ["3b", "3", "3b", "4"]


@pytest.mark.req("FT-64")
def test_the_decision_of_a_revision_is_logged_in_its_form(bench: Bench) -> None:
    """With the severities in the order of the critics; read while the designer revises."""
    seen: list[str] = []

    def look(_request: object, act: object) -> object:
        seen.append(bench.memory)
        return act

    bench.on("ct-scalability", HIGH).on("designer", None, look).play()  # type: ignore[arg-type]
    expected = (
        "- [orchestrator, step-3b] CT cluster decision: severity values [Low, High, Low, Low], result: NEEDS_REVISION."
    )
    assert expected in seen[0]


@pytest.mark.req("FT-69", "FT-70")
def test_findings_that_stay_become_constraints(bench: Bench) -> None:
    """No third round; the planner gets the reviews and the findings above Low, and is warned."""
    bench.ever("ct-scalability", HIGH)
    assert bench.play().exit_code == 0
    assert bench.called.count("ct-scalability") == 2
    assert bench.called.count("designer") == 2
    brief = bench.brief("planner")
    assert "### Planning constraints" in brief
    assert all(f"- `{AT.output(name)}`" in brief for name in CRITICS)
    assert "### High: no rate limit" in brief and "### Low: a name" not in brief
    assert set(map(AT.mem, CRITICS)) <= set(bench.inputs_of("planner"))
    assert any("constraints" in text for text in bench.warnings)


@pytest.mark.req("FT-132")
def test_without_findings_the_planner_gets_no_reviews(bench: Bench) -> None:
    """They are inputs only when there is something in them."""
    bench.play()
    assert "constraints" not in bench.brief("planner").lower()
    assert not set(map(AT.output, CRITICS)) & set(bench.inputs_of("planner"))


@pytest.mark.req("FT-56", "FT-57", "EV-03")
@pytest.mark.parametrize("severity", ["", "Severe"])
def test_a_memory_without_a_known_severity_is_the_worst_case(bench: Bench, severity: str) -> None:
    """Its author is asked again with the complaint; then it counts as Critical, and one line says so."""
    seen: list[str] = []

    def look(_request: object, act: object) -> object:
        seen.append(bench.memory)
        return act

    bad = remembers(severity)
    bench.on("ct-security", bad, bad).on("designer", None, look).play()  # type: ignore[arg-type]
    complaint = "`## Highest Severity` must be one of Critical, High, Medium, Low"
    assert complaint in bench.brief("ct-security", 1).partition("## Failure context")[2]
    assert bench.called.index("designer") == bench.called.index("spec") + 1, "nobody else is called for it"
    line = "- [orchestrator, step-3b] WARNING: memory/ct-security.mem.md missing/malformed — treating as worst-case."
    assert seen[0].count(line) == 1
    assert "severity values [Critical, Low, Low, Low]" in seen[0]


@pytest.mark.req("FT-61", "FT-135")
def test_medium_findings_and_a_wish_for_revision_count(bench: Bench) -> None:
    """Either leads to a revision, although the highest severity is Low."""
    more = "\n## Medium Severity\n\n- a queue without a limit\n"
    bench.on("ct-strategy", remembers("Low", more=more)).play()
    assert bench.called.count("designer") == 2
    again = Bench().on("ct-strategy", says("NEEDS_REVISION: think again"))
    again.play()
    assert again.called.count("designer") == 2
    assert again.called.count("ct-strategy") == 2


@pytest.mark.req("FT-55", "FT-60")
def test_two_critics_are_enough(bench: Bench) -> None:
    """One that fails twice and one without a memory are left out; each was retried once."""
    bench.ever("ct-security", ERROR).ever("ct-strategy", leaves_out(AT.mem("ct-strategy")))
    assert bench.play().exit_code == 0
    assert [bench.called.count(name) for name in CRITICS] == [2, 1, 1, 2]
    assert "severity values [ERROR, Low, Low, ERROR], result: DONE." in bench.memory
    assert "WARNING: memory/ct-strategy.mem.md missing/malformed — treating as worst-case." in bench.memory


@pytest.mark.req("FT-71")
def test_fewer_than_two_critics_halt_the_run(bench: Bench) -> None:
    """The memories are read once more after a second; then ERROR, exit 5."""
    for name in CRITICS[:3]:
        bench.ever(name, ERROR)
    close = bench.play()
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: CT cluster: 1 of 4 usable; at least 2 required")
    assert [line.data["out"] for line in bench.lines if line.event == "wait"] == [1.0]
    reads = [line for line in bench.lines if line.event == "read" and line.data["in"]["path"] == AT.mem("ct-strategy")]
    assert len(reads) == 2
    assert "planner" not in bench.called
