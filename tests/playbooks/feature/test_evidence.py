"""What counts is what is shown: verdicts against their own evidence, commands that a person named, work that changed
nothing, tasks that are open, and what the final lines say of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import Status
from interlock.engine.lifecycle import forgotten
from interlock.playbooks.feature.memory_file import sample_memory
from interlock.playbooks.feature.settings import FeatureSettings
from interlock.testing import Act, Change, both, writes

from .conftest import AT, ERROR, VERIFIERS, Bench, journal_of, plans, remembers
from .test_end import decide

SHOWN = "# Report\n\n- `make all`: exit 0\n"


def reports(text: str) -> Change:
    """Does its work, with another report."""

    def change(request: AgentRequest, act: Act) -> Act:
        return replace(act, files={**act.files, AT.output(request.member): text})

    return change


def notes(more: str) -> Change:
    """Does its work, with something more in its private memory."""

    def change(request: AgentRequest, act: Act) -> Act:
        path = AT.mem(request.member)
        return replace(act, files={**act.files, path: f"{act.files[path]}{more}"})

    return change


def retry(bench: Bench) -> None:
    """As `interlock resume RUN --retry` does it."""
    journal = journal_of(bench)
    journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})


# -- verdicts and their evidence


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("member", "change", "quoted"),
    [
        ("v-build", reports("# Build\n\n| `make` | exit 2 |\n"), "`make` ended with exit status 2"),
        ("v-tests", notes("\n- `pytest`: exit 1\n"), "`pytest` ended with exit status 1"),
        (
            "v-tests",
            reports("# Tests\n\n- `pytest`: exit 0, 40 passed, 2 failed\n"),
            "`pytest` ended with exit status 0: 40 passed, 2 failed",
        ),
        ("v-tests", reports(f"{SHOWN}\n### FAIL: login is refused\n"), "failure listed: login is refused"),
        (
            "v-tasks",
            reports(f"{SHOWN}\n## Tasks\n\n| Task | Result |\n| --- | --- |\n| T01 | **FAIL** |\n"),
            "criterion not met: T01, **FAIL**",
        ),
        (
            "v-feature",
            reports(f"{SHOWN}\n## Criteria\n\n| Id | Result |\n| --- | --- |\n| AC-1 | FAIL |\n"),
            "criterion not met: AC-1, FAIL",
        ),
    ],
)
def test_a_verifiers_pass_against_its_own_evidence_is_the_opposite(
    bench: Bench, member: str, change: Change, quoted: str
) -> None:
    """It is not asked again; the planner is told what contradicts it, and so are memory and final lines."""
    close = bench.on(member, change).play()
    assert close.exit_code == 0
    assert bench.called.count(member) == 2, "once for each verification"
    assert bench.called.count("planner") == 2
    told = bench.brief("planner", 1).partition("### Why the work does not count yet")[2]
    assert f"says pass, but: {quoted}" in told
    assert f"says pass, but: {quoted}" in bench.memory and f"{member} says pass, but: {quoted}" in str(close.output)


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("member", "text", "again"),
    [
        ("ct-security", "# Review\n\n### High: tokens never expire\n", "designer"),
        ("ct-strategy", "# Review\n\n### Medium: there is a simpler way\n", "designer"),
        ("r-quality", "# Review\n\n### Major: it breaks\nTasks: T01\n", "implementer-T01"),
        ("r-testing", "# Review\n\n### Blocker: nothing is tested\nTasks: T01\n", "implementer-T01"),
    ],
)
def test_a_grave_finding_under_a_clean_verdict_counts(bench: Bench, member: str, text: str, again: str) -> None:
    """Its author reads only and shows no command; the finding is dealt with as if the verdict had named it."""
    close = bench.on(member, reports(text)).play()
    assert close.exit_code == 0
    assert bench.called.count(again) == 2
    assert f"{member} says pass, but: blocking issue: " in str(close.output)


@pytest.mark.req("EV-01")
def test_a_grave_finding_in_the_memory_of_a_content_judge_counts_too(bench: Bench) -> None:
    """By the word that it begins with."""
    bench.on("r-security", remembers("None", finding="security: Blocker: any user can do it")).play()
    assert len(bench.events("review.fix")) == 1


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    "text",
    [
        f"{SHOWN}\n## Red before this feature\n\n- `pytest old`: exit 1, 3 failed\n",
        f"{SHOWN}\n```\n`pytest`: exit 1\n```\n> `make`: exit 2\n",
        "# Report\n\n- `! purse export --month March`: exit 0\n",
    ],
)
def test_what_was_red_before_or_is_quoted_contradicts_nothing(bench: Bench, text: str) -> None:
    """Nor does a command that is meant to fail, shown as such."""
    assert bench.on("v-tests", reports(text)).play().exit_code == 0
    assert bench.called.count("planner") == 1


@pytest.mark.req("EV-02", "EV-03")
@pytest.mark.parametrize("member", VERIFIERS)
def test_a_verifier_that_shows_nothing_is_asked_again_itself(bench: Bench, member: str) -> None:
    """Once, with the complaint; nobody plans or builds for it."""
    assert bench.on(member, reports("# Report\n\nAll is well, trust me.\n"), reports(SHOWN)).play().exit_code == 0
    assert bench.called.count(member) == 2
    assert "a pass needs at least one command" in bench.brief(member, 1).partition("## Failure context")[2]
    assert (bench.called.count("planner"), bench.called.count("implementer-T01")) == (1, 1)


@pytest.mark.req("EV-02")
def test_who_shows_nothing_twice_has_given_no_verdict(bench: Bench) -> None:
    """The run is degraded at best, and says whose verdict is missing."""
    close = bench.ever("v-feature", reports("# Report\n\nAll is well.\n")).play()
    assert close.exit_code == 1
    assert "- v-feature gave no verdict" in str(close.output)
    assert "is complete" not in str(close.output)


# -- work


@pytest.mark.req("EV-06")
@pytest.mark.parametrize("agent", ["implementer", "documentation-writer"])
def test_a_task_that_changed_nothing_is_not_done(bench: Bench, agent: str) -> None:
    """It is asked again, then has failed; with a reason it counts, and judges and final lines are told."""
    member = f"{agent}-T1"
    silent = writes({AT.mem(member): sample_memory(member, "N/A")})
    excused = writes({AT.mem(member): sample_memory(member, "N/A", more="\nNo change: it is there already\n")})
    bench.on("planner", plans("T1", T1={"agent": agent}), plans("T1", T1={"agent": agent}))
    close = bench.on(member, silent, silent, excused).play()
    assert close.exit_code == 0
    assert bench.called.count(member) == 3
    assert f"T1: failed: {member}: nothing was changed" in bench.brief("planner", 1)
    told = f"{member} changed nothing, because: it is there already"
    assert f"- to know: {told}" in str(close.output)
    for judge in ("v-build", "r-quality"):
        assert told in bench.calls_of(judge)[-1].brief


@pytest.mark.req("EV-10")
def test_what_an_agent_does_to_git_is_reported_and_goes_nowhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By event, to those who judge it, and in the final lines; the result stands."""
    from interlock.engine.simulated_disk import MemoryLayer

    found = MemoryLayer.found

    async def with_commit(layer: MemoryLayer) -> object:
        return replace(await found(layer), repository=("commit 1a2b3c on main",))

    monkeypatch.setattr(MemoryLayer, "found", with_commit)
    close = bench.play()
    assert close.exit_code == 0
    assert {one["by"] for one in bench.events("repository.touched")} >= {"v-build", "implementer-T01"}
    told = "- to know: v-build used git in its copy, of which nothing reached the repository: commit 1a2b3c on main"
    assert told in str(close.output).splitlines()
    assert "implementer-T01 used git in its copy" in bench.calls_of("r-quality")[-1].brief


