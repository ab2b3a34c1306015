"""A workspace of the harness on disk: real files, a program as its agents, and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.app import open_runs
from interlock.cli.main import answer
from interlock.engine import people
from interlock.engine.folder import known_runs
from interlock.engine.playing import Finished
from interlock.engine.runs import NOTHING_SPECIAL, Call, Quiet, Runs
from interlock.playbooks.harness import HarnessInputs, example_files, harness, run_report, run_state
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.stages import LIFECYCLE
from tests.playbooks.harness.conftest import GOOD, REPORT, RUN_STATE, TASK

AGENT = """
import os, re, sys
from pathlib import Path
name = os.environ["INTERLOCK_AGENT"]
brief = Path(os.environ["INTERLOCK_BRIEF"]).read_text()
output = Path(re.findall(r"^- `(.*)`$", brief.split("## Outputs")[1].split("## Context")[0], re.M)[0])
good = {good!r}[name]

def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    if name == "build" and Path(path) == output:
        write("src/built.py", "# " + os.environ["INTERLOCK_DISPATCH"] + os.environ["INTERLOCK_RUN_ID"])

{body}
"""


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


@dataclass
class Place:
    """A git workspace with the example task and a program as its agents."""

    root: Path

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def agent(self, body: str = "write(output, good)") -> None:
        self.write("agent.py", AGENT.format(good=GOOD, body=body))

    def app(self) -> Runs:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent)}
        return open_runs(self.root, Quiet(), environ=environ)

    def run(self, inputs: HarnessInputs | None = None, **call: Any) -> Finished:
        return asyncio.run(self.app().run(harness, inputs or HarnessInputs(TASK), Call(**call)))

    def resume(self, call: Call = NOTHING_SPECIAL) -> Finished:
        return asyncio.run(self.app().resume("latest", call))

    def decide(self, choice: str, note: str = "") -> None:
        asyncio.run(people.decide(self.app(), "latest", choice, note=note, who="ann"))

    @property
    def state(self) -> RunState:
        return run_state.parse_text(self.read(RUN_STATE), LIFECYCLE)

    @property
    def report(self) -> run_report.RunReport:
        return run_report.parse_text(self.read(REPORT), REPORT)

    @property
    def calls(self) -> list[str]:
        """The agents whose programs were started, in order, over all runs that there are records of."""
        lines = (line for known in known_runs(self.root) for line in known.folder.lines())
        return [str(line.agent) for line in lines if line.event == "dispatch.running"]

    def tree(self) -> dict[str, bytes]:
        files = (path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}

    def cli(self, *arguments: str) -> Answer:
        """The command line in this process; its agents are processes all the same."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = answer(arguments)
        said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return Answer(code, *said)


def furnished(root: Path) -> Place:
    """With the example task, and agents that do well."""
    found = Place(root)
    for path, text in example_files().items():
        found.write(path, text)
    program = json.dumps([sys.executable, "agent.py"])
    found.write("interlock.toml", f'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = {program}\n')
    found.agent()
    subprocess.run(["git", "init", "-q", "."], cwd=found.root, check=True)
    return found
