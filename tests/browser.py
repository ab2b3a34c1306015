"""The system's Chromium, for tests that look at pages as people do.

Where there is none, these tests are skipped with the command that installs it (WB-13).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "sudo apt-get install -y chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000


def chromium_path() -> str | None:
    """Where the browser is: `INTERLOCK_TEST_CHROMIUM`, or the first of its usual names on the path."""
    named = os.environ.get("INTERLOCK_TEST_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; it ends with the block."""
    path = chromium_path()
    if path is None:
        pytest.skip(f"there is no Chromium; install it with: {INSTALL}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(
    browser: Browser, *, width: int = 1440, height: int = 900, dark: bool = False, scripts: bool = True
) -> Iterator[Page]:
    """A page of its own, as a person with this screen has it."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """A browser for one test: while it is there, an event loop runs in this thread, and other tests need theirs."""
    with launched() as browser:
        yield browser
