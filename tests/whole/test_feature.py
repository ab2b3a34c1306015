"""`feature`, whole, by the real world: in the author's own files, killed, cloned, edited meanwhile, side by side."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from interlock.app import Watcher, playbook_named
from interlock.engine.holds import BY_CHANCE
from interlock.engine.view import View
from interlock.errors import BadInput, Refused, Status
from tests.whole.author import AGENT, DOCUMENTS, REQUEST, ROLES, Author
from tests.whole.bench import Bench
from tests.whole.test_real_agents import TWO, Person
from tools import scripted_llm as llm

BACK = "git stash -uq; git reset -q --hard; git checkout -q . ; git clean -fdq\n"
"""Sets the tree back, as agents do who want to start clean."""


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Author:
    """A whole run; a person writes while agents work, and one of these sets the tree back."""
    bench = Author(tmp_path_factory.mktemp("feature") / "p")
    bench.write("acts/implementer-task-01.sh", BACK + "mkdir -p $root/memory\n")
    bench.commit("an agent that begins clean")
    bench.write("notes.txt", "one\nunsaved\nthree\n")
    seen = 0

    def told(view: View, key: str) -> None:
        nonlocal seen
        seen += 1
        if key.startswith("wave-1/5.2") and "more" not in bench.read("notes.txt"):
            bench.write("notes.txt", "one\nunsaved\nthree, and more\n")
            bench.write("docs/feature/make-add-right-please/memory.md", bench.documents()["memory.md"] + "\nMine.\n")

    bench.view = bench.feature(watcher=Watcher(told=told))  # type: ignore[attr-defined]
    bench.seen = seen  # type: ignore[attr-defined]
    return bench


@pytest.mark.req("AGENT-02", "AGENT-07", "PERSON-07", "FT-26", "FT-41", "FT-87", "FT-150", "TREE-14")
def test_in_the_authors_own_files_it_runs_through(usual: Author) -> None:
    view: View = usual.view  # type: ignore[attr-defined]
    assert (view.status, view.why) == (Status.COMPLETE, "feature make-add-right-please is complete")
    assert [call.calls for call in view.calls.values()] == [1] * 22, "nobody is asked twice"
    assert {call.role for call in view.calls.values()} == {f".github/agents/{role}.agent.md" for role in ROLES}
    day = view.start.at.date().isoformat() if view.start else ""
    found = usual.documents()
    wanted = DOCUMENTS | {f"post-mortems/{day}-post-mortem.md", f"agent-metrics/{day}-run-log.md"}
    assert {path for path in found if not path.startswith("memory/")} == wanted
    assert found["initial-request.md"] == f"# Initial Request\n\n{REQUEST}\n"
    assert "| documentation-writer-task-02.md | all | documentation-writer-task-02 |" in found["memory.md"]
    assert "a + b" in usual.read("lib.py") and usual.read("README.md") == "add adds\n"
    assert [pair.proved.word for pair in view.pairs.values() if pair.proved] == ["mended"]


@pytest.mark.req("TREE-03", "PERSON-04")
def test_what_a_person_writes_meanwhile_stays(usual: Author) -> None:
    assert usual.read("notes.txt") == "one\nunsaved\nthree, and more\n"
    assert "\nMine.\n" in usual.documents()["memory.md"]
    assert usual.run_git("stash", "list") == ""


def broken_again(bench: Author) -> Author:
    bench.write("lib.py", bench.read("lib.py").replace("a + b", "a - b"))
    (bench.top / "README.md").unlink()
    bench.commit("broken again")
    return bench


@pytest.mark.long
@pytest.mark.req("RUN-08", "FT-32")
def test_a_complete_feature_is_run_again_only_where_that_is_asked_for(usual: Author, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="make-add-right-please exists and its run is DONE; use --new-run to run again"):
        usual.feature()
    usual.commit("a feature")
    clone = Author.clone(usual, tmp_path / "clone")
    view = broken_again(clone).feature()
    assert view.status is Status.COMPLETE, view.why
    before, after = usual.documents(), clone.documents()
    assert after["decisions.md"] == 2 * before["decisions.md"] and "\nMine.\n" in after["memory.md"]
    assert broken_again(clone).feature(new_run=True).status is Status.COMPLETE
    assert clone.documents()["decisions.md"] == 3 * before["decisions.md"]


def told_of(bench: Author) -> dict[str, str]:
    return {path: BY_CHANCE.sub(b"", text.encode()).decode() for path, text in bench.documents().items()}


def ends_as(usual: Author, place: Path, event: int) -> None:
    bench = Author(place)
    assert bench.killed_at(event)
    place_ = bench.place()
    entry = place_.runs.all()[0]
    ended = {key: call.calls for key, call in entry.view().calls.items() if call.report}
    view = asyncio.run(place_.resume(entry, Watcher()))
    assert view.status is Status.COMPLETE, (event, view.why)
    assert {key: view.calls[key].calls for key in ended} == ended, "nobody who ended is called again"
    assert sum(call.calls for call in view.calls.values()) <= 22 + 4, "at most those that were at work"
    theirs, ours = told_of(usual), told_of(bench)
    theirs["memory.md"] = theirs["memory.md"].replace("\n\nMine.\n\n", "\n")
    assert ours == theirs
    assert bench.read("lib.py") == usual.read("lib.py")
    shutil.rmtree(bench.top)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05")
def test_a_run_killed_at_random_ends_as_undisturbed(usual: Author, tmp_path: Path) -> None:
    last: int = usual.seen  # type: ignore[attr-defined]
    for event in random.Random(1).sample(range(10, last - 20), 20):
        ends_as(usual, tmp_path / str(event), event)


@pytest.mark.long
@pytest.mark.req("AGENT-01", "FT-17")
def test_with_agents_that_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted runner; a person is asked, since a variable says so, and comes back by the command line's calls."""
    bench = Bench(tmp_path / "p")
    bench.write("interlock.toml", 'runner = "scripted"\n')
    bench.commit("settings")
    playbook, place = playbook_named("feature"), bench.place()
    monkeypatch.setenv("APPROVAL_MODE", "maybe")
    with pytest.raises(BadInput) as refused:
        place.inputs(playbook, {"request": "Greet"})
    assert (refused.value.where, refused.value.found) == ("APPROVAL_MODE", '"maybe" (text)')
    monkeypatch.setenv("APPROVAL_MODE", "true")
    inputs = place.inputs(playbook, {"request": "Greet", "check": ["true"]})
    entry, view = asyncio.run(place.run(playbook, inputs, Watcher()))
    assert (view.status, view.why) == (Status.WAITING, "Research is complete. Go on to the specification?")
    for _ in range(2):
        place.decide(entry, "approve")
        view = asyncio.run(place.resume(entry, Watcher()))
    assert (view.status, view.why) == (Status.COMPLETE, "feature greet is complete")
    assert "implementer-T01, attempt 1" in bench.read("implementer-T01.txt")


