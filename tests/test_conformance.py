"""The conformance page: made from marks, stale or incomplete pages fail the check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import conformance

ROWS = [
    {"prefix": "AA", "name": "first", "sections": [{"title": "One", "ids": ["AA-01", "AA-02"]}]},
    {"prefix": "BB", "name": "second", "sections": [{"title": "Two", "ids": ["BB-01"]}]},
]

BOTH_ROWS = """
import pytest

@pytest.mark.req("AA-01")
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.req("AA-02"))])
def test_both(x): ...
"""


class Tree:
    """A small repository with a catalogue of three rows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "docs").mkdir()
        (root / "tests" / "deep").mkdir(parents=True)
        (root / "docs" / "requirements.json").write_text(json.dumps(ROWS), encoding="utf-8")

    def test(self, code: str, name: str = "tests/test_a.py") -> None:
        (self.root / name).write_text(code, encoding="utf-8")

    def write(self) -> int:
        return conformance.main([], self.root, finished=("AA",))

    def check(self) -> int:
        return conformance.main(["--check"], self.root, finished=("AA",))

    @property
    def page(self) -> str:
        return (self.root / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_complete_and_fresh_page_passes(tree: Tree) -> None:
    """Every row of the finished group has a test; an unfinished group may lack some."""
    tree.test(BOTH_ROWS)
    assert tree.write() == 0
    assert tree.check() == 0
    assert "| AA-02 | [`test_a.py::test_both`](../tests/test_a.py) |" in tree.page
    assert "| BB-01 | |" in tree.page
    assert "| [AA](#aa-first) | first | 2 | 2 | yes |" in tree.page
    assert "| | all | 3 | 2 | |" in tree.page


def test_a_finished_group_with_a_missing_row_fails(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """The row is named."""
    tree.test("import pytest\n@pytest.mark.req('AA-01')\ndef test_one(): ...\n")
    tree.write()
    assert tree.check() == 1
    assert "AA is finished, but no test names AA-02" in capsys.readouterr().err


def test_an_unknown_row_fails(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that names a row which does not exist is told where it stands."""
    tree.test(BOTH_ROWS + "\n@pytest.mark.req('AA-99')\ndef test_typo(): ...\n")
    tree.write()
    assert tree.check() == 1
    assert "tests/test_a.py:9: test_typo names AA-99" in capsys.readouterr().err


def test_a_stale_page_fails(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """A new test without `make docs`, or no page at all; checking writes nothing."""
    tree.test(BOTH_ROWS)
    assert tree.check() == 1
    assert not (tree.root / "docs" / "conformance.md").exists()
    tree.write()
    tree.test("import pytest\n@pytest.mark.req('BB-01')\nasync def test_b(): ...\n", "tests/deep/test_b.py")
    before = tree.page
    assert tree.check() == 1
    assert tree.page == before
    assert "stale" in capsys.readouterr().err


def test_a_test_that_merely_moves_keeps_the_page_fresh(tree: Tree) -> None:
    """Line numbers are not part of the page."""
    tree.test(BOTH_ROWS)
    tree.write()
    tree.test("# a comment\n\n" + BOTH_ROWS)
    assert tree.check() == 0


@pytest.mark.parametrize("mark", ["skip", "skip(reason='later')", "xfail"])
def test_a_skipped_test_proves_nothing(mark: str, tree: Tree) -> None:
    """Skipped and expected failures do not count."""
    tree.test(f"import pytest\n@pytest.mark.{mark}\n@pytest.mark.req('AA-01', 'AA-02')\ndef test_later(): ...\n")
    tree.write()
    assert tree.check() == 1
    assert "test_later" not in tree.page


def test_marks_of_classes_and_modules_count(tree: Tree) -> None:
    """A mark on the class or on the module is a mark on each test in it; functions that are no tests do not count."""
    tree.test(
        "import pytest\npytestmark = [pytest.mark.req('AA-01')]\n"
        "@pytest.mark.req('AA-02')\nclass TestIt:\n    def test_in(self): ...\n    def other(self): ...\n"
        "@pytest.mark.req('BB-01')\ndef builder(): ...\n"
    )
    tree.write()
    assert tree.check() == 0
    assert "TestIt::test_in" in tree.page
    assert "other" not in tree.page
    assert "builder" not in tree.page


def test_ids_must_be_plain_strings(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """A computed id could not be found by reading."""
    tree.test("import pytest\nROW = 'AA-01'\n@pytest.mark.req(ROW)\ndef test_x(): ...\n")
    assert tree.write() == 1
    assert "tests/test_a.py:3" in capsys.readouterr().err


def test_the_catalogue_has_every_row_once() -> None:
    """821 rows, none twice, gapless in each group but for the later ones, which leave room between sections."""
    groups = conformance.read_catalogue(Path(__file__).parent.parent / conformance.CATALOGUE)
    counts = {group.prefix: len(group.ids) for group in groups}
    assert counts == {
        "LY": 35,
        "EV": 38,
        "EN": 47,
        "CM": 38,
        "RM": 99,
        "HN": 113,
        "FT": 155,
        "RT": 74,
        "TK": 162,
        "OW": 27,
        "WB": 18,
        "WK": 15,
    }
    assert len({row for group in groups for row in group.ids}) == sum(counts.values())
    for group in (group for group in groups if group.prefix not in ("LY", "EV", "OW", "WB", "WK")):
        assert [int(row.removeprefix(f"{group.prefix}-")) for row in group.ids] == list(range(1, len(group.ids) + 1))
