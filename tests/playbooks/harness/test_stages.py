"""Stages: who is called with what, what counts as done, and what a failure leaves behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.documents import Document, DocumentState
from interlock.engine import Status
from interlock.errors import EngineFault, WorkspaceFailed
from interlock.playbooks.harness import HarnessInputs, example_files
from interlock.playbooks.harness.ledger import MISSING, Ledger
from interlock.playbooks.harness.run_report import Log
from interlock.playbooks.harness.stages import LIFECYCLE
from interlock.playbooks.harness.standards import CONTRACTS
from interlock.playbooks.harness.task_file import GOVERNED, is_governed
from interlock.testing import Act, best
from tests.playbooks.harness.conftest import (
    ARTIFACTS,
    CODE,
    NEGATIVE,
    QA_REPORT,
    REPORT,
    RUN_STATE,
    TASK,
    TASK_FILE,
    Bench,
    agents,
    also,
    instead,
    person,
    qa,
    writing,
)

SILENT = instead(files={})
WORKING = [stage.name for stage in LIFECYCLE.working]
NAMES = [stage.agent for stage in LIFECYCLE.working]
STAGE_OF = dict(zip(NAMES, WORKING, strict=True))


def under(agent: str) -> str:
    """An agent's name as `agents` takes it."""
    return agent.replace("-", "_")


# -- the whole way


@pytest.mark.req(
    "HN-04", "HN-44", "HN-46", "HN-47", "HN-48", "HN-49", "HN-50", "HN-51", "HN-59", "HN-60", "HN-62", "HN-64", "HN-80"
)
def test_a_task_goes_through_all_stages_by_itself(bench: Bench) -> None:
    """Each stage by its own agent, in order, without a person where none is asked for; every stage recorded once."""
    close = bench.autonomous().play(attended=False)
    assert close.status is Status.COMPLETE
    assert bench.called == ["po-spec", "feature-design", "tech-lead", "build", "qa"]
    assert [request.step for request in bench.simulation.world.calls] == WORKING
    assert bench.state.completed == LIFECYCLE.names[:6]
    assert (bench.state.stage, bench.state.status) == ("Complete", "Complete")
    assert bench.history == [
        *((stage, "Completed") for stage in WORKING),
        ("Awaiting Approval", "Not required"),
    ]
    assert [row[0].rsplit("-", 1)[1] for row in bench.rows(Log.HISTORY)] == [
        *("SPEC", "DESIGN", "PLAN", "BUILD", "QA", "APPROVAL")
    ]
    assert bench.state.run_id == "RUN-2026-01-04-TASK-001-COMPLETE"


@pytest.mark.req("HN-59", "HN-60", "HN-61", "HN-63", "HN-89", "HN-90")
def test_run_state_is_true_whenever_an_agent_works(bench: Bench) -> None:
    """Stage, run id, completed stages and notes are up to date on disk when each agent is called."""
    seen = []

    def agent(request: Any) -> Act:
        state = bench.state
        seen.append(state.stage)
        assert state.stage == request.step
        assert state.status == "Active"
        assert state.run_id == f"RUN-2026-01-04-{TASK}-{LIFECYCLE[state.stage].suffix}"
        assert state.completed == LIFECYCLE.names[: LIFECYCLE.names.index(state.stage)]
        assert state.notes == (
            f"{state.stage} is with its agent, {request.agent}. Current position: {state.stage} (Active)."
        )
        assert state.stop_reason == ""
        assert bench.report.fields["Current Stage"] == state.stage
        return best(request)

    bench.play(agent)
    assert seen == WORKING
    assert "- None" not in bench.text(RUN_STATE).split("## Artifact Paths")[0]


