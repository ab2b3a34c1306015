"""The git gate and the commit in real repositories: whatever state they are in, nothing of the user's is lost."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine import Status, people
from interlock.engine.folder import known_runs
from interlock.engine.playing import Finished
from interlock.playbooks.ticket import TicketInputs, ticket
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.playbooks.ticket.place import REQUEST, Place, events, git
from tests.playbooks.ticket.test_real_runs import MAKE, ONE

pytestmark = (
    pytest.mark.long
)  # whole runs; test_gate.py asks the same of a simulated git, test_real_runs.py of a real one

WORK = "fix(ABC-12): fix the login error so that users can sign in"
BOTH = {
    "tasks": graph(task("T1"), task("T2")),
    "work": {name: [{"files": {f"src/{name.lower()}.txt": f"ok, {name}\n"}}] for name in ("T1", "T2")},
}


def committed(place: Place) -> set[str]:
    """Every file that the ticket's commits changed."""
    return set(place.git("log", "--name-only", "--format=", "main..HEAD").splitlines())


def answer(place: Place, choice: str) -> Finished:
    """Decide the open gate as `interlock answer` does, and go on."""
    asyncio.run(people.decide(place.app(), "latest", choice))
    return place.resume()


def warnings(finished: Finished) -> str:
    return "\n".join(data["text"] for data in events(finished.lines, "warning"))


# -- stashes


@pytest.mark.req("TK-103")
def test_stashed_code_that_the_ticket_changed_too_is_kept_until_it_is_taken_out(place: Place) -> None:
    """The same lines: the stash is named in a warning, git itself refuses to lose it, and it is whole."""
    place.begin(MAKE)
    (place.root / "src/t1.txt").write_text("ok, but mine\n")
    (place.root / "src/new.txt").write_text("ok, new and mine\n")
    place.script = ONE
    waiting = place.run()
    assert waiting.exit_code == 4
    assert waiting.gate is not None
    assert [choice["name"] for choice in waiting.gate["choices"]] == ["stash", "abort"]
    finished = answer(place, "stash")
    assert finished.status is Status.COMPLETE, finished
    assert place.text("src/t1.txt") == "ok now\n"
    assert not (place.root / "src/new.txt").exists()
    assert "git stash pop stash@{0}" in warnings(finished)
    (line,) = place.git("stash", "list").splitlines()
    assert str(waiting.run_id) in line
    popped = subprocess.run(("git", "stash", "pop"), cwd=place.root, capture_output=True, text=True, check=False)
    assert popped.returncode != 0
    assert "CONFLICT" in popped.stdout
    assert place.git("stash", "list").splitlines() == [line]
    assert place.git("show", "stash@{0}:src/t1.txt") == "ok, but mine"
    assert place.git("show", "stash@{0}^3:src/new.txt") == "ok, new and mine"


def with_conflicting_branch(place: Place) -> None:
    """The ticket's branch is there with a README of its own, and the user has changed the same lines here."""
    place.begin({**MAKE, "README.md": "old\n"})
    place.git("checkout", "-q", "-b", BRANCH)
    (place.root / "README.md").write_text("theirs\n")
    place.git("commit", "-qam", "theirs")
    place.git("checkout", "-q", "main")
    (place.root / "README.md").write_text("mine\n")
    place.script = ONE


