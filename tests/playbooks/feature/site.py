"""Step 5 alone in a workspace on disk: real files, git, worktrees, and a process for each task agent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock.agents import Bound, CommandRunner
from interlock.engine import Ending, Options, Playbook, Run
from interlock.engine.folder import HOME, RunFolder, known_runs
from interlock.engine.host import Finished, Host, Quiet
from interlock.engine.journal import Line
from interlock.engine.real import RealWorld
from interlock.playbooks.feature import FeatureInputs, feature, shared_memory
from interlock.playbooks.feature.crew import Crew
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.plan import Plan, Task, Wave
from interlock.playbooks.feature.stages import Stage
from interlock.playbooks.feature.tasks import BARRIER, carry_out
from interlock.workspace import Workspace

AT = Layout("login")
AGENT = r"""
echo "$INTERLOCK_DISPATCH" >> "$CALLS"
touch "$MEET/$INTERLOCK_MEMBER"
until [ "$(ls "$MEET" | wc -l)" -ge "$TOGETHER" ]; do sleep 0.02; done
[ "$(ps -o ppid= -p $$ | tr -d ' ')" = "$PPID" ] || sleep 600
mkdir -p src docs/feature/login/memory
echo "$INTERLOCK_MEMBER" > "src/$INTERLOCK_MEMBER.txt"
printf '## Key Findings\n\n- Done by %s.\n' "$INTERLOCK_MEMBER" > "docs/feature/login/memory/$INTERLOCK_MEMBER.mem.md"
echo "DONE: as asked"
"""
"""Nobody ends before so many have started: the first ones are at work side by side, or the run never ends. An agent
whose engine has died does not end at all: whoever resumes has to end it."""


@dataclass(frozen=True)
class Site:
    """A workspace with one wave of tasks to be carried out."""

    base: Path
    tasks: tuple[str, ...]
    together: int
    scheduling: str = BARRIER

    @property
    def root(self) -> Path:
        return self.base / "work"

    def lay_out(self) -> Site:
        (self.root / AT.folder).mkdir(parents=True)
        (self.root / AT.memory).write_text(shared_memory.TEMPLATE, "utf-8")
        (self.base / "meet").mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        return self

    async def wave(self, run: Run, _inputs: FeatureInputs) -> Ending:
        """Step 5 as the pipeline has it, and nothing else."""
        crew = Crew(run, AT)
        crew.walk.stage = Stage.IMPLEMENT
        crew.adopt(Plan((Wave(1, tuple(map(Task, self.tasks))),)))
        with run.step("5"):
            await carry_out(crew, crew.plan.waves[0], self.scheduling)
        return Ending.complete(crew.state_of_tasks)

    def run(self, tripwire: Callable[[str], None] = lambda _point: None) -> Finished:
        host = Host(self.root, self, Quiet(), environ={}, version="1", tripwire=tripwire)
        playbook = replace(feature, function=self.wave)
        return asyncio.run(host.run(playbook, FeatureInputs("Add a login page", slug=AT.slug)))

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

    # -- what the host asks for

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any, *, nested: bool, on_wait: Any) -> RealWorld:
        workspace = Workspace(self.root, self.root / HOME, documents=playbook.documents(inputs))
        return RealWorld(folder, workspace, self, environ=self.environ, nested=nested, on_wait=on_wait)

    def options(self, _playbook: Playbook) -> Options:
        return Options()

    def bind(self, agent: str) -> Bound:
        return Bound(agent, "shell")

    def runner(self, _bound: Bound) -> CommandRunner:
        return CommandRunner("shell", ["sh", "-c", AGENT], {}, self.environ)

    @property
    def environ(self) -> dict[str, str]:
        places = {"MEET": "meet", "CALLS": "calls", "XDG_CACHE_HOME": "cache"}
        told = {name: str(self.base / place) for name, place in places.items()}
        return {**os.environ, **told, "TOGETHER": str(self.together)}

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
