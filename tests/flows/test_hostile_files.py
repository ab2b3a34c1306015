"""Whatever a file holds, reading it ends soon, in a flow or in `ConfigInvalid`."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import render_yaml
from interlock.errors import ConfigInvalid
from interlock.flows import Flow, read, reading, texts
from interlock.flows.tree import AgentStep

FIX = (Path(__file__).parent / "fix.yaml").read_text(encoding="utf-8")
LINES = FIX.splitlines()


def outcome(text: str | bytes) -> Flow | ConfigInvalid:
    """A flow or its mistakes; anything else is raised."""
    try:
        return read(text, "flow.yaml")
    except ConfigInvalid as error:
        return error


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def _repeat(number: int) -> str:
    inner = "".join(f"      - {{run: r{number}_{n}, command: a}}\n" for n in range(40))
    return f"  - repeat: n{number}\n    at_most: 1\n    when_used_up: go on\n    steps:\n{inner}"


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "a bomb of aliases": (bomb(12), "an anchor"),
    "an alias of itself": ("a: &a [*a]\n", "an anchor"),
    "a merge key": ("<<: {playbook: x}\n", "'<<' is not known"),
    "ten megabytes": ("a: " + "x" * 10_000_000, "too large"),
    "ten megabytes of bytes": (b"a: " + b"x" * 10_000_000, "too large"),
    "deep brackets": ("[" * 100_000, "nested too deeply"),
    "deep braces": ("{a: " * 40_000, "nested too deeply"),
    "deep indentation": ("".join(" " * n + "a:\n" for n in range(600)), "nested too deeply"),
    "deep dashes": ("- " * 50_000, "nested too deeply"),
    "no UTF-8": (b"playbook: fix\nsummary: \xff\n", "not UTF-8"),
    "a NUL": ("playbook: a\0b\n", "not YAML"),
    "a NUL by its escape": ('playbook: "a\\0b"\n', "NUL"),
    "half a character": ('playbook: "\\ud800"\n', ""),
    "a directive": ("%YAML 9.9\n---\nplaybook: x\n", ""),
    "an odd tag": ("!<tag:yaml.org,2002:python/object:os.system> x\n", "a tag"),
    "many documents": ("--- {}\n" * 1000, "a second document"),
    "a key of half a megabyte": ("x" * 500_000 + ": y\n", ""),
    "many keys": ("".join(f"k{n}: v\n" for n in range(20_000)), "is not known"),
    "many steps": (
        FIX.replace("steps:\n", "steps:\n" + "".join(f"  - {{run: r{n}, command: a}}\n" for n in range(1500)), 1),
        "a list cannot stand here",
    ),
    "many steps inside each other": (
        FIX.replace("steps:\n", "steps:\n" + "".join(_repeat(n) for n in range(40)), 1),
        "too many steps",
    ),
    "many rows": (
        FIX.replace("        rows:\n", "        rows:\n" + "          - {tests: passed, then: again}\n" * 3000, 1),
        "a list cannot stand here",
    ),
    "a text of many ifs": (
        FIX.replace("{{ text }}", "{% if slug %}" * 3000 + "{% endif %}" * 3000),
        "nested too deeply",
    ),
    "a text of many loops": (FIX.replace("{{ text }}", "{% for a in slug %}" * 19 + "{% endfor %}" * 19), "no list"),
    "a text of many brackets": (FIX.replace("{{ text }}", "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"), ""),
    "only quotes": ('"' * 1001, ""),
    "a text that would loop": (FIX.replace("{{ text }}", "{% for i in range(999999999) %}x{% endfor %}"), "no list"),
    "a text that would grow": (FIX.replace("{{ text }}", "{{ 'x' * 999999999 }}"), "no filling in"),
    "a text that looks around": (FIX.replace("{{ text }}", "{{ ''.__class__.__mro__ }}"), "a dot"),
    "a text that includes": (FIX.replace("{{ text }}", "{% include '/etc/passwd' %}"), "no filling in"),
}


@pytest.mark.req("OW-22")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str) -> None:
    """With a sentence and a place, and without being expanded."""
    text, told = HOSTILE[name]
    found = outcome(text)
    assert isinstance(found, ConfigInvalid)
    assert any(told in one.what for one in (found, *found.also)) and len(found.also) < 100
    assert str(found.where).startswith("flow.yaml:")


@pytest.mark.req("OW-22")
def test_what_is_refused_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth and aliases stop the reader where they stand; a file that is too large is not parsed at all."""
    seen: list[object] = []
    events = reading._events

    def counted(text: str) -> Any:
        for event in events(text):
            seen.append(event)
            yield event

    monkeypatch.setattr(reading, "_events", counted)
    for name, most in {
        "ten megabytes": 0,
        "deep brackets": 60,
        "deep indentation": 120,
        "a bomb of aliases": 6,
    }.items():
        seen.clear()
        outcome(HOSTILE[name][0])
        assert len(seen) <= most, name


@pytest.mark.req("OW-22")
def test_a_byte_order_mark_and_windows_lines_are_no_mistakes() -> None:
    """Editors leave them behind; what is read is the same."""
    plain = read(FIX, "flow.yaml")
    assert read("\ufeff" + FIX, "flow.yaml") == plain
    assert read(FIX.replace("\n", "\r\n"), "flow.yaml") == plain
    assert read(FIX.encode("utf-8-sig"), "flow.yaml") == plain


