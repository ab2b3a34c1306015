"""The engine: verbs, journal, replay, and the simulated twin.

What a playbook needs is here, and what its tests need in `interlock.testing`; the rest is between the engine and the
doors.  Names are loaded when they are first used, because `interlock runs` must not wait for everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.agents.runner import AgentRequest
    from interlock.contracts.toolchains import NONE, PROJECT_FILES, Command, Commands
    from interlock.engine.asking import CHECK, Asked, Asking, Option
    from interlock.engine.brief import fence, fenced, named, quoted
    from interlock.engine.checks import (
        UNCOMPARED,
        Checks,
        NamedCommand,
        Proof,
        find_commands,
        named_commands,
        require_agents,
    )
    from interlock.engine.definition import AfterComplete, Past, Playbook, playbook
    from interlock.engine.dispatch import failure_context
    from interlock.engine.document_verbs import Edit
    from interlock.engine.examination import BYPRODUCTS
    from interlock.engine.facts import changed_since, dispatch_facts, is_guarded, place_of, project, snapshot
    from interlock.engine.journal import Line
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
    from interlock.engine.prompts import Prompt
    from interlock.engine.run import Run, pause, wait, within_time
    from interlock.engine.tables import Table
    from interlock.engine.world import CommandCall, Documents
    from interlock.workspace import Done, RepositoryStanding, Scope, listing_digest

__getattr__ = lazily(
    __name__,
    {
        "model": (
            "APPROVE DEADLINE REJECT SESSION TIMEOUT Changed Choice CommandResult Delegation Dispatch Ending "
            "GateDecision Kind Quoted Report Retries Status Stop"
        ),
        "brief": "fence fenced named quoted",
        "checks": "UNCOMPARED Checks NamedCommand Proof find_commands named_commands require_agents",
        "asking": "CHECK Asked Asking Option",
        "definition": "AfterComplete Past Playbook playbook",
        "dispatch": "failure_context",
        "document_verbs": "Edit",
        "journal": "Line",
        "prompts": "Prompt",
        "run": "Run pause wait within_time",
        "examination": "BYPRODUCTS",
        "facts": "changed_since dispatch_facts is_guarded place_of project snapshot",
        "options": "Options",
        "tables": "Table",
        "interlock.contracts.toolchains": "NONE PROJECT_FILES Command Commands",
        "world": "CommandCall Documents",
        "interlock.workspace": "Done Scope RepositoryStanding listing_digest",
        "interlock.agents.runner": "AgentRequest",
    },
)

__all__ = [
    "APPROVE",
    "BYPRODUCTS",
    "CHECK",
    "DEADLINE",
    "NONE",
    "PROJECT_FILES",
    "REJECT",
    "SESSION",
    "TIMEOUT",
    "UNCOMPARED",
    "AfterComplete",
    "AgentRequest",
    "Asked",
    "Asking",
    "Changed",
    "Checks",
    "Choice",
    "Command",
    "CommandCall",
    "CommandResult",
    "Commands",
    "Delegation",
    "Dispatch",
    "Documents",
    "Done",
    "Edit",
    "Ending",
    "GateDecision",
    "Kind",
    "Line",
    "NamedCommand",
    "Option",
    "Options",
    "Past",
    "Playbook",
    "Prompt",
    "Proof",
    "Quoted",
    "Report",
    "RepositoryStanding",
    "Retries",
    "Run",
    "Scope",
    "Status",
    "Stop",
    "Table",
    "changed_since",
    "dispatch_facts",
    "failure_context",
    "fence",
    "fenced",
    "find_commands",
    "is_guarded",
    "listing_digest",
    "named",
    "named_commands",
    "pause",
    "place_of",
    "playbook",
    "project",
    "quoted",
    "require_agents",
    "snapshot",
    "wait",
    "within_time",
]
