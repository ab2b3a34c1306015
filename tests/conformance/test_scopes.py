"""Whose change it is, and what follows: the same in both engines, wherever agents write."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.contracts import Artifact, Contract, Headings
from interlock.engine import Dispatch, Ending, Kind, Retries, Run, Status
from interlock.workspace import Scope
from tests.conformance.harness import Engine, Real, Simulated, also, in_turn, instead, reacting
from tests.engine.toys import ISOLATED, NESTED, NESTED_FILES, Work, members, producing, single, toy

Start = Callable[..., Engine]

SPEC = producing("made.md")
FILES = {"README.md": "hello\n", "state.json": "{}\n", "done.md": "made by another\n"}


def report_of(played: Engine) -> dict:
    played.go()
    (end,) = played.events("dispatch.end")
    return end.data["out"]


@pytest.mark.req("EN-35", "CM-14", "CM-34")
@pytest.mark.parametrize("path", ["README.md", "done.md", "new/file.md"])
def test_a_change_outside_the_scope_is_undone_kept_and_a_failure(engine: Start, outbox: bool, path: str) -> None:
    """The file is as it was, the patch has the change, the outcome is FAIL `scope_violation`."""
    played = engine(single(SPEC), Work(), FILES, reacting(maker=also({path: "taken over\n"})), outbox=outbox)
    report = report_of(played)
    assert (report["outcome"], report["reason"], report["violations"]) == ("FAIL", "scope_violation", [path])
    assert {name: text for name, text in played.files.items() if name != "made.md"} == FILES
    assert "taken over" in played.kept("maker#1", "outside.patch")
    (event,) = played.events("scope.violation")
    assert event.data["paths"] == [path]


@pytest.mark.req("EN-47")
def test_what_an_agent_is_told_to_write_it_may_write(engine: Start, outbox: bool) -> None:
    """The scope that a runner gets, for rules of the agent's own, covers the places in the brief, and no others."""
    played = engine(single(SPEC), Work(), FILES, reacting(), outbox=outbox)
    assert played.go().status is Status.COMPLETE
    (call,) = played.calls
    assert call.contract is not None
    assert call.covers is not None
    (told,) = [artifact.path for artifact in call.contract.artifacts]
    assert told.startswith(".interlock/outbox/") == outbox
    assert call.covers(told)
    assert Scope(call.writes).covers(told)
    for other in ("README.md", ".interlock/outbox/other.md", ".interlock/runs/x"):
        assert not call.covers(other)
        assert not Scope(call.writes).covers(other)


@pytest.mark.req("EN-35", "CM-14")
def test_deleting_what_is_not_ones_own_is_undone_too(engine: Start) -> None:
    """A deleted file is back with its content."""
    played = engine(single(SPEC), Work(), FILES, reacting(maker=also({"README.md": None})))
    assert report_of(played)["violations"] == ["README.md"]
    assert played.files["README.md"] == "hello\n"


@pytest.mark.req("EN-35")
def test_the_retry_is_told_what_was_undone(engine: Start, outbox: bool) -> None:
    """The patch stands in the failure context of the second brief."""
    agent = reacting(maker=in_turn(also({"README.md": "taken over\n"}), None))
    played = engine(single(SPEC, retries=Retries(error=1)), Work(), FILES, agent, outbox=outbox)
    assert played.go().status is Status.COMPLETE
    first, second = (call.brief for call in played.calls)
    assert "## Failure context" not in first
    told = second.split("## Failure context")[1]
    assert "scope_violation" in told
    assert "changed outside its scope: README.md" in told
    assert "taken over" in told