@pytest.mark.req("TK-102")
def test_documentation_that_conflicts_on_the_branch_stays_in_its_stash(place: Place) -> None:
    """Exit 3 on the branch with the stash named; after the conflict is resolved the ticket goes on, once only."""
    with_conflicting_branch(place)
    finished = place.run()
    assert finished.exit_code == 3
    said = finished.reason.splitlines()
    assert said[0] == f"ERROR: stash could not be applied on {BRANCH}; it is kept as stash@{{0}}"
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert place.git("show", "stash@{0}:README.md") == "mine"
    assert "<<<<<<<" in place.text("README.md")

    unresolved = place.resume()
    assert unresolved.exit_code == 3
    assert "in the middle of something (unmerged-files)" in unresolved.reason
    assert place.git("show", "stash@{0}:README.md") == "mine"

    (place.root / "README.md").write_text("theirs and mine\n")
    place.git("add", "README.md")
    done = place.resume()
    assert done.status is Status.COMPLETE, done
    assert place.text("README.md") == "theirs and mine\n"
    assert "README.md" not in set(place.git("show", "--name-only", "--format=", "HEAD~1").splitlines())
    assert place.git("stash", "list").count("\n") == 0
    assert [call[0] for call in place.calls].count("Planner") == 1


class Killed(BaseException):
    """The machine is lost."""


def killed_before(place: Place, verb: str) -> None:
    """Play the ticket until it has said that it will run this git command, and no further."""

    def wire(point: str) -> None:
        runs = known_runs(place.root)
        last = runs[0].folder.lines()[-1] if point == "effect" and runs else None
        if last is not None and last.event == "repository.intent" and f"/{last.key}".rsplit("/", 1)[1].startswith(verb):
            raise Killed

    with pytest.raises(Killed):
        asyncio.run(place.app(tripwire=wire).run(ticket, TicketInputs(REQUEST)))


@pytest.mark.req("TK-102")
@pytest.mark.parametrize("verb", ["checkout", "unstash"])
def test_a_stash_that_the_user_makes_between_crash_and_resume_is_the_users(place: Place, verb: str) -> None:
    """Ours has moved down the list by then: it is found by its mark, and the user's stays whole."""
    place.begin({**MAKE, "README.md": "old\n", "src/other.txt": "ok\n"})
    (place.root / "README.md").write_text("mine\n")
    place.script = ONE
    killed_before(place, verb)
    (place.root / "src/other.txt").write_text("ok, the user's\n")
    place.git("stash", "push", "-q", "-m", "the user's own")
    finished = place.resume()
    assert finished.status is Status.COMPLETE, finished
    assert place.text("README.md") == "mine\n"
    assert place.text("src/other.txt") == "ok\n"
    assert place.git("stash", "list", "--format=%gs").split(": ")[1:] == ["the user's own"]
    assert place.git("show", "stash@{0}:src/other.txt") == "ok, the user's"


# -- work that goes on while the gate waits


@pytest.mark.req("EN-29", "EN-30", "TK-103")
def test_what_the_user_writes_while_the_gate_waits_is_asked_about(place: Place) -> None:
    """A file of the work that became dirty after the question: not carried by the old answer, never committed."""
    place.begin(MAKE)
    (place.root / "mine.py").write_text("x = 1\n")
    place.script = BOTH
    waiting = place.run()
    assert waiting.gate is not None
    assert [choice["name"] for choice in waiting.gate["choices"]] == ["stash", "carry", "abort"]
    (place.root / "src/t2.txt").write_text("ok, but mine\n")
    again = answer(place, "carry")
    assert again.exit_code == 4
    assert again.gate is not None
    assert [choice["name"] for choice in again.gate["choices"]] == ["stash", "abort"]
    assert "src/t2.txt" in again.reason
    assert "the repository changed while the git gate waited" in warnings(again)
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    finished = answer(place, "stash")
    assert finished.status is Status.COMPLETE, finished
    assert place.git("show", "stash@{0}:src/t2.txt") == "ok, but mine"
    assert place.git("show", "stash@{0}^3:mine.py") == "x = 1"
    assert "mine" not in place.git("log", "-p", "--format=", "main..HEAD", "--", "src")


def stage_again(place: Place) -> None:
    place.write({"staged.py": "x = 2\n"})
    place.git("add", "staged.py")


CHANGES: dict[str, Callable[[Place], None]] = {
    "a tracked file": lambda place: place.write({"src/other.txt": "ok, again\n"}),
    "a new file": lambda place: place.write({"mine.py": "x = 2\n"}),
    "a staged file": stage_again,
}


