"""Whose change it is, and what follows: the same in both engines. Nothing that does not count reaches the tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.contracts import Artifact, Contract, Headings
from interlock.engine import Dispatch, Ending, Kind, Retries, Run, Status
from interlock.engine.journal import Line
from tests.conformance.harness import Engine, also, in_turn, instead, reacting
from tests.engine.toys import Work, members, producing, single, toy

Start = Callable[..., Engine]

SPEC = producing("made.md")
FILES = {"README.md": "hello\n", "state.json": "{}\n", "done.md": "made by another\n"}


def patch_of(played: Engine, event: Line) -> str:
    return played.kept(str(event.key), event.data["patch"].rsplit("/", 1)[-1])


def report_of(played: Engine) -> dict:
    played.go()
    (end,) = played.events("dispatch.end")
    return end.data["out"]


@pytest.mark.req("EN-35", "CM-14", "CM-34")
@pytest.mark.parametrize("path", ["README.md", "done.md", "new/file.md"])
def test_a_change_outside_the_scope_is_kept_out_as_a_patch_and_a_failure(engine: Start, path: str) -> None:
    """The file is as it was, the patch has the change, the outcome is FAIL `scope_violation`."""
    played = engine(single(SPEC), Work(), FILES, reacting(maker=also({path: "taken over\n"})))
    report = report_of(played)
    assert (report["outcome"], report["reason"], report["violations"]) == ("FAIL", "scope_violation", [path])
    assert {name: text for name, text in played.files.items() if name != "made.md"} == FILES
    (event,) = played.events("scope.violation")
    assert event.data["paths"] == [path]
    assert "taken over" in patch_of(played, event)


@pytest.mark.req("EN-35", "CM-14")
def test_deleting_what_is_not_ones_own_deletes_nothing(engine: Start) -> None:
    """The file is there, with its content."""
    played = engine(single(SPEC), Work(), FILES, reacting(maker=also({"README.md": None})))
    assert report_of(played)["violations"] == ["README.md"]
    assert played.files["README.md"] == "hello\n"


@pytest.mark.req("EN-35")
def test_the_retry_is_told_what_was_refused(engine: Start) -> None:
    """The patch stands in the failure context of the second brief."""
    agent = reacting(maker=in_turn(also({"README.md": "taken over\n"}), None))
    played = engine(single(SPEC, retries=Retries(error=1)), Work(), FILES, agent)
    assert played.go().status is Status.COMPLETE
    first, second = (call.brief for call in played.calls)
    assert "## Failure context" not in first
    told = second.split("## Failure context")[1]
    assert "scope_violation" in told
    assert "changed outside its scope: README.md" in told
    assert "taken over" in told


@pytest.mark.req("EN-35", "CM-04")
def test_a_state_document_that_an_agent_changed_stays_as_it_is_and_that_is_reported(engine: Start) -> None:
    """Event `foreign_write`, the change kept as a patch; the outcome stands."""
    agent = reacting(maker=also({"state.json": '{"done": true}\n'}))
    played = engine(single(SPEC, state=lambda _work: ("state.json",)), Work(), FILES, agent)
    report = report_of(played)
    assert (report["outcome"], report["foreign"], report["violations"]) == ("OK", ["state.json"], [])
    assert played.files["state.json"] == "{}\n"
    (event,) = played.events("foreign_write")
    assert event.data["paths"] == ["state.json"]
    assert "done" in patch_of(played, event)


@pytest.mark.req("CM-04")
def test_a_state_document_is_the_engines_even_inside_a_write_scope(engine: Start) -> None:
    """A scope that covers it gives no leave to write it."""
    spec = replace(SPEC, writes=("**",))
    agent = reacting(maker=also({"state.json": "mine\n", "free.md": "fine\n"}))
    played = engine(single(spec, state=lambda _work: ("state.json",)), Work(), FILES, agent)
    assert report_of(played)["foreign"] == ["state.json"]
    assert played.files["state.json"] == "{}\n"
    assert played.files["free.md"] == "fine\n"


@pytest.mark.req("EN-40", "CM-16")
def test_an_artifact_that_was_there_and_was_not_rewritten_is_stale(engine: Start) -> None:
    """Saying that it is done does not make the old file this dispatch's work."""
    played = engine(single(SPEC), Work(), {"made.md": "old\n"}, reacting(maker=instead(files={})))
    report = report_of(played)
    assert report["reason"] == "contract_violation"
    assert report["complaints"] == ["made.md: stale: it was there before and has not been rewritten"]


