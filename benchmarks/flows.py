"""What a playbook in YAML costs before it runs: loading one of 200 steps, and rehearsing one of 10.

Each figure is the median of the CPU time of interleaved repetitions, with a ratio to a baseline of the same run:
machines are noisy. With `--quick` there are so few that they only show that it works.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

from ruamel.yaml import YAML

from interlock.engine import Options
from interlock.flows import compiled, read, rehearsal

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


def rehearsing(paths: int) -> None:
    setup = rehearsal(read(flow_of(8), "flow.yaml"))
    began, played = time.process_time(), 0
    for one in itertools.islice(setup.paths(Options()), paths):
        played += 1
        assert setup.broken(one) == []
    seconds = time.process_time() - began
    print(f"10 steps: {played} paths in {seconds:.2f} s of one core, {played / seconds:.0f} a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    quick = parser.parse_args().quick
    loading(3 if quick else 40)
    rehearsing(20 if quick else 1000)


if __name__ == "__main__":
    main()
