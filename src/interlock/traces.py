"""A run as OpenTelemetry has it: run, steps and dispatches as spans, made of its `View` (PAGE-06).

A dispatch is sent when the process in which it ended is done with the run; run and steps, which may take several
processes, with the run's end.  Ids follow from the run's name and the keys: one trace in however many processes.
Attributes follow the conventions for generative AI.  What people and agents wrote is not sent.

Only who sends traces imports this module: it needs the extra `otel`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from interlock.engine.view import CallView, StepView, View

TIMEOUT_S = 5
"""As long as a collector may take: whoever ends waits no longer."""
RELEASE = version("interlock")
RESOURCE = Resource.create({"service.name": "interlock", "service.version": RELEASE})
SCOPE = InstrumentationScope("interlock", RELEASE)


def send(address: str, view: View) -> str:
    """Give a collector what is new of the run; why that did not work, or nothing."""
    logger = logging.getLogger("opentelemetry")  # a collector that is away is told once, in our own words
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    spans = list(spans_of(view))
    if not spans:
        return ""
    exporter = OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces", timeout=TIMEOUT_S)
    done = exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()  # type: ignore[no-untyped-call]
    return "" if done else f"{len(spans)} spans could not be sent"


def spans_of(view: View) -> Iterator[ReadableSpan]:
    """What is new since a process was last done with the run."""
    for call in view.calls.values():
        if call.report and call.ended and view.untold_since and call.ended >= view.untold_since:
            yield _dispatch(view, call, call.report.session, "" if call.report.ok else call.report.reason)
    if view.ended is None or view.start is None or view.ended_at is None:
        return
    for step in view.steps:
        if step.name and (times := list(_times(view, step))):
            name = f"step {step.name}"
            yield _span(view, name, name, (min(times), max(times)), {"interlock.step": step.name})
    name, error = view.start.playbook, "" if view.ended.status in ("complete", "degraded") else view.ended.status
    facts = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": name,
        "gen_ai.usage.input_tokens": view.usage.input_tokens,
        "gen_ai.usage.output_tokens": view.usage.output_tokens,
        "interlock.cost_usd": view.usage.cost_usd,
        "interlock.run.id": view.run,
        "interlock.status": view.ended.status,
        "interlock.exit_code": view.ended.exit,
    }
    yield _span(view, f"invoke_workflow {name}", "", (view.start.at, view.ended_at), facts, error=error)


def _dispatch(view: View, call: CallView, session: str, error: str) -> ReadableSpan:
    facts = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": call.agent,
        "gen_ai.conversation.id": session,
        "gen_ai.request.model": call.model,
        "gen_ai.usage.input_tokens": call.spent.input_tokens,
        "gen_ai.usage.output_tokens": call.spent.output_tokens,
        "interlock.cost_usd": call.spent.cost_usd,
        "interlock.runner": call.runner,
        "interlock.key": call.key,
        "interlock.member": call.member,
        "interlock.attempt": call.attempt,
        "interlock.calls": call.calls,
        "interlock.outcome": call.state,
    }
    took = call.started, call.ended or call.started
    return _span(view, f"invoke_agent {call.agent}", call.key, took, facts, SpanKind.CLIENT, error)


def _times(view: View, step: StepView) -> Iterator[datetime]:
    for call in (view.calls[key] for key in step.keys if key in view.calls):
        yield call.started
        yield call.ended or call.started
    for gate in (view.gates[key] for key in step.keys if key in view.gates):
        yield gate.at
        yield gate.decision.at if gate.decision else gate.at


def _span(
    view: View,
    name: str,
    place: str,
    took: tuple[datetime, datetime],
    facts: dict[str, Any],
    kind: SpanKind = SpanKind.INTERNAL,
    error: str = "",
) -> ReadableSpan:
    """The span of a dispatch (its key), of a step, or of the run itself, whose place is empty."""
    above = next((f"step {step.name}" for step in view.steps if step.name and place in step.keys), "")
    known = {one: value for one, value in facts.items() if value not in (None, "")}
    return ReadableSpan(
        name,
        context=_context(view.run, f"{place} {took[0]}" if kind is SpanKind.CLIENT else place),  # may be done again
        parent=_context(view.run, above) if place else None,
        resource=RESOURCE,
        attributes={**known, "error.type": error} if error else known,
        kind=kind,
        status=Status(StatusCode.ERROR if error else StatusCode.UNSET),
        start_time=int(took[0].timestamp() * 1_000_000) * 1000,
        end_time=int(took[1].timestamp() * 1_000_000) * 1000,
        instrumentation_scope=SCOPE,
    )


def _context(run: str, place: str) -> SpanContext:
    trace, span = hashlib.sha256(run.encode()).digest()[:16], hashlib.sha256(f"{run}\n{place}".encode()).digest()[:8]
    return SpanContext(int.from_bytes(trace), int.from_bytes(span), False, TraceFlags(TraceFlags.SAMPLED))
