"""`adopt`: what a prompt says is kept by code, or said not to be (AD-01 to AD-09)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.app import SHIPPED
from interlock.engine.rehearsal import explore, variants
from interlock.engine.simulation import Act
from interlock.errors import BadInput, Status
from interlock.playbooks.adopt import ADOPT
from interlock.playbooks.adopt.drafts import Made, checked
from interlock.playbooks.adopt.playbook import TAKEN
from interlock.playbooks.adopt.statements import Statement, name_of
from interlock.testing import Bench, said
from tests.engine.bench import SAMPLED, wrong

PROMPT = """\
# Mend things

1. Build first, then test. At most 3 times.

You are careful.
"""
HOME, DRAFT = ".interlock/playbooks/mend", "docs/adopted/mend"
YAML = """\
playbook: mend
summary: Mend things.
inputs:
  what: {help: What., argument: true}
key: "{{ what }}"
agents:
  builder: {writes: ["src/**"]}
steps:
  - repeat: attempt
    at_most: 3
    when_used_up: end given_up
    steps:
      - {agent: builder, task: "Build {{ what }}."}
      - {run: tests, command: make test, must: pass}
      - decide: after_tests
        rows:
          - {tests: passed, then: leave}
          - {attempt: stuck, then: end given_up}
          - {attempt: moving, then: again}
  - {end: done, status: complete, words: Done.}
  - {end: given_up, status: stopped, words: Given up.}
