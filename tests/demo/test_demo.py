"""The demo: what `make demo` shows is what it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.demo.account import Account, most_at_once
from interlock.demo.tour import Tour
from interlock.demo.workspace import MARKER, SCENARIO, make
from interlock.engine.folder import RunFolder, known_runs
from interlock.engine.journal import Line
from interlock.errors import Refused

SCENES = "cast/scenes"
HOSTILE = {"INTERLOCK_RUNNER": "no-such-runner", "APPROVAL_MODE": "maybe", "GIT_DIR": "no-such-folder"}
"""Settings of the caller that are none of the demo's business."""


def demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m interlock.demo` in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "interlock.demo", *words],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **HOSTILE},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Shown:
    """A finished demo: what it printed, and what is there."""

    out: str
    err: str
    folder: Path

    @property
    def run(self) -> RunFolder:
        (known,) = known_runs(self.folder)
        return known.folder

    def events(self, name: str) -> list[Line]:
        return [line for line in self.run.lines() if line.event == name]

    def decisions(self, rule: str) -> list[Mapping[str, Any]]:
        return [line.data for line in self.events("decide") if line.data["out"]["rule"] == rule]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    home = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    done = demo(home, "--fast")
    print(f"the demo without its pauses took {time.monotonic() - began:.1f} s")
    assert done.returncode == 0, done.stderr
    return Shown(done.stdout, done.stderr, home / "demo")


def suite(folder: Path) -> subprocess.CompletedProcess[str]:
    """The sample's own tests, really run."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_tour_tells_what_happened_and_how_to_go_on(shown: Shown) -> None:
    """Request, account, proof, report and next commands are printed; the rows are those of the journal."""
    assert 'interlock run feature "Export the expenses of a month as CSV, for use in a spreadsheet"' in shown.out
    assert "DONE: feature csv-export is complete" in shown.out
    told = " ".join(shown.out.partition("What you saw")[2].split())
    for fact in (
        "It went back once (cap: 1)",
        "ct_cluster -> NEEDS_REVISION, from: security High, scalability Low, maintainability Low, strategy Low",
        "wave 2: T03, T04, D01",
        "documentation-writer-D01 also changed purse/__main__.py",
        "planned anew, once (cap: 3)",
        "test_a_refund_comes_back_as_a_number fails: AssertionError: \"'-4.50\" != '-4.50'",
        "v_cluster -> NEEDS_REVISION, from: build DONE, tests NEEDS_REVISION, tasks DONE, feature NEEDS_REVISION",
        "v_cluster -> DONE, from: build DONE, tests DONE, tasks DONE, feature DONE",
        "interlock ran python3 -B -m unittest -q: exit 0, 1, 0",
        "r_cluster -> DONE, from: security DONE/None, quality DONE/Minor, testing DONE/Minor",
        "2026-03-09,-4.50,Refund for the train",
        "show latest -C demo",
    ):
        assert fact in told, fact


@pytest.mark.long
def test_every_path_that_the_tour_names_is_there(shown: Shown) -> None:
    """Report, documents, the patch that was not taken over, the answer with the failed test."""
    named = [word.rstrip(",") for word in shown.out.split() if word.startswith("demo/") and word != "demo/"]
    names = {Path(one).name for one in named}
    assert names >= {"report.html", "report.md", "output.md", "csv-export"}
    assert any(re.fullmatch(r"outside-\d+\.patch", name) for name in names)
    for one in named:
        assert (shown.folder.parent / one).exists(), one


@pytest.mark.long
def test_the_feature_really_works(shown: Shown) -> None:
    """The sample's tests pass, and so does the command that was asked for."""
    done = suite(shown.folder)
    assert done.returncode == 0, done.stderr
    assert "Ran 12 tests" in done.stderr and "Ran 12 tests" in shown.err
    export = [sys.executable, "-B", "-m", "purse", "export", "expenses.txt", "--month", "2026-03"]
    text = subprocess.run(export, cwd=shown.folder, capture_output=True, text=True, check=True).stdout
    assert text in shown.out and text in (shown.folder / "README.md").read_text("utf-8")


@pytest.mark.long
def test_without_the_replanned_task_a_test_really_fails(shown: Shown, tmp_path: Path) -> None:
    """Taking back what T05 changed brings the failure back that the verification saw."""
    before = shutil.copytree(shown.folder, tmp_path / "before")
    (ended,) = [line for line in shown.events("dispatch.end") if line.data["member"] == "implementer-T05"]
    patch = shown.run.path / "dispatches" / str(ended.key) / "changes.patch"
    subprocess.run(["git", "apply", "--reverse", "--include=purse/*", patch], cwd=before, check=True)
    done = suite(before)
    assert done.returncode == 1
    assert "FAIL: test_a_refund_comes_back_as_a_number" in done.stderr


@pytest.mark.long
def test_exactly_one_revision_and_one_replan(shown: Shown) -> None:
    """By the rows in the journal: two decisions each of CT and V, one turn of each loop, one review."""
    severities = [list(row["named"].values()) for row in shown.decisions("ct_cluster")]
    assert severities == [["High", "Low", "Low", "Low"], ["Low"] * 4]
    assert [row["out"]["result"] for row in shown.decisions("ct_cluster")] == ["NEEDS_REVISION", "DONE"]
    statuses = [list(row["named"].values())[:4] for row in shown.decisions("v_cluster")]
    assert statuses == [["DONE", "NEEDS_REVISION", "DONE", "NEEDS_REVISION"], ["DONE"] * 4]
    assert [row["out"]["result"] for row in shown.decisions("v_cluster")] == ["NEEDS_REVISION", "DONE"]
    assert [row["out"]["result"] for row in shown.decisions("r_cluster")] == ["DONE"]
    turns = [line.data["loop"] for line in shown.events("loop")]
    assert (turns.count("ct"), turns.count("replan")) == (1, 1)


@pytest.mark.long
def test_waves_run_side_by_side(shown: Shown) -> None:
    """All tasks of a wave are started before the first of them ends."""
    waves = {number: tasks for line in shown.events("waves") for number, tasks in line.data["waves"].items()}
    assert waves == {"1": ["T01", "T02"], "2": ["T03", "T04", "D01"], "3": ["T05"]}
    for number, tasks in waves.items():
        started = ended = 0
        for line in shown.run.lines():
            if f"/wave-{number}/" in str(line.key):
                started += line.event == "dispatch.start" and ended == 0
                ended += line.event == "dispatch.end"
        assert started >= len(tasks) and ended == len(tasks)
    assert most_at_once(shown.run.lines()) == 4


@pytest.mark.long
def test_what_an_agent_wrote_outside_its_task_is_kept_and_not_taken_over(shown: Shown) -> None:
    """The documentation writer's edit of the program is in a patch, not in the program; its second try counts."""
    (violation,) = shown.events("scope.violation")
    assert violation.data["paths"] == ["purse/__main__.py"]
    assert "adds everything up" in (shown.folder / violation.data["patch"]).read_text("utf-8")
    assert "adds everything up" not in (shown.folder / "purse/__main__.py").read_text("utf-8")
    (ended,) = [line for line in shown.events("dispatch.end") if line.data["member"] == "documentation-writer-D01"]
    assert (ended.data["outcome"], ended.data["tries"]) == ("OK", 2)


@pytest.mark.long
def test_nothing_is_left_to_chance_or_behind(shown: Shown) -> None:
    """No agent failed or was filled in for, no warning was given, the records are whole, the tree is as shown."""
    assert {line.data["outcome"] for line in shown.events("dispatch.end")} == {"OK", "REVISE"}
    assert not shown.events("warning") and not shown.events("scope.cleaned")
    assert shown.run.verify() == []
    assert "Written by the scripted agent" not in shown.out
    for path in (shown.folder / "docs").rglob("*.md"):
        assert "Nothing to add." not in path.read_text("utf-8"), path
    status = subprocess.run(["git", "status", "--short"], cwd=shown.folder, capture_output=True, text=True, check=True)
    assert status.stdout in shown.out


@pytest.mark.long
def test_every_scene_is_played(shown: Shown) -> None:
    """No scene is left over, and no agent was without one."""
    members = {line.data["member"] for line in shown.events("dispatch.start")}
    scenario = (shown.folder / SCENARIO).read_text("utf-8")
    for scene in (shown.folder / SCENES).iterdir():
        assert scene.name in members or re.search(rf"play\.py, {scene.name}\]", scenario), scene.name


@pytest.mark.long
def test_the_demo_can_be_run_again(shown: Shown, tmp_path: Path) -> None:
    """The second time the folder is made anew, and everything happens once more."""
    folder = shutil.copytree(shown.folder, tmp_path / "demo")
    (folder / "left-over.txt").write_text("x", "utf-8")
    done = demo(tmp_path, "--fast")
    assert done.returncode == 0, done.stderr
    (known,) = known_runs(folder)
    assert known.identity.run_id != shown.run.run_id
    assert not (folder / "left-over.txt").exists()
    assert Account(known.folder.lines(), folder).turns("replan") == 1


def test_ctrl_c_is_left_to_the_run(tmp_path: Path) -> None:
    """The run ends in order and says how to go on; the demo ends with its exit code and no traceback."""
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.demo"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "started" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate()[1]
    assert process.returncode == 130, said
    assert "interlock resume" in said and "Traceback" not in said


@pytest.mark.long
def test_a_run_that_is_not_as_announced_is_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With agents that find nothing, there is neither revision nor replan, and the tour says so."""
    folder = make(tmp_path / "demo")
    (folder / SCENARIO).write_text("reactions: []\n", "utf-8")
    assert Tour(folder).walk() == 1
    assert "has not revised and replanned once" in capfd.readouterr().err


def test_a_command_that_fails_is_the_tours_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of the command."""
    folder = make(tmp_path / "demo")
    (folder / "interlock.toml").write_text("runer = 1\n", "utf-8")
    assert Tour(folder).walk() == 2
    assert "This ended with exit code 2; 0 was expected." in capfd.readouterr().err


def test_only_a_folder_of_its_own_is_made_anew(tmp_path: Path) -> None:
    """A folder with the marker is removed and remade; any other, and a file, is refused and left alone."""
    folder = make(tmp_path / "demo")
    (folder / "left-over.txt").write_text("x", "utf-8")
    make(folder)
    assert not (folder / "left-over.txt").exists()
    (folder / MARKER).unlink()
    with pytest.raises(Refused):
        make(folder)
    assert (folder / "interlock.toml").exists()
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(Refused):
        make(tmp_path / "file")
    assert (tmp_path / "file").read_text("utf-8") == "mine"


def test_a_folder_of_somebody_else_is_exit_2(tmp_path: Path) -> None:
    """With what was expected and what to do, and no traceback."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/mine.txt").write_text("mine", "utf-8")
    done = demo(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: demo is there already and is not a demo") and "FOLDER" in done.stderr
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.txt"]


# -- the cast


def put(folder: Path, *scenes: str) -> None:
    """What these scenes write into the repository."""
    for scene in scenes:
        shutil.copytree(folder / SCENES / scene / "code", folder, dirs_exist_ok=True)


def verdict(folder: Path, verifier: str) -> str:
    """The last line of a verifier's answer."""
    command = [sys.executable, "-B", "cast/verify.py", verifier]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


BUILT = ("implementer-T01", "implementer-T02", "implementer-T03", "implementer-T04")


def test_verifiers_judge_the_code_that_is_there(tmp_path: Path) -> None:
    """With the mistake they say no, without it yes, and where nothing was built no again."""
    folder = make(tmp_path / "demo")
    assert verdict(folder, "v-feature").startswith("NEEDS_REVISION: ")
    put(folder, *BUILT)
    assert verdict(folder, "v-build").startswith("DONE: ")
    assert verdict(folder, "v-tests").startswith("NEEDS_REVISION: test_a_refund_comes_back_as_a_number fails")
    assert verdict(folder, "v-feature") == "NEEDS_REVISION: A2: the amount '-4.50 is not a number"
    put(folder, "implementer-T05")
    assert {verdict(folder, one).partition(":")[0] for one in ("v-build", "v-tests", "v-feature")} == {"DONE"}
    (folder / "purse/export.py").write_text("def\n", "utf-8")
    assert verdict(folder, "v-build").startswith("ERROR: ")


def test_the_flaw_that_the_critic_finds_is_real(tmp_path: Path) -> None:
    """Written as the first design has it, a text of the sample file is taken for a formula."""
    folder = make(tmp_path / "demo")
    put(folder, *BUILT, "implementer-T05")
    export = folder / "purse/export.py"
    export.write_text(export.read_text("utf-8").replace("guarded(entry.text)", "entry.text"), "utf-8")
    assert verdict(folder, "v-feature") == "NEEDS_REVISION: A3: '-20% sale: shoes' is taken for a formula"


def test_an_implementer_whose_tests_fail_says_so(tmp_path: Path) -> None:
    """The export cannot be done before the modules that it needs."""
    folder = make(tmp_path / "demo")
    command = [sys.executable, "-B", "cast/play.py", "implementer-T03", "tests.test_export"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "ERROR: python3 -m unittest tests.test_export fails"
