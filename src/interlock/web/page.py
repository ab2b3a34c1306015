"""The page: what each address answers. It renders what is on disk, and acts by the command line (PAGE-01)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from interlock.cli.commands import options_of
from interlock.cli.failures import told
from interlock.engine.runs import Entry
from interlock.errors import InterlockError, Refused
from interlock.web.acting import Form, answer, words
from interlock.web.board import board
from interlock.web.dispatch import dispatch_page
from interlock.web.gate import gate_page
from interlock.web.guarding import Guard
from interlock.web.live import Live, version
from interlock.web.rendering import MEDIA, render, static
from interlock.web.run import head, run_page
from interlock.web.shelf import Shelf


@dataclass(frozen=True)
class Shown:
    """A page that can be watched."""

    name: str
    stamp: Callable[[], tuple[Any, ...]]
    facts: Callable[[], Mapping[str, Any]]
    live: bool = True


class Page:
    """Answers that read files are plain functions: they are given off the loop, side by side."""

    def __init__(self, folder: Path, **guard: Any) -> None:
        """
        Args:
            guard: who is let in, and under which address.
        """
        self._shelf = Shelf(folder)
        self.live = Live()
        run, post = "/runs/{run}", ["POST"]
        routes = [
            *self._watched("/", self._board),
            *self._watched(run, self._run),
            *self._watched(f"{run}/dispatches/{{key:path}}", self._dispatch),
            Route("/static/{name}", _static),
            Route("/start", self._offers),
            Route("/start/{playbook:path}", self._form),
            Route("/start/{playbook:path}", _posted(self._start), methods=post),
            Route(f"{run}/diff", self._diff),
            Route(f"{run}/changes.patch", self._patch),
            Route(f"{run}/gate", self._gate),
            Route(f"{run}/gate", _posted(self._decide), methods=post),
            Route(f"{run}/cancel", _posted(self._cancel), methods=post),
            Route(f"{run}/resume", _posted(self._resume), methods=post),
        ]
        handlers: Any = {HTTPException: _not_done, InterlockError: _refused, Exception: _fault}
        middleware = [Middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)]
        self.app = Guard(Starlette(routes=routes, exception_handlers=handlers, middleware=middleware), **guard)

    # --- looking

    def _watched(self, path: str, shown: Callable[[Request], Shown]) -> list[Route]:
        """A page, and the stream of its live part."""

        def whole(request: Request) -> Response:
            page = shown(request)
            now = version(page.stamp())  # before the page is made: what changes meanwhile is news
            query = f"?{request.url.query}" if request.url.query else ""
            stream = f"/stream{request.url.path}{query}" if page.live else ""
            return _page(page.name, request, **page.facts(), stream=stream, version=now)

        async def stream(request: Request) -> Response:
            page, person = await asyncio.to_thread(shown, request), request.state.person
            asked = tuple(one for one in request.query_params.multi_items() if one[0] != "since")
            seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
            part = lambda: render(f"{page.name}_live", person, **page.facts())  # noqa: E731
            events = self.live.events((request.url.path, asked, person), page.stamp, part, seen)
            return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

        return [Route(path, whole), Route(f"/stream{path}", stream)]

    def _found(self, request: Request) -> Entry:
        try:
            return self._shelf.find(request.path_params["run"])
        except Refused:
            raise HTTPException(404) from None

    def _board(self, request: Request) -> Shown:
        words, number = request.query_params.get("q", "")[:200], _number(request, "page") or 0
        return Shown("board", self._shelf.stamp, partial(board, self._shelf, words, number))

    def _run(self, request: Request) -> Shown:
        entry = self._found(request)
        facts = partial(run_page, self._shelf, entry, _number(request, "page"))
        return Shown("run", partial(self._shelf.run_stamp, entry), facts)

    def _dispatch(self, request: Request) -> Shown:
        entry, key = self._found(request), request.path_params["key"]
        call = self._shelf.view(entry).calls.get(key)
        if call is None:
            raise HTTPException(404)
        facts = partial(dispatch_page, self._shelf, entry, key, _number(request, "call"), _number(request, "page"))
        return Shown("dispatch", partial(self._shelf.run_stamp, entry), facts, live=call.report is None)

    def _diff(self, request: Request) -> Response:
        entry = self._found(request)
        view = self._shelf.view(entry)
        return _page("diff", request, **head(entry, view), changes=self._shelf.changes(view))

    def _patch(self, request: Request) -> Response:
        entry = self._found(request)
        named = {"content-disposition": f'attachment; filename="{entry.id}.patch"'}
        return Response(self._shelf.patch(self._shelf.view(entry)), media_type="text/plain", headers=named)

    # --- what people do to a run

    def _gate(self, request: Request, form: Form | None = None, notice: str = "", status: int = 200) -> Response:
        facts = gate_page(self._shelf, self._found(request))
        if facts is None and not notice:
            return _to(request.path_params["run"])
        if facts is None:
            raise Refused(notice)
        filled = {"choice": "", "note": "", **(form or {})}
        return _page("gate", request, status, **facts, filled=filled, notice=notice)

    def _decide(self, request: Request, form: Form) -> Response:
        """Recorded for exactly what was shown; the run goes on with it, unless somebody works on it."""
        entry = self._found(request)
        try:
            seen = json.loads(form["seen"])
            opening, shown = int(seen["opening"]), {str(path): str(one) for path, one in seen["shown"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HTTPException(400) from None
        if entry.is_far:  # it went there after this was shown: a word said here would be lost
            remedy = f"Bring it here: interlock fleet take {entry.id}"
            raise Refused("nothing was decided: the run is elsewhere", remedy=remedy)
        choice, note = form.get("choice", ""), form.get("note", "")
        if not choice:
            return self._gate(request, form, "Nothing was decided: an answer is needed.", 400)
        facts: Any = {"choice": choice, "opening": opening, "shown": shown, "by": request.state.person}
        what: Any = choice if choice in ("approve", "reject") else "answer"
        try:
            self._shelf.door.place.decide(entry, what, note=note, **facts)
        except InterlockError as error:
            return self._gate(request, form, f"Nothing was decided: {error.what}. This is how it stands now.", 409)
        return self._run_on(entry)

    def _run_on(self, entry: Entry, *words: str) -> Response:
        if entry.holder() is None:
            answer(self._shelf.folder, "resume", "--detach", "--json", *words, "--", entry.id)
        return _to(entry.id)

    def _resume(self, request: Request, form: Form) -> Response:
        note = [f"--note={form['note']}"] if form.get("note") else []
        return self._run_on(self._found(request), *note)

    def _cancel(self, request: Request, form: Form) -> Response:
        entry = self._found(request)
        answer(self._shelf.folder, "cancel", "--json", "--", entry.id)
        return _to(entry.id)

    # --- starting

    def _offers(self, request: Request) -> Response:
        return _page("start", request, offers=self._shelf.door.place.library.offered(), playbook=None)

    def _form(self, request: Request, form: Form | None = None, status: int = 200, **more: Any) -> Response:
        playbook = self._shelf.door.place.playbook(request.path_params["playbook"])
        facts = {"problem": "", "plan": None, "planned": "", "changed": False, **more}
        filled = {name: said for name, said in (form or {}).items() if said}
        return _page("start", request, status, playbook=playbook, fields=options_of(playbook), filled=filled, **facts)

    def _start(self, request: Request, form: Form) -> Response:
        """Show what the run would take; once that was seen for the same inputs, start it."""
        name, folder = request.path_params["playbook"], self._shelf.folder
        said = words(options_of(self._shelf.door.place.playbook(name)), form)
        planned, now = form.get("planned"), version(said)
        try:
            if form.get("do") == "start" and planned == now:
                return _to(answer(folder, "run", name, "--detach", *said)["run_id"])
            plan = answer(folder, "plan", name, *said)
        except Refused as error:
            return self._form(request, form, 409, problem=error.what)
        return self._form(request, form, plan=plan, planned=now, changed=bool(planned))


def _page(name: str, request: Request, code: int = 200, /, **facts: Any) -> Response:
    person = getattr(request.state, "person", None)  # files are for everybody
    return HTMLResponse(render(name, person, **facts), code)


def _to(run: str) -> Response:
    return RedirectResponse(f"/runs/{run}", 303)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in static():
        raise HTTPException(404)
    kept = {"cache-control": "private, max-age=86400"} if request.url.query else {}
    return Response(static()[name], media_type=MEDIA[Path(name).suffix], headers=kept)


def _posted(answer: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Answers a form; not among those who look, since a command may take long."""

    async def posted(request: Request) -> Response:
        form = parse_qsl((await request.body()).decode("utf-8", "replace"))
        plain = {name: said.replace("\r\n", "\n").strip() for name, said in form}
        return await run_in_threadpool(answer, request, plain)

    return posted


def _number(request: Request, name: str) -> int | None:
    said = request.query_params.get(name, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 9 else None


# --- what goes wrong


async def _not_done(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_gone = error.status_code == 404
    title = "There is no such page" if is_gone else f"That cannot be done: {error.detail}"
    said = "" if is_gone else "Go back, load the page anew and try again."
    return _page("message", request, error.status_code, title=title, said=said)


async def _refused(request: Request, error: Exception) -> Response:
    """What, where, what was expected and found, what to do; all that is wrong at once (CLI-05)."""
    assert isinstance(error, InterlockError)
    said = "\n".join(row for one in (error, *error.also) for row in told(one)).removeprefix("Error: ")
    title, _, said = said.partition("\n")
    return _page("message", request, 409, title=title, said=said)


async def _fault(request: Request, _error: Exception) -> Response:
    return _page("message", request, 500, title="The page has a fault", said="No run is touched by it. Load it anew.")
