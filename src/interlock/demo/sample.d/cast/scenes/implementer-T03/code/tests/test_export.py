"""The CSV of some entries."""

import unittest

from purse.entries import read
from purse.export import csv_text


class Export(unittest.TestCase):
    def test_a_header_and_one_line_per_entry(self) -> None:
        text = csv_text(read(["2026-03-02 12.50 Train to Bern", "2026-03-14 39.90 Shoes, brown"]))
        self.assertEqual(text, 'day,amount,text\n2026-03-02,12.50,Train to Bern\n2026-03-14,39.90,"Shoes, brown"\n')

    def test_a_text_that_would_run_is_guarded(self) -> None:
        self.assertIn(",'=1+1\n", csv_text(read(["2026-03-02 1.00 =1+1"])))