@pytest.mark.req("EN-29")
@pytest.mark.parametrize("what", CHANGES)
def test_an_answer_holds_for_the_content_that_was_there(place: Place, what: str) -> None:
    """The same files with another content: asked once more; without a further change the answer is taken."""
    place.begin({**MAKE, "src/other.txt": "ok\n", "staged.py": "x = 0\n"})
    place.write({"src/other.txt": "ok, mine\n", "mine.py": "x = 1\n", "staged.py": "x = 1\n"})
    place.git("add", "staged.py")
    place.script = BOTH
    assert place.run().exit_code == 4
    CHANGES[what](place)
    assert answer(place, "carry").exit_code == 4
    assert answer(place, "carry").status is Status.COMPLETE
    assert not committed(place) & {"src/other.txt", "mine.py", "staged.py"}


@pytest.mark.req("EN-30")
def test_what_the_user_writes_while_the_branch_is_asked_about_is_seen(place: Place) -> None:
    """The tree was clean when the question about the branch was put; it is not any more."""
    behind(place)
    (place.root / "src/t1.txt").write_text("ok, but mine\n")
    again = answer(place, "switch")
    assert again.exit_code == 4
    assert "src/t1.txt" in again.reason
    finished = answer(place, "stash")
    assert finished.status is Status.COMPLETE, finished
    assert place.git("show", "stash@{0}:src/t1.txt") == "ok, but mine"
    assert place.git("show", f"{BRANCH}~1:src/t1.txt") == "ok now"


# -- branches


def behind(place: Place) -> str:
    """The ticket's branch is there and lacks the last commit; where it is."""
    place.begin(MAKE)
    place.git("branch", BRANCH)
    (place.root / "later.txt").write_text("x\n")
    place.git("add", "-A")
    place.git("commit", "-qm", "later")
    place.script = ONE
    waiting = place.run()
    assert waiting.exit_code == 4
    assert f"Branch {BRANCH} exists and does not contain the present state" in waiting.reason
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    return place.git("rev-parse", BRANCH)


def test_a_branch_that_lacks_the_present_state_is_used_if_a_person_says_so(place: Place) -> None:
    """`switch`: the work goes on top of it as it is."""
    old = behind(place)
    finished = answer(place, "switch")
    assert finished.status is Status.COMPLETE, finished
    assert "later" not in place.git("log", "--format=%s").splitlines()
    assert place.git("merge-base", old, "HEAD") == old


def test_a_branch_that_lacks_the_present_state_can_be_refused(place: Place) -> None:
    """`abort` ends the run at once; branch and HEAD are where they were."""
    old = behind(place)
    asyncio.run(people.decide(place.app(), "latest", "abort"))
    (known,) = known_runs(place.root)
    assert known.folder.lines()[-1].data["reason"] == "ERROR: aborted at the git gate; nothing was changed. STOPPING."
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert place.git("rev-parse", BRANCH) == old


def test_a_branch_that_git_cannot_make_stops_the_run(place: Place) -> None:
    """A branch `fix` leaves no room for `fix/...`: git's own words, exit 3, nothing moved."""
    place.begin(MAKE)
    place.git("branch", "fix")
    place.script = ONE
    finished = place.run()
    assert finished.exit_code == 3
    assert f"branch {BRANCH} cannot be checked out" in finished.reason
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_carried_code_that_the_branch_has_otherwise_stops_the_run(place: Place) -> None:
    """git will not overwrite it: exit 3 where the user was, with the change as it was."""
    place.begin({**MAKE, "mine.py": "x = 0\n"})
    place.git("checkout", "-q", "-b", BRANCH)
    (place.root / "mine.py").write_text("x = 1\n")
    place.git("commit", "-qam", "theirs")
    place.git("checkout", "-q", "main")
    (place.root / "mine.py").write_text("x = 2\n")
    place.script = ONE
    finished = place.run(flags={"dirty": "carry"})
    assert finished.exit_code == 3
    assert f"branch {BRANCH} cannot be checked out" in finished.reason
    assert "mine.py" in finished.reason
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert place.text("mine.py") == "x = 2\n"


