"""I0 to I3: a ticket begins, or goes on from its documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.documents.changing import dumped
from interlock.documents.reading import Keys
from interlock.engine.simulation import Files
from interlock.errors import BadInput, Status
from interlock.playbooks.ticket import TICKET
from interlock.playbooks.ticket.documents import Progress
from interlock.playbooks.ticket.request import reading
from interlock.workspace.values import BranchFacts, Where
from tests.engine.bench import CommandExit, said
from tests.playbooks.tickets import BAD, BRANCH, GOOD, HEAD, REQUEST, Desk, P, leaves, plans, task

UNCLEAR = "ABC-12 look at the sum, MUST use `pytest`"
STATE = f"{P}progress.yaml"


def made(**more: Any) -> dict[str, str]:
    """A prompt.yaml, by the Interpreter."""
    known = reading("ABC-12", UNCLEAR, "2026-01-01T00:00:00Z")
    known |= {"type": "fix", "slug": "look_at_sum", "success_criteria": ["it adds"], **more}
    return {f"{P}prompt.yaml": dumped({name: one for name, one in known.items() if one is not ...})}


def stopped(desk: Desk) -> Desk:
    """A ticket that stopped at its first task."""
    desk.acts("Planner", plans(task("T1"), task("T2", "B"))).acts("T1", *[said({"status": "ERROR"})] * 5)
    assert desk.run().status is Status.STOPPED
    return desk


# --- a fresh start


@pytest.mark.req("TK-01", "TK-17", "TK-50", "TK-58", "TK-63", "TK-73")
def test_its_documents_are_there_before_the_planner_runs() -> None:
    desk = Desk()
    desk.run()
    (_, progress, _), *_ = desk.stood
    assert set(progress) == set(Progress.model_fields)
    assert list(progress["iterations"][0]) == [
        *("number", "status", "started_at", "completed_at", "tasks_total", "tasks_accepted")
    ]
    told = {name: progress[name] for name in ("jira", "branch", "build_command", "test_command", "max_parallel_tasks")}
    assert told == {
        **{"jira": "ABC-12", "branch": BRANCH, "build_command": "make", "test_command": "make test"},
        "max_parallel_tasks": 2,
    }
    assert progress["last_checkpoint"]["git_head"]
    assert desk.yaml("prompt.yaml")["original_request"] == REQUEST
    assert {f"{P}tmp/.gitkeep", f"{P}log.jsonl"} <= set(desk.world.files)
    assert desk.text(".gitignore") == "*.pyc\nprompts/\ndocs/docs_cache_state.yaml\n"
    assert "Interpreter" not in desk.called
    written = {one.facts["path"] for one in desk.intended("write")}
    assert all(path.startswith(P) or path == ".gitignore" for path in written)


@pytest.mark.req("TK-32", "TK-36")
def test_nothing_is_changed_before_the_gate_but_documents() -> None:
    desk = Desk({"lib.py": b"x = 2\n"})
    seen: list[tuple[Files, str]] = []
    desk.cast.moments["call"] = [lambda: seen.append((dict(desk.world.files), desk.world._branch))] * 2
    desk.run(dirty="stash")
    assert [(files["lib.py"], branch) for files, branch in seen] == [(b"x = 2\n", "refs/heads/main")] * 2


@pytest.mark.req("TK-03")
def test_a_person_starts_it() -> None:
    assert TICKET.by_people
    assert TICKET.key(TICKET.inputs(request=REQUEST), Where()) == "ABC-12"


@pytest.mark.req("TK-50", "TK-15", "TK-52")
@pytest.mark.parametrize(
    ("acts", "called", "status"),
    [
        ([leaves(made())], 1, Status.COMPLETE),
        ([leaves(made(jira="XYZ-1")), leaves(made())], 2, Status.COMPLETE),
        ([leaves(made(success_criteria=...)), leaves(made(slug="Two words"))], 2, Status.STOPPED),
        ([leaves(made(tool_mandates=[])), leaves(made())], 2, Status.COMPLETE),
        ([leaves(made(original_request="look")), leaves(made())], 2, Status.COMPLETE),
        ([leaves({f"{P}prompt.yaml": "a: ["}), said("nothing")], 2, Status.STOPPED),
        ([leaves({**made(), "lib.py": GOOD}), leaves({**made(), "lib.py": GOOD})], 2, Status.STOPPED),
    ],
)
def test_an_ambiguous_request_is_interpreted(acts: list[Any], called: int, status: Status) -> None:
    desk = Desk().acts("Interpreter", *acts)
    view = desk.run(UNCLEAR)
    assert view.status is status, view.why
    assert desk.called.count("Interpreter") == called
    if status is Status.STOPPED:
        assert view.ended is not None and view.ended.exit == 5
        assert desk.called[-1] == "Interpreter" and STATE not in desk.world.files
    else:
        assert desk.progress["branch"] == "fix/ABC-12_look_at_sum"


@pytest.mark.req("TK-50", "PERSON-02")
def test_the_interpreters_questions_are_asked_once() -> None:
    asks = said({"questions": ["Which sum?"]}, {path: text.encode() for path, text in made().items()})
    desk = Desk().acts("Interpreter", asks, asks)
    desk.cast.decisions = [{"choice": "the one of lists"}]
    assert desk.run(UNCLEAR).status is Status.COMPLETE
    assert desk.called.count("Interpreter") == 2
    assert "the one of lists" in desk.briefs("Interpreter")[1]


# --- refused at the start


def _facts(**more: Any) -> Any:
    known = {"current": "main", "head": "1" * 40, "at": "", "holds_head": False, "elsewhere": "", **more}

    async def branch(name: str) -> BranchFacts:
        return BranchFacts(**known)

    return branch


@pytest.mark.req("TK-165")
@pytest.mark.parametrize(
    ("facts", "files", "why"),
    [
        ({"head": ""}, {}, "no commit to begin from"),
        ({"current": "detached"}, {"lib.py": b"x = 2\n"}, "HEAD is detached"),
        ({"at": "1" * 40, "elsewhere": "/other"}, {}, f"{BRANCH} is checked out in /other"),
    ],
)
def test_a_repository_in_which_no_work_can_begin(facts: dict[str, str], files: Files, why: str) -> None:
    desk = Desk(files)
    desk.world.branch = _facts(**facts)  # type: ignore[method-assign]
    with pytest.raises(BadInput, match=why):
        desk.run()
    assert desk.called == [] and desk.world.files == {**HEAD, **files}


@pytest.mark.req("TK-165", "TK-10")
@pytest.mark.parametrize(("request_", "why"), [(REQUEST, "no git here"), ("fix it", "No JIRA ID found")])
def test_what_nobody_could_commit_is_refused(request_: str, why: str) -> None:
    assert TICKET.check is not None
    with pytest.raises(BadInput, match=why):
        TICKET.check(TICKET.inputs(request=request_), lambda branch: "no git here")


@pytest.mark.req("TK-36", "RUN-11")
@pytest.mark.parametrize(
    ("commands", "given", "lines"),
    [
        (("build", "test"), {}, ("make", "make test")),
        (("test",), {}, ("none", "make test")),
        (("build", "test"), {"test": "pytest -q", "build": "none"}, ("none", "pytest -q")),
        ((), {"test": "none"}, ("none", "none")),
        ((), {}, None),
        (("build",), {}, None),
    ],
)
def test_its_commands_are_found_or_given(commands: Any, given: dict[str, str], lines: Any) -> None:
    desk = Desk(commands=commands).acts("Reviewer", None)
    if lines is None:
        with pytest.raises(BadInput, match="ERROR: no build/test command found; give --build and --test"):
            desk.run(**given)
        return
    desk.run(**given)
    assert (desk.progress["build_command"], desk.progress["test_command"]) == lines
    assert {line for line, _, _ in desk.cast.ran if not line.startswith("the ")} == set(lines) - {"none"}


@pytest.mark.req("TK-103", "PERSON-05")
@pytest.mark.parametrize("choice", ["stash", "carry", "abort"])
def test_uncommitted_code_is_asked_about_before_the_first_agent(choice: str) -> None:
    """Nobody is there: it waits at once; the option given anew, or an answer, goes on with the same run."""
    desk = Desk({"src/mine.py": b"mine\n"})
    view = desk.run()
    assert view.status is Status.WAITING and desk.called == []
    assert view.gate is not None
    assert view.gate.question.startswith("Working tree has uncommitted code changes: src/mine.py. Run: ")
    assert "--dirty stash|carry|abort" in view.gate.question
    desk.flags = {} if choice == "carry" else {"dirty": choice}
    if choice == "carry":
        desk.says("answer", gate="dirty", choice=choice)
    view = desk.resume()
    mine, kept = "src/mine.py" in desk.world.files, [*desk.world.stashes]
    assert (view.status is Status.COMPLETE, mine, bool(kept)) == {
        "stash": (True, False, True),
        "carry": (True, True, False),
        "abort": (False, True, False),
    }[choice]
    assert choice != "stash" or kept[0] in view.why


# --- documentation


@pytest.mark.req("TK-66", "TK-42", "TK-158")
def test_trusted_documentation_is_used_as_it_is() -> None:
    """What the ticket before left is trusted; only what changed then renews it."""
    desk = Desk()
    desk.run()
    second = Desk({**{path: text for path, text in desk.world.files.items() if not path.startswith("prompts/")}})
    second.world.head = dict(second.world.files)
    second.acts("Planner", plans(task("T1", files_to_modify=["src/t1.py", "lib.py"]))).acts(
        "T1", leaves({"lib.py": GOOD})
    )
    second.run()
    assert second.called == ["Planner", "T1"]
    assert second.progress["trust_status"] == "trusted"
    assert "# Documentation" in second.briefs("Planner")[0]


@pytest.mark.req("TK-66", "TK-42")
@pytest.mark.parametrize(
    "act",
    [
        said("I failed.", finished=False),
        leaves({"docs/FINDINGS.md": "# F\n"}),
        leaves({"docs/docs_cache_state.yaml": "trust_status: trusted\n"}),
        leaves({"lib.py": BAD}),
    ],
)
def test_an_initializer_that_fails_is_a_warning(act: Any) -> None:
    desk = Desk().acts("Initializer", *[act] * 6)
    view = desk.run()
    assert view.status is Status.COMPLETE
    assert any("the documentation was not refreshed" in one for one in view.warnings)
    assert desk.world.files["lib.py"] != BAD


# --- resume detection


@pytest.mark.req("TK-17", "TK-18", "TK-22", "TK-27", "TK-29")
def test_a_new_run_goes_on_where_the_documents_stand() -> None:
    desk = stopped(Desk())
    desk.cast.commands["make"] = [CommandExit(exit=0)]
    before, asked = desk.progress, len(desk.called)
    assert (before["status"], before["current_phase"], before["current_task_id"]) == ("PAUSED", "TASK_EXECUTION", "T1")
    view = desk.again()
    assert view.status is Status.COMPLETE, view.why
    assert desk.called[asked:] == ["T1", "T2", "Reviewer", "Initializer"]
    assert desk.world._branch == f"refs/heads/{BRANCH}"
    assert desk.events.count("resume") == 1
    numbers = [json.loads(line)["seq"] for line in desk.text(f"{P}log.jsonl").splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.req("TK-17", "TK-18", "RUN-16")
def test_what_the_documents_say_is_obeyed() -> None:
    desk = stopped(Desk())
    desk.edit("progress.yaml", {("test_command",): "make check", ("max_parallel_tasks",): 7, ("mine",): "stays"})
    desk.cast.ran.clear()
    desk.again()
    lines = {line for line, _, _ in desk.cast.ran}
    assert "make check" in lines and "make test" not in lines
    assert (desk.progress["max_parallel_tasks"], desk.progress["mine"]) == (7, "stays")


@pytest.mark.req("TK-31")
def test_an_accepted_ticket_is_done() -> None:
    desk = Desk()
    desk.run()
    desk.world.files[f"{P}startup_context.yaml"] = b"x"
    desk.world.away, asked = True, len(desk.called)
    desk.world.elsewhere = dict(desk.world.files)
    view = desk.again()
    assert (view.status, view.why) == (Status.COMPLETE, "ABC-12 is done already")
    assert len(desk.called) == asked
    assert desk.said == [f"ABC-12 is done already: accepted and committed on {BRANCH}."]


@pytest.mark.req("TK-21", "TK-20")
def test_artifacts_of_an_older_model_stop_a_resume() -> None:
    desk = stopped(Desk())
    for name in ("startup_context.yaml", "task_packets/T1.yaml"):
        desk.world.files[f"{P}{name}"] = b"x"
    with pytest.raises(BadInput) as error:
        desk.again()
    told = "Migrate legacy task state into tasks.yaml and remove legacy derived artifacts before resume. STOPPING."
    assert error.value.what == f"ERROR: Mixed artifact model detected. {told}"
    assert error.value.where == f"{P}startup_context.yaml, {P}task_packets/T1.yaml"
    assert f"{P}startup_context.yaml" in desk.world.files
    assert not [path for path in Desk().world.files if "startup_context" in path]


@pytest.mark.req("TK-21", "TK-05", "TK-74")
def test_a_resume_is_told_works_and_is_stopped_by_them_as_a_new_run_is() -> None:
    desk = stopped(Desk())
    desk.world.files[f"{P}validation_plan.yaml"] = b"x"
    asked, view = len(desk.called), desk.resume()
    assert view.why.endswith(f"STOPPING. {P}validation_plan.yaml") and len(desk.called) == asked
    assert view.ended is not None and view.ended.exit == 2
    del desk.world.files[f"{P}validation_plan.yaml"]
    assert desk.resume().status is Status.COMPLETE
    assert desk.stood[asked][1]["status"] == "IN_PROGRESS" and desk.events.count("resume") == 1


@pytest.mark.req("TK-163")
def test_another_request_is_refused_and_fresh_starts_over() -> None:
    desk = stopped(Desk())
    other = "ABC-12 add a product of the lib: it should multiply"
    with pytest.raises(BadInput, match="ABC-12 was begun with another request; --fresh starts over"):
        desk.again(request=other)
    desk.world.files[f"{P}startup_context.yaml"] = b"x"
    desk.acts("T1")
    view = desk.again(request=other, fresh=True)
    assert view.status is Status.COMPLETE, view.why
    assert desk.yaml("prompt.yaml")["original_request"] == other
    assert any(path.endswith("progress.yaml") for path in desk.world.attic)
    assert "resume" not in desk.events


@pytest.mark.req("TK-163")
def test_fresh_sets_nothing_aside_where_the_start_is_refused() -> None:
    desk = stopped(Desk())
    desk.world.branch = _facts(head="")  # type: ignore[method-assign]
    before = dict(desk.world.files)
    with pytest.raises(BadInput):
        desk.again(fresh=True)
    assert desk.world.files == before


@pytest.mark.req("TK-164")
def test_another_clone_plans_the_iteration_anew() -> None:
    """The work of accepted tasks was never committed, and is not there."""
    desk = Desk().acts("Planner", plans(task("T1"), task("T2", "B"))).acts("T2", *[said({"status": "ERROR"})] * 5)
    desk.run()
    assert desk.tasks["T1"]["status"] == "ACCEPTED"
    for path in [path for path in desk.world.files if path.startswith("src/")]:
        del desk.world.files[path]
    asked = len(desk.called)
    view = desk.again(trees=False)
    assert view.status is Status.COMPLETE, view.why
    assert desk.called[asked:][0] == "Planner"
    assert "the work of accepted tasks is not here: the iteration is planned anew" in view.warnings
    assert "src/t1.py" in desk.world.files


@pytest.mark.req("TK-22", "TREE-15")
def test_a_branch_that_cannot_be_checked_out_again_is_said() -> None:
    desk = stopped(Desk())
    desk.world._branch = "refs/heads/main"

    def moment(what: str, usual: Any = desk.cast.moment) -> str:
        return "your local changes would be overwritten" if what == "switch" else str(usual(what))

    desk.cast.moment = moment  # type: ignore[method-assign]
    view = desk.again()
    assert any(f"{BRANCH} cannot be checked out: your local changes" in one for one in view.warnings)
    assert view.where.branch == f"refs/heads/{BRANCH}"


@pytest.mark.req("TK-22")
def test_a_branch_that_is_gone_ends_the_resume() -> None:
    desk = stopped(Desk())
    desk.world._branch = "refs/heads/main"
    desk.world.branches = {"refs/heads/main"}
    with pytest.raises(BadInput, match=f"ERROR: branch {BRANCH} does not exist; cannot resume"):
        desk.again()


@pytest.mark.req("TK-18", "RUN-11")
@pytest.mark.parametrize(
    ("text", "why"),
    [("a: [\n", "progress.yaml"), ("jira: ABC-12\n", "missing"), ("current_phase: TESTING\n", "current_phase")],
)
def test_a_state_that_cannot_be_used_is_refused(text: str, why: str) -> None:
    desk = stopped(Desk())
    known = desk.text(STATE)
    phase = "current_phase: TASK_EXECUTION\n"
    desk.world.files[STATE] = (known.replace(phase, text) if text.startswith("current") else text).encode()
    with pytest.raises(BadInput) as error:
        desk.again()
    told = [one for each in (error.value, *error.value.also) for one in (each.what, each.where or "")]
    assert any(why in one for one in told)


# --- what people edit


EDITS: list[tuple[str, dict[Keys, Any], bool]] = [
    ("progress.yaml", {("build_command",): "none"}, True),
    ("progress.yaml", {("mine",): 1}, True),
    ("progress.yaml", {("status",): "ACCEPTED"}, False),
    ("progress.yaml", {("metrics", "percent_complete"): 100}, False),
    ("progress.yaml", {("current_phase",): "REVIEW"}, False),
    ("prompt.yaml", {("success_criteria",): ["it adds"]}, True),
    ("prompt.yaml", {("jira",): "ABC-13"}, False),
    ("iteration_0/tasks.yaml", {("tasks", 1, "description"): "Do it well"}, True),
    ("iteration_0/tasks.yaml", {("tasks", 1, "depends_on"): []}, False),
    ("iteration_0/tasks.yaml", {("execution_order",): []}, False),
]


@pytest.mark.req("PERSON-04", "TK-05")
@pytest.mark.parametrize(("path", "values", "allowed"), EDITS)
def test_what_people_may_edit_is_heard_and_all_else_stops(path: str, values: dict[Keys, Any], allowed: bool) -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2", "B", depends_on=["T1"])))
    desk.cast.moments["called"] = [lambda: None, lambda: None, lambda: desk.edit(path, values)]
    view = desk.run()
    (keys, value) = next(iter(values.items()))
    assert (view.status is Status.COMPLETE) is allowed, view.why
    if not allowed:
        assert view.ended is not None and view.ended.exit == 3
        assert f"{P}{path} was changed by a person" in view.why and str(keys[0]) in view.why
    elif path == "prompt.yaml":
        assert "C1: it adds" in desk.briefs("Reviewer")[0]
    elif "tasks" in path:
        assert "Do it well" in desk.briefs("task-executor")[1]
    found: Any = desk.yaml(path)
    for key in keys:
        found = found[key]
    assert found == value
