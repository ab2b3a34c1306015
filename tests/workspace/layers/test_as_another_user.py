"""The suite again as an ordinary user, where the tests run as root: much of what a kernel allows depends on that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOUSE = HERE.parents[2]
NOBODY = 65534
SUITE = ("test_layers.py", "test_confined.py", "test_escapes.py")
_LIMIT_S = 900


def _environment(home: Path) -> dict[str, str]:
    paths = [str(HOUSE / "src"), *(path for path in sys.path if "site-packages" in path)]
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    return {
        **kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"
    }  # fmt: skip


def _interpreter() -> str | None:
    """A Python of this version that the other user may start, and that finds what we have."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys, pytest, interlock, hypothesis; print(sys.version_info[:2])"
        try:
            done = subprocess.run(
                [program, "-c", check], user=NOBODY, group=NOBODY, extra_groups=[], env=_environment(Path("/")),
                capture_output=True, text=True, check=False, cwd="/",
            )  # fmt: skip
        except OSError:
            continue
        if done.stdout.strip() == str(sys.version_info[:2]):
            return program
    return None


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
@pytest.mark.req("TREE-10")
@pytest.mark.parametrize("file", SUITE)
def test_the_suite_passes_for_an_ordinary_user(file: str) -> None:
    """Both makers do the same for a user without rights, and every way out is held."""
    if (python := _interpreter()) is None:
        pytest.skip("no Python of this version can be started by another user")
    home = Path(tempfile.mkdtemp(prefix="il", dir="/tmp"))
    try:
        os.chown(home, NOBODY, NOBODY)
        words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / file)]
        words += ["--basetemp", str(home / "t"), "-c", str(HOUSE / "pyproject.toml")]
        done = subprocess.run(
            words, user=NOBODY, group=NOBODY, extra_groups=[], env=_environment(home), cwd=HOUSE,
            capture_output=True, text=True, check=False, timeout=_LIMIT_S,
        )  # fmt: skip
    finally:
        shutil.rmtree(home, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
