"""The documents of `harness`, as people write them: read, and written back in the spelling found."""

from __future__ import annotations

import pytest

from interlock.documents.markdown import markdown
from interlock.engine.forms import Unusable
from interlock.errors import BadInput
from interlock.playbooks.harness import HARNESS
from interlock.playbooks.harness.documents import (
    Task,
    default_path,
    place_of,
    present,
    read_contracts,
    read_task,
    task_file,
)
from interlock.playbooks.harness.qa import Judged, flaw, read_judged, spell_judged
from interlock.playbooks.harness.run_state import (
    State,
    history,
    new_report,
    new_state,
    read_state,
    undelivered,
    with_entries,
    with_state,
)
from interlock.playbooks.harness.stages import (
    CONTRACTS,
    REPORT_TEMPLATE,
    RUN_STATE,
    STATE_TEMPLATE,
    WORKED,
    Stage,
    Status,
    called,
)
from tests.playbooks.harnesses import ARTIFACTS, BUILD, ID, PLAN, QA, SPEC, TASK
from tests.playbooks.harnesses import Task as Played

FILE = task_file(ID)


def task() -> Task:
    return read_task(TASK, FILE)


# --- the task file


TASKS = {
    "ours": TASK,
    "lines": f"# Greet by name\nTask ID: {ID}\nWorkflow mode: Standard\n\n## objective\nGreet.\n\n"
    "## Acceptance criteria\n1. A name is greeted.\n2. Nobody is greeted as the world.\n",
    "bold and a table": f"# Greet by name\n\n| Field | Value |\n| --- | --- |\n| **Task ID** | `{ID}` |\n\n"
    "**Objective:** Greet.\n\n## Acceptance Criteria\n\n- [ ] A name is greeted.\n"
    "- [ ] Nobody is greeted as the world.\n",
    "sections": f"# Greet by name\n\n## Task ID\n\n{ID}\n\n## Objective\n\nGreet.\n\n### Why\n\nSo.\n\n"
    "## Acceptance Criteria\n\n| # | Criterion |\n| --- | --- |\n| AC1 | A name is greeted. |\n"
    "| AC2 | Nobody is greeted as the world. |\n",
    "remarks": TASK.replace(
        f"ID: {ID}", f"ID: {ID}   # the first one\n- Require Approval Before Build: Yes  # mode's own"
    ),
}


@pytest.mark.req("HN-29", "PERSON-07", "HN-110")
@pytest.mark.parametrize("name", TASKS)
def test_a_task_file_is_read_as_people_write_it(name: str) -> None:
    found = read_task(TASKS[name], FILE)
    assert (found.id, found.title, found.before_build, found.before_complete) == (ID, "Greet by name", True, True)
    assert found.criteria == ("AC1: A name is greeted.", "AC2: Nobody is greeted as the world.")
    assert found.paths == {stage: default_path(ID, stage) for stage in WORKED} and found.defaults == WORKED


@pytest.mark.req("HN-29", "HN-72", "PERSON-07")
@pytest.mark.parametrize(
    "paths",
    [
        "- Specification: [the spec](docs/s.md)\n- Implementation Plan: `docs/p.md` (the plan)\n- QA: TBD\n",
        "| Stage | Path |\n| --- | --- |\n| Spec | docs/s.md |\n| Implementation Planning | docs/p.md |\n",
        "1. Specification: docs/s.md\n2. Planning: docs/p.md  # the plan\n3. Design: ...\n",
    ],
)
def test_artifact_paths_and_own_marks(paths: str) -> None:
    """Stages by a shorter name; without a path ours; criteria with marks of their own keep them."""
    text = f"{TASK}\n## Artifact Paths\n\n{paths}".replace("- A name", "- **R1.1** A name").replace(
        "- Nobody", "- R-2: Nobody"
    )
    found = read_task(text, FILE)
    assert (found.paths[Stage.SPECIFICATION], found.paths[Stage.PLANNING]) == ("docs/s.md", "docs/p.md")
    assert found.defaults == (Stage.DESIGN, Stage.BUILD, Stage.QA)
    assert found.criteria == ("**R1.1** A name is greeted.", "R-2: Nobody is greeted as the world.")


