"""A workspace in memory with a prompt in it, and scripted agents that adopt it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from interlock import testing
from interlock.engine import AgentRequest, Playbook
from interlock.playbooks.adopt import AdoptInputs, adopt
from interlock.playbooks.adopt.inputs import AdoptedFiles
from interlock.playbooks.adopt.statements import rendered
from interlock.playbooks.adopt.trace import rendered as traced
from interlock.testing import Act, Change, Finished, best

from .adoptions import BUGFIX, Adoption


@dataclass
class Bench(testing.Bench):
    """One prompt in a workspace; whoever is told nothing does what is right for it."""

    playbook: Playbook = adopt
    adoption: Adoption = BUGFIX
    files: dict[str, str | bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = {self.adoption.file: self.adoption.source.text, "src/export.py": "rows = []\n", **self.files}
        self.base = self.good

    @property
    def inputs(self) -> AdoptInputs:
        return self.adoption.inputs

    @property
    def at(self) -> AdoptedFiles:
        return self.inputs.at

    def good(self, request: AgentRequest) -> Act:
        act = best(request)
        if request.agent == "reader":
            part = request.member.removeprefix("reader-")
            read = [one for one in self.adoption.statements if one.id.startswith(f"S{part}.")]
            return replace(act, files={self.at.reading(int(part)): rendered(read)})
        if request.agent == "author":
            roles = {f"{self.at.roles}/{role}.md": text for role, text in self.adoption.role_files.items()}
            return replace(
                act, files={self.at.yaml: self.adoption.yaml, self.at.trace: traced(self.adoption.bindings), **roles}
            )
        return act

    def adopted(self, **inputs: Any) -> Finished:
        """A run up to its gate, or to its end."""
        return self.play(replace(self.inputs, **inputs))

    def approved(self) -> Finished:
        self.answer("approve")
        return self.resume()


def rewrites(path: str, change: Callable[[str], str]) -> Change:
    """It leaves another text than it should."""
    return lambda _request, act: replace(act, files={**act.files, path: change(str(act.files[path]))})


def relists(path: str, name: str, change: Callable[[list[Any]], Any]) -> Change:
    """It leaves another list in a JSON document than it should."""

    def changed(text: str) -> str:
        entries = json.loads(text)[name]
        change(entries)
        return json.dumps({name: entries})

    return rewrites(path, changed)


@pytest.fixture
def bench() -> Bench:
    return Bench()
