"""A way out of each stop, by a command: put a task aside, mend its report, go on from its documents, start over."""

from __future__ import annotations

import shlex
import shutil

import pytest

from interlock.playbooks.harness import HarnessInputs
from interlock.playbooks.harness.run_report import Log, archive_path, mended, parse_text
from tests.playbooks.harness.conftest import REPORT, RUN_STATE, TASK, TASK_FILE, Bench, agents, instead
from tests.playbooks.harness.place import Place

OTHER = "TASK-002"
PARK = {"park": True}
FAILS = instead(files={}, message="It cannot be.\n\nStatus: error\n")


def blocked(bench: Bench) -> Bench:
    """With a task that is blocked at its design, and a second one."""
    bench.play(agents(feature_design=FAILS))
    assert bench.state.status == "Blocked"
    bench.files = dict(bench.tree)
    bench.files[f"harness/tasks/{OTHER}.md"] = bench.text(TASK_FILE).replace(TASK, OTHER)
    return bench


@pytest.mark.req("EV-29")
def test_a_blocked_task_is_put_aside_for_another_and_taken_up_again(bench: Bench) -> None:
    """Its run-state is kept byte for byte; when the other one is done, it goes on from where it stood."""
    parked = blocked(bench).files[RUN_STATE]
    error = bench.refuse(inputs=HarnessInputs(OTHER))
    assert f"interlock run harness {OTHER} --park" in (error.remedy or "")
    assert bench.play(inputs=HarnessInputs(OTHER), flags=PARK).exit_code == 0
    assert bench.state.task_id == OTHER
    assert bench.tree[archive_path(TASK)] == parked

    bench.files = dict(bench.tree)
    close = bench.play(inputs=HarnessInputs(TASK))
    assert (close.exit_code, bench.called) == (3, [])
    assert f"Task {TASK} is Blocked at Design: " in close.reason
    assert bench.again(inputs=HarnessInputs(TASK, resumed=True, note="it can")).exit_code == 0
    assert bench.called[0] == "feature-design"
    assert bench.state.task_id == TASK
    assert archive_path(TASK) not in bench.tree
    assert bench.text(archive_path(OTHER)).count("Current Status: Complete") == 1


@pytest.mark.req("EV-29")
def test_two_tasks_change_places(bench: Bench) -> None:
    """Neither is complete; each is put aside for the other, and nothing of either is lost."""
    blocked(bench).play(inputs=HarnessInputs(OTHER), flags=PARK, attended=False)
    assert (bench.state.task_id, bench.state.stage) == (OTHER, "Build")
    waiting = bench.tree[RUN_STATE]
    bench.again(inputs=HarnessInputs(TASK, resumed=True), flags=PARK, attended=False)
    assert (bench.state.task_id, bench.state.stage) == (TASK, "Build")
    assert bench.tree[archive_path(OTHER)] == waiting
    assert bench.again(inputs=HarnessInputs(OTHER), flags=PARK, attended=False).exit_code == 4
    assert bench.tree[RUN_STATE] == waiting


@pytest.mark.req("EV-29")
def test_a_report_row_that_was_changed_is_mended_by_a_command(bench: Bench) -> None:
    """The refusal names it; the rows stay as they are, the chains are whole again, and a row says that it was done."""
    blocked(bench).set(REPORT, "| po-spec |", "| somebody |")
    resumed = HarnessInputs(TASK, resumed=True)
    error = bench.refuse(inputs=resumed)
    assert "entry 1 of Stage History was changed" in error.what
    assert f"interlock run harness {TASK} --mend-report" in (error.remedy or "")
    assert bench.play(inputs=HarnessInputs(TASK, resumed=True, mend_report=True)).exit_code == 0
    assert bench.rows(Log.HISTORY)[0][2] == "somebody"
    assert [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Mended"] == [
        "a person had the chains made anew from the rows that were there"
    ]


@pytest.mark.req("EV-29")
def test_a_report_that_is_none_any_more_makes_room_for_a_new_one(bench: Bench) -> None:
    """The old one is kept, and the new one says where."""
    blocked(bench).files[REPORT] = "# Something else\n"
    assert bench.play(inputs=HarnessInputs(TASK, resumed=True, mend_report=True)).exit_code == 0
    (said,) = [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Mended"]
    assert bench.tree[said.rpartition(" ")[2]] == b"# Something else\n"


def test_mending_links_every_row_of_a_report(bench: Bench) -> None:
    """Also where a row was removed or has lost cells; a whole report stays as it is, byte for byte."""
    bench.play()
    text = bench.text(REPORT)
    assert mended(text) == text
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "| feature-design |" in line)
    assert mended("".join(lines[:at] + lines[at + 1 :])) is not None
    short = text.replace(lines[at], "| RUN | Design |\n")
    assert parse_text(mended(short) or "", REPORT).rows[Log.HISTORY][1] == ("RUN", "Design", *[""] * 6)
    assert mended("# Run Report\n") is None


