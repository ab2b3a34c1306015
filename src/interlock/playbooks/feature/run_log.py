"""What step 8 hands over and keeps: the telemetry of a run, its log, and documents that only ever grow."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interlock.documents import render_yaml

NONE = "—"


@dataclass(frozen=True)
class Returned:
    """One return of one agent, with what the journal's own telemetry does not know."""

    key: str
    agent: str
    step: str
    pattern: str
    status: str
    retries: int
    failure: str = ""
    iteration: int = 1
    human: bool = False


@dataclass(frozen=True)
class ClusterSummary:
    step: str
    cluster: str
    dispatched: int
    errors: int
    outcome: str


def telemetry(
    slug: str,
    run_date: str,
    returns: Sequence[Returned],
    clusters: Sequence[ClusterSummary],
    facts: Sequence[Mapping[str, Any]],
) -> str:
    """The telemetry of a run in the form that the post-mortem agent gets. `facts`: rows of the journal."""
    ended = {row["key"]: row["ended_at"] for row in facts}
    dispatches = [
        (
            one.agent,
            one.step,
            one.pattern,
            one.status,
            str(one.retries),
            one.failure or NONE,
            str(one.iteration),
            "yes" if one.human else "no",
            ended.get(one.key, NONE),
        )
        for one in returns
    ]
    head = f"## Dispatch Telemetry\n\n**Feature:** {slug}\n**Run Date:** {run_date}\n"
    columns = ("Agent", "Step", "Pattern", "Status", "Retries", "Failure", "Iteration", "Human", "Timestamp")
    summaries = [(one.step, one.cluster, str(one.dispatched), str(one.errors), one.outcome) for one in clusters]
    return "\n".join(
        [
            head,
            "### Agent Dispatches\n",
            _table(columns, dispatches),
            "",
            "### Cluster Summaries\n",
            _table(("Step", "Cluster", "Dispatched", "Errors", "Outcome"), summaries),
        ]
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def run_log(
    slug: str,
    run_date: str,
    outcome: str,
    returns: Sequence[Returned],
    clusters: Sequence[ClusterSummary],
    facts: Sequence[Mapping[str, Any]],
) -> str:
    """The run log as the engine writes it where no agent did: the telemetry as YAML in a fence."""
    ended = {row["key"]: row for row in facts}
    data = {
        "feature": slug,
        "run_date": run_date,
        "outcome": outcome,
        "dispatches": [
            {
                **{name: value for name, value in asdict(one).items() if name != "key"},
                "timestamp": ended.get(one.key, {}).get("ended_at", ""),
                "seconds": ended.get(one.key, {}).get("seconds", 0.0),
            }
            for one in returns
        ],
        "clusters": [asdict(one) for one in clusters],
    }
    return f"# Run log: {slug}, {run_date}\n\n```yaml\n{render_yaml(data).rstrip()}\n```\n"


def free_date(day: str, taken: Collection[str]) -> str:
    """The day, with `-2`, `-3` ... behind it for further runs; `taken`: names of run logs and post-mortems."""
    number, name = 1, day
    while any(one.rsplit("/", 1)[-1] in (f"{name}-run-log.md", f"{name}-post-mortem.md") for one in taken):
        number += 1
        name = f"{day}-{number}"
    return name


def grown(now: str, old: str, new: str) -> str:
    """The document as it is now with what an agent added to it behind it.

    Args:
        old: as it was before the agent began.
        new: the agent's version; of one that does not begin with the document only the new lines count.
    """
    for begun in sorted((now, old), key=len, reverse=True):
        if new.startswith(begun):
            added = new[len(begun) :]
            between = "\n" if now and not now.endswith("\n") and not added.startswith("\n") else ""
            return now + between + added if added.strip() else now
    before, after, there = old.splitlines(), new.splitlines(), set(now.splitlines())
    lines = [
        line
        for kind, _, _, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind in ("insert", "replace")
        for line in after[start:end]
        if not line.strip() or line not in there
    ]
    text = "\n".join(lines).strip("\n")
    return f"{now.rstrip(chr(10))}\n\n{text}\n" if text else now


def plain(text: str) -> str:
    """A document's text as documents are read: no byte order mark, lines ended by LF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
