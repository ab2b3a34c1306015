"""Pairs by test: what reports tell, and what became of each test between two runs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import junit
from interlock.engine.junit import FAILED, PASSED, SKIPPED, WHOLE, Pairs, Tests, asking, compare, is_report, word

pytestmark = pytest.mark.req("EVID-13")
P, F, S = PASSED, FAILED, SKIPPED
SUITE = """\
import pytest
class TestSum:
    @pytest.mark.parametrize("n", [1, 2])
    def test_one(self, n): assert n < 2
def test_green(): pass
def test_skipped(): pytest.skip("no")
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken():
    yield
    raise ValueError
def test_teardown(broken): pass
"""


def _pytest(folder: Path, reports: Path) -> tuple[str, dict[str, str]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TOX"))}
    env["PYTEST_ADDOPTS"] = asking({"PYTEST_ADDOPTS": "-v"}, str(reports))["PYTEST_ADDOPTS"]
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    argv = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=False)
    told = [place.read_bytes() for place in reports.iterdir() if is_report(place.name)]
    return done.stdout.decode(), junit.tests_of(done.returncode, done.stdout.decode(), told)


def test_pytest_tells_its_tests_when_its_environment_asks(tmp_path: Path) -> None:
    """In a folder with a space; the person's own options stay in force, and the exit status is what it was.  A file
    that cannot be loaded is one red test, that any green one in it mends: nothing else is run, nor told as gone."""
    tests, reports = tmp_path / "work/tests", tmp_path / "my reports"
    tests.mkdir(parents=True)
    reports.mkdir()
    (tests / "__init__.py").write_text("")
    (tests / "test_suite.py").write_text(SUITE)
    (tests / "test_lib.py").write_text("from lib import add\ndef test_add(): assert add(1, 2) == 3\n")
    _, before = _pytest(tests.parent, reports)
    assert before == {"tests.test_lib": F}
    (tests / "conftest.py").write_text("import sys; sys.path.insert(0, '.')\n")
    (tests.parent / "lib.py").write_text("def add(a, b): return a + b\n")
    out, after = _pytest(tests.parent, reports)
    assert "tests/test_suite.py::test_green PASSED" in out
    red = ("tests.test_suite.TestSum::test_one[2]", "tests.test_suite::test_teardown")
    assert after == {
        "tests.test_lib::test_add": P,
        "tests.test_suite.TestSum::test_one[1]": P,
        "tests.test_suite::test_green": P,
        "tests.test_suite::test_skipped": S,
        "tests.test_suite::test_expected": S,
        **dict.fromkeys(red, F),
    }
    assert compare(before, after) == Pairs(mended=("tests.test_lib",), still_red=red)
    assert compare(after, before) == Pairs(broken=("tests.test_lib",), still_red=red)


def test_what_the_person_asks_for_stays_in_front() -> None:
    """Nothing of theirs is replaced; overrides of tox are divided as theirs are."""
    own = {"PYTEST_ADDOPTS": "-q -x", "GOFLAGS": "-mod=mod", "TOX_OVERRIDE": "testenv.a=1,testenv.b=2"}
    asked = asking(own, "/x")
    assert asked["PYTEST_ADDOPTS"] == "-q -x --junitxml=/x/TEST-pytest-$TOX_ENV_NAME.xml"
    assert asked["GOFLAGS"] == "-mod=mod -v"
    assert asked["TOX_OVERRIDE"] == "testenv.a=1,testenv.b=2,testenv.pass_env+=PYTEST_ADDOPTS"
    assert asking({"TOX_OVERRIDE": "a=1\nb=2"}, "/x")["TOX_OVERRIDE"] == "a=1\nb=2\ntestenv.pass_env+=PYTEST_ADDOPTS"


def test_reports_are_known_by_name_or_by_the_settings_patterns() -> None:
    assert is_report("target/surefire-reports/TEST-a.b.C.xml")
    assert not is_report("out/junit.xml")
    assert is_report("out/junit.xml", ("out/*.xml",))


SUREFIRE = b"""<?xml version="1.0"?><testsuites><testsuite name="a.B">
<testcase classname="a.B" name="green"/><testcase classname="a.B" name="red"><failure>x</failure></testcase>
<testcase classname="a.B" name="error"><error/><system-out>&lt;failure/&gt;</system-out></testcase>
<testcase classname="a.B" name="off"><skipped/></testcase><testcase name="bare"/><error/></testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (SUREFIRE, {"a.B::green": P, "a.B::red": F, "a.B::error": F, "a.B::off": S, "bare": P}),
        (SUREFIRE[:-40], {WHOLE: F}),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><testcase name="x"><failure/></testcase>', {WHOLE: F}),
        (b'<?xml version="1.0" encoding="nope"?><testcase name="x"/>', {WHOLE: F}),
        (b"", {WHOLE: F}),
        (b"no report", {WHOLE: F}),
    ],
)
def test_reports_are_read_or_left_aside(raw: bytes, found: Tests) -> None:
    """One that is cut off, or defines entities, tells nothing; then the exit status is all there is."""
    assert junit.tests_of(1, "", [raw]) == found


