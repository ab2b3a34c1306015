"""The ticket from the command line, as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.playbooks.ticket.place import REQUEST, Place
from tests.playbooks.ticket.test_real_runs import MAKE, ONE


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str


def start(place: Place, *words: str, says: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    place.app()
    return subprocess.Popen(
        (sys.executable, "-m", "interlock", *words),
        cwd=place.root,
        env={**place.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        stdout=says,
        stderr=says,
        text=True,
    )


def call(place: Place, *words: str) -> Answer:
    process = start(place, *words, says=subprocess.PIPE)
    out, err = process.communicate()
    return Answer(process.returncode, out, err)


@pytest.mark.long
@pytest.mark.req("TK-11", "TK-143", "TK-161")
def test_from_a_refusal_to_the_last_lines(place: Place) -> None:
    """Errors are said with exit 2; then the six lines alone on standard output, progress on standard error."""
    place.begin(MAKE)
    place.script = ONE
    refused = call(place, "run", "ticket", "fix", "the", "login")
    assert refused.code == 2
    assert "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING." in refused.stderr
    assert not (place.root / ".interlock" / "runs").exists()
    done = call(place, "run", "ticket", *REQUEST.split(), "--build", "none")
    assert done.code == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    assert done.stdout.startswith("SUCCESS: Development complete in 1 iteration(s)\n")
    assert "Progress: 0% | Completed: 0/1 tasks | ETA: ~? min remaining" in done.stderr
    again = call(place, "run", "ticket", REQUEST, "--json")
    assert again.code == 0
    assert json.loads(again.stdout)["status"] == "complete"
    assert len([one for one in place.calls if one[0] == "Planner"]) == 1
    fresh = call(place, "run", "ticket", REQUEST, "--fresh", "--json")
    assert fresh.code == 0, fresh.stderr
    assert len([one for one in place.calls if one[0] == "Planner"]) == 2
    assert json.loads(fresh.stdout)["run_id"] != json.loads(again.stdout)["run_id"]


@pytest.mark.long
@pytest.mark.req("TK-103", "EN-17", "EN-31")
def test_a_waiting_ticket_is_answered(place: Place) -> None:
    """Without a decision it waits with exit 4; `answer` records it, and the run goes on from there."""
    place.begin(MAKE)
    (place.root / "mine.py").write_text("x = 1\n")
    place.script = {"tasks": graph(task("T1")), "work": ONE["work"]}
    waiting = call(place, "run", "ticket", REQUEST)
    assert waiting.code == 4
    assert "--dirty stash|carry|abort" in waiting.stderr
    other = call(place, "run", "ticket", REQUEST, "--test", "true")
    assert other.code == 2
    assert "with other inputs" in other.stderr
    wrong = call(place, "answer", "latest", "keep")
    assert wrong.code == 2
    assert (place.root / HOME / "progress.yaml").exists()
    done = call(place, "answer", "latest", "carry", "--resume")
    assert done.code == 0, done.stderr
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert place.text("mine.py") == "x = 1\n"
