"""The entries of a month."""

import unittest

from purse.entries import read
from purse.months import of_month

ENTRIES = read(["2026-02-28 1 a", "2026-03-01 2 b", "2026-03-31 3 c", "2027-03-01 4 d"])


class Months(unittest.TestCase):
    def test_other_months_are_left_out(self) -> None:
        self.assertEqual([entry.text for entry in of_month(ENTRIES, "2026-03")], ["b", "c"])

    def test_what_is_no_month_is_refused_with_the_right_form(self) -> None:
        for month in ("March", "2026", "2026-13", ""):
            with self.assertRaisesRegex(ValueError, "write it as 2026-03"):
                of_month(ENTRIES, month)
