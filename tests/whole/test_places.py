"""`task` in repositories as they are: linked worktrees, filters, subfolders; and moved to another clone."""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.app import Place, Watcher, playbook_named
from interlock.engine import real
from interlock.errors import Status, WorkspaceFailed
from tests.whole.bench import ACCEPTS, Bench
from tests.whole.test_kills import killed_at


@pytest.fixture(params=["auto", pytest.param("off", marks=pytest.mark.long)], ids=["confined", "copy"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "a project", mode=request.param)


def at(bench: Bench, top: Path) -> Bench:
    """The same person, somewhere else."""
    other = Bench.there(top)
    other.git = True
    return other


@pytest.mark.req("TREE-12")
def test_a_linked_worktree(bench: Bench) -> None:
    """The git dir lies outside of the workspace; the branch gets its commit, the main work tree is left alone."""
    linked = bench.top.parent / "linked"
    bench.run_git("worktree", "add", "-q", "-b", "side", str(linked))
    other = at(bench, linked)
    view = other.run(commit=True)
    assert view.status is Status.COMPLETE, view.why
    assert other.run_git("log", "--format=%s") == "Make add right\nfirst"
    assert other.run_git("status", "--porcelain") == ""
    assert bench.run_git("log", "--format=%s") == "first"
    assert "a - b" in bench.read("lib.py")


@pytest.mark.req("TREE-12", "TREE-03")
def test_filters_and_line_ends(bench: Bench) -> None:
    """A clean and smudge filter and CRLF: raw bytes come and go, unsaved ones survive a stash, a commit is clean."""
    bench.run_git("config", "filter.caps.clean", "tr a-z A-Z")
    bench.run_git("config", "filter.caps.smudge", "tr A-Z a-z")
    bench.write(".gitattributes", "*.caps filter=caps\n*.crlf text eol=crlf\n")
    bench.write("big.caps", "small letters\n")
    bench.write("doc.crlf", b"one\r\ntwo\r\n")
    bench.commit("attributes")
    bench.write("big.caps", "small letters, unsaved\n")
    bench.act(
        "builder",
        "git stash -u -q; git reset -q --hard; sed -i 's/a - b/a + b/' lib.py; printf 'three\\r\\n' >> doc.crlf; :",
    )
    view = bench.run(commit=True)
    assert view.status is Status.COMPLETE, view.why
    assert bench.read("big.caps") == "small letters, unsaved\n"
    assert (bench.top / "doc.crlf").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert bench.run_git("show", "HEAD:doc.crlf") == "one\ntwo\nthree"
    assert bench.run_git("show", "HEAD:big.caps") == "SMALL LETTERS"
    assert bench.run_git("status", "--porcelain", "-uno") == "M big.caps"


@pytest.mark.req("TREE-15", "EVID-05")
def test_agents_and_checks_work_where_the_person_stood(bench: Bench) -> None:
    """In a subfolder of a repository, `--check` counts from there, and paths of the work from the top."""
    bench.write("packages/one/val.py", "bad\n")
    bench.commit("packages")
    bench.write(
        "agent.sh",
        "cat >/dev/null; [ $INTERLOCK_AGENT = builder ] && echo good > val.py && exit\n" + ACCEPTS,
    )
    place = Place(bench.top / "packages" / "one")
    playbook = playbook_named("task")
    inputs = playbook.inputs.model_validate({"request": "mend it", "check": ["grep -q good *.py"]})
    _, view = asyncio.run(place.run(playbook, inputs, Watcher()))
    assert view.status is Status.COMPLETE, view.why
    assert bench.read("packages/one/val.py") == "good\n"
    assert [path for one in view.delivered if one.landing for path in one.landing.paths] == ["packages/one/val.py"]


@pytest.mark.req("RUN-01", "RUN-03")
def test_a_run_that_was_cut_off_goes_on_in_another_clone(tmp_path: Path) -> None:
    """Its folder and trees copied into a clone: resumed there, it pays for nothing that is recorded."""
    bench = Bench(tmp_path / "p")
    assert killed_at(bench, 12)
    before = bench.place().runs.all()[0].view()
    ended = [key for key, call in before.calls.items() if call.report]
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(bench.top), str(clone)], check=True)
    (clone / ".interlock").mkdir()
    shutil.copytree(bench.top / ".interlock" / "runs", clone / ".interlock" / "runs")
    shutil.copytree(bench.top / ".interlock" / "trees.git", clone / ".interlock" / "trees.git")
    other = at(bench, clone)
    view = other.resume()
    assert view.status is Status.COMPLETE, view.why
    assert "a + b" in other.read("lib.py")
    assert [key for key, call in view.calls.items() if call.report][: len(ended)] == ended
    assert "a - b" in bench.read("lib.py")