@pytest.mark.req("EV-21", "EV-29")
@pytest.mark.parametrize("damage", [("Current Stage: Design", "Current Stage: Dream"), ("", "")])
def test_starting_over_is_a_flag(bench: Bench, damage: tuple[str, str]) -> None:
    """Whatever run-state says, the task begins anew; the old run-state is kept, and so is the history."""
    before = blocked(bench)
    before.set(RUN_STATE, *damage)
    old = bench.files[RUN_STATE]
    if damage[0]:
        assert "is invalid" in bench.refuse().what
    assert bench.play(inputs=HarnessInputs(TASK, start_over=True)).exit_code == 0
    assert bench.called[0] == "po-spec"
    assert bench.history[:2] == [("Specification", "Completed"), ("Design", "Failed")]
    kept = [text for path, text in bench.tree.items() if path.startswith(".interlock/attic/")]
    assert (old if isinstance(old, bytes) else old.encode()) in kept


# -- really


@pytest.mark.req("EV-26", "EV-29")
def test_a_blocked_task_goes_on_without_any_records_of_runs(place: Place) -> None:
    """`run` prints the command, which works as it is printed; the words reach the agent."""
    place.agent("write(output, good + brief) if name != 'feature-design' else print('Status: error')")
    assert place.cli("run", "harness", TASK).returncode == 3
    shutil.rmtree(place.root / ".interlock")
    said = place.cli("run", "harness")
    assert said.returncode == 3
    printed = said.stderr.split("interlock ")[1].split(" (and")[0]
    assert shlex.split(printed)[:-1] == ["run", "harness", TASK, "--note"]
    place.agent("write(output, good + brief)")
    words = [*shlex.split(printed)[:-1], "the disk was full"]
    assert place.cli(*words).returncode == 4
    design = place.read(f"harness/artifacts/{TASK}/design.md")
    assert "the disk was full" in design.split("## Said by people")[1].split("## Inputs")[0]
    assert "the disk was full" in place.read(REPORT)


@pytest.mark.req("EV-26", "EV-29")
def test_the_commands_that_a_conflict_and_a_damaged_report_print(place: Place) -> None:
    """As printed, they do it."""
    place.write(f"harness/tasks/{OTHER}.md", place.read(TASK_FILE).replace(TASK, OTHER))
    assert place.cli("run", "harness", TASK, "--until", "Design").returncode == 4
    said = place.cli("run", "harness", OTHER)
    assert said.returncode == 2
    park = f"run harness {OTHER} --park"
    assert f"interlock {park}" in said.stderr
    assert place.cli(*park.split(), "--until", "Design").returncode == 4
    assert place.state.task_id == OTHER
    report = f"harness/runs/{TASK}-run-report.md"
    place.write(report, place.read(report).replace("| po-spec |", "| me |"))
    said = place.cli("run", "harness", TASK, "--park")
    assert said.returncode == 2
    mend = f"run harness {TASK} --mend-report"
    assert f"interlock {mend}" in said.stderr
    assert place.cli(*mend.split(), "--park").returncode == 4
    assert place.state.task_id == TASK


@pytest.mark.req("EV-04", "EV-05", "EV-10")
def test_checks_and_an_agent_that_uses_git_as_its_own(place: Place) -> None:
    """Named on the command line, really run; what an agent does to the repository reaches nobody and is told."""
    place.write(TASK_FILE, place.read(TASK_FILE).replace("standard", "autonomous"))
    red = place.cli("run", "harness", TASK, "--check", "test ! -e src/built.py || echo no; exit 1")
    assert (red.returncode, place.calls) == (3, [])
    assert "ended with exit status 1" in red.stderr
    commit = "git -c user.name=x -c user.email=x@y commit --quiet --allow-empty -m mine"
    place.agent(f"write(output, good)\nif name == 'build': os.system({commit!r})")
    done = place.cli("run", "harness", TASK, "--check", "test ! -e src/wrong.py")
    assert done.returncode == 0
    assert "Noticed: build used git in its copy" in done.stdout
    assert "check: test ! -e src/wrong.py: passes" in place.read(REPORT)
