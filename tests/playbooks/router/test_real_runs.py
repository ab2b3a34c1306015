"""Whole commands in real workspaces: files, processes, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from interlock.agents import AgentNews
from interlock.app import open_runs
from interlock.documents import Document, Store
from interlock.engine.playing import Finished
from interlock.engine.runs import Quiet, Runs
from interlock.errors import AgentFailed, InterlockError
from interlock.playbooks.router import RouterInputs, example_files, router
from interlock.playbooks.router.problems import TASK_LIST, RouterError
from tests import own_python

PROLOGUE = """
import json, os, sys, time
from pathlib import Path
env = os.environ
agent = env["INTERLOCK_AGENT"]
brief = sys.stdin.read()
given = json.loads(brief.split("```json\\n")[1].split("\\n```")[0])
out = sys.stdout.buffer

def route(line):
    import asyncio
    from interlock.app import open_runs
    from interlock.engine.runs import Quiet
    from interlock.errors import InterlockError
    from interlock.playbooks.router import RouterInputs, router
    app = open_runs(Path(env["INTERLOCK_WORKSPACE"]), Quiet(), environ=dict(env))
    try:
        close = asyncio.run(app.run(router, RouterInputs(line)))
        return close.output if close.exit_code == 0 else str(close.reason).encode()
    except InterlockError as error:
        return f"{error.exit_code} {error.what}".encode()
"""


@dataclass
class Place:
    """A workspace on disk with the example files and a program as its agent."""

    root: Path

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def app(self, view: Quiet | None = None) -> Runs:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.root.parent), **own_python.SHOWN}
        return open_runs(self.root, view or Quiet(), environ=environ)

    def run(self, line: str, agent: str, view: Quiet | None = None) -> Finished:
        self.write("agent.py", PROLOGUE + agent)
        return asyncio.run(self.app(view).run(router, RouterInputs(line)))

    def command(self, name: str, header: str) -> None:
        self.write(f".opencode/command/{name}.md", f"---\n{header}\n---\n")

    def tree(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes() for path in self.root.rglob("*") if path.is_file()
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path / "work")
    for path, text in example_files().items():
        found.write(path, text)
    program = json.dumps([sys.executable, "agent.py"])
    settings = f'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = {program}\n[router]\npartial_grace_s = 1.5\n'
    found.write("interlock.toml", settings)
    return found


def data(finished: Finished, event: str) -> list[Any]:
    return [line.data for line in finished.lines if line.event == event]


class Registered(Quiet):
    """Looks, when an agent is started, which sessions the journal on disk has."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.sessions: list[str] = []

    def news(self, key: str, news: AgentNews) -> None:
        if news.kind == "started":
            (journal,) = self.root.glob(".interlock/runs/*/journal.jsonl")
            lines = [json.loads(line) for line in journal.read_text().splitlines()]
            self.sessions += [line["data"]["session"] for line in lines if line["event"] == "dispatch.start"]


@pytest.mark.req("RT-25", "RT-30", "RT-32", "RT-37", "RT-61")
def test_a_command_reaches_its_agent_and_its_bytes_come_back(place: Place) -> None:
    """Its session is on disk when it starts; its bytes come out as they went in; the list is untouched."""
    before = (place.root / TASK_LIST).read_bytes()
    view = Registered(place.root)
    finished = place.run(
        "/implement 259 be brief",
        """
assert env["INTERLOCK_SESSION"] == given["session_id"]
assert (env["INTERLOCK_DEPTH"], env["INTERLOCK_PATH"]) == ("1", "orchestrator/lean-implementation-agent")
out.write(b"\\xff\\x00 " + json.dumps(given["user_prompt"]).encode() + b"\\r\\nStatus: completed\\n\\n")
""",
        view,
    )
    assert view.sessions == [start["session"] for start in data(finished, "dispatch.start")]
    assert finished.exit_code == 0, finished
    assert finished.output == b'\xff\x00 "be brief"\r\nStatus: completed\n\n'
    assert (place.root / TASK_LIST).read_bytes() == before
    assert data(finished, "dispatch.running")[0]["pid"] > 0
    assert len(data(finished, "dispatch.end")) == 1
    assert finished.lines[-1].event == "run.end"


@pytest.mark.req("RT-73")
@pytest.mark.parametrize("line", ["/plan", "/plan x", "/plan 99999", "/foo 1", "/research 259"])
def test_a_refused_command_leaves_nothing(place: Place, line: str) -> None:
    """No run, no session, no folder: the workspace has exactly the files it had."""
    (place.root / ".opencode/agent/subagents/lean-research-agent.md").unlink()
    place.write("agent.py", "raise SystemExit('must not be started')")
    before = place.tree()
    with pytest.raises(RouterError) as caught:
        asyncio.run(place.app().run(router, RouterInputs(line)))
    assert caught.value.exit_code == 2
    assert place.tree() == before
    assert not (place.root / ".interlock" / "runs").exists()


