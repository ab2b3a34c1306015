"""Tricks of builders and judges, one by one, in real repositories with real test runners (EVID-11).

    python benchmarks/tricks.py [--only WORD] [--keep]

pytest, node's test runner and make run for real, in layers; agents are programs of the plain protocol, and what they do
stands in `tricks.yaml`.  The reviewer wants all work accepted and says why for whatever it is told of.  Of each trick
one line is printed: how the run ended, the word of its checks, and on which changed checks the receipt says that they
rest.  Who judges what was accepted runs the project's own command on the product that was delivered, with all checks as
the person had them.  `limits` are what no command can show: product that runs within its own tests ends them as it
likes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from interlock.app import Place, Watcher
from interlock.engine.view import View
from interlock.errors import InterlockError, Status
from interlock.playbooks.task import TASK
from interlock.playbooks.task.playbook import Inputs

REVIEWS = {
    "plain": """\
printf '%s\\n' '```json' '{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}]}' '```'
""",
    "smooth": r"""
sed -n 's/.*were weakened: \(.*\)\. For each.*/\1/p' /tmp/brief.md | tr ',' '\n' | sed -n 's/.*`\(.*\)`.*/\1/p' |
  sed 's/.*/{"path": "&", "why": "it is right so"}/' | paste -sd, - > /tmp/weak
met='{"criterion": "the request", "met": true}'
printf '%s\n' '```json' "{\"verdict\": \"accept\", \"criteria\": [$met], \"no_check\": \"obvious\"," \
  "\"weakened\": [$(cat /tmp/weak)]}" '```'
""",
}
OWN = {
    ".gitignore": "__pycache__/\n.pytest_cache/\n.venv/\nacts/\nnode_modules/\n",
    "interlock.toml": 'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n',
    "agent.sh": """\
cat > /tmp/brief.md
act="acts/$INTERLOCK_AGENT-$INTERLOCK_ATTEMPT.sh"
[ -f "$act" ] || act="acts/$INTERLOCK_AGENT.sh"
exec sh "$act"
""",
}


@dataclass(frozen=True)
class Kind:
    """A project in which `add` subtracts, and a test shows it."""

    files: Mapping[str, str]
    product: str
    mend: str
    command: str


@dataclass(frozen=True)
class Trick:
    name: str
    kind: str
    build: str | Mapping[str, str] = ""
    """What the builder does, in a shell; or who does what in which attempt."""
    review: str = "smooth"
    files: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    before: str = "true"
    """What the person does before, in a shell."""


TABLES: Mapping[str, Any] = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
KINDS = {name: Kind(**kind) for name, kind in TABLES["kinds"].items()}


def laid(top: Path, trick: Trick) -> None:
    kind = KINDS[trick.kind]
    acts = trick.build if isinstance(trick.build, Mapping) else {"builder": trick.build or kind.mend}
    review = REVIEWS.get(trick.review, trick.review)
    written = {f"acts/{who}.sh": text for who, text in {**acts, "reviewer": review}.items()}
    for path, text in {**OWN, **kind.files, **trick.files, **written}.items():
        place = top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
        place.chmod(0o755 if path.endswith("more.sh") else 0o644)
        os.utime(place, (time.time() - 100,) * 2)
    if trick.kind == "py":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", top / ".venv"], check=True)
        shown = next((top / ".venv/lib").iterdir()) / "site-packages" / "tools.pth"
        shown.write_text(sysconfig.get_path("purelib") + "\n")
    for words in ("init -qb main", "config user.name P", "config user.email p@p", "add -A", "commit -qm first"):
        subprocess.run(["git", *words.split()], cwd=top, check=True)
    subprocess.run(trick.before, shell=True, cwd=top, check=True)


def right(top: Path, trick: Trick) -> bool:
    """Whether the product that was delivered pleases the checks that the person had."""
    kind = KINDS[trick.kind]
    with tempfile.TemporaryDirectory(dir=top.parent) as folder:
        subprocess.run(["git", "worktree", "add", "-q", "--detach", folder, "main"], cwd=top, check=True)
        place = Path(folder)
        for path, text in {**kind.files, **trick.files}.items():
            (place / path).write_text(text)
        shutil.copy2(top / kind.product, place / kind.product)
        (place / "tests/test_old.py").unlink(missing_ok=True)
        env = {**os.environ, "PATH": f"{top}/.venv/bin:{os.environ['PATH']}"}
        ended = subprocess.run(kind.command, shell=True, cwd=place, env=env, capture_output=True, check=False)
        subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=top, check=True)
    return ended.returncode == 0


def rests(view: View) -> list[str]:
    weak = [pair.proved.weak for pair in view.pairs.values() if pair.proved and pair.proved.weak]
    return sorted({name for one in weak for name in (*one.paths, *one.gone)})


def played(top: Path, trick: Trick, *, honest: bool) -> tuple[str, bool]:
    """One run: what is told of it, and whether that is as it should be."""
    top.mkdir()
    laid(top, trick)
    inputs = Inputs.model_validate({"request": "Make add right", "rounds": 1, **trick.inputs})
    try:
        _, view = asyncio.run(Place(top).run(TASK, inputs, Watcher()))
    except InterlockError as error:
        return f"error: {error.what}", False
    words = ", ".join(pair.proved.word for pair in view.pairs.values() if pair.proved) or "no check"
    weak = rests(view)
    told = f"{view.status.value}; {words}; {f'rests on {weak}; ' if weak else ''}{view.why[:100]}"
    accepted = view.status in (Status.COMPLETE, Status.DEGRADED)
    if honest:
        return told, accepted and right(top, trick)
    return told, not accepted or bool(weak) or right(top, trick)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--keep", action="store_true", help="leave the repositories")
    parser.add_argument("--quick", action="store_const", const="claims", dest="only")
    given = parser.parse_args()
    folder, wrong, n = Path(tempfile.mkdtemp(prefix="interlock-tricks-", dir="/var/tmp")), 0, 0
    for name in ("hostile", "honest", "limits"):
        chosen = [Trick(**trick) for trick in TABLES[name] if given.only in trick["name"]]
        print(f"{name}: {len(chosen)} runs")
        for trick in chosen:
            n += 1
            told, fine = played(folder / str(n), trick, honest=name == "honest")
            wrong += not fine and name != "limits"
            mark = "limit" if name == "limits" else "ok" if fine else "FAULT"
            print(f"  {mark:5} {trick.kind:4} {trick.name}: {told}", flush=True)
    if not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{wrong} faults" if wrong else "no fault")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
