"""The pipeline from end to end: order, briefs, what is refused, what stays out of reach."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from interlock.agents.runner import AgentRequest
from interlock.playbooks.feature import feature
from interlock.telemetry.lines import tell
from interlock.testing import Act, both, leaves_out, says, writes

from .conftest import AGENTS, AT, CRITICS, ERROR, RESEARCHERS, REVIEWERS, SILENT, VERIFIERS, Bench, plans, remembers


@pytest.mark.req("FT-02", "FT-150", "FT-09", "FT-19", "FT-54")
def test_a_clean_run_goes_through_every_step_in_order(bench: Bench) -> None:
    """Ten steps, a call of each, DONE, exit 0; memories are merged after each agent or cluster."""
    close = bench.play()
    assert (close.exit_code, close.output) == (0, "DONE: feature login is complete")
    assert bench.steps == ["0", "1", "2", "3", "3b", "4", "5", "6", "7", "8"]
    assert bench.called == [
        *RESEARCHERS, "spec", "designer", *CRITICS, "planner", "implementer-T01", *VERIFIERS, *REVIEWERS, "post-mortem",
    ]  # fmt: skip
    merged = [one["members"] for one in bench.events("memory.merged")]
    assert merged == [
        list(RESEARCHERS), ["spec"], ["designer"], list(CRITICS), ["planner"], ["implementer-T01"], list(VERIFIERS),
        list(REVIEWERS), ["post-mortem"],
    ]  # fmt: skip
    shown = [tell(line).text for line in bench.lines if line.event == "dispatch.start"]
    assert any(text.startswith("step 3b.1: ct-security") for text in shown)
    assert all(text.startswith("step ") for text in shown)


@pytest.mark.req("FT-35", "FT-27", "FT-109", "FT-24")
def test_setup_makes_only_the_request_and_the_memory(bench: Bench) -> None:
    """When the first agent starts, the feature's folder holds these two; no telemetry file before step 8."""
    seen: dict[str, set[str]] = {}

    def look(request: object, act: object) -> object:
        seen.setdefault(request.member, set(bench.paths))  # type: ignore[attr-defined]
        return act

    for name in ("researcher-architecture", "post-mortem", *REVIEWERS):
        bench.ever(name, look)  # type: ignore[arg-type]
    bench.play(request="Add a login page\n\n  with *care*")
    first = {path for path in seen["researcher-architecture"] if path.startswith("docs/")}
    assert first == {AT.memory, AT.request}
    assert bench.text("initial-request.md") == "# Initial Request\n\nAdd a login page\n\n  with *care*\n"
    assert not [path for path in seen["r-quality"] | seen["post-mortem"] if "agent-metrics" in path]
    assert AT.run_log("2026-01-04") in bench.paths


@pytest.mark.req("FT-03", "FT-26", "FT-36", "FT-46")
def test_the_engine_writes_only_what_is_its_own(bench: Bench) -> None:
    """The request and the shared memory; to the documents that only grow it appends r-knowledge's words, not one of
    its own. It reads only paths of the layout and runs no command."""
    bench.ever("r-knowledge", writes({AT.decisions: "# By r-knowledge\n", AT.suggestions: "# By it, too\n"}))
    bench.play()
    written = {line.data["out"]["path"] for line in bench.lines if line.event == "write"}
    assert written == {AT.request, AT.memory, AT.decisions, AT.suggestions}
    assert bench.text("decisions.md") == "# By r-knowledge\n"
    assert bench.text("review/knowledge-suggestions.md") == "# By it, too\n"
    read = {line.data["in"]["path"] for line in bench.lines if line.event == "read"}
    assert all(path.startswith("docs/feature/login/") for path in read)
    assert bench.simulation.world.commands == []
    assert [call.argv for call in bench.simulation.world.inspections] == [("git", "rev-parse", "--git-dir")]
    assert not [path for path in bench.paths if not path.startswith(("docs/feature/login/", "src/"))]


