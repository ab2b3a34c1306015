"""O1 to O4: an iteration begins, a plan without open questions, a task graph that passes every check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from interlock.contracts import ArtifactClass, Outcome
from interlock.documents import DocumentState, read_yaml, render_yaml, stamp
from interlock.engine import Ending, Report, Stop, is_guarded
from interlock.playbooks.ticket import briefs
from interlock.playbooks.ticket.analysis import DOCS
from interlock.playbooks.ticket.artifacts import deferrals, graph_problem, prompt_rule
from interlock.playbooks.ticket.documentation import refresh_brief, take_docs
from interlock.playbooks.ticket.documents import ITERATIONS, Phase, home, iteration_home
from interlock.playbooks.ticket.graph import GraphLimits, is_trivial, mandate_text
from interlock.playbooks.ticket.ledger import Ledger, failure, flaw_of, stopped

DEFERRED = "ERROR: Planner deferred research — violates NO RESEARCH DEFERRAL rule. STOPPING."
ABSENT = "not available"
_SHOWN = {
    "ARCHITECTURE.md summary": (DOCS[0], 80),
    "CODE_STYLE.md summary": (DOCS[1], 40),
    "FINDINGS.md": (DOCS[2], None),
}
"""What a Planner sees of each document: its heading there, and how many lines."""


async def begin_iteration(ledger: Ledger, number: int) -> None:
    """O1: the iteration's folder, its start, and the commit that it starts from."""
    ledger.head = (await ledger.run.repository.where()).head
    now = ledger.run.now()
    again = ledger.iteration == number and ledger.phase is Phase.PLANNING
    await ledger.enter(Phase.PLANNING, "O1", ledger.new_iteration(number, now))
    if again:
        for path in await ledger.run.list(ledger.folder, "*"):
            if path.endswith((".md", ".yaml")):
                await ledger.run.set_aside(path)
    await ledger.run.write(f"{ledger.folder}/.gitkeep", "")
    ledger.log("iteration.start", started_at=stamp(now), git_head=ledger.head)
    ledger.tell(f"iteration {number + 1} of {ITERATIONS}, from {primary_input(ledger.ticket, number)}")


async def plan(ledger: Ledger) -> None:
    """O2 and O3: the Planner, and beside it the Initializer where the documentation cannot be trusted."""
    run, number = ledger.run, ledger.iteration
    source = primary_input(ledger.ticket, number)
    await ledger.enter(Phase.PLANNING, "O3")
    ledger.log("planner.pre_git_gate.start", primary_input=source)
    spec = ledger.briefs.planner(source, await snapshot(ledger, source))
    members: dict[str, Callable[[], Awaitable[Report]]] = {"Planner": partial(ledger.ask, spec)}
    refresh = number == 0 and not ledger.data["docs_trusted_for_planning"]
    if refresh:
        members["Initializer"] = partial(ledger.ask, await refresh_brief(ledger, briefs.REFRESH))
    reports = await run.cluster("agents", members)
    if refresh:
        await take_docs(ledger, reports["Initializer"])
    await check_inputs(ledger)
    await accept_plan(ledger, reports["Planner"])


def primary_input(ticket: str, number: int) -> str:
    """O2: what is planned from: the request, or the review that rejected the iteration before."""
    return f"{iteration_home(ticket, number - 1)}/review_report.yaml" if number else f"{home(ticket)}/prompt.yaml"


async def snapshot(ledger: Ledger, source: str) -> dict[str, str]:
    """What the Planner need not read itself: heading to text, all read before any agent starts."""
    run = ledger.run
    shown = {"startup.impact_scan": render_yaml(ledger.data["startup"].get("impact_scan") or {})}
    for title, (path, lines) in _SHOWN.items():
        document = await run.read(path)
        text = "\n".join(document.text.split("\n")[:lines]) if lines else document.text
        shown[title] = text if document.state is DocumentState.OK and text.strip() else ABSENT
    primary = await run.read(source)
    if primary.state is not DocumentState.OK:
        raise stopped(f"{source} cannot be read: {primary.problem}")
    return {**shown, "PRIMARY INPUT": primary.text, "progress.yaml": (await run.read(ledger.path)).text}