@pytest.mark.req("EN-35", "CM-04")
def test_a_state_document_that_an_agent_changed_is_put_back_and_reported(engine: Start, outbox: bool) -> None:
    """Event `foreign_write`, the change kept as a patch; the outcome stands."""
    agent = reacting(maker=also({"state.json": '{"done": true}\n'}))
    played = engine(single(SPEC, state=lambda _work: ("state.json",)), Work(), FILES, agent, outbox=outbox)
    report = report_of(played)
    assert (report["outcome"], report["foreign"], report["violations"]) == ("OK", ["state.json"], [])
    assert played.files["state.json"] == "{}\n"
    (event,) = played.events("foreign_write")
    assert event.data["paths"] == ["state.json"]
    assert "done" in played.kept("maker#1", "outside.patch")


@pytest.mark.req("CM-04")
def test_a_state_document_is_the_engines_even_inside_a_write_scope(engine: Start) -> None:
    """A scope that covers it gives no leave to write it."""
    spec = replace(SPEC, writes=("**",))
    agent = reacting(maker=also({"state.json": "mine\n", "free.md": "fine\n"}))
    played = engine(single(spec, state=lambda _work: ("state.json",)), Work(), FILES, agent)
    assert report_of(played)["foreign"] == ["state.json"]
    assert played.files["state.json"] == "{}\n"
    assert played.files["free.md"] == "fine\n"


@pytest.mark.req("EN-35", "CM-34")
def test_what_a_judges_build_leaves_goes_to_the_attic(engine: Start, outbox: bool) -> None:
    """New files of a judge are moved, event `scope.cleaned`, the outcome is unchanged; changed files are not its."""
    spec = Dispatch("judge", "Build and judge.", kind=Kind.JUDGE)
    agent = reacting(judge=also({"build/app.o": "object\n"}))
    played = engine(single(spec), Work(), FILES, agent, outbox=outbox)
    assert report_of(played)["outcome"] == "OK"
    assert played.files == FILES
    assert [text for path, text in played.attic.items() if path.endswith("build/app.o")] == ["object\n"]
    (event,) = played.events("scope.cleaned")
    assert event.data["paths"] == ["build/app.o"]
    meddling = engine(single(spec), Work(), FILES, reacting(judge=also({"README.md": "judged\n"})))
    assert report_of(meddling)["reason"] == "scope_violation"
    assert meddling.files == FILES


@pytest.mark.req("EN-37", "CM-15")
def test_members_that_share_the_tree_need_disjoint_scopes(engine: Start) -> None:
    """Two that may write the same file side by side are refused, by name and path."""
    playbook = members(producing("same.md", "a"), replace(producing("b.md", "b"), writes=("s*.md",)))
    played = engine(playbook, Work(), {})
    close = played.go()
    assert (close.status, close.exit_code) == (Status.STOPPED, 3)
    assert "b and side/a#1" in close.reason
    assert "same.md" in close.reason
    assert "b" not in played.agents


@pytest.mark.req("EN-37", "CM-15")
def test_side_by_side_each_change_belongs_to_whose_scope_it_is_in(engine: Start, outbox: bool) -> None:
    """Members are attributed by path; what is in nobody's scope is undone at the end and fails none of them."""
    agent = reacting(
        a=also({"README.md": "a was here\n"}, seconds=5.0), b=also({"stray.md": "b's stray\n"}, seconds=1.0)
    )
    played = engine(members(producing("a.md", "a"), producing("b.md", "b")), Work(), FILES, agent, outbox=outbox)
    close = played.go()
    assert json.loads(str(close.output)) == [["a", "OK", None], ["b", "OK", None]]
    changes = {line.agent: line.data["out"]["changes"] for line in played.events("dispatch.end")}
    assert changes == {"a": ["a.md"], "b": ["b.md"]}
    assert set(played.files) == {*FILES, "a.md", "b.md"}
    assert played.files["README.md"] == "hello\n"
    (event,) = played.events("scope.cleaned")
    assert sorted(event.data["paths"]) == ["README.md", "stray.md"]
    kept = played.kept("side/cluster#1", "outside.patch")
    assert "a was here" in kept
    assert "b's stray" in kept


