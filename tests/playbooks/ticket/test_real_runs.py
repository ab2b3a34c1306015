"""Whole tickets in real repositories: git, builds, hooks, and what people do to them."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from interlock.documents import load_yaml
from interlock.engine import Status, people
from interlock.playbooks.ticket import TicketError, TicketInputs, ticket
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.playbooks.ticket.place import REQUEST, Place, events, git

MAKE = {
    "Makefile": "build:\n\t@true\ntest:\n\t@sh test.sh\n",
    "test.sh": "for file in src/*.txt; do grep -q ok $file || { echo $file: not ok; exit 1; }; done\n",
    "src/t1.txt": "ok\n",
    "src/t2.txt": "ok\n",
}
WORK = "fix(ABC-12): fix the login error so that users can sign in"
SECOND = [{"files": {"src/t2.txt": "ok, the second\n"}}]
ONE = {"tasks": graph(task("T1")), "work": {"T1": [{"files": {"src/t1.txt": "ok now\n"}}]}}


@pytest.mark.req("TK-01", "TK-32", "TK-66", "TK-122", "TK-153", "TK-161")
def test_a_ticket_in_a_project_with_make(place: Place) -> None:
    """Two tasks side by side, one of them red at first; commit, documentation, clean tree."""
    place.begin(MAKE)
    bad, good = {"files": {"src/t2.txt": "bad\n"}}, {"files": {"src/t2.txt": "ok, too\n"}}
    place.script = {
        "tasks": graph(task("T1"), task("T2")),
        "work": {"T1": [{"files": {"src/t1.txt": "ok now\n"}}], "T2": [bad, good]},
    }
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert [call[1] for call in place.calls if call[0] == "task-executor"].count("task-executor-T1") == 1
    assert [call[2] for call in place.calls if call[1] == "task-executor-T2"] == [1, 2]
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert place.git("log", "--format=%s").splitlines() == [
        "docs(ABC-12): refresh documentation",
        "fix(ABC-12): fix the login error so that users can sign in",
        "first",
    ]
    changed = place.git("show", "--name-only", "--format=", "HEAD~1").splitlines()
    assert changed == [".gitignore", "src/t1.txt", "src/t2.txt"]
    assert place.git("status", "--porcelain") == ""
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert place.text("src/t2.txt") == "ok, too\n"
    calls = len(place.calls)
    again = place.run()
    assert (again.exit_code, len(place.calls)) == (0, calls)
    assert f"accepted on branch {BRANCH}" in str(again.output)


@pytest.mark.long
def test_a_ticket_in_a_python_project_with_pytest(place: Place) -> None:
    """A failing test names the file; caches of compiler and test runner are neither violations nor committed."""
    place.begin(
        {
            "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n",
            "calc.py": "def add(a, b):\n    return a - b\n",
            "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        }
    )
    tests = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    wrong = {"files": {"calc.py": "def add(a, b):\n    return a * b\n"}, "run": [tests + " || true"]}
    right = {"files": {"calc.py": "def add(a, b):\n    return a + b\n"}, "run": [tests]}
    entry = task("T1", files=("calc.py",), test_files=["tests/test_calc.py"])
    place.script = {"tasks": graph(entry, strategies={"A": "sequential"}), "work": {"T1": [wrong, right]}}
    finished = place.run(
        "ABC-12 fix the sum so that 1 and 2 make 3",
        test=tests,
        build=f"{sys.executable} -m compileall -q calc.py",
        flags={"no_preflight": True},
    )
    assert finished.status is Status.COMPLETE, finished
    assert [call[0] for call in place.calls if call[0] in ("Developer", "task-executor")] == [
        "Developer",
        "task-executor",
    ]
    assert place.git("show", "--name-only", "--format=", "HEAD~1").splitlines() == [".gitignore", "calc.py"]
    data = load_yaml(place.text(f"{HOME}/iteration_0/tasks.yaml"), "x")
    assert (data["tasks"][0]["status"], data["tasks"][0]["attempt"]) == ("ACCEPTED", 2)
    red = [data for data in events(finished.lines, "orchestrator.validation") if data["exit"]]
    assert [data["what"] for data in red] == ["test"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_ticket_in_a_node_project(place: Place) -> None:
    """Commands from package.json, where there is no build script: then there is nothing to build."""
    node = shutil.which("node")
    place.begin(
        {
            "package.json": '{"name": "x", "scripts": {"test": "node --test"}}',
            "sum.js": "exports.sum = (a, b) => a - b;\n",
            "sum.test.js": "const {sum} = require('./sum');\nconst test = require('node:test');\n"
            "test('sum', () => { if (sum(1, 2) !== 3) throw new Error('no'); });\n",
        }
    )
    place.script = {
        "tasks": graph(task("T1", files=("sum.js",))),
        "work": {"T1": [{"files": {"sum.js": "exports.sum = (a, b) => a + b;\n"}}]},
    }
    red = place.run(test=f"{node} --test")
    assert (red.exit_code, place.calls) == (3, [])
    assert "test: " in red.reason
    finished = place.run(test=f"{node} --test", flags={"no_preflight": True})
    assert finished.status is Status.COMPLETE, finished
    assert load_yaml(place.text(f"{HOME}/progress.yaml"), "x")["build_command"] == "none"


# -- refusals leave nothing


def test_bad_input_leaves_nothing(place: Place) -> None:
    """Exit 2: no run folder, no prompts, no branch."""
    place.root.mkdir(parents=True)
    place.write(MAKE)
    (place.root / "interlock.toml").write_text('runner = "scripted"\n')
    before = sorted(path for path in place.root.rglob("*"))
    for request, what in ((REQUEST, "not a git repository"), ("fix it", "No JIRA ID found")):
        with pytest.raises(TicketError, match=what) as caught:
            place.run(request)
        assert caught.value.exit_code == 2
    assert sorted(path for path in place.root.rglob("*")) == before


def test_a_dry_run_shows_the_planners_brief(place: Place) -> None:
    """The whole startup is played in memory; the workspace stays as it was."""
    place.begin(MAKE)
    before = place.git("status", "--porcelain", "--ignored")
    plan = asyncio.run(place.app().plan(ticket, TicketInputs(REQUEST)))
    assert plan.before is not None
    assert plan.before.verb == "dispatch"
    assert "CONTEXT SNAPSHOT" in plan.before.detail.brief
    assert place.git("status", "--porcelain", "--ignored") == before
    assert place.calls == []


# -- the repository in all its states


@pytest.mark.long
@pytest.mark.req("TK-102")
def test_documentation_and_other_stashes(place: Place) -> None:
    """The user's own stash stays where it is; changed and new documents arrive on the branch."""
    place.begin({**MAKE, "README.md": "old\n"})
    (place.root / "src/t1.txt").write_text("ok, mine\n")
    place.git("stash", "push", "-q", "-m", "mine")
    (place.root / "README.md").write_text("new\n")
    (place.root / "notes.md").write_text("new\n")
    place.script = ONE
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert place.git("stash", "list", "--format=%gs") == "On main: mine"
    assert (place.text("README.md"), place.text("notes.md")) == ("new\n", "new\n")
    assert place.git("diff", "--name-only", "main", "HEAD").splitlines()[:1] == [".gitignore"]


