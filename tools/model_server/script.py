"""What the model says next: a pure function of the script and the conversation.

A script is a list of rules; the first whose conditions all occur in the human turn gives the program.  Without a rule
the human turn may carry the program itself (see `directives`).  The tool results since the human turn are the program
counter, so that the server remembers nothing, and a client that repeats a request gets the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.model_server import directives
from tools.model_server.conversation import Answer, Call, Conversation, Refusal, Turn, Usage
from tools.model_server.steps import Meanwhile, Program, Refuse, Say, Sleep, Spend, filled
from tools.model_server.toolbox import NoTool, example, next_call

DONE = "Done."
"""The final message of a program that has no words."""


@dataclass(frozen=True)
class Rule:
    """A program, and what the human turn must contain for it."""

    program: Program
    contains: tuple[str, ...] = ()
    matches: tuple[re.Pattern[str], ...] = ()
    """Named groups fill the placeholders of their name in the program."""

    def names(self, human: str) -> dict[str, str] | None:
        """What the patterns found, by name; None when the rule does not apply."""
        if not all(text in human for text in self.contains):
            return None
        names: dict[str, str] = {}
        for pattern in self.matches:
            found = pattern.search(human)
            if found is None:
                return None
            names |= {name: value for name, value in found.groupdict().items() if value is not None}
        return names


@dataclass(frozen=True)
class Script:
    """All that a scripted model knows."""

    rules: tuple[Rule, ...] = ()
    otherwise: str = "OK"
    """Said where nothing applies: title generators, quota probes."""

    def answer(self, talk: Conversation, asked_before: int = 0) -> Answer:
        """The next turn.

        Args:
            asked_before: how often this very place of the conversation was asked for already.
        """
        if talk.answer_schema is not None:
            return Turn(json.dumps(example(talk.answer_schema)))
        program = self.program(talk)
        if not program:
            return Turn(self.otherwise)
        if not talk.tools:
            # without tools a client asks for a title or a summary of the same text: nothing is done there
            return Turn(_last_words(program))
        return _Player(talk, asked_before).play(program)

    def program(self, talk: Conversation) -> Program:
        """The steps that the human turn calls for, with its placeholders filled."""
        folder = {"cwd": talk.folder} if talk.folder else {}
        for rule in self.rules:
            names = rule.names(talk.human)
            if names is not None:
                return filled(rule.program, folder | names)
        return filled(directives.program(talk.human), folder)


@dataclass
class _Moment:
    """What stands before the next call."""

    words: list[str] = field(default_factory=list)
    delay_s: float = 0.0
    meanwhile: tuple[str, ...] = ()
    refusals: list[Refuse] = field(default_factory=list)


@dataclass
class _Player:
    talk: Conversation
    asked_before: int
    usage: Usage = field(default_factory=Usage)
    moment: _Moment = field(default_factory=_Moment)

    def play(self, program: Program) -> Answer:
        """Walks through the program as far as the tool results reach."""
        results = list(self.talk.results)
        for step in program:
            match step:
                case Say(text):
                    self.moment.words.append(text)
                case Sleep(seconds):
                    self.moment.delay_s += seconds
                case Meanwhile(name):
                    self.moment.meanwhile += (name,)
                case Refuse():
                    self.moment.refusals.append(step)
                case Spend(usage):
                    self.usage = usage
                case _:
                    answers: list[str] = []
                    try:
                        while call := next_call(step, answers, self.talk):
                            if not results:
                                return self._answer(call)
                            answers.append(results.pop(0))
                            self.moment = _Moment()
                    except NoTool as missing:
                        return Turn(str(missing), usage=self.usage)
        return self._answer(None)

    def _answer(self, call: Call | None) -> Answer:
        now = self.moment
        happens = () if self.asked_before else now.meanwhile
        if refusal := _due(now.refusals, self.asked_before):
            return Refusal(refusal.status, refusal.message, refusal.retry_after_s, now.delay_s, happens)
        words = "\n".join(now.words) or ("" if call else DONE)
        return Turn(words, call, now.delay_s, self.usage, happens)


def _due(refusals: Sequence[Refuse], asked_before: int) -> Refuse | None:
    """The refusal whose turn it is: each that holds once, in order, then one that holds for ever."""
    for number, refusal in enumerate(refusals):
        if not refusal.once or number == asked_before:
            return refusal
    return None


def _last_words(program: Program) -> str:
    return next((step.text for step in reversed(program) if isinstance(step, Say)), DONE)