@pytest.mark.req("TREE-05")
def test_planted_bytecode_and_installed_packages_turn_nothing_green(bench: Bench) -> None:
    """Checks never see an agent's ignored files, and a test that was skipped is told."""
    bench.write("check.sh", "[ -f .venv/green ] || [ -f __pycache__/green ] || grep -q 'a + b' ./*.py\n")
    bench.commit("check")
    bench.act("builder", "mkdir -p .venv __pycache__; touch .venv/green __pycache__/green; echo done; echo x > new.txt")
    view = bench.run(rounds=1)
    assert view.status is Status.STOPPED
    assert not (bench.top / ".venv").exists()
    assert not (bench.top / "new.txt").exists()


@pytest.mark.req("RUN-15")
def test_a_limit_of_five_hours_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service says until when: the run goes on by itself then, and it costs no repeat. The clock is moved."""
    bench = Bench(tmp_path / "p")
    until = datetime.now(UTC) + timedelta(hours=5)
    limited: list[bool] = []
    slept: list[datetime] = []
    plain = real.RealWorld.call

    async def call(self: Any, ask: Any, seat: Any, hear: Any) -> Any:
        from interlock.agents.values import Exit, Trouble, TroubleKind

        if not limited:
            limited.append(True)
            return Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="5-hour limit", until=until))
        return await plain(self, ask, seat, hear)

    async def sleep_until(self: Any, moment: datetime) -> None:
        slept.append(moment)

    monkeypatch.setattr(real.RealWorld, "call", call)
    monkeypatch.setattr(real.RealWorld, "sleep_until", sleep_until)
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert timedelta(0) < slept[0] - until < timedelta(minutes=1)
    assert bench.calls(view) == ["builder:2", "reviewer:1"]


@pytest.mark.req("RUN-19")
def test_a_full_disk_leaves_no_folder_that_git_would_see(tmp_path: Path) -> None:
    """Nothing can be written: said, and what is begun anew hides our folder from git."""
    bench = Bench(tmp_path / "p")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(WorkspaceFailed, match="cannot be made") as told:
            bench.place().workspace.prepared()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Free some space" in str(told.value.remedy)
    bench.place().workspace.prepared()
    assert bench.run_git("status", "--porcelain") == ""


@pytest.mark.req("RUN-15")
@pytest.mark.parametrize(("jump", "slept"), [(0, 12), (-86_400, 12), (86_400, 5), (6, 6)])
def test_a_clock_that_is_set_shortens_a_wait_and_never_makes_it_longer(
    monkeypatch: pytest.MonkeyPatch, jump: int, slept: int
) -> None:
    """Twelve seconds to wait; behind the first five somebody sets the clock. One that went forward may have slept."""
    began, passed = datetime.now(UTC), [0.0]

    class Clock:
        def now(self) -> datetime:
            return began + timedelta(seconds=passed[0] + (jump if passed[0] else 0))

    async def sleep(seconds: float) -> None:
        passed[0] += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(real.time, "monotonic", lambda: passed[0])
    world: Any = Clock()
    with pytest.raises(StopIteration):
        real.RealWorld.sleep_until(world, began + timedelta(seconds=12)).send(None)
    assert passed[0] == slept
