"""Standards and templates: they agree with the engine, or the run does not start."""

from __future__ import annotations

import pytest

from interlock.documents import Document, DocumentState, Sections, load_yaml
from interlock.playbooks.harness import example_files, standards, templates
from interlock.playbooks.harness.escalation import Escalation
from interlock.playbooks.harness.stages import LIFECYCLE
from interlock.playbooks.harness.standards import CONTRACTS, parse_contracts, tables
from tests.playbooks.harness.conftest import TASK, Bench

FILES = example_files()


def document(path: str, text: str | None = None) -> Document:
    return Document(path, DocumentState.OK, FILES[path] if text is None else text)


@pytest.mark.parametrize("path", tables(LIFECYCLE))
def test_the_shipped_standards_are_what_the_engine_does(path: str) -> None:
    """The YAML block that `init` writes equals the engine's table."""
    (block,) = Sections(FILES[path]).fences("yaml")
    assert load_yaml(block.content, path) == tables(LIFECYCLE)[path]
    standards.check_standard(document(path), LIFECYCLE)


@pytest.mark.req("HN-44")
def test_the_transitions_are_those_of_the_workflow() -> None:
    """Forward to the next stage, back from a negative QA and from both gates; the last two stages have no agent."""
    said = [tuple(one.values()) for one in tables(LIFECYCLE)[standards.WORKFLOW]["transitions"]]
    assert said == [
        ("Specification", "Design", "artifact verified"),
        ("Design", "Implementation Planning", "artifact verified"),
        ("Implementation Planning", "Build", "artifact verified"),
        ("Build", "QA", "artifact verified"),
        ("QA", "Build", "QA negative and remediations left"),
        ("QA", "Awaiting Approval", "QA positive"),
        ("Awaiting Approval", "Complete", "approved by a person"),
        ("Awaiting Approval", "Complete", "approval not required"),
        ("Build", "Implementation Planning", "rejected by a person"),
        ("Awaiting Approval", "Build", "rejected by a person"),
    ]


@pytest.mark.req("HN-25", "HN-85")
@pytest.mark.parametrize(
    ("path", "old", "new", "what"),
    [
        (standards.LIFECYCLE, "  - Design\n", "", "standard disagrees with engine: stages"),
        (standards.LIFECYCLE, "  - Blocked\n", "  - Stuck\n", "standard disagrees with engine: statuses"),
        (standards.WORKFLOW, "remediations: 2", "remediations: 5", "standard disagrees with engine: remediations"),
        (standards.WORKFLOW, "Build: build", "Build: qa", "standard disagrees with engine: agents"),
        (standards.RUN_STATE, "  - Notes\n", "", "standard disagrees with engine: fields"),
        (standards.RUN_IDS, "QA: QA", "QA: TEST", "standard disagrees with engine: suffixes"),
        (standards.RUN_IDS, "suffixes:", "extra: 1\nsuffixes:", "standard disagrees with engine: extra"),
        (
            standards.LIFECYCLE,
            "```yaml",
            "```yaml\nstages: [x]\n```\n\n```yaml",
            "malformed: 2 YAML blocks that say the same",
        ),
        (standards.LIFECYCLE, "stages:", "stages: [", "malformed"),
    ],
)
def test_a_standard_that_says_something_else_stops_the_start(
    bench: Bench, path: str, old: str, new: str, what: str
) -> None:
    """Exit 2 with the file and the part that differs; nothing is written."""
    bench.set(path, old, new)
    error = bench.refuse()
    assert error.what.startswith(f"{path}: ")
    assert what in error.what
    assert error.exit_code == 2
    assert error.remedy


@pytest.mark.req("HN-24", "HN-25")
def test_all_missing_files_are_named_at_once(bench: Bench) -> None:
    """One start is enough to learn of everything that is missing."""
    gone = [standards.WORKFLOW, standards.CONTRACTS, templates.RUN_STATE, templates.RUN_REPORT]
    for path in gone:
        del bench.files[path]
    error = bench.refuse()
    assert error.what == f"Missing required files: {', '.join(gone)}"
    assert "init --playbook harness" in (error.remedy or "")


