"""People work on while agents do: on the feature's documents and on the code. Nothing they wrote is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.playbooks.feature import shared_memory
from interlock.testing import Act, Change, Crash, both, dying_at, lasting, writes
from tests.playbooks.person import person

from .conftest import AT, ERROR, Bench, plans, remembers
from .test_real_runs import Place, events, place, plan

__all__ = ["place"]

REMARK = "Ask Bo before this goes out.\n"


def meanwhile(files: dict[str, str | None]) -> Change:
    """While the agent works, a person writes these."""
    return lambda _request, act: replace(act, people={**act.people, **files})


def remark(bench: Bench, path: str) -> Change:
    """While the agent works, a person writes a remark at the end of a document, if there is none of theirs."""

    def change(_request: AgentRequest, act: Act) -> Act:
        text = bench.text(path)
        return act if REMARK in text else replace(act, people={**act.people, AT.at(path): text + REMARK})

    return change


def idle(_request: AgentRequest, act: Act) -> Act:
    return replace(act, files={}, message="ERROR: no")


# -- the engine's own documents


@pytest.mark.req("LY-05", "EN-23")
@pytest.mark.parametrize("member", ["researcher-impact", "spec", "ct-security", "planner", "v-build", "r-quality"])
@pytest.mark.parametrize("path", ["memory.md", "initial-request.md"])
def test_a_remark_stays_whoever_is_at_work(bench: Bench, path: str, member: str) -> None:
    """Merging, pruning and marking go on around it; the run is DONE."""
    assert bench.on(member, remark(bench, path)).play().exit_code == 0
    assert bench.text(path).count(REMARK) == 1
    assert "- [orchestrator, step-8] PostMortem dispatch: DONE." in bench.memory
    assert bench.warnings == []


class Racing:
    """Somebody who makes a file just before the engine would, once."""

    def __init__(self, bench: Bench, path: str, content: str) -> None:
        documents, self._tree = bench.simulation.world.documents, bench.simulation.world.tree
        self._write, self._path, self._content = documents.write, path, content.encode()
        documents.write = self.write  # type: ignore[method-assign]

    def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Any:
        if path == self._path and self._content not in (before := self._tree.files.get(path, b"")):
            self._tree.put(path, before + self._content)
            self._path = ""
        return self._write(path, content, expect=expect)


@pytest.mark.req("LY-05")
def test_a_memory_that_somebody_begins_meanwhile_is_gone_on_with(bench: Bench) -> None:
    """The engine does not write over it."""
    simulation = bench.simulate()
    Racing(bench, AT.memory, shared_memory.TEMPLATE + REMARK)
    assert simulation.go().exit_code == 0
    assert REMARK in bench.memory
    assert bench.warnings == []


@pytest.mark.req("LY-05", "FT-121")
def test_a_damaged_memory_that_a_person_mends_meanwhile_is_theirs(bench: Bench) -> None:
    """While the engine makes one anew, theirs comes: it stands, and the damaged one is in the attic."""
    bench.files |= {AT.memory: "damaged\n"}
    simulation = bench.simulate()
    Racing(bench, AT.memory, shared_memory.TEMPLATE + REMARK)
    assert simulation.go().exit_code == 0
    assert REMARK in bench.memory
    (told,) = bench.warnings
    assert "written anew by somebody else, old copy kept at .interlock/attic/" in told


@pytest.mark.req("LY-05")
@pytest.mark.parametrize("path", [AT.request, AT.run_log("2026-01-04")])
def test_what_comes_into_the_way_of_a_new_document_is_set_aside(bench: Bench, path: str) -> None:
    """A request or run log that somebody wrote at the same moment is in the attic, not gone."""
    bench.ever("post-mortem", idle)
    simulation = bench.simulate()
    Racing(bench, path, REMARK)
    assert simulation.go().exit_code == 0
    assert REMARK not in bench.simulation.world.tree.files[path].decode()
    attic = [text for name, text in bench.simulation.world.tree.files.items() if name.startswith(".interlock/attic/")]
    assert attic == [REMARK.encode()]


# -- documents of agents


@pytest.mark.req("LY-05", "LY-04")
@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("researcher-impact", "research/impact.md"),
        ("spec", "feature.md"),
        ("designer", "design.md"),
        ("ct-security", "ct-review/ct-security.md"),
        ("planner", "plan.md"),
        ("v-tests", "verification/v-tests.md"),
        ("r-security", "review/r-security.md"),
        ("r-knowledge", "review/r-knowledge.md"),
    ],
)
def test_who_works_on_what_a_person_edits_is_asked_once_more(bench: Bench, member: str, path: str) -> None:
    """The second call finds the person's words in place, its own as a patch, and is told; the run is DONE."""
    found: list[str] = []

    def again(request: AgentRequest, act: Act) -> Act:
        found.append(bench.text(path))
        return act

    close = bench.on(member, meanwhile({AT.at(path): REMARK}), again).play()
    assert close.exit_code == 0
    assert found == [REMARK]
    assert bench.called.count(member) == 2
    told = bench.brief(member, 1).partition("## Failure context")[2]
    assert f"While you worked, somebody else changed `{AT.at(path)}`." in told
    assert "### Work of an earlier attempt" in told
    returned = [(one["status"], one["retries"]) for one in bench.events("agent.returned") if one["agent"] == member]
    assert returned == [("ERROR", 0), ("DONE", 1)]
    conflict = f"{member}: conflict with an edit made meanwhile: {AT.at(path)}"
    assert f"- failed on the way: {conflict}" in str(close.output)