@pytest.mark.req("HN-01", "HN-15", "HN-17", "HN-22", "HN-67", "HN-100")
@pytest.mark.parametrize(
    "message", ["I have written the file.", "The specification will contain ...", "Status: completed", ""]
)
def test_a_claim_is_not_an_artifact(bench: Bench, message: str) -> None:
    """An agent that says it is done and wrote nothing moves nothing; the controller writes no artifact in its place."""
    close = bench.play(lambda _request: Act(message=message))
    assert close.status is Status.FAILED
    assert bench.called == ["po-spec", "po-spec"]
    assert bench.blocked() == f"{ARTIFACTS}/spec.md: missing"
    assert (bench.state.stage, bench.state.completed) == ("Specification", ())
    assert not [path for path in bench.tree if path.startswith(ARTIFACTS)]
    assert bench.history == [("Specification", "Failed")]


@pytest.mark.req("HN-03", "HN-09", "HN-10", "HN-11")
def test_the_engine_writes_its_two_documents_and_nothing_else(bench: Bench) -> None:
    """All writes of a whole run go to run-state and to the run report; what governs it keeps its bytes."""
    bench.play()
    written = {line.data["path"] for line in bench.lines if line.event == "write.intent"}
    assert written == {RUN_STATE, REPORT}
    for path, text in example_files().items():
        assert bench.text(path) == text
    assert {path for path in bench.tree if path not in bench.files} == {
        *(RUN_STATE, REPORT, CODE),
        *(f"{ARTIFACTS}/{name}.md" for name in ("spec", "design", "plan", "build-report", "qa-report")),
    }


@pytest.mark.req("HN-09")
@pytest.mark.parametrize("path", ["harness/standards/task-lifecycle.md", "src/x.py", TASK_FILE, "harness/runs"])
def test_the_writer_refuses_every_other_target(path: str) -> None:
    """A path that is not the controller's raises before anything is written."""
    ledger = Ledger(None, None, None)  # type: ignore[arg-type]
    with pytest.raises(EngineFault, match="not the controller's to write"):
        asyncio.run(ledger._write(path, "x", "", lambda _document: True))


@pytest.mark.req("HN-112")
def test_equal_inputs_give_equal_documents(bench: Bench) -> None:
    """Two runs on the same files with the same agents leave the same bytes."""
    bench.play(agents(qa=writing(NEGATIVE, qa())))
    first = bench.tree
    bench.play(agents(qa=writing(NEGATIVE, qa())))
    assert bench.tree == first


@pytest.mark.req("HN-113")
@pytest.mark.parametrize(
    ("agent", "mode", "results"),
    [
        (best, "standard", ["stage.next", "stage.next", "stage.approval"]),
        (agents(feature_design=SILENT), "standard", ["stage.next", "stage.blocked"]),
        (best, "autonomous", ["stage.next"] * 5 + ["stage.complete"]),
    ],
)
def test_each_stage_ends_in_one_of_four_ways(bench: Bench, agent: Any, mode: str, results: list[str]) -> None:
    """Next stage, blocked, approval stop or completion: one event each time control comes back."""
    bench.set(TASK_FILE, "standard", mode)
    bench.play(agent, attended=False)
    assert [line.event for line in bench.lines if line.event.startswith("stage.")] == results


# -- the brief


@pytest.mark.req("HN-12", "HN-54", "HN-55", "HN-56")
def test_a_brief_lists_what_the_contract_names_and_nothing_else(bench: Bench) -> None:
    """Allowed inputs are those of the contract; the agent is told to escalate what is missing; no text of others."""
    marked = agents(**{under(name): marking for name in NAMES})
    bench.files["docs/secret.md"] = "do not tell"
    bench.play(marked)
    wanted = {
        "po-spec": [TASK_FILE],
        "feature-design": [TASK_FILE, f"{ARTIFACTS}/spec.md"],
        "tech-lead": [TASK_FILE, f"{ARTIFACTS}/spec.md", f"{ARTIFACTS}/design.md"],
        "build": [TASK_FILE, f"{ARTIFACTS}/spec.md", f"{ARTIFACTS}/design.md", f"{ARTIFACTS}/plan.md"],
        "qa": [TASK_FILE, f"{ARTIFACTS}/spec.md", f"{ARTIFACTS}/plan.md", f"{ARTIFACTS}/build-report.md"],
    }
    for request in bench.simulation.world.calls:
        brief = request.brief
        for title, level in (("### Allowed inputs", "###"), ("## Inputs", "##")):
            part = brief.split(f"{title}\n", 1)[1].split(f"\n{level} ", 1)[0]
            assert re.findall(r"^- `(.*)`$", part, re.MULTILINE) == wanted[request.agent]
        assert "### When an input is missing" in brief
        assert "Status: blocked" in brief
        assert "MARK" not in brief
        assert "secret" not in brief
        assert "## Context\n\nNone." in brief


