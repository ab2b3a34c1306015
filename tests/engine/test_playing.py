"""How a process ends a run or leaves it open, and what a stopped one does again (RUN-08, RUN-09, RUN-11, RUN-13)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.halts import Halted
from interlock.engine.journal import Memory
from interlock.engine.prompts import Prompts
from interlock.engine.real import RealWorld
from interlock.engine.run import Call, Outcome, Run, Stop
from interlock.engine.simulation import Simulated
from interlock.errors import BadInput, ConfigInvalid, EngineFault, Exit, Status, WorkspaceFailed
from interlock.playbooks.task import TASK
from tests.engine.bench import GREEN, JUDGE, RED, WRITER, Bench, Nothing, said, small, verdict

WHERE = "where"
REVISE = verdict("revise", criteria=[{"criterion": "the request", "met": False}], findings=[])


def raising(error: BaseException, *, first: bool = False) -> Any:
    async def play(run: Run, inputs: Nothing) -> Outcome:
        if not first:
            await run.dispatch(Call(WRITER))
        raise error

    return small(play)


@pytest.mark.req("RUN-09", "RUN-11")
@pytest.mark.parametrize(
    ("error", "first", "status", "why"),
    [
        (BadInput("bad", where="w"), True, Status.WORKING, ""),
        (BadInput("bad", where="w"), False, Status.STOPPED, "bad (w)"),
        (ConfigInvalid("bad"), False, Status.STOPPED, "bad"),
        (Stop(Outcome.stopped("enough")), False, Status.STOPPED, "enough"),
        (WorkspaceFailed("git failed"), True, Status.FAILED, "git failed"),
        (EngineFault("ours"), False, Status.FAILED, "ours"),
        (ZeroDivisionError("by zero"), False, Status.FAILED, "ZeroDivisionError: by zero"),
        (asyncio.CancelledError(), False, Status.INTERRUPTED, ""),
    ],
)
def test_how_an_error_leaves_the_run(error: BaseException, first: bool, status: Status, why: str) -> None:
    bench = Bench(raising(error, first=first))
    if status is Status.STOPPED:
        assert bench.start().ended is not None
    else:
        with pytest.raises(type(error)):
            bench.start()
    view = bench.last.view
    assert (view.status, view.why) == (status, why)
    noted = bench.world.folder.medium.load() != b""
    assert noted == (status is not Status.WORKING), "it is noted, and safe; before the first effect nothing is left"


@pytest.mark.req("RUN-11")
def test_a_gate_that_was_decided_is_an_effect_that_bad_input_does_not_take_back() -> None:
    async def play(run: Run, inputs: Nothing) -> Outcome:
        await run.gate("go", "Go?")
        raise BadInput("bad")

    bench = Bench(small(play))
    bench.cast.decisions = [{"choice": "approve"}]
    assert bench.start().status is Status.STOPPED


@pytest.mark.req("RUN-19")
def test_what_breaks_the_journal_is_what_is_told_and_not_that_it_is_broken() -> None:
    """Noting why the run stops may fail of the same."""

    class Full(Memory):
        left = 8

        def append(self, chunk: bytes) -> None:
            self.left -= chunk.count(b"\n")
            if self.left < 0:
                raise WorkspaceFailed("the journal cannot be written: no space left on device")
            super().append(chunk)

    bench = Bench()
    bench.world.folder.medium = Full()
    with pytest.raises(WorkspaceFailed, match="no space left"):
        bench.start()
    bench.world.folder.medium = Memory(bench.world.folder.medium.load())
    assert bench.resume().status is Status.COMPLETE


@pytest.mark.parametrize(
    ("outcome", "exit_code"),
    [
        (Outcome.complete("x"), Exit.DONE),
        (Outcome.degraded("x"), Exit.FINDINGS),
        (Outcome.stopped("x"), Exit.STOPPED),
        (Outcome.stopped("x", exit=5), Exit.FAILED),
    ],
)
@pytest.mark.req("RUN-09")
def test_one_table_says_how_an_end_is_told(outcome: Outcome, exit_code: Exit) -> None:
    async def play(run: Run, inputs: Nothing) -> Outcome:
        run.say("a")
        run.say("b")
        return outcome

    bench = Bench(small(play))
    view = bench.start()
    assert view.ended is not None
    assert view.ended.exit == exit_code
    assert bench.world.folder.get(view.ended.output or "") == b"a\nb\n"


@pytest.mark.req("RUN-10")
def test_a_playbook_cannot_eat_a_halt() -> None:
    async def play(run: Run, inputs: Nothing) -> Outcome:
        try:
            await run.gate("go", "Go?")
        except Exception:  # noqa: BLE001 - as a playbook may
            return Outcome.complete("eaten")
        return Outcome.complete("done")

    assert Bench(small(play)).start().status is Status.WAITING


# --- what a stopped run does again


@pytest.mark.req("RUN-08", "TS-01")
def test_a_stopped_run_goes_on_from_its_refused_work_with_a_persons_words_and_pays_for_nothing_else() -> None:
    bench = Bench()
    bench.cast.acts["reviewer"] = [REVISE] * 3
    view = bench.start()
    assert view.status is Status.STOPPED
    assert view.why.startswith("Not accepted within 3 rounds: The reviewer does not accept it")
    assert "builder.txt" not in bench.world.files
    before, paid, cost = view.pending, len(bench.world.paid), view.usage.cost_usd or 0

    bench.says("cancel", who="too late")
    words = {"text": "Mind the tests.", "who": "ann", "at": bench.world.now()}
    view = bench.resume(said=words)
    assert view.status is Status.COMPLETE
    assert [marker.partition("/")[2] for marker in bench.world.paid[paid:]] == [
        "round-3/builder#1",
        "round-3/reviewer#1",
    ]
    assert [one.who for one in bench.events("refused")] == ["too late"]
    brief = bench.briefs("builder")[-1]
    assert "Mind the tests." in brief
    assert "The run had stopped here: Not accepted within 3 rounds" in brief
    assert bench.events("call")[-2].pair == before, "its refused work is where it begins"
    assert view.usage.cost_usd == pytest.approx(cost + 0.02), "what was spent before counts on"
    assert "round-1/builder" in bench.text("builder.txt")


@pytest.mark.req("RUN-08")
@pytest.mark.parametrize(
    ("shape", "called"),
    [
        (["first", "last"], ["last#1"]),
        (["first", ("round", ["writer", "last"])], ["round-2/writer#1", "round-2/last#1"]),
        (["first", ("item", ["writer", ("round", ["last"])])], ["item-2/round-2/last#1"]),
        (["first", ("round", ["writer"]), "last"], ["last#1"]),
        ([], []),
    ],
)
def test_only_what_failed_is_done_again(shape: list[Any], called: list[str]) -> None:
    """The last dispatch, with the turn of a loop that it is in."""

    async def dispatch(run: Run, steps: list[Any]) -> None:
        for step in steps:
            if isinstance(step, str):
                await run.dispatch(Call(replace(WRITER, agent=step)))
                continue
            async for _ in run.loop(step[0]):
                await dispatch(run, step[1])

    async def play(run: Run, inputs: Nothing) -> Outcome:
        await dispatch(run, shape)
        return Outcome.stopped("no")

    bench = Bench(small(play, caps={"round": 2, "item": 2}))
    assert bench.start().status is Status.STOPPED
    paid = len(bench.world.paid)
    assert bench.resume().status is Status.STOPPED
    assert [marker.partition("/")[2] for marker in bench.world.paid[paid:]] == called


@pytest.mark.req("RUN-08", "RUN-16")
def test_a_verb_that_was_refused_for_a_setting_is_done_again_and_nothing_else() -> None:
    """A team's own prompt asks for what nobody fills in: mended, the run goes on where it was."""
    bench = Bench()
    own = {"review": ("{{ of_nobody }}", ".interlock/prompts/task/review.md")}
    broken, player = Prompts(TASK.prompts, own), bench.player
    bench.player = lambda: _with(player(), broken)  # type: ignore[method-assign]
    view = bench.start()
    assert view.status is Status.STOPPED
    assert "of_nobody" in view.why
    assert [marker.partition("/")[2] for marker in bench.world.paid] == ["round-1/builder#1"]
    bench.player = player  # type: ignore[method-assign]
    assert bench.resume().status is Status.COMPLETE
    assert [marker.partition("/")[2] for marker in bench.world.paid] == ["round-1/builder#1", "round-1/reviewer#1"]


