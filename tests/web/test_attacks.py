"""Who may not come in, and what is refused: other sites, other names, other programs of this machine."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from interlock.web.guarding import POLICY
from tests.web.conftest import Client, Place, Site

ELSEWHERE = "https://evil.example"


def approving(client: Client, place: Place, run_id: str) -> dict[str, str]:
    """The form of the gate, filled in."""
    page = client.get(f"/{place.name}/runs/{run_id}/gate")
    assert page.status == 200, page.text
    names = ("token", "gate", "opening", "seen")
    return {**{name: page.field(name) for name in names}, "choice": "approve", "note": ""}


@pytest.fixture
def gate(place: Place, site: Site) -> Any:
    """A client that came in, the address of a gate, and its form filled in: an approval, if it were sent."""
    run_id = place.waiting()
    client = site.client()
    form = approving(client, place, run_id)
    yield client, f"/{place.name}/runs/{run_id}/gate", form, run_id
    assert place.decisions(run_id) == []


@pytest.mark.req("WB-08")
def test_without_a_cookie_there_is_nothing(site: Site, place: Place, gate: Any) -> None:
    """Missing, forged, or somebody else's: 401, nothing of a run is said, and the form decides nothing."""
    client, path, form, run_id = gate
    name = client.cookie.partition("=")[0]
    for cookie in (
        "",
        f"{name}=",
        f"{name}={'A' * 43}",
        f"{name}=../../../etc/passwd",
        "other=1",
        "=;=;,",
        f'{name}="',
    ):
        stranger = Client(site.port, site.origin, cookie)
        for where in ("/", path, f"/{place.name}/runs/{run_id}", "/stream", f"/{place.name}/start/ship", "/nowhere"):
            got = stranger.get(where)
            assert (got.status, "kite" in got.text, run_id in got.text) == (401, False, False), (cookie, where)
        assert stranger.post(path, form).status == 401


@pytest.mark.req("WB-08")
def test_nobody_is_locked_out_by_cookies_of_others(site: Site) -> None:
    """A server under a sibling of our name can set some for all of them: ours counts all the same, theirs do not."""
    client = site.client()
    name = client.cookie.partition("=")[0]
    for cookies in (f"{name}=x; {client.cookie}", f"{client.cookie}; {name}=x", f'a b"=[;{client.cookie};,=\\'):
        assert Client(site.port, site.origin, cookies).get("/").status == 200, cookies
    assert Client(site.port, site.origin, f"{name}=x; {name}=; x{client.cookie}").get("/").status == 401


@pytest.mark.req("WB-08")
def test_an_address_lets_one_browser_in_once(site: Site) -> None:
    """The cookie that it becomes is HttpOnly and SameSite=Strict; used again, or guessed, it lets nobody in."""
    parts = urlsplit(site.invitation())
    client = Client(site.port, site.origin)
    assert client.get("/enter?token=" + "A" * 43).status == 401
    assert client.ask("HEAD", f"{parts.path}?{parts.query}").status == 401
    first = client.get(f"{parts.path}?{parts.query}")
    flags = {flag.strip().lower() for flag in first.headers["set-cookie"].split(";")[1:]}
    assert (first.status, first.location) == (303, "/")
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    again = client.get(f"{parts.path}?{parts.query}")
    assert (again.status, "set-cookie" in again.headers) == (401, False)


@pytest.mark.req("WB-08")
def test_another_name_for_this_machine_gets_nothing(site: Site, gate: Any) -> None:
    """DNS rebinding: a name of somebody else that leads here, with our own cookie; also the bare address and port."""
    client, path, form, _ = gate
    own = urlsplit(site.origin).netloc
    others = ["evil.example", f"evil.example:{site.port}", f"127.0.0.1:{site.port}", f"localhost:{site.port}", "", None]
    others += [f"{own}.evil.example", f"x.{own}", own.partition(":")[0], f"{own}@evil.example", own.upper() + "x"]
    for host in others:
        got = client.get("/", Host=host)
        assert got.status in (400, 421), host
        assert own.partition(":")[0] not in got.text
        assert client.post(path, form, Host=host).status in (400, 421)
        assert client.post(path, form, Host=host, Origin=f"http://{host}").status in (400, 421)


@pytest.mark.req("WB-08")
def test_no_other_site_can_ask_for_anything(site: Site, gate: Any) -> None:
    """Another origin, none, `null`, another port of this machine: refused although the cookie is right."""
    client, path, form, _ = gate
    name = urlsplit(site.origin).hostname
    for origin in (
        ELSEWHERE,
        None,
        "null",
        f"http://{name}:1",
        f"https://{name}:{site.port}",
        f"{site.origin}.evil.example",
    ):
        assert client.post(path, form, Origin=origin).status == 403, origin
    for relation in ("cross-site", "same-site"):
        assert client.post(path, form, Sec_Fetch_Site=relation).status == 403
        assert client.get("/stream", Sec_Fetch_Site=relation, Sec_Fetch_Mode="cors").status == 403
        assert client.get("/", Sec_Fetch_Site=relation, Sec_Fetch_Mode="no-cors").status == 403


