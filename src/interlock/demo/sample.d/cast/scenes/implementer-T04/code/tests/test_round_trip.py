"""What was exported is what was entered, as a spreadsheet reads it."""

import csv
import io
import unittest

from purse.entries import read
from purse.export import csv_text

LINES = [
    "2026-03-02 12.50 Train to Bern",
    "2026-03-09 -4.50 Refund for the train",
    "2026-03-14 39.90 -20% sale: shoes",
]


class RoundTrip(unittest.TestCase):
    def setUp(self) -> None:
        self.rows = list(csv.DictReader(io.StringIO(csv_text(read(LINES)))))

    def test_an_expense_comes_back_as_a_number(self) -> None:
        self.assertEqual(self.rows[0]["amount"], "12.50")

    def test_a_refund_comes_back_as_a_number(self) -> None:
        self.assertEqual(self.rows[1]["amount"], "-4.50")

    def test_texts_come_back_and_none_is_a_formula(self) -> None:
        texts = [row["text"] for row in self.rows]
        self.assertEqual(texts, ["Train to Bern", "Refund for the train", "'-20% sale: shoes"])
