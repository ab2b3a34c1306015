"""The page in a real browser: a whole run watched, decided by keyboard, started, cancelled and resumed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from interlock.demo.tour import REQUEST
from interlock.demo.workspace import make
from tests.browser import PATIENCE_MS, chromium, tab
from tests.web.conftest import Place, Site, person, until

__all__ = ["chromium"]

pytestmark = pytest.mark.long

expect.set_options(timeout=PATIENCE_MS)
NASTY = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "\x1b[31mred \x07 [x](javascript:alert(1))"
)


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    """A browser that came in."""
    with tab(chromium) as made:
        made.goto(site.invitation())
        expect(made).to_have_url(f"{site.origin}/")
        yield made


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """What the browser complains about: scripts, policies, files that are not there."""
    found: list[str] = []
    page.on("console", lambda said: found.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def at(site: Site, run_id: str, more: str = "") -> str:
    return f"{site.origin}/{site.place.name}/runs/{run_id}{more}"


@pytest.mark.req("WB-05", "WB-13")
def test_a_stale_gate_is_refused_and_then_approved_by_keyboard(
    place: Place, site: Site, page: Page, complaints: list[str]
) -> None:
    """What changed behind the page is shown anew; then Tab and Enter alone decide, with a note."""
    run_id = place.waiting()
    page.goto(at(site, run_id, "/gate"))
    (place.root / "plan.md").write_text("# Another plan\n\nWith rockets.\n", "utf-8")
    page.get_by_role("button", name="approve").click()
    expect(page.get_by_role("status").or_(page.locator(".notice")).first).to_contain_text("changed since")
    expect(page.locator(".paper").first).to_contain_text("With rockets.")
    assert place.decisions(run_id) == []
    note = page.locator("#note")
    for _ in range(60):
        if note.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.type("by keyboard")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "approve"
    page.keyboard.press("Enter")
    expect(page).to_have_url(at(site, run_id))
    until(lambda: place.status(run_id) == "complete", "the run is complete")
    expect(page.locator("body")).to_contain_text("complete")
    (decided,) = place.decisions(run_id)
    assert (decided["who"], decided["note"], decided["choice"]) == (person(), "by keyboard", "approve")
    assert [one for one in complaints if "409" not in one] == []


@pytest.mark.req("WB-06", "WB-07")
def test_a_run_is_started_cancelled_and_resumed(place: Place, site: Site, page: Page) -> None:
    """From the form, with its plan before; one at work is cancelled; one whose process died goes on."""
    place.scenario({"agent": "planner", "misbehave": "hang"})

    def start(what: str) -> str:
        page.goto(f"{site.origin}/{place.name}/start/ship")
        page.get_by_label("What").fill(what)
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("#plan")).to_contain_text("Calls of agents")
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/runs/ship-*")
        return page.url.rpartition("/")[2]

    cancelled = start("a kite")
    page.locator("form[action$='/cancel'] summary").click()
    page.locator("form[action$='/cancel'] button").first.click()
    until(lambda: place.status(cancelled) == "stopped", "it is cancelled")
    died = start("a boat")
    until(lambda: place.status(died) == "running", "it is at work")
    note = next(file for file in (place.root / ".interlock/locks").glob("ship-*.json") if died in file.read_text())
    os.kill(json.loads(note.read_bytes())["pid"], signal.SIGKILL)
    place.scenario()
    page.goto(at(site, died))
    page.reload()
    page.locator("form[action$='/resume'] button").first.click()
    until(lambda: place.status(died) == "waiting", "it went on to its gate")


@pytest.mark.req("WB-02", "WB-03", "WB-07")
def test_two_browsers_and_a_server_that_is_killed_in_between(
    place: Place, site: Site, page: Page, chromium: Browser
) -> None:
    """Both see a decision that one makes; after a restart both come in again, and nothing of the run is lost."""
    run_id = place.waiting("a kite")
    with tab(chromium) as other:
        other.goto(site.invitation())
        expect(other.locator(f"[data-run='{run_id}']").first).to_be_visible()
        page.goto(at(site, run_id))
        site.kill()
        assert place.status(run_id) == "waiting"
        site.restart()
        page.goto(site.invitation())
        other.goto(site.invitation())
        expect(other.locator("#board-waiting")).to_contain_text("a kite")
        page.goto(at(site, run_id, "/gate"))
        page.get_by_role("button", name="approve").click()
        expect(other.locator("#board-past")).to_contain_text("a kite")
        assert place.status(run_id) == "complete"


@pytest.mark.req("WB-09", "WB-08")
def test_what_agents_wrote_is_only_shown(place: Place, site: Site, page: Page, complaints: list[str]) -> None:
    """Script, HTML and ANSI in an answer, a document, a file's name, the request and a note: text, on every page."""
    place.scenario(
        {
            "agent": "planner",
            "files": {"plan.md": f"# {NASTY}\n\n{NASTY}\n", "x<b>'\"&.txt": NASTY},
            "message": NASTY,
            "status": "DONE",
        }
    )
    run_id = place.waiting(NASTY.replace("\x1b", "").replace("\x07", ""))
    key = next(line["key"] for line in place.journal(run_id) if line["event"] == "dispatch.end")
    from interlock.pages import address

    for where in (
        "/",
        f"{at(site, run_id)}",
        at(site, run_id, "/gate"),
        site.origin + address.dispatch(place.name, run_id, key),
    ):
        page.goto(where if where.startswith("http") else f"{site.origin}{where}")
        assert page.title() != "owned"
        assert page.locator("main img, main script, main b, a[href^='javascript']").count() == 0
        assert "\x1b" not in page.content()
    page.goto(at(site, run_id, "/gate"))
    page.locator("#note").fill(NASTY.replace("\x1b", "").replace("\x07", ""))
    page.get_by_role("button", name="reject").click()
    expect(page).to_have_url(at(site, run_id))
    assert page.title() != "owned"
    assert place.decisions(run_id)[0]["choice"] == "reject"
    assert complaints == []


