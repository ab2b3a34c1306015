"""What a user sees of evidence, verdicts and reasons: live, in logs, in reports, at the end, with `diff` and `why`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from interlock.cli.door import Errand
from interlock.cli.history import LISTED, change_lines
from interlock.cli.live import LiveView
from interlock.engine.changes import Changes, FileChange
from interlock.engine.journal import Line
from interlock.telemetry import Narrator, Telling, Weight, markdown, read_report, tell

START = "2026-01-01T10:00:00.000+00:00"


def line(event: str, key: str = "s/a#1", attempt: int = 1, agent: str = "a", **data: Any) -> Line:
    return Line(1, START, "r", event, key, agent, attempt, None, None, data, "", "")


def own(event: str, key: str, **facts: Any) -> Line:
    """An event that a playbook recorded."""
    return line(event, key, **{"in": {"event": event}, **facts})


def ended(key: str, member: str, **facts: Any) -> Line:
    usual = {"outcome": "OK", "reason": None, "seconds": 1.0, "changes": 0, "cost_usd": None, "complaints": []}
    return line("dispatch.end", key, member=member, step=key.split("/")[-2], **{**usual, **facts})


def told(*lines: Line) -> list[Telling]:
    narrator = Narrator()
    return [narrator.tell(one) for one in lines]


@pytest.mark.req("EV-30")
def test_a_verdict_is_told_as_a_verdict() -> None:
    """A Testing that found failures did its part, and yet is not "ok"."""
    red = ended("testing/Testing#1", "Testing", passed=False, against=["`npm test` ended with exit status 1"])
    said = tell(red)
    assert said.text == "Testing  does not pass in 1.0 s: `npm test` ended with exit status 1"
    assert said.weight is Weight.BAD
    green = tell(ended("testing/Testing#1", "Testing", passed=True))
    assert (green.text, green.weight) == ("Testing  passes in 1.0 s", Weight.GOOD)
    claimed = {"outcome": "REVISE", "reason": "contradicted", "complaints": ["says pass, but: 2 tests failed"]}
    against = tell(ended("testing/Testing#1", "Testing", passed=False, **claimed))
    assert "does not pass (contradicted) in 1.0 s: says pass, but: 2 tests failed" in against.text


@pytest.mark.req("EV-30")
def test_lines_name_what_is_worked_on_and_why_it_is_done_again() -> None:
    """The item stands before whatever concerns it; a second attempt says what was wrong with the first."""
    selected = own("item.selected", "item-1/note#1", item="EXPORT-1", title="Write CSV")
    start = line("dispatch.start", "item-1/attempt-1/testing/T#1", member="T", step="testing", runner="x", **{"try": 1})
    red = ended("item-1/attempt-1/testing/T#1", "T", passed=False, against=["2 tests failed"])
    again = line("loop", "item-1/attempt-2/loop#1", loop="attempt", turn=2, cap=3)
    other = line("dispatch.start", "item-2/attempt-1/testing/T#1", member="T", step="testing", runner="x", **{"try": 1})
    said = told(selected, start, red, again, other)
    assert [one.text for one in said] == [
        "EXPORT-1: Write CSV",
        "EXPORT-1, step testing: T  started (attempt 1; runner x)",
        "EXPORT-1, step testing: T  does not pass in 1.0 s: 2 tests failed",
        "EXPORT-1, attempt 2 of at most 3, because T does not pass: 2 tests failed",
        "step testing: T  started (attempt 1)",
    ]
    assert said[3].weight is Weight.ATTENTION


@pytest.mark.req("EV-30")
def test_a_decision_has_its_inputs_by_name_and_noise_is_for_verbose() -> None:
    """What the rule was given stands with names; turns that simply follow, and decisions that say the same, do not."""
    out = {"rule": "ct_cluster", "row": "...", "result": "NEEDS_REVISION"}
    named = {"security": "High", "scalability": "Low", "strict": False}
    decided = line("decide", "3b/ct#1", **{"in": {}, "out": out, "named": named})
    first, same = told(decided, decided)
    assert first.text == "decision ct_cluster: security High, scalability Low -> NEEDS_REVISION"
    assert (first.weight, same.weight) == (Weight.PLAIN, Weight.DETAIL)
    assert told(line("loop", "item-1/loop#1", loop="item", turn=1, cap=100_000))[0].weight is Weight.DETAIL
    assert told(line("cluster.end", "x", members=["a", "b"]))[0].weight is Weight.DETAIL
    table = line("decide", "3b/ct#1", **{"in": {}, "out": out, "named": named, "table": True})
    again = told(table, ended("3b/ct#2", "ct"), table)
    assert [one.weight for one in again[::2]] == [Weight.PLAIN, Weight.PLAIN]


@pytest.mark.req("EV-30")
def test_the_new_events_are_told() -> None:
    """The look before the first agent, a proof, something noticed, an option: each in a sentence."""
    fine = tell(line("preflight", commands=["test: make test, from Makefile"], problems=[], red=[]))
    assert fine.text.splitlines()[1] == "test: make test, from Makefile"
    assert fine.weight is Weight.GOOD
    red = tell(line("preflight", commands=["test: make test"], problems=["agent x cannot be called"], red=[]))
    assert "agent x cannot be called" in red.text
    facts = {"name": "test", "command": "make test", "exit": 0, "seconds": 3.0, "tail": "", "problem": ""}
    assert tell(line("proof", **facts)).text == "test: make test passes in 3.0 s"
    failed = {**facts, "problem": "ended with exit status 2", "tail": "one\ntwo", "new": ["test_a"], "known": ["b"]}
    said = tell(line("proof", **failed))
    assert said.text.splitlines() == ["test: make test ended with exit status 2, in 3.0 s; new: test_a", "one", "two"]
    assert said.weight is Weight.BAD
    assert "b deleted a test" in tell(line("work.noticed", what=["b deleted a test"], by="b")).text
    assert tell(line("option", "preflight/x", skip=True, accept=False)).weight is Weight.PLAIN
    assert tell(line("option", "preflight/x", skip=False)).weight is Weight.DETAIL


@pytest.mark.req("EV-27", "EV-30")
def test_reasons_keep_their_lines_and_wrap_below_their_beginning(tmp_path: Path) -> None:
    """Never as an escaped line end; on a narrow terminal the rest of a long reason stands below it."""
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    view = LiveView(Errand(), keep_output=False, root=tmp_path, console=console)
    view.line(line("warning", "", text=f"first line\n{'word ' * 20}"))
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown[0].endswith("warning: first line")
    assert all(len(row) <= 60 and row.startswith(" " * 10) for row in shown[1:])
    assert sum(row.count("word") for row in shown) == 20


@pytest.fixture
def judged(workspace: Any) -> Any:
    """A run of the toy in which the builder's work was accepted."""
    workspace.scenario({"agent": "planner", "files": {"plan.md": "# Plan\n\nFirst build, then test.\n"}})
    assert workspace("run", "toy", "a").code == 4
    return workspace


