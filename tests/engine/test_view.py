"""The one read model, folded line by line (RUN-09, RUN-14, PERSON-02)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents import answers
from interlock.agents.values import News, NewsKind, Usage
from interlock.engine import events as ev
from interlock.engine.journal import Journal, Line
from interlock.engine.view import View, fold
from interlock.errors import Exit, Status
from interlock.workspace.values import Pending, Standing, Tree
from tests.engine.bench import Bench

AT = datetime(2026, 1, 1, tzinfo=UTC)
STANDING = Standing(tree=Tree("t0"))


class Told:
    """Lines, one a second."""

    def __init__(self, *events: Any) -> None:
        self.view, self.lines = View(), list[Line]()
        for event in events:
            self.add(*(event if isinstance(event, tuple) else ("", event)))

    def add(self, key: str, event: ev.Event) -> None:
        seq = len(self.lines) + 1
        self.lines.append(Line(seq, AT + timedelta(seconds=seq), key, event))
        self.view.take(self.lines[-1])


def started(**more: Any) -> ev.RunStarted:
    facts = {"run": "run-1", "playbook": "p", "key": "k", "version": "1", "order": 1, "inputs": {}, "caps": {}}
    return ev.RunStarted(**{**facts, "where": {}, "standing": STANDING, "at": AT, **more})


def call(pair: str = "t0", **more: Any) -> ev.Called:
    facts = {"agent": "a", "member": "", "step": "", "attempt": 1, "n": 1, "runner": "r", "layer": "l", "brief": ""}
    return ev.Called(**{**facts, "standing": STANDING, "pair": {"base": "t0", "work": pair}, "shown": pair, **more})


def report(outcome: str = "done", **more: Any) -> ev.Report:
    return ev.Report(**{"agent": "a", "member": "", "attempt": 1, "outcome": outcome, **more})


def done(pair: str = "t0", **more: Any) -> ev.Done:
    return ev.Done(report=report(**more), pair=Pending(base=Tree("t0"), work=Tree(pair)), standing=STANDING)


def ended(status: str) -> ev.Ended:
    return ev.Ended(status=status, exit=0, reason="so it is")  # type: ignore[arg-type]


RESUMED = ev.Resumed(version="1")
KINDS = [kind for kind in vars(ev).values() if isinstance(kind, type) and issubclass(kind, ev.Event)]


@pytest.mark.req("RUN-21")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.model_fields["e"].is_required()])
def test_each_event_is_read_again_as_itself_and_folded(kind: type[ev.Event]) -> None:
    """None is forgotten in the union, nor ends in an exception of the fold."""
    known = {"at": str(AT)} if "at" in kind.model_fields else {}
    event = ev.EVENTS.validate_python(answers.best(kind.model_json_schema(), known))
    assert type(event) is kind
    json.dumps(Told(("a#1", event)).view.to_json())


@pytest.mark.req("CLI-03")
def test_only_the_time_in_which_somebody_worked_counts() -> None:
    """Neither the night between a stop and its resume, for the run and who was at work, nor what comes of it later."""
    told = Told(started(), ("a#1", call()), ev.Left(how="interrupted"))
    told.lines += [Line(0, AT, "", RESUMED)] * 1000  # the clock of these lines
    for event in (RESUMED, ("a#1", call()), ("a#1", done()), ended("complete"), ev.Left(how="cut"), ev.Left(how="cut")):
        told.add(*(event if isinstance(event, tuple) else ("", event)))
    assert (told.view.seconds, told.view.calls["a#1"].seconds, told.view.since) == (2 + 3, 1 + 2, None)


AGAIN = [ended("stopped"), ev.Reopened(forgotten=("a#1",), why=""), RESUMED]


@pytest.mark.req("RUN-09")
@pytest.mark.parametrize(
    ("events", "status", "worked_on", "exit_code"),
    [
        ([], "interrupted", "working", 130),
        ([ev.Paused(status="waiting", why="w")], "waiting", "working", 4),
        ([ev.Left(how="cut")], "interrupted", "working", 130),
        ([ev.Left(how="fault", what="w")], "failed", "working", 5),
        ([ev.Paused(status="failed", why="w"), RESUMED], "interrupted", "working", 130),
        *[([ended(word)], word, word, 0) for word in ("complete", "degraded", "stopped", "cancelled")],
        ([ended("stopped"), ev.Reopened(forgotten=(), why=""), RESUMED], "interrupted", "working", 130),
    ],
)
def test_how_a_run_stands(events: list[Any], status: str, worked_on: str, exit_code: int) -> None:
    view = Told(started(), *events).view
    assert view.status_now(worked_on=False) == status
    assert view.status_now(worked_on=True) == worked_on
    assert view.status.is_open != view.status.has_ended
    if not events or not view.ended:
        assert view.status_now(worked_on=False).exit == Exit(exit_code)


def paid(steps: str) -> Iterator[Any]:
    """Lines of an agent: `call`, `told 0.2` of cost, `tried`, `done`; `again`: redone; `B`: all of another's."""
    for what, _, cost in (step.partition(" ") for step in steps.split(", ")):
        usage, key = Usage(cost_usd=float(cost) if cost.strip("?") else None), "b#1" if what == "B" else "a#1"
        match what:
            case "call" | "B":
                yield key, call()
                yield from [(key, done(usage=usage))] if what == "B" else []
            case "told":
                yield key, ev.Heard(news=News(kind=NewsKind.USAGE, facts={"cost_usd": usage.cost_usd}))
            case "tried":
                yield key, ev.Tried(report=report("fault", usage=usage), move="repeat")
            case "done":
                yield key, done(usage=usage, calls=int(steps != "done"))
            case "again":
                yield from AGAIN


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("steps", "cost", "known"),
    [
        ("call, done 0.5", 0.5, True),
        ("call, told 0.2", 0.2, True),
        ("call, told 0.2, done 0.4", 0.4, True),
        ("call, told 0.2, call, done 0.5", 0.7, True),  # the process died at 0.2: that counts beside the next call
        ("call, tried 0.1, call, told 1, done 0.5", 0.6, True),
        ("call, done ?, B 0.5", 0.5, False),
        ("call, done 0.5, again, call, done 0.25", 0.75, True),  # the money of the first time is spent all the same
        ("call, done ?, again, call, done 1", 1, False),
        ("done", None, True),
    ],
)
def test_what_was_spent(steps: str, cost: float | None, known: bool) -> None:
    view = Told(started(), *paid(steps)).view
    assert view.called == steps.count("call") + steps.count("B")
    assert view.usage.cost_usd == (None if cost is None else pytest.approx(cost))
    assert view.cost_known == known


