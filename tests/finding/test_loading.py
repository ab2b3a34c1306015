"""From bytes to a playbook: what is loaded, and what is refused with a clear word."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine.asking import questions
from interlock.errors import ConfigInvalid
from interlock.finding import Library, playbook_in
from interlock.finding.bundle import LARGEST_FILE, MOST_FILES, read
from interlock.finding.purity import touches
from tests.finding.planted import FLOW, SHIP

TWO = SHIP + SHIP[SHIP.index("@playbook") :].replace('"ship"', '"other"').replace("def process", "def SECOND")


@pytest.mark.req("OW-02")
@pytest.mark.parametrize(
    ("files", "word", "what", "where"),
    [
        ({}, "./none.py", "there is no playbook at this path", "none.py"),
        ({"x/readme.md": ""}, "./x", "there is no playbook in this folder", "x"),
        ({"x/playbook.py": SHIP, "x/playbook.yaml": FLOW}, "./x", "two files say what the process is", "x"),
        ({"x.py": "a = (\n"}, "./x.py", "the playbook is no valid Python: '(' was never closed", "x.py:1"),
        ({"x.py": "a = 1\0"}, "./x.py", "the playbook is no valid Python: source code string cannot", "x.py"),
        ({"x.py": "(" * 5000}, "./x.py", "the playbook is no valid Python: ", "x.py"),
        ({"x.py": "a = 1\n1 / 0\n"}, "./x.py", "the playbook cannot be loaded: ZeroDivisionError", "x.py:2"),
        ({"x.py": "import sys\nsys.exit()"}, "./x.py", "the playbook cannot be loaded: SystemExit", "x.py:2"),
        ({"x.py": "from .more import a"}, "./x.py", "the playbook cannot be loaded: ModuleNotFoundError", "x.py:1"),
        ({"x.py": "a = 1"}, "./x.py", "there is no playbook in this file", "x.py"),
        ({"x/playbook.py": SHIP, "x/more.py": "a = ("}, "./x", "the playbook is no valid Python", "x/more.py:1"),
        ({"x/playbook.py": SHIP, "x/agents/a.md": "\udcff"}, "./x", "a.md is not UTF-8", "x/agents/a.md"),
        ({"x.py": "# coding: latin-1\n# \udcff"}, "./x.py", "x.py is not UTF-8", "x.py"),
        ({"x.py": f"{SHIP}\nagain = process\n{SHIP}"}, "./x.py:ship", "there is more than one playbook", "x.py"),
        ({"x.py": TWO}, "./x.py", "there is more than one playbook in this file", "x.py"),
        ({"x.py": TWO}, "./x.py:third", "there is no playbook 'third' in this file", "x.py"),
        ({"x.yaml": FLOW}, "./x.yaml:third", "there is no playbook 'third' in this file", "x.yaml"),
        ({"x.yaml": "playbook: [\n"}, "./x.yaml", "", "x.yaml:"),
        ({"x.py": SHIP.replace('"ship"', '"limits"')}, "./x.py", "a playbook cannot be called 'limits'", "x.py"),
        ({"x.py": SHIP.replace('"ship"', '"a/b"')}, "./x.py", "a playbook cannot be called 'a/b'", "x.py"),
        ({"x.py": SHIP.replace("times: int = 1", "times: object")}, "./x.py", "nobody can ask for ship", "x.py"),
        ({"x.py": SHIP.replace("inputs=Asked", "inputs=dict")}, "./x.py", "the inputs of ship are no dataclass", "x"),
        ({"x.py": SHIP.replace("needs", "settings=dict, needs")}, "./x.py", "the settings of ship are no table", "x"),
        ({".interlock/playbooks/x.py": SHIP}, "x", "there is no playbook 'x' in this file", "playbooks/x.py"),
        ({".interlock/playbooks/x/playbook.py": SHIP}, "x", "what is found as x calls itself ship", "x/playbook.py"),
    ],
)
def test_what_cannot_be_loaded_says_why(
    root: Path, library: Callable[..., Library], files: dict[str, str], word: str, what: str, where: str
) -> None:
    """One sentence with a place, never a traceback."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigInvalid) as error:
        library().load(word)
    assert error.value.what.startswith(what)
    assert where in (error.value.where or "")


