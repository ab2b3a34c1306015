"""The task playbook, branch by branch, in a simulated workspace with checks that see what is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.engine import AgentRequest, CommandCall, CommandResult, Status
from interlock.errors import ConfigInvalid
from interlock.playbooks.task import TaskInputs, task
from interlock.playbooks.task.closing import message_of
from interlock.playbooks.task.playbook import run_key
from interlock.playbooks.task.settings import TaskSettings
from interlock.testing import (
    Act,
    Bench,
    Change,
    Crash,
    Trouble,
    best,
    both,
    lasting,
    leaves_out,
    meanwhile,
    says,
    writes,
)

REQUEST = "add three to words.txt"
FILES: dict[str, str | bytes] = {
    "Makefile": "test:\n\tsh test.sh\n",
    "words.txt": "one\n",
    "tests/test_words.py": "assert x\n",
}
GOOD = writes({"words.txt": "one\nthree\n"})
BAD = writes({"words.txt": "one\nbug\n"})


def table(bench: Bench) -> Bench:
    """Checks are red while there is a bug in the files that they see."""

    def command(call: CommandCall) -> CommandResult:
        seen = bench.simulation.world.seen
        red = any(b"bug" in text for text in seen.values())
        return CommandResult(1, "FAILED test_words: a bug\n") if red else CommandResult(0, "1 passed\n")

    bench.command = command
    return bench


def bench(files: dict[str, str | bytes] | None = None, **more: object) -> Bench:
    return table(Bench(task, dict(FILES if files is None else files), base=working, **more))  # type: ignore[arg-type]


def working(request: AgentRequest) -> Act:
    """Agents that do their part, whatever they are told of the round before."""
    act = best(request)
    return GOOD(request, act) if request.agent == "builder" else act


def verdict(**data: object) -> Change:
    return says(
        json.dumps({"verdict": "accept", "evidence": {"verification": [{"command": "make", "exit": 0}]}, **data})
    )


OBJECTS = verdict(verdict="revise", findings=["words.txt:2: it must be spelled 'Three'"])


@pytest.mark.req("OW-30")
def test_two_calls_are_enough_for_good_work() -> None:
    """The engine runs the check that the Makefile names, before and after; the reviewer has the last word."""
    played = bench()
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert played.called == ["builder", "reviewer"]
    assert (
        finished.output
        == "Accepted in round 1\n  test: make test: passes\n  review: accepted. It does what was asked.\n"
    )
    assert [call.argv[-1] for call in played.simulation.world.commands] == ["make test", "make test"]
    assert "add three to words.txt" in played.brief("builder")
    assert "- `make test`" in played.brief("builder")
    assert "words.txt" in played.brief("reviewer")
    assert "test: make test: passes" in played.brief("reviewer")
    assert played.simulation.world.repository.messages == ["first"]


@pytest.mark.req("OW-30", "EV-04")
def test_a_change_that_does_not_pass_goes_back_with_what_the_check_printed() -> None:
    """The reviewer is not asked about it; a claim of success changes nothing."""
    played = bench().on("builder", both(BAD, says("make test: all passed\n\nDONE: done")), GOOD)
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert played.called == ["builder", "builder", "reviewer"]
    assert "FAILED test_words: a bug" in played.brief("builder", 1)
    assert "## Failure context" in played.brief("builder", 1)
    assert "Accepted in round 2" in str(finished.output)


@pytest.mark.req("OW-30")
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_change_that_never_passes_is_refused_after_so_many_rounds(rounds: int) -> None:
    """Stopped, with the last evidence in the output, and the files that are left in the tree named."""
    played = bench().ever("builder", lambda request, act: replace(act, files={"words.txt": f"bug {request.attempt}\n"}))
    finished = played.play(TaskInputs(REQUEST, rounds=rounds))
    assert finished.status is Status.STOPPED
    within = "1 round" if rounds == 1 else f"{rounds} rounds"
    assert finished.reason == f"not accepted within {within}: test: make test: ended with exit status 1"
    assert "FAILED test_words: a bug" in str(finished.output)
    assert "Not accepted and not committed, but in your tree: words.txt" in str(finished.output)
    assert played.called == ["builder"] * rounds


@pytest.mark.req("OW-30")
def test_rounds_may_be_lowered_and_never_raised() -> None:
    """Whoever asks for more gets three."""
    played = bench().ever("builder", lambda request, act: replace(act, files={"words.txt": f"bug {request.attempt}\n"}))
    assert played.play(TaskInputs(REQUEST, rounds=9)).status is Status.STOPPED
    assert played.called == ["builder"] * 3
    with pytest.raises(ValueError, match="less than or equal to 3"):
        TaskSettings(rounds=4)


@pytest.mark.req("OW-30")
def test_what_the_reviewer_objects_to_goes_back() -> None:
    """In its words, and the checks run again on the next change."""
    played = bench().on("reviewer", OBJECTS)
    played.on("builder", GOOD, writes({"words.txt": "one\nThree\n"}))
    assert played.play(TaskInputs(REQUEST)).status is Status.COMPLETE
    assert played.called == ["builder", "reviewer", "builder", "reviewer"]
    assert "- words.txt:2: it must be spelled 'Three'" in played.brief("builder", 1)
    assert len(played.simulation.world.commands) == 3


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (
            verdict(evidence={"verification": [{"command": "make lint", "exit": 2}]}),
            "`make lint` ended with exit status 2",
        ),
        (verdict(findings=["words.txt:1: wrong"]), "blocking issue: words.txt:1: wrong"),
    ],
)
def test_an_acceptance_against_its_own_evidence_is_an_objection(lie: Change, told: str) -> None:
    """The builder is told the contradiction."""
    played = bench().on("reviewer", lie)
    played.on("builder", GOOD, writes({"words.txt": "one\nThree\n"}))
    assert played.play(TaskInputs(REQUEST)).status is Status.COMPLETE
    assert told in played.brief("builder", 1)


@pytest.mark.req("EV-02", "EV-03")
def test_a_reviewer_without_evidence_is_asked_again_and_nobody_else() -> None:
    """Once; then the run fails, and nothing was accepted."""
    played = bench().ever("reviewer", says('{"verdict": "accept", "summary": "trust me"}'))
    finished = played.play(TaskInputs(REQUEST, commit=True))
    assert finished.status is Status.FAILED
    assert finished.reason.startswith(
        "the reviewer gave no verdict: contract_violation: a pass needs at least one command"
    )
    assert played.called == ["builder", "reviewer", "reviewer"]
    assert played.simulation.world.repository.messages == ["first"]


@pytest.mark.req("EV-06")
def test_work_that_changes_nothing_is_none() -> None:
    """It is told so by the engine, then by the next round; the evidence of the round before stays with it."""
    played = bench().ever("builder", both(leaves_out("words.txt"), says("DONE: all well")))
    finished = played.play(TaskInputs(REQUEST, rounds=2))
    assert (finished.status, len(played.called)) == (Status.STOPPED, 4)
    assert finished.reason == (
        "not accepted within 2 rounds: the builder fell short: no_change: nothing was changed; do it, or say why "
        "nothing needs changing, in a line `No change: the reason`: all well"
    )


@pytest.mark.req("EV-06")
def test_a_reason_to_change_nothing_is_the_reviewers_to_weigh() -> None:
    """It is told to the reviewer and stands in the output; where nobody reviews, it is not believed."""
    nothing = both(leaves_out("words.txt"), says("No change: words.txt has it already\n\nDONE: nothing to do"))
    played = bench().ever("builder", nothing)
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert "words.txt has it already" in played.brief("reviewer")
    assert "noticed: builder changed nothing, because: words.txt has it already" in str(finished.output)
    alone = bench().ever("builder", nothing)
    finished = alone.play(TaskInputs(REQUEST, review=False, rounds=1))
    assert finished.status is Status.STOPPED
    assert "nobody reviews this change" in finished.reason


WEAKER = both(GOOD, writes({"tests/test_words.py": "@pytest.mark.skip\n"}))


@pytest.mark.req("OW-30")
def test_weakened_tests_are_noticed() -> None:
    """The reviewer is told; without one the change goes back."""
    played = bench().ever("builder", WEAKER)
    played.play(TaskInputs(REQUEST))
    assert "tests/test_words.py" in played.brief("reviewer").split("Noticed about the work")[1]
    alone = bench().ever("builder", WEAKER)
    assert alone.play(TaskInputs(REQUEST, review=False, rounds=1)).status is Status.STOPPED
    alone.always.clear()
    alone.on("builder", WEAKER, writes({"tests/test_words.py": "assert x\n"}))
    assert alone.play(TaskInputs(REQUEST, review=False)).status is Status.COMPLETE
    assert "tests/test_words.py" in alone.brief("builder", 1)


@pytest.mark.req("OW-30")
def test_what_an_earlier_round_weakened_is_not_forgotten() -> None:
    """Where nobody reviews, a later round that leaves it so is not accepted, however harmless it is itself."""
    played = bench().on("builder", WEAKER, writes({"more.txt": "2\n"}), writes({"more.txt": "3\n"}))
    finished = played.play(TaskInputs(REQUEST, review=False))
    assert finished.status is Status.STOPPED
    assert "nobody reviews this change, so this cannot be accepted" in finished.reason
    assert "tests/test_words.py" in finished.reason
    red = bench().on("builder", both(WEAKER, BAD), GOOD, writes({"more.txt": "3\n"}))
    assert red.play(TaskInputs(REQUEST, review=False)).status is Status.STOPPED


@pytest.mark.req("EV-06")
def test_rounds_that_undo_each_other_come_to_nothing() -> None:
    """Each of them changed something; together they did not, and nobody is asked to accept that."""
    played = bench().on("builder", BAD, writes({"words.txt": "one\n"}))
    finished = played.play(TaskInputs(REQUEST, rounds=2))
    assert (finished.status, played.called) == (Status.STOPPED, ["builder", "builder"])
    assert finished.reason.endswith("every file is again as it was before the first round")
    assert "in your tree" not in str(finished.output)
    mended = bench().on("builder", BAD, writes({"words.txt": "one\n"}))
    assert mended.play(TaskInputs(REQUEST)).status is Status.COMPLETE
    assert "comes to nothing" in mended.brief("builder", 2)


@pytest.mark.req("EV-04")
def test_the_end_names_what_any_round_weakened() -> None:
    """As long as it stands, also where the last round had nothing to do with it."""
    played = bench().on("builder", both(WEAKER, BAD), GOOD)
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert "noticed: builder switches a check off in tests/test_words.py" in str(finished.output)
    back = bench().on("builder", both(WEAKER, BAD), both(GOOD, writes({"tests/test_words.py": "assert x\n"})))
    assert "switches a check off" not in str(back.play(TaskInputs(REQUEST)).output)


@pytest.mark.req("OW-30")
def test_without_a_reviewer_the_checks_decide() -> None:
    """One call; said so."""
    played = bench()
    finished = played.play(TaskInputs(REQUEST, review=False))
    assert (finished.status, played.called) == (Status.COMPLETE, ["builder"])
    assert "review: nobody was asked" in str(finished.output)


@pytest.mark.req("OW-30")
def test_without_checks_the_reviewer_decides_and_that_is_said() -> None:
    """A warning before the first call, and a line at the end."""
    played = bench({"words.txt": "one\n"})
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert played.warnings == [
        "there is nothing to run: only the reviewer judges this change (--check COMMAND names a check)"
    ]
    assert "checks: there is nothing to run" in str(finished.output)
    assert "your judgement is the only one" in played.brief("reviewer")


@pytest.mark.req("OW-30")
@pytest.mark.parametrize(
    "inputs", [TaskInputs(REQUEST, review=False), TaskInputs(REQUEST, check=["none"], review=False)]
)
def test_what_nothing_could_bear_out_is_not_begun(inputs: TaskInputs) -> None:
    """No check and no reviewer: refused, and no run comes into being."""
    error = bench(None if inputs.check else {"words.txt": "one\n"}).refuse(inputs)
    assert isinstance(error, ConfigInvalid)
    assert "--check COMMAND" in str(error.remedy)


def test_an_empty_request_is_refused() -> None:
    """There is nothing to do."""
    assert "the request is empty" in bench().refuse(TaskInputs("  \n")).what


@pytest.mark.req("OW-30", "EV-04")
def test_named_checks_stand_in_for_those_that_are_found() -> None:
    """All of them, the command line before the settings, the settings before the project's files."""
    played = bench()
    played.play(TaskInputs(REQUEST, check=["make lint", "make types"]))
    assert {call.argv[-1] for call in played.simulation.world.commands} == {"make lint", "make types"}
    played = bench(settings={"check_commands": ("make all-of-it",)})
    played.play(TaskInputs(REQUEST))
    assert {call.argv[-1] for call in played.simulation.world.commands} == {"make all-of-it"}


