"""One dispatch: weather, limits, budget, repairs, scope, what was set back (RUN-13..15, TREE-03, TREE-08, TREE-09)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from interlock.agents.values import Exit, News, NewsKind, Trouble, TroubleKind, Usage
from interlock.engine.dispatch import after_try
from interlock.engine.run import Call, Limits, Outcome, Row, Run
from interlock.engine.simulation import Act
from interlock.errors import Status
from interlock.workspace.values import RemarkKind
from tests.engine.bench import JUDGE, WRITER, Bench, Died, Done, Nothing, said, small, verdict

BUSY = Trouble(kind=TroubleKind.BUSY, text="overloaded")
LIMIT = Trouble(kind=TroubleKind.LIMIT, text="too many requests")
CRASH = said(None, finished=False, exit=-9)
STRICT = replace(WRITER, answers=True)


def each(*calls: Call, deliver: bool = False, watch: str = "") -> Any:
    """A playbook of one dispatch after another."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        run.watch(watch)
        for call in calls:
            report = await run.dispatch(call)
        if deliver and (first := await run.deliver("it")).state == "other":
            await run.deliver("again", first.merged)
        return Outcome.complete(report.reason or ("yes" if report.ruling is None or report.ruling.passes else "no"))

    return small(play, *{call.row.agent: call.row for call in calls}.values())


def one(row: Row = WRITER, *, deliver: bool = False, **call: Any) -> Any:
    return each(Call(**{"row": row, "criteria": ("it works",) if row.judges else (), **call}), deliver=deliver)


def ran(
    *acts: Any, row: Row = WRITER, deliver: bool = False, bench: dict[str, Any] | None = None, **call: Any
) -> Bench:
    """One dispatch, whose calls go so."""
    made = Bench(one(row, deliver=deliver, **call), **(bench or {}))
    made.cast.acts[row.agent] = list(acts)
    made.start()
    return made


