"""Plays the post-mortem: python3 cast/look_back.py reads the telemetry in its brief and says what it shows."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

from agent import FEATURE, answer, document, remember

Row = dict[str, str]


def main() -> int:
    brief = Path(os.environ["INTERLOCK_BRIEF"]).read_text("utf-8")
    (run_date,) = set(re.findall(rf"{FEATURE}/post-mortems/([\d-]+)-post-mortem\.md", brief))
    dispatches, clusters = table(brief, "### Agent Dispatches"), table(brief, "### Cluster Summaries")
    again = [row for row in clusters if row["Outcome"] != "DONE"]
    repeated = [row for row in dispatches if row["Retries"] != "0"]
    findings = [
        f"{len(dispatches)} dispatches; {len(again)} of {len(clusters)} cluster decisions sent work back",
        *(f"step {row['Step']}: {row['Cluster']} came to {row['Outcome']}" for row in again),
        *(f"step {row['Step']}: {row['Agent']} was called {int(row['Retries']) + 1} times" for row in repeated),
    ]
    document(
        f"post-mortems/{run_date}-post-mortem.md",
        "# Post-mortem: csv-export",
        "\n".join(f"- {finding}" for finding in findings),
        "## What to do differently",
        "- The revised design guarded every cell. A rule that was added for text reached the amounts, and no critic "
        "asked what it does to a refund.\n"
        "- The round-trip test found it within seconds. Plan such a test for every format that leaves the program.",
    )
    rows = "\n".join(
        f"  - {{agent: {row['Agent']}, step: {row['Step']!r}, status: {row['Status']}}}" for row in dispatches
    )
    document(
        f"agent-metrics/{run_date}-run-log.md",
        f"# Run log: csv-export, {run_date}",
        f"```yaml\nfeature: csv-export\nrun_date: {run_date}\ndispatches:\n{rows}\n```",
    )
    remember("post-mortem", "DONE", "N/A", findings)
    answer("DONE", findings)
    return 0


def table(text: str, title: str) -> list[Row]:
    """The rows of the table right below a heading, by column."""
    _, _, rest = text.partition(f"\n{title}\n\n")
    lines = itertools.takewhile(lambda line: line.startswith("|"), rest.splitlines())
    head, _, *body = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in body]


if __name__ == "__main__":
    sys.exit(main())
