"""What is damaged, or goes away while somebody looks at it: the page says so, and the rest of it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import chromium, tab
from tests.web.conftest import PATIENCE_S, Place, Site

__all__ = ["chromium"]


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


@pytest.mark.req("WB-03")
def test_a_run_that_goes_away_is_not_live_any_more(place: Place, site: Site, chromium: Browser) -> None:
    """The page that somebody watches says so, and says when it is back; loaded anew, there is no such page."""
    run_id = place.waiting()
    folder, aside = place.folder(run_id), place.root / "aside"
    with tab(chromium) as page:
        page.goto(site.invitation())
        page.goto(f"{site.origin}/{place.name}/runs/{run_id}")
        sign = expect(page.locator("#live"))
        sign.to_have_text("live", timeout=PATIENCE_S * 1000)
        folder.rename(aside)
        sign.to_contain_text("gone", timeout=PATIENCE_S * 1000)
        aside.rename(folder)
        sign.to_have_text("live", timeout=PATIENCE_S * 1000)
        folder.rename(aside)
        answer = page.reload()
        assert answer is not None
        assert (answer.status, page.locator("h1").inner_text()) == (404, "There is no such page")


@pytest.mark.req("WB-01", "WB-06")
def test_a_workspace_that_goes_away_is_said_to_be_gone(place: Place, site: Site) -> None:
    """The board is empty, its forms say why nothing can be started; nothing is a fault of ours."""
    run_id = place.waiting()
    client = site.client()
    form = {"token": client.get(f"/{place.name}/start/task").field("token"), "request": "a kite", "do": "plan"}
    aside = place.root.with_name("aside")
    place.root.rename(aside)
    try:
        assert run_id not in client.get("/").text
        assert client.get(f"/{place.name}/runs/{run_id}").status == 404
        said = client.post(f"/{place.name}/start/task", form)
        assert (said.status, "cannot be started: no such file" in said.text) == (409, True), said.text
    finally:
        aside.rename(place.root)
    assert run_id in client.get("/").text
