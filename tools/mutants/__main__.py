"""`python -m tools.mutants [--all] [--of MODULE] [--seed N] [--jobs N]`."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.mutants.mutations import Mutant
from tools.mutants.trying import NotPassing, Subject, survivors

ROOT = Path(__file__).parent.parent.parent
SOURCE = Path("src") / "interlock"
MOST_PERCENT = 3.0
SAMPLE = 20
"""Mutants of each module, unless all are asked for."""

TESTS: dict[str, tuple[str, ...]] = {
    "contracts/answer.py": ("contracts/test_answer.py",),
    "contracts/artifact.py": ("contracts/test_artifact.py",),
    "contracts/contract.py": ("contracts/test_contract.py", "contracts/test_evidence.py"),
    "contracts/documentation.py": ("playbooks/ticket/test_analysis.py",),
    "contracts/ended.py": ("contracts/test_reading.py", "contracts/test_evidence.py"),
    "contracts/evidence.py": ("contracts/test_evidence.py",),
    "contracts/failures.py": ("contracts/test_failures.py",),
    "contracts/marks.py": ("contracts/test_marks.py",),
    "contracts/meant.py": ("contracts/test_reading.py", "playbooks/test_against_evidence.py"),
    "contracts/outcome.py": ("contracts/test_contract.py",),
    "contracts/reading.py": ("contracts/test_reading.py", "contracts/test_evidence.py", "contracts/test_marks.py"),
    "contracts/recipes.py": ("contracts/test_recipes.py",),
    "contracts/spoken.py": ("contracts/test_reading.py", "contracts/test_evidence.py"),
    "contracts/structure.py": ("contracts/test_structure.py",),
    "contracts/weakening.py": ("contracts/test_weakening.py",),
    "contracts/words.py": ("contracts/test_marks.py",),
    "engine/journal.py": ("engine/test_journal_lines.py",),
    "engine/keys.py": ("engine/test_pure.py",),
    "engine/retry.py": ("engine/test_pure.py",),
    "playbooks/adopt/source.py": ("playbooks/adopt/test_statements.py",),
    "playbooks/adopt/statements.py": ("playbooks/adopt/test_statements.py",),
    "playbooks/adopt/trace.py": ("playbooks/adopt/test_trace.py",),
    "playbooks/adopt/verdicts.py": ("playbooks/adopt/test_trace.py",),
    "playbooks/feature/decisions.py": ("playbooks/feature/test_decisions.py",),
    "playbooks/harness/decisions.py": ("playbooks/harness/test_decisions.py",),
    "playbooks/roadmap/decisions.py": ("playbooks/roadmap/test_decisions.py",),
    "playbooks/router/decisions.py": ("playbooks/router/test_routing.py", "playbooks/router/test_commands.py"),
    "playbooks/task/decisions.py": ("playbooks/task/test_decisions.py",),
    "playbooks/ticket/graph.py": ("playbooks/ticket/test_graph.py", "playbooks/ticket/test_odd_graphs.py"),
    "telemetry/fitting.py": ("telemetry/test_fitting.py",),
    "workspace/scope.py": ("workspace/test_scope.py",),
}
"""The pure modules, and the tests that are to notice a change of each."""

_NEVER_0 = "asked only of programs that did not end with 0"
SAME: dict[tuple[str, str, str], str] = {
    ("contracts/answer.py", 'return f"exit status {code}" if code > 0 else f"signal {-code}"', "code >= 0"): _NEVER_0,
    ("contracts/answer.py", 'return f"exit status {code}" if code > 0 else f"signal {-code}"', "1"): _NEVER_0,
    ("engine/keys.py", "if not value:", "False"): "the common case, quicker",
    ("engine/keys.py", "return value if said == text else json.loads(said)", "False"): "read again it is the same",
    ("engine/retry.py", "growing = min(SHORTEST_WAIT_S * 2.0 ** min(waits, 30), LONGEST_WAIT_S)", "31"): (
        "any power beyond the longest wait: only that there is a bound counts"
    ),
    (
        "telemetry/fitting.py",
        'begins = lead[0] if lead else ""',
        "True",
    ): "a row begins with nothing at least",
    ("telemetry/fitting.py", "if text.isascii():", "False"): "the common case, quicker",
    ("workspace/scope.py", "if not self.protected:", "False"): "the common case, quicker",
}
"""Mutants that do what the original does, as (module, line, what stands there instead), with the reason: nothing could
notice them."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help=f"all mutants, not {SAMPLE} of each module")
    parser.add_argument("--of", action="append", choices=TESTS, metavar="MODULE", help="only those of this module")
    parser.add_argument("--seed", type=int, help="chooses the same mutants again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    options = parser.parse_args(arguments)
    seed = random.randrange(10_000) if options.seed is None else options.seed
    tried = lived = 0
    for module in options.of or TESTS:
        mutants = notable(module)
        if not options.all and len(mutants) > SAMPLE:
            mutants = sorted(random.Random(f"{seed} {module}").sample(mutants, SAMPLE), key=lambda one: one.line)
        alive = 0
        try:
            for one in survivors(subject_of(module), mutants, options.jobs):
                alive += 1
                print(f"{SOURCE / module}:{one.line}\n  - {one.before}\n  + {one.after}", flush=True)
        except NotPassing as failure:
            print(failure, file=sys.stderr)
            return 2
        tried, lived = tried + len(mutants), lived + alive
        print(f"{module}: {alive} of {len(mutants)} survived", flush=True)
    share = 100 * lived / max(tried, 1)
    chosen = "" if options.all else f" (--seed {seed})"
    print(f"{lived} of {tried} survived: {share:.1f} %, at most {MOST_PERCENT:g} % may{chosen}")
    return int(share > MOST_PERCENT)


def subject_of(module: str) -> Subject:
    file = ROOT / SOURCE / module
    name = ".".join(("interlock", *Path(module).with_suffix("").parts))
    return Subject(name, file, tuple(f"tests/{test}" for test in TESTS[module]), ROOT)


def notable(module: str) -> list[Mutant]:
    """The mutants of a module that a test can notice."""
    subject = subject_of(module)
    lines = subject.file.read_text(encoding="utf-8").splitlines()
    return [one for one in subject.mutants() if (module, lines[one.line - 1].strip(), one.after) not in SAME]


if __name__ == "__main__":
    sys.exit(main())
