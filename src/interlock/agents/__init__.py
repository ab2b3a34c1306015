"""Roles, and what calls agents: the seam (`runner`), any program (`command`), scenarios (`scripted`)."""

from interlock.agents.command import CommandRunner
from interlock.agents.environment import Redaction, agent_environment, looks_secret, redact
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.process_table import started as process_started
from interlock.agents.process_tree import ProcessTree, end_leftovers, kill_everything
from interlock.agents.roles import Role, RoleLibrary, RoleSource, parse_role
from interlock.agents.roster import BoundAgent, Roster
from interlock.agents.runner import (
    AgentExit,
    AgentNews,
    AgentRequest,
    Allowance,
    ClientNeeds,
    Enclosure,
    FileOutput,
    Health,
    MemoryOutput,
    Observer,
    Output,
    Runner,
    Usage,
)
from interlock.agents.scenario import Facts, Misbehaviour, Reaction, Scenario, react
from interlock.agents.scripted import ScriptedRunner

__all__ = [
    "AgentExit",
    "AgentNews",
    "AgentRequest",
    "Allowance",
    "BoundAgent",
    "ClientNeeds",
    "CommandRunner",
    "Enclosure",
    "Facts",
    "FileOutput",
    "Health",
    "MemoryOutput",
    "Misbehaviour",
    "Observer",
    "Output",
    "ProcessExit",
    "ProcessTree",
    "Reaction",
    "Redaction",
    "Role",
    "RoleLibrary",
    "RoleSource",
    "Roster",
    "Runner",
    "Scenario",
    "ScriptedRunner",
    "Usage",
    "agent_environment",
    "end_leftovers",
    "kill_everything",
    "looks_secret",
    "parse_role",
    "process_started",
    "react",
    "redact",
    "run_process",
]