@pytest.mark.req("LY-05")
def test_an_agent_that_meets_a_person_twice_has_failed(bench: Bench) -> None:
    """Its document is the person's, and the run says why it halts; a retry does the work again."""

    def persistent(request: AgentRequest, act: Act) -> Act:
        return meanwhile({AT.feature: f"by a person, {len(bench.called)}\n"})(request, act)

    bench.ever("spec", persistent)
    close = bench.play()
    assert close.exit_code == 5
    assert f"spec: conflict with an edit made meanwhile: {AT.feature}" in close.reason
    assert bench.text("feature.md") == f"by a person, {len(bench.called)}\n"
    assert bench.called[-2:] == ["spec", "spec"]


# -- code


@pytest.mark.req("LY-05", "LY-30", "EN-36")
def test_code_of_others_is_left_alone_and_not_reviewed(bench: Bench) -> None:
    """A person, or another run, makes, changes and deletes files; the reviewers are shown this feature's own."""
    bench.files |= {"src/b.py": "b\n", "src/c.py": "c\n"}
    others: dict[str, str | None] = {"src/new.py": "new\n", "src/b.py": "theirs\n", "src/c.py": None}
    bench.ever("implementer-T01", both(writes({"src/a.py": "a = 2\n"}), meanwhile(others)))
    assert bench.play().exit_code == 0
    files = bench.simulation.world.tree.files
    assert {path: files.get(path) for path in others} == {
        "src/new.py": b"new\n",
        "src/b.py": b"theirs\n",
        "src/c.py": None,
    }
    assert files["src/a.py"] == b"a = 2\n"
    (changes,) = [line.data["out"] for line in bench.lines if line.event == "changes"]
    assert changes["paths"] == ["src/a.py"]
    assert bench.events("scope.violation") == []


@pytest.mark.req("LY-05", "LY-04")
def test_a_task_whose_code_a_person_changed_is_planned_anew(bench: Bench) -> None:
    """The person's version stays; the planner sees conflict and patch; the next attempt is shown its earlier work."""
    bench.on("planner", plans("T1"), plans("T1", first=2)).on("v-tasks", remembers("FAIL"))
    bench.on(
        "implementer-T1",
        both(writes({"src/a.py": "a = 'agent'\n", "src/b.py": "b\n"}), meanwhile({"src/a.py": "a = 'person'\n"})),
        writes({"src/b.py": "b\n"}),
    )
    assert bench.play().exit_code == 0
    files = bench.simulation.world.tree.files
    assert (files["src/a.py"], files["src/b.py"]) == (b"a = 'person'\n", b"b\n")
    assert bench.events("task.conflict") == [{"task": "T1", "paths": ["src/a.py"]}]
    (patch,) = [path for path in bench.inputs_of("planner", 1) if path.startswith(".interlock/")]
    assert f"T1: what it changed was not taken over: {patch}" in bench.brief("planner", 1)
    assert "a = 'agent'" in bench.brief("implementer-T1", 1).partition("### Work of an earlier attempt")[2]


@pytest.mark.req("LY-04")
def test_the_planner_is_given_the_work_of_failed_tasks_and_of_no_others(bench: Bench) -> None:
    """Named with the task and among its inputs; who is done, or changed nothing, left no patch behind."""
    bench.on("planner", plans("T1 T2 T3"), plans("T1 T3", first=2)).on("v-tasks", remembers("FAIL"))
    bench.on("implementer-T1", both(writes({"src/one.py": "1\n"}), ERROR))
    bench.on("implementer-T2", writes({"src/two.py": "2\n"}))
    bench.on("implementer-T3", idle)
    assert bench.play().exit_code == 0
    state = bench.brief("planner", 1).partition("### Tasks so far")[2]
    (patch,) = [path for path in bench.inputs_of("planner", 1) if path.startswith(".interlock/")]
    assert f"T1: what it changed was not taken over: {patch}\n" in state
    assert state.count("was not taken over") == 1
    assert "was not taken over" not in bench.brief("v-tasks")
    assert "src/one.py" not in bench.paths and "src/two.py" in bench.paths