@pytest.mark.req("EV-30")
def test_report_and_show_have_the_verdict_and_what_it_is_about(tmp_path: Path) -> None:
    """The tables of the report show what each dispatch worked on, and a verdict against the work as one."""

    class Made:
        path = tmp_path

        def identity(self) -> Any:
            facts = {"run_id": "r", "playbook": "p", "key": "k", "inputs": {}, "version": "0", "continues": None}
            return type("Identity", (), {**facts, "started_at": START})()

        def lines(self) -> Any:
            more = {"tries": 1, "started_at": START, "exit_code": 0, "brief_bytes": 1, "answer_bytes": 1}
            tokens = {"input_tokens": None, "output_tokens": None}
            red = ended("item-1/testing/T#1", "T", passed=False, **more, **tokens)
            return [own("item.selected", "item-1/note#1", item="EXPORT-1", title="CSV"), red]

    text = markdown(read_report(Made()))
    assert "| EXPORT-1 | testing | T | 1 | does not pass |" in text
    assert "verdicts against the work: 1" in text


@pytest.mark.req("EV-31")
def test_a_run_ends_with_what_was_reached_and_what_changed(judged: Any) -> None:
    """Code, documentation and the documents of the playbook apart, the branch, one next command."""
    answer = judged("approve", "--resume")
    name = judged.folders[0].name
    said = answer.stderr[answer.stderr.index("toy a: complete after") :]
    assert "  code: no file changed\n" in said
    assert "  documentation: 3 files, +5 -0\n" in said
    assert "    plan.md +3 -0\n" in said
    assert "  documents: 1 file: state.txt\n" in said
    assert "  branch: " in said
    assert said.endswith(f"  next: interlock diff {name}\n")
    assert said.count("interlock ") == 1


