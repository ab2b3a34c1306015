"""Playbooks of one's own, as a person types them (OWN-01)."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli import trusting
from tests.cli.conftest import CommandLine

EXAMPLE = Path(__file__).parents[2] / "examples" / "fix-until-agreed"
FLOW = """\
playbook: look
summary: Look.
inputs:
  what: {help: What., argument: true}
  times: {help: How often., type: number, default: 1, at_most: 3}
  loud: {help: Loudly., type: switch}
key: "{{ what }}"
agents: {looker: {instructions: You look.}}
steps:
  - {agent: looker, task: "Look at {{ what }} {{ times }} times{% if loud %}, loudly{% endif %}."}
  - {ask: enough, question: "Enough of {{ what }}?"}
  - {end: done, status: complete, words: "Looked at {{ what }}."}
"""


@pytest.mark.req("OWN-01", "OWN-02", "CLI-04")
def test_the_examples_run_from_their_folders_to_their_ends(interlock: CommandLine) -> None:
    said = {
        "fix-until-agreed": (["The lamp is dark"], [], "The check passes, and both reviewers agree.\n"),
        "true-docs": (["README.md"], [], "What the pages say is true.\n"),
        "upgrade": (["click"], [["approve"], ["answer", "keep"]], "click is upgraded, and a person has seen it.\n"),
    }
    assert sorted(said) == [path.name for path in sorted(EXAMPLE.parent.iterdir())]
    for name, (words, decisions, ended) in said.items():
        shutil.copytree(EXAMPLE.parent / name, interlock.top / name)
        came = interlock("run", f"./{name}", *words, "--command", "true", "--runner", "scripted")
        for decision in decisions:
            assert came.code == 4, came.err
            came = interlock(*decision, "--runner", "scripted")
        assert (came.code, came.out) == (0, ended), came.err
    assert "  next    interlock diff" in came.err, "where the playbook names nothing"
    assert (interlock.top / "fixer.txt").exists() and (interlock.top / "docs/upgrades/click.md").exists()


@pytest.mark.req("OWN-01", "TREE-06")
def test_work_is_taken_out_and_brought_again_without_the_playbook_that_made_it(interlock: CommandLine) -> None:
    shutil.copytree(EXAMPLE, interlock.top / "fix")
    assert interlock("run", "./fix", "The lamp is dark", "--command", "true", "--runner", "scripted").code == 0
    shutil.rmtree(interlock.top / "fix")
    made = interlock.top / "fixer.txt"
    assert (interlock("undo", "latest").code, made.exists()) == (0, False)
    assert (interlock("apply", "latest").code, made.exists()) == (0, True)


@pytest.mark.req("OWN-01", "CLI-01")
def test_inputs_are_options_by_their_types_and_a_run_is_resumed_from_where_it_came(interlock: CommandLine) -> None:
    interlock.write("flows/look.yaml", FLOW)
    told = interlock("run", "./flows/look.yaml", "--help").out
    assert all(word in told for word in ("WHAT", "--times N", "--loud", "How often."))
    wrong = interlock("run", "./flows/look.yaml", "it", "--times", "4")
    assert (wrong.code, "less than or equal to 3" in wrong.err) == (2, True)
    waits = interlock("-C", "flows", "run", "./look.yaml", "the", "lamp", "--loud", "--runner", "scripted")
    assert waits.code == 4, waits.err
    assert "Look at the lamp 1 times, loudly." in _brief(interlock)
    done = interlock("approve", "--runner", "scripted")
    assert (done.code, done.out) == (0, "Looked at the lamp.\n"), done.err
    assert interlock("plan", "./flows/look.yaml", "it", "--runner", "scripted").code == 0
    assert "all of it holds" in interlock("rehearse", "./flows/look.yaml").out


def _brief(interlock: CommandLine) -> str:
    (brief,) = interlock.top.glob(".interlock/runs/*/dispatches/*/brief.md")
    return brief.read_text()


@pytest.mark.req("OWN-01")
def test_what_came_with_the_repository_waits_for_a_persons_word(
    interlock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    interlock.write(".interlock/playbooks/look.yaml", FLOW)
    interlock.commit("flows")
    refused = interlock("run", "look", "it", "--runner", "scripted")
    assert refused.code == 2
    assert "to do: Read it; then: interlock playbooks trust look" in refused.err
    monkeypatch.setattr(trusting, "confirmed", lambda question: True)
    assert interlock("run", "look", "it", "--runner", "scripted").code == 4
    interlock.write(".interlock/playbooks/look.yaml", FLOW.replace("You look.", "You look hard."))
    interlock.commit("flows")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(interlock.top.parent / "data"))
    assert interlock("plan", "look", "it", "--runner", "scripted").code == 2
    assert interlock("playbooks", "trust", "look").code == 0
    assert interlock("plan", "look", "it", "--runner", "scripted").code == 0


@pytest.mark.req("OWN-01")
def test_help_and_lists_execute_and_ask_nothing(interlock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where somebody else's hides one that ships."""
    interlock.write(".interlock/playbooks/task/playbook.py", "raise SystemExit('it ran')")
    interlock.commit("theirs")
    monkeypatch.setattr(trusting, "confirmed", pytest.fail)
    listed = interlock("run", "--help")
    assert (listed.code, "router" in listed.out, "\n  task " in listed.out) == (0, True, False)
    assert interlock("playbooks").code == 0
    assert interlock("run", "task", "--help").code == 2


