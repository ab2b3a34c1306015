"""`router`, whole, by the real world: in the files of the seed, by the command line, late, three deep."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.whole.bench import Bench

TODO, AGENTS = ".opencode/specs/TODO.md", ".opencode/agent/subagents"
LIST = """\
# TODO

## High Priority

### 259. Make add right
**Effort**: 1 hour
**Status**: [NOT STARTED]
**Language**: lean
**Description**: `add` in lib.py subtracts.

It must add.

---

### 196. Say hello
**Status**: [NOT STARTED]
**Description**: Say hello in lib.py.
"""
COMMAND = """\
---
name: implement
agent: orchestrator
description: "Execute implementation"
timeout: {timeout}
routing:
  language_based: true
  lean: lean-implementation-agent
  default: implementer
---

**Task Input (required):** $ARGUMENTS (task number; e.g., `/implement 259`)
"""
AGENT = """\
---
name: {name}
version: 1.0
description: "Does it"
mode: subagent
model: provider/some-model
tools: {{read: true, bash: true}}
permissions:
  allow: [{{read: ["**/*"]}}]
---

# {name}

You are the {name} of ProofChecker.
"""
MENDS = "sed -i 's/a - b/a + b/' lib.py"
PLANTS = 'ln -s "$INTERLOCK_WORKSPACE/../planted" "$INTERLOCK_PARTIAL"'
SEEN = "off" if Path(sys.prefix).is_relative_to("/tmp") else "auto"
"""Layers hide what lies below /tmp: interlock itself, too, where it is tested there."""
RUN = f'"{sys.executable}" -m interlock.cli.main run router'


class Checker(Bench):
    """The seed's project: its task list, command files and agents, in the layout that it shows."""

    playbook, asked = "router", {"request": "/implement 259"}

    def __init__(self, top: Path, *, timeout: int = 7200, **bench: Any) -> None:
        super().__init__(top, **bench)
        self.write(TODO, LIST)
        for command in ("implement", "research", "plan"):
            self.write(f".opencode/command/{command}.md", COMMAND.format(timeout=timeout))
        for name in ("lean-implementation-agent", "implementer"):
            self.write(f"{AGENTS}/{name}.md", AGENT.format(name=name))
        self.write(".claude/agents/implementer.md", "You are somebody else.\n")
        self.commit("ProofChecker")
        mode = bench.get("mode", "auto")
        sandbox = f'[sandbox]\nmode = "{mode}"\n'
        argv = 'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n'
        self.write("interlock.toml", argv + sandbox)
        self.act("lean-implementation-agent", f"{MENDS}\necho 'add adds now.'\necho\necho 'Status: completed'\n")
        self.act("implementer", "echo '# hello' >> lib.py; printf 'Said \\342\\210\\200.\\nNo more.'\n")
        self.trust()


@pytest.mark.req("RT-03", "RT-40", "RT-46", "RT-54", "RT-56", "RT-61", "AGENT-07", "PERSON-07", "TREE-14", "RT-15")
@pytest.mark.parametrize("mode", ["auto", pytest.param("off", marks=pytest.mark.long)])
def test_in_the_seeds_own_files_tasks_go_to_their_agents_and_answers_come_back(tmp_path: Path, mode: str) -> None:
    """Byte for byte on standard output; the role is the file that the seed names, whoever else has that name."""
    checker = Checker(tmp_path / "p", mode=mode)
    checker.write("notes.txt", "one\nTWO, unsaved\nthree\n")
    said = checker.types("run", "router", "/implement 259 be brief")
    assert (said.code, said.out) == (0, "add adds now.\n\nStatus: completed\n"), said.err
    assert "a + b" in checker.read("lib.py")
    run = checker.place().runs.find("latest")
    brief = next(run.path.rglob("brief.md")).read_text()
    assert "You are the lean-implementation-agent of ProofChecker." in brief and "permissions" not in brief
    assert '"task_description": "`add` in lib.py subtracts.\\n\\nIt must add."' in brief
    said = checker.types("run", "router", "/implement 196")
    assert (said.code, said.out) == (1, "Said ∀.\nNo more."), said.err
    assert "unverified" in said.err and "# hello" in checker.read("lib.py")
    brief = next(checker.place().runs.find("latest").path.rglob("brief.md")).read_text()
    assert "You are the implementer of ProofChecker." in brief and "somebody else" not in brief
    assert checker.read(TODO) == LIST and checker.read("notes.txt") == "one\nTWO, unsaved\nthree\n"


