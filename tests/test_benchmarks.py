"""The scripts behind the figures of the pages run on the engine as it is, and tell every figure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = r"[+-]?\d+(?:\.\d+)?"

FIGURES = {
    "layers": [
        r"git worktree` added and removed # m?s, `git status` # ms",
        r"a layer made, `true` in it, dropped: # ms; without a layer # ms, # times",
        r"against a worktree, added and removed: 1/# of its time",
        r"ten changes read: # ms, # of `git status`",
        r"ten files stored # ms, imported # ms",
        r"four layers at once, ten files each: # ms, # times one of them",
        r"disk for ten changes: # KB",
        r"a whole dispatch \(copy\) of a program that ends at once: # ms, bare # ms: # ms \(max 25\)",
        r"a whole dispatch \(copy\) of a program that takes # s and writes ten files: # ms, bare # ms: # ms \(max 25\)",
    ],
    "feature": [
        r"barrier: at most # agents at once in the whole run; four at work in #%",
        r"eager: at most # agents at once in the whole run; four at work in #%",
        r"makespan # s; what the agents' own times allow # s: # times that \(max 1.05\)",
        r"CPU of a dispatch: # ms \(max 60\)",
        r"ratio #: CPU \(max 2\)",
        r"peak memory of the engine: # MB",
    ],
    "engine": [
        r"journaled verb: # ms, bare synced append # ms, ratio # \(max 2\)",
        r"resume with # lines: # s",
        r"dispatch: # ms; bare subprocess and one snapshot # ms",
        r"simulated: # runs of 30 dispatches in # s",
        r"--version: # ms",
    ],
    "snapshots": [r"# +# ms +# ms +#x +# ms +#x +# ms +#x", r"peak memory of this process: # MiB"],
    "engine_memory": [r"nothing: # MB", r"10 MB of output: # MB", r"2 dispatches at once: # MB, # s \(max 80 MB\)"],
    "output_memory": [r"nothing +# MB peak", r"gigabyte +# MB peak", r"crowd +# MB peak", r"trivial +# MB peak"],
    "roadmap": [
        r"selection: # ms, of which CPU # ms \(max 50\)",
        r"rewrite of the last item: # ms",
        r"# ms an iteration",
    ],
    "flows": [
        r"200 steps, # lines: read # ms \(max 50\), with compiling # ms; "
        r"the parser in Python alone # ms, ratio # \(max 1\)",
        *(
            rf"10 steps in {what}: # paths, # different runs, in # s of one core: # paths \(min 1000\) and # runs "
            r"a second; # times what spelling and sealing the lines of the runs takes"
            for what in ("YAML", "Python")
        ),
    ],
    "ticket": [r"# files: # s \(max 5\), peak # MB"],
    "preflight": [r"scripted, # files: preflight # ms, its two commands alone # ms: # ms beside them \(max 500\)"],
    "web": [
        r"the board with # runs: # ms \(max 100\), slowest # ms",
        r"a transcript of # MB, page by page: # ms, # ms, # ms",
        r"# browsers watch the board: # ms until all have what changed",
        r"peak memory of the server: # MB \(max 120\)",
    ],
    "adr0001_engines": [r"jsonl +# +# +#"],
}
"""By script, the lines that it prints; ``#`` stands for a number."""

LONG = ("feature", "layers", "engine_memory", "snapshots")
ELSEWHERE = {
    "agents": "needs real clients",
    "escapes": "takes its own time",
    "fleet": "has a database and workers: see benchmarks/test_fleet.py",
}


@pytest.mark.req("LY-22", "WB-10")
@pytest.mark.parametrize("script", [pytest.param(one, marks=[pytest.mark.long] * (one in LONG)) for one in FIGURES])
def test_a_benchmark_runs_and_tells_every_figure(script: str) -> None:
    """With `--quick`, which shows that it works and nothing else."""
    words = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--quick"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in FIGURES[script]:
        assert re.search(line.replace("#", NUMBER), done.stdout), (line, done.stdout)


@pytest.mark.req("LY-22")
def test_no_benchmark_is_forgotten() -> None:
    """`make bench` runs them all, and `--quick` is known to each."""
    scripts = {path.stem: path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    assert scripts.keys() == {*FIGURES, *ELSEWHERE}
    assert [name for name, text in scripts.items() if "--quick" not in text and name != "escapes"] == []
