"""The browser, for tests that look at pages."""

from __future__ import annotations

from tests.browser import chromium

__all__ = ["chromium"]
