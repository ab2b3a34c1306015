"""Briefs for clients that paste a file wherever its name stands behind an "@". Looks at names in the workspace only."""

from __future__ import annotations

import re
from pathlib import Path

MENTION = re.compile(r'(?<!\\)@(?P<path>(?:"[^"]*"|\\.|[^ \t\n\r,;!?()\[\]{}.]|\.(?!\Z|[ \t\n\r]))+)')
"""What gemini takes for the name of a file that it shall paste into the prompt."""


def taken_literally(prompt: str, root: Path) -> str:
    """The prompt, written so that gemini passes it on as it is.

    A word after `@` that is the path of a file gets a backslash before it: otherwise the file, or a whole folder, is
    pasted in and the spaces of the prompt change.  A slash at the very beginning would be a command.
    """

    def kept(found: re.Match[str]) -> str:
        path = re.sub(r"\\(.)", r"\1", found["path"].replace('"', ""))
        return f"\\{found[0]}" if _stands(root / path) else found[0]

    literal = MENTION.sub(kept, prompt)
    return f"\n{literal}" if literal.startswith("/") else literal


def _stands(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or none
        return False