@pytest.mark.req("EN-37", "CM-04")
def test_a_state_document_changed_side_by_side_is_put_back(engine: Start) -> None:
    """The cluster's end undoes it and says so."""
    playbook = members(producing("a.md", "a"), producing("b.md", "b"), state=lambda _work: ("state.json",))
    played = engine(playbook, Work(), FILES, reacting(a=also({"state.json": "mine\n"})))
    assert played.go().status is Status.COMPLETE
    assert played.files["state.json"] == "{}\n"
    assert played.events("foreign_write")[0].data["paths"] == ["state.json"]


@pytest.mark.req("EN-37", "EN-38")
def test_worktree_members_may_overlap_and_meet_in_the_merge(engine: Start, outbox: bool) -> None:
    """Both wrote the same file: the first is merged, the second is a conflict and leaves the tree as it is."""
    agent = reacting(
        a=also({"src/shared.py": "by a\n", "src/a.py": "a\n"}, seconds=9.0),
        b=also({"src/shared.py": "by b\n", "src/b.py": "b\n"}, seconds=1.0),
    )
    played = engine(ISOLATED, Work(), {"src/shared.py": "first\n"}, agent, outbox=outbox)
    told = json.loads(str(played.go().output))
    assert told["a"] == [["src/a.py", "src/shared.py"], []]
    assert told["b"] == [[], ["src/shared.py"]]
    assert played.files == {"src/shared.py": "by a\n", "src/a.py": "a\n"}


@pytest.mark.req("EN-37", "CM-36")
def test_worktree_members_are_merged_in_declared_order(engine: Start) -> None:
    """The one that ended last is merged first if it is declared first."""
    agent = reacting(a=also({"src/a.py": "a\n"}, seconds=9.0), b=also({"src/b.py": "b\n"}, seconds=1.0))
    played = engine(ISOLATED, Work(), {"src/shared.py": "first\n"}, agent)
    assert played.go().status is Status.COMPLETE
    assert sorted(played.files) == ["src/a.py", "src/b.py", "src/shared.py"]
    assert [line.data["dispatch"] for line in played.events("merge")] == ["code/a#1", "code/b#1"]


@pytest.mark.req("EN-36")
def test_a_persons_edit_during_an_isolated_dispatch_stays(engine: Start) -> None:
    """With `workspace.isolate` an agent that writes code has a tree of its own; nothing of a person's is undone."""

    def agent(_request, act):
        played.edit("README.md", "edited meanwhile\n")
        return replace(act, files={**act.files, "src/new.py": "new\n"})

    spec = replace(SPEC, writes=("src/**",))
    played = engine(single(spec), Work(), FILES, reacting(maker=agent), isolate=True)
    assert played.go().status is Status.COMPLETE
    assert played.files["README.md"] == "edited meanwhile\n"
    assert played.files["src/new.py"] == "new\n"
    assert "made.md" in played.files


@pytest.mark.req("EN-36", "CM-34")
def test_a_persons_edit_during_a_shared_dispatch_is_kept_as_a_patch(engine: Start) -> None:
    """Nobody can tell it from the agent's: it is undone, and where it is kept is recorded."""

    def agent(_request, act):
        played.edit("README.md", "edited meanwhile\n")
        return act

    played = engine(single(SPEC), Work(), FILES, reacting(maker=agent))
    played.go()
    (event,) = played.events("scope.violation")
    assert event.data["patch"].endswith("outside.patch")
    assert "edited meanwhile" in played.kept("maker#1", "outside.patch")
    assert played.files["README.md"] == "hello\n"
    if isinstance(played, Real):
        subprocess.run(shlex.split(event.data["again"]), cwd=played.root, check=True)
        assert played.files["README.md"] == "edited meanwhile\n"


@pytest.mark.req("EN-40", "CM-16")
def test_an_artifact_that_was_there_and_was_not_rewritten_is_stale(engine: Start, outbox: bool) -> None:
    """Saying that it is done does not make the old file this dispatch's work."""
    played = engine(single(SPEC), Work(), {"made.md": "old\n"}, reacting(maker=instead(files={})), outbox=outbox)
    report = report_of(played)
    assert report["reason"] == "contract_violation"
    assert report["complaints"] == ["made.md: stale: it was there before and has not been rewritten"]


