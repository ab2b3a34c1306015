"""Facts as HTML: whole pages for the server, their live part, and the page of a run as one file (PAGE-01, PAGE-03)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
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
MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MARKS = {"works": "▸", "waits": "?", "failed": "✕", "done": "✓", "quiet": "·"}


def render(name: str, person: str | None, /, *, whole: bool = False, **facts: Any) -> str:
    """A page.

    Args:
        person: who looks at it; None for who is not let in, and for the one file: there are no forms and no live part.
        whole: the one file, with everything inside: no server, no script, nothing from elsewhere.
    """
    given = {"notice": "", "stream": "", "version": "", **facts}
    return _environment().get_template(f"{name}.html").render(person=person, whole=whole, **given)


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
        # Whatever a page shows: no control character gets into it, whoever wrote it.
        finalize=lambda value: plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    made.filters |= {"moment": _moment, "running": text.running, "duration": text.duration, "line": text.line}
    made.filters |= {"named": _named, "prose": prose, "at": lambda name: quote(name, safe="", errors="surrogatepass")}
    style = static()["page.css"]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    made.globals |= {
        "MARKS": MARKS,
        "file": lambda name: f"/static/{name}?{hashlib.sha256(static()[name]).hexdigest()[:12]}",
        "css": Markup(style.decode()),
        # What a browser may do with the one file: show it, in our own style.
        "policy": f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'",
        "count": text.count,
    }
    return made


def _named(path: str) -> str:
    """A path on one line, so that it is seen whatever it is: in quotes where blanks are at its ends."""
    shown = plain(path).replace("\n", "\\n").replace("\t", "\\t")
    return shown if shown and shown == shown.strip() else f'"{shown}"'


def _moment(at: datetime) -> str:
    """Day and time; of today the time alone."""
    local = at.astimezone()
    today = datetime.now().astimezone().date() == local.date()
    return local.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")
