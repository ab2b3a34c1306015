"""`roadmap` in the simulated world: what it loads, selects, sends whom, tells them, makes of their answers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from interlock.errors import BadInput, Status
from interlock.playbooks.roadmap.playbook import TOKEN
from tests.engine.bench import said
from tests.playbooks.roads import FILE, Road, answers, built, done, drift, item, output, ran_tests, sections

SKILLS = (
    "Check `.github/skills/` for relevant skill files (javascript, typescript, testing) and read any that apply to "
    "the files you are working with before starting."
)
BUILD = ["implement", "testing", "review"]
CHECKED = ["implement", "validation", "testing", "review"]


# --- loading


def wrong(**fields: Any) -> str:
    return json.dumps([item(**fields)])


MISTAKES = {
    "no file": (None, "roadmap.json not found: roadmap.json. The planner must create it first."),
    "empty": (" \n", 'is empty: expected a JSON array of items or {"items": [...]}'),
    "broken": ('[\n{"id"\n]', "not valid JSON", ":3"),
    "nested": ("[" * 5000 + "]" * 5000, "not valid JSON", "nested too deeply"),
    "no array": ('"x"', 'top level must be an array of items or an object with "items"; found "x"'),
    "no items": ("[]", "has no items; nothing to run"),
    "items of another version": ('{"version": 2, "items": [1]}', "version", "1", "2"),
    "no number": ('{"version": true, "items": [1]}', "version", "True"),
    "missing": (wrong(acceptanceCriteria=...), 'item 7 "Login"', "acceptanceCriteria is missing", "array of non-empty"),
    "a word": (wrong(complexity="hard"), 'item 7 "Login"', "complexity", '"hard"', "simple | medium | complex"),
    "a status": (wrong(status="open"), 'item 7 "Login"', "status", "ready | in_progress | done | blocked"),
    "a type": (wrong(priority="high"), 'item 7 "Login"', "priority", '"high"', "integer"),
    "true is no number": (wrong(priority=True), "priority", "integer"),
    "1 is no truth": (wrong(passes=1), "passes", "true | false"),
    "a range": (wrong(retryCount=3), 'item 7 "Login"', "retryCount", "3", "integer 0..2"),
    "an empty text": (wrong(acceptanceCriteria=["a", " "]), "acceptanceCriteria[1]"),
    "an empty list": (wrong(verification=[]), "verification", "array of non-empty strings"),
    "a strange id": (wrong(identity="a/b"), "item a/b", "id", '"a/b"'),
    "a list as id": (wrong(identity=[1]), "items[0]", "id"),
    "no object": ("[5]", "items[0]", "5"),
    "a key twice": ('[{"id": 7,\n"status": "ready",\n"status": "done"}]', 'item 7: key "status" appears twice', ":3"),
    "passed, not done": (wrong(passes=True), 'item 7 "Login": passes=true requires status=done; found ready'),
    "done, not passed": (wrong(status="done"), 'item 7 "Login": status=done requires passes=true; found false'),
    "an id twice": (json.dumps([item(), item("7")]), "id 7 is used by items[0] and items[1]; ids must be unique"),
    "a dependency": (wrong(dependencies=[99]), 'item 7 "Login": dependencies[0] is 99; no such item'),
    "a cycle": (json.dumps([item(3, dependencies=[7]), item(dependencies=[3])]), "dependency cycle: 3 -> 7 -> 3"),
    "itself": (wrong(dependencies=[7]), "dependency cycle: 7 -> 7"),
    "two at work": (
        json.dumps([item(3, status="in_progress"), item(status="in_progress")]),
        "items 3 and 7 are both in_progress; only one may be. Set one back to ready.",
    ),
}


def refusal(road: Road) -> BadInput:
    with pytest.raises(BadInput) as raised:
        road.start()
    return raised.value


def words(error: BadInput) -> str:
    return "\n".join(str(part) for part in (error.what, error.where, error.expected, error.found) if part)


@pytest.mark.req("RM-03", "RM-07", "RM-12")
@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_used_is_told_and_nobody_is_called(name: str) -> None:
    """Field, expected format, what was found, id and title; not a byte is changed, and nothing is made."""
    text, *expected = MISTAKES[name]
    road = Road(text=text or "", files={FILE: b"\0"} if text is None else None)
    before = dict(road.world.files)
    error = refusal(road)
    assert [part for part in expected if part not in words(error)] == []
    assert (road.world.files, road.called) == (before, [])


@pytest.mark.req("RM-07")
def test_mistakes_are_told_together() -> None:
    """Those within items, and, once the items are sound, those between them."""
    error = refusal(Road(item(1, priority="x", title=""), item(2, passes=None, dependencies=[9]), 5))
    told = [one.what.partition(":")[0] for one in (error, *error.also)]
    assert told == ['item 1 ""', 'item 1 ""', 'item 2 "Login"', "items[2]"]
    error = refusal(Road(item(1, dependencies=[9]), item(1), item(3, dependencies=[3])))
    assert [one.what for one in (error, *error.also)] == [
        "id 1 is used by items[0] and items[1]; ids must be unique",
        'item 1 "Login": dependencies[0] is 9; no such item',
        "dependency cycle: 3 -> 3",
    ]


SPELLINGS = {
    "plain": json.dumps([item(1), item(2)], indent=2),
    "an object, with fields of theirs": json.dumps({"version": 1, "x": [1], "items": [item(1, owner="ann", points=3)]}),
    "tabs": json.dumps([item(1)], indent="\t"),
    "CRLF": json.dumps([item(1), item(2)], indent=4).replace("\n", "\r\n") + "\r\n",
    "a BOM": "\ufeff" + json.dumps([item(1)]),
    "another order, and letters": '[{"passes":false,"status":"ready", "title":"Gr\u00fc\\u00dfe", "id":"A-1",'
    '"complexity":"simple","priority":1,"acceptanceCriteria":["a"],"verification":["make test"]}]',
}


@pytest.mark.req("RM-11", "RM-87", "RM-05", "RM-06", "RM-20")
@pytest.mark.parametrize("name", SPELLINGS)
def test_only_state_fields_change_and_all_else_stays_byte_for_byte(name: str) -> None:
    text = SPELLINGS[name]
    road = Road(text=text)
    view = road.start()
    assert view.status is Status.COMPLETE, view.why
    now = road.world.files[FILE].decode()
    back = re.sub(r'("passes": ?)true', r"\1false", re.sub(r'("status": ?)"done"', r'\1"ready"', now))
    assert (now != text, back) == (True, text)
    assert output(road, view).endswith(f"\n{TOKEN}\n")


@pytest.mark.req("RM-87", "RM-05")
def test_no_agents_change_of_the_roadmap_comes_in() -> None:
    """Not of whoever may write everything, and not of a judge; the rest of their work does."""
    forged = json.dumps([done(1), done(2), item(3)])
    road = Road(item(1), item(2, complexity="complex"))
    road.acts("Implement", built(), answers(files={FILE: forged, "lib.py": "worked on by 2\n"}))
    road.acts("Architect", answers(files={FILE: forged}, decision={"adr": "none"}))
    road.acts("Testing", answers(files={FILE: forged}, verdict="fail"))
    assert road.start().status is Status.COMPLETE
    assert [one["id"] for one in road.items] == [1, 2]
    assert road.text("lib.py") == "worked on by 2\n"
    assert road.stood[-1][1][1]["status"] == "in_progress"


# --- selecting

ORDERS: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "by priority": ([item(1, priority=2), item(2, priority=1), item(3, priority=3)], [2, 1, 3]),
    "then by id": ([item(3), item(1), item(2)], [1, 2, 3]),
    "in natural order": ([item(f"ITEM-{n}") for n in (10, 2, 1)], ["ITEM-1", "ITEM-2", "ITEM-10"]),
    "whatever is done": ([done(1), item(2), done(3)], [2]),
    "what it depends on first": ([item(1, dependencies=[3]), item(2, priority=9), item(3, priority=5)], [3, 1, 2]),
    "text and number are one id": ([item(1, dependencies=["2"]), item(2)], [2, 1]),
    "not what is blocked": ([item(1, status="blocked"), item(2)], [2]),
    "what waits for it stays": ([item(1, status="blocked"), item(2, dependencies=[1]), item(3)], [3]),
    "first what was begun": ([item(1), item(2, status="in_progress", priority=9)], [2, 1]),
    "huge numbers": ([item("9" * 5000), item("8" * 5000)], ["8" * 5000, "9" * 5000]),
}


@pytest.mark.req("RM-13", "RM-14", "RM-15", "RM-16", "RM-17", "RM-05", "RM-77")
@pytest.mark.parametrize("name", ORDERS)
def test_items_are_taken_in_order_one_at_a_time(name: str) -> None:
    """In progress on disk before anybody is called for it, and no other one beside it."""
    items, order = ORDERS[name]
    road = Road(*items)
    road.start()
    at_work = [[one["id"] for one in stood if one["status"] == "in_progress"] for _, stood in road.stood]
    assert at_work == [[one] for one in order for _ in BUILD]
    assert [one["id"] for one in road.items] == [one["id"] for one in items]


@pytest.mark.req("RM-15")
def test_which_item_is_passed_over_for_which_is_told() -> None:
    road = Road(item(1, dependencies=[3]), item(3, priority=5))
    view = road.start()
    assert ("passed over", {"item": "1 Login", "waits_on": "3 (ready)"}) in view.notes


@pytest.mark.req("RM-19", "RM-93", "RM-20")
def test_nothing_to_select_is_a_stop_that_lists_what_is_left() -> None:
    blocked = item(3, status="blocked", title="Base", blockedReasons=[{"attempt": 1, "source": "R", "reason": "why"}])
    road = Road(blocked, item(7, dependencies=[3, 1]), done(1), item(8, dependencies=[7]))
    view = road.start()
    assert (view.status, view.ended.exit if view.ended else 0) == (Status.STOPPED, 3)
    assert "7 waits on 3 (blocked)" in view.why
    told = output(road, view)
    assert TOKEN not in told and road.called == []
    for line in ("3 Base: blocked: why", "7 Login: ready; waits on 3 (blocked)", "8 Login: ready; waits on 7 (ready)"):
        assert line in told


@pytest.mark.req("RM-20")
def test_what_has_passed_already_is_complete_at_once() -> None:
    road = Road(done(1), done(2))
    view = road.start()
    assert (view.status, output(road, view), road.called) == (Status.COMPLETE, f"{TOKEN}\n", [])


# --- pipelines

PLANNED = {"findings": ["lib.py holds x"]}
SNAPSHOT = {
    "title": "Login",
    "acceptanceCriteria": ["one can log in", "one can log out"],
    "verification": ["make test"],
}
PIPELINES: dict[str, tuple[str, Any, list[str]]] = {
    "simple": ("simple", None, BUILD),
    "simple, planned": ("simple", PLANNED, BUILD),
    "medium": ("medium", None, ["research", "design", *BUILD]),
    "medium, white space": ("medium", " \n", ["research", "design", *BUILD]),
    "medium, an empty list": ("medium", [], ["research", "design", *BUILD]),
    "medium, nothing but the scope": ("medium", {"scope": SNAPSHOT}, ["research", "design", *BUILD]),
    "medium, planned": ("medium", PLANNED, ["design", *BUILD]),
    "medium, a text": ("medium", "lib.py holds x", ["design", *BUILD]),
    "medium, zero": ("medium", {"tables": 0}, ["design", *BUILD]),
    "medium, edited since": ("medium", {**PLANNED, "scope": SNAPSHOT}, ["research", "design", *BUILD]),
    "complex": ("complex", None, ["research", "design", *CHECKED]),
    "complex, planned": ("complex", PLANNED, ["research", "design", *CHECKED]),
}


@pytest.mark.req("RM-22", "RM-25", "RM-26", "RM-27", "RM-28", "RM-30", "RM-31", "RM-33", "RM-36")
@pytest.mark.parametrize("name", PIPELINES)
def test_who_is_called_follows_from_complexity_and_what_is_known(name: str) -> None:
    complexity, planned, steps = PIPELINES[name]
    road = Road(item(complexity=complexity, planningResearch=planned))
    assert road.start().status is Status.COMPLETE
    assert road.called == steps


@pytest.mark.req("RM-25", "RM-27", "RM-28", "RM-44")
def test_what_is_known_is_not_investigated_twice() -> None:
    """The design's source is planning or Research; a narrowed brief names what was edited since."""
    road = Road(item(complexity="medium", planningResearch="lib.py holds x"))
    road.start()
    assert "lib.py holds x" in sections(road.brief("design"))["Known from planning"]
    road = Road(item(complexity="medium", planningResearch={**PLANNED, "scope": SNAPSHOT}))
    road.start()
    told = sections(road.brief("research"))
    assert "lib.py holds x" in told["Known from planning"]
    assert "- verification" in told["Investigate only"] and "- title" not in told["Investigate only"]
    assert "Known from planning" not in sections(road.brief("design"))
    road = Road(item(planningResearch="lib.py holds x"))
    road.start()
    assert "lib.py holds x" in sections(road.brief("implement"))["Known from planning"]
    road = Road(item(complexity="complex", planningResearch=PLANNED))
    road.start()
    assert "Investigate only" in sections(road.brief("research"))