@pytest.mark.req("FT-04", "FT-08", "FT-53", "FT-110", "FT-43", "FT-11")
def test_every_brief_names_its_files_and_the_request(bench: Bench) -> None:
    """Full paths, no globs, the request always; the agent is one of the registry; three tries of its own."""
    bench.play()
    produced = {path for path in bench.paths if path.startswith("docs/")}
    for request in bench.simulation.world.calls:
        inputs = bench.inputs_of(request.member)
        assert AT.request in inputs and AT.memory in inputs
        assert not [path for path in inputs if "*" in path]
        assert {path for path in inputs if path.startswith("docs/")} <= produced
        assert "At most 3 tries" in request.brief
        assert request.agent in AGENTS
        outputs = request.brief.partition("## Outputs\n")[2].partition("\n## ")[0]
        assert f"`{AT.mem(request.member)}`" in outputs
    assert "unit tests" in bench.brief("implementer-T01")
    assert "Verification is across tasks" in bench.brief("v-tests")


INPUTS = {
    "researcher-impact": [],
    "spec": [*(f"memory/{name}.mem.md" for name in RESEARCHERS), "research/architecture.md", "research/impact.md",
             "research/dependencies.md", "research/patterns.md"],
    "designer": ["memory/spec.mem.md", *(f"memory/{name}.mem.md" for name in RESEARCHERS), "feature.md",
                 "research/architecture.md", "research/impact.md", "research/dependencies.md",
                 "research/patterns.md"],
    "ct-strategy": ["design.md", "feature.md"],
    "planner": ["memory/designer.mem.md", "memory/spec.mem.md", "design.md", "feature.md", "research/architecture.md",
                "research/impact.md", "research/dependencies.md", "research/patterns.md"],
    "implementer-T01": ["tasks/T01.md", "feature.md", "design.md", "memory/planner.mem.md", "memory/designer.mem.md"],
    "v-build": ["feature.md", "design.md", "plan.md", "tasks/T01.md"],
    "v-tests": ["verification/v-build.md"],
    "v-tasks": ["verification/v-build.md", "plan.md", "tasks/T01.md"],
    "v-feature": ["verification/v-build.md", "feature.md"],
    "r-knowledge": [],
}  # fmt: skip


@pytest.mark.req("FT-122", "FT-126", "FT-128", "FT-131", "FT-132", "FT-137", "FT-72", "FT-74", "FT-88")
def test_each_agent_gets_the_inputs_of_its_row(bench: Bench) -> None:
    """In this order, beside the request and the shared memory; reviewers get tier and difference."""
    bench.ever("implementer-T01", writes({"src/a.py": "a = 2\n"}))
    bench.play()
    for member, expected in INPUTS.items():
        assert bench.inputs_of(member) == [AT.request, AT.memory, *map(AT.at, expected)], member
    for name in ("r-quality", "r-security", "r-testing"):
        assert bench.inputs_of(name)[-1].endswith("changes.patch")
        assert "Review tier: Lightweight" in bench.brief(name)
        assert "src/a.py" in bench.brief(name).partition("### Changed files")[2]
    assert "Review tier: Lightweight" in bench.brief("r-knowledge")
    assert "focus `impact`" in bench.brief("researcher-impact")


OUTPUTS = {
    "researcher-impact": ["research/impact.md"],
    "spec": ["feature.md"],
    "designer": ["design.md"],
    "ct-security": ["ct-review/ct-security.md"],
    "planner": ["plan.md", "tasks/T01.md"],
    "implementer-T01": [],
    "v-build": ["verification/v-build.md"],
    "v-tasks": ["verification/v-tasks.md"],
    "r-security": ["review/r-security.md"],
    "r-knowledge": ["review/r-knowledge.md", "review/knowledge-suggestions.md", "decisions.md"],
    "post-mortem": ["post-mortems/2026-01-04-post-mortem.md", "agent-metrics/2026-01-04-run-log.md"],
}