@pytest.mark.req("HN-94", "HN-93")
@pytest.mark.parametrize(
    ("lines", "build", "complete"),
    [
        ("", True, True),
        ("- Workflow Mode: supervised", True, True),
        ("- Workflow Mode: autonomous", False, False),
        ("- Workflow Mode: autonomous\n- Require Approval Before Build: yes", True, False),
        ("- require approval before complete: No", True, False),
    ],
)
def test_the_mode_says_who_is_asked_and_a_setting_overrides_it(lines: str, build: bool, complete: bool) -> None:
    found = read_task(TASK.replace("## Objective", f"{lines}\n\n## Objective"), FILE)
    assert (found.before_build, found.before_complete) == (build, complete)


def test_stages_by_their_names() -> None:
    names = {"Spec": "Specification", "implementation plan": "Implementation Planning", "QA": "QA", "DESIGN": "Design"}
    names |= {"Awaiting Approval": "Awaiting Approval", "complete": "Complete", "Design stage": "Design"}
    assert {name: called(name) for name in names} == names
    assert [called(name) for name in ("Testing", "Build and QA", "", "Completed by Ann")] == [None] * 4


# --- templates, run-state, report


STATE_TEMPLATES = {
    "ours": HARNESS.brings[STATE_TEMPLATE],
    "empty": "# State\n\nKept by hand until now.\n",
    "lines": "# State\n\nTask ID:\nTask File:\nCurrent Status: TBD\nCurrent stage:\nCurrent Run ID:\nNotes: none yet\n",
    "bullets": "# State\n\n* **Task ID:** ?\n* **Current Status:** ?\n* **Current Stage:** ?\n* **Completed Stages:**\n"
    "* **Artifact Paths:**\n* **Approval Mode:**\n* **Stop Reason:** None\n\nSigned: Ann\n",
    "sections": "# State\n\n## Task ID\n\n## Current Status\n\nActive\n\n## Current Stage\n\n"
    "## Completed Stages\n\n- None\n\n"
    "## Artifact Paths\n\n- Specification:\n- Design:\n- Implementation Plan:\n- Our own: x.md\n\n"
    "## Approval Mode\n\n- Require Approval Before Build: ?\n- Require Approval Before Complete: ?\n\n## Notes\n"
    "\n- Ann's\n",
    "a table": "# State\n\n| Field | Value |\n| --- | --- |\n| Task ID | |\n| Current Status | |\n| Current Stage | |\n"
    "| Approval Mode | |\n| Completed Stages | |\n\n## Artifact Paths\n\n| Stage | Path |\n| --- | --- |\n"
    "| Spec | |\n| QA | |\n",
    "holes": "# State of {{TASK_ID}}\n\nNow {{CURRENT_STAGE}} ({{ current status }}), {{unknown}}.\n",
}


@pytest.mark.req("HN-29", "HN-89", "PERSON-07")
@pytest.mark.parametrize("name", STATE_TEMPLATES)
def test_a_run_state_begins_as_its_author_wrote_it_and_keeps_its_spelling(name: str) -> None:
    """What it says is read back; nothing of the template is lost; a step further changes values alone."""
    template = STATE_TEMPLATES[name]
    first = State.first(task(), "2026-01-01")
    text = new_state(template, first, "Initialised by orchestration")
    assert read_state(text) == first
    assert "Initialised by orchestration" in text
    kept = ("Kept by hand until now.", "Signed: Ann", "Our own: x.md", "Ann's", "{{unknown}}", "# State")
    assert all(one in text for one in kept if one in template)
    later = first.at(Stage.DESIGN, "2026-01-02", completed=Stage.DESIGN.before).stopped(Status.BLOCKED, "no time  # ?")
    again = with_state(text, later, "Blocked: no time")
    assert read_state(again) == later.model_copy(update={"stop": "no time #?"})
    assert with_state(again, later, "Blocked: no time") == again, "done again it changes nothing"
    assert again.count("Blocked: no time") == 1 and all(one in again for one in kept if one in template)
    whole = read_state(with_state(again, later.at(Stage.BUILD, "2026-01-03", completed=Stage.BUILD.before), "x"))
    assert [*whole.completed] == [*Stage.BUILD.before] and whole.status is Status.AWAITING


REPORT_TEMPLATES = {
    "ours": HARNESS.brings[REPORT_TEMPLATE],
    "empty": "# Report\n",
    "a team's": "# Report\n\n**Task:** {{TASK_TITLE}}\n\n## Stage Outcomes\n\n| Stage | Outcome | Who |\n"
    "| --- | --- | --- |\n\n"
    "## Validation evidence\n\nSee CI, too.\n\n## Sign-off\n\nAnn\n",
}


