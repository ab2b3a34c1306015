"""`[notify]`: who is elsewhere is called, and a notifier that fails or hangs touches no run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.cli import unattended as notices
from interlock.cli.unattended import Notices, noticed
from interlock.settings import NotifySettings
from tests.cli.test_live import line

KEEPS = 'cat >> called.jsonl; echo >> called.jsonl; echo "$NOTICE_KIND $NOTICE_STATUS: $NOTICE" >> called.txt'


def notify(workspace: Any, text: str) -> None:
    settings = workspace.root / "interlock.toml"
    settings.write_text(settings.read_text("utf-8").partition("[notify]")[0] + f"[notify]\n{text}\n", "utf-8")


def called(workspace: Any) -> list[str]:
    file = workspace.root / "called.txt"
    return file.read_text("utf-8").splitlines() if file.exists() else []


@pytest.mark.req("WB-22", "EV-22")
def test_somebody_elsewhere_is_called_at_a_gate_and_at_the_end(workspace: Any) -> None:
    """With a sentence and the facts in the environment, and all of them as JSON on standard input."""
    notify(workspace, f"command = {json.dumps(['sh', '-c', KEEPS])}")
    assert workspace("run", "toy", "a").code == 4
    assert called(workspace) == ["gate waiting: toy a waits: Ship this plan?"]
    assert workspace("approve", "--resume").code == 0
    assert called(workspace)[1:] == ["end complete: toy a is complete"]
    gate, end = (json.loads(row) for row in (workspace.root / "called.jsonl").read_text("utf-8").splitlines())
    assert (gate["run_id"], gate["gate"]["question"]) == (workspace.folders[0].name, "Ship this plan?")
    assert (end["kind"], end["status"], end["gate"]) == ("end", "complete", None)


@pytest.mark.req("WB-22")
def test_the_end_of_a_run_that_is_cancelled_is_told_once(workspace: Any) -> None:
    """Also where nobody works on it: who cancels it calls whoever wants to know of ends."""
    notify(workspace, f'on = ["end"]\ncommand = {json.dumps(["sh", "-c", KEEPS])}')
    assert workspace("run", "toy", "a").code == 4
    assert called(workspace) == []
    assert workspace("cancel", "latest").code == 0
    assert called(workspace) == ["end stopped: toy a is stopped: cancelled"]
    assert workspace("cancel", "latest").code == 2
    assert len(called(workspace)) == 1


@pytest.mark.req("WB-22")
def test_settings_that_cannot_be_read_keep_nobody_from_cancelling(workspace: Any) -> None:
    """That nobody else is told is said, and the run is ended."""
    assert workspace("run", "toy", "a").code == 4
    notify(workspace, "on = [")
    answer = workspace("cancel", "latest")
    assert (answer.code, "nobody else is told of it" in answer.stderr) == (0, True), answer.stderr
    assert workspace.events()[-1] == "run.end"


@pytest.mark.req("WB-22")
def test_only_what_was_asked_for_is_told(workspace: Any) -> None:
    """Trouble alone: the dispatch that failed for good, and neither gate nor end."""
    notify(workspace, f'on = ["trouble"]\ncommand = {json.dumps(["sh", "-c", KEEPS])}')
    assert workspace("run", "toy", "a").code == 4
    assert called(workspace) == []
    workspace.scenario({"agent": "planner", "exit": 1})
    assert workspace("run", "toy", "b").code == 5
    (told,) = called(workspace)
    assert told.startswith("trouble running: toy b: step plan: planner")


@pytest.mark.req("WB-22")
@pytest.mark.parametrize("command", [["sh", "-c", "exit 3"], ["no-such-program"]])
def test_a_notifier_that_fails_is_one_line_and_touches_no_run(workspace: Any, command: list[str]) -> None:
    """However often it fails: the run ends as it would without it."""
    notify(workspace, f"command = {json.dumps(command)}")
    workspace.scenario({"agent": "tester", "exit": 1})
    assert workspace("run", "toy", "a").code == 4
    answer = workspace("approve", "--resume")
    assert (answer.code, answer.stderr.count("[notify] command did not work")) == (1, 1)
    assert workspace.events()[-1] == "run.end"


IDENTITY: Any = SimpleNamespace(run_id="r", playbook="toy", key="a")


@contextmanager
def calling(root: Path, told: list[str], **settings: Any) -> Iterator[Notices]:
    door: Any = SimpleNamespace(json=True, root=root, environ={"PATH": "/usr/bin:/bin"})
    notices = Notices(door, IDENTITY, NotifySettings(**settings), told.append)
    yield notices
    notices.close()


@pytest.mark.req("WB-22")
@pytest.mark.parametrize(("limit_s", "parting_s"), [(0.0, 600.0), (600.0, 0.0)])
def test_a_notifier_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, parting_s: float
) -> None:
    """When its time is up, or when the process that executes the run is done; with all that it started."""
    monkeypatch.setattr(notices, "LIMIT_S", limit_s)
    monkeypatch.setattr(notices, "PARTING_S", parting_s)
    told, started = list[str](), list[subprocess.Popen[bytes]]()
    with calling(tmp_path, told, command=("sh", "-c", "sleep 3600 & sleep 3600")) as view:
        view.line(line("run.end", status="complete"))
        started += [call.process for call in view._calls]
        assert [process.returncode for process in started] == [None]
    assert [process.returncode for process in started] == [-9]
    assert told == ["[notify] command did not work: it took too long and was ended"]


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address on loopback, and what was posted to it."""
    got: list[dict[str, Any]] = []

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_about: Any) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Takes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.req("WB-22")
def test_apprise_sends_the_sentence_to_the_urls(
    tmp_path: Path, receiver: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a program of its own, which gets the addresses where nobody else sees them."""
    monkeypatch.setattr(notices, "PARTING_S", 300.0)
    monkeypatch.setattr(notices, "LIMIT_S", 300.0)
    address, got = receiver
    told: list[str] = []
    with calling(tmp_path, told, urls=(f"json://{address}/",)) as view:
        view.line(line("run.end", status="failed", reason="planner: crashed"))
        assert address not in str([call.process.args for call in view._calls])
    assert (told, [one["message"] for one in got]) == ([], ["toy a is failed: planner: crashed"])
    assert "apprise" not in sys.modules


@pytest.mark.req("WB-22")
def test_without_apprise_it_is_said_once_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is called."""
    monkeypatch.setattr(notices, "find_spec", lambda _name: None)
    told: list[str] = []
    with calling(tmp_path, told, urls=("json://127.0.0.1/",)) as view:
        view.line(line("run.end", status="complete"))
        view.line(line("run.end", status="complete"))
    assert told == ["[notify] urls need apprise: install interlock[notify]"]


@pytest.mark.parametrize(
    ("event", "data", "kind"),
    [
        ("run.paused", {"reason": "the budget is used up"}, "trouble"),
        ("run.fault", {"what": "no space left"}, "trouble"),
        ("run.end", {"status": "complete"}, "end"),
        ("dispatch.start", {}, None),
        ("run.resumed", {"n": 1}, None),
    ],
)
def test_few_lines_are_worth_a_call(event: str, data: dict[str, Any], kind: str | None) -> None:
    """Gates, ends, pauses, faults and dispatches that failed; nothing else."""
    notice = noticed(IDENTITY, line(event, **data))
    assert (notice and notice.kind) == kind


@pytest.mark.parametrize("text", ["command = 'mail me'", "command = []", 'on = ["morning"]'])
def test_settings_that_cannot_be_meant_are_refused(workspace: Any, text: str) -> None:
    """Before anything is done, with the place."""
    notify(workspace, text)
    answer = workspace("run", "toy", "a")
    assert (answer.code, "interlock.toml:" in answer.stderr, workspace.folders) == (2, True, [])
