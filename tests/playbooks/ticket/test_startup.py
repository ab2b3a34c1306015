"""I0 to I3 in the simulated twin: what is known before anything is planned, and what is written then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.documents import load_yaml, render_yaml
from interlock.engine import Delegation, Options, Status
from interlock.engine.simulation import Crash
from interlock.playbooks.ticket.briefs import AGENTS
from interlock.playbooks.ticket.playbook import ticket
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, PROJECT
from interlock.playbooks.ticket.settings import TicketSettings
from tests.playbooks.ticket.conftest import Bench, in_order, nothing, only, writes

VAGUE = "ABC-12 fix something about the login"
PROMPT = {
    "jira": "ABC-12",
    "type": "fix",
    "slug": "fix_login_page",
    "tool_mandates": [],
    "original_request": VAGUE,
    "refined_prompt": "Fix the login page.",
    "success_criteria": ["tests pass"],
    "created_at": "2026-01-04T12:00:00Z",
}


# -- refusals: exit 2, and nothing comes into being


@pytest.mark.req("TK-11")
@pytest.mark.parametrize("request_", ["", "fix the login"])
def test_without_a_ticket_nothing_is_created(bench: Bench, request_: str) -> None:
    """No id, no run: exit 2 and the workspace as it was."""
    error = bench.refuse(request_)
    assert (error.exit_code, error.what) == (2, "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING.")


def test_two_tickets_and_a_given_one(bench: Bench) -> None:
    """Several ids are refused; --jira decides."""
    assert bench.refuse("ABC-1 fix XYZ-2 so that it works").exit_code == 2
    assert bench.play("ABC-1 fix XYZ-2 so that it works", jira="ABC-1").status is Status.COMPLETE


def test_what_is_no_repository_is_refused(bench: Bench) -> None:
    """The path is named."""
    bench.git.present = False
    assert bench.refuse().what == "ERROR: not a git repository: /simulated"


def test_without_commands_nothing_starts(bench: Bench) -> None:
    """No project file, or one that does not say all: both flags are named."""
    del bench.files["Makefile"]
    assert bench.refuse().what == "ERROR: no build/test command found; give --build and --test"
    assert bench.refuse(build="make").what == "ERROR: no build/test command found; give --build and --test"


@pytest.mark.req("TK-03")
def test_an_agent_cannot_start_it(bench: Bench) -> None:
    """Inside a dispatch the playbook refuses to start."""
    simulation = bench.simulate()
    options = Options(settings=TicketSettings(), parent=Delegation(1, ("router", "implementer")))
    with pytest.raises(Exception, match="started by a person, not by an agent") as caught:
        simulation.go(options=options)
    assert getattr(caught.value, "exit_code", None) == 2


@pytest.mark.req("TK-04")
def test_the_agents_are_known_beforehand() -> None:
    """All seven are declared, so that they are bound before anything starts."""
    assert ticket.agents == AGENTS
    assert set(AGENTS) == {
        "Interpreter", "Initializer", "Planner", "Splitter", "task-executor", "Developer", "Reviewer",
    }  # fmt: skip


# -- I1


@pytest.mark.req("TK-17", "TK-24", "TK-32", "TK-33", "TK-34", "TK-35", "TK-39", "TK-02")
def test_the_analysis_reads_and_changes_nothing(bench: Bench) -> None:
    """First progress.yaml is looked for; then four analyses side by side, by code, before any git command that acts."""
    bench.play()
    reads = [line for line in bench.lines if line.event == "read"]
    assert reads[0].data["out"]["path"] == f"{HOME}/progress.yaml"
    analysis = [line for line in bench.lines if (line.key or "").startswith("I1/")]
    (cluster,) = [line.data for line in analysis if line.event == "cluster.end"]
    assert cluster["members"] == ["commands", "cores", "docs", "impact"]
    acts = [line for line in analysis if line.event in ("command", "write", "repository.intent", "dispatch.start")]
    assert all(str(line.key).startswith("I1/preflight/check-") for line in acts)
    events = [line.event for line in analysis]
    assert events.index("orchestrator.startup.analysis.start") < events.index("orchestrator.startup.analysis.complete")
    first_act = next(
        line
        for line in bench.lines
        if line.event.endswith(("command.intent", "repository.intent")) and "/preflight/" not in str(line.key)
    )
    assert "/O4.5/" in str(first_act.key)
    docs = [line.data["out"]["path"] for line in reads if (line.key or "").startswith("I1/analysis/docs/read")]
    assert len(docs) == 4
    members = [line for line in analysis if (line.key or "").startswith("I1/analysis/")]
    order = [str(line.key).split("/")[2].partition("#")[0] for line in members]
    # The machine takes a moment to say how many processors it has: what is declared after that does not wait for it.
    assert order.index("cores") > max(order.index("docs"), order.index("impact"))


@pytest.mark.req("TK-36", "TK-37", "TK-46")
def test_what_was_found_stands_in_the_state_document(bench: Bench) -> None:
    """Commands, cores and likely files."""
    bench.files["src/login.txt"] = "an error\n"
    bench.play()
    progress = bench.progress
    assert (progress["build_command"], progress["test_command"]) == ("make build", "make test")
    assert progress["max_parallel_tasks"] == 4
    assert progress["startup"]["impact_scan"] == {"affected_areas": ["src"], "likely_files": ["src/login.txt"]}


@pytest.mark.req("TK-38")
def test_two_tasks_side_by_side_where_nothing_is_known(bench: Bench) -> None:
    """No tool says how many processors there are."""
    bench.cores = ""
    bench.play()
    assert bench.progress["max_parallel_tasks"] == 2


def test_flags_go_over_settings_and_these_over_what_is_found(bench: Bench) -> None:
    """The command line wins, then interlock.toml, then the project."""
    bench.play(build="none", settings={"build_command": "b", "test_command": "t", "max_parallel_tasks": 1})
    progress = bench.progress
    assert (progress["build_command"], progress["test_command"], progress["max_parallel_tasks"]) == ("none", "t", 1)
    assert [
        call.argv[2] for call in bench.world.commands if call.argv[1] == "-c" and call.argv[2] in ("none", "t")
    ] == ["t", "t"]  # type: ignore[union-attr]


@pytest.mark.req("TK-47", "TK-50", "TK-51", "TK-54", "TK-12")
def test_a_clear_request_needs_no_interpreter(bench: Bench) -> None:
    """Code writes prompt.yaml, mandates word for word."""
    bench.play("ABC-12 fix the login error. You MUST use `jq` here.")
    assert "Interpreter" not in bench.called
    data = load_yaml(bench.text(f"{HOME}/prompt.yaml"), "prompt.yaml")
    assert (data["jira"], data["type"], data["slug"]) == ("ABC-12", "fix", "fix_login_error")
    assert data["tool_mandates"] == [{"text": "MUST use `jq` here", "tool": "jq", "assigned_agent": "developer"}]
    assert data["success_criteria"][-2:] == ["build passes", "tests pass"]
    assert bench.decisions("clarity") == ["clear"]


@pytest.mark.req("TK-55", "TK-56", "TK-162")
def test_an_unclear_request_goes_to_the_interpreter(bench: Bench) -> None:
    """Its brief has the labels in order; it may write prompt.yaml and nothing else."""
    bench.changes["Interpreter"] = only(render_yaml(PROMPT))
    assert bench.play(VAGUE).status is Status.COMPLETE
    brief = bench.brief("Interpreter")
    assert in_order(
        brief,
        "ROLE ENFORCEMENT: You are Interpreter.",
        "VIOLATION PENALTY:",
        "SCOPE REMINDER:",
        "FORBIDDEN",
        "User request:",
        VAGUE,
        "JIRA: ABC-12",
        f"{HOME}/prompt.yaml",
        "IMPORTANT:",
    )
    assert bench.called.count("Interpreter") == 1
    assert bench.scope("Interpreter") == {f"{HOME}/prompt.yaml"}
    assert bench.progress["slug"] == "fix_login_page"
    assert bench.decisions("clarity") == ["a vague word"]


@pytest.mark.req("EN-32")
def test_the_interpreter_may_ask_once(bench: Bench) -> None:
    """Questions park the run at one gate; the answer goes into the second brief."""
    asked = [0]

    def ask_first(request, act):  # type: ignore[no-untyped-def]
        asked[0] += 1
        data = {**PROMPT, "questions": ["Which page?"]} if asked[0] == 1 else PROMPT
        return replace(act, files={f"{HOME}/prompt.yaml": render_yaml(data)})

    bench.changes["Interpreter"] = ask_first
    simulation = bench.simulate(VAGUE)
    close = simulation.go()
    assert (close.status, close.gate and close.gate["gate"]) == (Status.WAITING, "questions")
    assert "Which page?" in close.reason
    assert not bench.has(f"{HOME}/progress.yaml")
    simulation.decide("The first one.")
    assert simulation.go().status is Status.COMPLETE
    assert "The first one." in bench.brief("Interpreter", 1)
    assert asked[0] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            render_yaml({name: value for name, value in PROMPT.items() if name != "success_criteria"}),
            "ERROR: prompt.yaml: field success_criteria missing",
        ),
        (render_yaml({**PROMPT, "jira": "XYZ-1"}), "ERROR: prompt.yaml: jira is XYZ-1, expected ABC-12"),
    ],
)
def test_an_unusable_prompt_is_asked_for_again_and_then_fails(bench: Bench, text: str, reason: str) -> None:
    """One repeat with the exact complaint, then exit 5."""
    bench.changes["Interpreter"] = only(text)
    close = bench.play(VAGUE)
    assert (close.exit_code, close.reason) == (5, reason)
    assert bench.called == ["Interpreter", "Interpreter"]
    assert reason.removeprefix("ERROR: prompt.yaml: ") in bench.requests[1].brief


# -- I2


@pytest.mark.req("TK-58", "TK-59", "TK-60", "TK-63", "TK-65", "TK-06")
def test_the_state_document_is_there_before_the_planner(bench: Bench) -> None:
    """Folder, log, state, .gitignore; none of the files of the older way of working."""
    bench.files[".gitignore"] = "*.pyc\n"
    seen: dict[str, object] = {}

    def look(request, act):  # type: ignore[no-untyped-def]
        seen.update(load_yaml(bench.text(f"{HOME}/progress.yaml"), "x"))
        return act

    bench.changes["Planner"] = look
    bench.play()
    assert seen["current_phase"] == "PLANNING"
    assert seen["startup"]
    assert bench.has(f"{HOME}/tmp/progress.bak.yaml")
    assert bench.text(".gitignore") == "*.pyc\nprompts/\ndocs/docs_cache_state.yaml\n"
    assert "start" in bench.logged
    own = [path for path in bench.world.tree.files if path.startswith(HOME)]  # type: ignore[union-attr]
    legacy = ("startup_context", "context_compact", "validation_plan", "task_packets", "_summary")
    assert not [path for path in own if any(name in path for name in legacy)]
    assert [path for path in own if path.endswith((".log", ".jsonl"))] == [f"{HOME}/log.jsonl"]


@pytest.mark.req("TK-64")
def test_a_missing_gitignore_is_made(bench: Bench) -> None:
    """With exactly our two lines."""
    del bench.files[".gitignore"]
    bench.play()
    assert bench.text(".gitignore") == "prompts/\ndocs/docs_cache_state.yaml\n"
    committed = bench.git.files
    assert committed[".gitignore"] == b"prompts/\ndocs/docs_cache_state.yaml\n"


# -- I3


@pytest.mark.req("TK-66", "TK-68", "TK-69", "TK-70")
def test_untrusted_docs_are_refreshed_beside_the_planner(bench: Bench) -> None:
    """Both run at the same time; the Initializer may write what is not valid and the cache, nothing else."""
    bench.files = dict(PROJECT)
    bench.play()
    assert bench.called[:2] == ["Planner", "Initializer"]
    starts = [line.seq for line in bench.lines if line.event == "dispatch.start"][:2]
    ends = [line.seq for line in bench.lines if line.event == "dispatch.end"][:2]
    assert max(starts) < min(ends)
    assert bench.scope("Initializer") == {
        "docs/ARCHITECTURE.md", "docs/CODE_STYLE.md", "docs/FINDINGS.md", "docs/docs_cache_state.yaml",
    }  # fmt: skip
    assert bench.scope("Planner") == {f"{HOME}/iteration_0/plan.md", f"{HOME}/iteration_0/tasks.yaml"}
    brief = bench.brief("Initializer")
    assert in_order(
        brief,
        "ROLE ENFORCEMENT: You are Initializer.",
        "Build command: make build",
        "Test command: make test",
        "JIRA: ABC-12",
        "Mode: REFRESH_IF_REQUIRED",
        "- docs/ARCHITECTURE.md",
        "docs/docs_cache_state.yaml",
    )


@pytest.mark.req("TK-42", "TK-67")
def test_trusted_docs_are_used_as_they_are(bench: Bench) -> None:
    """No Initializer; the Planner's brief holds them; they stay unchanged."""
    bench.play()
    assert "Initializer" not in bench.called
    assert "# docs/FINDINGS.md" in bench.brief("Planner")
    assert bench.progress["docs_trusted_for_planning"] is True
    for path in ("docs/ARCHITECTURE.md", "docs/FINDINGS.md"):
        assert bench.text(path) == bench.files[path]


