"""A command that was run, and how it ended: whether that speaks against the work, shows something, or says neither."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from interlock.contracts.failures import told_failed, told_idle
from interlock.contracts.meant import proves
from interlock.contracts.words import says_failed


@dataclass(frozen=True)
class Check:
    """A command that was run, and how it ended."""

    command: str
    exit: int | None = None
    summary: str = ""
    said: str = ""
    """How it ended, where that was not said by a number."""
    meant: bool = False
    """It is said that it was to end so."""

    @property
    def ending(self) -> str:
        """How it ended, as it was said; empty where it was not."""
        return f"exit status {self.exit}" if self.exit is not None else self.said

    @property
    def shown(self) -> str:
        said = f"`{self.command}` ended with {self.ending or 'a status that is not said'}"
        return f"{said}: {self.summary}" if self.summary else said

    @property
    def red(self) -> bool:
        """It failed, by its status or by what is said beside it."""
        return (self._bad and not self.meant) or bool(told_failed(self.summary))

    @property
    def doubtful(self) -> bool:
        """It failed, which is said to be meant, but it is a check of the project."""
        return self._bad and self.meant and proves(self.command)

    @property
    def _bad(self) -> bool:
        return bool(self.exit) or bool(self.said and (says_failed(self.said) or told_failed(self.said)))

    @property
    def unclear(self) -> bool:
        """How it ended is said in a way that says neither."""
        return bool(self.said) and not self._bad and not self.red and self.exit is None

    @property
    def shows(self) -> bool:
        """It could have failed, and it is known how it ended."""
        return self.exit is not None and not self.idle and not self.meant

    @property
    def idle(self) -> str:
        """Why it shows nothing, although it ended well; empty where it does."""
        if _IDLE.fullmatch(self.command.strip()):
            return "ends well whatever happens"
        return f"ran nothing ({said})" if (said := told_idle(self.summary)) else ""


_NOTHING_DONE = r"(?:true|:|exit 0|(?:echo|printf)\b[^;&|]*)"
_IDLE = re.compile(
    rf"{_NOTHING_DONE}|.*(?:\|\||;)\s*{_NOTHING_DONE}[\s\"')]*"
    r"|\S+(?: \S+)? (?:--version|--help|--collect-only|--listTests)",
    re.DOTALL,
)


LEADING = re.compile(r"(?:exit(?:ed)?(?:[ _-]?(?:status|code))?[ :=]*)?(-?\d+)\b", re.IGNORECASE)
"""How a text begins that is a status."""


def whole(value: Any) -> int | None:
    """The number that a value is, or begins with as a status."""
    if isinstance(value, str) and (found := LEADING.match(value.strip())):
        return int(found[1][:10])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_line(text: str) -> str:
    """The text with single blanks, and no breaks."""
    return " ".join(text.split())
