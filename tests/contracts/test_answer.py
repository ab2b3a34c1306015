"""Everything an agent can return becomes exactly one outcome."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.contracts import (
    Answer,
    AnswerFormat,
    Outcome,
    Reason,
    parse_answer,
    sample,
)
from interlock.engine.model import Retries
from interlock.engine.retry import AfterTry, Used, next_move
from interlock.errors import EngineFault
from tests.playbooks.answer_words import AS_WRITTEN, HARNESS, OF_TASK, PLAIN, ROADMAP, ROUTER_JSON, ROUTER_TEXT

FORMATS = {
    "roadmap": ROADMAP,
    "harness": HARNESS,
    "feature": PLAIN,
    "router json": ROUTER_JSON,
    "router text": ROUTER_TEXT,
    "ticket task": OF_TASK,
    "ticket artifact": AS_WRITTEN,
}
SPOKEN = {name: fmt for name, fmt in FORMATS.items() if fmt.completion != "none"}
EACH = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS.keys())
EACH_SPOKEN = pytest.mark.parametrize("fmt", SPOKEN.values(), ids=SPOKEN.keys())


def ask(fmt: AnswerFormat, message: str = "", **how: Any) -> Answer:
    return parse_answer(fmt, **{"code": 0, "message": message, "session": "sess_1", **how})


def short(answer: Answer) -> tuple[Outcome, Reason | None]:
    return answer.outcome, answer.reason


@EACH_SPOKEN
@pytest.mark.req("CM-11")
def test_every_token_gives_its_outcome_in_every_form(fmt: AnswerFormat) -> None:
    """In the message, in the result file, and in both where they agree."""
    for token, outcome in fmt.tokens.items():
        reason = Reason.AGENT_ERROR if outcome is Outcome.FAIL else None
        filed = json.dumps({fmt.field: token, "summary": "why"}).encode()
        said = sample(fmt, token)
        for answer in (ask(fmt, said), ask(fmt, result=filed), ask(fmt, said, result=filed)):
            assert (answer.outcome, answer.reason, answer.token) == (outcome, reason, token)
    assert ask(fmt, sample(fmt)).outcome is Outcome.OK


@EACH
@pytest.mark.req("CM-11")
def test_the_table_of_facts_is_total(fmt: AnswerFormat) -> None:
    """All combinations of how a call can end: one outcome each, a reason exactly when it is FAIL."""
    messages = ("", "prose", sample(fmt), "{", "[1]", '{"status": 5}', "Status: odd")
    results = (None, b"", b"{", b"\xff", b"[]", b'{"status": null}', b'{"status": "odd", "session_id": "other"}')
    for code, message, result, *flags in itertools.product(
        (None, 0, 1, -9), messages, results, (None, "no program"), (False, True), (False, True), (False, True)
    ):
        spawn_error, timed_out, partial, cancelled = flags
        how = {"spawn_error": spawn_error, "timed_out": timed_out, "partial": partial, "cancelled": cancelled}
        answer = parse_answer(fmt, code=code, message=message, result=result, session="sess_1", **how)
        assert isinstance(answer.outcome, Outcome)
        assert (answer.reason is not None) == (answer.outcome is Outcome.FAIL)
        if cancelled:
            assert answer.reason is Reason.CANCELLED
        elif spawn_error or code is None:
            assert answer.reason is Reason.SPAWN_FAILED
        elif timed_out and not partial:
            assert answer.reason is Reason.TIMEOUT
        elif code != 0:
            assert answer.outcome is not Outcome.OK


@EACH
@pytest.mark.req("CM-12", "EN-42")
def test_no_verdict_is_never_a_pass(fmt: AnswerFormat) -> None:
    """An empty answer with exit 0 is FAIL no_verdict, except where the artifact is the verdict."""
    for message in ("", " \n", "\t"):
        answer = ask(fmt, message)
        if fmt.artifact_is_verdict:
            assert short(answer) == (Outcome.OK, None)
        else:
            assert short(answer) == (Outcome.FAIL, Reason.NO_VERDICT)


@pytest.mark.req("CM-12")
@pytest.mark.parametrize("fmt", [ROADMAP, PLAIN, OF_TASK], ids=["roadmap", "feature", "ticket"])
def test_prose_is_no_verdict(fmt: AnswerFormat) -> None:
    """However confident it sounds."""
    answer = ask(fmt, "I have finished everything, all tests pass. success! DONE")
    assert short(answer) == (Outcome.FAIL, Reason.NO_VERDICT)
    assert answer.detail


def test_a_missing_verdict_is_named() -> None:
    """With the words that were expected, where something was said at all."""
    assert ask(PLAIN, "finished").detail == "no DONE:/NEEDS_REVISION:/ERROR: line"
    assert ask(ROADMAP, "finished").detail == "no Status: line; expected success, needs_revision or blocked"
    expected = 'no "status" in the answer; expected completed, partial, failed or blocked'
    assert ask(ROUTER_JSON, "{}").detail == ask(ROUTER_JSON, result=b"{}").detail == expected
    assert parse_answer(PLAIN, code=0).detail == ask(ROUTER_JSON, " ").detail == "no answer"


def test_what_is_not_said_is_empty() -> None:
    """Words of the format that is used where a playbook has none; no session, no message, no summary."""
    assert PLAIN.tokens == {"DONE": Outcome.OK, "NEEDS_REVISION": Outcome.REVISE, "ERROR": Outcome.FAIL}
    assert ask(AnswerFormat({"YES": Outcome.OK}, "YES"), "YES: x").token == "YES"
    assert Answer(Outcome.OK).detail == ask(ROADMAP, "Status: success").detail == ""
    assert ask(ROUTER_JSON, '{"status": "completed", "summary": 5}').detail == ""
    filed = json.dumps({"status": "completed", "session_id": "any"}).encode()
    assert parse_answer(ROUTER_JSON, code=0, result=filed).outcome is Outcome.OK
    assert sample(ROUTER_JSON).startswith('{\n  "status": "completed"')


def test_what_the_runner_knows_counts_more_than_what_was_said() -> None:
    """The agent's service was not to be reached, say."""
    answer = ask(PLAIN, "DONE: all of it", fault=(Reason.CRASHED, "no credit"))
    assert answer == Answer(Outcome.FAIL, Reason.CRASHED, detail="no credit")