def marking(_request: Any, act: Act) -> Act:
    return replace(act, files={path: f"{text}\nMARK\n" for path, text in act.files.items()})


def test_optional_inputs_are_listed_when_they_exist(bench: Bench) -> None:
    """A document that the contract allows is named where the workspace has it."""
    bench.files["docs/architecture.md"] = "# Architecture\n"
    bench.play()
    briefs = {request.agent: request.brief for request in bench.simulation.world.calls}
    assert "- `docs/architecture.md`" in briefs["feature-design"]
    assert "docs/architecture.md" not in briefs["tech-lead"]


@pytest.mark.req("HN-53")
def test_the_contract_is_loaded_for_each_dispatch(bench: Bench) -> None:
    """One event per stage with its digest; a contract that changes in between counts from then on."""

    def change(_request: Any, act: Act) -> Act:
        return replace(act, people={CONTRACTS: bench.text(CONTRACTS).replace("## Overview", "## Sketch")})

    bench.play(agents(po_spec=change))
    loaded = bench.events("contract.loaded")
    assert [event["stage"] for event in loaded] == WORKING
    assert len({event["digest"] for event in loaded}) == 2
    assert "## Sketch" in bench.text(f"{ARTIFACTS}/design.md")


@pytest.mark.req("HN-57", "HN-106")
def test_a_stage_without_a_contract_stops_the_run(bench: Bench) -> None:
    """Found at the stage that needs it: Blocked, with the reason in both documents; found at the start: exit 2."""
    close = bench.play(agents(build=person(bench, CONTRACTS, "```yaml\nstage: QA\n", "```text\nstage: QA\n")))
    assert close.exit_code == 3
    assert bench.blocked() == f"No input contract for stage QA in {CONTRACTS}"
    assert bench.state.stage == "QA"
    assert "qa" not in bench.called
    bench.files = dict(bench.tree)
    bench.set(RUN_STATE, "Current Status: Blocked", "Current Status: Active")
    assert bench.refuse().what == f"No input contract for stage QA in {CONTRACTS}"


@pytest.mark.req("HN-14", "HN-106", "HN-12")
def test_a_missing_input_is_an_error_and_no_reason_to_search(bench: Bench) -> None:
    """A required input that is not there any more stops the run before its agent is called."""
    bench.set(CONTRACTS, 'required: [task_file, "artifact:Specification"]', 'required: [task_file, "path:docs/a.md"]')
    bench.files["docs/a.md"] = "An overview.\n"
    close = bench.play(agents(po_spec=lambda _request, act: replace(act, people={"docs/a.md": None})))
    assert close.exit_code == 3
    assert bench.blocked() == "Input contract of Design not satisfiable: docs/a.md missing"
    assert bench.called == ["po-spec"]
    assert bench.state.stage == "Design"


# -- artifacts


@pytest.mark.req("HN-16", "HN-18", "HN-58")
def test_artifacts_and_own_documents_are_opened_after_they_were_written(bench: Bench) -> None:
    """The four answers stand in an event for each artifact, and in one for each write of the engine."""
    bench.play()
    checks = bench.events("artifact.check")
    assert [check["path"] for check in checks] == list(bench.state.artifacts.values())
    verified = bench.events("write.verified")
    writes = [line for line in bench.lines if line.event == "write"]
    assert [event["path"] for event in verified] == [line.data["out"]["path"] for line in writes]
    for event in (*checks, *verified):
        assert [event[name] for name in ("exists", "readable", "non_empty", "structured")] == [True] * 4


