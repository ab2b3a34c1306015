"""Every return of an agent is exactly one thing, and ends the run in exactly one way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import Reason
from interlock.engine.model import Status
from interlock.engine.simulation import Act
from interlock.playbooks.router.answers import ENDING, STATUSES, Return, ReturnFacts, judge_return
from interlock.playbooks.router.documents import Returns

JSON_PLAN = "---\nreturns: json\ntimeout: 100\nrouting:\n  default: planner\n---\n"
PLAN = ".opencode/command/plan.md"
RAW = ".interlock/runs/simulated/dispatches/stage-3/planner#1/output.md"


def test_every_return_has_an_ending() -> None:
    """The table of endings is total."""
    assert list(ENDING.missing()) == []
    assert {status: ENDING(status).exit_code for status in STATUSES} == {
        Return.COMPLETED: 0,
        Return.PARTIAL: 1,
        Return.FAILED: 5,
        Return.BLOCKED: 3,
    }
    assert ENDING(Return.UNVERIFIED) is Status.DEGRADED
    others = set(Return) - {*STATUSES, Return.UNVERIFIED}
    assert {ENDING(kind) for kind in others} == {Status.FAILED}


@pytest.mark.req("RT-59", "RT-60", "RT-61")
@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("partial", 1), ("blocked", 3), ("failed", 5)])
@pytest.mark.parametrize("returns", ["json", "text"])
def test_each_status_is_relayed_with_its_exit_code(bench: Any, status: str, code: int, returns: str) -> None:
    """Whatever the status, a valid answer is passed on byte for byte; the status is in the record."""
    bench.files[PLAN] = JSON_PLAN.replace("json", returns)
    message = f"ä\r\n\n Status: x\n\nStatus: {status}\n\n"
    if returns == "json":
        message = f'  {{"status" : "{status}",\n\t"summary":"ä\\u0041 "}}\r\n\n'
    close = bench.play("/plan 196", Act(message=message))
    assert close.output == message.encode()
    assert close.exit_code == code
    assert bench.events("stage.3.done")[0]["status"] == status
    assert bench.events("stage.3.done")[0]["state"] == "Relayed"


@pytest.mark.req("RT-61")
def test_an_answer_in_the_result_file_alone_is_relayed(bench: Any) -> None:
    """Without a message the bytes of the result file are the answer."""
    bench.files[PLAN] = JSON_PLAN
    content = b'{ "status":"completed" , "x": "\xc3\xa4"}\n'
    close = bench.play("/plan 196", Act(result=content))
    assert (close.output, close.exit_code) == (content, 0)


@pytest.mark.req("RT-61", "EV-12")
@pytest.mark.parametrize("message", ["I looked around.\x00\x1b[1m", "I could not do it.", "> Status: completed"])
def test_text_without_a_status_is_relayed_as_unverified(bench: Any, message: str) -> None:
    """It is passed on byte for byte and never called complete: nobody said that it is."""
    close = bench.play("/plan 196", Act(message=message))
    assert (close.status, close.exit_code, close.output) == (Status.DEGRADED, 1, message.encode())
    assert close.reason.startswith("unverified: planner did not say how it ended")
    assert bench.events("stage.3.done")[0]["status"] == "unverified"
    assert len(bench.requests) == 1


@pytest.mark.req("RT-61")
def test_text_with_another_exit_has_failed(bench: Any) -> None:
    """The exit status decides."""
    close = bench.play("/plan 196", Act(message="I gave up.", code=3))
    assert (close.exit_code, close.output) == (5, b"I gave up.")
    assert close.reason == "planner returned status failed (exit 3)"


def test_a_claim_of_success_with_a_failing_exit_is_a_failure(bench: Any) -> None:
    """The exit status wins over the word."""
    close = bench.play("/plan 196", Act(message="Status: completed", code=1))
    assert (close.exit_code, close.output) == (5, b"Status: completed")


@pytest.mark.req("EV-12")
@pytest.mark.parametrize(
    "message",
    [
        'Here it is.\n\n{"status": "completed", "summary": "a {brace}"}\n\nThat is all.',
        'An example: {"status": "x"}.\n{"status": "completed"}',
        'Done:\n\n```json\n{"status": "completed"}\n```\n',
        '{"status": "completed"}',
    ],
)
def test_json_is_found_wherever_the_agent_put_it(bench: Any, message: str) -> None:
    """Whole, fenced, or as the last object among other words; and passed on as it was written."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play("/plan 196", Act(message=message))
    assert (close.exit_code, close.output) == (0, message.encode())
    assert len(bench.requests) == 1


