"""`ticket`, rehearsed: every path holds."""

from __future__ import annotations

import pytest

from interlock.engine.holds import broken
from interlock.engine.rehearsal import Path, variants
from interlock.errors import Status
from interlock.playbooks.ticket import TICKET


@pytest.mark.req("PROOF-01", "TK-01")
def test_the_clean_path_of_each_variant_holds() -> None:
    paths = [Path(TICKET, inputs, {}).play() for inputs in variants(TICKET)]
    assert [why for path in paths for why in broken(path)] == []
    assert {path.view.status for path in paths} == {Status.COMPLETE}
