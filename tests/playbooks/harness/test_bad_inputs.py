"""Every bad input of the specification (section 6, by its number), at the command line and with real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.playbooks.harness.ledger import MISSING
from interlock.playbooks.harness.standards import CONTRACTS
from interlock.playbooks.harness.templates import RUN_STATE as TEMPLATE
from tests.playbooks.harness.conftest import ARTIFACTS, QA_REPORT, REPORT, RUN_STATE, TASK, TASK_FILE, Bench
from tests.playbooks.harness.place import Place

Change = Callable[[Place], object]
LIFECYCLE = "harness/standards/task-lifecycle.md"
STAGES = "Specification, Design, Implementation Planning, Build, QA, Awaiting Approval, Complete"


def edit(path: str, old: str, new: str) -> Change:
    """A person changes one passage; it must be there."""

    def change(place: Place) -> None:
        assert old in place.read(path)
        place.write(path, place.read(path).replace(old, new, 1))

    return change


def gone(path: str) -> Change:
    return lambda place: (place.root / path).unlink()


def stands(until: str, *after: Change) -> Change:
    """The task as a run left it behind this stage, without any journal; then changes by a person."""

    def change(place: Place) -> None:
        bench = Bench()
        bench.autonomous().play(flags={"until": until})
        for path, content in bench.tree.items():
            if not path.startswith(".interlock/"):
                place.write(path, content.decode())
        for one in after:
            one(place)

    return change


def without_qa(place: Place) -> None:
    place.write(CONTRACTS, place.read(CONTRACTS).split("## QA")[0])


def as_a_link(place: Place) -> None:
    stands("Design")(place)
    (place.root / RUN_STATE).rename(place.root / "elsewhere.md")
    (place.root / RUN_STATE).symlink_to(place.root / "elsewhere.md")


def with_a_second_task(place: Place) -> None:
    text = place.read(TASK_FILE).replace(TASK, "TASK-002")
    place.write("harness/tasks/TASK-002.md", text)


def nothing(_place: Place) -> None:
    return None


REFUSED: dict[str, tuple[Change, tuple[str, ...], str]] = {
    "1 no task": (nothing, (), f"No task to run: name a task or provide {RUN_STATE}"),
    "2 no task file": (nothing, ("TASK-012",), "Task file not found: harness/tasks/TASK-012.md"),
    "3 no Task ID": (
        edit(TASK_FILE, "- Task ID: TASK-001\n", ""),
        (TASK,),
        f"{TASK_FILE}: required metadata missing: Task ID",
    ),
    "4 another Task ID": (
        edit(TASK_FILE, "Task ID: TASK-001", "Task ID: TASK-1"),
        (TASK,),
        "Task ID TASK-1 does not match file TASK-001.md",
    ),
    "5 path outside": (
        edit(TASK_FILE, f"{ARTIFACTS}/design.md", "../x.md"),
        (TASK,),
        "Artifact path for Design leaves the repository: ../x.md",
    ),
    "6 same path twice": (
        edit(TASK_FILE, "build-report.md", "design.md"),
        (TASK,),
        f"Artifact paths for Design and Build are the same: {ARTIFACTS}/design.md",
    ),
    "7 no template": (gone(TEMPLATE), (TASK,), f"Missing required file: {TEMPLATE}"),
    "8 no contract": (
        stands("Build", without_qa),
        (TASK,),
        f"No input contract for stage QA in {CONTRACTS}",
    ),
    "9 no stage": (
        stands("Design", edit(RUN_STATE, "- Current Stage: ", "- Stage: ")),
        (TASK,),
        f"{RUN_STATE}: malformed: field Current Stage not found",
    ),
    "10 unknown stage": (
        stands("Design", edit(RUN_STATE, "Current Stage: Implementation Planning", "Current Stage: Testing")),
        (TASK,),
        f'Current Stage "Testing" is invalid; expected one of {STAGES}',
    ),
    "11 unknown status": (
        stands("Design", edit(RUN_STATE, "Current Status: Active", "Current Status: Done")),
        (TASK,),
        'Current Status "Done" is invalid; expected Active, Awaiting Approval, Blocked, Complete',
    ),
    "12 out of order": (
        stands("Design", edit(RUN_STATE, "- Specification\n- Design\n", "- Specification\n- Build\n")),
        (TASK,),
        "Completed Stages [Specification, Build] is not a prefix of the lifecycle",
    ),
    "18 another task": (
        stands("Design", with_a_second_task),
        ("TASK-002",),
        "Active task conflict: run-state is for TASK-001 (Active); requested TASK-002",
    ),
    "20 neither Yes nor No": (
        edit(TASK_FILE, "- Workflow Mode: standard", "- Require Approval Before Build: maybe"),
        (TASK,),
        'Require Approval Before Build: "maybe"; expected Yes or No',
    ),
    "22 a link": (as_a_link, (TASK,), f"{RUN_STATE} is a symlink; refusing to write"),
}


@pytest.mark.req("HN-23", "HN-110", "EN-24")
@pytest.mark.parametrize("row", REFUSED)
def test_a_start_that_cannot_be_is_refused_at_the_door(place: Place, row: str) -> None:
    """Its message with a cure, exit 2, nobody is called, nothing is created, and every byte is as it was."""
    change, task, message = REFUSED[row]
    change(place)
    before = place.tree()
    said = place.cli("run", "harness", *task)
    assert (said.returncode, said.stdout) == (2, "")
    assert message in said.stderr
    assert place.calls == []
    assert place.tree() == before


def kept(place: Place) -> dict[str, bytes]:
    """What no failing stage may change: task, standards, templates, and artifacts of stages before it."""
    return {
        path: content
        for path, content in place.tree().items()
        if path.startswith("harness/") and path not in (RUN_STATE, REPORT)
    }


@pytest.mark.req("HN-57", "HN-106")
def test_8_a_contract_that_is_missing_when_its_stage_comes(place: Place) -> None:
    """Somebody took it out while the run waited: Blocked, exit 3, and Build is not called."""
    assert place.cli("run", "harness", TASK).returncode == 4
    place.write(CONTRACTS, place.read(CONTRACTS).replace("stage: Build", "stage: Building"))
    before, calls = kept(place), place.calls
    assert place.cli("approve", "latest", "--resume").returncode == 3
    assert place.calls == calls
    assert (place.state.status, place.state.stage) == ("Blocked", "Build")
    assert place.state.stop_reason == f"{CONTRACTS}: malformed: stage 'Building' has no agent"
    assert before.items() <= kept(place).items()


@pytest.mark.req("EV-28")
def test_8_a_contract_of_a_later_stage_is_missed_before_anything_is_paid(place: Place) -> None:
    """Exit 2 at the start, whichever stage comes next."""
    stands("Implementation Planning", without_qa)(place)
    before = place.tree()
    said = place.cli("run", "harness", TASK)
    assert said.returncode == 2
    assert f"No input contract for stage QA in {CONTRACTS}" in said.stderr
    assert (place.calls, place.tree()) == ([], before)


@pytest.mark.req("HN-42")
def test_13_a_report_that_is_deleted_while_the_run_is_under_way(place: Place) -> None:
    """Not made up again: its message, exit 5, and no further agent is called."""
    assert place.cli("run", "harness", TASK).returncode == 4
    (place.root / REPORT).unlink()
    before, calls = kept(place), place.calls
    said = place.cli("approve", "latest", "--resume")
    assert said.returncode == 5
    assert MISSING in said.stderr + said.stdout
    assert (place.state.status, place.state.stop_reason) == ("Blocked", MISSING)
    assert (kept(place), place.calls) == (before, calls)
    assert not (place.root / REPORT).exists()


DESIGN = f"{ARTIFACTS}/design.md"
NO_ARTIFACT: dict[str, tuple[str, str, str, str]] = {
    "14 empty": ("Specification", "write(output, '')", "feature-design", f"{DESIGN}: empty"),
    "15 a folder": ("Specification", "output.mkdir(exist_ok=True)", "feature-design", f"{DESIGN}: unreadable"),
    "15 not UTF-8": (
        "Specification",
        "output.parent.mkdir(exist_ok=True); output.write_bytes(b'\\xff\\xfe')",
        "feature-design",
        f"{DESIGN}: unreadable",
    ),
    "16 no result": (
        "Build",
        "write(output, good.replace('Validation Result: Passed', ''))",
        "qa",
        f"{QA_REPORT}: malformed: Validation Result missing",
    ),
}


@pytest.mark.req("HN-16")
@pytest.mark.parametrize("row", NO_ARTIFACT)
def test_an_artifact_that_does_not_count(place: Place, row: str) -> None:
    """One re-dispatch, then Blocked with its message, exit 5, never advanced, and all other files are as they were."""
    until, body, agent, message = NO_ARTIFACT[row]
    stands(until)(place)
    place.agent(body)
    before, stage = kept(place), place.state.stage
    said = place.cli("run", "harness", TASK)
    assert said.returncode == 5
    assert place.calls == [agent, agent]
    assert (place.state.status, place.state.stage) == ("Blocked", stage)
    assert place.state.stop_reason.startswith(message)
    assert message in said.stderr
    assert before.items() <= kept(place).items()


@pytest.mark.req("EN-44")
def test_17_an_agent_whose_program_cannot_be_started(place: Place) -> None:
    """Blocked at its stage with its message, exit 5, all other files as they were."""
    stands("Build")(place)
    program = place.root / "no-such-program"
    settings = f'[runners.broken]\ntype = "command"\nargv = ["{program}"]\n[agents.qa]\nrunner = "broken"\n'
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    place.write("interlock.toml", place.read("interlock.toml") + settings)
    before = kept(place)
    said = place.cli("run", "harness", TASK)
    assert said.returncode == 5
    assert (place.state.status, place.state.stage) == ("Blocked", "QA")
    assert place.state.stop_reason.startswith("Stage QA: agent qa cannot be dispatched: ")
    assert place.state.stop_reason in said.stderr
    assert kept(place) == before


def test_19_an_approval_where_nothing_waits(place: Place) -> None:
    """Exit 2 with where the task stands; no byte changes."""
    assert place.cli("run", "harness", TASK, "--max-stages", "1").returncode == 4
    before = place.tree()
    said = place.cli("approve", "latest")
    assert said.returncode == 2
    assert "No approval is pending (status Active, stage Design)" in said.stderr
    assert place.tree() == before


@pytest.mark.req("HN-05", "HN-10")
def test_21_an_agent_that_changes_a_standard(place: Place) -> None:
    """Not taken over but kept as a patch, Blocked with its message, exit 3."""
    stands("Implementation Planning")(place)
    place.agent(f"write(output, good); write({LIFECYCLE!r}, 'mine')")
    before = kept(place)
    said = place.cli("run", "harness", TASK)
    assert said.returncode == 3
    assert (place.state.status, place.state.stage) == ("Blocked", "Build")
    assert place.state.stop_reason == f"Scope violation by build: {LIFECYCLE}"
    assert f"Scope violation by build: {LIFECYCLE}" in said.stderr
    assert before.items() <= kept(place).items()
    assert any("mine" in path.read_text("utf-8") for path in patches(place))


def patches(place: Place) -> list[Path]:
    return list(place.root.glob(".interlock/runs/*/dispatches/**/*.patch"))
