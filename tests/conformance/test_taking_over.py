"""What a playbook is told of work that does not come into the tree, and the verbs that leave people's files alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.contracts import Artifact, ArtifactClass, Contract, Headings
from interlock.documents import Document
from interlock.engine import Dispatch, Ending, Report, Run, Status, changed_since, snapshot
from tests.conformance.harness import Engine, also, in_turn, instead, reacting
from tests.engine.toys import Work, producing, single, toy

Start = Callable[..., Engine]
CODE = Dispatch("maker", "Change it.", Contract((Artifact("made.md"),)), writes=("src/**",))


@pytest.mark.req("LY-03", "CM-16")
@pytest.mark.parametrize(
    ("text", "cls"), [(None, ArtifactClass.MISSING), (" \n", ArtifactClass.EMPTY), ("text\n", ArtifactClass.MALFORMED)]
)
def test_an_artifact_that_does_not_count_stays_out_and_is_told_with_its_class(
    engine: Start, text: str | None, cls: ArtifactClass
) -> None:
    """Also when the run is replayed."""
    found: list[Report] = []

    async def body(run: Run, _work: Work) -> Ending:
        found.append(
            await run.dispatch(Dispatch("maker", "Write.", Contract((Artifact("a.md", structure=Headings()),))))
        )
        await run.gate("look", "Well?")
        return Ending.complete()

    played = engine(toy(body), Work(), {}, reacting(maker=instead(files={} if text is None else {"a.md": text})))
    played.go()
    played.decide("approve")
    played.go()
    assert "a.md" not in played.files
    for report in found:
        assert [(flaw.path, flaw.cls) for flaw in report.flaws] == [("a.md", cls)]
    assert found[0] == found[-1]


@pytest.mark.req("LY-05")
def test_an_artifact_that_is_not_imported_is_in_the_report_alone(engine: Start) -> None:
    """The tree has what a person wrote meanwhile, without a conflict; the other artifact came in."""
    contract = Contract((Artifact("log.md", fresh=False, imported=False), Artifact("made.md")))
    seen: list[str] = []

    async def body(run: Run, _work: Work) -> Ending:
        report = await run.dispatch(Dispatch("maker", "Append.", contract))
        seen.append(report.text("log.md"))
        return Ending.complete() if report.ok else Ending.stopped("no")

    agent = reacting(maker=also({"log.md": "old\nnew\n"}, people={"log.md": "mine\n"}))
    played = engine(toy(body), Work(), {"log.md": "old\n"}, agent)
    assert played.go().status is Status.COMPLETE
    assert seen == ["old\nnew\n"]
    assert played.files["log.md"] == "mine\n"
    assert "made.md" in played.files


@pytest.mark.req("LY-04", "LY-05")
def test_after_a_conflict_the_next_attempt_is_shown_the_work_of_the_first(engine: Start) -> None:
    """As a patch in its brief; the tree has the person's version."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(CODE)
        report = await run.dispatch(CODE)
        return Ending.complete() if report.ok else Ending.stopped("no")

    first = also({"src/a.py": "agent's\n"}, people={"src/a.py": "person's\n"})
    played = engine(toy(body), Work(), {"src/a.py": "a\n"}, reacting(maker=in_turn(first, None)))
    assert played.go().status is Status.COMPLETE
    assert "+agent's" in played.calls[1].brief.partition("### Work of an earlier attempt")[2]
    assert played.files["src/a.py"] == "person's\n"


@pytest.mark.req("LY-08")
def test_ignored_files_come_along_without_any_other_change(engine: Start) -> None:
    """An agent that only installed something has nothing else to bring in."""
    spec = replace(CODE, contract=Contract())
    agent = reacting(maker=instead(files={"src/build/x.o": "object\n"}))
    played = engine(single(spec), Work(), {".gitignore": "build/\n"}, agent)
    assert played.go().status is Status.COMPLETE
    assert played.files["src/build/x.o"] == "object\n"
    assert played.kind == "simulated" or len(played.events("dispatch.came_along")) == 1  # nothing is ignored in memory


@pytest.mark.req("LY-05")
def test_a_document_that_is_written_anew_sets_aside_what_is_there(engine: Start) -> None:
    """Nothing of it is lost; written once more it is the same."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("log.md", "first\n", anew=True)
        await run.write("log.md", "second\n", anew=True)
        return Ending.complete()

    played = engine(toy(body), Work(), {"log.md": "mine\n"})
    assert played.go().status is Status.COMPLETE
    assert played.files["log.md"] == "second\n"
    assert sorted(played.attic.values()) == ["first\n", "mine\n"]


@pytest.mark.req("EN-23")
def test_an_updated_document_keeps_its_form(engine: Start) -> None:
    """A byte order mark that an editor left there is still there."""

    def longer(document: Document) -> str:
        return document.text + "two\n"

    async def body(run: Run, _work: Work) -> Ending:
        await run.update("notes.md", longer)
        return Ending.complete()

    played = engine(toy(body), Work(), {"notes.md": "\ufeffone\n"})
    assert played.go().status is Status.COMPLETE
    assert played.files["notes.md"] == "\ufeffone\ntwo\n"


@pytest.mark.req("LY-30")
def test_changes_can_be_asked_for_some_files_only(engine: Start) -> None:
    """What others did meanwhile is not among them; a file that did not change is not either."""
    found: list[tuple[str, ...]] = []

    async def body(run: Run, _work: Work) -> Ending:
        base = await snapshot(run)
        report = await run.dispatch(producing("src/[a].py"))
        changed = await changed_since(run, base, only={*report.changes, "same.md"})
        found.append(changed.paths)
        assert "theirs" not in (await run.read(changed.patch)).text
        return Ending.complete()

    agent = reacting(maker=also({}, people={"other.md": "theirs\n"}))
    assert engine(toy(body), Work(), {"same.md": "x\n"}, agent).go().status is Status.COMPLETE
    assert found == [("src/[a].py",)]
