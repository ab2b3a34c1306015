"""The suite again as an ordinary user, where the tests run as root: much of what a kernel allows depends on that."""

from __future__ import annotations

import os
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


def _run(program: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A Python, as the other user."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    paths = ":".join([str(HOUSE / "src"), *(path for path in sys.path if "site-packages" in path)])
    ours = {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": {**kept, **ours}, "cwd": HOUSE}
    try:
        return subprocess.run([program, *words], **who, capture_output=True, text=True, check=False, timeout=_LIMIT_S)  # type: ignore[call-overload, no-any-return]
    except OSError as error:
        return subprocess.CompletedProcess([], 126, "", str(error))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
@pytest.mark.req("TREE-10")
@pytest.mark.parametrize("file", SUITE)
def test_the_suite_passes_for_an_ordinary_user(file: str) -> None:
    """Both makers do the same for a user without rights, and every way out is held."""
    check = f"import sys, pytest, interlock, hypothesis; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    programs = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    python = next((one for one in programs if _run(one, "-c", check, home=Path("/")).returncode == 0), None)
    if python is None:
        pytest.skip("no Python of this version can be started by another user")
    with tempfile.TemporaryDirectory(prefix="il", dir="/tmp", ignore_cleanup_errors=True) as home:
        os.chown(home, NOBODY, NOBODY)
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / file)]
        done = _run(python, *words, "--basetemp", f"{home}/t", "-c", str(HOUSE / "pyproject.toml"), home=Path(home))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
