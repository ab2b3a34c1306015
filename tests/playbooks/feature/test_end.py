"""Gates, the post-mortem, what follows a run: waiting, resuming, retrying."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.documents import Sections, load_yaml
from interlock.engine import GateDecision
from interlock.engine.lifecycle import forgotten
from interlock.engine.people import check_decision, record_decision
from interlock.engine.simulation import Crash
from interlock.testing import both, says, writes

from .conftest import AT, ERROR, RESEARCHERS, REVIEWERS, Bench, journal_of, plans, remembers, task


def decide(bench: Bench, choice: str, note: str = "") -> None:
    """A person's decision at the gate where the run waits."""
    simulation = bench.simulation
    journal = journal_of(bench)
    waiting = check_decision(
        journal.lines, choice, lambda path: simulation.world.documents.facts(path).digest or "", run_id="x"
    )
    decision = GateDecision(choice, "ada", "2026-01-04T12:00:00Z", note, waiting.digests)
    record_decision(journal, waiting, decision, simulation.world.records.objects)


# -- gates


@pytest.mark.req("FT-17", "FT-125", "FT-134", "EN-29")
def test_the_run_waits_for_a_person_after_research_and_after_planning(bench: Bench) -> None:
    """Exit 4 twice; what was decided is recorded; the call behind a gate says that a person acted."""
    close = bench.play(approval=True)
    assert (close.exit_code, bench.called) == (4, [name for name in bench.called if name.startswith("researcher")])
    assert close.gate is not None and "Research is complete" in close.gate["question"]
    assert set(close.gate["digests"]) == {
        AT.output(f"researcher-{f}") for f in ("architecture", "impact", "dependencies", "patterns")
    }
    decide(bench, "approve")
    close = bench.simulation.go()
    assert close.exit_code == 4 and bench.called[-1] == "planner"
    assert close.gate is not None and set(close.gate["digests"]) == {AT.plan, AT.task("T01")}
    decide(bench, "approve")
    assert bench.simulation.go().exit_code == 0
    human = {one["agent"]: one["human"] for one in bench.events("agent.returned")}
    assert human["spec"] and human["implementer-T01"]
    assert not human["designer"] and not human["researcher-impact"]
    assert bench.steps == ["0", "1", "2", "3", "3b", "4", "5", "6", "7", "8"]


@pytest.mark.req("EV-20", "EV-21")
def test_rejected_research_is_done_again_with_the_note(bench: Bench) -> None:
    """Only the researchers are called again; each is told who said what, and that their documents are in place."""
    close = bench.play(approval=True)
    assert close.gate is not None
    leads = {one["name"]: one["leads_to"] for one in close.gate["choices"]}
    assert leads["reject"] == "the researchers work again, with what you say"
    decide(bench, "reject", "look at the old login too")
    close = bench.simulation.go()
    assert close.exit_code == 4 and close.gate is not None and close.gate["gate"] == "approve-research"
    assert len(bench.called) == 8 and set(bench.called[4:]) == set(RESEARCHERS)
    for name in RESEARCHERS:
        said = bench.brief(name, 1).partition("## Said by people")[2].partition("\n## ")[0]
        assert "ada (" in said and "look at the old login too" in said
        assert AT.output(name) in bench.brief(name, 1).partition("## Failure context")[2]
    decide(bench, "approve")
    bench.simulation.go()
    assert "look at the old login too" not in bench.brief("spec")


@pytest.mark.req("EV-20", "EV-21", "EV-45")
def test_a_rejected_plan_goes_back_to_the_planner_with_the_note(bench: Bench) -> None:
    """Nobody else is called; task files that the new plan does not want are set aside; it is asked about as well."""
    bench.on("planner", plans("T1 T2 T3"), both(plans("T1"), writes({AT.plan: "# Plan\n"})), plans("T1 T2"))
    bench.play(approval=True)
    decide(bench, "approve")
    bench.simulation.go()
    before = len(bench.called)
    decide(bench, "reject", "too many tasks")
    close = bench.simulation.go()
    assert bench.called[before:] == ["planner", "planner"], "the first answer to the rejection does not hold"
    assert "too many tasks" in bench.brief("planner", 1).partition("## Said by people")[2]
    assert "A person did not approve the plan" in bench.brief("planner", 1).partition("## Failure context")[2]
    again = bench.brief("planner", 2).partition("## Failure context")[2]
    assert "too many tasks" in again and "does not hold" in again
    assert close.exit_code == 4 and close.gate is not None
    assert set(close.gate["digests"]) == {AT.plan, AT.task("T1"), AT.task("T2")}
    assert AT.task("T3") not in bench.paths
    decide(bench, "approve")
    assert bench.simulation.go().exit_code == 0
    assert "implementer-T3" not in bench.called and bench.called.count("spec") == 1


