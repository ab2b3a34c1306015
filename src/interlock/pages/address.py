"""Where each page is: templates link to these addresses, and the server routes them."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def board(**query: str) -> str:
    """The board; `query` as `BoardQuery` reads it."""
    said = urlencode({name: value for name, value in query.items() if value})
    return f"/?{said}" if said else "/"


def board_stream(**query: str) -> str:
    return f"/stream{board(**query)[1:]}"


def start(workspace: str, playbook: str = "") -> str:
    """The form that starts a run; without a playbook, the list of them."""
    return f"/{_name(workspace)}/start" + (f"/{_name(playbook)}" if playbook else "")


def run(workspace: str, run_id: str) -> str:
    return f"/{_name(workspace)}/runs/{_name(run_id)}"


def run_stream(workspace: str, run_id: str, since: str = "") -> str:
    place = f"{run(workspace, run_id)}/stream"
    return f"{place}?{urlencode({'since': since})}" if since else place


def report(workspace: str, run_id: str) -> str:
    """The run page as one file."""
    return f"{run(workspace, run_id)}/report.html"


def patch(workspace: str, run_id: str) -> str:
    """All that a run changed, for `git apply`."""
    return f"{run(workspace, run_id)}/changes.patch"


def dispatch(workspace: str, run_id: str, key: str, page: int | None = None) -> str:
    """A dispatch by its key; `page` is that of its transcript, from 0."""
    place = f"{run(workspace, run_id)}/dispatches/{_name(key, safe='/')}"
    return place if page is None else f"{place}?page={page}#transcript"


def dispatch_stream(workspace: str, run_id: str, key: str, since: str = "") -> str:
    said = urlencode({"dispatch": key, "since": since}, errors="replace")
    return f"{run(workspace, run_id)}/stream?{said}"


def gate(workspace: str, run_id: str) -> str:
    """The question at which a run waits; a decision is posted there."""
    return f"{run(workspace, run_id)}/gate"


def act(workspace: str, run_id: str, what: str) -> str:
    """Where `cancel`, `resume` and `retry` are posted."""
    return f"{run(workspace, run_id)}/{_name(what)}"


def static(name: str) -> str:
    return f"/static/{_name(name)}"


def _name(text: str, safe: str = "") -> str:
    """A name in an address; one that is no text at all is spelled somehow, so that the page is still made."""
    try:
        return quote(text, safe=safe, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(text, safe=safe, errors="replace")
