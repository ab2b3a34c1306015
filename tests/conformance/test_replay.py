"""Keys, replay and divergence are the same in both engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate

import pytest

from interlock.engine import Dispatch, Ending, Quoted, Run, Status, dispatch_facts, pause
from interlock.errors import Diverged, EngineFault, NameRefused
from tests.conformance.harness import Crash, Death, Engine, Simulated, in_turn, instead, reacting
from tests.engine.toys import (
    AFTER,
    CHAINED,
    COUNTED,
    NESTED,
    NESTED_FILES,
    RESUMED,
    Work,
    chained,
    producing,
    toy,
)
from tests.proofs import long

Start = Callable[..., Engine]


@pytest.mark.req("EN-01", "EN-02")
def test_keys_are_the_open_scopes_the_verb_and_its_count(engine: Start) -> None:
    """A key spells steps, loop turns and members, then the verb's name and how often it was used there."""
    played = engine(NESTED, Work(), NESTED_FILES)
    assert played.go().status is Status.COMPLETE
    names = played.names
    assert len(names) == len(set(names))
    assert names[:4] == ["read#1", "plan/planner#1", "plan/after#1", "fix-1/loop#1"]
    assert {"fix-1/work/m0/attempt-1/worker-0#1", "fix-2/work/m1/attempt-1/judges/j2#1", "write#1"} <= set(names)
    assert "fix-1/work/m0/attempt-1/judges/cluster#1" in names


@pytest.mark.req("EN-01", "EN-02")
def test_both_engines_give_the_same_keys_and_files(engine: Start) -> None:
    """The same playbook and inputs have the same keys, the same briefs but for the session, and the same files."""
    played, again = engine(NESTED, Work(size=2), NESTED_FILES), Simulated(NESTED, Work(size=2), NESTED_FILES)
    played.go()
    again.go()
    assert sorted(played.names) == sorted(again.names)
    assert settled(played.files) == settled(again.files)
    briefs = [{call.dispatch: call.brief.replace(call.session, "S") for call in one.calls} for one in (played, again)]
    assert briefs[0] == briefs[1]


@pytest.mark.req("EN-01")
def test_a_verb_from_a_task_that_is_no_member_is_a_fault(engine: Start) -> None:
    """Concurrency outside of clusters would make keys depend on time: it is refused."""

    async def body(run: Run, _work: Work) -> Ending:
        with run.step("here"):
            await asyncio.gather(run.read("a"), run.read("b"))
        return Ending.complete()

    with pytest.raises(EngineFault, match="not its own"):
        engine(toy(body), Work(), {}).go()


@pytest.mark.req("EN-01")
def test_two_members_with_the_same_keys_are_a_fault(engine: Start) -> None:
    """A cluster that is open twice in one scope cannot give out keys."""

    async def body(run: Run, _work: Work) -> Ending:
        async def inner() -> object:
            return await run.cluster("", {"x": lambda: run.read("a")})

        await run.cluster("", {"x": inner})
        return Ending.complete()

    async def clash(run: Run, _work: Work) -> Ending:
        with run.step("a/b"):
            return Ending.complete()

    assert engine(toy(body), Work(), {}).go().status is Status.COMPLETE
    with pytest.raises(NameRefused, match="cannot be the name"):
        engine(toy(clash), Work(), {}).go()


@pytest.mark.req("EN-02", "CM-36")
def test_results_come_in_declared_order_whatever_ends_first(engine: Start) -> None:
    """The slowest member is declared first; its result, and its work in the tree, come first all the same."""

    async def body(run: Run, _work: Work) -> Ending:
        found = await run.cluster(
            "side", {name: (lambda name=name: run.dispatch(producing(f"{name}.md", name))) for name in ("c", "b", "a")}
        )
        await run.write("merged.md", "".join(report.text(f"{name}.md") for name, report in found.items()))
        return Ending.complete(" ".join(found))

    agent = reacting(c=instead(seconds=9.0), b=instead(seconds=4.0), a=instead(seconds=0.0))
    played = engine(toy(body), Work(), {}, agent)
    assert played.go().output == "c b a"
    assert [line.agent for line in played.events("dispatch.end")] == ["c", "b", "a"]
    assert [word for word in played.files["merged.md"].split() if len(word) == 1 and word != "#"] == ["c", "b", "a"]


