"""`interlock`: the program. `--version` is answered before anything is imported (CLI-06)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

VERSION = ["--version"]


def main() -> None:
    sys.exit(answer(sys.argv[1:]))


def answer(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; the exit code."""
    if list(arguments) == VERSION:
        print(version())
        return 0
    from interlock.cli.failures import guarded

    return guarded(arguments)


def version() -> str:
    from importlib.metadata import version as installed

    return f"interlock {installed('interlock')}"


if __name__ == "__main__":
    main()
