"""O4.5 in the simulated twin: the work gets its branch, and nothing of the user's is lost."""

from __future__ import annotations

import pytest

from interlock.engine import Status
from interlock.playbooks.ticket.gate import ROUNDS
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, rejects, task
from interlock.testing import SimulatedRepository, Trouble
from interlock.workspace import Unstash
from tests.playbooks.ticket.conftest import Bench, Change, Refusing, nothing


def dirty(bench: Bench, **files: str) -> None:
    """Uncommitted files in the workspace."""
    bench.simulate()
    for path, text in files.items():
        bench.put(path.replace("__", "/").replace("_DOT_", "."), text)


@pytest.mark.req("TK-99", "TK-100", "TK-104", "TK-106")
def test_the_gate_lies_between_the_graph_and_the_first_code(bench: Bench) -> None:
    """Both events, in this place; the branch is made and the state says so."""
    seen: dict[str, object] = {}

    def look(request, act):  # type: ignore[no-untyped-def]
        seen.update(bench.progress, branch_now=bench.git.branch)
        return act

    bench.changes["task-executor-T1"] = look
    bench.play()
    assert (seen["git_gate_completed"], seen["branch_now"]) == (True, BRANCH)
    order = bench.order
    places = [
        order.index("orchestrator.tasks.ready"),
        order.index("orchestrator.git.gate.start"),
        order.index("orchestrator.git.gate.complete"),
        next(number for number, line in enumerate(bench.lines) if line.agent == "task-executor"),
    ]
    assert places == sorted(places)


@pytest.mark.req("TK-102")
def test_documentation_comes_along_by_itself(bench: Bench) -> None:
    """Stashed, branched, taken out again: the change is on the branch, no stash is left, nobody was asked."""
    bench.simulate()
    bench.put("README.md", "new\n")
    bench.put("docs/notes.md", "new\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.world is not None
    effects = [line.data["effect"] for line in bench.lines if line.event == "repository.intent"]
    assert effects[:3] == ["stash", "checkout", "unstash"]
    assert (bench.text("README.md"), bench.text("docs/notes.md")) == ("new\n", "new\n")
    assert bench.git.stashed == []
    assert bench.events("gate.opened") == []


@pytest.mark.req("TK-103")
def test_changed_code_waits_for_a_person(bench: Bench) -> None:
    """The question names the files and the choices; the run is parked with exit 4 and nothing has happened."""
    bench.simulate()
    bench.put("src/mine.txt", "mine\n")
    simulation = bench.simulate()
    close = simulation.go()
    assert close.exit_code == 4
    assert "Working tree has uncommitted code changes: src/mine.txt." in close.reason
    assert "--dirty stash|carry|abort" in close.reason
    assert bench.git.branch == "main"
    assert bench.text("src/mine.txt") == "mine\n"
    simulation.decide("carry")
    assert simulation.go().status is Status.COMPLETE
    assert bench.text("src/mine.txt") == "mine\n"
    assert "src/mine.txt" not in bench.git.files
    assert bench.progress["carried_files"] == ["src/mine.txt"]


class Restless(SimulatedRepository):
    """Each look finds other contents."""

    looks = 0

    def content(self, path: str, most: int | None = None) -> bytes | None:
        self.looks += 1
        return f"{path} {self.looks}".encode()


@pytest.mark.req("EN-29", "EN-30")
def test_a_repository_that_never_keeps_still_stops_the_run(bench: Bench) -> None:
    """Something writes all the time: the gate asks a bounded number of times and changes nothing."""
    bench.git = Restless()
    bench.simulate()
    bench.put("src/mine.txt", "mine\n")
    close = bench.play(flags={"dirty": "stash"})
    assert close.exit_code == 3
    assert f"the repository changed each of the {ROUNDS} times that the git gate asked" in close.reason
    assert (bench.git.branch, bench.git.stashed, bench.text("src/mine.txt")) == ("main", [], "mine\n")
    assert len(bench.events("gate.decided")) == ROUNDS


@pytest.mark.req("TK-103")
@pytest.mark.parametrize("how", ["flag", "setting"])
def test_a_choice_given_beforehand_is_taken(bench: Bench, how: str) -> None:
    """A flag or a setting answers the gate; the decision is recorded all the same; the stash stays, with our mark."""
    bench.simulate()
    bench.put("src/mine.txt", "mine\n")
    given = {"flags": {"dirty": "stash"}} if how == "flag" else {"settings": {"dirty": "stash"}}
    assert bench.play(**given).status is Status.COMPLETE
    assert not bench.has("src/mine.txt")
    (stash,) = bench.git.stashed
    assert stash.files == {"src/mine.txt": b"mine\n"}
    assert stash.message.startswith("interlock ticket-")
    assert "Interlock-Key: ticket-" in stash.message
    (decided,) = bench.events("gate.decided")
    assert (decided["choice"], decided["who"]) == ("stash", "given beforehand")


@pytest.mark.req("TK-105")
def test_an_abort_changes_nothing(bench: Bench) -> None:
    """Exit 3; branch, files and stashes are as they were; the next start comes to the gate again."""
    bench.simulate()
    bench.put("src/mine.txt", "mine\n")
    close = bench.play(flags={"dirty": "abort"})
    assert close.exit_code == 3
    assert close.reason == "ERROR: aborted at the git gate; nothing was changed. STOPPING."
    assert (bench.git.branch, bench.git.stashed, bench.text("src/mine.txt")) == ("main", [], "mine\n")
    assert (bench.progress["status"], bench.progress["git_gate_completed"]) == ("FAILED", False)
    assert bench.play(flags={"dirty": "carry"}).status is Status.COMPLETE
    assert bench.called.count("Planner") == 1


def test_files_of_the_work_cannot_be_carried(bench: Bench) -> None:
    """A dirty file that a task would commit can be stashed, or the run aborted."""
    bench.simulate()
    bench.put("src/t1.txt", "mine\n")
    close = bench.play()
    assert close.gate is not None
    assert [choice["name"] for choice in close.gate["choices"]] == ["stash", "abort"]
    assert "cannot be carried along" in close.reason


def test_carried_files_are_looked_at_in_each_iteration(bench: Bench) -> None:
    """A later graph that would commit a carried file makes the gate ask again."""
    bench.simulate()
    bench.put("src/t3.txt", "mine\n")
    bench.changes["Reviewer"] = rejects
    graphs = iter([bench.tasks, graph(task("T1"), task("T3"))])

    def plan(request, act):  # type: ignore[no-untyped-def]
        bench.tasks = next(graphs)
        files = {path: bench.tasks if path.endswith(".yaml") else text for path, text in act.files.items()}
        return type(act)(files, act.message)

    bench.changes["Planner"] = plan
    close = bench.play(flags={"dirty": "carry"})
    assert close.exit_code == 4
    assert close.gate is not None
    assert [choice["name"] for choice in close.gate["choices"]] == ["stash", "abort"]
    assert "src/t3.txt" in close.reason


def test_our_lines_in_gitignore_ask_nobody(bench: Bench) -> None:
    """The engine's own edit is recognised; another one is the user's, and only our lines are committed."""
    bench.files[".gitignore"] = "*.o\n"
    assert bench.play().status is Status.COMPLETE
    assert bench.git.files[".gitignore"] == b"*.o\nprompts/\ndocs/docs_cache_state.yaml\n"


def test_a_persons_own_edit_of_gitignore_is_not_committed(bench: Bench) -> None:
    """It is asked about, carried, and stays uncommitted; our two lines are committed."""
    bench.files[".gitignore"] = "*.o\n"
    bench.simulate()
    bench.put(".gitignore", "*.o\n*.mine\n")
    close = bench.play(flags={"dirty": "carry"})
    assert close.status is Status.COMPLETE
    assert bench.text(".gitignore") == "*.o\n*.mine\nprompts/\ndocs/docs_cache_state.yaml\n"
    assert bench.git.files[".gitignore"] == b"*.o\nprompts/\ndocs/docs_cache_state.yaml\n"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Trouble.MERGING, "the repository is in the middle of something (MERGE_HEAD)"),
        (Trouble.DETACHED, "HEAD is detached and there are local changes"),
    ],
)
def test_a_repository_in_a_bad_state_stops_the_run(bench: Bench, trouble: Trouble, reason: str) -> None:
    """A merge that is not finished, or a detached HEAD with changes: exit 3, nothing touched."""
    bench.simulate()
    bench.git.befall(trouble)
    bench.put("README.md", "changed\n")
    close = bench.play()
    assert close.exit_code == 3
    assert reason in close.reason
    assert bench.text("README.md") == "changed\n"


