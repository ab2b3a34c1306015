"""The page as people have it: in a real browser, by keyboard, on a phone, in the dark, without scripts (PAGE-01).

They need the system's Chromium; where there is none they are skipped, with the command that installs it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from interlock.engine import events as ev
from interlock.engine.folder import Message
from interlock.errors import Status
from interlock.workspace.values import EMPTY, Landing
from tests.cli.conftest import CommandLine
from tests.web.conftest import Serve, Served, settled
from tests.web.many import BEGAN, NOTHING, STILL, lay

pytestmark = [pytest.mark.long, pytest.mark.req("PAGE-01")]
PICTURES = os.environ.get("INTERLOCK_PICTURES")
"""A folder for what these tests saw, to be looked at."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 120_000
Tab = Callable[..., AbstractContextManager[Page]]
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """A browser for one test: while it is there, an event loop runs in this thread, and other tests need theirs."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium: sudo apt-get install -y chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()


@pytest.fixture
def tab(chromium: Browser, served: Served) -> Tab:
    """A page that came in; it ends with the block, and the browser had nothing to complain about."""
    states: list[str] = []

    @contextmanager
    def opened(*, width: int = 1440, dark: bool = False, scripts: bool = True) -> Iterator[Page]:
        context = chromium.new_context(
            viewport={"width": width, "height": 900 if width > 600 else 844},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            base_url=f"{served.parts.scheme}://{served.parts.netloc}",
        )
        context.set_default_timeout(PATIENCE_MS)
        page, complaints = context.new_page(), list[str]()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(states.pop() if states else served.address)
        expect(page.locator("h1")).to_have_text("Runs")
        states.append(served.said("For another one: "))
        yield page
        assert [one for one in complaints if "409" not in one] == []
        context.close()

    return opened


def run_of(interlock: CommandLine, name: str) -> str:
    return next(one.id for one in interlock.place().runs.all() if one.id.startswith(name))


@pytest.mark.req("PERSON-01")
def test_a_stale_gate_is_refused_and_then_approved_by_keyboard(interlock: CommandLine, tab: Tab) -> None:
    """What changed behind the page is shown anew; then keys alone decide, with a note; the board hears of it."""
    run = run_of(interlock, "ship")
    with tab() as board, tab() as page:
        page.goto(f"/runs/{run}/gate")
        interlock.write("plan.md", "# Another plan\n\nWith rockets.\n")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("alert")).to_contain_text("changed since")
        expect(page.locator(".paper")).to_contain_text("With rockets.")
        for _ in range(60):
            if page.evaluate("document.activeElement.name") == "note":
                break
            page.keyboard.press("Tab")
        page.keyboard.type("by keyboard")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.value") == "approve"
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/runs/{run}")
        assert settled(interlock.place().runs.find(run)).status is Status.COMPLETE
        expect(page.locator("#live")).to_have_attribute("data-state", "done")
        expect(page.locator("#live")).to_contain_text("by keyboard")
        expect(board.locator("section", has_text="Ended").locator(f"[id='{run}']")).to_contain_text("complete")


def test_a_run_is_started_and_decided_without_scripts(interlock: CommandLine, tab: Tab) -> None:
    with tab(scripts=False) as page:
        page.get_by_role("link", name="Start a run").click()
        page.get_by_role("link", name="ship", exact=True).click()
        page.get_by_label("What").fill("a boat")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("#plan")).to_contain_text("planner")
        page.get_by_role("button", name="Start it").click()
        page.wait_for_url("**/runs/ship-*")
        run = page.url.rpartition("/")[2]
        assert settled(interlock.place().runs.find(run)).status is Status.WAITING
        page.goto("/")
        page.get_by_role("link", name="a boat").click()
        page.get_by_label("A note").fill("no sails")
        page.get_by_role("button", name="Reject").click()
        page.wait_for_url(f"**/runs/{run}")
        assert settled(interlock.place().runs.find(run)).status is Status.STOPPED
        page.reload()
        expect(page.locator("main")).to_contain_text("no sails")


def test_what_a_person_opened_and_typed_stays_while_the_page_lives(interlock: CommandLine, tab: Tab) -> None:
    """News touch what differs alone: an open fold, words half typed and the place that is read stay."""
    runs = interlock.place().runs.path
    run = lay(runs, 5, dispatches=40)
    with tab() as page:
        page.goto(f"/runs/{run}")
        fold = page.locator("details.step").first
        fold.locator("summary").click()
        page.evaluate("document.querySelector('details.step').marked = true")
        said = Message(what="answer", who="ada", at=BEGAN, choice="blue")
        interlock.place().runs.find(run).folder.say(said)
        expect(page.locator("#live")).to_contain_text("blue by ada is recorded")
        expect(fold).to_have_attribute("open", "")
        assert page.evaluate("document.querySelector('details.step').marked"), "it is the same one"
        page.goto("/")
        page.get_by_role("searchbox").fill("half ty")
        lay(runs, 7)
        expect(page.locator("#live")).to_contain_text("lamp number 7")
        assert page.get_by_role("searchbox").input_value() == "half ty"


PAGES = {
    "board": "/",
    "run": "/runs/{task}",
    "dispatch": "/runs/{task}/dispatches/round-1%2Freviewer%231",
    "diff": "/runs/{task}/diff",
    "gate": "/runs/{ship}/gate",
    "asks": "/runs/{ship}",
    "long": "/runs/{long}",
    "conflict": "/runs/{conflict}",
    "works": "/runs/{works}",
    "offers": "/start",
    "start": "/start/ship",
}


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False), (390, True)])
def test_everybody_can_read_it(interlock: CommandLine, tab: Tab, width: int, dark: bool) -> None:
    """axe-core without serious findings, nothing beside the screen, the decision at hand, no page without an end."""
    names = {name: run_of(interlock, name) for name in ("task", "ship")}
    runs = interlock.place().runs
    names["long"] = lay(runs.path, 5, dispatches=36)
    landed = ev.Delivered(
        label="work", state="conflict", judged=EMPTY, landing=Landing(state="conflict", conflicts=("lib.py",))
    )
    stopped = ev.Ended(status="stopped", exit=3, reason="you changed the same lines: lib.py")
    names["conflict"] = lay(runs.path, 6, then=[("deliver", landed), ("", stopped)])
    called = {"agent": "builder", "member": "", "attempt": 1, "runner": "mine", "step": "round-2", "n": 1, "layer": "x"}
    call = ev.Called(**called, standing=STILL, pair=NOTHING, shown=EMPTY, brief=ev.Digest("0" * 64))
    names["works"] = lay(runs.path, 7, then=[("round-2/builder#1", call)])
    transcript = runs.find(names["works"]).folder.transcript("round-2/builder#1", 1)
    transcript.parent.mkdir(parents=True)
    transcript.write_text("I look at the lamp.\n")
    with tab(width=width, dark=dark) as page, runs.find(names["works"]).lock():
        for name, address in PAGES.items():
            page.goto(address.format(**names))
            found = Axe().run(page).response["violations"]
            serious = [
                (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
            ]
            assert serious == [], name
            height, beside = page.evaluate("[document.body.scrollHeight, document.documentElement.scrollWidth]")
            assert beside == width, name
            assert height < (3000 if name == "long" else 2000), (name, height)
            if name == "gate":
                expect(page.get_by_role("button", name="Approve")).to_be_in_viewport()
                expect(page.get_by_role("button", name="Reject")).to_be_in_viewport()
            if PICTURES:
                page.screenshot(path=Path(PICTURES) / f"{name}-{width}{'-dark' * dark}.png", full_page=True)


@pytest.mark.req("PAGE-02")
def test_a_file_that_leads_to_the_page_lets_a_browser_in(chromium: Browser, serve: Serve, tmp_path: Path) -> None:
    """Although it comes from no address at all, and its cookie is kept from other sites."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/heard\n')
    browser.chmod(0o755)
    os.mkfifo(tmp_path / "heard")
    served = serve("--open", BROWSER=f"{browser} %s")
    context = chromium.new_context()
    page = context.new_page()
    page.goto((tmp_path / "heard").read_text().strip())
    page.wait_for_url(f"{served.parts.scheme}://{served.parts.netloc}/")
    expect(page.locator("h1")).to_have_text("Runs")
    context.close()
