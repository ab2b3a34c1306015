"""What a difference does to tests and checks is told from the difference alone."""

from __future__ import annotations

import pytest

from interlock.contracts import is_definition, weakened


def difference(path: str, *lines: str, head: str = "index 1..2") -> str:
    parts = [f"diff --git a/{path} b/{path}", head, f"--- a/{path}", f"+++ b/{path}", "@@ -1 +1 @@", *lines]
    return "\n".join(parts)


GONE, NEW = "deleted file mode 100644", "new file mode 100644"


@pytest.mark.parametrize(
    ("path", "defines"),
    [
        ("Makefile", True),
        ("web/package.json", True),
        ("tests/conftest.py", True),
        ("vitest.config.mts", True),
        (".eslintrc", True),
        (".eslintrc.json", True),
        ("tsconfig.build.json", True),
        ("src/make.py", False),
        ("Makefile.md", False),
        ("docs/package.json.txt", False),
    ],
)
def test_which_files_say_how_tests_are_run(path: str, defines: bool) -> None:
    """By their names, in any folder."""
    assert is_definition(path) is defines


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    "rule",
    [
        *("conftest.py", "/Makefile", "*.ini", "*", "**", "*.py", "tests/", "/tests", "tests/**", "src/tests/*"),
        *("test_*.py", "**/conftest.py", "jest.config.js", "jest.config.*", "*.test.js", "web/package.json"),
    ],
)
def test_a_rule_that_hides_tests_or_definitions_is_told(rule: str) -> None:
    """Git would ignore what comes there later, and nobody compares what it ignores."""
    said = f"hides tests, or what says how they are run, by a rule in web/.gitignore: {rule}"
    assert weakened(difference("web/.gitignore", f"+{rule}")) == (said,)
    assert weakened(difference("web/.gitignore", f"-!{rule}"))[0].endswith(f": !{rule} (no more)")


@pytest.mark.parametrize(
    "lines",
    [
        *(("+node_modules/",), ("+dist/**",), ("+__pycache__/", "+*.pyc"), ("+.venv", "+.env", "+*.log")),
        *(("+# tests/",), ("+!tests/",), ("-tests/", "+tests/"), ("-tests/",), ("+",), ("+test-results/",)),
        *(("+#/tests/",), ("+!/tests/",), ("-xtests/",)),
    ],
)
def test_other_rules_are_nobodys_concern(lines: tuple[str, ...]) -> None:
    """Caches and products, remarks, exceptions, rules that moved or went."""
    assert weakened(difference(".gitignore", *lines)) == ()
    assert weakened(difference("docs/ignored.txt", "+tests/")) == ()


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("", ()),
        ("no difference at all", ()),
        (difference("src/a.py", "-def test_it():", "+x = 1"), ()),
        (difference("tests/test_a.py", "-def test_it():", head=GONE), ("deletes tests/test_a.py",)),
        (difference("tests/test_a.py", "+def test_it():", head=NEW), ()),
        (difference("tests/test_a.py", "-def test_it():", "+x = 1"), ("removes 1 test from tests/test_a.py",)),
        (difference("tests/a.test.ts", "-it('a', f)", "-test('b', f)"), ("removes 2 tests from tests/a.test.ts",)),
        (difference("tests/test_a.py", "-def test_a():", "+def test_b():", "+def test_c():"), ()),
        (difference("tests/test_a.py", " def test_a():", "-x = 1"), ()),
        (difference("Makefile", "+x"), ("changes Makefile, which says how tests and checks are run",)),
        (difference("a/tox.ini", head=GONE), ("deletes a/tox.ini, which says how tests and checks are run",)),
        (difference("pytest.ini", head=NEW), ("adds pytest.ini, which says how tests and checks are run",)),
        (difference("src/a.c", head=GONE), ()),
    ],
)
def test_what_is_told_of_tests_and_definitions(patch: str, told: tuple[str, ...]) -> None:
    """Tests that go, one or many, and every change of what says how they are run."""
    assert weakened(patch) == told


@pytest.mark.req("EV-04")
def test_tests_that_move_are_not_deleted() -> None:
    """The file is there again, elsewhere; each file of a difference is told by itself."""
    gone = difference("tests/test_a.py", "-def test_it():", head=GONE)
    other = difference("tests/test_b.py", "-def test_it():", head=GONE)
    new = difference("tests/unit/test_a.py", "+def test_it():", head=NEW)
    assert weakened(f"{gone}\n{new}") == ()
    assert weakened(f"{gone}\n{other}\n{new}") == ("deletes tests/test_b.py",)
    assert weakened(f"{gone}\n{difference('unit/test_a.py', '+x')}") == ("deletes tests/test_a.py",)


@pytest.mark.req("EV-04")
def test_a_check_that_is_switched_off_is_quoted() -> None:
    """Not the one that was off before, wherever it stands now, and not the name of a file."""
    said = "switches a check off in tests/test_a.py: @pytest.mark.skip"
    assert weakened(difference("tests/test_a.py", "+  @pytest.mark.skip")) == (said,)
    assert weakened(difference("tests/test_a.py", "-@pytest.mark.skip", "+  @pytest.mark.skip")) == ()
    assert weakened(difference("tests/test_a.py", " @pytest.mark.skip")) == ()
    (long,) = weakened(difference("src/a.ts", "+// eslint-disable " + "x" * 200))
    assert long == "switches a check off in src/a.ts: // eslint-disable " + "x" * 82
    assert weakened(difference("notes/fail_under 90 deselect.md", "+fail_under = 80")) == ()


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("fail_under = 90", "fail_under = 80.5", "fail_under = 90 -> fail_under = 80.5"),
        ("Fail_Under = 90", "fail_under  =  80", "Fail_Under = 90 -> fail_under = 80"),
        ("lines: 90", "lines: 95", None),
        ("lines: 90", "lines: 90.0", None),
        ("lines: 90", "branches: 80", None),
        ("lines: 90", "nothing", None),
        ("--max-warnings 5", "--max-warnings 9", "--max-warnings 5 -> --max-warnings 9"),
        ("--max-warnings 5", "--max-warnings 5.0", None),
        ("--max-warnings 5", "--max-warnings 2", None),
    ],
)
def test_a_threshold_that_is_lowered_is_told(before: str, after: str, told: str | None) -> None:
    """Of what must be reached, less; of what is let pass, more."""
    said = () if told is None else (f"lowers a threshold in a.yml: {told}",)
    assert weakened(difference("a.yml", f"-{before}", f"+{after}")) == said


def test_a_long_rule_is_told_shortly() -> None:
    rule = "tests/" + "a" * 200
    assert weakened(difference(".gitignore", f"+{rule}"))[0].endswith(f": {rule[:100]}")
    assert weakened(difference(".gitignore", f"-!{rule}"))[0].endswith(f": !{rule[:99]} (no more)")
