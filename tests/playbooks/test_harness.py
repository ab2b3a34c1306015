"""`harness`, stage by stage, in the simulated world."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from interlock.agents.values import Exit
from interlock.engine.simulation import Act
from interlock.errors import BadInput, Status
from interlock.playbooks.harness.run_state import history, read_state
from interlock.playbooks.harness.stages import (
    AGENTS,
    GOVERNED,
    REQUIRED,
    RUN_STATE,
    Came,
    Stage,
    counts,
)
from tests.engine.bench import GREEN, RED, Died, said
from tests.playbooks.harnesses import (
    APPROVE,
    ARTIFACTS,
    BUILD,
    DESIGN,
    ID,
    LATER,
    ORDER,
    PLAN,
    QA,
    REPORT,
    SPEC,
    STAGES,
    TASK,
    Task,
    bad,
    qa,
    reject,
)

LIMIT = "QA remediation retry limit reached"
AUTONOMOUS = TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID")


def built(n: int = 1, path: str = "greet.py", text: bytes | None = None, **form: Any) -> Act:
    """Build's code and report."""
    files = {BUILD: f"# Built {n}\n\n## Changes\n\n- {path}\n\n## Verification\n\n- none\n".encode()}
    code = {path: f"worked on by {n}\n".encode() if text is None else text} if path else {}
    return said(form or "built", {**files, **code})


# --- the sequence


@pytest.mark.req("HN-06", "HN-59", "HN-64", "HN-89", "HN-91", "HN-09", "HN-16", "HN-45")
def test_each_stage_is_done_by_its_own_agent_and_both_documents_say_so() -> None:
    """Completed Stages is a prefix at each call; the report's entry stands before run-state moves on."""
    task = Task()
    before = {path: text for path, text in task.world.files.items() if path.startswith("harness/")}
    view = task.run()
    assert (view.status, task.called, task.code(view)) == (Status.COMPLETE, ORDER, 0)
    for n, (agent, state, report) in enumerate(task.stood):
        found = read_state(state)
        assert (agent, found.stage.value) == (ORDER[n], STAGES[n])
        assert [*found.completed] == STAGES[:n]
        assert found.run_id == f"RUN-2026-01-01-{ID}-{('SPEC', 'DESIGN', 'PLAN', 'BUILD', 'QA')[n]}"
        done = [one["stage"] for one in history(report) if one["outcome"] == "Completed"]
        assert done == STAGES[:n], "the report has its entry before"
        assert f"{STAGES[n]} is next" in state or n in (0, 3), "the notes say where the task stands"
    assert task.stands == ("Complete", "Complete", "None")
    assert {path: task.world.files[path] for path in before} == before, "nothing else below harness/ was touched"
    assert {path for path in task.world.files if path.startswith("harness/")} - before.keys() == {
        *(RUN_STATE, REPORT, *ARTIFACTS.values())
    }


@pytest.mark.req("HN-01", "HN-15", "HN-20", "HN-29", "HN-27")
def test_with_agents_that_write_nothing_it_halts_at_specification() -> None:
    """What they say does not count; the engine made run-state and report itself, and no artifact."""
    task = Task()
    lie = said("I have created harness/artifacts/TASK-001/specification.md; it has all sections. Status: done")
    task.acts("po-spec", lie, lie)
    view = task.run()
    assert (task.code(view), task.called) == (5, ["po-spec"] * 2)
    assert task.stands == ("Blocked", "Specification", f"{SPEC}: missing: it was not written in this stage")
    assert task.rows == [("Specification", "Failed")] and f"Specification: {SPEC}: missing" in task.text(REPORT)
    assert not any(path.startswith("harness/artifacts") for path in task.world.files)
    first = task.stood[0][1]
    for line in (
        f"- Task ID: {ID}",
        f"- Task File: harness/tasks/{ID}.md",
        "- Current Status: Active",
        "- Current Stage: Specification",
        f"- Current Run ID: RUN-2026-01-01-{ID}-SPEC",
        "## Completed Stages\n\n- None",
        "Initialised by orchestration",
        f"- QA: {QA}",
        "- Require Approval Before Build: Yes",
    ):
        assert line in first, line


@pytest.mark.req("HN-12", "HN-53", "HN-54", "HN-26", "AGENT-03")
def test_a_brief_has_the_inputs_of_the_contract_and_no_others() -> None:
    task = Task()
    task.run()
    file = f"harness/tasks/{ID}.md"
    inputs = ([file], [file, SPEC], [file, SPEC, DESIGN], [file, SPEC, DESIGN, PLAN], [file, SPEC, PLAN, BUILD])
    for ask, wanted in zip(task.cast.asks, inputs, strict=True):
        listed = ask.brief.partition("## Inputs\n")[2].partition("\n## ")[0]
        assert re.findall(r"`([^`]+)`", listed) == wanted
        assert "Do not look further" in ask.brief and '"status": "blocked"' in ask.brief
        assert not re.search(r"explore|what they name|look around|whole repository", ask.brief)
        assert f"`{ARTIFACTS[ask.role.name]}` is written anew" in ask.brief
    brief = task.briefs("qa")[0]
    assert "AC1: A name is greeted." in brief and "Validation Result: Passed" in brief and "`build.txt`" in brief
    assert "`make test`, run by interlock on this very tree: green, mended" in brief


@pytest.mark.req("HN-04")
@pytest.mark.parametrize("agent", ORDER)
def test_who_cannot_be_dispatched_is_not_replaced(agent: str) -> None:
    task = Task()
    task.acts(agent, Act({}, Exit(finished=False, started=False, stderr="no such program")))
    view = task.run()
    stage = STAGES[ORDER.index(agent)]
    why = f"Stage {stage}: agent {agent} cannot be dispatched: no such program"
    assert (task.code(view), task.stands) == (5, ("Blocked", stage, why))
    assert task.called == ORDER[: ORDER.index(agent) + 1]
    assert task.go_on().status is Status.COMPLETE