def test_how_a_program_ended_is_told() -> None:
    """By its exit status or by its signal, with what was wrong in its answer."""
    assert ask(PLAIN, "DONE: x", code=1).detail == "said DONE but ended with exit status 1"
    assert ask(PLAIN, "DONE: x", code=-9).detail == "said DONE but ended with signal 9"
    assert ask(ROUTER_JSON, "[1]", code=2).detail == "ended with exit status 2; JSON that is not an object: [1]"


def test_a_result_file_without_a_verdict_adds_its_data_to_the_words() -> None:
    """And its fault counts only where the message says nothing."""
    answer = ask(ROADMAP, "Status: success", result=b'{"note": 1}')
    assert (answer.outcome, answer.data) == (Outcome.OK, {"note": 1})
    both = ask(ROADMAP, '```json\n{"status": "success"}\n```', result=b'{"note": 1}')
    assert both.data == {"status": "success"}
    assert short(ask(PLAIN, "", result=b"[1]")) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert ask(PLAIN, "DONE: x", result=b"[1]").outcome is Outcome.OK


@EACH_SPOKEN
@pytest.mark.req("CM-13")
@pytest.mark.parametrize("code", [1, 137, -9, -15])
def test_a_positive_token_with_a_failed_exit_is_an_agent_error(fmt: AnswerFormat, code: int) -> None:
    """The contradiction is told; negative words stand."""
    answer = ask(fmt, sample(fmt), code=code)
    assert short(answer) == (Outcome.FAIL, Reason.AGENT_ERROR)
    assert answer.token == fmt.best
    for token, outcome in fmt.tokens.items():
        if outcome in (Outcome.REVISE, Outcome.BLOCKED):
            assert ask(fmt, sample(fmt, token), code=code).outcome is outcome


