"""Where a run stops, what leads on, and that it works as it is printed (PERSON-05)."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from interlock.app import Place
from interlock.cli.away import Away
from interlock.cli.door import Door
from interlock.cli.live import PlainView
from interlock.cli.working import Asking
from interlock.engine.run import Outcome, Run
from interlock.errors import Diverged
from interlock.playbooks.task import TASK
from interlock.workspace.layers.layers import Layers, Making
from tests.cli.conftest import Answer, CommandLine


def leads_on(said: Answer) -> list[list[str]]:
    """The commands of its end, as a shell would take them apart."""
    block = said.err[said.err.index("  next    ") :].splitlines()
    return [shlex.split(line.removeprefix("  next").strip())[1:] for line in block if "interlock " in line]


@pytest.mark.req("PERSON-05", "RUN-08", "TS-01", "TREE-14", "RUN-10")
def test_a_refusal_leads_on_with_words_and_with_the_work(interlock: CommandLine) -> None:
    interlock.refuses()
    said = interlock("Make add right", "--rounds", "1")

    assert said.code == 3
    assert "kept    lib.py +1 -1                 not delivered" in said.err
    assert len(interlock("show", "--json").json["dispatches"]) == 2, "as many rounds as were asked for"
    assert "+    return a + b" in interlock("diff").out
    assert "a - b" in interlock.read("lib.py")
    resume, apply = leads_on(said)
    assert interlock(*apply).code == 0
    assert "a + b" in interlock.read("lib.py")
    assert interlock("undo", "latest").code == 0
    assert resume[-2:] == ["--note", "TEXT"]
    (interlock.top / "acts" / "reviewer.sh").unlink()
    went_on = interlock(*resume)
    assert (went_on.code, "said    " in went_on.err) == (0, True)


@pytest.mark.long
@pytest.mark.req("RUN-13", "PERSON-05")
def test_an_agent_that_fails_leaves_the_run_open(interlock: CommandLine) -> None:
    interlock.act("builder", "echo 'the model is gone: unknown model x' >&2; exit 3")
    said = interlock("Make add right")

    assert (said.code, said.err.count("unknown model x") <= 3) == (5, True)
    (interlock.top / "acts" / "builder.sh").unlink()
    assert interlock(*leads_on(said)[0]).code == 0


@pytest.mark.req("PERSON-01", "PERSON-02", "RUN-09")
def test_a_gate_waits_and_is_decided_from_anywhere(waits: CommandLine) -> None:
    said = waits("resume")

    assert (said.code, "asks    Accept weakened checks: check.sh?" in said.err) == (4, True)
    approve, reject = leads_on(said)
    assert "one of approve, reject" in waits("answer", "maybe").err
    assert waits("reject").code == 2
    said = waits(*approve, "--only", "--json")
    assert (said.code, said.json["status"], "Recorded" in said.err) == (0, "waiting", True)
    assert waits("show").out.endswith(f"  next    interlock resume {waits.latest()}\n"), "and not: approve it"
    assert waits("resume").code == 0
    assert "approve" in waits("show").out and reject[0] == "reject"


@pytest.mark.req("PERSON-01")
def test_a_gate_shows_its_documents_with_size_and_change(
    interlock: CommandLine, plays: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asks(run: Run, inputs: object) -> Outcome:
        async for _ in run.loop("round"):
            if (
                await run.gate("plan", "Is this the plan?", summary="two steps", shows=("plan.md",))
            ).choice == "approve":
                break
        return Outcome.complete("planned")

    plays(asks)
    interlock.write("plan.md", "one\n")
    said = interlock("Plan it").err
    assert "  asks    Is this the plan?\n          two steps\n" in said
    assert re.search(r"shows   plan.md +4 B\n", said)
    assert re.search(r"shows   plan.md +4 B, as you saw it\n", interlock("reject", "--note", "more").err)
    interlock.write("plan.md", "two!\n")
    assert re.search(r"shows   plan.md +5 B, changed since it was asked\n", interlock("show").out)
    assert interlock("resume").code == 4
    assert re.search(r"shows   plan.md +5 B, changed since you saw it\n", interlock("show").out)
    place = PlainView(runs=(door := Door(dir=str(interlock.top))).runs.path)
    place.view = door.find("latest").view()
    asking, gate = Asking(door, place, Away(door)), place.view.gate
    assert gate is not None
    words = iter(["a", ""])
    monkeypatch.setattr(asking, "_read", lambda prompt: asyncio.sleep(0, next(words)))
    message = asyncio.run(asking.ask(gate))
    assert message is not None and (message.opening, message.shown) == (gate.opening, gate.shown), "to what was shown"
    interlock.write("plan.md", "three\n")
    said = interlock("approve").err
    assert "Changed since it was asked, and decided as it is now: plan.md" in said and "complete in" in said


@pytest.mark.req("RUN-09")
def test_a_fault_in_the_middle_has_its_own_exit_code(interlock: CommandLine, plays: Callable[[Any], None]) -> None:
    async def differs(run: Run, inputs: object) -> Outcome:
        run.warn("it began")
        raise Diverged("something else is asked", key="round-1", remedy="Say so.")

    plays(differs)
    said = interlock("Make add right", "--json")
    assert (said.code, said.json["exit_code"], said.json["error"]["where"]) == (2, 2, "round-1")
    assert said.json["run_id"] in said.err


def test_a_run_is_named_where_several_wait(waits: CommandLine) -> None:
    assert waits("Make it better").code == 4

    said = waits("approve")

    assert (said.code, "2 runs wait" in said.err) == (2, True)
    assert (waits("show", "task-").code, "begins several runs" in waits("show", "task-").err) == (2, True)
    assert waits("show").out.startswith("task  Make it better")
    assert waits("approve", waits.latest()[:-1]).code == 0
    assert waits("show").out.startswith("task  Make add right")  # the only one that waits


@pytest.mark.req("RUN-08")
def test_a_cancelled_run_says_so(waits: CommandLine) -> None:

    assert waits("cancel", "latest").code == 0
    for again in (("resume",), ("cancel", "latest"), ("approve", "latest")):
        said = waits(*again)
        assert (said.code, "cancelled" in said.err) == (2, True)
    assert waits("cancel").code == 2
    assert "to do: Ask again: interlock run task 'Make add right'\n" in waits("resume").err


@pytest.mark.req("PERSON-02", "PERSON-03", "RUN-16", "RUN-14")
def test_a_rejection_goes_to_the_maker_with_its_words_and_by_the_runner_of_the_start(interlock: CommandLine) -> None:
    interlock.write("interlock.toml", interlock.read("interlock.toml").replace('runner = "mine"', 'runner = "claude"'))
    interlock.weakens()
    assert interlock("Make add right", "--runner", "mine").code == 4
    interlock.act("builder-2", "cat > /dev/null; git checkout -q HEAD~1 -- check.sh; sed -i 's/a - b.*/a + b/' lib.py")

    said = interlock("reject", "--note", "mend lib.py instead")

    assert said.code == 0, said.err
    entry = Place(interlock.top).runs.find("latest")
    assert "mend lib.py instead" in (entry.path / "dispatches" / "round-2" / "builder#1" / "brief.md").read_text()
    assert {call.runner for call in entry.view().calls.values()} == {"mine"}, "claude would not be found"


@pytest.mark.req("RUN-07", "RUN-09")
def test_a_run_that_somebody_works_on_is_locked(waits: CommandLine) -> None:
    entry = Place(waits.top).runs.find("latest")
    with entry.lock():
        said = waits("resume", "--json")
        assert (said.code, said.json["status"]) == (6, "locked")
        assert f"interlock watch {entry.id}" in said.err
        assert "takes it up" in waits("approve", entry.id).err
        assert waits("runs").out.split()[1] == "working"
    assert waits("resume").code == 0


@pytest.mark.req("RUN-08", "PROOF-02")
def test_the_same_request_goes_on_and_other_options_are_refused(waits: CommandLine) -> None:
    run = waits.latest()

    assert run in (planned := waits("plan", "task", "Make add right").out) and "it goes on" in planned
    assert "goes on" in waits("Make add right").err
    assert waits.latest() == run
    said = waits("Make add right", "--rounds", "2")
    assert said.code == 2
    assert f"interlock resume {run}" in said.err
    assert f"interlock cancel {run}" in said.err


@pytest.mark.req("RUN-08", "RUN-21")
def test_an_open_run_goes_on_with_an_option_that_is_newer_than_it(waits: CommandLine) -> None:
    run, newer = waits.latest(), create_model("Inputs", __base__=TASK.inputs, depth=(int, 1))
    try:
        object.__setattr__(TASK, "inputs", newer)
        refused, said = waits("Make add right", "--depth", "2"), waits("Make add right")
    finally:
        object.__setattr__(TASK, "inputs", newer.__base__)
    assert (refused.code, "with other options" in refused.err) == (2, True)
    assert "goes on" in said.err, said.err
    assert waits.latest() == run


@pytest.mark.req("RUN-06", "CLI-05")
def test_a_damaged_journal_is_told_and_mended(done: CommandLine) -> None:
    run = done.latest()
    journal = done.top / ".interlock" / "runs" / run / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:5], lines[5].replace(b"1", b"2", 1), *lines[6:]]))

    said = done("show", run)
    assert (said.code, ":6" in said.err, f"interlock doctor --mend {run}" in said.err) == (2, True, True)
    mended = done("doctor", "--mend", run)

    assert mended.code == 0
    assert "5 lines are whole" in mended.err
    assert list(journal.parent.glob("journal.damaged-1"))
    assert done("show", run).code == 0


@pytest.mark.req("RUN-20")
def test_an_agent_inside_a_run_cannot_steer(done: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether or not anybody trusts the settings: that is a word for a person."""
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nobody's"))
    monkeypatch.setenv("INTERLOCK_DISPATCH", "round-1/builder#1")
    steers = [
        ("Do it",),
        ("approve",),
        ("reject",),
        ("answer", "x"),
        ("cancel", "x"),
        ("undo",),
        ("apply",),
        ("fleet",),
    ]
    steers += [("web",), ("mcp",), ("runs", "--clean"), ("playbooks", "trust", "x"), ("doctor", "--mend", "x")]

    for words in steers:
        said = done(*words)
        assert (said.code, "a person, at a terminal of their own" in said.err) == (2, True), words
    assert done("show").code == 0


