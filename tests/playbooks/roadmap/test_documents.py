"""roadmap.json is read with every mistake named, and rewritten by the bytes of single values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, FileFacts, JsonDocument
from interlock.errors import DocumentInvalid, EngineFault
from interlock.playbooks.roadmap.documents import Item, Roadmap, check_rewrite
from interlock.playbooks.roadmap.schema import STATE_FIELDS

from .conftest import Bench, document, item, spelled


def refused(content: Any) -> DocumentInvalid:
    text = content if isinstance(content, str | bytes) else spelled(content)
    with pytest.raises(DocumentInvalid) as caught:
        Roadmap.read(document(text), "/abs/roadmap.json")
    return caught.value


LOGIN = {"title": "Login"}

BAD_INPUTS = {
    "empty": (" \n", 'roadmap.json is empty: expected a JSON array of items or {"items": [...]}'),
    "broken": ('[\n  {"id" 7}]', "roadmap.json is not valid JSON: line 2 column 9: expecting ':' delimiter"),
    "string on top": (
        '"items"',
        'roadmap.json: top level must be an array of items or an object with "items"; found string',
    ),
    "number on top": ("3", 'roadmap.json: top level must be an array of items or an object with "items"; found number'),
    "object without items": (
        {"version": 1},
        'roadmap.json: top level must be an array of items or an object with "items"; found an object without "items"',
    ),
    "zero items": ([], "roadmap.json has no items; nothing to run"),
    "zero items in an object": ({"items": []}, "roadmap.json has no items; nothing to run"),
    "another version": ({"version": 2, "items": [item()]}, "roadmap.json: version is 2; expected 1"),
    "no criteria": (
        [item(7, **LOGIN, acceptanceCriteria=...)],
        'item 7 "Login": field acceptanceCriteria is missing; expected array of non-empty strings',
    ),
    "no verification": (
        [item(7, **LOGIN, verification=...)],
        'item 7 "Login": field verification is missing; expected array of non-empty strings',
    ),
    "complexity": (
        [item(7, **LOGIN, complexity="hard")],
        'item 7 "Login": complexity is "hard"; expected simple | medium | complex',
    ),
    "priority": ([item(7, **LOGIN, priority="high")], 'item 7 "Login": priority is "high"; expected integer'),
    "priority as bool": ([item(7, **LOGIN, priority=True)], 'item 7 "Login": priority is true; expected integer'),
    "draft": (
        [item(7, **LOGIN, status="draft")],
        'item 7 "Login": status is "draft"; expected ready | in_progress | done | blocked',
    ),
    "duplicate ids": (
        [item(1), item(2), item(7), item(3), item(4), item("7")],
        "id 7 is used by items[2] and items[5]; ids must be unique",
    ),
    "unknown dependency": (
        [item(7, **LOGIN, dependencies=[99])],
        'item 7 "Login": dependencies[0] is 99; no such item',
    ),
    "own dependency": (
        [item(7, **LOGIN, dependencies=[7])],
        'item 7 "Login": dependencies[0] is 7; an item cannot depend on itself',
    ),
    "cycle": ([item(3, dependencies=[7]), item(7, dependencies=[3])], "dependency cycle: 3 -> 7 -> 3"),
    "passes but ready": (
        [item(7, **LOGIN, passes=True)],
        'item 7 "Login": passes=true requires status=done; found ready',
    ),
    "done but fails": (
        [item(7, **LOGIN, status="done")],
        'item 7 "Login": status=done requires passes=true; found false',
    ),
    "two in progress": (
        [item(3, status="in_progress"), item(7, status="in_progress")],
        "items 3 and 7 are both in_progress; only one may be. Set one back to ready.",
    ),
    "three in progress": (
        [item(n, status="in_progress") for n in (3, 7, 9)],
        "items 3, 7 and 9 are all in_progress; only one may be. Set one back to ready.",
    ),
    "retry count": ([item(7, **LOGIN, retryCount=5)], 'item 7 "Login": retryCount is 5; expected integer 0..2'),
    "verification as text": (
        [item(7, **LOGIN, verification="npm test")],
        'item 7 "Login": verification is a string; expected array of strings',
    ),
    "verification as null": (
        [item(7, **LOGIN, verification=None)],
        'item 7 "Login": verification is null; expected array of strings',
    ),
    "empty criteria": (
        [item(7, **LOGIN, acceptanceCriteria=[])],
        'item 7 "Login": acceptanceCriteria is empty; expected array of non-empty strings, at least 1',
    ),
    "blank criterion": (
        [item(7, **LOGIN, acceptanceCriteria=["a", " "])],
        'item 7 "Login": acceptanceCriteria[1] is " "; expected non-empty string',
    ),
    "planning research": (
        [item(7, **LOGIN, planningResearch=3)],
        'item 7 "Login": planningResearch is 3; expected null, string, array or object',
    ),
    "duplicate key": (
        spelled([item(7)]).replace('"status": "ready"', '"status": "ready", "status": "done"'),
        'item 7: key "status" appears twice',
    ),
    "duplicate key in an object": (
        '{"items": [], "items": []}',
        'roadmap.json: key "items" appears twice',
    ),
    "id unreadable": (
        [item(), item("a b", title="X")],
        "items[1]: id is \"a b\"; expected string of letters, digits, '.', '_' and '-', or integer from 0",
    ),
    "title unreadable": ([item(7, title=" ")], 'item 7: title is " "; expected non-empty string'),
    "no object": ([item(7), "x"], 'items[1] is "x"; expected object'),
}


@pytest.mark.req("RM-04", "RM-07", "RM-08", "RM-09", "RM-97", "RM-12")
@pytest.mark.parametrize("name", BAD_INPUTS)
def test_each_bad_input_has_its_message_and_nothing_is_dispatched_or_changed(name: str, bench: Bench) -> None:
    """The whole run refuses it with exit 2: no dispatch, no run folder, the bytes as they were, nothing asked."""
    content, message = BAD_INPUTS[name]
    assert refused(content).what == message
    bench.data = content
    error = bench.refuse()
    assert (error.what, error.exit_code) == (message, 2)


@pytest.mark.req("RM-03")
def test_a_missing_roadmap_is_refused_with_its_place() -> None:
    """The absolute path is named, and who has to write it."""
    missing = Document.of(FileFacts.absent("plans/roadmap.json"))
    with pytest.raises(DocumentInvalid) as caught:
        Roadmap.read(missing, "/abs/plans/roadmap.json")
    place = "/abs/plans/roadmap.json"
    assert caught.value.what == f"plans/roadmap.json not found: {place}. The planner must create it first."


@pytest.mark.req("RM-10")
def test_all_violations_are_reported_at_once_in_order() -> None:
    """One line for each, by position and then field, however they are spread over the file."""
    items = [
        item(1),
        item(2, verification="x", complexity="hard", **LOGIN),
        {"id": 3},
    ]
    lines = refused(items).what.splitlines()
    assert lines[0] == "roadmap.json has 9 problems:"
    assert lines[1:3] == [
        'item 2 "Login": complexity is "hard"; expected simple | medium | complex',
        'item 2 "Login": verification is a string; expected array of strings',
    ]
    fields = [line.split("field ")[1].split(" ")[0] for line in lines[3:]]
    assert fields == ["acceptanceCriteria", "complexity", "passes", "priority", "status", "title", "verification"]
    assert all(line.startswith("item 3: field ") for line in lines[3:])


@pytest.mark.req("EV-28")
def test_what_is_wrong_between_items_is_found_beside_what_is_wrong_with_one() -> None:
    """One look finds all of it: fields, ids, dependencies, every cycle, states."""
    said = refused(
        [
            item(1, priority="high", dependencies=[2, 99]),
            item(2, dependencies=[1]),
            item(3, dependencies=[3]),
            item(4, dependencies=[5]),
            item(5, dependencies=[4], passes=True),
            item(5, complexity="hard"),
        ]
    ).what.splitlines()[1:]
    assert said == [
        "dependency cycle: 1 -> 2 -> 1",
        'item 1 "Item 1": dependencies[1] is 99; no such item',
        'item 1 "Item 1": priority is "high"; expected integer',
        'item 3 "Item 3": dependencies[0] is 3; an item cannot depend on itself',
        "dependency cycle: 4 -> 5 -> 4",
        'item 5 "Item 5": passes=true requires status=done; found ready',
        'item 5 "Item 5": complexity is "hard"; expected simple | medium | complex',
        "id 5 is used by items[4] and items[5]; ids must be unique",
    ]


def test_a_long_chain_of_dependencies_is_no_cycle_and_does_not_overflow() -> None:
    """Ten thousand items in a row are read; closing the chain is found."""
    chain = [item(n, dependencies=[n + 1] if n < 9999 else []) for n in range(10_000)]
    assert len(Roadmap.read(document(json.dumps(chain)), "x").items) == 10_000
    chain[-1]["dependencies"] = [9998]
    assert refused(chain).what == "dependency cycle: 9998 -> 9999 -> 9998"


def test_bytes_that_are_no_text_are_refused_with_their_position() -> None:
    """The first byte that is not UTF-8 is named."""
    assert refused(b'[{"id": "\xff"}]').what == "roadmap.json is not valid UTF-8 (byte 9)"


# -- rewriting

FORMS = {
    "array": lambda items: items,
    "object": lambda items: {"version": 1, "owner": {"a": [1, 2]}, "items": items, "after": None},
}
SPELLINGS = {
    "indented by two": lambda data: json.dumps(data, indent=2) + "\n",
    "indented by a tab": lambda data: json.dumps(data, indent="\t"),
    "on one line": json.dumps,
    "without any space": lambda data: json.dumps(data, separators=(",", ":")),
    "with strange spacing": lambda data: json.dumps(data, indent=3, separators=(" ,", "  :  ")) + "\n\n ",
    "with a byte order mark": lambda data: "\ufeff" + json.dumps(data, indent=2),
    "with CRLF": lambda data: json.dumps(data, indent=2).replace("\n", "\r\n"),
}


def rewritten(raw: bytes, identity: str, changes: dict[str, Any]) -> bytes:
    roadmap = Roadmap.read(document(raw), "x")
    found = roadmap.find(identity)
    assert found is not None
    return roadmap.with_state(found, changes).encode()


def loaded(raw: bytes) -> Any:
    return json.loads(raw.decode().removeprefix("\ufeff"))


@pytest.mark.req("RM-11", "RM-18", "RM-20", "RM-87", "RM-89")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_rewrite_changes_the_bytes_of_the_state_and_no_others(form: str, spelling: str) -> None:
    """Indentation, order, unknown fields, BOM and line ends stay; undoing the change gives the first bytes again."""
    items = [item(1, notes={"k": [1.50, "\u00e9"]}), item(2, retryCount=0, x="y"), item(3)]
    raw = SPELLINGS[spelling](FORMS[form](items)).encode()
    once = rewritten(raw, "2", {"status": "done", "passes": True, "retryCount": 2})
    expected = FORMS[form]([items[0], {**items[1], "status": "done", "passes": True, "retryCount": 2}, items[2]])
    assert loaded(once) == expected
    assert list(loaded(once) if form == "array" else loaded(once)["items"])[1].keys() == items[1].keys()
    assert rewritten(once, "2", {"status": "ready", "passes": False, "retryCount": 0}) == raw


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_new_state_fields_go_to_the_end_of_the_item_in_its_own_style(spelling: str) -> None:
    """A field that was absent is added behind the others; every byte around the item stays."""
    items = [item(1), item(2), item(3)]
    raw = SPELLINGS[spelling](items).encode()
    reasons = [{"attempt": 1, "source": "Testing", "reason": "a\nb \u00e9"}]
    changed = rewritten(raw, "2", {"status": "blocked", "blockedReasons": reasons})
    assert loaded(changed)[1] == {**items[1], "status": "blocked", "blockedReasons": reasons}
    assert list(loaded(changed)[1]) == [*items[1], "blockedReasons"]
    if spelling == "indented by two":
        assert changed.decode() == json.dumps(loaded(changed), indent=2, ensure_ascii=False) + "\n"


def test_only_state_fields_can_be_asked_for() -> None:
    """A change of anything else raises, before anything is made."""
    roadmap = Roadmap.read(document(spelled([item()])), "x")
    with pytest.raises(EngineFault, match="may not change title"):
        roadmap.with_state(roadmap.items[0], {"title": "other"})


@pytest.mark.req("RM-87", "RM-05")
@pytest.mark.parametrize(
    "after",
    [
        lambda text: text.replace("Item 2", "Item X"),
        lambda text: text.replace('"id": 1', '"id": 9'),
        lambda text: text.replace('"priority": 1', '"priority": true'),
        lambda text: text.replace('"Item 3"', '"Item 3" '),
        lambda text: json.dumps(json.loads(text)[::-1], indent=2) + "\n",
        lambda text: json.dumps(json.loads(text)[:2], indent=2) + "\n",
        lambda text: json.dumps([*json.loads(text), item(4)], indent=2) + "\n",
        lambda text: json.dumps(json.loads(text)),
        lambda text: text.replace(
            '"passes": false,\n    "acceptanceCriteria"', '"x": 1, "passes": false,\n    "acceptanceCriteria"'
        ),
        lambda text: text[:-3],
    ],
)
def test_a_rewrite_that_touches_more_than_the_state_raises(after: Any) -> None:
    """Whatever made the new text: other items, planned fields, order, spacing around the item are compared."""
    text = json.dumps([item(1), item(2), item(3)], indent=2) + "\n"
    roadmap = Roadmap.read(document(text), "x")
    span = roadmap.json.span((1,))
    check_rewrite(text, text, span, roadmap.items[1])
    assert after(text) != text
    with pytest.raises(EngineFault, match="more than the state of item 2"):
        check_rewrite(text, after(text), span, roadmap.items[1])


def test_every_rewrite_is_checked_before_it_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that does more than it was asked for is caught, whatever it is."""
    real = JsonDocument.set
    monkeypatch.setattr(JsonDocument, "set", lambda self, keys, value: real(real(self, keys, value), ("title",), "X"))
    roadmap = Roadmap.read(document(spelled([item(1), item(2)])), "x")
    with pytest.raises(EngineFault, match="more than the state of item 2"):
        roadmap.with_state(roadmap.items[1], {"status": "done"})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(texts.filter(lambda name: name not in item() and name not in STATE_FIELDS and name not in (
    "dependencies", "planningResearch")), plain, max_size=3)  # fmt: skip
