"""The words of the five playbooks for how a call ended (spec: common.md 3.1)."""

from __future__ import annotations

from interlock.contracts.answer import AnswerFormat
from interlock.contracts.outcome import Outcome

OK, REVISE, FAIL, BLOCKED = Outcome.OK, Outcome.REVISE, Outcome.FAIL, Outcome.BLOCKED

ROADMAP = AnswerFormat({"success": OK, "needs_revision": REVISE, "blocked": BLOCKED}, "success", completion="text")

HARNESS = AnswerFormat(
    {"completed": OK, "error": FAIL, "failed": FAIL, "blocked": BLOCKED},
    "completed",
    completion="text",
    artifact_is_verdict=True,
)

FEATURE = AnswerFormat({"DONE": OK, "NEEDS_REVISION": REVISE, "ERROR": FAIL}, "DONE", completion="line")

_ROUTER = {"completed": OK, "partial": REVISE, "failed": FAIL, "blocked": BLOCKED}
ROUTER_JSON = AnswerFormat(_ROUTER, "completed", completion="json", late="partial")
ROUTER_TEXT = AnswerFormat(_ROUTER, "completed", completion="text", late="partial", exit_is_verdict=True)

TICKET_TASK = AnswerFormat(
    {"SYNTAX_VALID": OK, "ACCEPTED": OK, "REJECTED": REVISE, "SYNTAX_ERROR": FAIL, "ERROR": FAIL},
    "SYNTAX_VALID",
    completion="text",
)

TICKET_ARTIFACT = AnswerFormat(
    {"ACCEPTED": OK, "REJECTED": REVISE, "ERROR": FAIL}, "ACCEPTED", completion="none", artifact_is_verdict=True
)
"""Interpreter, Initializer, Planner, Splitter, Reviewer: what they write is what they say."""
