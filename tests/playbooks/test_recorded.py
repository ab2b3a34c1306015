"""A run of every playbook, recorded once and replayed by each change (RUN-21).

One that fails here strands the open runs of people: it needs a reason.  Then record anew:
`python -c "from tests.playbooks.test_recorded import record; record()"`
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.app import SHIPPED, playbook_named
from interlock.engine.against import against
from interlock.engine.folder import InMemory
from interlock.engine.journal import Memory
from interlock.engine.rehearsal import explore, variants

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.req("RUN-21", "OWN-04")
@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_what_is_recorded_is_what_is_asked(name: str) -> None:
    playbook = playbook_named(name)
    for recorded in json.loads((RECORDED / f"{name}.json").read_text()):
        folder = InMemory()
        folder.medium = Memory("".join(f"{line}\n" for line in recorded["lines"]).encode())
        folder.objects = {digest: text.encode() for digest, text in recorded["objects"].items()}
        settings = playbook.settings() if playbook.settings else None
        came = against(playbook, folder, settings=settings, own={})
        assert (came.key, came.what) == ("", "")
        assert came.kept == sum('"asked":' in line for line in recorded["lines"])


def record() -> None:
    """The usual path, and the first on which somebody who judges or decides is against it once."""
    RECORDED.mkdir(exist_ok=True)
    for name in SHIPPED:
        playbook = playbook_named(name)
        inputs, usual, other = next(variants(playbook)), None, None
        for path in explore(playbook, inputs, only=lambda name: name.startswith(("verdict", "chooses reject"))):
            usual = usual or path
            other = other or (path if path.calls > usual.calls else None)
        kept = []
        for path in filter(None, (usual, other)):
            lines = path.world.folder.medium.load().decode().splitlines()
            objects = {one: text.decode("utf-8", "replace") for one, text in path.world.folder.objects.items()}
            kept.append({"lines": lines, "objects": objects})
        (RECORDED / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