@pytest.mark.req("RM-39", "RM-41", "RM-65")
@pytest.mark.parametrize("unusable", [False, True])
def test_drift_is_a_failure_without_tests_or_review_and_validated_again(unusable: bool) -> None:
    """No usable verdict, asked twice, is drift, too."""
    road = Road(item(complexity="complex"))
    nothing = answers(verdict="perhaps")
    road.acts("Architect validation", *([nothing, nothing] if unusable else [drift("lib.py has no y")]))
    assert road.start().status is Status.COMPLETE
    first = ["validation"] * (2 if unusable else 1)
    assert road.called == ["research", "design", "implement", *first, *CHECKED]
    why = "validation gave no usable verdict" if unusable else "lib.py has no y"
    told = sections(road.brief("implement"))["Failure evidence: attempt 1"]
    assert "Architect validation:" in told and why in told
    assert road.items[0]["retryCount"] == 1


@pytest.mark.req("RM-39")
def test_drift_without_an_issue_is_asked_about() -> None:
    road = Road(item(complexity="complex"))
    road.acts("Architect validation", drift(), answers(verdict="aligned"))
    road.start()
    assert road.called == ["research", "design", "implement", "validation", "validation", "testing", "review"]
    assert "at least one concrete issue" in road.brief("validation")


@pytest.mark.req("RM-34", "RM-33")
@pytest.mark.parametrize("fail_fast", [False, True])
def test_review_follows_red_tests_unless_settings_say_otherwise(fail_fast: bool) -> None:
    road = Road(item(), fail_fast=fail_fast)
    road.acts("Testing", ran_tests("fail", "test_a: boom"))
    assert road.start().status is Status.COMPLETE
    assert road.called == ["implement", "testing", *([] if fail_fast else ["review"]), *BUILD]