# -- what the engine knows itself


@pytest.mark.req("EV-07")
def test_verification_does_not_pass_while_a_task_is_open(bench: Bench) -> None:
    """Though every verifier is content: a failed task and one that was not begun are planned again."""
    bench.on("planner", plans("T1", "T2"), plans("T1", "T2")).on("implementer-T1", ERROR)
    assert bench.play().exit_code == 0
    first = next(line for line in bench.lines if line.event == "decide" and line.data["out"]["rule"] == "v_cluster")
    assert first.data["out"]["result"] == "NEEDS_REVISION"
    told = bench.brief("planner", 1).partition("### Why the work does not count yet")[2]
    assert "- task T1 failed: implementer-T1: " in told and "- task T2 was not begun" in told
    assert "Against the work: task T2 was not begun." in bench.memory


@pytest.mark.req("EV-07")
def test_with_open_tasks_nothing_is_complete(bench: Bench) -> None:
    """After all replans the run ends with ERROR, whatever the reviewers say, and lists them; a retry does them anew."""
    bench.ever("planner", plans("T1")).on("implementer-T1", ERROR, ERROR, ERROR, ERROR)
    close = bench.play()
    assert (close.status, close.exit_code) == (Status.FAILED, 5)
    assert bench.called.count("r-quality") == 1
    assert str(close.output).startswith("ERROR: task T1 failed: implementer-T1: ")
    retry(bench)
    assert bench.simulation.go().exit_code == 0
    assert (bench.called.count("implementer-T1"), bench.called.count("planner")) == (5, 4)


