"""Mutants of a module, and which of them its tests notice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.__main__ import ROOT, SAME, TESTS, main, notable, subject_of
from tools.mutants.mutations import mutants_of
from tools.mutants.trying import Subject

CODE = '''
"""Who may ride."""

PRICES = {"child": 1, "adult": 2}


def may_ride(age: int, height: int = 120) -> bool:
    """Old enough, and tall enough."""
    return age >= 6 and height > 99
'''
WEAK = """
from fair import PRICES, may_ride

def test_a_grown_person_may_ride():
    assert may_ride(30, 180) is True
"""
STRONG = """
from fair import PRICES, may_ride

def test_all_of_it():
    assert may_ride(6, 100) and may_ride(6) and not may_ride(5, 100) and not may_ride(5, 99)
    assert may_ride(6, 99) is False
    assert PRICES == {"child": 1, "adult": 2}
    assert may_ride.__defaults__ == (120,)
"""

Plant = Callable[[str], Subject]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    def planted(tests: str) -> Subject:
        (tmp_path / "fair.py").write_text(CODE)
        (tmp_path / "test_fair.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = long\n")
        return Subject("fair", tmp_path / "fair.py", ("test_fair.py",), tmp_path)

    return planted


Change = tuple[str, str]
TRY = """
import ast, json, sys
from pathlib import Path
from tools.mutants.trying import NotPassing, Subject, survivors

root, name, only = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
subject = Subject(name, root / f"{name}.py", (f"test_{name}.py",), root)
chosen = [one for one in subject.mutants() if only in ("", one.after, "nothing")]
if only == "nothing":
    for one in chosen:
        object.__setattr__(one, "compiled", lambda file: compile(subject.file.read_text(), file, "exec"))
try:
    print(json.dumps([(one.before, one.after) for one in survivors(subject, chosen, 2)]))
except NotPassing as error:
    print(json.dumps(str(error)))
