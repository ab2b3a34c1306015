"""Full disks, no descriptors, closed streams, folders that are gone, odd words: an error that says what to do."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.failures import guarded
from tests.ordinary_user import ordinary_user
from tests.proofs import long

TOY = Path(__file__).parent / "toy_cli.py"
LIMITED = """
import os, resource, runpy, sys
kind, limit, *sys.argv = sys.argv[1:]
resource.setrlimit(getattr(resource, kind), (int(limit), int(limit)))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
NOT_A_FAULT = ("Traceback", "has a fault", "report it", "Exception ignored", "Warning:")


def limited(workspace: Any, kind: str, limit: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that may open or write only so much."""
    return started(workspace, [sys.executable, "-c", LIMITED, kind, str(limit), str(TOY), *words])


def in_shell(workspace: Any, words: str, streams: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(TOY))} {words} {streams}"
    return started(workspace, ["sh", "-c", command])


def started(workspace: Any, command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=workspace.root, env=workspace.env, capture_output=True, text=True, errors="replace", check=False
    )
    assert not [word for word in NOT_A_FAULT if word in done.stderr], done.stderr
    return done


@pytest.mark.req("LY-42", "EN-25")
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        *(("RLIMIT_FSIZE", 400), ("RLIMIT_FSIZE", 2000), ("RLIMIT_NOFILE", 10)),
        *long(*(("RLIMIT_FSIZE", limit) for limit in (0, 100, 300, 600, 1000, 3500, 6000))),
        *long(*(("RLIMIT_NOFILE", limit) for limit in (6, 8, 14, 20))),
    ],
)
def test_no_room_anywhere_is_exit_5_with_what_to_do_and_the_run_goes_on(workspace: Any, kind: str, limit: int) -> None:
    """Wherever it strikes: nothing is damaged, no temporary file stays, and with room again the run completes."""
    first = limited(workspace, kind, limit, "run", "toy", "a", "--mode", "quick")
    if first.returncode != 0:
        assert first.returncode == 5
        assert "  to do: " in first.stderr or "planner: crashed" in first.stderr  # the agent had no room either
    again = workspace("run", "toy", "a", "--mode", "quick")
    if again.code == 5:  # the agent had no room either: its failure was the run's end, and a new one follows
        assert workspace.events(0)[-1] == "run.end"
        again = workspace("run", "toy", "a", "--mode", "quick")
    assert again.code == 0
    assert workspace("show", "latest", "--verify").code == 0
    assert [path for path in workspace.root.rglob("*") if path.name.endswith(".tmp")] == []


@pytest.mark.req("LY-42")
def test_no_room_at_a_gate_loses_no_decision(workspace: Any) -> None:
    """The decision is refused with what to do, or it is recorded; it can be made again."""
    workspace("run", "toy", "a")
    refused = limited(workspace, "RLIMIT_FSIZE", 200, "approve", "latest")
    assert refused.returncode == 5
    assert workspace.events().count("gate.decided") == 0
    assert workspace("approve", "latest", "--resume").code == 0
    assert workspace.events().count("gate.decided") == 1


@pytest.mark.req("LY-42")
@pytest.mark.parametrize(
    "words", ["runs", *long("runs --json", "show latest", "logs latest", "report latest", "--help")]
)
def test_an_answer_that_cannot_be_written_is_said_on_stderr(workspace: Any, words: str) -> None:
    """stdout is a full disk: exit 5; stdout is closed: nothing to say; both without a traceback."""
    workspace("run", "toy", "a", "--mode", "quick")
    full = in_shell(workspace, words, ">/dev/full")
    assert full.returncode == 5
    assert "no space left on device" in full.stderr
    assert in_shell(workspace, words, ">&-").returncode == 0
    assert in_shell(workspace, words, "2>&-").returncode == 0
    assert in_shell(workspace, words, "<&- >&- 2>&-").returncode == 0


@pytest.mark.req("LY-42")
def test_a_file_of_the_run_never_gets_the_number_of_a_closed_stream(workspace: Any) -> None:
    """With stdin, stdout and stderr closed the run works, and nothing that is printed gets into its files."""
    done = in_shell(workspace, "run toy a --mode quick", "<&- >&- 2>&-")
    assert done.returncode == 0
    assert workspace("show", "latest", "--verify").code == 0
    assert workspace.events()[-1] == "run.end"


@pytest.mark.req("LY-42")
def test_a_workspace_that_may_not_be_written_to(router: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Looking works; starting is exit 5 and says whom to ask."""
    router("run", "router", "/plan 196")
    with tempfile.TemporaryDirectory() as folder:  # those of the tests are closed to other users
        root = Path(folder, "work")
        Path(folder).chmod(0o755)
        shutil.copytree(router.root, root)
        looks = (["runs"], ["show", "latest"], ["logs", "latest"], ["report", "latest"])
        start = ["run", "router", "/plan 196", "-C", str(root)]
        for words in looks:  # once as we are: what is imported later may be closed to other users, too
            assert guarded([*words, "-C", str(root)]) == 0
        guarded([*start, "--dry-run"])
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        capsys.readouterr()
        with ordinary_user():
            assert [guarded([*words, "-C", str(root)]) for words in looks] == [0, 0, 0, 0]
            assert guarded(start) == 5
        said = capsys.readouterr().err
        assert "permission denied" in said
        assert "Give the user who runs interlock the permission" in said
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.req("LY-42")
def test_a_folder_that_is_gone(workspace: Any, tmp_path: Path) -> None:
    """Where the person stands, or what -C names: exit 2, in one sentence."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = (
        f"cd {shlex.quote(str(gone))} && rmdir ../gone && {shlex.quote(sys.executable)} {shlex.quote(str(TOY))} runs"
    )
    done = started(workspace, ["sh", "-c", command])
    assert (done.returncode, done.stdout) == (2, "")
    assert "the folder you are in is gone" in done.stderr
    assert workspace("runs", "-C", str(gone)).code == 2


@pytest.mark.req("LY-42")
@pytest.mark.parametrize("in_the_way", ["a file", "a link in a circle", "a folder that may not be listed"])
def test_something_in_the_place_of_our_folder(workspace: Any, in_the_way: str) -> None:
    """`.interlock` is no folder: refused at the start, with where; nothing is removed."""
    place = workspace.root / ".interlock"
    if in_the_way == "a file":
        place.write_text("a person's")
    elif in_the_way == "a link in a circle":
        place.symlink_to(".interlock")
    else:
        place.mkdir(mode=0o000)
    refused = workspace("run", "toy", "a", "--mode", "quick")
    if os.geteuid() != 0 or in_the_way != "a folder that may not be listed":
        assert refused.code in (2, 5)
        assert ".interlock" in refused.stderr
        assert "  to do: " in refused.stderr
    assert not [word for word in NOT_A_FAULT if word in refused.stderr]
    assert os.path.lexists(place)


@pytest.mark.req("LY-42")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", ""], "there is no run ''"),
        (["show", "../../etc"], "there is no run '../../etc'"),
        (["show", "x" * 5000], "there is no run"),
        *long((["show", "a\nb"], "there is no run"), (["logs", "*"], "there is no run '*'")),
        *long((["recover", "none"], "there is no run 'none'")),
        (["run", "toy", "a", "--budget", "nan"], "budget"),
        (["run", "toy", "a", "--budget", "1e999"], "a budget is a number"),
        (["answer", "latest", "\udcff"], "CHOICE is not valid UTF-8"),
        (["run", "toy", "caf\udce9"], "WORD is not valid UTF-8"),
        (["reject", "latest", "--note", "\udcff"], "NOTE is not valid UTF-8"),
    ],
)
def test_odd_words_are_exit_2_in_one_sentence(workspace: Any, words: list[str], said: str) -> None:
    """Neither a fault nor a guess."""
    workspace("run", "toy", "first", "--mode", "quick")
    done = subprocess.run(
        [sys.executable, str(TOY), *map(os.fsencode, words)],
        cwd=workspace.root,
        env=workspace.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert len(done.stderr) < 12_000


@pytest.mark.req("LY-31", "LY-42")
def test_a_workspace_of_any_name_can_be_worked_in(workspace: Any, tmp_path: Path) -> None:
    """Brackets, spaces, a line break, bytes that are not UTF-8."""
    odd = tmp_path / "wo rk[1]\n*caf\udce9"
    workspace.root.rename(odd)
    done = subprocess.run(
        [sys.executable, str(TOY), "run", "toy", "a", "--mode", "quick", "-C", os.fsencode(odd), "--json"],
        cwd=tmp_path,
        env=workspace.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"
    for words in (
        ["runs"],
        ["show", "latest"],
        ["report", "latest", "--html", os.fsencode(tmp_path / "caf\udce9.html")],
    ):
        command = [sys.executable, str(TOY), *words, "-C", os.fsencode(odd)]
        assert (
            subprocess.run(command, cwd=tmp_path, env=workspace.env, capture_output=True, check=False).returncode == 0
        )
    assert (tmp_path / "caf\udce9.html").exists()


@pytest.mark.req("LY-42")
@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left on device", "/some/where"), 5, "Free some space"),
        (OSError(24, "Too many open files"), 5, "ulimit -n"),
        (PermissionError(13, "Permission denied", b"/some/caf\xe9"), 5, "permission"),
        (FileNotFoundError(2, "No such file or directory", "/some/where"), 5, "put it back"),
        (OSError("in words only"), 5, "See why the operating system refuses this"),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
        (MemoryError(), 5, "not enough memory"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), 2, "not valid Unicode"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_the_system_says_is_no_fault_of_ours(
    error: Exception,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wherever it comes from, unforeseen: words, an exit code of the table, what to do; nobody is to report it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def glances(_root: Path, _playbook: str | None) -> None:
        raise error

    monkeypatch.setattr("interlock.cli.runs.glances", glances)
    assert guarded(["runs", "-C", str(tmp_path)]) == code
    told = capsys.readouterr().err
    assert said in told
    assert "to do: " in told
    assert "has a fault" not in told
    assert guarded(["runs", "-C", str(tmp_path), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["exit_code"] == code


@pytest.mark.req("LY-42")
def test_a_page_is_written_whole_or_not_at_all(workspace: Any) -> None:
    """An old page stays when there is no room for the new one; a device gets it as a stream."""
    workspace("run", "toy", "a", "--mode", "quick")
    page = workspace.root / "page.html"
    page.write_text("old")
    refused = limited(workspace, "RLIMIT_FSIZE", 100, "report", "latest", "--html", "page.html")
    assert refused.returncode == 2
    assert page.read_text() == "old"
    assert workspace("report", "latest", "--html", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.req("LY-40")
def test_pipes_in_the_run_folder_block_nobody(workspace: Any) -> None:
    """In the inbox, as a note of a lock, as a report, as a record, as a file of the run: every command comes back."""
    workspace("run", "toy", "a")
    folder = workspace.folders[0]
    (folder / "inbox").mkdir()
    places = [folder / "inbox" / "0123456789abcdef.json", folder / "report.md", folder / "page"]
    places += [next(folder.rglob("result.json")), workspace.root / ".interlock" / "locks" / "other.json"]
    for place in places:
        place.unlink(missing_ok=True)
        os.mkfifo(place)
    for words in (
        ["runs"],
        ["show", "latest"],
        ["logs", "latest"],
        ["report", "latest"],
        ["show", "latest", "--verify"],
    ):
        assert workspace(*words).code == 0, words
    assert workspace("approve", "latest", "--resume").code == 0
    assert places[0].is_fifo()
