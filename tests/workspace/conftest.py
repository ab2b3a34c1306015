"""A person at work in a repository, and the trees of their workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Tree
from tests.workspace.person import Person


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody with one commit: `a.txt`, `lib/b.txt`, and rules that ignore `*.o`; without a developer's settings."""
    for name, value in {"HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    someone = Person(tmp_path / "my work")
    someone.init()
    someone.write(".gitignore", "*.o\n")
    someone.write("a.txt", "".join(f"line {at}\n" for at in range(20)))
    someone.write("lib/b.txt", "b\n")
    someone.commit()
    someone.settle()
    return someone


@pytest.fixture
def trees(person: Person) -> Trees:
    return Trees(Workspace.find(person.top))


def tree(trees: Trees, files: dict[str, str | None], base: Tree = EMPTY) -> Tree:
    """A tree with these texts on top of another; a name that ends in `*` is a program, None takes a file away."""
    changes = {}
    for name, text in files.items():
        mode = 0o100755 if name.endswith("*") else 0o100644
        changes[name.rstrip("*")] = None if text is None else (mode, trees.write(text.encode()))
    return trees.tree_of(base, changes)


def texts(trees: Trees, of: Tree) -> dict[str, str]:
    """The files of a tree."""
    entries = trees.entries(of)
    contents = dict(trees.blobs(entry[1] for entry in entries.values()))
    return {path: contents[blob].decode(errors="surrogateescape") for path, (_, blob) in entries.items()}