# -- something in progress


def diverged(place: Place) -> None:
    place.begin(MAKE)
    place.git("checkout", "-q", "-b", "other")
    (place.root / "src/t1.txt").write_text("ok, theirs\n")
    place.git("commit", "-qam", "theirs")
    place.git("checkout", "-q", "main")
    (place.root / "src/t1.txt").write_text("ok, ours\n")
    place.git("commit", "-qam", "ours")


def stop_at(place: Place, *words: str) -> None:
    subprocess.run(("git", *words), cwd=place.root, capture_output=True, check=False)


UNFINISHED: dict[str, tuple[Callable[[Place], None], str]] = {
    "merge": (lambda place: stop_at(place, "merge", "other"), "MERGE_HEAD"),
    "rebase": (lambda place: stop_at(place, "rebase", "other"), "rebase-merge"),
    "cherry-pick": (lambda place: stop_at(place, "cherry-pick", "other"), "CHERRY_PICK_HEAD"),
    "revert": (lambda place: stop_at(place, "revert", "--no-edit", "HEAD~1"), "REVERT_HEAD"),
    "bisect": (lambda place: stop_at(place, "bisect", "start"), "BISECT_LOG"),
}


@pytest.mark.req("EV-43")
@pytest.mark.parametrize("what", UNFINISHED)
def test_what_is_in_progress_is_left_alone(place: Place, what: str) -> None:
    """Exit 3 with what it is; work tree, index, HEAD and stashes are as they were."""
    diverged(place)
    if what == "revert":
        (place.root / "src/t1.txt").write_text("ok, again\n")
        place.git("commit", "-qam", "again")
    begin, mark = UNFINISHED[what]
    begin(place)

    def state() -> tuple[str, ...]:
        return (
            place.git("status", "--porcelain", "--", "src"),
            place.git("rev-parse", "HEAD"),
            place.git("stash", "list"),
            place.git("branch", "--list"),
            place.text("src/t1.txt"),
        )

    before = state()
    place.script = ONE
    finished = place.run(flags={"dirty": "stash"})
    assert finished.exit_code == 3
    assert f"in the middle of something ({mark}" in finished.reason
    assert state() == before
    assert place.calls == []


# -- hooks


HOOKS = {
    "commit-msg": ("#!/bin/sh\ngrep -q '^Reviewed-by' \"$1\" || { echo no reviewer named >&2; exit 1; }\n", ""),
    "pre-commit": ("#!/bin/sh\nmake -s lint || exit 1\n", ""),
    "commit-msg elsewhere": ("#!/bin/sh\necho not here >&2\nexit 1\n", ".husky"),
}


@pytest.mark.req("EN-46", "TK-156")
@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_refuses_the_commit(place: Place, name: str) -> None:
    """Exit 3 with the hook's words, the work accepted and in the tree; mended, resume makes the one commit."""
    place.begin(MAKE)
    text, folder = HOOKS[name]
    if folder:
        place.git("config", "core.hooksPath", folder)
    hook = place.root / (folder or ".git/hooks") / name.split(maxsplit=1)[0]
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(text)
    hook.chmod(0o755)
    if folder:
        place.git("-c", "core.hooksPath=/dev/null", "add", "-A")
        place.git("-c", "core.hooksPath=/dev/null", "commit", "-qm", "hooks")
    before = place.git("rev-parse", "HEAD")
    place.script = BOTH
    refused = place.run()
    assert refused.exit_code == 3
    assert "the work is accepted, but the commit failed" in refused.reason
    assert {"commit-msg": "no reviewer named", "pre-commit": "lint", "commit-msg elsewhere": "not here"}[
        name
    ] in refused.reason
    assert place.git("rev-parse", "HEAD") == before
    assert place.text("src/t1.txt") == "ok, T1\n"
    assert not (place.root / ".git/interlock-index").exists()
    hook.write_text("#!/bin/sh\nexit 0\n")
    if folder:  # a mended hook that is a file of the project is the user's change
        place.git("commit", "-qm", "mended", "--", str(hook.relative_to(place.root)))
    calls = len(place.calls)
    done = place.resume()
    assert done.status is Status.COMPLETE, done
    assert {call[0] for call in place.calls[calls:]} <= {"Initializer"}
    assert place.git("log", "--format=%s").splitlines().count(WORK) == 1


