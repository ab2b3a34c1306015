"""The command line as a process of its own: how the other doors start runs, decide at gates and end them.

So no lock is held and no playbook is played in the process of a door: it may end at any moment and touches no run; and
what somebody may do, who is told of it and what is recorded are the same at every door.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import math
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interlock.engine.asking import Question
from interlock.errors import ConfigInvalid, Refused

COMMAND: Final = (sys.executable, "-P", "-m", "interlock")
"""-P: no module of the workspace is taken for one of ours."""
AT_ONCE: Final = 4
LONGEST: Final = 100_000
"""Bytes of all words: what a program can be started with has an end."""
PARTS: Final = ("where", "expected", "found", "to do", "log")


@dataclass(frozen=True)
class Reply:
    """What the command line said."""

    code: int
    facts: Mapping[str, Any]

    @property
    def error(self) -> Mapping[str, Any] | None:
        """What went wrong, by its parts; None where it did what it was asked for."""
        found = self.facts.get("error")
        return found if isinstance(found, Mapping) else None

    @property
    def run_id(self) -> str:
        return str(self.facts.get("run_id") or "")

    @property
    def trouble(self) -> str:
        """All that was said of the error, in one text; empty where there is none."""
        several = [self.error, *self.error.get("also", ())] if self.error is not None else []
        return "\n".join(
            line
            for one in several
            for line in (str(one.get("what", "")), *(f"  {part}: {one[part]}" for part in PARTS if part in one))
        )


@dataclass
class CommandLine:
    """The command line of this machine, for a door in whose process nothing is done."""

    environ: Mapping[str, str]
    command: Sequence[str] = COMMAND
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def __call__(self, root: Path, *words: str) -> Reply:
        """Say these words; `Refused` for those that no program can be started with."""
        try:
            size = sum(len(word.encode()) for word in words)
        except UnicodeEncodeError:
            raise Refused("a text is not valid Unicode", expected="text in UTF-8") from None
        if size > LONGEST or any("\0" in word for word in words):
            what = "has a character that no text has" if size <= LONGEST else "is too long"
            raise Refused(
                f"what was said {what}", expected=f"at most {LONGEST} bytes, without NUL", found=f"{size} bytes"
            )
        async with self._turns:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.command,
                    "-C",
                    str(root),
                    *words,
                    cwd=root,
                    env=dict(self.environ),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # a signal at the terminal of the door is not meant for it
                )
            except OSError as error:
                what = f"the command line cannot be started: {(error.strerror or str(error)).lower()}"
                raise Refused(what, where=str(root)) from error
            try:
                said, _ = await process.communicate()
            except asyncio.CancelledError:  # nobody waits for it any more
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
                raise
        try:
            facts = json.loads(said)
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            what = f"the command line gave no answer (exit code {process.returncode})"
            facts = {"error": {"what": what, "to do": f"Say the same in a terminal: interlock {words[0]}"}}
        return Reply(process.returncode or 0, facts)


def typed(asked: Sequence[Question], said: Mapping[str, Any]) -> list[str]:
    """The words for what is said of a playbook's inputs, each by its name.

    Nothing of it can pass for another option: a value stands in the word of its option, or behind a double dash.
    `ConfigInvalid` for a name that is not asked for, and for a value that cannot be typed.
    """
    known = {question.name: question for question in asked}
    fields = {question.field: question for question in asked}
    options, arguments = list[str](), list[str]()
    for name, value in said.items():
        question = known.get(name) or fields.get(name)
        if question is None:
            raise unknown("input", name, list(known))
        if value is None:
            continue
        if question.kind is bool:
            options += _switch(question, value)
            continue
        texts = [_text(question, one) for one in _values(question, value)]
        if question.option.argument:
            arguments += texts
        else:
            options += [f"--{question.name}={text}" for text in texts]
    return [*options, "--", *arguments]


def unknown(what: str, name: str, known: Sequence[str]) -> ConfigInvalid:
    """There is nothing of this name; with the one that was meant, if one is near."""
    near = difflib.get_close_matches(name, known, 1)
    return ConfigInvalid(
        f"there is no {what} {name!r}",
        where=f"{what}s",
        expected=", ".join(known) or f"nothing: it has no {what}s",
        found=name,
        remedy=f"Did you mean {near[0]!r}?" if near else None,
    )


def _switch(question: Question, value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        raise _wrong(question, "true or false", value)
    if question.option.setting or value != bool(question.default):
        yield f"--{question.name}" if value else f"--no-{question.name}"


def _values(question: Question, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        return [value]
    if not question.many:
        raise _wrong(question, "one value", value)
    return value


def _text(question: Question, value: Any) -> str:
    """One value as it is typed; whether it is one of the choices, or in its bounds, the command line says."""
    if question.kind in (int, float):
        finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        number = finite and not isinstance(value, bool)
        if not number and not isinstance(value, str):
            raise _wrong(question, "a number", value)
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if not isinstance(value, str):
        raise _wrong(question, "a text", value)
    return value


def _wrong(question: Question, expected: str, value: Any) -> ConfigInvalid:
    shown = json.dumps(value, default=str)
    return ConfigInvalid(
        f"the input {question.name} cannot be this", where="inputs", expected=expected, found=shown[:200]
    )
