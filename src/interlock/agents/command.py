"""Any program that reads a brief and writes an answer is an agent: the plain protocol.

The brief is on its standard input, what it prints is its final message, exit status 0 or failure.  Where a form is
asked for, its JSON Schema stands in the file that `INTERLOCK_SCHEMA` names, and the form may be written as JSON to the
one that `INTERLOCK_RESULT` names; else it is looked for in what was printed.  The variables that tell which dispatch
this is come with the ask.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from interlock.agents.client import PARTIAL, ClientRow, Start
from interlock.agents.output import TRANSCRIPT_LIMIT
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import Json, Reading, parsed
from interlock.agents.values import Ask, Room

BRIEF, RESULT, SCHEMA = "brief.md", "result.json", "schema.json"
"""Files of the exchange, as the variables of the protocol name them."""
_PLACEHOLDER = re.compile(r"{(agent|member|step|attempt|playbook|model)}")


class Command:
    """The client for one command line."""

    def __init__(self, *argv: str) -> None:
        self.ROW = ClientRow("command", title=argv[0], program=argv[0], tells_tokens=False)
        self._args = argv[1:]

    def start(self, ask: Ask, room: Room) -> Start:
        names = {"BRIEF": BRIEF, "RESULT": RESULT, "PARTIAL": PARTIAL}
        files = {BRIEF: ask.brief}
        if ask.form is not None:
            names["SCHEMA"] = SCHEMA
            files[SCHEMA] = json.dumps(ask.form, ensure_ascii=False, indent=2)
        env = {f"INTERLOCK_{name}": f"{room.exchange}/{file}" for name, file in names.items()}
        argv = (room.program, *filled(self._args, ask, room))
        return Start(argv, ask.brief, env, files, leaves=(RESULT,), keep=TRANSCRIPT_LIMIT)

    def reader(self, ask: Ask, room: Room) -> Answer:
        return Answer(ask, room)


def filled(words: Sequence[str], ask: Ask, room: Room) -> tuple[str, ...]:
    """Arguments of the settings: `{agent}` and the like are filled in, all other braces stay; the path of a file counts
    from the top, wherever the program works."""
    facts = {"agent": ask.role.name, "model": ask.role.model}

    def fact(found: re.Match[str]) -> str:
        return ask.env.get(f"INTERLOCK_{found[1].upper()}") or facts.get(found[1], "")

    def placed(word: str) -> str:
        path = room.root / word
        return str(path) if room.place != "." and os.path.isfile(path) else word  # noqa: PTH113 - any length of word

    return tuple(_PLACEHOLDER.sub(fact, placed(word)) for word in words)


class Answer(Reading):
    """What a program without a stream has answered."""

    def read(self, line: Json) -> None:
        """A line of JSON means nothing here."""

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        self.words = [ended.out.decode(errors="replace")]
        # Whether it changed a file is seen where its layer is: an end without a word can be one.
        self.finished = self.acted = ended.exit == 0
        if RESULT in left:
            self.form = parsed(left[RESULT])
            if self.form is None:
                self.form = "the file that INTERLOCK_RESULT names is no JSON"
