"""The rule of the verbs: what a playbook touches beside `run` is found in every file of its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from interlock.engine import Playbook
from interlock.finding.purity import in_text, touches
from interlock.playbooks import NAMES, load

PLANTED = {
    "a process": ("import subprocess\n", "imports subprocess: run.command runs programs"),
    "tasks": ("from asyncio import gather as g\n", "imports asyncio.gather: run.command runs"),
    "a module of the system": ("import os.path\n", "imports os.path: read and write documents"),
    "inside a function": ("def f():\n    import socket\n", "imports socket: agents and commands reach"),
    "a file": ("def f():\n    open('x')\n", "uses open: read and write documents"),
    "paths": ("import pathlib as p\nx = p.Path('a')\n", "uses pathlib.Path: read and write"),
    "a path by name": ("from pathlib import Path\n", "imports pathlib.Path: read and write"),
    "a clock": ("from datetime import datetime as d\nx = d.now()\n", "uses datetime.datetime.now: run.now"),
    "chance": ("from random import random\n", "imports random.random: run.now is the clock, run.new_id"),
    "an import by name": ("x = __import__('os')\n", "uses __import__: a playbook is the code that is read"),
    "the inside of a run": ("def f(run):\n    return run.world.now()\n", "reaches run.world: a run is its verbs"),
    "the recording behind a run": ("def f(run):\n    run._recording.materialize()\n", "reaches run._recording"),
    "the inside, by way of a field": ("def f(self):\n    self.run.journal.append('x')\n", "reaches run.journal"),
    "a private name": ("from interlock.engine.dispatch import Dispatcher\n", "has in __all__"),
    "a room of the house": ("from interlock.workspace import Workspace\n", "import from interlock.engine, "),
    "another playbook": ("from interlock.playbooks.b import x\n", "import from interlock.engine, "),
    "the store": ("from interlock.documents import Store\n", "imports interlock.documents.Store: read and write"),
}


NAME = "planted_for_purity"
PLAYBOOK = """
from dataclasses import dataclass
from interlock.engine import Ending, Run, playbook

@dataclass(frozen=True)
class Inputs:
    word: str

@playbook("planted", inputs=Inputs, key=lambda inputs: inputs.word)
async def planted(run: Run, inputs: Inputs) -> Ending:
    return Ending.complete()
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a playbook that touches nothing."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "playbook.py").write_text(PLAYBOOK)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()


def forget() -> None:
    """No other test finds the module that was planted here."""
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def planted_playbook(folder: Path) -> Playbook:
    forget()
    found: Playbook = import_module(f"{NAME}.playbook").planted
    assert str(found.folder) == str(folder)
    return found


def test_a_playbook_that_is_one_file_answers_for_that(planted: Path) -> None:
    """What stands beside it is not its own."""
    (planted / "playbook.py").rename(planted / "single.py")
    (planted / "other.py").write_text("import os\n")
    planted_single = import_module(f"{NAME}.single").planted
    assert touches(planted_single) == []


@pytest.mark.req("OW-07")
@pytest.mark.parametrize(("code", "complaint"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_touch_is_found_with_its_place(code: str, complaint: str, planted: Path) -> None:
    """In any file of the folder, named with its line and with what to use instead."""
    (planted / "crew.py").write_text(f"{code}\n", encoding="utf-8")
    (found,) = touches(planted_playbook(planted))
    assert str(found).startswith(f"crew.py:{code.count(chr(10)) if 'x =' in code or 'def' in code else 1}: ")
    assert complaint in str(found)


def test_what_is_allowed_is_left_alone() -> None:
    """Public names, pure paths and dates, its own modules, types, and words that only look alike."""
    allowed = (
        "from datetime import datetime, timedelta\nfrom pathlib import PurePosixPath\n"
        "from interlock.engine import Run, Dispatch\nfrom interlock.documents import Sections\n"
        "from interlock.playbooks.a import decisions\nfrom . import briefs\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from interlock.engine.world import World\n"
        "async def f(run):\n    await run.read.open('x')\n    return run.identity.run_id, world.options\n"
    )
    assert in_text(allowed, "playbook.py", "interlock.playbooks.a") == []


@pytest.mark.req("OW-07")
@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_playbooks_keep_to_it(name: str) -> None:
    """Each of them has nothing but its verbs, in all of its files."""
    assert [str(one) for one in touches(load(name))] == []