@pytest.mark.req("EN-02")
def test_members_run_at_most_as_many_at_a_time_as_allowed(engine: Start) -> None:
    """The playbook's number bounds what works side by side."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.cluster("side", {name: partial(run.dispatch, producing(f"{name}.md", name)) for name in "abcdef"})
        return Ending.complete()

    played = engine(toy(body, max_parallel=2), Work(), {})
    played.go()
    assert sorted(played.agents) == list("abcdef")
    # One that waits for its turn to be imported gives its place to another: it works no more.
    steps = {"dispatch.start": 1, "dispatch.importing": -1}
    at_work = list(accumulate(steps[line.event] for line in played.lines if line.event in steps))
    assert max(at_work) == 2


@pytest.mark.req("EN-03", "EN-05")
def test_the_further_verbs_are_recorded_and_replayed(engine: Start) -> None:
    """What was listed, set aside, said and counted is the same at replay, although the world has changed."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("out/a.md"))
        names = await run.list("out", "*.md")
        place = await run.set_aside("old.md")
        run.say("one\n")
        rows = dispatch_facts(run)
        facts = [names, place, len(rows), rows[0]["outcome"], run.now().isoformat(), run.new_id("x-")]
        report = await run.dispatch(Dispatch("teller", "Tell.", context=(Quoted("facts", json.dumps(facts)),)))
        return Ending.complete(f"{report.outcome} {json.dumps(facts)}")

    played = engine(toy(body), Work(), {"old.md": "was here\n"})
    played.dies(Death("dispatch.start", key="teller#1", lost=False))
    played.edit("out/b.md", "new\n")
    close = played.go()
    assert close.status is Status.COMPLETE
    assert '"out/a.md"], ' in str(close.output)
    assert played.said == ["one\n"]
    assert "old.md" not in played.files
    assert list(played.attic.values()) == ["was here\n"]


