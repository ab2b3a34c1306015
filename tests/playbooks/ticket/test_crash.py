"""The engine is cut off at every point of a ticket; each resume ends with the same documents and one commit."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.app import open_runs
from interlock.engine import Done, Status
from interlock.engine.folder import known_runs
from interlock.engine.journal import Line
from interlock.engine.runs import Call, Quiet
from interlock.engine.simulation import Crash
from interlock.playbooks.ticket import TicketInputs, ticket
from interlock.playbooks.ticket.rehearsing import HOME, graph, task
from interlock.testing import SimulatedRepository
from interlock.workspace import Checkout, Commit, Effect, Stash, Unstash
from tests.playbooks.ticket.conftest import Bench
from tests.playbooks.ticket.place import REQUEST, Place, events

pytestmark = pytest.mark.long

DOCUMENTS = (
    "progress.yaml",
    "prompt.yaml",
    "iteration_0/tasks.yaml",
    "iteration_0/plan.md",
    "iteration_0/review_report.yaml",
)


def documents(bench: Bench) -> dict[str, str]:
    """The ticket's documents without their times."""
    texts = {name: bench.text(f"{HOME}/{name}") for name in DOCUMENTS}
    clock = r"\d{4}-\d\d-\d\dT[\d:]+Z|minutes(?:_estimate)?: [\d.]+"
    return {name: re.sub(clock, "(time)", text) for name, text in texts.items()}


def fresh_bench() -> Bench:
    """A short ticket in which everything happens: documentation that comes along, a short cut that fails, a review."""
    bench = Bench(tasks=graph(task("T1")))
    bench.simulate()
    bench.put("README.md", "new\n")
    bench.changes["Developer"] = lambda _request, act: type(act)({"src/t1.txt": "broken\n"}, act.message)
    return bench


def count_points() -> tuple[Bench, int]:
    bench, points = fresh_bench(), [0]

    def wire(_point: str) -> None:
        points[0] += 1

    assert bench.simulate().go(tripwire=wire).status is Status.COMPLETE
    return bench, points[0]


@pytest.mark.req("CM-22", "EN-10", "EN-11", "EN-12", "EN-14")
def test_every_cut_resumes_to_the_same_documents() -> None:
    """At every point: same documents, one commit, no stash left, no finished dispatch paid twice, a whole log."""
    expected, points = count_points()
    wanted, calls = documents(expected), Counter(expected.called)
    log = [event for event in expected.logged if event != "resume"]
    assert points > 300
    for cut in range(points):
        bench, seen = fresh_bench(), [0]

        def wire(_point: str, cut: int = cut, seen: list[int] = seen) -> None:
            seen[0] += 1
            if seen[0] == cut + 1:
                raise Crash

        simulation = bench.simulate()
        with pytest.raises(Crash):
            simulation.go(tripwire=wire)
        ended = {line.key for line in bench.lines if line.event == "dispatch.end"}
        before = len(bench.requests)
        assert simulation.go().status is Status.COMPLETE, cut
        assert documents(bench) == wanted, cut
        assert [message.split(":")[0] for message in bench.git.messages] == ["fix(ABC-12)", "first"], cut
        assert bench.git.stashed == []
        assert bench.text("README.md") == "new\n"
        assert not ended & {request.dispatch for request in bench.requests[before:]}, cut
        assert all(count - calls[name] <= 1 for name, count in Counter(bench.called).items())
        logged = [event for event in bench.logged if event != "resume"]
        assert [event for event in logged if not event.startswith("dispatch")] == [
            event for event in log if not event.startswith("dispatch")
        ]
        numbers = [entry["seq"] for entry in bench.log]
        assert numbers == sorted(set(numbers))


@dataclass
class DiesAfter(SimulatedRepository):
    """A repository whose caller dies right after the first effect of this kind has happened."""

    kind: type = Commit
    died: bool = False

    async def carry_out(self, effect: Effect, mark: str) -> Done:
        done = await super().carry_out(effect, mark)
        if isinstance(effect, self.kind) and not self.died:
            self.died = True
            raise Crash
        return done


@pytest.mark.req("EN-10", "EN-11")
@pytest.mark.parametrize("kind", [Checkout, Stash, Unstash, Commit])
def test_an_effect_without_a_record_is_not_repeated(kind: type) -> None:
    """The process dies between what git did and the line that says so: the repository says that it is done."""
    bench = fresh_bench()
    bench.git, bench.world = DiesAfter(kind=kind), None
    bench.simulate()
    bench.put("README.md", "new\n")
    simulation = bench.simulate()
    with pytest.raises(Crash):
        simulation.go()
    assert simulation.go().status is Status.COMPLETE
    assert [message.split(":")[0] for message in bench.git.messages] == ["fix(ABC-12)", "first"]
    assert bench.git.stashed == []
    assert bench.text("README.md") == "new\n"
    assert any(
        line.data["out"]["probed"] for line in bench.lines if line.event == "repository" and "effect" in line.data
    )


