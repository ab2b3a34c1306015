"""What is product and what says how it is checked: one list, and what a check names."""

from __future__ import annotations

import pytest

from interlock.engine.product import is_product, names, products

pytestmark = pytest.mark.req("EVID-07")
PRODUCT = """
src/lib.py app.config.ts src/features/list.tsx cmd/main.go src/contest.py src/latest.py src/AUDIT.py src/protest/a.rs
web/index.html db/schema.sql a.c INCLUDE/A.H bin/deploy.sh src/main/java/A.java lib/attest/b.rb
"""
NO_PRODUCT = """
tests/test_lib.py test/x.py src/tests/helper.py lib/__tests__/a.js test_lib.py lib_test.go a.test.ts b.spec.js c.cy.ts
conftest.py src/conftest.py noxfile.py setup.py FooTest.java FooIT.kt TestFoo.java AuthSpec.scala x_spec.rb
jest.config.js vitest.setup.mts build.gradle.kts spec/x.rb testdata/a.go fixtures/a.py e2e/login.ts
Makefile package.json pyproject.toml tox.ini README.md data.json a.snap .github/workflows/ci.yml Dockerfile
"""


def test_names_and_folders_tell() -> None:
    """A source suffix, no test folder, no test name; nothing else is asked."""
    assert [path for path in PRODUCT.split() if not is_product(path)] == []
    assert [path for path in NO_PRODUCT.split() if is_product(path)] == []


FILES = {
    "Makefile": """\
PY = python3
.PHONY: test
all: build
build:
\tgcc -o x src/a.c
run:
\tpython app.py
test: unit \\
  lint
\t@echo done
unit:
\t$(PY) ./tools/verify.py --all && ./ci/more
lint:
\tsh ci/lint.sh
""",
    "ci/more": "#!/bin/sh\npython other/z.py\n./ci/deeper\n",
    "ci/deeper": "python too_deep.py\n",
    "ci/lint.sh": "node tools/lint.js\n",
    "web/package.json": """\
{
  "main": "index.js",
  "scripts": {"start": "node server.js",
    "test": "npm run check && jest",
    "check": "node scripts/check.mjs"},
  "jest": {"setupFiles": ["./support/boot.js"]}
}
""",
    "tox.ini": "[testenv]\ncommands = python -m tools.gate {posargs}\n",
    "check": "python src/app.py | diff - expected\n",
}
CASES = {
    "make test": (".", "tools/verify.py other/z.py ci/lint.sh tools/lint.js"),
    "make": (".", ""),
    "make build": (".", "src/a.c"),
    "make -C .. unit": ("web", "tools/verify.py other/z.py"),
    "npm test": ("web", "scripts/check.mjs support/boot.js"),
    "cd web && npm run check": (".", "scripts/check.mjs"),
    "tox": (".", "tools/gate.py tools/gate/__main__.py"),
    "./check": (".", "src/app.py"),
    "bash check": (".", "src/app.py"),
    "sh ci/lint.sh": (".", "ci/lint.sh tools/lint.js"),
    "ci/more; ./nowhere": (".", "other/z.py too_deep.py"),
    "python3 tools/verify.py": (".", "tools/verify.py"),
    "cd ../.. && ./check": ("web/deep", "src/app.py"),
    "python -m tools.verify": (".", "tools/verify.py tools/verify/__main__.py"),
    "pytest -q tests": (".", ""),
    "cat /etc/passwd ../../x": (".", ""),
}


@pytest.mark.parametrize(("command", "cwd", "named"), [(command, *case) for command, case in CASES.items()])
def test_what_a_command_names(command: str, cwd: str, named: str) -> None:
    """Itself, and two levels deep by files without source suffix; of a makefile only what it is asked for."""
    assert names(command, cwd, FILES.get) == set(named.split())


def test_a_named_file_is_no_product_wherever_it_lies() -> None:
    """By its path or the end of it."""
    paths = ["tools/verify.py", "sub/tools/verify.py", "verify.py", "src/lib.py", "xtools/verify.py"]
    assert products(paths, "make test", ".", FILES.get) == {"verify.py", "src/lib.py", "xtools/verify.py"}


def test_files_that_name_each_other_without_end_are_read_once() -> None:
    """A makefile of targets that need one another, a script that names itself."""
    files = {
        "Makefile": "".join(f"t{n}: t{n + 1}\n" for n in range(200)) + "t200: t0\n\tpython a.py\n",
        "me": "./me ./me",
    }
    assert names("make t0", ".", files.get) == {"a.py"}
    assert names("./me", ".", files.get) == set()
