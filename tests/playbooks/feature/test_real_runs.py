"""Whole features in real workspaces: files, git, layers, processes, the command line."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import RoleLibrary, Roster, ScriptedRunner
from interlock.app import open_runs
from interlock.engine.folder import known_runs
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Quiet, Runs
from interlock.errors import ConfigInvalid, Refused
from interlock.playbooks.feature import FeatureInputs, example_files, feature
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import MEMBERS

AT = Layout("login")
INPUTS = FeatureInputs("Add a login page", slug="login")
MEMORY = "# Memory\n## Status\n{status}\n## Highest Severity\n{severity}\n## Key Findings\n- {finding}\n"


def plan(*waves: str, first: int = 1) -> dict[str, str]:
    text = "# Plan\n\n## Execution Waves\n\n" + "\n".join(
        f"### Wave {number}\n\n" + "".join(f"- {one}: do it\n" for one in wave.split())
        for number, wave in enumerate(waves, first)
    )
    files = {AT.task(one): f"---\nid: {one}\n---\nDo it.\n" for wave in waves for one in wave.split()}
    return {AT.plan: text, **files}


@dataclass
class Place:
    """A workspace on disk; its agents are a scenario."""

    root: Path

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def scenario(self, *reactions: dict[str, Any]) -> None:
        self.write("scenario.json", json.dumps({"reactions": list(reactions)}))
        self.write("interlock.toml", '[runners.play]\ntype = "scripted"\nscenario = "scenario.json"\n')

    def app(self, **how: Any) -> Runs:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent)}
        return open_runs(self.root, Quiet(), environ=environ, runner=how.pop("runner", "play"), **how)

    def run(self, inputs: FeatureInputs = INPUTS, call: Call | None = None, **how: Any) -> Finished:
        app = self.app(**how)
        return asyncio.run(app.run(feature, inputs, call) if call else app.run(feature, inputs))

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout

    def text(self, path: str) -> str:
        return (self.root / AT.folder / path).read_text("utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path / "work")
    found.write("src/app.py", "".join(f"line_{number} = {number}\n" for number in range(40)))
    found.scenario()
    found.git("init", "-q")
    found.git("add", ".")
    found.git("commit", "-qm", "start")
    return found


def events(finished: Finished, name: str) -> list[dict[str, Any]]:
    return [line.data for line in finished.lines if line.event == name]


@pytest.mark.req("FT-150", "FT-155", "EN-38", "LY-06")
def test_parallel_tasks_change_real_code_in_layers_and_are_merged(place: Place) -> None:
    """Two tasks edit the same file in different places; both changes are there; the user's index is untouched, and
    neither a layer nor a worktree is left."""
    lines = (place.root / "src/app.py").read_text().splitlines(keepends=True)
    first = "".join(["# by T1\n", *lines])
    second = "".join([*lines, "# by T2\n"])
    place.scenario(
        {"agent": "planner", "files": plan("T1 T2")},
        {"member": "implementer-T1", "files": {"src/app.py": first, "src/t1.py": "1\n" * 120}},
        {"member": "implementer-T2", "files": {"src/app.py": second}},
    )
    finished = place.run()
    assert finished.exit_code == 0, finished
    text = (place.root / "src/app.py").read_text()
    assert text.startswith("# by T1\n") and text.endswith("# by T2\n")
    assert place.git("diff", "--cached", "--name-only") == ""
    (tier,) = events(finished, "review.tier")
    assert (tier["tier"], tier["files"], tier["lines"]) == ("Standard", 2, 122)
    patch = place.root / next(line.data["out"]["patch"] for line in finished.lines if line.event == "changes")
    assert "+# by T2" in patch.read_text() and "docs/feature" not in patch.read_text()
    assert place.git("worktree", "list").count("\n") == 1
    assert list((place.root / ".interlock/layers").glob("feature-*")) == []


@pytest.mark.long
def test_a_real_conflict_is_the_second_tasks_failure(place: Place) -> None:
    """The tree keeps the first; the second is planned again and then meets the new state."""
    base = (place.root / "src/app.py").read_text()
    place.scenario(
        {"agent": "planner", "times": 1, "files": plan("T1 T2")},
        {"agent": "planner", "files": plan("T2", first=2)},
        {"member": "implementer-T1", "files": {"src/app.py": base.replace("line_5 = 5", "line_5 = 'one'")}},
        {
            "member": "implementer-T2",
            "times": 1,
            "files": {"src/app.py": base.replace("line_5 = 5", "line_5 = 'two'")},
        },
        {"member": "implementer-T2", "append": {"src/app.py": "line_40 = 40\n"}},
        {
            "agent": "v-tasks",
            "times": 1,
            "files": {AT.mem("v-tasks"): MEMORY.format(status="NEEDS_REVISION", severity="FAIL", finding="T2")},
            "status": "NEEDS_REVISION",
        },
    )
    finished = place.run()
    assert finished.exit_code == 0, finished
    (conflict,) = events(finished, "task.conflict")
    assert (conflict["task"], conflict["paths"]) == ("T2", ["src/app.py"])
    text = (place.root / "src/app.py").read_text()
    assert "line_5 = 'one'" in text and text.endswith("line_40 = 40\n")


@pytest.mark.long
def test_a_folder_without_git_is_warned_of_and_works(tmp_path: Path) -> None:
    """Snapshots serve as diff context."""
    place = Place(tmp_path / "plain")
    place.scenario({"agent": "implementer", "files": {"a.py": "x = 1\n"}})
    finished = place.run()
    assert finished.exit_code == 0
    warning = "git diff context not available: the workspace is not a git repository; snapshots are used instead"
    assert warning in [one["text"] for one in events(finished, "warning")]
    assert (place.root / "a.py").exists()
    assert events(finished, "review.tier")[0]["files"] == 1


@pytest.mark.long
@pytest.mark.req("EN-18", "EN-17")
def test_what_follows_a_complete_run(place: Place) -> None:
    """Refused with the exact words; with --new-run it runs again and keeps what lives on."""
    assert place.run().exit_code == 0
    place.write(AT.decisions, "# Decisions\n\n- by a person\n")
    with pytest.raises(Refused) as caught:
        place.run()
    assert caught.value.what == (
        "docs/feature/login exists and its run is DONE; use --new-run to run again "
        "(memory, decisions and suggestions are kept)"
    )
    assert caught.value.exit_code == 2
    again = place.run(FeatureInputs("Add a logout page", slug="login"), Call(new_run=True))
    assert again.exit_code == 0
    assert "by a person" in place.text("decisions.md")
    assert "- [r-security, step-7] Nothing to add." in place.text("memory.md")
    assert len(list((place.root / AT.folder / "agent-metrics").iterdir())) == 2


@pytest.mark.req("EN-20")
def test_a_failed_run_is_retried_where_it_failed(place: Place) -> None:
    """Everything before the failure stands; the person sees a complete run."""
    place.scenario({"agent": "r-security", "status": "ERROR", "message": "no network"})
    finished = place.run()
    assert finished.exit_code == 5
    assert str(finished.output).startswith("ERROR: review: a verdict that is needed is not usable")
    place.scenario()
    app = place.app()
    retried = asyncio.run(app.resume(finished.run_id, Call(retry=True)))
    assert retried.exit_code == 0
    starts = Counter(line.data["member"] for line in retried.lines if line.event == "dispatch.start")
    assert starts["spec"] == starts["implementer-T01"] == 1 and starts["r-security"] == 3


def test_an_agent_that_is_not_configured_is_refused_at_the_start(tmp_path: Path) -> None:
    """By its name, before anything is written; several are all named."""
    library = RoleLibrary(tmp_path, [])
    for name in MEMBERS.agents:
        if name not in ("ct-strategy", "planner"):
            path = tmp_path / ".interlock/agents" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\nname: {name}\n---\nWork.\n")
    roster = Roster(
        "feature",
        library,
        facts=lambda _agent: Place(tmp_path).app(runner="scripted").setup.settings.agent("feature", _agent),
        default_runner=lambda: "scripted",
        make_runner=lambda name: ScriptedRunner(None, name=name, inherit={}),
    )
    with pytest.raises(ConfigInvalid) as caught:
        roster.bind_all(feature.agents)
    assert "2 agents of feature are not configured" in caught.value.what
    assert "ct-strategy" in caught.value.what and "planner" in caught.value.what
    assert caught.value.exit_code == 2


@pytest.mark.long
@pytest.mark.req("CM-22", "FT-155")
def test_a_run_cut_off_anywhere_ends_with_the_same_documents(place: Place, tmp_path: Path) -> None:
    """Copies of the workspace from within a run, each resumed to its end; no finished dispatch is paid again."""
    place.scenario({"agent": "implementer", "files": {"src/new.py": "x = 1\n"}})
    copies: list[Path] = []
    seen = 0

    def copy(_point: str) -> None:
        nonlocal seen
        seen += 1
        if seen % 130 == 60:
            copies.append(tmp_path / f"copy-{seen}")
            dropped = shutil.ignore_patterns("*.gone")  # they are being removed
            shutil.copytree(place.root, copies[-1], symlinks=True, ignore=dropped)

    assert place.run(tripwire=copy).exit_code == 0
    expected = documents(place.root)
    assert len(copies) >= 3
    for root in copies:
        ended = {
            line.key for known in known_runs(root) for line in known.folder.lines() if line.event == "dispatch.end"
        }
        finished = Place(root).run()
        assert finished.exit_code == 0
        assert documents(root) == expected
        starts = Counter(line.key for line in finished.lines if line.event == "dispatch.start")
        assert all(starts[key] == 1 for key in ended)


def documents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".interlock", ".git"} & set(path.relative_to(root).parts)
    }


# -- the command line


def interlock(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-m", "interlock", *words]
    return subprocess.run(command, cwd=root, env={**known, **env}, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.req("FT-17", "FT-125", "FT-134")
def test_the_door_waits_for_a_person_and_goes_on(place: Place) -> None:
    """Exit 4 with the gate; approve, resume, approve, resume; then DONE."""
    place.scenario({"agent": "implementer", "files": {"src/login.py": "x = 1\n"}})
    first = interlock(place.root, "run", "feature", "Add", "a", "login", "page", "--slug", "login", "--approval")
    assert first.returncode == 4, first.stderr
    assert interlock(place.root, "approve", "latest", "--note", "good").returncode == 0
    assert interlock(place.root, "resume", "latest").returncode == 4
    assert interlock(place.root, "approve", "latest").returncode == 0
    last = interlock(place.root, "resume", "latest")
    assert (last.returncode, last.stdout) == (0, "DONE: feature login is complete\n")


@pytest.mark.req("FT-01", "FT-17")
@pytest.mark.parametrize(
    ("words", "env", "message"),
    [
        (["", "--slug", "x"], {}, "Feature request is empty"),
        (["Add it", "--slug", "../x"], {}, 'Invalid feature slug "../x": use lower-case letters, digits and "-"'),
        (["Add it"], {"APPROVAL_MODE": "maybe"}, 'APPROVAL_MODE must be true or false; found "maybe"'),
    ],
)
def test_bad_input_is_exit_2_and_leaves_nothing(
    place: Place, words: list[str], env: dict[str, str], message: str
) -> None:
    """The tree is byte for byte as it was."""
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    refused = interlock(place.root, "run", "feature", *words, **env)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_the_door_hands_over_every_option(place: Place) -> None:
    """Options over the variable over settings; all of them are inputs of the run."""
    place.write(
        "interlock.toml",
        '[runners.play]\ntype = "scripted"\n[feature]\nstrict = true\nscheduling = "eager"\napproval = true\n'
        'check_commands = ["false"]\n',
    )
    done = interlock(
        place.root, "run", "feature", "Add it", "--no-strict", "--approve-replans", "--post-mortem-on-halt", "--no-git",
        "--approval-fallback", "proceed", "--check", "true", "--check", "test -d .", "--json", APPROVAL_MODE="true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"].startswith("DONE: feature add-it is complete")
    (known,) = known_runs(place.root)
    assert known.identity.inputs == {
        "request": "Add it", "slug": "", "approval": True, "approval_fallback": "proceed", "approve_replans": True,
        "strict": False, "post_mortem_on_halt": True, "scheduling": "eager", "git": False,
        "check_commands": ["true", "test -d ."],
    }  # fmt: skip


@pytest.mark.req("CM-32")
def test_a_dry_run_shows_the_first_brief_and_changes_nothing(place: Place) -> None:
    """A researcher's."""
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    shown = interlock(place.root, "run", "feature", "Add a login page", "--dry-run")
    assert shown.returncode in (0, 4), shown.stderr
    assert "researcher-architecture" in shown.stdout
    assert {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_the_example_scenario_revises_and_replans(tmp_path: Path) -> None:
    """What `init` writes for a try without agents goes through a design revision and one replan."""
    place = Place(tmp_path / "demo")
    for path, text in example_files().items():
        place.write(path, text)
    place.write("interlock.toml", '[runners.play]\ntype = "scripted"\nscenario = "feature-scenario.yaml"\n')
    finished = place.run(FeatureInputs("Add a greeting"))
    assert finished.exit_code == 0
    called = Counter(line.data["member"] for line in finished.lines if line.event == "dispatch.start")
    assert (called["designer"], called["ct-strategy"], called["planner"], called["v-build"]) == (2, 2, 2, 2)
    assert "Hello" in (place.root / "greeting.py").read_text()


@pytest.mark.long
@pytest.mark.req("EV-20", "EV-21", "CM-19")
def test_a_rejected_plan_is_made_again_by_the_command_that_the_gate_prints(place: Place) -> None:
    """`reject`, then a plain `resume`: the planner is called again with the note, nobody else, and the gate waits."""
    place.scenario({"agent": "planner", "files": plan("T1 T2 T3")})
    first = interlock(place.root, "run", "feature", "Add a login page", "--slug", "login", "--approval")
    assert first.returncode == 4
    assert interlock(place.root, "approve", "latest", "--resume").returncode == 4
    (known,) = known_runs(place.root)
    rejected = interlock(place.root, "reject", "latest", "--note", "too many tasks")
    assert rejected.returncode == 0
    assert f"resume {known.identity.run_id}" in rejected.stderr
    place.scenario({"agent": "planner", "files": plan("T1")})
    again = interlock(place.root, "resume", known.identity.run_id)
    assert again.returncode == 4, again.stderr
    calls = [line for line in known.folder.lines() if line.event == "dispatch.start"]
    called = Counter(line.data["member"] for line in calls)
    assert (called["planner"], called["spec"], called["researcher-impact"]) == (2, 1, 1)
    brief = place.root / ".interlock/runs" / known.identity.run_id / "dispatches" / str(calls[-1].key) / "brief.md"
    assert "too many tasks" in brief.read_text("utf-8").partition("## Said by people")[2]
    assert not (place.root / AT.task("T3")).exists()
    assert interlock(place.root, "approve", "latest", "--resume").returncode == 0
    assert len(known_runs(place.root)) == 1


CHECK = "! grep -rq BROKEN src"


@pytest.mark.req("EV-05")
def test_a_red_check_stops_the_door_before_any_agent(place: Place) -> None:
    """Exit 3; what was run, from where, and what helps are said."""
    place.write("src/old.py", "BROKEN\n")
    stopped = interlock(place.root, "run", "feature", "Add a login page", "--check", CHECK)
    assert stopped.returncode == 3, stopped.stderr
    assert CHECK in stopped.stderr and "--accept-baseline" in stopped.stderr
    (known,) = known_runs(place.root)
    lines = known.folder.lines()
    assert not [line for line in lines if line.event == "dispatch.start"]
    assert [line.data["commands"] for line in lines if line.event == "preflight"] == [[f"check: {CHECK}, from --check"]]


@pytest.mark.long
@pytest.mark.req("EV-04")
def test_a_check_is_really_run_at_verification(place: Place) -> None:
    """Broken by an implementer who says DONE: planned again, then green."""
    place.scenario(
        {"agent": "planner", "times": 1, "files": plan("T1")},
        {"agent": "planner", "files": plan("T2")},
        {"member": "implementer-T1", "files": {"src/new.py": "BROKEN\n"}},
        {"member": "implementer-T2", "files": {"src/new.py": "x = 1\n"}},
    )
    finished = place.run(FeatureInputs("Add a login page", slug="login", check_commands=[CHECK]))
    assert finished.exit_code == 0, finished
    assert [one["exit"] for one in events(finished, "proof")] == [0, 1, 0]
