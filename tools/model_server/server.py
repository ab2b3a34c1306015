"""The HTTP part: one application that speaks every dialect and keeps a log."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from interlock.errors import BadInput
from tools.model_server.conversation import Answer, Conversation, Refusal, Turn, Usage
from tools.model_server.dialects import Anthropic, ChatCompletions, Dialect, Gemini, Ids, Responses
from tools.model_server.script import Script

MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5.5", "gemini-2.5-pro", "scripted")
"""What the model lists name; any other name is answered too."""


@dataclass(frozen=True)
class Entry:
    """One request, as the model saw it."""

    method: str
    path: str
    dialect: str | None = None
    """None: a request that belongs to no dialect, answered with 404."""
    model: str = ""
    system: str = ""
    human: str = ""
    earlier: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    """`text`, `tool`, `arguments` of a turn; `status`, `message` of a refusal."""


class ModelServer:
    """A scripted model behind the URLs of the real services."""

    def __init__(self, script: Script, meanwhile: Callable[[str], None] = lambda _name: None) -> None:
        self._script = script
        self._meanwhile = meanwhile
        self._entries: list[Entry] = []
        self._asked: Counter[str] = Counter()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The requests so far, oldest first."""
        return tuple(self._entries)

    def app(self) -> Starlette:
        """The application."""
        routes = [Route("/log", self._log), Route("/v1beta/models", _models)]
        for prefix in ("", "/v1"):  # some clients bring the version in their base URL, some do not
            routes += [
                Route(f"{prefix}/models", _models),
                Route(f"{prefix}/messages/count_tokens", _count_anthropic, methods=["POST"]),
                self._route(f"{prefix}/messages", Anthropic()),
                self._route(f"{prefix}/chat/completions", ChatCompletions()),
                self._route(f"{prefix}/responses", Responses()),
            ]
        routes.append(Route("/v1beta/models/{model}:{verb}", self._gemini, methods=["POST"]))
        routes.append(Route("/{rest:path}", self._unknown, methods=["GET", "HEAD", "POST", "PUT", "DELETE"]))
        return Starlette(routes=routes)

    def _route(self, path: str, dialect: Dialect) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            return await self._answer(request, dialect, body, streaming=bool(body.get("stream")))

        return Route(path, endpoint, methods=["POST"])

    async def _gemini(self, request: Request) -> Response:
        model, verb = request.path_params["model"], request.path_params["verb"]
        body = {**await _body(request), "model": model}
        if verb == "countTokens":
            return JSONResponse({"totalTokens": Usage().input})
        return await self._answer(request, Gemini(), body, streaming=verb == "streamGenerateContent")

    async def _answer(self, request: Request, dialect: Dialect, body: dict[str, Any], *, streaming: bool) -> Response:
        talk = _read(dialect, body)
        answer = self._decide(talk)
        ids = Ids(len(self._entries) + 1)
        self._entries.append(_entry(request, dialect, talk, answer))
        await asyncio.sleep(answer.delay_s)
        for name in answer.meanwhile:
            await asyncio.to_thread(self._meanwhile, name)
        if isinstance(answer, Refusal):
            refused = dialect.refused(answer, ids)
            return JSONResponse(refused.body, answer.status, dict(refused.headers))
        headers = {"request-id": ids("req_"), "x-request-id": ids("req_")}
        if not streaming:
            return JSONResponse(dialect.whole(answer, talk.model, ids), headers=headers)
        events = b"".join(event.encode() for event in dialect.stream(answer, talk.model, ids))
        return StreamingResponse(iter((events,)), media_type="text/event-stream", headers=headers)

    def _decide(self, talk: Conversation) -> Answer:
        place = hashlib.sha256(repr((talk.human, talk.results, bool(talk.tools))).encode()).hexdigest()
        asked_before = self._asked[place]
        self._asked[place] += 1
        try:
            return self._script.answer(talk, asked_before)
        except BadInput as error:
            # loudly: no client tries a bad request again
            return Refusal(HTTPStatus.BAD_REQUEST, f"{error.what} ({error.where})")

    async def _log(self, request: Request) -> Response:
        return JSONResponse([asdict(entry) for entry in self._entries])

    async def _unknown(self, request: Request) -> Response:
        self._entries.append(Entry(request.method, request.url.path))
        return JSONResponse({"error": {"message": f"there is no {request.url.path} here"}}, HTTPStatus.NOT_FOUND)


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return body


def _read(dialect: Dialect, body: dict[str, Any]) -> Conversation:
    try:
        return dialect.read(body)
    except (AttributeError, KeyError, TypeError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"this is no {dialect.name} request: {error!r}") from error


async def _models(request: Request) -> Response:
    listed = [{"id": name, "object": "model", "type": "model", "display_name": name, "created": 0} for name in MODELS]
    names = [{"name": f"models/{name}"} for name in MODELS]
    return JSONResponse({"object": "list", "data": listed, "models": names, "has_more": False})


async def _count_anthropic(request: Request) -> Response:
    return JSONResponse({"input_tokens": Usage().input})


def _entry(request: Request, dialect: Dialect, talk: Conversation, answer: Answer) -> Entry:
    return Entry(
        method=request.method,
        path=request.url.path,
        dialect=dialect.name,
        model=talk.model,
        system=talk.system,
        human=talk.human,
        earlier=talk.earlier,
        results=talk.results,
        tools=tuple(tool.name for tool in talk.tools),
        answer=_described(answer),
    )


def _described(answer: Answer) -> dict[str, Any]:
    match answer:
        case Turn(text, None):
            return {"text": text}
        case Turn(text, call) if call is not None:
            return {"text": text, "tool": call.tool.name, "arguments": json.loads(json.dumps(call.arguments))}
        case Refusal(status, message):
            return {"status": status, "message": message}
    raise AssertionError(answer)
