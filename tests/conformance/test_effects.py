"""Effects happen once, whatever a crash loses; what people wrote stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.engine import Ending, Run, Status
from interlock.engine.keys import sha256
from interlock.errors import BadInput, DocumentInvalid
from tests.conformance.harness import Crash, Death, Engine, also, in_turn, instead, reacting
from tests.engine.toys import COMMITTING, COUNTED, Work, producing, single, toy

Start = Callable[..., Engine]


async def rewriting(run: Run, _work: Work) -> Ending:
    await run.write("a.txt", "new\n")
    await run.dispatch(producing("b.md"))
    return Ending.complete()


REWRITING = toy(rewriting)


@pytest.mark.req("EN-10")
def test_a_write_whose_record_was_lost_is_done_and_not_foreign(engine: Start) -> None:
    """The file has the intended bytes already: the record is completed, with what was there before."""
    played = engine(REWRITING, Work(), {"a.txt": "old\n"})
    played.dies(Death("write"))
    assert played.files["a.txt"] == "new\n"
    assert played.go().status is Status.COMPLETE
    assert len(played.events("write.intent")) == 1
    (line,) = played.events("write")
    assert line.data["out"] == {"path": "a.txt", "digest": sha256(b"new\n"), "before": sha256(b"old\n")}
    assert played.events("foreign_write") == played.events("scope.violation") == []


@pytest.mark.req("EN-10")
def test_a_write_that_was_only_intended_happens_at_resume(engine: Start) -> None:
    """An intent without its effect is carried out."""
    played = engine(REWRITING, Work(), {"a.txt": "old\n"})
    played.dies(Death("write.intent", lost=False))
    assert played.files["a.txt"] == "old\n"
    assert played.go().status is Status.COMPLETE
    assert played.files["a.txt"] == "new\n"


@pytest.mark.req("EN-10", "EN-11")
@pytest.mark.parametrize("effect", ["checkout#1", "commit#1"])
def test_an_effect_on_the_repository_whose_record_was_lost_is_found_there(engine: Start, effect: str) -> None:
    """The branch, and the mark of run and key in the commit: nothing is repeated."""
    played = engine(COMMITTING, Work(), {"a.txt": "old\n"})
    played.put_under_git()
    played.dies(Death("repository", key=effect))
    assert played.go().status is Status.COMPLETE
    done = {line.key: line.data["out"] for line in played.events("repository")}
    assert {key for key, out in done.items() if out["probed"]} == {effect}
    assert len(played.events("repository.intent")) == 2
    assert [message.split() for message in played.commits] == [
        ["work", "Interlock-Key:", f"{played.lines[0].run}/commit#1"],
        ["first"],
    ]


@pytest.mark.req("EN-10")
def test_an_effect_on_the_repository_that_never_happened_happens_at_resume(engine: Start) -> None:
    """The repository does not know of it."""
    played = engine(COMMITTING, Work(), {"a.txt": "old\n"})
    played.put_under_git()
    played.dies(Death("repository.intent", key="commit#1", lost=False))
    assert [message.strip() for message in played.commits] == ["first"]
    assert played.go().status is Status.COMPLETE
    assert len(played.commits) == 2
    assert played.files["report.txt"] == "True False\n"


@pytest.mark.req("EN-13", "LY-05", "CM-34")
def test_what_an_unfinished_dispatch_did_never_reached_the_tree_and_a_persons_edits_stay(engine: Start) -> None:
    """It starts anew over the tree as it is; what it had done is kept as a patch."""
    seen: list[str | None] = []

    def look(_request, act):
        seen.append(played.files.get("b.md"))
        return act

    crash = also({"b.md": "half of it\n"}, crash=True)
    played = engine(
        toy(rewriting), Work(), {"a.txt": "old\n", "b.md": "before\n"}, reacting(maker=in_turn(crash, look))
    )
    with pytest.raises(Crash):
        played.go()
    assert played.files["b.md"] == "before\n"
    played.edit("notes.txt", "a person's\n")
    played.edit("a.txt", "a person's too\n")
    assert played.go().status is Status.COMPLETE
    assert seen == ["before\n"]
    (line,) = played.events("dispatch.recovered")
    assert line.data["paths"] == ["b.md"]
    assert "half of it" in played.kept("maker#1", line.data["patch"].rsplit("/", 1)[-1])
    assert played.files["notes.txt"] == "a person's\n"
    assert played.files["a.txt"] == "a person's too\n"


@pytest.mark.req("EN-40", "CM-16")
def test_what_a_crashed_attempt_wrote_does_not_count_for_the_next_one(engine: Start) -> None:
    """The second call writes nothing: the first one's file is no evidence."""
    agent = reacting(maker=in_turn(instead(crash=True), instead(files={})))
    played = engine(toy(rewriting), Work(), {"a.txt": "old\n"}, agent)
    with pytest.raises(Crash):
        played.go()
    played.go()
    (end,) = played.events("dispatch.end")
    assert (end.data["outcome"], end.data["reason"]) == ("FAIL", "contract_violation")
    assert end.data["complaints"] == ["b.md: missing"]


