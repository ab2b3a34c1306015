r"""A program written into the human turn itself, one directive per line.

@write PATH :: CONTENT       a file (``\n`` in CONTENT is a line break)
@edit PATH :: OLD => NEW     whole lines of a file (codex knows no smaller change)
@shell COMMAND               a command line
@tool NAME {"json": 1}       any tool, literally
@say TEXT                    words: with the next call, or as the final message
@big N                       a final message of N bytes
@sleep SECONDS               a pause before the next answer
@http STATUS [MESSAGE]       an error, every time; @http_once: only the first time
@retry_after SECONDS         the header that the next @http sends along
@usage INPUT OUTPUT          tokens that each turn reports
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from interlock.errors import BadInput
from tools.model_server.conversation import Usage
from tools.model_server.steps import Edit, Program, Refuse, Say, Shell, Sleep, Spend, Step, Use, Write

# qwen takes a word after a bare at sign for the name of a file: for it, the sign comes with a backslash.
_LINE = re.compile(r"^[ \t>*-]*\\?@(?P<word>[a-z_]+)(?:[ \t]+(?P<rest>.*?))?[ \t]*$", re.MULTILINE)


class DirectiveInvalid(BadInput):
    """A directive that cannot be played."""


def program(text: str) -> Program:
    """The directives of a text, in their order; empty when it has none.

    Raises:
        DirectiveInvalid: a known word with an argument that makes no sense.
    """
    steps: list[Step] = []
    retry_after: float | None = None
    for found in _LINE.finditer(text):
        word, rest = found["word"], found["rest"] or ""
        try:
            if word == "retry_after":
                retry_after = float(rest)
            elif word in ("http", "http_once"):
                steps.append(_refusal(rest, once=word == "http_once", retry_after_s=retry_after))
                retry_after = None
            elif word in _WORDS:
                steps.append(_WORDS[word](rest))
        except ValueError as error:
            raise DirectiveInvalid(
                f"the directive @{word} cannot be read: {error}", where=found[0].strip(), found=rest or "nothing"
            ) from error
    return tuple(steps)


def _refusal(rest: str, *, once: bool, retry_after_s: float | None) -> Refuse:
    status, _, message = rest.partition(" ")
    refusal = Refuse(int(status), once=once, retry_after_s=retry_after_s)
    return Refuse(refusal.status, message, once, retry_after_s) if message else refusal


def _write(rest: str) -> Write:
    path, content = _pair(rest, "::")
    return Write(path, _broken(content) + "\n")


def _edit(rest: str) -> Edit:
    path, change = _pair(rest, "::")
    old, new = _pair(change, "=>")
    return Edit(path, _broken(old), _broken(new))


def _tool(rest: str) -> Use:
    name, _, arguments = rest.partition(" ")
    if not name:
        raise ValueError("it names no tool")
    return Use(name, json.loads(arguments or "{}"))


def _usage(rest: str) -> Spend:
    into, out = rest.split()
    return Spend(Usage(int(into), int(out)))


def _pair(rest: str, mark: str) -> tuple[str, str]:
    left, found, right = rest.partition(f" {mark}")
    if not found or not left.strip():
        raise ValueError(f"there is no {mark!r} between its two parts")
    return left.strip(), right.removeprefix(" ")


def _broken(text: str) -> str:
    return text.replace("\\n", "\n")


_WORDS: Mapping[str, Callable[[str], Step]] = {
    "write": _write,
    "edit": _edit,
    "shell": Shell,
    "tool": _tool,
    "say": lambda rest: Say(_broken(rest)),
    "big": lambda rest: Say(big_text(int(rest))),
    "sleep": lambda rest: Sleep(float(rest)),
    "usage": _usage,
}


def big_text(size: int) -> str:
    """A text of so many bytes, in lines that differ: some clients take repetition for a loop and drop it."""
    text = "".join(f"Line {number} of a long message that an agent might write.\n" for number in range(size // 40 + 1))
    return text[:size]
