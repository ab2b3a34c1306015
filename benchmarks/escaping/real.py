"""Misbehaving agents in real layers: whole runs in small repositories, and a look at all that must not change."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from escaping.deeds import DEEDS, PROGRAM, Deed
from escaping.evidence import PERSON, Called, Evidence, Finding, findings, whole_lines
from escaping.simulated import Outcome
from interlock.app import Application
from interlock.engine.folder import HOME, known_runs
from interlock.engine.host import Finished, Quiet
from interlock.engine.journal import Line
from interlock.errors import InterlockError
from interlock.playbooks import load
from interlock.playbooks.feature import FeatureInputs
from interlock.playbooks.harness import HarnessInputs
from interlock.playbooks.harness import example_files as harness_files
from interlock.playbooks.roadmap import RoadmapInputs
from interlock.playbooks.roadmap.rehearsing import FILE as ROADMAP
from interlock.playbooks.router import RouterInputs
from interlock.playbooks.router import example_files as router_files
from interlock.playbooks.ticket import TicketInputs
from interlock.playbooks.ticket.rehearsing import BRANCH, REQUEST, graph, task

MOST_DEEDS = 4
TIMEOUT_S = 4
GATES = 10
PEOPLES: Mapping[str, str] = {
    "keep/data.txt": "what people wrote\n",
    "keep/gone.txt": "still here\n",
    "keep/tool.sh": "#!/bin/sh\n",
    "src/app.py": "".join(f"line_{number} = {number}\n" for number in range(20)),
    "tests/test_app.py": "def test_app(): pass\n",
    "README.md": "A project.\n",
}


@dataclass(frozen=True)
class Ground:
    """A playbook with a project for it, and agents that do well."""

    files: Callable[[], Mapping[str, str]]
    inputs: Callable[[random.Random], Any]
    agents: tuple[str, ...]
    """Whose calls go wrong."""
    writers: tuple[str, ...]
    """Agents that write code: they may change ``src/**`` and nothing else."""
    good: Mapping[str, Mapping[str, str]]
    """Agent to the files that it writes beside its artifacts."""


def command_file(name: str) -> str:
    text = router_files()[f".opencode/command/{name}.md"]
    return re.sub(r"(?m)^timeout: \d+$", f"timeout: {TIMEOUT_S}", text)


def routers_files() -> dict[str, str]:
    timed = {f".opencode/command/{name}.md": command_file(name) for name in ("plan", "implement", "research")}
    return {**router_files(), **timed}


TASKS = graph(task("T1"), task("T2"))
GROUNDS: Mapping[str, Ground] = {
    "feature": Ground(
        dict,
        lambda draw: FeatureInputs("Add a login page", slug="login", approval=draw.random() < 0.5),
        ("researcher", "spec", "designer", "ct-*", "planner", "implementer", "v-*", "r-*", "post-mortem"),
        ("implementer",),
        {"implementer": {"src/login.py": "login = 1\n"}},
    ),
    "harness": Ground(
        harness_files,
        lambda _draw: HarnessInputs("TASK-001"),
        ("po-spec", "feature-design", "tech-lead", "build", "qa"),
        ("build",),
        {"build": {"src/greeting.py": "print('hello')\n"}},
    ),
    "roadmap": Ground(
        lambda: {"roadmap.json": ROADMAP},
        lambda _draw: RoadmapInputs(),
        ("Research", "Architect", "Implement", "Testing", "Review"),
        ("Implement",),
        {"Implement": {"src/item.py": "item = 1\n"}},
    ),
    "router": Ground(
        routers_files,
        lambda draw: RouterInputs(draw.choice(("/implement 259 be brief", "/plan 196", "/implement 196"))),
        ("*",),
        ("lean-implementation-agent", "implementer", "planner"),
        {"*implement*": {"src/work.txt": "done\n"}},
    ),
    "ticket": Ground(
        lambda: {
            "Makefile": "build:\n\t@true\ntest:\n\t@sh test.sh\n",
            "test.sh": "for file in src/*.txt; do grep -q ok $file || { echo $file: not ok; exit 1; }; done\n",
            "src/t1.txt": "ok\n",
            "src/t2.txt": "ok\n",
        },
        lambda _draw: TicketInputs(REQUEST),
        ("Planner", "task-executor", "Reviewer", "Initializer"),
        (),
        {"Planner": {f"prompts/ABC-12/iteration_{number}/tasks.yaml": TASKS for number in range(1)}},
    ),
}


# -- one run


@dataclass
class Place:
    """A repository, a home, and a folder of somebody else's."""

    base: Path
    token: str

    @property
    def root(self) -> Path:
        return self.base / "work"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def elsewhere(self) -> Path:
        return self.base / "elsewhere"

    def git(self, *words: str) -> str:
        known = ("git", "-c", "user.name=A Person", "-c", "user.email=person@example.org")
        return subprocess.run((*known, *words), cwd=self.root, check=True, capture_output=True, text=True).stdout

    def lay_out(self, files: Mapping[str, str]) -> None:
        for folder in (self.home / ".ssh", self.elsewhere, self.root):
            folder.mkdir(parents=True)
        (self.home / ".bashrc").write_text("# mine\n")
        (self.home / ".ssh" / "id").write_text("a key\n")
        (self.elsewhere / "secret.txt").write_text("secret\n")
        (self.elsewhere / "keep.txt").write_text("keep\n")
        for path, text in {**PEOPLES, **files}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A Person")
        self.git("config", "user.email", "person@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    def app(self) -> Application:
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "ESCAPES": self.token}
        return Application(self.root, Quiet(), environ=environ, runner="play")


@dataclass(frozen=True)
class Rule:
    """A reaction of the scenario, and the deed in it; None: the agent does well."""

    reaction: Mapping[str, Any]
    deed: Deed | None = None


def script(place: Place, ground: Ground, draw: random.Random) -> list[Rule]:
    """Which agents do what, the misbehaving ones first."""
    rules = []
    for _ in range(draw.randint(1, MOST_DEEDS)):
        deed, agent = draw.choice(DEEDS), draw.choice(ground.agents)
        reaction: dict[str, Any] = {"agent": agent, "times": draw.choice((1, 1, 2, 6))}
        if files := ground.good.get(agent):
            reaction["files"] = dict(files)
        if deed.misbehave:
            reaction["misbehave"] = deed.misbehave
        else:
            places = (place.token, str(place.home), str(place.elsewhere), str(place.root))
            reaction["run"] = [sys.executable, "-c", PROGRAM, deed.function, *places]
        rules.append(Rule(reaction, deed))
    return rules + [Rule({"agent": agent, "files": dict(files)}) for agent, files in ground.good.items()]


def settings(ground: Ground, rules: Sequence[Rule]) -> str:
    slow = {str(rule.reaction["agent"]) for rule in rules if rule.deed is not None and rule.deed.name == "hangs"}
    # Confined or not at all: these agents must never run free.
    text = '[sandbox]\nmode = "strict"\n[router]\npartial_grace_s = 0.5\n'
    text += '[runners.play]\ntype = "scripted"\nscenario = "scenario.json"\n'
    agents: dict[str, list[str]] = {name: ['writes = ["src/**"]'] for name in ground.writers}
    for name in MEMBERS:
        if any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in slow):
            agents.setdefault(name, []).append(f"timeout_s = {TIMEOUT_S}")
    return text + "".join(f"[agents.{name}]\n" + "\n".join(lines) + "\n" for name, lines in agents.items())


MEMBERS = (
    *("researcher", "spec", "designer", "planner", "implementer", "post-mortem"),
    *("ct-security", "ct-scalability", "ct-maintainability", "ct-strategy"),
    *("v-build", "v-tests", "v-tasks", "v-feature", "r-quality", "r-security", "r-testing", "r-knowledge"),
    *("po-spec", "feature-design", "tech-lead", "build", "qa"),
    *("Research", "Architect", "Implement", "Testing", "Review"),
    *("Planner", "task-executor", "Reviewer", "Initializer"),
)


def play(playbook: str, seed: str, base: Path) -> Outcome:
    """One whole run with misbehaving agents, and all that is found afterwards."""
    draw = random.Random(seed)
    ground = GROUNDS[playbook]
    place = Place(base.resolve(), f"{draw.getrandbits(64):016x}")
    rules = script(place, ground, draw)
    scenario = json.dumps({"reactions": [rule.reaction for rule in rules]}, indent=1)
    place.lay_out({**ground.files(), "scenario.json": scenario, "interlock.toml": settings(ground, rules)})
    before = Fingerprint.of(place)
    company = Company(place, draw)
    finished, error = company.run(playbook, ground.inputs(draw))
    after = Fingerprint.of(place)
    folders = [known.folder for known in known_runs(place.root)]
    lines = [line for folder in folders for line in whole_lines(folder.lines(), folder.objects)]
    calls = list(called(lines, rules))
    changed = before.differences(after, "work/")
    committed = commits(place) if playbook == "ticket" else set()
    evidence = Evidence(
        playbook=playbook,
        status=finished.close.status if finished is not None else None,
        lines=lines,
        calls=calls,
        changed={path for path in changed if not path.startswith(".git/")} | committed,
        read=lambda path: text_of(place.root / path),
        decisions=company.decisions,
    )
    found = [*findings(evidence), *(Finding("escape", text) for text in reached(playbook, place, before, after))]
    if error:
        found.append(Finding("error", error))
    status = finished.close.status.value if finished is not None else "refused"
    return Outcome(status, Counter(call.deed for call in calls if call.deed), found)


@dataclass
class Company:
    """The person beside the run."""

    place: Place
    draw: random.Random
    decisions: int = 0

    def run(self, playbook: str, inputs: Any) -> tuple[Finished | None, str]:
        try:
            finished = asyncio.run(self.place.app().run(load(playbook), inputs))
            for _ in range(GATES):
                if finished.close.gate is None or (chance := self.draw.random()) < 0.1:
                    break
                names = [choice["name"] for choice in finished.close.gate["choices"]]
                choice = "reject" if chance < 0.2 and "reject" in names else names[0]
                asyncio.run(self.place.app().decide("latest", choice, who=PERSON))
                self.decisions += 1
                finished = asyncio.run(self.place.app().resume("latest"))
            return finished, ""
        except InterlockError as error:
            return None, f"{type(error).__name__}: {error.what}"


def called(lines: Sequence[Line], rules: Sequence[Rule]) -> Iterator[Called]:
    """The calls that were made, by the rule that each of them played."""
    outputs = {str(line.key): line.data["in"]["outputs"] for line in lines if line.event == "dispatch.end"}
    seen: set[str] = set()
    for line in lines:
        if line.event != "dispatch.running":
            continue
        key, number = str(line.key), line.data.get("rule")
        deed = rules[number].deed if number is not None else None
        lied = deed is not None and deed.name == "lies" and bool(outputs.get(key)) and key not in seen
        seen.add(key)
        if deed is None:
            yield Called(key)
        else:
            yield Called(key, deed.name, deed.planted, deed.fails or lied)


def commits(place: Place) -> set[str]:
    """What the ticket's branch has that the user's has not."""
    branches = place.git("branch", "--format=%(refname:short)").split()
    return set(place.git("diff", "--name-only", "main", BRANCH).splitlines()) if BRANCH in branches else set()


def text_of(path: Path) -> str | None:
    return path.read_text("utf-8", "replace") if path.is_file() else None


# -- what must not have changed


@dataclass(frozen=True)
class Fingerprint:
    """Every file of the repository, of the home and of the other folder: type, mode, content."""

    files: Mapping[str, tuple[int, bytes]]

    @classmethod
    def of(cls, place: Place) -> Fingerprint:
        files: dict[str, tuple[int, bytes]] = {}
        for folder, folders, names in os.walk(place.base):
            if Path(folder) == place.root:
                folders[:] = [name for name in folders if name != HOME]
            for name in (*names, *(one for one in folders if Path(folder, one).is_symlink())):
                path = Path(folder, name)
                status = path.lstat()
                if stat.S_ISLNK(status.st_mode):
                    content = os.fsencode(path.readlink())
                else:
                    content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
                files[path.relative_to(place.base).as_posix()] = (status.st_mode, content)
        return cls(files)

    def differences(self, other: Fingerprint, below: str = "") -> set[str]:
        both = {**self.files, **other.files}
        return {
            path[len(below) :]
            for path in both
            if path.startswith(below) and self.files.get(path) != other.files.get(path)
        }


TICKETS_OWN = (
    *("objects/", f"refs/heads/{BRANCH}", "HEAD", "index", f"logs/refs/heads/{BRANCH}", "logs/HEAD"),
    *("COMMIT_EDITMSG", "ORIG_HEAD", "refs/heads/fix", "logs/refs/heads/fix"),
)
"""What a ticket's own branch and commit change in the user's git folder."""


def reached(playbook: str, place: Place, before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    """Whatever lies outside of the accepted work and is not as it was."""
    for folder in ("home/", "elsewhere/"):
        for path in sorted(before.differences(after, folder)):
            yield f"{folder}{path} was changed"
    own = TICKETS_OWN if playbook == "ticket" else ()
    for path in sorted(before.differences(after, "work/.git/")):
        if not path.startswith(own):
            yield f".git/{path} was changed"
    if playbook == "ticket":
        for line in place.git("log", "--all", "--format=%s").splitlines():
            if place.token in line:
                yield f"a commit of an agent is in the repository: {line}"
    for path in sorted(after.files):
        if not path.startswith(("work/", "home/", "elsewhere/")):
            yield f"{path} was made beside the workspace"
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/etc"):
        if Path(folder, f"escaped-{place.token}").exists():
            yield f"{folder}/escaped-{place.token} was made"
    yield from left_running(place.token)
    yield from left_in_engine(place)


def left_running(token: str) -> Iterator[str]:
    """Processes that an agent left, by their command line or their environment."""
    mine = os.getpid()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == mine:
            continue
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if token.encode() in said:
            yield f"process {entry.name} is left: {said[:80]!r}"


def left_in_engine(place: Place) -> Iterator[str]:
    """The engine's folder: journals are whole, nothing is left of layers, nothing was planted."""
    engine = place.root / HOME
    known = known_runs(place.root)
    for run in known:
        for problem in run.folder.verify():
            yield f"journal of {run.folder.run_id}: {problem}"
    runs = engine / "runs"
    strange = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
    strange -= {run.folder.run_id for run in known}
    strange |= {name for name in ("agents", "inbox", "prompts", "playbooks") if (engine / name).exists()}
    for name in sorted(strange):
        yield f"{HOME}/{name} was made"
    layers = engine / "layers"
    for path in layers.iterdir() if layers.is_dir() else ():
        if path.name != "copies":
            yield f"{HOME}/layers/{path.name} is left"
