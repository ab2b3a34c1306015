"""The page: what each address answers. It renders what is on disk, and acts by the command line (PAGE-01)."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from interlock.errors import InterlockError, Locked, Refused
from interlock.web.acting import Answer, CommandLine
from interlock.web.board import Asked, board
from interlock.web.dispatch import dispatch_page
from interlock.web.gate import gate_page
from interlock.web.guarding import Guard, Threshold
from interlock.web.live import Live, LivePage, version
from interlock.web.rendering import MEDIA, Visit, live_part, render, static
from interlock.web.run import head, heading, run_page
from interlock.web.shelf import Known, Shelf

FORM_BYTES = 1_000_000
MOST_FIELDS = 500
READERS = 4
"""Threads that read files and make pages."""
Form = Mapping[str, list[str]]
_T = TypeVar("_T")


class Page:
    def __init__(self, folder: Path, threshold: Threshold) -> None:
        self._shelf = Shelf(folder)
        self._say = CommandLine(folder)
        self._executor = ThreadPoolExecutor(READERS, "page")
        self.live = Live(self._executor)
        run, post = "/runs/{run}", ["POST"]
        routes = [
            Route("/", self._board),
            Route("/stream", self._board_stream),
            Route("/static/{name}", _static),
            Route("/start", self._offers),
            Route("/start/{playbook:path}", self._form),
            Route("/start/{playbook:path}", self._start, methods=post),
            Route(run, self._run),
            Route(f"{run}/stream", self._run_stream),
            Route(f"{run}/diff", self._diff),
            Route(f"{run}/changes.patch", self._patch),
            Route(f"{run}/gate", self._gate),
            Route(f"{run}/gate", self._decide, methods=post),
            Route(f"{run}/cancel", self._act("cancel"), methods=post),
            Route(f"{run}/resume", self._act("resume", "--detach"), methods=post),
            Route(f"{run}/dispatches/{{key:path}}", self._dispatch),
        ]
        handlers: Any = {HTTPException: _not_found, InterlockError: _refused, Exception: _fault}
        middleware = [Middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)]
        inner = Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)
        self.app = Guard(inner, threshold)

    async def _off(self, work: Callable[..., _T], *given: Any, **named: Any) -> _T:
        """Do what reads files or makes pages off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(work, *given, **named))

    # --- the board

    async def _board(self, request: Request) -> Response:
        asked, visit = Asked.of(request.query_params), visit_of(request)

        def made() -> str:
            now = version(self._shelf.stamp())
            return render("board", visit, **board(self._shelf, asked), stream=f"/stream{asked.query()}", version=now)

        return HTMLResponse(await self._off(made))

    async def _board_stream(self, request: Request) -> Response:
        asked, visit = Asked.of(request.query_params), visit_of(request)
        part = lambda: live_part("board", visit, **board(self._shelf, asked))  # noqa: E731
        return self._stream(request, ("board", asked, visit.person), LivePage(self._shelf.stamp, part))

    def _stream(self, request: Request, key: tuple[Any, ...], page: LivePage) -> Response:
        seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
        events = self.live.events(key, page, seen, request.is_disconnected)
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    # --- a run

    def _found(self, request: Request) -> Known:
        try:
            return self._shelf.find(request.path_params["run"])
        except Refused:
            raise HTTPException(404) from None

    async def _run(self, request: Request) -> Response:
        return HTMLResponse(await self._off(self._shown_run, request))

    def _shown_run(self, request: Request, notice: str = "") -> str:
        known, page = self._found(request), _number(request, "page")
        now = version(self._shelf.run_stamp(known.entry))
        stream = f"/runs/{known.entry.id}/stream{'' if page is None else f'?page={page}'}"
        facts = run_page(self._shelf, known, page=page)
        return render("run", visit_of(request), **facts, stream=stream, version=now, notice=notice)

    async def _run_stream(self, request: Request) -> Response:
        known, visit, page = await self._off(self._found, request), visit_of(request), _number(request, "page")
        key = request.query_params.get("key", "")
        stamp = partial(self._shelf.run_stamp, known.entry)
        if key:
            part = lambda: live_part("dispatch", visit, **dispatch_page(self._shelf, known, key, None, None))  # noqa: E731
        else:
            part = lambda: live_part("run", visit, **run_page(self._shelf, known, page=page))  # noqa: E731
        return self._stream(request, (known.entry.path, key, page, visit.person), LivePage(stamp, part))

    async def _diff(self, request: Request) -> Response:
        def made() -> str:
            known = self._found(request)
            view = self._shelf.view(known.entry)
            stands = view.status_now(known.entry.holder() is not None)
            facts = head(self._shelf, known, view, stands)
            return render("diff", visit_of(request), **facts, changes=self._shelf.changes(view), open=60)

        return HTMLResponse(await self._off(made))

    async def _patch(self, request: Request) -> Response:
        known = await self._off(self._found, request)
        patch = await self._off(lambda: self._shelf.patch(self._shelf.view(known.entry)))
        named = {"content-disposition": f'attachment; filename="{known.entry.id}.patch"'}
        return Response(patch, media_type="text/plain", headers=named)

    async def _dispatch(self, request: Request) -> Response:
        number, page, key = _number(request, "call"), _number(request, "page"), request.path_params["key"]

        def made() -> str:
            known = self._found(request)
            now = version(self._shelf.run_stamp(known.entry))
            try:
                facts = dispatch_page(self._shelf, known, key, number, page)
            except Refused:
                raise HTTPException(404) from None
            live = facts["live"] and number is None and page is None
            stream = f"/runs/{known.entry.id}/stream" if live else ""
            return render("dispatch", visit_of(request), **facts, stream=stream, version=now)

        return HTMLResponse(await self._off(made))

    # --- what people do to a run

    async def _gate(self, request: Request) -> Response:
        return await self._shown_gate(request)

    async def _shown_gate(self, request: Request, notice: str = "", status: int = 200) -> Response:
        known = await self._off(self._found, request)
        facts = await self._off(gate_page, self._shelf, known)
        if facts is not None:
            return HTMLResponse(await self._off(render, "gate", visit_of(request), **facts, notice=notice), status)
        if notice:
            return HTMLResponse(await self._off(self._shown_run, request, notice), status)
        return RedirectResponse(f"/runs/{known.entry.id}", 303)

    async def _decide(self, request: Request) -> Response:
        known, form, visit = await self._off(self._found, request), await read_form(request), visit_of(request)
        try:
            seen = json.loads(_one(form, "seen"))
            opening, shown = int(seen["opening"]), {str(path): str(one) for path, one in seen["shown"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HTTPException(400) from None
        choice, note = (_one(form, name).replace("\r\n", "\n").strip() for name in ("choice", "note"))
        if not choice:
            return await self._shown_gate(request, "Nothing was decided: an answer is needed.", 400)
        bound = json.dumps({"opening": opening, "shown": shown})
        verb = choice if choice in ("approve", "reject") else "answer"
        said = [verb, f"--seen={bound}", *([f"--note={note}"] if note else []), "--detach", "--json", "--"]
        rest = [known.entry.id, *([choice] if verb == "answer" else [])]
        answer = await self._say(*said, *rest, by=visit.person if visit.named else "")
        if answer.trouble:
            return await self._shown_gate(request, _undecided(answer), 409)
        return RedirectResponse(f"/runs/{known.entry.id}", 303)

    def _act(self, *words: str) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            known, form, visit = await self._off(self._found, request), await read_form(request), visit_of(request)
            note = _one(form, "note").replace("\r\n", "\n").strip()
            said = [*words, *([f"--note={note}"] if note and words[0] == "resume" else []), "--json", "--"]
            answer = await self._say(*said, known.entry.id, by=visit.person if visit.named else "")
            if answer.trouble:
                return HTMLResponse(await self._off(self._shown_run, request, "\n".join(answer.trouble)), 409)
            return RedirectResponse(f"/runs/{known.entry.id}", 303)

        return act

    # --- starting

    async def _offers(self, request: Request) -> Response:
        from interlock.web.starting import offers

        listed = await self._off(offers, self._shelf)
        return HTMLResponse(await self._off(render, "start", visit_of(request), offers=listed, playbook=None))

    async def _form(self, request: Request) -> Response:
        return await self._shown_form(request, None)

    async def _shown_form(self, request: Request, filled: Form | None, status: int = 200, **more: Any) -> Response:
        from interlock.web.starting import fields

        def made() -> str:
            playbook = self._shelf.door.place.playbook(request.path_params["playbook"])
            facts = {"problem": [], "plan": None, "planned": "", "changed": False, **more}
            known = fields(playbook, filled)
            return render("start", visit_of(request), offers=[], playbook=playbook, fields=known, **facts)

        return HTMLResponse(await self._off(made), status)

    async def _start(self, request: Request) -> Response:
        """Show what the run would take; once that was seen for the same inputs, start it."""
        from interlock.web.starting import Typed, fields, plan

        filled, name, visit = await read_form(request), request.path_params["playbook"], visit_of(request)
        known = await self._off(lambda: fields(self._shelf.door.place.playbook(name), filled))
        typed = Typed.of(known)
        if _one(filled, "do") == "start" and _one(filled, "planned") == typed.digest:
            words = typed.words("run", name, "--detach")
            answer = await self._say(*words, by=visit.person if visit.named else "")
            if not answer.trouble and answer.run:
                return RedirectResponse(f"/runs/{answer.run}", 303)
        else:
            answer = await self._say(*typed.words("plan", name))
            if not answer.trouble:
                changed = bool(_one(filled, "planned"))
                shown = {"plan": plan(answer.facts), "planned": typed.digest, "changed": changed}
                return await self._shown_form(request, filled, **shown)
        return await self._shown_form(request, filled, 409, problem=answer.trouble or ["It has ended at once."])


def _undecided(answer: Answer) -> str:
    return "\n".join([*answer.trouble, "This is how it stands now."])


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in static():
        raise HTTPException(404)
    kept = {"cache-control": "private, max-age=86400"} if request.url.query else {}
    return Response(static()[name], media_type=MEDIA[Path(name).suffix], headers=kept)


def visit_of(request: Request) -> Visit:
    visit = request.state.visit
    assert isinstance(visit, Visit)
    return visit


async def read_form(request: Request) -> Form:
    """What a form of ours says; 403 for one that is not, 413 for one that is too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise HTTPException(413)
    try:
        form = parse_qs(bytes(body).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:  # too many fields
        raise HTTPException(413) from None
    if not hmac.compare_digest(visit_of(request).token.encode(), _one(form, "token").encode()):
        raise HTTPException(403)
    return form


def _one(form: Form, name: str) -> str:
    return (form.get(name) or [""])[0]


def _number(request: Request, name: str) -> int | None:
    said = request.query_params.get(name, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 9 else None


# --- what goes wrong

TITLES = {
    400: "This form cannot be read",
    403: "This form is not one of ours",
    404: "There is no such page",
    405: "That cannot be done here",
    413: "This is too much at once",
    415: "This form cannot be read",
}


def _message(request: Request, status: int, title: str, rows: list[str], remedy: str = "") -> Response:
    visit = getattr(request.state, "visit", None)
    return HTMLResponse(render("message", visit, title=title, rows=rows, remedy=remedy), status)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    remedy = "Go back, load the page anew and try again." if error.status_code != 404 else ""
    return _message(request, error.status_code, TITLES.get(error.status_code, "That cannot be done"), [], remedy)


async def _refused(request: Request, error: Exception) -> Response:
    """What, where, what was expected and found, what to do; all that is wrong at once (CLI-05)."""
    assert isinstance(error, InterlockError)
    more = [f"{label}: {said}" for label, said in error.parts() if label != "to do"]
    more += [f"{one.what} {one.where or ''}" for one in error.also]
    status = 409 if isinstance(error, (Refused, Locked)) else 422
    return _message(request, status, error.what, more, error.remedy or "")


async def _fault(request: Request, _error: Exception) -> Response:
    return _message(request, 500, "The page has a fault", ["No run is touched by it."], "Load it anew.")