@pytest.mark.req("OW-04")
def test_links_devices_and_masses_are_refused(root: Path, library: Callable[..., Library], tmp_path: Path) -> None:
    """A link out of the folder, a pipe, a file of 50 MB (without reading it), too many files."""
    folder = root / ".interlock/playbooks/ship"
    odd = folder / "odd.md"
    (tmp_path / "secret").write_text("x")

    def refused(what: str) -> None:
        with pytest.raises(ConfigInvalid, match=what):
            library().load("ship")
        problem = next(one for one in library().listing() if one.found.name == "ship").problem
        assert problem is not None and what in problem.what

    odd.symlink_to(tmp_path / "secret")
    refused("a link stands where a playbook or a part of one should")
    odd.unlink()
    os.mkfifo(odd)
    refused("a file of the playbook cannot be read")
    odd.unlink()
    with odd.open("wb") as file:
        file.truncate(50_000_000)
    refused("odd.md is too large for a part of a playbook")
    odd.unlink()
    many = folder / "prompts"
    many.mkdir()
    for number in range(MOST_FILES):
        (many / f"{number}.md").touch()
    refused("the folder of a playbook has too much in it")
    for file in many.iterdir():
        file.unlink()
    for number in range(11):
        (many / f"{number}.md").write_bytes(b"x" * LARGEST_FILE)
    refused("the folder of a playbook has too much in it")
    moved = tmp_path / "moved"
    os.renames(folder, moved)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(moved)
    refused("a link stands where a playbook or a part of one should")


@pytest.mark.req("OW-02")
def test_one_of_several_is_chosen_by_its_name_or_its_variable(root: Path, library: Callable[..., Library]) -> None:
    """`./fix.py:name`; what the run notes leads to the same one."""
    (root / "x.py").write_text(TWO)
    for word in ("other", "SECOND"):
        found = library().load(f"./x.py:{word}")
        assert found.name == "other"
        assert found.source is not None and found.source.place == "x.py:other"


@pytest.mark.req("OW-01", "OW-03")
def test_files_of_the_folder_import_each_other_and_bring_roles_and_prompts(
    root: Path, library: Callable[..., Library]
) -> None:
    """Relative imports, packages below, an import inside of a function; its folder is walked from memory."""
    folder = root / ".interlock/playbooks/ship"
    (folder / "rules" / "deep").mkdir(parents=True)
    (folder / "prompts").mkdir()
    (folder / "playbook.py").write_text("from .rules.deep.table import A\nfrom .rules import B\n" + SHIP)
    (folder / "rules" / "__init__.py").write_text("from . import late\ndef B():\n    from .. import other\n")
    (folder / "rules" / "late.py").write_text("")
    (folder / "rules" / "deep" / "table.py").write_text("import time\nA = 1\n")
    (folder / "prompts" / "work.md").write_text("Words.\n")
    loaded = library().load("ship")
    assert [one.name for one in loaded.folder.iterdir()] == ["playbook.py", "prompts", "rules"]
    assert (loaded.folder / "prompts" / "work.md").read_text(encoding="utf-8") == "Words.\n"
    with (loaded.folder / "prompts" / "work.md").open() as file:
        assert file.read() == "Words.\n"
    with pytest.raises(OSError):
        list((loaded.folder / "agents").iterdir())
    assert [str(one) for one in touches(loaded)] == [
        "rules/deep/table.py:1: imports time: run.now is the clock, run.new_id makes names"
    ]


@pytest.mark.req("OW-03")
def test_options_come_from_types_defaults_and_docstrings(root: Path, library: Callable[..., Library]) -> None:
    """A plain field is offered with the text below it, on one line; what is loaded is what the text is read from."""
    found = library().load("ship")
    (root / ".interlock/playbooks/ship/playbook.py").write_text("")
    asked = {one.name: (one.kind, one.required, one.option.help) for one in found.questions(found.inputs)}
    assert asked == {"what": (str, True, "What is to be shipped."), "times": (int, False, "How often it is done.")}
    assert [one.name for one in questions(found.inputs)] == ["what"]


def test_a_test_beside_a_playbook_gets_it(root: Path) -> None:
    """Nobody is asked: the test is code of the folder itself."""
    assert playbook_in(root / ".interlock/playbooks/ship").name == "ship"


def test_a_bundle_is_what_was_there_at_one_moment(root: Path) -> None:
    """Equal files have an equal digest; any other file another one."""
    folder = root / ".interlock/playbooks/ship"
    before = read(folder)
    assert read(folder).digest == before.digest
    (folder / "more.md").write_text("")
    assert read(folder).digest != before.digest
