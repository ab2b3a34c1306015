"""Every decision of the feature playbook, over every combination of what it can be given."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks.feature.decisions import (
    AfterReview,
    ClusterResult,
    Concern,
    Concluded,
    Decided,
    Judged,
    Onward,
    Said,
    Stand,
    Tier,
    Vote,
    affected_tasks,
    after_group,
    after_review,
    conclusion,
    ct_cluster,
    groups,
    judged,
    r_cluster,
    review_tier,
    sensitive,
    slug_of,
    standing,
    v_cluster,
    valid_slug,
)
from interlock.playbooks.feature.members import CT, MEMBERS, Blocks, Cluster, Member, R, V
from interlock.playbooks.feature.memory_file import MemoryFile
from interlock.playbooks.feature.plan import to_do

ANSWERS = (Said.DONE, Said.NEEDS_REVISION, Said.ERROR)
AGAINST = (Stand.WANTS_CHANGE, Stand.WORST)


def row(name: str) -> Member:
    found = MEMBERS.row(name)
    assert found is not None
    return found


def votes(cluster: Cluster, stands: Iterable[Stand]) -> list[Vote]:
    """The first and the last members of a cluster, as they stand; a fifth counts with the others."""
    names = MEMBERS.names(cluster)
    rows = [(row(name).blocks, row(name).optional) for name in (*names[:3], names[-1])]
    pairs = zip_longest(stands, rows, fillvalue=None)
    return [Vote(stand, *(known or (Blocks.WITH_OTHERS, True))) for stand, known in pairs if stand is not None]


# -- judges


@pytest.mark.req("FT-61", "FT-76")
@pytest.mark.parametrize(
    ("name", "status", "word", "medium", "severity", "stand"),
    [
        ("ct-strategy", "DONE", "Low", (), "Low", Stand.CONTENT),
        ("ct-strategy", "DONE", "low", (), "Low", Stand.CONTENT),
        ("ct-strategy", "DONE", "Low", ("a queue without a limit",), "Medium", Stand.WANTS_CHANGE),
        ("ct-strategy", "DONE", "High", ("a queue without a limit",), "High", Stand.WANTS_CHANGE),
        ("ct-strategy", "NEEDS_REVISION", "Low", (), "Medium", Stand.WANTS_CHANGE),
        ("ct-strategy", "NEEDS_REVISION", "Critical", (), "Critical", Stand.WORST),
        ("v-tests", "DONE", "PASS", (), "PASS", Stand.CONTENT),
        ("v-tests", "DONE", "FAIL", (), "FAIL", Stand.WORST),
        ("v-tests", "NEEDS_REVISION", "PASS", (), "PASS", Stand.WANTS_CHANGE),
        ("v-tests", "ERROR", "PASS", (), "PASS", Stand.UNKNOWN),
        ("v-build", "DONE", "PASS", (), "PASS", Stand.CONTENT),
        ("v-build", "DONE", "FAIL", (), "FAIL", Stand.UNKNOWN),
        ("v-build", "NEEDS_REVISION", "PASS", (), "PASS", Stand.UNKNOWN),
        ("r-quality", "DONE", "Minor", (), "Minor", Stand.CONTENT),
        ("r-quality", "DONE", "Major", (), "Major", Stand.WANTS_CHANGE),
        ("r-quality", "NEEDS_REVISION", "None", (), "None", Stand.WANTS_CHANGE),
        ("r-quality", "DONE", "Blocker", (), "Blocker", Stand.WORST),
    ],
)
def test_how_a_judge_stands(
    name: str, status: str, word: str, medium: tuple[str, ...], severity: str, stand: Stand
) -> None:
    """By the worst that it says anywhere; whatever the gate says but that it is content is an error."""
    found = judged(row(name), Said.DONE, MemoryFile(status=status, severity=word, medium=medium))
    assert (found.severity, found.vote.stand, found.malformed) == (severity, stand, False)
    assert (found.vote.blocks, found.vote.optional) == (row(name).blocks, row(name).optional)
    assert (found.status is Said.DONE) == (stand is Stand.CONTENT)
    assert found.status.usable == (stand is not Stand.UNKNOWN) == found.usable


@pytest.mark.req("FT-55", "FT-56")
@pytest.mark.parametrize("judge", [one for one in MEMBERS.rows if one.judges], ids=lambda one: one.name)
def test_what_is_absent_or_unknown_is_the_worst(judge: Member) -> None:
    """Critical for critics, Blocker for reviewers, FAIL for verifiers, and it is said; no memory is an error."""
    for word in ("", "Severe", "Fine"):
        found = judged(judge, Said.DONE, MemoryFile(status="DONE", severity=word))
        assert (found.severity, found.malformed) == (judge.words.worst, True)
        assert found.vote.stand is (Stand.UNKNOWN if judge.gate else Stand.WORST)
    for answer in ANSWERS:
        found = judged(judge, answer, None)
        assert (found.vote.stand, found.severity) == (Stand.UNKNOWN, judge.words.worst)
        assert found == Judged(standing(answer, None), judge.words.worst, found.vote, malformed=True, foreign=False)
        assert found.status is found.said is (Said.ERROR if answer is Said.ERROR else Said.MISSING)


def test_a_judge_is_shown_with_its_word_and_its_severity() -> None:
    """Who has a memory and cannot be used is an error; the others say what they say."""
    failing = judged(row("v-build"), Said.DONE, MemoryFile(status="DONE", severity="FAIL"))
    assert (failing.status, failing.shown) == (Said.ERROR, "DONE/FAIL")
    wants = judged(row("ct-strategy"), Said.DONE, MemoryFile(status="DONE", severity="High"))
    assert (wants.status, wants.shown) == (Said.NEEDS_REVISION, "DONE/High")
    plain = Judged(Said.DONE, "Low", wants.vote)
    assert (plain.malformed, plain.foreign) == (False, False)


@pytest.mark.req("FT-94")
def test_critical_is_a_blocker_in_the_wrong_words() -> None:
    """It counts as the worst, and the wrong word is noticed."""
    found = judged(row("r-quality"), Said.DONE, MemoryFile(status="DONE", severity="critical"))
    assert (found.severity, found.foreign, found.malformed) == ("Blocker", True, False)
    for word in ("Blocker", "Minor", "Severe"):
        assert not judged(row("r-quality"), Said.DONE, MemoryFile(status="DONE", severity=word)).foreign


def test_the_worse_of_answer_and_status_counts() -> None:
    """An answer cannot be better than the status in the memory, nor the other way round."""
    order = list(ANSWERS)
    for answer, stated in product(ANSWERS, (*ANSWERS, "", "FINE")):
        expected = answer if stated not in order else max(answer, stated, key=order.index)  # type: ignore[type-var]
        assert standing(answer, MemoryFile(status=stated)) is expected


# -- clusters


@pytest.mark.req("FT-60", "FT-62", "FT-63", "CM-17")
@pytest.mark.parametrize("size", [4, 5])
def test_the_critics_decide_over_every_combination(size: int) -> None:
    """Fewer than two usable is ERROR; any severity above Low is NEEDS_REVISION; only Low everywhere is DONE."""
    for stands in product(Stand, repeat=size):
        usable = [one for one in stands if one is not Stand.UNKNOWN]
        negative = Decided.DONE if set(usable) == {Stand.CONTENT} else Decided.NEEDS_REVISION
        assert ct_cluster(votes(CT, stands)) is (Decided.TOO_FEW if len(usable) < 2 else negative)


@pytest.mark.req("FT-77", "FT-78", "FT-79", "FT-80", "FT-81", "CM-17", "EV-07", "EV-04")
@pytest.mark.parametrize("size", [4, 5])
def test_the_verifiers_decide_over_every_combination(size: int) -> None:
    """Precedence: build; two without a verdict; a negative verdict; one without a verdict; all DONE. With something
    that the engine knows against the work nothing passes, and what was no pass before is what it was."""
    for stands in product(Stand, repeat=size):
        given, (build, *others) = votes(V, stands), stands
        lost = others.count(Stand.UNKNOWN)
        if build is Stand.UNKNOWN or lost >= 2:
            expected = Decided.LACKING if build is Stand.UNKNOWN else Decided.TOO_FEW
        elif set(stands) & set(AGAINST):
            expected = Decided.NEEDS_REVISION
        else:
            expected = Decided.DEGRADED if lost else Decided.DONE
        assert v_cluster(given) is expected
        strict = Decided.NEEDS_REVISION if expected is Decided.DEGRADED else expected
        assert v_cluster(given, strict=True) is strict
        known = Decided.NEEDS_REVISION if expected.passed else expected
        assert v_cluster(given, False, ["x"]) is v_cluster(given, True, ["x"]) is known
    assert [one.result for one in Decided] == [
        *[ClusterResult.DONE] * 2,
        ClusterResult.NEEDS_REVISION,
        *[ClusterResult.ERROR] * 3,
    ]


@pytest.mark.req("FT-90", "FT-91", "FT-92", "FT-93", "FT-95", "FT-96", "FT-97", "FT-98", "FT-106", "CM-17", "OW-10")
@pytest.mark.parametrize("size", [4, 5])
def test_the_reviewers_decide_over_every_combination(size: int) -> None:
    """Who blocks alone first; then the quorum; then whoever wants a change; else DONE. Who never blocks is not seen."""
    for stands in product(Stand, repeat=size):
        found = r_cluster(votes(R, stands))
        _quality, security, _testing, _knowledge, *more = stands
        counted = [*stands[:3], *more]
        if security is Stand.UNKNOWN:
            expected = Decided.LACKING
        elif security is Stand.WORST:
            expected = Decided.BLOCKED
        elif len(counted) - counted.count(Stand.UNKNOWN) < 2:
            expected = Decided.TOO_FEW
        else:
            expected = Decided.NEEDS_REVISION if set(counted) & set(AGAINST) else Decided.DONE
        assert found is expected


@given(st.permutations(range(4)), st.lists(st.sampled_from(Stand), min_size=4, max_size=4))
def test_who_says_it_does_not_matter(order: list[int], stands: list[Stand]) -> None:
    """A cluster is decided by votes, not by their order."""
    for cluster, rule in ((CT, ct_cluster), (V, v_cluster), (R, r_cluster)):
        given = votes(cluster, stands)
        assert rule([given[place] for place in order]) is rule(given)


def test_where_a_review_leads() -> None:
    """Total over results and counters; a reviewer that failed never leads to a replan; DONE is the only finish."""
    for reviewed, confirms, fixes, escalations in product(Decided, (0, 1), (0, 1), (0, 1)):
        found = after_review(reviewed, confirms, fixes, escalations)
        assert (found is AfterReview.FINISH) == reviewed.passed
        match reviewed:
            case Decided.BLOCKED:
                order = [(confirms, AfterReview.CONFIRM), (escalations, AfterReview.ESCALATE)]
            case Decided.NEEDS_REVISION:
                order = [(fixes, AfterReview.FIX), (escalations, AfterReview.ESCALATE)]
            case Decided.DONE | Decided.DEGRADED:
                continue
            case _:
                order = []
        assert found is next((move for left, move in order if left), AfterReview.GIVE_UP)


@pytest.mark.req("EV-07", "FT-150")
@pytest.mark.parametrize("reviewed", Decided)
@pytest.mark.parametrize(("against", "flaws"), [([], []), ([], ["x"]), (["y"], []), (["y"], ["x"])])
def test_the_end_is_done_only_when_nothing_speaks_against_it(
    reviewed: Decided, against: list[str], flaws: list[str]
) -> None:
    """Every row."""
    found = conclusion(reviewed, against, flaws)
    assert (found is Concluded.ERROR) == (not reviewed.passed or bool(against))
    assert found is Concluded.ERROR or (found is Concluded.DEGRADED) == bool(flaws)


@pytest.mark.req("EV-45")
@pytest.mark.parametrize(
    ("waves", "done", "after", "expected"),
    [
        ({1: "T1", 2: "T2"}, "", 0, {1: "T1", 2: "T2"}),
        ({3: "T3"}, "T1 T2", 2, {3: "T3"}),
        ({1: "T3", 2: "T4", 3: "T5"}, "T1 T2", 2, {3: "T3", 4: "T4", 5: "T5"}),
        ({1: "T1", 2: "T2", 3: "T3"}, "T1 T2", 2, {3: "T3"}),
        ({1: "T1", 2: "T2 T3"}, "T1 T2", 2, {3: "T3"}),
        ({1: "T1 T2"}, "T1 T2", 1, {}),
        ({3: "T1"}, "T1", 2, {3: "T1"}),
        ({7: "T3", 9: "T4"}, "", 2, {7: "T3", 9: "T4"}),
    ],
)
def test_waves_of_a_replan_are_found_and_numbered(
    waves: dict[int, str], done: str, after: int, expected: dict[int, str]
) -> None:
    """Whether the planner counts on or begins anew, keeps the old waves or leaves them out."""
    text = "## Execution Waves\n" + "".join(
        f"### Wave {number}\n" + "".join(f"- {one}: x\n" for one in ids.split()) for number, ids in waves.items()
    )
    assert {number: " ".join(ids) for number, ids in to_do(text, done.split(), after)} == expected


@pytest.mark.req("FT-87")
@pytest.mark.parametrize(
    ("files", "lines", "tier"),
    [
        (0, 0, Tier.LIGHTWEIGHT),
        (3, 100, Tier.LIGHTWEIGHT),
        (4, 100, Tier.STANDARD),
        (3, 101, Tier.STANDARD),
        (15, 600, Tier.STANDARD),
        (16, 0, Tier.FULL),
        (1, 601, Tier.FULL),
    ],
)
def test_the_tier_follows_from_size(files: int, lines: int, tier: Tier) -> None:
    """The thresholds, on both sides."""
    assert review_tier([f"src/{number}.py" for number in range(files)], lines) is tier


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/auth/login.py", True),
        ("lib/Crypto.ts", True),
        (".github/workflows/ci.yml", True),
        ("pyproject.toml", True),
        ("web/package.json", True),
        ("docs/design.md", False),
        ("src/packages.py", False),
    ],
)
def test_sensitive_paths_get_the_full_review(path: str, expected: bool) -> None:
    """Sign-in, cryptography, secrets, payment, CI and dependency manifests."""
    assert sensitive(path) is expected
    assert (review_tier([path], 1) is Tier.FULL) is expected


@pytest.mark.req("FT-102")
@pytest.mark.parametrize(
    ("concerns", "expected"),
    [
        ([Concern(tasks=("T2",))], ("T2",)),
        ([Concern(tasks=("T9",), files=("src/a/x.py",))], ("T1",)),
        ([Concern(files=("src/a/x.py", "src/b/y.py"))], ("T1", "T2")),
        ([Concern(files=("elsewhere.py",))], ("T1", "T2", "T3")),
        ([Concern()], ("T1", "T2", "T3")),
        ([Concern(tasks=("T3",)), Concern(files=("src/b/y.py",))], ("T2", "T3")),
        ([], ()),
    ],
)
def test_affected_tasks_by_name_then_by_file_then_all(concerns: list[Concern], expected: tuple[str, ...]) -> None:
    """No finding is lost: what cannot be assigned concerns every task."""
    writes = {"T1": ("src/a/**",), "T2": ("src/b/**",), "T3": ()}
    assert affected_tasks(concerns, writes) == expected


# -- waves


@pytest.mark.req("FT-13")
@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 5))
def test_sub_waves_keep_order_and_size(tasks: list[str], size: int) -> None:
    """Nothing is lost or moved; all but the last are full."""
    found = groups(tasks, size)
    assert [one for group in found for one in group] == tasks
    assert all(len(group) == size for group in found[:-1])
    assert [len(group) for group in groups(list("abcdefghi"), 4)] == [4, 4, 1]


@pytest.mark.req("FT-140", "FT-142")
@pytest.mark.parametrize(
    ("implementer", "failed", "to_do", "expected"),
    [
        (True, ["T1"], {"T2": ()}, Onward.VERIFY),
        (False, ["D1"], {"T2": ()}, Onward.NEXT),
        (False, ["D1"], {"T2": ("D1",)}, Onward.VERIFY),
        (False, [], {"T2": ("T1",)}, Onward.NEXT),
        (False, ["D1"], {}, Onward.NEXT),
    ],
)
def test_what_stops_the_waves(
    implementer: bool, failed: list[str], to_do: dict[str, tuple[str, ...]], expected: Onward
) -> None:
    """An implementer's failure; failed documentation only where something depends on it."""
    assert after_group(implementer, failed, to_do) is expected


# -- names and modes


@given(st.text())
def test_every_request_has_a_slug(request: str) -> None:
    """Valid, at most 40 characters, and the same each time."""
    assert valid_slug(slug_of(request))
    assert slug_of(request) == slug_of(request)


@pytest.mark.parametrize(
    ("request_text", "slug"),
    [
        ("Add a login page!", "add-a-login-page"),
        ("Größe ändern", "gr-e-ndern"),
        ("x" * 60, "x" * 40),
        ("support " * 20, "support-support-support-support-support"),
        ("a" * 19 + " " + "b" * 20, "a" * 19 + "-" + "b" * 20),
        ("a" * 20 + " " + "b" * 20, "a" * 20),
        ("äöü", "feature-bc329dbf"),
    ],
)
def test_slugs_are_made_of_whole_words(request_text: str, slug: str) -> None:
    """Lower case, joined by a dash."""
    assert slug_of(request_text) == slug


@pytest.mark.parametrize("slug", ["../x", "a/b", "A", "a--b", "-a", "", "a" * 41, "a b"])
def test_bad_slugs_are_known(slug: str) -> None:
    """Nothing that could leave the folder of features, or be ambiguous."""
    assert not valid_slug(slug)
    assert valid_slug("a" * 40)
