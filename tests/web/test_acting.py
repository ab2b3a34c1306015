"""What people do on the page: what is decided, started, ended, and what is recorded of it (PERSON-01, PAGE-01)."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.documents.files import sha256
from interlock.engine import events as ev
from interlock.engine.folder import RunFolder
from interlock.errors import Status
from tests.cli.conftest import CommandLine
from tests.web.conftest import Site, settled
from tests.web.many import BEGAN, lay

HANGS = "[ -e {go} ] && {{ echo x > plan.md; echo planned; exit; }}; trap '' TERM; while :; do sleep 60; done"
WAITS = ("", ev.Paused(status="waiting", why="It asks."))


@pytest.fixture(autouse=True)
def ends(interlock: CommandLine) -> Iterator[None]:
    """Nothing that a test began outlives it."""
    yield
    for entry in interlock.place().runs.all():
        if holder := entry.holder():
            os.kill(holder["pid"], signal.SIGKILL)


@pytest.mark.req("PAGE-01", "PERSON-01", "PERSON-02")
def test_what_was_seen_is_decided_and_the_run_goes_on(site: Site) -> None:
    """A document that changed behind the page: refused, shown anew, what was typed stays. Then who, the note and what
    was seen stand in the journal; the run goes on by itself, and hears the note."""
    form = site.deciding(note="as I said")
    site.interlock.write("plan.md", "# Another plan\n\nWith rockets.\n")
    stale = site.post(site.at("ship", "/gate"), form)
    assert (stale.status, "changed since it was asked" in stale.words) == (409, True)
    assert "With rockets." in stale.words and ">as I said</textarea>" in stale.text
    assert site.entry("ship").folder.messages() == []
    got = site.post(site.at("ship", "/gate"), site.deciding(note="fine\r\nby me"))
    assert (got.status, got.header("location")) == (303, site.at("ship"))
    view = settled(site.entry("ship"))
    decided = next(iter(view.gates.values())).decision
    assert decided is not None
    assert (decided.choice, decided.who, decided.note) == ("approve", "ada", "fine\nby me")
    assert (view.status, site.interlock.read("built.md")) == (Status.COMPLETE, "built\n")
    assert "by me" in next(site.entry("ship").path.glob("dispatches/builder*/brief.md")).read_text()


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
    change = re.findall(r'<tr class="(?:added|removed)">.*?<td class="code">(.*?)</td>', gate.text)
    assert change[:2] == ["First", "1. Cut the **sails**"]


@pytest.mark.req("PERSON-01")
def test_a_free_answer_is_what_was_typed_whatever_it_looks_like(site: Site) -> None:
    """Recorded for the run, which goes on with it when it can."""
    opened = ev.GateOpened(gate="it", question="Which colour?", choices=("*",), shown={}, opening=1)
    run = lay(site.entry().path.parent, 7, then=[("gate-it#1", opened), WAITS])
    page = site.get(f"/runs/{run}/gate")
    assert '<button class="first">Answer</button>' in page.text
    form = {"seen": page.field("seen"), "choice": "--json\r\nblue"}
    assert site.post(f"/runs/{run}/gate", form).status == 303
    settled(site.entry(run))
    ((_, said),) = site.entry(run).folder.messages()
    assert (said.what, said.choice, said.opening) == ("answer", "--json\nblue", 1)
    assert "--json blue by ada is recorded" in site.get(f"/runs/{run}").words


@pytest.mark.long
@pytest.mark.req("PAGE-01")
def test_a_run_is_started_from_a_form_after_its_plan(site: Site) -> None:
    """Fields by the types of the inputs; the plan comes first, anew when an input changes; then it runs detached."""
    path, count = "/start/ship", len(site.interlock.place().runs.all())
    assert "Plan something, ask a person, build it." in site.get("/start").words
    form = site.get(path).text
    assert all(one in form for one in ('name="what"', 'name="times"', 'type="checkbox" name="hurry"', 'name="budget"'))
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
    assert ["You changed something" in page.words for page in (unplanned, other)] == [False, True]
    assert len(site.interlock.place().runs.all()) == count, "nothing has begun"
    started = site.post(path, {**given, "do": "start", "planned": unplanned.field("planned")})
    entry = site.entry("ship")
    assert (started.status, started.header("location")) == (303, f"/runs/{entry.id}"), started.words
    settled(entry)
    assert entry.first["inputs"] == {"what": "a -- boat\n<b>", "times": 2, "hurry": True}


@pytest.mark.req("PAGE-01", "OWN-01")
def test_what_nobody_trusts_or_no_program_can_be_told_is_said(site: Site) -> None:
    """Neither offered nor loaded; in the words of the command line."""
    for word in ("\0", "x" * 200_000):
        got = site.post("/start/ship", {"what": word, "do": "plan"})
        assert (got.status, "no program can be told this" in got.words) == (409, True)
    evil = "from pathlib import Path\nPath('executed').touch()\n"
    site.interlock.write(".interlock/playbooks/evil.py", evil)
    site.interlock.commit("came along")
    listing = site.get("/start")
    assert ("playbooks trust evil" in listing.words, 'href="/start/evil"' in listing.text) == (True, False)
    assert 'href="/start/task"' in listing.text
    for form in (site.get("/start/evil"), site.post("/start/evil", {"do": "start"})):
        assert (form.status, "playbooks trust evil" in form.words) == (409, True)
    assert not list(site.interlock.top.rglob("executed"))


@pytest.mark.long
@pytest.mark.req("PAGE-01", "RUN-07")
def test_a_run_at_work_is_cancelled_and_one_that_died_goes_on(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    site.interlock.act("planner", HANGS.format(go=go))
    for what in ("a boat", "a hat"):
        assert site.begin("run", "ship", what, "--detach") == 0
    hat, boat = site.interlock.place().runs.all()[:2]
    page = site.get(f"/runs/{hat.id}")
    assert ("Cancel this run" in page.words, "Go on with it" in page.words) == (True, False)
    assert site.post(f"/runs/{hat.id}/cancel", {}).status == 303
    assert settled(hat).status is Status.CANCELLED
    refused = site.post(f"/runs/{hat.id}/resume", {})
    assert (refused.status, "is cancelled" in refused.words) == (409, True)
    holder = boat.holder()
    assert holder is not None
    os.kill(holder["pid"], signal.SIGKILL)
    settled(boat)
    go.touch()
    assert "interrupted" in site.get(f"/runs/{boat.id}").words
    assert site.post(f"/runs/{boat.id}/resume", {}).status in (303, 409)
    assert settled(boat).gate is not None
