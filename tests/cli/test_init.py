"""`init`, `validate`, `doctor`, `rehearse`: a workspace gets ready and proves it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest


def test_init_writes_what_is_missing_and_never_overwrites(workspace: Any) -> None:
    """Settings, ignore file and example documents appear; a second call keeps all of them as they are."""
    (workspace.root / "interlock.toml").unlink()
    answer = workspace("init", "--playbook", "router", "--example", "--runner", "scripted")
    assert answer.code == 0
    assert 'First run: interlock run router "/implement 259 be brief"' in answer.stderr
    assert tomllib.loads((workspace.root / "interlock.toml").read_text("utf-8")) == {"runner": "scripted"}
    assert (workspace.root / ".interlock" / ".gitignore").read_text("utf-8").startswith("/*\n")
    (workspace.root / ".opencode" / "specs" / "TODO.md").write_text("mine\n", "utf-8")
    before = workspace.digest()
    again = workspace("init", "--playbook", "router", "--example", "--json").json
    assert again["written"] == []
    assert ".opencode/specs/TODO.md" in again["kept"]
    assert workspace.digest() == before


def test_a_new_workspace_can_run_after_init(workspace: Any) -> None:
    """init without a known agent leaves commented examples; what it proposes then really works."""
    (workspace.root / "interlock.toml").unlink()
    answer = workspace("init", "--playbook", "router", "--example", PATH="/usr/bin:/bin")
    assert tomllib.loads((workspace.root / "interlock.toml").read_text("utf-8")) == {}
    assert "--runner scripted" in answer.stderr
    refused = workspace("run", "router", "/implement 259")
    assert refused.code == 2
    assert "no runner is configured" in refused.stderr
    assert workspace("validate", "router").code == 2
    assert workspace("validate", "router", "--runner", "scripted").code == 0
    assert workspace("run", "router", "/implement 259 be brief", "--runner", "scripted").code == 0


@pytest.mark.req("EV-32")
@pytest.mark.parametrize("playbook", ["adopt", "feature", "harness", "roadmap", "router", "ticket"])
def test_init_writes_nothing_that_a_run_would_build(workspace: Any, playbook: str) -> None:
    """Settings and what the playbook needs, no invented task; that comes with --example alone."""
    (workspace.root / "interlock.toml").unlink()
    (workspace.root / "scenario.yaml").unlink()
    answer = workspace("init", "--playbook", playbook, "--runner", "scripted", "--json").json
    fixed = [path for path in answer["written"] if not path.startswith(("harness/standards/", "harness/templates/"))]
    assert fixed == ["interlock.toml", ".interlock/.gitignore"]
    settings = tomllib.loads((workspace.root / "interlock.toml").read_text("utf-8"))
    assert settings == {"runner": "scripted", **({"roadmap": {"verify": "engine"}} if playbook == "roadmap" else {})}
    assert workspace("doctor").code == 0  # and what was written can be used
    assert workspace("init", "--playbook", playbook, "--example", "--json").json["written"]


def test_an_unknown_runner_or_playbook_is_refused_before_anything_is_written(workspace: Any) -> None:
    """init checks its words first: exit 2, nothing written."""
    before = workspace.digest()
    assert workspace("init", "--runner", "nobody").code == 2
    assert workspace("init", "--playbook", "nothing").code == 2
    assert workspace.digest() == before


def test_validate_names_what_keeps_a_playbook_from_running(router: Any) -> None:
    """A missing agent file and a bad command file are found without running; a sound workspace is exit 0."""
    assert router("validate", "router").code == 0
    (router.root / ".opencode" / "agent" / "subagents" / "planner.md").unlink()
    (router.root / ".opencode" / "command" / "revise.md").write_text("---\ntimeout: never\n---\n", "utf-8")
    before = router.digest()
    answer = router("validate", "router")
    assert answer.code == 2
    assert "Error: Agent planner not found" in answer.stderr
    assert 'found "never"' in answer.stderr
    problems = router("validate", "router", "--json").json
    assert (problems["ok"], len(problems["problems"])) == (False, 2)
    assert router.digest() == before
    (router.root / ".opencode" / "specs" / "TODO.md").unlink()
    assert "has no task" in router("validate", "router").stderr
    assert router("validate", "toy").code == 0


@pytest.mark.req("EN-33")
def test_doctor_says_what_it_finds_and_changes_nothing(workspace: Any) -> None:
    """Sound: exit 0, with the ignored files that snapshots do not cover; a role of the team with its source."""
    (workspace.root / ".gitignore").write_text("secret.env\nnode_modules/\n", "utf-8")
    (workspace.root / "secret.env").write_text("x", "utf-8")
    (workspace.root / "node_modules").mkdir()
    (workspace.root / "node_modules" / "a.js").write_text("x", "utf-8")
    roles = workspace.root / ".interlock" / "agents" / "toy"
    roles.mkdir(parents=True)
    (roles / "planner.md").write_text("Plan.\n", "utf-8")
    before = workspace.digest()
    answer = workspace("doctor")
    assert answer.code == 0
    said = answer.stdout.decode()
    assert "held to no scope (judges' changes are dropped, code writers' are kept): node_modules/, secret.env" in said
    assert "toy/planner: .interlock/agents/toy/planner.md" in said
    assert "played (default): plays 0 reactions" in said
    assert workspace.digest() == before


@pytest.mark.req("CM-33")
def test_doctor_and_run_name_a_bad_setting_with_its_place(workspace: Any) -> None:
    """An unknown key and a program that is not there are BROKEN; run is exit 2 with the parts of the error."""
    (workspace.root / "interlock.toml").write_text(
        'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["no-such-program"]\n'
    )
    broken = workspace("doctor", "--json")
    assert broken.code == 2
    assert any("'no-such-program' is not found" in check["text"] for check in broken.json["checks"])
    (workspace.root / "interlock.toml").write_text("[limits]\nmax_paralel = 0\n", "utf-8")
    assert "did you mean" in workspace("doctor").stdout.decode().lower()
    (workspace.root / "interlock.toml").write_text("[limits]\nmax_parallel = 0\n", "utf-8")
    refused = workspace("run", "toy", "a")
    assert refused.code == 2
    assert refused.stderr.splitlines() == [
        "Error: limits.max_parallel cannot be used",
        "  where: interlock.toml:2",
        "  expected: integer from 1",
        "  found: 0 (integer)",
    ]


def test_rehearse_counts_the_paths_of_a_playbook_and_names_broken_rules(workspace: Any) -> None:
    """Paths, time and endings; exit 2 with the deviations that broke a rule, 0 where every rule held."""
    result = workspace("rehearse", "toy", "--json")
    assert result.code == 2
    assert result.json["paths"] == sum(result.json["endings"].values()) > 1
    assert set(result.json["endings"]) == {"complete", "failed"}
    assert "Broken: all is well: it is not" in result.stderr
    clean = workspace("rehearse", "toy", "--most", "0")
    assert clean.code == 0
    assert "toy: 1 paths with at most 0 faults each" in clean.stdout.decode()
    assert workspace("rehearse", "router", "--most", "1", "--json").json["broken"] == []


@pytest.mark.req("OW-12")
def test_rehearse_draws_what_it_went_through(workspace: Any) -> None:
    """As a diagram that other tools show; steps, gates and endings of the paths that were played."""
    drawn = workspace("rehearse", "router", "--most", "0", "--diagram").stdout.decode()
    assert drawn.startswith("stateDiagram-v2\n") and 'state "delegate"' in drawn


@pytest.mark.req("OW-07")
def test_what_a_playbook_touches_beside_its_verbs_is_named(workspace: Any) -> None:
    """`validate` and `rehearse` say file, line and what to use instead; exit 2."""
    told = workspace("validate", "hasty").stderr
    assert "the playbook imports time at line 5 of hasty.py" in told and "run.now is the clock" in told
    answer = workspace("rehearse", "hasty", "--most", "0")
    assert answer.code == 2
    assert "Broken: only the verbs: hasty.py:5: imports time: run.now is the clock" in answer.stderr


def test_rehearse_plays_a_sample_beyond_what_it_plays_whole(workspace: Any) -> None:
    """Of the runs with one fault more, one in so many, the same ones each time; told apart by their faults."""
    every, some = (workspace("rehearse", "router", "--most", "1", "--sample", one, "--json").json for one in "15")
    assert every["faults"] == workspace("rehearse", "router", "--most", "2", "--json").json["faults"]
    assert [some["faults"][number] for number in "01"] == [every["faults"][number] for number in "01"]
    assert 0 < some["faults"]["2"] < every["faults"]["2"] / 2
    told = workspace("rehearse", "router", "--most", "1", "--sample", "5").stdout.decode()
    paths = sum(some["faults"].values())
    assert f"router: {paths} paths with at most 1 faults each, and one in 5 of those with 2, in " in told
    assert f"  with 2 faults: {some['faults']['2']}\n" in told
