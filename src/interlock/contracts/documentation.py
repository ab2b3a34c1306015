"""Which files are written for people."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_DOCUMENTS = (".md", ".rst")
_READ_BY_PROGRAMS = re.compile(
    r"(CMakeLists|(.*[-_.])?(requirements|constraints)([-_.].*)?|robots|version|runtime|packages)\.txt", re.IGNORECASE
)
_WRITINGS = (
    *("AUTHORS", "CHANGELOG", "CHANGES", "CONTRIBUTING", "CONTRIBUTORS", "COPYING", "COPYRIGHT", "FAQ", "HISTORY"),
    *("INSTALL", "LICENCE", "LICENSE", "MAINTAINERS", "NEWS", "NOTICE", "README", "RELEASES", "SECURITY", "THANKS"),
)


def is_documentation(path: str) -> bool:
    """Whether a file is written for people: `*.md`, `*.rst`, `*.txt` at the root or below `docs/`, but not what is read
    by programs (`CMakeLists.txt`, `requirements.txt`)."""
    at_place = "/" not in path or path.startswith("docs/")
    if not path.endswith((*_DOCUMENTS, ".txt")) or _READ_BY_PROGRAMS.fullmatch(PurePosixPath(path).name):
        return False
    return at_place


DOCUMENTATION = (
    *(f"{place}*{suffix}" for place in ("", "docs/**/") for suffix in _DOCUMENTS),
    *(f"{name}.txt" for name in _WRITINGS),
)
"""What agents may change beside their task without being refused, as patterns of a write scope. Of `*.txt` only the
usual ones: others may be what the program is about."""
