"""The page: which address shows what, and what people can do there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from interlock.commanding import CommandLine, Reply
from interlock.engine.folder import KnownRun
from interlock.errors import InterlockError, Locked, Refused
from interlock.pages import (
    BoardQuery,
    GateView,
    MessageView,
    StartView,
    Visit,
    address,
    board_view,
    dispatch_view,
    gate_view,
    one_file_of,
    out_of_reach,
    parts,
    render,
    run_view,
    static_file,
    whole_patch,
)
from interlock.telemetry import WaitingGate, waiting_gate
from interlock.web.acting import Decision
from interlock.web.guarding import Guard, Threshold
from interlock.web.index import RunSource, Stamp, version
from interlock.web.live import Live, LivePage
from interlock.web.renewing import Renewing

T = TypeVar("T")

FORM_BYTES: Final = 1_000_000
LOOKS: Final = 3
"""A gate whose documents change while it is read is opened anew so often, then it is said."""
WORKERS: Final = 4


class Page:
    """The runs of some sources, for browsers."""

    def __init__(self, sources: Iterable[RunSource], threshold: Threshold, command_line: CommandLine) -> None:
        self._sources = {one.shelf.name: one for one in sources}
        self.renewing = Renewing((one.shelf.root for one in self._sources.values()), command_line.environ)
        self._threshold, self._say = threshold, command_line
        self._executor = ThreadPoolExecutor(WORKERS, "page")
        self.live = Live(self._executor)
        one_run = "/{workspace}/runs/{run}"
        acts = [Route(f"{one_run}/{what}", self._act(words), methods=["POST"]) for what, words in ACTS.items()]
        routes = [
            Route("/", self._board),
            Route("/stream", self._board_stream),
            Route("/static/{name}", _static),
            Route("/{workspace}/start", self._offers),
            Route("/{workspace}/start/{playbook}", self._form, methods=["GET"]),
            Route("/{workspace}/start/{playbook}", self._start, methods=["POST"]),
            Route(one_run, self._run),
            Route(f"{one_run}/stream", self._run_stream),
            Route(f"{one_run}/report.html", self._report),
            Route(f"{one_run}/changes.patch", self._patch),
            Route(f"{one_run}/gate", self._gate, methods=["GET"]),
            Route(f"{one_run}/gate", self._decide, methods=["POST"]),
            *acts,
            Route(f"{one_run}/dispatches/{{key:path}}", self._dispatch),
        ]
        handlers: dict[Any, Any] = {InterlockError: _refused, HTTPException: _not_found, Exception: _fault}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        self.app = Guard(app, threshold, self._sources)

    async def warm(self) -> None:
        """Read what the board shows before somebody asks for it."""
        await asyncio.gather(*(self._off(source.look) for source in self._sources.values()))

    async def _off(self, work: Callable[..., T], *given: Any) -> T:
        """Do what reads files or makes pages off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *given)

    # -- the board

    def _board_stamp(self) -> Stamp:
        return *(source.stamp() for source in self._sources.values()), self.renewing.away

    def _board_view(self, asked: BoardQuery) -> tuple[Stamp, Any]:
        """The board, and what it was made from: what changes meanwhile is sent again."""
        away = self.renewing.away
        looks = [source.look() for source in self._sources.values()]
        view = board_view([row for _, rows in looks for row in rows], asked, away=away)
        return (*(stamp for stamp, _ in looks), away), view

    async def _board(self, request: Request) -> Response:
        asked = BoardQuery.of(request.query_params)

        def made(visit: Visit) -> str:
            stamp, view = self._board_view(asked)
            return render(view, replace(visit, since=version(stamp)))

        return HTMLResponse(await self._off(made, visit_of(request)))

    async def _board_stream(self, request: Request) -> Response:
        asked, visit = BoardQuery.of(request.query_params), visit_of(request)
        page = LivePage(self._board_stamp, lambda: parts(self._board_view(asked)[1], visit))
        return self._stream(request, ("board", asked, visit.person), page)

    # -- a run

    def _index(self, request: Request) -> RunSource:
        source = self._sources.get(request.path_params["workspace"])
        if source is None:
            raise HTTPException(404)
        return source

    def _find(self, request: Request) -> tuple[RunSource, KnownRun]:
        source = self._index(request)
        try:
            return source, source.find(request.path_params["run"])
        except Refused:
            raise HTTPException(404) from None

    async def _run(self, request: Request) -> Response:
        def made(visit: Visit) -> str:
            source, known = self._find(request)
            now = version(source.run_stamp(known))
            return render(self._run_view(source, known), replace(visit, since=now))

        return HTMLResponse(await self._off(made, visit_of(request)))

    @staticmethod
    def _run_view(source: RunSource, known: KnownRun) -> Any:
        return run_view(source.shelf, known, source.holder(known.identity.run_id))

    async def _run_stream(self, request: Request) -> Response:
        visit = visit_of(request)
        source, known = await self._off(self._find, request)
        key = request.query_params.get("dispatch", "")
        view = partial(self._dispatch_view, source, known, key) if key else partial(self._run_view, source, known)
        page = LivePage(lambda: source.run_stamp(known), lambda: parts(view(), visit))
        return self._stream(request, ("run", source.shelf.name, known.identity.run_id, key, visit.person), page)

    def _stream(self, request: Request, key: tuple[Any, ...], page: LivePage) -> Response:
        seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
        events = self.live.events(key, page, seen, request.is_disconnected)
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _report(self, request: Request) -> Response:
        def made() -> tuple[str, str]:
            source, known = self._find(request)
            return known.identity.run_id, one_file_of(source.shelf, known)

        name, text = await self._off(made)
        headers = {"content-disposition": f'attachment; filename="{name}.html"'}
        return HTMLResponse(text, headers=headers)

    async def _patch(self, request: Request) -> Response:
        def made() -> tuple[str, bytes]:
            source, known = self._find(request)
            return known.identity.run_id, whole_patch(source.shelf, known)

        name, patch = await self._off(made)
        headers = {"content-disposition": f'attachment; filename="{name}.patch"'}
        return Response(patch, media_type="text/plain", headers=headers)

    async def _dispatch(self, request: Request) -> Response:
        number = request.query_params.get("page", "")
        page = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None

        def made(visit: Visit) -> str:
            source, known = self._find(request)
            now = version(source.run_stamp(known))
            try:
                view = self._dispatch_view(source, known, request.path_params["key"], page)
            except Refused:
                raise HTTPException(404) from None
            return render(view, replace(visit, since=now if page is None else ""))

        return HTMLResponse(await self._off(made, visit_of(request)))

    @staticmethod
    def _dispatch_view(source: RunSource, known: KnownRun, key: str, page: int | None = None) -> Any:
        return dispatch_view(source.shelf, known, key, page, source.holder(known.identity.run_id))

    # -- what people do to a run

    async def _gate(self, request: Request) -> Response:
        return await self._shown_gate(request)

    async def _shown_gate(self, request: Request, notice: str = "", status: int = 200) -> Response:
        """The gate as it is now; opened anew where what it shows has changed (EN-29)."""
        source, known = await self._off(self._find, request)
        for _ in range(LOOKS):
            waiting, view = await self._off(_gate_now, source, known)
            if waiting is None or view is None:
                if notice:
                    return HTMLResponse(await self._off(self._told, request, source, known, notice), status)
                return RedirectResponse(address.run(source.shelf.name, known.identity.run_id), 303)
            if json.loads(view.seen) == waiting.digests:
                break
            await self._say(source.shelf.root, "show", known.identity.run_id, "--json")
        else:
            notice = notice or "What this gate shows changes all the time: it cannot be decided about now."
        return HTMLResponse(await self._off(render, view, visit_of(request), notice), status)

    def _told(self, request: Request, source: RunSource, known: KnownRun, notice: str) -> str:
        return render(self._run_view(source, known), visit_of(request), notice)

    async def _decide(self, request: Request) -> Response:
        source, known = await self._off(self._find, request)
        form = await read_form(request)
        try:
            seen, opening = json.loads(_one(form, "seen")), int(_one(form, "opening"))
            if not isinstance(seen, dict):
                raise ValueError(seen)
        except (ValueError, RecursionError):
            raise HTTPException(400) from None
        decision = Decision(
            known.identity.run_id,
            _one(form, "gate"),
            opening,
            {str(path): str(digest) for path, digest in seen.items()},
            _one(form, "choice").replace("\r\n", "\n").strip(),
            _one(form, "note").replace("\r\n", "\n").strip(),
            by=visit_of(request).person if self._threshold.proxy is not None else "",
        )
        if not decision.choice:
            return await self._shown_gate(request, "Nothing was decided: an answer is needed.", 400)
        return await self._done(
            request, source, known, decision.words, lambda said: self._shown_gate(request, _undecided(said), 409)
        )

    def _act(self, words: tuple[str, ...]) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            source, known = await self._off(self._find, request)
            form = await read_form(request)
            note = _one(form, "note").strip()
            said = (*words, *((f"--note={note}",) if note and words[0] == "resume" else ()))

            async def refused(reply: Reply) -> Response:
                return HTMLResponse(await self._off(self._told, request, source, known, reply.trouble), 409)

            return await self._done(request, source, known, (*said, "--", known.identity.run_id), refused)

        return act

    async def _done(
        self,
        request: Request,
        source: RunSource,
        known: KnownRun,
        words: Iterable[str],
        refused: Callable[[Reply], Awaitable[Response]],
    ) -> Response:
        """Say it, and show the run that it is about; or why it was refused."""
        reply = await self._say(source.shelf.root, *words)
        if reply.error is not None:
            return await refused(reply)
        return RedirectResponse(address.run(source.shelf.name, reply.run_id or known.identity.run_id), 303)

    # -- starting

    async def _offers(self, request: Request) -> Response:
        from interlock.web.starting import offers

        source = self._index(request)
        listed = await self._off(offers, source.shelf.root, self._say.environ)
        return HTMLResponse(await self._off(render, StartView(source.shelf.name, listed), visit_of(request)))

    async def _form(self, request: Request) -> Response:
        from interlock.web.starting import Form

        source = self._index(request)
        form = await self._off(Form.of, source.shelf.root, self._say.environ, request.path_params["playbook"])
        return await self._shown_form(request, source, form.shown())

    async def _shown_form(self, request: Request, source: RunSource, form: Any, status: int = 200) -> Response:
        from interlock.web.starting import offers

        listed = await self._off(offers, source.shelf.root, self._say.environ)
        view = StartView(source.shelf.name, listed, form)
        return HTMLResponse(await self._off(render, view, visit_of(request)), status)

    async def _start(self, request: Request) -> Response:
        """Show what the run would take; once that was seen for the same inputs, start it."""
        from interlock.web.starting import Form, foresight

        source, filled = self._index(request), await read_form(request)
        name = request.path_params["playbook"]
        form = await self._off(Form.of, source.shelf.root, self._say.environ, name)
        typed = form.typed(filled)
        shown = form.shown(filled, typed)
        if typed.problems:
            return await self._shown_form(request, source, shown, 400)
        if _one(filled, "do") == "start" and _one(filled, "planned") == typed.digest:
            reply = await self._say(source.shelf.root, *typed.started(form.playbook))
            if reply.error is None and reply.run_id:
                return RedirectResponse(address.run(source.shelf.name, reply.run_id), 303)
        else:
            reply = await self._say(source.shelf.root, *typed.planned(form.playbook))
            if reply.error is None:
                changed = _one(filled, "do") == "start" and bool(_one(filled, "planned"))
                shown = replace(shown, plan=foresight(reply.facts), planned=typed.digest, changed=changed)
                return await self._shown_form(request, source, shown)
        trouble = reply.trouble or str(reply.facts.get("reason") or "It has ended at once.")
        return await self._shown_form(request, source, replace(shown, problem=trouble), 409)


ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cancel": ("cancel", "--json"),
    "resume": ("resume", "--detach", "--json"),
    "retry": ("resume", "--retry", "--detach", "--json"),
}