def test_a_hook_that_formats_what_is_committed(place: Place) -> None:
    """What a pre-commit hook changes and adds is in the commit; the tree is clean afterwards."""
    place.begin(MAKE)
    hook = place.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'ok, formatted' > src/t1.txt\ngit add src/t1.txt\n")
    hook.chmod(0o755)
    place.script = BOTH
    assert place.run().status is Status.COMPLETE
    assert place.git("show", "HEAD:src/t1.txt") == "ok, formatted"
    assert place.git("status", "--porcelain") == ""


@pytest.mark.req("EN-46")
def test_no_hook_runs_but_for_the_commit(place: Place) -> None:
    """Neither the checkout of the branch nor the stash of the documentation starts a program of the user's."""
    place.begin({**MAKE, "README.md": "old\n"})
    ran = place.root.parent / "hooks-that-ran"
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
        hook = place.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} on $(git symbolic-ref --short HEAD) >> {ran}\n")
        hook.chmod(0o755)
    (place.root / "README.md").write_text("new\n")
    place.script = ONE
    assert place.run().status is Status.COMPLETE
    lines = ran.read_text().splitlines()
    assert {line.rsplit(" ", 1)[1] for line in lines} == {BRANCH}
    assert "post-checkout" not in ran.read_text()
    assert lines.count(f"pre-commit on {BRANCH}") == 2  # the work, and the documentation


# -- the user's files


@pytest.mark.req("TK-102")
def test_the_users_documentation_is_carried_and_never_committed(place: Place) -> None:
    """Neither a document that the Initializer would renew nor one that it would not; the user's words stay."""
    mine = {"docs/ARCHITECTURE.md": "# Mine\n\nnew words\n", "README.md": "mine\n"}
    place.begin({**MAKE, **dict.fromkeys(mine, "# Old\n")})
    place.write(mine)
    place.script = BOTH
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert {path: place.text(path) for path in mine} == mine
    assert not committed(place) & set(mine)
    assert "docs/FINDINGS.md" in committed(place)
    assert place.git("diff", "--name-only").splitlines() == sorted(mine)
    assert place.git("stash", "list") == ""


def test_the_users_documentation_that_a_task_would_commit_is_asked_about(place: Place) -> None:
    """It cannot come along by itself: stash or abort, as for code."""
    place.begin({**MAKE, "README.md": "old\n"})
    (place.root / "README.md").write_text("mine\n")
    work = {"T1": [{"files": {"src/t1.txt": "ok now\n", "README.md": "the ticket's\n"}}]}
    place.script = {"tasks": graph(task("T1", files=("src/t1.txt", "README.md"))), "work": work}
    waiting = place.run()
    assert waiting.exit_code == 4
    assert waiting.gate is not None
    assert [choice["name"] for choice in waiting.gate["choices"]] == ["stash", "abort"]
    finished = answer(place, "stash")
    assert finished.status is Status.COMPLETE, finished
    assert place.git("show", "HEAD~1:README.md") == "the ticket's"
    assert place.git("show", "stash@{0}:README.md") == "mine"


