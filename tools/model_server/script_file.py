"""A script in a file, YAML or JSON.

    rules:
      - when: ["- Agent: Implement", "- Attempt: 1"]     # all of them occur in the human turn
        matches: ["- `(?P<report>[^`]+report.md)`"]      # patterns; {report} is then known below
        turns:
          - write:
              path: "{report}"
              content: |
                any number
                of lines
          - edit: {path: src/a.py, old: "1", new: "2"}
          - shell: make test
          - tool: {name: Glob, arguments: {pattern: "*.py"}}
          - sleep: 0.5
          - http: {status: 429, message: slow down, retry_after: 2, once: true}
          - usage: {input: 90000, output: 4000}
          - say: Implemented.
    otherwise: OK                                         # where no rule applies

`{cwd}` is the client's working folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from interlock.errors import DocumentInvalid
from tools.model_server.conversation import Usage
from tools.model_server.directives import big_text
from tools.model_server.script import Rule, Script
from tools.model_server.steps import Edit, Refuse, Say, Shell, Sleep, Spend, Step, Use, Write


def load(path: Path) -> Script:
    """The script in the file.

    Raises:
        DocumentInvalid: the file is missing or is not a script.
    """
    try:
        return parse(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise DocumentInvalid(f"the script cannot be read: {error.strerror}", path=str(path)) from error


def parse(text: str, path: str = "script") -> Script:
    """The script in a text; `path` names it in errors."""
    try:
        return _File.model_validate(_loaded(text) or {}).script()
    except YAMLError as error:
        raise DocumentInvalid("the script is neither YAML nor JSON", path=path, found=str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DocumentInvalid(f"{place}: {first['msg']}", path=path, found=repr(first["input"])) from error


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)  # first: YAML reads the two halves of an escaped letter beyond U+FFFF as two letters
    except ValueError:
        return YAML(typ="safe").load(text)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Write(_Strict):
    path: str
    content: str

    def step(self) -> Step:
        return Write(self.path, self.content)


class _Edit(_Strict):
    path: str
    old: str
    new: str

    def step(self) -> Step:
        return Edit(self.path, self.old, self.new)


class _Tool(_Strict):
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def step(self) -> Step:
        return Use(self.name, self.arguments)


class _Http(_Strict):
    status: Annotated[int, Field(ge=400, le=599)]
    message: str = "scripted refusal"
    once: bool = False
    retry_after: float | None = None

    def step(self) -> Step:
        return Refuse(self.status, self.message, self.once, self.retry_after)


class _Usage(_Strict):
    input: int
    output: int

    def step(self) -> Step:
        return Spend(Usage(self.input, self.output))


class _Turn(_Strict):
    """Exactly one of these."""

    write: _Write | None = None
    edit: _Edit | None = None
    tool: _Tool | None = None
    http: _Http | None = None
    usage: _Usage | None = None
    shell: str | None = None
    say: str | None = None
    big: int | None = None
    sleep: float | None = None

    @model_validator(mode="after")
    def _one(self) -> _Turn:
        if len(list(self._steps())) != 1:
            raise ValueError(f"a turn is exactly one of {', '.join(type(self).model_fields)}")
        return self

    def step(self) -> Step:
        return next(self._steps())

    def _steps(self) -> Iterator[Step]:
        for part in (self.write, self.edit, self.tool, self.http, self.usage):
            if part is not None:
                yield part.step()
        if self.shell is not None:
            yield Shell(self.shell)
        if self.say is not None:
            yield Say(self.say)
        if self.big is not None:
            yield Say(big_text(self.big))
        if self.sleep is not None:
            yield Sleep(self.sleep)


class _Rule(_Strict):
    when: list[str] = Field(default_factory=list)
    matches: list[re.Pattern[str]] = Field(default_factory=list)
    turns: list[_Turn]

    def rule(self) -> Rule:
        return Rule(tuple(turn.step() for turn in self.turns), tuple(self.when), tuple(self.matches))


class _File(_Strict):
    rules: list[_Rule] = Field(default_factory=list)
    otherwise: str = "OK"

    def script(self) -> Script:
        return Script(tuple(rule.rule() for rule in self.rules), self.otherwise)