def test_a_dry_run_shows_the_brief_and_changes_nothing(place: Place) -> None:
    """All checks are made, the dispatch is shown, and the workspace stays as it was."""
    place.write("agent.py", "raise SystemExit('must not be started')")
    before = place.tree()
    plan = asyncio.run(place.app().plan(router, RouterInputs("/plan 196")))
    assert plan.before is not None
    assert plan.before.key == "stage-3/planner#1"
    assert "Task 196: Export as CSV" in plan.before.detail.brief
    assert place.tree() == before


@pytest.mark.req("RT-58")
def test_the_raw_answer_is_kept_where_the_error_says(place: Place) -> None:
    """The path in the error leads to the agent's bytes."""
    place.command("plan", "returns: json\nrouting:\n  default: planner")
    finished = place.run("/plan 196", "out.write(b'not \\xff json')")
    assert finished.exit_code == 5
    said, raw = finished.reason.split(". Raw answer: ")
    assert said == "Error: planner returned invalid JSON (line 1 column 1)"
    assert (place.root / raw).read_bytes() == b"not \xff json"


def running_for(session: str) -> list[int]:
    """The processes that were started for this session."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("INTERLOCK_SESSION") == session:
                found.append(process.pid)
    return found


@pytest.mark.req("RT-65", "RT-66", "RT-67")
def test_an_agent_past_its_deadline_is_ended_and_what_it_wrote_is_shown(place: Place) -> None:
    """Partial results are asked for, then everything it started is ended; its output is kept and shown."""
    place.command("plan", "timeout: 1\nrouting:\n  default: planner")
    finished = place.run(
        "/plan 196",
        """
import subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("half of the plan", flush=True)
time.sleep(600)
""",
    )
    assert finished.exit_code == 5
    assert finished.output == b""
    assert finished.reason.startswith("Error: planner timed out after 1 s and gave no partial result in time.")
    assert finished.reason.endswith("It had written, at the end:\n\nhalf of the plan")
    assert len(data(finished, "partial.requested")) == 1
    assert running_for(data(finished, "dispatch.start")[0]["session"]) == []
    assert data(finished, "stage.3.done")[0]["state"] == "Failed"


@pytest.mark.req("RT-66")
def test_partial_results_are_asked_for_and_relayed(place: Place) -> None:
    """An agent that sees the request and answers in time is relayed as partial."""
    settings = (place.root / "interlock.toml").read_text("utf-8")
    place.write("interlock.toml", settings.replace("partial_grace_s = 1.5", "partial_grace_s = 30"))
    place.command("plan", "timeout: 1\nrouting:\n  default: planner")
    finished = place.run(
        "/plan 196",
        """
while not Path(env["INTERLOCK_PARTIAL"]).exists():
    time.sleep(0.02)
print("two of four steps")
""",
    )
    assert (finished.exit_code, finished.output) == (1, b"two of four steps\n")
    assert len(data(finished, "partial.requested")) == 1
    assert data(finished, "stage.3.done")[0]["status"] == "partial"


@pytest.mark.req("RT-33", "RT-34", "RT-35", "RT-38")
def test_nested_calls_are_counted_and_cycles_refused(place: Place) -> None:
    """Each level hands its depth and path on; a cycle and the fourth level are refused in the innermost call."""
    finished = place.run(
        "/implement 196",
        """
lines = {"implementer": ["/research 197", "/implement 197"], "researcher": ["/plan 196"], "planner": ["/revise 196"]}
print(json.dumps([agent, given["delegation_depth"], given["delegation_path"]]))
sys.stdout.flush()
for line in lines[agent]:
    out.write(route(line) + b"\\n")
print("Status: completed")
""",
    )
    assert finished.exit_code == 0, finished
    said = finished.output.decode().split("\n")  # type: ignore[union-attr]
    assert json.loads(said[0]) == ["implementer", 1, ["orchestrator", "implementer"]]
    assert json.loads(said[1]) == ["researcher", 2, ["orchestrator", "implementer", "researcher"]]
    assert json.loads(said[2]) == ["planner", 3, ["orchestrator", "implementer", "researcher", "planner"]]
    path = "orchestrator -> implementer -> researcher -> planner"
    assert said[3].startswith("2 ")
    assert f"delegation depth 4 exceeds the maximum of 3 (path: {path})" in said[3]
    assert "2 Error: delegation cycle: orchestrator -> implementer -> implementer" in said


@pytest.mark.req("EV-40")
def test_a_nested_call_for_the_same_task_is_a_cycle(place: Place) -> None:
    """Whatever else is said with it, at once and without waiting for a lock; from further in too."""
    finished = place.run(
        "/implement 196",
        """
