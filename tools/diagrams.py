"""The diagrams of the playbooks' pages, and the figures beside each playbook, made from what their rehearsals do.

python tools/diagrams.py            write them
python tools/diagrams.py --check    fail if one is stale
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib import import_module
from pathlib import Path

from interlock.cli.plan import play
from interlock.engine import Options
from interlock.engine.outlook import FIGURES
from interlock.engine.tracing import Trace
from interlock.playbooks import NAMES, load
from interlock.testing import Rehearsal

HERE = Path(__file__).parent.parent
PAGES, ROOMS = HERE / "docs" / "playbooks", HERE / "src" / "interlock" / "playbooks"
FAULTS = 1
"""In one run; more of them lead through the same steps."""
BLOCK = re.compile(r"(<!-- diagram: made by `make docs` from the rehearsal -->\n```mermaid\n).*?(```\n)", re.DOTALL)


def rehearsed(name: str) -> tuple[str, str]:
    """What a playbook does, with every single fault of an agent: as a picture, and the calls that it took."""
    playbook = load(name)
    rehearsal: Rehearsal = import_module(f"interlock.playbooks.{name}").rehearsal()
    trace = Trace(playbook)
    result = play(rehearsal, Options(max_parallel=playbook.max_parallel), FAULTS, trace=trace)
    figures = {"faults": FAULTS, "paths": result.paths, "fewest": result.fewest, "most": result.most_calls}
    return trace.mermaid(), json.dumps(figures) + "\n"


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
        picture, figures = rehearsed(name)
        page, counted = PAGES / f"{name}.md", ROOMS / name / FIGURES
        for file, text in ((page, drawn(page.read_text(encoding="utf-8"), picture)), (counted, figures)):
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                stale.append(f"{name}: {file.name}")
                if not check:
                    file.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"stale, run make docs: {', '.join(stale)}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