@pytest.mark.req("EN-40")
def test_the_same_bytes_written_again_are_fresh(engine: Start) -> None:
    """A file whose time differs was written, although its content is the same."""
    played = engine(single(SPEC), Work(), {})
    played.go()
    again = engine(single(SPEC), Work(), {"made.md": played.files["made.md"]})
    assert again.go().status is Status.COMPLETE


@pytest.mark.req("EN-40")
def test_a_repair_need_not_rewrite_what_was_good(engine: Start) -> None:
    """Fresh is measured from before the first try, so the second try mends only what was wrong."""
    contract = Contract((Artifact("good.md"), Artifact("bad.md", structure=Headings(("## Plan",)))))
    spec = Dispatch("maker", "Write both.", contract)

    def first(request, act):
        good, bad = (artifact.path for artifact in request.contract.artifacts)
        return replace(act, files={good: "good\n", bad: "no heading\n"})

    def second(request, act):
        bad = request.contract.artifacts[1].path
        return replace(act, files={bad: act.files[bad]})

    played = engine(single(spec, retries=Retries(contract=1)), Work(), {}, reacting(maker=in_turn(first, second)))
    assert played.go().status is Status.COMPLETE
    assert played.files["good.md"] == "good\n"
    assert "bad.md: malformed" in played.calls[1].brief


@pytest.mark.req("EN-40")
def test_a_persons_fallback_file_need_not_be_fresh(engine: Start) -> None:
    """An artifact that a person may provide counts as it is."""
    spec = Dispatch("maker", "Write it.", Contract((Artifact("made.md", fresh=False),)))
    played = engine(single(spec), Work(), {"made.md": "by a person\n"}, reacting(maker=instead(files={})))
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("EN-35", "EN-37")
def test_what_the_engine_itself_writes_beside_a_dispatch_is_nobodys_violation(engine: Start) -> None:
    """A member's own write while another member's agent works is not taken for the agent's change."""

    async def body(run: Run, _work: Work) -> Ending:
        async def writing() -> None:
            await run.dispatch(producing("b.md", "b"))
            await run.write("state.json", '{"b": 1}\n')

        await run.cluster("side", {"a": lambda: run.dispatch(producing("a.md", "a")), "b": writing})
        return Ending.complete()

    played = engine(toy(body, state=lambda _work: ("state.json",)), Work(), FILES, reacting(a=instead(seconds=20.0)))
    assert played.go().status is Status.COMPLETE
    assert played.files["state.json"] == '{"b": 1}\n'
    assert played.events("foreign_write") == played.events("scope.cleaned") == []


@pytest.mark.req("EN-35", "CM-34")
def test_what_a_judges_build_leaves_is_dropped(engine: Start) -> None:
    """New files of a judge go with its layer, event `scope.cleaned`; changed files are not its. What it says against
    the work stands."""
    spec = Dispatch("judge", "Build and judge.", kind=Kind.JUDGE)
    played = engine(
        single(spec), Work(), FILES, reacting(judge=also({"build/app.o": "x\n"}, message="NEEDS_REVISION: no"))
    )
    report = report_of(played)
    assert (report["outcome"], report["dropped"]) == ("REVISE", ["build/app.o"])
    assert played.files == FILES
    (event,) = played.events("scope.cleaned")
    assert event.data["paths"] == ["build/app.o"]
    meddling = engine(single(spec), Work(), FILES, reacting(judge=also({"README.md": "judged\n"})))
    assert report_of(meddling)["reason"] == "scope_violation"
    assert meddling.files == FILES


