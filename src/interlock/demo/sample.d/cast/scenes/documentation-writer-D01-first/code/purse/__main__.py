"""`python3 -m purse total FILE`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from purse.entries import read, total


def main() -> int:
    parser = argparse.ArgumentParser(prog="purse", description="Keeps expenses in a text file.")
    commands = parser.add_subparsers(dest="command", required=True)
    summing = commands.add_parser("total", help="adds everything up")
    summing.add_argument("file", type=Path)
    given = parser.parse_args()
    entries = read(given.file.read_text("utf-8").splitlines())
    print(total(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
