"""Cells that no spreadsheet takes for a formula."""

import unittest

from purse.cells import SIGNS, guarded


class Cells(unittest.TestCase):
    def test_what_would_run_is_shown_as_text(self) -> None:
        for sign in SIGNS:
            self.assertEqual(guarded(f"{sign}1+1"), f"'{sign}1+1")

    def test_everything_else_stays_as_it_is(self) -> None:
        for value in ("", "Train to Bern", "1+1", "a=b"):
            self.assertEqual(guarded(value), value)