@EACH
def test_how_a_call_ends_without_a_verdict(fmt: AnswerFormat) -> None:
    """Crash, signal, time limit, failed start and cancellation each have their reason."""
    assert short(ask(fmt, code=-11)) == (Outcome.FAIL, Reason.CRASHED)
    crashed = Reason.AGENT_ERROR if fmt.exit_is_verdict else Reason.CRASHED
    assert short(ask(fmt, "Traceback ...", code=1)) == (Outcome.FAIL, crashed)
    assert short(ask(fmt, sample(fmt), code=-9, timed_out=True)) == (Outcome.FAIL, Reason.TIMEOUT)
    failed = ask(fmt, code=None, spawn_error="no such program")
    assert (*short(failed), failed.detail) == (Outcome.FAIL, Reason.SPAWN_FAILED, "no such program")
    assert short(ask(fmt, sample(fmt), cancelled=True)) == (Outcome.FAIL, Reason.CANCELLED)


@pytest.mark.parametrize("fmt", [ROADMAP, ROUTER_JSON, OF_TASK, PLAIN])
def test_an_answer_of_another_session_is_refused(fmt: AnswerFormat) -> None:
    """`answer belongs to session X, expected Y`; our own id, or none, is fine."""
    answers = {
        session: ask(fmt, result=json.dumps({"status": fmt.best, "session_id": session}).encode())
        for session in ("sess_1", "sess_2", None)
    }
    assert answers["sess_1"].outcome is answers[None].outcome is Outcome.OK
    assert short(answers["sess_2"]) == (Outcome.FAIL, Reason.SESSION_MISMATCH)
    assert answers["sess_2"].detail == "answer belongs to session sess_2, expected sess_1"


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("not json", "invalid JSON (line 1 column 1): expecting value"),
        ("text\n```json\n{\n  bad\n}\n```\n", "invalid JSON (line 4 column 3): "),
        ('{"status": "done"}', 'status "done"; expected completed, partial, failed or blocked'),
        ('{"status": ["completed"]}', 'status ["completed"]; expected completed, partial, failed or blocked'),
        ('{"status": "completed", "status": "failed"}', 'JSON in which the key "status" appears twice'),
        ("[1]", "JSON that is not an object: [1]"),
        ("[" * 100_000, "invalid JSON (line 1 column 101): nested too deeply: more than 100 levels"),
    ],
)
def test_where_json_is_demanded_anything_else_is_bad_format(message: str, detail: str) -> None:
    """With line and column, or with the value and those allowed; in the message as in the file."""
    answer = ask(ROUTER_JSON, message)
    assert short(answer) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert answer.detail.startswith(detail)
    if "```" not in message:
        filed = ask(ROUTER_JSON, sample(ROUTER_JSON), result=message.encode())
        assert (*short(filed), filed.detail) == (*short(answer), answer.detail)


ACCEPT, REVISE = '{"status": "completed"}', '{"status": "failed"}'


@pytest.mark.req("EV-13")
@pytest.mark.parametrize(
    "message",
    [
        f"{REVISE} and {ACCEPT}",
        f"[{REVISE}, {ACCEPT}]",
        f"I say {REVISE}.\n\n```json\n{ACCEPT}\n```\n",
        f"```json\n{ACCEPT}\n```\n\nNo: {REVISE}\n",
    ],
)
def test_two_different_objects_are_no_verdict_wherever_they_stand(message: str) -> None:
    """Bare or in a block: none of them counts before the other."""
    answer = ask(ROUTER_JSON, message)
    assert short(answer) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert answer.detail.startswith("two different verdicts: ")
    assert ask(ROUTER_JSON, message.replace("failed", "completed")).token == "completed"


@EACH_SPOKEN
@pytest.mark.req("EV-13")
def test_a_result_file_and_a_message_that_disagree_are_no_verdict(fmt: AnswerFormat) -> None:
    """Neither counts before the other: it is asked again."""
    for token in [one for one in fmt.tokens if one != fmt.best]:
        filed = json.dumps({fmt.field: fmt.best}).encode()
        answer = ask(fmt, sample(fmt, token), result=filed)
        assert short(answer) == (Outcome.FAIL, Reason.BAD_FORMAT)
        assert answer.detail == f"two different verdicts: {token} and {fmt.best}; say one"


