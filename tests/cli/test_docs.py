"""What the pages say of the command line is true: made pages are as the code is, examples run."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from interlock.cli.commands import app
from interlock.errors import Exit
from tests.cli.conftest import CommandLine
from tests.workspace.layers.ways_out import WAYS
from tools import reference

HOUSE = Path(__file__).parents[2]
PAGES = [HOUSE / "README.md", *sorted((HOUSE / "docs").rglob("*.md"))]


def blocks(page: Path, kind: str) -> list[str]:
    """Its fenced blocks of that kind."""
    found = re.findall(rf"^( *)```{kind}\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def examples(page: Path) -> list[list[str]]:
    """The command lines of its shell blocks."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("interlock")]


@pytest.mark.req("HOUSE-05", "CLI-01")
def test_the_reference_is_as_the_code_is() -> None:
    for name, text in reference.pages().items():
        assert (reference.FOLDER / name).read_text("utf-8") == text, "python -m tools.reference writes it"


@pytest.mark.req("HOUSE-01")
def test_the_way_of_the_map_is_the_way_to_the_agent(interlock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 8 files and 12 frames, which are all that there are; every module of the map is there."""
    text = (HOUSE / "AGENTS.md").read_text("utf-8")
    way = text.partition("## And back")[0]
    rows = re.findall(r"^\| `(\S+\.py)` \| (.+?) \|", way, re.MULTILINE)
    told = [(file, name) for file, names in rows for name in re.findall(r"`([\w.]+)`", names)]
    ways: list[list[tuple[str, str]]] = []
    start = subprocess.Popen

    class Popen(start[bytes]):
        def __init__(self, *args: Any, **how: Any) -> None:
            frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
            inner = next((n for n, frame in enumerate(frames) if "asyncio" in frame.f_code.co_filename), len(frames))
            waiting = list[Any]()
            for task in asyncio.all_tasks() if inner < len(frames) else ():
                waits: Any = task.get_coro()  # one that waits for another one stands on no stack
                while task is not asyncio.current_task() and getattr(waits, "cr_frame", None):
                    waiting.insert(0, waits.cr_frame)
                    waits = waits.cr_await
            seen = [_own(frame) for frame in (*frames[:inner], *waiting, *frames[inner:])]
            ways.append(list(filter(None, reversed(seen))))
            super().__init__(*args, **how)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    assert interlock("Make add right").code == 0
    agents = [way[way.index(told[0]) :] for way in ways if ("agents/client.py", "call") in way]
    assert agents == [told, told], "the builder's way, and the reviewer's"
    assert len(rows) <= 8 and len(told) <= 12
    for file, names in re.findall(r"^\| `(\S+\.py)` \| (`.+?`) \|", text, re.MULTILINE):
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"^ *(async )?def {name}\(", (HOUSE / "src/interlock" / file).read_text("utf-8"), re.M), (
                name
            )
    house = text[text.index("src/interlock/\n") :].partition("```")[0]
    for name in re.findall(r"[\w/]+\.py", house):
        assert list((HOUSE).rglob(name)), name


def _own(frame: FrameType) -> tuple[str, str] | None:
    """The file and function of a frame of ours; None: somebody else's, or the inside of a comprehension."""
    _, ours, file = frame.f_code.co_filename.rpartition("/src/interlock/")
    return (file, frame.f_code.co_qualname) if ours and "<" not in frame.f_code.co_name else None


@pytest.mark.req("HOUSE-05")
def test_the_quickstart_runs_as_it_stands(interlock: CommandLine) -> None:
    for words in examples(HOUSE / "docs" / "quickstart.md"):
        said = interlock(*words)
        assert said.code == 0, (words, said.err)


@pytest.mark.req("HOUSE-05")
def test_every_command_of_the_pages_can_be_typed() -> None:
    for page in PAGES:
        named = [words.split() for words in re.findall(r"`interlock ([^`\"]+)`", page.read_text("utf-8"))]
        for words in [*examples(page), *named]:
            if words and not words[0].startswith("-"):
                context = click.Context(app, info_name="interlock")
                name, command, rest = app.resolve_command(context, words)
                assert command is not None, (page, words)
                command.make_context(name, [*rest], parent=context, resilient_parsing=True)


@pytest.mark.req("HOUSE-05")
def test_every_example_of_settings_can_be_used(interlock: CommandLine) -> None:
    for page in PAGES:
        for text in blocks(page, "toml"):
            interlock.write("interlock.toml", text)
            assert interlock.place().settings.file == "interlock.toml", page


@pytest.mark.req("TREE-10", "HOUSE-05")
def test_what_is_counted_on_pages_is_so() -> None:
    told = re.findall(r"^\| (\d+) \|", (HOUSE / "docs" / "quickstart.md").read_text("utf-8"), re.MULTILINE)
    assert [int(code) for code in told] == [int(code) for code in Exit]
    text = (HOUSE / "docs" / "sandbox.md").read_text("utf-8")
    assert f"{len(WAYS)} ways out" in text
    assert sum(map(int, re.findall(r"^\| (\d+) \|", text, re.MULTILINE))) == len(WAYS)


@pytest.mark.req("HOUSE-05", "HN-23", "PROOF-02", "PERSON-07")
def test_the_task_on_the_page_of_harness_can_be_planned(interlock: CommandLine) -> None:
    """What the person wrote is read for it, and what keeps it from beginning is told."""
    (task,) = blocks(HOUSE / "docs/playbooks/harness.md", "markdown")
    assert interlock("init", "harness").code == 0
    missing = interlock("plan", "harness", "TASK-012").out
    assert "told    Task file not found: harness/tasks/TASK-012.md" in missing and "calls" not in missing
    asks = "- Require Approval Before Build: No\n- Require Approval Before Complete: Yes\n"
    interlock.write("harness/tasks/TASK-012.md", task.replace("## Objective", f"{asks}## Objective"))
    said = interlock("plan", "harness", "TASK-012")
    assert said.code == 0, said.err
    assert re.search(r"calls   [1-9]", said.out)
    assert "asks    complete" in said.out and "asks    build" not in said.out


@pytest.mark.req("HOUSE-05", "RT-71")
def test_the_page_of_router_quotes_what_is_said(interlock: CommandLine) -> None:
    interlock.write(".opencode/specs/TODO.md", "# TODO\n\n### 259. Add\n")
    said = interlock("run", "router", "/implement 999")
    assert said.code == 2 and said.err.strip() in (HOUSE / "docs/playbooks/router.md").read_text("utf-8")


CLAUDE = """\
#!/usr/bin/env python3
import json, subprocess
said = subprocess.run(["sh", "agent.sh"], capture_output=True, text=True).stdout
used = {"input_tokens": 5, "output_tokens": 5}
for line in (
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
    {"type": "assistant", "message": {"id": "1", "content": [{"type": "text", "text": said}], "usage": used}},
    {"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": "s",
     "total_cost_usd": 0.01, "usage": used},
):
    print(json.dumps(line))
"""


@pytest.mark.req("HOUSE-05", "RUN-14")
def test_the_workflow_for_ci_runs_but_for_the_model(interlock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, with a program in Claude Code's place that says what that would."""
    (text,) = blocks(HOUSE / "docs" / "agents.md", "yaml")
    steps = YAML(typ="safe").load(text)["jobs"]["mend"]["steps"]
    lines = [line for step in steps if "interlock " in (line := step.get("run", "")) and "install" not in line]
    program = interlock.top.parent / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    monkeypatch.setenv("INTERLOCK_SANDBOX_MODE", "off")
    interlock.write("interlock.toml", '[commands]\ntest = "sh check.sh"\n')
    interlock.commit("settings")
    asked, shown = (shlex.split(line)[1:] for line in lines)
    said = interlock(*asked)
    assert said.code == 0, said.err
    assert "a + b" in interlock.run_git("show", "mend/test:lib.py")
    assert "mended" in interlock(*shown[: shown.index(">>")]).out