@pytest.mark.long
@pytest.mark.req("TK-103")
def test_dirty_code_waits_and_is_answered(place: Place) -> None:
    """Parked with exit 4; the same command with --dirty goes on; staged and new files of the user stay out."""
    place.begin(MAKE)
    (place.root / "mine.py").write_text("x = 1\n")
    (place.root / "staged.py").write_text("x = 2\n")
    place.git("add", "staged.py")
    place.script = ONE
    waiting = place.run()
    assert waiting.exit_code == 4
    assert "mine.py" in waiting.reason
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    finished = place.run(flags={"dirty": "carry"})
    assert finished.run_id == waiting.run_id
    assert finished.status is Status.COMPLETE, finished
    assert place.git("diff", "--cached", "--name-only") == "staged.py"
    names = place.git("log", "--name-only", "--format=", "main..HEAD").splitlines()
    assert "staged.py" not in names
    assert "mine.py" not in names
    assert place.text("mine.py") == "x = 1\n"


@pytest.mark.req("TK-103")
def test_dirty_code_can_be_stashed(place: Place) -> None:
    """Changed, new and deleted files are all in the stash, under the run's name."""
    place.begin(MAKE)
    (place.root / "src/t2.txt").unlink()
    (place.root / "mine.py").write_text("x = 1\n")
    place.script = ONE
    finished = place.run(flags={"dirty": "stash"})
    assert finished.status is Status.COMPLETE, finished
    assert not (place.root / "mine.py").exists()
    assert str(finished.run_id) in place.git("stash", "list", "--format=%s")
    place.git("checkout", "-q", "main")
    place.git("stash", "pop", "-q")
    assert place.text("mine.py") == "x = 1\n"
    assert not (place.root / "src/t2.txt").exists()


