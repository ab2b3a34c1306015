"""The engine: verbs, journal, replay, and the simulated twin.

What a playbook needs is here; the rest is between the engine and the doors.  Names are loaded when they are first
used, because `interlock runs` must not wait for everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.agents.runner import AgentRequest
    from interlock.engine.asking import CHECK, Asked, Asking, Option
    from interlock.engine.checks import Checks, Named, Proof, named_commands
    from interlock.engine.definition import AfterComplete, Past, Playbook, playbook
    from interlock.engine.examination import BYPRODUCTS
    from interlock.engine.excerpts import Edit
    from interlock.engine.exploration import (
        ALWAYS,
        CRASH,
        ENDS,
        LIARS,
        STANDARD,
        Deviation,
        Invariant,
        Played,
        Rehearsal,
        explore,
    )
    from interlock.engine.model import (
        APPROVE,
        DEADLINE,
        REJECT,
        SESSION,
        TIMEOUT,
        Changed,
        Choice,
        CommandResult,
        Delegation,
        Dispatch,
        Ending,
        GateDecision,
        Kind,
        Quoted,
        Report,
        Retries,
        Status,
        Stop,
    )
    from interlock.engine.options import Options
    from interlock.engine.run import KEY, Run
    from interlock.engine.simulation import Act, SimulatedWorld, Simulation, best
    from interlock.engine.tables import Table
    from interlock.telemetry import waiting_gate
    from interlock.workspace import Scope

_HOMES = {
    "model": (
        "APPROVE DEADLINE REJECT SESSION TIMEOUT Changed Choice CommandResult Delegation Dispatch Ending GateDecision "
        "Kind Quoted Report Retries Status Stop"
    ),
    "checks": "Checks Named Proof named_commands",
    "asking": "CHECK Asked Asking Option",
    "definition": "AfterComplete Past Playbook playbook",
    "excerpts": "Edit",
    "run": "KEY Run",
    "simulation": "Act SimulatedWorld Simulation best",
    "exploration": "ALWAYS CRASH ENDS LIARS STANDARD Deviation Invariant Played Rehearsal explore",
    "examination": "BYPRODUCTS",
    "options": "Options",
    "tables": "Table",
}
_HOME = {name: f"interlock.engine.{home}" for home, names in _HOMES.items() for name in names.split()}
_HOME["waiting_gate"] = "interlock.telemetry"
_HOME["Scope"] = "interlock.workspace"
_HOME["AgentRequest"] = "interlock.agents.runner"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


__all__ = [
    "ALWAYS",
    "APPROVE",
    "BYPRODUCTS",
    "CHECK",
    "CRASH",
    "DEADLINE",
    "ENDS",
    "KEY",
    "LIARS",
    "REJECT",
    "SESSION",
    "STANDARD",
    "TIMEOUT",
    "Act",
    "AfterComplete",
    "AgentRequest",
    "Asked",
    "Asking",
    "Changed",
    "Checks",
    "Choice",
    "CommandResult",
    "Delegation",
    "Deviation",
    "Dispatch",
    "Edit",
    "Ending",
    "GateDecision",
    "Invariant",
    "Kind",
    "Named",
    "Option",
    "Options",
    "Past",
    "Playbook",
    "Played",
    "Proof",
    "Quoted",
    "Rehearsal",
    "Report",
    "Retries",
    "Run",
    "Scope",
    "SimulatedWorld",
    "Simulation",
    "Status",
    "Stop",
    "Table",
    "best",
    "explore",
    "named_commands",
    "playbook",
    "waiting_gate",
]
