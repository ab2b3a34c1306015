"""What is damaged, or goes away while somebody looks at it: the page says so, and the rest of it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.web.conftest import Place, Site


@pytest.mark.req("WB-02", "LY-35")
def test_runs_that_cannot_be_read_stand_on_the_board(place: Place, site: Site) -> None:
    """As damaged, with what is wrong, each with a page that says what to do; once put back, they are runs again."""
    good, bad, odd = (place.waiting(what) for what in ("a kite", "a boat", "a cart"))
    whole = (place.folder(bad) / "run.json").read_bytes()
    (place.folder(bad) / "run.json").write_bytes(whole[:20])
    facts: dict[str, Any] = json.loads((place.folder(odd) / "run.json").read_bytes())
    (place.folder(odd) / "run.json").write_text(json.dumps(facts | {"started_at": "<b>yesterday"}), "utf-8")
    client = site.client()
    board = client.get("/").text
    assert all(f'data-run="{run_id}"' in board for run_id in (good, bad, odd))
    assert board.count(">damaged</span>") == 2
    assert "<b>" not in board
    for run_id in (bad, odd):
        page = client.get(f"/{place.name}/runs/{run_id}")
        assert (page.status, f"interlock recover {run_id}" in page.text) == (422, True)
        assert run_id in place("runs").stderr
    (place.folder(bad) / "run.json").write_bytes(whole)
    assert client.get("/").text.count(">damaged</span>") == 1
