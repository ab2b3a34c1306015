"""What a client can call: look, plan, start, cancel. Deciding is none of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from interlock.mcp.attending import Here, WhichRun
from interlock.mcp.desk import Desk
from interlock.mcp.results import (
    EndedRun,
    KnownPlaybooks,
    PlannedRun,
    SeenRuns,
    StartedRun,
    TextPage,
    WholeRun,
)
from interlock.mcp.telling import told

Stands = Literal["running", "waiting", "interrupted", "complete", "degraded", "stopped", "failed", "invalid", "damaged"]
PlaybookWord = Annotated[str, Field(description="The playbook, as list_playbooks names it.")]
Inputs = Annotated[
    dict[str, Any], Field(description="What is said of its inputs, by the names that list_playbooks has.")
]
Offset = Annotated[int, Field(ge=0, description="Where to begin: next_offset of the page before.")]


def desk_of(ctx: Context[Desk, Any]) -> Desk:
    return ctx.request_context.lifespan_context


@told
def list_playbooks(ctx: Here, offset: Offset = 0, limit: Annotated[int, Field(ge=1, le=50)] = 20) -> KnownPlaybooks:
    """List the processes that can be run in this workspace, with their inputs. Nothing of the workspace is executed."""
    return desk_of(ctx).playbooks(offset, limit)


@told
async def plan_run(ctx: Here, playbook: PlaybookWord, inputs: Inputs) -> PlannedRun:
    """Show what a run would take: stages, agents, calls, time, cost, commands. Nobody is called, nothing changed."""
    return await desk_of(ctx).plan(playbook, inputs)


@told
async def start_run(
    ctx: Here,
    playbook: PlaybookWord,
    inputs: Inputs,
    new_run: Annotated[bool, Field(description="Start a new run although the last one is complete.")] = False,
    budget_usd: Annotated[
        float | None, Field(ge=0, description="The run waits for a person before it spends more.")
    ] = None,
) -> StartedRun:
    """Start a run in the background, or go on with the one that is open for the same inputs. It costs what its agents
    cost: plan_run says how much. It goes on when this client ends."""
    more = ["--new-run"] if new_run else []
    more += [f"--budget={budget_usd}"] if budget_usd is not None else []
    return await desk_of(ctx).start(playbook, inputs, more)


@told
def list_runs(
    ctx: Here,
    status: Annotated[Stands | None, Field(description="Only runs that stand so.")] = None,
    playbook: Annotated[str | None, Field(description="Only runs of this playbook.")] = None,
    after: Annotated[
        str | None, Field(description="Only runs older than this one: next_after of the page before.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=50)] = 20,
) -> SeenRuns:
    """List the runs of this workspace, the latest first."""
    return desk_of(ctx).runs(status=status, playbook=playbook, after=after, limit=limit)


@told
def show_run(ctx: Here, run: WhichRun) -> WholeRun:
    """Show one run: how it stands and why, where it waits, its last dispatches, its documents, what it gave back."""
    return desk_of(ctx).show(run)


@told
def read_report(ctx: Here, run: WhichRun, offset: Offset = 0) -> TextPage:
    """Read the report of a run, page by page: every dispatch and decision, time, tokens, cost, trouble."""
    return desk_of(ctx).report(run, offset)


@told
def read_document(
    ctx: Here, run: WhichRun, path: Annotated[str, Field(description="One of the run's documents.")], offset: Offset = 0
) -> TextPage:
    """Read a document that a run wrote, changed or asks about, as it is now, page by page; show_run lists them."""
    return desk_of(ctx).document(run, path, offset)


@told
async def cancel_run(ctx: Here, run: WhichRun) -> EndedRun:
    """End a run for good: whoever works on it is interrupted; documents stay as they are."""
    facts = (await desk_of(ctx).cancel(run)).facts
    return EndedRun(run_id=facts["run_id"], status=facts["status"], what=str(facts["reason"]))