@pytest.mark.req("HN-20", "HN-58")
@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize("broken", ["", "no title\n"])
def test_one_repair_by_the_same_agent(bench: Bench, agent: str, broken: str) -> None:
    """A first artifact that does not count is repaired once, with the exact complaint; then the stage is done."""
    good: list[str] = []

    def change(request: Any, act: Act) -> Act:
        good.append(request.brief)
        return act if len(good) > 1 else replace(act, files={request.contract.artifacts[0].path: broken})

    assert bench.play(agents(**{under(agent): change})).exit_code == 0
    assert len(good) == 2
    complaint = "empty" if not broken else "malformed"
    assert "## Failure context" in good[1]
    assert f".md: {complaint}" in good[1]
    repairs = [line.data for line in bench.lines if line.event == "dispatch.try"]
    assert [repair["move"] for repair in repairs] == ["repair"]


@pytest.mark.req("HN-17", "HN-19", "HN-20", "HN-21", "HN-101", "HN-108")
@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize(
    ("change", "cls"),
    [
        (SILENT, "missing"),
        (writing(" \n"), "empty"),
        (writing("text\n"), "malformed"),
        (writing(b"\xff"), "unreadable"),  # type: ignore[arg-type]
    ],
)
def test_failing_twice_halts_the_run_where_it_is(
    bench: Bench, agent: str, change: Callable[[Any, Act], Act], cls: str
) -> None:
    """Path and class stand in both documents; the stage does not advance; exit 5."""
    close = bench.play(agents(**{under(agent): change}))
    stage = STAGE_OF[agent]
    assert close.exit_code == 5
    assert bench.called.count(agent) == 2
    reason = bench.blocked()
    assert reason.startswith(f"{bench.state.artifacts[stage]}: {cls}")
    assert bench.state.stage == stage
    assert stage not in bench.state.completed
    assert bench.history[-1] == (stage, "Failed")
    assert bench.rows(Log.EVIDENCE)[-1][2:] == ("Artifact check", reason)
    assert close.reason == reason


def test_an_artifact_that_was_there_before_must_be_rewritten(bench: Bench) -> None:
    """A file of an earlier run does not count: stale, repaired once, then the run halts."""
    bench.files[f"{ARTIFACTS}/spec.md"] = best_spec()
    assert bench.play(agents(po_spec=SILENT)).exit_code == 5
    assert bench.blocked().startswith(f"{ARTIFACTS}/spec.md: stale")
    bench.files[f"{ARTIFACTS}/spec.md"] = best_spec()
    assert bench.play().exit_code == 0


def best_spec() -> str:
    return "# T\n\n## Requirements\n\n- R1\n\n## Acceptance Criteria\n\n- AC1\n"


# -- failures of agents


@pytest.mark.req("HN-13", "HN-52", "HN-86", "HN-99")
@pytest.mark.parametrize("agent", NAMES)
def test_an_agent_that_cannot_be_dispatched(bench: Bench, agent: str) -> None:
    """A clean, recorded stop: Blocked, stage unchanged, exit 5; nobody else is called in its place."""
    close = bench.play(agents(**{under(agent): instead(spawn_error="no such program")}))
    stage = STAGE_OF[agent]
    assert close.exit_code == 5
    assert bench.blocked() == f"Stage {stage}: agent {agent} cannot be dispatched: no such program"
    assert bench.state.stage == stage
    assert bench.called == NAMES[: NAMES.index(agent) + 1]
    assert bench.history[-1] == (stage, "Failed")


