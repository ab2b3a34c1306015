"""Agents that lie, skip, break scope, hang, weaken tests, approve themselves and leave daemons, over all playbooks.

    python benchmarks/escapes.py                                   # 10,000 simulated runs and 200 real ones
    python benchmarks/escapes.py --simulated 500 --real 10 --seed 7
    python benchmarks/escapes.py --only simulated:feature:17 --seed 7   # one run again

A simulated run is the playbook's own rehearsal with up to six misdeeds at random calls, crashes and people among them;
its invariants are checked, and more.  A real run is a whole run in a small repository, in layers as they are used here,
whose agents really try: files everywhere, git, hooks, daemons, forged approvals, killing and wiping.  Afterwards the
user's git folder, home and all files that no accepted work explains must be what they were, no process may be left and
every journal must be whole.  What counts as a false accept is decided by the tree, the journal and what the agents
are known to have done, not by a playbook's word (`escaping/evidence.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from escaping import real, simulated
from escaping.evidence import Finding
from escaping.simulated import Outcome

from interlock.playbooks import NAMES

SEED = 20
KINDS = ("escape", "false accept", "invariant", "error", "note")
SHOWN = 40
"""Findings that are shown."""


@dataclass
class Tally:
    """What came of many runs."""

    runs: Counter[str] = field(default_factory=Counter)
    endings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    deeds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    found: list[tuple[str, Finding]] = field(default_factory=list)

    def add(self, name: str, playbook: str, outcome: Outcome) -> None:
        self.runs[playbook] += 1
        self.endings[playbook][outcome.status] += 1
        for deed, count in outcome.deeds.items():
            self.deeds["own" if deed.startswith("own: ") else deed][playbook] += count
        for finding in outcome.found:
            self.found.append((name, finding))
            if len(self.found) <= SHOWN:
                print(f"  {finding.kind} in {name}: {finding.text}", flush=True)

    def count(self, kind: str) -> int:
        return sum(finding.kind == kind for _, finding in self.found)


def in_memory(playbook: str, seed: str) -> Outcome:
    try:
        return simulated.play(playbook, seed)
    except Exception as error:  # noqa: BLE001 - a run that breaks is a finding, and the others go on
        return Outcome("broke", Counter(), [Finding("error", f"{type(error).__name__}: {error}")])


def on_disk(playbook: str, seed: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="escapes-", ignore_cleanup_errors=True) as folder:
        try:
            return real.play(playbook, seed, Path(folder, "place"))
        except Exception as error:  # noqa: BLE001
            return Outcome("broke", Counter(), [Finding("error", f"{type(error).__name__}: {error}")])


WAYS: dict[str, Callable[[str, str], Outcome]] = {"simulated": in_memory, "real": on_disk}


def names(way: str, count: int) -> Iterable[tuple[str, str]]:
    """The name of each run, and its playbook: all playbooks alike."""
    for number in range(count):
        playbook = NAMES[number % len(NAMES)]
        yield f"{way}:{playbook}:{number // len(NAMES)}", playbook


def carried_out(way: str, seed: int, wanted: Iterable[tuple[str, str]]) -> Tally:
    tally = Tally()
    for name, playbook in wanted:
        tally.add(name, playbook, WAYS[way](playbook, f"{seed}:{name}"))
    return tally


def tell(way: str, tally: Tally, seconds: float) -> None:
    print(f"\n{tally.runs.total()} {way} runs in {seconds:.0f} s")
    print(f"{'':22}" + "".join(f"{name:>9}" for name in NAMES))
    for ending in sorted({one for some in tally.endings.values() for one in some}):
        print(f"{'ended: ' + ending:22}" + "".join(f"{tally.endings[name][ending]:9}" for name in NAMES))
    for deed in sorted(tally.deeds):
        print(f"{deed:22}" + "".join(f"{tally.deeds[deed][name]:9}" for name in NAMES))
    print(f"{sum(map(Counter.total, tally.deeds.values()))} misdeeds", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--simulated", type=int, default=10_000)
    parser.add_argument("--real", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", help="one run by its name, such as simulated:feature:17")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    found: list[tuple[str, Finding]] = []
    for way, count in (("simulated", options.simulated), ("real", options.real)):
        wanted = list(names(way, count))
        if options.only:
            wanted = [(options.only, options.only.split(":")[1])] if options.only.startswith(f"{way}:") else []
        if not wanted:
            continue
        started = time.monotonic()
        tally = carried_out(way, options.seed, wanted)
        tell(way, tally, time.monotonic() - started)
        found += tally.found
    counted = Counter(finding.kind for _, finding in found)
    print(f"\n{counted['escape']} escapes, {counted['false accept']} false accepts")
    for kind in KINDS[2:]:
        if counted[kind]:
            print(f"{counted[kind]} of kind {kind!r}")
    for name, finding in found[:SHOWN]:
        print(f"  {finding.kind}: --seed {options.seed} --only {name}: {finding.text}")
    return 1 if counted.total() > counted["note"] else 0


if __name__ == "__main__":
    sys.exit(main())
