"""QA and the way back to Build: at most twice, with the QA artifact, and counted on disk."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.simulation import Crash
from interlock.playbooks.harness.run_report import Log
from interlock.playbooks.harness.run_state import parse_text
from interlock.playbooks.harness.stages import LIFECYCLE
from interlock.testing import Act, best
from tests.playbooks.harness.conftest import NEGATIVE, QA_REPORT, RUN_STATE, Bench, agents, instead, qa, writing


@pytest.mark.req("HN-65", "HN-68", "HN-74", "HN-75", "HN-76", "HN-77", "HN-80")
def test_a_negative_qa_sends_the_task_back_and_a_positive_one_on(bench: Bench) -> None:
    """Build again with the QA artifact among its inputs, then QA again; both documents tell of it."""
    seen: list[Any] = []

    def build(request: Any, act: Act) -> Act:
        seen.append((bench.state, bench.rows(Log.EVIDENCE), request.brief))
        return act

    assert bench.play(agents(build=build, qa=writing(NEGATIVE, qa()))).exit_code == 0
    assert bench.called == ["po-spec", "feature-design", "tech-lead", "build", "qa", "build", "qa"]
    state, evidence, brief = seen[1]
    assert (state.stage, state.status, state.stop_reason) == ("Build", "Active", "")
    assert state.remediations == 1
    assert state.run_id.endswith("-BUILD-R1")
    assert state.completed[-1] == "Build"
    told = [row[2:] for row in evidence if row[1].endswith("-QA")]
    assert told[1:] == [
        ("QA result", "negative: Issues Found, Back to Build"),
        (
            "Reason for the return",
            "Validation Result is Issues Found; Approval Readiness is Back to Build; blocking issues: 1; "
            "acceptance criteria not met: 1",
        ),
        ("Blocking issue", "It crashes"),
        ("Failed criterion", "B"),
    ]
    for title in ("### Allowed inputs", "## Inputs"):
        assert f"- `{QA_REPORT}`" in brief.split(title, 1)[1].split("\n#", 1)[0]
    assert f"- `{QA_REPORT}`" not in seen[0][2]
    assert "QA sent the task back" in brief
    assert bench.history[3:] == [
        ("Build", "Approved"),
        ("Build", "Completed"),
        ("QA", "Returned to Build"),
        ("Build", "Completed"),
        ("QA", "Completed"),
        ("Awaiting Approval", "Approved"),
    ]
    assert [event["verdict"] for event in bench.events("qa.result")] == ["negative", "positive"]


@pytest.mark.req("HN-74", "HN-63")
def test_the_return_is_written_before_build_is_entered(bench: Bench) -> None:
    """Right after a negative QA run-state says Build, Active, no stop reason, and the notes tell of the return."""
    bench.play(agents(qa=writing(NEGATIVE, qa())), flags={"until": "QA"})
    assert (bench.state.stage, bench.state.status) == ("Build", "Active")
    assert bench.state.stop_reason == "Bounded orchestration test: stopped after QA"
    texts: list[str] = []
    simulation = bench.simulate(agents(qa=writing(NEGATIVE, qa())))
    write = simulation.world.documents.write

    def spy(path: str, content: Any, **how: Any) -> Any:
        texts.append(bytes(content).decode() if path == RUN_STATE and isinstance(content, bytes) else "")
        return write(path, content, **how)

    simulation.world.documents.write = spy
    simulation.go()
    (returned,) = [
        state
        for state in (parse_text(text, LIFECYCLE) for text in texts if text)
        if "QA returned the task" in state.notes
    ]
    assert (returned.stage, returned.status, returned.stop_reason) == ("Build", "Active", "")
    assert returned.notes == ("QA returned the task to Build for remediation 1 of 2. Current position: Build (Active).")


@pytest.mark.req("HN-78", "HN-79", "HN-107")
def test_the_third_negative_qa_halts_for_a_person(bench: Bench) -> None:
    """Three QAs, three Builds; then Blocked at QA with the exact reason, exit 3."""
    close = bench.play(agents(qa=writing(NEGATIVE, NEGATIVE + "\n", NEGATIVE + "\n\n", qa())))
    assert close.exit_code == 3
    assert bench.called.count("qa") == 3
    assert bench.called.count("build") == 3
    assert bench.blocked() == "QA remediation retry limit reached"
    assert (bench.state.stage, bench.state.remediations) == ("QA", 2)
    assert bench.state.run_id.endswith("-QA-R2")
    assert bench.history[-1] == ("QA", "Blocked")
    assert [row[0].split("TASK-001-")[1] for row in bench.rows(Log.HISTORY) if row[1] == "Build"] == [
        *("BUILD", "BUILD", "BUILD-R1", "BUILD-R2")
    ]


@pytest.mark.req("HN-78")
def test_a_cap_that_was_lowered_holds(bench: Bench) -> None:
    """A run may allow fewer remediations, never more."""
    simulation = bench.simulate(agents(qa=writing(NEGATIVE)))
    simulation.caps = {"remediation": 0, "stage": 16}
    assert simulation.go().exit_code == 3
    assert bench.called.count("build") == 1
    simulation = bench.simulate(agents(qa=writing(*(NEGATIVE + "\n" * n for n in range(6)))))
    simulation.caps = {"remediation": 9, "stage": 16}
    assert simulation.go().exit_code == 3
    assert bench.called.count("build") == 3


@pytest.mark.req("HN-81")
def test_a_qa_artifact_of_an_earlier_pass_does_not_count(bench: Bench) -> None:
    """QA that does not rewrite its report after the second Build is repaired once, then the run halts."""
    calls: list[str] = []

    def lazy(request: Any, act: Act) -> Act:
        calls.append(request.brief)
        return instead(files={QA_REPORT: NEGATIVE} if len(calls) == 1 else {})(request, act)

    close = bench.play(agents(qa=lazy))
    assert close.exit_code == 5
    assert len(calls) == 3
    assert bench.blocked().startswith(f"{QA_REPORT}: stale")
    assert bench.state.stage == "QA"
    assert bench.state.remediations == 1


@pytest.mark.req("HN-68")
@pytest.mark.parametrize("broken", [qa().replace("Validation Result: Passed\n", ""), qa(criteria="fine")])
def test_a_qa_artifact_without_a_result_is_never_positive(bench: Bench, broken: str) -> None:
    """Malformed, one re-dispatch, then Blocked; the task does not advance."""
    close = bench.play(agents(qa=writing(broken)))
    assert close.exit_code == 5
    assert bench.called.count("qa") == 2
    assert bench.blocked().startswith(f"{QA_REPORT}: malformed: ")
    assert bench.state.stage == "QA"
    assert bench.events("qa.result") == []


@pytest.mark.req("HN-82")
def test_the_number_of_remediations_survives_a_crash_and_a_new_clone(bench: Bench) -> None:
    """Killed between Build and QA: the resumed run, and one without any journal, count on from there."""
    crash = [True]

    def build(request: Any, act: Act) -> Act:
        again = bench.state.remediations == 1 and crash.pop() if crash else False
        return instead(crash=again)(request, act)

    texts = [NEGATIVE + "\n" * count for count in range(9)]
    simulation = bench.simulate(agents(build=build, qa=writing(*texts)))
    with pytest.raises(Crash):
        simulation.go()
    assert bench.state.remediations == 1
    files = dict(simulation.world.tree.files)
    assert simulation.go().exit_code == 3
    assert bench.state.remediations == 2
    assert len({request.dispatch for request in simulation.world.calls if request.agent == "build"}) == 3

    bench.files = files
    assert bench.play(agents(qa=writing(*texts[4:]))).exit_code == 3
    assert bench.called == ["build", "qa", "build", "qa"]
    assert bench.blocked() == "QA remediation retry limit reached"


def test_a_blocked_task_is_judged_again_when_a_person_resumes_it(bench: Bench) -> None:
    """Without more QA runs once more where it stood; with `--reset-remediation` the way back is open again."""
    texts = [NEGATIVE + "\n" * count for count in range(9)]
    bench.play(agents(qa=writing(*texts[:3])))
    assert bench.resume(agents(qa=writing(texts[3]))).exit_code == 3
    assert bench.called == ["qa"]
    assert bench.blocked() == "QA remediation retry limit reached"
    close = bench.resume(agents(qa=writing(texts[4], qa())), flags={"reset_remediation": True, "note": "new tester"})
    assert close.exit_code == 0
    assert bench.called == ["qa", "build", "qa"]
    resumed = [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Resumed"]
    assert resumed == ["no reason given", "new tester, remediations counted anew"]


def test_the_best_agents_never_go_back(bench: Bench) -> None:
    """A clean run has no remediation."""
    bench.play(best)
    assert bench.state.remediations == 0
