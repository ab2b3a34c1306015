"""Workers: real processes, a real database, a real remote; agents that end when the test says so."""

from __future__ import annotations

import pytest

from tests.fleet.fleet import Fleet


@pytest.mark.req("WK-10")
def test_a_submitted_run_is_worked_off(fleet: Fleet) -> None:
    """Through its gate-less playbook to its end; each dispatch is on the ref before the next one begins."""
    run = fleet.submit("relay", "word")
    fleet.worker("one")
    fleet.until_ended(run)
    print(fleet.files(run).keys(), len(fleet.commits(run)), fleet.jobs())
