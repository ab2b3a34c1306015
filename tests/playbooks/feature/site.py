"""Step 5 alone in a workspace on disk: real files, git, layers, and a process for each task agent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal

from interlock.agents import AgentExit, AgentNews, AgentRequest, CommandRunner, Observer
from interlock.engine import Ending, Options, Playbook, Run
from interlock.engine.folder import HOME, RunFolder, known_runs
from interlock.engine.journal import Line
from interlock.engine.playing import Finished
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Quiet, Runs, Setup
from interlock.playbooks.feature import FeatureInputs, feature, shared_memory
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.plan import Plan, Task, Wave
from interlock.playbooks.feature.tasks import carry_out
from interlock.playbooks.feature.work import BARRIER, Work
from interlock.workspace import Confinement, Workspace
from tests.crash.process import OneRunner

AT = Layout("login")
MARK = "SITE_OF_A_TEST"
"""By this variable the agents of a site are known among all processes."""
AGENT = r"""
until [ -e "$(dirname "$INTERLOCK_BRIEF")/go-on" ]; do sleep 0.02; done
mkdir -p src docs/feature/login/memory
echo "$INTERLOCK_MEMBER" > "src/$INTERLOCK_MEMBER.txt"
printf '## Key Findings\n\n- Done by %s.\n' "$INTERLOCK_MEMBER" > "docs/feature/login/memory/$INTERLOCK_MEMBER.mem.md"
echo "DONE: as asked"
"""
"""An agent whose engine has died waits for ever: it has to be ended with it."""


class Meeting(CommandRunner):
    """Nobody goes on before so many have started: the first ones are at work side by side, or the run never ends."""

    def __init__(self, base: Path, together: int, environ: dict[str, str]) -> None:
        super().__init__("shell", ["sh", "-c", AGENT], {}, environ)
        self._base, self._together = base, together
        self._waiting: list[Path] = []

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        with (self._base / "calls").open("a", encoding="utf-8") as calls:
            calls.write(f"{request.dispatch}\n")

        def arrived(news: AgentNews) -> None:
            observe(news)
            if news.kind == "started":
                self._waiting.append(request.exchange / "go-on")
                (self._base / "met" / request.member).touch()
                if len(list((self._base / "met").iterdir())) >= self._together:
                    for place in self._waiting:
                        place.touch()
                    self._waiting.clear()

        return await super().call(request, arrived)


@dataclass(frozen=True)
class Site(Setup):
    """A workspace with one wave of tasks to be carried out."""

    base: Path
    tasks: tuple[str, ...]
    together: int
    scheduling: Literal["barrier", "eager"] = BARRIER

    @property
    def root(self) -> Path:
        return self.base / "work"

    def lay_out(self) -> Site:
        (self.root / AT.folder).mkdir(parents=True)
        (self.root / AT.memory).write_text(shared_memory.TEMPLATE, "utf-8")
        (self.base / "met").mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        return self

    async def wave(self, run: Run, inputs: FeatureInputs) -> Ending:
        """Step 5 as the pipeline has it, and nothing else."""
        work, wave = Work(run, inputs), Wave(1, tuple(map(Task, self.tasks)))
        work.tasks.adopt(Plan((wave,)))
        with run.step("5"):
            await carry_out(work, wave)
        return Ending.complete(work.tasks.shown)

    def run(self, tripwire: Callable[[str], None] = lambda _point: None) -> Finished:
        runs = Runs(self.root, self, Quiet(), environ={}, tripwire=tripwire)
        playbook = replace(feature, function=wraps(feature.function)(partial(self.wave)))
        return asyncio.run(runs.run(playbook, FeatureInputs("Add a login page", AT.slug, scheduling=self.scheduling)))

    def killed_at(self, number: int) -> None:
        """Run in a child process that kills itself at the n-th synced line or effect."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads; the child only runs and dies
            child = os.fork()
        if child == 0:
            seen = 0

            def tripwire(point: str) -> None:
                nonlocal seen
                seen += point != "before-sync"
                if seen == number + 1:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                self.run(tripwire)
            finally:
                os._exit(3)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the point was never reached"

    # -- what its runs ask for

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        workspace = Workspace(self.root, self.root / HOME, documents=playbook.documents(inputs))
        runner = Meeting(self.base, self.together, self.environ)
        book = OneRunner(runner)
        return RealWorld(folder, workspace, book, environ=self.environ, confine=lambda _runner: Confinement())

    def options(self, _playbook: Playbook) -> Options:
        return Options()

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, MARK: str(self.base)}

    # -- what happened

    @property
    def lines(self) -> list[Line]:
        return [line for known in known_runs(self.root) for line in known.folder.lines()]

    @property
    def calls(self) -> Counter[str]:
        return Counter((self.base / "calls").read_text("utf-8").split())

    @property
    def all_done(self) -> str:
        return "\n".join(f"{name}: done" for name in self.tasks)
