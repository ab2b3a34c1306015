"""Whether a call of a coding agent counts: one total function for all agents and both ways of speaking to them. Pure.

The final text and the exit status are never enough.  Some agents answer an error of their service as text, some end
with 0 when they were told to stop, some end a turn without a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from interlock.agents.coding.dialect import Conclusion
from interlock.agents.runner import Fault, Limited
from interlock.contracts import Reason


@dataclass(frozen=True)
class Settled:
    fault: Fault | None = None
    limited: Limited | None = None


def settle(
    said: Conclusion,
    *,
    code: int | None,
    timed_out: bool,
    waiting: str = "",
    last_words: str = "",
    cut: bool = False,
) -> Settled:
    """Why the call does not count, if it does not. A deadline that passed is judged elsewhere.

    Args:
        waiting: why it waited for its model service when it was last heard of. At the deadline that is a limit of the
            service, not slowness of the agent.
        last_words: the end of what it wrote to its standard error.
        cut: a line of the stream was too long to be read.
    """
    if timed_out:
        return Settled(limited=Limited(f"the deadline passed while it waited ({waiting})") if waiting else None)
    if said.trouble is not None:
        return Settled(said.trouble.fault, said.trouble.limited)
    if not said.finished:
        ending = _ending(code)
        if cut:
            return Settled(Fault(Reason.CRASHED, f"{ending}; its answer was too long to be read"))
        because = f": {last_words}" if last_words else ""
        return Settled(Fault(Reason.CRASHED, f"{ending} without reporting the end of its turn{because}"))
    if not said.text.strip() and not said.acted:
        return Settled(Fault(Reason.NO_VERDICT, "the agent ended its turn without a word and without using a tool"))
    return Settled()


def forgot_session(said: Conclusion, last_words: str) -> bool:
    """Whether a call that should go on with a session ended at once, because the agent does not know that session."""
    if said.acted or said.usage is not None:
        return False
    told = said.trouble.text if said.trouble is not None else ""
    return bool(_NO_SESSION.search(f"{told}\n{last_words}"))


_NO_SESSION: Final = re.compile(
    r"\b(no|not|invalid|unknown)\b[^\n]{0,40}\b(session|conversation|thread|rollout)"
    r"|(session|conversation|thread|rollout)\b[^\n]{0,60}\b(not found|not exist|unknown|invalid|expired|no longer)\b",
    re.IGNORECASE,
)
"""In the words of all that were tried: no conversation found, no rollout found, session not found, and so on."""


def last_line(text: str) -> str:
    """The last line that says something, cut to a readable length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _ending(code: int | None) -> str:
    if code is None:
        return "the agent ended"
    return f"the agent ended with exit status {code}" if code >= 0 else f"the agent was ended by signal {-code}"
