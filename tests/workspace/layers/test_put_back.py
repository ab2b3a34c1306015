"""An edit that a person takes back while a program works on the same file: what `docs/sandbox.md` says of it.

A layer lies over the tree as it is, so a program works on what people write meanwhile.  If they take it back before
the work is brought in, the tree is what it was at the start, and what is left of their edit is in the program's
version alone: nothing tells it from the program's own change.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace.conftest import GitCall

from .conftest import Bench, MakeBench

PROGRAM = """
import sys
from pathlib import Path
def work():
    with open("notes.txt", "a") as file:
        file.write("by the program\\n")
if sys.argv[1] == "after":
    open("notes.txt").read()
for moment in ("during", "after"):
    print(moment, flush=True)
    sys.stdin.readline()
    if moment == sys.argv[1]:
        work()
"""


async def edited_and_stashed(bench: Bench, git: GitCall, moment: str) -> str:
    """What the file is in the end: a person edits it in place, and stashes that; the program adds a line while the
    edit is there, or afterwards to a file that it had opened before."""
    bench.write(**{"notes.txt": "one\ntwo\n"})
    git(bench.root, "add", "-A")
    git(bench.root, "commit", "-q", "-m", "notes")
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    words = layer.command_line([sys.executable, "-I", "-S", "-c", PROGRAM, moment], cwd=layer.root, env=bench.env)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=bench.env, cwd=bench.root, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin and program.stdout
        assert program.stdout.readline() == "during\n"
        bench.write(**{"notes.txt": "ONE\ntwo\n"})
        print(file=program.stdin, flush=True)
        assert program.stdout.readline() == "after\n"
        git(bench.root, "stash", "-q")
        print(file=program.stdin, flush=True)
    assert (bench.root / "notes.txt").read_text() == "one\ntwo\n"
    result = await bench.bring(layer, base)
    assert (result.paths, result.conflicts) == (("notes.txt",), {})
    assert git(bench.root, "show", "stash@{0}:notes.txt") == "ONE\ntwo\n", "the person's edit is where they put it"
    return (bench.root / "notes.txt").read_text()


@pytest.mark.parametrize("moment", ["during", "after"])
async def test_over_the_tree_itself_the_edit_comes_back_with_the_work(
    confined: Bench, git: GitCall, moment: str
) -> None:
    """A known limit: also afterwards, since the kernel goes on showing an opened file that git has replaced."""
    assert await edited_and_stashed(confined, git, moment) == "ONE\ntwo\nby the program\n"


@pytest.mark.parametrize("moment", ["during", "after"])
async def test_in_a_copy_the_work_is_the_programs_alone(
    repository: Path, git: GitCall, make_bench: MakeBench, moment: str
) -> None:
    assert await edited_and_stashed(make_bench(repository, "copy"), git, moment) == "one\ntwo\nby the program\n"
