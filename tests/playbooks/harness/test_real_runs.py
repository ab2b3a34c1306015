"""Whole tasks in real workspaces: files, git, processes, people who decide and edit."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys

import pytest

from interlock.engine.folder import known_runs
from interlock.engine.lifecycle import ended_as
from interlock.engine.runs import Call
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.playbooks.harness import HarnessInputs, harness
from interlock.playbooks.harness.ledger import MISSING
from interlock.playbooks.harness.run_report import Log
from tests.playbooks.harness.conftest import ARTIFACTS, GOOD, REPORT, RUN_STATE, TASK, TASK_FILE
from tests.playbooks.harness.place import Place


def governed(place: Place) -> dict[str, bytes]:
    return {path: text for path, text in place.tree().items() if path.startswith(("harness/st", "harness/te"))}


@pytest.mark.req("HN-10", "HN-94", "HN-95", "EN-31", "EN-18")
def test_a_task_from_its_start_to_its_end(place: Place) -> None:
    """Two gates, five agents; an approval is in run-state before anybody resumes; standards keep their bytes."""
    before = governed(place)
    assert place.run().exit_code == 4
    assert place.calls == ["po-spec", "feature-design", "tech-lead"]
    place.decide("approve")
    assert (place.state.stage, place.state.status, place.state.stop_reason) == ("Build", "Active", "")
    assert place.state.approvals[0].who == "ann"
    assert place.report.fields["Status"] == "Active"
    assert place.resume().exit_code == 4
    place.decide("approve")
    assert (place.state.stage, place.state.status) == ("Complete", "Complete")
    assert place.calls == ["po-spec", "feature-design", "tech-lead", "build", "qa"]
    assert governed(place) == before
    again = place.run()
    assert (again.exit_code, len(known_runs(place.root))) == (0, 1)


@pytest.mark.req("EV-05")
def test_a_program_that_cannot_be_started_is_found_before_the_task_begins(place: Place) -> None:
    """Exit 3 with the cure; nothing is written, so that the same command works as soon as it is there."""
    place.write("interlock.toml", place.read("interlock.toml").replace(json.dumps(sys.executable), '"no-such-program"'))
    finished = place.run()
    assert (finished.exit_code, place.calls) == (3, [])
    assert "'no-such-program' is not found" in finished.reason
    assert not (place.root / RUN_STATE).exists()


@pytest.mark.req("HN-13", "HN-86", "EN-44")
def test_a_program_that_cannot_be_started(place: Place) -> None:
    """Blocked with the reason, stage unchanged, exit 5, nobody else called."""
    place.write("interlock.toml", place.read("interlock.toml").replace(json.dumps(sys.executable), '"no-such-program"'))
    finished = place.run(flags={"no_preflight": True})
    assert finished.exit_code == 5
    assert (place.state.status, place.state.stage) == ("Blocked", "Specification")
    assert place.state.stop_reason.startswith("Stage Specification: agent po-spec cannot be dispatched: ")
    assert place.report.fields["Stop Reason"] == place.state.stop_reason
    assert place.calls == []


@pytest.mark.req("EN-44", "HN-52")
def test_an_agent_that_nobody_configured(place: Place) -> None:
    """Without a runner for it nothing starts and nothing is written."""
    settings = place.read("interlock.toml") + '[agents.qa]\nrunner = "other"\n'
    place.write("interlock.toml", settings)
    before = place.tree()
    with pytest.raises(ConfigInvalid) as caught:
        place.run()
    assert caught.value.exit_code == 2
    assert place.tree() == before


@pytest.mark.req("HN-110")
def test_a_linked_run_state_is_refused(place: Place) -> None:
    """Exit 2, nothing is written through the link, no run comes into being."""
    place.run()
    shutil.rmtree(place.root / ".interlock")
    (place.root / RUN_STATE).rename(place.root / "elsewhere.md")
    (place.root / RUN_STATE).symlink_to(place.root / "elsewhere.md")
    before = place.tree()
    with pytest.raises(InterlockError) as caught:
        place.run()
    assert (caught.value.exit_code, caught.value.what) == (2, f"{RUN_STATE} is a symlink; refusing to write")
    assert place.tree() == before


@pytest.mark.req("HN-05", "EN-35")
def test_an_agent_that_changes_a_standard(place: Place) -> None:
    """The change is not taken over and kept as a patch; the run is blocked; also where git ignores the folder."""
    place.write(".gitignore", "harness/\n")
    before = governed(place)
    body = "write(output, good)\nif name == 'tech-lead': write('harness/standards/task-lifecycle.md', 'anything goes')"
    place.agent(body)
    finished = place.run()
    assert finished.exit_code == 3
    assert place.state.stop_reason == "Scope violation by tech-lead: harness/standards/task-lifecycle.md"
    assert governed(place) == before
    patches = list((place.root / ".interlock").rglob("outside-*.patch"))
    assert any(b"anything goes" in path.read_bytes() for path in patches)


@pytest.mark.req("EN-22", "HN-45")
def test_a_person_who_edits_run_state_is_heard(place: Place) -> None:
    """The open run ends, and a new one starts from what the document now says."""
    place.run()
    text = place.read(RUN_STATE)
    text = text.replace("Current Status: Awaiting Approval", "Current Status: Active")
    text = text.replace("Current Stage: Build", "Current Stage: Design")
    place.write(RUN_STATE, text.replace("- Design\n- Implementation Planning\n", "", 1))
    finished = place.run()
    assert finished.exit_code == 4
    assert place.calls == ["po-spec", "feature-design", "tech-lead", "feature-design", "tech-lead"]
    first, second = known_runs(place.root)
    assert first.folder.lines()[-1].data["reason"] == f"state document edited: {RUN_STATE}"
    assert second.identity.continues == first.identity.run_id


@pytest.mark.req("EN-22", "EN-19")
def test_an_edit_after_a_resume_is_not_undone_by_its_options(place: Place) -> None:
    """A run that was resumed with `--from` and then edited starts anew from the document alone."""
    place.agent("write(output, good) if name != 'tech-lead' else print('Status: error')")
    assert place.run().exit_code == 3
    place.agent()
    assert place.resume(Call(flags={"from_stage": "Specification"})).exit_code == 4
    inputs = known_runs(place.root)[-1].identity.inputs
    assert (inputs["resumed"], inputs["from_stage"]) == (True, "Specification")
    place.write(RUN_STATE, place.read(RUN_STATE) + "\nA remark.\n")
    calls = len(place.calls)
    assert place.resume().exit_code == 4
    assert len(place.calls) == calls
    assert not known_runs(place.root)[-1].identity.inputs["resumed"]


@pytest.mark.req("EN-17")
def test_an_open_run_goes_on_and_other_inputs_are_refused(place: Place) -> None:
    """The same task resumes the parked run; with a fallback it is another request, refused with exit 2."""
    run_id = place.run().run_id
    assert place.run().run_id == run_id
    with pytest.raises(Refused) as caught:
        place.run(HarnessInputs(TASK, "Build", "ann"))
    assert caught.value.exit_code == 2
    assert "interlock cancel" in (caught.value.remedy or "")


@pytest.mark.req("EN-31", "HN-104")
def test_a_new_clone_waits_at_the_same_gate(place: Place) -> None:
    """Without any journal: a run parked at the gate, run-state byte for byte as it was; approved, it goes on."""
    place.run()
    before = place.read(RUN_STATE)
    shutil.rmtree(place.root / ".interlock")
    finished = place.run()
    assert finished.exit_code == 4
    assert finished.gate is not None
    assert place.read(RUN_STATE) == before
    place.decide("approve")
    assert place.state.status == "Active"
    assert place.resume().exit_code == 4
    assert place.calls[-2:] == ["build", "qa"]


@pytest.mark.req("HN-41", "HN-42")
@pytest.mark.parametrize("path", [RUN_STATE, REPORT])
def test_a_document_that_was_deleted_while_the_run_waited(place: Place, path: str) -> None:
    """Not made up again: the exact message, exit 5, and no agent is called."""
    place.run()
    (place.root / path).unlink()
    place.decide("approve")
    (known,) = known_runs(place.root)
    assert ended_as(known.folder.lines()) == "failed"
    assert known.folder.lines()[-1].data["reason"] == MISSING
    assert place.calls[-1] == "tech-lead"
    assert not (place.root / path).exists()
    if path == REPORT:
        assert (place.state.status, place.state.stop_reason) == ("Blocked", MISSING)


@pytest.mark.parametrize(
    ("body", "cls"),
    [
        ("output.mkdir(parents=True)", "unreadable"),
        ("output.parent.mkdir(parents=True, exist_ok=True); output.write_bytes(b'\\xff\\xfe')", "unreadable"),
        ("write(output, '')", "empty"),
    ],
)
def test_artifacts_that_are_no_text(place: Place, body: str, cls: str) -> None:
    """A folder, bytes that are not UTF-8, nothing: one re-dispatch, then Blocked."""
    place.agent(f"if not output.is_dir(): {body}")
    finished = place.run()
    assert finished.exit_code == 5
    assert place.calls == ["po-spec", "po-spec"]
    assert place.state.stop_reason.startswith(f"{ARTIFACTS}/spec.md: {cls}")


@pytest.mark.req("EN-29")
def test_an_approval_of_an_older_plan_is_refused(place: Place) -> None:
    """Both digests are named; looked at again, the improved plan can be approved."""
    place.run()
    place.write(f"{ARTIFACTS}/plan.md", "# Better\n\n## Steps\n\n1. Do it.\n")
    with pytest.raises(Refused, match="changed since the gate showed it") as caught:
        place.decide("approve")
    assert caught.value.expected != caught.value.found
    assert place.run().exit_code == 4
    place.decide("approve")
    assert place.state.status == "Active"


@pytest.mark.req("HN-19", "HN-79")
def test_a_negative_qa_three_times(place: Place) -> None:
    """With real processes: three Builds, three QAs, Blocked, exit 3; the history has every execution."""
    place.write(TASK_FILE, place.read(TASK_FILE).replace("standard", "autonomous"))
    body = "n = os.environ['INTERLOCK_ATTEMPT']\nwrite(output, good.replace('Passed', 'Issues Found') + n)"
    place.agent(body)
    finished = place.run()
    assert finished.exit_code == 3
    assert place.calls == ["po-spec", "feature-design", "tech-lead", *["build", "qa"] * 3]
    assert place.state.stop_reason == "QA remediation retry limit reached"
    assert [row[3] for row in place.report.rows[Log.HISTORY]][-5:] == [
        *("Returned to Build", "Completed", "Returned to Build", "Completed", "Blocked")
    ]


def test_a_dry_run_changes_nothing(place: Place) -> None:
    """It shows the next brief of a fresh task and of a bounded one; the workspace stays as it was."""
    plan = asyncio.run(place.app().plan(harness, HarnessInputs(TASK)))
    assert plan.before is not None
    assert "### Allowed inputs" in plan.before.detail.brief
    assert not (place.root / RUN_STATE).exists()
    assert place.run(flags={"until": "Specification"}).exit_code == 4
    before = place.tree()
    plan = asyncio.run(place.app().plan(harness, HarnessInputs(TASK)))
    assert plan.before is not None
    assert plan.before.detail.agent == "feature-design"
    assert place.tree() == before


def test_crlf_and_byte_order_mark_survive(place: Place) -> None:
    """A run-state that an editor saved its own way is read, and written back in that form."""
    place.run()
    shutil.rmtree(place.root / ".interlock")
    raw = (place.root / RUN_STATE).read_bytes()
    (place.root / RUN_STATE).write_bytes(b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"))
    place.run()
    place.decide("approve")
    written = (place.root / RUN_STATE).read_bytes()
    assert written.startswith(b"\xef\xbb\xbf")
    assert b"\r\n" in written
    assert b"Current Status: Active" in written


# -- the command line


@pytest.mark.req("HN-11", "HN-66", "HN-83", "HN-109", "EN-19", "EN-21")
def test_the_command_line(place: Place) -> None:
    """Bounded run, the task from run-state, approval recorded in the task, rejection, resume from an earlier stage."""
    refused = place.cli("run", "harness")
    assert refused.returncode == 2
    assert f"No task to run: name a task or provide {RUN_STATE}" in refused.stderr
    assert place.cli("run", "harness", TASK, "--until", "Testing").returncode == 2
    assert not (place.root / ".interlock" / "runs").exists()

    bounded = place.cli("run", "harness", TASK, "--max-stages", "1")
    assert bounded.returncode == 4
    assert place.state.stop_reason == "Bounded orchestration test: stopped after Specification"

    nothing = place.cli("approve", "latest")
    assert nothing.returncode == 2
    assert "No approval is pending (status Active, stage Design)" in nothing.stderr

    waiting = place.cli("run", "harness")
    assert waiting.returncode == 4
    assert "interlock approve" in waiting.stderr
    moved = place.cli("resume", "latest", "--from", "Design")
    assert moved.returncode == 2
    assert "is open; --from is for one that has stopped" in moved.stderr

    approved = place.cli("approve", "latest", "--record-in-task", "--resume")
    assert approved.returncode == 4
    assert "- Build Approved By: " in place.read(TASK_FILE)
    assert "Approved By:\n" not in place.read(TASK_FILE).split("Complete Approved By")[0]
    calls = len(place.calls)
    assert place.cli("reject", "latest", "--note", "not yet").returncode == 0
    assert (place.state.stage, place.state.status) == ("Build", "Active")
    assert place.calls[calls:] == []
    assert place.cli("resume", "latest").returncode == 4
    assert place.calls[calls:] == ["build", "qa"]

    place.agent("print('Status: error')")
    assert place.cli("reject", "latest", "--note", "still not", "--resume").returncode == 3
    assert place.cli("run", "harness").returncode == 3
    place.agent()
    calls = len(place.calls)
    back = place.cli("resume", "latest", "--from", "Build", "--note", "look again", "--json")
    assert back.returncode == 4
    assert json.loads(back.stdout)["gate"]["name"] == "approve-complete"
    assert place.calls[calls:] == ["build", "qa"]
    assert "look again, from Build" in place.read(REPORT)


@pytest.mark.req("EV-06")
def test_the_first_run_that_init_advises(place: Place) -> None:
    """With players in the place of agents the example task comes to its end; what Build did not do is said."""
    place.write(TASK_FILE, place.read(TASK_FILE).replace("standard", "autonomous"))
    done = place.cli("run", "harness", TASK, "--runner", "scripted")
    assert done.returncode == 0
    assert "Noticed: build changed nothing, because: this part is only played" in done.stdout


@pytest.mark.req("EV-04")
def test_an_approval_with_named_commands_completes_at_once(place: Place) -> None:
    """Nothing changed since they were run, so that nothing is left to do behind the last gate."""
    place.write("interlock.toml", place.read("interlock.toml") + '[harness]\ncheck_commands = ["test -d harness"]\n')
    assert place.run().exit_code == 4
    place.decide("approve")
    assert place.resume().exit_code == 4
    place.decide("approve")
    assert place.state.status == "Complete"


def test_validate_names_what_is_missing(place: Place) -> None:
    """A workspace is ready, or says why not, without starting anything."""
    assert place.cli("validate", "harness").returncode == 0
    contracts = "harness/standards/stage-input-contracts.md"
    place.write(contracts, place.read(contracts).split("## QA")[0])
    found = place.cli("validate", "harness")
    assert found.returncode == 2
    assert f"No input contract for stage QA in {contracts}" in found.stderr
    assert place.calls == []


def test_a_fallback_from_the_command_line(place: Place) -> None:
    """A person's file takes the place of the agent, and the report says whose it was."""
    place.write(f"{ARTIFACTS}/design.md", GOOD["feature-design"])
    assert place.cli("run", "harness", TASK, "--fallback", "design").returncode == 4
    assert place.calls == ["po-spec", "tech-lead"]
    (row,) = [row for row in place.report.rows[Log.EVIDENCE] if row[2] == "fallback"]
    assert row[3].startswith("Design supplied by fallback: ")


def test_options_of_another_playbook_are_refused(place: Place) -> None:
    """`--from` means something to the harness, and is no option of the router."""
    assert place.cli("init", "--playbook", "router", "--example").returncode == 0
    place.write("agent.py", "print('Status: completed')")
    place.cli("run", "router", "/plan 196")
    refused = place.cli("resume", "latest", "--from", "Design")
    assert refused.returncode == 2
    assert "--from means nothing to playbook router" in refused.stderr


@pytest.mark.req("HN-38")
def test_a_folder_that_cannot_be_written(place: Place) -> None:
    """Where `harness/runs` is a file, the report cannot be made: exit 5, and Specification is not invoked."""
    place.write("harness/runs", "in the way")
    with pytest.raises(InterlockError) as caught:
        place.run()
    assert caught.value.exit_code == 5
    assert place.calls == []
    assert not (place.root / RUN_STATE).exists()
