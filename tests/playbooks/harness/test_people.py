"""People work on while agents do: on the task's documents and on the code. Nothing they wrote is lost."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from interlock.playbooks.harness import harness
from interlock.playbooks.harness.run_report import Log
from interlock.testing import Act, Crash, both, dying_at
from tests.playbooks.harness.conftest import (
    ARTIFACTS,
    REPORT,
    RUN_STATE,
    TASK_FILE,
    Bench,
    Change,
    agents,
    also,
    person,
)
from tests.playbooks.harness.place import Place
from tests.playbooks.person import WAITS
from tests.playbooks.person import person as beside

REMARK = "Ask Bo before this goes out.\n"
SPEC = f"{ARTIFACTS}/spec.md"


def remark(bench: Bench, path: str) -> Change:
    """While the agent works, a person writes a remark at the end of a document."""
    return lambda _request, act: replace(act, people={**act.people, path: bench.text(path) + REMARK})


def evidence(bench: Bench, kind: str) -> list[str]:
    return [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == kind]


# -- the documents of the run


@pytest.mark.req("LY-05", "EN-23")
@pytest.mark.parametrize("agent", harness.agents)
@pytest.mark.parametrize("path", [RUN_STATE, REPORT, TASK_FILE])
def test_a_remark_stays_whoever_is_at_work(bench: Bench, path: str, agent: str) -> None:
    """Also among the notes, which the engine rewrites at every step; the task goes on to its end."""
    assert bench.play(agents(**{agent.replace("-", "_"): remark(bench, path)})).exit_code == 0
    assert bench.text(path).count(REMARK) == 1
    assert bench.state.notes == "somebody approved Complete. Current position: Complete (Complete)."


@pytest.mark.req("LY-05")
def test_a_value_at_the_top_of_the_report_is_kept_as_evidence(bench: Bench) -> None:
    """The top only shows what run-state says: it does so again, and what a person had put there is a row below."""
    change = person(bench, REPORT, "- Task Title: ", "- Task Title: New! ")
    assert bench.play(agents(build=change)).exit_code == 0
    (kept,) = evidence(bench, "Edited meanwhile")
    assert kept == f"Task Title: New! {bench.report.fields['Task Title']}"


@pytest.mark.req("LY-05")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Stop Reason: None", "Stop Reason: not now"),
        ("Current Status: Active", "Current Status: Blocked"),
        ("- None", "- Build: bo 2026-01-04"),
        ("# Run State", "# Run State\n\n- Task ID: again\n\n#"),
    ],
)
def test_who_changes_where_the_task_stands_has_the_last_word(bench: Bench, old: str, new: str) -> None:
    """The run stops without writing to either document; the next one starts from what run-state says."""
    left: dict[str, str] = {}

    def change(request: Any, act: Act) -> Act:
        act = person(bench, RUN_STATE, old, new)(request, act)
        left.update({RUN_STATE: str(act.people[RUN_STATE]), REPORT: bench.text(REPORT)})
        return act

    close = bench.play(agents(po_spec=change))
    assert close.exit_code == 3
    assert "was edited while the run worked" in close.reason
    assert {path: bench.text(path) for path in left} == left
    assert bench.called == ["po-spec"]


class Editing:
    """A person who edits a document each time that the engine is just about to write it, so many times."""

    def __init__(self, bench: Bench, path: str, times: int = 1) -> None:
        documents, self._tree = bench.simulation.world.documents, bench.simulation.world.tree
        self._write, self._path, self.left = documents.write, path, times
        documents.write = self.write

    def write(self, path: str, content: Any, *, expect: str | None = None) -> Any:
        if path == self._path and path in self._tree.files and self.left:
            self.left -= 1
            self._tree.put(path, self._tree.files[path] + REMARK.encode())
        return self._write(path, content, expect=expect)


@pytest.mark.req("LY-05", "EN-23")
@pytest.mark.parametrize("path", [RUN_STATE, REPORT])
def test_an_edit_between_reading_and_writing_is_read_first(bench: Bench, path: str) -> None:
    """The document is read again and written with the edit in it; the run goes on, also when it is replayed."""
    simulation = bench.simulate(attended=False)
    Editing(bench, path, 3)
    close = simulation.go()
    while close.gate is not None:
        simulation.decide("approve")
        close = simulation.go()
    assert close.exit_code == 0
    assert bench.text(path).count(REMARK) == 3


def test_a_document_that_is_edited_all_the_time_stops_the_run(bench: Bench) -> None:
    """After ten tries it says so, instead of trying for ever or writing over it."""
    simulation = bench.simulate()
    Editing(bench, REPORT, 1000)
    close = simulation.go()
    assert (close.exit_code, close.reason) == (3, f"{REPORT} is being edited all the time")
    assert bench.called == ["po-spec"]


@pytest.mark.req("LY-05", "HN-11")
def test_an_approval_goes_into_a_task_file_that_is_being_edited(bench: Bench) -> None:
    """The field is filled in, and the person's words are there."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    Editing(bench, TASK_FILE)
    simulation.decide("record")
    simulation.go()
    assert "- Build Approved By: somebody " in bench.text(TASK_FILE)
    assert bench.text(TASK_FILE).endswith(REMARK)