def test_a_report_says_nothing_against_the_exit_status() -> None:
    """Green with a red test inside (one that runs pytest itself): green. Red without one: the command itself is red.
    Of a test that is told twice (two environments of tox) the red one counts."""
    both = [b'<t><testcase name="a"/></t>', b'<t><testcase name="a"><failure/></testcase></t>']
    assert junit.tests_of(1, "", both) == junit.tests_of(1, "", both[::-1]) == {"a": F}
    red = b'<t><testcase name="a"><failure/></testcase><testcase name="b"/></t>'
    assert junit.tests_of(0, "", [red]) == {"b": P, WHOLE: P}
    assert junit.tests_of(2, "", [b'<t><testcase name="b"/></t>']) == {"b": P, WHOLE: F}
    assert junit.tests_of(None, "", []) == {WHOLE: F}


GO = """\
=== RUN   TestAdd
=== RUN   TestAdd/one
some output --- FAIL: TestNo (0.00s)
--- PASS: TestAdd (0.00s)
    --- PASS: TestAdd/one (0.00s)
=== RUN   TestHidden
printed without end--- PASS: TestHidden (0.00s)
PASS
ok  \texample.com/a\t0.002s\tcoverage: 3%
=== RUN   TestSub
--- FAIL: TestSub (0.01s)
=== RUN   TestOff
--- SKIP: TestOff (0.00s)
=== RUN   TestPanics
panic: oh
FAIL\texample.com/b\t0.003s
FAIL\texample.com/c [build failed]
?   \texample.com/d\t[no test files]
ok  \texample.com/e\t(cached)
FAIL
"""


def test_go_tells_its_tests_by_package() -> None:
    """One whose end is hidden or that broke down is as its package; a package that was not built is one red test."""
    assert junit.tests_of(1, GO, []) == {
        "example.com/a::TestAdd": P,
        "example.com/a::TestAdd/one": P,
        "example.com/a::TestHidden": P,
        "example.com/b::TestSub": F,
        "example.com/b::TestOff": S,
        "example.com/b::TestPanics": F,
        "example.com/c": F,
    }


def test_a_long_output_is_read_in_time() -> None:
    """Linear in its size, whatever it holds."""
    assert junit.tests_of(0, " \t" * 500_000 + "ok " * 200_000 + "\n--- PASS: " * 50_000, []) == {WHOLE: P}


def _tests(told: str) -> Tests:
    """`a=F *=P`: the test `m::a` red, the command green."""
    states = dict(one.split("=") for one in told.split())
    words = {"P": P, "F": F, "S": S}
    names = {name: WHOLE if name == "*" else name if len(name) > 1 else f"m::{name}" for name in states}
    return {names[name]: words[state] for name, state in states.items()}


