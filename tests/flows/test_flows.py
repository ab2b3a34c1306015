"""Playbooks in YAML: what is wrong with a file is told with its line, and the rest runs on the verbs (OWN-02)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.agents.values import Ask
from interlock.documents.reading import read_yaml
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore, variants
from interlock.engine.simulation import Act, Files
from interlock.errors import BadInput, Status
from interlock.flows import checking, format
from interlock.flows.compiling import compiled
from tests.engine.bench import GREEN, RED, SAMPLED, Bench, cut_off_anywhere, said, verdict, wrong

HOUSE = Path(__file__).parents[2]
EXAMPLES = sorted((HOUSE / "examples").glob("*/playbook.yaml"))
FIX = """\
playbook: fix
summary: Build until the reviewers agree, then ask a person.
inputs:
  what: {help: What is asked for., argument: true}
  check: {help: What decides., default: make test}
key: "{{ what }}"
agents:
  planner: {instructions: You plan.}
  builder: {writes: [src/**]}
  reviewer: {judges: reading}
steps:
  - agent: planner
    name: plan
    task: "Plan it: {{ what }}"
    produces: {path: docs/plan.md, headings: "## Steps"}
  - repeat: revise
    at_most: 3
    when_used_up: end no_agreement
    steps:
      - agent: builder
        task: "Carry it out{% if turn > 1 %}, once more{% endif %}."
        reads: docs/plan.md
        quotes: [plan, findings]
      - {run: tests, command: "{{ check }}", must: pass}
      - {run: lint, command: "lint {{ what }}"}
      - together: review
        members:
          right: {agent: reviewer, task: "Judge it for {{ member }}."}
          safe: {agent: reviewer, task: "Judge it for {{ member }}."}
      - decide: after_review
        rows:
          - {tests: passed, review: pass, then: leave}
          - {review: [blocked, failed], then: end nowhere}
          - {revise: stuck, then: end nowhere}
          - {revise: moving, then: again}
  - {ask: ship, question: "Ship {{ what }}?", choices: {yes: it is shipped, no: it is not}, shows: docs/plan.md}
  - decide: shipping
    rows:
      - {ship: yes, then: end shipped}
      - {ship: no, then: end kept}
  - {end: shipped, status: complete, words: "{{ what }} is shipped, lint {{ lint }}."}
  - {end: kept, status: degraded, words: Kept.}
  - {end: nowhere, status: stopped, words: It leads nowhere., quotes: findings}
  - {end: no_agreement, status: failed, words: No agreement.}
"""


LISTS = """\
playbook: lists
summary: Lists.
inputs:
  files: {help: Which., type: list, argument: true}
  loud: {help: How., type: switch}
  times: {help: How often., type: number, default: 2, at_most: 3}
key: once
steps:
  - {run: count, command: "wc {{ files }} {{ times }}", must: pass}
  - {end: done, status: complete, words: "TEXT"}
"""


def read(text: str) -> Playbook:
    flow, source = format.read(text.encode(), "fix.yaml")
    checking.check(flow, source)
    return compiled(flow)


WRONG = [
    ("agents:", "agent:", "agent is not known", 7),
    ("writes: [src/**]", "writs: [src/**]", "agents.builder.writs is not known", 9),
    ("  - agent: planner", "  - agnt: planner", "this is no step", 12),
    ("at_most: 3", "at_most: 101", "less than or equal to 100", 17),
    ("then: leave", "then: leaf", "expected go on, again, leave, or end NAME", 32),
    ("agent: builder\n", "agent: bilder\n", "the agent 'bilder' is not known", 20),
    ("  builder: {", "  idle: {}\n  builder: {", "no step calls the agent 'idle'", 9),
    (
        "{tests: passed, review: pass,",
        "{tests: pased, review: pass,",
        "the outcome of tests here 'pased' is not known",
        32,
    ),
    ("{tests: passed, review: pass,", "{check: passed, review: pass,", "the step 'check' is not known", 32),
    ("          - {revise: stuck, then: end nowhere}\n", "", "does not say where it leads with", 30),
    ("          - {revise: moving, then: again}\n", "", "does not say where it leads with", 30),
    ("{revise: moving, then: again}", "{revise: moving, then: end gone}", "the ending 'gone' is not known", 35),
    ("when_used_up: end no_agreement", "when_used_up: end kept", "no way leads to the ending 'no_agreement'", 44),
    (
        "      - {ship: no, then: end kept}",
        "      - {ship: yes, then: end kept}",
        "no combination comes to this row",
        40,
    ),
    ("      - {ship: no, then: end kept}", "      - {ship: no, then: again}", "stands outside of every repeat", 40),
    ("{{ what }} is shipped", "{{ whatt }} is shipped", "the name 'whatt' is not known", 41),
    ("lint {{ lint }}", "lint {{ lint.x }}", "a look into a value", 41),
    ("lint {{ lint }}", "lint {{ lint | random }}", "it has filter", 41),
    ("turn > 1", "what > 1", "these cannot be compared", 21),
    ('"lint {{ what }}"', "\"lint '{{ what }}'\"", "stands inside quotes of the command", 25),
    ('"lint {{ what }}"', '"lint `x {{ what }}`"', "stands inside quotes of the command", 25),
    ('"lint {{ what }}"', '"cat <<E {{ what }}"', "a name stands behind `<<`", 25),
    ('command: "{{ check }}", must', 'command: "{{ turn }}", must', "the name 'turn' is not known", 24),
    ("quotes: [plan, findings]", "quotes: [plan, review]", "'review' has not run on every way to here", 23),
    ("      - {run: lint,", "      - {run: tests,", "the name 'tests' is given twice", 25),
    ("docs/plan.md, headings", "../plan.md, headings", "expected a path inside the workspace", 15),
    ("{end: kept, status: degraded", "{end: kept, status: done", "'complete', 'degraded', 'stopped' or 'failed'", 42),
    ("default: make test", "default: make test, one_of: [make, gmake]", "the default 'make test' cannot be given", 5),
    ("default: make test", "default: 3, type: switch", "the default 3 cannot be given", 5),
    ("default: make test", "default: make test, at_least: 3", "at_least and at_most are for numbers", 5),
    (
        "  check: {help",
        "  what_: {help: x}\n  what-: {help: x}\n  check: {help",
        "an input cannot be called 'what-'",
        6,
    ),
    ("  check: {help", "  model_dump: {help: x}\n  check: {help", "an input cannot be called 'model_dump'", 5),
    ("right: {agent", "right: {name: wrong, agent", "the name of a member is its key; right has another one", 27),
    ("{judges: reading}", "{judges: reading, writes: [a]}", "who judges writes nothing but what", 10),
    (
        "{judges: reading}",
        "{judges: reading, role: builder, runner: other}",
        "the role 'builder' is another agent's",
        10,
    ),
    ("key: ", "key: &k ", "anchors and aliases are not taken", 6),
    ("key: ", "key: a\nkey: ", "appears twice", 7),
]


@pytest.mark.req("OWN-02", "CLI-05")
@pytest.mark.parametrize(("old", "new", "what", "line"), WRONG)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, what: str, line: int) -> None:
    assert FIX.count(old) >= 1
    with pytest.raises(BadInput) as caught:
        read(FIX.replace(old, new, 1))
    told = [(f"{one.what} {one.expected or ''}", one.where or "") for one in (caught.value, *caught.value.also)]
    assert any(what in words and re.match(rf"fix\.yaml:{line}\b", where) for words, where in told), told


@pytest.mark.req("OWN-02")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{% for one in files %}{% endfor %}", "it has for"),
        ("{{ files[0] }}", "a look into a value"),
        ("{{ times * 2 }}", "it has mul"),
        ("{% set a = 1 %}", "it has assign"),
        ("{% if %}", "the text cannot be filled in"),
    ],
)
def test_a_text_that_might_not_be_filled_in_is_refused(text: str, what: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(LISTS.replace("TEXT", text))
    assert any(what in one.what for one in (caught.value, *caught.value.also))


@pytest.mark.req("OWN-02")
def test_what_is_filled_into_a_command_is_one_word_of_it() -> None:
    """Of a list each value."""
    bench = Bench(read(LISTS.replace("TEXT", "{% if loud and times < 3 %}{{ files }}{% endif %}.")), commands=())
    bench.cast.commands = {"wc 'a b' '; rm c' 2": [GREEN]}
    view = bench.start(files=("a b", "; rm c"), loud=True)
    assert (view.status, view.why) == (Status.COMPLETE, "a b ; rm c.")
    assert {line for line, _, _ in bench.cast.ran} == set(bench.cast.commands)


@pytest.mark.req("OWN-02")
def test_what_can_be_read_is_valid_by_the_published_schema() -> None:
    """And what is wrong in form is not."""
    published = json.loads((HOUSE / "docs/reference/playbook.schema.json").read_text("utf-8"))
    assert published == format.schema()
    valid = jsonschema.Draft202012Validator(published)
    new = HOUSE / "src/interlock/finding/new/yaml/playbook.yaml"
    for text in (FIX, LISTS, *(path.read_text("utf-8") for path in (*EXAMPLES, new))):
        assert [error.message for error in valid.iter_errors(read_yaml(text, "x").data)] == []
    for old, new in (("agents:", "agent:"), ("at_most: 3", "at_most: 101"), ("then: leave", "then: leaf")):
        assert not valid.is_valid(read_yaml(FIX.replace(old, new), "x").data)


@SAMPLED
@pytest.mark.req("OWN-02", "PROOF-01")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_holds_on_every_path(path: Path, sample: int) -> None:
    flow, source = format.read(path.read_bytes(), path.name)
    checking.check(flow, source)
    playbook = compiled(flow)
    paths = list(explore(playbook, next(iter(variants(playbook))), sample=sample))
    assert wrong(paths) == []
    assert sample or {Status.COMPLETE, Status.STOPPED, Status.CANCELLED} <= {one.view.status for one in paths}


def _bench(
    judges: Mapping[int, str], tests: Sequence[Any] = (GREEN,), decisions: Sequence[str] = ("yes",), **more: Any
) -> Bench:
    """What the reviewers say in each turn; what `make test` comes to before, and in each turn."""
    bench = Bench(read(FIX), commands=(), **more)

    def turn(ask: Ask) -> int:
        return int(ask.env["INTERLOCK_DISPATCH"].partition("revise-")[2].partition("/")[0] or 1)

    def reviewer(ask: Ask, files: Files) -> Act:
        word = judges.get(turn(ask), "accept")
        finding = {"text": f"turn {turn(ask) if word == 'revise' else 1}", "check": "lint"}
        return verdict(word, criteria=[], checks=[], findings=[] if word == "accept" else [finding], summary="So.")

    def builder(ask: Ask, files: Files) -> Act:
        return said({"status": "done", "summary": "built"}, {"src/a.py": f"turn {turn(ask)}\n".encode()})

    bench.cast.acts |= {"right": [reviewer] * 20, "safe": [reviewer] * 20, "builder": [builder] * 20}
    bench.cast.acts["plan"] = [said({"status": "done"}, {"docs/plan.md": b"## Steps\n\nOne.\n"})] * 20
    bench.cast.commands = {"make test": list(tests), "lint 'the lamp'": [RED]}
    bench.cast.decisions = [{"choice": choice, "note": "because"} for choice in decisions for _ in range(9)]
    start = bench.start
    bench.start = lambda **given: start(what="the lamp", **given)  # type: ignore[method-assign]
    return bench


WAYS: dict[str, tuple[Mapping[int, str], Sequence[Any], Sequence[str], Status, int, str, int]] = {
    "good": ({}, (GREEN,), ("yes",), Status.COMPLETE, 0, "the lamp is shipped, lint failed.", 1),
    "revised": ({1: "revise"}, (GREEN,), ("yes",), Status.COMPLETE, 0, "the lamp is shipped, lint failed.", 2),
    "red": ({}, (RED, RED, RED, GREEN), ("yes",), Status.COMPLETE, 0, "the lamp is shipped, lint failed.", 2),
    "kept": ({}, (GREEN,), ("no",), Status.DEGRADED, 1, "Kept.", 1),
    "stuck": ({1: "same", 2: "same"}, (GREEN,), (), Status.STOPPED, 3, "It leads nowhere.", 2),
    "blocked": ({1: "blocked"}, (GREEN,), (), Status.STOPPED, 3, "It leads nowhere.", 1),
    "used up": (dict.fromkeys((1, 2, 3), "revise"), (GREEN,), (), Status.STOPPED, 5, "No agreement.", 3),
}


@pytest.mark.req("OWN-02")
@pytest.mark.parametrize("way", WAYS)
def test_a_table_says_where_it_goes(way: str) -> None:
    judges, tests, decisions, status, code, words, turns = WAYS[way]
    judges = {turn: word if word in ("revise", "blocked") else "revise" for turn, word in judges.items()}
    bench = _bench(judges, tests, decisions)
    if way == "stuck":  # the same finding in both turns
        same = verdict("revise", criteria=[], checks=[], findings=[{"text": "the same", "check": "lint"}])
        bench.cast.acts |= {"right": [same] * 9, "safe": [same] * 9}
    view = bench.start()
    assert (view.status, view.why, int(view.ended.exit) if view.ended else -1) == (status, words, code)
    assert view.turns["revise"][0] == turns
    assert ("src/a.py" in bench.world.files) is (status is Status.COMPLETE), "delivered where it is complete"
    assert "docs/plan.md" in bench.world.files


@pytest.mark.req("OWN-02", "AGENT-03")
def test_what_a_step_said_reaches_others_as_data() -> None:
    bench = _bench({1: "revise"})
    bench.start()
    first, second = bench.briefs("builder")
    assert "### plan: pass" in first and "```\n## Steps" in first and "once more" not in first
    assert "### right: revise" in second and "turn 1" in second and "### lint: failed" in second
    assert "Carry it out, once more." in second
    judge = bench.briefs("reviewer")[0]
    assert "Judge it for right." in judge and "`make test`, run by interlock on this very tree: green, held" in judge


@pytest.mark.req("OWN-02", "EVID-08")
@pytest.mark.parametrize(
    ("act", "why"),
    [
        (
            said({"status": "done"}),
            "builder: failed, Nothing was changed. If it is so already, name the commands that show it",
        ),
        (
            said({"status": "done", "already_so": ["lint 'the lamp'"]}),
            "builder: failed, `lint 'the lamp'` is not green.",
        ),
        (said({"status": "done", "already_so": ["make test"]}), "the lamp is shipped, lint failed."),
        (said({"status": "blocked", "summary": "no key"}), "builder: blocked, no key"),
    ],
)
def test_what_no_table_asks_about_has_to_go_well(act: Act, why: str) -> None:
    bench = _bench({})
    bench.cast.acts["builder"] = [act] * 9
    view = bench.start()
    assert view.why.startswith(why)
    assert view.ended is not None
    assert view.ended.exit == (3 if view.status is Status.STOPPED else 0), "no program failed"


@pytest.mark.req("OWN-02", "EVID-01")
def test_a_document_has_what_it_must_have() -> None:
    bench = _bench({})
    good = bench.cast.acts["plan"][0]
    bench.cast.acts["plan"] = [said({"status": "done"}, {"docs/plan.md": b"# Steps\n"}), good]
    assert bench.start().status is Status.COMPLETE
    assert "docs/plan.md has no heading '## Steps'" in bench.briefs("planner")[1]


@pytest.mark.req("OWN-02", "EVID-09")
def test_what_must_pass_passes_on_the_tree_that_is_delivered() -> None:
    """The person breaks it while the gate waits; the end is not complete."""
    bench = _bench({}, (GREEN, GREEN, RED))
    bench.cast.moments["ask"] = [lambda: bench.world.files.update({"people.txt": b"new\n"})]
    bench.cast.commands["make test"] = lambda files: RED if {"people.txt", "src/a.py"} <= files.keys() else GREEN
    view = bench.start()
    assert (view.status, view.why) == (Status.STOPPED, "tests must pass, and does not")
    assert "src/a.py" not in bench.world.files


@pytest.mark.long
@pytest.mark.req("OWN-02", "RUN-03")
def test_killed_behind_each_line_it_ends_as_undisturbed() -> None:
    for line, usual, bench in cut_off_anywhere(lambda: _bench({1: "revise"})):
        assert bench.last.view.why == usual.last.view.why == "the lamp is shipped, lint failed.", line
        assert bench.world.files == usual.world.files, line


@SAMPLED
@pytest.mark.req("OWN-02", "PROOF-01")
def test_every_path_of_one_with_everything_holds(sample: int) -> None:
    playbook = read(FIX)
    paths = list(explore(playbook, playbook.inputs.model_validate({"what": "the lamp"}), sample=sample))
    assert wrong(paths) == []
    assert sample or len(paths) > 200