def _undecided(said: Reply) -> str:
    """Why a decision does not count. What to do about it this page says itself: it shows the gate as it is now."""
    several = [said.error, *said.error.get("also", ())] if said.error is not None else []
    why = [str(one.get("what", "")) for one in several]
    return "\n".join((*why, "Nothing was decided. Below is how it stands now."))


def _gate_now(source: RunSource, known: KnownRun) -> tuple[WaitingGate | None, GateView | None]:
    waiting = waiting_gate(known.folder.lines()) if out_of_reach(known.folder) is None else None
    return waiting, None if waiting is None else gate_view(source.shelf, known, waiting)


async def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    headers = {"cache-control": "private, max-age=86400"} if request.url.query else {}
    return Response(found.content, media_type=found.media_type, headers=headers)


def visit_of(request: Request) -> Visit:
    visit = request.state.visit
    assert isinstance(visit, Visit)
    return visit


async def read_form(request: Request) -> Mapping[str, list[str]]:
    """What a form of ours says; 403 for one that is not, 413 for one that is too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise HTTPException(413)
    try:
        form = parse_qs(bytes(body).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1000)
    except ValueError:  # too many fields
        raise HTTPException(413) from None
    if not is_ours(visit_of(request), _one(form, "token")):
        raise HTTPException(403)
    return form


def is_ours(visit: Visit, token: str) -> bool:
    from hmac import compare_digest

    return visit.may_act and compare_digest(token.encode(), visit.token.encode())


def _one(form: Mapping[str, list[str]], name: str) -> str:
    return (form.get(name) or [""])[0]


# -- what goes wrong


TITLES: Final = {
    400: "This form cannot be read",
    403: "This form is not one of ours",
    404: "There is no such page",
    405: "That cannot be done here",
    413: "This is too much at once",
    415: "This form cannot be read",
}


def _message(request: Request, status: int, title: str, text: str = "", remedy: str = "") -> Response:
    visit = getattr(request.state, "visit", Visit("", "", may_act=False))
    return HTMLResponse(render(MessageView(title, text, remedy), visit), status)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    remedy = "Go back, load the page anew and try again." if error.status_code != 404 else ""
    return _message(request, error.status_code, TITLES.get(error.status_code, "That cannot be done"), "", remedy)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, InterlockError)
    status = 409 if isinstance(error, (Refused, Locked)) else 422
    more = [f"{label}: {text}" for label, text in error.parts() if label != "to do"]
    return _message(request, status, error.what, "\n".join(more), error.remedy or "")


async def _fault(request: Request, _error: Exception) -> Response:
    return _message(request, 500, "The page has a fault", "No run is touched by it.", "Load it anew.")
