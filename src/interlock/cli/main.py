"""`interlock`: the program. `--version` is answered before anything is imported (CLI-06)."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main() -> None:
    sys.exit(answer(sys.argv[1:]))


def answer(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; the exit code."""
    if list(arguments) == ["--version"]:
        from importlib.metadata import version

        print(f"interlock {version('interlock')}")
        return 0
    from interlock.cli.failures import guarded

    return guarded(arguments)


if __name__ == "__main__":
    main()