# --- artifacts


HEADINGS = ("## Requirements", "## Acceptance Criteria", "## Steps", "## Changes", "## Verification")
GOOD = "# Specification\n\n## Requirements\n\n- one\n\n## Acceptance Criteria\n\n- AC1\n"
FLAWED = {
    "empty": (b" \n", "empty"),
    "malformed": (b"# Spec\n\n## Requirements\n", "malformed: ## Acceptance Criteria missing"),
    "without a title": (GOOD.encode().partition(b"\n")[2], "malformed: a title missing"),
    "a heading in code": (b"# S\n\n```\n## Requirements\n## Acceptance Criteria\n```\n", "malformed: ## Requirements"),
    "unreadable": (b"# S\xff\n", "unreadable"),
}


@pytest.mark.req("HN-16", "HN-19", "HN-20")
@pytest.mark.parametrize("flaw", FLAWED)
@pytest.mark.parametrize("again", [True, False])
def test_an_artifact_that_fails_is_repaired_once(flaw: str, again: bool) -> None:
    """By the same agent, who is told path and class; failing again, both documents say why."""
    content, why = FLAWED[flaw]
    task = Task()
    task.acts("po-spec", said("done", {SPEC: content}), said("done", {SPEC: content if again else GOOD.encode()}))
    view = task.run()
    assert f"{SPEC}: {why}" in task.briefs("po-spec")[1]
    assert task.called[:2] == ["po-spec"] * 2
    if again:
        assert task.code(view) == 5 and task.stands[:2] == ("Blocked", "Specification")
        assert task.stands[2].startswith(f"{SPEC}: {why}") and f"Specification: {SPEC}: {why}" in task.text(REPORT)
        assert task.called == ["po-spec"] * 2
    else:
        assert view.status is Status.COMPLETE


@pytest.mark.req("HN-16", "HN-68")
def test_what_lay_there_before_is_not_this_stages_artifact() -> None:
    task = Task(files={SPEC: GOOD})
    task.acts("po-spec", said("it is there"), said("it is there"))
    task.run()
    assert task.stands == ("Blocked", "Specification", f"{SPEC}: missing: it was not written in this stage")


@pytest.mark.req("HN-98")
def test_the_worst_thing_about_a_stage_is_said_first() -> None:
    """Every combination; an error counts although the artifact is good."""
    good: dict[str, Any] = {"governed": [], "strays": [], "conflicts": [], "status": "done", "trouble": "", "flaw": ""}
    bad: list[tuple[str, Any, Came, int]] = [
        ("governed", ["harness/x"], Came.BLOCKED, 3),
        ("strays", ["src/x"], Came.BLOCKED, 3),
        ("conflicts", ["lib.py"], Came.BLOCKED, 3),
        ("status", "blocked", Came.BLOCKED, 3),
        ("status", "error", Came.FAILED, 3),
        ("trouble", "did not finish", Came.FAILED, 5),
        ("flaw", "x: empty", Came.FAILED, 5),
    ]
    for bits in range(1 << len(bad)):
        wrong = [one for n, one in enumerate(bad) if bits >> n & 1]
        came, exit_, why = counts(Stage.BUILD, reason="no time", **{**good, **dict(one[:2] for one in wrong[::-1])})
        assert (came, exit_, bool(why)) == ((*wrong[0][2:], True) if wrong else (Came.COMPLETED, 0, False))
        assert not wrong or (wrong[0][1] if isinstance(wrong[0][1], list) else [why])[0] in why
    task = Task()
    task.acts("po-spec", said({"status": "error", "reason": "no time"}, {SPEC: GOOD.encode()}))
    assert task.code(task.run()) == 3
    assert task.stands[2] == "Stage Specification: agent po-spec failed: no time"


@pytest.mark.req("HN-97", "HN-109", "HN-116")
@pytest.mark.parametrize(
    ("act", "exit", "why"),
    [
        (said({"status": "error", "reason": "broken"}), 3, "Stage Design: agent feature-design failed: broken"),
        (said({"status": "blocked", "reason": "no spec"}), 3, "Stage Design: agent feature-design is blocked: no spec"),
        (Act({}, Exit(finished=False, timed_out=True)), 5, "Stage Design: agent feature-design did not finish:"),
        (Act({}, Exit(finished=False, exit=-9)), 5, "Stage Design: agent feature-design did not finish:"),
    ],
)
def test_a_stop_is_recorded_and_a_person_resumes_the_stage(act: Act, exit: int, why: str) -> None:
    """Nothing is repeated by itself; without a person's word it stays Blocked; then the same stage is done again."""
    task = Task()
    task.acts("feature-design", act)
    view = task.run()
    assert (task.code(view), task.called) == (exit, ["po-spec", "feature-design"])
    assert task.stands[:2] == ("Blocked", "Design") and task.stands[2].startswith(why)
    assert f"Design: {why}" in task.text(REPORT) and f"Blocked: {why}" in task.text(RUN_STATE)
    assert view.ended is not None and view.ended.next == "interlock resume harness-1 --note TEXT"
    documents = task.text(RUN_STATE), task.text(REPORT)
    again = task.run()
    assert (task.code(again), task.called[2:]) == (3, []) and (task.text(RUN_STATE), task.text(REPORT)) == documents
    done = task.go_on("use the old one")
    assert done.status is Status.COMPLETE and task.called[2:] == ORDER[1:]
    assert "use the old one" in task.briefs("feature-design")[1]


# --- governance, scope, conflicts


