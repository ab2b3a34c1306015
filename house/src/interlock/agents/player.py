"""Does in a layer what a scripted agent is told to do, by JSON on standard input.

A program of its own, started inside of the layer as `python -I -S player.py`: nothing but the standard library.

    root      where paths count from
    delay     seconds before anything else
    files     [[path, text], ...]
    say       the final message
    exit      the exit status
    then      "hang", "crash" (by a signal, half of the work written), "huge_output" (60 MB); all else is nothing more
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_LINE = "The scripted agent talks and talks and talks.\n"
_HUGE = 60_000_000


def play(order: dict[str, Any]) -> int:
    """Does it all; OSError for what cannot be written."""
    time.sleep(order["delay"])
    files, text = order["files"], order["say"]
    if order["then"] == "crash":
        files = files[: (len(files) + 1) // 2]
        files = [*files[:-1], *([path, text[: len(text) // 2]] for path, text in files[-1:])]
        text = text[: len(text) // 2]
    for path, content in files:
        place = Path(order["root"], path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8", newline="")
    while order["then"] == "hang":
        signal.pause()
    if order["then"] == "huge_output":
        sys.stdout.write(_LINE * (_HUGE // len(_LINE) + 1))
    sys.stdout.write(text)
    sys.stdout.flush()
    if order["then"] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return int(order["exit"])


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        sys.exit(play(json.loads(sys.stdin.buffer.read())))
    except OSError as error:
        print(f"The scripted agent cannot do this: {error}")
        sys.exit(1)