@pytest.mark.req("EV-12")
def test_an_answer_without_json_is_asked_for_once_more(bench: Any) -> None:
    """With the complaint; the second answer counts."""
    bench.files[PLAN] = JSON_PLAN
    answers = iter(["Done, all of it.", '{"status": "completed"}'])
    close = bench.play("/plan 196", lambda _request: Act(message=next(answers)))
    assert (close.exit_code, close.output) == (0, b'{"status": "completed"}')
    assert len(bench.requests) == 2
    assert "invalid JSON" in bench.requests[1].brief.split("## Failure context")[1]


@pytest.mark.req("EV-01", "EV-12")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"errors": ["the build is broken"]}, "failure listed: the build is broken"),
        ({"verification": [{"command": "make", "exit": 2}]}, "`make` ended with exit status 2"),
        ({"evidence": {"verification": [{"command": "make", "exit": 2}]}}, "`make` ended with exit status 2"),
    ],
)
def test_a_completed_that_its_own_answer_contradicts_has_failed(bench: Any, more: dict[str, Any], said: str) -> None:
    """It is relayed, with exit 5 and the contradiction."""
    bench.files[PLAN] = JSON_PLAN
    message = json.dumps({"status": "completed", **more})
    close = bench.play("/plan 196", Act(message=message))
    assert (close.exit_code, close.output) == (5, message.encode())
    assert close.reason == f"planner returned status completed, but: {said}"
    assert bench.play("/plan 196", Act(message=json.dumps({"status": "partial", **more}))).exit_code == 1


@pytest.mark.req("RT-58")
@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("Done.", "line 1 column 1"),
        ('{"status": "completed"', "line 1 column 23"),
        ('{\n "status": completed}', "line 2 column 12"),
        ("", "line 1 column 1"),
    ],
)
def test_an_answer_that_should_be_json_and_is_not(bench: Any, message: str, place: str) -> None:
    """It is not relayed; the error says where it stops being JSON and where the raw answer is kept."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play("/plan 196", Act(message=message))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason == f"Error: planner returned invalid JSON ({place}). Raw answer: {RAW}"
    assert bench.simulation.world.records.kept["stage-3/planner#1", "output.md"] == message.encode()


@pytest.mark.req("RT-60")
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ('{"status": "done"}', 'status "done"'),
        ('{"status": "Completed"}', 'status "Completed"'),
        ('{"status": 1}', "status 1"),
        ('{"status": "\\u001b[2J"}', 'status "\\u001b[2J"'),
        ("{}", "no status"),
        ('{"status": null}', "no status"),
        ("[]", "no status"),
        ('"completed"', "no status"),
    ],
)
def test_an_unknown_status_is_named_with_the_allowed_ones(bench: Any, message: str, shown: str) -> None:
    """Only the four statuses count; anything else fails and keeps the raw answer."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play("/plan 196", Act(message=message))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason == (
        f"Error: planner returned {shown}; expected completed, partial, failed or blocked. Raw answer: {RAW}"
    )


@pytest.mark.req("RT-58")
def test_json_that_says_two_things_is_unusable(bench: Any) -> None:
    """A key that is given twice is no answer, whichever of the two were meant."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play("/plan 196", Act(message='{"status": "failed", "status": "completed"}'))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason.startswith("Error: planner returned unusable JSON (")


@pytest.mark.req("RT-60")
def test_an_unknown_status_line_of_a_text(bench: Any) -> None:
    """`Status: done` as the last line is a status that is not known; the same words further up are just text."""
    close = bench.play("/plan 196", Act(message="All good.\n\nStatus: done\n"))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason.startswith(
        'Error: planner returned status "done"; expected completed, partial, failed or blocked.'
    )
    close = bench.play("/plan 196", Act(message="The page says\nStatus: 404\nas expected."))
    assert close.reason.startswith("unverified: ")


def test_no_answer_at_all_is_a_failure(bench: Any) -> None:
    """Silence with exit 0 is never a pass."""
    close = bench.play("/plan 196", Act(message=" \n"))
    assert (close.exit_code, close.reason) == (5, f"Error: planner returned no answer. Raw answer: {RAW}")


@pytest.mark.req("RT-31")
@pytest.mark.parametrize("returns", ["json", "text"])
def test_an_answer_of_another_session_is_refused(bench: Any, returns: str) -> None:
    """The session in an answer must be the one that was given; the raw answer is kept."""
    bench.files[PLAN] = JSON_PLAN.replace("json", returns)
    foreign = json.dumps({"status": "completed", "session_id": "sess_20250101_zzzzzz"})
    act = Act(message=foreign) if returns == "json" else Act(message="Done.", result=foreign.encode())
    close = bench.play("/plan 196", act)
    session = bench.requests[0].session
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason == (
        f"Error: answer belongs to session sess_20250101_zzzzzz, expected {session}\n\nRaw answer: {RAW}"
    )
    assert bench.events("dispatch.end")[0]["reason"] == "session_mismatch"


@pytest.mark.req("RT-31")
def test_an_answer_of_this_session_counts(bench: Any) -> None:
    """An agent that repeats its session id is believed."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play(
        "/plan 196", lambda request: Act(message=json.dumps({"status": "completed", "session_id": request.session}))
    )
    assert close.exit_code == 0


