"""Write scopes: what is covered, and what is only covered by its name."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.errors import PathRefused
from interlock.workspace import DEFAULT_PROTECTED, Scope, protected_names
from tests.proofs import examples


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("docs/plan.md", "docs/plan.md", True),
        ("./docs//plan.md", "docs/plan.md", True),
        ("docs/plan.md", "docs/plan.md.bak", False),
        ("docs", "docs/plan.md", False),
        ("docs/", "docs/a/plan.md", True),
        ("docs/**", "docs/a/b/plan.md", True),
        ("docs/**", "docs", False),
        ("docs/*", "docs/a/plan.md", False),
        ("docs/*.md", "docs/.md", True),
        ("**", "any/thing", True),
        ("**/x.md", "x.md", True),
        ("**/x.md", "a/b/x.md", True),
        ("**/x.md", "a/b/yx.md", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/1/2/b", True),
        ("a/**/b", "ab", False),
        ("file?.txt", "file1.txt", True),
        ("file?.txt", "file/.txt", False),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", False),
        ("caf\udce9/*", "caf\udce9/x", True),
        ("docs/**", "docs/../src/x", False),
        ("**", "/etc/passwd", False),
    ],
)
def test_patterns_cover_what_they_say(pattern: str, path: str, covered: bool) -> None:
    """A pattern covers exactly the paths of its definition."""
    assert Scope((pattern,)).covers(path) is covered


def test_an_exclusion_wins_whatever_the_order() -> None:
    """A path that an exclusion hits is not covered, even if a later pattern names it."""
    scope = Scope(("!docs/state.json", "docs/**"))
    assert scope.covers("docs/a.md")
    assert not scope.covers("docs/state.json")
    assert not Scope(("!docs/**",)).covers("docs/a")
    assert not Scope(("!docs/**",)).covers("!docs/a")  # an exclusion opens nothing, not even what is called like it
    assert not Scope(()).covers("a")


@pytest.mark.req("CM-26")
@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../b", "", ".", "!/x", "a\0b"])
def test_patterns_that_leave_the_workspace_are_refused(pattern: str) -> None:
    """A pattern that is absolute, has '..' or names nothing is refused with the pattern named."""
    with pytest.raises(PathRefused):
        Scope((pattern,))


@pytest.mark.req("EN-39")
def test_a_nested_scope_is_never_wider_than_its_parent() -> None:
    """What a nested run may write is what both its own scope and its parent's dispatch cover."""
    parent = Scope(("docs/**", "!docs/state.json"))
    inner = parent.narrowed(Scope(("**",)))
    assert inner == Scope(("**",)).within(parent)
    assert inner.covers("docs/a.md")
    assert not inner.covers("docs/state.json")
    assert not inner.covers("src/a.py")
    assert not inner.narrowed(Scope(("src/**",))).covers("src/a.py")


EVERYTHING = Scope(("**",), protected=protected_names())


@pytest.mark.req("LY-33")
@pytest.mark.parametrize("name", DEFAULT_PROTECTED)
def test_what_steers_agents_and_tools_is_in_no_scope_that_does_not_name_it(name: str) -> None:
    """At any depth, as a file or a folder, in any case; the name spelled out opens it."""
    for path in (name, f"{name}/x.md", f"docs/deep/{name}", f"docs/{name}/hooks/x", name.upper(), name.title()):
        assert not EVERYTHING.covers(path)
        assert Scope((path,), protected=EVERYTHING.protected).covers(path)
    for beside in (f"{name}x", f"x{name}", f"docs/x{name}/y"):
        assert EVERYTHING.covers(beside)


@pytest.mark.req("LY-33")
@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        (".opencode/specs/**", ".opencode/specs/TODO.md", True),
        (".opencode/specs/**", ".opencode/agent/planner.md", False),
        (".opencode/specs/**", ".opencode/specs/AGENTS.md", False),
        (".opencode/specs/**", ".opencode/specs/.opencode/agent/x.md", False),
        ("**/.github/**", "a/.github/workflows/ci.yml", True),
        ("**/.github/**", ".github/.github/x", False),
        ("**/.github/**/.github/**", ".github/a/.github/x", True),
        (".github/", ".github/workflows/ci.yml", True),
        (".git*/**", ".github/workflows/ci.yml", False),
        ("CLAUDE.*", "CLAUDE.md", False),
        ("CLAUDE.m?", "CLAUDE.md", False),
        ("**/CLAUDE.md", "docs/CLAUDE.md", True),
        ("**/CLAUDE.md", "docs/claude.md", False),
        ("docs/*", "docs/ClAuDe.MD", False),
        ("app/[id]/**", "app/[id]/CLAUDE.md", False),
        ("app/[id]/CLAUDE.md", "app/[id]/CLAUDE.md", True),
        ("app/[id]/**", "app/[id]/page.txt", True),
    ],
)
def test_no_wildcard_stands_for_a_protected_name(pattern: str, path: str, covered: bool) -> None:
    """Each protected part of a path must be spelled out where it stands."""
    assert Scope((pattern,), protected=protected_names()).covers(path) is covered


