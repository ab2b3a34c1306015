"""What the roles show as a good answer is what code accepts."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from interlock.documents import Fence, Sections
from interlock.playbooks.adopt.briefs import format_of_yaml
from interlock.playbooks.adopt.draft import Draft, examined
from interlock.playbooks.adopt.source import SourceText
from interlock.playbooks.adopt.statements import Statement, StatementKind, StatementsOf
from interlock.playbooks.adopt.trace import TraceOf, unbound
from interlock.playbooks.adopt.verdicts import VerdictsOn

AGENTS = files("interlock.playbooks.adopt") / "agents"


def blocks(role: str) -> tuple[Fence, ...]:
    return Sections((AGENTS / f"{role}.md").read_text(encoding="utf-8")).fences(title="## Example of a good answer")


@pytest.mark.req("OW-51")
def test_the_readers_example_is_a_complete_reading() -> None:
    """Every word of its lines is quoted, at its lines."""
    shown, listed, _said = blocks("reader")
    lines = dict(line.split("|", 1) for line in shown.content.splitlines())
    text = "\n" * (int(min(lines, key=int)) - 1) + "\n".join(line.strip() for line in lines.values())
    source = SourceText("x.md", text)
    reading = StatementsOf(source, source.parts[0])
    assert reading.problems(listed.content) == []
    assert len(reading.statements(listed.content)) == 4


@pytest.mark.req("OW-52")
def test_the_authors_example_is_a_playbook_with_a_whole_trace() -> None:
    """Valid, total and holding; every place of the trace is there."""
    yaml, trace, _said = blocks("author")
    kinds = ("order", "order", "limit", "scope", "gate", "advice", "limit")
    statements = tuple(Statement(f"S1.{n}", "x", 1, 1, StatementKind(kind)) for n, kind in enumerate(kinds, 1))
    fixer = "---\nname: fixer\ndescription: Repairs.\n---\n\nPrefer small changes.\n"
    draft = Draft(yaml.content, {"fixer": fixer}, trace.content, examined(yaml.content))
    assert draft.problems("repair", statements) == []
    assert [*unbound(statements, TraceOf(statements).bindings(trace.content), draft.places, draft.roles)] == []


@pytest.mark.req("OW-53")
def test_the_critics_example_says_what_it_rejects() -> None:
    (listed, _said) = blocks("critic")
    judging = VerdictsOn(("S1.3", "S1.4"))
    assert judging.problems(listed.content) == []
    assert [one.id for one in judging.rejected(listed.content)] == ["S1.4"]


@pytest.mark.req("OW-52")
def test_an_author_is_told_every_key_that_the_yaml_knows() -> None:
    """From the schema itself, so that a key which is added later is told too."""
    from interlock import flows

    told = format_of_yaml()
    shapes = [flows.schema(), *flows.schema()["$defs"].values()]
    wholes = [one for shape in shapes for one in (shape, *shape.get("anyOf", ())) if "properties" in one]
    assert len(wholes) > 10
    for key in {key for whole in wholes for key in whole["properties"]}:
        assert f"\n  {key}" in told
    assert json.dumps(told)