@pytest.mark.req("HN-87", "HN-98")
@pytest.mark.parametrize(
    ("act", "exit_code", "reason"),
    [
        (
            {"message": "The plan is not possible.\n\nStatus: error"},
            3,
            "Stage Design: agent feature-design failed: The plan is not possible.",
        ),
        (
            {"message": '```json\n{"status": "failed", "summary": "no disk"}\n```'},
            3,
            "Stage Design: agent feature-design failed: ",
        ),
        (
            {"message": "The specification contradicts itself.\nStatus: blocked"},
            3,
            "Stage Design: agent feature-design is blocked: The specification contradicts itself.",
        ),
        ({"code": 1, "message": "Traceback"}, 5, "Stage Design: agent feature-design did not finish: ended with exit"),
        ({"code": 1, "message": "Status: completed"}, 3, "Stage Design: agent feature-design failed: "),
        ({"seconds": 1e6}, 5, "Stage Design: agent feature-design did not finish: the time limit passed"),
    ],
)
def test_a_stage_that_fails_or_blocks(bench: Bench, act: dict[str, Any], exit_code: int, reason: str) -> None:
    """The blocking condition is in run-state, the stop in the report; the agent is not asked again (EN-41)."""
    close = bench.play(agents(feature_design=instead(**{"files": {}, **act})))
    assert close.exit_code == exit_code
    assert bench.blocked().startswith(reason)
    assert bench.state.stage == "Design"
    assert bench.called == ["po-spec", "feature-design"]


def test_an_error_counts_although_the_artifact_is_good(bench: Bench) -> None:
    """An agent's word is enough for a failure, never for success."""
    assert bench.play(agents(po_spec=instead(message="Status: error"))).exit_code == 3
    assert "failed" in bench.blocked()


@pytest.mark.req("EN-42")
def test_a_verified_artifact_is_the_verdict(bench: Bench) -> None:
    """Exit 0 and a file that passes its checks are enough; the message may say anything or nothing."""
    assert bench.play(agents(po_spec=instead(message=""), qa=instead(message="Fine, I think."))).exit_code == 0


# -- scopes


@pytest.mark.req("HN-05", "HN-10")
@pytest.mark.parametrize(
    "path",
    [
        RUN_STATE,
        REPORT,
        "harness/runs/new.md",
        "harness/standards/task-lifecycle.md",
        "harness/templates/run-state-template.md",
        "harness/roles/build.md",
        TASK_FILE,
        ".github/agents/build.agent.md",
    ],
)
@pytest.mark.parametrize("agent", ["build", "qa"])
def test_governance_is_not_an_agents_to_change(bench: Bench, agent: str, path: str) -> None:
    """A change of workflow state or governance is not taken over, is named, and stops the run, whoever made it."""
    before = bench.files.get(path)
    close = bench.play(agents(**{under(agent): also(path)}))
    assert close.exit_code == 3
    assert bench.blocked() == f"Scope violation by {agent}: {path}"
    assert bench.rows(Log.EVIDENCE)[-1][2] == "Scope"
    if path in (RUN_STATE, REPORT):
        assert bench.state.task_id == TASK
    else:
        assert bench.tree.get(path) == (str(before).encode() if before is not None else None)


def test_what_governs_is_what_the_specification_lists() -> None:
    """The list of what stays out and blocks covers every path of HN-05 and HN-10."""
    for path in (
        RUN_STATE,
        REPORT,
        "harness/standards/x",
        "harness/templates/x",
        "harness/roles/x",
        ".github/agents/x",
    ):
        assert is_governed(path)
    assert len(GOVERNED) == 7
    assert not is_governed(f"{ARTIFACTS}/spec.md")


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [
        ("build", "src/x.py", True),
        ("build", "tests/deep/test_x.py", True),
        ("build", f"{ARTIFACTS}/plan.md", False),
        ("build", "harness/artifacts/TASK-002/plan.md", False),
        ("build", "harness/other.md", False),
        ("po-spec", "src/x.py", False),
        ("feature-design", f"{ARTIFACTS}/spec.md", False),
    ],
)
def test_agents_write_what_their_contract_allows(bench: Bench, agent: str, path: str, allowed: bool) -> None:
    """Build changes the source tree and, below harness, its report alone; all others their artifact alone."""
    bench.files.setdefault("src/x.py", "old\n")
    close = bench.play(agents(**{under(agent): also(path)}))
    if allowed:
        assert close.exit_code == 0
        assert bench.tree[path] == b"mine\n"
    else:
        assert close.exit_code == 3
        assert bench.blocked() == f"Scope violation by {agent}: {path}"
        assert bench.tree.get(path) != b"mine\n"
        assert bench.called[-1] == agent
        assert bench.called.count(agent) == 1


