"""Each real client, called as a person would, works with the scripted model: real files, the right last words."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.clients import HEADLESS, headless
from tools.model_server import Serving

DEADLINE_S = 120

ClientEnv = Callable[[str], dict[str, str]]
each_client = pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.agents(n)) for n in HEADLESS])


@dataclass(frozen=True)
class Spoken:
    """What a client left behind."""

    exit: int
    events: list[dict[str, Any]]
    stderr: str


Speak = Callable[[str, str], Spoken]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


@pytest.fixture
def speak(client_env: ClientEnv, workspace: Path) -> Speak:
    """Has a client work on a prompt."""

    def run(name: str, prompt: str) -> Spoken:
        called = headless(name, prompt, workspace)
        done = subprocess.run(
            called.argv,
            input=called.stdin,
            cwd=workspace,
            env=client_env(name),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Spoken(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)

    return run


def last_words(name: str, events: list[dict[str, Any]]) -> str:
    """The final message, where each client's events have it."""
    match name:
        case "claude" | "qwen":
            return str(events[-1]["result"])
        case "codex":
            items = [event["item"] for event in events if event["type"] == "item.completed"]
            return [str(item["text"]) for item in items if item["type"] == "agent_message"][-1]
        case "opencode":
            return [str(event["part"]["text"]) for event in events if event["type"] == "text"][-1]
        case "gemini":
            answers = [e for e in events if e["type"] == "message" and e["role"] == "assistant"]
            return "".join(event["content"] for event in answers)
        case _:
            return [str(e["data"]["content"]) for e in events if e["type"] == "assistant.message"][-1]


def as_written(human: str) -> str:
    """Qwen Code takes a word after `@` for a file and puts a space before it."""
    return human.replace("\n @", "\n@")


@each_client
def test_a_client_writes_edits_runs_and_reports(
    name: str, speak: Speak, model_server: Serving, workspace: Path
) -> None:
    """New folders, a known file, an edit, a command and the last words: all arrive, and nobody else is spoken to."""
    (workspace / "known.md").write_text("old\n")
    words = "All of it is done: the note, its correction and the file from the shell."
    prompt = "\n".join(
        (
            "Do as it says, and nothing else.",
            "@write docs/deep/note.md :: first line\\nsecond line",
            "@edit docs/deep/note.md :: second line => other line",
            "@write known.md :: new",
            "@shell echo from-the-shell > shell.txt",
            f"@say {words}",
        )
    )
    spoken = speak(name, prompt)

    assert spoken.exit == 0, spoken.stderr
    assert (workspace / "docs/deep/note.md").read_text() == "first line\nother line\n"
    assert (workspace / "known.md").read_text() == "new\n"
    assert (workspace / "shell.txt").read_text() == "from-the-shell\n"
    assert last_words(name, spoken.events) == words
    assert as_written(model_server.turns()[0].human) == prompt
    strangers = {(entry.method, entry.path) for entry in model_server.log() if entry.dialect is None}
    assert strangers <= {("HEAD", "/")}  # a greeting of claude's


@each_client
def test_a_client_asks_again_when_the_service_is_busy(
    name: str, speak: Speak, model_server: Serving, workspace: Path
) -> None:
    """One 503 with a short `retry-after` costs nothing but a second request."""
    spoken = speak(name, "@retry_after 0.2\n@http_once 503 busy\n@write note.md :: later\n@say Written at last.")

    assert spoken.exit == 0, spoken.stderr
    assert (workspace / "note.md").read_text() == "later\n"
    assert last_words(name, spoken.events) == "Written at last."
    assert model_server.turns()[0].answer == {"status": 503, "message": "busy"}
