"""Steps 4 and 5: plans that hold, waves of task agents side by side, what their failures lead to."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from interlock.agents.runner import AgentRequest
from interlock.testing import Act, Change, both, lasting, says, writes

from .conftest import AT, ERROR, SILENT, Bench, plans, remembers, task

# -- 4


@pytest.mark.req("FT-136", "FT-133")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (writes({AT.plan: "# Plan\n"}), 'plan.md: section "## Execution Waves" not found'),
        (plans("T1", "T9"), ""),
        (
            both(plans("T1", "T9"), writes({AT.task("T9"): None})),
            "plan.md: wave 2 lists T9 but tasks/T9.md does not exist",
        ),
        (plans("T3", "T5", T3={"depends_on": "[T5]"}), "T3 (wave 1) depends on T5 (wave 2)"),
        (both(plans("T4"), writes({AT.task("T4"): "---\nid: T4\ntitle: a: b\n---\n"})),
         "tasks/T4.md: frontmatter is not valid YAML: line 3"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_hold_is_asked_for_once_more(bench: Bench, change: object, message: str) -> None:
    """The planner is told what is wrong; a second bad plan halts the run with it."""
    close = bench.ever("planner", change).play()  # type: ignore[arg-type]
    if not message:
        assert close.exit_code == 0
        return
    assert close.exit_code == 5
    assert str(close.output).startswith(f"ERROR: {message}")
    assert bench.called.count("planner") == 2 and bench.called[-1] == "planner"
    assert message in bench.brief("planner", 1).partition("## Failure context")[2]
    assert [one["retries"] for one in bench.events("agent.returned") if one["agent"] == "planner"] == [0, 1]


@pytest.mark.req("EV-45")
@pytest.mark.parametrize("tidy", [False, True])
def test_a_better_second_plan_is_carried_out(bench: Bench, tidy: bool) -> None:
    """One retry, and the run goes on; task files of the refused plan that the new one does not want are set aside."""
    bad = both(plans("T1"), writes({AT.task("T7"): task("T7")}))
    good: Change = both(plans("T1"), writes({AT.task("T7"): None})) if tidy else plans("T1")
    assert bench.on("planner", bad, good).play().exit_code == 0
    assert "tasks/T7.md is in no wave" in bench.brief("planner", 1).partition("## Failure context")[2]
    assert "implementer-T7" not in bench.called and AT.task("T7") not in bench.paths
    aside = [path for path in bench.paths if path.startswith(".interlock/attic/") and "T7.md" in path]
    assert len(aside) == (not tidy)


@pytest.mark.req("EV-45")
def test_a_plan_may_be_mended_in_its_task_files_alone(bench: Bench) -> None:
    """Who is told that a task file is wrong need not write the plan anew."""
    bad = both(plans("T4"), writes({AT.task("T4"): "---\nid: T4\ntitle: a: b\n---\n"}))

    def mends(_request: AgentRequest, act: Act) -> Act:
        return replace(act, files={AT.task("T4"): task("T4"), AT.mem("planner"): act.files[AT.mem("planner")]})

    assert bench.on("planner", bad, mends).play().exit_code == 0
    assert bench.called.count("implementer-T4") == 1


@pytest.mark.req("EV-45", "FT-136")
def test_a_task_of_an_earlier_plan_is_not_dropped_in_silence(bench: Bench) -> None:
    """A failed task that a replan neither lists nor deletes is complained about; a deleted one is noted."""
    bench.on("planner", plans("T1 T2"), plans("T3", first=2), both(plans("T3", first=2), writes({AT.task("T2"): None})))
    bench.ever("implementer-T2", ERROR)
    assert bench.play().exit_code == 0
    assert "tasks/T2.md is in no wave" in bench.brief("planner", 2).partition("## Failure context")[2]
    assert bench.events("tasks.dropped") == [{"tasks": ["T2"]}]


@pytest.mark.req("EV-45")
def test_waves_of_a_replan_that_begin_at_1_again_are_renumbered(bench: Bench) -> None:
    """They come behind those that were carried out; waves that the plan keeps are not carried out again."""
    bench.on("planner", plans("T1", "T2"), plans("T3", "T4", "T5"), plans("T1", "T2", "T3", "T4", "T5", "T6"))
    bench.on("v-tests", remembers("FAIL"), remembers("FAIL"))
    assert bench.play().exit_code == 0
    assert bench.called.count("planner") == 3
    assert [one["waves"] for one in bench.events("waves")] == [
        {"1": ["T1"], "2": ["T2"]},
        {"3": ["T3"], "4": ["T4"], "5": ["T5"]},
        {"6": ["T6"]},
    ]
    assert bench.called.count("implementer-T1") == 1


# -- 5


@pytest.mark.req("FT-13", "FT-139", "FT-143", "FT-130")
def test_waves_and_sub_waves_run_one_after_the_other(bench: Bench) -> None:
    """Nine tasks in sub-waves of 4, 4, 1, each awaited fully; memories are merged between waves."""
    bench.on("planner", plans("T1 T2 T3 T4 T5 T6 T7 T8 T9", "U1"))
    assert bench.play().exit_code == 0
    ends = [one["members"] for one in bench.events("cluster.end")]
    waves = [[name.removeprefix("implementer-") for name in names] for names in ends if "implementer" in names[0]]
    assert waves == [["T1", "T2", "T3", "T4"], ["T5", "T6", "T7", "T8"], ["T9"], ["U1"]]
    for before, after in pairwise(waves):
        last = max(bench.position("dispatch.end", member=f"implementer-{one}") for one in before)
        first = min(bench.position("dispatch.start", member=f"implementer-{one}") for one in after)
        assert last < first
    merged = bench.position("memory.merged", members=[f"implementer-T{n}" for n in range(1, 10)])
    assert merged < bench.position("dispatch.start", member="implementer-U1")


def test_eager_scheduling_drops_the_barrier_inside_a_wave(bench: Bench) -> None:
    """Still four at a time, but nobody waits for the slowest of a sub-wave."""

    def slow(_request: object, act: object) -> object:
        from dataclasses import replace

        return replace(act, seconds=50.0)  # type: ignore[type-var]

    bench.on("planner", plans("T1 T2 T3 T4 T5 T6")).on("implementer-T1", slow)  # type: ignore[arg-type]
    assert bench.play(scheduling="eager").exit_code == 0
    assert bench.simulation.world.most_at_once == 4
    assert bench.position("dispatch.start", member="implementer-T6") < bench.position(
        "dispatch.end", member="implementer-T1"
    )


@pytest.mark.req("FT-14", "FT-15", "FT-16")
def test_the_agent_field_selects_who_works(bench: Bench) -> None:
    """Documentation writers by name; absent and unknown mean an implementer, the latter with a warning."""
    bench.on("planner", plans("T1 T2 T3", T1={"agent": "documentation-writer"}, T2={"agent": "reviewer"}))
    bench.play()
    assert {"documentation-writer-T1", "implementer-T2", "implementer-T3"} <= set(bench.called)
    assert bench.calls_of("documentation-writer-T1")[0].agent == "documentation-writer"
    assert bench.events("task.agent_unknown") == [{"task": "T2", "value": "reviewer"}]
    assert 'T2: unknown agent "reviewer"; using implementer' in bench.warnings


@pytest.mark.req("FT-116", "FT-138")
def test_lessons_of_task_agents_are_kept_for_good(bench: Bench) -> None:
    """In the shared memory's own section; the private memory is in the tree."""
    lesson = "port taken → ask for a free one"
    bench.ever("implementer-T01", remembers("N/A", more=f"\n- {lesson}\n"))
    bench.play()
    assert f"- [implementer-T01, step-5] {lesson}" in bench.memory.partition("## Lessons Learned")[2]
    assert AT.mem("implementer-T01") in bench.paths


