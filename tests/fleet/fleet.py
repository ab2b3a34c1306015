"""A fleet on one machine: PostgreSQL, a remote behind a daemon, workers as processes in clones of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.conftest import Answer, Process, Workspace
from tests.fleet.conftest import Office, free_port, git, until
from tests.fleet.database import Server
from tests.fleet.stage import AGENT, Stage, Wire

SETTINGS = """runner = "staged"
[runners.staged]
type = "command"
argv = ["python3", "agent.py"]
env = {{ STAGE = "{stage}" }}
"""
QUICKLY = {
    "INTERLOCK_FLEET_HEARTBEAT_S": "0.4",
    "INTERLOCK_FLEET_POLL_S": "0.1",
    "INTERLOCK_FLEET_STALL_S": "60",
}
OUTPUTS = {
    "plan/planner#1": "plan.md",
    "build/builder#1": "built.txt",
    "build/tester#1": "tested.txt",
    "look/scout#1": "scouted.txt",
    **{f"work/{name}#1": f"{name}.txt" for name in ("anna", "bert", "carl")},
    "close/closer#1": "closed.txt",
}
"""What each dispatch of the playbooks here makes."""
DOCUMENTS = ("state.txt", "log.txt")
LISTS = ("seen.list", "all.list")


@dataclass
class Member:
    """A worker: its clone, its wires, and the process that works there now."""

    name: str
    clone: Workspace
    database: Wire
    remote: Wire
    process: Process | None = None
    logs: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    started: int = 0

    def start(self, *options: str, **env: str) -> Process:
        """One process: it does one job."""
        self.started += 1
        name = f"{self.name}.{self.started}"
        self.process = self.clone.start("worker", "--once", "--name", name, *options, **env)
        return self.process

    def ended(self) -> Answer:
        """How its process ended, which is waited for."""
        assert self.process is not None
        until(lambda: self.process is not None and self.process.ended, f"{self.name} ends", told=lambda: self.log)
        answer = self.process.wait()
        self.logs.append(answer.stderr)
        self.codes.append(answer.code)
        self.process = None
        return answer

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send(number)

    @property
    def log(self) -> str:
        return "".join((*self.logs, self.process.told if self.process is not None else ""))

    @property
    def workspaces(self) -> list[Path]:
        return sorted((self.clone.root / ".interlock" / "fleet").glob("*/runs/*"))


class Fleet:
    """Everything that a team has."""

    def __init__(self, office: Office, server: Server, stage: Stage) -> None:
        self.office, self.server, self.stage = office, server, stage
        self.database = server.prepared()
        self._daemon_port = free_port()
        self._daemon: subprocess.Popen[bytes] | None = None
        self._wires: list[Wire] = []
        self.members: list[Member] = []
        self.settings({"interlock.toml": SETTINGS.format(stage=stage.address), "agent.py": AGENT})
        self.start_remote()
        self.laptop = self.clone("laptop")

    # -- parts

    def settings(self, texts: dict[str, str]) -> None:
        """Commit files to the main branch."""
        seed = self.office.folder / "seed"
        for name, text in texts.items():
            (seed / name).parent.mkdir(parents=True, exist_ok=True)
            (seed / name).write_text(text, "utf-8")
        git(seed, "add", "--all", "--force")
        git(seed, "commit", "--quiet", "--message", "settings")
        git(seed, "push", "--quiet", str(self.office.bare), "main")

    def start_remote(self) -> None:
        words = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={self._daemon_port}", "--export-all"]
        more = ["--enable=receive-pack", f"--base-path={self.office.folder}", str(self.office.folder)]
        self._daemon = subprocess.Popen([*words, *more], stderr=subprocess.DEVNULL, start_new_session=True)
        asked = ["git", "ls-remote", f"git://127.0.0.1:{self._daemon_port}/bare.git"]
        until(lambda: subprocess.run(asked, check=False, capture_output=True).returncode == 0, "git daemon answers")

    def stop_remote(self) -> None:
        if self._daemon is not None:
            os.killpg(self._daemon.pid, signal.SIGKILL)
            self._daemon.wait()
            self._daemon = None

    def wire(self, target: int) -> Wire:
        self._wires.append(Wire(target))
        return self._wires[-1]

    def clone(self, name: str, database: Wire | None = None) -> Workspace:
        """A clone of its own, with the fleet in its environment, by wires that hold; or by this one."""
        return self._clone(name, self._daemon_port, self._by(database))

    def _by(self, wire: Wire | None) -> str:
        """The address of the database, as it is reached by a wire."""
        return self.database if wire is None else self.database.replace(f":{self.server.port}/", f":{wire.port}/")

    def _clone(self, name: str, port: int, database: str) -> Workspace:
        self.office.address = f"git://127.0.0.1:{port}/bare.git"
        made = self.office.clone(name)
        made.env |= QUICKLY | {"INTERLOCK_FLEET_DATABASE": database}
        made.env["XDG_CONFIG_HOME"] = str(self.office.folder / f"{name}-config")  # what its user trusts
        return made

    def worker(self, name: str, *options: str, start: bool = True, **env: str) -> Member:
        """A worker in a clone of its own, with wires of its own."""
        database, remote = self.wire(self.server.port), self.wire(self._daemon_port)
        member = Member(name, self._clone(name, remote.port, self._by(database)), database, remote)
        self.members.append(member)
        if start:
            member.start(*options, **env)
        return member

    # -- what people do and see

    def submit(self, *words: str, clone: Workspace | None = None) -> str:
        """Submit a run; its id."""
        answer = (clone or self.laptop)("submit", *words)
        assert answer.code == 0, answer.stderr
        return answer.stdout.decode().strip()

    def commits(self, run: str) -> list[str]:
        """Every state that the ref of a run led to, the first one first."""
        ref = f"refs/interlock/{run}/state"
        return git(self.office.bare, "log", "--first-parent", "--reverse", "--format=%H", ref, "--not", "main").split()

    def claim(self, commit: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(git(self.office.bare, "show", f"{commit}:claim.json"))
        return found

    def state(self, run: str) -> dict[str, Any]:
        """What the ref says of a run now."""
        return self.claim(f"refs/interlock/{run}/state")

    def journal(self, run: str, commit: str | None = None) -> list[dict[str, Any]]:
        """The journal of a run, as a state of its ref has it."""
        place = f"{commit or f'refs/interlock/{run}/state'}:journal"
        names = sorted(git(self.office.bare, "ls-tree", "--name-only", place).split())
        text = "\n".join(git(self.office.bare, "show", f"{place}/{name}") for name in names)
        return [json.loads(line) for line in text.splitlines()]

    def ends(self, run: str, commit: str | None = None) -> list[str]:
        """The dispatches that are finished."""
        return [line["key"] for line in self.journal(run, commit) if line["event"] == "dispatch.end"]

    def files(self, run: str) -> dict[str, str]:
        """The tree of a run."""
        place = f"refs/interlock/{run}/state:tree"
        names = git(self.office.bare, "ls-tree", "-r", "--name-only", place).split()
        return {name: git(self.office.bare, "show", f"{place}/{name}") for name in names}

    def check_cuts(self, run: str) -> None:
        """Each state of the ref is one that a crash could have left, and goes on from the one before it."""
        lines: list[dict[str, Any]] = []
        for commit in self.commits(run):
            before, lines = lines, self.journal(run, commit)
            assert lines[: len(before)] == before, f"{commit} forgets what was recorded"
            tree = set(git(self.office.bare, "ls-tree", "-r", "--name-only", f"{commit}:tree").split())
            made = {line["key"]: line for line in lines if line["event"] == "dispatch.end"}
            begun = {line["key"] for line in lines if line["event"] == "dispatch.importing"}
            intents = {line["data"]["path"] for line in lines if line["event"] == "write.intent"}
            commands = sum(line["event"] == "command.intent" for line in lines)
            for key, path in OUTPUTS.items():
                assert key not in made or path in tree, f"{commit}: {key} is done and {path} is missing"
                assert path not in tree or key in begun, f"{commit}: {path} is there, and nobody meant to make it"
            for path in DOCUMENTS:
                assert path not in tree or path in intents, f"{commit}: {path} is there, and nobody meant to write it"
            for number, path in enumerate(LISTS, start=1):
                assert path not in tree or commands >= number, f"{commit}: {path} is there, and no command made it"

    def jobs(self, run: str | None = None) -> list[tuple[str, str]]:
        """The jobs of a run: state and message; oldest first."""
        found = self.server.sql(
            "SELECT args ->> 'run', status::text, args -> 'message' ->> 'kind' FROM procrastinate_jobs ORDER BY id",
            self.database,
        )
        return [(str(state), str(kind or "")) for name, state, kind in found if run in (None, name)]

    def until_ended(self, *runs: str, seconds: float = 180.0) -> None:
        self.until(
            lambda: all(self._stands(run) not in ("open", "waiting", "") for run in runs), f"{runs} end", seconds
        )

    def until_waiting(self, run: str) -> None:
        self.until(lambda: self._stands(run) == "waiting" and not self.state(run)["held"], f"{run} waits")

    def until_idle(self, run: str | None = None) -> None:
        """No job is queued or worked on."""
        self.until(lambda: not {state for state, _ in self.jobs(run)} & {"todo", "doing"}, "the queue is empty")

    def until(self, happened: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        until(happened, what, seconds, told=self.told)

    def told(self) -> str:
        """What workers said, and what is queued."""
        logs = "\n".join(f"--- {member.name} {member.codes}\n{member.log}" for member in self.members)
        return f"{self.jobs()}\n{logs}"

    def _stands(self, run: str) -> str:
        return str(self.state(run)["status"])

    def close(self) -> None:
        self.office.end()  # whoever works in a clone is ended, and waited for
        self.stage.close()
        for wire in self._wires:
            wire.close()
        self.stop_remote()