@pytest.mark.req("RT-69", "RT-70", "RT-71", "RT-72", "RT-73", "RT-01", "RT-10")
def test_each_error_is_literal_ends_with_2_and_leaves_nothing(tmp_path: Path) -> None:
    checker = Checker(tmp_path / "p")
    (checker.top / AGENTS / "implementer.md").unlink()
    usage = "\n\nUsage: /implement TASK_NUMBER [PROMPT]\n\nExample: /implement 259"
    about = "\n\nThe task number should be a positive integer corresponding to a task in .opencode/specs/TODO.md\n"
    listed = 'You can list all tasks with: grep "^###" .opencode/specs/TODO.md\n'
    expected = {
        "/implement": f"Error: Task number required for /implement command{usage}{about}",
        "/implement x": f"Error: Task number must be an integer. Got: x{usage}\n",
        "/implement 7": "Error: Task 7 not found in TODO.md\n\n"
        f"Please verify the task number exists in .opencode/specs/TODO.md\n\n{listed}",
        "/implement 196": "Error: Agent implementer not found\n\n"
        f"File: {AGENTS}/implementer.md does not exist\n\n"
        "Check command configuration in .opencode/command/implement.md\n",
        "/review 259": "Error: Unknown command /review. Task commands: /research /plan /implement /revise\n",
    }
    for request, text in expected.items():
        said = checker.types("run", "router", request)
        assert (said.code, said.out) == (2, "")
        assert said.err.endswith(text), said.err
    assert not [*(checker.top / ".interlock" / "runs").glob("*")]


@pytest.mark.req("RT-64", "RT-66", "RT-67")
def test_at_the_deadline_partial_results_are_asked_for(tmp_path: Path) -> None:
    """The file appears; what comes then is relayed as partial, and its work comes in."""
    checker = Checker(tmp_path / "p", timeout=1)
    wait = 'until [ -e "$INTERLOCK_PARTIAL" ]; do sleep 0.05; done'
    checker.act("lean-implementation-agent", f"{MENDS}\n{wait}\nprintf 'half of it'\n")
    said = checker.types("run", "router", "/implement 259")
    assert (said.code, said.out) == (1, "half of it"), said.err
    assert "a + b" in checker.read("lib.py")


@pytest.mark.req("RT-67", "RT-75", "RT-76")
def test_who_gives_nothing_in_time_is_ended_and_its_end_shown(tmp_path: Path) -> None:
    checker = Checker(tmp_path / "p", timeout=1)
    checker.write("interlock.toml", checker.read("interlock.toml") + "[router]\npartial_grace_s = 1\n")
    checker.act("lean-implementation-agent", f"{MENDS}\n{PLANTS}\necho 'two lemmas so far'\nsleep 600\n")
    said = checker.types("run", "router", "/implement 259")
    assert (said.code, said.out) == (5, ""), said.err
    told = " ".join(said.err.split())
    assert "two lemmas so far" in told
    assert not (tmp_path / "planted").exists(), "the engine goes through no link of an agent's"
    place = told.split("Raw answer: ")[1].split()[0]
    assert (checker.top / place).read_text() == "two lemmas so far\n"
    assert "a - b" in checker.read("lib.py")


# --- one inside of another


@pytest.mark.req("RT-37", "RT-33", "RT-35", "RUN-20")
@pytest.mark.parametrize("mode", [SEEN, pytest.param("off", marks=pytest.mark.long)])
def test_an_agent_delegates_three_deep_within_its_own_layer(tmp_path: Path, mode: str) -> None:
    """Depth and path are the engine's; nested work is the outer agent's, and its records are kept with the dispatch."""
    checker = Checker(tmp_path / "p", mode=mode)
    checker.write(TODO, LIST + "".join(f"\n### {n}. T{n}\n- **Language**: general\n" for n in (1, 2, 3)))
    for command, agent in (("research", "a1"), ("plan", "a2"), ("revise", "a3")):
        checker.write(f".opencode/command/{command}.md", f"---\nagent: {agent}\n---\n")
        checker.write(f"{AGENTS}/{agent}.md", f"You are {agent}.\n")
    forged = "env INTERLOCK_DEPTH=0 INTERLOCK_PATH= INTERLOCK_DISPATCH="
    checker.act(
        "lean-implementation-agent", f"{MENDS}\n{forged} {RUN} '/plan 2' 2> first.txt\necho 'Status: completed'\n"
    )
    inner = f"{RUN} '/revise 3' > inner.txt 2> second.txt\n{RUN} '/revise 259' 2> task.txt\n"
    checker.act("a2", f"{inner}echo '# two' >> lib.py\necho two\n")
    checker.act("a3", f"{RUN} '/research 1' 2> third.txt\n{RUN} '/plan 1' 2> cycle.txt\necho three\n")
    said = checker.types("run", "router", "/implement 259")
    assert (said.code, said.out) == (0, "two\nStatus: completed\n"), said.err
    assert "exceeds the maximum of 3 (path: orchestrator -> lean-implementation-agent -> a2 -> a3)" in checker.read(
        "third.txt"
    )
    assert "delegation depth 4" in checker.read("cycle.txt")
    assert "task 259 is being worked on" in checker.read("task.txt")
    assert checker.read("inner.txt") == "three\n"
    assert "# two" in checker.read("lib.py") and "a + b" in checker.read("lib.py")
    runs = checker.place().runs
    assert len(runs.all()) == 1, "the person has begun one"
    kept = sorted((runs.find("latest").path / "dispatches").rglob("journal.jsonl"))
    assert len(kept) == 2, kept
    starts = [json.loads(file.read_text().splitlines()[0]) for file in kept]
    assert sorted(str(one).count("orchestrator") for one in starts) == [1, 1]