@pytest.mark.req("EV-07")
def test_findings_that_nobody_settled_stand_in_the_final_lines(bench: Bench) -> None:
    """Those of the critics that became constraints, and the Minor ones of the last review."""
    grave = both(remembers("High"), reports("# Review\n\n### High: tokens never expire\n"))
    bench.ever("ct-security", grave)
    bench.on("r-quality", both(remembers("Minor"), reports("# Review\n\n### Minor: a name misleads\n")))
    close = bench.play()
    assert close.exit_code == 0
    lines = str(close.output).splitlines()
    assert "- open, ct-security: High: tokens never expire" in lines
    assert "- open, r-quality: Minor: a name misleads" in lines


@pytest.mark.req("EV-11", "FT-84")
def test_every_decision_is_kept_with_its_number(bench: Bench) -> None:
    """Red, green for the review's fix, red, green: four lines, two of them with the same words before the number."""
    bench.on("planner", plans("T01"), plans("T02"), plans("T03"))
    bench.on("v-tests", remembers("FAIL"), None, remembers("FAIL")).on("r-quality", remembers("Major"))
    bench.play()
    red = "V-Build=DONE, V-Tests=NEEDS_REVISION, V-Tasks=DONE, V-Feature=DONE, result: NEEDS_REVISION."
    said = [line for line in bench.memory.splitlines() if "V cluster decision" in line]
    assert [line.rpartition(" Decision ")[2] for line in said] == ["1.", "2.", "3.", "4."][: len(said)]
    assert [red in line for line in said] == [True, False, True, False][: len(said)] and len(said) >= 3
    numbers = [one["number"] for one in bench.events("cluster.decided") if one["cluster"] == "v"]
    assert numbers == list(range(1, len(said) + 1))


@pytest.mark.req("EV-11")
def test_a_decision_with_the_words_of_an_earlier_run_is_kept_too(bench: Bench) -> None:
    """The shared memory lives on over runs."""
    bench.play()
    again = Bench(files=dict(bench.simulation.world.tree.files))
    again.play(request="Add more")
    assert again.memory.count("result: DONE. Decision 1.") == 2 * bench.memory.count("result: DONE. Decision 1.")


# -- commands that a person named

CHECK = {"check_commands": ["run tests"]}
BREAKS = writes({"src/b.py": "RED FAILED tests/test_b.py::test_b\n"})
MENDS = writes({"src/b.py": "b = 1\n"})


@pytest.mark.req("EV-05")
def test_a_red_check_stops_the_run_before_anybody_is_called(bench: Bench) -> None:
    """Exit 3, nothing written, and what helps is said."""
    bench.files |= {"src/a.py": "RED\n"}
    close = bench.play(**CHECK)
    assert (close.exit_code, bench.called) == (3, [])
    assert "check: run tests: ended with exit status 1" in close.reason and "--accept-baseline" in close.reason
    assert not [path for path in bench.paths if path.startswith(AT.folder)]


@pytest.mark.req("EV-05")
@pytest.mark.parametrize("flag", ["accept_baseline", "no_preflight"])
def test_a_red_baseline_can_be_accepted_or_not_looked_at(bench: Bench, flag: str) -> None:
    """Known failures do not count later; without a look before the work they do."""
    bench.files |= {"src/a.py": "RED FAILED tests/test_a.py::test_a\n"}
    bench.flags = {flag: True}
    bench.ever("planner", plans("T1"))
    close = bench.play(**CHECK)
    assert bench.called
    assert close.exit_code == (0 if flag == "accept_baseline" else 5)