@pytest.mark.req("HN-24")
@pytest.mark.parametrize("path", [templates.RUN_STATE, templates.RUN_REPORT])
def test_a_missing_template_is_refused_unless_the_built_in_one_may_be_used(bench: Bench, path: str) -> None:
    """Exit 2 by default; with `builtin_templates` the shipped text stands in."""
    del bench.files[path]
    assert bench.refuse().what == f"Missing required file: {path}"
    assert bench.play(builtin_templates=True).exit_code == 0


@pytest.mark.req("HN-26")
def test_all_references_are_read_before_anything_else(bench: Bench) -> None:
    """The event has the path and the digest of each, and comes before the first write."""
    bench.play()
    (loaded,) = bench.events("references.loaded")
    assert set(loaded["files"]) == {*standards.ALL, templates.RUN_STATE, templates.RUN_REPORT}
    assert all(len(digest) == 64 for digest in loaded["files"].values())
    order = [line.event for line in bench.lines]
    assert order.index("references.loaded") < order.index("write.intent")


@pytest.mark.parametrize(
    ("path", "old", "new", "what"),
    [
        (templates.RUN_STATE, "{{NOTES}}", "{{REMARKS}}", "unknown hole {{REMARKS}}"),
        (templates.RUN_STATE, "{{NOTES}}", "", "missing hole {{NOTES}}"),
        (templates.RUN_STATE, "# Run State", "# Run State {{ who }}", "unknown hole {{who}}"),
        (
            templates.RUN_STATE,
            "- Current Stage: {{CURRENT_STAGE}}",
            "{{CURRENT_STAGE}}",
            "field Current Stage not found",
        ),
        (templates.RUN_STATE, "## Approvals\n\n{{APPROVALS}}", "{{APPROVALS}}", "field Approvals not found"),
        (templates.RUN_REPORT, "{{STOPS}}", "", "missing hole {{STOPS}}"),
        (templates.RUN_REPORT, "## Stops", "## Ends", "table Stops not found"),
        (templates.RUN_REPORT, "- Status: {{STATUS}}", "Status is {{STATUS}}", "field Status not found"),
    ],
)
def test_templates_are_proven_before_they_are_used(bench: Bench, path: str, old: str, new: str, what: str) -> None:
    """Unknown and missing holes are errors, and so is a layout that could not be read back."""
    bench.set(path, old, new)
    error = bench.refuse()
    assert error.what.startswith(f"{path}: malformed: ")
    assert what in error.what


def test_a_template_may_look_different(bench: Bench) -> None:
    """Other words, another order, a hole used twice: the documents follow the template and stay readable."""
    bench.set(templates.RUN_STATE, "# Run State", "# Where {{TASK_ID}} stands")
    bench.set(templates.RUN_STATE, "## Notes", "Kept for the audit.\n\n## Notes")
    assert bench.play().exit_code == 0
    assert bench.text("harness/run-state.md").startswith(f"# Where {TASK} stands\n")


def test_what_is_filled_in_has_no_holes() -> None:
    """A value that looks like a hole stays what it is."""
    assert templates.filled("{{A}} {{ B }}", {"a": "{{B}}", "b": "x"}) == "{{B}} x"


# -- input contracts