def test_json_is_found_in_file_block_or_whole_message() -> None:
    """In this order; of several blocks that agree the last one counts; without the field an object is no verdict."""
    block = '```json\n{"status": "partial"}\n```\nand\n```json\n{"status": "partial", "summary": "half"}\n```\n'
    assert (ask(ROUTER_JSON, block).token, ask(ROUTER_JSON, block).detail) == ("partial", "half")
    assert ask(ROUTER_JSON, block, result=b'\xef\xbb\xbf{"status": "partial", "summary": "x"}').detail == "x"
    assert ask(ROUTER_JSON, ' {"status": "blocked"}\n').outcome is Outcome.BLOCKED
    assert short(ask(ROUTER_JSON, "{}")) == (Outcome.FAIL, Reason.NO_VERDICT)


@pytest.mark.parametrize(
    ("message", "token", "detail"),
    [
        ("DONE: built\n", "DONE", "built"),
        ("DONE: first part\n...\nDONE: second\n\nBye.", "DONE", "second"),
        ("**NEEDS_REVISION:** naming", "NEEDS_REVISION", "naming"),
        ("  `ERROR:` broken", "ERROR", "broken"),
        ("Well DONE: no", None, ""),
        ("done: no", None, ""),
        ("Error: a log line", None, ""),
        ('```json\n{"status": "DONE"}\n```', None, ""),
    ],
)
def test_the_last_completion_line_counts(message: str, token: str | None, detail: str) -> None:
    """At the start of its line, in capitals, with its summary."""
    answer = ask(PLAIN, message)
    assert answer.token == token
    if token:
        assert answer.detail == detail


@pytest.mark.parametrize(
    ("message", "short_form"),
    [
        ("Status: success\nEvidence: x", (Outcome.OK, None)),
        ("- **Status**: `Needs_Revision`.", (Outcome.REVISE, None)),
        ("Status: success\n...\nstatus: success", (Outcome.OK, None)),
        ("Status: 200\nStatus: success\nStatus: 404", (Outcome.OK, None)),
        ("Status: finished", (Outcome.FAIL, Reason.BAD_FORMAT)),
        ('{"status": "blocked"}', (Outcome.BLOCKED, None)),
        ('Status: blocked\n```json\n{"status": "blocked"}\n```', (Outcome.BLOCKED, None)),
        ('Status: success\n```json\n{"name": "x"}\n```', (Outcome.OK, None)),
        ('```json\n{"status": "great"}\n```', (Outcome.FAIL, Reason.BAD_FORMAT)),
        ('```json\n{"status": "great"}\n```\nStatus: success', (Outcome.OK, None)),
    ],
)
def test_a_verdict_in_words_or_json(message: str, short_form: tuple[Outcome, Reason | None]) -> None:
    """A labelled line counts where no JSON object has the field; an unknown word is named."""
    answer = ask(ROADMAP, message)
    assert short(answer) == short_form
    if answer.reason:
        assert "expected success, needs_revision or blocked" in answer.detail


def test_free_text_of_the_router() -> None:
    """With exit 0 it counts and says nothing about the work, other exits are failed, a late answer is partial, a status
    line is heard."""
    assert (ask(ROUTER_TEXT, "any text").token, ask(ROUTER_TEXT, "any text").outcome) == (None, Outcome.OK)
    assert short(ask(ROUTER_TEXT, "any text", code=2)) == (Outcome.FAIL, Reason.AGENT_ERROR)
    assert (ask(ROUTER_TEXT, "some", partial=True).token, ask(ROUTER_TEXT, "some", partial=True).outcome) == (
        "partial",
        Outcome.REVISE,
    )
    assert ask(ROUTER_TEXT, "x\nStatus: blocked\n").outcome is Outcome.BLOCKED
    assert ask(ROUTER_TEXT, 'Status: 404\n```json\n{"status": "odd"}\n```').outcome is Outcome.OK


@pytest.mark.parametrize("fmt", [ROUTER_JSON, ROUTER_TEXT])
def test_an_answer_after_the_request_for_partial_results_is_partial(fmt: AnswerFormat) -> None:
    """Also when it calls itself completed; with nothing said the time limit stands."""
    late = ask(fmt, sample(fmt), timed_out=True, partial=True)
    assert (late.outcome, late.token) == (Outcome.REVISE, "partial")
    assert ask(fmt, sample(fmt, "failed"), partial=True).reason is Reason.AGENT_ERROR
    assert ask(fmt, "", timed_out=True, partial=True).reason is Reason.TIMEOUT
    assert ask(fmt, "half a sente", code=-15, timed_out=True, partial=True).reason is Reason.TIMEOUT
    said = ask(fmt, sample(fmt, "partial"), code=-15, timed_out=True, partial=True)
    assert (said.outcome, said.token) == (Outcome.REVISE, "partial")


