"""`harness`, whole, with the real Claude Code and Codex in layers, and a model that does what a script says."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app import playbook_named
from tests.whole.test_harness import ID, REPORT, STATE, TASK
from tests.whole.test_real_agents import TWO, Person
from tools import scripted_llm as llm

FOLDER = f"harness/artifacts/{ID}"
HEADINGS = {
    "po-spec": ("specification", "Requirements", "Acceptance Criteria"),
    "feature-design": ("design", "Overview", "Decisions"),
    "tech-lead": ("implementation-planning", "Steps", "Risks"),
    "build": ("build", "Changes", "Verification"),
}
QA = (
    "# QA\\n\\nValidation Result: {result}\\nApproval Readiness: {ready}\\n\\n## Blocking Issues\\n\\n- {issue}\\n\\n"
    "## Acceptance Criteria\\n\\n- [{box}] AC1: seen\\n\\n## Checks\\n\\n- `sh check.sh`: exit 0\\n"
)


def writes(agent: str, more: str = "") -> llm.Step:
    name, one, two = HEADINGS[agent]
    text = f"# {name} {more}\\n\\n## {one}\\n\\n- it\\n\\n## {two}\\n\\n- it\\n"
    return llm.shell(f"mkdir -p {FOLDER} && printf '{text}' > {FOLDER}/{name}.md")


def judges(result: str, ready: str, issue: str, box: str) -> llm.Step:
    text = QA.format(result=result, ready=ready, issue=issue, box=box)
    return llm.shell(f"sh check.sh; printf '{text}' > {FOLDER}/qa.md")


@pytest.fixture(params=TWO)
def person(request: pytest.FixtureRequest, model: llm.Model, tmp_path: Path) -> Person:
    person = Person(request.param, model, tmp_path)
    for path, text in playbook_named("harness").brings.items():
        person.bench.write(path, text)
    person.bench.write(f"harness/tasks/{ID}.md", TASK)
    person.bench.commit("a task")
    person.trusts()
    return person


@pytest.mark.req("AGENT-06", "HN-06", "HN-76", "HN-05", "HN-80")
def test_a_task_is_planned_approved_returned_and_complete(person: Person) -> None:
    """Build sets everything back and meddles with run-state at first; QA returns the task once."""
    bench = person.bench
    bench.write("notes.txt", "one\nTWO, unsaved\nthree\n")
    person.model.rules += [
        *(llm.Rule(rf"# {agent}:", (writes(agent), llm.say("done"))) for agent in ("po-spec", "feature-design")),
        llm.Rule(r"# tech-lead:", (writes("tech-lead"), llm.form({"status": "done"}))),
        llm.Rule(
            r"# build: [^\n]*\n\n[^#]*- Attempt: 2\n[^#]*## ",
            (llm.shell("echo '# tried' >> lib.py"), writes("build", "again"), llm.say("done")),
        ),
        llm.Rule(
            r"# build:",
            (
                llm.shell("git stash -uq; git reset -q --hard; git clean -qfdx"),
                llm.edit("lib.py", "    return a - b", "    return a + b"),
                writes("build"),
                llm.say("done"),
            ),
        ),
        llm.Rule(
            r"# qa: [^\n]*\n\n[^#]*- Attempt: 1\n",
            (judges("Issues Found", "Back to Build", "no comment", " "), llm.say("no")),
        ),
        llm.Rule(r"# qa:", (judges("Passed", "Ready", "None", "x"), llm.say("yes"))),
    ]
    view = person.types("run", "harness", ID, ok=4)
    assert view["gate"]["name"] == "build" and [call["agent"] for call in view["dispatches"]] == [*HEADINGS][:3]
    view = person.types("approve", ok=4)
    assert view["gate"]["name"] == "complete" and "return a - b" in bench.read("lib.py")
    view = person.types("approve")
    assert view["status"] == "complete" and "return a + b" in bench.read("lib.py") and "# tried" in bench.read("lib.py")
    assert bench.read("notes.txt") == "one\nTWO, unsaved\nthree\n"
    assert [call["agent"] for call in view["dispatches"]] == [*HEADINGS, "qa", "build", "qa"]
    assert [call["calls"] for call in view["dispatches"]] == [1] * 7
    assert "Current Status: Complete" in bench.read(STATE) and "| Returned to Build |" in bench.read(REPORT)
