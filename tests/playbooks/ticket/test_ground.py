"""Where a ticket begins: the base, what is found before the first agent, and stashes that nobody forgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.engine import Status
from interlock.errors import InterlockError
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from interlock.testing import Trouble
from interlock.workspace import Checkout, Unstash
from tests.playbooks.ticket.conftest import Bench, Refusing
from tests.playbooks.ticket.place import Place

MAKE = {"Makefile": "build:\n\t@true\ntest:\n\t@true\n", "src/t1.txt": "ok\n", "src/t2.txt": "ok\n"}
ONE = {"tasks": graph(task("T1")), "work": {"T1": [{"files": {"src/t1.txt": "ok now\n"}}]}}
OTHER = "feature/XYZ-7_other_thing"


def on_another_branch(place: Place, name: str = OTHER) -> None:
    place.begin(MAKE)
    place.git("checkout", "-q", "-b", name)
    place.write({"other.txt": "x\n"})
    place.git("add", "-A")
    place.git("commit", "-qm", "of another ticket")
    place.script = ONE


def decide(place: Place, choice: str) -> Any:
    import asyncio

    from interlock.engine import people
    from interlock.engine.runs import Call

    asyncio.run(people.decide(place.app(), "latest", choice, who="somebody"))
    return asyncio.run(place.app().resume("latest", Call()))


@pytest.mark.req("EV-43")
@pytest.mark.parametrize(("choice", "stacked"), [("base", False), pytest.param("here", True, marks=pytest.mark.long)])
def test_standing_on_another_tickets_branch_is_asked_about(place: Place, choice: str, stacked: bool) -> None:
    """Before the first agent; the work begins where the person says."""
    on_another_branch(place)
    waiting = place.run()
    assert (waiting.exit_code, place.calls) == (4, [])
    assert f"You are on branch {OTHER}, of ticket XYZ-7, and not on main." in waiting.reason
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == OTHER
    finished = decide(place, choice)
    assert finished.status is Status.COMPLETE, finished
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert ("of another ticket" in place.git("log", "--format=%s").splitlines()) is stacked


@pytest.mark.req("EV-43")
def test_a_question_about_the_base_can_be_declined(bench: Bench) -> None:
    simulation = bench.simulate()
    bench.git.branches[OTHER] = bench.git.head
    bench.git.branch = OTHER
    bench.git.record(dict(bench.git.files), "of another ticket")
    assert simulation.go().exit_code == 4
    simulation.decide("abort")
    assert (simulation.go().exit_code, bench.called, bench.git.branch) == (3, [], OTHER)


@pytest.mark.long
@pytest.mark.req("EV-43")
@pytest.mark.parametrize(("base", "stacked"), [("main", False), (OTHER, True)])
def test_a_base_that_is_named_is_not_asked_about(place: Place, base: str, stacked: bool) -> None:
    on_another_branch(place)
    finished = place.run(base=base)
    assert finished.status is Status.COMPLETE, finished
    assert ("of another ticket" in place.git("log", "--format=%s").splitlines()) is stacked


@pytest.mark.long
@pytest.mark.req("EV-43")
def test_the_remotes_default_branch_is_the_base(place: Place, tmp_path: Path) -> None:
    """Whatever it is called: standing on it, nothing is asked; standing on `main`, that is."""
    place.begin(MAKE)
    place.git("branch", "-m", "trunk")
    place.git("clone", "-q", "--bare", str(place.root), str(tmp_path / "remote.git"))
    place.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    place.git("fetch", "-q", "origin")
    place.git("remote", "set-head", "origin", "trunk")
    place.git("checkout", "-q", "-b", "main")
    place.git("commit", "-q", "--allow-empty", "-m", "on main")
    place.script = ONE
    assert "You are on branch main, and not on trunk." in place.run().reason
    finished = decide(place, "base")
    assert finished.status is Status.COMPLETE, finished
    assert "on main" not in place.git("log", "--format=%s").splitlines()


@pytest.mark.req("EV-43")
def test_a_base_with_uncommitted_changes_in_the_way_stops_before_anything(place: Place) -> None:
    """Nothing is stashed or switched; the files are named."""
    on_another_branch(place)
    (place.root / "src/t2.txt").write_text("ok, mine\n")
    finished = place.run(base="main")
    assert (finished.exit_code, place.calls) == (3, [])
    assert "src/t2.txt" in finished.reason
    assert (place.git("stash", "list"), place.git("rev-parse", "--abbrev-ref", "HEAD")) == ("", OTHER)


@pytest.mark.req("EV-05", "EV-43")
def test_a_start_that_is_refused_leaves_what_was_checked_out(place: Place) -> None:
    """The base is looked at, and left again where its checks are red; a later start begins there."""
    on_another_branch(place)
    refused = place.run(base="main", test="false")
    assert (refused.exit_code, place.calls) == (3, [])
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == OTHER
    finished = place.run(base="main")
    assert finished.status is Status.COMPLETE, finished
    assert "of another ticket" not in place.git("log", "--format=%s").splitlines()


@pytest.mark.req("EV-43")
def test_a_base_that_nobody_knows_is_refused(bench: Bench) -> None:
    error = bench.refuse(base="nowhere")
    assert (error.exit_code, "'nowhere'" in error.what) == (2, True)


@pytest.mark.req("EV-43")
def test_a_branch_of_that_name_is_found_before_the_first_agent(bench: Bench) -> None:
    """It lacks the present state: a person is asked, and nobody has been paid yet; asked once."""
    simulation = bench.simulate()
    bench.git.branches[BRANCH] = bench.git.head
    bench.git.record(dict(bench.git.files), "second on main")
    close = simulation.go()
    assert (close.exit_code, bench.called, bench.git.stashed) == (4, [], [])
    simulation.decide("switch")
    assert simulation.go().status is Status.COMPLETE


@pytest.mark.req("EV-43")
@pytest.mark.parametrize("state", ["busy", "detached"])
def test_a_repository_in_the_middle_of_something_is_found_before_the_first_agent(bench: Bench, state: str) -> None:
    bench.simulate()
    if state == "busy":
        bench.git.befall(Trouble.MERGING)
    else:
        bench.git.branches[""] = bench.git.head
        bench.git.branch = ""
        bench.put("README.md", "changed\n")
    close = bench.simulation.go()
    assert (close.exit_code, bench.called, bench.git.stashed) == (3, [], [])
    assert not bench.has(f"{HOME}/progress.yaml")


@pytest.mark.req("EV-43")
def test_a_task_in_a_submodule_is_refused_before_anybody_writes_code(bench: Bench) -> None:
    """No commit of this repository could have it."""
    bench.git.modules = ("lib",)
    bench.tasks = graph(task("T1", files=("lib/a.c",)), task("T2"))
    close = bench.play()
    assert close.exit_code == 3
    assert "lies in the submodule lib" in close.reason
    assert [name for name in bench.called if name != "Initializer"] == ["Planner", "Splitter", "Splitter"]
    assert bench.git.branch == "main"


@pytest.mark.req("EV-43")
def test_branch_and_message_have_the_form_of_the_settings(bench: Bench) -> None:
    settings = {"branch": "{ticket}/{slug}", "commit_message": "[{ticket}] {summary}"}
    close = bench.play(settings=settings)
    assert close.status is Status.COMPLETE
    assert bench.git.branch == "ABC-12/fix_login_error"
    assert bench.git.messages[0].startswith("[ABC-12] fix the login error so that users can sign in\n\nTasks:\n")


@pytest.mark.req("EV-43")
def test_a_template_that_makes_no_name_is_refused(place: Place) -> None:
    """By git's own rules, before anything happens."""
    place.begin(MAKE)
    path = place.root / "interlock.toml"
    path.write_text(f'{path.read_text()}[ticket]\nbranch = "{{ticket}}..{{slug}}"\n')
    with pytest.raises(InterlockError, match="a branch cannot be called 'ABC-12"):
        place.run()
    assert place.calls == []


