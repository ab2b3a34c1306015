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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.web.entering import Browsers, Proxy
from interlock.web.rendering import Visit, render

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
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
ENTER, STATIC = "/enter", "/static/"
COMES_BACK = '<meta http-equiv="refresh" content="0">'


def _brought(headers: Headers) -> Iterator[str]:
    """Every cookie of our name: whoever serves something under a sibling of it can have a browser send more."""
    for pair in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == "interlock":
            yield value.strip()


@dataclass(frozen=True)
class Guard:
    """Lets requests through to the page that are what they should be, each with its visit."""

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
        """What is answered instead of the page; None for whom it is meant, whose visit is noted."""
        headers, changes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD")
        if headers.getlist("host") != [urlsplit(self.origin).netloc]:
            return _plain("This page is not served under that name. Open the address that interlock web printed.", 421)
        if changes and headers.getlist("origin") != [self.origin]:
            return _plain("This can only be asked for by the page itself.", 403)
        by_link = not changes and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not by_link:
            return _plain("This can only be asked for by the page itself.", 403)
        if scope["path"] == ENTER and self.proxy is None:
            return self._entered(scope)
        if scope["path"].startswith(STATIC):
            return None
        known = any(map(self.browsers.knows, _brought(headers)))
        person = self.proxy.person(headers) if self.proxy else self.person if known else None
        if person is None:
            return self._stranger(headers)
        visit = Visit(person, self.browsers.form_token(person), named=self.proxy is not None)
        scope.setdefault("state", {})["visit"] = visit
        return None

    def _entered(self, scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookie = self.browsers.enter(token) if scope["method"] == "GET" else None
        if cookie is None:
            return self._stranger(Headers(scope=scope), "This address was used already, or is not one of ours.")
        self.entered()
        response = RedirectResponse("/", 303)
        response.set_cookie("interlock", cookie, path="/", httponly=True, samesite="strict")
        return response

    def _stranger(self, headers: Headers, why: str = "") -> Response:
        """Who is not known is told how to come in; a known browser that came by a link is let try once more.

        SameSite=Strict keeps our cookie from what a link on another site asks for, but not from what our own page does.
        """
        how = (
            "Come through the proxy, which says who you are."
            if self.proxy is not None
            else "Open the address that interlock web printed last, in its terminal. Each lets one browser in."
        )
        why = why or "This page is for whoever serves it."
        page = render("message", None, title="You are not signed in", said=f"{why}\n{how}")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            page = page.replace("</head>", f"{COMES_BACK}</head>", 1)
        return HTMLResponse(page, 401)


def _plain(text: str, status: int) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")
