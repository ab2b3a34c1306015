"""How a call is judged, repeated and paid for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.agents.runner import Usage
from interlock.contracts import Artifact, Contract, Outcome
from interlock.engine import Dispatch, Ending, Retries, Run, Status, Table, dispatch_facts
from interlock.errors import EngineFault
from tests.conformance.harness import Change, Crash, Engine, also, in_turn, instead, reacting
from tests.engine.toys import Work, producing, single, toy
from tests.playbooks.answer_words import AS_WRITTEN, HARNESS

Start = Callable[..., Engine]

SPEC = producing("made.md")
FAILS: dict[str, tuple[Change, str]] = {
    "transient": (instead(code=-9, message="", files={}), "crashed"),
    "spawn": (instead(spawn_error="no such program"), "spawn_failed"),
    "timeout": (instead(seconds=1e9), "timeout"),
    "contract": (instead(files={}), "contract_violation"),
    "no verdict": (instead(message="Finished, I think."), "no_verdict"),
    "error": (instead(message="ERROR: could not", code=0), "agent_error"),
    "scope": (also({"other.md": "mine now\n"}), "scope_violation"),
}
PLAYBOOKS = {
    "roadmap": (Retries(transient=1, contract=1, error=0), {"transient": 2, "contract": 2, "error": 1}),
    "harness": (Retries(transient=0, contract=1, error=0), {"transient": 1, "contract": 2, "error": 1}),
    "feature": (Retries(transient=2, contract=1, error=1, shared=True), {"transient": 3, "contract": 2, "error": 2}),
    "feature implementer": (Retries(transient=2, contract=1, error=0), {"transient": 3, "contract": 2, "error": 1}),
    "router": (Retries(transient=0, contract=0, error=0), {"transient": 1, "contract": 1, "error": 1}),
    "ticket": (Retries(transient=1, contract=1, error=0), {"transient": 2, "contract": 2, "error": 1}),
}
KIND_OF = {"spawn": "transient", "timeout": "transient", "no verdict": "contract", "scope": "error"}


@pytest.mark.req("EN-41")
@pytest.mark.parametrize("way", FAILS)
@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_playbook_repeats_a_call_as_often_as_its_row_says(engine: Start, playbook: str, way: str) -> None:
    """Dispatch counts for an agent that fails in the same way each time."""
    retries, counts = PLAYBOOKS[playbook]
    change, reason = FAILS[way]
    played = engine(single(SPEC, retries=retries), Work(), {}, reacting(maker=change))
    assert played.go().reason == reason
    assert len(played.calls) == counts[KIND_OF.get(way, way)]
    assert [call.attempt for call in played.calls] == list(range(1, len(played.calls) + 1))
    (end,) = played.events("dispatch.end")
    assert end.data["tries"] == len(played.calls)


@pytest.mark.req("EN-41")
def test_contract_and_error_repeats_share_one_budget_where_the_playbook_says_so(engine: Start) -> None:
    """feature: an unusable answer and then an error is the end; elsewhere each kind has its own."""
    agent = in_turn(FAILS["contract"][0], FAILS["error"][0], None)
    shared = Retries(transient=2, contract=1, error=1, shared=True)
    played = engine(single(SPEC, retries=shared), Work(), {}, reacting(maker=agent))
    assert played.go().reason == "agent_error"
    assert len(played.calls) == 2
    agent = in_turn(FAILS["contract"][0], FAILS["error"][0], None)
    own = engine(single(SPEC, retries=replace(shared, shared=False)), Work(), {}, reacting(maker=agent))
    assert own.go().status is Status.COMPLETE
    assert len(own.calls) == 3


@pytest.mark.req("EN-41")
def test_transient_repeats_wait_one_and_then_five_seconds(engine: Start) -> None:
    """The delays lie between the attempts; repairs and retries do not wait."""
    agent = in_turn(FAILS["transient"][0], FAILS["spawn"][0], FAILS["contract"][0], None)
    retries = Retries(transient=2, contract=1)
    played = engine(single(SPEC, retries=retries), Work(), {}, reacting(maker=agent))
    assert played.go().status is Status.COMPLETE
    assert played.slept == [1.0, 5.0]


@pytest.mark.req("EN-41", "EN-14")
def test_a_crash_in_the_second_try_does_not_pay_for_the_first_again(engine: Start) -> None:
    """Tries have records of their own: after the resume the count goes on, with the same complaint."""
    agent = in_turn(FAILS["contract"][0], instead(crash=True), None)
    played = engine(single(SPEC, retries=Retries(contract=1)), Work(), {}, reacting(maker=agent))
    with pytest.raises(Crash):
        played.go()
    assert played.go().status is Status.COMPLETE
    assert [call.attempt for call in played.calls] == [1, 2, 2]
    assert played.calls[1].brief == played.calls[2].brief
    assert "made.md: missing" in played.calls[2].brief.split("## Failure context")[1]


@pytest.mark.req("EN-41", "EN-08")
def test_a_long_failure_context_survives_a_crash(engine: Start) -> None:
    """A complaint too long for a journal line is stored elsewhere and still told in full."""
    wide = tuple(Artifact(f"out/{'long-name-' * 5}{number}.md") for number in range(60))
    spec = Dispatch("maker", "Write them.", Contract(wide))
    agent = in_turn(instead(files={}), instead(crash=True), None)
    played = engine(single(spec, retries=Retries(contract=1)), Work(), {}, reacting(maker=agent))
    with pytest.raises(Crash):
        played.go()
    assert played.go().status is Status.COMPLETE
    assert played.calls[1].brief == played.calls[2].brief


@pytest.mark.req("CM-11", "CM-12", "CM-13", "EN-42")
@pytest.mark.parametrize(
    ("change", "outcome", "reason"),
    [
        (instead(), "OK", None),
        (instead(message="NEEDS_REVISION: almost"), "REVISE", None),
        (instead(message="ERROR: no"), "FAIL", "agent_error"),
        (instead(message=""), "FAIL", "no_verdict"),
        (instead(message="all good, I am done"), "FAIL", "no_verdict"),
        (instead(code=3), "FAIL", "agent_error"),
        (instead(code=3, message=""), "FAIL", "crashed"),
        (instead(seconds=1e9), "FAIL", "timeout"),
        (instead(spawn_error="not there"), "FAIL", "spawn_failed"),
        (instead(files={}), "FAIL", "contract_violation"),
        (instead(result=b'{"status": "DONE", "session_id": "sess_20200101_aaaaaa"}'), "FAIL", "session_mismatch"),
        (instead(result=b'{"status": 7}', message=""), "FAIL", "bad_format"),
    ],
)
def test_every_return_is_exactly_one_outcome(engine: Start, change: Change, outcome: str, reason: str | None) -> None:
    """The event `dispatch.end` has it; no verdict is never a pass, nor is a positive word with a bad exit."""
    played = engine(single(SPEC), Work(), {}, reacting(maker=change))
    played.go()
    (end,) = played.events("dispatch.end")
    assert (end.data["outcome"], end.data["reason"]) == (outcome, reason)
    assert Outcome(end.data["outcome"])


@pytest.mark.req("EN-42")
@pytest.mark.parametrize("answer", [HARNESS, AS_WRITTEN])
def test_where_the_artifact_is_the_verdict_exit_0_and_the_artifact_are_enough(engine: Start, answer) -> None:
    """No word is needed; but without the artifact, or with a bad exit, it is no pass."""
    spec = Dispatch("maker", "Write it.", Contract((Artifact("made.md"),), answer))
    silent = engine(single(spec), Work(), {}, reacting(maker=instead(message="")))
    assert silent.go().status is Status.COMPLETE
    assert engine(single(spec), Work(), {}, reacting(maker=instead(files={}))).go().reason == "contract_violation"
    assert engine(single(spec), Work(), {}, reacting(maker=instead(code=1, message=""))).go().status is Status.STOPPED


@pytest.mark.req("CM-07")
def test_a_brief_without_a_task_is_never_sent(engine: Start) -> None:
    """An internal error, exit 5; no agent was called."""
    played = engine(single(replace(SPEC, task=" \n")), Work(), {})
    with pytest.raises(EngineFault, match="no task") as caught:
        played.go()
    assert caught.value.exit_code == 5
    assert played.calls == []
    assert played.events("dispatch.start") == []


@pytest.mark.req("CM-17")
def test_a_missing_row_raises_and_changes_nothing(engine: Start) -> None:
    """A table that is not total is a fault of the playbook, not a silent default."""
    partial = Table("partial", {(Outcome.OK,): "go"})

    async def body(run: Run, _work: Work) -> Ending:
        run.decide(partial, Outcome.FAIL)
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    with pytest.raises(EngineFault, match="no row for FAIL"):
        played.go()
    assert list(partial.missing()) == [(Outcome.REVISE,), (Outcome.FAIL,), (Outcome.BLOCKED,)]


def three(price: float | None, **known):
    async def body(run: Run, _work: Work) -> Ending:
        for name in ("one", "two", "three"):
            await run.dispatch(producing(f"{name}.md", name))
        return Ending.complete()

    usage = None if price is None else Usage(cost_usd=price)
    return toy(body, **known), lambda request: replace(reacting()(request), usage=usage)


@pytest.mark.req("EN-45")
def test_a_used_up_budget_parks_the_run_before_the_next_dispatch(engine: Start) -> None:
    """Exit 4 with the sum; resuming with more money goes on, with the same money it waits again."""
    playbook, agent = three(0.6)
    played = engine(playbook, Work(), {}, agent, budget_usd=1.0)
    close = played.go()
    assert (close.status, close.exit_code) == (Status.WAITING, 4)
    assert "1.20 of 1.00 USD" in close.reason
    assert "--budget" in close.reason
    assert played.go().status is Status.WAITING
    assert played.agents == ["one", "two"]
    assert played.go(budget_usd=5.0).status is Status.COMPLETE
    assert played.agents == ["one", "two", "three"]


@pytest.mark.req("EN-45")
def test_failed_tries_cost_money_too(engine: Start) -> None:
    """What a repeated call cost counts in the same process, not only after a resume."""
    playbook, agent = three(0.6, retries=Retries(contract=1))
    failing = in_turn(lambda _request, act: replace(act, files={}), None)
    played = engine(
        playbook, Work(), {}, lambda r: failing(r, agent(r)) if r.agent == "one" else agent(r), budget_usd=1.0
    )
    assert played.go().status is Status.WAITING
    assert played.agents == ["one", "one"]


@pytest.mark.req("EN-45")
def test_an_unknown_cost_is_unknown_and_not_zero(engine: Start) -> None:
    """It stops no run, and the journal says that nobody knows it."""
    playbook, agent = three(None)
    played = engine(playbook, Work(), {}, agent, budget_usd=0.01)
    assert played.go().status is Status.COMPLETE
    assert [line.data["cost_usd"] for line in played.events("dispatch.end")] == [None, None, None]


@pytest.mark.req("EN-45")
def test_settings_may_lower_the_number_of_parallel_agents(engine: Start) -> None:
    """The process's limit bounds every cluster."""
    running: list[str] = []
    most = 0

    async def body(run: Run, _work: Work) -> Ending:
        async def member(name: str) -> None:
            await run.dispatch(producing(f"{name}.md", name))
            running.remove(name)

        await run.cluster("side", {name: (lambda name=name: member(name)) for name in "abcd"})
        return Ending.complete()

    def agent(request):
        nonlocal most
        running.append(request.member)
        most = max(most, len(running))
        return reacting()(request)

    engine(toy(body, max_parallel=4), Work(), {}, agent, max_parallel=1).go()
    assert most == 1