@pytest.mark.req("EV-43")
def test_a_stash_that_could_not_be_put_back_is_named_at_every_end(bench: Bench) -> None:
    """When it happens, when the ticket is started again, and when it is done."""
    bench.git = git = Refusing(kind=Unstash, said="conflict")
    simulation = bench.simulate()
    git.branches[BRANCH] = git.head
    bench.put("README.md", "mine\n")
    kept = "your uncommitted changes are kept; take them out with: git stash pop stash@{0}"
    assert kept in simulation.go().reason
    git.said = ""
    done = bench.play()
    assert done.status is Status.COMPLETE
    assert kept in str(done.output)
    again = bench.play()
    assert (again.status, kept in str(again.output)) == (Status.COMPLETE, True)


@pytest.mark.req("EV-43")
def test_documentation_is_put_back_if_the_branch_cannot_be_had(bench: Bench) -> None:
    """The checkout fails between stash and pop: the text is in the tree again, and no stash is left."""
    bench.git = Refusing(kind=Checkout, said="it is checked out elsewhere")
    simulation = bench.simulate()
    bench.git.branches[BRANCH] = bench.git.head
    bench.put("README.md", "mine\n")
    assert "it is checked out elsewhere" in simulation.go().reason
    assert (bench.git.stashed, bench.text("README.md")) == ([], "mine\n")
