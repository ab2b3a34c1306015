"""Views as HTML: whole pages for the server, their live parts, and the run page as one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from interlock.engine.folder import KnownRun
from interlock.errors import InterlockError
from interlock.pages import address
from interlock.pages.board import BoardView
from interlock.pages.dispatch import DispatchView, dispatch_keys, view_of
from interlock.pages.gate import GateView
from interlock.pages.prose import listed_words, plain
from interlock.pages.run import RunView, run_view
from interlock.pages.shelf import Shelf, Visit
from interlock.pages.start import MessageView, StartView
from interlock.telemetry import MARKS, STEP_MARKS, Tone, clock, cost_line, counted, in_words, printable

if TYPE_CHECKING:
    from jinja2 import Environment

PageView = BoardView | RunView | DispatchView | GateView | StartView | MessageView
TEMPLATES = {
    BoardView: "board.html.j2",
    RunView: "run.html.j2",
    DispatchView: "dispatch.html.j2",
    GateView: "gate.html.j2",
    StartView: "start.html.j2",
    MessageView: "message.html.j2",
}
PARTS: Mapping[type, tuple[str, ...]] = {
    BoardView: ("board-waiting", "board-working", "board-past"),
    RunView: (
        "run-head",
        "run-steps",
        "run-now",
        "run-contents",
        "run-timeline",
        "run-dispatches",
        "run-decisions",
        "run-checks",
        "run-changes",
        "run-documents",
        "run-spending",
        "run-log",
    ),
    DispatchView: ("dispatch",),
}
"""The parts of a page that its stream keeps up to date: ids of elements, each a template of its own."""
MEDIA = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
LONGEST_PATH = 5000
IN_ONE_FILE = 400
"""Dispatches that the one file has in full; of more, those that did not go well and the first ones."""


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    media_type: str


def static_file(name: str) -> StaticFile | None:
    """A file that pages refer to; None for anything else."""
    if name not in _static():
        return None
    return StaticFile(_static()[name], next(media for ending, media in MEDIA.items() if name.endswith(ending)))


@lru_cache(maxsize=1)
def _static() -> Mapping[str, bytes]:
    folder = resources.files(__package__).joinpath("static")
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith(tuple(MEDIA))}


def render(view: PageView, visit: Visit, notice: str = "") -> str:
    """A whole page.

    Args:
        notice: a sentence on top of it, such as why a decision was refused.
    """
    return _environment().get_template(TEMPLATES[type(view)]).render(**_context(view, visit), notice=notice)


def parts(view: PageView, visit: Visit) -> dict[str, str]:
    """The live parts of a page, each by its id."""
    context = _context(view, visit)
    found = PARTS.get(type(view), ())
    return {name: _environment().get_template(f"parts/{name}.html.j2").render(context) for name in found}


def one_file(view: RunView, dispatches: Iterable[DispatchView], left_out: int = 0) -> str:
    """The run page with everything inside: no server, no script, nothing from elsewhere.

    Args:
        left_out: how many dispatches the run has beside these.
    """
    whole = tuple(dispatches)
    numbers = {one.key: f"dispatch-{number}" for number, one in enumerate(whole, 1)}
    context = _context(view, None) | {"whole": whole, "numbers": numbers, "left_out": left_out, "notice": ""}
    return _environment().get_template(TEMPLATES[RunView]).render(context)


def one_file_of(shelf: Shelf, known: KnownRun, holder: str | None = None) -> str:
    """The run page of a run as one file."""
    view = run_view(shelf, known, holder)
    lines = known.folder.lines()
    keys = dispatch_keys(lines)
    bad = {one.key for one in view.dispatches if one.tone is Tone.FAILED}
    chosen = set(sorted(keys, key=lambda key: key not in bad)[:IN_ONE_FILE])
    found = []
    for key in keys:
        if key in chosen:
            try:
                found.append(view_of(shelf, known, lines, key, holder=holder))
            except (InterlockError, OSError):
                continue
    return one_file(view, found, len(keys) - len(found))


def _context(view: PageView, visit: Visit | None) -> dict[str, Any]:
    return {
        "view": view,
        "visit": visit,
        "part_names": PARTS.get(type(view), ()),
        "numbers": {},
        "whole": (),
    }


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("interlock.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {"clock": clock, "in_words": in_words, "printable": printable, "listed_words": listed_words}
    environment.filters |= {"named": named}
    environment.globals |= {
        "address": address,
        "MARKS": MARKS,
        "STEP_MARKS": STEP_MARKS,
        "cost_line": cost_line,
        "counted": counted,
        "static": _versioned,
        "css": Markup(_static()["pages.css"].decode()),
        "one_file_policy": _one_file_policy(),
    }
    return environment


def _one_file_policy() -> str:
    """What a browser may do with the run page as one file: show it, in our own style."""
    digest = base64.b64encode(hashlib.sha256(_static()["pages.css"]).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'none'; base-uri 'none'"


def _versioned(name: str) -> str:
    """The address of a static file; another one when the file is another."""
    return f"{address.static(name)}?{hashlib.sha256(_static()[name]).hexdigest()[:12]}"


def named(path: str) -> str:
    """A path on one line, so that it is seen whatever it is: in quotes where blanks are at its ends."""
    shown = printable(path, LONGEST_PATH)
    return shown if shown and shown == shown.strip() else f'"{shown}"'


def _shown(value: object) -> object:
    """Whatever a page shows: no control character gets into it, whoever wrote it."""
    if isinstance(value, Markup):
        return Markup(plain(str(value)))
    return plain(value) if isinstance(value, str) else value