@pytest.mark.long
@pytest.mark.req("LY-05", "CM-22")
def test_a_person_and_a_crash_anywhere_in_a_wave() -> None:
    """Wherever the engine dies while a person edits memory and code, every edit is there and nothing is paid twice."""

    def build() -> Bench:
        bench = Bench()
        bench.ever("planner", plans("T1 T2"))
        for number, name in enumerate(("implementer-T1", "implementer-T2")):
            work = writes({f"src/{name}.py": f"{name}\n"})
            bench.ever(
                name, both(work, remark(bench, "memory.md"), meanwhile({"mine.txt": "m\n"}), lasting(2.0 - number))
            )
        return bench

    bench = build()
    simulation = bench.simulate()
    points: list[str] = []
    simulation.go(tripwire=lambda _point: points.append(simulation.lines[-1].event if simulation.lines else ""))
    first = points.index("schedule")
    last = first + points[first:].index("memory.merged")
    for number in range(first, last):
        bench = build()
        simulation = bench.simulate()
        with pytest.raises(Crash):
            simulation.go(tripwire=dying_at(number + 1))
        assert simulation.go().exit_code == 0
        files = simulation.world.tree.files
        assert bench.memory.count(REMARK) == 1, number
        assert (files["mine.txt"], files["src/implementer-T2.py"]) == (b"m\n", b"implementer-T2\n")
        ended = Counter(line.key for line in simulation.lines if line.event == "dispatch.end")
        assert max(ended.values()) == 1


# -- really

WAITS = """
place=$(dirname "$INTERLOCK_BRIEF")
printf %s "$INTERLOCK_MEMBER" > "$place/waits"
until [ -e "$place/go-on" ]; do sleep 0.01; done
"""
TOLD = "cat $(sed -n 's/^- `\\(\\.interlock.*\\)`$/\\1/p' \"$INTERLOCK_BRIEF\")"
"""Prints what the brief names among its inputs below `.interlock/`."""


def answers(place: Place, run_id: str, member: str) -> list[str]:
    found = (place.root / ".interlock/runs" / run_id).rglob("output.md")
    briefs = {path: (path.parent / "brief.md").read_text() for path in sorted(found)}
    return [path.read_text() for path, brief in briefs.items() if f"- Agent: {member}" in brief]


@pytest.mark.long
@pytest.mark.req("LY-05", "LY-07", "LY-04", "FT-88", "EN-36")
def test_a_person_edits_documents_and_code_and_commits_while_agents_work(place: Place) -> None:
    """Designer: a remark in memory. T1: another line of its file, a commit. T2: the very line, which is its failure.
    Planner and reviewers can read the patches that their briefs name."""
    base = (place.root / "src/app.py").read_text()
    place.scenario(
        {"agent": "designer", "run": ["sh", "-c", WAITS]},
        {"agent": "planner", "times": 1, "files": plan("T1 T2")},
        {
            "agent": "planner",
            "files": plan("T2", first=2),
            "run": ["sh", "-c", TOLD],
            "message": "{run}",
            "status": "DONE",
        },
        {
            "member": "implementer-T1",
            "files": {"src/app.py": base.replace("line_39 = 39", "line_39 = 'agent'")},
            "run": ["sh", "-c", WAITS],
        },
        {
            "member": "implementer-T2",
            "times": 1,
            "files": {"src/app.py": base.replace("line_20 = 20", "line_20 = 'agent'")},
            "run": ["sh", "-c", WAITS],
        },
        {"agent": "v-tasks", "times": 1, "status": "NEEDS_REVISION"},
        {"member": "r-quality", "run": ["sh", "-c", TOLD], "message": "{run}", "status": "DONE"},
    )

    def work_on(member: str) -> None:
        app = place.root / "src/app.py"
        match member:
            case "designer":
                place.write(AT.memory, place.text("memory.md") + REMARK)
            case "implementer-T1":
                app.write_text(app.read_text().replace("line_0 = 0", "line_0 = 'person'"))
                place.git("commit", "-qam", "meanwhile")
            case "implementer-T2":
                app.write_text(app.read_text().replace("line_20 = 20", "line_20 = 'person'"))

    with person(place.root, work_on) as seen:
        finished = place.run()
    assert finished.exit_code == 0, finished
    assert sorted(seen) == ["designer", "implementer-T1", "implementer-T2"]
    text = (place.root / "src/app.py").read_text()
    for line in ("line_0 = 'person'\n", "line_20 = 'person'\n", "line_39 = 'agent'\n"):
        assert line in text
    assert place.text("memory.md").count(REMARK) == 1
    assert place.git("log", "-1", "--format=%s") == "meanwhile\n"
    assert "agent" not in place.git("show", "HEAD:src/app.py")
    (conflict,) = events(finished, "task.conflict")
    assert (conflict["task"], conflict["paths"]) == ("T2", ["src/app.py"])
    run_id = str(finished.run_id)
    assert "+line_20 = 'agent'" in "".join(answers(place, run_id, "planner"))
    assert "+line_39 = 'agent'" in "".join(answers(place, run_id, "r-quality"))
    assert events(finished, "foreign_write") == []
