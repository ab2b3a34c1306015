"""A file is an artifact when it passes its questions, in their order."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.contracts import Artifact, ArtifactCheck, ArtifactClass, Headings, check, complaint
from interlock.documents import FileFacts, Store

PLAN = Artifact("plan.md", structure=Headings(("## Steps",)))
GOOD = "# Plan\n\n## Steps\n- one\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, tmp_path / "attic")


def complain(store: Store, artifact: Artifact = PLAN, before: FileFacts | None = None) -> str:
    return complaint(check(artifact, store.facts(artifact.path), before))


def test_each_question_has_its_class(store: Store) -> None:
    """`<path>: <class>: <detail>`, the detail left out where the class says all."""
    place = store.root / "plan.md"
    assert complain(store) == "plan.md: missing"
    place.mkdir()
    assert complain(store) == "plan.md: unreadable: is a directory"
    place.rmdir()
    place.symlink_to("/etc/hostname")
    assert complain(store) == "plan.md: unreadable: the symlink plan.md leaves the workspace"
    place.unlink()
    place.write_bytes(b"# Plan\n\xff")
    assert complain(store) == "plan.md: unreadable: not valid UTF-8 (byte 7)"
    place.write_bytes(b"\xef\xbb\xbf \r\n\t\n")
    assert complain(store) == "plan.md: empty"
    place.write_text("# Plan\n")
    assert complain(store) == "plan.md: malformed: ## Steps missing"
    place.write_text(GOOD)
    assert complain(store, before=store.facts("plan.md")).startswith("plan.md: stale: ")
    assert complain(store) == "plan.md: ok"


def test_the_questions_are_asked_in_order() -> None:
    """A file with several faults always gets the class of the first one."""
    good = FileFacts(
        "plan.md", exists=True, plain=True, readable=True, size=4, mtime_ns=1, digest="d", content=b"# x\n"
    )
    faults = [
        (ArtifactClass.MISSING, FileFacts.absent("plan.md")),
        (ArtifactClass.UNREADABLE, replace(good, plain=False, content=b"")),
        (ArtifactClass.UNREADABLE, replace(good, readable=False, content=b"")),
        (ArtifactClass.UNREADABLE, replace(good, content=b"\xff")),
        (ArtifactClass.EMPTY, replace(good, content=b" \n")),
        (ArtifactClass.MALFORMED, good),
    ]
    for cls, facts in faults:
        assert check(PLAN, facts, before=facts).cls is cls
    assert check(Artifact("plan.md"), good, before=good).cls is ArtifactClass.STALE


@pytest.mark.req("EN-40", "CM-16")
def test_fresh_means_that_bytes_or_time_differ(store: Store) -> None:
    """An untouched file is stale; the same bytes written again, or other bytes with the old time, are fresh."""
    place = store.root / "plan.md"
    place.write_text(GOOD)
    before = store.facts("plan.md")
    assert check(PLAN, store.facts("plan.md"), before).cls is ArtifactClass.STALE
    assert before.mtime_ns is not None
    os.utime(place, ns=(before.mtime_ns, before.mtime_ns + 1))
    assert check(PLAN, store.facts("plan.md"), before).ok
    place.write_text(GOOD.replace("one", "two"))
    os.utime(place, ns=(before.mtime_ns, before.mtime_ns))
    assert check(PLAN, store.facts("plan.md"), before).ok
    assert check(PLAN, store.facts("plan.md"), FileFacts.absent("plan.md")).ok


@pytest.mark.req("EN-40")
def test_a_persons_file_need_not_be_fresh(store: Store) -> None:
    """Where the artifact says so; and what the journal kept of the old file is enough to compare."""
    (store.root / "plan.md").write_text(GOOD)
    before = FileFacts.from_json(store.facts("plan.md").to_json())
    assert check(replace(PLAN, fresh=False), store.facts("plan.md"), before).ok
    assert not check(PLAN, store.facts("plan.md"), before).ok


def test_an_optional_artifact_may_be_missing_but_not_malformed(store: Store) -> None:
    """Absence is fine, a broken file is still called broken."""
    optional = replace(PLAN, required=False)
    assert check(optional, store.facts("plan.md"), None).ok
    (store.root / "plan.md").write_text("no")
    assert check(optional, store.facts("plan.md"), None).cls is ArtifactClass.MALFORMED


def test_a_complaint_has_three_parts() -> None:
    """Path, class, detail."""
    assert complaint(ArtifactCheck("a.md", ArtifactClass.STALE, "why")) == "a.md: stale: why"


def test_what_an_artifact_is_by_itself() -> None:
    """Required, written by this dispatch, brought into the tree, sampled only because it is required."""
    assert Artifact("a.md") == Artifact(
        "a.md", required=True, fresh=True, sampled=False, beside="", imported=True, structure=None
    )
    assert not Artifact("a.md", required=False).played()


@pytest.mark.parametrize(
    ("artifact", "told", "played"),
    [
        (Artifact("a.md"), (), True),
        (Artifact("a.md"), ("b.md",), True),
        (Artifact("a.md"), ("a.md",), False),
        (Artifact("a.md", required=False), (), False),
        (Artifact("a.md", required=False, sampled=True), (), True),
        (Artifact("a.md", required=False, sampled=True, beside="b.md"), ("c.md",), True),
        (Artifact("a.md", required=False, sampled=True, beside="b.md"), ("b.md",), False),
        (Artifact("a.md", required=False, sampled=True), ("a.md",), False),
        (Artifact("a.md", beside="b.md"), ("b.md",), True),
    ],
)
def test_whether_a_player_writes_its_sample(artifact: Artifact, told: tuple[str, ...], played: bool) -> None:
    """What is required, or sampled all the same; not where it was told something else of it, or of its neighbour."""
    assert artifact.played(told) is played
