"""What a person is shown again at a gate is compared with what they saw when they decided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.openings import shown_before

NOW = {"plan.md": "new"}


def line(seq: int, event: str, **digests: str) -> Any:
    return SimpleNamespace(seq=seq, event=event, data={"gate": "plan", "digests": {"plan.md": digests.get("plan", "")}})


@pytest.mark.req("EV-22")
@pytest.mark.parametrize(
    ("openings", "seen"),
    [
        ([line(1, "gate.opened", plan="new")], None),
        ([line(1, "gate.opened", plan="new"), line(2, "gate.opened", plan="new")], None),
        ([line(1, "gate.opened", plan="old"), line(2, "gate.opened", plan="new")], b"old"),
        ([line(1, "gate.opened", plan="new"), line(2, "gate.decided"), line(3, "gate.opened", plan="new")], b"now"),
    ],
)
def test_what_was_shown_before_somebody_decided_is_known(
    tmp_path: Path, openings: list[Any], seen: bytes | None
) -> None:
    """Also where it is the same now: whoever rejected it learns that nobody changed it."""
    (tmp_path / "plan.md").write_bytes(b"now")
    objects = SimpleNamespace(get=lambda digest: digest.encode())
    folder: Any = SimpleNamespace(root=tmp_path, objects=objects, elsewhere=lambda: None)
    assert shown_before(folder, openings, "plan", NOW, "plan.md") == seen
