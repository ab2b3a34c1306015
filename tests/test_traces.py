"""Traces: what a collector gets of a run, over however many processes it took (PAGE-06)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, interlock, made, person, waits

__all__ = ["interlock", "made", "person", "waits"]
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otel` is not installed")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What was sent to it, span by span."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.url = ""

    @property
    def spans(self) -> list[Any]:
        read = [ExportTraceServiceRequest.FromString(raw) for raw in self.requests]
        return [span for one in read for each in one.resource_spans for it in each.scope_spans for span in it.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.requests.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
        server.shutdown()


def traced(interlock: CommandLine, url: str) -> None:
    settings = (interlock.top / "interlock.toml").read_text()
    interlock.write("interlock.toml", f'{settings}[telemetry]\notlp = "{url}/"\n')
    interlock.trust()


def facts(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


@pytest.mark.req("PAGE-06")
def test_a_run_is_one_trace_over_its_processes_and_each_span_comes_once(interlock: CommandLine) -> None:
    """Dispatches come with their process, run and steps with the end; each once, and no words of people."""
    interlock.weakens()
    with collecting() as collector:
        traced(interlock, collector.url)
        assert interlock("Make add SECRET-WORDS right").code == 4
        assert {span.name for span in collector.spans} == {"invoke_agent builder", "invoke_agent reviewer"}
        assert interlock("approve", "--note", "PRIVATE-NOTE").code == 0
    spans = collector.spans
    (run,), (step,) = collector.named("invoke_workflow task"), collector.named("step round-1")
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == len(spans), "each comes once"
    agents = [span for span in spans if span.name.startswith("invoke_agent")]
    assert {span.parent_span_id for span in agents} == {step.span_id}
    assert (step.parent_span_id, run.parent_span_id) == (run.span_id, b"")
    for span in agents:
        assert run.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert step.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= step.end_time_unix_nano <= run.end_time_unix_nano
    builder = facts(collector.named("invoke_agent builder")[0])
    assert (builder["gen_ai.operation.name"], builder["gen_ai.agent.name"]) == ("invoke_agent", "builder")
    assert (builder["interlock.outcome"], builder["interlock.runner"]) == ("done", "mine")
    assert "gen_ai.usage.input_tokens" not in builder, "what nobody told is not 0"
    assert facts(run)["gen_ai.workflow.name"] == "task"
    assert facts(run)["interlock.status"] == "complete"
    sent = b"".join(collector.requests)
    assert b"SECRET-WORDS" not in sent and b"PRIVATE-NOTE" not in sent


@pytest.mark.req("PAGE-06")
def test_what_failed_has_its_error_and_a_cancelled_run_sends_no_dispatch_again(waits: CommandLine) -> None:
    with collecting() as collector:
        traced(waits, collector.url)
        assert waits("cancel", waits.latest()).code == 0
    assert sorted(span.name for span in collector.spans) == ["invoke_workflow task", "step round-1"]
    assert facts(collector.named("invoke_workflow task")[0])["error.type"] == "cancelled"


@pytest.mark.long
@pytest.mark.req("PAGE-06")
def test_a_collector_that_refuses_is_told_once_and_touches_no_run(
    waits: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting(status=400) as collector:
        traced(waits, collector.url)
        asked = waits("resume")
        done = waits("approve")
    assert (asked.code, "spans" in asked.err, done.code) == (4, False, 0), "there is nothing new to send"
    assert done.err.count("spans could not be sent") == 1 and "Traceback" not in done.err
    monkeypatch.setitem(sys.modules, "interlock.traces", None)  # as where the extra is not installed
    assert "pip install 'interlock[otel]'" in waits("Make add right again").err


@pytest.mark.req("PAGE-06")
def test_nothing_of_it_is_imported_when_it_is_off(waits: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name for name in sys.modules if name.startswith(("opentelemetry.exporter", "interlock.traces"))}
    for name in known:
        monkeypatch.delitem(sys.modules, name)
    assert waits("approve").code == 0
    assert not {name for name in sys.modules if name.startswith(("opentelemetry.exporter", "interlock.traces"))}
