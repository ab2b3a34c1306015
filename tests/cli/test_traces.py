"""`[telemetry] otlp`: what a collector on loopback gets of runs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

USAGE = {"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.25}


class Collector:
    """What was sent to it, as it understands it."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(facts(part.resource.attributes))
                self.spans += [span for scope in part.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in part.scope_metrics for metric in scope.metrics]

    def named(self, name: str) -> Any:
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def points(self, name: str) -> list[Any]:
        found = [metric for metric in self.metrics if metric.name == name]
        return [point for one in found for point in getattr(one, str(one.WhichOneof("data"))).data_points]


def facts(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_about: Any) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Takes)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def send_to(workspace: Any, url: str) -> None:
    settings = workspace.root / "interlock.toml"
    settings.write_text(settings.read_text("utf-8") + f'[telemetry]\notlp = "{url}"\n', "utf-8")


@pytest.mark.req("WB-23")
def test_a_run_is_one_trace_also_after_a_resume(workspace: Any, collector: Collector) -> None:
    """Run, steps and dispatches as spans below each other, each sent once, in whatever process it ended."""
    workspace.scenario({"agent": "planner", "usage": USAGE}, {"agent": "tester", "exit": 1})
    send_to(workspace, collector.url)
    assert workspace("run", "toy", "a").code == 4
    assert [span.name for span in collector.spans] == ["invoke_agent planner"]
    assert workspace("approve", "--resume").code == 1
    names = ["invoke_agent builder", "invoke_agent planner", "invoke_agent tester", "invoke_workflow toy"]
    assert sorted(span.name for span in collector.spans) == [*names, "step build", "step plan"]
    assert len({span.trace_id for span in collector.spans}) == 1
    run, build, planner = map(collector.named, ("invoke_workflow toy", "step build", "invoke_agent planner"))
    assert (run.parent_span_id, build.parent_span_id) == (b"", run.span_id)
    assert planner.parent_span_id == collector.named("step plan").span_id
    assert all(run.start_time_unix_nano <= span.start_time_unix_nano for span in collector.spans)
    assert all(
        span.start_time_unix_nano < span.end_time_unix_nano <= run.end_time_unix_nano for span in [build, planner]
    )
    assert collector.resources[0]["service.name"] == "interlock"


@pytest.mark.req("WB-23")
def test_cancelling_a_run_closes_its_trace(workspace: Any, collector: Collector) -> None:
    """A run that waits and is ended there has its own span and those of its steps, in the trace of its dispatches."""
    send_to(workspace, collector.url)
    assert workspace("run", "toy", "a").code == 4
    assert workspace("cancel", "latest").code == 0
    assert sorted(span.name for span in collector.spans) == ["invoke_agent planner", "invoke_workflow toy", "step plan"]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert facts(collector.named("invoke_workflow toy").attributes)["interlock.run.status"] == "stopped"


@pytest.mark.req("WB-23")
def test_spans_and_metrics_follow_the_conventions_for_agents(workspace: Any, collector: Collector) -> None:
    """Operation, agent, tokens, errors under their usual names; cost under ours; nothing that somebody wrote."""
    workspace.scenario({"agent": "planner", "usage": USAGE, "message": "DONE: a secret plan"})
    send_to(workspace, collector.url)
    assert workspace("run", "toy", "a", "--mode", "quick").code == 0
    said = facts(collector.named("invoke_agent planner").attributes)
    assert said == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "planner",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 100,
        "interlock.cost_usd": 0.25,
        "interlock.runner": "played",
        "interlock.key": "plan/planner#1",
        "interlock.attempt": 1,
        "interlock.tries": 1,
        "interlock.outcome": "OK",
    }
    assert facts(collector.named("invoke_workflow toy").attributes)["interlock.run.status"] == "complete"
    tokens = {
        facts(one.attributes)["gen_ai.token.type"]: one.sum for one in collector.points("gen_ai.client.token.usage")
    }
    assert tokens == {"input": 900, "output": 100}
    (cost,) = collector.points("interlock.cost")
    assert (cost.as_double, facts(cost.attributes)["gen_ai.agent.name"]) == (0.25, "planner")
    assert [one.count for one in collector.points("gen_ai.client.operation.duration")] == [1]
    assert "secret" not in str(collector.spans) + str(collector.metrics)


@pytest.mark.req("WB-23")
def test_what_failed_is_an_error_with_its_tries(workspace: Any, collector: Collector) -> None:
    """The reason as the type of the error, the repeats as events; the run that failed is one too."""
    workspace.scenario({"agent": "planner", "misbehave": "no_verdict"})
    send_to(workspace, collector.url)
    assert workspace("run", "toy", "a").code == 5
    planner, run = map(collector.named, ("invoke_agent planner", "invoke_workflow toy"))
    assert (planner.status.code, facts(planner.attributes)["error.type"]) == (2, "no_verdict")
    assert [event.name for event in planner.events] == ["try"]
    assert (run.status.code, facts(run.attributes)["error.type"]) == (2, "failed")


@pytest.mark.req("WB-23")
def test_a_run_that_ends_with_a_decision_is_sent_whole(workspace: Any, collector: Collector) -> None:
    """Nothing works on it any more, and the process that records the decision sends run and steps."""
    send_to(workspace, collector.url)
    assert workspace("run", "toy", "a").code == 4
    assert workspace("reject", "--note", "no").code == 0
    names = sorted(span.name for span in collector.spans)
    assert names == ["invoke_agent planner", "invoke_workflow toy", "step plan"]
    assert facts(collector.named("invoke_workflow toy").attributes)["interlock.run.status"] == "stopped"


@pytest.mark.req("WB-23")
def test_a_collector_that_is_away_touches_no_run(workspace: Any, collector: Collector) -> None:
    """The run ends as it would; that something was not sent is one line."""
    send_to(workspace, "http://127.0.0.1:9")
    answer = workspace("run", "toy", "a", "--mode", "quick")
    assert (answer.code, answer.stderr.count("[telemetry] otlp: ")) == (0, 1)
    assert "Traceback" not in answer.stderr


@pytest.mark.req("WB-23")
@pytest.mark.parametrize("wanted", [False, True])
def test_off_means_not_imported(workspace: Any, collector: Collector, wanted: bool) -> None:
    """Nothing of OpenTelemetry is loaded in a process that sends no traces."""
    if wanted:
        send_to(workspace, collector.url)
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import toy_cli; toy_cli.install()\n"
        "from interlock.cli.main import answer\n"
        "code = answer(['run', 'toy', 'a', '--mode', 'quick', '--json'])\n"
        "print(code, any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=workspace.root, env=workspace.env, capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines()[-1] == f"0 {wanted}"


@pytest.mark.req("WB-23")
def test_without_the_extra_the_run_is_refused_before_it_begins(workspace: Any) -> None:
    """With what to install; exit code 2, no run."""
    send_to(workspace, "http://127.0.0.1:9")
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import toy_cli; toy_cli.install()\n"
        "sys.modules['opentelemetry'] = None\n"
        "from interlock.cli.main import answer\n"
        "sys.exit(answer(['run', 'toy', 'a', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=workspace.root, env=workspace.env, capture_output=True, check=False
    )
    assert (done.returncode, workspace.folders) == (2, [])
    assert "interlock[otel]" in json.loads(done.stdout)["error"]["to do"]


def test_an_address_that_is_none_is_refused(workspace: Any) -> None:
    """Where a setting stands, and what is expected."""
    send_to(workspace, "localhost:4318")
    answer = workspace("run", "toy", "a")
    assert (answer.code, "expected http://HOST:PORT" in answer.stderr) == (2, True)