@pytest.mark.req("WB-08")
def test_a_form_that_is_not_ours_decides_nothing(gate: Any) -> None:
    """Without the token of the form, with another one, or in a format that other sites can send unasked."""
    client, path, form, _ = gate
    assert client.post(path, {**form, "token": ""}).status == 403
    assert client.post(path, {**form, "token": "0" * 64}).status == 403
    assert client.post(path, {name: value for name, value in form.items() if name != "token"}).status == 403
    assert (
        client.ask("POST", path, json.dumps(form).encode(), Origin=client.origin, Content_Type="text/plain").status
        == 415
    )
    assert client.post(path, {**form, "note": "x" * 1_100_000}).status == 413
    assert client.post(path, {**form, **{f"n{number}": "" for number in range(1000)}}).status == 413
    assert client.post(path, {**form, "seen": "[" * 100_000}).status == 400
    assert client.post(path, {**form, "opening": "9" * 5000}).status == 400
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.ask(method, path, Origin=client.origin).status == 405


@pytest.mark.req("WB-08")
def test_a_link_from_elsewhere_leads_here_but_asks_for_nothing(site: Site) -> None:
    """The cookie is not sent with it: the page comes back once by itself, and then it is."""
    got = Client(site.port, site.origin).get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert (got.status, 'http-equiv="refresh"' in got.text) == (401, True)
    again = Client(site.port, site.origin).get("/", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="navigate")
    assert (again.status, 'http-equiv="refresh"' in again.text) == (401, False)


@pytest.mark.req("WB-08", "WB-01")
def test_every_answer_says_what_it_may_load(site: Site, place: Place, gate: Any) -> None:
    """Nothing from another host and nothing inline, on pages, errors, refusals and files alike."""
    client, path, _, run_id = gate
    run = f"/{place.name}/runs/{run_id}"
    answers = [
        client.get(where) for where in ("/", run, path, f"/{place.name}/start/ship", "/nowhere", f"{run}/report.html")
    ]
    answers += [client.get("/", Host="evil.example"), client.post(path, {}), Client(site.port, site.origin).get("/")]
    for got in answers:
        assert got.headers["content-security-policy"] == POLICY
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cache-control"] == "no-store"
        assert "server" not in got.headers
    for got in answers[:5]:
        assert not re.findall(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|javascript:", got.text)
        assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", got.text)


@pytest.mark.req("WB-08", "WB-04")
def test_addresses_lead_nowhere_else(site: Site, place: Place, gate: Any) -> None:
    """Run ids, keys of dispatches, names of files and workspaces: no way out of their folders, encoded or not."""
    client, _, _, run_id = gate
    (place.root / "secret.txt").write_text("the secret", "utf-8")
    (place.folder("outside")).symlink_to(place.folder(run_id))
    up = "../" * 8
    for part in (
        "..",
        ".",
        "%2e%2e",
        f"..%2f..%2f{run_id}",
        "outside",
        "latest",
        run_id[:-1],
        f"{run_id}%00",
        "%ff",
        ".",
    ):
        for where in (
            f"/{place.name}/runs/{part}",
            f"/{place.name}/runs/{part}/gate",
            f"/{place.name}/runs/{part}/report.html",
        ):
            assert client.get(where).status in (404, 405), where
    for key in (
        f"{up}secret.txt",
        quote(f"{up}secret.txt", safe=""),
        "..",
        "plan",
        "plan/../plan/planner",
        "%00",
        "plan//planner",
    ):
        got = client.get(f"/{place.name}/runs/{run_id}/dispatches/{key}")
        assert (got.status, "the secret" in got.text) == (404, False), key
    for name in (
        "../__init__.py",
        "%2e%2e%2frendering.py",
        "..%5crendering.py",
        "",
        "%00",
        "/etc/passwd",
        "nothing.css",
    ):
        assert client.get(f"/static/{name}").status == 404, name
    for workspace in ("..", "%2e%2e", "nobody", quote(str(place.root), safe="")):
        assert client.get(f"/{workspace}/runs/{run_id}").status == 404, workspace
    for playbook in ("nothing", "..%2fship", quote(str(place.root / "evil.py"), safe=""), ".%2fevil.py"):
        assert client.get(f"/{place.name}/start/{playbook}").status in (404, 422), playbook
