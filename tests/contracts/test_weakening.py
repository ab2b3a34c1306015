"""What a difference does to tests and checks is told from the difference alone."""

from __future__ import annotations

import pytest

from interlock.contracts import is_definition, weakened


def difference(path: str, *lines: str) -> str:
    return "\n".join([f"diff --git a/{path} b/{path}", f"--- a/{path}", f"+++ b/{path}", "@@ -1 +1 @@", *lines])


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
    ],
)
def test_other_rules_are_nobodys_concern(lines: tuple[str, ...]) -> None:
    """Caches and products, remarks, exceptions, rules that moved or went."""
    assert weakened(difference(".gitignore", *lines)) == ()
    assert weakened(difference("docs/ignored.txt", "+tests/")) == ()
