"""What the readers of all clients share: JSON of which nothing is certain, and what a stream has said so far."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from interlock.agents.process import ProcessEnd, Talk
from interlock.agents.values import Ask, News, NewsKind, Room, Trouble, TroubleKind, Usage

Hear = Callable[[News], None]

BEGAN, DONE, FAILED, REFUSED = "began", "done", "failed", "refused"
"""States of a tool call."""


class Json:
    """A JSON value that somebody else made: what is not there or of another kind is empty. Paths are keys in a row."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def at(self, *path: str) -> Json:
        value = self.value
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return Json(value)

    def text(self, *path: str) -> str:
        value = self.at(*path).value
        return value if isinstance(value, str) else ""

    def number(self, *path: str) -> float | None:
        """Neither infinite nor below 0."""
        value = self.at(*path).value
        known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
        return value if known else None

    def count(self, *path: str) -> int | None:
        """A number of tokens, or a status."""
        number = self.number(*path)
        return number if isinstance(number, int) else None

    def each(self, *path: str) -> list[Json]:
        """Of a list, or of the values of an object."""
        value = self.at(*path).value
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [Json(item) for item in items]

    @property
    def subject(self) -> str:
        """What arguments of a tool are about, for a person: the path, command or query among them."""
        for name in (*_PATHS, "command", "cmd", "pattern", "query", "url"):
            if found := self.text(name) or " ".join(str(part.value) for part in self.each(name)):
                return found
        return self.text("description")

    @property
    def paths(self) -> list[str]:
        """The files among arguments of a tool."""
        return [self.text(name) for name in _PATHS]


_PATHS = ("file_path", "filePath", "filepath", "fileName", "path", "absolute_path", "notebook_path")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parsed(text: str) -> Any:
    """The value that a text is; None for what is no JSON."""
    try:
        found = json.loads(text)
        if _HALF.search(text):  # half of a character, cut by whoever wrote it: no text of ours can hold it
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found


class Reading:
    """What the stream of one call has said so far."""

    def __init__(self, ask: Ask, room: Room) -> None:
        self.ask, self.room = ask, room
        self.session = self.model = ""
        self.words: list[str] = []
        """The final message, in pieces."""
        self.form: Any = None
        self.finished = False
        """The agent itself reported the end of its turn; without that nothing is believed."""
        self.acted = False
        """It used at least one tool."""
        self.usage = Usage()
        self.waiting = ""
        """Why it waits for its model service, where that is the last that is known of it."""
        self.exhausted = False
        """It stopped by itself, because its share of the budget was used up."""
        self.wrong: Trouble | None = None
        """What went wrong, as the agent says it, where it has done nothing more since."""
        self.refused: dict[tuple[str, str], str] = {}
        """What was not allowed, unless it could be done later after all; a line by tool and subject."""
        self.talk: Talk | None = None
        """Speaks with the program, where one input at the start is not enough."""
        self.hear: Hear = lambda news: None
        """Who is told at once."""
        self._working: dict[str, tuple[str, str]] = {}

    def read(self, line: Json) -> None:
        """Takes in one object of the stream; nothing of what is not known. Total."""
        raise NotImplementedError

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        """Takes in what is said beside the stream, when the program has ended.

        Args:
            left: those of the files that it was to leave which are there, by name.
        """

    @property
    def text(self) -> str:
        """The final message."""
        return "".join(self.words)

    @property
    def at_work(self) -> bool:
        """A tool is."""
        return bool(self._working)

    def began(self, session: str, model: str = "") -> None:
        """Its session, as soon as there is one."""
        if session and session != self.session:
            self.session, self.model = session, model
            self._tell(NewsKind.SESSION, session=session, model=model)

    def speak(self, text: str) -> None:
        self.waiting = ""
        self._tell(NewsKind.TEXT, text=cut(text))

    def tool(self, call: str, name: str, subject: str, state: str = BEGAN, why: str = "") -> None:
        """It uses a tool, or has used it."""
        self.acted, self.waiting = True, ""
        if state == BEGAN:
            self._working[call] = name, subject
        else:
            self._working.pop(call, None)
        subject, why = (cut(" ".join(text.split()), 300) for text in (subject, why))
        if state == REFUSED:
            self.refused[name, subject] = cut(f"{name} {subject}".strip(), 200) + (f": {why}" if why else "")
        elif state == DONE:
            self.refused.pop((name, subject), None)
        self._tell(NewsKind.TOOL, call=call, name=name, subject=subject, state=state, why=why)

    def tool_ended(self, call: str, why: str = "", *, done: bool) -> None:
        """It is done, failed, or was not allowed, as the client says."""
        if call in self._working:
            self.tool(call, *self._working[call], DONE if done else not_done(why), why)

    def spend(self, read: int | None, written: int | None, cost: float | None = None, *, whole: bool = False) -> None:
        """What the call has cost so far. Zeros are what agents count when every request failed.

        Args:
            whole: what the session has cost before is counted with it.
        """
        if whole:
            read = None if read is None else max(0, read - (self.ask.spent.input_tokens or 0))
            written = None if written is None else max(0, written - (self.ask.spent.output_tokens or 0))
        into, out = (read, written) if read or written else (None, None)
        said = Usage(input_tokens=into, output_tokens=out, cost_usd=cost or None)
        if said != Usage():
            self.usage = said
            self._tell(NewsKind.USAGE, **said.model_dump())

    def wait(self, why: str, seconds: float | None = None) -> None:
        self.waiting = cut(why, 300)
        self._tell(NewsKind.WAITING, why=self.waiting, seconds=seconds)

    def _tell(self, kind: NewsKind, **facts: Any) -> None:
        self.hear(News(kind=kind, facts=facts))


def not_done(why: str) -> str:
    """The state of a tool call of which the client says why it was not done."""
    return REFUSED if _REFUSAL.search(why) else FAILED


_REFUSAL = re.compile(r"ermission|denied by policy|a rule which prevents|rejected by")


def other(text: str) -> Trouble:
    return Trouble(kind=TroubleKind.OTHER, text=text)


def cut(text: str, limit: int = 4000) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"