@pytest.mark.req("CM-18", "EN-45", "EN-07")
def test_a_loop_ends_at_its_cap_and_has_one(engine: Start) -> None:
    """The cap is the playbook's; a loop without one is refused; the number in run.json can only lower it."""

    async def body(run: Run, _work: Work) -> Ending:
        turns = [turn async for turn in run.loop("fix")]
        own = [turn async for turn in run.loop("own", 9)]
        return Ending.complete(f"{turns} {own}")

    assert engine(toy(body, caps={"fix": 3, "own": 2}), Work(), {}).go().output == "[1, 2, 3] [1, 2]"

    async def endless(run: Run, _work: Work) -> Ending:
        async for _turn in run.loop("endless"):
            pass
        return Ending.complete()

    with pytest.raises(EngineFault, match="no cap"):
        engine(toy(endless), Work(), {}).go()


@pytest.mark.req("CM-38", "EN-03")
def test_telemetry_is_made_of_the_journal_so_far(engine: Start) -> None:
    """One row per finished dispatch with outcome, retries and cost."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        rows = dispatch_facts(run)
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete(json.dumps([[row["agent"], row["outcome"], row["retries"]] for row in rows]))

    agent = reacting(one=in_turn(FAILS["contract"][0], None))
    played = engine(toy(body, retries=Retries(contract=1)), Work(), {}, agent)
    assert json.loads(str(played.go().output)) == [["one", "OK", 1]]
