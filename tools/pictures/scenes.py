"""Workspaces with real runs, played by scripted agents; no model is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.demo.workspace import make
from interlock.engine.folder import KnownRun, known_runs

REQUEST = "Export the expenses of a month as CSV, for use in a spreadsheet"
TROUBLED = "Refuse an entry whose day is not a day of the calendar, and say in which line it is"
WORKED_ON = "Round amounts to whole cents where they are read, not where they are added"
MANY = "Move all reports to the new ledger, one module at a time"
WAVES, WIDE = 10, 6

RUNNERS = f"""
[runners.troubled]
type = "scripted"
scenario = "cast/troubled.yaml"

[runners.many]
type = "scripted"
scenario = "cast/many.yaml"

[runners.speaking]
type = "acp"
program = {sys.executable!r}
args = [{str(Path(__file__).with_name("speaking.py"))!r}]
""".replace("'", '"')


def spent(number: int, cost: float) -> dict[str, Any]:
    return {"input_tokens": number * 12, "output_tokens": number, "cost_usd": cost}


BROKEN = '''
    """The entries of a file, in its order; empty lines are left out."""
    entries = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            day, amount, text = line.split(maxsplit=2)
            entries.append(Entry(checked(day, number), Decimal(amount), text.strip()))
    return entries
'''
MENDED = '''

def checked(day: str, line: int) -> date:
    """The day; a ValueError that names the line where there is no such day."""
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise ValueError(f"line {line}: {day!r} is not a day of the calendar") from None
'''


def troubled(entries: str) -> dict[str, Any]:
    """A task whose agent crashes once, breaks a test once and is sent back once."""
    head, _, rest = entries.partition('    """The entries of a file')
    _, _, tail = rest.partition("    return entries\n")
    broken = head + BROKEN.lstrip("\n") + tail
    whole = broken.replace("\n\ndef read(", f"{MENDED}\n\ndef read(")
    test = (
        "import unittest\n\nfrom purse.entries import read\n\n\nclass Days(unittest.TestCase):\n"
        '    def test_a_day_that_is_none_is_refused(self) -> None:\n        """The message has the line."""\n'
        "        with self.assertRaisesRegex(ValueError, \"line 2: '2026-02-30'\"):\n"
        '            read(["2026-02-01  1.00  Tea", "2026-02-30  1.00  Tea"])\n'
    )
    work = "tests/test_days.py"
    return {
        "reactions": [
            {"agent": "builder", "times": 1, "delay_s": 1, "misbehave": "crash", "usage": spent(900, 0.04)},
            {
                "agent": "builder",
                "times": 1,
                "delay_s": 2,
                "files": {"purse/entries.py": broken},
                "message": "DONE: Days are checked now, each with its line.",
                "usage": spent(2600, 0.21),
            },
            {
                "agent": "builder",
                "times": 1,
                "delay_s": 2,
                "files": {"purse/entries.py": whole},
                "message": "DONE: `checked` was missing; the tests pass again.",
                "usage": spent(1900, 0.17),
            },
            {
                "agent": "reviewer",
                "times": 1,
                "delay_s": 1,
                "message": json.dumps({"verdict": "revise", "findings": ["tests/: nothing tests what was asked for"]}),
                "usage": spent(700, 0.05),
            },
            {
                "agent": "builder",
                "delay_s": 2,
                "files": {"purse/entries.py": whole, work: test},
                "message": "DONE: A test has a day that is none, and expects its line in the message.",
                "usage": spent(1500, 0.12),
            },
            {"agent": "reviewer", "delay_s": 1, "usage": spent(800, 0.06)},
        ]
    }


def many() -> dict[str, Any]:
    """A feature of 60 tasks in 10 waves; two of them do not succeed at once."""
    slug = "docs/feature/move-all-reports-to-the-new-ledger"
    names = [[f"T{wave * WIDE + place:02}" for place in range(1, WIDE + 1)] for wave in range(WAVES)]
    waves = "\n".join(
        f"### Wave {number}\n\n" + "".join(f"- {name}: the report {name}\n" for name in wave)
        for number, wave in enumerate(names, 1)
    )
    files = {f"{slug}/plan.md": f"# Plan\n\nOne module at a time.\n\n## Execution Waves\n\n{waves}"}
    for wave, row in enumerate(names):
        for place, name in enumerate(row):
            needs = names[wave - 1][place] if wave else ""
            files[f"{slug}/tasks/{name}.md"] = (
                f"---\nid: {name}\ntitle: the report {name}\ndepends_on: [{needs}]\n---\n\nMove it.\n"
            )
    work = {"ledger/{member}.py": 'def report() -> str:\n    return "{member}"\n'}
    return {
        "reactions": [
            {"agent": "planner", "files": files, "usage": spent(3000, 0.3)},
            {"member": ["implementer-T09", "implementer-T31"], "times": 1, "misbehave": "crash"},
            {"member": ["implementer-*1", "implementer-*7"], "delay_s": 0.6, "files": work, "usage": spent(900, 0.07)},
            {"agent": "implementer", "delay_s": 0.1, "files": work, "usage": spent(500, 0.03)},
            {"usage": spent(700, 0.05)},
        ]
    }


def prepare(folder: Path, *, pauses: bool = True) -> Path:
    """A workspace with the agents of all scenes."""
    make(folder, pauses=pauses)
    toml = folder / "interlock.toml"
    toml.write_text(toml.read_text("utf-8") + RUNNERS, "utf-8")
    entries = (folder / "purse/entries.py").read_text("utf-8")
    for name, scenario in (("troubled", troubled(entries)), ("many", many())):
        (folder / f"cast/{name}.yaml").write_text(json.dumps(scenario), "utf-8")
    return folder


def interlock(root: Path, *words: str, environ: Mapping[str, str] | None = None) -> int:
    """The command, in a workspace; its words go to the end of a file beside it."""
    with (root.parent / f"{root.name}.log").open("ab") as log:
        command = [sys.executable, "-m", "interlock", *words, "-C", str(root)]
        env = {**os.environ, **(environ or {})}
        return subprocess.run(command, stdout=log, stderr=log, env=env, check=False).returncode


def latest(root: Path) -> KnownRun:
    return known_runs(root)[-1]


def went_well(root: Path) -> KnownRun:
    """The run of the demo."""
    interlock(root, "run", "feature", REQUEST, "--slug", "csv-export")
    return latest(root)


def had_trouble(root: Path) -> KnownRun:
    interlock(root, "run", "task", TROUBLED, "--runner", "troubled", "--check", "python3 -B -m unittest -q")
    return latest(root)


def sixty_tasks(root: Path) -> KnownRun:
    interlock(root, "run", "feature", MANY, "--slug", "move-all-reports-to-the-new-ledger", "--runner", "many")
    return latest(root)


def waits(root: Path) -> KnownRun:
    """The run of the demo, with a person to ask."""
    interlock(root, "run", "feature", REQUEST, "--slug", "csv-export", "--approval")
    return latest(root)


@contextmanager
def at_work(root: Path) -> Iterator[KnownRun]:
    """A run whose agent is at work as long as the block lasts."""
    words = ("run", "task", WORKED_ON, "--runner", "speaking", "--check", "none", "--detach")
    interlock(root, *words)
    known = latest(root)
    try:
        yield known
    finally:
        interlock(root, "cancel", known.identity.run_id)
