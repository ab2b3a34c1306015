"""Plays the verifiers, by really verifying: python3 cast/verify.py v-build | v-tests | v-tasks | v-feature"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from agent import FEATURE, Ran, answer, document, remember, run

MONTH = "2026-03"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what is wrong with it; empty: nothing."""

    what: str
    wrong: str = ""
    seen: str = ""
    """Evidence, as Markdown."""


def build() -> list[Check]:
    """Every module compiles, and the program starts."""
    checks = []
    for path in sorted((*Path("purse").glob("*.py"), *Path("tests").glob("*.py"))):
        try:
            compile(path.read_text("utf-8"), str(path), "exec")
        except SyntaxError as error:
            checks.append(Check(f"{path} compiles", f"{path}: {error}"))
    ran = run("-m", "purse", "--help")
    return [*checks, Check("the program starts", "" if ran.ok else f"{ran.command} fails", ran.shown)]


def tests() -> list[Check]:
    """The whole test suite passes."""
    ran = run("-m", "unittest")
    failed = re.findall(r"^(?:FAIL|ERROR): (\w+) ", ran.output, re.MULTILINE)
    why = re.findall(r"^(\w*(?:Error|Exception|InvalidOperation)\b.*)$", ran.output, re.MULTILINE)
    wrong = "" if ran.ok else f"{', '.join(failed) or 'the test run'} fails: {why[-1] if why else 'see the output'}"
    return [Check("all tests pass", wrong, ran.shown)]


def tasks() -> list[Check]:
    """What each task of the plans was to write is there."""
    checks = []
    for path in sorted((FEATURE / "tasks").glob("*.md")):
        found = re.search(r"^files: \[(.*)\]$", path.read_text("utf-8"), re.MULTILINE)
        files = [one.strip() for one in found[1].split(",")] if found else []
        gone = [one for one in files if not Path(one).is_file()]
        checks.append(Check(f"{path.stem} wrote {', '.join(files)}", f"{path.stem}: {gone} missing" if gone else ""))
    return checks


def feature() -> list[Check]:
    """The acceptance criteria of feature.md hold for the sample file."""
    ran = run("-m", "purse", "export", "expenses.txt", "--month", MONTH)
    if not ran.ok:
        return [Check("A1: the export runs", f"{ran.command} fails", ran.shown)]
    rows = list(csv.DictReader(io.StringIO(ran.output)))
    expected = [line.split(maxsplit=2) for line in Path("expenses.txt").read_text("utf-8").splitlines()]
    expected = [one for one in expected if one[0].startswith(MONTH)]
    refused = run("-m", "purse", "export", "expenses.txt", "--month", "March")
    return [
        Check("A1: a header, and the entries of the month", _rows(rows, expected), ran.shown),
        Check("A2: the amounts add up", _sum(rows, expected)),
        Check("A3: no text is taken for a formula", _formulas(rows)),
        Check("A4: a wrong month is refused with exit code 2", _refused(refused), refused.refused.shown),
    ]


Row = Mapping[str, str]


def _rows(rows: list[Row], expected: list[list[str]]) -> str:
    days = [row.get("day") for row in rows]
    return "" if days == [day for day, _, _ in expected] else f"A1: the days are {days}"


def _sum(rows: list[Row], expected: list[list[str]]) -> str:
    try:
        found = sum((Decimal(row["amount"]) for row in rows), Decimal())
    except InvalidOperation:
        return f"A2: the amount {next(row['amount'] for row in rows if not _is_number(row['amount']))} is not a number"
    right = sum((Decimal(amount) for _, amount, _ in expected), Decimal())
    return "" if found == right else f"A2: the amounts add up to {found}, not {right}"


def _formulas(rows: list[Row]) -> str:
    risky = [row["text"] for row in rows if row["text"].startswith(("=", "+", "-", "@"))]
    return f"A3: {risky[0]!r} is taken for a formula" if risky else ""


def _refused(ran: Ran) -> str:
    return "" if ran.code == 2 else f"A4: {ran.command} ends with exit code {ran.code}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


VERIFIERS: Mapping[str, Callable[[], list[Check]]] = {
    "v-build": build,
    "v-tests": tests,
    "v-tasks": tasks,
    "v-feature": feature,
}


def main(name: str) -> int:
    checks, claim = VERIFIERS[name](), str(VERIFIERS[name].__doc__)
    wrong = [one for one in checks if one.wrong]
    rejected = "ERROR" if name == "v-build" else "NEEDS_REVISION"
    status, severity = (rejected, "FAIL") if wrong else ("DONE", "PASS")
    findings = [one.wrong for one in wrong] or [claim.rstrip(".")]
    document(
        f"verification/{name}.md",
        f"# Checked: {claim}",
        "\n".join(f"- {'NO ' if one.wrong else 'yes'}  {one.what}" for one in checks),
        *(f"### Major: {one.what}: no\n\n{one.wrong}" for one in wrong),
        "## Evidence",
        *([one.seen for one in checks if one.seen] or ["Nothing to run: this looks at files only."]),
    )
    remember(name, status, severity, findings)
    for one in checks:
        if one.seen:
            print(one.seen, end="\n\n")
    answer(status, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