@pytest.mark.req("EV-31")
def test_diff_shows_the_work_of_a_run_or_of_one_agent(judged: Any, tmp_path: Path) -> None:
    """A patch that git applies; per agent; files alone with --stat; a name that has done nothing is refused."""
    judged("approve", "--resume")
    before = judged.digest()
    whole = judged("diff", "latest").stdout.decode()
    assert "+First build, then test." in whole
    assert "+++ b/built.txt" in whole
    one = judged("diff", "latest", "planner").stdout.decode()
    assert ("+++ b/plan.md" in one, "built.txt" in one) == (True, False)
    assert "plan.md +3 -0" in judged("diff", "latest", "--stat").stdout.decode()
    facts = judged("diff", "latest", "--json").json
    assert {"path": "plan.md", "added": 3, "removed": 0} in facts["documentation"]
    assert facts["code"] == []
    refused = judged("diff", "latest", "nobody")
    assert (refused.code, "planner" in refused.stderr) == (2, True)
    assert judged.digest() == before


@pytest.mark.req("EV-31")
def test_code_documentation_and_documents_stand_apart() -> None:
    """Each with its files; what is many is counted."""
    guide, code = FileChange("docs/guide.md", 3, 1), tuple(FileChange(f"a{n}.py", 1, 0) for n in range(LISTED + 2))
    assert change_lines(Changes(code, (guide,), (), ("plan.md",), (), b"")) == [
        f"  code: {LISTED + 2} files, +{LISTED + 2} -0",
        *(f"    a{n}.py +1 -0" for n in range(LISTED)),
        "    and 2 more",
        "  documentation: 1 file, +3 -1",
        "    docs/guide.md +3 -1",
        "  documents: 1 file: plan.md",
    ]


@pytest.mark.req("EV-31")
def test_the_diff_is_against_how_the_run_found_a_file(workspace: Any) -> None:
    """A file that was there shows what was changed in it, and nothing else."""
    (workspace.root / "plan.md").write_text("old\nkept\n", "utf-8")
    workspace.scenario({"agent": "planner", "files": {"plan.md": "kept\nnew"}})
    workspace("run", "toy", "a", "--mode", "quick")
    rows = workspace("diff", "latest").stdout.decode().splitlines()
    assert [row for row in rows if row[:1] in "+-"] == ["--- a/plan.md", "+++ b/plan.md", "-old", "+new"]
    assert rows[-1] == "\\ No newline at end of file"


@pytest.mark.req("EV-31")
def test_why_names_rule_inputs_and_evidence(workspace: Any) -> None:
    """For the whole run the last reasons, for a step all of it; what is not there is refused with what is."""
    workspace.scenario({"agent": "planner", "exit": 1, "message": "no idea"})
    assert workspace("run", "toy", "a").code == 5
    said = workspace("why", "latest").stdout.decode()
    assert "is failed: planner: crashed" in said
    assert "planner  failed (crashed)" in said
    assert said.count("ended with exit status 1") == 1  # each thing once
    assert "plan/planner#1" in workspace("why", "latest", "plan").stdout.decode()
    facts = workspace("why", "latest", "PLAN", "--json").json["because"]
    assert [(one["event"], one["member"], one["reason"]) for one in facts] == [("dispatch.end", "planner", "crashed")]
    refused = workspace("why", "latest", "nowhere")
    assert (refused.code, "plan" in refused.stderr) == (2, True)


@pytest.mark.req("EV-31")
def test_why_tells_a_decision_with_each_input(router: Any) -> None:
    """The rule by its name, every input behind its own, and the result."""
    router("run", "router", "/implement 259")
    said = router("why", "latest").stdout.decode()
    assert "  rule: ending\n" in said
    assert "  result: complete\n" in said
    rules = [one for one in router("why", "latest", "--json").json["because"] if one["event"] == "decide"]
    assert rules[-1]["rule"] == "ending"
    assert json.dumps(rules[-1]["inputs"]) != "null"