@pytest.mark.req("EN-40")
def test_the_same_bytes_written_again_are_fresh(engine: Start, outbox: bool) -> None:
    """A file whose time differs was written, although its content is the same."""
    played = engine(single(SPEC), Work(), {}, outbox=outbox)
    played.go()
    again = engine(single(SPEC), Work(), {"made.md": played.files["made.md"]}, outbox=outbox)
    assert again.go().status is Status.COMPLETE


@pytest.mark.req("EN-40")
def test_a_repair_need_not_rewrite_what_was_good(engine: Start, outbox: bool) -> None:
    """Fresh is measured from before the first try, so the second try mends only what was wrong."""
    contract = Contract((Artifact("good.md"), Artifact("bad.md", structure=Headings(("## Plan",)))))
    spec = Dispatch("maker", "Write both.", contract)

    def first(request, act):
        good, bad = (artifact.path for artifact in request.contract.artifacts)
        return replace(act, files={good: "good\n", bad: "no heading\n"})

    def second(request, act):
        bad = request.contract.artifacts[1].path
        return replace(act, files={bad: act.files[bad]})

    played = engine(
        single(spec, retries=Retries(contract=1)), Work(), {}, reacting(maker=in_turn(first, second)), outbox=outbox
    )
    assert played.go().status is Status.COMPLETE
    assert played.files["good.md"] == "good\n"
    assert "bad.md: malformed" in played.calls[1].brief


@pytest.mark.req("EN-40")
def test_a_persons_fallback_file_need_not_be_fresh(engine: Start) -> None:
    """An artifact that a person may provide counts as it is."""
    spec = Dispatch("maker", "Write it.", Contract((Artifact("made.md", fresh=False),)))
    played = engine(single(spec), Work(), {"made.md": "by a person\n"}, reacting(maker=instead(files={})))
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("EN-47")
def test_where_agents_write_is_the_engines_choice_and_changes_nothing_else(engine: Start) -> None:
    """Briefs name the outbox or the real places; files, keys and outcomes at the end are the same."""
    direct = Simulated(NESTED, Work(), NESTED_FILES)
    direct.go()
    played = engine(NESTED, Work(), NESTED_FILES, outbox=True)
    assert played.go().status is Status.COMPLETE
    assert sorted(played.names) == sorted(direct.names)
    assert {path: text for path, text in played.files.items() if path != "done.txt"} == {
        path: text for path, text in direct.files.items() if path != "done.txt"
    }
    told, elsewhere = outputs(direct.calls[0].brief), outputs(played.calls[0].brief)
    assert told == ["plan.md"]
    assert elsewhere[0].startswith(".interlock/outbox/")
    assert elsewhere[0].endswith("/plan.md")


@pytest.mark.req("EN-47", "CM-14")
def test_an_outbox_gives_no_leave_to_write_elsewhere(engine: Start) -> None:
    """A file in the outbox that is not in scope is not imported and fails the dispatch; it is kept."""

    def agent(request, act):
        box = request.contract.artifacts[0].path.removesuffix("made.md")
        return replace(act, files={**act.files, f"{box}README.md": "taken over\n"})

    played = engine(single(SPEC), Work(), FILES, reacting(maker=agent), outbox=True)
    report = report_of(played)
    assert (report["reason"], report["violations"]) == ("scope_violation", ["README.md"])
    assert played.files["README.md"] == "hello\n"
    assert "taken over\n" in played.attic.values()


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


def outputs(brief: str) -> list[str]:
    section = brief.split("## Outputs\n\n")[1].split("\n\n##", maxsplit=1)[0]
    return [line.removeprefix("- `").removesuffix("`") for line in section.splitlines()]
