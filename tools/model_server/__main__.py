"""`python -m tools.model_server [--port N] [--script FILE]`: serves until Ctrl-C, and prints its URL."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from interlock.errors import InterlockError
from tools.model_server.serving import serving

STOP = frozenset({signal.SIGINT, signal.SIGTERM})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.model_server", description="A scripted model on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free one")
    parser.add_argument("--script", type=Path, help="rules (YAML or JSON); without it, directives in the prompt")
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # before there are threads: they inherit it
    try:
        with serving(options.script, options.port) as server:
            print(server.url, flush=True)
            signal.sigwait(STOP)
    except InterlockError as error:
        print(f"{error.what} ({error.where})", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
