"""The three calls: who is asked, what they are told, and what they must write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from interlock import flows
from interlock.contracts import PLAIN, Artifact, Contract
from interlock.engine import Dispatch, Kind, Prompt, Quoted, Retries
from interlock.playbooks.adopt.draft import PlaybookCalled
from interlock.playbooks.adopt.inputs import AdoptedFiles
from interlock.playbooks.adopt.source import Part, SourceText
from interlock.playbooks.adopt.statements import Statement, StatementKind, StatementsOf
from interlock.playbooks.adopt.trace import TraceOf
from interlock.playbooks.adopt.verdicts import StatementVerdict, VerdictsOn

WRITTEN = replace(PLAIN, artifact_is_verdict=True)
"""What they write is their answer; whoever says that they failed is believed."""
RETRIES = Retries(transient=1, contract=2, error=0)
"""What breaks its contract is sent back twice, with what is wrong, in the layer in which it was made."""


def reader(at: AdoptedFiles, source: SourceText, part: Part) -> Dispatch:
    """One part of the source becomes statements."""
    reading = StatementsOf(source, part)
    kinds = ", ".join(f"`{kind}`" for kind in StatementKind)
    return Dispatch(
        "reader",
        Prompt.of(
            "reader",
            file=source.path,
            part=part.number,
            parts=len(source.parts),
            first=part.first,
            last=part.last,
            prefix=reading.prefix,
            output=at.reading(part.number),
            kinds=kinds,
        ),
        Contract((Artifact(at.reading(part.number), structure=reading, imported=False),), WRITTEN),
        context=(Quoted(f"Lines {part.first} to {part.last} of {source.path}", source.numbered(part)),),
        member=f"reader-{part.number}",
        retries=RETRIES,
    )


def author(
    at: AdoptedFiles,
    source: SourceText,
    statements: tuple[Statement, ...],
    *,
    first: bool,
    problems: Sequence[str] = (),
    rejected: Sequence[StatementVerdict] = (),
) -> Dispatch:
    """Statements become a draft; a later call mends the draft that is there."""
    found = [Quoted("What the critic does not accept", rejections(statements, rejected))] if rejected else []
    return Dispatch(
        "author",
        Prompt.of("author", file=source.path, playbook=at.name, folder=at.folder, first=first, format=format_of_yaml()),
        Contract(
            (
                Artifact(at.yaml, structure=PlaybookCalled(at.name), fresh=first),
                Artifact(at.trace, structure=TraceOf(statements), fresh=first),
            ),
            WRITTEN,
        ),
        inputs=(at.statements, source.path),
        context=tuple(found),
        failure="\n".join(f"- {one}" for one in problems),
        writes=(f"{at.roles}/*.md",),
        retries=RETRIES,
    )


def critic(at: AdoptedFiles, source: SourceText, enforced: Sequence[Statement]) -> Dispatch:
    """Every statement that code is said to keep is compared with what code would do."""
    ids = tuple(one.id for one in enforced)
    return Dispatch(
        "critic",
        Prompt.of("critic", file=source.path, folder=at.folder, output=at.verdicts, ids=", ".join(ids)),
        Contract((Artifact(at.verdicts, structure=VerdictsOn(ids), imported=False),), WRITTEN),
        inputs=(at.statements, at.yaml, at.trace, source.path),
        kind=Kind.JUDGE,
        retries=RETRIES,
    )


def rejections(statements: Sequence[Statement], rejected: Sequence[StatementVerdict]) -> str:
    """What the critic says, each below the statement it is about."""
    quotes = {one.id: one for one in statements}
    return "\n\n".join(
        f"{one.id} ({quotes[one.id].kind}, line {quotes[one.id].first}): {quotes[one.id].quote}\n  {one.why}"
        for one in rejected
    )


def format_of_yaml() -> str:
    """Every key that a playbook in YAML can have, from the schema by which editors check it."""
    schema = flows.schema()
    parts = {"the file": schema, **schema["$defs"]}
    return "\n".join(line for name, shape in parts.items() for line in _keys(name, shape))


def _keys(name: str, shape: dict[str, Any]) -> Iterator[str]:
    whole = next((one for one in shape.get("anyOf", ()) if "properties" in one), shape)
    if "properties" not in whole:
        return
    yield f"{name.replace('_', ' ')}: {whole.get('description', '')}"
    for key, value in whole["properties"].items():
        must = " (required)" if key in whole.get("required", ()) else ""
        yield f"  {key}{must}: {value.get('description', '')}"
