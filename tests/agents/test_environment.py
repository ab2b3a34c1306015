"""What agents and commands find in their environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.environment import environment, without_our_own

TOP = Path("/place")


@pytest.mark.req("TREE-10")
def test_what_looks_like_a_key_comes_along_only_where_it_is_named() -> None:
    """By the client's row or by a person; what was left out is said."""
    base = {"ANTHROPIC_API_KEY": "a", "GH_TOKEN": "b", "NPM_TOKEN": "c", "SSH_AUTH_SOCK": "/s", "EDITOR": "vi"}
    found = environment(base, TOP, needed=("ANTHROPIC_API_KEY",), allowed=("NPM_TOKEN",))
    kept = {name: value for name, value in found.variables.items() if name != "PATH"}
    assert kept == {"ANTHROPIC_API_KEY": "a", "NPM_TOKEN": "c", "EDITOR": "vi"}
    assert found.left_out == ("GH_TOKEN", "SSH_AUTH_SOCK")


def test_nothing_of_an_outer_run_or_a_git_hook_comes_along() -> None:
    """The variables of another run, and those that tie git to another repository; identities stay."""
    base = {
        "INTERLOCK_RUN_ID": "outer",
        "GIT_DIR": "/elsewhere/.git",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "GIT_CONFIG_PARAMETERS": "'x=y'",
        "GIT_AUTHOR_NAME": "A",
        "HOME": "/home/me",
    }
    assert environment(base, TOP).variables.keys() == {"GIT_AUTHOR_NAME", "HOME", "PATH"}


def test_programs_of_the_project_are_found_first() -> None:
    """Those of every folder on the way from the place to the top, the nearest first."""
    found = environment({"PATH": "/bin"}, TOP, "a/b")
    places = [f"{folder}/{name}" for folder in ("/place/a/b", "/place/a", "/place") for name in BINS]
    assert found.variables["PATH"].split(":") == [*places, "/bin"]
    assert environment({"PATH": "/bin"}, TOP).variables["PATH"] == "/place/.venv/bin:/place/node_modules/.bin:/bin"


BINS = (".venv/bin", "node_modules/.bin")


def test_our_own_virtual_environment_is_taken_out(tmp_path: Path) -> None:
    """Its programs are not found first, and nothing says that it is active; everything else stays in its order."""
    own = tmp_path / "tool"
    (own / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(own)
    environ = {"PATH": f"/usr/bin:{own}/bin:/bin:{tmp_path}/link/bin/", "VIRTUAL_ENV": str(own), "HOME": "/h"}
    left = without_our_own(environ, tmp_path / "work", prefix=str(own))
    assert left == {"PATH": "/usr/bin:/bin", "HOME": "/h"}
    users = {"PATH": "/venv/bin:/bin", "VIRTUAL_ENV": "/venv"}
    assert without_our_own(users, tmp_path / "work", prefix=str(own)) == users
    # One inside the workspace is the person's: interlock is then a dependency of the project.
    assert without_our_own(environ, tmp_path, prefix=str(own)) == environ