@pytest.mark.req("EN-05")
def test_replay_gives_the_same_brief_bytes(engine: Start) -> None:
    """A dispatch that is called again after a crash gets byte for byte the brief it got before."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("out/a.md"))
        facts = json.dumps([await run.list("out"), [row["outcome"] for row in dispatch_facts(run)]])
        text = (await run.read("a.txt")).text
        await run.dispatch(Dispatch("teller", "Tell.", context=(Quoted("facts", facts), Quoted("a.txt", text))))
        return Ending.complete()

    agent = reacting(teller=in_turn(instead(crash=True), None))
    played = engine(toy(body), Work(), {"a.txt": "one\n"}, agent)
    with pytest.raises(Crash):
        played.go()
    played.edit("a.txt", "two\n")
    played.edit("out/z.md", "later\n")
    assert played.go().status is Status.COMPLETE
    first, second = (call.brief for call in played.calls if call.agent == "teller")
    assert first == second
    assert "one" in first


@pytest.mark.req("EN-06")
def test_an_inserted_step_stops_the_run_and_names_both_keys(engine: Start) -> None:
    """A verb that an upgrade put between recorded ones never happens in the past."""

    async def upgraded(run: Run, work: Work) -> Ending:
        with run.step("extra"):
            await run.dispatch(producing("new.md", "new"))
        return await chained(run, work)

    played = engine(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    calls = len(played.calls)
    played.playbook = replace(CHAINED, function=upgraded)
    reload(played)
    with pytest.raises(Diverged) as caught:
        played.go()
    assert caught.value.key == "extra/new#1"
    assert caught.value.other == "one#1"
    assert "extra/new#1" in caught.value.what
    assert "one#1" in caught.value.what
    assert caught.value.exit_code == 2
    assert len(played.calls) == calls
    assert "new.md" not in played.files


@pytest.mark.req("EN-06")
def test_a_removed_step_stops_the_run_at_its_end(engine: Start) -> None:
    """A recorded outcome that nobody asks for any more is a divergence, not a success."""

    async def shorter(run: Run, _work: Work) -> Ending:
        return Ending.complete()

    played = engine(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    played.playbook = replace(CHAINED, function=shorter)
    reload(played)
    with pytest.raises(Diverged) as caught:
        played.go()
    assert caught.value.other == "one#1"
    assert played.events("run.end") == []


@pytest.mark.req("EN-06")
def test_open_siblings_may_still_have_records(engine: Start) -> None:
    """A member goes on with new work while the records of another member wait for it."""

    async def member(run: Run, name: str, count: int) -> None:
        for number in range(count):
            with run.step(f"s{number}"):
                await run.dispatch(producing(f"{name}-{number}.md", name))

    async def body(run: Run, _work: Work) -> Ending:
        await run.cluster("side", {"a": lambda: member(run, "a", 1), "b": lambda: member(run, "b", 3)})
        return Ending.complete()

    slow_a = reacting(a=instead(seconds=30.0))
    played = engine(toy(body), Work(), {}, slow_a)
    played.dies(Death("dispatch.end", key="side/b/s1/b#1", lost=False))
    assert played.go().status is Status.COMPLETE
    assert played.agents.count("b") == 3
    assert sorted(played.files) == ["a-0.md", "b-0.md", "b-1.md", "b-2.md"]


@pytest.mark.req("EN-04")
@pytest.mark.parametrize("field", ["task", "inputs", "context", "rules", "failure", "outputs"])
def test_a_changed_input_of_a_dispatch_stops_the_run_and_says_what_differs(engine: Start, field: str) -> None:
    """A recorded key with another digest names the key and the input; `accept_recorded` goes on with the record."""
    spec = producing("one.md", "one")
    changed = {
        "task": replace(spec, task="Another task."),
        "inputs": replace(spec, inputs=("x.md",)),
        "context": replace(spec, context=("more",)),
        "rules": replace(spec, rules=("be brief",)),
        "failure": replace(spec, failure="it failed"),
        "outputs": replace(producing("other.md", "one"), task=spec.task),
    }[field]

    def after(first: Dispatch):
        async def body(run: Run, _work: Work) -> Ending:
            report = await run.dispatch(first)
            await run.dispatch(producing("two.md", "two"))
            return Ending.complete(report.outcome.value)

        return toy(body)

    played = engine(after(spec), Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    played.playbook = after(changed)
    reload(played)
    with pytest.raises(Diverged) as caught:
        played.go()
    assert caught.value.key == "one#1"
    assert f"{field}: recorded" in caught.value.what
    assert "--accept-recorded" in str(caught.value.remedy)
    assert played.agents.count("one") == 1
    assert played.go(accept_recorded=True).status is Status.COMPLETE
    assert played.agents.count("one") == 1


@pytest.mark.req("EN-04")
@pytest.mark.parametrize(
    "change", [{"attempt": 2}, {"timeout_s": 5.0}, {"step": "other"}, {"iteration": 7}, {"partial_grace_s": 3.0}]
)
def test_deadline_attempt_and_step_are_not_part_of_the_digest(engine: Start, change) -> None:
    """What does not say what the agent is asked for may change between a crash and its resume."""

    def after(first: Dispatch):
        async def body(run: Run, _work: Work) -> Ending:
            await run.dispatch(first)
            await run.dispatch(producing("two.md", "two"))
            return Ending.complete()

        return toy(body)

    played = engine(after(producing("one.md", "one")), Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    played.playbook = after(replace(producing("one.md", "one"), **change))
    reload(played)
    assert played.go().status is Status.COMPLETE
    assert played.agents.count("one") == 1


def changing(verb: str, value: str):
    """A playbook in which one verb gets this value; what follows is a dispatch."""

    async def body(run: Run, _work: Work) -> Ending:
        match verb:
            case "read":
                await run.read(value)
            case "write":
                await run.write("w.txt", value)
            case "list":
                await run.list("out", value)
            case "note":
                run.note("event", value=value)
            case "say":
                run.say(value)
            case "new_id":
                run.new_id(value)
            case "command":
                await run.command(("sh", "effect.sh", value))
            case "decide":
                run.decide(len, value)
            case "cluster":
                await run.cluster("c", {value: lambda: run.read("a")})
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete()

    return toy(body)


@pytest.mark.req("EN-04", "EN-06")
@pytest.mark.parametrize("verb", ["read", "write", "list", "note", "say", "new_id", "command", "decide", "cluster"])
def test_a_changed_input_of_any_verb_stops_the_run(engine: Start, verb: str) -> None:
    """No verb returns what was recorded for another question."""
    files = {"effect.sh": 'echo "$1" >> effects.txt\n'}
    played = engine(changing(verb, "one"), Work(), files)
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    played.playbook = changing(verb, "other")
    reload(played)
    with pytest.raises(Diverged) as caught:
        played.go()
    if verb == "cluster":
        assert (caught.value.key, caught.value.other) == ("c/other/read#1", "c/one/read#1")
    else:
        assert caught.value.key in ("len#1", f"{verb}#1")
        assert "other" in caught.value.what or verb == "write"
    assert played.agents in ([], ["two"])


@pytest.mark.req("EN-09")
def test_on_resume_happens_at_each_resume_outside_of_replay(engine: Start) -> None:
    """The hook runs before replay under keys of its own and does not count as divergence."""
    played = engine(RESUMED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    assert played.events("back") == []
    played.dies(Death("dispatch.start", key="three#1", lost=False))
    assert played.files["resumes.txt"] == "1\n"
    assert played.go().status is Status.COMPLETE
    assert [line.data["n"] for line in played.events("back")] == [1, 2]
    assert [line.key for line in played.events("back")] == ["resume-1/note#1", "resume-2/note#1"]
    assert played.files["resumes.txt"] == "2\n"
    assert played.agents.count("one") == 1


@pytest.mark.req("CM-22", "CM-24")
@pytest.mark.parametrize(
    "death",
    [
        Death("dispatch.start", nth=2, lost=False),
        Death("cluster.end", nth=2),
        Death("write.intent", lost=False),
        Death("run.end"),
        *long(
            Death("dispatch.end", nth=3),
            Death("dispatch.end", nth=4, lost=False),
            Death("loop", nth=3, lost=False),
            Death("write"),
            Death("decide"),
        ),
    ],
    ids=lambda death: f"{death.event} {death.nth} {'lost' if death.lost else 'kept'}",
)
def test_a_crash_changes_neither_the_files_nor_the_paid_work(engine: Start, death: Death) -> None:
    """Whatever line the process died at, the files at the end are those of an uninterrupted run."""
    whole = Simulated(NESTED, Work(), NESTED_FILES)
    whole.go()
    played = engine(NESTED, Work(), NESTED_FILES)
    played.dies(death)
    assert played.go().status is Status.COMPLETE
    assert settled(played.files) == settled(whole.files)
    ends = [line.key for line in played.events("dispatch.end")]
    assert sorted(ends) == sorted(line.key for line in whole.events("dispatch.end"))
    assert [line.seq for line in played.lines] == list(range(1, len(played.lines) + 1))


@pytest.mark.req("EN-14", "CM-03")
def test_a_crash_moves_no_counter(engine: Start) -> None:
    """The dispatch that is called again has the attempt number and the session it had; the document's count too."""
    counted: list[int] = []

    def crash(_request, act):
        counted.append(json.loads(played.files["state.json"])["count"])
        return replace(act, crash=True)

    played = engine(COUNTED, Work(), {}, reacting(maker=in_turn(crash, None)))
    with pytest.raises(Crash):
        played.go()
    close = played.go()
    assert counted == [1]  # on disk before the agent was called
    assert json.loads(str(close.output)) == {"count": 2}
    assert [(call.attempt, call.dispatch) for call in played.calls] == [
        (1, "count-1/maker#1"),
        (1, "count-1/maker#1"),
        (1, "count-2/maker#1"),
    ]
    assert played.calls[0].session == played.calls[1].session


