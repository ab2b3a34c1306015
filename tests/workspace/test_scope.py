"""Which paths a scope covers, which steer agents or tools, and what names them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workspace.scope import guarded, named, spelled, within

WITHIN = {
    "**": (["a", "a/b", ".x", "a/.x/b"], []),
    "src/**": (["src/a", "src/a/b"], ["src", "srca", "a/src/b"]),
    "src/": (["src/a", "src/a/b"], ["src"]),
    "*.md": (["a.md", ".md"], ["a/b.md", "a.mdx", "a.md\n"]),
    "**/*.md": (["a.md", "a/b.md", "a/b/c.md"], ["a/b"]),
    "a/**/b": (["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
    "a?c": (["abc", "a.c"], ["ac", "a/c", "abbc"]),
    "[ab].(x)+": (["[ab].(x)+"], ["a.x", "[ab].xx"]),
    "docs/x/../y": ([], ["docs/y"]),
    "./a": (["a"], []),
    "ü *": (["ü 1", "ü "], ["ü1"]),
    "": ([], ["a"]),
}


@pytest.mark.req("TREE-08")
def test_globs() -> None:
    """`*` and `?` stay within a name, `**` takes folders, all else stands for itself; an exclusion wins over all."""
    for glob, (covered, other) in WITHIN.items():
        assert [path for path in (*covered, *other) if within(path, [glob])] == covered, glob
    for globs in (["!src/gen/**", "src/**"], ["src/**", "!src/gen/"]):
        assert within("src/a", globs) and not within("src/gen/a", globs)
    assert not within("a", []) and not within("a", ["!b"])


@pytest.mark.req("TREE-08")
def test_guarded_paths() -> None:
    """What begins with a dot, but ignore files, and what agents read by themselves; a setting may have other names."""
    for path in (".github/x", "a/.env", "CLAUDE.md", "docs/agents.MD", ".x/.gitignore", "interlock.toml"):
        assert guarded(path), path
    for path in (".gitignore", "a/.gitignore", "README.md", "a.b/c", "CLAUDE.md.txt"):
        assert not guarded(path), path
    assert guarded("Makefile", ["Makefile"]) and not guarded("CLAUDE.md", ["Makefile"])


SPELLED = {
    (".github/workflows/ci.yml", "**"): False, (".github/workflows/ci.yml", ".github/**"): True,
    (".github/workflows/ci.yml", ".*/**"): False, (".github/workflows/ci.yml", "?github/**"): False,
    (".github/AGENTS.md", ".github/**"): False, ("docs/CLAUDE.md", "docs/*.md"): False,
    ("docs/CLAUDE.md", "docs/CLAUDE.md"): True, (".opencode/specs/TODO.md", ".opencode/specs/**"): True,
    ("src/a", "src/**"): True,
}  # fmt: skip


@pytest.mark.req("TREE-08")
def test_a_scope_names_a_guarded_path_by_spelling_it() -> None:
    """No wildcard stands for a guarded name."""
    assert {(path, glob): spelled(path, [glob]) for path, glob in SPELLED} == SPELLED


NAMED = {
    "Update docs/CLAUDE.md.": True, "Update `CLAUDE.md`, please": True, "./docs/CLAUDE.md": True, "CLAUDE.md": True,
    "other/CLAUDE.md": False, "CLAUDE.md.bak and MYCLAUDE.md": False, "docs/*.md and *CLAUDE.md": False,
    "docs/CLAUDE.md/x": False, "claude.md": False, "": False,
}  # fmt: skip


@pytest.mark.req("TREE-08", "TREE-03")
def test_a_text_names_a_path_or_its_last_part() -> None:
    """As a word of its own; what holds a wildcard names nothing."""
    assert {words: named("docs/CLAUDE.md", words) for words in NAMED} == NAMED


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_a_glob(path: str, globs: list[str]) -> None:
    """Nothing raises, and a path without wildcards covers itself."""
    within(path, globs)
    named(path, " ".join(globs))
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    if plain and plain[0] != "!" and not {"*", "?", "\0"} & set(plain):
        assert within(plain, [plain])
