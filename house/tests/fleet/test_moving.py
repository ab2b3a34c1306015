"""Runs move between clones by a git ref: sent, taken, fetched; no database."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office


@pytest.mark.req("FLEET-06")
def test_a_run_goes_on_elsewhere_with_unsaved_work_and_commits(office: Office, ada: CommandLine, waiting: str) -> None:
    """The exact tree and commits that nobody pushed travel; no branch of the remote is written."""
    ada.run_git("commit", "-q", "--allow-empty", "-m", "never pushed")
    before = office.refs()
    sent = ada("fleet", "send", waiting)
    assert sent.code == 0, sent.err
    assert set(office.refs()) - set(before) == {f"refs/interlock/{waiting}"}
    bob = office.clone("bob")
    taken = bob("fleet", "take", waiting)
    assert taken.code == 0, taken.err
    assert bob.read("notes.txt") == ada.read("notes.txt")
    assert bob.run_git("log", "-1", "--format=%s") == "never pushed"
    done = bob("approve", waiting)
    assert done.code == 0, done.err
    assert "# looked at" in bob.read("lib.py") and "# looked at" not in ada.read("lib.py")
    gone = ada("resume", waiting)
    assert gone.code == 2 and f"interlock fleet take {waiting}" in gone.err
    assert ada("show", waiting).code == 0
    assert bob("fleet", "send", waiting).code == 0
    back = ada("fleet", "take", waiting)
    assert back.code == 0, back.err
    assert "# looked at" in ada.read("lib.py")
    assert ada("show", waiting, "--json").json["status"] == "complete"