@pytest.mark.req("HN-91", "HN-75", "PERSON-07")
@pytest.mark.parametrize("name", REPORT_TEMPLATES)
def test_a_report_keeps_its_authors_sections_and_only_grows(name: str) -> None:
    first = State.first(task(), "2026-01-01")
    text = new_report(REPORT_TEMPLATES[name], first, task())
    for word in (ID, "Greet by name", "Specification", f"RUN-2026-01-01-{ID}-SPEC", SPEC, "Active"):
        assert word in text
    row = (first.run_id, first.stage, "po-spec", "Completed", "t1", "t2", SPEC, "abc")
    more = with_entries(text, first, "t2", [row], ["a: verified"], "no\ntime")
    assert [one["outcome"] for one in history(more)] == ["Completed"] and history(more)[0]["sha-256"] == "abc"
    assert "- t2 a: verified" in more and "- t2 Specification: no time" in more
    assert with_entries(more, first, "t2", [row], ["a: verified"], "no time") == more
    lost = [line for line in text.split("\n") if line not in more.split("\n") and not line.startswith("| ")]
    assert lost == []
    assert markdown(more).under("Sign-off").strip().startswith("Ann" if name == "a team's" else "")


@pytest.mark.req("HN-89")
def test_a_run_state_that_lacks_fields_gets_them_with_the_next_step() -> None:
    played = Played()
    played.run(until="Specification")
    lines = [f"- {name}: {value}" for name, value in played.state.position().items() if isinstance(value, str)]
    kept = [one for one in lines if not one.startswith(("- Task File", "- Stop", "- Remediation"))]
    modes = "- Require Approval Before Build: No\n- Require Approval Before Complete: No\n"
    played.writes(RUN_STATE, "# State\n\n" + "\n".join([*kept, "- Completed Stages: Specification", modes]))
    played.run()
    assert all(markdown(played.text(RUN_STATE)).field(name) for name in (*played.state.position(), "Last Event"))
    assert played.state.task_file == FILE and [*played.state.paths.values()] == [*ARTIFACTS.values()]


@pytest.mark.req("HN-117")
def test_code_is_undelivered_until_the_report_says_otherwise() -> None:
    text = new_report("# R\n", State.first(task(), "2026-01-01"), task())
    state, found = State.first(task(), "2026-01-01"), [undelivered(text)]
    for n, line in enumerate(("changed by Build, not delivered yet: a.py", "QA result", "delivered: a.py")):
        text = with_entries(text, state, f"t{n}", [], [line], "")
        found.append(undelivered(text))
    assert found == [False, True, True, False]


# --- contracts


PROSE = """\
# Stage input contracts

Agents stay inside of these.

## Specification Stage

Required inputs:
- `harness/tasks/TASKID.md`

## Design

**Required:**

- the specification, `harness/artifacts/<TASK-ID>/specification.md`
- `docs/architecture.md` if there is one (optional)

Never read `src/`.

## Implementation Planning

| Input | Kind |
| --- | --- |
| `docs/*.md` | required |
| `notes.md` | optional |

## Build

Requires `{{TASK_ID}}.md`, and the plan.
Outputs: `harness/artifacts/x.md`

### Allowed

`src/**`

## QA

Run `make test`. No required inputs but the build report, `report.md`, which is required.
"""


@pytest.mark.req("HN-53", "HN-12", "PERSON-07")
def test_contracts_are_read_as_people_write_them() -> None:
    found = read_contracts(PROSE)
    assert {stage.value: [place_of(one, task()) for one in contract.required] for stage, contract in found.items()} == {
        "Specification": [FILE],
        "Design": [SPEC],
        "Implementation Planning": ["docs/*.md"],
        "Build": [f"{ID}.md"],
        "QA": ["report.md"],
    }
    assert "Never read `src/`." in found[Stage.DESIGN].prose and "Allowed" in found[Stage.BUILD].prose
    assert found[Stage.BUILD].scope[0] == "**" and found[Stage.QA].scope == ()


