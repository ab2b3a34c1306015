"""Errors become words, exit codes and logs in one place; nobody ever sees a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli import commands
from interlock.cli.failures import guarded, told
from interlock.errors import EngineFault, Locked


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Lets `interlock runs` raise whatever is given."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def arrange(error: BaseException) -> Path:
        def glances(_root: Path, _playbook: str | None) -> None:
            raise error

        monkeypatch.setattr("interlock.cli.runs.glances", glances)
        return tmp_path / "interlock"

    return arrange


def test_a_bug_is_one_sentence_and_a_log(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected exception is exit 5; its traceback is in the user's state folder, not on the screen."""
    logs = raising(ZeroDivisionError("division by zero"))
    assert guarded(["runs"]) == 5
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("interlock has a fault: ZeroDivisionError: division by zero\n")
    [log] = logs.iterdir()
    assert str(log) in said.err
    assert "Traceback" in log.read_text("utf-8")


def test_a_fault_of_the_engine_is_logged_too(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """EngineFault has its own words, and a log."""
    logs = raising(EngineFault("the loop has no cap", where="3b"))
    assert guarded(["runs", "--json"]) == 5
    value = json.loads(capsys.readouterr().out)
    assert (value["status"], value["error"]["where"]) == ("failed", "3b")
    assert value["error"]["log"] == str(next(logs.iterdir()))


@pytest.mark.req("CM-33")
def test_every_part_of_an_error_has_a_line(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What, where, expected, found, what to do: each known part, in this order."""
    raising(EngineFault("a", where="b", expected="c", found="d", remedy="e"))
    guarded(["runs"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[:5] == ["Error: a", "  where: b", "  expected: c", "  found: d", "  to do: e"]


def test_an_error_that_says_so_itself_gets_no_second_prefix() -> None:
    """`Error:` and `ERROR:` at the beginning stand for themselves."""
    assert told("Error: x", {}) == ["Error: x"]
    assert told("ERROR: x", {}) == ["ERROR: x"]
    assert told("x", {"to do": "y"}) == ["Error: x", "  to do: y"]


def test_an_error_cannot_move_the_cursor() -> None:
    """Lines of a text stay; everything else that a terminal would obey is escaped."""
    assert told("a\n\nb\x1b[2J", {"found": "\r"}) == ["Error: a\n\nb\\x1b[2J", "  found: \\r"]


def test_a_lock_is_exit_6_and_ctrl_c_130(raising: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Both without a traceback."""
    raising(Locked("held", holder={"pid": 1}))
    assert guarded(["runs"]) == 6
    raising(KeyboardInterrupt())
    assert guarded(["runs"]) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert guarded(["runs", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["status"] == "interrupted"


@pytest.mark.req("CM-31")
@pytest.mark.parametrize("words", [["nope"], ["runs", "--no-such-option"], ["show"], ["run", "router"]])
def test_a_command_line_that_cannot_be_understood_is_exit_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Words for people on stderr with a hint at --help; with --json the one object on stdout."""
    assert guarded(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert "--help" in said.err
    assert guarded([*words, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["status"] == "invalid"


def test_options_may_stand_before_the_command_but_not_mean_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """-C and --json count in both places; --dry-run before a command that would not heed it is refused."""
    for words in (["-C", str(tmp_path), "--json", "runs"], ["runs", "--json", "-C", str(tmp_path)]):
        assert guarded(words) == 0
        assert json.loads(capsys.readouterr().out) == []
    assert guarded(["--dry-run", "cancel", "latest", "-C", str(tmp_path)]) == 2
    assert "--dry-run means nothing to this command" in capsys.readouterr().err


def test_every_command_has_help_with_an_example() -> None:
    """One sentence of help and an example for each command, sub-commands of run, plan and submit included."""
    import typer.main

    top: Any = typer.main.get_command(commands.build())
    groups = {name: top.commands[name] for name in ("run", "plan", "submit")}
    below = {
        f"{verb} {name}": group.get_command(None, name)
        for verb, group in groups.items()
        for name in group.list_commands(None)
    }
    found = {**top.commands, **below}
    expected = {"run", "runs", "show", "logs", "report", "approve", "reject", "answer", "resume", "cancel"}
    expected |= {"diff", "why", "watch", "playbooks", "new", "plan", "adopt", "web", "mcp", "send", "take", "fetch"}
    expected |= {"submit", "worker", "fleet", "rehearse", "validate", "doctor", "init", "recover"}
    assert set(top.commands) == expected
    for name, one in found.items():
        assert one.help, name
        if name not in groups:
            assert one.epilog.startswith(f"Example: interlock {name.partition(' ')[0]}"), name


def test_what_must_be_fast_imports_little(tmp_path: Path) -> None:
    """--version does without typer; runs without settings' models, the engine's host, rich and asyncio's loop."""
    heavy = (
        "rich",
        "interlock.app",
        "interlock.finding",
        "interlock.settings.models",
        "interlock.engine.runs",
        "jinja2",
        "starlette",
        "uvicorn",
        "ruamel",
    )
    for words, absent in ((["--version"], ("typer", "json", "interlock.engine", *heavy)), (["runs"], heavy)):
        script = (
            f"import sys; from interlock.cli.main import answer; code = answer({words!r}); "
            f"found = [name for name in {absent!r} if name in sys.modules]; print(code, found, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, env=os.environ
        )
        assert done.stderr.splitlines()[-1] == "0 []"


def test_the_shell_completes_runs_and_playbooks(workspace: Any) -> None:
    """Ids of runs, `latest`, names of playbooks and of runners are offered."""
    workspace("run", "toy", "a", "--mode", "quick")

    def offered(line: str, number: int) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", "from interlock.cli.main import main; main()"],
            cwd=workspace.root,
            env={
                **workspace.env,
                "_INTERLOCK_COMPLETE": "complete_bash",
                "COMP_WORDS": line,
                "COMP_CWORD": str(number),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    assert offered("interlock show ", 2) == ["latest", workspace.folders[0].name]
    assert offered("interlock validate rou", 2) == ["router"]
    assert "played" in offered("interlock doctor --runner pl", 3)
    assert offered("interlock run ro", 2) == ["roadmap", "router"]