@pytest.mark.req("WB-03", "WB-06", "WB-01")
def test_a_whole_feature_is_watched(tmp_path: Any, chromium: Browser, door: str) -> None:
    """The demo's feature, started from the form, watched without reloading until it is complete."""
    home = tmp_path / "home"
    home.mkdir()
    place = Place(make(tmp_path / "demo"), home, door)
    site = Site(place)
    try:
        with tab(chromium) as page:
            page.goto(site.invitation())
            page.goto(f"{site.origin}/{place.name}/start/feature")
            page.get_by_label("Request").fill(REQUEST)
            page.get_by_text("Options").click()
            page.get_by_label("Slug").fill("csv-export")
            page.get_by_role("button", name="Show the plan").click()
            page.get_by_role("button", name="Start", exact=True).click()
            page.wait_for_url("**/runs/feature-*")
            page.evaluate("window.loadedOnce = true")
            expect(page.get_by_role("heading", name=REQUEST)).to_be_visible()
            expect(page.locator("#run-now")).to_contain_text("researcher")
            expect(page.locator("#run-head")).to_contain_text("complete", timeout=600_000)
            expect(page.locator("#run-dispatches")).to_contain_text("implementer")
            assert page.evaluate("window.loadedOnce")
    finally:
        site.end()


@pytest.mark.req("WB-01")
def test_without_scripts_everything_can_be_done(place: Place, site: Site, chromium: Browser) -> None:
    """Board, run, gate and its decision: forms and links."""
    run_id = place.waiting()
    with tab(chromium, scripts=False) as page:
        page.goto(site.invitation())
        page.locator(f"[data-run='{run_id}'] a").first.click()
        page.goto(at(site, run_id, "/gate"))
        page.get_by_role("button", name="later").click()
        expect(page).to_have_url(at(site, run_id))
    assert place.decisions(run_id)[0]["choice"] == "later"