@pytest.mark.req("FT-21", "FT-33", "FT-89", "FT-123", "FT-138", "FT-145")
def test_each_agent_owes_its_document_and_its_memory(bench: Bench) -> None:
    """And may leave a rating of what it was given, which nobody demands."""
    bench.play()
    for member, expected in OUTPUTS.items():
        contract = bench.calls_of(member)[0].contract
        assert contract is not None
        paths = [artifact.path for artifact in contract.artifacts]
        assert paths == [*map(AT.at, expected), AT.mem(member), AT.evaluation(member)]
        rating = contract.artifacts[-1]
        assert not rating.required
    assert not [path for path in bench.paths if "artifact-evaluations" in path]


@pytest.mark.req("FT-12", "FT-122", "FT-131")
def test_never_more_than_four_at_once(bench: Bench) -> None:
    """Four researchers really overlap, and nine tasks never make it five."""
    bench.on("planner", plans("T1 T2 T3 T4 T5 T6 T7 T8 T9"))
    bench.play()
    assert bench.simulation.world.most_at_once == 4
    starts = [line for line in bench.lines if line.event in ("dispatch.start", "dispatch.end")]
    assert [line.event for line in starts[:5]] == ["dispatch.start"] * 4 + ["dispatch.end"]


@pytest.mark.req("FT-01")
@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_request_is_refused(bench: Bench, text: str) -> None:
    """Exit 2, and nothing came into being."""
    error = bench.refuse(request=text)
    assert (error.what, error.exit_code) == ("Feature request is empty", 2)


@pytest.mark.parametrize("slug", ["../x", "a/b", "Login"])
def test_a_bad_slug_is_refused(bench: Bench, slug: str) -> None:
    """Exit 2, with the slug in the message."""
    error = bench.refuse(slug=slug)
    assert error.what == f'Invalid feature slug "{slug}": use lower-case letters, digits and "-"'
    assert error.exit_code == 2


@pytest.mark.req("EN-47", "LY-01", "LY-03")
def test_outputs_are_named_as_they_will_lie_and_are_not_there_before_they_count(bench: Bench) -> None:
    """The brief has the path of the workspace; what does not satisfy its contract never lies there."""
    there = []

    def looks(_request: AgentRequest, act: Act) -> Act:
        there.append(AT.feature in bench.paths)
        return act

    bench.on("spec", both(looks, writes({AT.feature: "no title\n"})), looks)
    assert bench.play().exit_code == 0
    assert there == [False, False]
    assert f"`{AT.feature}`" in bench.brief("spec").partition("## Task")[2].partition("## Inputs")[0]
    assert bench.text("feature.md") == "# Title\n"


# -- agents that fail


@pytest.mark.req("FT-05", "FT-06", "FT-135")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (SILENT, "no DONE:/NEEDS_REVISION:/ERROR: line"),
        (ERROR, "it broke"),
        (says("NEEDS_REVISION: not sure"), "not sure"),
        (leaves_out(AT.feature), f"{AT.feature}: missing"),
    ],
)
def test_an_error_is_retried_once(bench: Bench, change: object, complaint: str) -> None:
    """One more try, told what was wrong; then the run goes on."""
    assert bench.on("spec", change).play().exit_code == 0  # type: ignore[arg-type]
    assert bench.called.count("spec") == 2
    assert complaint in bench.brief("spec", 1).partition("## Failure context")[2]
    (returned,) = [one for one in bench.events("agent.returned") if one["agent"] == "spec"]
    assert returned["retries"] == 1


@pytest.mark.req("FT-39", "FT-127", "FT-129", "FT-133", "FT-151", "FT-152", "EN-25")
@pytest.mark.parametrize(
    ("agent", "change", "message"),
    [
        ("spec", ERROR, "ERROR: spec: it broke"),
        ("spec", SILENT, "ERROR: spec: no DONE:/NEEDS_REVISION:/ERROR: line"),
        ("spec", leaves_out(AT.feature), f"ERROR: spec: DONE but {AT.feature} is missing"),
        ("designer", ERROR, "ERROR: designer: it broke"),
        ("planner", ERROR, "ERROR: planner: it broke"),
    ],
)
def test_a_producer_that_fails_twice_halts_the_run(bench: Bench, agent: str, change: object, message: str) -> None:
    """Exit 5 with its reason; two calls, no more; nobody behind it is called; the run log is kept."""
    close = bench.ever(agent, change).play()  # type: ignore[arg-type]
    assert close.exit_code == 5
    assert str(close.output).splitlines()[0] == message
    assert bench.called.count(agent) == 2 and bench.called[-1] == agent
    assert "8" not in bench.steps
    assert "NEEDS_REVISION:" not in str(close.output).replace("DONE:/NEEDS_REVISION:/ERROR:", "")
    assert "outcome: ERROR" in bench.text("agent-metrics/2026-01-04-run-log.md")


