"""What people do on the page, without a browser: what is decided, started, ended, and what is recorded of it."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.finding.planted import poisoned
from tests.web.conftest import Client, Got, Place, Site, person, until
from tests.web.test_attacks import approving


def started(client: Client, place: Place, playbook: str = "ship", **inputs: str) -> Got:
    """Fill the form in, look at the plan, start."""
    path = f"/{place.name}/start/{playbook}"
    token = client.get(path).field("token")
    planned = client.post(path, {"token": token, "do": "plan", **inputs})
    assert planned.status == 200, planned.text
    return client.post(path, {"token": token, "do": "start", "planned": planned.field("planned"), **inputs})


def run_of(got: Got) -> str:
    assert got.status == 303, got.text
    return got.location.rpartition("/")[2]


@pytest.mark.req("WB-05")
def test_an_approval_is_recorded_and_the_run_goes_on(place: Place, site: Site) -> None:
    """Who, the note, and what was seen stand in the journal; the run goes on in the background by itself."""
    run_id = place.waiting()
    client = site.client()
    got = client.post(
        f"/{place.name}/runs/{run_id}/gate", {**approving(client, place, run_id), "note": "fine\r\nby me"}
    )
    assert run_of(got) == run_id
    until(lambda: place.status(run_id) == "complete", "the run is complete")
    (decided,) = place.decisions(run_id)
    assert (decided["choice"], decided["who"], decided["note"]) == ("approve", person(), "fine\nby me")
    assert (place.root / "built-0.txt").exists()


@pytest.mark.req("WB-05")
def test_what_was_not_seen_is_not_decided(place: Place, site: Site) -> None:
    """A document that changed behind the page: refused, shown anew with its new text, and then it counts."""
    run_id = place.waiting()
    client, path = site.client(), f"/{place.name}/runs/{run_id}/gate"
    form = approving(client, place, run_id)
    (place.root / "plan.md").write_text("# Another plan\n\nWith rockets.\n", "utf-8")
    stale = client.post(path, form)
    assert (stale.status, "With rockets" in stale.text, "changed since" in stale.text) == (409, True, True)
    assert "interlock show" not in stale.text, "the page shows it already"
    assert place.decisions(run_id) == []
    assert place.events(run_id).count("gate.opened") == 2
    still = client.post(path, form)
    assert (still.status, "not as it was shown any more" in still.text) == (409, True)
    anew = approving(client, place, run_id)
    assert anew["seen"] != form["seen"]
    for forged in ({"opening": form["opening"]}, {"seen": form["seen"]}, {"seen": "{}"}, {"gate": "other"}):
        assert client.post(path, {**anew, **forged}).status == 409
    for broken in ({"seen": "["}, {"seen": "[]"}, {"opening": "x"}):
        assert client.post(path, {**anew, **broken}).status == 400
    assert place.decisions(run_id) == []
    assert client.post(path, anew).status == 303
    assert len(place.decisions(run_id)) == 1
    again = client.post(path, anew)
    assert (again.status, "nothing waits for a decision" in again.text) == (409, True)


@pytest.mark.req("WB-05")
def test_rejecting_choosing_and_answering(place: Place, site: Site) -> None:
    """Each choice by its name, a rejection only with a reason, a question without choices by a text."""
    client = site.client()
    rejected, chosen = place.waiting("a kite"), place.waiting("a boat")
    asked = place.json("run", "ship", "a hat", "--how", "by asking")["run_id"]
    form = {**approving(client, place, rejected), "choice": "reject"}
    bare = client.post(f"/{place.name}/runs/{rejected}/gate", form)
    assert (bare.status, "a rejection needs a reason" in bare.text) == (409, True)
    assert client.post(f"/{place.name}/runs/{rejected}/gate", {**form, "note": "no <b>wings</b>"}).status == 303
    assert (
        client.post(f"/{place.name}/runs/{chosen}/gate", {**approving(client, place, chosen), "choice": "later"}).status
        == 303
    )
    nothing = client.post(f"/{place.name}/runs/{asked}/gate", {**approving(client, place, asked), "choice": " "})
    assert nothing.status == 400
    answer = {**approving(client, place, asked), "choice": "--json\r\nblue"}
    assert client.post(f"/{place.name}/runs/{asked}/gate", answer).status == 303
    said = {run: [(one["choice"], one["note"]) for one in place.decisions(run)] for run in (rejected, chosen, asked)}
    assert said == {rejected: [("reject", "no <b>wings</b>")], chosen: [("later", "")], asked: [("--json\nblue", "")]}
    assert "<b>wings" not in client.get(f"/{place.name}/runs/{rejected}").text


@pytest.mark.req("WB-06")
def test_a_run_is_started_from_a_form_after_its_plan(place: Place, site: Site) -> None:
    """Fields by the types of the inputs; the plan comes first, anew when an input changes; then it runs detached."""
    client, path = site.client(), f"/{place.name}/start/ship"
    assert "Plan something, ask a person, build it." in client.get(f"/{place.name}/start").text
    form = client.get(path)
    for piece in (
        'name="what"',
        'type="number"',
        "<option",
        'type="checkbox"',
        'name="parts"',
        "What is to be shipped.",
    ):
        assert piece in form.text, piece
    token = form.field("token")
    inputs = {
        "token": token,
        "what": "a -- kite",
        "times": "2",
        "how": "plainly",
        "hurry": "on",
        "parts": "wing\r\n--tail",
    }
    assert client.post(path, {**inputs, "what": " ", "do": "plan"}).status == 400
    assert client.post(path, {**inputs, "times": "many", "do": "plan"}).status == 400
    unplanned = client.post(path, {**inputs, "do": "start"})
    assert (unplanned.status, "Calls of agents" in unplanned.text) == (200, True)
    other = client.post(path, {**inputs, "times": "3", "do": "start", "planned": unplanned.field("planned")})
    assert (other.status, place.runs()) == (200, [])
    assert "You changed something" in other.text and "You changed something" not in unplanned.text
    run_id = run_of(client.post(path, {**inputs, "do": "start", "planned": unplanned.field("planned")}))
    until(lambda: place.status(run_id) == "complete", "the run is complete")
    given = json.loads((place.folder(run_id) / "run.json").read_bytes())["inputs"]
    assert given == {"what": "a -- kite", "times": 2, "how": "plainly", "hurry": True, "parts": ["wing", "--tail"]}
    again = client.post(path, {**inputs, "do": "plan"})
    assert (again.status, "a -- kite" in again.text) == (200, True)


@pytest.mark.req("WB-06")
def test_what_nobody_trusts_is_not_offered_and_not_loaded(place: Place, site: Site, tmp_path: Any) -> None:
    """Neither for the list, nor for its form, nor to start it; in the words of the command line."""
    folder = place.root / ".interlock/playbooks/evil"
    folder.mkdir()
    text = poisoned(tmp_path / "executed").replace('playbook("ship"', 'playbook("evil"')
    (folder / "playbook.py").write_text(text, "utf-8")
    client = site.client()
    listing = client.get(f"/{place.name}/start")
    assert ("nobody here has trusted yet" in listing.text, "--trust" in listing.text) == (True, True)
    assert (f"/{place.name}/start/evil" in listing.text, f"/{place.name}/start/ship" in listing.text) == (False, True)
    form = client.get(f"/{place.name}/start/evil")
    assert (form.status, "nobody here has trusted yet" in form.text, "--trust" in form.text) == (422, True, True)
    token = client.get(f"/{place.name}/start/ship").field("token")
    assert client.post(f"/{place.name}/start/evil", {"token": token, "do": "start", "what": "x"}).status == 422
    (place.root / ".interlock/playbooks/ship/playbook.py").write_text(poisoned(tmp_path / "executed"), "utf-8")
    changed = client.get(f"/{place.name}/start/ship")
    assert (changed.status, "changed since it was trusted" in changed.text) == (422, True)
    listing = client.get(f"/{place.name}/start")
    assert ("changed since it was trusted" in listing.text, f"/{place.name}/start/ship" in listing.text) == (
        True,
        False,
    )
    assert not (tmp_path / "executed").exists()


@pytest.mark.req("WB-06", "WB-07")
def test_cancel_retry_and_resume(place: Place, site: Site) -> None:
    """A run at work is cancelled, one that failed is done again, one whose process died goes on."""
    client = site.client()

    def act(run_id: str, what: str) -> Got:
        token = client.get(f"/{place.name}/start/ship").field("token")
        return client.post(f"/{place.name}/runs/{run_id}/{what}", {"token": token})

    place.scenario({"agent": "planner", "misbehave": "hang"})
    hung = run_of(started(client, place, what="a kite"))
    assert run_of(act(hung, "cancel")) == hung
    assert place.status(hung) == "stopped"
    refused = act(hung, "resume")
    assert (refused.status, "was cancelled, and that is final" in refused.text) == (409, True)

    place.scenario({"agent": "builder", "exit": 3})
    failed = run_of(started(client, place, what="a boat", hurry="on"))
    until(lambda: place.status(failed) == "failed", "it has failed")
    place.scenario({"agent": "builder", "misbehave": "hang"})
    following = run_of(act(failed, "retry"))
    until(lambda: place.status(following) == "running", "it is at work")
    worker = json.loads(next((place.root / ".interlock/locks").glob("ship-*.json")).read_bytes())["pid"]
    import os

    os.kill(worker, signal.SIGKILL)
    until(lambda: place.status(following) == "interrupted", "its process died")
    place.scenario()
    assert run_of(act(following, "resume")) == following
    until(lambda: place.status(following) == "complete", "it is complete")
    assert client.get(f"/{place.name}/runs/{following}/cancel").status == 405


@pytest.mark.req("WB-07")
def test_no_run_notices_that_the_page_ends(place: Place, site: Site) -> None:
    """Killed or ended, while a run that it started is at work: the run goes on, and the next page shows it."""
    place.scenario({"agent": "planner", "delay_s": 3})
    run_id = run_of(started(site.client(), place, what="a kite", hurry="on"))
    site.kill()
    until(lambda: place.status(run_id) == "complete", "the run is complete")
    assert place.events(run_id).count("run.resumed") == 0
    site.restart()
    assert "complete" in site.client().get(f"/{place.name}/runs/{run_id}").text
    assert site.end() == 0


@pytest.mark.req("WB-01")
def test_several_workspaces_on_one_page(place: Place, tmp_path: Any) -> None:
    """`-C` several times; two of the same name are told apart."""
    other = tmp_path / "elsewhere" / place.name
    other.mkdir(parents=True)
    run_id = place.waiting()
    site = Site(place, "-C", str(place.root), "-C", str(other))
    client = site.client()
    assert client.get(f"/{place.name}/runs/{run_id}").status == 200
    assert client.get(f"/{place.name}-2/runs/{run_id}").status == 404
    assert client.get(f"/{place.name}-2/start").status == 200
    site.end()