OUTSIDE = [("build", glob.replace("**", "x.md")) for glob in GOVERNED]
OUTSIDE += [
    ("build", PLAN),
    ("po-spec", "lib.py"),
    ("po-spec", RUN_STATE),
    ("tech-lead", SPEC),
    ("qa", "harness/runs/x"),
]


@pytest.mark.req("HN-05", "HN-09", "HN-97", "TREE-08")
@pytest.mark.parametrize(("agent", "path"), OUTSIDE)
def test_what_lies_outside_of_its_scope_is_not_brought_in_and_blocks_the_task(agent: str, path: str) -> None:
    """Nobody but the engine writes what is governed."""
    text = (qa().files[QA] or b"").decode() if agent == "qa" else "".join(f"# x\n{title}\n" for title in HEADINGS)
    left = {
        ARTIFACTS[agent]: text.encode(),
        path: b"mine\n",
        **({"a.py": b"worked on by\n"} if agent == "build" else {}),
    }
    task = Task()
    task.acts(agent, said("done", left), said("done", {**left, ARTIFACTS[agent]: f"{text}\nagain\n".encode()}))
    view = task.run()
    stage = STAGES[ORDER.index(agent)]
    assert (task.code(view), task.stands) == (3, ("Blocked", stage, f"Scope violation by {agent}: {path}"))
    assert task.text(path) != "mine\n"


@pytest.mark.req("HN-97", "TREE-04")
def test_a_conflict_with_a_person_blocks_the_stage_and_theirs_stands() -> None:
    task = Task()
    task.acts("build", built(path="lib.py", text=b"worked on by build\n"))
    task.cast.moments["called stage-5/Build"] = [lambda: task.writes("lib.py", "theirs\n")]
    view = task.run()
    why = "Stage Build: a person changed the same lines meanwhile: lib.py"
    assert (task.code(view), task.stands, task.text("lib.py")) == (3, ("Blocked", "Build", why), "theirs\n")
    assert task.go_on().status is Status.COMPLETE


@pytest.mark.req("HN-98")
def test_a_conflict_about_the_qa_artifact_is_said_after_what_is_governed() -> None:
    task = Task()
    task.acts("qa", said("done", {**qa().files, FILE: b"mine\n"}))
    task.cast.moments["called stage-6/QA"] = [lambda: task.writes(QA, "theirs\n")]
    task.run()
    assert task.stands == ("Blocked", "QA", f"Scope violation by qa: {FILE}")


@pytest.mark.req("HN-14", "HN-12", "RUN-08")
@pytest.mark.parametrize(("stage", "called"), [("Design", 1), ("QA", 4)])
def test_a_required_input_that_is_missing_stops_the_run(stage: str, called: int) -> None:
    """Nobody is called; supplied, the stage goes on, and nothing is paid for twice."""
    wants = (
        Task().text(CONTRACTS).replace(f"stage: {stage}\nrequired: [", f"stage: {stage}\nrequired: [path:docs/a.md, ")
    )
    task = Task(files={CONTRACTS: wants})
    assert task.code(task.run()) == 3
    why = f"Input contract of {stage} not satisfiable: docs/a.md missing"
    assert task.stands == ("Blocked", stage, why) and why in task.text(REPORT) and task.called == ORDER[:called]
    task.writes("docs/a.md", "here\n")
    assert task.go_on().status is Status.COMPLETE
    assert task.called == ORDER and "`docs/a.md`" in task.briefs(ORDER[called])[0]


# --- the documents on disk


@pytest.mark.req("HN-18", "HN-37")
@pytest.mark.parametrize(
    ("path", "times", "ends"), [(RUN_STATE, 1, 0), (REPORT, 1, 0), (RUN_STATE, 9, 5), (REPORT, 9, 5)]
)
def test_a_write_that_did_not_hold_is_repeated_once(path: str, times: int, ends: int) -> None:
    task = Task()
    write, lost = task.world.write, [times]

    async def writes(name: str, content: bytes) -> None:
        if name == path and lost[0]:
            lost[0] -= 1
            return
        await write(name, content)

    task.world.write = writes  # type: ignore[method-assign]
    if not ends:
        assert task.run().status is Status.COMPLETE
        return
    with pytest.raises(Exception, match=f"{path}: missing: it does not hold what was written"):
        task.run()
    assert task.called == [] and task.last.view.status is Status.FAILED, "no stage before both are there"


WORDS = "Initialization verification failed — required artifacts missing"


@pytest.mark.req("HN-40", "HN-41", "HN-42")
@pytest.mark.parametrize("gone", [RUN_STATE, REPORT])
@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_document_that_is_gone_halts_it_before_the_next_call(gone: str, how: str) -> None:
    """Looked at before each call, and never made again by this run; what can be written says so."""
    task = Task()
    task.acts("feature-design", said({"status": "blocked", "reason": "?"}))
    task.run()
    task.world.files[gone] = b"\n"
    if how == "deleted":
        del task.world.files[gone]
    view = task.go_on()
    assert (task.code(view), view.why, task.called) == (5, WORDS, ["po-spec", "feature-design"])
    answers = [facts for name, facts in view.notes if name == "checkpoint"]
    assert answers == [{RUN_STATE: "YES", REPORT: "YES"}, {RUN_STATE: "YES", REPORT: "YES", gone: "NO"}]
    assert not task.text(gone).strip(), "it was not made again"
    assert WORDS in task.text(REPORT if gone == RUN_STATE else RUN_STATE)
    assert task.run(note="go on").status is Status.COMPLETE


