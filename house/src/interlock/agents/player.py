"""Does in a layer what a scripted agent is told to do, by JSON on standard input.

A program of its own, started inside of the layer as `python -I -S player.py`: nothing but the standard library.

    root                     where paths count from
    delay                    seconds before anything else
    files, append            [[path, text], ...]
    delete                   [path, ...]
    run                      shell commands, in order up to the first that fails
    say, otherwise           the final message; `otherwise` if a command failed (null: its exit status is ours)
    exit                     the exit status
    account                  [path, text]: written at the end, where somebody looks who is not the agent
    then                     "hang", "crash" (by a signal, half of the work written) or "huge" (60 MB), or ""
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUN = "{run}"
"""In a message: the end of what the commands printed."""
_SHOWN = 4000
_LINE = "The scripted agent talks and talks and talks.\n"
_HUGE = 60_000_000


def play(order: dict[str, Any]) -> int:
    """Does it all; OSError for what cannot be written."""
    time.sleep(order["delay"])
    root = Path(order["root"])
    files, said = order["files"], order["say"]
    if order["then"] == "crash":
        files = files[: (len(files) + 1) // 2]
        files = [*files[:-1], *([path, text[: len(text) // 2]] for path, text in files[-1:])]
        _write(root, files, "w")
        sys.stdout.write(said[: len(said) // 2])
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    _write(root, files, "w")
    _write(root, order["append"], "a")
    for path in order["delete"]:
        (root / path).unlink(missing_ok=True)
    if order["then"] == "hang":
        while True:
            signal.pause()
    exit_, printed = _run(order["run"])
    if exit_ and order["otherwise"] is not None:
        exit_, said = 0, order["otherwise"]
    if order["then"] == "huge":
        for _ in range(_HUGE // len(_LINE) + 1):
            sys.stdout.write(_LINE)
    sys.stdout.write(said.replace(RUN, printed))
    _write(root, [order["account"]], "w")
    return exit_ or int(order["exit"])


def _write(root: Path, contents: list[Any], mode: str) -> None:
    for path, text in contents:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open(mode, encoding="utf-8", newline="") as file:
            file.write(text)


def _run(commands: list[str]) -> tuple[int, str]:
    """The first exit status that is not 0, and the end of what was printed."""
    printed = ""
    for command in commands:
        ran = subprocess.run(
            command, shell=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        printed += ran.stdout.decode(errors="replace")
        if ran.returncode:
            return (ran.returncode if ran.returncode > 0 else 128 - ran.returncode), printed[-_SHOWN:]
    return 0, printed[-_SHOWN:]


def main() -> int:
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        return play(json.loads(sys.stdin.buffer.read()))
    except OSError as error:
        print(f"The scripted agent cannot do this: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
