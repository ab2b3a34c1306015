"""Links lead somewhere, named files exist, and nothing on a page is of one machine."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, prose

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# docs/csv is a folder in the workspace of the example playbook.
IN_THE_HOUSE = re.compile(r"`((?:src|tests|tools|docs(?!/csv/)|benchmarks|changelog\.d|\.ci)/[\w./-]*)`")
MODULE = re.compile(r"`((?:engine|agents|workspace|contracts|documents)/\w+\.py)`")
DECISIONS = sorted((DOCS / "adr").glob("*.md"))
WRITTEN_WITH_THESE_PARTS = [page for page in DECISIONS if page.name >= "0005"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_resolves(page: Path) -> None:
    """The file is there and has the heading that the link names."""
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {target} is not among {sorted(anchors(place))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_the_house_that_a_page_names_exists(page: Path) -> None:
    """Code and tests are mentioned by paths that are there."""
    text = prose(page)
    assert [path for path in IN_THE_HOUSE.findall(text) if not (ROOT / path).exists()] == []
    assert [path for path in MODULE.findall(text) if not (ROOT / "src" / "interlock" / path).exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """No page is an orphan."""
    index = DOCS / "index.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(prose(index))}
    reached = {path for path in DOCS.rglob("*.md") if {path.resolve(), path.parent.resolve()} & linked}
    assert set(DOCS.rglob("*.md")) - reached == {index}


@pytest.mark.parametrize("page", WRITTEN_WITH_THESE_PARTS, ids=lambda page: page.stem)
def test_a_decision_has_its_parts(page: Path) -> None:
    """Status, context, choice, rejected alternatives, consequences, in this order; the number is in the title."""
    text = page.read_text("utf-8")
    assert text.startswith(f"# {page.name[:4]}: ")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert "\nStatus: accepted\n" in text and headings == ["Context", "Choice", "Rejected", "Consequences"]


def test_decisions_are_numbered_without_gaps() -> None:
    """0001, 0002, ... each once."""
    assert [page.name[:4] for page in DECISIONS] == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]


def test_the_map_for_agents_stays_one_page() -> None:
    """AGENTS.md has at most 80 lines, and its map shows every part of the house and nothing that is not there."""
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    assert len(text.splitlines()) <= 80
    parts = {path.name for path in (ROOT / "src" / "interlock").iterdir() if path.name[0] not in "_."} - {"py.typed"}
    drawn = text.partition("src/interlock/\n")[2].partition("\ntests/")[0]
    shown = {
        word.rstrip("/") for line in drawn.splitlines() for word in re.findall(r"^  (?:\S+/ )*\S+", line)[0].split()
    }
    assert {word.partition("/")[0] for word in shown} == parts


def test_the_picture_is_well_formed_and_its_texts_stay_inside() -> None:
    """The SVG parses, says what it shows, and no text is wider than the space to the picture's edge."""
    root = ElementTree.parse(DOCS / "images" / "overview.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None and root.find(f"{space}desc") is not None
    width = float(root.attrib["viewBox"].split()[2])
    for place, size, anchor, text in texts(root):
        wide = len(text) * size * 0.6
        left = place - wide / 2 if anchor == "middle" else place
        assert left >= 0 and left + wide <= width, text


def texts(element: ElementTree.Element, size: float = 0, anchor: str = "start") -> list[tuple[float, float, str, str]]:
    """Each text with its place, size and anchor, inherited as SVG does."""
    size, anchor = float(element.get("font-size", size)), element.get("text-anchor", anchor)
    own = [(float(element.attrib["x"]), size, anchor, element.text or "")] if element.tag.endswith("}text") else []
    return own + [found for child in element for found in texts(child, size, anchor)]
