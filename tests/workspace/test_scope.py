"""Write scopes: what is covered, and when two of them meet."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.errors import PathRefused
from interlock.workspace import Scope, overlap


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
    assert not Scope(()).covers("a")


@pytest.mark.req("CM-26")
@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../b", "", ".", "!/x", "a\0b"])
def test_patterns_that_leave_the_workspace_are_refused(pattern: str) -> None:
    """A pattern that is absolute, has '..' or names nothing is refused with the pattern named."""
    with pytest.raises(PathRefused):
        Scope((pattern,))


@pytest.mark.req("CM-15", "EN-37")
@pytest.mark.parametrize(
    ("a", "b", "meets"),
    [
        (("docs/a.md",), ("docs/b.md",), False),
        (("docs/a.md",), ("docs/a.md",), True),
        (("docs/**",), ("docs/a.md",), True),
        (("docs/**",), ("docsx/a.md",), False),
        (("src/**",), ("src/lib/**",), True),
        (("src/a/**",), ("src/b/**",), False),
        (("**/test.py",), ("src/**",), True),
        (("*.md",), ("docs/**",), False),
        (("*.md",), ("*.txt",), False),
        (("a*",), ("*b",), True),
        (("docs/**", "!docs/own/**"), ("docs/own/**",), False),
        (("docs/**", "!docs/own/*"), ("docs/own/**",), True),
        (("**", "!*.md"), ("*.md",), False),
        ((), ("**",), False),
    ],
)
def test_overlap_is_found_exactly(a: tuple[str, ...], b: tuple[str, ...], meets: bool) -> None:
    """Two scopes overlap only if some path is covered by both, and that path is named."""
    for one, other in ((Scope(a), Scope(b)), (Scope(b), Scope(a))):
        found = overlap(one, other)
        assert (found is not None) is meets
        if found is not None:
            assert one.covers(found)
            assert other.covers(found)


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
    assert overlap(inner, Scope(("src/**",))) is None
    assert overlap(inner, Scope(("**/a.md",))) == "docs/a.md"


def test_two_hundred_members_are_compared_quickly() -> None:
    """Telling 200 scopes of different files apart takes well under a second or two."""
    scopes = [Scope((f"docs/{number}/report.md", f"src/part{number}/**")) for number in range(200)]
    start = time.perf_counter()
    assert all(overlap(a, b) is None for a, b in itertools.combinations(scopes, 2))
    assert time.perf_counter() - start < 5


_component = st.text("ab*?", min_size=1, max_size=3) | st.just("**")
_pattern = st.lists(_component, min_size=1, max_size=3).map("/".join)
_scope = st.lists(_pattern | _pattern.map(lambda p: "!" + p), min_size=1, max_size=3).map(tuple)
_PATHS = [
    "/".join(parts)
    for depth in (1, 2, 3)
    for parts in itertools.product(("a", "b", "ab", "ba", "aab", "c"), repeat=depth)
]


def _slowly_matches(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return any(_slowly_matches(pattern[1:], path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and _name_matches(pattern[0], path[0]) and _slowly_matches(pattern[1:], path[1:])


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
@settings(max_examples=400, deadline=None)
def test_covering_agrees_with_a_slow_reference(patterns: tuple[str, ...], path: str) -> None:
    """The fast test says the same as matching component by component."""
    assert Scope(patterns).covers(path) == _slowly_covers(patterns, path)


@given(_scope, _scope)
@settings(max_examples=300, deadline=None)
def test_overlap_agrees_with_trying_every_path(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    """No path is covered by both when there is no overlap; the named path is covered by both when there is one."""
    common = [path for path in _PATHS if _slowly_covers(a, path) and _slowly_covers(b, path)]
    found = overlap(Scope(a), Scope(b))
    if found is None:
        assert not common
    else:
        assert Scope(a).covers(found) and Scope(b).covers(found)


@given(_scope, _scope, st.sampled_from(_PATHS))
@settings(max_examples=200, deadline=None)
def test_within_covers_what_both_cover(a: tuple[str, ...], b: tuple[str, ...], path: str) -> None:
    """A scope within another covers the intersection, neither more nor less."""
    assume(a != b)
    assert Scope(a).within(Scope(b)).covers(path) == (_slowly_covers(a, path) and _slowly_covers(b, path))
