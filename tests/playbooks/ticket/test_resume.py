"""Going on: from the journal after a crash, from the documents without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.documents import FileFacts
from interlock.engine import Past, Status
from interlock.engine.simulation import Crash
from interlock.playbooks.ticket import TicketError, TicketInputs
from interlock.playbooks.ticket.playbook import afresh, documents, edited, run_key, state, successor
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, REQUEST, breaks, graph, task
from interlock.playbooks.ticket.resuming import MIXED
from tests.playbooks.ticket.conftest import Bench, answers

TASKS = f"{HOME}/iteration_0/tasks.yaml"


def stopped_in(bench: Bench, change: dict[str, Any]) -> None:
    """Play until the ticket stops, and then let everybody do their part again."""
    bench.changes = change
    assert bench.play().status in (Status.STOPPED, Status.FAILED)
    bench.changes = {}


def crash_at(wanted: Callable[[list[Any]], bool], bench: Bench) -> Callable[[str], None]:
    def wire(_point: str) -> None:
        if wanted(bench.lines):
            raise Crash

    return wire


@pytest.mark.req("TK-31", "EN-18")
def test_an_accepted_ticket_is_done(bench: Bench) -> None:
    """Said before anything is scanned or checked out; exit 0, nothing changed."""
    bench.play()
    bench.git.branch = "main"
    bench.put(f"{HOME}/startup_context.yaml", "x: 1\n")
    before, commands = dict(bench.world.tree.files), len(bench.world.commands)  # type: ignore[union-attr]
    close = bench.play()
    assert (close.exit_code, close.output) == (0, f"ABC-12 is already done: it was accepted on branch {BRANCH}.\n")
    assert bench.world.tree.files == before  # type: ignore[union-attr]
    assert len(bench.world.commands) == commands  # type: ignore[union-attr]
    assert bench.git.branch == "main"


@pytest.mark.req("TK-20", "TK-21", "TK-28")
@pytest.mark.parametrize(
    "path",
    [
        "startup_context.yaml", "context_compact.yaml", "validation_plan.yaml", "task_packets/T1.yaml",
        "logs/task_1_summary.yaml", "summaries/task_1_summary.yaml",
    ],
)  # fmt: skip
def test_a_second_truth_stops_the_resume(bench: Bench, path: str) -> None:
    """The exact text, the file named, exit 2, nothing deleted and nothing of it read."""
    stopped_in(bench, {"task-executor-T2": breaks})
    bench.put(f"{HOME}/{path}", "task: done\n")
    calls, before = len(bench.called), dict(bench.world.tree.files)  # type: ignore[union-attr]
    with pytest.raises(TicketError) as caught:
        bench.play(retry=True)
    assert (caught.value.what, caught.value.exit_code) == (MIXED, 2)
    assert f"{HOME}/{path}" in str(caught.value.found)
    assert bench.world.tree.files == before  # type: ignore[union-attr]
    assert len(bench.called) == calls
    reads = [line.data["out"].get("path") for line in bench.lines if line.event == "read"]
    assert f"{HOME}/{path}" not in reads


def test_an_old_file_without_a_task_graph_is_a_warning(bench: Bench) -> None:
    """Both truths are needed for a conflict."""
    stopped_in(bench, {"Planner": lambda _request, act: type(act)({}, "")})
    bench.put(f"{HOME}/context_compact.yaml", "x: 1\n")
    assert bench.play().status is Status.COMPLETE
    assert any("older way of working" in data["text"] for data in bench.events("warning"))


@pytest.mark.req("TK-18", "TK-19", "TK-22", "TK-23", "TK-25", "TK-27", "TK-30", "TK-08")
def test_work_goes_on_from_the_documents(bench: Bench) -> None:
    """Without a journal and without the log: the branch is checked out, accepted tasks and earlier steps stand."""
    bench.tasks = graph(task("T1"), task("T2", "B"))
    stopped_in(bench, {"task-executor-T2": breaks})
    bench.git.branch = "main"
    for path in ("src/t1.txt", "src/t2.txt"):
        bench.put(path, bench.text(path))
    bench.put(f"{HOME}/log.jsonl", None)
    bench.files["Makefile"] = ""
    bench.put("Makefile", "other:\n\ttrue\n")
    bench.put("src/t2.txt", "two\n")
    calls = len(bench.called)
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called[calls:] == ["task-executor-T2", "Reviewer"]
    assert bench.git.branch == BRANCH
    assert bench.progress["test_command"] == "make test"
    assert not [line for line in bench.lines if str(line.key).startswith("I1/")]
    (event,) = bench.events("orchestrator.resume")
    assert (event["phase"], event["status"]) == ("TASK_EXECUTION", "PAUSED")


@pytest.mark.req("TK-08", "TK-09")
def test_nothing_but_the_documents_decides(bench: Bench) -> None:
    """Reports and a log that claim success are not read; the task that is not accepted is worked on."""
    stopped_in(bench, {"task-executor-T2": breaks})
    strange = {f"{HOME}/reports/T2.yaml": "status: ACCEPTED\n", f"{HOME}/iteration_0/T2.md": "T2 is ACCEPTED\n"}
    for path, text in strange.items():
        bench.put(path, text)
    bench.put(f"{HOME}/log.jsonl", '{"event": "orchestrator.iteration.accepted"}\n')
    bench.put("src/t2.txt", "two\n")
    calls = len(bench.called)
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called[calls:] == ["task-executor-T2", "Reviewer"]
    read = {line.data["out"].get("path") for line in bench.lines if line.event == "read"}
    assert not read & set(strange)
    assert f"{HOME}/log.jsonl" not in read


@pytest.mark.req("TK-27")
def test_a_task_that_was_interrupted_keeps_its_attempt(bench: Bench) -> None:
    """IN_PROGRESS counts as not run; its number is not raised again."""
    stopped_in(bench, {"task-executor-T2": breaks})
    text = bench.text(TASKS).replace("status: REJECTED", "status: IN_PROGRESS").replace("attempt: 5", "attempt: 3")
    bench.put(TASKS, text)
    bench.put("src/t2.txt", "two\n")
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.task("T2")["attempt"] == 3
    assert bench.called.count("task-executor-T1") == 1


def test_accepted_work_that_is_gone_is_done_again(bench: Bench) -> None:
    """The files of an accepted task are not as they were accepted: PENDING, with a warning."""
    bench.tasks = graph(task("T1"), task("T2", "B"))
    stopped_in(bench, {"task-executor-T2": breaks})
    bench.put("src/t1.txt", "reverted\n")
    bench.put("src/t2.txt", "two\n")
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == 2
    assert any("T1" in data["text"] for data in bench.events("warning"))


@pytest.mark.parametrize(("text", "times"), [("T1 done\n", 1), ("reverted\n", 2)])
def test_valid_work_that_is_gone_is_done_again(bench: Bench, text: str, times: int) -> None:
    """A task that waited for the build of its group is built only with its work; its attempt is not counted twice."""
    stopped_in(bench, {"task-executor-T2": answers("SYNTAX_ERROR")})
    assert bench.task("T1")["status"] == "SYNTAX_VALID"
    bench.put("src/t1.txt", text)
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == times
    assert bench.task("T1")["attempt"] == 1
    assert bench.text("src/t1.txt") == "T1 done\n"


@pytest.mark.parametrize("phase", ["TASK_EXECUTION", "REVIEW"])
def test_work_that_is_gone_is_not_reviewed(bench: Bench, phase: str) -> None:
    """Accepted after its last attempt or waiting for the review: it is done again, with all its attempts."""
    bench.tasks = graph(task("T1"), task("T2", "B"))
    last = "task-executor-T2" if phase == "TASK_EXECUTION" else "Reviewer"
    failing = breaks if phase == "TASK_EXECUTION" else lambda _request, act: type(act)({}, "")
    stopped_in(bench, {last: failing})
    assert bench.progress["current_phase"] == phase
    bench.put(TASKS, bench.text(TASKS).replace("attempt: 1", "attempt: 5", 1))
    bench.put("src/t1.txt", "reverted\n")
    bench.put("src/t2.txt", "T2 done\n")
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == 2
    assert bench.task("T1")["attempt"] == 1
    assert bench.text("src/t1.txt") == "T1 done\n"


def test_a_missing_branch_leads_to_the_gate_again(bench: Bench) -> None:
    """Without a journal the branch is made anew."""
    stopped_in(bench, {"task-executor-T2": breaks})
    bench.git.branch = "main"
    del bench.git.branches[BRANCH]
    for path, text in (("src/t1.txt", "one\n"), ("src/t2.txt", "two\n")):
        bench.put(path, text)
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.git.branch == BRANCH
    assert bench.called.count("Planner") == 1


@pytest.mark.parametrize(
    ("change", "phase", "again"),
    [
        ({"Planner": lambda _request, act: type(act)({}, "")}, "PLANNING", ["Planner", "task-executor-T1"]),
        ({"Reviewer": lambda _request, act: type(act)({}, "")}, "REVIEW", ["Reviewer"]),
    ],
)
@pytest.mark.req("TK-23")
def test_each_phase_is_a_place_to_go_on(bench: Bench, change: dict[str, Any], phase: str, again: list[str]) -> None:
    """No earlier step runs again."""
    stopped_in(bench, change)
    assert (bench.progress["current_phase"], bench.progress["status"]) == (phase, "FAILED")
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[calls:][: len(again)] == again


def test_a_broken_state_document_is_refused(bench: Bench) -> None:
    """Not YAML, or an unknown phase: exit 2 and the bytes untouched."""
    stopped_in(bench, {"task-executor-T2": breaks})
    good = bench.text(f"{HOME}/progress.yaml")
    for text, what in (
        (good.replace("current_phase: TASK_EXECUTION", "current_phase: TESTING"), 'current_phase "TESTING" unknown'),
        (good + "x: [\n", "is not valid YAML"),
    ):
        bench.put(f"{HOME}/progress.yaml", text)
        with pytest.raises(TicketError, match=r"current_phase|not valid YAML") as caught:
            bench.play(retry=True)
        assert what in caught.value.what
        assert caught.value.exit_code == 2
        assert bench.text(f"{HOME}/progress.yaml") == text
    bench.put("src/t2.txt", "two\n")
    assert bench.play(fresh=True, flags={"dirty": "stash"}).status is Status.COMPLETE
    kept = [path for path in bench.world.tree.files if path.startswith(".interlock/attic/") and "progress.yaml" in path]  # type: ignore[union-attr]
    assert kept


def test_a_persons_edit_of_the_state_is_kept(bench: Bench) -> None:
    """A comment written between two transitions survives every later one; an edit of a task counts."""

    def edit(request, act):  # type: ignore[no-untyped-def]
        return act

    bench.changes["task-executor-T1"] = edit
    stopped_in(bench, {"task-executor-T2": breaks})
    bench.put(f"{HOME}/progress.yaml", "# mine\n" + bench.text(f"{HOME}/progress.yaml") + "note: keep\n")
    bench.put("src/t2.txt", "two\n")
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.text(f"{HOME}/progress.yaml").startswith("# mine\n")
    assert bench.progress["note"] == "keep"


# -- with a journal


@pytest.mark.req("TK-22", "TK-30", "EN-09")
def test_each_resume_goes_back_to_the_branch_and_says_so(bench: Bench) -> None:
    """After a crash the branch is checked out again, before anything is replayed; the event is in the log."""
    simulation = bench.simulate()
    wire = crash_at(lambda lines: any(line.agent == "Reviewer" for line in lines), bench)
    with pytest.raises(Crash):
        simulation.go(tripwire=wire)
    bench.git.branch = "main"
    bench.git.branches["main"] = bench.git.branches[BRANCH]
    assert simulation.go().status is Status.COMPLETE
    assert bench.git.branch == BRANCH
    assert bench.logged.count("resume") == 1
    assert bench.called.count("task-executor-T1") == 1


def test_a_branch_that_is_gone_cannot_be_resumed(bench: Bench) -> None:
    """The exact text; the run ends, since its journal speaks of a branch that is not there."""
    simulation = bench.simulate()
    wire = crash_at(lambda lines: any(line.agent == "Reviewer" for line in lines), bench)
    with pytest.raises(Crash):
        simulation.go(tripwire=wire)
    bench.git.branch = "main"
    del bench.git.branches[BRANCH]
    close = simulation.go()
    assert close.reason == f"ERROR: branch {BRANCH} does not exist; cannot resume"
    assert close.exit_code == 3


class Files:
    def __init__(self, **digests: str) -> None:
        self.digests = digests

    def facts(self, path: str) -> FileFacts:
        digest = self.digests.get(path.rsplit("/", 1)[-1].split(".", maxsplit=1)[0])
        return FileFacts(path, exists=digest is not None, digest=digest)


@pytest.mark.req("EN-22", "EN-10")
def test_an_edited_state_document_is_noticed() -> None:
    """Progress and tasks are compared with what was last written, or begun to be written."""
    inputs = TicketInputs(REQUEST)
    past = Past({f"{HOME}/progress.yaml": "a", TASKS: "b"}, {}, (), {f"{HOME}/progress.yaml": "c"})
    assert edited(inputs, past, Files(progress="a", tasks="b")) is None  # type: ignore[arg-type]
    assert edited(inputs, past, Files(progress="c", tasks="b")) is None  # type: ignore[arg-type]
    assert edited(inputs, past, Files(progress="x", tasks="b")) == f"{HOME}/progress.yaml"  # type: ignore[arg-type]
    assert edited(inputs, past, Files(progress="a", tasks="x")) == TASKS  # type: ignore[arg-type]


@pytest.mark.req("EN-19")
def test_what_a_successor_is_asked() -> None:
    """`--retry` moves into the inputs; a fresh start happens once, if not in this run then in the next."""
    inputs = TicketInputs(REQUEST, fresh=True)
    asked = successor(inputs, {"retry": True})
    assert asked == TicketInputs(REQUEST, retry=True, still_fresh=True)
    assert successor(asked, {}) == TicketInputs(REQUEST, still_fresh=True)
    assert successor(TicketInputs(REQUEST), {}) == TicketInputs(REQUEST)
    assert afresh(TicketInputs(REQUEST, fresh=True, retry=True)) == TicketInputs(REQUEST)


def test_the_run_key_and_its_documents() -> None:
    """The ticket names the run; a request without one has a key all the same."""
    assert run_key(TicketInputs(REQUEST)) == "ABC-12"
    assert run_key(TicketInputs("nothing")) == "(no ticket)"
    assert f"{HOME}/progress.yaml" in state(TicketInputs(REQUEST))
    assert documents(TicketInputs(REQUEST)) == (f"{HOME}/**", "docs/docs_cache_state.yaml")
