"""`ticket`, whole, with the real Claude Code and Codex in layers, and a model that does what a script says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole.test_real_agents import TWO, Person
from tests.whole.test_ticket import BRANCH, REQUEST, TASKS, P
from tools import scripted_llm as llm

I0 = f"{P}iteration_0"
REPORT = (
    "status: ACCEPTED\nmode: prompt-review\nbuild: PASSED\ntests: PASSED\nfiles_verified: true\n"
    "notes: it adds\nreviewed_at: 2026-01-01T00:00:00Z\n"
)
DOCS = "mkdir -p docs; echo '# A' > docs/ARCHITECTURE.md; echo 'trust_status: stale' > docs/docs_cache_state.yaml"


def leaves(path: str, text: str) -> str:
    return f"cat > {path} <<'END'\n{text}END\n"


@pytest.fixture(params=TWO)
def person(request: pytest.FixtureRequest, model: llm.Model, tmp_path: Path) -> Person:
    return Person(request.param, model, tmp_path)


@pytest.mark.req("AGENT-06", "TK-14", "TK-122", "TK-140")
def test_a_ticket_is_planned_done_reviewed_and_committed(person: Person) -> None:
    """One executor sets everything back and meddles with the state; the documentation stays stale."""
    bench = person.bench
    bench.write("README.md", "mine, unsaved\n")
    meddles = llm.shell(f"git stash -uq; git reset -q --hard; echo x > {P}progress.yaml")
    done = llm.form({"status": "SYNTAX_VALID"})
    plan = llm.shell(f"printf '# Plan\\n' > {I0}/plan.md; {leaves(f'{I0}/tasks.yaml', TASKS)}")
    person.model.rules += [
        llm.Rule(r"# Planner:", (plan, llm.form({"status": "done"}))),
        llm.Rule(r"# Initializer:", (llm.shell(DOCS), llm.form({"status": "done"}))),
        llm.Rule(r"# task-executor:.*Task: T1\n", (llm.edit("lib.py", "    return a - b", "    return a + b"), done)),
        llm.Rule(r"# task-executor:.*Task: T2\n", (meddles, llm.edit("notes.txt", "three", "four"), done)),
        llm.Rule(r"# Reviewer:", (llm.shell(leaves(f"{I0}/review_report.yaml", REPORT)), done)),
    ]
    view = person.types("run", "ticket", REQUEST)
    assert view["status"] == "complete", view["reason"]
    assert view["output"].splitlines()[-2] == f"Branch: {BRANCH}"
    assert "a + b" in bench.read("lib.py") and "four" in bench.read("notes.txt")
    assert bench.read("README.md") == "mine, unsaved\n"
    assert bench.run_git("log", "-1", "--format=%s") == "fix(ABC-12): fix add: it should add"
    assert sorted(bench.run_git("show", "--format=", "--name-only").split()) == [".gitignore", "lib.py", "notes.txt"]
