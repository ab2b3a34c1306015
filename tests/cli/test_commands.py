"""What can be typed, and what is said of what cannot."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from interlock.app import playbook_named
from interlock.cli import typed
from interlock.cli.commands import app, options_of
from tests.cli.conftest import CommandLine

COMMANDS = {
    *("run", "resume", "plan", "runs", "show", "watch", "diff", "approve", "reject", "answer", "cancel", "undo"),
    *("apply", "playbooks", "rehearse", "init", "doctor", "web", "mcp", "fleet"),
}


@pytest.mark.req("CLI-01")
def test_there_are_these_commands_and_their_help_fits_80_columns(interlock: CommandLine) -> None:
    assert set(app.commands) == COMMANDS
    for words in [(), *((name,) for name in app.commands), ("run", "task"), ("plan", "task")]:
        said = interlock(*words, "--help")
        assert (said.code, max(map(len, said.out.splitlines())) <= 80) == (0, True), words
        assert "..." not in said.out.partition("Commands:")[2], words
    options = [one for command in app.commands.values() for one in command.params if isinstance(one, click.Option)]
    assert all(one.help for one in options)


@pytest.mark.req("CLI-01")
def test_options_of_a_playbook_come_from_its_inputs(interlock: CommandLine) -> None:
    said = interlock("run", "task", "--help").out

    for option in ("--check CMD", "--rounds N", "--no-review", "--branch TEXT", "--pr", "--expect-red", "--dry-run"):
        assert option in said
    assert "--dry-run" not in interlock("plan", "task", "--help").out
    assert "--once" in interlock("run", "roadmap", "--help").out  # an option of one process alone
    assert "roadmap.json not found" in interlock("run", "roadmap", "--once").err


WRONG = [
    (("resum",), "Did you mean: interlock resume?"),
    (("resum",), "interlock run task resum"),
    (("help",), "interlock --help"),
    (("run", "tsk", "x"), "Did you mean task?"),
    (("run", "task"), "the request is empty"),
    (("run", "task", "x", "--rounds", "9"), "--rounds"),
    (("run", "task", "x", "--rounds", "x"), "not a valid integer"),
    (("run", "mend it"), "A request: interlock run task 'mend it'"),
    (("run", "task", "x", "--check", "none", "--no-review"), "nothing would judge this work"),
    (("run", "task", "x", "--runner", "cluade"), "Did you mean claude?"),
    (("run", "task", "x", "--budget", "0"), "limits.budget_usd"),
    (("run", "task", "x", "--budget", "1"), "budget_tokens"),
    (("run", "task", "x", "--nope"), "No such option"),
    (("runs", "--status", "complet"), "Did you mean complete?"),
    (("runs", "--status", "x\nError: lost"), "found: x\n    Error: lost"),
    (("runs", "--older", "3"), "--clean"),
    (("show",), "there are no runs here yet"),
    (("approve",), "no run waits"),
    (("reject",), "no run waits"),
    (("answer", "a", "b", "c"), "one text in quotes"),
    (("cancel",), "Missing argument"),
    (("-C", "nowhere", "runs"), "there is no such folder"),
    (("playbooks", "trust", "task"), "nobody has to trust it"),
    (("playbooks", "trust", "gone"), "there is no playbook 'gone'"),
    (("playbooks", "sell", "task"), "no call of `playbooks`"),
    (("playbooks", "copy"), "no call of `playbooks`"),
    (("playbooks", "new", "no/name"), "cannot be called"),
]


@pytest.mark.req("CLI-01", "CLI-05", "RUN-09", "RUN-11", "OWN-01")
def test_what_cannot_be_used_is_told_and_leaves_nothing(interlock: CommandLine) -> None:
    before = interlock.bytes_of_all()

    for words, telling in WRONG:
        said = interlock(*words)
        assert (said.code, said.out, telling in said.err, "Traceback" in said.err) == (2, "", True, False), said
    assert interlock.bytes_of_all() == before
    assert app.resolve_command(click.Context(app), ["mend it"])[0] == "run task"


@pytest.mark.req("CLI-05", "CLI-04")
def test_all_that_is_wrong_is_told_at_once_and_in_one_object(interlock: CommandLine) -> None:
    interlock.write("interlock.toml", 'runer = "claude"\n[limits]\nmax_parallel = 0\n')

    said = interlock("run", "task", "x", "--json")

    assert (said.code, said.err.count("Error:")) == (2, 2)
    assert all(words in said.err for words in ("interlock.toml:1", "interlock.toml:3", "Did you mean runner?"))
    facts = said.json
    assert (facts["status"], facts["exit_code"], facts["run_id"]) == ("invalid", 2, "")
    assert facts["error"]["where"].startswith("interlock.toml:") and facts["reason"] and facts["error"]["also"]


@pytest.mark.req("CLI-06")
@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("from interlock.cli.main import answer; answer(['--version'])", "('click', 'pydantic', 'asyncio', 'rich')"),
        ("import interlock.cli.commands", "('pydantic', 'rich', 'asyncio')"),
        (
            "import interlock.cli.looking",
            "('interlock.app', 'interlock.settings', 'interlock.engine.real', 'rich', 'psutil')",
        ),
    ],
)
def test_nothing_heavy_is_imported_where_somebody_waits(code: str, heavy: str) -> None:
    """To tell the version, to list commands, to look at runs."""
    asks = [sys.executable, "-c", f"import sys; {code}; print([one for one in {heavy} if one in sys.modules])"]

    assert subprocess.run(asks, capture_output=True, text=True, check=True).stdout.splitlines()[-1] == "[]"


@pytest.mark.req("CLI-01")
def test_a_shell_completes_runs_and_never_hears_an_error(done: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        said = done("init", "--completion", shell)
        assert (said.code, "_INTERLOCK_COMPLETE" in said.out) == (0, True)
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


@pytest.mark.req("PAGE-01", "PAGE-05")
def test_what_is_said_of_an_input_passes_for_no_option() -> None:
    """As a page or a client's model says it: each option with its value in one word, the request behind `--`."""
    said = {"request": ["--json"], "check": ["-x", "a b"], "rounds": ["2"], "commit": ["on"]}
    told = ["--check=-x", "--check=a b", "--rounds=2", "--commit", "--", "--json"]
    assert typed.words(options_of(playbook_named("task")), said) == told
