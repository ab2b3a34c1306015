"""What can be wrong with a ticket's request or documents, in the exact words that people are told."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.errors import BadInput

MIXED = (
    "ERROR: Mixed artifact model detected. Migrate legacy task state into tasks.yaml and remove legacy derived "
    "artifacts before resume. STOPPING."
)
DEFERRED = "ERROR: Planner deferred research — violates NO RESEARCH DEFERRAL rule. STOPPING."
MOST_ITERATIONS = "MAXIMUM ITERATIONS REACHED (5/5). STOPPING."


class TicketError(BadInput):
    """The ticket cannot be worked on as things are."""


def no_ticket(request: str) -> TicketError:
    return TicketError(
        "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING.",
        where="request",
        expected="a ticket id, capital letters, a hyphen, digits",
        found=repr(request[:200]),
        remedy="Put the id into the request, or give it with --jira ABC-123.",
    )


def not_a_ticket(given: str) -> TicketError:
    return TicketError(
        f"ERROR: {given!r} is no JIRA ID (expected a pattern like ABC-123). STOPPING.",
        where="--jira",
        expected="capital letters, a hyphen, digits",
        found=repr(given),
    )


def several_tickets(found: Sequence[str]) -> TicketError:
    return TicketError(
        f"ERROR: Several JIRA IDs found: {', '.join(found)}. Use --jira.",
        where="request",
        remedy=f"Say which one is meant, for example: --jira {found[0]}",
    )


def not_a_repository(path: str) -> TicketError:
    return TicketError(
        f"ERROR: not a git repository: {path}",
        where=path,
        remedy="Start it in a git repository, or make one with: git init",
    )


def no_test() -> TicketError:
    return TicketError(
        "ERROR: no build/test command found; give --build and --test",
        where="project files",
        expected="a project file that says how to test",
        found="no test command",
        remedy="Give it with --test, or in [ticket] of interlock.toml; --test none if there is nothing to test.",
    )


def no_base(name: str) -> TicketError:
    return TicketError(
        f"ERROR: there is no branch or commit {name!r} to begin from. STOPPING.",
        where="--base",
        remedy="Name one that git knows: git branch --all",
    )


def bad_branch(name: str) -> TicketError:
    return TicketError(
        f"ERROR: a branch cannot be called {name!r}. STOPPING.",
        where="interlock.toml, [ticket] branch",
        remedy="Change the template; {type}, {kind}, {ticket} and {slug} are filled in.",
    )


def other_request(ticket: str, known: str, *, accepted: bool) -> TicketError:
    state = "is accepted already" if accepted else "was begun"
    return TicketError(
        f"ERROR: {ticket} {state}, with another request. STOPPING.",
        where="request",
        expected=known,
        remedy="For the new request: give it another ticket id, or start over with --fresh.",
    )


def bad_progress(path: str, line: int | None, why: str) -> TicketError:
    place = f"line {line}" if line else why
    return TicketError(
        f"ERROR: progress.yaml is not valid YAML: {place}. Restore it from tmp/progress.bak.yaml or start over with "
        "--fresh.",
        where=path if line is None else f"{path}:{line}",
        found=why,
    )


def progress_field(path: str, field: str, problem: str) -> TicketError:
    return TicketError(
        f"ERROR: progress.yaml: {field} {problem}",
        where=path,
        remedy="Restore it from tmp/progress.bak.yaml or start over with --fresh.",
    )


def mixed_artifacts(paths: Sequence[str]) -> TicketError:
    return TicketError(
        MIXED,
        where=", ".join(paths),
        found=", ".join(paths),
        remedy="Nothing was deleted. Bring the state over into tasks.yaml, move these files away, and start again.",
    )


def branch_gone(branch: str, why: str = "does not exist") -> TicketError:
    return TicketError(
        f"ERROR: branch {branch} {why}; cannot resume",
        where=branch,
        remedy=f"Make the branch available again (git branch {branch} COMMIT), or start over with --fresh.",
    )


def bad_document(path: str, problem: str) -> TicketError:
    return TicketError(f"ERROR: {path.rsplit('/', 1)[-1]}: {problem}", where=path)


def started_by_agent() -> TicketError:
    return TicketError(
        "ERROR: the ticket playbook is started by a person, not by an agent. STOPPING.",
        where="INTERLOCK_DISPATCH",
        expected="a start from a terminal or a program of the user's",
        found="a start from within a dispatch",
    )