@pytest.mark.req("RUN-20")
def test_a_process_of_a_dispatch_is_known_by_its_parents() -> None:
    """One that takes the variables away is still a child of one that has them."""
    asks = "from interlock.cli import door; print(door.inside_dispatch())"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asks!r}], env={{}}, check=True)"

    def said(env: dict[str, str]) -> str:
        done = subprocess.run([sys.executable, "-c", starts], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert said({"INTERLOCK_MARKER": "run/key"}) == "True"


@pytest.mark.req("EVID-12")
def test_held_back_work_is_told_with_the_word_that_delivers_it(interlock: CommandLine) -> None:
    """Of a path that several rounds left the last one's."""
    interlock.refuses("reviewer-1")
    interlock.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo be $INTERLOCK_ATTEMPT > CLAUDE.md; echo done")
    said = interlock("Make add right")

    assert said.code == 0
    assert re.findall(r"held +CLAUDE.md \+1 -?0? +guarded: not delivered\n  +note", said.err), said.err
    assert not (interlock.top / "CLAUDE.md").exists()
    assert interlock(*leads_on(said)[-1]).code == 0
    assert interlock.read("CLAUDE.md") == "be 2\n"


@pytest.mark.req("TREE-08", "PERSON-05")
def test_what_steers_agents_does_not_come_along_with_the_rest(interlock: CommandLine) -> None:
    """Refused work is brought without it; it has a command of its own, which works as printed."""
    interlock.refuses()
    interlock.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo be > CLAUDE.md; echo done")
    assert interlock("Make add right", "--rounds", "1").code == 3

    said = interlock("apply", "latest")
    assert (said.code, "a + b" in interlock.read("lib.py"), (interlock.top / "CLAUDE.md").exists()) == (0, True, False)
    (word,) = [line.partition(": ")[2] for line in said.err.splitlines() if "bring that, too" in line]
    assert interlock(*shlex.split(word)[1:]).code == 0
    assert interlock.read("CLAUDE.md") == "be\n"

    for how, there in (("undo", False), ("apply", True)):  # what a person has approved comes again with the rest
        assert interlock(how, "latest").code == 0
        assert (interlock.top / "CLAUDE.md").exists() == there


@pytest.mark.req("TREE-11")
def test_copies_that_fill_the_disk_are_asked_for(interlock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Making("copy", "the kernel refuses it", "Allow it.")
    monkeypatch.setattr(Layers, "maker", lambda self: made)
    monkeypatch.setattr(Making, "shares_blocks", False)
    monkeypatch.setattr(Making, "cost_bytes", 6_000_000_000)

    said = interlock("Make add right")

    assert (said.code, "private copy of 6.0 GB" in said.err, "Allow it." in said.err) == (2, True, True)
    assert not (interlock.top / ".interlock").exists()


@pytest.mark.req("TREE-06", "EVID-06", "EVID-07", "EVID-08")
def test_what_a_person_brought_is_not_the_work_of_the_round_behind_it_and_is_taken_out_again(
    interlock: CommandLine,
) -> None:
    """The agent bends the check; a person brings that all the same; then the agent does nothing more."""
    interlock.act("builder", "echo '# looked at' >> lib.py; echo true > check.sh; echo done")
    assert interlock("Make add right", "--rounds", "1").code == 3
    assert "accepts, but that does not stand" in interlock("show").out
    assert interlock("apply").code == 0
    interlock.act("builder", "echo done")
    assert interlock("resume", "latest", "--note", "go on").code == 3
    facts = interlock("show", "--json").json
    assert (facts["exit_code"], "Nothing was changed" in facts["reason"]) == (3, True)
    assert [(one["word"], one["weakened"]) for one in facts["checks"]] == [("held", ["check.sh"])]
    assert "changed nothing" in interlock("show").out
    assert interlock("diff", "--stat").out.splitlines() == ["delivered", "  check.sh +1 -1", "  lib.py +1 -0"]
    assert interlock("undo", "latest").code == 0
    assert (interlock.read("check.sh"), "looked at" in interlock.read("lib.py")) == ("grep -q 'a + b' ./*.py\n", False)


@pytest.mark.req("RUN-11", "RUN-13")
def test_a_runner_that_is_not_there_is_found_before_anything_is_tried(interlock: CommandLine) -> None:
    settings = interlock.read("interlock.toml")
    interlock.write("interlock.toml", settings + '[runners.gone]\ntype = "command"\nargv = ["no-such-agent"]\n')
    interlock.trust()
    said = interlock("Make add right", "--runner", "gone")
    assert (said.code, "no-such-agent is not installed" in said.err) == (2, True)
    assert "no runs" in interlock("runs").err.lower() or not interlock("runs").out.strip()


@pytest.mark.req("EVID-06", "RUN-11")
@pytest.mark.parametrize(("line", "code"), [("./nosuch.sh", 3), (".venv/bin/nothere -m pytest", 2)])
def test_a_check_that_no_agent_can_bring_is_no_red_one(interlock: CommandLine, line: str, code: int) -> None:
    assert interlock("Make add right", "--check", line, "--rounds", "1").code == code


@pytest.mark.req("TREE-06")
def test_what_never_came_is_not_asked_for_on_another_branch(interlock: CommandLine) -> None:
    interlock.refuses()
    assert interlock("Make add right", "--rounds", "1").code == 3
    interlock.run_git("switch", "-q", "-c", "other")
    assert "has nothing in your tree" in interlock("undo", "latest").err
    assert "is checked out" in interlock("apply", "latest").err


@pytest.mark.req("TS-04", "RUN-10")
def test_settings_lower_what_is_typed_and_the_end_says_so(interlock: CommandLine) -> None:
    interlock.write("interlock.toml", interlock.read("interlock.toml") + "[task]\nrounds = 1\n")
    interlock.act("builder", "echo nothing")
    said = interlock("run", "task", "Make add right", "--rounds", "3")
    assert (said.code, "Not accepted within 1 round: " in " ".join(said.err.split())) == (3, True), said.err