def test_late_text_without_a_word_is_partial_too() -> None:
    """Where any text is an answer."""
    assert ask(ROUTER_TEXT, "half of it", timed_out=True, partial=True).token == "partial"


@pytest.mark.req("EN-42")
def test_where_the_artifact_is_the_verdict_an_error_is_still_heard() -> None:
    """Exit 0 and prose are enough; saying `error` or ending badly is not."""
    assert short(ask(HARNESS, "I wrote the design.")) == (Outcome.OK, None)
    assert short(ask(HARNESS, "Status: whatever")) == (Outcome.OK, None)
    assert short(ask(HARNESS, "Status: error")) == (Outcome.FAIL, Reason.AGENT_ERROR)
    assert ask(HARNESS, "Status: blocked").outcome is Outcome.BLOCKED
    assert short(ask(HARNESS, "I wrote it.", code=1)) == (Outcome.FAIL, Reason.CRASHED)
    assert short(ask(AS_WRITTEN, "Status: REJECTED")) == (Outcome.OK, None)


def test_further_fields_can_be_demanded() -> None:
    """A complaint about them is a contract violation; a failed call is not asked for them; words are converted."""
    fmt = AnswerFormat(
        {"success": Outcome.OK, "error": Outcome.FAIL},
        "success",
        completion="text",
        check_data=lambda data: None if data.get("evidence") else "evidence missing",
        from_text=lambda text: {"evidence": "Evidence:" in text},
        example={"evidence": ["x"]},
    )
    assert ask(fmt, sample(fmt)).outcome is Outcome.OK
    bare = ask(fmt, '{"status": "success"}')
    assert (*short(bare), bare.detail) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION, "evidence missing")
    assert ask(fmt, '{"status": "error"}').reason is Reason.AGENT_ERROR
    assert ask(fmt, "Status: success\nEvidence: y").data == {"evidence": True}
    assert ask(fmt, "Status: success").reason is Reason.CONTRACT_VIOLATION


def test_a_format_with_an_unknown_best_token_is_a_fault() -> None:
    """Found when the format is made, not when an agent answers."""
    with pytest.raises(EngineFault):
        AnswerFormat({"a": Outcome.OK}, "b")
    with pytest.raises(EngineFault):
        AnswerFormat({"a": Outcome.OK}, "a", late="b")


WORDS = st.sampled_from(
    [
        "DONE:",
        "ERROR",
        "Status:",
        "success",
        "```json\n",
        "\n```\n",
        '{"status":',
        '"completed"',
        "}",
        "[",
        "\n",
        " ",
        "**",
    ]
)
MESSAGES = st.text(max_size=60) | st.lists(WORDS, max_size=12).map("".join)


@given(
    st.sampled_from(list(FORMATS.values())),
    st.none() | st.integers(-64, 255),
    st.none() | st.binary(max_size=40) | MESSAGES.map(lambda text: text.encode(errors="surrogatepass")),
    MESSAGES,
    st.booleans(),
    st.booleans(),
)
@example(ROUTER_JSON, 0, b'{"status": "\\ud800", "session_id": "\\ud800"}', "", False, False)
@example(ROUTER_JSON, 0, b'{"status": "\\ud800"}', "", False, False)
@example(ROADMAP, 0, b"9" * 5000, "{" * 5000, False, False)
@pytest.mark.req("CM-11", "CM-12")
def test_no_input_breaks_the_reading_of_answers(
    fmt: AnswerFormat, code: int | None, result: bytes | None, message: str, timed_out: bool, partial: bool
) -> None:
    """Total, pure, never a pass without a verdict, and every detail can be written to a file."""
    how = {"code": code, "result": result, "timed_out": timed_out, "partial": partial}
    answer = ask(fmt, message, **how)
    assert answer == ask(fmt, message, **how)
    assert (answer.reason is not None) == (answer.outcome is Outcome.FAIL)
    if answer.outcome is Outcome.OK:
        assert code == 0
        assert fmt.artifact_is_verdict or fmt.tokens[answer.token or ""] is Outcome.OK
    elif answer.reason is Reason.BAD_FORMAT:
        answer.detail.encode()


