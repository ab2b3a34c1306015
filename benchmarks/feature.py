"""What a feature's waves cost: how many agents really work at once, and what the engine adds to each of them.

Waves: real processes that sleep for a known time, each in its layer. From the journal's lines alone: the greatest
number at work at the same time, how long four were at work of the time in which a wave had four tasks to work on, and
the makespan against what the agents' own times allow with so many places: what the same order of the same programs
would take if nothing else took time. With `eager` at most 1.05 times that. The longest chain of dependencies and all
work divided by four places are bounds that no order can beat.

Overhead: 60 tasks in 10 waves by programs that only copy what they have to write, with a shared memory of 1 MB, so that
nearly all of the time is the engine's. An implementer's dispatch must cost less than 60 ms of CPU, git's and the
layer's included, and in the last waves not more than twice as much as in the first. That is judged by CPU time, which
other work on the machine does not lengthen; the workspace itself grows by half meanwhile. What the playbook does with
the agents' memories after each wave is told apart.

With `--quick` the same with small plans and a small memory, which shows no more than that it works.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from interlock.agents import (
    AgentExit,
    AgentRequest,
    BoundAgent,
    CommandRunner,
    Health,
    MemoryOutput,
    Observer,
    Runner,
    run_process,
)
from interlock.agents.runner import ClientNeeds
from interlock.engine import Playbook
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.journal import Line
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Quiet, Runs, Setup
from interlock.playbooks.feature import FeatureInputs, feature
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.shared_memory import LESSONS, TEMPLATE
from interlock.telemetry import Period, dispatch_spans, most_at_once, schedules
from interlock.testing import best
from interlock.workspace import Confinement, Workspace

AT = Layout("bench")
QUICK = "--quick" in sys.argv
PLACES = 4
SCHEDULING = ("barrier", "eager")
MEMORY_BYTES = 10_000 if QUICK else 1_000_000
MOST_CPU_MS = 60
MOST_MAKESPAN = 1.05


@dataclass(frozen=True)
class Job:
    """A task of the plan, and how long its agent works."""

    name: str
    needs: tuple[str, ...] = ()
    seconds: float = 0.0


Plan = Sequence[Sequence[Job]]
"""Waves of jobs."""

SECOND = 0.02 if QUICK else 1.0
UNEVEN: Plan = (
    [Job(f"T{number:02}", (), seconds * SECOND) for number, seconds in enumerate((6, 2, 2, 2, 5, 2, 2, 2, 4), 1)],
    [Job(f"T{number:02}", (f"T{number - 9:02}",), 3 * SECOND) for number in range(10, 14)],
    [Job(f"T{number:02}", (f"T{number - 4:02}",), seconds * SECOND) for number, seconds in enumerate((4, 2, 2, 2), 14)],
)
"""Seventeen tasks of 2 to 6 seconds: one long one in each of the first sub-waves, then two waves of four."""

MANY: Plan = [
    [Job(f"T{wave * 6 + number:02}", (f"T{(wave - 1) * 6 + number:02}",) if wave else ()) for number in range(1, 7)]
    for wave in range(2 if QUICK else 10)
]


def documents(plan: Plan) -> dict[str, str]:
    """What the planner leaves behind."""
    waves = "\n".join(
        f"### Wave {number}\n\n" + "".join(f"- {job.name}: do it\n" for job in wave)
        for number, wave in enumerate(plan, 1)
    )
    tasks = {
        AT.task(job.name): f"---\nid: {job.name}\ndepends_on: [{', '.join(job.needs)}]\n---\n\nDo it.\n"
        for wave in plan
        for job in wave
    }
    return {AT.plan: f"# Plan\n\n## Execution Waves\n\n{waves}", **tasks}


# -- agents


AGENT = r"""
case "$INTERLOCK_MEMBER" in ct-*) word=Low ;; v-*) word=PASS ;; r-*) word=None ;; *) word=N/A ;; esac
sed -n '/^## Outputs/,/^## Context/s/^- `\(.*\)`$/\1/p' "$INTERLOCK_BRIEF" | while read -r path; do
  mkdir -p "$(dirname "$path")"
  case "$path" in
    */artifact-evaluations/*) ;;
    */plan.md) cp -r "$1/." . ;;
    */tasks/*) ;;
    */memory/*) printf '# Memory\n\n## Status\n\nDONE\n\n## Highest Severity\n\n%s\n' "$word" > "$path" ;;
    *) printf '# %s\n\nDone.\n\n- `make test`: exit 0\n' "$INTERLOCK_MEMBER" > "$path" ;;
  esac
done
case "$INTERLOCK_MEMBER" in implementer-*) mkdir -p src && echo done > "src/$INTERLOCK_MEMBER.txt" ;; esac
sleep "$(cat "$2/$INTERLOCK_MEMBER" 2>/dev/null || echo 0)"
echo "DONE: as asked"
"""


def sleeping(plan: Plan, folder: Path) -> Runner:
    """A process for each call, which does what its brief asks for and takes as long as its job says."""
    for path, text in documents(plan).items():
        (folder / "plan" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "plan" / path).write_text(text, "utf-8")
    (folder / "seconds").mkdir()
    for job in (job for wave in plan for job in wave):
        (folder / "seconds" / f"implementer-{job.name}").write_text(f"{job.seconds}\n", "utf-8")
    words = [
        "sh",
        "-c",
        AGENT.replace("{", "{{").replace("}", "}}"),
        "agent",
        str(folder / "plan"),
        str(folder / "seconds"),
    ]
    return CommandRunner("sleeping", words, {}, os.environ)


def alone(plan: Plan, folder: Path) -> Plan:
    """The same jobs, each with the time that its program takes by itself: started by nobody but a shell."""
    brief = folder / "brief.md"
    brief.write_text("## Outputs\n\n- `docs/memory/agent.md`\n\n## Context\n", "utf-8")
    (folder / "bare").mkdir()
    taken = []
    for _ in range(9):
        env = {**os.environ, "INTERLOCK_BRIEF": str(brief), "INTERLOCK_MEMBER": "implementer-nobody"}
        started = time.perf_counter()
        words = ["sh", "-c", AGENT, "agent", str(folder / "plan"), str(folder / "seconds")]
        subprocess.run(words, cwd=folder / "bare", env=env, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    own = statistics.median(taken)
    return [[Job(job.name, job.needs, job.seconds + own) for job in wave] for wave in plan]


COPIES = 'cp -R files/. "$INTERLOCK_WORKSPACE"'


@dataclass
class AtOnce:
    """Copies into its layer what the contract asks for, with a lesson and a decision in each memory."""

    plan: Plan
    name: str = "at once"

    async def call(self, request: AgentRequest, _observe: Observer) -> AgentExit:
        act = best(request)
        files = {path: text for path, text in act.files.items() if isinstance(text, str)}
        if request.agent == "planner":
            files = {path: text for path, text in files.items() if "/tasks/" not in path} | documents(self.plan)
        if request.agent == "implementer":
            files = {path: self._told(request.member, text) for path, text in files.items()}
            files[f"src/{request.member}.txt"] = "done\n"
        for path, text in files.items():
            place = request.shared / "files" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        request.folder.mkdir(parents=True, exist_ok=True)
        ended = await run_process(
            ["sh", "-c", COPIES],
            cwd=request.shared,
            env={"PATH": os.environ.get("PATH", os.defpath), "INTERLOCK_WORKSPACE": str(request.workspace)},
            stdin=None,
            stdout=request.output_path,
            stderr=request.folder / "stderr.log",
            timeout_s=request.timeout_s,
            marker=request.marker,
            within=request.within,
        )
        return AgentExit(ended.code, MemoryOutput(act.message.encode()))

    def _told(self, member: str, memory: str) -> str:
        decided = memory.replace("## Decisions\n", f"## Decisions\n\n- {member} keeps it small. Rationale: speed.\n")
        return f"{decided}\n- {member} met a closed port → asked for a free one\n"

    async def recall(self, _request: AgentRequest, _code: int) -> AgentExit | None:
        return None

    def needs(self) -> ClientNeeds:
        return ClientNeeds()

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        return Health(True, "in process")


@dataclass(frozen=True)
class BenchSetup(Setup):
    root: Path
    one: Runner

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        kept = (*playbook.documents(inputs), *playbook.state(inputs))
        workspace = Workspace(self.root, self.root / HOME, documents=kept)
        return RealWorld(folder, workspace, self, environ=os.environ, confine=self.confinement)

    def confinement(self, runner: Runner | None) -> Confinement:
        return Confinement(shown=runner.needs().shown if runner is not None else ())

    def options(self, playbook: Playbook) -> Options:
        return Options()

    def bind(self, agent: str) -> BoundAgent:
        return BoundAgent(agent, self.one.name)

    def runner(self, _bound: BoundAgent) -> Runner:
        return self.one


def carried_out(root: Path, runner: Runner, scheduling: Any, view: Quiet | None = None) -> Finished:
    runs = Runs(root, BenchSetup(root, runner), view or Quiet(), environ={})
    inputs = FeatureInputs("Measure it", slug=AT.slug, scheduling=scheduling)
    finished = asyncio.run(runs.run(feature, inputs))
    assert finished.exit_code == 0, finished
    return finished


def repository(root: Path) -> Path:
    (root / "src").mkdir(parents=True)
    for number in range(200):
        (root / "src" / f"{number}.py").write_text(f"x = {number}\n", "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


# -- waves


def share_of_four(plan: Plan, spans: Mapping[str, Period]) -> float:
    """Of the time in which a wave had four unfinished tasks, the part in which four were at work."""
    could, did = 0.0, 0.0
    for wave in plan:
        mine = [spans[f"implementer-{job.name}"] for job in wave]
        moments = sorted({moment for span in mine for moment in (span.start, span.end)})
        for now, then in pairwise(moments):
            if sum(span.end > now for span in mine) >= PLACES:
                could += then - now
                did += (then - now) * (sum(span.start <= now < span.end for span in mine) == PLACES)
    return did / could


def waves(folder: Path) -> None:
    """The same plan under both ways of scheduling."""
    chain = longest_chain(UNEVEN)
    work = sum(job.seconds for wave in UNEVEN for job in wave)
    bound = max(chain, work / PLACES)
    print(f"17 tasks, {work:g} s of sleep, longest chain {chain:g} s, divided by four {work / PLACES:g} s")
    for scheduling in SCHEDULING:
        place = folder / scheduling
        lines = carried_out(repository(place / "work"), sleeping(UNEVEN, place), scheduling).lines
        (done,) = schedules(lines)
        share = share_of_four(UNEVEN, done.spans)
        most = most_at_once(dispatch_spans(lines).values())
        ideal = without_engine(alone(UNEVEN, place), scheduling)
        wanted = f" (max {MOST_MAKESPAN})" if scheduling == "eager" else ""
        print(
            f"{scheduling}: at most {most} agents at once in the whole run; four at work in {share:.0%} of the time "
            f"in which a wave had four to work on\n"
            f"  makespan {done.took:.2f} s; what the agents' own times allow {ideal:.2f} s: "
            f"{done.took / ideal:.3f} times that{wanted}; "
            f"{done.took / bound:.2f} times the lower bound of {bound:g} s for any order",
            flush=True,
        )


def without_engine(plan: Plan, scheduling: str) -> float:
    """The makespan if nothing but the agents took time: what the way of scheduling costs by itself."""
    total = 0.0
    for wave in plan:
        size = PLACES if scheduling == "barrier" else len(wave)
        for start in range(0, len(wave), size):
            free = [0.0] * PLACES
            for job in wave[start : start + size]:
                free[free.index(min(free))] += job.seconds
            total += max(free)
    return total


def longest_chain(plan: Plan) -> float:
    until: dict[str, float] = {}
    for wave in plan:
        for job in wave:
            until[job.name] = job.seconds + max((until[needed] for needed in job.needs), default=0.0)
    return max(until.values())


# -- overhead


@dataclass(frozen=True)
class Moment:
    """What the clocks said."""

    elapsed: float
    cpu: float


def moment() -> Moment:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Moment(time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used))


def overhead(folder: Path) -> None:
    """Each wave's time by its number of tasks; of it the agents, who copy a few files, take little."""
    root = repository(folder / "work")
    memory = root / AT.memory
    memory.parent.mkdir(parents=True)
    memory.write_text(filled_memory(), "utf-8")
    watch = Watch()
    finished = carried_out(root, AtOnce(MANY), "barrier", watch)
    tasks = sum(line.event == "task" for line in finished.lines)
    assert tasks == sum(map(len, MANY)), tasks
    each = list(zip(map(len, MANY), watch.waves, strict=False))
    cpu = [(wave.worked.cpu - wave.begun.cpu) / count * 1e3 for count, wave in each]
    elapsed = [(wave.worked.elapsed - wave.begun.elapsed) / count * 1e3 for count, wave in each]
    merging = [(wave.merged.cpu - wave.worked.cpu) * 1e3 for _, wave in each]
    print(f"{tasks} tasks in {len(MANY)} waves, shared memory of {memory.stat().st_size // 1000} KB")
    print(f"engine, elapsed ms a dispatch, wave by wave: {', '.join(f'{one:.0f}' for one in elapsed)}")
    print(f"engine, CPU ms a dispatch, wave by wave:     {', '.join(f'{one:.0f}' for one in cpu)}")
    print(f"CPU of a dispatch: {statistics.median(cpu):.0f} ms (max {MOST_CPU_MS})")
    for name, values in (("CPU (max 2)", cpu), ("elapsed, with whatever else the machine did", elapsed)):
        first, last = statistics.median(values[:2]), statistics.median(values[-2:])
        print(f"first two waves {first:.0f} ms, last two {last:.0f} ms, ratio {last / first:.2f}: {name}")
    print(f"CPU of taking a wave's six memories into the shared one: {statistics.median(merging):.0f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the engine: {peak:.0f} MB")


@dataclass
class Clocked:
    """When a wave began, when its agents were through, when their memories had been merged."""

    begun: Moment
    worked: Moment
    merged: Moment


class Watch(Quiet):
    """Looks at the clocks when the waves begin, when agents are through, and when the memories have been merged."""

    def __init__(self) -> None:
        super().__init__()
        self.waves: list[Clocked] = []
        self._began: Moment | None = None
        self._through: Moment | None = None

    def line(self, line: Line) -> None:
        if line.event == "waves":
            self._began = moment()
        elif line.event == "task":
            self._through = moment()
        elif line.event == "memory.merged" and self._began is not None and self._through is not None:
            self.waves.append(Clocked(self._began, self._through, moment()))
            self._began, self._through = self.waves[-1].merged, None


def filled_memory() -> str:
    """A memory as many runs leave it: lessons are kept for good."""
    lesson = "- [implementer-T{number:05}, step-5] something went wrong there → it was done in another way, like this\n"
    lessons = "".join(lesson.format(number=number) for number in range(MEMORY_BYTES // len(lesson)))
    return TEMPLATE.replace(f"{LESSONS}\n", f"{LESSONS}\n\n{lessons}")


def main() -> None:
    for work in (waves, overhead):
        with tempfile.TemporaryDirectory() as folder:
            work(Path(folder))


if __name__ == "__main__":
    main()
