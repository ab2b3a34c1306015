"""The docs commit holds what the Initializer wrote, and nothing that a person did to the documentation meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine import CommandResult, Status
from interlock.playbooks.ticket.rehearsing import PROJECT, checks, graph, task
from tests.playbooks.ticket.conftest import Bench

STYLE, ARCHITECTURE = "docs/CODE_STYLE.md", "docs/ARCHITECTURE.md"


def edits_while_it_builds(bench: Bench, path: str, text: str) -> None:
    """A person writes this while the engine's own build runs: behind the git gate, before the commit."""

    def tool(call: Any, files: Any) -> CommandResult:
        if bench.called:
            bench.put(path, text)
        return checks(call, files)

    bench.tool = tool


def committed(bench: Bench) -> dict[str, bytes]:
    return bench.git.files


@pytest.mark.req("TK-159")
def test_a_document_that_a_person_changed_behind_the_gate_stays_uncommitted(bench: Bench) -> None:
    """The Initializer did not write it: it is in the tree as the person left it, and in no commit."""
    bench.tasks = graph(task("T1"), task("T3"))
    bench.changes["Initializer"] = lambda _request, act: type(act)(
        {path: f"# renewed\n\n{path}\n" if path == ARCHITECTURE else text for path, text in act.files.items()},
        act.message,
    )
    edits_while_it_builds(bench, STYLE, "# mine\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.git.messages[0].startswith("docs(ABC-12)")
    assert b"renewed" in committed(bench)[ARCHITECTURE]
    assert committed(bench)[STYLE] == bench.files[STYLE].encode()
    assert bench.text(STYLE) == "# mine\n"
    assert bench.git.uncommitted() == {STYLE: " M"}


@pytest.mark.req("TK-158", "TK-159")
def test_a_written_document_that_a_person_changed_since_is_the_persons(bench: Bench) -> None:
    """Written at the start, edited by a person, not renewed in the end: it stays out; the others are committed."""
    bench.files = dict(PROJECT)
    edits_while_it_builds(bench, STYLE, "# mine\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Initializer") == 2
    assert bench.git.messages[0].startswith("docs(ABC-12)")
    assert ARCHITECTURE in committed(bench)
    assert STYLE not in committed(bench)
    assert bench.text(STYLE) == "# mine\n"
    assert set(bench.progress["docs_written"]) >= {ARCHITECTURE, STYLE}
    left = [data["text"] for data in bench.events("warning") if data["text"].startswith("not committed")]
    assert left == [f"not committed: {STYLE}"]  # what the docs commit will hold is not left


def test_what_the_first_refresh_wrote_is_committed_though_the_last_one_wrote_nothing(bench: Bench) -> None:
    """Both refreshes of a ticket count."""
    bench.files = dict(PROJECT)
    rounds = [0]

    def once(_request: Any, act: Any) -> Any:
        rounds[0] += 1
        return act if rounds[0] == 1 else type(act)({p: t for p, t in act.files.items() if p.endswith(".yaml")}, "x")

    bench.changes["Initializer"] = once
    assert bench.play().status is Status.COMPLETE
    assert {STYLE, ARCHITECTURE, "docs/FINDINGS.md"} <= set(committed(bench))