FOREIGN = ("```\n{}\n```", "~~~text\n{}\n~~~", "> {}", "    {}", "<!--\n{}\n-->")
"""Ways in which a text can hold a line that its author does not say."""


@pytest.mark.req("EV-13")
@pytest.mark.parametrize("around", FOREIGN)
def test_what_is_quoted_decides_nothing(around: str) -> None:
    """In a fence, a quote, a comment or indented: neither alone nor against what the agent says itself."""
    for fmt, good, bad in (
        (PLAIN, "DONE: all of it", "ERROR: no"),
        (ROADMAP, "Status: success", "Status: blocked"),
        (OF_TASK, "Status: SYNTAX_VALID", "Status: ERROR"),
    ):
        assert short(ask(fmt, f"I read:\n\n{around.format(good)}\n")) == (Outcome.FAIL, Reason.NO_VERDICT)
        assert ask(fmt, f"{bad}\n\n{around.format(good)}\n").token == ask(fmt, bad).token


@pytest.mark.req("EV-13")
@pytest.mark.parametrize("fmt", [ROADMAP, ROUTER_JSON], ids=["text", "json"])
def test_a_quoted_block_of_json_decides_nothing(fmt: AnswerFormat) -> None:
    """A pass that the agent quotes from somebody else's answer."""
    quoted = "\n".join(
        f"> {line}" for line in f"```json\n{sample(fmt)}\n```".replace("```json\n```json", "```json").splitlines()
    )
    assert ask(fmt, f"The last one said:\n\n{quoted}\n").token is None


@pytest.mark.req("EV-13")
@pytest.mark.parametrize(
    ("fmt", "message"),
    [
        (PLAIN, "ERROR: it does not build\n\nDONE: the rest"),
        (ROADMAP, "Status: success\n\nStatus: blocked"),
        (ROADMAP, 'Status: success\n\n```json\n{"status": "blocked"}\n```'),
        (
            ROADMAP,
            '```json\n{"status": "success", "verdict": "fail"}\n```\n\n'
            '```json\n{"status": "success", "verdict": "pass"}\n```',
        ),
        (ROUTER_JSON, '```json\n{"status": "failed"}\n```\n\n```json\n{"status": "completed"}\n```'),
        (HARNESS, "Status: completed\nStatus: failed"),
    ],
)
def test_two_different_verdicts_are_none(fmt: AnswerFormat, message: str) -> None:
    """Not even where the artifact is the verdict; the agent is asked again with both words."""
    answer = ask(fmt, message)
    assert short(answer) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert answer.detail.startswith("two different verdicts: ")
    assert next_move(answer.outcome, answer.reason, Used(), Retries(contract=1)) is AfterTry.REPAIR


@pytest.mark.req("EV-12")
def test_an_object_among_other_words_is_found() -> None:
    """A sentence before bare JSON withholds nothing; of several objects the last one counts."""
    answer = ask(ROUTER_JSON, 'Here it is: {"note": {"a": "}"}}\n\n{"status": "completed", "summary": "done"} Bye.')
    assert (answer.token, answer.detail) == ("completed", "done")
    assert short(ask(ROUTER_JSON, "{" * 50_000)) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert short(ask(ROUTER_JSON, '{"a":' * 2_000)) == (Outcome.FAIL, Reason.BAD_FORMAT)
    assert ask(ROUTER_JSON, '{"status": "completed"} Bye.').token == "completed"
    assert ask(ROUTER_JSON, 'So: {{"status": "completed"}').token == "completed"


@pytest.mark.req("EV-12")
def test_an_object_is_looked_for_near_the_end() -> None:
    """In the last 200,000 characters: whatever an agent prints before, reading its answer takes no time."""
    said = '{"status": "completed"}'
    assert ask(ROUTER_JSON, "x " + said + "." * (200_000 - len(said))).token == "completed"
    assert ask(ROUTER_JSON, "x " + said + "." * (200_001 - len(said))).token is None


def test_verdicts_that_agree_are_one() -> None:
    """Also where only one of them gives a further word."""
    one, other = '{"status": "success", "verdict": "pass"}', '{"status": "success"}'
    assert ask(ROADMAP, f"```json\n{one}\n```\n\n```json\n{other}\n```").token == "success"