@pytest.mark.req("EV-14")
def test_the_builder_does_not_choose_its_checks() -> None:
    """A Makefile that it writes names none, and one that it changes is compared with what was there."""
    played = bench({"words.txt": "one\n"}).ever("builder", both(GOOD, writes({"Makefile": "test:\n\ttrue\n"})))
    played.play(TaskInputs(REQUEST))
    assert played.simulation.world.commands == []
    changed = bench().ever("builder", both(GOOD, writes({"Makefile": "test:\n\ttrue\n"})))
    changed.play(TaskInputs(REQUEST))
    assert [line.key for line in changed.lines if line.event == "command"][-1] == "round-1/check/check-test-as-before#1"


@pytest.mark.req("EV-05")
def test_red_checks_stop_the_run_before_anything_is_paid() -> None:
    """Unless a person accepts them as known: then only new failures count."""
    red = {**FILES, "old.txt": "bug\n"}
    played = bench(red)
    finished = played.play(TaskInputs(REQUEST))
    assert (finished.status, played.called) == (Status.STOPPED, [])
    assert "FAILED test_words" in finished.reason
    known = bench(red, flags={"accept_baseline": True})
    finished = known.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert "but for 1 failures that were known" in str(finished.output)
    assert "but for 1 failures that were known" in known.brief("reviewer")


