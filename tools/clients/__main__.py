"""`python -m tools.clients list | install [NAME ...] | record [NAME ...]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from interlock.errors import InterlockError
from tools.clients.catalogue import CLIENTS, HEADLESS, Client, cache_folder, client
from tools.clients.installing import install

STREAMS = Path(__file__).parent.parent.parent / "tests" / "agents" / "streams"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clients", description="The pinned real coding agents.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names, versions, and what is installed")
    installing = commands.add_parser("install", help="install them from npm into the cache")
    installing.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(CLIENTS)}; default: all")
    recording = commands.add_parser("record", help="take the samples for the tests of the parsers anew")
    recording.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(HEADLESS)}; default: all")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return _list()
        if options.command == "record":
            return _record([client(name) for name in options.names or HEADLESS])
        return _install([client(name) for name in options.names or CLIENTS])
    except InterlockError as error:
        print(error.what, *(f"  {label}: {text}" for label, text in error.parts()), sep="\n", file=sys.stderr)
        return error.exit_code


def _list() -> int:
    print(f"in {cache_folder()}")
    for each in CLIENTS.values():
        state = "installed" if each.installed() else "-"
        print(f"{each.name:<11} {each.version:<9} {state:<10} {each.package}")
    return 0


def _install(clients: list[Client]) -> int:
    for each in clients:
        if not each.installed():
            start = time.monotonic()
            install(each)
            print(f"{each.name}: {each.spec} installed in {time.monotonic() - start:.0f} s", flush=True)
    return 0


def _record(clients: list[Client]) -> int:
    from tools.clients.recording import record  # brings the model server along

    for each in clients:
        for sample, status in record(each.name, STREAMS).items():
            print(f"{sample}: {'no end' if status is None else f'exit {status}'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
