"""Which coding agents a machine has: found, chosen, asked; with programs that stand in for them on PATH."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CLAUDE = """\
import json, os, sys
if "--version" in sys.argv:
    print("9.8.7 (Claude Code)"); sys.exit()
if sys.argv[1:3] == ["auth", "status"]:
    sys.exit(0 if os.environ.get("SIGNED") else 1)
question = sys.stdin.read()
assert "READY" in question and not os.listdir("."), question
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
if os.environ.get("SIGNED"):
    result = {"is_error": False, "result": "READY"}
else:
    result = {"is_error": True, "result": "Not logged in, please run /login"}
print(json.dumps({"type": "result", "subtype": "success", **result}))
"""
CODEX = """\
import sys
if "--version" in sys.argv:
    print("codex-cli 1.2.3"); sys.exit()
sys.exit(0 if sys.argv[1:] == ["login", "status"] else 3)
"""


@pytest.fixture
def on_path(tmp_path: Path) -> Callable[..., str]:
    """A PATH with these programs, and git."""

    def make(**programs: str) -> str:
        folder = tmp_path / "programs"
        folder.mkdir()
        for name, text in programs.items():
            (folder / name).write_text(f"#!{sys.executable}\n{text}")
            (folder / name).chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    return make


def unset(workspace: Any) -> None:
    (workspace.root / "interlock.toml").unlink()


def test_init_finds_the_agents_and_chooses_one_that_is_signed_in(workspace: Any, on_path: Callable[..., str]) -> None:
    """Claude Code is there but signed out, Codex is signed in: Codex is chosen, the other stands in a comment."""
    unset(workspace)
    answer = workspace("init", PATH=on_path(claude=CLAUDE, codex=CODEX))
    assert answer.stdout.decode().splitlines()[:2] == [
        "found    claude: Claude Code 9.8.7, not signed in",
        "found    codex: Codex 1.2.3, signed in",
    ]
    text = (workspace.root / "interlock.toml").read_text("utf-8")
    assert tomllib.loads(text) == {"runner": "codex"}
    assert "#   claude: Claude Code 9.8.7, not signed in" in text


def test_init_as_json_lists_them_too(workspace: Any, on_path: Callable[..., str]) -> None:
    """Version and sign-in of each."""
    unset(workspace)
    found = workspace("init", "--json", PATH=on_path(claude=CLAUDE), SIGNED="1").json
    assert found["agents"] == {"claude": {"version": "9.8.7", "signed_in": True}}


def test_init_copies_roles_for_editing_and_a_copy_counts_first(workspace: Any) -> None:
    """Every role of the playbook, where a team's own are looked for; without a playbook it is refused."""
    answer = workspace("init", "--playbook", "roadmap", "--roles", "--json")
    copies = [path for path in answer.json["written"] if path.startswith(".interlock/agents/roadmap/")]
    assert [Path(path).stem for path in copies] == ["Architect", "Implement", "Research", "Review", "Testing"]
    assert "roadmap/Review: .interlock/agents/roadmap/Review.md" in workspace("doctor", "--no-ask").stdout.decode()
    assert workspace("init", "--roles").code == 2


def test_doctor_asks_the_agent_that_runs_would_use(workspace: Any, on_path: Callable[..., str]) -> None:
    """Version, mode and the answer to one line; nothing is left in the workspace."""
    unset(workspace)
    before = workspace.digest()
    answer = workspace("doctor", PATH=on_path(claude=CLAUDE, codex=CODEX), SIGNED="1")
    said = answer.stdout.decode()
    assert answer.code == 0
    assert "claude (default): version 9.8.7" in said
    assert "mode headless; answers in" in said
    assert "codex: Codex 1.2.3, signed in; not used here" in said
    assert workspace.digest() == before


def test_doctor_says_what_to_do_when_the_agent_does_not_answer(workspace: Any, on_path: Callable[..., str]) -> None:
    """Exit 2, the agent's own words, and how to sign in; without asking it is only found."""
    unset(workspace)
    path = on_path(claude=CLAUDE)
    answer = workspace("doctor", PATH=path)
    said = answer.stdout.decode()
    assert answer.code == 2
    assert "does not answer: Not logged in, please run /login" in said
    assert "to do: Run `claude` once and sign in, or set ANTHROPIC_API_KEY." in said
    quiet = workspace("doctor", "--no-ask", PATH=path)
    assert quiet.code == 0
    assert "not asked" in quiet.stdout.decode()


def test_doctor_says_how_to_get_an_agent_that_is_not_installed(workspace: Any, on_path: Callable[..., str]) -> None:
    """A runner that is set but not there."""
    unset(workspace)
    answer = workspace("doctor", "--runner", "gemini", PATH=on_path())
    assert answer.code == 2
    assert "'gemini' is not found" in answer.stdout.decode()
    assert "npm install -g @google/gemini-cli" in answer.stdout.decode()


def test_a_run_without_settings_uses_the_agent_on_path_and_says_so(router: Any, on_path: Callable[..., str]) -> None:
    """Whoever pays is told which agent is called, before it is."""
    (router.root / "interlock.toml").unlink()
    speaks = CLAUDE.replace('assert "READY" in question and not os.listdir("."), question', "").replace(
        '"READY"', json.dumps("Status: completed\nDone.")
    )
    answer = router("run", "router", "/implement 259", PATH=on_path(claude=speaks), SIGNED="1")
    assert "agents are called with claude, found on PATH" in answer.stderr
    started = [line for line in answer.stderr.splitlines() if "claude" in line]
    assert started


def test_without_any_agent_a_run_says_how_to_get_one(router: Any, on_path: Callable[..., str]) -> None:
    """Exit 2, nothing written: install one, name a program, or try the scripted runner."""
    unset(router)
    before = router.digest()
    answer = router("run", "router", "/implement 259", PATH=on_path())
    assert answer.code == 2
    assert "no coding agent is found on PATH" in answer.stderr
    assert "npm install -g" in answer.stderr
    assert "--runner scripted" in answer.stderr
    assert router.digest() == before
