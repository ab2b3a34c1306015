"""What stands before every answer: whose request it is, and whether it is one that our own pages made (PAGE-02).

==================  =====================================================================================
Host                only the name under which the page is reached: another name that leads to this
                    machine (DNS rebinding) gets nothing
Origin              of everything that changes something: our own, exactly one
Sec-Fetch-Site      what a page of somebody else asks for gets nothing; only to come here by a link is fine
cookie, or proxy    who it is; without that there is nothing but the page that says so
Content-Security-   nothing from another host, nothing inline, no frame around us
Policy
==================  =====================================================================================

The page is reached under a name of its own below ``.localhost``, which browsers resolve to this machine.  Cookies know
no ports: under a name that other programs of this machine use too, a browser would hand ours to each of them, also to a
server that an agent started in its layer.  And a browser that still watches hands its cookie to whoever takes the port
when the server has ended: so neither cookie nor name outlives the server that gave it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.documents.files import read_plain
from interlock.errors import ConfigInvalid
from interlock.web.rendering import render

SECRET_HEADER = "x-interlock-proxy-secret"
SHORTEST = 16
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer a browser would send "Origin: null" with our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ENTER, STATIC = "/enter", "/static/"
COMES_BACK = '<meta http-equiv="refresh" content="0">'


def own_name() -> str:
    """A name for a page that nobody can guess: whoever does could set cookies for it."""
    return f"interlock-{secrets.token_hex(16)}.localhost"


class Browsers:
    """One-time words that become cookies, for as long as the server lives; only digests of either are known."""

    def __init__(self) -> None:
        self._tokens: set[bytes] = set()
        self._cookies: set[bytes] = set()

    def token(self) -> str:
        """A word that lets one browser in, once."""
        return _added(self._tokens)

    def enter(self, token: str) -> str | None:
        """The cookie of the browser that brings this word; None for a word that lets nobody in (any more)."""
        if _digest(token) not in self._tokens:
            return None
        self._tokens.discard(_digest(token))
        return _added(self._cookies)

    def knows(self, cookie: str) -> bool:
        return _digest(cookie) in self._cookies


def _added(known: set[bytes]) -> str:
    made = secrets.token_urlsafe(32)
    known.add(_digest(made))
    return made


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy in front, which says who the person is; it alone knows the secret."""

    header: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, header: str, file: Path, top: Path) -> Proxy:
        """`ConfigInvalid` for a secret that cannot be read, is short, or lies where agents read."""
        what, secret = "", ""
        try:
            secret = read_plain(file, limit=4096).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            what = f"cannot be read: {error}"
        if file.resolve().is_relative_to(top.resolve()):
            what = "lies in the workspace, where agents can read it"
        elif not what and (len(secret) < SHORTEST or not secret.isprintable()):
            what = f"is not one line of at least {SHORTEST} characters"
        if what:
            raise ConfigInvalid(
                f"the secret of the proxy {what}",
                where=str(file),
                expected=f"a file outside of the workspace, with one line of at least {SHORTEST} characters",
                remedy=f"For example: openssl rand -hex 32 > FILE; the proxy sends it as the header {SECRET_HEADER}.",
            )
        return cls(header.lower(), secret)

    def person(self, headers: Headers) -> str | None:
        """Who the proxy says it is; None for anybody who does not come through it, or if either is said twice."""
        given, named = headers.getlist(SECRET_HEADER), headers.getlist(self.header)
        if len(given) != 1 or len(named) != 1:
            return None  # a proxy that adds its header to the browser's own lets the browser say who it is
        if not hmac.compare_digest(given[0].encode("latin-1", "replace"), self.secret.encode()):
            return None
        name = named[0].strip()
        return name if name and name.isprintable() and len(name) <= 200 else None


@dataclass(frozen=True)
class Guard:
    """Lets requests through to the page that are what they should be, each with who makes it (`state.person`)."""

    app: ASGIApp
    origin: str
    """Under which browsers reach it, as they say it: scheme, name and, if unusual, port."""
    browsers: Browsers
    person: str
    """Who comes in by a cookie."""
    proxy: Proxy | None = None
    entered: Callable[[], None] = lambda: None
    """Hears that a browser came in: the address that let it in is used up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # a web socket gets nothing
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._stopped(scope) or self.app)(scope, receive, dressed)

    def _stopped(self, scope: Scope) -> Response | None:
        """What is answered instead of the page; None for whom it is meant."""
        headers, changes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD")
        if headers.getlist("host") != [urlsplit(self.origin).netloc]:
            return _plain("This page is not served under that name. Open the address that interlock web printed.", 421)
        by_link = not changes and headers.get("sec-fetch-mode", "navigate") == "navigate"
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not by_link
        if foreign or (changes and headers.getlist("origin") != [self.origin]):
            return _plain("This can only be asked for by the page itself.", 403)
        if scope["path"] == ENTER and self.proxy is None:
            return self._entered(scope)
        if scope["path"].startswith(STATIC):
            return None
        known = any(map(self.browsers.knows, _brought(headers)))
        person = self.proxy.person(headers) if self.proxy else self.person if known else None
        scope.setdefault("state", {})["person"] = person
        return None if person else self._stranger(headers)

    def _entered(self, scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookie = self.browsers.enter(token) if scope["method"] == "GET" else None
        if cookie is None:
            return self._stranger(Headers(scope=scope), "This address was used already, or is not one of ours.")
        self.entered()
        response = RedirectResponse("/", 303)
        response.set_cookie("interlock", cookie, path="/", httponly=True, samesite="strict")
        return response

    def _stranger(self, headers: Headers, why: str = "This page is for whoever serves it.") -> Response:
        """Who is not known is told how to come in; a known browser that came by a link is let try once more.

        SameSite=Strict keeps our cookie from what a link on another site asks for, but not from what our own page does.
        """
        how = "Open the address that interlock web printed last, in its terminal. Each lets one browser in."
        if self.proxy is not None:
            how = "Come through the proxy, which says who you are."
        page = render("message", None, title="You are not signed in", said=f"{why}\n{how}")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            page = page.replace("</head>", f"{COMES_BACK}</head>", 1)
        return HTMLResponse(page, 401)


def _brought(headers: Headers) -> Iterator[str]:
    """Every cookie of our name: whoever serves something under a sibling of it can have a browser send more."""
    for pair in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == "interlock":
            yield value.strip()


def _plain(text: str, status: int) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")
