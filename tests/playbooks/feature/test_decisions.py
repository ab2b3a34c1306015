"""Every decision of the feature playbook, over every combination of what it can be given."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks.feature.decisions import (
    AfterReview,
    Concern,
    Concluded,
    Critic,
    Grade,
    Onward,
    Result,
    Review,
    Reviewed,
    Said,
    Severity,
    Tier,
    Verified,
    affected_tasks,
    after_group,
    after_review,
    conclusion,
    critic,
    ct_cluster,
    groups,
    r_cluster,
    review_tier,
    reviewer,
    sensitive,
    slug_of,
    standing,
    v_cluster,
    valid_slug,
    verifier,
)
from interlock.playbooks.feature.memory_file import MemoryFile
from interlock.playbooks.feature.plan import to_do

ANSWERS = (Said.DONE, Said.NEEDS_REVISION, Said.ERROR)


# -- CT


@pytest.mark.req("FT-60", "FT-62", "FT-63", "CM-17")
def test_the_critics_decide_over_every_combination() -> None:
    """Fewer than two usable is ERROR; any severity above Low is NEEDS_REVISION; only Low everywhere is DONE."""
    one = [Critic(usable, severity) for usable in (True, False) for severity in Severity]
    for four in product(one, repeat=4):
        usable = [critic.severity for critic in four if critic.usable]
        if len(usable) < 2:
            expected = Result.ERROR
        elif set(usable) == {Severity.LOW}:
            expected = Result.DONE
        else:
            expected = Result.NEEDS_REVISION
        assert ct_cluster(four) is expected


@pytest.mark.req("FT-61")
@pytest.mark.parametrize(
    ("highest", "medium", "answer", "expected"),
    [
        ("Low", (), Said.DONE, Severity.LOW),
        ("low", (), Said.DONE, Severity.LOW),
        ("Low", ("a queue without a limit",), Said.DONE, Severity.MEDIUM),
        ("High", ("a queue without a limit",), Said.DONE, Severity.HIGH),
        ("Low", (), Said.NEEDS_REVISION, Severity.MEDIUM),
        ("Critical", (), Said.NEEDS_REVISION, Severity.CRITICAL),
    ],
)
def test_a_critics_severity_is_the_worst_it_says_anywhere(
    highest: str, medium: tuple[str, ...], answer: Said, expected: Severity
) -> None:
    """A medium finding, or an answer that asks for revision, counts as Medium at least."""
    found = critic(answer, MemoryFile(status="DONE", severity=highest, medium=medium))
    assert (found.usable, found.severity, found.malformed) == (True, expected, False)


@pytest.mark.req("FT-55", "FT-56")
@pytest.mark.parametrize("word", ["", "Severe", "Blocker", "PASS"])
def test_a_severity_that_is_absent_or_unknown_is_the_worst(word: str) -> None:
    """Critical for critics, Blocker for reviewers, FAIL for verifiers; and it is said."""
    memory = MemoryFile(status="DONE", severity=word)
    assert critic(Said.DONE, memory) == Critic(True, Severity.CRITICAL, malformed=True)
    if word not in ("Blocker",):
        assert reviewer(Said.DONE, memory) == Review(Said.DONE, Grade.BLOCKER, malformed=True)
    if word != "PASS":
        assert verifier("v-tests", Said.DONE, memory).said is Said.NEEDS_REVISION
        assert verifier("v-build", Said.DONE, memory).said is Said.ERROR
        assert verifier("v-tests", Said.DONE, memory).malformed


@pytest.mark.req("FT-55")
def test_a_missing_memory_is_an_error_of_its_agent() -> None:
    """Whatever the agent answered."""
    for answer in ANSWERS:
        assert not critic(answer, None).usable
        assert not verifier("v-tests", answer, None).said.usable
        assert not reviewer(answer, None).said.usable


def test_the_worse_of_answer_and_status_counts() -> None:
    """An answer cannot be better than the status in the memory, nor the other way round."""
    order = list(ANSWERS)
    for answer, stated in product(ANSWERS, (*ANSWERS, "", "FINE")):
        expected = answer if stated not in order else max(answer, stated, key=order.index)  # type: ignore[type-var]
        assert standing(answer, MemoryFile(status=stated)) is expected


# -- V


@pytest.mark.req("FT-77", "FT-78", "FT-79", "FT-80", "FT-81", "CM-17")
def test_the_v_table_over_all_256_combinations() -> None:
    """Precedence: build; two without a verdict; a negative verdict; one without a verdict; all DONE."""
    seen = 0
    for build, *others in product(Said, repeat=4):
        seen += 1
        lost = sum(one in (Said.ERROR, Said.MISSING) for one in others)
        if build is not Said.DONE or lost >= 2:
            expected = Verified.ERROR
        elif Said.NEEDS_REVISION in others:
            expected = Verified.NEEDS_REVISION
        else:
            expected = Verified.DEGRADED if lost else Verified.DONE
        assert v_cluster(build, *others) is expected
        strict = Verified.NEEDS_REVISION if expected is Verified.DEGRADED else expected
        assert v_cluster(build, *others, strict=True) is strict
    assert seen == 256
    assert Verified.DEGRADED.result is Result.DONE


@pytest.mark.req("FT-76")
@pytest.mark.parametrize(
    ("name", "status", "proof", "expected"),
    [
        ("v-tests", "DONE", "PASS", Said.DONE),
        ("v-tests", "DONE", "FAIL", Said.NEEDS_REVISION),
        ("v-tests", "NEEDS_REVISION", "PASS", Said.NEEDS_REVISION),
        ("v-tests", "ERROR", "PASS", Said.ERROR),
        ("v-build", "DONE", "PASS", Said.DONE),
        ("v-build", "DONE", "FAIL", Said.ERROR),
        ("v-build", "NEEDS_REVISION", "PASS", Said.ERROR),
    ],
)
def test_a_verifiers_status_and_proof(name: str, status: str, proof: str, expected: Said) -> None:
    """FAIL beats DONE; for the build everything but DONE is an error."""
    assert verifier(name, Said.DONE, MemoryFile(status=status, severity=proof)).said is expected


# -- R


REVIEWS = [Review(said, grade) for said in Said for grade in Grade]


@pytest.mark.req("FT-90", "FT-91", "FT-92", "FT-93", "FT-96", "FT-97", "FT-98", "CM-17")
def test_the_reviewers_decide_over_every_combination() -> None:
    """Security first; then the quorum; then Major or worse, or an answer that asks for revision; else DONE."""
    for security, quality, testing in product(REVIEWS, repeat=3):
        found = r_cluster(security, quality, testing)
        usable = [one for one in (security, quality, testing) if one.said in (Said.DONE, Said.NEEDS_REVISION)]
        if security not in usable:
            assert found is Reviewed.SECURITY_UNKNOWN
        elif security.grade is Grade.BLOCKER:
            assert found is Reviewed.SECURITY_BLOCKER
        elif len(usable) < 2:
            assert found is Reviewed.TOO_FEW
        elif any(one.grade in ("Blocker", "Major") or one.said == "NEEDS_REVISION" for one in usable):
            assert found is Reviewed.NEEDS_REVISION
        else:
            assert found is Reviewed.DONE
        assert found.result in Result


@pytest.mark.req("FT-106")
@given(st.sampled_from(REVIEWS), st.sampled_from(REVIEWS), st.sampled_from(REVIEWS))
def test_nothing_passes_a_security_problem(security: Review, quality: Review, testing: Review) -> None:
    """Whatever the others say."""
    if security.grade is Grade.BLOCKER or not security.said.usable:
        assert r_cluster(security, quality, testing).result is Result.ERROR


@pytest.mark.req("FT-94")
def test_critical_is_a_blocker_in_the_wrong_words() -> None:
    """It counts as the worst, and the wrong word is noticed."""
    found = reviewer(Said.DONE, MemoryFile(status="DONE", severity="Critical"))
    assert (found.grade, found.foreign_word, found.malformed) == (Grade.BLOCKER, True, False)


def test_where_a_review_leads() -> None:
    """Total over results and counters; a reviewer that failed never leads to a replan; DONE is the only finish."""
    for reviewed, confirms, fixes, escalations in product(Reviewed, (0, 1), (0, 1), (0, 1)):
        found = after_review(reviewed, confirms, fixes, escalations)
        assert (found is AfterReview.FINISH) == (reviewed is Reviewed.DONE)
        match reviewed:
            case Reviewed.SECURITY_BLOCKER:
                order = [(confirms, AfterReview.CONFIRM), (escalations, AfterReview.ESCALATE)]
            case Reviewed.NEEDS_REVISION:
                order = [(fixes, AfterReview.FIX), (escalations, AfterReview.ESCALATE)]
            case Reviewed.DONE:
                continue
            case _:
                order = []
        assert found is next((move for left, move in order if left), AfterReview.GIVE_UP)


@pytest.mark.req("EV-07", "EV-04")
def test_what_the_engine_knows_against_the_work_is_never_passed() -> None:
    """Over all combinations of verdicts: with it nothing passes, and what was no pass before is what it was."""
    for statuses in product(Said, repeat=4):
        for strict in (False, True):
            alone, against = v_cluster(*statuses, strict), v_cluster(*statuses, strict, ["task T1 failed: x"])
            assert not against.passed
            assert against is (Verified.NEEDS_REVISION if alone.passed else alone)


@pytest.mark.req("EV-07", "FT-150")
@pytest.mark.parametrize("reviewed", Reviewed)
@pytest.mark.parametrize(("against", "flaws"), [([], []), ([], ["x"]), (["y"], []), (["y"], ["x"])])
def test_the_end_is_done_only_when_nothing_speaks_against_it(
    reviewed: Reviewed, against: list[str], flaws: list[str]
) -> None:
    """Every row."""
    found = conclusion(reviewed, against, flaws)
    assert (found is Concluded.ERROR) == (reviewed is not Reviewed.DONE or bool(against))
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
    ],
)
def test_slugs_are_made_of_whole_words(request_text: str, slug: str) -> None:
    """Lower case, joined by a dash."""
    assert slug_of(request_text) == slug


@pytest.mark.parametrize("slug", ["../x", "a/b", "A", "a--b", "-a", "", "a" * 41, "a b"])
def test_bad_slugs_are_known(slug: str) -> None:
    """Nothing that could leave the folder of features, or be ambiguous."""
    assert not valid_slug(slug)


def test_symmetry_of_the_critics() -> None:
    """Who says it does not matter."""
    one = [Critic(True, severity) for severity in Severity] + [Critic(False, Severity.CRITICAL)]
    for four in combinations_with_replacement(one, 4):
        assert ct_cluster(four) is ct_cluster(tuple(reversed(four)))