@pytest.mark.req("HN-40", "HN-41")
@pytest.mark.parametrize("gone", [RUN_STATE, REPORT])
def test_a_document_that_goes_within_a_stage_halts_it_before_the_next_call(gone: str) -> None:
    """Before a repair; and when a run goes on that died before its call."""
    task = Task()
    task.acts("po-spec", said("done"))
    task.cast.moments["called stage-1/Specification"] = [lambda: task.world.files.pop(gone)]
    view = task.run()
    assert (task.code(view), view.why, task.called) == (5, WORDS, ["po-spec"])
    usual = Task()
    usual.run()
    task = Task()
    task.dies_at = next(n for n, line in enumerate(usual.lines) if line.event.e == "call")
    with pytest.raises(Died):
        task.run()
    task.dies_at = 0
    del task.world.files[gone]
    view = task.go_on()
    assert (task.code(view), view.why, task.called) == (5, WORDS, [])


@pytest.mark.req("HN-27", "HN-39", "RUN-08")
def test_an_existing_run_state_is_gone_on_from_in_another_clone() -> None:
    """At a gate, too; what a person wrote beside the engine's lines stays."""
    task = Task()
    task.cast.decisions = [LATER, APPROVE, APPROVE]
    assert task.run().status is Status.WAITING
    task.edit(RUN_STATE, "# Run State\n", "# Run State\n\nAnn looks after this.\n")
    task.edit(RUN_STATE, "## Notes\n", "## Notes\n\n- remember the umlauts\n")
    task.edit(REPORT, "## Stops\n", "## Stops\n\nSee the wiki.\n")
    assert task.cloned().status is Status.COMPLETE
    assert task.called == ORDER
    assert "Ann looks after this." in task.text(RUN_STATE) and "remember the umlauts" in task.text(RUN_STATE)
    assert "See the wiki." in task.text(REPORT)


@pytest.mark.req("HN-89", "PERSON-04")
@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("Current Stage: Design", "Current Stage: QA", "Current Stage"),
        (f"Task ID: {ID}", "Task ID: TASK-002", "Task ID"),
        ("- Specification\n", "- None\n", "Completed Stages"),
        ("Remediation Count: 0", "Remediation Count: 2", "Remediation Count"),
        ("Stop Reason: None", "Stop Reason: mine", "Stop Reason"),
        (f"- QA: {QA}", "- QA: other.md", "Artifact Paths"),
    ],
)
def test_a_position_that_a_person_changes_under_way_stops_it(old: str, new: str, name: str) -> None:
    """Both documents are left alone; the approval settings and remarks are theirs to change."""
    task, stood = Task(), list[tuple[str, str]]()

    def edits() -> None:
        task.edit(RUN_STATE, old, new)
        stood.append((task.text(RUN_STATE), task.text(REPORT)))

    task.cast.moments["called stage-2/Design"] = [edits]
    view = task.run()
    assert task.code(view) == 3 and RUN_STATE in view.why and name in view.why, view.why
    assert stood == [(task.text(RUN_STATE), task.text(REPORT))]
    assert task.called == ["po-spec", "feature-design"]


@pytest.mark.req("HN-89", "PERSON-04")
def test_the_next_run_starts_where_a_person_has_put_the_task() -> None:
    task = Task()
    task.acts("feature-design", said({"status": "blocked", "reason": "?"}))
    task.run()
    task.edit(RUN_STATE, "- Specification\n\n## Artifact", "- None\n\n## Artifact")
    task.edit(RUN_STATE, "Current Stage: Design", "Current Stage: Specification")
    task.edit(RUN_STATE, "Current Status: Blocked", "Current Status: Active")
    assert task.run().status is Status.COMPLETE
    assert task.called[2:] == ORDER


# --- bounds and people


@pytest.mark.req("HN-66", "HN-88")
@pytest.mark.parametrize("stage", STAGES[:5])
def test_a_bounded_test_stops_after_its_stage_and_a_gate_comes_first(stage: str) -> None:
    task = Task()
    task.cast.decisions = [LATER]
    view = task.run(until=stage)
    n = STAGES.index(stage)
    assert task.code(view) == 4
    if stage in ("Specification", "Design"):
        assert task.called == ORDER[: n + 1]
        assert task.stands == ("Active", STAGES[n + 1], f"Bounded orchestration test: stopped after {stage}")
        assert f"stopped after {stage}" in task.text(REPORT)
    else:
        assert task.stands == ("Awaiting Approval", "Build", "Approval required before Build")
    task.cast.decisions = [APPROVE] * 2
    assert task.go_on().status in (Status.COMPLETE, Status.STOPPED)
    assert task.run().status is Status.COMPLETE and task.called == ORDER


@pytest.mark.req("HN-07", "HN-08", "HN-88", "HN-94", "HN-97")
def test_both_gates_wait_for_a_person_and_record_who_decided() -> None:
    task = Task()
    task.cast.decisions = [LATER]
    view = task.run()
    assert (task.code(view), task.called) == (4, ORDER[:3])
    assert task.stands == ("Awaiting Approval", "Build", "Approval required before Build")
    assert task.state.run_id == f"RUN-2026-01-01-{ID}-BUILD" and "Approval required before Build" in task.text(REPORT)
    assert view.gate is not None and [*view.gate.shown] == [PLAN]
    documents = task.text(RUN_STATE), task.text(REPORT)
    assert task.code(task.go_on()) == 4 and (task.text(RUN_STATE), task.text(REPORT)) == documents
    task.says("approve")
    view = task.go_on()
    assert (task.code(view), task.called) == (4, ORDER)
    assert task.stands == ("Awaiting Approval", "Awaiting Approval", "Approval required before Complete")
    assert task.state.run_id == f"RUN-2026-01-01-{ID}-APPROVAL" and "build.txt" not in task.world.files
    assert view.gate is not None and "build.txt" in view.gate.summary
    assert re.fullmatch(r"Build: ann 2026-01-01T\S+Z", task.state.approvals[0])
    task.says("approve")
    assert task.go_on().status is Status.COMPLETE and "build.txt" in task.world.files
    assert [one for one in task.rows if one[1] == "Approved"] == [
        ("Build", "Approved"),
        ("Awaiting Approval", "Approved"),
    ]