@pytest.mark.req("LY-33")
def test_one_pattern_must_name_all_that_is_protected_in_a_path() -> None:
    """Two patterns that name a part each open nothing together."""
    scope = Scope((".github/**", "**/AGENTS.md"), protected=protected_names())
    assert not scope.covers(".github/AGENTS.md")
    assert Scope((".github/AGENTS.md",), protected=protected_names()).covers(".github/AGENTS.md")


def test_what_somebody_must_produce_they_may_write_though_it_is_protected() -> None:
    """A named file is covered; an exclusion still shuts out what a pattern names."""
    protected = protected_names()
    assert Scope((), named=("docs/AGENTS.md",), protected=protected).covers("docs/AGENTS.md")
    assert not Scope((".github/**", "!.github/agents/**"), protected=protected).covers(".github/agents/x")
    assert not Scope((".github/**", "!**/*.yml"), protected=protected).covers(".github/a.yml")


@pytest.mark.req("LY-33", "EN-39")
def test_a_nested_run_cannot_name_what_its_parent_does_not() -> None:
    """What is protected must be named on every level."""
    protected = protected_names()
    inner = Scope((".github/**", "src/**"), protected=protected)
    assert not inner.within(Scope(("**",))).covers(".github/ci.yml")
    assert inner.within(Scope(("**",))).covers("src/a.py")
    assert inner.within(Scope((".github/**",))).covers(".github/ci.yml")
    assert not inner.within(Scope((), named=(".github/ci.yml",))).covers(".github/x.yml")


@pytest.mark.req("LY-33")
def test_a_list_of_ones_own_keeps_what_always_is_protected() -> None:
    """The default list is replaced; git's and interlock's own stay; case does not count in the list either."""
    own = Scope(("**",), protected=protected_names(["Policy", "STRASSE"]))
    for path in ("interlock.toml", ".interlock/runs/x", "sub/.git/config", ".GIT/hooks/x", "policy/a", "x/straße"):
        assert not own.covers(path)
    assert own.covers("CLAUDE.md")
    assert Scope(("**",)).covers("CLAUDE.md")


_component = st.text("ab*?", min_size=1, max_size=3) | st.just("**")
_pattern = st.lists(_component, min_size=1, max_size=3).map("/".join)
_scope = st.lists(_pattern | _pattern.map(lambda p: "!" + p), min_size=1, max_size=3).map(tuple)
_PATHS = [
    "/".join(parts)
    for depth in (1, 2, 3)
    for parts in itertools.product(("a", "b", "ab", "ba", "aab", "c"), repeat=depth)
]


def _slowly_matches(pattern: list[str], path: list[str], protected: Collection[str] = ()) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        free = len(list(itertools.takewhile(lambda part: part not in protected, path)))
        if len(pattern) == 1:
            return bool(path) and free == len(path)
        return any(_slowly_matches(pattern[1:], path[skipped:], protected) for skipped in range(free + 1))
    if not path or (path[0] in protected and pattern[0] != path[0]):
        return False
    return _name_matches(pattern[0], path[0]) and _slowly_matches(pattern[1:], path[1:], protected)


def _name_matches(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _name_matches(pattern[1:], name) or (bool(name) and _name_matches(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and _name_matches(pattern[1:], name[1:])


def _slowly_covers(patterns: tuple[str, ...], path: str) -> bool:
    hit = [p for p in patterns if _slowly_matches(p.removeprefix("!").split("/"), path.split("/"))]
    return bool(hit) and not any(p.startswith("!") for p in hit)


@given(_scope, st.sampled_from(_PATHS))
@examples(4)
def test_covering_agrees_with_a_slow_reference(patterns: tuple[str, ...], path: str) -> None:
    """The fast test says the same as matching component by component."""
    assert Scope(patterns).covers(path) == _slowly_covers(patterns, path)


@given(_scope, st.sampled_from(_PATHS), st.sets(st.sampled_from(("a", "b", "ab", "c"))))
@examples(4)
def test_protection_agrees_with_a_slow_reference(patterns: tuple[str, ...], path: str, protected: set[str]) -> None:
    """A protected name is met by the same name only, never by a wildcard."""
    hit = [p for p in patterns if p.startswith("!") and _slowly_matches(p[1:].split("/"), path.split("/"))]
    hit += [p for p in patterns if p[0] != "!" and _slowly_matches(p.split("/"), path.split("/"), protected)]
    expected = bool(hit) and not any(p.startswith("!") for p in hit)
    assert Scope(patterns, protected=frozenset(protected)).covers(path) == expected


@given(_scope, _scope, st.sampled_from(_PATHS))
@examples(2)
def test_within_covers_what_both_cover(a: tuple[str, ...], b: tuple[str, ...], path: str) -> None:
    """A scope within another covers the intersection, neither more nor less."""
    assume(a != b)
    assert Scope(a).within(Scope(b)).covers(path) == (_slowly_covers(a, path) and _slowly_covers(b, path))