@pytest.mark.req("TK-43", "TK-41")
def test_no_cache_means_unknown(bench: Bench) -> None:
    """Documents without evidence are not trusted."""
    del bench.files["docs/docs_cache_state.yaml"]
    seen: list[object] = []
    bench.changes["Planner"] = lambda _request, act: (seen.append(bench.progress["trust_status"]), act)[1]
    bench.play()
    assert seen == ["unknown"]
    assert "Initializer" in bench.called


@pytest.mark.req("TK-45")
def test_a_valid_document_is_not_in_the_refresh(bench: Bench) -> None:
    """Only the changed one is to be renewed, and may be."""
    bench.files["docs/FINDINGS.md"] = "# Changed\n"
    bench.play()
    assert bench.scope("Initializer") == {"docs/FINDINGS.md", "docs/docs_cache_state.yaml"}


def test_a_failed_refresh_holds_nothing_up(bench: Bench) -> None:
    """The Initializer's failure is a warning; planning and work go on."""
    bench.files = dict(PROJECT)
    bench.changes["Initializer"] = nothing
    assert bench.play().status is Status.COMPLETE
    assert any("not refreshed" in data["text"] for data in bench.events("warning"))


@pytest.mark.req("TK-05", "TK-56", "CM-04")
def test_what_an_agent_writes_to_the_state_is_not_taken_over(bench: Bench) -> None:
    """A meddled log and state document stay in its layer, an event says so, and the run goes on."""
    bench.changes["Planner"] = lambda request, act: writes(f"{HOME}/log.jsonl", "mine\n")(
        request, writes(f"{HOME}/progress.yaml", "status: ACCEPTED\n")(request, act)
    )
    assert bench.play().status is Status.COMPLETE
    (event,) = bench.events("foreign_write")
    assert sorted(event["paths"]) == [f"{HOME}/log.jsonl", f"{HOME}/progress.yaml"]
    numbers = [entry["seq"] for entry in bench.log]
    assert numbers == sorted(set(numbers))