"""
TRACE: Mapping[str, Any] = {
    "1.title": {"not_enforced": "a title"},
    "1.order": {"places": ["steps[0].steps[0].agent", "steps[0].steps[1].run"]},
    "1.limit": {"places": ["steps[0].at_most"]},
    "1.role": {"role": "builder", "words": "You are careful."},
}
ROLE = "---\nname: builder\ndescription: Builds.\n---\n\nYou are careful.\n"
SAID = [
    {"id": "title", "quote": "Mend things", "first_line": 1, "last_line": 1, "kind": "context"},
    {"id": "order", "quote": "Build first, then test.", "first_line": 3, "last_line": 3, "kind": "order"},
    {"id": "limit", "quote": "At most 3 times.", "first_line": 3, "last_line": 3, "kind": "limit"},
    {"id": "role", "quote": "You are careful.", "first_line": 5, "last_line": 5, "kind": "role"},
]


def reads(**changes: Any) -> Act:
    """What the reader says; a statement left out, or with other values."""
    told = [{**one, **changes.get(str(one["id"]), {})} for one in SAID]
    return said({"statements": [one for one in told if not one.get("left out")]})


def writes(yaml: str = YAML, trace: Mapping[str, Any] = TRACE, role: str = ROLE) -> Act:
    files = {"playbook.yaml": yaml, "trace.json": json.dumps(trace), "agents/builder.md": role}
    return said({"summary": "so"}, {f"{DRAFT}/{path}": text.encode() for path, text in files.items()})


def criticizes(**against: str) -> Act:
    kept = [one for one, bound in TRACE.items() if bound.get("places")]
    rows = [{"id": one, "faithful": one not in against, "why": against.get(one, "so")} for one in kept if one != "-"]
    return said({"statements": [row for row in rows if against.get(str(row["id"])) != "left out"]})


def bench(
    files: Mapping[str, str] | None = None, decisions: tuple[str, ...] = ("approve",), **acts: list[Act]
) -> Bench:
    made = Bench(ADOPT, files={"mend.md": PROMPT.encode(), **{p: t.encode() for p, t in (files or {}).items()}})
    usual = {"part-1": [reads()] * 9, "author": [writes()] * 9, "critic": [criticizes()] * 9}
    made.cast.acts = {**usual, **{name.replace("_", "-"): list(one) for name, one in acts.items()}}  # type: ignore[dict-item]
    made.cast.decisions = [{"choice": one, "note": "Shorter."} for one in decisions]
    return made


@pytest.mark.req("AD-01", "AD-08", "AD-09")
def test_what_is_approved_is_installed_and_the_prompt_is_as_it_was() -> None:
    made = bench()
    view = made.start(file="mend.md")
    assert (view.status, view.why) == (Status.COMPLETE, f"mend is installed in {HOME}")
    assert made.text(f"{HOME}/playbook.yaml") == YAML
    assert made.text(f"{HOME}/agents/builder.md") == ROLE
    assert "- 1.limit, limit: `steps[0].at_most`\n  > At most 3 times. (lines 3 to 3)" in made.text(f"{HOME}/trace.md")
    assert made.text(f"{HOME}/trace.md") == made.text(f"{DRAFT}/trace.md")
    assert made.text("mend.md") == PROMPT
    kept = {path.rpartition("/")[2] for path in made.world.files if path.startswith(DRAFT)}
    assert kept == {"playbook.yaml", "trace.json", "builder.md", "statements.json", "summary.md", "trace.md"}
    wrote = [line.event.path for line in made.lines if line.event.e == "wrote"]  # type: ignore[attr-defined]
    assert wrote[-1] == f"{HOME}/playbook.yaml", "the process comes last"


@pytest.mark.req("AD-01")
@pytest.mark.parametrize(
    ("file", "files", "what"),
    [
        ("gone.md", {}, "there is no gone.md"),
        ("9.md", {"9.md": "x"}, "cannot be called '9'"),
        ("marks.md", {"marks.md": "---\n\n* **\n"}, "does not say a word"),
        ("long.md", {"long.md": "x\n" * 4801}, "is too long"),
        ("task.md", {"task.md": "x"}, "there is a playbook 'task' already"),
        ("mend.md", {f"{HOME}/playbook.yaml": YAML}, "there is a playbook 'mend' already"),
        ("mend.md", {f"{HOME}.yaml": YAML}, "there is a playbook 'mend' already"),
    ],
)
def test_what_cannot_be_adopted_is_refused_before_anything_is_paid(file: str, files: dict[str, str], what: str) -> None:
    made = bench(files)
    with pytest.raises(BadInput, match=what):
        made.start(file=file)
    assert made.world.paid == []
    assert sorted(TAKEN) == sorted(SHIPPED)
    given = (("a/mend.prompt.md", ""), ("x.md", "mend"), (".claude/skills/mend/SKILL.md", ""))
    assert {name_of(*one) for one in given} == {"mend"}


@pytest.mark.req("AD-08")
def test_one_that_is_replaced_is_set_aside() -> None:
    made = bench({f"{HOME}/playbook.yaml": "old", f"{HOME}/agents/other.md": "old", f"{DRAFT}/summary.md": "mine"})
    assert made.start(file="mend.md", replace=True).status is Status.COMPLETE
    assert sorted(path.partition("#")[2].partition("/")[2] for path in made.world.attic) == [
        f"{HOME}/agents/other.md",
        f"{HOME}/playbook.yaml",
        f"{DRAFT}/summary.md",
    ]
    assert f"{HOME}/agents/other.md" not in made.world.files


@pytest.mark.req("AD-02", "AD-03")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"order": {"quote": "Test first."}}, "order: these words do not stand at lines 3 to 3"),
        ({"order": {"first_line": 5, "last_line": 5}}, "order: these words do not stand at lines 5 to 5"),
        ({"limit": {"id": "order"}}, "the id 'order' is given twice"),
        ({"role": {"left out": True}}, "line 5 lies in no quote: 'You are careful.'"),
        ({"limit": {"left out": True}}, "line 3 lies in no quote"),
    ],
)
def test_a_quote_stands_at_its_lines_and_every_line_in_a_quote(changes: dict[str, Any], complaint: str) -> None:
    """Else it goes back to the reader, twice at most; then the run stays open."""
    made = bench(part_1=[reads(**changes), reads()])
    assert made.start(file="mend.md").status is Status.COMPLETE
    assert complaint in made.briefs("reader")[1]
    made = bench(part_1=[reads(**changes)] * 9)
    assert made.start(file="mend.md").status is Status.FAILED
    assert len(made.briefs("reader")) == 3


@pytest.mark.req("AD-02")
def test_a_long_prompt_is_read_in_parts_side_by_side() -> None:
    made = bench({"mend.md": "\n".join(f"Line {n}." for n in range(1, 301))})
    made.cast.acts = {}
    made.start(file="mend.md")
    assert [ask.env["INTERLOCK_MEMBER"] for ask in made.cast.asks[:3]] == ["part-1", "part-2", "part-3"]
    assert "121: Line 121." in made.briefs("reader")[1] and "Line 120." not in made.briefs("reader")[1]


STATEMENTS = [Statement.model_validate({**one, "id": f"1.{one['id']}"}) for one in SAID]


def traced(**changes: Any) -> dict[str, str]:
    return {"trace": json.dumps({**TRACE, **{f"1.{name}": one for name, one in changes.items()}})}


@pytest.mark.req("AD-05")
@pytest.mark.parametrize(
    ("complaint", "draft"),
    [
        ("", {}),
        ("expected go on, again, leave", {"yaml": YAML.replace("then: again", "then: gone")}),
        ("does not say", {"yaml": YAML.replace("          - {attempt: stuck, then: end given_up}\n", "")}),
        ("expected 'mend'", {"yaml": YAML.replace("playbook: mend", "playbook: other")}),
        ("neither instructions nor a role file", {"roles": {}}),
        ("says what the YAML decides", {"roles": {"builder": f"{ROLE}Write src/** alone, within 30 minutes."}}),
        ("trace.json is not valid JSON", {"trace": "{"}),
        ("no statement '1.more'", traced(more={"not_enforced": "x"})),
        ("1.order is not traced", {"trace": json.dumps({"1.title": TRACE["1.title"]})}),
        ("there is no place", traced(limit={"places": ["steps[0].at_mst"]})),
        ("is prose or a whole part", traced(limit={"places": ["steps"]})),
        ("is prose or a whole part", traced(limit={"places": ["steps[0].steps[0].task"]})),
        ("no role keeps it", traced(limit={"role": "builder", "words": "You are careful."})),
        ("do not stand in", traced(role={"role": "builder", "words": "You are bold."})),
        ("one of them", traced(role={})),
        ("one of them", traced(limit={"not_enforced": "x", "places": ["steps[0].at_most"]})),
    ],
)
def test_code_checks_what_the_author_wrote(complaint: str, draft: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"yaml": YAML, "trace": json.dumps(TRACE), "roles": {"builder": ROLE}}
    found = checked(**{**usual, **draft}, statements=STATEMENTS, name="mend")
    assert isinstance(found, Made) if not complaint else any(complaint in one for one in found), found


@pytest.mark.req("AD-04", "AD-05")
def test_a_draft_that_cannot_be_used_goes_back_three_tries_in_all() -> None:
    bad = writes(trace={**TRACE, "1.limit": {"places": ["steps"]}})
    made = bench(author=[bad, writes()])
    assert made.start(file="mend.md").status is Status.COMPLETE
    assert "is prose or a whole part" in made.briefs("author")[1]
    made = bench(author=[bad] * 9)
    assert made.start(file="mend.md").status is Status.FAILED
    assert len(made.briefs("author")) == 3
    assert not any(path.startswith(HOME) for path in made.world.files)


@pytest.mark.req("AD-06")
@pytest.mark.parametrize(("why", "told"), [("it may run once more", "it may run once more"), ("left out", "1.limit")])
def test_what_the_critic_rejects_goes_back_three_rounds_at_most(why: str, told: str) -> None:
    rejects = criticizes(**{"1.limit": why})
    made = bench(critic=[rejects, rejects, criticizes()] if why == "left out" else [rejects, criticizes()])
    assert made.start(file="mend.md").status is Status.COMPLETE
    assert told in made.briefs("author" if why != "left out" else "critic")[1]
    made = bench(critic=[rejects] * 9)
    view = made.start(file="mend.md")
    assert (view.status, "the critic does not accept it" in view.why) == (Status.STOPPED, True)
    assert view.turns["round"] == (3, 3)


@pytest.mark.req("AD-07")
def test_a_person_sees_what_keeps_what_and_a_rejection_is_heard_once() -> None:
    made = bench(decisions=("reject", "approve"))
    assert made.start(file="mend.md").status is Status.COMPLETE
    assert "Shorter." in made.briefs("author")[1]
    summary = made.text(f"{DRAFT}/summary.md")
    for words in (
        "- **attempt**, at most 3 times, then: end given_up",
        "- limit, `steps[0].at_most`\n  > At most 3 times. (lines 3 to 3)",
        "## Left to roles\n\n- role, left to builder\n  > You are careful.",
        "## Kept by nobody\n\n- context, kept by nobody: a title",
        "Calls of agents: 1 to 2.",
    ):
        assert words in summary, summary
    made = bench(decisions=("reject", "reject"))
    view = made.start(file="mend.md")
    assert (view.status, view.why) == (Status.STOPPED, "a person rejected it: Shorter.")


@pytest.mark.req("AD-07", "AD-09")
@pytest.mark.parametrize(("edit", "installed"), [("Mend things, well.", True), ("&x broken", False)])
def test_a_draft_that_a_person_edits_at_the_gate_is_checked_again(edit: str, installed: bool) -> None:
    made = bench()
    path = f"{DRAFT}/playbook.yaml"
    made.cast.moments["ask"] = [lambda: made.world.files.update({path: YAML.replace("Mend things.", edit).encode()})]
    made.cast.decisions *= 3
    view = made.start(file="mend.md")
    assert (view.status is Status.COMPLETE) is installed, view.why
    assert (edit in made.text(f"{HOME}/playbook.yaml")) is installed


@SAMPLED
@pytest.mark.req("PROOF-01", "PROOF-03")
def test_every_path_holds(sample: int) -> None:
    paths = list(explore(ADOPT, next(iter(variants(ADOPT))), sample=sample))
    assert wrong(paths) == []
    assert sample or len(paths) > 100