@pytest.mark.req("EV-04")
def test_a_red_check_is_evidence_for_the_planner(bench: Bench) -> None:
    """Though every verifier says DONE; its output goes to verifiers and planner, and it runs again after the repair."""
    bench.on("planner", plans("T1"), plans("T2")).on("implementer-T1", BREAKS).on("implementer-T2", MENDS)
    close = bench.play(**CHECK)
    assert close.exit_code == 0, close.reason
    told = bench.brief("planner", 1)
    assert "- check: run tests: ended with exit status 1" in told and "tests/test_b.py::test_b" in told
    assert "check: run tests: ended with exit status 1" in bench.brief("v-tests")
    assert "check: run tests: passes" in bench.brief("v-tests", 1)
    assert [one["exit"] for one in bench.events("proof")] == [0, 1, 0]
    assert "Against the work: check: run tests: ended with exit status 1." in bench.memory


@pytest.mark.req("EV-04")
def test_with_a_red_check_nothing_is_accepted(bench: Bench) -> None:
    """Replans are used up, the reviewers are content: the run ends with ERROR and the command in its reason."""
    bench.on("implementer-T01", BREAKS)
    close = bench.play(**CHECK)
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: check: run tests: ended with exit status 1")
    assert bench.called.count("planner") == 4
    bench.simulation.world.tree.put("src/b.py", b"b = 1\n")
    retry(bench)
    close = bench.simulation.go()
    assert (close.status, bench.called.count("planner")) == (Status.COMPLETE, 4), "a person mended it"


@pytest.mark.req("EV-04")
def test_what_changed_after_verification_is_proven_again(bench: Bench) -> None:
    """A person breaks it while the reviewers read: the commands run once more before the end."""

    def person(_request: AgentRequest, act: Act) -> Act:
        return replace(act, people={**act.people, "src/c.py": "RED FAILED tests/c.py::c\n"})

    close = bench.on("r-quality", person).play(**CHECK)
    assert (close.exit_code, [one["exit"] for one in bench.events("proof")]) == (5, [0, 0, 1])
    again = Bench()
    assert again.play(**CHECK).exit_code == 0
    assert len(again.events("proof")) == 2, "the reviews are no change of the project"


@pytest.mark.req("EV-45")
def test_in_a_fix_pass_older_findings_are_marked_old(bench: Bench) -> None:
    """Those of reviewers and verifiers; whoever fixes finds the marks in the shared memory, and their meaning."""
    seen: list[str] = []

    def look(_request: AgentRequest, act: Act) -> Act:
        seen.append(bench.memory)
        return replace(act, files={**act.files, "src/fixed.py": "1\n"})

    bench.on("r-quality", remembers("Major", finding="a gap")).on("v-tests", remembers("PASS", finding="40 tests pass"))
    bench.on("implementer-T01", None, look).play()
    for entry in ("[r-quality, step-7] a gap", "[v-tests, step-6] 40 tests pass"):
        assert f"- [INVALIDATED — findings are being fixed] {entry}" in seen[0]
    assert "marked `[INVALIDATED` is old" in bench.brief("implementer-T01", 1)
    assert "INVALIDATED" not in bench.memory


@pytest.mark.req("EV-23")
def test_a_command_that_is_mended_in_the_settings_counts_from_then_on(bench: Bench) -> None:
    """Named in the settings, mistyped, mended while the run stood still: what is named now is run."""
    settings = FeatureSettings(check_commands=("run tsets",))
    bench.on("implementer-T01", BREAKS)
    simulation = bench.simulate(approval=True)
    simulation.options = replace(simulation.options, settings=settings)
    assert simulation.go().status is Status.WAITING
    decide(bench, "approve")
    mended = replace(simulation.options, settings=settings.model_copy(update={"check_commands": ("run tests",)}))
    assert simulation.go(options=mended).status is Status.WAITING
    decide(bench, "approve")
    simulation.go(options=mended)
    ran = [(one["command"], one["exit"]) for one in bench.events("proof")]
    assert ran[:2] == [("run tsets", 0), ("run tests", 1)]