"""


def tried(subject: Subject, only: str = "") -> Any:
    """What comes of trying, in a process of its own: it forks, and nothing of these tests is to be in the children."""
    command = [sys.executable, "-c", TRY, str(subject.root), subject.name, only]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def left_alive(subject: Subject, only: str = "") -> set[Change]:
    return {(before, after) for before, after in tried(subject, only)}


def test_what_a_weak_test_does_not_notice_survives(plant: Plant) -> None:
    """It sees that somebody may ride, and nothing of the bounds, of the table and of the default."""
    alive = left_alive(plant(WEAK))
    assert {("age >= 6", "age > 6"), ("120", "121"), ("99", "100")} <= alive
    assert ("{'child': 1, 'adult': 2}", "{'child': 2, 'adult': 1}") in alive
    assert ("return age >= 6 and height > 99", "return None") not in alive


def test_a_strong_test_leaves_nobody_alive(plant: Plant) -> None:
    """In functions as at import."""
    assert left_alive(plant(STRONG)) == set()


@pytest.mark.long
def test_what_was_computed_before_the_change_is_computed_anew(plant: Plant) -> None:
    """A test that holds a value from its import notices a mutant all the same."""
    held = "from fair import may_ride\n\nHELD = may_ride(6, 100)\n\ndef test_it():\n    may_ride(1)\n    assert HELD\n"
    alive = left_alive(plant(held))
    assert ("age >= 6", "age > 6") not in alive
    assert ("120", "121") in alive


@pytest.mark.long
def test_an_unchanged_module_survives(plant: Plant) -> None:
    """Nobody is killed by the way in which mutants are tried."""
    subject = plant(STRONG)
    assert len(tried(subject, "nothing")) == len(subject.mutants())


def test_tests_that_fail_by_themselves_prove_nothing(plant: Plant) -> None:
    """The unchanged module comes first."""
    said = tried(plant("def test_it():\n    assert False\n"))
    assert said.startswith("fair: its tests do not pass unchanged:") and "test_it" in said


@pytest.mark.long
def test_a_loop_that_does_not_end_is_noticed(tmp_path: Path) -> None:
    """Processor time is bounded."""
    (tmp_path / "steps.py").write_text("def count(n):\n    while n > 0:\n        n -= 1\n    return n\n")
    (tmp_path / "test_steps.py").write_text("from steps import count\n\ndef test_it():\n    assert count(3) == 0\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = long\n")
    subject = Subject("steps", tmp_path / "steps.py", ("test_steps.py",), tmp_path)
    assert [one.before for one in subject.mutants() if one.after == "pass"] == ["n -= 1"]
    assert tried(subject, "pass") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"a <= b"}),
        ("x = a is not b", {"a is b"}),
        ("x = a in ('b', 'c')", {"a not in ('b', 'c')", "a in ('c',)", "a in ('b',)"}),
        ("x = a == 'b'", {"a != 'b'", "a == 'b?'"}),
        ("x = a and not b", {"a or not b", "b"}),
        ("x = a + 1", {"a - 1", "2"}),
        ("x = -a", {"a"}),
        ("x = b if a else c", {"True", "False"}),
        ("x = [a for a in b if a]", {"True", "False"}),
        ("x = any(a)", {"all(a)"}),
        ("x = a.startswith('b')", {"a.startswith('b?')"}),
        ("x = {A, B}", {"{A}", "{B}"}),
        ("x = {1: A, 2: B}", {"{1: B, 2: A}", "{1: A}", "{2: B}", "2", "3"}),
        ("x = 'text'", set()),
        ("x: A | B = 'text'", {"x: A | B = 'text?'"}),
        ("@a(1)\ndef f(x: int = True, y: str = 'b') -> A | B: ...", {"False", "x: int=True, y: str='b?'"}),
        ("def f():\n    'text'\n    raise A", {"pass"}),
        ("def f():\n    while a:\n        return b", {"False", "return None"}),
        ("def f():\n    try:\n        a()\n    except (A, B):\n        a()", {"pass", "except (A,)", "except (B,)"}),
        (
            "def f():\n    match a:\n        case 'b' if c:\n            return\n        case _:\n            return",
            {"True", "False", "'b?'", "match a: case _", "match a: case 'b' if c"},
        ),
    ],
)
def test_what_is_changed(source: str, expected: set[str]) -> None:
    """Every kind of change, and what is left alone."""
    found = {one.after for one in mutants_of(source)}
    shortened = {text for text in found if text in expected or not text.startswith(("match", "except"))}
    by_head = {want for want in expected if any(text.startswith(want) for text in found)}
    assert shortened | by_head == expected


def test_every_pure_module_has_its_tests_and_every_mutant_is_a_program() -> None:
    """No mutant dies of its own grammar, and no module is called pure that is not there."""
    for module in TESTS:
        subject = subject_of(module)
        assert all((subject.root / test).is_file() for test in subject.tests), module
        for mutant in subject.mutants()[::50]:  # one after the other in one tree: each is a program beside the others
            mutant.compiled(module)


def test_what_cannot_be_noticed_is_there() -> None:
    """No row about code that has gone."""
    for module, line, after in SAME:
        lines = [text.strip() for text in subject_of(module).file.read_text().splitlines()]
        assert (line, after) in {(lines[one.line - 1], one.after) for one in subject_of(module).mutants()}
        assert (line, after) not in {(lines[one.line - 1], one.after) for one in notable(module)}


def test_a_share_above_the_bound_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Survivors are told as file and line, with the change; the exit status says whether there are too many."""
    monkeypatch.setattr("tools.mutants.__main__.survivors", lambda subject, chosen, jobs: chosen[:1])
    assert main(["--of", "engine/retry.py", "--seed", "1"]) == 1
    said = capsys.readouterr().out
    assert "src/interlock/engine/retry.py:" in said and "\n  + " in said
    assert "1 of 20 survived: 5.0 %" in said and "--seed 1" in said
    monkeypatch.setattr("tools.mutants.__main__.survivors", lambda subject, chosen, jobs: [])
    assert main(["--of", "engine/retry.py"]) == 0