@pytest.mark.req("EN-21")
def test_a_bounded_stop_leaves_the_run_open_and_replay_passes_over_it(engine: Start) -> None:
    """`run.paused` ends the process with exit 4; without the bound the run goes on where it was."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        if run.flags.get("until") == "one":
            pause(run, "stopped after one")
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    for _ in range(2):
        close = played.go(flags={"until": "one"})
        assert (close.status, close.exit_code, close.reason) == (Status.WAITING, 4, "stopped after one")
    assert played.lines[-1].event == "run.paused"
    assert played.events("run.end") == []
    assert played.go().status is Status.COMPLETE
    assert played.agents == ["one", "two"]


@pytest.mark.req("CM-17")
def test_a_decision_is_recorded_with_the_row_that_fired(engine: Start) -> None:
    """The journal says which table was asked, with what, and what it said."""
    played = engine(CHAINED, Work(), {})
    played.go()
    first = played.events("decide")[0]
    assert first.data["out"] == {"rule": AFTER.name, "row": "OK", "result": "go"}


def reload(played: Engine) -> None:
    """The program was changed between two processes."""
    if isinstance(played, Simulated):
        played.simulation.playbook = played.playbook


def settled(files: dict[str, str]) -> dict[str, str]:
    """Files without the ids that differ from run to run."""
    return {path: text.split("\n", 1)[1] if path == "done.txt" else text for path, text in files.items()}
