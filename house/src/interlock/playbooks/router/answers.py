"""What an agent returned: its status, and whether it can be relayed. The answer itself is never touched. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.playbooks.router.decisions import Came, escaped

STATUSES = ("completed", "partial", "failed", "blocked")
_STATUS = re.compile(r"Status:[ \t]*(.*?)[.\s]*", re.IGNORECASE)


class Ran(Form):
    command: str
    exit: int


class Answer(Form):
    """The object that a command with `returns: json` expects."""

    status: Literal["completed", "partial", "failed", "blocked"]
    session_id: str = ""
    summary: str = ""
    artifacts: list[str] = []
    errors: list[str] = []
    verification: list[Ran] = []


class _Told(Form):
    """The same, whatever somebody put there."""

    status: Any = None
    session_id: Any = None
    errors: Any = None
    verification: Any = None


class Return(Form):
    """What a return amounts to."""

    came: Came
    why: str = ""
    answer: str = ""
    """It, where the client gave it as an object beside its text."""


def read(returns: str, agent: str, session: str, given: Given) -> Return | Unusable:
    """What the return amounts to, or why it cannot be relayed.

    Args:
        session: whose answer it has to be.
    """
    told = read_form(_Told, given.structured, given.text)
    if isinstance(told, Unusable) and returns == "json":
        return Unusable(problems=(f"{agent} returned invalid JSON ({'; '.join(told.problems)})",))
    if not isinstance(told, _Told) or (told.status is None and returns == "text"):
        return _text(agent, given.text, late=given.late)
    if told.status not in STATUSES:
        return _bad(agent, told.status)
    if told.session_id not in (None, "", session):
        return Unusable(problems=(f"answer belongs to session {escaped(str(told.session_id))}, expected {session}",))
    against = list(_against(told))
    structured = json.dumps(given.structured, ensure_ascii=False) if given.structured is not None else ""
    if told.status == "completed" and against:
        return Return(came=Came.FAILED, why=f"it says completed, but: {'; '.join(against)}", answer=structured)
    return Return(came=_came(told.status, late=given.late), answer=structured)


def _text(agent: str, text: str, *, late: bool) -> Return | Unusable:
    """Words; their last line may say how it ended, a status elsewhere is quoted."""
    if not text.strip():
        return Unusable(problems=(f"{agent} returned no answer",))
    last = text.rstrip().rpartition("\n")[2][-10_000:]
    found = _STATUS.fullmatch(last.replace("*", "").replace("`", "").strip())
    if found is None:
        return Return(came=Came.PARTIAL if late else Came.UNVERIFIED)
    status = found[1].lower()
    return Return(came=_came(status, late=late)) if status in STATUSES else _bad(agent, status)


def _came(status: str, *, late: bool) -> Came:
    """What comes after the deadline is partial, whatever it calls itself."""
    return Came.PARTIAL if late and status == "completed" else Came(status)


def _against(told: _Told) -> Iterator[str]:
    """What in an answer speaks against `completed`."""
    errors, ran = ([one] if isinstance(one, str | dict) else one or () for one in (told.errors, told.verification))
    yield from (f"error: {escaped(' '.join(str(one).split()))}" for one in errors)
    for one in ran:
        if isinstance(one, dict) and one.get("exit") not in (0, None):
            yield f"{escaped(str(one.get('command')))} ended with {escaped(str(one['exit']))}"


def _bad(agent: str, status: Any) -> Unusable:
    shown = "no status" if status is None else f"status {escaped(json.dumps(status, ensure_ascii=False))}"
    return Unusable(problems=(f"{agent} returned {shown}; expected {', '.join(STATUSES[:-1])} or {STATUSES[-1]}",))
