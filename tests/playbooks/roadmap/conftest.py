"""Roadmaps in memory, and runs through them with agents that say what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock import testing
from interlock.cli.main import answer
from interlock.documents import Document, FileFacts
from interlock.engine.keys import sha256
from interlock.errors import InterlockError
from interlock.playbooks.roadmap import RoadmapInputs, roadmap
from interlock.testing import Act, Finished, Simulation, best

FILE = "roadmap.json"
INPUTS = RoadmapInputs()


def item(identity: Any = 7, **changes: Any) -> dict[str, Any]:
    """A sound item; `...` as a value leaves the field out."""
    fields = {
        "id": identity,
        "title": f"Item {identity}",
        "complexity": "simple",
        "priority": 1,
        "status": "ready",
        "passes": False,
        "acceptanceCriteria": ["It works.", "It is fast."],
        "verification": ["npm test", "npm run lint"],
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def spelled(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def document(content: str | bytes, path: str = FILE) -> Document:
    raw = content.encode() if isinstance(content, str) else content
    facts = FileFacts(path, exists=True, plain=True, readable=True, size=len(raw), digest=sha256(raw), content=raw)
    return Document.of(facts)


def good(request: Any) -> Act:
    """The best answer, and the work that Implement exists for."""
    act = best(request)
    return replace(act, files={"src/work.ts": request.dispatch}) if request.step == "implement" else act


def with_data(request: Any, **changes: Any) -> Act:
    """The best answer, with some of its fields changed."""
    act = good(request)
    data = json.loads(act.message.removeprefix("```json\n").removesuffix("\n```"))
    return replace(act, message=json.dumps({**data, **changes}))


TESTS_FAIL = {
    "verdict": "fail",
    "evidence": {
        "tests": {"passed": 2, "failed": 1, "failures": [{"name": "login", "message": "expected 401, got 200"}]}
    },
}
REVIEW_FAILS = {
    "verdict": "fail",
    "evidence": {"checks": {"lint": "fail", "typecheck": "pass", "build": "pass", "quality": "pass"}},
    "issues": ["src/a.ts:3: unused variable"],
}
DRIFT = {"verdict": "drift_detected", "issues": ["src/a.ts departs from the design"]}

Reaction = Callable[[Any], Act] | Mapping[str, Any]


class Bench(testing.Bench):
    """A workspace with a roadmap; `play` runs it. Reactions are looked up by step, or by step and attempt."""

    def __init__(self, data: Any = None, reactions: Mapping[Any, Reaction] | None = None, **how: Any) -> None:
        super().__init__(roadmap, **how)
        self.data = [item()] if data is None else data
        self.reactions: dict[Any, Reaction] = dict(reactions or {})

    def agent(self, request: Any) -> Act:
        reaction = self.reactions.get((request.step, request.attempt)) or self.reactions.get(request.step)
        if reaction is None:
            return good(request)
        return reaction(request) if callable(reaction) else with_data(request, **reaction)

    def simulate(self, inputs: RoadmapInputs = INPUTS) -> Simulation:
        content = self.data if isinstance(self.data, str | bytes) else spelled(self.data)
        self.files = {**self.files, FILE: content}
        return super().simulate(inputs)

    def play(self, inputs: RoadmapInputs = INPUTS) -> Finished:
        return self.simulate(inputs).go()

    def refuse(self, inputs: RoadmapInputs = INPUTS) -> InterlockError:
        self.simulate(inputs)
        return self.refused()

    @property
    def calls(self) -> list[Any]:
        return self.requests

    @property
    def commands(self) -> list[str]:
        """What the engine itself ran."""
        return [call.argv[-1] for call in self.simulation.world.commands]

    @property
    def steps(self) -> list[str]:
        return [request.step for request in self.calls]

    def brief(self, step: str, number: int = 0) -> str:
        return [request.brief for request in self.calls if request.step == step][number]

    @property
    def written(self) -> str:
        return self.text(FILE)

    @property
    def items(self) -> list[dict[str, Any]]:
        data = json.loads(self.written)
        return data if isinstance(data, list) else data["items"]

    @property
    def event_names(self) -> list[str]:
        return [line.event for line in self.lines]


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Terminal:
    """The command line, called in this process."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def roadmap(self, *items: dict[str, Any], path: str = FILE) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(spelled([*items]), "utf-8")

    def scenario(self, *reactions: dict[str, Any]) -> None:
        """These reactions; Implement, where none is for it, does some work."""
        whole = [*reactions, {"agent": "Implement", "append": {"src/work.txt": "more\n"}}]
        (self.root / "scenario.yaml").write_text(json.dumps({"reactions": whole}), "utf-8")

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = answer(arguments)
        out = self._capsys.readouterr()
        return code, out.out, out.err


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    root = tmp_path / "work"
    root.mkdir()
    settings = 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n'
    (root / "interlock.toml").write_text(settings, "utf-8")
    monkeypatch.chdir(root)
    found = Terminal(root, capsys)
    found.scenario()
    found.roadmap(item(7, title="Login"), item(8, title="Logout"))
    return found
