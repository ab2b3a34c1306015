"""Refusals as OpenAI's services word them, in both of their dialects."""

from __future__ import annotations

from tools.model_server.conversation import Refusal
from tools.model_server.dialects.dialect import Ids, Refused, seconds

ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def refused(refusal: Refusal, ids: Ids) -> Refused:
    """The error document and its headers."""
    kind, code = ERRORS.get(refusal.status, ("server_error", None))
    headers = {"x-request-id": ids("req_")}
    if after := seconds(refusal):
        headers["retry-after"] = after
    if refusal.status == 429:
        headers |= {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": f"{seconds(refusal) or 60}s",
        }
    return Refused({"error": {"message": refusal.message, "type": kind, "param": None, "code": code}}, headers)