@pytest.mark.req("FT-140", "FT-141", "FT-135")
@pytest.mark.parametrize("change", [ERROR, says("NEEDS_REVISION: unclear")])
def test_a_failed_implementer_stops_the_waves_without_a_retry(bench: Bench, change: object) -> None:
    """Its sub-wave is awaited, the next wave is not started, verification follows, a replan covers what is left."""
    bench.on("planner", plans("T1 T2", "U1"), plans("T1", "U1", first=3))
    bench.on("implementer-T1", change)  # type: ignore[arg-type]
    bench.on("v-build", remembers("FAIL"))
    assert bench.play().exit_code == 0
    assert bench.called.count("implementer-T1") == 2
    assert bench.called.count("implementer-T2") == 1
    first_v = bench.called.index("v-build")
    assert "implementer-T1" in bench.called[:first_v] and "implementer-U1" not in bench.called[:first_v]
    assert "implementer-U1" in bench.called[first_v:]
    told = bench.brief("planner", 1)
    assert "T1: failed: implementer-T1: " in told and "T2: done" in told and "U1: pending" in told
    assert "T1: failed" in bench.brief("v-build")


def test_an_implementer_without_a_completion_line_is_asked_again(bench: Bench) -> None:
    """That is an accident, not a verdict."""
    assert bench.on("implementer-T01", SILENT).play().exit_code == 0
    assert bench.called.count("implementer-T01") == 2
    assert bench.called.count("planner") == 1