@pytest.mark.req("EV-05")
@pytest.mark.parametrize("mends", [True, False])
def test_a_red_check_can_be_the_work_itself(mends: bool) -> None:
    """Without the look before it, what was red must be green in the end; the way is said where the run stopped."""
    red = {**FILES, "old.txt": "bug\n"}
    assert "--no-preflight" in bench(red).play(TaskInputs(REQUEST)).reason
    played = bench(red, flags={"no_preflight": True})
    played.ever("builder", both(GOOD, writes({"old.txt": "mended\n"})) if mends else GOOD)
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is (Status.COMPLETE if mends else Status.STOPPED)


@pytest.mark.req("EV-05")
@pytest.mark.parametrize(("later", "status"), [(1, Status.COMPLETE), (7, Status.STOPPED)])
def test_a_check_that_fails_without_a_word_is_known_by_its_exit_status(later: int, status: Status) -> None:
    """What says nothing when it fails is not taken for one that passes."""
    played = bench(flags={"accept_baseline": True})
    played.command = lambda _call: CommandResult(later if b"three" in played.simulation.world.seen["words.txt"] else 1)
    finished = played.play(TaskInputs(REQUEST, review=False))
    assert finished.status is status
    assert ("but for 1 failures that were known" in str(finished.output)) == (status is Status.COMPLETE)


