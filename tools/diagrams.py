"""The diagrams of the playbooks' pages, made from what their rehearsals go through.

python tools/diagrams.py            write them
python tools/diagrams.py --check    fail if one is stale
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib import import_module
from pathlib import Path

from interlock.engine import Options
from interlock.engine.tracing import Trace
from interlock.playbooks import NAMES, load
from interlock.testing import Rehearsal

PAGES = Path(__file__).parent.parent / "docs" / "playbooks"
FAULTS = 1
"""In one run; more of them lead through the same steps."""
BLOCK = re.compile(r"(<!-- diagram: made by `make docs` from the rehearsal -->\n```mermaid\n).*?(```\n)", re.DOTALL)


def diagram(name: str) -> str:
    """What a playbook does, with every single fault of an agent."""
    playbook = load(name)
    rehearsal: Rehearsal = import_module(f"interlock.playbooks.{name}").rehearsal()
    trace = Trace(playbook)
    for played in rehearsal.paths(Options(max_parallel=playbook.max_parallel), most=FAULTS):
        trace.take(played.simulation.lines)
    return trace.mermaid()


def drawn(page: str, picture: str) -> str:
    """The page with this picture in its place."""
    text, count = BLOCK.subn(lambda found: found[1] + picture + found[2], page)
    if count != 1:
        raise SystemExit("a page has no place for its diagram, or more than one")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a diagram is stale")
    check = parser.parse_args().check
    stale = []
    for name in NAMES:
        page = PAGES / f"{name}.md"
        before = page.read_text(encoding="utf-8")
        after = drawn(before, diagram(name))
        if after != before:
            stale.append(page.name)
            if not check:
                page.write_text(after, encoding="utf-8")
    if check and stale:
        print(f"stale, run make docs: {', '.join(stale)}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