@pytest.mark.req("EN-35")
def test_caches_of_a_test_run_are_neither_work_nor_a_violation(engine: Start) -> None:
    """What running tests leaves in a project that does not ignore it goes with the layer, also inside the scope."""
    spec = replace(SPEC, writes=("src/**",))
    files = {"src/new.py": "new\n", "src/__pycache__/new.pyc": "bytes\n", ".pytest_cache/v/cache": "{}\n"}
    played = engine(single(spec), Work(), FILES, reacting(maker=also(files)))
    report = report_of(played)
    assert (report["outcome"], report["changes"]) == ("OK", ["made.md", "src/new.py"])
    assert set(played.files) == {*FILES, "made.md", "src/new.py"}


@pytest.mark.req("LY-06", "EN-37", "CM-15")
def test_members_may_write_what_they_like_and_each_is_judged_by_its_own_scope(engine: Start) -> None:
    """A member that strayed fails alone; what it strayed to reaches nobody."""
    agent = reacting(
        a=also({"README.md": "a was here\n"}, seconds=5.0), b=also({"b/more.md": "b's own\n"}, seconds=1.0)
    )
    specs = (producing("a.md", "a"), replace(producing("b.md", "b"), writes=("b/**",)))
    played = engine(members(*specs), Work(), FILES, agent)
    close = played.go()
    assert json.loads(str(close.output)) == [["a", "FAIL", "scope_violation"], ["b", "OK", None]]
    changes = {line.agent: line.data["out"]["changes"] for line in played.events("dispatch.end")}
    assert changes == {"a": ["a.md"], "b": ["b.md", "b/more.md"]}
    assert set(played.files) == {*FILES, "a.md", "b.md", "b/more.md"}
    assert played.files["README.md"] == "hello\n"


@pytest.mark.req("LY-06", "EN-37", "CM-36")
def test_members_are_imported_in_declared_order_and_the_later_one_has_the_conflict(engine: Start) -> None:
    """Both wrote the same file; the one declared first ended last, and its version stands all the same."""
    agent = reacting(
        a=also({"src/shared.py": "by a\n", "src/a.py": "a\n"}, seconds=9.0),
        b=also({"src/shared.py": "by b\n", "src/b.py": "b\n"}, seconds=1.0),
    )
    specs = (Dispatch(name, "Write.", writes=("src/**",)) for name in "ab")
    played = engine(members(*specs, name="code"), Work(), {"src/shared.py": "first\n"}, agent)
    close = played.go()
    assert json.loads(str(close.output)) == [["a", "OK", None], ["b", "FAIL", "contract_violation"]]
    assert played.files == {"src/shared.py": "by a\n", "src/a.py": "a\n"}
    assert [line.agent for line in played.events("dispatch.end")] == ["a", "b"]
    (conflict,) = played.events("dispatch.conflict")
    assert conflict.data["paths"] == ["src/shared.py"]
    assert "by b" in patch_of(played, conflict)
    end = played.events("dispatch.end")[1].data["out"]
    assert "<<<<<<<" in end["conflicts"]["src/shared.py"]
    assert end["accepted"] is False


@pytest.mark.req("LY-06")
def test_members_of_several_steps_go_on_side_by_side(engine: Start) -> None:
    """A member's first work waits for the first work of those before it, not for their end."""

    async def body(run: Run, _work: Work) -> Ending:
        async def member(name: str) -> None:
            await run.dispatch(producing(f"{name}1.md", f"{name}1"))
            await run.dispatch(producing(f"{name}2.md", f"{name}2"))

        await run.cluster("side", {name: (lambda name=name: member(name)) for name in "ab"})
        return Ending.complete()

    played = engine(toy(body), Work(), {}, reacting(a2=instead(seconds=30.0)))
    assert played.go().status is Status.COMPLETE
    starts = [line.agent for line in played.lines if line.event in ("dispatch.start", "dispatch.end")]
    assert starts.index("b2") < len(starts) - 1 - starts[::-1].index("a2")