@pytest.mark.req("EV-23")
def test_checks_that_a_person_mends_meanwhile_are_obeyed() -> None:
    """The settings as they are when the run goes on."""
    played = bench(settings={"check_commands": ("make a",)}).on("builder", lambda _, act: replace(act, crash=True))
    with pytest.raises(Crash):
        played.play(TaskInputs(REQUEST))
    played.settings = {"check_commands": ("make b",)}
    assert played.resume().status is Status.COMPLETE
    assert [call.argv[-1] for call in played.simulation.world.commands] == ["make a", "make b"]


# -- agents that fail


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (says("BLOCKED: there is no key for the server"), Status.STOPPED, "the builder cannot go on: there is no key"),
        (says("ERROR: I cannot"), Status.FAILED, "the builder failed: agent_error: I cannot"),
        (lasting(10_000), Status.FAILED, "the builder failed: timeout"),
        (says("well"), Status.FAILED, "the builder failed: no_verdict"),
    ],
)
def test_a_builder_that_cannot_go_on_ends_the_run(change: Change, status: Status, reason: str) -> None:
    """Nobody is called for it again, and nothing is committed."""
    played = bench().ever("builder", change)
    finished = played.play(TaskInputs(REQUEST, commit=True))
    assert finished.status is status
    assert finished.reason.startswith(reason)
    assert "reviewer" not in played.called
    assert played.simulation.world.repository.messages == ["first"]