@pytest.mark.req("HN-53")
def test_the_shipped_contracts_are_those_of_the_process() -> None:
    """Each stage needs what the one before it made; only Build writes beyond its artifact."""
    contracts = parse_contracts(document(CONTRACTS), LIFECYCLE)
    spec, design, plan, built = (f"artifact:{stage.name}" for stage in LIFECYCLE.working[:4])
    assert {stage: contract.required for stage, contract in contracts.items()} == {
        "Specification": ("task_file",),
        "Design": ("task_file", spec),
        "Implementation Planning": ("task_file", spec, design),
        "Build": ("task_file", spec, design, plan),
        "QA": ("task_file", spec, plan, built),
    }
    assert [stage for stage, contract in contracts.items() if contract.writes] == ["Build"]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("stage: Design", "stage: Dream", "stage 'Dream' has no agent"),
        (
            'stage: Build\nrequired: [task_file, "artifact:Specification", "artifact:Design", '
            '"artifact:Implementation Planning"]\noptional: []\nwrites: ["artifact:Build", "path:**", '
            '"path:!harness/**", "path:!.github/agents/**"]',
            "stage: QA\nrequired: [task_file]",
            "two contracts for stage QA",
        ),
        ("stage: Design", "name: Design", "a contract is a mapping with the key stage"),
        ('optional: []\nwrites: ["artifact:QA"]', "more: 1", "unknown key more"),
        ("required: [task_file]", "required: []", "stage Specification requires nothing"),
        ("required: [task_file]", "required: task_file", "expected a list of texts"),
        ("required: [task_file]", "required: [everything]", "'everything' is no input"),
        ("required: [task_file]", "required: ['path:../x']", "'path:../x' is no input"),
        ("required: [task_file]", "required: ['path:!src/**']", "'path:!src/**' is no input"),
        ("required: [task_file]", "required: ['artifact:QA']", "requires artifact:QA, which no stage before it makes"),
        ("required: [task_file]", "required: ['artifact:Complete']", "'artifact:Complete' is no input"),
        ('writes: ["artifact:QA"]', 'writes: ["artifact:Build"]', "'artifact:Build' is no output of QA"),
        ('writes: ["artifact:QA"]', 'writes: ["path:/etc"]', "'path:/etc' is no output of QA"),
        ('{headings: ["## Steps"]}', '["## Steps"]', "min_structure is a mapping with the key headings"),
        ("stage: Design", "stage: [", "is not valid YAML"),
    ],
)
def test_contracts_that_mean_nothing_are_refused(bench: Bench, old: str, new: str, what: str) -> None:
    """Exit 2 at the start, with the line."""
    bench.set(CONTRACTS, old, new)
    error = bench.refuse()
    assert what in error.what
    assert CONTRACTS in (error.where or "")
    assert error.exit_code == 2


@pytest.mark.req("HN-57", "EV-28")
def test_contracts_that_are_not_there_are_all_named() -> None:
    """Before anything is paid, whichever stage comes next."""
    text = FILES[CONTRACTS].split("## Build")[0]
    with pytest.raises(Escalation) as caught:
        parse_contracts(document(CONTRACTS, text), LIFECYCLE)
    assert [one.what for one in caught.value.several] == [
        f"No input contract for stage {stage} in {CONTRACTS}" for stage in ("Build", "QA")
    ]


@pytest.mark.req("EV-28")
def test_everything_that_is_wrong_is_said_at_once(bench: Bench) -> None:
    """Task, standards, contracts, templates and inputs that nobody has: one start is enough to learn of all of it."""
    bench.set(standards.LIFECYCLE, "  - Design\n", "")
    bench.set(standards.WORKFLOW, "remediations: 2", "remediations: 5")
    bench.set(CONTRACTS, "stage: QA\n", "stage: Testing\n")
    bench.set(CONTRACTS, "stage: Design\n", "stage: Design\nmore: 1\n")
    bench.set(templates.RUN_STATE, "{{NOTES}}", "")
    bench.set(templates.RUN_REPORT, "{{STOPS}}", "")
    bench.set("harness/tasks/TASK-001.md", "- Task ID: TASK-001\n", "")
    error = bench.refuse()
    for part in (
        "required metadata missing: Task ID",
        "standard disagrees with engine: stages",
        "standard disagrees with engine: remediations",
        "stage 'Testing' has no agent",
        "unknown key more",
        "missing hole {{NOTES}}",
        "missing hole {{STOPS}}",
    ):
        assert part in error.what
    assert error.what.startswith("7 things have to be mended first:\n- ")