@pytest.mark.req("LY-03")
@pytest.mark.parametrize("lost", [True, False], ids=["record lost", "record kept"])
def test_a_crash_around_the_import_is_finished_without_the_agent(engine: Start, lost: bool) -> None:
    """The intent is on disk with the verdict: resume imports, and calls nobody."""
    spec = replace(producing("made.md"), writes=("src/**",))
    agent = reacting(maker=also({"src/a.py": "a\n", "old.txt": None}))
    played = engine(single(replace(spec, writes=("src/**", "old.txt"))), Work(), {"old.txt": "old\n"}, agent)
    played.dies(Death("dispatch.end") if lost else Death("dispatch.importing", lost=False))
    assert ("src/a.py" in played.files) == lost
    played.edit("notes.txt", "a person's\n")
    assert played.go().status is Status.COMPLETE
    assert played.agents == ["maker"]
    assert sorted(played.files) == ["made.md", "notes.txt", "src/a.py"]


@pytest.mark.req("EN-23", "CM-05")
def test_an_edit_between_read_and_write_is_never_overwritten(engine: Start) -> None:
    """Compare-and-set: the field is changed in the person's version of the document, not in ours."""
    edited = False

    async def body(run: Run, _work: Work) -> Ending:
        def change(document) -> str:
            nonlocal edited
            if not edited:
                edited = True
                played.edit("state.json", '{"count": 1, "note": "by a person"}')
            state = json.loads(document.text)
            return json.dumps({**state, "count": state["count"] + 1})

        await run.update("state.json", change)
        return Ending.complete()

    played = engine(toy(body), Work(), {"state.json": '{"count": 1}'})
    assert played.go().status is Status.COMPLETE
    assert json.loads(played.files["state.json"]) == {"count": 2, "note": "by a person"}
    first, second = played.events("write")
    assert first.data["out"]["conflict"]["expected_digest"] == sha256(b'{"count": 1}')
    assert "digest" in second.data["out"]


@pytest.mark.req("EN-23")
def test_a_conflict_is_replayed_as_a_conflict(engine: Start) -> None:
    """At resume the write that met an edit meets it again, and no new version is written over it."""

    async def body(run: Run, work: Work) -> Ending:
        await run.update("state.json", lambda document: meddling(document.text))
        await run.dispatch(producing("b.md"))
        return Ending.complete()

    met: list[str] = []

    def meddling(text: str) -> str:
        if not met:
            met.append(text)
            played.edit("state.json", '{"person": true}')
        return json.dumps({**json.loads(text), "engine": True})

    played = engine(toy(body), Work(), {"state.json": "{}"})
    played.dies(Death("dispatch.start", lost=False))
    played.agent = reacting()
    assert len(played.events("write")) == 2
    played.edit("state.json", '{"person": true, "engine": true, "later": 1}')
    assert played.go().status is Status.COMPLETE
    assert json.loads(played.files["state.json"])["later"] == 1


@pytest.mark.req("CM-05")
def test_a_persons_edit_between_two_processes_is_seen_by_the_first_unrecorded_read(engine: Start) -> None:
    """What the journal does not answer is read from the disk, as it is now."""
    played = engine(COUNTED, Work(), {"state.json": '{"count": 0}'})
    played.dies(Death("dispatch.end", key="count-1/maker#1", lost=False))
    played.edit("state.json", '{"count": 40}')
    assert json.loads(str(played.go().output)) == {"count": 41}