# --- briefs


@pytest.mark.req("RM-42", "RM-44", "RM-50", "RM-32", "RM-35", "RM-55")
def test_each_brief_has_the_item_the_reminder_and_exactly_what_it_needs() -> None:
    road = Road(done(1), item(complexity="complex", dependencies=[1], title="Log\nin"))
    road.acts("Research", answers(learnings=["lib.py: x is read by nobody"]))
    road.acts(
        "Architect",
        answers(
            files={"docs/adr/7.md": "why"},
            decision={
                "adr": "docs/adr/7.md",
                "interfaces": ["login(name: str) -> bool"],
                "boundaries": ["lib.py only"],
            },
        ),
    )
    named = [
        {"path": "lib.py", "change": "modified", "note": "login\nand more"},
        {"path": "gone.py", "change": "deleted"},
    ]
    ran = [{"command": "make test", "exit": 0, "summary": "4 passed"}]
    road.acts(
        "Implement",
        answers(files={"lib.py": "worked on by 7\n", "b.py": "y"}, evidence={"files": named, "verification": ran}),
    )
    noise = "Traceback (most recent call last):\n  File 'x'\ntest_login PASSED\n" * 9
    block = f"```json\n{json.dumps(ran_tests().exit.form)}\n```\n"
    road.acts("Testing", said(f"All fine.\n{noise}\n{block}", {"tests/test_new.py": b"worked on by 7"}))
    view = road.start()
    assert view.status is Status.COMPLETE, view.why
    parts = {step: sections(road.brief(step)) for step in ("research", "design", *CHECKED)}
    assert {step: [*found] for step, found in parts.items()} == {
        "research": ["Item"],
        "design": ["Item", "Research findings"],
        "implement": ["Item", "Research findings", "Architect decision"],
        "validation": ["Item", "Architect decision", "Files created or modified"],
        "testing": ["Item", "Files created or modified", "Implementation evidence"],
        "review": ["Item", "Files created or modified", "Test summary", "Verification commands to run"],
    }
    for step, found in parts.items():
        assert road.brief(step).count(SKILLS) == 1
        for value in ("7", "Log\\nin", "complex", "one can log in", "one can log out", "make test", "make lint"):
            assert value in found["Item"]
        assert '"dependencies"' in found["Item"] and "priority" not in found["Item"]
    assert "lib.py: x is read by nobody" in parts["implement"]["Research findings"]
    for text in ("docs/adr/7.md", "login(name: str) -> bool", "lib.py only"):
        assert text in parts["implement"]["Architect decision"] and text in parts["validation"]["Architect decision"]
    files = parts["testing"]["Files created or modified"].strip("`\n").splitlines()
    assert files == [
        "- `b.py` (changed; not named)",
        "- `lib.py` (modified): login",
        "- `gone.py` (no change of it was seen)",
    ]
    assert "- `tests/test_new.py` (by Testing)" in parts["review"]["Files created or modified"]
    assert parts["testing"]["Implementation evidence"].strip("`\n") == "- `make test`: exit 0"
    assert parts["review"]["Test summary"].strip("`\n") == "Tests: pass (3 passed, 0 failed)"
    assert "make test\nmake lint" in parts["review"]["Verification commands to run"]
    assert "PASSED" not in road.brief("review")