@pytest.mark.req("HN-53", "PERSON-07")
def test_a_contract_stands_under_the_name_of_its_stage() -> None:
    """A heading that only speaks of a stage is none, wherever it stands."""
    first = "# Contracts\n\n## Design principles of these contracts\n\n`a.md` is required.\n"
    found = read_contracts(
        PROSE.replace("# Stage input contracts\n", first).replace("MD`\n", "MD`\n\n### Planning notes\n")
    )
    assert {stage: one.prose.split("\n")[0] for stage, one in found.items()} == {
        stage: f"## {stage}{' Stage' if stage is Stage.SPECIFICATION else ''}" for stage in WORKED
    }


@pytest.mark.req("HN-53", "HN-14")
def test_an_exact_contract_is_a_block() -> None:
    block = """```yaml
stage: Build
required: [task_file, artifact:Implementation Plan, "path:docs/{TASK_ID}/"]
optional: [path:notes.md]
writes: ["path:src/**"]
min_structure: {headings: ["## Done"]}
```
"""
    found = read_contracts(f"{PROSE}\n{block}")[Stage.BUILD]
    assert [place_of(one, task()) for one in found.required] == [FILE, PLAN, f"docs/{ID}/"]
    assert (found.scope[0], found.headings, found.prose) == ("src/**", ("## Done",), "")

    class Look:
        def read(self, path: str) -> str | None:
            return {FILE: "x", PLAN: " "}.get(path)

        def paths(self) -> list[str]:
            return [FILE, PLAN, f"docs/{ID}/a.md"]

    wanted = [FILE, PLAN, f"docs/{ID}/", "docs/**", "none/*"]
    assert present(Look(), wanted) == [FILE, f"docs/{ID}/", "docs/**"], "an empty file is not there"
    for old, new in (
        ("task_file", "everything"),
        ("stage: Build", "stage: Ship"),
        ("artifact:Implementation Plan", "artifact:Nothing"),
    ):
        with pytest.raises(BadInput, match=r"malformed|no stage"):
            read_contracts(f"{PROSE}\n{block.replace(old, new)}")
    with pytest.raises(BadInput):
        read_contracts(f"{PROSE}\n{block.replace('required: [', 'requires: [')}")


@pytest.mark.req("HN-23")
def test_ours_cover_every_stage() -> None:
    found = read_contracts(HARNESS.brings[CONTRACTS])
    assert [*found] == [*WORKED]
    assert [place_of(one, task()) for one in found[Stage.QA].required] == [FILE, SPEC, PLAN, BUILD]


# --- the QA artifact


CRITERIA = ("AC1: A name is greeted.", "AC2: Nobody is greeted as the world.", "R-3: Fast")
HEAD = (
    "# QA\n\nValidation Result: Passed\nApproval Readiness: Ready\n\n## Blocking Issues\n\n- None\n\n"
    "## Acceptance Criteria\n\n"
)
SAYS = {
    "- [x] AC1: so": {0: True},
    "- [X] **AC1** so": {0: True},
    "* [ ] AC1": {0: False},
    "1. [x] A name is greeted.": {0: True},
    "- AC1: met": {0: True},
    "- AC1: not met": {0: False},
    "- AC1 - passed, see the test": {0: True},
    "- AC1: partially": {0: False},
    "- AC1: unverified": {0: False},
    "- AC1 \u2705": {0: True},
    "- AC1 \u274c done": {0: False},
    "| AC1 | A name is greeted. | yes |": {0: True},
    "| AC2 | no |": {1: False},
    "- [x] AC10: another": {},
    "- [x] R-3 fast": {2: True},
    "- Nobody is greeted as the world: satisfied": {1: True},
    "    - [x] AC1 in code": {},
    "AC1 is met": {},
    "- AC1: verified that it does NOT work": {0: False},
    "- AC1: done by hand, the test failed": {0: False},
    "- AC1: one test passes, two failed": {0: False},
    "- AC1: met, though `greet Bo` doesn't": {0: False},
    "- AC1 (greeting): fully satisfied": {0: True},
    "| AC1 | greeting | met | `greet Ada` |": {0: True},
}


@pytest.mark.req("HN-72", "HN-69", "EVID-02")
@pytest.mark.parametrize("line", SAYS)
def test_a_criterion_stands_as_people_write_it(line: str) -> None:
    found = read_judged(f"{HEAD}{line}\n", QA, CRITERIA)
    assert isinstance(found, Judged)
    told = {one.criterion: one.met for one in found.criteria if one.criterion in CRITERIA}
    assert told == {CRITERIA[n]: met for n, met in SAYS[line].items()}


