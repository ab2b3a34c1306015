"""Who may not come in, and what is refused: other sites, other names, other programs of this machine (PAGE-02)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from starlette.datastructures import Headers

from interlock.errors import ConfigInvalid
from interlock.web.guarding import POLICY, Proxy
from tests.cli.conftest import CommandLine
from tests.web.conftest import ORIGIN, Site

pytestmark = pytest.mark.req("PAGE-02")
OWN = urlsplit(ORIGIN).netloc
ELSEWHERE = "https://evil.example"
SECRET = "0123456789abcdef"

REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    # a name of somebody else that leads to this machine, with our own cookie; also the bare address
    "another name": ("GET", {"host": "evil.example"}, 421),
    "the address": ("GET", {"host": "127.0.0.1:8765"}, 421),
    "localhost": ("GET", {"host": "localhost:8765"}, 421),
    "a name below ours": ("GET", {"host": f"x.{OWN}"}, 421),
    "a name that begins with ours": ("GET", {"host": f"{OWN}.evil.example"}, 421),
    "no name": ("GET", {"host": None}, 421),
    "two names": ("GET", {"host": [OWN, "evil.example"]}, 421),
    "another name, its own form": ("POST", {"host": "evil.example", "origin": "http://evil.example"}, 421),
    # forms of other sites, of no site, of another port or scheme of ours
    "another site": ("POST", {"origin": ELSEWHERE}, 403),
    "no site": ("POST", {"origin": None}, 403),
    "a site without a name": ("POST", {"origin": "null"}, 403),
    "another port": ("POST", {"origin": ORIGIN.replace("8765", "1")}, 403),
    "another scheme": ("POST", {"origin": ORIGIN.replace("http:", "https:")}, 403),
    "a site that begins like ours": ("POST", {"origin": f"{ORIGIN}.evil.example"}, 403),
    "two sites": ("POST", {"origin": [ORIGIN, ELSEWHERE]}, 403),
    "sent by another site": ("POST", {"sec_fetch_site": "cross-site"}, 403),
    "sent by a sibling": ("POST", {"sec_fetch_site": "same-site"}, 403),
    "looked at by another site": ("GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}, 403),
    "in a page of another site": ("GET", {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"}, 403),
    # who is not let in
    "no cookie": ("GET", {"cookie": None}, 401),
    "an empty cookie": ("GET", {"cookie": "interlock="}, 401),
    "a cookie of chance": ("GET", {"cookie": f"interlock={'A' * 43}"}, 401),
    "no cookie at all": ("GET", {"cookie": "=;=;,"}, 401),
    "a form without a cookie": ("POST", {"cookie": None}, 401),
    **{f"by {method}": (method, {"origin": ORIGIN}, 405) for method in ("PUT", "DELETE", "PATCH", "OPTIONS")},
}


def test_what_is_no_request_of_our_own_pages_gets_nothing(site: Site) -> None:
    """No word of a run is said, nothing is decided, and the answer is dressed like every other."""
    form, run = site.deciding(), site.at("ship")
    for why, (method, headers, status) in REFUSED.items():
        pages = ("/", run, f"{run}/gate", f"/stream{run}", "/start/ship") if method == "GET" else (f"{run}/gate",)
        for where in pages:
            got = site.post(where, form, **headers) if method == "POST" else site.ask(method, where, **headers)
            said = (got.status, "kite" in got.text, OWN.partition(":")[0] in got.text)
            assert said == (status, False, False), (why, where)
            assert got.header("content-security-policy") == POLICY
    assert site.entry("ship").folder.messages() == []


FORMS: dict[str, tuple[dict[str, Any], int]] = {
    "too deep": ({"seen": "[" * 100_000}, 400),
    "a number too long": ({"seen": json.dumps({"opening": "9" * 5000, "shown": {}})}, 400),
    "nothing was seen": ({"seen": ""}, 400),
    "seen, but no object": ({"seen": "[]"}, 400),
    "seen, but no documents": ({"seen": '{"opening": 1, "shown": []}'}, 400),
    "another opening": ({"seen": '{"opening": 2, "shown": {}}'}, 409),
    "no document was seen": ({"seen": '{"opening": 1, "shown": {}}'}, 409),
    "another document": ({"seen": '{"opening": 1, "shown": {"plan.md": "0"}}'}, 409),
    "no choice": ({"choice": " "}, 400),
    "another choice": ({"choice": "later"}, 409),
    "a rejection without words": ({"choice": "reject", "note": " \r\n"}, 409),
}


@pytest.mark.req("PERSON-01")
def test_a_form_that_is_not_whole_decides_nothing(site: Site) -> None:
    whole = site.deciding()
    for why, (changed, status) in FORMS.items():
        got = site.post(site.at("ship", "/gate"), {**whole, **changed})
        assert (got.status, "This is how it stands now." in got.words) == (status, status == 409), why
    assert site.entry("ship").folder.messages() == []


def test_an_address_lets_one_browser_in_once(site: Site) -> None:
    """The cookie that it becomes is for this server alone; used again, or guessed, it lets nobody in."""
    address = f"/enter?token={site.browsers.token()}"
    assert site.get("/enter?token=" + "A" * 43, cookie=None).status == 401
    assert site.ask("HEAD", address, cookie=None).status == 401
    first = site.get(address, cookie=None)
    flags = {flag.strip().lower() for flag in first.header("set-cookie").split(";")[1:]}
    assert (first.status, first.header("location"), site.entered) == (303, "/", 2)
    assert flags == {"httponly", "samesite=strict", "path=/"}, "a session's: it does not outlive the browser"
    again = site.get(address, cookie=None)
    assert (again.status, again.header("set-cookie")) == (401, "")
    assert Site(site.interlock).get("/", cookie=first.header("set-cookie").partition(";")[0]).status == 401


def test_nobody_is_locked_out_by_cookies_of_others(site: Site) -> None:
    """A server under a sibling of our name can set some for all of them: ours counts all the same, theirs do not."""
    for cookies in (f"interlock=x; {site.cookie}", f"{site.cookie}; interlock=x", f'a b"=[;{site.cookie};,=\\'):
        assert site.get("/", cookie=cookies).status == 200, cookies
    assert site.get("/", cookie=["interlock=x", site.cookie]).status == 200
    assert site.get("/", cookie=f"interlock=x; interlock=; x{site.cookie}").status == 401


def test_a_link_from_elsewhere_leads_here_but_asks_for_nothing(site: Site) -> None:
    """The cookie is not sent with it: the page comes back once by itself, and then it is."""
    for came, comes_back in (("cross-site", True), ("same-site", True), ("same-origin", False), ("none", False)):
        got = site.get("/", cookie=None, sec_fetch_site=came, sec_fetch_mode="navigate")
        assert (got.status, 'http-equiv="refresh"' in got.text) == (401, comes_back), came
    assert site.get("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200


def test_every_answer_says_what_it_may_load(site: Site) -> None:
    """Nothing from another host and nothing inline, on pages, errors, refusals and files alike."""
    run = site.at("ship")
    pages = ["/", run, f"{run}/gate", f"{run}/diff", site.dispatch("planner", "ship"), "/start", "/start/ship", "/none"]
    answers = [*map(site.get, pages), site.get("/", host="evil.example"), site.get("/", cookie=None)]
    answers += [site.post(run, {}), site.get("/static/page.css"), site.get(f"{run}/changes.patch")]
    for got in answers:
        assert got.header("content-security-policy") == POLICY
        assert got.header("x-content-type-options") == "nosniff"
        assert (got.header("cache-control"), got.header("referrer-policy")) == ("no-store", "same-origin")
        if got.header("content-type").startswith("text/html"):
            assert not re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", got.text)
            assert not re.findall(r"(?:src|action)=\"(?:https?:)?//", got.text)
    assert "default-src 'none'" in POLICY and "unsafe" not in POLICY


def test_addresses_lead_nowhere_else(site: Site) -> None:
    """Run ids, keys of dispatches, names of files and playbooks: no way out of their folders, encoded or not."""
    entry = site.entry("ship")
    site.interlock.write("secret.txt", "the secret")
    entry.path.with_name("outside").symlink_to(entry.path)
    up = "../" * 8
    runs = ("..", ".", "%2e%2e", f"..%2f..%2f{entry.id}", "outside", "latest", entry.id[:-1], f"{entry.id}%00", "%ff")
    keys = (f"{up}secret.txt", quote(f"{up}secret.txt", safe=""), "..", "plan", "planner%23%31/../planner", "%00", "")
    files = ("../__init__.py", "%2e%2e%2frendering.py", "..%5crendering.py", "", "%00", "/etc/passwd", "nothing.css")
    books = ("nothing", "..%2fship", quote(str(site.interlock.top / "evil.py"), safe=""), ".%2fevil.py")
    every = [f"/runs/{run}{more}" for run in runs for more in ("", "/gate", "/diff", "/changes.patch")]
    every += [f"/stream/runs/{run}" for run in runs]
    every += [f"/runs/{entry.id}/dispatches/{key}" for key in keys]
    every += [f"/static/{name}" for name in files] + [f"/start/{name}" for name in books]
    for where in every:
        got = site.get(where)
        assert (got.status in (404, 409), "the secret" in got.text) == (True, False), where


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n", "ascii")
    return file


PROXIED: dict[str, tuple[list[tuple[str, str]], str | None]] = {
    "named": ([("x-interlock-proxy-secret", SECRET), ("x-user", " ada ")], "ada"),
    "no secret": ([("x-user", "ada")], None),
    "another secret": ([("x-interlock-proxy-secret", SECRET[:-1]), ("x-user", "ada")], None),
    "nobody": ([("x-interlock-proxy-secret", SECRET), ("x-user", " ")], None),
    "not said": ([("x-interlock-proxy-secret", SECRET)], None),
    # of two names the first would be the one that the browser made up
    "two names": ([("x-interlock-proxy-secret", SECRET), ("x-user", "root"), ("x-user", "ada")], None),
    "two secrets": ([("x-interlock-proxy-secret", "x"), ("x-interlock-proxy-secret", SECRET), ("x-user", "ada")], None),
    "a name that hides": ([("x-interlock-proxy-secret", SECRET), ("x-user", "ada\x1b[2J")], None),
    "a name too long": ([("x-interlock-proxy-secret", SECRET), ("x-user", "a" * 201)], None),
}


def test_whom_a_proxy_names(secret: Path, tmp_path: Path) -> None:
    proxy = Proxy.of("X-User", secret, tmp_path / "work")
    for why, (headers, person) in PROXIED.items():
        raw = [(name.encode(), value.encode()) for name, value in headers]
        assert proxy.person(Headers(raw=raw)) == person, why
    assert SECRET not in repr(proxy)


@pytest.mark.req("PERSON-01")
def test_behind_a_proxy_the_person_is_whom_it_names(interlock: CommandLine, secret: Path, tmp_path: Path) -> None:
    """Tokens and cookies count nothing there; who decided is recorded."""
    site = Site(interlock, Proxy.of("X-User", secret, tmp_path / "work"), "https://interlock.example.org")
    ada: dict[str, Any] = {"x_interlock_proxy_secret": SECRET, "x_user": "ada@example.org"}
    run = site.at("ship")
    assert site.get("/").status == 401
    assert site.get(f"/enter?token={site.browsers.token()}").status == 401
    form = {"seen": site.get(f"{run}/gate", **ada).field("seen"), "choice": "reject", "note": "no"}
    assert site.post(f"{run}/gate", form, **ada, origin="https://evil.example").status == 403
    assert site.post(f"{run}/gate", form, **ada).status == 303
    decided = next(iter(site.entry("ship").view().gates.values())).decision
    assert decided is not None
    assert (decided.who, decided.choice) == ("ada@example.org", "reject")


def test_a_secret_that_is_none_is_refused(secret: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="agents can read it"):
        Proxy.of("X-User", secret, tmp_path)
    for content in ("short", "two\nlines of a secret", "", "naïve-and-long-enough"):
        secret.write_text(content)
        with pytest.raises(ConfigInvalid) as refused:
            Proxy.of("X-User", secret, tmp_path / "work")
        assert content.strip() not in str(refused.value.parts()) or not content
