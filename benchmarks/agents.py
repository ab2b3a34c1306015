"""What a runner adds to a coding agent: the same prompt to the bare client and through interlock, in turns.

The clients are real, the model is scripted (`python -m tools.clients install` installs them; those that are not
installed are left out).  Each figure is the median of interleaved pairs of one run; half of the pairs begin with the
bare client.  The bound: at most 1.15 times the bare client, or 100 ms more where that is more.

    python benchmarks/agents.py [--pairs 20] [--quick] [NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import make_runner
from interlock.agents.runner import AgentRequest
from tools.clients import HEADLESS, client, environment, headless
from tools.model_server import serving

PAIRS = 20
PROMPT = "@write docs/note.md :: hello\n@say OK: written"
FACTOR, MARGIN_S = 1.15, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=list(HEADLESS))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--quick", action="store_true", help="one pair, of the first that is installed")
    options = parser.parse_args()
    pairs = 1 if options.quick else options.pairs
    installed = [name for name in options.names if client(name).installed()]
    for name in installed[:1] if options.quick else options.names:
        if not client(name).installed():
            print(f"{name}: not installed")
            continue
        with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".interlock-bench-") as place, serving() as model:
            measure(name, Path(place), model.url, pairs)


def measure(name: str, place: Path, url: str, pairs: int) -> None:
    """Pairs of calls, and what the runner adds."""
    env = environment(name, url, place / "home")
    workspace = place / "workspace"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    calls: dict[str, Callable[[], None]] = {
        "bare": lambda: bare(name, workspace, env),
        "runner": lambda: through_runner(name, place, workspace, env),
    }
    for call in calls.values():  # the first start of a client unpacks and caches
        call()
    seconds: dict[str, list[float]] = {"bare": [], "runner": []}
    for number in range(pairs):
        for kind in ("bare", "runner") if number % 2 else ("runner", "bare"):
            (workspace / "docs" / "note.md").unlink(missing_ok=True)
            started = time.perf_counter()
            calls[kind]()
            seconds[kind].append(time.perf_counter() - started)
            assert (workspace / "docs" / "note.md").exists(), f"{name}: {kind} wrote nothing"
    alone, within = (statistics.median(seconds[kind]) for kind in ("bare", "runner"))
    allowed = max(FACTOR * alone, alone + MARGIN_S)
    print(
        f"{name}: bare {alone:.3f} s, through the runner {within:.3f} s: {within / alone:.2f}x, "
        f"{(within - alone) * 1e3:+.0f} ms (allowed {allowed:.3f} s){'' if within <= allowed else '  TOO MUCH'}"
    )


def bare(name: str, workspace: Path, env: dict[str, str]) -> None:
    """The plainest call a person would write."""
    called = headless(name, PROMPT, workspace)
    subprocess.run(
        called.argv, input=called.stdin.encode(), cwd=workspace, env=env, capture_output=True, check=True, timeout=120
    )


def through_runner(name: str, place: Path, workspace: Path, env: dict[str, str]) -> None:
    """The same prompt as a dispatch hands it over."""
    runner = make_runner(name, Configured(name, str(client(name).path())), env)
    mark = secrets.token_hex(6)
    request = AgentRequest(
        run_id="bench",
        playbook="bench",
        step="bench",
        agent="bench",
        member="bench",
        attempt=1,
        dispatch="bench#1",
        session="bench",
        workspace=workspace,
        folder=place / "records" / mark,
        brief=PROMPT,
        timeout_s=120.0,
        marker=f"bench:{mark}",
    )
    exit_ = asyncio.run(runner.call(request, lambda _news: None))
    assert exit_.fault is None, exit_


if __name__ == "__main__":
    main()
