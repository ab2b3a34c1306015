"""Who is let in: one-time tokens that become cookies, for as long as the server lives; or whom a proxy names (PAGE-02).

The page is reached under a name of its own below ``.localhost``, which browsers resolve to this machine.  Cookies know
no ports: under a name that other programs of this machine use too, a browser would hand ours to each of them, also to a
server that an agent started in its layer.  And a browser that still watches hands its cookie to whoever takes the port
when the server has ended: so no cookie outlives the server that gave it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from starlette.datastructures import Headers

from interlock.documents.files import read_plain, replace
from interlock.errors import ConfigInvalid, WorkspaceFailed

SECRET_HEADER = "x-interlock-proxy-secret"
SHORTEST = 16
NAME_BYTES = 16
"""Of chance in the name: whoever guesses it could set cookies for it."""
LEADS = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={0}"><title>interlock</title></head>'
    '<body><p><a href="{0}">To the page</a></p></body></html>\n'
)


def state_folder(environ: Mapping[str, str], top: Path) -> Path:
    """Where the page keeps its name; never inside of the workspace, where agents read."""
    named = Path(environ.get("XDG_STATE_HOME") or "")
    home = Path(environ.get("HOME") or Path.home())
    folder = (named if named.is_absolute() else home / ".local" / "state") / "interlock" / "web"
    if folder.resolve().is_relative_to(top.resolve()):
        raise ConfigInvalid(
            "the name of the page cannot be kept inside of the workspace",
            where=str(folder),
            expected="a folder of your own that no agent can reach",
            remedy="Set XDG_STATE_HOME to a folder outside of the workspace.",
        )
    return folder


def own_name(folder: Path) -> str:
    """The name under which this user's pages are reached on this machine: the same after a restart, known to nobody."""
    file, known = folder / "name", b""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            known = read_plain(file)
        if not re.fullmatch(rb"[0-9a-f]{32}", known):
            known = secrets.token_hex(NAME_BYTES).encode()
            replace(file, known, mode=0o600, sync=False)
    except OSError as error:
        raise WorkspaceFailed.of(error, "the page cannot keep its name", where=str(folder)) from error
    return f"interlock-{known.decode()}.localhost"


@contextmanager
def led_to(folder: Path, address: str) -> Iterator[Path]:
    """A file that leads a browser to an address, for as long as the block lasts.

    Whoever starts a browser with the address itself shows it to everybody who lists the processes of this machine.
    """
    file = folder / f"open-{secrets.token_hex(8)}.html"
    try:
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(LEADS.format(escape(address)), "ascii")
        yield file
    finally:
        file.unlink(missing_ok=True)


class Browsers:
    """The browsers that were let in; of what they bring, only digests are known."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._cookies: set[str] = set()
        self._key = secrets.token_bytes(32)

    def token(self) -> str:
        """A word that lets one browser in, once."""
        made = secrets.token_urlsafe(32)
        self._tokens.add(_digest(made))
        return made

    def enter(self, token: str) -> str | None:
        """The cookie of the browser that brings this word; None for a word that lets nobody in (any more)."""
        digest = _digest(token)
        if digest not in self._tokens:
            return None
        self._tokens.discard(digest)
        cookie = secrets.token_urlsafe(32)
        self._cookies.add(_digest(cookie))
        return cookie

    def knows(self, cookie: str) -> bool:
        return _digest(cookie) in self._cookies

    def form_token(self, person: str) -> str:
        """What stands in every form that this person is shown, and in none that anybody else makes."""
        return hmac.new(self._key, person.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy in front, which says who the person is; it alone knows the secret."""

    header: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, header: str, file: Path, top: Path) -> Proxy:
        """`ConfigInvalid` for a secret that cannot be read, is short, or lies where agents read."""
        if file.resolve().is_relative_to(top.resolve()):
            raise _no_secret("lies in the workspace, where agents can read it", file)
        try:
            secret = read_plain(file, limit=4096).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _no_secret(f"cannot be read: {error}", file) from error
        if len(secret) < SHORTEST or not secret.isprintable():
            raise _no_secret(f"is not one line of at least {SHORTEST} characters", file)
        return cls(header.lower(), secret)

    def person(self, headers: Headers) -> str | None:
        """Who the proxy says it is; None for anybody who does not come through it, or if either is said twice."""
        given = headers.getlist(SECRET_HEADER)
        named = headers.getlist(self.header)
        if len(given) != 1 or len(named) != 1:
            return None  # a proxy that adds its header to the browser's own lets the browser say who it is
        if not hmac.compare_digest(given[0].encode("latin-1", "replace"), self.secret.encode()):
            return None
        name = named[0].strip()
        return name if name and name.isprintable() and len(name) <= 200 else None


def _no_secret(what: str, file: Path) -> ConfigInvalid:
    return ConfigInvalid(
        f"the secret of the proxy {what}",
        where=str(file),
        expected=f"a file outside of the workspace, with one line of at least {SHORTEST} characters",
        remedy=f"For example: openssl rand -hex 32 > FILE; the proxy sends it as the header {SECRET_HEADER}.",
    )