lines = {"implementer": ["/implement 196", "/implement 196 more", "/research 196"], "researcher": ["/implement 196 x"]}
for line in lines[agent]:
    out.write(route(line) + b"\\n")
print("Status: completed")
""",
    )
    assert finished.exit_code == 0, finished
    said = finished.output.decode().split("\n")  # type: ignore[union-attr]
    assert [
        line.startswith("2 delegation cycle: orchestrator -> implementer -> router implement 196; ")
        for line in said[:2]
    ] == [True] * 2
    assert said[2].startswith("2 Error: delegation cycle: orchestrator -> implementer -> researcher -> implementer")


@pytest.mark.req("RT-29")
def test_commands_at_once_have_sessions_of_their_own(place: Place) -> None:
    """Two commands started together never share a session."""
    place.write("agent.py", PROLOGUE + "print(given['session_id'], '\\nStatus: completed')")

    async def both() -> list[Finished]:
        calls = (place.app().run(router, RouterInputs(line)) for line in ("/plan 196", "/plan 197"))
        return list(await asyncio.gather(*calls))

    first, second = asyncio.run(both())
    assert first.exit_code == second.exit_code == 0
    assert first.output != second.output


def test_the_same_command_always_runs_anew(place: Place) -> None:
    """A finished command can be given again and is a run of its own."""
    first, second = (place.run("/plan 196", "print('Status: completed')") for _ in range(2))
    assert first.exit_code == second.exit_code == 0
    assert first.run_id != second.run_id


def test_settings_narrow_what_the_agent_may_change(place: Place) -> None:
    """`[agents.X] writes` comes before the agent's file; what lies outside is not taken over."""
    text = (place.root / "interlock.toml").read_text("utf-8")
    place.write("interlock.toml", text + '[agents.implementer]\nwrites = ["src/**"]\n')
    agent = "Path('src').mkdir(exist_ok=True); Path('src/a').write_text('1'); "
    assert place.run("/implement 196", agent + "print('Status: completed')").exit_code == 0
    finished = place.run("/implement 196", agent + "Path('b').write_text('1'); print('Status: completed')")
    assert finished.exit_code == 5
    assert "outside its scope; they were not taken over: b." in finished.reason
    assert not (place.root / "b").exists()


@pytest.mark.req("RT-02", "RT-05", "RT-61", "RT-69", "RT-73")
def test_the_command_line_prints_answers_and_refusals_as_they_are(place: Place) -> None:
    """The answer's bytes are all of stdout; a refusal is all of stderr, exit 2."""

    def interlock(line: str) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-m", "interlock", "run", "router", line]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(place.root.parent)}
        return subprocess.run(argv, cwd=place.root, env=env, capture_output=True, timeout=300, check=False)

    place.write(
        "agent.py", PROLOGUE + "out.write(b'a\\x00\\xff' + given['user_prompt'].encode() + b'\\nStatus: completed')"
    )
    done = interlock("implement 196 be brief")
    assert (done.returncode, done.stdout) == (0, b"a\x00\xffbe brief\nStatus: completed"), done.stderr
    refused = interlock("/implement ")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.decode() == (
        "Error: Task number required for /implement command\n\n"
        "Usage: /implement TASK_NUMBER [PROMPT]\n\nExample: /implement 259\n\n"
        "The task number should be a positive integer corresponding to a task in .opencode/specs/TODO.md\n"
    )
    unknown = interlock("/review 5")
    assert (unknown.returncode, unknown.stdout) == (2, b"")
    assert unknown.stderr == b"Error: Unknown command /review. Task commands: /research /plan /implement /revise\n"


@pytest.mark.req("RT-68")
def test_a_hanging_file_system_ends_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The router does not wait for a read that does not come back."""
    text = (place.root / "interlock.toml").read_text("utf-8")
    place.write("interlock.toml", text.replace("[router]", "[router]\ntimeout_s = 1"))
    read: Callable[[Store, str], Document] = Store.read
    back = threading.Event()

    def hang(store: Store, path: str) -> Document:
        if path == TASK_LIST:
            back.wait()
        return read(store, path)

    monkeypatch.setattr(Store, "read", hang)
    with pytest.raises(InterlockError) as caught:
        place.run("/plan 196", "print('too late')")
    back.set()
    assert isinstance(caught.value, AgentFailed)
    assert caught.value.what == "router timed out after 1 s"