@pytest.mark.req("EV-23", "EN-07")
def test_settings_that_change_after_a_crash_do_not_diverge(bench: Bench) -> None:
    """The resume goes on, and what a person changed is obeyed."""
    simulation = bench.simulate(settings={"build_command": "first"})
    count = [0]

    def wire(point: str) -> None:
        count[0] += 1
        if count[0] == 90:
            raise Crash

    with pytest.raises(Crash):
        simulation.go(tripwire=wire)
    options = Options(settings=TicketSettings(build_command="second"), max_parallel=8)
    assert simulation.go(options=options).status is Status.COMPLETE
    assert bench.progress["build_command"] == "second"


@pytest.mark.req("EN-07")
@pytest.mark.parametrize("there", ["prompt.yaml", "progress.yaml", "iteration_0/plan.md"])
def test_commands_that_are_taken_out_of_the_settings_after_a_crash_stay(bench: Bench, there: str) -> None:
    """Cut off when this document is there: what was found sufficient once is not judged again by other settings."""
    del bench.files["Makefile"]
    simulation = bench.simulate(settings={"build_command": "none", "test_command": "mine"})

    def wire(_point: str) -> None:
        if bench.has(f"{HOME}/{there}"):
            raise Crash

    with pytest.raises(Crash):
        simulation.go(tripwire=wire)
    assert bench.has(f"{HOME}/progress.yaml") is (there != "prompt.yaml")
    assert simulation.go(options=Options(settings=TicketSettings(), max_parallel=8)).status is Status.COMPLETE
    assert (bench.progress["build_command"], bench.progress["test_command"]) == ("none", "mine")


def test_the_branch_name(bench: Bench) -> None:
    """Type, ticket and slug."""
    bench.play()
    assert bench.progress["branch"] == BRANCH == bench.git.branch