def group(members: Sequence[str]) -> Any:
    """Members side by side, and then all of it is delivered."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        calls = {name: partial(run.dispatch, Call(WRITER, member=name)) for name in members}
        came = await run.together("group", calls)
        await run.deliver("all")
        return Outcome.complete(" ".join(report.reason or "ok" for report in came.values()))

    return small(play)


def report(bench: Bench) -> Any:
    return bench.events("done")[-1].report


def moves(bench: Bench) -> list[str]:
    return [event.move for event in bench.events("tried")]


# --- what follows a call


FOLLOWS = {"limit": "wait"}  # however often: it is bounded by its time
FOLLOWS |= dict.fromkeys(("no start", "crash", "timeout", "busy", "session"), "repeat")
FOLLOWS |= dict.fromkeys(("", "unusable", "scope"), "repair")
FOLLOWS |= dict.fromkeys(("login", "model", "refused", "over", "conflict", "budget"), "end")


@pytest.mark.req("RUN-13")
@pytest.mark.parametrize("reason", FOLLOWS)
def test_what_follows_is_a_total_table(reason: str) -> None:
    for complaint, repeats, repairs in itertools.product(("", "wrong"), range(4), range(3)):
        move = after_try(reason, complaint, Counter(repeat=repeats, repair=repairs), 2, 1)
        may = {"wait": True, "repeat": repeats < 2, "repair": complaint != "" and repairs < 1}
        assert move == (FOLLOWS[reason] if may.get(FOLLOWS[reason]) else "end")


@pytest.mark.req("RUN-13")
@pytest.mark.parametrize(
    ("exit_", "reason"),
    [
        ({"started": False, "stderr": "no such program"}, "no start"),
        ({"exit": -9}, "crash"),
        ({"timed_out": True, "exit": None}, "timeout"),
        ({"trouble": BUSY}, "busy"),
        ({"trouble": Trouble(kind=TroubleKind.SESSION, text="unknown session")}, "session"),
        ({"trouble": Trouble(kind=TroubleKind.OTHER, text="odd")}, "busy"),
    ],
)
def test_weather_is_repeated_after_one_and_five_seconds(exit_: dict[str, Any], reason: str) -> None:
    act = said(None, **{"finished": False, "exit": 1, **exit_})
    bench = ran(act, act)
    assert [(event.report.reason, event.move, event.delay_s) for event in bench.events("tried")] == [
        (reason, "repeat", 1.0),
        (reason, "repeat", 5.0),
    ]
    assert report(bench).ok
    assert [ask.session for ask in bench.cast.asks] == ["", "", ""]


@pytest.mark.req("RUN-13", "AGENT-04")
@pytest.mark.parametrize("kind", [TroubleKind.LOGIN, TroubleKind.MODEL, TroubleKind.REFUSED])
def test_what_does_not_pass_by_itself_is_not_repeated_and_is_told_in_the_clients_words(kind: TroubleKind) -> None:
    bench = ran(said(None, finished=False, exit=1, trouble=Trouble(kind=kind, text="Please run /login")))
    assert (bench.last.view.status, bench.last.view.why) == (Status.FAILED, "writer: Please run /login")
    assert len(bench.world.paid) == 1


@pytest.mark.req("EVID-10")
def test_a_turn_that_did_not_end_proves_nothing_whatever_it_says() -> None:
    act = said({"status": "done"}, {"a.txt": b"1"}, finished=False, exit=0)
    bench = ran(act, act, act)
    assert bench.last.view.status is Status.FAILED
    assert bench.last.view.pending is not None
    assert bench.last.view.pending.base == bench.last.view.pending.work


@pytest.mark.req("RUN-13")
def test_a_person_who_has_it_go_on_gives_it_all_its_tries_again() -> None:
    bench = ran(*[CRASH] * 3)
    assert moves(bench) == ["repeat", "repeat", "gave up"]
    bench.cast.acts["writer"] = [CRASH] * 2
    assert bench.resume().status is Status.COMPLETE
    assert moves(bench)[3:] == ["repeat", "repeat"]


def test_where_a_playbook_says_so_a_lost_dispatch_is_a_value_and_nothing_of_it_counts() -> None:
    crashed = ran(*[CRASH] * 3, row=replace(WRITER, lost=True))
    assert crashed.last.view.why == "crash"
    outside = {"a.txt": b"1", "b/c.txt": b"1"}
    scoped = replace(WRITER, lost=True, writes=("b/**",), repairs=0)
    strayed = ran(said({"status": "done"}, outside), row=scoped, deliver=True)
    assert (strayed.last.view.why, report(strayed).paths, report(strayed).did) == ("scope", (), None)
    assert report(strayed).kept is not None
    assert set(strayed.world.files) == {"lib.py"}


# --- limits and money


@pytest.mark.req("RUN-15")
def test_where_no_end_is_told_it_waits_in_steps_that_grow_to_an_hour() -> None:
    bench = ran(*[said(None, finished=False, trouble=LIMIT)] * 9)
    waits = [event.delay_s for event in bench.events("tried")]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert report(bench).ok
    assert [ask.timeout_s for ask in bench.cast.asks] == [3600] * 10, "waiting is no part of the deadline"


@pytest.mark.req("RUN-15")
def test_a_clock_that_was_set_back_is_nothing_to_wait_for() -> None:
    """Before its start, by the clock, a run goes on as ever; nothing that took time took less than none."""
    bench = Bench()

    def back() -> None:
        bench.world.clock -= timedelta(days=1)

    bench.cast.moments["called round-1/builder"] = [back]
    view = bench.start()
    assert view.status is Status.COMPLETE
    assert view.start is not None
    assert bench.world.clock < view.start.at
    assert all(call.seconds >= 0 for call in view.calls.values())


@pytest.mark.req("RUN-15")
@pytest.mark.parametrize("after", [timedelta(hours=5), timedelta(days=7)])
def test_it_waits_until_the_end_that_is_told_and_a_little_longer(after: timedelta) -> None:
    bench = Bench(one())
    until = bench.world.clock + after
    bench.cast.acts["writer"] = [said(None, finished=True, trouble=LIMIT.model_copy(update={"until": until}))]
    bench.start()
    assert bench.events("tried")[0].until == until + timedelta(seconds=5)
    assert bench.world.clock >= until
    assert ("writer#1", NewsKind.WAITING) in [(key, news.kind) for key, news in bench.news]


@pytest.mark.req("RUN-15")
def test_waiting_is_bounded_and_a_resume_gives_it_its_time_again() -> None:
    endless = [said(None, finished=False, trouble=LIMIT)] * 20
    bench = ran(*endless, bench={"limits": Limits(rate_limit_wait_s=1000)})
    assert (bench.last.view.status, bench.last.view.why) == (Status.WAITING, "simulated: too many requests")
    assert moves(bench) == ["wait"] * 4 + ["gave up"]
    assert bench.last.view.until is not None
    assert bench.resume().status is Status.WAITING
    assert moves(bench)[5:] == ["wait"] * 4 + ["gave up"]


def plays(bench: Bench, **facts: Any) -> None:
    """Who plays each role."""
    role = bench.world.role
    bench.world.role = lambda name, *, judges, file="": role(name, judges=judges).model_copy(update=facts)  # type: ignore[method-assign]


@pytest.mark.req("RUN-15", "RUN-16")
@pytest.mark.parametrize(("runner", "waits"), [("simulated", True), ("other", False)])
def test_killed_while_it_waits_it_waits_on_and_another_client_does_not(runner: str, waits: bool) -> None:
    bench = Bench(one())
    bench.cast.acts["writer"] = [said(None, finished=False, trouble=LIMIT, session="s-1")]
    bench.dies(4)
    (tried,) = bench.events("tried")
    plays(bench, runner=runner)
    bench.resume()
    assert (bench.world.clock >= tried.until) == waits


@pytest.mark.req("RUN-15")
def test_members_of_a_group_wait_as_one() -> None:
    bench = Bench(group("abc"), limits=Limits(max_parallel=1))
    until = bench.world.clock + timedelta(hours=5)
    bench.cast.acts["a"] = [said(None, finished=False, trouble=LIMIT.model_copy(update={"until": until}))]
    bench.start()
    assert len(bench.world.paid) == 4


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(("kind", "shares"), [("budget_usd", [0.025, 0.015, 0.005]), ("budget_tokens", [250, 140, 30])])
def test_a_budget_is_looked_at_before_each_call_and_given_to_the_client(kind: str, shares: list[float]) -> None:
    bench = Bench(each(*(Call(WRITER, member=name) for name in "abcd")), limits=Limits(**{kind: shares[0]}))
    view = bench.start()
    assert (view.status, view.remedy) == (Status.WAITING, "interlock resume run-1 --budget USD")
    assert view.why.startswith("the budget is used up")
    assert [getattr(ask, kind) for ask in bench.cast.asks] == pytest.approx(shares)
    assert bench.resume().status is Status.WAITING
    if kind == "budget_usd":
        assert bench.resume(budget=1.0).status is Status.COMPLETE
        assert bench.cast.asks[-1].budget_usd == pytest.approx(1 - 0.03)


@pytest.mark.req("RUN-14", "AGENT-05")
def test_cut_off_by_its_budget_it_goes_on_in_its_layer_and_session_when_there_is_money() -> None:
    spent = Usage(input_tokens=10, cost_usd=1.0)
    bench = Bench(one(deliver=True), limits=Limits(budget_usd=1.0))
    half = said(None, {"half.txt": b"1"}, finished=False, exhausted=True, session="s-1", usage=spent)
    bench.cast.acts["writer"] = [half, lambda ask, files: said(None, {"whole.txt": files["half.txt"] + b"2"})]
    usual = bench.world.call

    async def call(ask: Any, seat: Any, hear: Any) -> Exit:
        hear(News(kind=NewsKind.SESSION, facts={"session": "s-1", "model": "m"}))
        return await usual(ask, seat, hear)

    bench.world.call = call  # type: ignore[method-assign]
    assert bench.start().status is Status.WAITING
    assert bench.resume(budget=5.0).status is Status.COMPLETE
    assert [(ask.session, ask.spent.input_tokens) for ask in bench.cast.asks] == [("", None), ("s-1", 10)]
    assert bench.world.files["whole.txt"] == b"12"


@pytest.mark.req("RUN-14")
def test_members_side_by_side_share_what_is_left_and_who_needs_more_gets_what_others_did_not_use() -> None:
    bench = Bench(group("ab"), limits=Limits(budget_usd=1.0))
    bench.cast.acts["a"] = [said(None, finished=False, exhausted=True, usage=Usage(cost_usd=0.5))]
    assert bench.start().status is Status.COMPLETE
    assert [ask.budget_usd for ask in bench.cast.asks][:2] == [0.5, 0.5]
    assert bench.last.view.usage.cost_usd == pytest.approx(0.52)


# --- repairs, and the layer


@pytest.mark.req("EVID-00", "EVID-01")
@pytest.mark.parametrize(
    ("row", "status", "calls"), [(WRITER, Status.COMPLETE, 1), (STRICT, Status.FAILED, 2), (JUDGE, Status.FAILED, 2)]
)
def test_who_has_to_answer_and_does_not_has_failed_and_a_writers_files_are_its_answer(
    row: Row, status: Status, calls: int
) -> None:
    bench = ran(*[said("All is well, I accept.")] * 2, row=row)
    assert (bench.last.view.status, len(bench.world.paid)) == (status, calls)


BETWEEN = {
    "repair": said("no form", {"a.txt": b"1"}, session="s-1"),
    "repeat": said(None, {"a.txt": b"1"}, finished=False, exit=1),
    "wait": said(None, {"a.txt": b"1"}, finished=False, trouble=LIMIT, session="s-1"),
}


@pytest.mark.req("EVID-01", "TREE-09", "RUN-03")
@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("move", BETWEEN)
def test_the_next_call_is_in_the_same_layer_with_the_exact_complaint_also_after_a_kill(move: str, dies: bool) -> None:
    """What the agent had left is there, and it is told what it was told."""
    bench = Bench(one(STRICT))
    bench.acts("writer", BETWEEN[move], lambda ask, files: said({"status": "done"}, {"b.txt": files["a.txt"]}))
    if dies:
        bench.dies(4).resume()
    else:
        bench.start()
    assert moves(bench) == [move]
    assert (report(bench).paths, report(bench).calls) == (("a.txt", "b.txt"), 2)
    assert ("- there is no JSON block in the answer" in bench.briefs("writer")[1]) == (move == "repair")
    assert dies or bench.cast.asks[1].session == ("" if move == "repeat" else "s-1")


@pytest.mark.req("RUN-03")
def test_a_layer_is_dropped_when_its_work_is_safe() -> None:
    bench, safe = Bench(one()), []
    seat = bench.world.seat

    async def seats(*args: Any, **more: Any) -> Any:
        made = await seat(*args, **more)

        async def drop(*, keep_ignored: bool) -> None:
            safe.append(bench.last.recorder.journal.safe)

        made.drop = drop  # type: ignore[method-assign,union-attr]
        return made

    bench.world.seat = seats  # type: ignore[method-assign]
    bench.start()
    assert safe == [True]


BACK = said({"status": "done"}, {"mine.txt": None, "a.txt": b"1"})  # type: ignore[dict-item]
OLDER = said(None, {"mine.txt": b"committed", "a.txt": b"1"})
"""No absence: nobody asked for that one."""
MEANS = {"status": "done", "takes_back": ["mine.txt", "lib.py"]}


@pytest.mark.req("TREE-03")
@pytest.mark.parametrize(
    ("acts", "request_", "asked", "word", "there"),
    [
        ([BACK, said({"status": "done"})], "", True, RemarkKind.SET_BACK, b"unsaved"),
        ([BACK, said(MEANS)], "", True, RemarkKind.TAKEN_BACK, None),
        ([said(MEANS, {"mine.txt": None, "a.txt": b"1"})], "", False, RemarkKind.TAKEN_BACK, None),  # type: ignore[dict-item]
        ([BACK], "Remove mine.txt", False, RemarkKind.TAKEN_BACK, None),
        (
            [said(None, {"mine.txt": b"committed", "a.txt": b"1"})] * 2,
            "Remove mine.txt",
            True,
            RemarkKind.SET_BACK,
            b"unsaved",
        ),
    ],
)
def test_what_is_set_back_is_asked_about_once_and_then_given_back_or_named(
    acts: list[Any], request_: str, asked: bool, word: RemarkKind, there: bytes | None
) -> None:
    """The agent removes what the person has not committed."""
    files, head = {"lib.py": b"x", "mine.txt": b"unsaved"}, {"lib.py": b"x", "mine.txt": b"committed"}
    bench = ran(*acts, deliver=True, request=request_, bench={"files": files, "head": head})
    assert moves(bench) == ["repair"] * asked
    assert not asked or "`mine.txt`: you set back what the person has not committed" in bench.briefs("writer")[1]
    assert [remark.kind for remark in report(bench).remarks] == [word]
    assert (bench.world.files.get("mine.txt"), bench.world.files["a.txt"]) == (there, b"1")
    assert len(bench.world.paid) == 1 + asked, "asked once"


# --- scope


SCOPES: list[tuple[tuple[str, ...], str, str, str]] = [
    (("**",), "a.txt", "", "work"),
    (("**",), "deep/er/a.txt", "", "work"),
    (("**",), "CLAUDE.md", "", "held back"),
    (("**",), "sub/agents.md", "", "held back"),
    (("**",), ".github/workflows/ci.yml", "", "held back"),
    (("**",), ".gitignore", "", "work"),
    (("**",), "CLAUDE.md", "Mend CLAUDE.md, please", "work"),
    (("**",), ".github/workflows/ci.yml", "mend ci.yml", "work"),
    (("**",), ".github/workflows/ci.yml", "mend .github/**", "held back"),
    (("**",), "CLAUDE.md", "mend CLAUDE.md.bak", "held back"),
    (("**", "CLAUDE.md"), "CLAUDE.md", "", "work"),
    ((".opencode/specs/**",), ".opencode/specs/a.md", "", "work"),
    (("docs/**",), "docs/a.md", "", "work"),
    (("docs/**",), "a.txt", "", "outside"),
    (("docs/**",), ".github/ci.yml", "mend ci.yml", "outside"),
    ((), "a.txt", "", "outside"),
]


@pytest.mark.req("TREE-08")
@pytest.mark.parametrize(("writes", "path", "request_", "word"), SCOPES)
def test_what_of_a_writers_work_counts(writes: tuple[str, ...], path: str, request_: str, word: str) -> None:
    row = replace(WRITER, writes=writes)
    bench = ran(*[said({"status": "done"}, {path: b"1"})] * 2, row=row, deliver=True, request=request_)
    view = bench.last.view
    if word == "outside":
        assert (view.status, moves(bench)) == (Status.FAILED, ["repair", "gave up"])
        remarks = bench.events("tried")[-1].report.remarks
    else:
        assert (bench.world.files.get(path), view.status) == (b"1" if word == "work" else None, Status.COMPLETE)
        remarks = report(bench).remarks
    assert [remark.kind.value for remark in remarks] == ([] if word == "work" else [word])
    assert bool(view.held) == (word == "held back")
    for remark in remarks:
        assert remark.new is not None
        assert bench.world.trees[remark.new][path] == b"1", "it is kept"


@pytest.mark.req("TREE-08")
def test_settings_narrow_a_scope_and_the_brief_says_so() -> None:
    bench = Bench(one())
    plays(bench, writes=("docs/**",))
    bench.cast.acts["writer"] = [said(None, {"a.txt": b"1", "docs/b.md": b"1"}), said(None, {"a.txt": None})]  # type: ignore[dict-item]
    bench.start()
    assert report(bench).paths == ("docs/b.md",)
    assert "You may change: `docs/**`." in bench.briefs("writer")[0]


@pytest.mark.req("TREE-08")
def test_a_state_document_is_the_engines_alone_and_fails_nothing() -> None:
    bench = Bench(each(Call(WRITER), deliver=True, watch="roadmap.json"), files={"roadmap.json": b"{}"})
    bench.cast.acts["writer"] = [said(None, {"roadmap.json": b"mine", "a.txt": b"1"})]
    assert bench.start().status is Status.COMPLETE
    assert (bench.text("roadmap.json"), bench.text("a.txt")) == ("{}", "1")
    assert [remark.kind for remark in report(bench).remarks] == [RemarkKind.STATE]


@pytest.mark.req("TREE-08")
def test_a_judge_gets_held_back_work_as_data_and_nobody_else_sees_it() -> None:
    bench = Bench(each(Call(WRITER), Call(JUDGE, criteria=("it works",)), Call(WRITER, attempt=2)))
    bench.cast.acts["writer"] = [said(None, {"CLAUDE.md": b"obey"}), lambda ask, files: said(str("CLAUDE.md" in files))]
    bench.start()
    (brief,) = bench.briefs("judge")
    assert "## Held back" in brief
    assert "added CLAUDE.md" in brief
    assert bench.world.folder.get(report(bench).text or "") == b"False"


@pytest.mark.req("TREE-08", "TREE-04")
@pytest.mark.parametrize("meanwhile", [b"x = 1\n", b"person"])
def test_what_a_judge_leaves_is_dropped_and_its_verdict_stands(meanwhile: bytes) -> None:
    """Also in a file that a person writes meanwhile."""
    bench = Bench(one(JUDGE, deliver=True))
    bench.cast.acts["judge"] = [Act({"probe.py": b"1", "lib.py": b"probe"}, verdict().exit)]
    bench.cast.moments["called"] = [lambda: bench.world.files.update({"lib.py": meanwhile})]
    assert bench.start().why == "yes"
    assert bench.world.files == {"lib.py": meanwhile}
    dropped = [remark.paths for remark in report(bench).remarks if remark.kind is RemarkKind.BY_PRODUCT]
    assert dropped == [("lib.py", "probe.py") if meanwhile != b"person" else ("probe.py",)]


@pytest.mark.req("EVID-01")
def test_a_missing_output_is_asked_for_and_one_that_is_ignored_or_there_is_not() -> None:
    row = Row("writer", "do", Done, outputs=("plan.md",))
    bench = ran(said(None), said(None, {"plan.md": b"1"}), row=row)
    assert moves(bench) == ["repair"]
    assert "the output `plan.md` is missing" in bench.briefs("writer")[1]
    assert bench.text("plan.md") == "1"


# --- side by side, and beside a person


@pytest.mark.req("TREE-02", "TREE-04")
def test_members_keep_each_others_work_and_of_two_that_conflict_the_later_one_has_failed() -> None:
    bench = Bench(group("abc"))
    work = {"a": {"lib.py": b"a", "a.txt": b"a"}, "b": {"lib.py": b"b", "b.txt": b"b"}, "c": {"c.txt": b"c"}}
    bench.cast.acts = {name: [said(None, files)] for name, files in work.items()}  # type: ignore[arg-type]
    assert bench.start().why == "ok conflict ok"
    assert bench.world.files == {"lib.py": b"a", "a.txt": b"a", "c.txt": b"c"}
    later = bench.events("done")[1].report
    assert (later.conflicts, later.did, later.paths) == (("lib.py",), None, ())
    assert bench.world.trees[later.kept]["b.txt"] == b"b", "it is kept"


async def two(run: Run, inputs: Nothing) -> Outcome:
    """A writer, whatever a person does then, a writer and a judge."""
    await run.dispatch(Call(WRITER))
    await run.gate("look", "Look!")
    again = await run.dispatch(Call(WRITER, attempt=2))
    judged = await run.dispatch(Call(JUDGE, criteria=("it works",)))
    delivered = await run.deliver("all")
    return Outcome.complete(f"{again.reason or 'ok'} {judged.reason or 'ok'} {delivered.state}")


@pytest.mark.req("TREE-04")
@pytest.mark.parametrize("dies", [False, True])
def test_a_conflict_at_begin_shows_the_persons_version_with_the_runs_own_as_a_patch(dies: bool) -> None:
    bench = Bench(small(two))
    bench.cast.acts["writer"] = [said(None, {"lib.py": b"run", "a.txt": b"1"})]
    bench.start()
    bench.world.files["lib.py"] = b"person"
    bench.says("approve")
    bench.cast.acts["writer"] = [
        lambda ask, files: said(None, {"seen.txt": files["lib.py"] + files["a.txt"], "lib.py": b"both"})
    ]
    if dies:
        bench.dies(3)
        assert bench.cast.asks[-1].role.name == "writer"
    assert bench.resume().why == "ok ok done"
    brief = bench.briefs("writer")[-1]
    assert "their version stands. This was the run's change of `lib.py`" in brief
    assert "changed lib.py" in brief
    assert (bench.text("seen.txt"), bench.text("lib.py")) == ("person1", "both")


@pytest.mark.req("TREE-04", "RUN-13")
def test_a_judge_that_meets_a_conflict_is_not_paid_for() -> None:
    bench = Bench(small(two))
    bench.cast.acts["writer"] = [said(None, {"lib.py": b"run"}), said(None)]
    bench.cast.decisions = [{"choice": "approve"}]
    bench.cast.moments["called writer#2"] = [lambda: bench.world.files.update({"lib.py": b"person"})]
    assert bench.start().why == "ok conflict conflict"
    assert bench.briefs("judge") == []
    judged = report(bench)
    assert (judged.conflicts, judged.calls) == (("lib.py",), 0)
    assert bench.text("lib.py") == "person"


@pytest.mark.req("TREE-04")
def test_a_file_that_both_wrote_while_an_agent_works_is_the_persons_and_the_rest_counts() -> None:
    bench = Bench(one(deliver=True))
    bench.cast.acts["writer"] = [said(None, {"lib.py": b"run", "a.txt": b"1"})]
    bench.cast.moments["called"] = [lambda: bench.world.files.update({"lib.py": b"person"})]
    assert bench.start().why == "conflict"
    assert (bench.text("lib.py"), bench.text("a.txt")) == ("person", "1")
    assert report(bench).conflicts == ("lib.py",)


@pytest.mark.req("RUN-03", "RUN-08", "EVID-09")
def test_what_a_forgotten_call_said_is_never_a_later_ones_answer() -> None:
    """Stopped, resumed, killed right behind the note of the new call, resumed again: it is made."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        await run.dispatch(Call(WRITER))
        return Outcome.stopped("not good enough")

    def dies() -> None:
        raise Died

    bench = Bench(small(play))
    bench.cast.moments["call writer#1"] = [lambda: None, dies]
    bench.start()
    with pytest.raises(Died):
        bench.resume()
    view = bench.resume()
    assert len(bench.world.paid) == 2
    assert [one.n for one in bench.events("call")] == [1, 2, 3]
    assert view.calls["writer#1"].last == 3
