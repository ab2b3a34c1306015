"""`roadmap`, whole, with the real Claude Code and Codex in layers, and a model that does what a script says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.whole.test_real_agents import TWO, Person
from tests.whole.test_roadmap import ITEM, TOKEN
from tools import scripted_llm as llm

GREEN = {"verification": [{"command": "sh check.sh", "exit": 0}]}
PASS = {"status": "success", "verdict": "pass"}
WORDS = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")


@pytest.fixture(params=TWO)
def person(request: pytest.FixtureRequest, model: llm.Model, tmp_path: Path) -> Person:
    person = Person(request.param, model, tmp_path)
    items = [
        {**ITEM, "id": 1, "title": "Mend add", "acceptanceCriteria": ["it adds"], "verification": ["sh check.sh"]},
    ]
    person.bench.write("roadmap.json", json.dumps(items, indent=2))
    person.bench.commit("a roadmap")
    person.trusts()
    return person


@pytest.mark.req("AGENT-06", "RM-22", "RM-66", "RM-87")
def test_an_item_is_built_fails_is_mended_and_done(person: Person) -> None:
    """The first attempt mends nothing and meddles with the roadmap; the second one hears why."""
    bench = person.bench
    bench.write("notes.txt", "one\nTWO, unsaved\nthree\n")
    meddles = llm.shell("git stash -uq; git reset -q --hard; echo '[]' > roadmap.json; echo '# tried' >> lib.py")
    fails = {"status": "success", "verdict": "fail", "issues": ["add still subtracts"]}
    built = {"status": "success"}
    person.model.rules += [
        llm.Rule(
            r"This is retry 1/2",
            (llm.edit("lib.py", "    return a - b", "    return a + b"), llm.form(built)),
        ),
        llm.Rule(r"# Implement:", (meddles, llm.form(built))),
        llm.Rule(r"# Testing:[^#]*- Attempt: 1\n", (llm.shell("sh check.sh"), llm.form(fails))),
        llm.Rule(r"# Testing:", (llm.shell("sh check.sh"), llm.form({**PASS, "evidence": GREEN}))),
        llm.Rule(r"# Review:", (llm.form({**PASS, "evidence": {**GREEN, "checks": WORDS}, "nothing_to_run": "none"}),)),
    ]
    view = person.types("run", "roadmap")
    assert view["status"] == "complete" and view["output"].endswith(f"\n{TOKEN}\n")
    assert "a + b" in bench.read("lib.py") and bench.read("notes.txt") == "one\nTWO, unsaved\nthree\n"
    found = json.loads(bench.read("roadmap.json"))
    assert [(one["status"], one["passes"], one["retryCount"]) for one in found] == [("done", True, 1)]
    assert [call["agent"] for call in view["dispatches"]] == ["Implement", "Testing", "Review"] * 2