def test_only_the_work_is_committed(place: Place) -> None:
    """New, deleted and moved files of the tasks are; files that the user staged, changed or left there are not."""
    place.begin({**MAKE, "src/gone.txt": "ok\n", "src/staged.txt": "ok\n", "src/half.txt": "ok\n", "old.py": "x\n"})
    (place.root / "src/staged.txt").write_text("ok, staged\n")
    place.git("add", "src/staged.txt")
    (place.root / "src/half.txt").write_text("ok, staged\n")
    place.git("add", "src/half.txt")
    (place.root / "src/half.txt").write_text("ok, changed again\n")
    place.git("mv", "old.py", "moved.py")
    (place.root / "mine.py").write_text("x = 1\n")
    users = place.git("status", "--porcelain").splitlines()
    files = {"src/gone.txt": None, "lib/with blank é.txt": "new\n"}
    place.script = {
        "tasks": graph(task("T1", files=tuple(files))),
        "work": {"T1": [{"files": files}]},
    }
    finished = place.run(flags={"dirty": "carry"})
    assert finished.status is Status.COMPLETE, finished
    place.git("config", "core.quotePath", "false")
    assert set(place.git("show", "--name-only", "--format=", "HEAD~1").splitlines()) == {".gitignore", *files}
    assert place.git("status", "--porcelain").splitlines() == users
    assert place.git("show", ":src/half.txt") == "ok, staged"
    assert place.text("src/half.txt") == "ok, changed again\n"


@pytest.mark.parametrize("choice", ["carry", "stash"])
def test_changes_inside_a_submodule_stay_there(place: Place, tmp_path: Path, choice: str) -> None:
    """They are asked about, and whatever the answer they are neither committed nor lost."""
    inner = Place(tmp_path / "inner")
    inner.begin({"lib.txt": "one\n"})
    place.begin(MAKE)
    place.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.root), "lib")
    place.git("commit", "-qm", "with a submodule")
    (place.root / "lib/lib.txt").write_text("mine\n")
    place.script = BOTH
    finished = place.run(flags={"dirty": choice})
    assert finished.status is Status.COMPLETE, finished
    assert place.text("lib/lib.txt") == "mine\n"
    assert "lib" not in committed(place)
    assert git(place.root / "lib", "log", "--format=%s") == "first"


def test_worktrees_of_the_user_are_left_alone(place: Place, tmp_path: Path) -> None:
    """One with a branch and changes of its own: still there, still dirty, still on its branch."""
    place.begin(MAKE)
    side = tmp_path / "side"
    place.git("worktree", "add", "-q", "-b", "side", str(side))
    (side / "src/t1.txt").write_text("ok, on the side\n")
    (side / "new.py").write_text("x\n")
    before = place.git("worktree", "list", "--porcelain").count("worktree ")
    place.script = BOTH
    assert place.run().status is Status.COMPLETE
    assert git(side, "status", "--porcelain").splitlines() == ["M src/t1.txt", "?? new.py"]
    assert git(side, "rev-parse", "--abbrev-ref", "HEAD") == "side"
    assert place.git("worktree", "list", "--porcelain").count("worktree ") == before


def test_a_repository_without_a_commit_and_without_files(place: Place) -> None:
    """Nothing but what the tasks make: the ticket's commit is the first one."""
    place.begin({}, commit=False)
    files = {"Makefile": MAKE["Makefile"], "test.sh": "grep -q ok a.txt\n", "a.txt": "ok\n"}
    place.script = {"tasks": graph(task("T1", files=tuple(files))), "work": {"T1": [{"files": files}]}}
    finished = place.run(build="make build", test="make test", flags={"no_preflight": True})
    assert finished.status is Status.COMPLETE, finished
    subjects = place.git("log", "--format=%s").splitlines()
    assert subjects[-1] == WORK
    assert set(place.git("ls-tree", "-r", "--name-only", place.git("rev-list", "--max-parents=0", "HEAD")).split()) == {
        ".gitignore",
        *files,
    }
    assert (place.root / HOME / "progress.yaml").exists()
