"""`interlock run task` in a real repository, with scripted agents: what a user types and sees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.main import answer

REQUEST = "add three to words.txt"
GOOD = {
    "agent": "builder",
    "attempt": 1,
    "files": {"words.txt": "one\ntwo\nthree\n"},
    "message": "DONE: three is there",
}
LIAR = {
    "agent": "builder",
    "append": {"words.txt": "three\n"},
    "delete": ["two.txt"],
    "message": "I ran make test: all passed.\n\nDONE: three is there",
}


class Terminal:
    """The command line in a repository of one's own."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def scenario(self, *reactions: dict[str, Any]) -> None:
        (self.root / "scenario.yaml").write_text(json.dumps({"reactions": reactions}), "utf-8")

    def git(self, *words: str) -> str:
        return subprocess.run(("git", *words), cwd=self.root, check=True, capture_output=True, text=True).stdout

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = answer(arguments)
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@localhost\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    files = {
        "Makefile": "test:\n\tsh test.sh\n",
        "test.sh": "test -f two.txt || { echo 'FAILED: two is gone'; exit 1; }\n",
        "words.txt": "one\ntwo\n",
        "two.txt": "two\n",
        "interlock.toml": 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n',
        ".gitignore": "scenario.yaml\n",
    }
    for path, text in files.items():
        (root / path).write_text(text, "utf-8")
    monkeypatch.chdir(root)
    found = Terminal(root, capsys)
    found.git("init", "-q")
    found.git("add", "-A")
    found.git("commit", "-q", "-m", "first")
    found.scenario(GOOD)
    return found


@pytest.mark.req("OW-30")
def test_good_work_is_accepted_in_two_calls_and_committed(terminal: Terminal) -> None:
    """Standard output says on what it was accepted; the commit has the file and nothing of the user's."""
    (terminal.root / "notes.md").write_text("mine\n")
    code, out, err = terminal("run", "task", REQUEST, "--commit")
    head = terminal.git("rev-parse", "HEAD")[:10]
    assert (code, out) == (
        0,
        "Accepted in round 1\n"
        "  test: make test: passes\n"
        "  review: accepted. It does what was asked.\n"
        f"Committed {head}: words.txt\n",
    )
    assert "test: make test passes" in err
    assert "2 dispatches" in err
    assert terminal.git("show", "--format=%s", "--name-only", "HEAD").split("\n\n") == [REQUEST, "words.txt\n"]
    assert terminal.git("status", "--short") == "?? notes.md\n"


@pytest.mark.req("OW-30", "EV-01")
def test_a_fix_that_does_not_pass_is_refused_for_all_to_see(terminal: Terminal) -> None:
    """Exit 3; the failing check with its output on standard output; nothing committed; one next command."""
    terminal.scenario(LIAR)
    code, out, err = terminal("run", "task", REQUEST, "--commit", "--rounds", "2")
    assert code == 3
    assert out.startswith("### test: make test: ended with exit status 2\n")
    assert "FAILED: two is gone" in out
    assert "\nNot accepted and not committed, but in your tree: two.txt, words.txt\n" in out
    assert "reason: not accepted within 2 rounds: test: make test: ended with exit status 2" in err
    assert "Accepted" not in out + err
    assert terminal.git("log", "--format=%s") == "first\n"
    (advice,) = [line for line in err.splitlines() if line.startswith("  next: ")]
    assert terminal(*advice.removeprefix("  next: interlock ").split())[0] == 0
    assert terminal.git("status", "--short") == " D two.txt\n M words.txt\n"
    told, _, applied = out.splitlines()[-1].removeprefix("To take it back: interlock ").partition(" | git ")
    patch = terminal(*told.split())[1]
    subprocess.run(("git", *applied.split()), cwd=terminal.root, input=patch, text=True, check=True)
    assert terminal.git("status", "--short") == ""


@pytest.mark.req("OW-30")
def test_the_answer_for_programs_has_the_evidence_too(terminal: Terminal) -> None:
    """One JSON object on standard output."""
    terminal.scenario(LIAR)
    code, out, _ = terminal("run", "task", REQUEST, "--rounds", "1", "--json")
    value = json.loads(out)
    assert (code, value["status"], value["playbook"], value["key"]) == (3, "stopped", "task", REQUEST)
    assert "FAILED: two is gone" in value["output"]
    assert value["dispatches"] == 1


@pytest.mark.req("OW-30")
def test_named_checks_decide_and_a_reviewer_can_be_left_out(terminal: Terminal) -> None:
    """The command that is given runs before and after the work."""
    code, out, err = terminal("run", "task", REQUEST, "--check", "grep -q two words.txt", "--no-review")
    assert code == 0
    assert out == "Accepted in round 1\n  check: grep -q two words.txt: passes\n  review: nobody was asked\n"
    assert "1 dispatch" in err
    code, out, err = terminal("run", "task", "another", "--check", "grep -q never words.txt")
    assert (code, out) == (3, "")
    assert "No agent was called" in err


