"""Facts as HTML: whole pages for the server, their live part, and the page of a run as one file (PAGE-01, PAGE-03)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from interlock.cli import text
from interlock.web.prose import plain, prose

if TYPE_CHECKING:
    from jinja2 import Environment

FILES = Path(__file__).parent / "static"
MEDIA = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
MARKS = {"works": "▸", "waits": "?", "failed": "✕", "done": "✓", "quiet": "·"}


@dataclass(frozen=True)
class Visit:
    """Who looks at a page."""

    person: str
    token: str
    """Stands in every form, against forged ones."""
    named: bool = False
    """A proxy says who it is."""


def render(name: str, visit: Visit | None, **facts: Any) -> str:
    """A page.

    Args:
        visit: None for the one file, and for who is not let in: there are no forms and no live part.
    """
    given = {"served": visit is not None, "whole": False, "notice": "", "stream": "", "version": "", **facts}
    return _environment().get_template(f"{name}.html").render(visit=visit, **given)


def live_part(name: str, visit: Visit, **facts: Any) -> str:
    """What of a page is kept up to date."""
    return _environment().get_template(f"{name}_live.html").render(visit=visit, served=True, whole=False, **facts)


def one_file(**facts: Any) -> str:
    """The page of a run with everything inside: no server, no script, nothing from elsewhere."""
    return render("run", None, **facts, whole=True)


@lru_cache(maxsize=1)
def static() -> Mapping[str, bytes]:
    """The files that pages refer to."""
    return {file.name: file.read_bytes() for file in FILES.iterdir() if file.suffix in MEDIA}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("interlock.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {"clock": _clock, "moment": _moment, "running": text.running, "duration": text.duration}
    made.filters |= {"size": text.size, "amount": text.amount, "named": _named, "prose": prose, "at": _at}
    made.globals |= {
        "MARKS": MARKS,
        "file": lambda name: f"/static/{name}?{hashlib.sha256(static()[name]).hexdigest()[:12]}",
        "css": Markup(static()["page.css"].decode()),
        "policy": _one_file_policy(),
        "count": text.count,
        "line": text.line,
    }
    return made


def _one_file_policy() -> str:
    """What a browser may do with the one file: show it, in our own style."""
    digest = base64.b64encode(hashlib.sha256(static()["page.css"]).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'"


def _shown(value: object) -> object:
    """Whatever a page shows: no control character gets into it, whoever wrote it."""
    if isinstance(value, Markup):
        return Markup(plain(str(value)))
    return plain(value) if isinstance(value, str) else value


def _named(path: str) -> str:
    """A path on one line, so that it is seen whatever it is: in quotes where blanks are at its ends."""
    shown = plain(path).replace("\n", "\\n").replace("\t", "\\t")
    return shown if shown and shown == shown.strip() else f'"{shown}"'


def _at(name: str) -> str:
    """Part of an address."""
    return quote(name, safe="", errors="surrogatepass")


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M")


def _moment(at: datetime) -> str:
    """Day and time; of today the time alone."""
    local = at.astimezone()
    today = datetime.now().astimezone().date() == local.date()
    return local.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")
