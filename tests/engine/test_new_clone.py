"""A run that starts from the state document alone: the journal stayed on another machine."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from interlock.agents import AgentRequest
from interlock.documents import Document
from interlock.engine import Dispatch, Ending, Run, playbook
from interlock.engine.simulation import Crash
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.crash.process import Inputs

LOST = "Evidence of earlier attempts is not available."


def with_fields(fields: dict[str, object], document: Document) -> str:
    return json.dumps({**json.loads(document.text), **fields})


@playbook("items", inputs=Inputs, key=lambda inputs: inputs.name, state=lambda _inputs: ("item.json",))
async def items(run: Run, inputs: Inputs) -> Ending:
    """One item through two agents; its document says where it stands and how often it was tried."""
    item = json.loads((await run.read("item.json")).text)
    lost = item["status"] == "in_progress"
    await run.update("item.json", partial(with_fields, {"status": "in_progress"}))
    for agent in ("implement", "test"):
        await run.dispatch(Dispatch(agent, f"Work on it.\n\n{LOST if lost else ''}", step="work"))
    await run.update("item.json", partial(with_fields, {"status": "done"}))
    return Ending.complete()


@pytest.mark.req("EN-27")
def test_an_item_in_progress_without_a_journal_starts_its_pipeline_again() -> None:
    """On a new clone both agents are called again, are told that evidence is missing, and the count stays as it was."""
    first = SimulatedWorld({"item.json": '{"status": "ready", "retryCount": 1}'})

    def dies_in_test(request: AgentRequest) -> Act:
        return replace(best(request), crash=request.agent == "test")

    first.agent = dies_in_test
    with pytest.raises(Crash):
        Simulation(items, Inputs(), first).go()
    assert all(LOST not in request.brief for request in first.calls)

    clone = SimulatedWorld(dict(first.tree.files))
    assert Simulation(items, Inputs(), clone).go().exit_code == 0
    assert [request.agent for request in clone.calls] == ["implement", "test"]
    assert all(LOST in request.brief for request in clone.calls)
    assert json.loads(clone.tree.files["item.json"]) == {"status": "done", "retryCount": 1}