@pytest.mark.req("HN-93", "HN-08", "HN-94", "HN-80")
def test_the_settings_of_run_state_decide() -> None:
    """Autonomous asks nobody, which is recorded. Changed later, the task file says nothing, and run-state does."""
    task = Task(AUTONOMOUS)
    task.cast.decisions = []
    assert task.run().status is Status.COMPLETE
    assert [one for one in task.rows if one[1] == "Not required"] == [
        ("Build", "Not required"),
        ("Awaiting Approval", "Not required"),
    ]
    task = Task()
    task.cast.decisions = [LATER]
    task.run(until="Design")
    task.writes(f"harness/tasks/{ID}.md", AUTONOMOUS)
    assert task.code(task.run()) == 4
    task.edit(RUN_STATE, "Require Approval Before Build: Yes", "Require Approval Before Build: No")
    task.cast.decisions = [LATER]
    view = task.cloned()
    assert (task.called, view.gate is not None and view.gate.gate) == (ORDER, "complete")
    assert ("Build", "Not required") in task.rows


@pytest.mark.req("RUN-16", "HN-08", "HN-93")
def test_an_approval_that_is_switched_off_while_it_is_waited_for_is_not_asked_for() -> None:
    """By a resume; and by another run, in which the gate does not open."""
    task = Task()
    task.cast.decisions = [LATER]
    task.run()
    task.edit(RUN_STATE, "Require Approval Before Build: Yes", "Require Approval Before Build: No")
    task.cast.decisions = [LATER]
    view = task.go_on()
    assert (task.called, view.gate is not None and view.gate.gate) == (ORDER, "complete")
    task.edit(RUN_STATE, "Require Approval Before Complete: Yes", "Require Approval Before Complete: No")
    again = copy.deepcopy(task.world.files)
    assert task.go_on().status is Status.COMPLETE
    gates = [("Build", "Not required"), ("Awaiting Approval", "Not required")]
    assert [one for one in task.rows if one[1] == "Not required"] == gates
    task.world.files.clear()
    task.world.files.update(again)
    assert task.run().status is Status.COMPLETE
    assert [one for one in task.rows if one[1] == "Not required"] == gates


@pytest.mark.req("HN-115", "PERSON-02", "PERSON-03")
def test_a_rejection_is_revised_with_the_persons_words() -> None:
    """At the gate before Build the plan; before Complete the code, and QA may return it once more."""
    task = Task()
    task.cast.decisions = [reject("smaller steps"), APPROVE, reject("use the name"), APPROVE]
    task.acts("qa", qa(1), bad(2), qa(3))
    assert task.run().status is Status.COMPLETE
    assert task.called == [*ORDER[:3], "tech-lead", "build", "qa", "build", "qa", "build", "qa"]
    assert "smaller steps" in task.briefs("tech-lead")[1] and "use the name" in task.briefs("build")[1]
    assert f"`{QA}`" in task.briefs("build")[1]
    assert [one for one in task.rows if one[1] == "Rejected"] == [
        ("Build", "Rejected"),
        ("Awaiting Approval", "Rejected"),
    ]
    task = Task()
    task.cast.decisions = [APPROVE, reject()]
    task.acts("qa", qa(1), bad(2), bad(3))
    assert task.code(task.run()) == 3 and task.stands == ("Blocked", "QA", LIMIT)


@pytest.mark.req("HN-115")
@pytest.mark.parametrize(("gate", "stage"), [(0, "Build"), (1, "Awaiting Approval")])
def test_the_sixth_rejection_blocks(gate: int, stage: str) -> None:
    task = Task()
    task.cast.decisions = [APPROVE] * gate + [reject("no")] * 6
    view = task.run()
    assert (task.code(view), task.stands) == (3, ("Blocked", stage, "Approval rejected: no"))
    assert [one for one in task.rows if one[1] == "Rejected"] == [(stage, "Rejected")] * 6
    task.cast.decisions = [APPROVE] * 2
    assert task.go_on("now it is right").status is Status.COMPLETE


@pytest.mark.req("HN-116")
def test_a_person_goes_back_behind_a_gate_and_its_approval_is_taken_back() -> None:
    task = Task()
    task.acts("qa", bad(1), bad(2), bad(3))
    task.run()
    assert task.stands == ("Blocked", "QA", LIMIT)
    task.cast.decisions = [LATER]
    assert task.code(task.go_on("think again", from_="Design")) == 4
    assert task.state.approvals == () and task.state.remediations == 0
    assert [*task.state.completed] == STAGES[:3] and task.called[-2:] == ["feature-design", "tech-lead"]
    assert "think again" in task.briefs("feature-design")[-1]
    task.cast.decisions = [APPROVE] * 2
    assert task.go_on().status is Status.COMPLETE


def _raised(view: Any) -> None:
    """What stopped a run that had begun is told as it would have been before."""
    raise BadInput(view.why)


@pytest.mark.req("HN-02")
@pytest.mark.parametrize("stage", ["Design", "QA"])
@pytest.mark.parametrize("good", [True, False])
def test_a_stage_is_left_out_on_a_persons_request_alone(stage: str, good: bool) -> None:
    """Their artifact is checked like any other, and the report says whose it is."""
    path, text = ARTIFACTS[ORDER[STAGES.index(stage)]], "# D\n\n## Overview\n\n## Decisions\n"
    text = (qa().files[QA] or b"").decode() if stage == "QA" else text
    task = Task(files={path: text if good else "# nothing\n"})
    view = task.run(fallback=stage)
    agent = AGENTS[next(one for one in AGENTS if one == stage)]
    assert agent not in task.called
    if good:
        assert view.status is Status.COMPLETE and f"{path}: verified, supplied by a person" in task.text(REPORT)
        assert "| a person (fallback) | Completed |" in task.text(REPORT)
    else:
        assert task.code(view) == 5 and task.stands[2].startswith(f"{path}: malformed")