@pytest.mark.req("FT-38", "EN-41")
def test_accidents_are_repeated_twice(bench: Bench) -> None:
    """A crash before a verdict is not the agent's error: at most three tries, with delays that are logged."""

    def dies(_request: object, act: object) -> object:
        return replace(act, code=-9, message="", files={})  # type: ignore[type-var]

    assert bench.on("spec", dies, dies).play().exit_code == 0  # type: ignore[arg-type]
    assert bench.called.count("spec") == 3
    assert [one["delay_s"] for one in bench.events("dispatch.try")] == [1.0, 5.0]
    assert bench.ever("spec", dies).play().exit_code == 5  # type: ignore[arg-type]
    assert bench.called.count("spec") == 3


@pytest.mark.req("FT-124", "FT-47", "FT-40", "FT-42")
def test_two_researchers_are_enough(bench: Bench) -> None:
    """The others are left out, later briefs list only what there is and say what there is not."""
    bench.ever("researcher-impact", ERROR).ever("researcher-patterns", leaves_out(AT.mem("researcher-patterns")))
    close = bench.play()
    assert close.exit_code == 0
    assert bench.called.count("researcher-impact") == 2
    listed = bench.inputs_of("spec")
    assert AT.mem("researcher-architecture") in listed and AT.output("researcher-dependencies") in listed
    assert AT.mem("researcher-impact") not in listed and AT.output("researcher-impact") not in listed
    assert f"Not available: `{AT.mem('researcher-impact')}`" in bench.brief("spec")
    assert AT.mem("researcher-impact") in bench.events("context.missing")[0]["paths"]
    assert "researcher-impact: it broke" in str(close.output)


@pytest.mark.req("FT-47")
def test_one_researcher_is_not_enough(bench: Bench) -> None:
    """The run ends, naming all that failed."""
    for focus in ("impact", "dependencies", "patterns"):
        bench.ever(f"researcher-{focus}", ERROR)
    close = bench.play()
    assert close.exit_code == 5
    assert "1 of 4 researchers usable; at least 2 required" in close.reason
    assert "spec" not in bench.called


@pytest.mark.req("FT-05", "EV-13")
def test_two_different_verdicts_in_one_answer_are_none(bench: Bench) -> None:
    """The agent is asked again; a quoted one is nobody's word."""
    bench.on("spec", says("ERROR: at first\n\nDONE: in the end")).on("designer", says("> ERROR: x\n\nDONE: as asked"))
    assert bench.play().exit_code == 0
    assert (bench.called.count("spec"), bench.called.count("designer")) == (2, 1)


# -- scopes


@pytest.mark.req("FT-20", "CM-04")
def test_a_change_to_the_shared_memory_is_not_taken_over(bench: Bench) -> None:
    """It is reported and kept as a patch, and the run goes on."""
    bench.ever("designer", writes({AT.memory: "mine now"}))
    assert bench.play().exit_code == 0
    assert "designer changed memory.md; only the orchestrator may. Not taken over." in bench.warnings
    (foreign,) = bench.events("foreign_write")
    assert (foreign["paths"], foreign["by"]) == ([AT.memory], "designer")
    kept = {f"{key}/{name}": content for (key, name), content in bench.simulation.world.records.kept.items()}
    assert b"mine now" in kept[foreign["patch"].partition("/dispatches/")[2]]
    assert "mine now" not in bench.memory


