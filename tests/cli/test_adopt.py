"""`interlock adopt FILE` on a real workspace: files, processes, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.adopt.adoptions import BUGFIX, UPKEEP, Adoption
from tests.playbooks.adopt.conftest import Bench

AT = BUGFIX.inputs.at


def scripted(workspace: Any, adoption: Adoption) -> None:
    """The prompt in the workspace, and agents that adopt it as the bench's do."""
    bench = Bench(adoption=adoption)
    bench.adopted()
    reactions = [
        {"agent": request.agent, "files": dict(bench.good(request).files)}
        for request in bench.requests
        if request.agent != "critic"
    ]
    (workspace.root / adoption.file).write_text(adoption.source.text, "utf-8")
    (workspace.root / "scenario.yaml").write_text(json.dumps({"reactions": reactions}), "utf-8")


@pytest.mark.req("OW-50", "OW-54", "OW-55")
@pytest.mark.parametrize("words", [("adopt",), ("run", "adopt")], ids=["adopt", "run adopt"])
def test_a_prompt_is_adopted_from_the_command_line(words: tuple[str, ...], workspace: Any) -> None:
    """It waits for a person (exit 4), shows the figures, and installs what is approved (exit 0)."""
    scripted(workspace, BUGFIX)
    waiting = workspace(*words, BUGFIX.file)
    assert waiting.code == 4, waiting.stderr
    assert "Install bugfix? Code keeps 20 of 56 statements; rules not enforced: 2." in waiting.stderr
    assert f"shows: {AT.summary}" in waiting.stderr
    assert not (workspace.root / AT.installed).exists()
    approved = workspace("approve", "latest", "--resume")
    assert approved.code == 0, approved.stderr
    assert f"installed in {AT.installed}" in approved.stdout.decode()
    installed = workspace.root / AT.installed
    assert (installed / "playbook.yaml").read_text("utf-8") == BUGFIX.yaml
    assert (installed / "agents" / "fixer.md").read_text("utf-8") == BUGFIX.role_files["fixer"]
    assert "| S1.4 | line 5 | limit | max_rounds: 3 | code: rounds.at_most (playbook.yaml:30) |" in (
        installed / "trace.md"
    ).read_text("utf-8")
    assert (workspace.root / BUGFIX.file).read_text("utf-8") == BUGFIX.source.text
    assert "nobody here has trusted yet" in workspace("validate", "bugfix").stderr
    ready = workspace("rehearse", "bugfix", "--most", "0", "--trust")
    assert ready.code == 0, ready.stderr


@pytest.mark.req("OW-52")
def test_a_refused_draft_is_tried_again_without_paying_for_the_rest(workspace: Any) -> None:
    """A trace that binds a rule to nothing stops the run (exit 3); a retry calls the author again, and no other."""
    scripted(workspace, BUGFIX)
    good = (workspace.root / "scenario.yaml").read_text("utf-8")
    (workspace.root / "scenario.yaml").write_text(good.replace("rounds.when_used_up", "rounds.when_over"), "utf-8")
    stopped = workspace("adopt", BUGFIX.file)
    assert stopped.code == 3
    assert '"rounds.when_over" is no place in playbook.yaml' in stopped.stderr
    (workspace.root / "scenario.yaml").write_text(good, "utf-8")
    again = workspace("resume", "latest", "--retry")
    assert again.code == 4, again.stderr
    starts = [line["agent"] for line in workspace.journal() if line["event"] == "dispatch.start"]
    assert starts == ["reader", "author", "author", "author", "author", "critic"]


@pytest.mark.req("OW-54")
def test_a_playbook_of_that_name_is_refused_and_kept(workspace: Any) -> None:
    """Exit 2 before anything happens; the remedy can be typed."""
    scripted(workspace, UPKEEP)
    place = workspace.root / UPKEEP.inputs.at.installed
    place.mkdir(parents=True)
    (place / "playbook.py").write_text("# mine\n", "utf-8")
    refused = workspace("adopt", UPKEEP.file)
    assert refused.code == 2
    assert "there is a playbook upkeep-skill already" in refused.stderr
    assert workspace("adopt", UPKEEP.file, "--replace").code == 4
    assert workspace("approve", "latest", "--resume").code == 0
    assert not (place / "playbook.py").exists()
    kept = [path.read_text("utf-8") for path in (workspace.root / ".interlock" / "attic").rglob("playbook.py")]
    assert kept == ["# mine\n"]


@pytest.mark.req("OW-50")
def test_what_cannot_be_adopted_is_refused_with_a_reason(workspace: Any, tmp_path: Path) -> None:
    """No file, a file elsewhere, a name that is none: exit 2, and no run came into being."""
    (workspace.root / "1.md").write_text("Do it.\n", "utf-8")
    (tmp_path / "outside.md").write_text("Do it.\n", "utf-8")
    for words, said in (
        (("nothing.md",), "prompt nothing.md not found"),
        ((str(tmp_path / "outside.md"),), "outside.md"),
        (("1.md",), "cannot be the name of a playbook"),
        (("1.md", "--name", "a b"), "cannot be the name of a playbook"),
        ((), "FILE"),
    ):
        answer = workspace("adopt", *words)
        assert (answer.code, said in answer.stderr) == (2, True), answer.stderr
        assert "Traceback" not in answer.stderr
    assert workspace.folders == []


@pytest.mark.req("OW-50")
def test_a_file_is_named_from_where_the_person_is(workspace: Any) -> None:
    """Like every file on a command line; the run key is the name of the playbook."""
    folder = workspace.root / "docs" / "agents"
    folder.mkdir(parents=True)
    (folder / "lead.agent.md").write_text("1. Do it.\n", "utf-8")
    words = [sys.executable, "-m", "interlock", "adopt", "lead.agent.md", "--dry-run", "--json"]
    answer = subprocess.run(words, cwd=folder, env=workspace.env, capture_output=True, check=True)
    plan = json.loads(answer.stdout)
    assert plan["key"] == "lead"
    assert "1| 1. Do it." in plan["plan"]["brief"]


def test_the_help_fits_80_columns_and_says_what_it_is(workspace: Any) -> None:
    answer = workspace("adopt", "--help", COLUMNS="80")
    lines = answer.stdout.decode().splitlines()
    assert answer.code == 0
    assert max(map(len, lines)) <= 80
    assert any("Make a playbook in YAML from an orchestrator prompt" in line for line in lines)
    assert any("interlock adopt orchestrator.md" in line for line in lines)