@pytest.mark.req("HN-72")
def test_a_criterion_that_stands_in_another_is_told_from_it() -> None:
    """By its mark, the longest one first; else by its text, likewise."""
    alike = ("AC1: A name is greeted.", "AC1.1: A name is greeted in German.", "AC2: Fast.", "AC3: Fast enough, fast.")
    for lines in ([f"- [x] {one}" for one in alike], [f"- [x] {one.partition(': ')[2]}" for one in alike]):
        found = read_judged(HEAD + "\n".join(lines), QA, alike)
        assert isinstance(found, Judged) and [one.criterion for one in found.criteria] == [*alike]


CHECKS = {
    "- `make test`: exit 0": ("make test", "green", False),
    "- `make test` (exit code 0, 12 passed)": ("make test", "green", False),
    "- `make x` exited with 2": ("make x", "red", False),
    "- `sh v.sh`: exit 1": ("sh v.sh", "red", False),
    "- `sh v.sh`: exit 1, expected": ("sh v.sh", "red", True),
    "- `sh v.sh`: exit 127, expected 127": ("sh v.sh", "red", True),
    "- `sh v.sh`: exit 0, expected 1": ("sh v.sh", "red", False),
    "- I ran the tests": None,
}


@pytest.mark.req("HN-69", "EVID-03")
@pytest.mark.parametrize("line", CHECKS)
def test_a_check_says_how_it_ended(line: str) -> None:
    found = read_judged(f"{HEAD}- [x] AC1\n\n## Checks\n\n{line}\n", QA, CRITERIA)
    assert isinstance(found, Judged)
    told = [(one.command, one.result, one.expected) for one in found.checks]
    assert told == ([CHECKS[line]] if CHECKS[line] else [])


@pytest.mark.req("HN-69", "HN-19")
def test_of_two_results_the_worse_counts_and_all_that_is_malformed_is_told() -> None:
    twice = read_judged(f"{HEAD}- [x] AC1\n\nValidation Result: Issues Found\n", QA, CRITERIA)
    assert isinstance(twice, Judged) and twice.summary == "Issues Found, Ready" and not twice.claim(CRITERIA).passes
    broken = read_judged("# QA\n\nValidation Result: good\n", QA, CRITERIA)
    assert isinstance(broken, Unusable) and len(broken.problems) == 4
    assert all(one.startswith(f"{QA}: malformed: ") for one in broken.problems)
    none = read_judged(f"{HEAD}- [x] AC1\n\n## Checks\n\n- None: there is nothing to run\n", QA, CRITERIA)
    assert isinstance(none, Judged) and none.no_check == "there is nothing to run"


@pytest.mark.req("EVID-02", "HN-69")
def test_what_is_spelled_is_read_back() -> None:
    form = {
        "about": "R1",
        "verdict": "accept",
        "findings": [{"text": "it crashes"}],
        "criteria": [{"criterion": one, "met": n > 0, "evidence": ""} for n, one in enumerate(CRITERIA)],
        "checks": [{"command": "make", "result": "red", "expected": True}, {"command": "true", "result": "green"}],
        "no_check": "none here",
        "weakened": [{"path": "tests/t.py", "why": "asked for"}],
    }
    (text,) = spell_judged(form, [QA]).values()
    found, meant = read_judged(text, QA, CRITERIA), Judged.model_validate(form)
    assert isinstance(found, Judged) and found.claim(CRITERIA) == meant.claim(CRITERIA)
    assert flaw(text, ()) == ""


@pytest.mark.req("HN-97", "PERSON-07")
def test_what_is_used_of_their_files_is_said_at_the_start() -> None:
    played = Played(files={CONTRACTS: PROSE, f"{ID}.md": "x", "docs/a.md": "y"})
    warned = played.run(until="Design").warnings
    assert PLAN not in played.briefs("feature-design")[0], "its contract does not speak of the plan"
    assert f"Specification in `{SPEC}`" in played.briefs("feature-design")[0]
    assert any(one.startswith(f"{FILE} names no artifact path for Specification, Design") for one in warned)
    assert any(
        f"{CONTRACTS} requires, as it is written: Specification: harness/tasks/TASKID.md; Design:" in one
        for one in warned
    )
