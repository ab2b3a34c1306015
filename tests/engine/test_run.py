"""What a playbook sees of its run, and what the journal sees of its verbs."""

from __future__ import annotations

import pytest

from interlock.engine import (
    Edit,
    Ending,
    Run,
    Status,
    changed_since,
    dispatch_facts,
    project,
    require_agents,
    snapshot,
    wait,
)
from interlock.testing import Bench
from tests.engine.toys import Work, toy

VERBS = {
    *("dispatch", "call", "cluster", "gate"),
    *("read", "write", "update", "list", "set_aside", "command"),
    *("decide", "settle_once", "note", "warn", "say", "now", "new_id"),
}
SCOPES = {"step", "loop"}
PLACES = {"repository"}
KNOWN = {"identity", "settings", "flags", "parent", "live"}
"""What a playbook knows of itself."""

RECORDED = """
read#1 read 5aff4223
look#1 read 5aff4223
read#2 read 5aff4223
write#1 write 0647601e
edit#1 write a5b0c45c
read#3 read 8b67cf4c
write#2 write 44129dd2
list#1 list ccfed8f8
set_aside#1 set_aside 8b67cf4c
command#1 command fad7d74e
inspect#1 inspect 5e5a4689
snapshot#1 snapshot 44136fa3
changes#1 changes 28c88c49
telemetry#1 telemetry 44136fa3
project#1 project ac725a4b
preflight#1 option 44136fa3
unready#1 unready 44136fa3
mode#1 option 44136fa3
max#1 decide 76405563
note#1 seen d35e2e59
note#2 warning 5493d966
say#1 say 556fb7cc
now#1 now 44136fa3
wait#1 wait 70e05630
new_id#1 new_id d65e4359
fix-1/loop#1 loop 9750649e
both/cluster#1 cluster.end 6375508c
"""


def test_a_run_is_its_verbs_and_nothing_else() -> None:
    """A playbook sees these names, and nothing of what stands behind them. Another verb is a decision."""
    seen: list[set[str]] = []

    async def body(run: Run, _work: Work) -> Ending:
        seen.append({name for name in dir(run) if name[0] != "_"})
        return Ending.complete()

    Bench(toy(body)).play(Work())
    assert seen == [VERBS | SCOPES | PLACES | KNOWN]
    assert Run.__bases__ == (object,)


@pytest.mark.req("EN-01", "EN-04")
def test_keys_and_digests_of_the_verbs_are_those_of_before() -> None:
    """An open run is resumed by the next version: wherever the code of a verb stands, it records what it recorded."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.read("a.txt")
        await run.read("a.txt", lambda document: document.text)
        await run.update("a.txt", lambda document: document.text + "1")
        await run.update("a.txt", lambda document: Edit(document.encode(document.text + "2"), "two"), what={"add": 2})
        await run.write("b.txt", "b", anew=True)
        await run.list(".")
        await run.set_aside("b.txt")
        await run.command(("make", "x"), env={"A": "1"})
        await run.command(("nproc",), looks=True)
        await changed_since(run, await snapshot(run), besides=("x/**",))
        dispatch_facts(run)
        await project(run, "log.jsonl", lambda _line: None)
        await require_agents(run)
        run.settle_once("mode", {"fast": True})
        run.decide(max, 1, 2)
        run.note("seen", at=1)
        run.warn("careful")
        run.say("said")
        run.now()
        await wait(run, 1.0)
        run.new_id("x-")
        async for _turn in run.loop("fix", 1):
            pass
        await run.cluster("both", {})
        return Ending.complete()

    bench = Bench(toy(body), {"a.txt": "a"})
    assert bench.play(Work()).status is Status.COMPLETE
    lines = [f"{line.key} {line.event} {line.digest[:8]}" for line in bench.lines if line.settles and line.digest]
    assert lines == RECORDED.split("\n")[1:-1]
