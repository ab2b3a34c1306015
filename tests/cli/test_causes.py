"""One cause, one sentence; clients that refuse; interrupts that are answered; an environment that is the user's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.plan import Progress

STREAMS = Path(__file__).parents[1] / "agents" / "streams"


@pytest.mark.req("EV-27")
def test_one_problem_of_many_agents_is_said_once_with_what_else_is_wrong(workspace: Any) -> None:
    """The number of agents instead of a line for each; the missing document comes with it, not after the next try."""
    (workspace.root / "interlock.toml").unlink()
    answer = workspace("run", "roadmap", PATH="/usr/bin:/bin")
    assert answer.code == 2
    assert answer.stderr.count("no runner is configured") == 1
    assert "(5 agents of roadmap need it)" in answer.stderr
    assert answer.stderr.count("Error:") == 2
    assert "roadmap.json" in answer.stderr
    error = workspace("run", "roadmap", "--json", PATH="/usr/bin:/bin").json["error"]
    assert [one["where"] for one in error["also"]] == ["roadmap.json"]


@pytest.mark.req("EV-27")
def test_roles_that_are_missing_are_said_in_one_sentence(tmp_path: Path) -> None:
    """All of them by name, with one remedy."""
    from interlock.agents import RoleLibrary, Roster, Scenario, ScriptedRunner
    from interlock.errors import ConfigInvalid
    from interlock.settings import AgentSettings

    roster = Roster(
        "toy",
        RoleLibrary(tmp_path, []),
        facts=lambda _agent: AgentSettings(),
        default_runner=lambda: "scripted",
        make_runner=lambda name: ScriptedRunner(Scenario(()), name=name),
    )
    with pytest.raises(ConfigInvalid) as refused:
        roster.bind_all(("a", "b", "c"))
    assert refused.value.what == "3 agents of toy are not configured: no role was found for a, b, c"
    assert refused.value.also == ()


@pytest.mark.req("EV-27")
def test_a_text_of_several_lines_is_shown_as_several_lines(workspace: Any) -> None:
    """In the log of the run and in its last words, never with an escaped line end."""
    workspace.scenario({"agent": "planner", "files": {"plan.md": "x\n"}})
    workspace("run", "toy", "a")
    answer = workspace("reject", "--note", "first this\nthen that", "--resume")
    assert "\\n" not in answer.stderr
    assert "first this\n          then that" in answer.stderr
    assert "\\n" not in workspace("logs", "latest").stdout.decode()


@pytest.mark.req("EV-48")
@pytest.mark.parametrize(
    ("kind", "what"), [("claude", "Write /workspace/secret.md"), ("gemini", "write_file"), ("opencode", "write")]
)
def test_what_a_client_refused_stands_in_the_reason(workspace: Any, kind: str, what: str) -> None:
    """A recorded stream of the real client, in which its own rules refuse a file: the dispatch says so first."""
    shutil.copy(STREAMS / f"{kind}-refused.jsonl", workspace.root / "stream.jsonl")
    program = workspace.root / "client"
    program.write_text("#!/bin/sh\ncat stream.jsonl\n", "utf-8")
    program.chmod(0o755)
    settings = f'runner = "it"\n[runners.it]\ntype = "{kind}"\nprogram = "./client"\n'
    (workspace.root / "interlock.toml").write_text(settings, "utf-8")
    assert workspace("run", "toy", "a", "--mode", "quick").code == 5
    ended = next(line["data"] for line in workspace.journal() if line["event"] == "dispatch.end")
    assert ended["complaints"][0].startswith(f"its client refused: {what}")
    assert "its client refused" in workspace("why", "latest").stdout.decode()


@pytest.mark.req("EV-33")
def test_agents_find_the_users_programs_and_not_ours(workspace: Any) -> None:
    """With our environment first on PATH and active, as an installation by hand leaves it."""
    script = 'echo "$PATH,$VIRTUAL_ENV" > plan.md; echo "DONE: planned"'
    settings = f'runner = "it"\n[runners.it]\ntype = "command"\nargv = {json.dumps(["sh", "-c", script])}\n'
    (workspace.root / "interlock.toml").write_text(settings, "utf-8")
    ours = str(Path(sys.prefix) / "bin")
    workspace("run", "toy", "a", PATH=f"{ours}{os.pathsep}/usr/bin:/bin", VIRTUAL_ENV=sys.prefix)
    assert (workspace.root / "plan.md").read_text("utf-8") == "/usr/bin:/bin,\n"


@pytest.mark.req("EV-49")
def test_an_interrupted_rehearsal_answers_with_what_it_has(workspace: Any) -> None:
    """The path that is being played comes to its end; no traceback, exit 130, and the paths so far."""
    answer = workspace("rehearse", "toy", TOY_INTERRUPTS="1")
    assert answer.code == 130
    assert answer.stderr == "Interrupted after 1 paths: not every combination was played.\n"
    assert answer.stdout.startswith(b"toy: 1 paths")
    value = workspace("rehearse", "toy", "--json", TOY_INTERRUPTS="1").json
    assert (value["interrupted"], value["paths"]) == (True, 1)


@pytest.mark.req("EV-49")
def test_a_second_interrupt_ends_a_long_command_at_once() -> None:
    """And afterwards interrupts mean what they meant before."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Progress("x") as progress:
        signal.raise_signal(signal.SIGINT)
        assert progress.stop
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.req("EV-49")
def test_a_long_command_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log a line every ten seconds, and nothing for what is over before."""
    now = 100.0
    monkeypatch.setattr("interlock.cli.plan.time.monotonic", lambda: now)
    with Progress("toy") as progress:
        now += 9
        progress(10, 0)
        now += 2
        progress(20, 1)
        progress(21, 1)
    assert capsys.readouterr().err == "toy: 20 paths in 11 s, rules broken: 1\n"