@pytest.mark.req("HN-02", "HN-68")
def test_a_persons_report_that_was_judged_before_is_stale() -> None:
    task = Task()
    task.cast.decisions = [APPROVE, reject()]
    task.acts("build", None, said({"status": "blocked", "reason": "?"}))
    task.run()
    task.go_on(fallback="QA")
    assert task.stands == ("Blocked", "QA", f"{QA}: malformed: it is the one that was judged before")


# --- commands, QA and the way back


@pytest.mark.req("HN-74", "HN-75", "HN-76", "HN-79")
@pytest.mark.parametrize("bads", [0, 1, 2, 3])
def test_qa_returns_the_task_at_most_twice(bads: int) -> None:
    """Build gets the QA artifact; over restarts too; the third negative one blocks where it is."""
    task = Task()
    task.acts("qa", *(bad(n) for n in range(bads)), *([qa(9)] if bads < 3 else []))
    view = task.run()
    rounds = min(bads, 2) + 1
    assert task.called == [*ORDER[:3], *["build", "qa"] * rounds]
    for brief in task.briefs("build")[1:]:
        assert f"`{QA}`" in brief and "The task came back to you" in brief
    returned = [state for agent, state, _ in task.stood if agent == "build"][1:]
    for n, text in enumerate(returned, 1):
        state = read_state(text)
        assert (state.status, state.stage, state.stop, state.remediations) == ("Active", "Build", "None", n)
        assert state.run_id.endswith(f"-BUILD-R{n}") and "returned the task to Build" in text
        assert [*state.completed] == STAGES[:4]
    report = task.text(REPORT)
    for word in ("QA result: Issues Found, Back to Build", "reason: it greets nobody", "criterion not met: AC1"):
        assert (word in report) is (bads > 0)
    assert (task.code(view), task.stands) == (
        (3, ("Blocked", "QA", LIMIT)) if bads == 3 else (0, ("Complete", "Complete", "None"))
    )


@pytest.mark.req("HN-76")
def test_remediations_are_counted_over_clones() -> None:
    task = Task()
    task.acts("qa", bad(1), said({"status": "error", "reason": "?"}))
    task.run()
    assert task.state.remediations == 1
    task.acts("qa", bad(3), bad(4))
    assert task.code(task.run(note="go on")) == 3
    assert task.stands == ("Blocked", "QA", LIMIT) and task.called.count("build") == 3


def without(old: str, new: str = "", n: int = 1) -> Act:
    """QA's artifact with one thing otherwise."""
    text = (qa(n).files[QA] or b"").decode()
    assert old in text
    return said("", {QA: text.replace(old, new).encode()})


@pytest.mark.req("HN-69", "HN-72", "EVID-03")
@pytest.mark.parametrize(
    ("first", "second", "calls", "returned"),
    [
        (qa(1), None, 1, False),
        (qa(1, result="Issues Found"), None, 1, True),
        (qa(1, ready="Back to Build"), None, 1, True),
        (qa(1, issues="- it crashes"), qa(2, issues="- it crashes"), 2, True),
        (qa(1, issues="- it crashes"), qa(2), 2, False),
        (qa(1, box=" "), qa(2, box=" "), 2, True),
        (without("- [x] AC2: seen\n"), without("- [x] AC2: seen\n", n=2), 2, True),
        (without("- [x] AC2: seen\n"), qa(2), 2, False),
        (without("exit 0", "exit 1"), without("exit 0", "exit 1", 2), 2, True),
        (without("make test", "make lie"), without("make test", "make lie", 2), 2, True),
    ],
)
def test_one_thing_against_it_is_enough(first: Act, second: Act | None, calls: int, returned: bool) -> None:
    """Whatever the rest says; a contradiction is asked about once."""
    task = Task()
    task.cast.commands["make lie"] = [RED]
    task.acts("qa", *([first] if second is None else [first, second]), qa(9))
    assert task.run().status is Status.COMPLETE
    assert task.called == [*ORDER[:4], *["qa"] * calls, *(["build", "qa"] if returned else [])]


@pytest.mark.req("HN-114", "EVID-05", "EVID-06")
def test_commands_decide_before_qa_is_paid() -> None:
    """Red after Build: Build is called again with the output, counted; run at the start, too."""
    task = Task()
    task.cast.commands["make test"] = lambda files: GREEN if b"worked on by 2" in files.get("greet.py", b"") else RED
    task.acts("build", built(1), built(2))
    assert task.run().status is Status.COMPLETE
    assert task.called == [*ORDER[:4], "build", "qa"] and task.state.remediations == 1
    assert "1 failed" in task.briefs("build")[1] and "`make test` is still red" in task.briefs("build")[1]
    assert ("QA", "Returned to Build") in task.rows and "`make test`: mended" in task.text(REPORT)
    task = Task()
    task.cast.commands["make test"] = [RED]
    assert (task.code(task.run()), task.called.count("build"), task.called.count("qa")) == (3, 3, 0)
    assert task.stands == ("Blocked", "QA", LIMIT)