@pytest.mark.req("FT-142")
def test_failed_documentation_does_not_stop_the_waves(bench: Bench) -> None:
    """Retried once, recorded, handed to the verifiers; what is missing is planned again."""
    writer = {"agent": "documentation-writer"}
    bench.on("planner", plans("D1 T1", "U1", D1=writer), plans("D1", D1=writer))
    bench.on("documentation-writer-D1", ERROR, ERROR)
    assert bench.play().exit_code == 0
    assert bench.called.count("documentation-writer-D1") == 3
    assert "implementer-U1" in bench.called[: bench.called.index("v-build")]
    assert "D1: failed" in bench.brief("v-tasks") and "D1: failed" in bench.brief("planner", 1)


def test_failed_documentation_stops_what_depends_on_it(bench: Bench) -> None:
    """The wave with the dependent task is not started."""
    bench.on(
        "planner",
        plans("D1", "U1", D1={"agent": "documentation-writer"}, U1={"depends_on": "[D1]"}),
        plans("D1", "U1", first=3, D1={"agent": "documentation-writer"}, U1={"depends_on": "[D1]"}),
    )
    bench.on("documentation-writer-D1", ERROR, ERROR).on("v-tasks", remembers("FAIL"))
    assert bench.play().exit_code == 0
    assert bench.called.index("implementer-U1") > bench.called.index("v-build")


# -- layers and merges


@pytest.mark.req("EN-38", "LY-06")
def test_tasks_work_side_by_side_and_come_into_the_tree_in_declared_order(bench: Bench) -> None:
    """Each sees the state before its sub-wave; what they did comes in by the order of the plan, whoever ends first."""
    seen: dict[str, bool] = {}

    def looks(request: AgentRequest, act: Act) -> Act:
        seen[request.member] = "src/one.py" in bench.paths
        return act

    bench.on("planner", plans("T1 T2"))
    bench.ever("implementer-T1", both(looks, writes({"src/one.py": "1\n"}), lasting(9.0)))
    bench.ever("implementer-T2", both(looks, writes({"src/two.py": "2\n"}), lasting(2.0)))
    assert bench.play().exit_code == 0
    assert {"src/one.py", "src/two.py"} <= bench.paths
    assert seen == {"implementer-T1": False, "implementer-T2": False}
    judged = [line.agent and line.key for line in bench.lines if line.event == "dispatch.importing"]
    ended = [one["member"] for one in bench.events("dispatch.end")]
    tasks = ["implementer-T1", "implementer-T2"]
    assert [key for key in judged if "wave-1" in str(key)] == [f"pass-1/5/wave-1/{one}#1" for one in tasks[::-1]]
    assert [one for one in ended if one in tasks] == tasks


