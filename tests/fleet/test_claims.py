"""A claim is a compare-and-swap that at most one can win."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.app import open_runs
from interlock.engine.runs import Quiet
from interlock.fleet import Depot
from interlock.fleet import depot as module
from interlock.fleet.carried import Carried
from interlock.fleet.freight import Freight
from interlock.fleet.remote import Move, Remote, RemoteAway, state_ref
from interlock.workspace import Workspace
from tests.fleet.conftest import Office
from tests.fleet.test_moving import waiting_run


@pytest.mark.req("WK-10")
def test_two_claims_of_one_place_in_one_moment_are_two_commits(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes in one clone, the same second: were the commits one, git would let both pushes succeed."""
    laptop = office.clone("laptop")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    monkeypatch.setattr(module, "now", lambda: "2026-01-02T03:04:05+00:00")

    async def race(root: Path) -> list[bool]:
        depot = Depot(open_runs(root, Quiet(), environ=dict(os.environ)))
        workspace = Workspace(root, root / ".interlock")
        remote = await Remote.of(workspace, "origin", os.environ)
        tip = Carried.of(root, run).commit
        assert tip is not None
        freight = Freight(workspace)
        checkpoint = await freight.read(tip, run)
        claims = [freight.claimed(checkpoint, depot._claim_of(checkpoint.possession)) for _ in range(2)]
        return [await remote.swap(Move(state_ref(run), tip, claim)) for claim in claims]

    assert asyncio.run(race(laptop.root)) == [True, False]


def test_a_remote_that_never_answers_is_one_that_is_away(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can wait for it does: a worker tries again, and loses no finished work."""
    laptop = office.clone("laptop")
    silent = office.folder / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 600\n", "utf-8")
    silent.chmod(0o755)
    environ = {**os.environ, "GIT_SSH_COMMAND": str(silent)}

    async def ask() -> None:
        workspace = Workspace(laptop.root, laptop.root / ".interlock")
        remote = await Remote.of(workspace, "ssh://host.example/bare.git", environ)
        monkeypatch.setattr("interlock.workspace.git._PATIENCE_S", 0.2)
        await remote.tip(state_ref("some-run"))

    with pytest.raises(RemoteAway, match="does not answer"):
        asyncio.run(ask())