@pytest.mark.req("EV-21", "EN-20")
@pytest.mark.parametrize("gate", ["approve-research", "approve-plan"])
def test_five_rounds_of_a_rejection_and_no_more(bench: Bench, gate: str) -> None:
    """The sixth one ends the run, as its gate says, and a retry does that last round again."""
    bench.on("planner", *(plans(f"T{number}") for number in range(1, 9)))
    close = bench.play(approval=True)
    maker = "researcher-impact"
    if gate == "approve-plan":
        maker = "planner"
        decide(bench, "approve")
        close = bench.simulation.go()
    for number in range(1, 7):
        assert close.exit_code == 4 and close.gate is not None and bench.called.count(maker) == number
        last = {one["name"]: one["leads_to"] for one in close.gate["choices"]}["reject"]
        assert (last == "the run ends") is (number == 6)
        decide(bench, "reject", f"no {number}")
        close = bench.simulation.go()
    assert close.exit_code == 5
    assert str(close.output).startswith(f"ERROR: rejected at {gate} by ada: no 6")
    journal = journal_of(bench)
    journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})
    close = bench.simulation.go()
    assert (close.exit_code, bench.called.count(maker)) == (4, 7)


@pytest.mark.req("FT-18")
def test_without_a_pause_the_run_says_so_and_goes_on(bench: Bench) -> None:
    """Only where that was asked for."""
    assert bench.play(approval=True, approval_fallback="proceed").exit_code == 0
    text = "APPROVAL_MODE requested but interactive pause not supported — proceeding autonomously"
    assert bench.warnings.count(text) == 2
    assert bench.events("gate.opened") == []


@pytest.mark.req("FT-17")
def test_without_approval_mode_nobody_is_asked(bench: Bench) -> None:
    """Fully autonomous."""
    assert bench.play().exit_code == 0
    assert bench.events("gate.opened") == []


@pytest.mark.req("EN-30")
def test_the_plan_that_a_person_improved_is_carried_out(bench: Bench) -> None:
    """What they changed at the gate counts; what they broke is shown again."""
    bench.play(approval=True)
    decide(bench, "approve")
    bench.simulation.go()
    tree = bench.simulation.world.tree
    tree.put(AT.task("T02"), task("T02").encode())
    bench.simulation.go()
    decide(bench, "approve")
    close = bench.simulation.go()
    assert close.exit_code == 4
    assert close.gate is not None and "tasks/T02.md is in no wave" in close.gate["question"]
    tree.put(AT.plan, (tree.files[AT.plan].decode() + "- T02: more\n").encode())
    bench.simulation.go()
    decide(bench, "approve")
    assert bench.simulation.go().exit_code == 0
    assert "implementer-T02" in bench.called


# -- 8


@pytest.mark.req("FT-25", "FT-144", "FT-146", "FT-147")
def test_the_post_mortem_gets_the_whole_telemetry(bench: Bench) -> None:
    """One row per return, one per cluster, slug, date, folders; the result is recorded before."""
    bench.on("spec", ERROR).ever("r-knowledge", ERROR)
    bench.play()
    brief = bench.brief("post-mortem")
    told = brief.partition("## Dispatch Telemetry")[2]
    assert "**Feature:** login\n**Run Date:** 2026-01-04\n" in told
    rows = [line for line in told.partition("### Agent Dispatches")[2].partition("###")[0].splitlines() if "|" in line]
    assert rows[0] == "| Agent | Step | Pattern | Status | Retries | Failure | Iteration | Human | Timestamp |"
    assert len(rows) == 2 + len(set(bench.called)) - 1
    spec = next(row for row in rows if row.startswith("| spec "))
    assert spec.startswith("| spec | 2 | sequential | DONE | 1 | — | 1 | no | 2026-01-04T12:")
    assert any(row.startswith("| r-knowledge | 7.2 | A | ERROR | 0 | r-knowledge: it broke | 1 | no |") for row in rows)
    clusters = told.partition("### Cluster Summaries")[2]
    assert "| Step | Cluster | Dispatched | Errors | Outcome |" in clusters
    for row in (
        "| 1.1 | research | 4 | 0 | DONE |",
        "| 3b | ct | 4 | 0 | DONE |",
        f"| 7 | r | {len(REVIEWERS)} | 1 | DONE |",
    ):
        assert row in clusters
    assert f"`{AT.memories}/`" in brief and f"`{AT.evaluations}/`" in brief
    assert bench.position("outcome") < bench.position("dispatch.start", member="post-mortem")


@pytest.mark.req("FT-148", "FT-120", "FT-149", "FT-06")
@pytest.mark.parametrize("change", [ERROR, says("NEEDS_REVISION: later")])
def test_a_failed_post_mortem_changes_nothing(bench: Bench, change: object) -> None:
    """Exit 0 all the same, one call, the engine keeps the run log, nothing is merged."""
    bench.ever("post-mortem", change)  # type: ignore[arg-type]
    close = bench.play()
    assert (close.exit_code, bench.called.count("post-mortem")) == (0, 1)
    assert "- [orchestrator, step-8] PostMortem dispatch: ERROR. " in bench.memory
    assert "[post-mortem, step-8]" not in bench.memory
    (fence,) = Sections(bench.text("agent-metrics/2026-01-04-run-log.md")).fences("yaml") or (None,)
    if fence is not None:
        assert len(load_yaml(fence.content, "log")["dispatches"]) >= 20


