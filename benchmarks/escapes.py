"""Agents that lie, skip, break scope, hang, weaken tests, approve themselves and leave daemons, over all playbooks.

    python benchmarks/escapes.py                                   # 10,000 simulated runs and 200 real ones
    python benchmarks/escapes.py --simulated 500 --real 10 --seed 7
    python benchmarks/escapes.py --seed 7 --only simulated:feature:17   # one run again

A simulated run is the playbook's own rehearsal with up to six misdeeds at random calls, crashes and people among them;
its invariants are checked, and more.  A real run is a whole run in a small repository, in layers as they are used here,
whose agents really try: files everywhere, git, hooks, daemons, forged approvals, killing and wiping.  Afterwards the
user's git folder, home and all files that no accepted work explains must be what they were, no process may be left and
every journal must be whole.  What counts as a false accept is decided by the tree, the journal and what the agents
are known to have done, not by a playbook's word (`escaping/evidence.py`).  What got nowhere and was still counted on an
agent's word alone is counted by itself, under names of its own.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from escaping import real, simulated
from escaping.evidence import UNPROVEN, WRONG, Finding
from escaping.simulated import MEANWHILE, Outcome

from interlock.playbooks import NAMES

SEED = 20
SHOWN = 20
"""Findings of a kind that are shown."""
LONGEST_S = 180
"""A run that takes longer hangs."""


@dataclass
class Tally:
    """What came of many runs."""

    runs: Counter[str] = field(default_factory=Counter)
    spoilt: Counter[str] = field(default_factory=Counter)
    endings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    deeds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Each by playbook."""
    found: list[tuple[str, Finding]] = field(default_factory=list)

    def add(self, name: str, playbook: str, outcome: Outcome) -> None:
        self.runs[playbook] += 1
        self.spoilt[playbook] += any(deed not in MEANWHILE for deed in outcome.deeds)
        self.endings[f"*{outcome.status}*"][playbook] += 1
        for deed, count in outcome.deeds.items():
            self.deeds["what its rehearsal knows" if deed.startswith("own: ") else deed][playbook] += count
        for finding in outcome.found:
            self.found.append((name, finding))
            self.kinds[finding.kind][playbook] += 1
            if finding.kind in WRONG:
                print(f"{finding.kind} in {name}: {finding.text}", flush=True)

    @property
    def misdeeds(self) -> int:
        return sum(counted.total() for deed, counted in self.deeds.items() if deed not in MEANWHILE)


def in_memory(playbook: str, seed: str) -> Outcome:
    return simulated.play(playbook, seed)


def on_disk(playbook: str, seed: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="escapes-", ignore_cleanup_errors=True) as folder:
        return real.play(playbook, seed, Path(folder, "place"))


WAYS: dict[str, Callable[[str, str], Outcome]] = {"simulated": in_memory, "real": on_disk}


def names(way: str, count: int) -> Iterable[tuple[str, str]]:
    """The name of each run, and its playbook: all playbooks alike."""
    for number in range(count):
        playbook = NAMES[number % len(NAMES)]
        yield f"{way}:{playbook}:{number // len(NAMES)}", playbook


def carried_out(way: str, seed: int, wanted: Iterable[tuple[str, str]]) -> Tally:
    tally = Tally()
    for name, playbook in wanted:
        tally.add(name, playbook, in_time(WAYS[way], playbook, f"{seed}:{name}"))
    return tally


def in_time(play: Callable[[str, str], Outcome], playbook: str, seed: str) -> Outcome:
    """One run; that it breaks or hangs is a finding, and the others go on."""

    def hangs(_number: int, _frame: object) -> None:
        raise TimeoutError(f"no end after {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LONGEST_S)
    try:
        return play(playbook, seed)
    except Exception as error:  # noqa: BLE001
        return Outcome("broke", Counter(), [Finding("error", f"{type(error).__name__}: {error}")])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def tell(way: str, tally: Tally, seconds: float) -> None:
    """The tables, as they stand in docs/sandbox.md."""
    print(f"\n{tally.runs.total()} {way} runs in {seconds:.0f} s, {tally.misdeeds} misdeeds\n")
    row("", NAMES)
    row("---", ["---:"] * len(NAMES))
    row("runs", [tally.runs[name] for name in NAMES])
    row("of them with a misdeed", [tally.spoilt[name] for name in NAMES])
    row_of(tally.endings, sorted(tally.endings))
    row_of(tally.deeds, sorted(tally.deeds, key=lambda deed: (deed in MEANWHILE, deed)))
    row_of(tally.kinds, [f"**{kind}**" for kind in (*WRONG, *UNPROVEN)])
    sys.stdout.flush()


def row_of(counted: Mapping[str, Counter[str]], labels: Iterable[str]) -> None:
    for label in labels:
        found = counted.get(label.strip("*"), counted.get(label, Counter()))
        row(label, [found[name] for name in NAMES])


def row(label: str, cells: Iterable[object]) -> None:
    print(f"| {label} | " + " | ".join(map(str, cells)) + " |")


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
    print()
    for kind in (*WRONG, *UNPROVEN):
        some = [(name, finding.text) for name, finding in found if finding.kind == kind]
        print(f"{kind}: {len(some)}")
        for name, text in some[:SHOWN]:
            print(f"  --seed {options.seed} --only {name}: {text}")
    return 1 if any(finding.kind in WRONG for _name, finding in found) else 0


if __name__ == "__main__":
    sys.exit(main())