@pytest.mark.req("EV-43")
def test_a_detached_head_with_changes_is_left_alone(place: Place) -> None:
    """Exit 3, and everything as it was."""
    place.begin(MAKE)
    place.git("checkout", "-q", "--detach")
    (place.root / "mine.py").write_text("x = 1\n")
    place.script = ONE
    finished = place.run(flags={"dirty": "stash"})
    assert finished.exit_code == 3
    assert "HEAD is detached" in finished.reason
    assert place.git("branch", "--list", BRANCH) == ""
    assert place.git("stash", "list") == ""
    assert place.calls == []


@pytest.mark.long
def test_a_detached_head_without_changes_is_a_base(place: Place) -> None:
    """The branch is made from that commit."""
    place.begin(MAKE)
    place.git("checkout", "-q", "--detach")
    place.script = ONE
    assert place.run().status is Status.COMPLETE
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH


@pytest.mark.long
def test_an_existing_branch_with_our_gitignore(place: Place) -> None:
    """A branch of an earlier try, which has our lines already, is switched to."""
    place.begin(MAKE)
    place.git("checkout", "-q", "-b", BRANCH)
    (place.root / ".gitignore").write_text("prompts/\ndocs/docs_cache_state.yaml\n")
    place.git("add", ".gitignore")
    place.git("commit", "-qm", "ours")
    place.git("checkout", "-q", "main")
    place.script = ONE
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert "ours" in place.git("log", "--format=%s").splitlines()


def test_a_branch_that_is_checked_out_elsewhere_stops_the_run(place: Place, tmp_path: Path) -> None:
    """The user's other worktree has it: git's own words, exit 3; the worktree is untouched."""
    place.begin(MAKE)
    place.git("worktree", "add", "-q", "-b", BRANCH, str(tmp_path / "other"))
    place.script = ONE
    finished = place.run()
    assert finished.exit_code == 3
    assert f"branch {BRANCH} cannot be checked out" in finished.reason
    assert git(tmp_path / "other", "status", "--porcelain") == ""
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


@pytest.mark.long
def test_a_workspace_that_is_a_linked_worktree(place: Place, tmp_path: Path) -> None:
    """The user works in a worktree: branch and commit are made there, the main one is untouched."""
    main = Place(tmp_path / "main")
    main.begin(MAKE)
    main.git("worktree", "add", "-q", "-b", "side", str(place.root))
    place.script = {"tasks": graph(task("T1"), task("T2")), "work": {"T1": ONE["work"]["T1"], "T2": SECOND}}  # type: ignore[index]
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert main.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert main.git("status", "--porcelain") == ""
    assert main.git("worktree", "list", "--porcelain").count("worktree ") == 2