def test_a_conflict_is_the_later_tasks_failure(bench: Bench) -> None:
    """By the order of the plan, whoever ended first. The first change stays, and the planner sees the conflict."""
    bench.on("planner", plans("T1 T2"), plans("T2", first=2))
    bench.on("implementer-T1", both(writes({"src/a.py": "a = 'one'\n"}), lasting(9.0)))
    bench.on("implementer-T2", writes({"src/a.py": "a = 'two'\n"}))
    bench.on("v-tasks", remembers("FAIL"))
    assert bench.play().exit_code == 0
    assert bench.events("task.conflict") == [{"task": "T2", "paths": ["src/a.py"]}]
    brief = bench.brief("planner", 1)
    assert "T1: done" in brief and "T2: failed: merge conflict in src/a.py" in brief and "<<<<<<<" in brief
    assert bench.simulation.world.tree.files["src/a.py"] == b"a = 'one'\n"


@pytest.mark.req("FT-45", "FT-21")
@pytest.mark.parametrize("path", [AT.plan, AT.mem("implementer-T2"), "docs/feature/other/x.md", "src/b.py"])
def test_a_task_agent_keeps_to_its_files(bench: Bench, path: str) -> None:
    """Documents of features, and whatever its task does not name, are out of bounds: the task has failed."""
    bench.on("planner", plans("T1", T1={"files": "[src/a.py]"}), plans("T1", first=2, T1={"files": "[src/a.py]"}))
    bench.on("implementer-T1", writes({path: "intruder", "src/a.py": "a = 2\n"})).on("v-tasks", remembers("FAIL"))
    assert bench.play().exit_code == 0
    assert bench.simulation.world.tree.files.get(path) != b"intruder"
    assert "T1: failed: implementer-T1: changed outside its scope" in bench.brief("planner", 1)


def test_a_task_without_files_may_change_the_source(bench: Bench) -> None:
    """Everything but the documents of features."""
    bench.ever("implementer-T01", writes({"lib/new.py": "x\n", "docs/guide.md": "# Guide\n"}))
    assert bench.play().exit_code == 0
    assert {"lib/new.py", "docs/guide.md"} <= bench.paths


@pytest.mark.parametrize("path", [AT.plan, AT.mem("spec"), "docs/feature/other/design.md"])
def test_documents_of_features_are_out_of_bounds_for_every_task(bench: Bench, path: str) -> None:
    """Also where the task names no files; its own memory is the one exception."""
    bench.on("planner", plans("T1"), plans("T1", first=2)).on("v-tasks", remembers("FAIL"))
    bench.on("implementer-T1", writes({path: "intruder"}))
    assert bench.play().exit_code == 0
    assert bench.simulation.world.tree.files.get(path) != b"intruder"
    assert "T1: failed: implementer-T1: changed outside its scope" in bench.brief("planner", 1)
    assert AT.mem("implementer-T1") in bench.paths


@pytest.mark.req("FT-119")
def test_a_task_agent_without_a_memory_is_only_a_warning(bench: Bench) -> None:
    """So it is for spec, designer and planner."""
    for name in ("implementer-T01", "spec", "designer", "planner"):
        bench.ever(name, writes({AT.mem(name): None, **({"src/b.py": "b\n"} if name == "implementer-T01" else {})}))
    assert bench.play().exit_code == 0
    for name in ("implementer-T01", "spec", "designer", "planner"):
        assert f"memory/{name}.mem.md is missing" in bench.warnings
        assert bench.called.count(name) == 1
