"""What people do on the page: what is decided, started, ended, and what is recorded of it (PERSON-01, PAGE-01)."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine import events as ev
from interlock.engine.folder import RunFolder
from interlock.engine.keys import sha256
from interlock.engine.view import View
from interlock.errors import Status
from tests.cli.conftest import CommandLine
from tests.web.conftest import Site
from tests.web.many import BEGAN, lay

HANGS = "[ -e {go} ] && {{ echo x > plan.md; echo planned; exit; }}; trap '' TERM; while :; do sleep 60; done"


def settled(site: Site, name: str) -> View:
    """A run, once the process in the background has left it."""
    entry = site.entry(name)
    with (entry.path / "lock").open("rb+") as file:  # waits until it is free, whatever its holder dies of
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    return entry.view()


@pytest.fixture(autouse=True)
def ends(interlock: CommandLine) -> Iterator[None]:
    """Nothing that a test began outlives it."""
    yield
    for entry in interlock.place().runs.all():
        if holder := entry.holder():
            os.kill(holder["pid"], signal.SIGKILL)


@pytest.mark.req("PAGE-01", "PERSON-01", "PERSON-02")
def test_an_approval_is_recorded_and_the_run_goes_on(site: Site) -> None:
    """Who, the note, and what was seen stand in the journal; the run goes on by itself, and hears the note."""
    got = site.post(site.at("ship", "/gate"), site.deciding(note="fine\r\nby me"))
    assert (got.status, got.header("location")) == (303, site.at("ship"))
    view = settled(site, "ship")
    decided = next(iter(view.gates.values())).decision
    assert decided is not None
    assert (decided.choice, decided.who, decided.note) == ("approve", "ada", "fine\nby me")
    assert (view.status, site.interlock.read("built.md")) == (Status.COMPLETE, "built\n")
    brief = next(site.entry("ship").path.glob("dispatches/builder*/brief.md")).read_text()
    assert "by me" in brief
    again = site.post(site.at("ship", "/gate"), {"seen": "{}", "choice": "x"})
    assert again.status == 400


@pytest.mark.req("PERSON-01")
def test_what_was_not_seen_is_not_decided(site: Site) -> None:
    """A document that changed behind the page: refused, shown anew with its new text; what was typed stays."""
    form = site.deciding(note="as I said")
    site.interlock.write("plan.md", "# Another plan\n\nWith rockets.\n")
    stale = site.post(site.at("ship", "/gate"), form)
    assert (stale.status, "With rockets." in stale.words, "changed since it was asked" in stale.words) == (
        409,
        True,
        True,
    )
    assert ">as I said</textarea>" in stale.text
    assert site.entry("ship").folder.messages() == []
    assert site.deciding()["seen"] != form["seen"]
    assert site.post(site.at("ship", "/gate"), site.deciding()).status == 303
    assert settled(site, "ship").status is Status.COMPLETE


WAITS = ("", ev.Paused(status="waiting", why="It asks."))


@pytest.mark.req("PERSON-01", "PERSON-03")
def test_what_is_new_since_somebody_decided_is_shown(site: Site) -> None:
    """After a rejection the document is asked about again, with the difference to what was seen then."""
    folder = RunFolder(site.entry().path.with_name("task-20261118-000007-0000"))
    folder.settle()
    before, now = folder.put(b"# The plan\n\nFirst\n"), sha256(site.interlock.read("plan.md").encode())
    rejected = ev.GateDecided(gate="it", choice="reject", who="ada", note="more", at=BEGAN, shown={"plan.md": before})
    asked = {"gate": "it", "question": "Ship?", "choices": ("approve", "reject"), "opening": 1}
    first, second = (ev.GateOpened(**asked, shown={"plan.md": digest}) for digest in (before, now))
    run = lay(folder.path.parent, 7, then=[("a/it", first), ("a/it", rejected), ("b/it", second), WAITS])
    gate = site.get(f"/runs/{run}/gate")
    assert "changed since you saw it" in gate.words, gate.words
    change = gate.text.partition('class="paper')[0]
    assert re.findall(r'<tr class="(?:added|removed)">.*?<td class="code">(.*?)</td>', change) == [
        "First",
        "1. Cut the **sails**",
    ]


@pytest.mark.req("PERSON-01")
def test_a_free_answer_is_what_was_typed_whatever_it_looks_like(site: Site) -> None:
    """Recorded for the run, which goes on with it when it can."""
    opened = ev.GateOpened(gate="it", question="Which colour?", choices=("*",), shown={}, opening=1)
    run = lay(site.entry().path.parent, 7, then=[("gate-it#1", opened), WAITS])
    page = site.get(f"/runs/{run}/gate")
    assert '<button class="first">Answer</button>' in page.text
    form = {"seen": page.field("seen"), "choice": "--json\r\nblue"}
    assert site.post(f"/runs/{run}/gate", form).status == 303
    settled(site, run)
    ((_, said),) = site.entry(run).folder.messages()
    assert (said.what, said.choice, said.opening) == ("answer", "--json\nblue", 1)
    assert "--json blue by ada is recorded" in site.get(f"/runs/{run}").words


@pytest.mark.long
@pytest.mark.req("PAGE-01")
def test_a_run_is_started_from_a_form_after_its_plan(site: Site) -> None:
    """Fields by the types of the inputs; the plan comes first, anew when an input changes; then it runs detached."""
    path, count = "/start/ship", len(site.interlock.place().runs.all())
    assert "Plan something, ask a person, build it." in site.get("/start").words
    form = site.get(path)
    for piece in (
        'name="what"',
        'name="times"',
        'type="checkbox" name="hurry"',
        "What is to be shipped.",
        'name="budget"',
    ):
        assert piece in form.text, piece
    given = {"what": "a -- boat\r\n<b>", "times": "2", "hurry": "on"}
    wrong = site.post(path, {**given, "times": "9", "do": "plan"})
    assert (wrong.status, "less than or equal to 3" in wrong.words) == (409, True)
    assert "a -- boat\n&lt;b&gt;</textarea>" in wrong.text.replace("\r", ""), "what was typed stays"
    unplanned = site.post(path, {**given, "do": "start"})
    assert (unplanned.status, "What it would take" in unplanned.words, "planner" in unplanned.words) == (
        200,
        True,
        True,
    )
    other = site.post(path, {**given, "times": "3", "do": "start", "planned": unplanned.field("planned")})
    assert (other.status, "You changed something" in other.words) == (200, True)
    assert "You changed something" not in unplanned.words
    assert len(site.interlock.place().runs.all()) == count, "nothing has begun"
    started = site.post(path, {**given, "do": "start", "planned": unplanned.field("planned")})
    entry = site.entry("ship")
    assert (started.status, started.header("location")) == (303, f"/runs/{entry.id}"), started.words
    settled(site, "ship")
    assert entry.first["inputs"] == {"what": "a -- boat\n<b>", "times": 2, "hurry": True}


@pytest.mark.req("PAGE-01", "OWN-01")
def test_what_nobody_trusts_is_neither_offered_nor_loaded(site: Site) -> None:
    """In the words of the command line."""
    evil = "from pathlib import Path\nPath('executed').touch()\n"
    site.interlock.write(".interlock/playbooks/evil.py", evil)
    site.interlock.commit("came along")
    listing = site.get("/start")
    assert ("playbooks trust evil" in listing.words, 'href="/start/evil"' in listing.text) == (True, False)
    assert 'href="/start/task"' in listing.text
    form = site.get("/start/evil")
    assert (form.status, "playbooks trust evil" in form.words) == (409, True)
    assert site.post("/start/evil", {"do": "start"}).status == 409
    assert not list(site.interlock.top.rglob("executed"))


@pytest.mark.long
@pytest.mark.req("PAGE-01", "RUN-07")
def test_a_run_at_work_is_cancelled_and_one_that_died_goes_on(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    site.interlock.act("planner", HANGS.format(go=go))
    for what in ("a boat", "a hat"):
        assert site.begin("run", "ship", what, "--detach") == 0
    hat = site.entry("ship")
    page = site.get(f"/runs/{hat.id}")
    assert ("Cancel this run" in page.words, "Go on with it" in page.words) == (True, False)
    assert site.post(f"/runs/{hat.id}/cancel", {}).status == 303
    assert settled(site, "ship").status is Status.CANCELLED
    refused = site.post(f"/runs/{hat.id}/resume", {})
    assert (refused.status, "is cancelled" in refused.words) == (409, True)
    boat = site.interlock.place().runs.all()[1]
    holder = boat.holder()
    assert holder is not None
    os.kill(holder["pid"], signal.SIGKILL)
    settled(site, boat.id)
    go.touch()
    assert "interrupted" in site.get(f"/runs/{boat.id}").words
    assert site.post(f"/runs/{boat.id}/resume", {}).status in (303, 409)
    assert settled(site, boat.id).gate is not None


@pytest.mark.req("PAGE-01")
@pytest.mark.parametrize("word", ["\0", "x" * 200_000])
def test_what_no_program_can_be_told_is_said(site: Site, word: str) -> None:
    given = {"what": word, "do": "plan"}
    got = site.post("/start/ship", given)
    assert (got.status, "no program can be told this" in got.words) == (409, True)
