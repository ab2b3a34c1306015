"""The page shows runs of the fleet as the remote has them, and what is decided there reaches the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Workspace
from tests.fleet.conftest import Office, git
from tests.fleet.test_steering import Fleet, fleet
from tests.web.conftest import Client, Site, until

__all__ = ["fleet"]


@pytest.fixture
def served() -> Iterator[Callable[[Workspace], Client]]:
    """Serves the page of a clone, and lets somebody in."""
    sites: list[Site] = []

    def serve(clone: Workspace) -> Client:
        place: Any = clone
        sites.append(Site(place))
        return sites[-1].client()

    yield serve
    for site in sites:
        site.end()


@pytest.mark.long
@pytest.mark.req("WK-03")
def test_a_run_of_the_fleet_is_seen_and_decided_on_the_page(
    fleet: Fleet, served: Callable[[Workspace], Client], office: Office
) -> None:
    """Nobody fetched it: it stands on the board with who has it, its gate shows the plan that the run has, the answer
    is queued, and how the run goes on is seen."""
    laptop, desk = fleet.clone("laptop"), fleet.clone("desk")
    run = fleet.submitted(laptop)
    plan = git(office.bare, "show", f"refs/interlock/{run}/state:tree/plan.md")
    (desk.root / "plan.md").write_text("somebody else's plan\n", "utf-8")
    client = served(desk)
    board = until(lambda: run in (text := client.get("/").text) and text, "the run is on the board")
    assert "left it on origin" in board
    gate = client.get(f"/desk/runs/{run}/gate")
    assert plan in gate.text
    assert "somebody else" not in gate.text
    fields = {name: gate.field(name) for name in ("token", "gate", "opening", "seen")}
    said = client.post(f"/desk/runs/{run}/gate", {**fields, "choice": "approve", "note": "from the page"})
    assert said.status == 303, said.text
    (message,) = fleet.queued()
    assert (message["choice"], message["note"]) == ("approve", "from the page")
    again = client.post(f"/desk/runs/{run}/gate", {**fields, "choice": "reject", "note": "no"})
    assert again.status == 409
    assert "somebody else decided" in again.text
    fleet.work()
    until(lambda: "complete" in client.get(f"/desk/runs/{run}").text, "its end is seen")
    away = office.bare.with_name("away.git")
    office.bare.rename(away)
    until(lambda: "as they were last seen" in client.get("/").text, "it is said that the remote is away")
    assert client.get(f"/desk/runs/{run}").status == 200
    away.rename(office.bare)
    until(lambda: "as they were last seen" not in client.get("/").text, "it is back")
