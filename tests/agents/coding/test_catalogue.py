"""One way of speaking per coding agent, and both for those whose adapter is a program of its own."""

from __future__ import annotations

import pytest

from interlock.agents.coding.acp import AcpRunner
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import KNOWN, AgentMode, KnownAgent, known, make_runner
from interlock.agents.coding.headless import HeadlessRunner
from interlock.errors import ConfigInvalid

ADAPTED = ("claude", "codex")
WAYS: tuple[AgentMode, AgentMode] = ("headless", "acp")


@pytest.mark.parametrize("agent", KNOWN, ids=lambda agent: agent.name)
def test_an_agent_is_spoken_to_in_its_way(agent: KnownAgent) -> None:
    """Where nothing is asked for; asking for just that changes nothing."""
    made = make_runner(agent.name, Configured("mine", agent.program), {})
    assert isinstance(made, AcpRunner if agent.name == "qwen" else HeadlessRunner)
    assert agent.mode_of(None, "here") == agent.mode_of(agent.mode, "here") == agent.mode
    assert agent.program_for(agent.mode) == agent.program


@pytest.mark.parametrize("name", ADAPTED)
def test_an_adapter_can_be_asked_for(name: str) -> None:
    """It is another program."""
    assert known(name).mode_of("acp", "here") == "acp"
    assert known(name).program_for("acp").endswith("-acp")


@pytest.mark.parametrize("agent", [one for one in KNOWN if one.name not in ADAPTED], ids=lambda agent: agent.name)
def test_a_way_that_was_given_up_is_refused_with_what_to_do(agent: KnownAgent) -> None:
    """Settings of earlier versions may have it."""
    (other,) = set(WAYS) - {agent.mode}
    with pytest.raises(ConfigInvalid) as caught:
        agent.mode_of(other, "interlock.toml: runners.mine.mode")
    assert agent.title in caught.value.what
    assert caught.value.where == "interlock.toml: runners.mine.mode"
    assert agent.mode in (caught.value.expected or "")
    assert "Remove" in (caught.value.remedy or "")
