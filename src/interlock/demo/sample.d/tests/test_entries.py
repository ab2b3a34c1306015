"""Reading and adding up."""

import unittest
from decimal import Decimal

from purse.entries import read, total


class Entries(unittest.TestCase):
    def test_a_line_is_day_amount_and_text(self) -> None:
        (entry,) = read(["2026-03-02   12.50  Train to Bern\n"])
        self.assertEqual(
            (entry.day.isoformat(), entry.amount, entry.text), ("2026-03-02", Decimal("12.50"), "Train to Bern")
        )

    def test_a_refund_is_taken_off(self) -> None:
        entries = read(["2026-03-02 12.50 Train", "", "2026-03-09 -4.50 Refund"])
        self.assertEqual(total(entries), Decimal("8.00"))