@pytest.mark.req("RT-66")
@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ("json", '{"status": "partial", "summary": "half"}'),
        ("json", '{"status": "completed"}'),
        ("text", "Half of it.\nStatus: partial"),
        ("text", "Half of it."),
    ],
)
def test_a_late_answer_is_relayed_as_partial(bench: Any, returns: str, message: str) -> None:
    """At the deadline partial results are asked for; what comes in time after that is relayed as partial."""
    bench.files[PLAN] = JSON_PLAN.replace("json", returns)
    close = bench.play("/plan 196", Act(message=message, seconds=110))
    assert len(bench.events("partial.requested")) == 1
    assert (close.exit_code, close.output) == (1, message.encode())
    assert bench.events("stage.3.done")[0]["status"] == "partial"


@pytest.mark.req("RT-67")
def test_nothing_usable_after_the_deadline_fails(bench: Any) -> None:
    """Past the grace period the run fails with exit 5, and the session is closed as failed."""
    bench.files[PLAN] = JSON_PLAN
    close = bench.play("/plan 196", Act(message="never", seconds=131))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason.startswith("Error: planner timed out after 100 s and gave no partial result in time.")
    assert bench.events("stage.3.done")[0]["state"] == "Failed"
    assert bench.events("dispatch.end")[0]["reason"] == "timeout"


@pytest.mark.req("RT-67")
def test_what_a_cut_off_agent_had_written_is_shown() -> None:
    """The end of it stands in the reason, made printable, with the place of the rest."""
    said = judge_return(
        ReturnFacts(
            "a", Returns.TEXT, b"x" * 5000 + b"\nlast\x1b line\n", "out.md", reason=Reason.TIMEOUT, timeout_s=1.5
        )
    ).reason
    assert said.startswith("Error: a timed out after 1.5 s and gave no partial result in time. Raw answer: out.md\n")
    assert said.endswith("\nlast\\x1b line")
    assert len(said) < 2300
    silent = judge_return(ReturnFacts("a", Returns.TEXT, b"", reason=Reason.TIMEOUT, timeout_s=9))
    assert silent.reason.endswith("It had written nothing.")


def test_an_agent_that_cannot_be_started_fails_the_run(bench: Any) -> None:
    """The reason names agent and cause."""
    close = bench.play("/plan 196", Act(spawn_error="no such program"))
    assert (close.exit_code, close.reason) == (5, "Error: planner could not be started: no such program")


def test_changes_outside_the_scope_fail_the_run(bench: Any) -> None:
    """They are not taken over, and named; the answer is kept, not relayed."""
    close = bench.play("/plan 196", Act(files={"src/x.py": "1"}, message="Status: completed"))
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason == (
        f"Error: planner changed files outside its scope; they were not taken over: src/x.py. Raw answer: {RAW}"
    )
    assert "src/x.py" not in bench.simulation.world.tree.files


ANSWERS = st.builds(
    ReturnFacts,
    agent=st.just("a"),
    returns=st.sampled_from(Returns),
    content=st.one_of(
        st.binary(max_size=40),
        st.sampled_from([b'{"status": "done"}', b"[" * 9000, b"NaN", b"1" * 5000, b"\xef\xbb\xbf{}", b"Status: x"]),
    ),
    exit_code=st.sampled_from([None, 0, 1, -9]),
    reason=st.one_of(st.none(), st.sampled_from(Reason)),
    token=st.one_of(st.none(), st.sampled_from(["completed", "partial", "failed", "blocked"])),
    data=st.one_of(st.none(), st.dictionaries(st.sampled_from(["status", "session_id"]), st.text(max_size=3))),
    partial=st.booleans(),
)


@given(ANSWERS)
def test_every_return_is_judged_and_leads_to_an_end(answer: ReturnFacts) -> None:
    """No combination of facts is left out, and nothing the engine found wrong is ever complete."""
    returned = judge_return(answer)
    if answer.reason is not None:
        assert returned.kind is not Return.COMPLETED
    assert isinstance(ENDING(returned.kind), Status)
