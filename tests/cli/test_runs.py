"""A run from the command line: what is seen while it works, what is said at its end, and what can be looked at."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from interlock.engine.run import Outcome, Run
from tests.cli.conftest import CommandLine

KEPT = {
    *("run_id", "playbook", "key", "status", "exit_code", "reason", "output", "gate", "dispatches", "usage"),
    *("started_at", "finished_at"),
}


def shape(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"task-\d{8}-\d{6}-\w{4}", "RUN", text)
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"\b\d+:\d\d\b", "0:00", re.sub(r"\b\d+(\.\d)? s\b", "0 s", text))


async def asks(run: Run, inputs: object) -> Outcome:
    await run.gate("go-on", "Go on?")
    return Outcome.complete("asked")


@pytest.mark.req("CLI-02", "CLI-03", "CLI-04")
def test_in_a_pipe_there_is_a_line_a_step_and_the_block_of_the_end(interlock: CommandLine) -> None:
    interlock.write("interlock.toml", interlock.read("interlock.toml").replace('mode = "off"', 'mode = "auto"'))
    interlock.commit("confined")
    interlock.trust()

    said = interlock("Make add right")

    assert (said.code, said.out) == (0, "")
    lines = [line for line in shape(said.err).splitlines() if "private cop" not in line]
    assert [*lines[:13], lines[-1]] == [  # before the last: why, where the kernel refuses layers
        "task  Make add right  RUN",
        "TIME  check   sh check.sh          red: this is what is to be done (if not: --accept-baseline)",
        "TIME  builder begins               mine",
        "TIME  builder ok                   0 s  1 file",
        "TIME  check   sh check.sh          green: mended",
        "TIME  reviewer begins",
        "TIME  reviewer accepts             0 s",
        "TIME  code    delivered            lib.py",
        "",
        "complete in 0:00  2 calls  cost unknown",
        "  checks  sh check.sh                  red -> green, mended",
        "  judged  reviewer accepts",
        "  code    lib.py +1 -1",
        "  next    interlock diff",
    ]


@pytest.mark.req("CLI-04")
def test_with_json_stdout_is_one_object_whose_names_are_kept(done: CommandLine) -> None:
    said = done("resume", "--json")

    facts = said.json
    assert facts.keys() >= KEPT
    assert (facts["status"], facts["exit_code"], facts["playbook"]) == ("complete", 0, "task")
    assert [one["agent"] for one in facts["dispatches"]] == ["builder", "reviewer"]
    assert "complete in" in said.err
    assert done("show", "--json").json.keys() == facts.keys()


@pytest.mark.req("CLI-02")
def test_nothing_about_the_machinery_without_verbose(interlock: CommandLine, plays: Callable[[Any], None]) -> None:
    async def notes(run: Run, inputs: object) -> Outcome:
        run.note("inner", n=1)
        return Outcome.complete("so it is")

    plays(notes)
    assert ["fact    inner" in interlock(*words).err for words in (("Do it",), ("Do it again", "-v"))] == [False, True]
    assert ["fact" in interlock("show", "--log", *words).out for words in ((), ("-v",))] == [False, True]


@pytest.mark.req("TS-01", "RUN-08")
def test_asked_again_after_its_end_it_is_a_new_run(done: CommandLine) -> None:
    first = done.latest()

    said = done("resume", first, "--note", "and the docs")
    assert (said.code, "is complete" in said.err) == (2, True), "words are not dropped in silence"
    assert done("Make add right", "--check", "true").code in (0, 3)
    assert done.latest() != first
    assert done("show", first).out.endswith(f"  next    interlock diff {first}\n")


@pytest.mark.req("CLI-07", "PROOF-02", "PERSON-05")
def test_show_has_head_steps_and_evidence_and_a_step_has_it_all(done: CommandLine) -> None:
    assert "earlier about " in done("plan", "task", "Do more").out
    assert "  next    interlock -C ../work diff" in done("-C", "../work", "show").out, "as it is typed from here"
    whole = shape(done("show").out)

    assert whole.startswith("task  Make add right")
    assert "+ before   + round 1" in whole
    assert "  before    check   sh check.sh        red" in whole
    assert "  round 1   builder ok" in whole
    assert "  checks  sh check.sh                  red -> green, mended" in whole
    step = done("show", "latest", "reviewer").out
    assert "asked   the request" in step and "round-1/reviewer#1" in step
    assert "met" in step
    assert done("show", "round 1").out.count("round-1/") >= 3
    done.write("interlock.toml", "[[[ to look at a run takes no settings")
    missing = done("show", "latest", "revewer")
    assert (missing.code, "Did you mean reviewer?" in missing.err) == (2, True)


@pytest.mark.req("EVID-12", "CLI-07")
def test_what_there_is_besides_receipt_log_and_diff(done: CommandLine) -> None:
    said = done("show", "--markdown").out
    assert said.startswith("# Make add right\n")
    assert "| check | before | after |  | run by | on tree |" in said
    assert re.search(r"\| `sh check.sh` \| red \| green \| mended \| interlock \| `[0-9a-f]{10}` \|", said)
    assert "| the request | yes |" in said and "Delivered: `lib.py`" in said
    assert said == (done.top / ".interlock" / "runs" / done.latest() / "report.md").read_text()
    lines = done("show", "--log").out.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in lines) and lines[-1].endswith("lib.py")
    assert "+    return a + b" in done("diff").out
    assert done("diff", "--stat").out == "delivered\n  lib.py +1 -1\n"
    assert "+    return a + b" in done("diff", "builder").out
    assert "changed nothing" in done("diff", "latest", "reviewer").err
    assert "one of builder, reviewer" in done("diff", "latest", "nobody").err


@pytest.mark.req("CLI-08")
def test_cleaning_takes_what_is_left_and_never_work_that_nobody_took_over(
    done: CommandLine, plays: Callable[[Any], None]
) -> None:
    complete = done.latest()
    done.refuses()
    done.act("builder", "echo '# nicer' >> lib.py; echo done")
    assert done("Make it nice", "--rounds", "1").code == 3
    stopped = done.latest()
    plays(asks)
    assert done("Leave it open").code == 4, "an open run is never cleaned"
    folder = done.top / ".interlock"

    planned = done("runs", "--clean", "--older", "0", "--dry-run", "--json").json
    assert {(one["run_id"], one["what"]) for one in planned["removed"]} == {(complete, "run"), (stopped, "layers")}
    assert (folder / "runs" / complete).exists()

    said = done("runs", "--clean", "--older", "0")

    assert "1 old run kept" in said.err
    assert not (folder / "runs" / complete).exists()
    assert (folder / "runs" / stopped).exists()
    assert not (folder / "layers" / stopped).exists()
    assert done("apply", stopped).code == 0


@pytest.mark.req("EVID-12", "TS-10")
def test_work_on_a_branch_is_told_as_there_and_not_as_left_out(interlock: CommandLine) -> None:
    """Its receipt is what a pull request begins with."""
    interlock.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo done")
    said = interlock("Make add right", "--branch", "mended")

    assert (said.code, re.findall(r"  code +lib.py .*", said.err)) == (
        0,
        ["  code    lib.py +1 -1                 on mended, not in your tree"],
    )
    receipt = interlock("show", "--markdown").out
    assert "refs/heads/mended" in receipt
    assert "elivered" not in receipt


@pytest.mark.req("TREE-06")
def test_undo_without_a_name_is_asked_for_and_takes_the_run_back(done: CommandLine) -> None:
    run = done.latest()
    asked = done("undo")
    assert (asked.code, f"interlock undo {run}" in asked.err, "a + b" in done.read("lib.py")) == (2, True, True)

    assert "would be taken out: lib.py" in done("undo", run, "--dry-run").err
    assert "a + b" in done.read("lib.py")
    said = done("undo", run, "lib.py")

    assert (said.code, "a - b" in done.read("lib.py")) == (0, True)
    assert "by" in done("show", run).out
    assert done("apply").code == 0
    assert "a + b" in done.read("lib.py")


@pytest.mark.req("TREE-06")
def test_a_run_is_taken_out_and_brought_again_path_by_path(interlock: CommandLine) -> None:
    """The last word about a path counts; what is out is out, whatever a person makes of it afterwards."""
    (private := interlock.top / "notes.txt").chmod(0o600)
    makes = "echo new > new.txt; mkdir docs; echo x > docs/x; rm notes.txt; echo done"
    interlock.act("builder", f"sed -i 's/a - b/a + b/' lib.py; {makes}")
    assert (interlock("Make add right").code, private.exists()) == (0, False)
    assert interlock("undo", "latest", "notes.txt").code == 0
    assert (private.read_text(), private.stat().st_mode & 0o777) == ("one\ntwo\nthree\n", 0o600)

    def there() -> list[bool]:
        return ["a + b" in interlock.read("lib.py"), *((interlock.top / one).exists() for one in ("new.txt", "docs/x"))]

    assert interlock("undo", "latest", "lib.py").code == 0
    assert (there(), interlock("undo", "latest", "lib.py").code) == ([False, True, True], 2)
    assert interlock("diff", "--stat").out.splitlines()[::2] == ["delivered", "  new.txt +1 -0", "  lib.py +1 -1"]
    assert interlock("undo", "latest", "docs", "new.txt").code == 0
    assert there() == [False, False, False]
    assert interlock("show").out.splitlines()[-1].startswith("  next    interlock apply")
    interlock.write("lib.py", "mine\n")
    said = interlock("undo", "latest")
    assert (said.code, f"Bring it again: interlock apply {interlock.latest()}" in said.err) == (2, True)
    assert interlock("apply", "latest", "docs/x").code == 0
    assert there() == [False, False, True]
    said = interlock("apply")
    assert (said.code, "Kept as it is, since both changed it: lib.py" in said.err, there()[1:]) == (
        0,
        True,
        [True, True],
    )
    assert interlock("undo", "latest", "../elsewhere").code == 2


@pytest.mark.req("PROOF-02")
def test_plan_tells_what_it_takes_and_leaves_no_byte(interlock: CommandLine) -> None:
    settings = interlock.read("interlock.toml")
    interlock.write("interlock.toml", settings.replace("[commands]\n", '[commands]\nsetup = "make ready"\n'))
    before = interlock.bytes_of_all()

    said = interlock("plan", "task", "Make add right")

    assert said.code == 0
    assert "  stages  before  round (at most 3)" in said.out
    assert "builder                      mine" in said.out
    assert "  calls   2 to 9" in said.out
    assert "sh check.sh                  from interlock.toml" in said.out
    assert "make ready" not in said.out, "it prepares, and decides nothing"
    assert interlock("run", "task", "Make add right", "--dry-run").out == said.out
    assert interlock("plan", "task", "x", "--json").json["agents"] == [["builder", "mine"], ["reviewer", "mine"]]
    assert "checks  ls" in interlock("plan", "task", "x", "--check", "ls").out, "what was typed counts"
    assert interlock.bytes_of_all() == before
    assert not (interlock.top / ".interlock").exists()
    interlock.write("interlock.toml", interlock.read("interlock.toml") + "[task]\nreview = false\nrounds = 1\n")
    said = interlock("plan", "task", "x").out
    assert "round (at most 1)" in said and "reviewer " not in said, "settings count where no option is given"


@pytest.mark.req("PROOF-01")
def test_rehearse_plays_every_path(interlock: CommandLine) -> None:
    said = interlock("rehearse", "task", "--deviations", "0", "--json")

    assert (said.code, said.json["broken"]) == (0, [])
    assert said.json["paths"] >= 5


@pytest.mark.req("CLI-01")
def test_of_many_runs_the_latest_20_are_listed(done: CommandLine) -> None:
    """By their order, not by the clock."""
    folder, latest = done.top / ".interlock" / "runs", done.latest()
    line, _, rest = (folder / latest / "journal.jsonl").read_bytes().partition(b"\n")
    for number in range(30):
        (run := folder / f"task-20300101-000000-{number:04x}").mkdir()
        first = json.loads(line)
        first["event"]["order"] = -number
        (run / "journal.jsonl").write_bytes(json.dumps(first).encode() + b"\n" + rest)

    listed = done("runs").out.splitlines()
    assert (len(listed), listed[-1].split()[0], listed[0].split()[0][-4:]) == (20, latest, "0012")
    assert max(map(len, listed)) <= 80 and listed[-1].endswith("  Make add right")
    assert len(done("runs", "--all").out.splitlines()) == 31
    facts = done("runs", "--status", "complete", "--playbook", "task", "--json").json["runs"][0]
    assert (facts["run_id"], facts["headline"]) == (latest, "Make add right")
    for none in (("--status", "stopped"), ("--playbook", "roadmap")):
        assert "No run is like that" in done("runs", *none).err


def test_words_of_others_cannot_move_the_cursor(interlock: CommandLine, plays: Callable[[Any], None]) -> None:
    plays(asks)
    interlock("Do\x1b[2J it\nerror: all is lost", "--json")

    listed = interlock("runs").out
    assert "\x1b" not in listed
    assert "Do\\x1b[2J it error: all is lost" in listed
    assert os.linesep + "error" not in interlock("show").out


@pytest.mark.req("CLI-04")
def test_output_of_a_playbook_is_on_stdout_byte_for_byte(interlock: CommandLine, plays: Callable[[Any], None]) -> None:
    async def says(run: Run, inputs: object) -> Outcome:
        return Outcome.complete("said", output="one\r\n\ttwo\x1b[1m\nno newline")

    plays(says)
    said = interlock("Say it")
    assert said.out == "one\r\n\ttwo\x1b[1m\nno newline"
    assert interlock("Say it", "--json").json["output"] == said.out
    again = interlock("resume", "latest")
    assert (again.code, again.out, "nothing was done" in again.err) == (0, said.out, True)


@pytest.mark.req("AGENT-02")
def test_a_role_of_the_teams_own_is_named_with_its_file(interlock: CommandLine) -> None:
    """At the start, in `plan` and in `show`."""
    interlock.write(".interlock/agents/builder.md", "---\nname: builder\n---\nYou mend things, kindly.\n")

    planned = interlock("plan", "task", "Make add right").out
    said = interlock("Make add right").err
    shown = interlock("show", "latest", "builder").out
    for words in (planned, said, shown):
        assert re.search(r"builder .*\.interlock/agents/builder\.md|role \.interlock/agents/builder\.md", words), words


@pytest.mark.req("RUN-21")
def test_a_run_of_the_house_before_is_listed_as_such_and_left_alone(interlock: CommandLine) -> None:
    interlock.write(".interlock/runs/task-old/run.json", "{}")
    interlock.write(".interlock/runs/task-old/journal.jsonl", '{"event": "run.begin"}\n')
    before = interlock.bytes_of_all()
    assert "Of interlock 0.1, and left alone: task-old" in interlock("runs").err
    said = interlock("show", "task-old")
    assert (said.code, "made by interlock 0.1" in said.err) == (2, True)
    assert interlock("show", "latest").code == 2
    assert interlock.bytes_of_all() == before