@pytest.mark.req("FT-21", "FT-44", "FT-45")
@pytest.mark.parametrize("path", [AT.mem("designer"), "src/a.py", AT.at("extra.md"), AT.design])
def test_writing_elsewhere_is_a_scope_violation(bench: Bench, path: str) -> None:
    """Not taken over, and a failure of the agent, which is retried once."""
    bench.on("spec", writes({path: "intruder"}))
    assert bench.play().exit_code == 0
    assert bench.called.count("spec") == 2
    assert any(path in one["paths"] for one in bench.events("scope.violation"))
    content = bench.simulation.world.tree.files.get(path, b"")
    assert content != b"intruder"


@pytest.mark.req("FT-45")
def test_the_request_is_never_changed(bench: Bench) -> None:
    """Not even by an agent: it is the engine's."""
    bench.ever("designer", writes({AT.request: "something else"}))
    bench.play()
    assert bench.text("initial-request.md") == "# Initial Request\n\nAdd a login page\n"


# -- events


@pytest.mark.req("FT-23")
def test_every_return_is_recorded_with_its_nine_facts(bench: Bench) -> None:
    """Agent, step, pattern, status, retries, failure, iteration, human, and the line's own time."""
    bench.ever("r-knowledge", ERROR)
    bench.play()
    returned = {one["agent"]: one for one in bench.events("agent.returned")}
    assert set(returned) == set(bench.called)
    assert returned["ct-security"] == {
        "agent": "ct-security", "step": "3b.1", "pattern": "A", "status": "DONE", "retries": 0, "failure": "",
        "iteration": 1, "human": False,
    }  # fmt: skip
    assert (returned["v-build"]["pattern"], returned["spec"]["pattern"]) == ("B", "sequential")
    assert (returned["r-knowledge"]["status"], returned["r-knowledge"]["failure"]) == ("ERROR", "r-knowledge: it broke")
    assert all(line.ts for line in bench.lines if line.event == "agent.returned")


@pytest.mark.req("FT-41")
@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("ct-security", remembers("Critical", finding="tokens are logged")),
        ("r-security", remembers("Blocker", finding="tokens are logged")),
        ("researcher-impact", remembers("N/A", finding="SECURITY: tokens are logged")),
    ],
)
def test_a_security_problem_is_flagged_at_once(bench: Bench, member: str, change: object) -> None:
    """Before the cluster is decided, and shown on the console."""
    bench.on(member, change).play()  # type: ignore[arg-type]
    flag = bench.events("security.flag")[0]
    assert (flag["severity"], flag["agent"]) == ("critical", member)
    assert "tokens are logged" in flag["finding"]
    flagged = bench.position("security.flag", agent=member)
    assert flagged < bench.position("cluster.end", members=list(_cluster_of(member)))
    assert tell(bench.lines[flagged + 1]).weight == "attention"


def _cluster_of(member: str) -> tuple[str, ...]:
    return next(names for names in (RESEARCHERS, CRITICS, REVIEWERS) if member in names)


@pytest.mark.req("FT-153")
def test_no_agent_is_called_between_a_cluster_and_its_decision(bench: Bench) -> None:
    """CT, V and R are decided by the engine alone."""
    bench.play()
    for rule in ("ct_cluster", "v_cluster", "r_cluster"):
        decided = next(
            n for n, line in enumerate(bench.lines) if line.event == "decide" and rule in str(line.data["in"])
        )
        last_end = max(n for n, line in enumerate(bench.lines[:decided]) if line.event == "dispatch.end")
        assert not [line for line in bench.lines[last_end:decided] if line.event == "dispatch.start"]


def test_the_playbook_is_what_the_table_says() -> None:
    """Caps, retries, agents, what happens after a complete run."""
    assert feature.max_parallel == 4
    assert (feature.retries.transient, feature.retries.contract, feature.retries.error) == (2, 1, 1)
    assert feature.reopens and feature.after_complete == "new run only on request"
    assert set(feature.agents) == set(AGENTS)
    assert re.fullmatch("[a-z-]+", feature.key(feature.inputs("Ein Test")))