@pytest.mark.req("CM-03")
def test_a_counter_is_on_disk_before_the_work_that_it_counts(engine: Start) -> None:
    """Every agent finds its own turn counted, in the document and in the journal."""
    found: list[tuple[int, int]] = []

    def look(_request, act):
        turns = [line for line in played.raw().splitlines() if b'"event":"loop"' in line]
        found.append((json.loads(played.files["state.json"])["count"], len(turns)))
        return act

    played = engine(COUNTED, Work(size=2), {}, reacting(maker=look))
    played.go()
    assert found == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.req("EN-24")
def test_bad_input_before_the_first_effect_leaves_nothing(engine: Start) -> None:
    """An error before anything was written, called or asked is exit 2, and there is no run."""

    async def body(run: Run, _work: Work) -> Ending:
        (await run.read("missing.json")).require("Roadmap")
        return Ending.complete()

    played = engine(toy(body), Work(), {"a.txt": "old\n"})
    with pytest.raises(DocumentInvalid) as caught:
        played.go()
    assert caught.value.exit_code == 2
    assert nothing_of_a_run(played)
    assert played.files == {"a.txt": "old\n"}


@pytest.mark.req("EN-24")
def test_the_same_error_later_ends_the_run_as_stopped(engine: Start) -> None:
    """Once something was done, bad input is exit 3 and the run has its end."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("a.txt", "new\n")
        (await run.read("missing.json")).require("Roadmap")
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    close = played.go()
    assert (close.status, close.exit_code) == (Status.STOPPED, 3)
    assert isinstance(close.error, BadInput)
    assert played.lines[-1].event == "run.end"


@pytest.mark.req("EN-24")
@pytest.mark.parametrize("verb", ["write", "command", "repository", "gate", "dispatch", "set_aside"])
def test_a_run_comes_into_being_with_its_first_effect(engine: Start, verb: str) -> None:
    """Reading, deciding and noting leave no trace; each verb with an effect makes the run."""
    before: list[bool] = []

    async def body(run: Run, _work: Work) -> Ending:
        await run.read("a.txt")
        run.note("looked")
        run.decide(len, "abc")
        before.append(nothing_of_a_run(played))
        match verb:
            case "write":
                await run.write("w.txt", "w")
            case "command":
                await run.command(("true",))
            case "repository":
                await run.repository.checkout("work", create=True)
            case "gate":
                await run.gate("g", "Go on?")
            case "dispatch":
                await run.dispatch(producing("b.md"))
            case "set_aside":
                await run.set_aside("a.txt")
        return Ending.complete()

    played = engine(toy(body), Work(), {"a.txt": "old\n"})
    played.put_under_git()
    played.go()
    assert before == [True]
    assert [line.event for line in played.lines][:3] == ["run.start", "read", "looked"]


@pytest.mark.req("EN-24")
def test_a_run_without_any_effect_leaves_nothing(engine: Start) -> None:
    """A playbook that found nothing to do ends as asked, without a run folder."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.read("a.txt")
        return Ending.complete("nothing to do")

    played = engine(toy(body), Work(), {})
    assert played.go().output == "nothing to do"
    assert nothing_of_a_run(played)


@pytest.mark.req("EN-03", "CM-34")
@pytest.mark.parametrize("crash", [True, False])
def test_setting_aside_survives_a_crash_and_a_cluster(engine: Start, crash: bool) -> None:
    """The file is in the attic once, and nobody puts it back as somebody's foreign change."""

    async def member(run: Run, name: str) -> None:
        await run.dispatch(producing(f"{name}.md", name))
        if name == "a":
            await run.set_aside("old.md")

    async def body(run: Run, _work: Work) -> Ending:
        await run.cluster("side", {name: (lambda name=name: member(run, name)) for name in "ab"})
        return Ending.complete()

    played = engine(toy(body), Work(), {"old.md": "was here\n"}, reacting(b=instead(seconds=9.0)))
    if crash:
        played.dies(Death("set_aside"))
    assert played.go().status is Status.COMPLETE
    assert "old.md" not in played.files
    assert list(played.attic.values()) == ["was here\n"]
    assert played.events("scope.cleaned") == []


@pytest.mark.req("EN-03")
def test_setting_aside_what_is_not_there_is_bad_input(engine: Start) -> None:
    """A missing file cannot be set aside, in neither world."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.set_aside("none.md")
        return Ending.complete()

    assert engine(toy(body), Work(), {}).go().status is Status.STOPPED


def nothing_of_a_run(played: Engine) -> bool:
    return not played.lines if played.kind == "real" else not played.raw()