@pytest.mark.req("EV-08")
def test_by_products_of_qa_are_dropped_and_it_judges_again_without_them(bench: Bench) -> None:
    """QA may run real builds: what they leave stays in its layer, and a verdict with it there does not count."""

    def untidy(request: Any, act: Act) -> Act:
        return act if "judge again" in request.brief else also("build/output.bin")(request, act)

    assert bench.play(agents(qa=untidy)).exit_code == 0
    assert bench.called.count("qa") == 2
    assert "build/output.bin" not in bench.tree
    assert [event["paths"] for event in bench.events("scope.cleaned")] == [["build/output.bin"]]


# -- the checkpoint


@pytest.mark.req("HN-40", "HN-42")
def test_both_questions_are_answered_before_every_dispatch(bench: Bench) -> None:
    """One checkpoint right before each dispatch, answered from the disk."""
    bench.play()
    events = [line.event for line in bench.lines]
    starts = [number for number, event in enumerate(events) if event == "dispatch.start"]
    assert [events[number - 1] for number in starts] == ["checkpoint"] * 5
    assert {(c["run_state"], c["run_report"]) for c in bench.events("checkpoint")} == {("YES", "YES")}


class Vanishing:
    """The documents of a simulated world, in which a file cannot be seen from a certain moment on."""

    def __init__(self, bench: Bench, path: str, state: DocumentState, agent: str) -> None:
        self.documents = bench.simulation.world.documents
        self._read = self.documents.read
        self._path, self._state, self._bench, self._agent = path, state, bench, agent
        self.documents.read = self.read

    def read(self, path: str) -> Document:
        if path == self._path and self._agent in self._bench.called:
            return Document(path, self._state, problem="permission denied")
        return self._read(path)


@pytest.mark.req("HN-41", "HN-42", "HN-43")
@pytest.mark.parametrize("state", [DocumentState.MISSING, DocumentState.UNREADABLE])
@pytest.mark.parametrize("path", [RUN_STATE, REPORT])
def test_a_document_that_vanished_halts_the_run(bench: Bench, path: str, state: DocumentState) -> None:
    """Removed, or not to be determined: no agent is called, the message is exact, exit 5, and nothing is made up."""
    simulation = bench.simulate()
    Vanishing(bench, path, state, "po-spec")
    close = simulation.go()
    assert close.exit_code == 5
    assert close.reason == MISSING == "Initialization verification failed \u2014 required artifacts missing"
    assert bench.called == ["po-spec"]
    if path == REPORT:
        assert bench.state.status == "Blocked"
        assert bench.state.stop_reason == MISSING


@pytest.mark.req("HN-41")
def test_a_checkpoint_that_says_no_is_recorded(bench: Bench) -> None:
    """The file goes between the last write and the dispatch: the answer is NO, and the run halts there."""
    simulation = bench.simulate()
    tree = simulation.world.tree
    real = simulation.world.documents.read

    def read(path: str) -> Document:
        if path == CONTRACTS and "po-spec" in bench.called:
            tree.put(REPORT, None)
        return real(path)

    simulation.world.documents.read = read
    close = simulation.go()
    assert (close.exit_code, close.reason) == (5, MISSING)
    assert bench.events("checkpoint")[-1]["run_report"] == "NO"
    assert bench.called == ["po-spec"]
    assert REPORT not in bench.tree


def test_a_report_that_was_changed_meanwhile_blocks(bench: Bench) -> None:
    """History that somebody rewrote while the run worked is not written over."""
    close = bench.play(agents(feature_design=person(bench, REPORT, "po-spec", "somebody")))
    assert close.exit_code == 5
    assert bench.state.status == "Blocked"
    assert "entry 1 of Stage History was changed" in bench.state.stop_reason


def test_an_edit_of_run_state_meanwhile_is_never_overwritten(bench: Bench) -> None:
    """Compare-and-set: what a person wrote stays, and the next run starts from it."""
    close = bench.play(agents(feature_design=person(bench, RUN_STATE, "Remediation Count: 0", "Remediation Count: 2")))
    assert close.exit_code == 3
    assert "was edited while the run worked" in close.reason
    assert bench.state.remediations == 2
    assert bench.report.fields["Current Stage"] == "Design"
    assert bench.again().exit_code == 0


