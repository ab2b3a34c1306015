"""`python3 -m purse total FILE`, `python3 -m purse export FILE --month 2026-03`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from purse.entries import read, total
from purse.export import csv_text
from purse.months import of_month


def main() -> int:
    parser = argparse.ArgumentParser(prog="purse", description="Keeps expenses in a text file.")
    commands = parser.add_subparsers(dest="command", required=True)
    summing = commands.add_parser("total", help="the sum of all expenses")
    summing.add_argument("file", type=Path)
    exporting = commands.add_parser("export", help="the expenses of a month as CSV")
    exporting.add_argument("file", type=Path)
    exporting.add_argument("--month", required=True, help="such as 2026-03")
    given = parser.parse_args()
    entries = read(given.file.read_text("utf-8").splitlines())
    if given.command == "total":
        print(total(entries))
        return 0
    try:
        print(csv_text(of_month(entries, given.month)), end="")
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
