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
        *((name, True) for name in ("vite.config.ts", ".npmrc", "web/.nycrc.json", "karma.conf.js", "rules/common.mk")),
        *((name, True) for name in (".env", ".env.test", ".mvn/maven.config", ".cargo/config.toml", ".gitlab-ci.yml")),
        *((name, True) for name in (".circleci/config.yml", "pytest.py", "unittest/__init__.py", ".pytest.ini")),
        *((name, False) for name in ("src/pytest.py", "config.toml", ".env.example", "Makefile.txt")),
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
        (difference("tests/test_a.py", "-class TestA:", "+class A:"), ("removes 1 test from tests/test_a.py",)),
        (difference("src/lib.rs", "-    #[test]", "-    fn a() {}"), ("removes 1 test from src/lib.rs",)),
        (difference("tests/test_a.py", "-    assert a == 1"), ("removes 1 assertion from tests/test_a.py",)),
        (difference("tests/a.test.ts", "-  expect(a)", "-  expect(b)"), ("removes 2 assertions from tests/a.test.ts",)),
        (difference("tests/test_a.py", "-    assert a == 1", "+    assert a == 2"), ()),
        (
            difference("tests/__snapshots__/a.snap", "-x", "+y"),
            ("changes what tests compare with: tests/__snapshots__/a.snap",),
        ),
        (difference("tests/__snapshots__/a.snap", "+y"), ()),
        (
            difference("tests/a.sh", head="old mode 100755\nnew mode 100644"),
            ("makes tests/a.sh a file that cannot be run",),
        ),
        (difference("tests/a.sh", head="old mode 100644\nnew mode 100755"), ()),
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
    assert weakened(f"{gone}\n{difference('docs/test_a.py', '+def test_it():', head=NEW)}") == (
        "moves tests/test_a.py to docs/test_a.py",
    )
    assert weakened(f"{gone}\n{difference('tests/unit/test_a.py', '+x = 1', head=NEW)}") == (
        "removes 1 test from tests/test_a.py, which is tests/unit/test_a.py now",
    )
    linked = difference("tests/test_a.py", "+nowhere", head="new file mode 120000")
    assert weakened(f"{gone}\n{linked}") == ("removes 1 test from tests/test_a.py",)


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("path", "line", "said"),
    [
        ("tests/test_a.py", "assert True", "adds an assertion that always holds to"),
        ("tests/test_a.py", "assert a == 1 or True", "adds an assertion that always holds to"),
        ("tests/test_a.py", "self.assertTrue(True)", "adds an assertion that always holds to"),
        ("tests/a.test.js", "expect(true).toBe(true)", "adds an assertion that always holds to"),
        ("tests/a.rs", "assert!(true);", "adds an assertion that always holds to"),
        ("tests/test_a.py", "os._exit(0)", "ends the tests early, and well, in"),
        ("tests/a.test.js", "process.exit(0)", "ends the tests early, and well, in"),
        ("src/a.py", "if 'pytest' in sys.modules: return 3", "lets the product see that it is being tested, in"),
        ("src/a.js", "if (process.env.NODE_ENV === 'test') {", "lets the product see that it is being tested, in"),
        ("a_test.go", "//go:build never", "switches a check off in"),
        ("Cargo.toml", "test = false", "switches a check off in"),
        ("tests/test_a.py", "__test__ = False", "switches a check off in"),
        ("tests/test_a.py", "raise unittest.SkipTest", "switches a check off in"),
    ],
)
def test_a_line_that_takes_a_test_its_force_is_quoted(path: str, line: str, said: str) -> None:
    """In the files where it does; not where it stood before."""
    assert weakened(difference(path, f"+{line}")) == (f"{said} {path}: {line}",)
    assert weakened(difference(path, f"-{line}", f"+  {line}")) == ()


def test_elsewhere_such_a_line_is_nobodys_concern() -> None:
    """A program may end, a setting may be called test, and a test may know that it is one."""
    for path, line in (("src/a.py", "sys.exit(0)"), ("conf.toml", "test = false"), ("src/a.py", "assert True")):
        assert weakened(difference(path, f"+{line}")) == ()
    assert weakened(difference("tests/test_a.py", '+"pytest" in sys.modules')) == ()