WORDS = [ev.Words(text=text, who="ann", at=AT) for text in "xyz"]


@pytest.mark.req("PERSON-02")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["say", "start a", "start b", "end a", "end b", "die"]), max_size=14))
def test_words_are_heard_by_all_who_start_before_one_that_heard_them_has_ended(steps: list[str]) -> None:
    told = Told(started())
    open_: dict[str, set[str]] = {}
    uses = {"a": 0, "b": 0}
    said: list[str] = []
    settled: set[str] = set()
    for step in steps:
        what, _, who = step.partition(" ")
        if what == "say" and len(said) < len(WORDS):
            words = WORDS[len(said)]
            said.append(words.text)
            told.add("", ev.Resumed(version="1", said=words))
        elif what == "start" and who not in open_:
            heard = told.view.unheard
            assert {words.text for words in heard} == set(said) - settled
            uses[who] += 1
            open_[who] = {words.text for words in heard}
            told.add(f"{who}#{uses[who]}", call(heard=heard))
        elif what == "end" and who in open_:
            settled |= open_.pop(who)
            told.add(f"{who}#{uses[who]}", done())
        elif what == "die":  # whoever was at work is called again, and hears what is still unheard
            for one in open_:
                heard = told.view.unheard
                open_[one] |= {words.text for words in heard}
                told.add(f"{one}#{uses[one]}", call(heard=heard, n=2))
    assert {words.text for words in told.view.unheard} == set(said) - settled


@pytest.mark.req("PERSON-02", "RUN-08")
def test_what_is_done_again_hears_again_what_it_was_told() -> None:
    told = Told(started(said=WORDS[0]), ("a#1", call(heard=(WORDS[0],))), ("a#1", done()), ended("stopped"))
    assert not told.view.unheard
    told.add("", ev.Reopened(forgotten=("a#1",), why=""))
    assert told.view.unheard == (WORDS[0],)
    assert told.view.stopped == "so it is"
    told.add("a#1", call(heard=(WORDS[0],)))
    told.add("a#1", done())
    assert not told.view.unheard
    assert told.view.stopped == ""


def test_on_replay_members_lines_come_in_another_order_and_the_latest_pair_counts() -> None:
    told = Told(started(), ("a#1", call()), ("b#1", call()), ("a#1", done("t1")), ("b#1", done("t2")))
    view = View()
    for index in (0, 2, 4, 1, 3):
        view.take(told.lines[index])
    assert view.pending == told.view.pending == Pending(base=Tree("t0"), work=Tree("t2"))


def test_what_is_forgotten_is_told_no_longer_and_what_was_noted_and_said_comes_once() -> None:
    told = Told(
        started(),
        *[("n#1", ev.Noted(name="n", facts={"n": 1})), ("say#1", ev.Said(text=ev.Digest("d")))],
        *[("r#1", ev.Decided(rule="r", inputs={}, result=1)), ("gate-g#1", opened(1)), ended("stopped")],
        ev.Reopened(forgotten=("n#1", "say#1", "r#1", "gate-g#1"), why=""),
        RESUMED,
    )
    view = told.view
    assert (view.notes, view.said, view.decisions, view.gates, view.gate) == ([], {}, [], {}, None)
    told.add("n#1", ev.Noted(name="n", facts={"n": 2}))
    assert told.view.notes == [("n", {"n": 2})]
    assert view.openings == {"gate-g#1": 1}, "an opening that was seen keeps its number"


def opened(number: int) -> ev.GateOpened:
    return ev.GateOpened(gate="g", question="?", choices=("approve", "reject"), shown={}, opening=number)


def test_a_gate_waits_until_it_is_decided_and_a_later_opening_takes_its_place() -> None:
    told = Told(started(), ("gate-g#1", opened(1)), ("gate-g#1", opened(2)))
    assert told.view.gate is not None
    assert told.view.gate.opening == 2
    decided = ev.GateDecided(gate="g", choice="approve", who="ann", note="go on", at=AT, shown={})
    told.add("gate-g#1", decided)
    assert told.view.gate is None
    assert told.view.unheard == (ev.Words(text="go on", who="ann", at=AT, gate="g"),)


def test_a_whole_run_read_again_is_what_was_folded_and_its_json_keeps_its_names() -> None:
    bench = Bench()
    view = bench.start()
    again = Journal(bench.world.folder.medium).lines
    assert again == bench.lines
    assert fold(again).to_json() == view.to_json()
    shown = json.loads(json.dumps(view.to_json()))
    names = "run_id playbook key status exit_code reason output gate dispatches checks delivered commits warnings next"
    assert set(f"{names} usage started_at finished_at".split()) == shown.keys()
    assert shown["status"] == Status.COMPLETE
    assert [step.name for step in view.steps] == ["before", "round-1"]