async def check_inputs(ledger: Ledger) -> None:
    """I3: prompt and state are still what planning relied on."""
    await ledger.read_again()
    path = f"{home(ledger.ticket)}/prompt.yaml"
    text = (await ledger.run.read(path)).require("prompt").text
    data = read_yaml(text, path)
    request = str(data.get("original_request", "")) if isinstance(data, dict) else ""
    if why := prompt_rule(ledger.ticket, request).problem(text):
        raise stopped(f"prompt.yaml: {why}")


async def accept_plan(ledger: Ledger, report: Report) -> None:
    path = f"{ledger.folder}/plan.md"
    if report.outcome is not Outcome.OK:
        raise Stop(Ending.failed(failure("Planner", report, path)))
    text = (await ledger.run.read(path)).text
    if put_off := deferrals(text):
        lines = "".join(f"\n{path}:{number}: {line}" for number, line in put_off)
        raise Stop(Ending.stopped(DEFERRED + lines))
    ledger.log("planner.complete", plan=path)


# -- O4


async def settle_tasks(ledger: Ledger) -> None:
    """O4: the Planner's graph if it passes every check, else the Splitter's."""
    run = ledger.run
    await ledger.enter(Phase.SPLITTING, "O4")
    document = await run.read(ledger.tasks_path)
    limits = await limits_of(ledger)
    why = "" if document.state is DocumentState.MISSING else graph_problem(document.text, new=True, limits=limits)
    if document.state is DocumentState.OK and why is None:
        ledger.log("splitter.skipped_planner_provided")
    else:
        if document.state is not DocumentState.MISSING:
            await refuse_graph(ledger, document.text, why or "unreadable", by="Planner")
            await run.set_aside(ledger.tasks_path)
        await split(ledger, limits, why or "")
    await count(ledger)


async def limits_of(ledger: Ledger) -> GraphLimits:
    """What an agent's graph may name: nothing that is protected, unless the user's own words do."""
    request = str((await ledger.prompt()).get("original_request") or "")

    def closed(name: str) -> bool:
        return any(is_guarded(ledger.run, part) and part not in request for part in name.split("/"))

    said = ledger.run.settle_once("drift", {"patterns": list(ledger.run.settings.drift)})
    return GraphLimits(closed, tuple(await ledger.run.repository.submodules()), tuple(said["patterns"]))


async def refuse_graph(ledger: Ledger, text: str, why: str, by: str) -> None:
    ledger.log("tasks.yaml.invalid", reason=why, by=by)
    await ledger.run.write(f"{home(ledger.ticket)}/tmp/tasks.invalid.{ledger.iteration}.{by}.yaml", text)


async def split(ledger: Ledger, limits: GraphLimits, why: str) -> None:
    """The Splitter, whose graph is held to the same checks; a second one that fails stops the run."""
    report = await ledger.ask(ledger.briefs.splitter(why, limits))
    if report.outcome is Outcome.OK:
        return
    flaw = flaw_of(report, ledger.tasks_path)
    if flaw is not None and flaw.cls is ArtifactClass.MALFORMED:
        text = (await ledger.run.read(ledger.tasks_path)).text
        await refuse_graph(ledger, text, flaw.detail, by="Splitter")
        raise stopped(f"tasks.yaml: {flaw.detail}")
    said = failure("Splitter", report, ledger.tasks_path)
    raise Stop(Ending.stopped(said) if flaw is not None else Ending.failed(said))


async def count(ledger: Ledger) -> None:
    """What is to be done, and whether it is so little that the short cut may be taken."""
    graph, prompt = await ledger.graph(), await ledger.prompt()
    demanded = [mandate_text(mandate) for mandate in prompt.get("tool_mandates") or ()]
    trivial = ledger.fast_path and is_trivial(graph, demanded)
    mode = "trivial_graph" if trivial else "standard"
    await ledger.change({**ledger.counted(graph), ("cycle_acceleration_mode",): mode})
    ledger.log("tasks.ready", tasks=len(graph.tasks), groups=len(graph.order), mode=mode)
    ledger.tell(f"tasks: {', '.join(graph.tasks)}{' (by the short cut)' if trivial else ''}")
