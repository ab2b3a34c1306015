"""Waiting with a run, and asking the person at the client where it waits for one.

What is asked is the gate as it is at that moment: what it shows is read, its digests stand in the question, and an
answer counts for this opening alone.  With protocols from 2026-07-28 on the call is repeated with the answer, and the
SDK takes it for the very same question only; before, the client is asked while the call lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, create_model

from interlock.documents import few
from interlock.engine.folder import KnownRun
from interlock.engine.glances import glance
from interlock.engine.openings import document
from interlock.errors import InterlockError
from interlock.mcp.desk import Desk, seen_run
from interlock.mcp.results import DATA, Attended, cut, short
from interlock.mcp.telling import told
from interlock.telemetry import WaitingGate, decided_gates, harmless, printable, waiting_gate

LONGEST_S: Final = 50.0
"""Most that one call waits: clients give a call a minute."""
POLL_S: Final = 0.3
EXCERPT: Final = 1_500
"""Characters of each document that stand in the question."""
QUESTION: Final = 8_000
FILES: Final = 12
"""Files of each kind that the question names; the others are counted."""

Here = Context[Desk, Any]
WhichRun = Annotated[str, Field(description="The run: its id, the beginning of it, or 'latest'.")]
Patience = Annotated[
    float, Field(ge=0, le=LONGEST_S, description="How long to wait while the run works, in seconds; then call again.")
]


class PersonsAnswer(BaseModel):
    """What a person says at a gate."""

    choice: str = ""
    note: str = Field(default="", max_length=4000, title="Note", description="Words for whoever works next.")


@dataclass(frozen=True)
class Rest:
    """A run when nobody works on it any more, or when the time to wait was over."""

    known: KnownRun
    gate: WaitingGate | None
    caution: str = ""
    why_not: str = ""
    """Why the person at the client is not asked; empty: they are."""
    changed: str = ""
    """What the run changed, in a line."""


@told
async def rest(run: WhichRun, wait_s: Patience, ctx: Here) -> Rest:
    """Wait until the run works no more, and see where it waits."""
    desk = ctx.request_context.lifespan_context
    known = await asyncio.to_thread(desk.find, run)
    waited = 0.0
    while (await asyncio.to_thread(glance, known)).status == "running" and waited < wait_s:
        await asyncio.sleep(POLL_S)
        waited += POLL_S
        await ctx.report_progress(waited, wait_s, "the run works")
    return await asyncio.to_thread(_looked, desk, known, _cannot_ask(ctx))


def _looked(desk: Desk, known: KnownRun, cannot: str) -> Rest:
    from interlock.app import open_runs  # heavy: a client waits for the server's first words
    from interlock.engine.people import reopen_gate
    from interlock.engine.runs import Quiet

    if glance(known).status != "waiting" or waiting_gate(known.folder.lines()) is None:
        return Rest(known, None)
    runs = open_runs(desk.root, Quiet(), environ=desk.environ, found=desk.library)
    gate = reopen_gate(runs, known)
    if not desk.elicits:
        cannot = 'The settings leave decisions to the command line ([mcp] gates is not "elicit").'
    return Rest(known, gate, runs.setup.caution(), cannot, "" if cannot else _changed(desk, known))


def _changed(desk: Desk, known: KnownRun) -> str:
    """Which files the run changed: whoever decides here does not see what is in them."""
    from interlock.engine.changes import run_changes

    documents = desk.library.documents_of(known.identity)
    try:
        found = run_changes(known.folder, known.folder.lines(), documents, literal=False)
    except (InterlockError, OSError):
        return "What the run changed cannot be read: decide where you can see it."
    several = {
        "of the code": [one.shown for one in found.code],
        "written for people": [one.shown for one in found.documentation],
        "documents": [one.shown for one in found.papers],
        "came along beside them": list(map(printable, found.besides)),
    }
    said = [f"{len(files)} {what}: {few(files, FILES)}" for what, files in several.items() if files]
    return f"The run changed files, {'; '.join(said)}" if said else "The run changed no file."


def _cannot_ask(ctx: Here) -> str:
    """Why a client cannot ask its person; empty where it can."""
    can = ctx.client_capabilities.elicitation if ctx.client_capabilities is not None else None
    if can is not None and (can.form is not None or can.url is None):
        return ""
    return "This client cannot ask its person (it has no elicitation)."


@told
async def question(seen: Annotated[Rest, Resolve(rest)]) -> Elicit[PersonsAnswer] | PersonsAnswer:
    """The question to the person; nothing where there is none to ask."""
    if seen.gate is None or seen.why_not:
        return PersonsAnswer()
    text = await asyncio.to_thread(lambda: "\n".join(_lines(seen)))
    return Elicit(cut(text, QUESTION), answer_to(seen.gate))


def answer_to(gate: WaitingGate) -> type[PersonsAnswer]:
    """What can be said at this gate, as a form."""

    def check(value: str) -> str:
        if not value.strip() or (gate.names and value not in gate.names):
            raise ValueError("no choice of this gate")
        return value

    schema: dict[str, Any] = {"type": "string", "title": "Your decision" if gate.names else "Your answer"}
    if gate.names:
        schema["enum"] = list(gate.names)
    choice: Any = (Annotated[str, AfterValidator(check), WithJsonSchema(schema)], ...)
    return create_model("PersonsAnswer", __base__=PersonsAnswer, choice=choice)


def _lines(seen: Rest) -> Iterator[str]:
    assert seen.gate is not None
    identity, gate = seen.known.identity, seen.gate
    yield f"interlock asks for your decision: {printable(f'{identity.playbook} {identity.key}', 200)}"
    yield f"Run {identity.run_id}, gate {short(gate.gate)}, as shown {gate.shown}."
    yield from (seen.caution,) if seen.caution else ()
    yield f"\nQuestion: {cut(gate.question, 1000)}"
    for choice in gate.choices:
        needs = " (needs a note: what is to be changed)" if choice["name"] == "reject" else ""
        yield f"- {short(choice['name'])}: {short(choice['leads_to'])}{needs}"
    yield f"\n{cut(seen.changed, 2000)}"
    yield f"All that changed: interlock diff {identity.run_id}. Agents wrote what the documents say:"
    for path, digest in gate.digests.items():  # the last: long ones are cut
        yield from _document(seen.known, path, digest)


def _document(known: KnownRun, path: str, digest: str) -> Iterator[str]:
    """How a document begins, set off so that nothing in it passes for words of ours."""
    if (found := document(known.folder, path).content) is None:
        yield f"\nShows {short(path)}: no such file."
        return
    text = found.decode("utf-8", "replace")
    yield f"\nShows {short(path)} ({len(text.splitlines())} lines, digest {digest[:12]}):"
    yield from (f"  | {row}" for row in harmless(text[:EXCERPT]).splitlines())
    yield from ("  | (more in the file)",) if len(text) > EXCERPT else ()


@told
async def attend_run(
    run: WhichRun,
    seen: Annotated[Rest, Resolve(rest)],
    said: Annotated[ElicitationResult[PersonsAnswer], Resolve(question)],
    ctx: Here,
    wait_s: Patience = 40.0,
) -> Attended:
    """Wait with a run until it ends or waits for a person. Where the settings allow it and this client can, its person
    is then asked, and what they say is recorded as theirs and the run goes on. You cannot answer for them."""
    desk = ctx.request_context.lifespan_context
    if seen.gate is None or seen.why_not:
        return await asyncio.to_thread(_unasked, desk, seen)
    if not isinstance(said, AcceptedElicitation):
        what = "Nobody decided at this client: the run waits."
        return await asyncio.to_thread(_after, desk, seen, PersonsAnswer(), what, recorded=False)
    answer = said.data
    if answer.choice == "reject" and not answer.note.strip():
        what = (
            "The person rejected it without a reason. A rejection needs one: nothing is recorded. Attend the run again."
        )
        return await asyncio.to_thread(_after, desk, seen, answer, what, recorded=False)
    by = f"the person at {client_of(ctx)}"
    reply = await desk.decide(seen.known.identity.run_id, seen.gate, answer.choice, answer.note, by)
    lines = await asyncio.to_thread(seen.known.folder.lines)
    recorded = seen.gate.key in decided_gates(lines)
    handed = reply.facts.get("reason") == "handed over"
    what = "Recorded as their decision; the run goes on." if recorded else "Handed over to the process of the run."
    if reply.error is not None:
        what = f"{'Recorded, but' if recorded else 'Not recorded:'} {reply.trouble}"
    return await asyncio.to_thread(_after, desk, seen, answer, what, recorded=recorded or handed)


def client_of(ctx: Here) -> str:
    """The client, as it calls itself."""
    params = ctx.session.client_params
    info = params.client_info if params is not None else None
    return printable(f"{info.name} {info.version}".strip(), 100) if info is not None else "a client without a name"


def _unasked(desk: Desk, seen: Rest) -> Attended:
    if seen.gate is None:
        now = glance(seen.known)
        what = {
            "running": "It still works: attend it again.",
            "interrupted": "Nobody works on it: start_run with the same inputs goes on.",
            "waiting": "It waits, but for nobody's decision: start_run with the same inputs goes on.",
        }.get(now.status, "It has ended: read_report and show_run say how.")
        return _after(desk, seen, PersonsAnswer(), what, recorded=False, asked=False)
    what = f"It waits for a person. {seen.why_not} Tell your person how to decide: how_a_person_decides."
    return _after(desk, seen, PersonsAnswer(), what, recorded=False, asked=False)


def _after(desk: Desk, seen: Rest, answer: PersonsAnswer, what: str, *, recorded: bool, asked: bool = True) -> Attended:
    """How the run stands now, with what the person said."""
    gate, now = waiting_gate(seen.known.folder.lines()), glance(seen.known)
    return Attended(
        about=DATA,
        run=seen_run(now),
        asked=asked,
        answer=cut(answer.choice) or None,
        note=cut(answer.note),
        recorded=recorded,
        gate=desk.gate(seen.known, gate) if gate is not None and now.status == "waiting" else None,
        what=cut(what),
    )