@pytest.mark.req("FT-34")
def test_further_runs_on_a_day_get_their_own_files(bench: Bench) -> None:
    """By number."""
    bench.files[AT.run_log("2026-01-04")] = "# old\n"
    bench.play()
    assert AT.run_log("2026-01-04-2") in bench.paths and AT.post_mortem("2026-01-04-2") in bench.paths
    assert bench.text("agent-metrics/2026-01-04-run-log.md") == "# old\n"


@pytest.mark.req("FT-40")
def test_after_a_halt_the_post_mortem_runs_only_on_request(bench: Bench) -> None:
    """The run log is there in any case."""
    bench.ever("designer", ERROR)
    assert bench.play().exit_code == 5
    assert bench.called[-1] == "designer"
    assert "agent: designer" in bench.text("agent-metrics/2026-01-04-run-log.md")
    close = bench.play(post_mortem_on_halt=True)
    assert close.exit_code == 5
    assert bench.called[-1] == "post-mortem"
    assert "ERROR: designer: it broke" in bench.brief("post-mortem")


# -- again


@pytest.mark.req("FT-155", "CM-22")
def test_a_crash_at_any_call_resumes_to_the_same_documents(bench: Bench) -> None:
    """What was finished is not repeated; the documents are those of an uninterrupted run."""
    bench.play()
    expected, calls = dict(bench.simulation.world.tree.files), list(bench.called)
    for number in range(len(calls)):
        again = Bench()
        count = 0

        def crashing(request: object, number: int = number, again: Bench = again) -> object:
            nonlocal count
            count += 1
            act = again.agent(request)  # type: ignore[arg-type]
            return replace(act, crash=True) if count == number + 1 else act  # type: ignore[type-var]

        simulation = again.simulate()
        simulation.world.agent = crashing  # type: ignore[assignment]
        with pytest.raises(Crash):
            simulation.go()
        finished = {line.data["member"] for line in simulation.lines if line.event == "dispatch.end"}
        before = len(again.called)
        assert simulation.go().exit_code == 0
        assert not finished & set(again.called[before:])
        documents = {
            path: text for path, text in simulation.world.tree.files.items() if not path.startswith(".interlock")
        }
        assert documents == {path: text for path, text in expected.items() if not path.startswith(".interlock")}


@pytest.mark.req("EN-20")
@pytest.mark.parametrize("agent", ["designer", "r-security", "planner"])
def test_a_retry_forgets_what_decided_the_end_and_what_came_after(bench: Bench, agent: str) -> None:
    """Everything before stands; the failed agent and those behind it are called again, and the run completes."""
    bench.on(agent, ERROR, ERROR)
    assert bench.play().exit_code == 5
    before = list(bench.called)
    journal = journal_of(bench)
    journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})
    assert bench.simulation.go().exit_code == 0
    again = bench.called[len(before) :]
    assert again[0] == agent or agent in again[:4]
    assert not {"researcher-impact", "spec"} & set(again)


def test_a_review_that_wants_changes_can_be_retried_after_a_persons_fix(bench: Bench) -> None:
    """The round of reviewers that decided the end looks again; the work before is not paid twice."""
    major = remembers("Major")
    bench.on("planner", None, plans("T02", first=2)).on("r-quality", major, major, major)
    assert bench.play().exit_code == 5
    count = len(bench.called)
    journal = journal_of(bench)
    journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})
    assert bench.simulation.go().exit_code == 0
    assert bench.called[count:] == [*REVIEWERS, "post-mortem"]


@pytest.mark.req("EN-18")
def test_a_new_run_keeps_what_lives_on_and_sets_the_old_plan_aside(bench: Bench) -> None:
    """Memory, decisions and suggestions stay; plan and tasks of the last run are moved to the attic."""
    bench.on("planner", plans("T01 T02"))
    bench.play()
    first = dict(bench.simulation.world.tree.files)
    again = Bench(files=first)  # type: ignore[arg-type]
    assert again.play(request="Add a logout page").exit_code == 0
    assert "implementer-T02" not in again.called
    attic = [path for path in again.paths if path.startswith(".interlock/attic/")]
    for kept in (AT.plan, AT.task("T02"), AT.request, AT.mem("spec")):
        assert any(path.endswith(kept) for path in attic), kept
    assert again.text("initial-request.md") == "# Initial Request\n\nAdd a logout page\n"
    assert "- [r-quality, step-7] Nothing to add." in again.memory