def test_work_that_strays_goes_on_in_the_next_round() -> None:
    """What steers agents is out of scope; the rest of the attempt is handed on, and what was refused is told."""
    played = bench().on("builder", *[writes({"AGENTS.md": "mine\n"})] * 2, writes({"more.txt": "x\n"}))
    finished = played.play(TaskInputs(REQUEST))
    assert finished.status is Status.COMPLETE
    assert "AGENTS.md" in played.brief("builder", 1)
    assert "AGENTS.md" not in played.paths
    assert played.text("words.txt") == "one\nthree\n"


# -- people


@pytest.mark.req("LY-05")
def test_what_a_person_edits_meanwhile_is_theirs() -> None:
    """Their own file stays; the same file changed by both is a conflict that goes back."""
    played = bench().on("builder", both(GOOD, meanwhile({"notes.md": "mine\n"})))
    assert played.play(TaskInputs(REQUEST, commit=True)).status is Status.COMPLETE
    assert played.text("notes.md") == "mine\n"
    clash = bench()
    clash.on(
        "builder", both(GOOD, meanwhile({"words.txt": "one\nmine\n"})), writes({"words.txt": "one\nmine\nthree\n"})
    )
    assert clash.play(TaskInputs(REQUEST)).status is Status.COMPLETE
    assert "conflict with an edit made meanwhile: words.txt" in clash.brief("builder", 1)
    assert clash.text("words.txt") == "one\nmine\nthree\n"


@pytest.mark.req("EV-04")
def test_what_a_person_breaks_after_the_checks_is_not_accepted() -> None:
    """They run again on the tree as it is when the reviewer has accepted."""
    played = bench().on("reviewer", both(meanwhile({"other.txt": "bug\n"}), verdict()))
    finished = played.play(TaskInputs(REQUEST, commit=True))
    assert finished.status is Status.STOPPED
    assert "does not hold with what was changed meanwhile: test: make test" in finished.reason
    assert played.simulation.world.repository.messages == ["first"]


# -- the commit


@pytest.mark.req("OW-30")
def test_an_accepted_change_is_committed_and_nothing_else() -> None:
    """The files of the run, with the request as the message; a person's are left alone."""
    played = bench().on("builder", both(GOOD, meanwhile({"notes.md": "mine\n"})))
    finished = played.play(TaskInputs(REQUEST, commit=True))
    assert finished.status is Status.COMPLETE
    repository = played.simulation.world.repository
    assert [message.splitlines()[0] for message in repository.messages][:1] == [REQUEST]
    (made,) = [line for line in played.lines if line.event == "repository" and line.data.get("effect") == "commit"]
    assert made.data["in"]["paths"] == ["words.txt"]
    assert "Committed" in str(finished.output)