@pytest.mark.req("LY-05", "EN-36", "CM-34")
def test_what_a_person_changes_while_an_agent_works_stays(engine: Start) -> None:
    """New files, edits and deletions of a person are nobody's violation, and the agent's work comes beside them."""
    people = {"README.md": "edited meanwhile\n", "mine.txt": "a person's\n", "done.md": None}
    spec = replace(SPEC, writes=("src/**",))
    played = engine(single(spec), Work(), FILES, reacting(maker=also({"src/new.py": "new\n"}, people=people)))
    report = report_of(played)
    assert (report["outcome"], report["changes"]) == ("OK", ["made.md", "src/new.py"])
    assert played.events("scope.violation") == []
    expected = {"README.md": "edited meanwhile\n", "mine.txt": "a person's\n", "src/new.py": "new\n"}
    assert {path: text for path, text in played.files.items() if path in expected} == expected
    assert "done.md" not in played.files


@pytest.mark.req("LY-05")
def test_the_same_file_changed_by_agent_and_person_is_a_conflict_with_both_versions_kept(engine: Start) -> None:
    """The person's stands in the tree; the agent's is kept as a patch; the dispatch failed and says why."""
    spec = replace(SPEC, writes=("src/**",))
    agent = also({"src/app.py": "by the agent\n"}, people={"src/app.py": "by a person\n"})
    played = engine(single(spec), Work(), {"src/app.py": "before\n"}, reacting(maker=agent))
    report = report_of(played)
    assert (report["outcome"], report["reason"]) == ("FAIL", "contract_violation")
    assert report["complaints"] == ["conflict with an edit made meanwhile: src/app.py"]
    assert played.files == {"src/app.py": "by a person\n"}
    assert "by the agent" in played.kept("maker#1", "changes.patch")


@pytest.mark.req("LY-05", "CM-04")
def test_a_state_document_that_a_person_edits_meanwhile_stays_edited(engine: Start) -> None:
    """The agent's change of it is refused, the person's is not undone."""
    agent = also({"state.json": '{"by": "the agent"}\n'}, people={"state.json": '{"by": "a person"}\n'})
    played = engine(single(SPEC, state=lambda _work: ("state.json",)), Work(), FILES, reacting(maker=agent))
    assert report_of(played)["foreign"] == ["state.json"]
    assert played.files["state.json"] == '{"by": "a person"}\n'


@pytest.mark.req("LY-03")
def test_of_a_failed_dispatch_only_documents_that_hold_come_into_the_tree(engine: Start) -> None:
    """Code of an attempt that failed stays out; a report that satisfies its contract is evidence and comes in."""
    spec = replace(SPEC, writes=("src/**",))
    agent = also({"src/app.py": "half\n"}, message="ERROR: not done")
    played = engine(single(spec), Work(), FILES, reacting(maker=agent))
    report = report_of(played)
    assert (report["outcome"], report["accepted"]) == ("FAIL", False)
    assert report["changes"] == ["made.md", "src/app.py"]
    assert set(played.files) == {*FILES, "made.md"}


@pytest.mark.req("LY-04")
def test_a_later_attempt_is_told_what_an_earlier_one_did_in_vain(engine: Start) -> None:
    """The difference stands in its brief; its tree does not have it."""
    spec = Dispatch("maker", "Write.", writes=("src/**",))

    async def body(run: Run, _work: Work) -> Ending:
        with run.step("first"):
            await run.dispatch(spec)
        with run.step("second"):
            await run.dispatch(spec)
        return Ending.complete()

    agent = reacting(maker=in_turn(also({"src/app.py": "half a thought\n"}, message="ERROR: not done"), None))
    played = engine(toy(body), Work(), FILES, agent)
    assert played.go().status is Status.COMPLETE
    first, second = (call.brief for call in played.calls)
    assert "half a thought" not in first
    assert "half a thought" in second.split("## Failure context")[1]
    assert "src/app.py" not in played.files


