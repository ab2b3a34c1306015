"""What can be typed, and what is said of what cannot."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from interlock.cli.commands import app
from tests.cli.conftest import CommandLine

COMMANDS = {
    *("run", "resume", "plan", "runs", "show", "watch", "diff", "approve", "reject", "answer", "cancel", "undo"),
    *("apply", "playbooks", "rehearse", "init", "doctor", "web", "mcp", "fleet"),
}


@pytest.mark.req("CLI-01")
def test_there_are_these_commands_and_no_others() -> None:
    assert set(app.commands) == COMMANDS


@pytest.mark.req("CLI-01")
@pytest.mark.parametrize("command", [(), *((name,) for name in sorted(COMMANDS)), ("run", "task"), ("plan", "task")])
def test_help_fits_80_columns(command: tuple[str, ...], interlock: CommandLine) -> None:
    said = interlock(*command, "--help")

    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert "..." not in said.out.partition("Commands:")[2]


@pytest.mark.req("CLI-01")
def test_options_of_a_playbook_come_from_its_inputs(interlock: CommandLine) -> None:
    said = interlock("run", "task", "--help").out

    for option in ("--check CMD", "--rounds N", "--no-review", "--branch TEXT", "--pr", "--expect-red"):
        assert option in said
    assert "--dry-run" in said
    assert "--dry-run" not in interlock("plan", "task", "--help").out
    assert "--once" in interlock("run", "roadmap", "--help").out  # an option of one process alone
    assert "roadmap.json not found" in interlock("run", "roadmap", "--once").err


@pytest.mark.req("CLI-01", "RUN-09")
def test_one_word_that_is_no_command_names_the_nearest(interlock: CommandLine) -> None:
    said = interlock("resum")

    assert said.code == 2
    assert "Did you mean: interlock resume?" in said.err
    assert "interlock run task resum" in said.err
    assert app.resolve_command(click.Context(app), ["mend it"])[0] == "run task"


@pytest.mark.req("CLI-05", "RUN-11")
@pytest.mark.parametrize(
    ("words", "telling"),
    [
        (("run", "tsk", "x"), "Did you mean task?"),
        (("run", "task"), "the request is empty"),
        (("run", "task", "x", "--rounds", "9"), "--rounds"),
        (("run", "task", "x", "--rounds", "x"), "not a valid integer"),
        (("run", "mend it"), "A request: interlock run task 'mend it'"),
        (("help",), "interlock --help"),
        (("run", "task", "x", "--check", "none", "--no-review"), "nothing would judge this work"),
        (("run", "task", "x", "--runner", "cluade"), "Did you mean claude?"),
        (("run", "task", "x", "--budget", "0"), "limits.budget_usd"),
        (("run", "task", "x", "--budget", "1"), "budget_tokens"),
        (("run", "task", "x", "--nope"), "No such option"),
        (("runs", "--status", "complet"), "Did you mean complete?"),
        (("runs", "--older", "3"), "--clean"),
        (("show",), "there are no runs here yet"),
        (("approve",), "no run waits"),
        (("reject",), "no run waits"),
        (("answer", "a", "b", "c"), "one text in quotes"),
        (("-C", "nowhere", "runs"), "there is no such folder"),
    ],
)
def test_what_cannot_be_used_is_told_and_leaves_nothing(
    words: tuple[str, ...], telling: str, interlock: CommandLine
) -> None:
    before = interlock.bytes_of_all()

    said = interlock(*words)

    assert said.code == 2
    assert telling in said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    assert interlock.bytes_of_all() == before


@pytest.mark.req("CLI-05")
def test_all_that_is_wrong_is_told_at_once(interlock: CommandLine) -> None:
    interlock.write("interlock.toml", 'runer = "claude"\n[limits]\nmax_parallel = 0\n')

    said = interlock("run", "task", "x")

    assert said.code == 2
    assert said.err.count("Error:") == 2
    assert "interlock.toml:1" in said.err
    assert "interlock.toml:3" in said.err
    assert "Did you mean runner?" in said.err


@pytest.mark.req("CLI-04")
def test_an_error_is_one_object_with_json(interlock: CommandLine) -> None:
    said = interlock("run", "task", "x", "--rounds", "9", "--json")

    facts = said.json
    assert (facts["status"], facts["exit_code"], facts["run_id"]) == ("invalid", 2, "")
    assert facts["error"]["where"] == "--rounds"
    assert facts["reason"]


def test_commands_that_are_told_work_from_where_the_person_is(done: CommandLine) -> None:
    said = done("-C", "../work", "show", "latest")

    assert "  next    interlock -C ../work diff" in said.out


@pytest.mark.req("CLI-06")
def test_the_version_is_told_before_anything_is_imported() -> None:
    code = "import sys; from interlock.cli.main import answer; answer(['--version'])"
    heavy = "print([name for name in ('click', 'pydantic', 'asyncio', 'rich') if name in sys.modules])"

    said = subprocess.run([sys.executable, "-c", f"{code}; {heavy}"], capture_output=True, text=True, check=True).stdout

    assert said.splitlines()[0].startswith("interlock ")
    assert said.splitlines()[1] == "[]"


@pytest.mark.req("CLI-06")
@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("commands", "('pydantic', 'rich', 'asyncio')"),
        ("looking", "('interlock.app', 'interlock.settings', 'interlock.engine.real', 'rich', 'psutil')"),
    ],
)
def test_listing_commands_and_looking_at_runs_import_nothing_heavy(module: str, heavy: str) -> None:
    code = f"import sys; import interlock.cli.{module}; print([m for m in {heavy} if m in sys.modules])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.req("CLI-01")
def test_a_shell_completes_runs_and_never_hears_an_error(done: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = done.latest()
    monkeypatch.setenv("_INTERLOCK_COMPLETE", "bash_complete")

    def offered(words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        with pytest.raises(SystemExit):
            done()
        return done.capture.readouterr().out.decode().split()

    assert f"plain,{run}" in offered("interlock show task-")
    assert "plain,latest" in offered("interlock diff la")
    assert "plain,task" in offered("interlock run t")
    assert offered("interlock show zz") == []
    monkeypatch.setattr("interlock.engine.runs.Runs.all", lambda runs: 1 / 0)
    assert offered("interlock show ta") == []


def test_completion_of_each_shell_is_printed(interlock: CommandLine) -> None:
    for shell in ("bash", "zsh", "fish"):
        said = interlock("init", "--completion", shell)
        assert (said.code, "_INTERLOCK_COMPLETE" in said.out) == (0, True)


def test_all_options_are_described() -> None:
    bare = [
        (name, option.name)
        for name, command in app.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]

    assert bare == []