changes = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["ready", "in_progress", "done", "blocked"]),
        "passes": st.booleans(),
        "retryCount": st.integers(0, 2),
        "blockedReasons": st.lists(
            st.fixed_dictionaries({"attempt": st.integers(1, 3), "source": texts, "reason": texts})
        ),
    },
)


@pytest.mark.req("RM-11", "RM-87")
@given(
    st.lists(extras, min_size=1, max_size=4),
    st.data(),
    changes,
    st.sampled_from([*SPELLINGS]),
    st.sampled_from([*FORMS]),
)
def test_whatever_a_person_wrote_survives_a_rewrite(
    others: list[dict[str, Any]], data: st.DataObject, wanted: dict[str, Any], spelling: str, form: str
) -> None:
    """Any further fields, in any spelling: after the rewrite only the asked-for state differs."""
    items = [item(n, **more) for n, more in enumerate(others)]
    chosen = data.draw(st.integers(0, len(items) - 1))
    raw = SPELLINGS[spelling](FORMS[form](items)).encode()
    found = loaded(rewritten(raw, str(chosen), wanted))
    found = found if form == "array" else found["items"]
    expected = [{**one, **wanted} if n == chosen else one for n, one in enumerate(items)]
    assert json.dumps(found) == json.dumps(expected)


def test_an_item_knows_its_place_in_the_order() -> None:
    """Priority first; then digit runs as numbers, the rest as text; equal numbers by their spelling."""
    ids = ["10", "2", "ITEM-10", "ITEM-2", "ITEM-2a", "a1b2", "a1b10", "07", "7", "9" * 5000]
    items = [Item(n, item(one)) for n, one in enumerate(ids)]
    ordered = [one.id for one in sorted(items, key=lambda one: one.order)]
    assert ordered == ["2", "07", "7", "10", "9" * 5000, "ITEM-2", "ITEM-2a", "ITEM-10", "a1b2", "a1b10"]
    urgent = Item(0, item("z", priority=-1))
    assert sorted([*items, urgent], key=lambda one: one.order)[0] is urgent
