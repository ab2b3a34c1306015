"""What a playbook costs before it runs: loading a YAML of 200 steps, rehearsing 10 steps in YAML and in Python.

Each figure is the median of the CPU time of interleaved repetitions, with a ratio to a baseline of the same run:
machines are noisy. With `--quick` there are so few that they only show that it works.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from ruamel.yaml import YAML

from interlock.contracts import AnswerFormat, Contract, Outcome
from interlock.engine import Dispatch, Ending, Kind, Options, Report, Run, Table, playbook
from interlock.engine.keys import sha256
from interlock.flows import compiled, read, rehearsal
from interlock.testing import Played, Rehearsal, standard_rehearsal

HEAD = """playbook: large
summary: Many steps.
inputs:
  slug: {help: The name of the work.}
key: "{{ slug }}"
agents:
  builder: {writes: src/**}
  reviewer: {judges: reading}
steps:
"""
FOUR = """  - agent: builder
    name: build_{n}
    task: Carry out part {n} of the plan for {{{{ slug }}}}.
    reads: docs/{{{{ slug }}}}/plan-{n}.md
  - run: check_{n}
    command: make check-{n}
    must: pass
  - together: review_{n}
    members:
      security_{n}: {{agent: reviewer, task: "Judge part {n} of {{{{ slug }}}}."}}
      style_{n}: {{agent: reviewer, task: "Judge the style of part {n}."}}
  - decide: after_{n}
    rows:
      - {{check_{n}: passed, review_{n}: pass, then: go on}}
      - {{check_{n}: failed, then: end broken}}
      - {{review_{n}: [revise, blocked, failed], then: end broken}}
"""
TAIL = """  - {end: done, status: complete, words: It is done.}
  - {end: broken, status: failed, words: It is broken.}
"""


def flow_of(steps: int) -> str:
    """A flow of so many steps, four in a group; its endings are two more."""
    return HEAD + "".join(FOUR.format(n=n) for n in range(steps // 4)) + TAIL


def measured(count: int, *works: Callable[[], object]) -> list[float]:
    """The median CPU time of each, in milliseconds, taken in turn."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(count):
        for work, times in zip(works, taken, strict=True):
            started = time.process_time()
            work()
            times.append((time.process_time() - started) * 1e3)
    return [statistics.median(times) for times in taken]


def loading(count: int) -> None:
    text = flow_of(200)
    whole, python, made = measured(
        count,
        lambda: read(text, "flow.yaml"),
        lambda: list(YAML(typ="safe", pure=True).parse(text)),
        lambda: compiled(read(text, "flow.yaml")),
    )
    print(
        f"200 steps, {text.count(chr(10))} lines: read {whole:.1f} ms (max 50), with compiling {made:.1f} ms; "
        f"the parser in Python alone {python:.1f} ms, ratio {whole / python:.2f} (max 1)"
    )


class Check(StrEnum):
    PASSED = "passed"
    FAILED = "failed"


class Move(StrEnum):
    ON = "go on"
    STOP = "stop"


AFTER = Table(
    "after_review",
    {
        (check, worst): Move.ON if check is Check.PASSED and worst is Outcome.OK else Move.STOP
        for check in Check
        for worst in Outcome
    },
)
VERDICT = AnswerFormat(
    {"DONE": Outcome.OK, "NEEDS_REVISION": Outcome.REVISE, "BLOCKED": Outcome.BLOCKED, "ERROR": Outcome.FAIL}, "DONE"
)


@dataclass(frozen=True)
class Work:
    slug: str = "text"


def work_key(work: Work) -> str:
    return work.slug


@playbook("ten", inputs=Work, key=work_key)
async def ten(run: Run, work: Work) -> Ending:
    """Build, check, have two judge it, decide; twice: the steps of the flow, without what `must: pass` adds."""
    for n in range(2):
        task = f"Carry out part {n} of the plan for {work.slug}."
        with run.step(f"build_{n}"):
            changes = Contract(answer=VERDICT, must_change=True)
            await run.dispatch(Dispatch("builder", task, changes, writes=("src/**",)))
        with run.step(f"check_{n}"):
            result = await run.command(("make", f"check-{n}"))
        reports = await run.cluster(f"review_{n}", {name: _judge(run, name, n) for name in ("security", "style")})
        worst = max((report.outcome for report in reports.values()), key=list(Outcome).index)
        if run.decide(AFTER, Check.PASSED if result.ok else Check.FAILED, worst) is Move.STOP:
            return Ending.failed("It is broken.")
    return Ending.complete("It is done.\n")


def _judge(run: Run, name: str, n: int) -> Callable[[], Awaitable[Report]]:
    spec = Dispatch("reviewer", f"Judge part {n}.", Contract(answer=VERDICT), member=name, kind=Kind.JUDGE)
    return lambda: run.dispatch(spec)


def rehearsing(what: str, setup: Rehearsal, most: int) -> None:
    """Every path with at most so many faults, judged by every rule; schedules that come to one run share it.

    The baseline is what no rehearsal can do without: to spell and seal the lines of each journal.
    """
    seconds = sealing = 0.0
    paths = runs = 0
    one = iter(setup.paths(Options(), most=most))
    while True:
        started = time.process_time()
        path = next(one, None)
        is_known = path is not None and bool(path.shown)
        assert path is None or setup.broken(path) == []
        done = time.process_time()
        seconds += done - started
        if path is None:
            break
        paths += 1
        if not is_known:
            runs += 1
            _seal(path)
            sealing += time.process_time() - done
    print(
        f"10 steps in {what}: {paths} paths, {runs} different runs, in {seconds:.2f} s of one core: "
        f"{paths / seconds:.0f} paths (min 1000) and {runs / seconds:.0f} runs a second; "
        f"{seconds / sealing:.1f} times what spelling and sealing the lines of the runs takes"
    )


def _seal(path: Played) -> None:
    for line in path.simulation.lines:
        sha256(line.to_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    quick = parser.parse_args().quick
    loading(3 if quick else 40)
    most = 1 if quick else 2
    rehearsing("YAML", rehearsal(read(flow_of(8), "flow.yaml")), most)
    rehearsing("Python", standard_rehearsal(ten), most)


if __name__ == "__main__":
    main()