@pytest.mark.req("EV-28", "HN-14")
def test_an_input_that_nobody_has_or_makes_is_found_before_anything_is_paid(bench: Bench) -> None:
    """Not so one that Build may write before QA needs it."""
    bench.set(CONTRACTS, 'required: [task_file, "artifact:Specification"]', 'required: [task_file, "path:docs/a.md"]')
    assert bench.refuse().what == "Input contract of Design not satisfiable: docs/a.md missing"
    bench.files["docs/a.md"] = "An overview.\n"
    bench.set(
        CONTRACTS, '"artifact:Implementation Planning", "artifact:Build"]', '"artifact:Build", "path:src/built.py"]'
    )
    assert bench.play().exit_code == 0


# -- authors' own files


OWN = "# How we work\n\nCarefully. Each change is read by two people.\n\n```yaml\nowner: ann\n```\n"


@pytest.mark.req("EV-41")
@pytest.mark.parametrize("path", standards.ALL)
def test_a_standard_in_prose_is_given_to_the_agents_and_the_shipped_rules_hold(bench: Bench, path: str) -> None:
    """It has nothing that could be compared; every agent has it among its inputs."""
    bench.files[path] = OWN
    assert bench.play().exit_code == 0
    for request in bench.simulation.world.calls:
        assert f"- `{path}`" in request.brief.split("## Inputs")[1].split("## Outputs")[0]
    assert bench.called == ["po-spec", "feature-design", "tech-lead", "build", "qa"]


@pytest.mark.req("EV-41")
@pytest.mark.parametrize("path", [templates.RUN_STATE, templates.RUN_REPORT])
def test_a_template_without_holes_leaves_the_shipped_one_in_force(bench: Bench, path: str) -> None:
    """A team's own form for people is no error; both documents are as interlock ships them."""
    bench.files[path] = "# Run\n\n- Task: {{ticket}}\n- State: <fill in>\n"
    assert bench.play().exit_code == 0
    assert bench.state.status == "Complete"


@pytest.mark.req("EV-41")
def test_all_of_an_authors_files_at_once(bench: Bench) -> None:
    """A repository that never saw interlock's blocks runs as it is."""
    for path in (*standards.ALL, templates.RUN_STATE, templates.RUN_REPORT):
        bench.files[path] = OWN
    assert bench.play().exit_code == 0


@pytest.mark.req("EV-41")
@pytest.mark.parametrize("name", ["docs", "docs/", "docs/**/*.md", "docs/*.md", "*.txt"])
def test_folders_and_patterns_are_inputs(bench: Bench, name: str) -> None:
    """One file in them is enough; without any the input is missing."""
    bench.set(CONTRACTS, 'required: [task_file, "artifact:Specification"]', f'required: [task_file, "path:{name}"]')
    assert f"{name} missing" in bench.refuse().what
    bench.files |= {"docs/a.md": "A.\n", "notes.txt": "B.\n"}
    assert bench.play().exit_code == 0
    (brief,) = [request.brief for request in bench.simulation.world.calls if request.agent == "feature-design"]
    assert f"- `{name}`" in brief.split("## Inputs")[1]


def test_a_team_may_ask_for_other_headings(bench: Bench) -> None:
    """The headings of the contract are those that count, and the agent is told so."""
    bench.set(CONTRACTS, 'headings: ["## Overview", "## Decisions"]', 'headings: ["## Ideas"]')
    bench.play()
    (brief,) = [request.brief for request in bench.simulation.world.calls if request.agent == "feature-design"]
    assert "- the heading `## Ideas`" in brief
    assert "## Ideas" in bench.text(f"harness/artifacts/{TASK}/design.md")