PAIRS: dict[str, tuple[str, str, str, str]] = {
    "nothing": ("*=P", "*=P", "", "held"),
    "a command": ("*=F", "*=P", "mended *", "mended"),
    "a command, broken": ("*=P", "*=F", "broken *", "broken"),
    "a command, still red": ("*=F", "*=F", "still_red *", "still red"),
    "mended": ("a=F b=P", "a=P b=P *=P", "mended a", "mended"),
    "broken": ("a=P *=P", "a=F", "broken a", "broken"),
    "still red": ("a=F", "a=F", "still_red a", "still red"),
    "one mended, one broken": ("a=F b=P", "a=P b=F", "mended a; broken b", "broken"),
    "red, then gone": ("a=F b=P", "b=P *=P", "still_red a", "still red"),
    "red, then skipped": ("a=F", "a=S *=P", "still_red a", "still red"),
    "red, no report any more": ("a=F", "*=P", "still_red a", "still red"),
    "green, then gone": ("a=P *=P", "*=P", "lost a", "held"),
    "green, then skipped": ("a=P *=P", "a=S *=P", "lost a", "held"),
    "moved, green": ("a=P *=P", "n.K::a[1]=P *=P", "", "held"),
    "moved, mended": ("m::a[0]=F", "n::a=P *=P", "", "mended"),
    "not moved: it stood there before": ("a=F n::a=P", "n::a=P *=P", "still_red a", "still red"),
    "not moved: red elsewhere": ("a=F", "n::a=P o::a=F", "still_red a; broken o::a", "broken"),
    "a parameter less": ("m::a[0]=F m::a[1]=P", "m::a[1]=P *=P", "still_red m::a[0]", "still red"),
    "a new red test": ("a=P *=P", "a=P b=F", "broken b", "broken"),
    "a file loads, one of it red": ("mm=F", "mm::a=P mm::b=F", "mended mm; still_red mm::b", "still red"),
    "a package is built": ("p/q=F", "p/q::TestA=P *=P", "mended p/q", "mended"),
    "all break down": ("a=P b=F", "*=F", "still_red * b", "still red"),
    "a threshold beside green tests": ("a=P *=P", "a=P *=F", "broken *", "broken"),
    "tests mended, the command red beside them": ("a=F", "a=P *=F", "mended a; still_red *", "still red"),
    "no report before": ("*=F", "a=P *=P", "mended *", "mended"),
    "no report before, red": ("*=F", "a=F", "still_red a", "still red"),
}


@pytest.mark.req("EVID-06")
@pytest.mark.parametrize(("before", "after", "pairs", "said"), PAIRS.values(), ids=PAIRS)
def test_what_became_of_each_test(before: str, after: str, pairs: str, said: str) -> None:
    """And the one word for the pair."""
    found = compare(_tests(before), _tests(after))
    wanted = dict(one.strip().split(" ", 1) for one in pairs.split(";") if one)
    assert {name: {*tests} for name, tests in found._asdict().items() if tests} == {
        name: {*_tests(" ".join(f"{test}=P" for test in tests.split()))} for name, tests in wanted.items()
    }
    assert word(_tests(before), _tests(after))[0] == said


@pytest.mark.req("EVID-06")
def test_what_was_red_before_may_stay_red_where_a_person_said_so() -> None:
    """Test by test; what is red besides counts."""
    before = {"m::a": F, "m::b": F, "m::c": P}
    known = {test for test, state in before.items() if state == F}
    assert word(before, before, known) == ("known", ("m::a", "m::b"))
    assert word(before, {**before, "m::a": P}, known) == ("known", ("m::b",))
    assert word(before, {**before, "m::a": P, "m::b": P}, known) == ("held", ())
    assert word(before, {**before, "m::a": P}, {"m::b"}) == ("known", ("m::b",))
    assert word(before, {**before, "m::c": F}, known) == ("broken", ("m::c",))
    assert word({WHOLE: F}, {WHOLE: F}, {WHOLE}) == ("known", (WHOLE,))


NAMES = st.sampled_from(["m::a", "m::b", "n::a", "m", WHOLE])
RUNS = st.dictionaries(NAMES, st.sampled_from([P, F, S]))


@given(RUNS, RUNS)
def test_every_pair_has_one_place_and_red_is_never_held(before: Tests, after: Tests) -> None:
    """Total: a test stands in one list at most; what ends red is broken or still red; nothing changed is held."""
    found = list(itertools.chain.from_iterable(compare(before, after)))
    assert len(found) == len(set(found))
    said, _ = word(before, after)
    if F in after.values():
        assert said in ("broken", "still red")
    if said == "mended":
        assert F in before.values()
    assert word(before, before)[0] == ("still red" if F in before.values() else "held")
