"""What the startup analysis concludes from files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import DOCUMENTATION, is_documentation
from interlock.engine import Scope
from interlock.playbooks.ticket.analysis import (
    DOCS,
    DocsTrust,
    architecture_relevant,
    docs_state,
    fingerprint,
    impact,
    parallel_tasks,
    search_terms,
)
from interlock.workspace import listing_digest

DIGESTS = {path: character * 64 for path, character in zip(DOCS, "abc", strict=True)}
TREE = "f" * 64


def cache(**changes: object) -> dict[str, object]:
    documents = {path[5:]: {"sha256": DIGESTS[path], "state": "fresh"} for path in DOCS}
    whole = {
        "trust_status": "trusted",
        "workspace_fingerprint": TREE,
        "refresh_required": False,
        "documents": documents,
    }
    return {**whole, **changes}


@pytest.mark.req("TK-37", "TK-38")
@pytest.mark.parametrize(
    ("said", "bound", "expected"),
    [("4\n", None, 4), ("64", None, 8), ("4", 2, 2), ("", None, 2), ("what?", None, 2), ("0", None, 2), ("1", None, 1)],
)
def test_cores_make_the_number_of_tasks_side_by_side(said: str, bound: int | None, expected: int) -> None:
    """At least one, at most eight or the bound, two where nothing is known."""
    assert parallel_tasks(said, bound) == expected


@pytest.mark.req("TK-40")
def test_docs_are_trusted_with_all_evidence_together() -> None:
    """Documents on disk, status, hashes, fingerprint and no pending refresh."""
    state = docs_state(DIGESTS, cache(), TREE)
    assert (state.trusted, state.trust, state.renew, state.to_json()["refresh_required"]) == (
        True,
        DocsTrust.TRUSTED,
        (),
        False,
    )


@pytest.mark.req("TK-41", "TK-43", "TK-44")
@pytest.mark.parametrize(
    ("digests", "evidence", "trust"),
    [
        ({**DIGESTS, DOCS[1]: ""}, cache(), DocsTrust.STALE),
        (DIGESTS, None, DocsTrust.UNKNOWN),
        (DIGESTS, "text", DocsTrust.UNKNOWN),
        (DIGESTS, cache(trust_status="stale"), DocsTrust.STALE),
        (DIGESTS, cache(trust_status="unknown"), DocsTrust.UNKNOWN),
        (DIGESTS, cache(trust_status="TODO"), DocsTrust.UNKNOWN),
        (DIGESTS, cache(refresh_required=True), DocsTrust.STALE),
        (DIGESTS, cache(refresh_required=None), DocsTrust.STALE),
        (DIGESTS, cache(workspace_fingerprint="..."), DocsTrust.UNKNOWN),
        (DIGESTS, cache(workspace_fingerprint=""), DocsTrust.UNKNOWN),
        (DIGESTS, cache(workspace_fingerprint="e" * 64), DocsTrust.STALE),
        (DIGESTS, cache(documents={"ARCHITECTURE.md": {"sha256": "TODO", "state": "fresh"}}), DocsTrust.UNKNOWN),
        (DIGESTS, cache(documents=[]), DocsTrust.UNKNOWN),
        ({**DIGESTS, DOCS[0]: "d" * 64}, cache(), DocsTrust.STALE),
    ],
)
def test_docs_are_not_trusted_when_any_evidence_lacks(
    digests: dict[str, str], evidence: object, trust: DocsTrust
) -> None:
    """Every one of the conditions alone is enough; placeholders are no evidence."""
    state = docs_state(digests, evidence, TREE)
    assert (state.trusted, state.trust) == (False, trust)


@pytest.mark.req("TK-45")
def test_only_what_is_not_valid_is_renewed() -> None:
    """A document whose entry and hash agree is left alone; another tree makes all of them doubtful."""
    assert docs_state({**DIGESTS, DOCS[2]: "d" * 64}, cache(), TREE).renew == (DOCS[2],)
    assert docs_state(DIGESTS, cache(refresh_required=True), TREE).renew == ()
    assert docs_state(DIGESTS, cache(), "0" * 64).renew == DOCS


@given(st.lists(st.text()), st.dictionaries(st.text(), st.text()))
def test_the_fingerprint_does_not_depend_on_order(tracked: list[str], manifests: dict[str, str]) -> None:
    """The same files give the same fingerprint."""
    again = dict(reversed(manifests.items()))
    same = listing_digest(reversed(tracked))
    assert fingerprint(listing_digest(tracked), manifests) == fingerprint(same, again)


@pytest.mark.req("TK-46")
def test_the_impact_scan_ranks_files_by_hits() -> None:
    """Paths and longer words are looked for; areas are the folders of what was found."""
    terms = search_terms("ABC-12 fix the login error in src/web/auth.py so that users can sign in")
    assert terms == ["src/web/auth.py", "login", "error", "auth", "users", "sign"]
    found = impact(["src/web/deep/auth.py", "a.py", "src/login.py"])
    assert found["affected_areas"] == ["src/web", ".", "src"]


@pytest.mark.parametrize(
    ("change", "relevant"),
    [
        (("M", "src/a.py"), False),
        (("A", "src/a.py"), True),
        (("D", "src/a.py"), True),
        (("R100", "src/a.py"), True),
        (("A", "tests/test_a.py"), False),
        (("A", "src/a.test.ts"), False),
        (("M", "pyproject.toml"), True),
        (("M", ".github/workflows/ci.yml"), True),
        (("A", ".gitignore"), False),
        (("A", "docs/ARCHITECTURE.md"), False),
    ],
)
def test_what_makes_documentation_out_of_date(change: tuple[str, str], relevant: bool) -> None:
    """Files that come or go outside of tests, and build, manifest and CI files."""
    assert architecture_relevant([change]) is relevant


@pytest.mark.req("EV-44")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", True),
        ("docs/a/b.rst", True),
        ("notes.txt", True),
        ("requirements.txt", False),
        ("docs/requirements-dev.txt", False),
        ("CMakeLists.txt", False),
        ("docs/CMakeLists.txt", False),
        ("docs/usage.txt", True),
        ("src/README.md", False),
        ("docs/x.py", False),
    ],
)
def test_what_counts_as_documentation(path: str, expected: bool) -> None:
    """Markdown, reStructuredText and plain text at the root or below docs; never what programs read."""
    assert is_documentation(path) is expected


@pytest.mark.req("EV-44")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", True),
        ("docs/a/b.rst", True),
        ("LICENSE.txt", True),
        ("greeting.txt", False),
        ("CMakeLists.txt", False),
    ],
)
def test_what_agents_may_change_beside_their_task(path: str, expected: bool) -> None:
    """Documentation, and no text file that may be what the program is about."""
    assert Scope(DOCUMENTATION).covers(path) is expected