@pytest.mark.req("HN-114", "HN-80")
@pytest.mark.parametrize("red", [True, False])
def test_before_complete_commands_run_again_if_the_tree_changed(red: bool) -> None:
    """Red with the work and not without: blocked, and nothing is delivered."""
    task = Task()
    task.cast.decisions = [APPROVE, LATER]
    task.run()
    ran = len(task.cast.ran)
    task.writes("more.py", "by a person\n")
    task.cast.commands["make test"] = lambda files: RED if red and {"more.py", "build.txt"} <= {*files} else GREEN
    task.cast.decisions = [APPROVE]
    view = task.go_on()
    assert len(task.cast.ran) > ran and ("build.txt" in task.world.files) is not red
    assert task.code(view) == (3 if red else 0)
    assert task.stands[:2] == (("Blocked", "Awaiting Approval") if red else ("Complete", "Complete"))
    assert task.stands[2].startswith("Red before Complete: `make test` is broken" if red else "None")


@pytest.mark.req("EVID-08")
@pytest.mark.parametrize(("so", "ends"), [(["true"], 0), ([], 3), (["make red"], 3)])
def test_a_build_that_changes_nothing_has_to_show_that_it_is_so_already(so: list[str], ends: int) -> None:
    task = Task()
    task.cast.commands |= {"true": [GREEN], "make red": [RED], "make test": [GREEN]}
    task.acts("build", *(built(n, path="", status="done", already_so=so) for n in (1, 2, 3)))
    view = task.run()
    assert task.code(view) == ends
    assert ("qa" in task.called) is (ends == 0)
    if ends:  # no remediation: QA has judged nothing
        assert task.stands[:2] == ("Blocked", "Build") and task.called.count("build") == 1
        assert task.stands[2].startswith("Stage Build: ") and task.state.remediations == 0


@pytest.mark.req("HN-80", "TREE-04", "TREE-14")
def test_a_conflict_at_the_delivery_goes_back_to_build() -> None:
    """Counted like a negative QA; the person's version stands."""
    task = Task()
    task.acts(
        "build", built(1, path="lib.py", text=b"worked on by 1\n"), built(2, path="lib.py", text=b"worked on by 2\n")
    )
    task.cast.decisions = [APPROVE, LATER]
    task.run()
    task.writes("lib.py", "theirs\n")
    task.cast.decisions = [APPROVE] * 2
    task.says("approve")
    assert task.go_on().status is Status.COMPLETE
    assert task.state.remediations == 1 and ("Awaiting Approval", "Returned to Build") in task.rows
    assert "lib.py" in task.briefs("build")[1]


@pytest.mark.req("HN-117", "RUN-08")
@pytest.mark.parametrize("where", ["QA", "the gate"])
def test_without_the_runs_trees_build_makes_its_work_again(where: str) -> None:
    """Another clone has the artifacts and not the code; the approval before Build holds, nothing is counted."""
    task = Task()
    task.cast.decisions = [APPROVE, LATER]
    if where == "QA":
        task.acts("qa", said({"status": "error", "reason": "?"}))
    task.run()
    task.cast.decisions = [APPROVE]
    view = task.cloned(note="here")
    assert view.status is Status.COMPLETE and task.state.remediations == 0
    assert task.called[-2:] == ["build", "qa"] and task.called.count("tech-lead") == 1
    assert any("not here: Build makes it again" in text for text in view.warnings)
    assert (("QA" if where == "QA" else "Awaiting Approval"), "Returned to Build") in task.rows


@pytest.mark.req("TREE-14", "RUN-08")
def test_a_new_run_of_the_task_takes_over_what_is_pending() -> None:
    task = Task()
    task.acts("qa", said({"status": "error", "reason": "?"}))
    task.run()
    assert task.run(note="go on").status is Status.COMPLETE
    assert task.called.count("build") == 1 and "build.txt" in task.world.files


# --- the start


@pytest.mark.req("HN-23", "RUN-11")
def test_all_that_is_missing_is_named_at_once() -> None:
    task = Task()
    for path in REQUIRED:
        del task.world.files[path]
    del task.world.files[f"harness/tasks/{ID}.md"]
    with pytest.raises(BadInput) as error:
        task.run()
    told = [one.what for one in (error.value, *error.value.also)]
    assert {*told} == {
        *(f"Missing required file: {path}" for path in REQUIRED),
        f"Task file not found: harness/tasks/{ID}.md",
    }
    assert "interlock init harness" in str(error.value.remedy)


FILE, CONTRACTS = f"harness/tasks/{ID}.md", "harness/standards/stage-input-contracts.md"


def edit(path: str, old: str, new: str = "") -> Callable[[Task], Any]:
    return lambda task: task.edit(path, old, new)


def paths(*lines: str) -> Callable[[Task], Any]:
    return lambda task: task.writes(FILE, "\n".join([TASK, "## Artifact Paths", *lines, ""]))