@pytest.mark.req("LY-05", "HN-18")
def test_what_somebody_wrote_over_a_document_is_set_aside_before_it_is_repaired(bench: Bench) -> None:
    """Right after the write the file is something else: that is in the attic, and the document is written once more."""
    simulation = bench.simulate()
    documents, tree = simulation.world.documents, simulation.world.tree
    write, hits = documents.write, [REPORT]

    def overwritten(path: str, content: Any, *, expect: str | None = None) -> Any:
        written = write(path, content, expect=expect)
        if path in hits:
            hits.remove(path)
            tree.put(path, b"# Mine\n")
        return written

    documents.write = overwritten
    assert simulation.go().exit_code == 0
    assert [content for path, content in bench.tree.items() if path.startswith(".interlock/attic/")] == [b"# Mine\n"]


def test_a_run_state_that_somebody_makes_meanwhile_is_left_alone(bench: Bench) -> None:
    """Two who begin at once: the second one stops, and the first one's run-state is as it was."""
    simulation = bench.simulate()
    documents, tree = simulation.world.documents, simulation.world.tree
    write = documents.write

    def first(path: str, content: Any, *, expect: str | None = None) -> Any:
        if path == RUN_STATE:
            tree.put(path, b"# Theirs\n")
        return write(path, content, expect=expect)

    documents.write = first
    close = simulation.go()
    assert (close.exit_code, close.reason) == (3, f"{RUN_STATE} was written by somebody else meanwhile")
    assert bench.tree[RUN_STATE] == b"# Theirs\n"
    assert bench.called == []


# -- what agents work on


@pytest.mark.req("LY-05", "LY-03")
def test_an_artifact_that_both_wrote_blocks_the_task(bench: Bench) -> None:
    """It stays as the person left it; both documents say so and where the agent's is; a resume asks the agent again."""
    close = bench.play(agents(po_spec=lambda _request, act: replace(act, people={SPEC: "# Mine\n"})))
    assert close.exit_code == 3
    assert bench.called == ["po-spec"]
    reason = bench.blocked()
    assert reason.startswith(f"{SPEC}: edited while po-spec worked; its own version is kept in .interlock/runs/")
    assert evidence(bench, "Not taken over") == [reason.rpartition(" ")[2]]
    assert bench.history == [("Specification", "Blocked")]
    assert bench.text(SPEC) == "# Mine\n"
    assert [event["paths"] for event in bench.events("dispatch.conflict")] == [[SPEC]]
    assert bench.resume().exit_code == 0


@pytest.mark.req("LY-05", "LY-30")
def test_code_of_others_is_left_alone(bench: Bench) -> None:
    """A person, or another run, makes, changes and deletes files while Build changes its own."""
    bench.files |= {"src/a.py": "a\n", "src/b.py": "b\n", "src/c.py": "c\n"}
    others = {"src/new.py": "new\n", "src/b.py": "theirs\n", "src/c.py": None}

    def change(_request: Any, act: Act) -> Act:
        return replace(act, files={**act.files, "src/a.py": "ours\n"}, people=others)

    assert bench.play(agents(build=change)).exit_code == 0
    found = {path: bench.tree.get(path) for path in ("src/a.py", *others)}
    assert found == {"src/a.py": b"ours\n", "src/new.py": b"new\n", "src/b.py": b"theirs\n", "src/c.py": None}
    assert bench.events("scope.violation") == []


@pytest.mark.req("LY-05")
def test_of_code_that_both_changed_nothing_is_taken_over(bench: Bench) -> None:
    """All or nothing: neither the report nor another file of that Build comes in."""
    bench.files |= {"src/a.py": "a\n"}

    def change(_request: Any, act: Act) -> Act:
        files = {**act.files, "src/a.py": "ours\n", "src/b.py": "b\n"}
        return replace(act, files=files, people={"src/a.py": "theirs\n"})

    assert bench.play(agents(build=change)).exit_code == 3
    assert bench.blocked().startswith("src/a.py: edited while build worked; ")
    assert bench.tree["src/a.py"] == b"theirs\n"
    assert not {"src/b.py", f"{ARTIFACTS}/build-report.md"} & set(bench.tree)


