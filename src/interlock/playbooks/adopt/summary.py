"""What people read: the summary that a gate shows, and the trace that stays beside the playbook.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.documents import one_line
from interlock.playbooks.adopt.draft import Draft
from interlock.playbooks.adopt.source import SourceText
from interlock.playbooks.adopt.statements import Statement
from interlock.playbooks.adopt.trace import Binding, Keeper, keeper, role_line


def summary(name: str, source: SourceText, statements: tuple[Statement, ...], draft: Draft) -> str:
    """How much of a prompt became rules that code keeps, what is left to roles, what is not enforced, and why."""
    bindings = draft.bindings(statements)
    counts = {by: len(draft.kept(statements, by)) for by in Keeper}
    nobody = [one for one in statements if keeper(bindings[one.id], draft.places) is Keeper.NOBODY]
    trial = draft.examined.trial
    assert trial is not None  # a draft without one has problems, and is not shown
    played = "every path" if trial.whole else "the first paths"
    lines = [
        f"# {name}: a playbook made of {source.path}",
        "",
        f"- Statements: {len(statements)}",
        f"- Enforced by code: {counts[Keeper.CODE]}",
        f"- Left to roles: {counts[Keeper.ROLES]}",
        f"- Not enforced: {counts[Keeper.NOBODY]}",
        f"- Calls of agents in one run: {trial.fewest} to {trial.most}",
        f"- Rehearsed: {trial.paths} paths, {played} with at most one fault; every rule held",
        "",
        "## Rules that are not enforced",
        "",
        *_listed([one for one in nobody if one.is_rule], bindings),
        "",
        "## What else is not enforced",
        "",
        *_listed([one for one in nobody if not one.is_rule], bindings),
        "",
        "## What it does",
        "",
        "```mermaid",
        trial.diagram.rstrip("\n"),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _listed(statements: Sequence[Statement], bindings: dict[str, Binding]) -> Iterator[str]:
    if not statements:
        yield "None."
    for one in statements:
        yield f"- {one.id} ({one.kind}, {_where(one)}): {_quoted(one.quote)}: {one_line(bindings[one.id].reason)}"


def trace_page(name: str, source: SourceText, statements: tuple[Statement, ...], draft: Draft) -> str:
    """Every statement of the source with what became of it, in the order of the source."""
    bindings = draft.bindings(statements)
    rows = [
        f"| {one.id} | {_where(one)} | {one.kind} | {_cell(one.quote)} | {_cell(_became(bindings[one.id], draft))} |"
        for one in sorted(statements, key=lambda one: (one.first, one.last))
    ]
    head = ["| statement | source | kind | quote | kept by |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([f"# {name}: where each statement of {source.path} went", "", *head, *rows]) + "\n"


def _became(binding: Binding, draft: Draft) -> str:
    match keeper(binding, draft.places):
        case Keeper.NOBODY:
            return f"not enforced: {binding.reason}"
        case Keeper.ROLES if binding.role:
            return f"role: agents/{binding.role}.md:{role_line(draft.roles[binding.role], binding.words)}"
        case by:
            at = ", ".join(f"{place} (playbook.yaml:{draft.places.line(place)})" for place in binding.places)
            return f"{'code' if by is Keeper.CODE else 'role'}: {at}"


def _where(one: Statement) -> str:
    return f"line {one.first}" if one.first == one.last else f"lines {one.first}-{one.last}"


def _quoted(text: str) -> str:
    return f"“{one_line(text)}”"


def _cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")