@pytest.mark.req("OW-22")
def test_the_parser_in_python_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its twin in C cannot be installed: the same flows, and the same mistakes."""
    import ruamel.yaml.main
    import ruamel.yaml.parser

    flow, mistake = read(FIX, "flow.yaml"), outcome(FIX.replace("at_most: 3", "at_most: 0"))
    monkeypatch.setattr(ruamel.yaml.main, "CParser", None)
    assert ruamel.yaml.main.YAML(typ="safe").Parser is ruamel.yaml.parser.Parser
    assert read(FIX, "flow.yaml") == flow
    again = outcome(FIX.replace("at_most: 3", "at_most: 0"))
    assert isinstance(again, ConfigInvalid) and isinstance(mistake, ConfigInvalid)
    assert (again.what, again.where) == (mistake.what, mistake.where)


@pytest.mark.req("OW-22")
def test_all_mistakes_are_said_at_once() -> None:
    """In the order of the file, so that a person mends them in one go."""
    text = (
        FIX.replace("help: Name of the folder for its documents.", "hlep: x")
        .replace("judges: reading", "judges: guessing")
        .replace("at_most: 3", "at_most: none")
        .replace("reads: docs/{{ slug }}/plan.md\n        quotes", "reads: docs/{{ slgu }}/plan.md\n        quotes")
        .replace("revise: stuck", "revise: stuk")
        .replace("status: complete", "status: fine")
    )
    found = outcome(text)
    assert isinstance(found, ConfigInvalid)
    everything = [found, *found.also]
    for told in ("'hlep' is not known", "has no 'help'", "'guessing'", "'none'", "'slgu'", "'stuk'", "'fine'"):
        assert any(told in one.what for one in everything), told
    places = [tuple(map(int, str(one.where).split(":")[1:])) for one in everything]
    assert places == sorted(places)


# -- fuzzing

WORDS = ["playbook", "steps", "agent", "run", "decide", "then", "end", "{{", "}}", "*", "&a", "|", "-", ": ", "#", "\t"]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The text of a good flow after a few random edits of its lines."""
    chance = random.Random(draw(st.integers()))
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 6))):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                place = chance.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:place] + chance.choice(WORDS) + lines[at][place:]
            case 4:
                lines[at] = " " * chance.randrange(9) + lines[at].strip()
            case _:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(" ".join(LINES).split())
                lines[at] = " ".join(words)
        lines = lines or [""]
    return "\n".join(lines)


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
keys = st.sampled_from(
    ["playbook", "summary", "key", "inputs", "agents", "steps", "agent", "run", "rows", "then", "end"]
)
trees = st.recursive(
    scalars | st.sampled_from(WORDS[:7]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(max_size=4), inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.req("OW-22")
@given(mutated())
def test_a_damaged_flow_is_read_or_refused(text: str) -> None:
    """Never a traceback."""
    found = outcome(text)
    assert isinstance(found, Flow) or (found.where and found.what)


@pytest.mark.req("OW-22")
@given(trees)
def test_any_data_is_read_or_refused(data: Any) -> None:
    """Whatever stands where."""
    outcome(render_yaml({"playbook": "x", "summary": "y", "key": "z", "steps": data}))
    outcome(render_yaml(data))


PIECES = """{{ slug }}|{{ turn }}|{{ nobody }}|{% if turn > 1 %}|{% if slug %}|{% else %}|{% endif %}|{{ one }}
{% for one in slug %}|{% for one in only %}|{% endfor %}|{{ slug UPPER }}|{{ only JOIN }}|{{ slug JOIN }}|{{ 1 / 0 }}
{{ turn > slug }}|{{ [slug] }}|{{ {} }}|{# #}|{%|}}|{{ slug[0] }}|{{ not slug }}|{{ slug == turn }}|{{ loop }}| x
{% set a = 1 %}|{% macro m() %}|{% raw %}|{{ slug if turn else 2 }}|{{ slug ~ turn }}|{% for a, b in only %}"""
pieces = st.sampled_from([one for line in PIECES.splitlines() for one in line.split("|")]).map(
    lambda piece: piece.replace("UPPER", "| upper").replace("JOIN", "| join(', ')") + "\n"
)


@pytest.mark.req("OW-22")
@given(st.lists(pieces, min_size=1, max_size=6).map("".join))
def test_any_text_of_a_brief_can_be_filled_in_or_is_refused(text: str) -> None:
    """What the loader lets pass does not fail when the step is reached."""
    listed = FIX.replace("  slug: {", "  only: {help: Which., type: list}\n  slug: {")
    found = outcome(listed.replace("Carry out the plan. Settle the findings, if there are any.", json.dumps(text)))
    if isinstance(found, Flow):
        step = next(step for step in found.all_steps if isinstance(step, AgentStep) and step.name == "builder")
        for turn, only in itertools.product((1, 2), ([], ["x", "y"])):
            texts.fill(step.task, {"slug": "a", "text": "b", "check": "c", "plan": "pass", "turn": turn, "only": only})


@pytest.mark.req("OW-22")
@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    """YAML or not, text or not."""
    outcome(text)