def test_many_lines_of_a_kind_are_counted() -> None:
    """Three are quoted, so that they do not drown what stands behind them."""
    told = weakened(difference("tests/test_a.py", *(f"+@pytest.mark.skip  # {n}" for n in range(9))))
    assert len(told) == 4 and told[-1] == "switches a check off in tests/test_a.py: and 6 more"


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


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("path", "lines", "said"),
    [
        ("tests/test_a.py", ["-    assert a == 1", "+    assert a is not None"], "makes 1 assertion weaker"),
        ("a.test.js", ["-  expect(a).toBe(3)", "+  expect(a).toBeDefined()"], "makes 1 assertion weaker"),
        ("a.test.js", ["-  expect(a).toBe(3)", "+  expect(a)"], "makes 1 assertion weaker"),
        ("src/test/ATest.java", ["-  assertEquals(3, a);", "+  assertNotNull(a);"], "makes 1 assertion weaker"),
        ("a.test.js", ["-  expect.assertions(2)"], "removes 1 assertion"),
        ("tests/test_a.py", ["+    except AssertionError:"], "catches assertions that fail"),
        ("tests/test_a.py", ["+    except:"], "catches assertions that fail"),
        ("tests/test_a.py", ["+    with suppress(AssertionError):"], "catches assertions that fail"),
        ("a.test.js", ["+  } catch (e) {}"], "catches assertions that fail"),
        ("src/test/ATest.java", ["+  } catch (Throwable ignored) {"], "catches assertions that fail"),
        *(
            (path, [f"+{line}"], "switches a check off")
            for path, line in (
                ("tests/test_a.py", "    if False:"),
                ("tests/test_a.py", '@pytest.mark.parametrize("x", [])'),
                ("tests/test_a.py", "del test_add"),
                ("a.test.ts", "it.skipIf(true)('x', f)"),
                ("a.test.ts", "test.runIf(false)('x', f)"),
                ("a.test.ts", "test.concurrent.skip('x', f)"),
                ("a.test.ts", "test('x', {skip: true}, f)"),
                ("a.test.ts", "test.each([])('x', f)"),
                ("a_test.go", "\tif testing.Short() {"),
                ("a_test.go", "func TestMain(m *testing.M) {}"),
                ("src/lib.rs", "    #[should_panic]"),
                ("src/lib.rs", "    #[cfg_attr(all(), ignore)]"),
                ("src/lib.rs", "#![allow(warnings)]"),
                ("src/test/ATest.java", '  @EnabledIfEnvironmentVariable(named="X", matches="y")'),
                ("src/test/ATest.java", "  @DisabledOnOs(LINUX)"),
                ("src/test/ATest.java", "  @Test(enabled = false)"),
                ("src/test/ATest.java", "  @Test(expected = Exception.class)"),
            )
        ),
        ("src/lib.rs", ["+    if cfg!(test) { return 3; }"], "lets the product see"),
        ("src/lib.rs", ["+#[cfg(not(test))]"], "lets the product see"),
        ("usercustomize.py", ["+import sys"], "changes usercustomize.py, which says how"),
    ],
)
def test_more_ways_to_weaken_tests(path: str, lines: list[str], said: str) -> None:
    """Assertions that say less, are caught or never reached, in Python, JavaScript, Go, Rust and Java."""
    told = weakened(difference(path, *lines))
    assert len(told) == 1
    assert said in told[0]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        *(
            ("tests/test_a.py", line)
            for line in ("    except ValueError:", "    if failed:", "    with suppress(OSError):")
        ),
        *(("tests/test_a.py", line) for line in ('@pytest.mark.parametrize("x", [1])', "    assert a is not None")),
        *(
            ("a.test.ts", line)
            for line in ("  } catch (e) { throw e }", "test.each([1])('x', f)", "test('skip it', f)")
        ),
        *(("a_test.go", line) for line in ("func TestMain(m *testing.M) { os.Exit(m.Run()) }", "\tif short {")),
        *(("src/lib.rs", line) for line in ("#[cfg(test)]", "#[allow(dead_code)]", "fn ignore() {}")),
        *(("src/test/ATest.java", line) for line in ("  @Test", "  } catch (IOException e) {", "  @Tag")),
    ],
)
def test_new_lines_that_weaken_nothing(path: str, line: str) -> None:
    """What looks alike and is what everybody writes."""
    assert weakened(difference(path, f"+{line}")) == ()


def test_an_assertion_that_compares_with_something_else_is_the_judges_matter() -> None:
    """Whether the expected value was wrong nobody can tell from the difference."""
    assert weakened(difference("tests/test_a.py", "-    assert a == 1", "+    assert a == 2")) == ()


@pytest.mark.req("EV-04")
def test_a_test_whose_lines_cannot_be_compared_is_told() -> None:
    """One NUL in it, and git shows no line of what was removed; what a test records may well be a picture."""
    binary = "diff --git a/{0} b/{0}\n{1}index 1..2\nGIT binary patch\nliteral 0\n\n"
    said = "changes tests/login.test.js, a binary file for git, so that its lines cannot be compared"
    assert weakened(binary.format("tests/login.test.js", "")) == (said,)
    assert weakened(binary.format("tests/login.test.js", f"{NEW}\n")) == ()
    assert weakened(binary.format("tests/__snapshots__/page.png", "")) == ()
    assert weakened(binary.format("logo.png", "")) == ()


def test_a_file_with_an_odd_name_is_known_by_it() -> None:
    """Git puts such a name in quotes; what is said of the file after it is told of itself alone."""
    head = f'diff --git "a/tests/test_a\\nb.py" "b/tests/test_a\\nb.py"\n{GONE}\n'
    assert weakened(head + difference("src/app.py", "+x = 1")) == ("deletes tests/test_a\nb.py",)


@pytest.mark.req("EV-04")
def test_numbers_and_modes_are_as_they_are() -> None:
    """More than one is many, three of a kind are quoted whole; only a file that could be run is told to be none."""
    two = difference("tests/test_a.py", *["-    assert a == 1", "+    assert a is not None"] * 2)
    assert weakened(two) == ("makes 2 assertions weaker in tests/test_a.py",)
    three = difference("tests/test_a.py", *(f"+@pytest.mark.skip  # {number}" for number in range(3)))
    assert len(weakened(three)) == 3
    for before, after in (("100644", "100644"), ("100644", "100600"), ("100755", "100711"), ("100755", "100601")):
        assert weakened(difference("tests/a.sh", head=f"old mode {before}\nnew mode {after}")) == ()
    for before in ("100711", "100601"):
        assert len(weakened(difference("tests/a.sh", head=f"old mode {before}\nnew mode 100600"))) == 1
