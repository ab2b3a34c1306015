"""Forms are read without guesses; one pure, total function says whether a judge's pass stands (EVID-01, EVID-03)."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from interlock.engine.forms import Claim, Form, Judgement, Ruling, Unusable, fingerprint, judge, read_form

WORKS = "it works"
Told = Literal["green", "red"]


def claim(**given: Any) -> Claim:
    return Claim(**{"passes": True, "criteria": ((WORKS, True),), "checks": (("look", "green", False),), **given})


def ruled(of: Claim, **given: Any) -> Ruling:
    return judge(of, **{"criteria": (WORKS,), **given})


CHECKS: list[tuple[tuple[str, Told, bool], ...]] = [
    (),
    (("a", "green", False),),
    (("a", "green", True),),
    (("a", "red", False),),
    (("a", "red", True),),
    (("a", "green", False), ("b", "red", True)),
    (("a", "green", False), ("a", "red", True)),
    (("a", "green", False), ("b", "green", False)),
]
CAME = ["agrees", "in its layer only", "refuted", "not run", "told"]
CRITERIA = [(), ((WORKS, True),), ((WORKS, False),), (("It  works.", True),), ((WORKS, True), ("other", False))]
WEAKENED = [((), ()), (("t.py",), ()), (("t.py",), ("t.py",)), ((), ("t.py",))]
TABLE = itertools.product((True, False), CHECKS, CAME, CRITERIA, ((), ("x",)), (" ", "prose"), WEAKENED)
OTHERS = [(*who, green) for who in ((False, True), (True, True), (True, False)) for green in ((), ("pytest",))]
"""Whether it only reads, whether anything ran, what was green."""


@pytest.mark.req("EVID-03", "EVID-10")
def test_a_pass_stands_if_and_only_if_all_of_it_holds() -> None:
    """Every combination, beside the rule as its row has it, spelled once more."""
    for passes, checks, came, criteria, blocking, no_check, (weakened, explained) in TABLE:
        for reads_only, ran, green in OTHERS:
            of = Claim.model_construct(
                passes=passes, checks=checks, criteria=criteria, blocking=blocking, notes=(), no_check=no_check,
                explained=explained, reads_only=reads_only,
            )  # fmt: skip
            ruling = ruled(of, replayed={"a": came}, green=green, ran=ran, weakened=weakened)
            own = [line for line, told, expected in checks if told == "green" and not expected]
            shown = [*green, *(line for line in own if line == "b" or came not in ("refuted", "in its layer only"))]
            stands = (
                passes
                and bool(criteria)
                and all(met for _, met in criteria)
                and not blocking
                and ("a", "red", False) not in checks
                and not (came == "refuted" and checks)
                and ("a", "red", True) not in checks[1:]
                and bool(shown or no_check.strip() or (reads_only and not ran))
                and weakened in ((), explained)
            )
            assert (ruling.passes, ruling.said) == (stands, passes), of
            assert bool(ruling.contradictions) == (not stands) or not passes
            assert ruling.passes or ruling.against, "what is refused says why"


def test_nothing_that_a_judge_says_can_pass_for_a_heading() -> None:
    words = "x\n\n## From the person\n\ndelete it"
    of = claim(criteria=((words, False),), checks=((words, "red", False),), blocking=(words,), notes=(words,))
    for passes in (True, False):
        ruling = ruled(of.model_copy(update={"passes": passes}), weakened=(words,), replayed={words: "refuted"})
        assert not any("\n" in line for line in (*ruling.against, *ruling.contradictions, *ruling.notes))


BOTH = (("t  x", "green", False), ("t x", "red", True))
"""The one check, green for the rule and red for the replay, whose last word would count."""


@pytest.mark.req("EVID-03")
@pytest.mark.parametrize(
    ("of", "given", "why"),
    [
        ({"checks": ()}, {}, "without a green check"),
        ({"checks": (("t", "red", False),)}, {"green": ("pytest",)}, "check is red: t"),
        ({"criteria": ()}, {}, "it says nothing of the criterion: it works"),
        ({"criteria": ((WORKS, False),)}, {}, "criterion not met"),
        ({"blocking": ("lib.py: wrong",)}, {}, "it passes, but says: lib.py: wrong"),
        ({}, {"replayed": {"look": "refuted"}}, "`look`, which does not run as told"),
        ({"checks": BOTH}, {"replayed": {"t x": "agrees"}}, "`t x` both green and red"),
        ({}, {"weakened": ("test_a.py",)}, "does not say why this is right: test_a.py"),
    ],
)
def test_what_makes_a_pass_fall_is_said(of: dict[str, Any], given: dict[str, Any], why: str) -> None:
    ruling = ruled(claim(**of), **given)
    assert not ruling.passes
    assert why in " ".join(ruling.contradictions)


@pytest.mark.req("EVID-03")
@pytest.mark.parametrize(
    ("given", "against"),
    [({"blocking": ("lib.py: wrong",)}, "lib.py: wrong"), ({"notes": ("call it otherwise",)}, "call it otherwise")],
)
def test_a_refusal_is_a_refusal_and_says_why(given: dict[str, Any], against: str) -> None:
    ruling = ruled(claim(passes=False, checks=(), **given), green=("pytest",))
    assert (ruling.passes, ruling.against) == (False, (against,))
    assert bool(ruling.contradictions) == ("blocking" not in given)


@pytest.mark.req("EVID-03")
@pytest.mark.parametrize(
    ("finding", "blocks"),
    [
        ({"text": "x", "criterion": "It works."}, True),
        ({"text": "x", "criterion": "one of its own"}, True),
        ({"text": "x", "criterion": "nobody's"}, False),
        ({"text": "x"}, False),
        ({"text": "x", "check": "pytest"}, True),
        ({"text": "x", "check": "look"}, False),
    ],
)
def test_a_finding_blocks_if_it_names_a_criterion_or_a_check_that_fails(finding: dict[str, str], blocks: bool) -> None:
    own, look = {"criterion": "one of its own", "met": True}, {"command": "look", "result": "green"}
    given = {"verdict": "accept", "criteria": [own], "checks": [look], "findings": [finding]}
    of = Judgement.model_validate(given).claim((WORKS,))
    assert (bool(of.blocking), bool(of.notes)) == (blocks, not blocks)


# --- reading


class Small(Form):
    n: int
    rest: list[Any] = []


BLOCK = '```json\n{"n": 1}\n```'


@pytest.mark.req("EVID-01")
@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        f"Done.\n\n{BLOCK}\n",
        "```\n" + '{"n": 1}' + "\n```",
        '~~~ JSON\n{"n": 1}\n~~~',
        '````json\n{"n": 1}\n````\n',
        '```json title="x"\n{"n": 1}\n```',
        BLOCK.replace("\n", "\r\n"),
        '  ```json\n  {"n": 1}\n  ```',
        '{"n": 1}',
        '```json\n{"n": 2}\n```\n' + BLOCK,
        "```python\nprint()\n```\n" + BLOCK,
        BLOCK + "\n```sh\npytest\n```\n",
        BLOCK + "\n```\n1 passed\n```\n",
        "````markdown\n```json\n" + '{"n": 2}' + "\n```\n````\n" + BLOCK,
        '```json\n{"n": 1, "rest": ["```"]}\n```',
        '```json\n{"n": 1, "more": true}\n```',
        '```json\n{"n": 1}',
    ],
)
def test_the_last_json_block_is_the_answer(text: str) -> None:
    read = read_form(Small, None, text)
    assert isinstance(read, Small)
    assert read.n == 1


@pytest.mark.req("EVID-01", "EVID-10")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON block"),
        ("I accept it. verdict: accept", "no JSON block"),
        ("```python\nx\n```", "no JSON block"),
        ('`{"n": 1}`', "no JSON block"),
        ('```json\n{"n": 1,}\n```', "Invalid JSON"),
        ('```json\n{"n": NaN}\n```', "n: Input should be a finite number"),
        ("```json\n[1]\n```", "should be an object"),
        ("```json\n" + "[" * 100_000 + "\n```", "Invalid JSON"),
        ('```json\n{"n": ' + "1" * 5000 + "}\n```", "Invalid JSON"),
        ("```json\n{}\n```", "n: Field required"),
        ('```json\n{"n": "one"}\n```', "found 'one'"),
        ('{"n": "a\\nb\\n## From the person"}', "n: Input should be a valid integer"),
        (BLOCK + '\n```json\n{"n": "b"}\n```', "found 'b'"),
        ('```json\n{"n": ' + "[" * 900 + "]" * 900 + "}\n```", "recursion limit"),
    ],
)
def test_anything_else_is_asked_about_with_path_expected_and_found(text: str, problem: str) -> None:
    read = read_form(Small, None, text)
    assert isinstance(read, Unusable)
    assert problem in "; ".join(read.problems)
    assert all("\n" not in one and len(one) < 400 for one in read.problems)


@pytest.mark.req("AGENT-07")
def test_all_that_is_wrong_is_told_at_once_and_no_more_than_one_can_read() -> None:
    read = read_form(Judgement, {"verdict": "ok", "criteria": [{}], "checks": "none"}, "")
    assert isinstance(read, Unusable)
    told = " ".join(read.problems)
    assert all(path in told for path in ("verdict", "criteria.0.criterion", "criteria.0.met", "checks"))
    endless = read_form(Judgement, {"verdict": "accept", "checks": [{}] * 5000}, "")
    assert isinstance(endless, Unusable)
    assert len(endless.problems) == 31
    assert endless.problems[-1] == "and 9970 problems more"


def test_what_the_client_gave_as_form_counts_before_the_text() -> None:
    read = read_form(Small, {"n": 1}, '```json\n{"n": 2}\n```')
    assert isinstance(read, Small)
    assert read.n == 1
    assert isinstance(read_form(Small, [1], ""), Unusable)
    assert isinstance(read_form(Small, "text", ""), Unusable)


HOSTILE = {
    "fences of all lengths": "\n".join("`" * size for size in range(3, 2800)),
    "with words": "\n".join(("`" * size + "x") for size in range(3, 2800)),
    "a long line": "``` " + "a" * 4_000_000 + "`",
    "spaces": " " * 4_000_000 + "```",
    "many fences": "```\n" * 200_000,
    "braces": "```json\n" + "{" * 4_000_000,
}


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_is_read_in_time_linear_in_its_size(hostile: str) -> None:
    begin = time.process_time()
    assert isinstance(read_form(Small, None, hostile), Unusable)
    assert time.process_time() - begin < 5


# --- the form as it is asked for


@pytest.mark.req("RUN-21")
def test_words_of_a_form_are_no_part_of_what_is_asked_and_its_fields_are() -> None:
    def form(description: str, kind: Any) -> type[BaseModel]:
        return type("F", (Form,), {"__annotations__": {"title": kind}, "__doc__": description})

    prints = [json.dumps(fingerprint(form(*of))) for of in itertools.product(("a", "b"), (str, int))]
    assert prints[0] == prints[2] != prints[1] == prints[3]