BAD: dict[str, tuple[Callable[[Task], Any], str]] = {
    "no task": (lambda task: "", "No task to run: name a task or provide harness/run-state.md"),
    "no task file": (lambda task: "TASK-012", "Task file not found: harness/tasks/TASK-012.md"),
    "metadata": (edit(FILE, f"- Task ID: {ID}\n"), f"{FILE}: required metadata missing: Task ID"),
    "no objective": (edit(FILE, "Greet the person whose name is given."), "required metadata missing: Objective"),
    "ID": (edit(FILE, ID, "TASK-12"), "Task ID TASK-12 does not match file TASK-001.md"),
    "setting": (
        edit(FILE, f"ID: {ID}", f"ID: {ID}\n- Require Approval Before Build: maybe"),
        'Require Approval Before Build: "maybe"; expected Yes or No',
    ),
    "mode": (edit(FILE, f"ID: {ID}", f"ID: {ID}\n- Workflow Mode: fast"), 'Workflow Mode: "fast"; expected standard'),
    "leads out": (paths("- Design: ../x.md"), "Artifact path for Design leaves the repository: ../x.md"),
    "equal": (paths("- Design: a.md", "- Build: a.md"), "Artifact paths for Design and Build are the same: a.md"),
    "governed": (paths("- QA: harness/runs/a.md"), "Artifact path for QA is governed: harness/runs/a.md"),
    "no contract": (edit(CONTRACTS, "stage: QA", "stages: QA"), f"No input contract for stage QA in {CONTRACTS}"),
}
BAD_STATE: dict[str, tuple[Callable[[Task], Any], str]] = {
    "no field": (
        edit(RUN_STATE, "- Current Stage: Design\n"),
        f"{RUN_STATE}: malformed: field Current Stage not found",
    ),
    "stage": (
        edit(RUN_STATE, "Stage: Design", "Stage: Testing"),
        'Current Stage "Testing" is invalid; expected one of Specification, Design, Implementation Planning, Build',
    ),
    "status": (
        edit(RUN_STATE, "Status: Active", "Status: Done"),
        'Current Status "Done" is invalid; expected Active, Awaiting Approval, Blocked, Complete',
    ),
    "order": (
        edit(RUN_STATE, "- Specification\n", "- Specification\n- Build\n"),
        "Completed Stages [Specification, Build] is not a prefix of the lifecycle",
    ),
    "ambiguous": (
        edit(RUN_STATE, "Stage: Design", "Stage: QA"),
        "Current Stage QA does not follow Completed Stages [Specification]",
    ),
    "complete": (
        edit(RUN_STATE, "Status: Active", "Status: Complete"),
        "Current Status Complete does not fit Current Stage Design",
    ),
    "paths": (edit(RUN_STATE, f"- QA: {QA}", "- QA: b.md"), "Artifact Paths of QA is b.md"),
    "task file": (edit(RUN_STATE, FILE, "harness/tasks/T.md"), "is not that of the task"),
}


@pytest.mark.req("HN-110", "HN-45", "HN-53", "HN-97", "RUN-11")
@pytest.mark.parametrize("name", [*BAD, *BAD_STATE])
def test_what_cannot_be_orchestrated_is_said_and_nothing_is_written(name: str) -> None:
    task, (change, why) = Task(), {**BAD, **BAD_STATE}[name]
    if name in BAD_STATE:
        task.run(until="Specification")
    asked = change(task)
    before, called = dict(task.world.files), len(task.called)
    with pytest.raises(BadInput) as error:
        task.run(task=ID if asked is None else asked)
    assert why in "\n".join(one.what for one in (error.value, *error.value.also))
    assert (task.world.files, len(task.called)) == (before, called)


@pytest.mark.req("HN-97", "HN-45")
def test_a_task_that_becomes_unclear_under_way_is_blocked() -> None:
    task = Task()
    task.cast.moments["called stage-1/Spec"] = [
        lambda: task.writes(f"harness/tasks/{ID}.md", f"# T\n- Task ID: {ID}\n")
    ]
    view = task.run()
    assert task.code(view) == 3 and task.stands[:2] == ("Blocked", "Design")
    assert "required metadata missing: Objective, Acceptance Criteria" in task.stands[2]
    task.writes(f"harness/tasks/{ID}.md", TASK)
    assert task.go_on().status is Status.COMPLETE


@pytest.mark.req("HN-93")
def test_criteria_may_be_added_at_a_gate() -> None:
    task = Task()
    task.cast.decisions = [LATER]
    task.run()
    task.edit(f"harness/tasks/{ID}.md", "world.\n", "world.\n- Two names are greeted.\n")
    task.says("approve")
    task.cast.decisions = [APPROVE]
    task.go_on()
    assert "AC3: Two names are greeted." in task.briefs("qa")[0]


OTHER = TASK.replace(ID, "TASK-002")


@pytest.mark.req("HN-39", "HN-110", "RUN-17")
def test_another_live_task_is_a_conflict_unless_it_is_put_by() -> None:
    """5.3: parked and complete run-states lie in `harness/runs/`; run again, a parked task is taken up where it was."""
    task = Task(files={"harness/tasks/TASK-002.md": OTHER})
    task.run(until="Design")
    with pytest.raises(BadInput, match=re.escape("run-state is for TASK-001 (Active); requested TASK-002")):
        task.run(task="TASK-002")
    assert task.run(task="TASK-002", park=True).status is Status.COMPLETE
    assert read_state(task.text(f"harness/runs/{ID}-run-state.md")).stage == "Implementation Planning"
    assert task.run().status is Status.COMPLETE
    assert task.called == [*ORDER[:2], *ORDER, *ORDER[2:]]
    assert read_state(task.text("harness/runs/TASK-002-run-state.md")).status == "Complete"
    assert f"harness/runs/{ID}-run-state.md" not in task.world.files
    again = task.run()
    assert (task.code(again), again.why, len(task.called)) == (0, "TASK-001 is Complete", 10)


@pytest.mark.req("HN-116", "HN-110", "HN-66")
def test_nobody_is_sent_forward() -> None:
    task = Task()
    task.run(until="Specification")
    with pytest.raises(BadInput, match="--until Specification: TASK-001 is at Design"):
        task.run(until="Specification")
    with pytest.raises(BadInput, match="--from Build: TASK-001 is at Design"):
        _raised(task.run(from_="Build"))


@pytest.mark.req("HN-110")
def test_approval_settings_against_the_state_are_escalated() -> None:
    """5.5: Build, active, approval required, none recorded."""
    task = Task()
    task.cast.decisions = [LATER]
    task.run()
    task.edit(RUN_STATE, "Status: Awaiting Approval", "Status: Active")
    with pytest.raises(BadInput, match="Current Stage Build is Active, but Require Approval Before Build is Yes"):
        task.cloned()
