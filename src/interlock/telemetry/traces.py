"""A run as OpenTelemetry has it: run, steps and dispatches as spans, tokens and cost as metrics (`[telemetry] otlp`).

All of it comes from the journal.  Ids follow from the run's id and the keys, so that a run is one trace however many
processes it takes.  A dispatch is sent when it has ended.  The run and its steps may take several processes: they are
sent with the run's end, from its whole journal.  Names follow the conventions for generative AI.  What people and
agents wrote (requests, briefs, answers, reasons) is not sent.

Only who sends traces imports this module: it needs the extra `otel`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from interlock.telemetry.facts import LineLike

TIMEOUT_S: Final = 5.0
"""So long one sending may take; whoever ends waits no longer than that for each kind."""
EVERY_S: Final = 60.0
"""Between two sendings of the metrics."""
WORK: Final = ("dispatch.end", "command")
BAD_ENDS: Final = ("failed", "invalid")


class Traces:
    """Sends one run to a collector, as its journal grows."""

    def __init__(self, url: str, *, run_id: str, playbook: str, key: str, version: str) -> None:
        logger = logging.getLogger("opentelemetry")  # a collector that is away is told once, in our own words
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._run_id, self._playbook, self._key = run_id, playbook, key
        self._resource = Resource.create(
            {"service.name": "interlock", "service.version": version, "service.instance.id": run_id}
        )
        self._scope = InstrumentationScope("interlock", version)
        base = url.rstrip("/")
        self._exporter = NotingExporter(endpoint=f"{base}/v1/traces", timeout=TIMEOUT_S)
        self._spans = BatchSpanProcessor(self._exporter)
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=TIMEOUT_S),
            export_interval_millis=EVERY_S * 1000,
            export_timeout_millis=TIMEOUT_S * 1000,
        )
        self._meters = MeterProvider([reader], self._resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("interlock", version)
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens that a dispatch used.")
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "How long a dispatch took.")
        self._cost = meter.create_counter("interlock.cost", "USD", "What dispatches cost, as far as it is known.")
        self._lines: list[LineLike] = []

    def begin(self, lines: Iterable[LineLike]) -> None:
        """What happened before this process: known, and not sent again."""
        self._lines += lines

    def line(self, line: LineLike) -> None:
        """Send what a new line of the journal completes."""
        self._lines.append(line)
        if line.event == "dispatch.end":
            self._dispatch(line)
            self._measure(line)
        elif line.event == "run.end":
            self._steps()
            self._run(line)

    def close(self) -> str:
        """Send what is left; what kept it from being sent, or nothing."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        self._meters.shutdown(timeout_millis=TIMEOUT_S * 1000)
        return self._exporter.trouble

    # -- spans

    def _run(self, end: LineLike) -> None:
        status = str(end.data["status"])
        began = next((line.ts for line in self._lines if line.event == "run.start"), end.ts)
        self._send(
            f"invoke_workflow {self._playbook}",
            "",
            (began, end.ts),
            {
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": self._playbook,
                "interlock.run.id": self._run_id,
                "interlock.run.key": self._key,
                "interlock.run.status": status,
            },
            error=status if status in BAD_ENDS else "",
        )

    def _steps(self) -> None:
        """Every scope in which agents or commands worked, from its first line to its last."""
        worked = {scope for line in self._lines if line.event in WORK for scope in scopes(line.key)}
        times: dict[str, list[str]] = {}
        for line in self._lines:
            for scope in scopes(line.key):
                times.setdefault(scope, []).append(line.ts)
        for scope in (scope for scope in times if scope in worked):
            took = (min(times[scope]), max(times[scope]))
            self._send(f"step {scope.rpartition('/')[2]}", scope, took, {"interlock.step": scope})

    def _dispatch(self, end: LineLike) -> None:
        data, key = end.data, str(end.key)
        begun = [line for line in self._lines if line.event == "dispatch.start" and line.key == key]
        tries = [line for line in self._lines if line.event == "dispatch.try" and line.key == key]
        facts = {
            **agent_of(end),
            "gen_ai.conversation.id": data.get("agent_session") or None,
            "gen_ai.usage.input_tokens": data.get("input_tokens"),
            "gen_ai.usage.output_tokens": data.get("output_tokens"),
            "interlock.cost_usd": data.get("cost_usd"),
            "interlock.runner": begun[-1].data.get("runner") if begun else None,
            "interlock.key": key,
            "interlock.attempt": end.attempt,
            "interlock.tries": data.get("tries"),
            "interlock.outcome": data["outcome"],
            "interlock.passed": data.get("passed"),
        }
        self._send(
            f"invoke_agent {data['member']}",
            key,
            (begun[0].ts if begun else end.ts, end.ts),
            facts,
            kind=SpanKind.CLIENT,
            events=[Event("try", {"interlock.move": str(one.data["move"])}, nanoseconds(one.ts)) for one in tries],
            error=str(data.get("reason") or "failed") if data["outcome"] == "FAIL" else "",
        )

    def _send(
        self,
        name: str,
        place: str,
        took: tuple[str, str],
        facts: Mapping[str, Any],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        events: Sequence[Event] = (),
        error: str = "",
    ) -> None:
        """A span at a place of the run: its key or scope; the run itself is at the empty one."""
        known = {one: value for one, value in facts.items() if value is not None}
        self._spans.on_end(
            ReadableSpan(
                name,
                context=self._context(place),
                parent=self._context(next(iter(scopes(place)), "")) if place else None,
                resource=self._resource,
                attributes={**known, "error.type": error} if error else known,
                events=events,
                kind=kind,
                status=Status(StatusCode.ERROR if error else StatusCode.UNSET),
                start_time=nanoseconds(took[0]),
                end_time=nanoseconds(took[1]),
                instrumentation_scope=self._scope,
            )
        )

    def _context(self, place: str) -> SpanContext:
        return SpanContext(trace_id(self._run_id), span_id(self._run_id, place), False, TraceFlags(TraceFlags.SAMPLED))

    # -- metrics

    def _measure(self, end: LineLike) -> None:
        about = {**agent_of(end), "gen_ai.workflow.name": self._playbook}
        for kind in ("input", "output"):
            if (count := end.data.get(f"{kind}_tokens")) is not None:
                self._tokens.record(count, {**about, "gen_ai.token.type": kind})
        self._duration.record(end.data["seconds"], about)
        if (cost := end.data.get("cost_usd")) is not None:
            self._cost.add(cost, about)


class NotingExporter(OTLPSpanExporter):
    """Remembers that something could not be sent."""

    trouble = ""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.trouble = f"{len(spans)} spans could not be sent"
        return result


def agent_of(end: LineLike) -> dict[str, Any]:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": str(end.agent)}


def scopes(key: str | None) -> list[str]:
    """The scopes around a place, the innermost first."""
    parts = (key or "").split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def trace_id(run_id: str) -> int:
    """The trace of a run, in whatever process."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:16])


def span_id(run_id: str, place: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{run_id}\n{place}".encode()).digest()[:8])


def nanoseconds(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1_000_000) * 1000
