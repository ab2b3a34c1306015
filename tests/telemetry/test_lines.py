"""A journal line as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.telemetry import Narrator, Weight, in_words, printable, tell
from interlock.telemetry.lines import _TELL, decision, spoken_command

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["in", "out", "member", "step", "outcome", "reason", "text", "paths", "gate", "choice", "try"])


@given(st.text() | json_values, st.integers(min_value=2, max_value=50))
def test_printable_is_one_line_that_moves_no_cursor(text: Any, limit: int) -> None:
    """Whatever an agent wrote, what is shown is printable."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert "\n" not in shown


def test_printable_leaves_readable_text_alone_and_cuts_long_text() -> None:
    """Letters of any language stay; control and direction marks are escaped; long text ends in an ellipsis."""
    assert printable("Grüße, 世界") == "Grüße, 世界"
    assert printable("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\n"
    assert printable("x" * 300, 10) == "x" * 9 + "…"


@given(st.sampled_from([*_TELL, "an.event.of.a.playbook"]), st.dictionaries(names | st.text(max_size=6), json_values))
def test_every_line_can_be_told(event: str, data: dict[str, Any]) -> None:
    """Lines of other versions, or of a playbook that uses our names, are told as they are; none raises."""

    class Made:
        key = agent = "k\x07"
        attempt = iteration = None
        ts = "2026-01-01T10:00:00.000+00:00"

    line: Any = Made()
    line.event, line.data = event, data
    assert tell(line).text.replace("\n", "").isprintable()


@pytest.mark.req("CM-30")
def test_the_words_for_what_people_watch(make_line: Any, dispatch_end: Any) -> None:
    """Start, end, decision, gate, warning, scope violation and retry have a line of their own, and a weight."""
    start = make_line("dispatch.start", "p/a#1", "a", 1, data={"member": "a", "step": "p", "try": 1, "runner": "r"})
    assert tell(start).text == "step p: a  started (attempt 1; runner r)"
    assert tell(dispatch_end()).text == "step build: builder  ok in 4.0 s, 2 files changed"
    assert tell(dispatch_end(cost_usd=0.126)).text.endswith(", 0.13 USD")
    failed = tell(dispatch_end(outcome="FAIL", reason="no_verdict", changes=0, complaints=["no status line"]))
    assert failed.text == "step build: builder  failed (no_verdict) in 4.0 s: no status line"
    assert failed.weight is Weight.BAD
    out = {"rule": "after_review", "row": "PASS, MOVING", "result": "ship"}
    assert tell(make_line("decide", data={"in": {}, "out": out})).text == "decision after_review: PASS, MOVING -> ship"
    gate = {"gate": "ship", "question": "Ship?", "opening": 1}
    assert tell(make_line("gate.opened", data=gate)).weight is Weight.ATTENTION
    assert tell(make_line("warning", data={"text": "low disk"})).text == "warning: low disk"
    undone = {"paths": ["x"], "patch": "p", "by": "a", "again": "git apply p"}
    violation = tell(make_line("scope.violation", data=undone))
    assert violation.weight is Weight.BAD
    assert violation.text == "a changed what it may not; not taken over: x (kept in p)"
    again = {"move": "repeat", "outcome": "FAIL", "reason": "timeout", "detail": "", "delay_s": 1.0}
    assert tell(make_line("dispatch.try", "k", "a", data=again)).text == "a failed (timeout); called again after 1.0 s"
    assert tell(make_line("read", data={"in": {"path": "x.md"}})).weight is Weight.DETAIL


@pytest.mark.parametrize(
    ("delay_s", "said"), [(17_999.7, "waiting 5 h 00 min for it"), (0.0, "it lasts longer than may be waited")]
)
def test_a_limit_is_told_with_what_follows(make_line: Any, delay_s: float, said: str) -> None:
    """How long it is waited for, as people say it, or that it is not."""
    data = {"move": "wait", "outcome": "FAIL", "reason": "crashed", "detail": "429 slow down", "delay_s": delay_s}
    told = tell(make_line("dispatch.try", "k", "a", data=data))
    assert told.text == f"k: the limit of a's service is reached: 429 slow down; {said}"
    assert told.weight is Weight.ATTENTION


def test_durations_as_people_say_them() -> None:
    """From tenths of seconds to hours."""
    assert [in_words(s) for s in (0.04, 9.94, 12.3, 59.7, 185, 7800)] == [
        *("0.0 s", "9.9 s", "12 s", "1 min 00 s", "3 min 05 s", "2 h 10 min")
    ]


@pytest.mark.parametrize(
    ("argv", "spoken"),
    [
        (["make", "test"], "make test"),
        (["sh", "-c", "# a commit from an index of its own\nset -e\ngit commit"], "a commit from an index of its own"),
        (["sh", "-c", "make && make test"], "make && make test"),
        (None, "?"),
    ],
)
def test_a_command_is_told_in_words_that_say_what_it_does(argv: object, spoken: str) -> None:
    """A script that begins with a comment is named by it."""
    assert spoken_command({"argv": argv}) == spoken


# -- said once, in words that say something


@pytest.mark.req("EV-27", "EV-30")
@pytest.mark.parametrize(
    ("step", "member", "told"),
    [
        ("implement", "Implement", "Implement  ok"),
        ("O4.5", "Planner", "Planner  ok"),
        ("design", "Architect", "step design: Architect  ok"),
        ("3b.1", "ct-security", "step 3b.1: ct-security  ok"),
    ],
)
def test_a_step_is_named_where_it_says_more_than_the_agent(
    dispatch_end: Any, step: str, member: str, told: str
) -> None:
    """Neither the same word twice nor a code of the process."""
    assert tell(dispatch_end(step=step, member=member, changes=0)).text.startswith(told)


@pytest.mark.req("EV-27", "EV-30")
@pytest.mark.parametrize(
    ("named", "result", "told"),
    [
        ({"request": "ABC-12 fix the login error so that users can sign in"}, "clear", None),
        ({"output": "one\ntwo three\nfour five", "group": [{"a": {}}, {"a": {}}]}, "T2", None),
        ({"reviewed": "DONE"}, "DONE", None),
        ({"reviewed": "DONE", "fixes": 1}, "DONE", "decision rule: reviewed DONE, fixes 1 -> DONE"),
        ({"parts": [{"name": "a"}, {"b": {}}]}, "T2", "decision rule: parts a -> T2"),
    ],
)
def test_a_decision_is_told_with_what_a_line_can_show(
    make_line: Any, named: dict[str, Any], result: str, told: str | None
) -> None:
    """What people or programs wrote is no input to read there, nor is an echo: for `--verbose`; `why` has it all."""
    out = {"rule": "rule", "row": "...", "result": result}
    data = {"in": {}, "out": out, "named": named}
    said = tell(make_line("decide", data=data))
    assert all(any(row.startswith(name) for row in decision(data).named) for name in named if name != "group")
    assert (said.text, said.weight) == (told, Weight.PLAIN) if told else said.weight is Weight.DETAIL


@pytest.mark.req("WB-03")
def test_a_decision_about_many_things_names_some() -> None:
    """What is still to do is an input, however much it is."""
    named = {"failed": [], "still to do": {f"T{number}": ["T0"] for number in range(1, 10)}}
    data = {"in": {}, "out": {"rule": "rule", "row": "...", "result": "next"}, "named": named}
    assert decision(data).named == ("still to do T1 T2 T3 T4 T5 T6 and 3 more",)


PROOF = {"name": "test", "command": "make test", "exit": 0, "seconds": 3.0, "tail": "", "problem": ""}
RED = {**PROOF, "problem": "ended with exit status 2", "tail": "a.c: no", "new": ["a.c: no"]}


@pytest.mark.req("EV-05", "EV-27")
def test_a_command_is_told_in_full_once(make_line: Any) -> None:
    """Before it runs with where it is from, or with its first end; then by what it is for."""
    said = {"text": "test: make test, from Makefile", "command": "test: make test"}
    lines = [
        make_line("progress", "I1/note#1", data=said),
        make_line("proof", data=PROOF),
        make_line("preflight", data={"commands": ["test: make test, from Makefile"], "problems": [], "red": []}),
        make_line("proof", data=RED),
    ]
    narrator = Narrator()
    told = [narrator.tell(line) for line in lines]
    assert [one.text for one in told if one.weight is not Weight.DETAIL] == [
        "test: make test, from Makefile",
        "test passes in 3.0 s",
        "test ended with exit status 2, in 3.0 s\na.c: no",
    ]


@pytest.mark.req("EV-05", "EV-27")
@pytest.mark.parametrize(
    ("commands", "told"),
    [
        (["test: make test, from --check"], "before the first agent, all is well; what will decide is from --check"),
        (
            ["test: make test tidy, from --check"],
            "before the first agent, all is well; these will decide:\ntest: make test tidy, from --check",
        ),
    ],
)
def test_the_look_before_the_first_agent_adds_what_was_not_told(make_line: Any, commands: list[str], told: str) -> None:
    """Where the commands are from; those that were not run are listed."""
    narrator = Narrator()
    assert narrator.tell(make_line("proof", data=PROOF)).text == "test: make test passes in 3.0 s"
    assert narrator.tell(make_line("preflight", data={"commands": commands})).text == told


@pytest.mark.req("EV-27", "EV-30")
def test_progress_that_is_none_is_not_told(make_line: Any) -> None:
    """The same figures as before, in the same part of the run."""
    narrator = Narrator()
    said = [
        ("iteration-0/a/note#1", "Progress: 0%"),
        ("iteration-0/a/note#2", "to be done again: T2"),
        ("iteration-0/a/b/note#1", "Progress: 0%"),
        ("iteration-0/a/note#3", "Progress: 95%"),
        ("iteration-1/a/note#1", "Progress: 95%"),
    ]
    told = [narrator.tell(make_line("progress", key, data={"text": text})).weight for key, text in said]
    assert told == [Weight.PLAIN, Weight.PLAIN, Weight.DETAIL, Weight.PLAIN, Weight.PLAIN]


@pytest.mark.req("WB-09")
def test_what_nobody_sees_is_spelled_out_in_a_line() -> None:
    """Fillers and selectors count as printable, and a text can be written in them."""
    assert printable("a\u3164b\U000e0141") == "a\\u3164b\\U000e0141"
