"""Does to a workspace what a scripted agent does: also as a program of its own, which is how it gets into a layer.

It is handed to an interpreter as text, with an order on standard input: nothing but the standard library is used.
"""

from __future__ import annotations

import base64
import errno
import json
import sys
from pathlib import Path
from typing import Any


def order(root: Path, files: Any, append: Any, delete: Any) -> str:
    """What to do, as the program reads it; files and additions are pairs of a path and bytes."""
    given = {"files": files, "append": append}
    contents = {
        name: [(path, base64.b64encode(content).decode()) for path, content in pairs] for name, pairs in given.items()
    }
    return json.dumps({"root": str(root), "delete": list(delete), **contents})


def play(text: str) -> None:
    """Does it; OSError for what cannot be done, and for a path that a link leads out of the workspace."""
    told = json.loads(text)
    root = Path(told["root"])
    for mode, contents in (("wb", told["files"]), ("ab", told["append"])):
        for path, content in contents:
            place = _inside(root, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open(mode) as file:
                file.write(base64.b64decode(content))
    for path in told["delete"]:
        _inside(root, path).unlink(missing_ok=True)


def _inside(root: Path, path: str) -> Path:
    place = root / path
    if not place.resolve().is_relative_to(root.resolve()):
        raise OSError(errno.EPERM, "a link leads out of the workspace", path)
    return place


def main() -> int:
    try:
        play(sys.stdin.read())
    except OSError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
