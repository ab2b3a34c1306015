"""Plays a scene: writes its files, runs the tests that are named, and answers from its private memory.

python3 cast/play.py SCENE [TEST_MODULE ...]
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import FEATURE, answer, run

SCENES = Path(__file__).parent / "scenes"


def main(scene: str, tests: Sequence[str]) -> int:
    folder = SCENES / scene
    for part, target in (("code", Path()), ("documents", FEATURE)):
        if (folder / part).is_dir():
            shutil.copytree(folder / part, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    (memory,) = (folder / "documents" / "memory").glob("*.mem.md")
    if tests:
        ran = run("-m", "unittest", *tests)
        print(ran.shown, end="\n\n")
        if not ran.ok:
            answer("ERROR", [f"{ran.command} fails"])
            return 0
    answer("DONE", findings(memory.read_text("utf-8")))
    return 0


def findings(memory: str) -> list[str]:
    _, _, rest = memory.partition("## Key Findings")
    own, _, _ = rest.partition("\n## ")
    return [line[2:] for line in own.splitlines() if line.startswith("- ")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