# -- real git


MOMENTS = {("effect", "repository.intent"), ("before-sync", "repository")}
"""Before git acts, and after it did."""


@dataclass(frozen=True)
class Uncommitted:
    """What the user has not committed, what is answered at the gate, and the git commands that follow."""

    path: str
    flags: Mapping[str, str]
    verbs: frozenset[str]
    stashed: bool

    @property
    def untracked(self) -> str:
        return f"new.{self.path.rsplit('.', 1)[1]}"


STORIES = {
    "documentation that comes along": Uncommitted(
        "README.md", {}, frozenset({"stash", "checkout", "unstash", "commit"}), stashed=False
    ),
    "code that is stashed": Uncommitted(
        "b.c", {"dirty": "stash"}, frozenset({"stash", "checkout", "commit"}), stashed=True
    ),
}


def git_command(line: Line) -> str:
    return str(line.key).rsplit("/", 1)[-1].split("#", maxsplit=1)[0]


def forget_the_last_line(root: Path) -> None:
    """As if the process had died before it could say what git did."""
    folder = known_runs(root)[0].folder.path
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))


def copies_at_kills(place: Place, story: Uncommitted, scratch: Path) -> dict[str, Path]:
    """Play the ticket to its end; the workspaces as they were before and after each git command's effect."""
    copies: dict[str, Path] = {}

    def copy(point: str) -> None:
        runs = known_runs(place.root)
        last = runs[0].folder.lines()[-1] if runs else None
        if last is None or git_command(last) not in story.verbs or (point, last.event) not in MOMENTS:
            return
        root = scratch / f"{len(copies)}" / "work"
        copies[f"{last.event} {last.key}"] = root
        dropped = shutil.ignore_patterns("*.gone")  # they are being removed
        shutil.copytree(place.root.parent, root.parent, symlinks=True, ignore=dropped)
        if last.event == "repository":
            forget_the_last_line(root)

    finished = asyncio.run(place.app(tripwire=copy).run(ticket, TicketInputs(REQUEST), Call(flags=story.flags)))
    assert finished.status is Status.COMPLETE, finished
    return copies


@pytest.mark.req("EN-10", "EN-11", "CM-22")
@pytest.mark.parametrize("name", STORIES)
def test_a_kill_between_git_operations_repeats_none(tmp_path: Path, name: str) -> None:
    """Each copy resumed: one commit, the user's work where it belongs, and a stash that stays is told of."""
    story, place = STORIES[name], Place(tmp_path / "origin" / "work")
    place.begin({"Makefile": "build:\n\t@true\ntest:\n\tgrep -q ok a.txt\n", "a.txt": "ok\n", story.path: "old\n"})
    (place.root / story.path).write_text("new\n")
    (place.root / story.untracked).write_text("new\n")
    place.script = {"tasks": graph(task("T1", files=("a.txt",))), "work": {"T1": [{"files": {"a.txt": "ok now\n"}}]}}
    copies = copies_at_kills(place, story, tmp_path)
    assert len(copies) >= 2 * len(story.verbs)
    for point, root in copies.items():
        other = Place(root, place.script)
        settings = root / "interlock.toml"
        settings.write_text(settings.read_text().replace("/origin/", f"/{root.parent.name}/"))
        resumed = asyncio.run(open_runs(root, Quiet(), environ=other.environ).run(ticket, TicketInputs(REQUEST)))
        assert resumed.status is Status.COMPLETE, (point, resumed)
        check_resumed(other, story, point)
        told = [data["text"] for data in events(resumed.lines, "warning") if "git stash pop stash@{0}" in data["text"]]
        assert len(told) == story.stashed, point


def check_resumed(place: Place, story: Uncommitted, point: str) -> None:
    subjects = place.git("log", "--format=%s").splitlines()
    assert subjects[-2:] == ["fix(ABC-12): fix the login error so that users can sign in", "first"], point
    assert len([subject for subject in subjects if subject.startswith("fix(")]) == 1, point
    assert place.git("diff", "--cached", "--name-only") == "", point
    assert place.git("log", "--format=", "--name-only", "main..HEAD", "--", story.path, story.untracked) == "", point
    stashes = place.git("stash", "list").splitlines()
    if story.stashed:
        assert len(stashes) == 1, point
        assert place.git("show", f"stash@{{0}}:{story.path}") == "new", point
        assert place.git("show", f"stash@{{0}}^3:{story.untracked}") == "new", point
    else:
        assert stashes == [], point
        assert place.text(story.path) == place.text(story.untracked) == "new\n", point