def test_an_existing_branch_is_used_if_it_has_everything(bench: Bench) -> None:
    """It contains the base: switched to, without a question."""
    bench.simulate()
    bench.git.branches[BRANCH] = bench.git.head
    assert bench.play().status is Status.COMPLETE
    assert bench.git.branch == BRANCH


@pytest.mark.parametrize(("choice", "status"), [("switch", Status.COMPLETE), ("abort", Status.STOPPED)])
def test_an_existing_branch_that_lacks_the_base_is_asked_about(bench: Bench, choice: str, status: Status) -> None:
    """A person decides whether to work on it."""
    simulation = bench.simulate()
    first = bench.git.head
    bench.git.branches[BRANCH] = first
    bench.git.record(dict(bench.git.files), "second on main")
    close = simulation.go()
    assert close.exit_code == 4
    assert f"Branch {BRANCH} exists and does not contain the present state" in close.reason
    simulation.decide(choice)
    assert simulation.go().status is status


def test_a_stash_that_cannot_be_applied_is_kept(bench: Bench) -> None:
    """The run stays on the branch and says where the stash is: exit 3."""
    bench.git = Refusing(kind=Unstash, said="conflict")
    simulation = bench.simulate()
    bench.git.branches[BRANCH] = bench.git.head
    bench.git.branch = BRANCH
    bench.git.record({**bench.git.files, "README.md": b"theirs\n"}, "on the branch")
    bench.git.branch = "main"
    bench.put("README.md", "mine\n")
    close = simulation.go()
    assert close.exit_code == 3
    assert close.reason.splitlines()[0] == f"ERROR: stash could not be applied on {BRANCH}; it is kept as stash@{{0}}"
    assert bench.git.branch == BRANCH
    assert bench.git.stashed[0].files == {"README.md": b"mine\n"}
    assert bench.has(f"{HOME}/progress.yaml")


@pytest.mark.parametrize(("change", "code"), [(None, 0), (rejects, 3), (nothing, 5)])
def test_a_stash_is_told_of_when_the_run_ends(bench: Bench, change: Change | None, code: int) -> None:
    """Accepted, rejected five times or failed: the last words before the end are where the changes are."""
    bench.simulate()
    bench.put("src/mine.c", "mine\n")
    if change:
        bench.changes["Reviewer"] = change
    assert bench.play(flags={"dirty": "stash"}).exit_code == code
    (told,) = [data["text"] for data in bench.events("warning") if "git stash pop" in data["text"]]
    assert "git stash pop stash@{0} (interlock ticket-" in told
    assert bench.progress["stashed"] == [told.split("(")[1].rstrip(")")]