@pytest.fixture(params=TWO)
def person(request: pytest.FixtureRequest, model: llm.Model, tmp_path: Path) -> Person:
    return Person(request.param, model, tmp_path)


@pytest.mark.req("AGENT-06")
def test_with_real_agents(person: Person) -> None:
    """Each client works by its own tools; one verifier fails, and what it found is planned and mended."""
    bench = person.bench
    bench.write("author.sh", AGENT)
    bench.write("acts/implementer-task-03.sh", "echo '# seen' >> lib.py\n")
    bench.commit("what agents do")
    does = "ROOT=docs/feature/make-add-right-please INTERLOCK_MEMBER={member} INTERLOCK_AGENT={role} sh author.sh"
    red = llm.shell("sed -i s/PASS/FAIL/ docs/feature/*/memory/v-tests.mem.md")
    anew = (
        "cd docs/feature/*; printf '# Plan\\n\\n## Execution Waves\\n\\n### Wave 1\\n\\n- task-03: mend\\n' > plan.md"
        " && printf '# Task 03\\n\\n- Agent: implementer\\n\\nMend what was found.\\n' > tasks/task-03.md"
    )
    names = "researcher|implementer|documentation-writer"
    for pattern, steps in (
        (r"# step 6.2: (?P<member>(?P<role>v-tests)): .*- Attempt: 1\n", (red,)),
        (r"# step [0-9a-z.]+: (?P<member>(?P<role>planner)): .*- Attempt: 2\n", (llm.shell(anew),)),
        (rf"# step [0-9a-z.]+: (?P<member>(?P<role>{names})-[\w-]+): ", ()),
        (r"# step [0-9a-z.]+: (?P<member>(?P<role>[\w-]+)): ", ()),
    ):
        done = llm.form({"status": "DONE", "summary": "done"})
        person.model.rules.append(llm.Rule(pattern, (llm.shell(does), *steps, done)))
    person.trusts()
    view = person.types("run", "feature", REQUEST)
    assert view["status"] == "complete", view["reason"]
    assert "a + b" in bench.read("lib.py") and "# seen" in bench.read("lib.py")