@pytest.mark.req("OW-30")
def test_what_a_person_had_not_committed_is_never_committed_with_it() -> None:
    """Accepted, in the tree, and said why there is no commit."""
    played = bench()
    played.simulate(TaskInputs(REQUEST, commit=True))
    played.edit("words.txt", "one\nmine\n")
    finished = played.simulation.go()
    assert finished.status is Status.DEGRADED
    assert (
        finished.reason == "accepted, but not committed: your own uncommitted changes are in the same files: words.txt"
    )


@pytest.mark.req("OW-30")
def test_what_a_person_edits_in_its_files_meanwhile_is_not_committed_with_it() -> None:
    """Whether it was accepted in that round or in a later one."""
    edits = meanwhile({"words.txt": "mine\nthree\n"})
    at_once = bench().on("reviewer", both(edits, verdict()))
    later = bench().on("reviewer", both(edits, OBJECTS)).on("builder", GOOD, writes({"words.txt": "mine\nThree\n"}))
    for played in (at_once, later):
        finished = played.play(TaskInputs(REQUEST, commit=True))
        assert finished.status is Status.DEGRADED
        assert "your own uncommitted changes are in the same files: words.txt" in finished.reason
        assert played.simulation.world.repository.messages == ["first"]


@pytest.mark.parametrize("trouble", list(Trouble))
def test_whatever_befalls_the_repository_is_said(trouble: Trouble) -> None:
    """A run that did not commit is not complete."""
    played = bench().on("reviewer", lambda request, act: replace(act, befalls=trouble))
    finished = played.play(TaskInputs(REQUEST, commit=True))
    made = [line for line in played.lines if line.event == "repository" and line.data.get("effect") == "commit"]
    committed = bool(made) and not made[-1].data["out"]["problem"]
    assert (finished.status is Status.COMPLETE) == committed
    assert finished.status in (Status.COMPLETE, Status.DEGRADED)


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("add three", "add three"),
        ("add\n  three", "add three\n\nadd\n  three"),
        ("word " * 30, f"{'word ' * 12}word...\n\n{('word ' * 30).strip()}"),
    ],
)
def test_the_message_is_the_request(request_text: str, message: str) -> None:
    """Its title in one line of at most 72 characters; the whole below where that says less."""
    assert message_of(request_text) == message
    assert len(message.splitlines()[0]) <= 72


# -- crashes, keys


@pytest.mark.req("OW-30")
@pytest.mark.parametrize("how", ["good", "back", "never"])
def test_a_crash_anywhere_changes_nothing(how: str) -> None:
    """Same end and same files as without it; nobody is paid twice for what is recorded, and there is one commit."""
    script: dict[str, Callable[[], Bench]] = {
        "good": bench,
        "back": lambda: bench().on("reviewer", OBJECTS),
        "never": lambda: bench().ever("builder", BAD),
    }
    played = script[how]()
    inputs = TaskInputs(REQUEST, rounds=2, commit=True)
    whole = played.play(inputs)
    files, calls = dict(played.simulation.world.tree.files), len(played.called)
    for finished in script[how]().crashes(inputs):
        assert (finished.status, finished.reason) == (whole.status, whole.reason)
    replayed = script[how]()
    for finished in replayed.crashes(inputs):
        assert finished.status is whole.status
        assert replayed.simulation.world.tree.files == files
        assert len(replayed.called) <= calls + 1
        made = [line for line in replayed.lines if line.event == "repository" and line.data.get("effect") == "commit"]
        assert len(made) == (1 if whole.status is Status.COMPLETE else 0)


def test_the_key_is_the_request() -> None:
    """A long one is cut, and told from others that begin like it."""
    assert run_key(TaskInputs("add\n three")) == "add three"
    one, other = (run_key(TaskInputs("word " * 30 + end)) for end in ("a", "b"))
    assert one != other
    assert len(one) <= 60
