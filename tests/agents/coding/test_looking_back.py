"""What a coding agent leaves besides its stream reaches the reader that wants to know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.dialect import Ask, Conclusion, Invocation
from interlock.agents.coding.events import Event
from interlock.agents.coding.headless import HeadlessRunner
from interlock.agents.coding.trouble import CallTrouble, Cause
from interlock.agents.runner import AgentRequest


class Reader:
    def __init__(self) -> None:
        self.seen: tuple[str, Mapping[Path, str]] | None = None

    def take(self, line: Mapping[str, Any]) -> list[Event]:
        return []

    def look_back(self, last_words: str, left: Mapping[Path, str]) -> None:
        self.seen = last_words, left

    def conclude(self) -> Conclusion:
        return Conclusion("x", finished=True, trouble=CallTrouble(Cause.ROLE, "other role") if self.seen else None)


class Talkative:
    """An agent that writes to its standard error and, if it is told to, a file."""

    name = program = "talkative"

    def __init__(self, argv: list[str], left: Path) -> None:
        self.argv, self.left = argv, left
        self.last = Reader()

    def invocation(self, program: str, ask: Ask) -> Invocation:
        return Invocation(tuple(self.argv), leaves=(self.left,))

    def reader(self, ask: Ask) -> Reader:
        self.last = Reader()
        return self.last


async def called(dialect: Talkative, request: AgentRequest) -> Any:
    runner = HeadlessRunner(dialect, Configured("t", "t"), {"PATH": "/usr/bin:/bin"})
    return await runner.call(request, lambda _news: None)


async def test_last_words_and_files_are_known_before_the_call_is_judged(
    request_for: Callable[..., AgentRequest], program: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """What the reader makes of them counts, whatever the exit status is."""
    left = tmp_path / "left.json"
    argv = program(f"import sys; sys.stderr.write('not you\\n'); open({str(left)!r}, 'w').write('7')")
    dialect = Talkative(argv, left)
    exit_ = await called(dialect, request_for())
    assert dialect.last.seen == ("not you\n", {left: "7"})
    assert exit_.code == 0
    assert exit_.fault is not None
    assert exit_.fault.text == "other role"


async def test_what_an_earlier_call_left_is_not_taken_for_this_one(
    request_for: Callable[..., AgentRequest], program: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """It is set aside, not lost."""
    left = tmp_path / "left.json"
    left.write_text("old")
    dialect = Talkative(program("pass"), left)
    await called(dialect, request_for())
    assert dialect.last.seen == ("", {})
    assert (tmp_path / "left.json.1").read_text() == "old"
