"""Runs given to workers: placed by PostgreSQL, carried by git, steered from any clone."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office, Workers, until


def submitted(who: CommandLine, request: str = "Make add right", *words: str) -> str:
    """A run that is queued."""
    answer = who("fleet", "submit", "task", request, *words, "--json")
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


def stands(who: CommandLine, run: str) -> str:
    answer = who("show", run, "--json")
    return str(answer.json["status"]) if answer.code == 0 else answer.err


@pytest.mark.req("FLEET-01", "FLEET-02")
def test_a_worker_takes_the_exact_tree_and_its_work_is_a_branch(
    office: Office, ada: CommandLine, workers: Workers
) -> None:
    ada.write("notes.txt", "one\ntwo\nthree\nhers, unsaved\n")
    ada.run_git("commit", "-q", "--allow-empty", "-m", "never pushed")
    before = ada.run_git("status", "--porcelain")
    run = submitted(ada)
    heads = ada.run_git("ls-remote", "--heads", "origin")
    assert "no worker is there" in ada("fleet").out
    workers.start("north")
    until(lambda: stands(ada, run) == "complete", workers.told)
    assert ada.run_git("status", "--porcelain") == before and "a - b" in ada.read("lib.py")
    assert ada("fleet", "fetch", run).code == 0
    assert "a + b" in ada.run_git("show", f"interlock/{run}:lib.py")
    assert "hers, unsaved" in ada.run_git("show", f"interlock/{run}:notes.txt")
    assert "never pushed" in ada.run_git("log", "--format=%s", f"interlock/{run}")
    assert ada.run_git("ls-remote", "--heads", "origin") == heads