def _with(player: Any, prompts: Prompts) -> Any:
    player._prompts = prompts
    return player


@pytest.mark.req("RUN-13", "RUN-06")
def test_a_dispatch_that_failed_leaves_the_run_open_and_resume_repeats_it_alone() -> None:
    """A line that a crash tore meanwhile is cut, and that is said."""
    bench = Bench(small(_two))
    bench.cast.acts["judge"] = [said(None, finished=False, exit=1, stderr="boom")] * 3
    view = bench.start()
    assert (view.status, view.why) == (Status.FAILED, "judge: boom")
    assert len(bench.world.paid) == 4
    bench.world.folder.medium.append(b'{"seq": 99, "at"')
    view = bench.resume()
    assert view.status is Status.COMPLETE
    assert [marker.partition("/")[2] for marker in bench.world.paid[4:]] == ["judge#1"]
    assert bench.events("left")[0].how == "cut"
    assert "torn by a crash" in view.warnings[0]


async def _two(run: Run, inputs: Nothing) -> Outcome:
    await run.dispatch(Call(WRITER))
    judged = await run.dispatch(Call(JUDGE, criteria=("it works",)))
    return Outcome.complete(str(judged.ok))


@pytest.mark.req("RUN-16", "EVID-04")
def test_resume_takes_a_mended_command_and_runs_what_was_red_again() -> None:
    bench = Bench()
    bench.cast.commands = {"pytest": [RED], "pytest -q": lambda files: GREEN if "builder.txt" in files else RED}
    assert bench.start(review=False).status is Status.STOPPED
    assert bench.resume(check=["pytest -q"]).status is Status.COMPLETE


@pytest.mark.req("RUN-13")
@pytest.mark.parametrize("world", [RealWorld, Simulated])
@pytest.mark.parametrize(("error", "paid_for"), [(Halted(), ["b"]), (ZeroDivisionError(), [])])
def test_beside_a_halt_members_finish_and_an_error_ends_them(world: Any, error: BaseException, paid_for: Any) -> None:
    ended = []

    async def halts() -> None:
        await asyncio.sleep(0)
        raise error

    async def works() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        ended.append("b")

    with pytest.raises(type(error)):
        asyncio.run(world.together(None, {"a": halts, "b": works}, 2, lambda name: None))
    assert ended == paid_for