@pytest.mark.req("OWN-01")
def test_a_shipped_one_is_copied_to_be_changed_and_comes_first(interlock: CommandLine) -> None:
    assert interlock("playbooks", "copy", "task").code == 0
    listed = interlock("playbooks").out
    assert "task     of this workspace: .interlock/playbooks/task" in listed
    assert "task     hidden by the one of this workspace" in listed
    came = interlock("run", "task", "Make it right", "--check", "true", "--runner", "scripted")
    assert came.code == 0, came.err
    assert interlock("playbooks", "copy", "task").code == 2


@pytest.mark.req("OWN-04")
def test_a_changed_process_is_tried_against_recorded_runs(interlock: CommandLine) -> None:
    """The first key that differs is named; words are no difference; nothing is called or written."""
    interlock.write("look.yaml", FLOW)
    assert interlock("run", "./look.yaml", "the lamp", "--runner", "scripted").code == 4
    assert interlock("approve", "--runner", "scripted").code == 0
    before = {path: content for path, (_, content) in interlock.bytes_of_all().items()}

    def against(old: str, new: str) -> tuple[int, str]:
        interlock.write("other.yaml", FLOW.replace(old, new))
        came = interlock("plan", "./other.yaml", "--against", "latest")
        return came.code, " ".join(came.out.split())

    assert against("You look.", "You look hard.")[1].endswith("all 3 keys as recorded")
    code, told = against("Look at {{ what }}", "See {{ what }}")
    assert (code, "looker#1: inputs: recorded" in told) == (1, True), told
    code, told = against("  - {ask: enough", "  - {run: look, command: ls}\n  - {ask: enough")
    assert (code, "enough/gate-enough#1: it is recorded, and not asked for before look#1" in told) == (1, True), told
    (interlock.top / "other.yaml").unlink()
    assert {path: content for path, (_, content) in interlock.bytes_of_all().items()} == before