@pytest.mark.req("LY-04")
def test_a_later_attempt_goes_on_with_the_work_of_a_failed_one_where_the_playbook_says_so(engine: Start) -> None:
    """What the first attempt wrote in its scope is in the second one's tree, and is accepted with it."""
    spec = Dispatch("maker", "Write.", writes=("src/**",))

    async def body(run: Run, _work: Work) -> Ending:
        with run.step("first"):
            report = await run.dispatch(spec)
        with run.step("second"):
            await run.dispatch(replace(spec, starts_from=report.work))
        return Ending.complete()

    first = also({"src/a.py": "begun\n", "elsewhere.txt": "strayed\n"})
    played = engine(toy(body), Work(), FILES, reacting(maker=in_turn(first, also({"src/b.py": "ended\n"}))))
    assert played.go().status is Status.COMPLETE
    assert played.events("dispatch.end")[1].data["out"]["changes"] == ["src/a.py", "src/b.py"]
    assert (played.files["src/a.py"], played.files["src/b.py"]) == ("begun\n", "ended\n")
    assert "elsewhere.txt" not in played.files


@pytest.mark.req("LY-04", "LY-05")
def test_the_work_of_a_failed_attempt_takes_nothing_back_that_was_done_since(engine: Start) -> None:
    """A file that was changed after that attempt is found as it is now; what nobody else touched is handed over."""
    spec = Dispatch("maker", "Write.", writes=("src/**",))

    async def body(run: Run, _work: Work) -> Ending:
        with run.step("first"):
            report = await run.dispatch(spec)
        await run.write("src/a.py", "by somebody else\n")
        with run.step("second"):
            await run.dispatch(replace(spec, starts_from=report.work))
        return Ending.complete()

    first = also({"src/a.py": "begun\n", "src/b.py": "begun\n", "elsewhere.txt": "strayed\n"})
    played = engine(toy(body), Work(), {**FILES, "src/a.py": "old\n"}, reacting(maker=in_turn(first, also({}))))
    assert played.go().status is Status.COMPLETE
    assert played.events("dispatch.end")[1].data["out"]["changes"] == ["src/b.py"]
    assert (played.files["src/a.py"], played.files["src/b.py"]) == ("by somebody else\n", "begun\n")


@pytest.mark.req("LY-04")
def test_a_repair_goes_on_in_the_layer_without_what_was_refused(engine: Start) -> None:
    """The second try finds its own files, and not what it may not have written."""
    contract = Contract((Artifact("made.md", structure=Headings(("## Plan",))),))
    spec = Dispatch("maker", "Write it.", contract, writes=("src/**",))
    first = instead(files={"made.md": "no heading\n", "src/a.py": "kept\n", "README.md": "strayed\n"})
    played = engine(single(spec, retries=Retries(contract=1)), Work(), FILES, reacting(maker=in_turn(first, None)))
    report = report_of(played)
    assert (report["outcome"], report["violations"]) == ("OK", [])
    assert report["changes"] == ["made.md", "src/a.py"]
    assert played.files["README.md"] == "hello\n"


@pytest.mark.req("LY-37")
def test_what_was_refused_of_each_try_is_kept_by_itself(engine: Start) -> None:
    """Two tries stray to the same file: both versions are there afterwards."""
    agent = reacting(maker=in_turn(also({"README.md": "first\n"}), also({"README.md": "second\n"})))
    played = engine(single(SPEC, retries=Retries(error=1)), Work(), FILES, agent)
    report_of(played)
    first, second = played.events("scope.violation")
    assert "+first" in patch_of(played, first)
    assert "+second" in patch_of(played, second)


@pytest.mark.req("LY-33")
@pytest.mark.parametrize(
    "path", [".github/workflows/ci.yml", "CLAUDE.md", "sub/.claude/settings.json", "interlock.toml"]
)
def test_what_steers_agents_and_tools_is_in_no_scope_that_does_not_name_it(engine: Start, path: str) -> None:
    """A scope over everything does not cover it; one that names it does."""
    agent = reacting(maker=also({path: "planted\n"}))
    wide = engine(single(replace(SPEC, writes=("**",))), Work(), FILES, agent)
    assert report_of(wide)["violations"] == [path]
    assert path not in wide.files
    naming = engine(single(replace(SPEC, writes=("**", path))), Work(), FILES, agent)
    if path != "interlock.toml":  # the real engine reads that one as its settings
        assert report_of(naming)["outcome"] == "OK"
        assert naming.files[path] == "planted\n"