@pytest.mark.long
def test_a_repository_without_a_commit(place: Place) -> None:
    """Everything is uncommitted: it can be carried, not stashed; the first commit is the ticket's."""
    place.begin({**MAKE, "src/t1.txt": "ok\n"}, commit=False)
    work = {name: [{"files": {f"src/{name.lower()}.txt": "ok\n"}}] for name in ("T3", "T4")}
    place.script = {"tasks": graph(task("T3"), task("T4")), "work": work}
    waiting = place.run()
    assert waiting.gate is not None
    assert [choice["name"] for choice in waiting.gate["choices"]] == ["carry", "abort"]
    finished = place.run(flags={"dirty": "carry"})
    assert finished.status is Status.COMPLETE, finished
    assert place.git("log", "--format=%s").splitlines()[-1].startswith("fix(ABC-12): ")
    assert "src/t1.txt" not in place.git("ls-files").splitlines()


@pytest.mark.long
def test_a_workspace_below_the_top_of_its_repository(tmp_path: Path) -> None:
    """Paths are the workspace's; the commit has them where they are."""
    top = tmp_path / "top"
    place = Place(top / "part")
    outer = Place(top)
    place.root.mkdir(parents=True)
    place.write(MAKE)
    outer.begin({"other.txt": "x\n"})
    settings = (top / "interlock.toml").read_text()
    (place.root / "interlock.toml").write_text(settings.replace(f"{tmp_path}/script.json", f"{top}/script.json"))
    (top / ".git/info/exclude").write_text("script.json\nhome/\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "settings")
    place.script = ONE
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    changed = git(top, "log", "--name-only", "--format=", "main..HEAD").splitlines()
    assert {"part/src/t1.txt", "part/.gitignore"} <= set(changed)


# -- commits and hooks


@pytest.mark.long
@pytest.mark.req("EN-46", "LY-07", "LY-36")
def test_a_hook_that_an_agent_planted_is_not_there_for_the_commit(place: Place) -> None:
    """Neither hook nor setting leaves the agent's layer; an event tells of them, and the commit is made without."""
    place.begin(MAKE)
    hook = ".git/hooks/pre-commit"
    plant = [
        f"mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch planted-ran\\n' > {hook} && chmod +x {hook}",
        "git config core.fsmonitor 'touch planted-ran; false'",
    ]
    before = place.text(".git/config")
    place.script = {"tasks": graph(task("T1")), "work": {"T1": [{"files": {"src/t1.txt": "ok!\n"}, "run": plant}]}}
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    (touched,) = events(finished.lines, "repository.touched")
    assert touched["by"] == "Developer-T1"
    assert "hook" in str(touched["what"])
    assert not (place.root / hook).exists()
    assert place.text(".git/config") == before
    assert not (place.root / "planted-ran").exists()


@pytest.mark.long
@pytest.mark.req("LY-07", "TK-153")
def test_what_an_agent_commits_is_its_change_and_not_a_commit_of_the_repository(place: Place) -> None:
    """Commits, a branch and a stash stay in the layer; what it committed is built, accepted, and in the one commit."""
    place.begin(MAKE)
    work = {
        "files": {"src/t1.txt": "ok!\n"},
        "run": ["git commit -qam mine", "git branch other", "touch x && git add x && git stash -q"],
    }
    place.script = {"tasks": graph(task("T1")), "work": {"T1": [work]}}
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert place.git("log", "--format=%s").splitlines()[-2:] == [WORK, "first"]
    assert "mine" not in place.git("log", "--all", "--format=%s").splitlines()
    assert place.git("show", "HEAD~1:src/t1.txt") == "ok!"
    assert place.git("branch", "--list", "other") == place.git("stash", "list") == ""
    assert [touched["by"] for touched in events(finished.lines, "repository.touched")] == ["Developer-T1"]


# -- starting over


def documents(place: Place) -> dict[str, bytes]:
    found = (place.root / HOME).rglob("*")
    return {str(path.relative_to(place.root)): path.read_bytes() for path in found if path.is_file()}


@pytest.mark.long
@pytest.mark.req("EV-05", "EV-23")
def test_a_fresh_start_that_is_refused_moves_nothing(place: Place) -> None:
    """The tests are red now: exit 3, and the documents are where they were. Mended, a resume starts over as it was
    asked to, and a further one goes on with what that began."""
    place.begin(MAKE)
    place.script = ONE
    assert place.run().status is Status.COMPLETE
    before = documents(place)
    (place.root / "src/t2.txt").write_text("bad\n")
    refused = place.run(fresh=True)
    assert refused.exit_code == 3
    assert "No agent was called." in refused.reason
    assert documents(place) == before
    assert not (place.root / ".interlock/attic").exists()
    (place.root / "src/t2.txt").write_text("ok\n")
    work = {"T1": [{"files": {"src/t1.txt": "ok, anew\n"}, "status": "FAILED"}]}
    place.script = {**ONE, "work": work}
    paused = place.resume()
    assert paused.reason.startswith("PAUSED"), paused
    assert place.resume().reason.startswith("PAUSED")
    work["T1"][0].pop("status")
    begun = place.resume(retry=True)
    assert begun.status is Status.COMPLETE, begun
    assert [call[0] for call in place.calls].count("Planner") == 2
    assert len(list((place.root / ".interlock/attic").rglob("progress.yaml"))) == 1


@pytest.mark.long
@pytest.mark.req("EV-05", "EN-09")
def test_a_fresh_start_that_waits_has_moved_nothing_and_goes_nowhere_else(place: Place) -> None:
    """Asked where to begin, and answered: what is there of the ticket does not steer the run that puts it aside."""
    place.begin(MAKE)
    place.script = ONE
    assert place.run().status is Status.COMPLETE
    before = documents(place)
    place.git("checkout", "-q", "-b", "other", "main")
    place.git("commit", "-q", "--allow-empty", "-m", "theirs")
    place.git("branch", "-q", "-D", BRANCH)
    assert place.run(fresh=True).exit_code == 4
    assert documents(place) == before
    asyncio.run(people.decide(place.app(), "latest", "here"))
    finished = place.resume()
    assert finished.status is Status.COMPLETE, finished
    assert "theirs" in place.git("log", "--format=%s", BRANCH).splitlines()
    assert len(list((place.root / ".interlock/attic").rglob("progress.yaml"))) == 1


# -- people


@pytest.mark.long
@pytest.mark.req("TK-138", "EN-19", "EN-22")
def test_a_paused_ticket_is_retried_and_an_edited_one_starts_from_its_document(place: Place) -> None:
    """Five red attempts pause it; plain resume explains; --retry goes on from the documents."""
    place.begin(MAKE)
    place.script = {
        "tasks": graph(task("T1"), strategies={"A": "sequential"}),
        "work": {"T1": [{"files": {"src/t1.txt": "bad\n"}}]},
    }
    paused = place.run(fast_path=False)
    assert paused.exit_code == 3
    assert paused.reason.startswith("PAUSED: task T1 failed 5 attempts")
    assert paused.reason.endswith(f"interlock resume {paused.run_id} --retry")
    explained = place.resume()
    assert explained.exit_code == 3
    assert "--retry" in explained.reason
    place.script["work"]["T1"] = [{"files": {"src/t1.txt": "ok again\n"}}]
    retried = place.resume(retry=True)
    assert retried.status is Status.COMPLETE, retried
    log = place.text(f"{HOME}/log.jsonl")
    for event in ("orchestrator.task.max_attempts", "orchestrator.retry", "orchestrator.resume"):
        assert event in log


@pytest.mark.long
@pytest.mark.req("EN-22")
def test_a_persons_edit_of_the_tasks_counts(place: Place) -> None:
    """A waiting run whose tasks.yaml was edited ends, and a new one goes on from the document."""
    place.begin(MAKE)
    (place.root / "mine.py").write_text("x = 1\n")
    place.script = ONE
    waiting = place.run()
    assert waiting.exit_code == 4
    path = place.root / HOME / "progress.yaml"
    path.write_text("# looked at\n" + path.read_text())
    finished = place.run(flags={"dirty": "carry"})
    assert finished.run_id != waiting.run_id
    assert finished.status is Status.COMPLETE, finished
    assert path.read_text().startswith("# looked at\n")
    assert [call[0] for call in place.calls].count("Planner") == 1
