"""Where the page is served, to whom, and what is refused before it is."""

from __future__ import annotations

import html
import re
import shutil
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.datastructures import Headers

from interlock.web.entering import Proxy, led_to, own_name
from tests.browser import PATIENCE_MS, chromium, tab
from tests.web.conftest import PATIENCE_S, Client, Place, Site, person, until
from tests.web.test_attacks import approving

__all__ = ["chromium"]

SECRET = "s3cret-of-the-proxy-0123456789"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n", "ascii")
    return file


@pytest.mark.req("WB-08")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "is not served to other machines in the clear"),
        (["--host", "192.0.2.1"], "is not served to other machines in the clear"),
        (["--host", "example.org"], "is not served to other machines in the clear"),
        (["--tls-cert", "cert.pem"], "a certificate and its key go together"),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "cannot be used"),
        (["--proxy-user-header", "X-User"], "believed only with its secret"),
        (["--proxy-user-header", "X-User", "--proxy-secret-file", "inside"], "lies in the workspace"),
        (["--proxy-user-header", "X-User", "--proxy-secret-file", "/nowhere"], "cannot be read"),
        (["--origin", "https://example.org/path"], "no address of a page"),
        (["--origin", "javascript:alert(1)"], "no address of a page"),
    ],
)
def test_what_is_not_safe_is_refused(place: Place, words: list[str], said: str) -> None:
    """Exit 2, with what would do; nothing is served."""
    (place.root / "inside").write_text(SECRET, "ascii")
    more = ["--origin", "https://example.org"] if "--proxy-user-header" in words else []
    done = place("web", "--port", "0", *words, *more)
    assert (done.returncode, said in done.stderr, "The page" in done.stdout) == (2, True, False), done.stderr


@pytest.mark.req("WB-08")
def test_it_listens_on_this_machine_alone(place: Place, site: Site) -> None:
    """At both of its own addresses, so that nobody else has the other; a port that is taken is said."""
    import psutil

    found = {
        one.laddr for one in psutil.Process(site.process.pid).net_connections() if one.status == psutil.CONN_LISTEN
    }
    assert {address.ip for address in found} <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in {address.ip for address in found}
    taken = place("web", "--port", str(site.port))
    assert (taken.returncode, "--port 0" in taken.stderr) == (2, True)


@pytest.mark.req("WB-08")
def test_an_agent_cannot_serve_the_page(place: Place) -> None:
    """It would let itself in."""
    place.env["INTERLOCK_DISPATCH"] = "plan/planner#1"
    done = place("web", "--port", "0")
    assert (done.returncode, "only a person may serve the page" in done.stderr) == (2, True)


@pytest.mark.req("WB-08", "WB-05")
def test_behind_a_proxy_the_person_is_whom_it_names(place: Place, secret: Path) -> None:
    """Only with its secret; tokens and cookies count nothing; who decided is recorded, with who serves the page."""
    run_id = place.waiting()
    origin = "https://interlock.example.org"
    words = ("--proxy-user-header", "X-Signed-In", "--proxy-secret-file", str(secret), "--origin", origin)
    site = Site(place, *words)
    assert site.address == origin
    port = next(iter(_ports(site)))
    proxied = {"X-Interlock-Proxy-Secret": SECRET, "X-Signed-In": "ada@example.org"}
    for headers in (
        {},
        {"X-Signed-In": "ada@example.org"},
        {**proxied, "X-Interlock-Proxy-Secret": SECRET[:-1]},
        {**proxied, "X-Signed-In": " "},
    ):
        assert Client(port, origin, always=headers).get("/").status == 401
    client = Client(port, origin, always=proxied)
    form = approving(client, place, run_id)
    path = f"/{place.name}/runs/{run_id}/gate"
    grace = Client(port, origin, always={**proxied, "X-Signed-In": "grace@example.org"})
    assert grace.post(path, form).status == 403
    assert client.post(path, form).status == 303
    (decided,) = place.decisions(run_id)
    assert decided["who"] == f"ada@example.org, by {person()}"
    site.end()