# -- writes that fail


class Forgetful:
    """A disk that loses the first writes to a path."""

    def __init__(self, bench: Bench, path: str, times: int) -> None:
        documents = bench.simulation.world.documents
        self._write, self._path, self.left = documents.write, path, times
        self._tree = bench.simulation.world.tree
        documents.write = self.write

    def write(self, path: str, content: Any, *, expect: str | None = None) -> Any:
        written = self._write(path, content, expect=expect)
        if path == self._path and self.left:
            self.left -= 1
            self._tree.put(path, b"")
        return written


@pytest.mark.req("HN-18", "HN-38")
@pytest.mark.parametrize("path", [RUN_STATE, REPORT])
def test_a_write_that_is_lost_is_repaired_once(bench: Bench, path: str) -> None:
    """The file is opened again, found empty, written once more, and the run goes on."""
    simulation = bench.simulate()
    Forgetful(bench, path, 1)
    assert simulation.go().exit_code == 0
    assert [event["path"] for event in bench.events("repair")] == [path]


@pytest.mark.req("HN-18", "HN-38")
@pytest.mark.parametrize("path", [RUN_STATE, REPORT])
def test_initialisation_that_cannot_be_verified_halts(bench: Bench, path: str) -> None:
    """Lost twice: exit 5, Specification is not invoked."""
    simulation = bench.simulate()
    Forgetful(bench, path, 2)
    with pytest.raises(WorkspaceFailed) as caught:
        simulation.go()
    assert caught.value.what == f"{path}: empty"
    assert caught.value.exit_code == 5
    assert bench.called == []


# -- a person in the place of an agent


@pytest.mark.req("HN-02")
def test_a_person_may_supply_an_artifact(bench: Bench) -> None:
    """Nobody is dispatched for that stage; the file passes the same checks; the report says fallback, and who."""
    bench.files[f"{ARTIFACTS}/design.md"] = "# D\n\n## Overview\n\nx\n\n## Decisions\n\ny\n"
    close = bench.play(inputs=HarnessInputs(TASK, "Design", "ann"))
    assert close.exit_code == 0
    assert "feature-design" not in bench.called
    assert bench.rows(Log.HISTORY)[1][2:4] == ("fallback: ann", "Completed")
    assert ("fallback", "Design supplied by fallback: ann") in [row[2:] for row in bench.rows(Log.EVIDENCE)]
    assert bench.events("fallback")[0]["by"] == "ann"


@pytest.mark.req("HN-02")
@pytest.mark.parametrize(("text", "cls"), [(None, "missing"), ("", "empty"), ("# D\n", "malformed")])
def test_what_a_person_supplies_is_checked_like_anything_else(bench: Bench, text: str | None, cls: str) -> None:
    """A file that does not count stops the run for the person; the next resume looks at it again."""
    if text is not None:
        bench.files[f"{ARTIFACTS}/design.md"] = text
    assert bench.play(inputs=HarnessInputs(TASK, "Design", "ann")).exit_code == 3
    assert bench.blocked().startswith(f"{ARTIFACTS}/design.md: {cls}")
    bench.simulation.world.tree.put(f"{ARTIFACTS}/design.md", b"# D\n\n## Overview\n\n## Decisions\n")
    assert bench.resume().exit_code == 0
    assert "feature-design" not in bench.called


def test_a_supplied_qa_is_not_judged_twice(bench: Bench) -> None:
    """After a return to Build the person has to supply another QA artifact; the old one is stale."""
    bench.files[QA_REPORT] = NEGATIVE
    close = bench.play(inputs=HarnessInputs(TASK, "QA", "ann"))
    assert close.exit_code == 3
    assert bench.blocked() == f"{QA_REPORT}: stale: it is the one that was judged before"
    assert bench.state.remediations == 1
    assert bench.called.count("build") == 2