def test_an_edit_of_run_state_is_not_taken_for_the_agents(bench: Bench) -> None:
    """The agent changed run-state too: that is its violation, and the person's edit is there."""
    change = both(also(RUN_STATE), remark(bench, RUN_STATE))
    assert bench.play(agents(build=change)).exit_code == 3
    assert bench.blocked() == f"Scope violation by build: {RUN_STATE}"
    assert REMARK in bench.text(RUN_STATE)
    assert "mine" not in bench.text(RUN_STATE)


@pytest.mark.long
@pytest.mark.req("LY-05", "HN-112")
def test_a_person_and_a_crash_at_every_point(bench: Bench) -> None:
    """Wherever the engine dies while a person edits documents and code, every edit is there, and so is the end."""
    bench.autonomous().play(flags={"until": "Build"})
    bench.files = {path: text for path, text in bench.tree.items() if not path.startswith(".interlock/")}

    def qa(_request: Any, act: Act) -> Act:
        edits = {path: bench.text(path) + REMARK for path in (RUN_STATE, REPORT) if REMARK not in bench.text(path)}
        return replace(act, people={"src/mine.py": "mine\n", **edits})

    number = 0
    while True:
        simulation = bench.simulate(agents(qa=qa))
        try:
            simulation.go(tripwire=dying_at(number + 1))
            break
        except Crash:
            assert simulation.go().exit_code == 0
        assert bench.state.status == "Complete"
        assert [bench.text(path).count(REMARK) for path in (RUN_STATE, REPORT)] == [1, 1], number
        assert bench.tree["src/mine.py"] == b"mine\n"
        number += 1
    assert number > 80


# -- really


def git(place: Place, *words: str) -> str:
    command = ["git", "-c", "user.name=ann", "-c", "user.email=ann@here", *words]
    return subprocess.run(command, cwd=place.root, check=True, capture_output=True, text=True).stdout


def replaced(place: Place, path: str, old: str, new: str) -> None:
    assert old in place.read(path)
    place.write(path, place.read(path).replace(old, new, 1))


CODE = "".join(f"line {number}\n" for number in range(9))
BUILD = (
    WAITS
    + """
if name == "build":
    code = Path("src/code.txt").read_text()
    wait_for_person()
    write("src/code.txt", code.replace("line 8", "by the agent"))
write(output, good)
"""
)


def at_build(place: Place, body: str) -> None:
    """A task whose plan is approved, with code below `src/`, and agents that do this."""
    place.write("src/code.txt", CODE)
    place.run()
    place.decide("approve")
    place.agent(body)


@pytest.mark.req("LY-05", "LY-07", "EN-36")
def test_a_person_edits_and_commits_while_build_works(place: Place) -> None:
    """Remarks in both documents, another line of the same file, a commit: all of it is there beside Build's work."""
    at_build(place, BUILD)

    def work_on(_agent: str) -> None:
        for path in (RUN_STATE, REPORT):
            place.write(path, place.read(path) + REMARK)
        replaced(place, "src/code.txt", "line 0", "by a person")
        git(place, "add", "src")
        git(place, "commit", "--quiet", "-m", "meanwhile")

    with beside(place.root, work_on) as seen:
        assert place.resume().exit_code == 4
    assert seen == ["build"]
    assert (place.state.stage, place.state.status) == ("Awaiting Approval", "Awaiting Approval")
    assert place.read(RUN_STATE).count(REMARK) == place.read(REPORT).count(REMARK) == 1
    text = place.read("src/code.txt")
    assert (text.splitlines()[0], text.splitlines()[-1]) == ("by a person", "by the agent")
    assert git(place, "log", "--format=%s") == "meanwhile\n"
    assert "by the agent" not in git(place, "show", "HEAD:src/code.txt")


@pytest.mark.req("LY-04", "LY-05")
def test_the_same_line_blocks_and_the_next_build_is_shown_what_the_first_one_did(place: Place) -> None:
    """The person's line stays; the report names the patch, and its content is in the brief of the resumed run."""
    at_build(place, BUILD)
    with beside(place.root, lambda _agent: replaced(place, "src/code.txt", "line 8", "by a person")):
        assert place.resume().exit_code == 3
    assert place.read("src/code.txt").endswith("line 7\nby a person\n")
    assert place.state.stop_reason.startswith("src/code.txt: edited while build worked; ")
    (patch,) = [row[3] for row in place.report.rows[Log.EVIDENCE] if row[2] == "Not taken over"]
    assert "+by the agent" in place.read(patch)

    place.agent("write(output, good + brief if name == 'build' else good)")
    assert place.resume().exit_code == 4
    told = place.read(f"{ARTIFACTS}/build-report.md")
    assert "Changes of an earlier attempt, which did not count and were not taken over" in told
    assert "+by the agent" in told
    briefs = [path.read_text() for path in (place.root / ".interlock/runs").rglob("brief.md")]
    assert ["earlier attempt" in text for text in briefs if "- Step: QA\n" in text] == [False]