@pytest.mark.req("WB-08")
def test_a_proxy_that_adds_to_what_the_browser_sent_is_not_believed(secret: Path, tmp_path: Path) -> None:
    """Of two names the first would be the one that the browser made up."""
    proxy = Proxy.of("X-Signed-In", secret, [tmp_path / "work"])
    named = [(b"x-interlock-proxy-secret", SECRET.encode()), (b"x-signed-in", b"ada")]
    assert proxy.person(Headers(raw=named)) == "ada"
    assert proxy.person(Headers(raw=[(b"x-signed-in", b"root"), *named])) is None


def _ports(site: Site) -> set[int]:
    import psutil

    found = psutil.Process(site.process.pid).net_connections()
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


@pytest.mark.req("WB-08")
def test_with_a_certificate_other_machines_come_in(place: Place, tmp_path: Path) -> None:
    """Encrypted, at the address that was named; the cookie is Secure and bound to this host."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl is needed: apt-get install openssl"
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([openssl, *made], check=True, capture_output=True)
    unclear = place("web", "--host", "0.0.0.0", "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key))
    assert (unclear.returncode, "under which address" in unclear.stderr) == (2, True)
    site = Site(
        place, "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key), "--origin", "https://localhost"
    )
    port = next(iter(_ports(site)))
    context = ssl.create_default_context(cafile=str(cert))
    request = urllib.request.Request(f"https://localhost:{port}/enter?{site.address.partition('?')[2]}")
    request.add_header("Host", "localhost")

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_given: object) -> None:
            return None

    opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=context))
    with pytest.raises(urllib.error.HTTPError) as answer:
        opener.open(request, timeout=PATIENCE_S)
    cookie = answer.value.headers["set-cookie"]
    answer.value.close()
    assert (answer.value.code, cookie.startswith("__Host-interlock="), "; Secure" in cookie) == (303, True, True)
    site.end()


@pytest.mark.req("WB-01", "WB-08")
def test_a_browser_is_opened_without_telling_anybody_the_address(place: Place, tmp_path: Path) -> None:
    """It gets a file that only this user reads, which leads there, and is gone when the address is used up."""
    heard = tmp_path / "heard"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {heard}.tmp\nmv {heard}.tmp {heard}\n', "ascii")
    browser.chmod(0o755)
    place.env["BROWSER"] = f"{browser} %s"
    site = Site(place, "--open")
    try:
        shown = until(lambda: heard.exists() and heard.read_text().strip(), "a browser is opened")
        token = site.address.partition("token=")[2]
        assert token and token not in shown
        file = Path(shown.removeprefix("file://"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert f'url={html.escape(site.address)}"' in file.read_text("ascii")
        site.client()
        until(lambda: not file.exists(), "the file is gone")
    finally:
        site.end()


@pytest.mark.req("WB-01")
@pytest.mark.long
def test_a_file_that_leads_to_the_page_lets_a_browser_in(place: Place, site: Site, chromium: Browser) -> None:
    """Although it comes from no address at all, and its cookie is kept from other sites."""
    with led_to(place.home, site.invitation()) as file, tab(chromium) as page:
        page.goto(file.as_uri())
        expect(page).to_have_url(f"{site.origin}/")
        expect(page.locator("main")).to_contain_text("There are no runs yet", timeout=PATIENCE_MS)


@pytest.mark.req("WB-08")
def test_the_name_of_the_page_cannot_be_guessed(tmp_path: Path) -> None:
    """128 bits of chance, the same after a restart; a shorter one of before, or nonsense, gives way for good."""
    name = own_name(tmp_path)
    assert re.fullmatch(r"interlock-[0-9a-f]{32}\.localhost", name)
    assert own_name(tmp_path) == name
    for found in ("0123abcd", "", "x" * 32):
        (tmp_path / "name").write_text(found, "ascii")
        renewed = own_name(tmp_path)
        assert (own_name(tmp_path), len(renewed)) == (renewed, len(name))
        assert renewed != name
    assert [one.name for one in tmp_path.iterdir()] == ["name"]
