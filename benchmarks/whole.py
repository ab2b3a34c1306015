"""A whole run of `task` whose agents cost nothing, beside the sum of its parts: two dispatches, three checks.

In 5,000 files, medians of interleaved repetitions, CPU and wall of the same process; and what a call of an agent costs
in the simulated world, process by process. With `--quick` small and once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.dispatch import dispatch, made, timed
from interlock.app import Place, Watcher, playbook_named
from interlock.engine.rehearsal import Path as Way
from interlock.engine.rehearsal import variants
from interlock.settings import SandboxSettings
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees

AGENT = """\
cat > /dev/null
[ "$INTERLOCK_AGENT" = builder ] && date +%N > d0/e0/f0.py
echo '```json'
echo '{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}], "no_check": "none is needed"}'
echo '```'
"""
SETTINGS = 'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n[commands]\ntest = "true"\n'


def whole(top: Path) -> None:
    playbook = playbook_named("task")
    inputs = playbook.inputs.model_validate({"request": "Change one file"})
    _, view = asyncio.run(Place(top, {}).run(playbook, inputs, Watcher()))
    assert view.status.value == "complete", view.why


def check(trees: Trees, layers: Layers) -> None:
    """A command that decides, on the tree as it is."""
    standing = trees.standing("run", trees.where())
    layer = layers.for_command("run", standing, standing.tree, keeps=False)
    wrapped = layer.wrap(["/bin/sh", "-c", "true"], {"PATH": os.defpath})
    subprocess.run(wrapped.argv, env=dict(wrapped.env), cwd=wrapped.cwd, pass_fds=wrapped.pass_fds, check=True)
    for handle in wrapped.pass_fds:
        os.close(handle)
    layer.drop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir="/var/tmp") as folder:
        top = Path(folder) / "w"
        made(top, 300 if quick else 5_000, 0)
        (top / "agent.sh").write_text(AGENT)
        (top / "interlock.toml").write_text(SETTINGS)
        whole(top)
        runs, parts = [], []
        for number in range(1 if quick else 7):
            trees = Trees(Workspace(top))
            layers = Layers(trees, SandboxSettings())
            dispatched = [timed(lambda: dispatch(trees, layers, 2 * number + n)) for n in range(2)]  # noqa: B023
            checked = [timed(lambda: check(trees, layers)) for _ in range(3)]  # noqa: B023
            parts.append([sum(one[at] for one in (*dispatched, *checked)) for at in (0, 1)])
            runs.append(timed(lambda: whole(top)))
        ours, theirs = ([statistics.median(one[at] for one in found) for at in (0, 1)] for found in (runs, parts))
        print(
            f"whole task: {ours[0]:.0f} ms CPU, {ours[1]:.0f} ms wall; its dispatches and checks alone"
            f" {theirs[0]:.0f}, {theirs[1]:.0f}: {ours[0] / theirs[0]:.2f}x CPU, {ours[1] / theirs[1]:.2f}x wall"
        )
    for name in ("roadmap", "ticket", "feature"):
        playbook = playbook_named(name)
        Way(playbook, next(variants(playbook)), {}).play()  # what is made once: schemas, templates
        began = time.perf_counter()
        way = Way(playbook, next(variants(playbook)), {}).play()
        print(
            f"{name}, simulated: {(time.perf_counter() - began) * 1000 / max(way.calls, 1):.1f} ms a call", flush=True
        )


if __name__ == "__main__":
    main()