@pytest.mark.req("OW-30")
def test_bad_requests_are_refused_before_anything_happens(terminal: Terminal) -> None:
    """Exit 2 with what to do; no run."""
    for arguments, said in (
        (("--check", "none", "--no-review"), "Name one with --check COMMAND, or leave out --no-review."),
        (("--check", ""), "the command 'check' is empty"),
        (("--check", "true", "--check", " ", "--no-review"), "the command 'check-2' is empty"),
        (("--rounds", "4"), "Input should be less than or equal to 3"),
        (("--rounds", "0"), "Input should be greater than or equal to 1"),
    ):
        code, out, err = terminal("run", "task", REQUEST, *arguments)
        assert (code, out) == (2, "")
        assert said in " ".join(err.replace("│", " ").split())
    (terminal.root / ".git").rename(terminal.root / ".hidden")
    code, _, err = terminal("run", "task", REQUEST, "--commit")
    assert code == 2
    assert "is no git repository" in err
    assert not list((terminal.root / ".interlock").glob("runs/*"))


@pytest.mark.req("OW-30", "EV-26")
def test_what_was_not_accepted_can_be_taken_back_as_it_says(terminal: Terminal) -> None:
    """Texts and binary files, changed, new and gone, and whether they can be executed."""
    (terminal.root / "old.bin").write_bytes(bytes(range(256)))
    (terminal.root / "gone.bin").write_bytes(b"\0gone")
    for name in ("run.sh", "more.sh", "less.sh"):
        (terminal.root / name).write_text("true\n")
    (terminal.root / "less.sh").chmod(0o755)
    terminal.git("add", "-A")
    terminal.git("commit", "-qm", "binary")
    change = "cat /bin/sh > new.bin; head -c 100 /dev/zero >> old.bin; rm gone.bin two.txt; echo x >> words.txt"
    change += "; chmod +x run.sh more.sh; chmod -x less.sh; echo x >> more.sh; echo new > new.sh; chmod +x new.sh"
    terminal.scenario({"agent": "builder", "run": ["sh", "-c", change], "message": "DONE: it is there"})
    code, out, _ = terminal("run", "task", REQUEST, "--rounds", "1")
    assert code == 3
    assert "old.bin" in terminal.git("status", "--short")
    said = out.split("To take it back: interlock ")[1].split(" | ")[0].split()
    patch = subprocess.run(
        (sys.executable, "-m", "interlock", *said), cwd=terminal.root, check=True, capture_output=True
    ).stdout
    assert b"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\ndiff" in patch
    assert b"diff --git a/new.sh b/new.sh\nnew file mode 100755\n" in patch
    shown = terminal("diff", "--stat")[1].splitlines()
    assert "run.sh +0 -0 (mode 100644 -> 100755)" in shown
    assert "more.sh +1 -0 (mode 100644 -> 100755)" in shown
    assert "less.sh +0 -0 (mode 100755 -> 100644)" in shown
    subprocess.run(("git", "apply", "-R"), cwd=terminal.root, input=patch, check=True)
    assert terminal.git("status", "--short") == ""


@pytest.mark.req("OW-30")
def test_a_merge_that_is_not_finished_keeps_a_commit_from_being_promised(terminal: Terminal) -> None:
    """Found before anybody is paid."""
    head = terminal.git("rev-parse", "HEAD").strip()
    (terminal.root / ".git/MERGE_HEAD").write_text(head + "\n")
    code, _, err = terminal("run", "task", REQUEST, "--commit")
    assert code == 2
    assert "is not finished here" in err


def test_the_help_fits_a_terminal(terminal: Terminal) -> None:
    """All of its options, in 80 columns."""
    code, out, _ = terminal("run", "task", "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for option in ("--check", "--rounds", "--no-review", "--commit"):
        assert option in out


WEAKER = {
    "agent": "builder",
    "times": 1,
    "delete": ["two.txt"],
    "files": {"test.sh": "exit 0\n", "words.txt": "three\n"},
    "message": "DONE: all passes",
}
IDLE = {"agent": "builder", "message": "No change: it is done already\n\nDONE: as it is"}


@pytest.mark.req("EV-04", "EV-23")
def test_a_stop_in_between_changes_nothing(terminal: Terminal) -> None:
    """Whoever goes on with refused work is held to the definitions of before, and the reviewer to what was done to
    them; a person who wants the new ones says so, by the command that is printed."""
    terminal.scenario(WEAKER, IDLE)
    code, out, _ = terminal("run", "task", REQUEST, "--rounds", "1")
    assert (code, "(with test.sh as before)" in out) == (3, True)
    code, out, _ = terminal("resume", "latest")
    assert (code, "(with test.sh as before)" in out) == (3, True)
    (printed,) = [line for line in out.splitlines() if line.startswith("If you want test.sh as now: ")]
    terminal.scenario(IDLE)
    code, out, _ = terminal(*printed.partition(": interlock ")[2].split())
    assert (code, out.splitlines()[0]) == (0, "Accepted in round 1")
    (brief,) = (terminal.root / ".interlock/runs").rglob("reviewer#1/brief.md")
    assert "builder changed nothing, because: it is done already (in the run before this one)" in brief.read_text(
        "utf-8"
    )
