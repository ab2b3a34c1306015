"""The states that one command passes through, and the only moves between them.

Theory of operation.  Each check of the playbook ends in a `Finding`.  `MOVES` says which finding is possible in
which state and where it leads; a finding that is not in the table for the present state is our bug and changes
nothing.  A `Walk` holds the present state.  States whose name begins with ``E_`` refuse the command: exit 2,
before any agent is started.  The diagram in the documentation is made from `MOVES` and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from interlock.errors import EngineFault


class State(StrEnum):
    EXTRACT = "Extract"
    LOOKUP = "Lookup"
    METADATA = "Metadata"
    LOAD_COMMAND = "LoadCommand"
    SESSION = "Session"
    ROUTE = "Route"
    PREPARE = "Prepare"
    REGISTERED = "Registered"
    DELEGATED = "Delegated"
    TIMED_OUT = "TimedOut"
    RETURNED = "Returned"
    RELAYED = "Relayed"
    FAILED = "Failed"
    CLEANED = "Cleaned"
    UNKNOWN = "E_unknown"
    MISSING = "E_missing"
    INVALID = "E_invalid"
    NOT_FOUND = "E_notfound"
    TASK_LIST = "E_tasklist"
    CONFIG = "E_config"
    DEPTH = "E_depth"
    AGENT = "E_agent"
    CYCLE = "E_cycle"
    CONTEXT = "E_context"

    @property
    def refuses(self) -> bool:
        return self.value.startswith("E_")


class Finding(StrEnum):
    """What a check found, in the words of the diagram."""

    UNKNOWN_COMMAND = "not one of the four commands"
    NUMBER_MISSING = "no arguments"
    NUMBER_INVALID = "first token is no positive integer"
    COMMAND_KNOWN = "command and number known"
    TASK_LIST_UNUSABLE = "task list missing, unreadable or with the number twice"
    TASK_NOT_FOUND = "no heading for the number"
    TASK_FOUND = "heading found"
    FIELDS_READ = "language, description, status read"
    COMMAND_FILE_UNUSABLE = "command file missing or frontmatter bad"
    COMMAND_FILE_READ = "routing and timeout known"
    TOO_DEEP = "depth above the maximum"
    DEPTH_FINE = "depth fine"
    NO_TARGET = "no target named"
    AGENT_NOT_FOUND = "agent file missing"
    AGENT_FILE_UNUSABLE = "agent file unreadable or its write scope bad"
    CYCLE = "target already in delegation_path"
    TARGET_KNOWN = "target found, no cycle"
    CONTEXT_TOO_LARGE = "context above the limit"
    CONTEXT_READY = "context prepared, session registered"
    STARTED = "agent started, deadline set"
    NOT_STARTED = "agent could not be started"
    ANSWERED = "agent answered in time"
    DEADLINE_PASSED = "deadline passed"
    PARTIAL_CAME = "partial result within the grace period"
    NOTHING_USABLE = "nothing usable"
    ANSWER_VALID = "session, JSON and status valid"
    ANSWER_INVALID = "session mismatch, bad JSON, unknown status, out of scope or conflict"
    CLEARED = "session closed"


START = State.EXTRACT

MOVES: Mapping[tuple[State, Finding], State] = {
    (State.EXTRACT, Finding.UNKNOWN_COMMAND): State.UNKNOWN,
    (State.EXTRACT, Finding.NUMBER_MISSING): State.MISSING,
    (State.EXTRACT, Finding.NUMBER_INVALID): State.INVALID,
    (State.EXTRACT, Finding.TASK_NOT_FOUND): State.NOT_FOUND,  # a number with more digits than any heading
    (State.EXTRACT, Finding.COMMAND_KNOWN): State.LOOKUP,
    (State.LOOKUP, Finding.TASK_LIST_UNUSABLE): State.TASK_LIST,
    (State.LOOKUP, Finding.TASK_NOT_FOUND): State.NOT_FOUND,
    (State.LOOKUP, Finding.TASK_FOUND): State.METADATA,
    (State.METADATA, Finding.FIELDS_READ): State.LOAD_COMMAND,
    (State.LOAD_COMMAND, Finding.COMMAND_FILE_UNUSABLE): State.CONFIG,
    (State.LOAD_COMMAND, Finding.COMMAND_FILE_READ): State.SESSION,
    (State.SESSION, Finding.TOO_DEEP): State.DEPTH,
    (State.SESSION, Finding.DEPTH_FINE): State.ROUTE,
    (State.ROUTE, Finding.NO_TARGET): State.CONFIG,
    (State.ROUTE, Finding.COMMAND_FILE_UNUSABLE): State.CONFIG,
    (State.ROUTE, Finding.CYCLE): State.CYCLE,
    (State.ROUTE, Finding.AGENT_NOT_FOUND): State.AGENT,
    (State.ROUTE, Finding.AGENT_FILE_UNUSABLE): State.CONFIG,
    (State.ROUTE, Finding.TARGET_KNOWN): State.PREPARE,
    (State.PREPARE, Finding.CONTEXT_TOO_LARGE): State.CONTEXT,
    (State.PREPARE, Finding.CONTEXT_READY): State.REGISTERED,
    (State.REGISTERED, Finding.NOT_STARTED): State.FAILED,
    (State.REGISTERED, Finding.STARTED): State.DELEGATED,
    (State.DELEGATED, Finding.ANSWERED): State.RETURNED,
    (State.DELEGATED, Finding.DEADLINE_PASSED): State.TIMED_OUT,
    (State.TIMED_OUT, Finding.PARTIAL_CAME): State.RETURNED,
    (State.TIMED_OUT, Finding.NOTHING_USABLE): State.FAILED,
    (State.RETURNED, Finding.ANSWER_VALID): State.RELAYED,
    (State.RETURNED, Finding.ANSWER_INVALID): State.FAILED,
    (State.RELAYED, Finding.CLEARED): State.CLEANED,
    (State.FAILED, Finding.CLEARED): State.CLEANED,
}


class Walk:
    """The present state of one command; it changes only along `MOVES`."""

    def __init__(self) -> None:
        self.state = START

    def go(self, *findings: Finding) -> State:
        """Follow the findings one after the other; the state they lead to."""
        for finding in findings:
            if (self.state, finding) not in MOVES:
                raise EngineFault(
                    f"the router found {finding.value!r} in state {self.state}, where that cannot be", where=self.state
                )
            self.state = MOVES[self.state, finding]
        return self.state


def diagram() -> str:
    """`MOVES` as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    lines += [f"    {before} --> {after}: {finding}" for (before, finding), after in MOVES.items()]
    leaving = {before for before, _ in MOVES}
    lines += [f"    {state} --> [*]" for state in State if state not in leaving]
    return "\n".join(lines)
