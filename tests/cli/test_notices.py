"""Away from the terminal: notices; and settings that came with a repository (PERSON-06, OWN-06)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from interlock.cli import away, trusting
from tests.cli.conftest import CommandLine
from tests.cli.test_processes import Terminal


def tells(interlock: CommandLine, command: str) -> Path:
    """Where the project's `[notify] command` leaves what it was told, line by line."""
    settings = (interlock.top / "interlock.toml").read_text()
    told = interlock.top.parent / "told"
    interlock.write("interlock.toml", f'{settings}[notify]\ncommand = ["sh", "-c", "{command}", "x", "{told}"]\n')
    return told


@pytest.mark.req("PERSON-06")
def test_a_gate_and_an_end_are_told_with_the_run(waits: CommandLine) -> None:
    told = tells(waits, "cat >> $1; echo >> $1; env | grep -c ^INTERLOCK_ >> $1.env; exit 0")
    address = '[web]\naddress = "https://box.example/interlock/"\n'
    waits.write("interlock.toml", (waits.top / "interlock.toml").read_text() + address)
    assert waits("resume").code == 4
    assert waits("approve").code == 0
    asked, ended = (json.loads(line) for line in told.read_text().splitlines())
    assert asked["gate"]["url"] == f"https://box.example/interlock/runs/{asked['run_id']}"
    assert (asked["status"], asked["gate"]["name"], asked["run_id"]) == ("waiting", "accept", ended["run_id"])
    assert (ended["status"], ended["gate"], ended["exit_code"]) == ("complete", None, 0)
    assert set((told.parent / "told.env").read_text().split()) == {"0"}, "nothing of an outer run is inherited"


@pytest.mark.req("PERSON-06")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sh", "-c", "exit 3"], "it ended with 3"),
        (["/no/such"], "it cannot be started"),
        (["sleep", "60"], "in its time"),
    ],
)
def test_one_that_fails_or_hangs_touches_no_run(command: list[str], why: str, tmp_path: Path) -> None:
    assert why in away.notify(command, "{}", tmp_path, patience_s=0.2)


@pytest.mark.req("PERSON-06")
def test_a_gate_that_is_asked_at_a_terminal_is_told_while_it_waits_and_once(waits: CommandLine) -> None:
    """Nobody may sit there."""
    told = tells(waits, "cat > $1")
    os.mkfifo(told)  # a second notice would find no reader, and be complained about
    terminal = Terminal(waits, "resume")
    terminal.until(lambda seen: "[q]uit" in seen)
    asked = json.loads(told.read_text())
    assert (asked["status"], asked["exit_code"], asked["gate"]["name"]) == ("waiting", 4, "accept")
    terminal.type("q\n")
    assert terminal.end() == 4
    assert "[notify]" not in terminal.seen


@pytest.mark.req("OWN-06", "PERSON-06")
def test_a_cancel_is_told_but_starts_nothing_that_nobody_trusts(waits: CommandLine) -> None:
    """Settings that came meanwhile, and settings that cannot be read, keep nobody from cancelling."""
    told, settings = tells(waits, "cat > $1"), waits.top / "interlock.toml"
    begun = waits.top / ".interlock" / "runs" / waits.latest()

    def cancelled() -> tuple[int, str]:
        shutil.copytree(begun, kept := waits.top.parent / "kept", dirs_exist_ok=True)
        came = waits("cancel", begun.name)
        shutil.rmtree(begun)
        shutil.copytree(kept, begun)
        return came.code, came.err

    assert cancelled()[0] == 0
    assert json.loads(told.read_text())["status"] == "cancelled"
    told.unlink()
    settings.write_text(settings.read_text().replace("cat > $1", "echo planted > $1"))
    waits.commit("somebody else's settings")
    code, said = cancelled()
    assert (code, "Nobody away is told" in said, told.exists()) == (0, True, False)
    settings.write_text("runner = [")
    assert cancelled()[0] == 0


@pytest.mark.req("OWN-06")
def test_what_reaches_out_counts_after_a_person_trusted_it(
    interlock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed settings that start programs are asked for, in place or by `playbooks trust`; others are not."""
    shutil.rmtree(interlock.top.parent / "data")  # what the fixture trusts
    refused = interlock("run", "task", "x")
    assert refused.code == 2
    assert "runners.mine.argv" in refused.err and "interlock playbooks trust interlock.toml" in refused.err
    (interlock.top / "sub").mkdir()
    below = interlock("-C", "sub", "run", "task", "x").err
    assert "interlock -C sub playbooks trust ../interlock.toml" in below, "as it is typed there"
    assert interlock("-C", "sub", "playbooks", "trust", "../interlock.toml").code == 0
    settings = (interlock.top / "interlock.toml").read_text()
    interlock.write("interlock.toml", f"{settings}[limits]\nmax_parallel = 2\n")
    interlock.commit("a limit")
    assert interlock("run", "task", "Make add right").code == 0
    interlock.write("interlock.toml", f'{settings}[notify]\ncommand = ["true"]\n')
    interlock.commit("a notice")
    assert interlock("run", "task", "And again").code == 2
    monkeypatch.setattr(trusting, "confirmed", lambda question: True)
    assert interlock("run", "task", "And again").code == 3  # there is nothing to do