@pytest.mark.long
@pytest.mark.req("OWN-03")
def test_new_ones_are_rehearsed_tested_and_run_as_they_stand(interlock: CommandLine) -> None:
    """As is said when they are written; their tests stand side by side."""
    for kind, words in (("yaml", ["--command", "true"]), ("python", [])):
        name = f"mine-{kind}"
        said = interlock("playbooks", "new", name, *(["--yaml"] if kind == "yaml" else []))
        commands = [shlex.split(line) for line in said.err.splitlines() if line.startswith("  ")]
        assert [one[1] for one in commands[:2]] == ["rehearse", f".interlock/playbooks/{name}"]
        assert interlock(*commands[0][1:]).code == 0
        ran = interlock(*commands[2][1:], "--runner", "scripted", *words)
        assert ran.code in (0, 3), ran.err  # in Python the project's own check counts, which nobody mends here
    pytest_ = [sys.executable, "-m", "pytest", ".interlock/playbooks", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(pytest_, cwd=interlock.top, check=False).returncode == 0
    assert interlock("playbooks", "new", "mine-yaml").code == 2


@pytest.mark.req("OWN-02", "PROOF-02")
def test_what_must_pass_is_told_before_it_runs(interlock: CommandLine) -> None:
    """By `plan`; and nobody is told of an option that the playbook does not have."""
    shutil.copytree(EXAMPLE, interlock.top / "mine")
    planned = interlock("plan", "./mine", "The lamp is dark", "--command", "false", "--runner", "scripted")
    assert (planned.code, "checks  false" in planned.out, "from fix-until-agreed" in planned.out) == (0, True, True)
    came = interlock("run", "./mine", "The lamp is dark", "--command", "false", "--runner", "scripted")
    assert (came.code, "this is what is to be done" in came.err, "--accept-baseline" in came.err) == (3, True, False)


@pytest.mark.req("OWN-01", "CLI-01", "RUN-11")
def test_an_input_has_no_name_that_a_run_has_an_option_for(interlock: CommandLine) -> None:
    """It would be taken for that option, and never reach the playbook."""
    for name in ("budget", "runner", "dry-run", "json", "help"):
        interlock.write("look.yaml", FLOW.replace("times:", f"{name}:").replace(" {{ times }} times", ""))
        came = interlock("run", "./look.yaml", "it", "--runner", "scripted")
        assert came.code == 2 and ("cannot be called" in came.err)


ADOPTS = """\
import json, os, pathlib, re, sys

brief = sys.stdin.read()
os.chdir(re.search(r"top of the workspace, `(.*)`", brief)[1])
again = "## Failure context" in brief
if os.environ["INTERLOCK_AGENT"] == "reader":
    lines = re.findall(r"^(\\d+): (.*\\w.*)$", brief, re.MULTILINE)[: None if again else -1]
    kinds = {"times": "limit", "First": "order"}
    told = {"statements": [
        {"id": n, "quote": line, "first_line": int(n), "last_line": int(n),
         "kind": next((kind for word, kind in kinds.items() if word in line), "advice")}
        for n, line in lines]}
elif os.environ["INTERLOCK_AGENT"] == "author":
    draft = pathlib.Path("docs/adopted/mend")
    (draft / "agents").mkdir(parents=True, exist_ok=True)
    (draft / "playbook.yaml").write_text(pathlib.Path("made.yaml").read_text())
    (draft / "agents" / "builder.md").write_text("---\\nname: builder\\ndescription: Builds.\\n---\\n\\nBe careful.\\n")
    places = {"limit": ["steps[0].at_most" if again else "steps"], "order": ["steps[0].steps"]}
    trace = {}
    for name, kind in re.findall(r"^- (\\S+) \\((\\w+)\\): .* \\(lines", brief, re.MULTILINE):
        trace[name] = {"places": places[kind]} if kind in places else {"not_enforced": "it is advice"}
    (draft / "trace.json").write_text(json.dumps(trace))
    told = {"summary": "made"}
else:
    kept = re.findall(r"^- (\\S+): .* is kept by", brief, re.MULTILINE)
    told = {"statements": [{"id": one, "faithful": True, "why": "so"} for one in kept[: None if again else 1]]}
pathlib.Path(os.environ["INTERLOCK_RESULT"]).write_text(json.dumps(told))
"""
MADE = """\
playbook: mend
summary: Mend it.
inputs: {what: {help: What., argument: true}}
key: "{{ what }}"
agents: {builder: {writes: ["**"]}}
steps:
  - repeat: attempt
    at_most: 2
    when_used_up: end given_up
    steps:
      - {agent: builder, task: "{{ what }}"}
      - {run: check, command: "true", must: pass}
      - decide: after
        rows:
          - {check: passed, then: leave}
          - {check: failed, then: again}
  - {end: done, status: complete, words: Done.}
  - {end: given_up, status: stopped, words: Given up.}
"""


@pytest.mark.long
@pytest.mark.req("OWN-05", *(f"AD-0{n}" for n in range(1, 10)))
def test_a_prompt_is_adopted_approved_and_run(interlock: CommandLine) -> None:
    """By agents that do it wrong at first, each in its own way; named from where the person stands."""
    interlock.write("prompts/mend.md", "# Mend\n\n1. First build, then check.\n2. At most 2 times.\n\nBe careful.\n")
    interlock.write("adopts.py", ADOPTS)
    interlock.write("made.yaml", MADE)
    settings = (interlock.top / "interlock.toml").read_text()
    runner = f'[runners.adopts]\ntype = "command"\nargv = ["{sys.executable}", "../adopts.py"]\n'
    interlock.write("interlock.toml", f"{settings}\n{runner}")
    asked = interlock("-C", "prompts", "run", "adopt", "mend.md", "--runner", "adopts")
    assert asked.code == 4, asked.err
    for complaint in ("line 6 lies in no quote", "'steps' is prose or a whole part"):
        assert complaint in asked.err
    summary = (interlock.top / "docs/adopted/mend/summary.md").read_text()
    assert "- **attempt**, at most 2 times, then: end given_up" in summary and "> 2. At most 2 times." in summary
    assert not (interlock.top / ".interlock/playbooks/mend").exists()
    assert interlock("approve", "--runner", "adopts").code == 0
    installed = interlock.top / ".interlock/playbooks/mend"
    assert {file.name for file in installed.rglob("*.*")} == {"playbook.yaml", "trace.md", "builder.md"}
    assert interlock("rehearse", "mend").code == 0
    ran = interlock("run", "mend", "the lamp", "--runner", "scripted")
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    assert interlock("-C", "prompts", "run", "adopt", "mend.md", "--runner", "adopts").code == 2, "it is taken"


@pytest.mark.long
@pytest.mark.req("HOUSE-05", "OWN-02")
def test_the_page_does_as_it_says(interlock: CommandLine) -> None:
    page = (EXAMPLE.parents[1] / "docs" / "own-playbooks.md").read_text("utf-8")
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", page, re.DOTALL):
        interlock.write(name, text)
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            came = interlock(*shlex.split(line)[1:])
            assert came.code == (4 if line.startswith("interlock run") else 0), (line, came.err)
