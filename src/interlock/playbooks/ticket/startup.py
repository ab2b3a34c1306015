"""I0 to I2: is there something to go on with; what the project is; the state document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from interlock.contracts import Outcome
from interlock.documents import Document, DocumentState, Key
from interlock.engine.excerpts import Edit
from interlock.engine.model import Ending
from interlock.engine.run import Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket import briefs, problems
from interlock.playbooks.ticket.artifacts import prompt_rule, questions_of, render_prompt
from interlock.playbooks.ticket.documents import LEGACY, first_progress, home, read_yaml, with_ignored
from interlock.playbooks.ticket.git import IGNORE, Branch, Repository, shown
from interlock.playbooks.ticket.graph import REJECTED, Graph, TaskStatus, literal_files
from interlock.playbooks.ticket.ledger import Ledger, Stop
from interlock.playbooks.ticket.process import digest_of, failure, files_digest
from interlock.playbooks.ticket.progress import ITERATIONS, Phase, RunStatus, stamp
from interlock.playbooks.ticket.project import (
    CACHE,
    DOCS,
    MANIFESTS,
    READ_FOR_COMMANDS,
    Commands,
    DocsState,
    Impact,
    detect_commands,
    docs_state,
    fingerprint,
    impact,
    parallel_tasks,
    search_terms,
    searched_files,
)
from interlock.playbooks.ticket.request import (
    Clarity,
    Mandate,
    Work,
    clarity,
    refined,
    slug,
    success_criteria,
    tool_mandates,
    work_type,
)


@dataclass(frozen=True)
class TicketInputs:
    """What the user asked for."""

    request: str
    jira: str | None = None
    build: str | None = None
    test: str | None = None
    max_parallel: int | None = None
    fast_path: bool = True
    fresh: bool = False
    """Start over: what is there of the ticket is set aside."""
    retry: bool = False
    """Give the tasks that used up their attempts as many again."""


# -- I0


async def resume_detection(
    run: Run, ticket: str, inputs: TicketInputs, repository: Repository
) -> Ledger | Ending | None:
    """I0: the ticket's state if it was begun, how it ended if it did, nothing if it is new."""
    document = await run.read(f"{home(ticket)}/progress.yaml")
    if inputs.fresh and await run.list(home(ticket), "**/*"):
        await run.set_aside(home(ticket))
        return None
    if document.state is DocumentState.MISSING:
        return None
    ledger = Ledger(run, ticket, document.require())
    if (ended := settled(ledger, inputs)) is not None:
        return ended
    await refuse_legacy(run, ticket)
    if not await repository.is_there():
        raise problems.not_a_repository(await repository.place())
    await go_to_branch(run, ledger, repository)
    ledger.head = await repository.head()
    ledger.log("resume", phase=ledger.phase.value, status=ledger.status.value, retry=inputs.retry)
    await ledger.change({("status",): RunStatus.IN_PROGRESS.value})
    if ledger.phase is Phase.TASK_EXECUTION or ledger.phase is Phase.GIT_GATE:
        await take_stock(run, ledger, inputs.retry)
    return ledger


def settled(ledger: Ledger, inputs: TicketInputs) -> Ending | None:
    """How a ticket ended that needs nothing more, or waits for a person's word."""
    branch = ledger.data["branch"]
    match ledger.status:
        case RunStatus.ACCEPTED:
            return Ending.complete(f"{ledger.ticket} is already done: it was accepted on branch {branch}.\n")
        case RunStatus.REJECTED:
            return Ending.stopped(problems.MOST_ITERATIONS)
        case RunStatus.PAUSED if not inputs.retry:
            task = ledger.data["current_task_id"]
            return Ending.stopped(
                f"PAUSED: task {task} failed 5 attempts. See {ledger.tasks_path} for its last error; "
                "interlock resume RUN --retry gives it as many again."
            )
        case _ if ledger.iteration >= ITERATIONS:
            return Ending.stopped(problems.MOST_ITERATIONS)
    return None


async def refuse_legacy(run: Run, ticket: str) -> None:
    """Files of an older way of working beside tasks.yaml would be a second truth."""
    place = home(ticket)
    found = [path for folder, pattern in LEGACY for path in await run.list(place + folder, pattern)]
    run.note("legacy.scan", found=found)
    if not found:
        return
    if [path for path in await run.list(place, "**/tasks.yaml") if "/iteration_" in path]:
        raise problems.mixed_artifacts(found)
    run.warn(f"{place} holds files of an older way of working, which are not read: {', '.join(found)}")


async def go_to_branch(run: Run, ledger: Ledger, repository: Repository) -> None:
    """Go on where the work is. Without its branch the ticket comes to the git gate again."""
    branch = ledger.data["branch"]
    if not ledger.data["git_gate_completed"] or await repository.branch() == branch:
        return
    if not await repository.commit_of(branch):
        run.warn(f"branch {branch} does not exist any more; the git gate is passed again")
        again: dict[tuple[Key, ...], object] = {("git_gate_completed",): False}
        if ledger.phase in (Phase.TASK_EXECUTION, Phase.REVIEW):
            again |= {("current_phase",): Phase.GIT_GATE.value, ("current_step",): "O4.5"}
        await ledger.change(again)
        return
    done = await Branch(run, branch).checkout()
    if not done.ok:
        raise problems.branch_gone(branch, f"cannot be checked out: {shown(done)}")


async def take_stock(run: Run, ledger: Ledger, retry: bool) -> None:
    """Accepted work that is not there any more is to be done again; with `retry`, failed tasks start anew."""
    graph = await ledger.graph()
    lost = [task.id for task in graph.accepted if not await is_as_accepted(run, graph, task.id)]
    if lost:
        run.warn(f"the files of accepted tasks are not as they were accepted: {', '.join(lost)}")
    marks: dict[str, dict[str, object]] = {name: {"status": TaskStatus.PENDING.value} for name in lost}
    if retry:
        tired = [task.id for task in graph.tasks.values() if task.status in REJECTED]
        ledger.log("retry", tasks=tired)
        marks |= {name: {"attempt": 0} for name in tired}
    await ledger.mark(marks)


async def is_as_accepted(run: Run, graph: Graph, name: str) -> bool:
    task = graph.tasks[name]
    kept = task.entry.get("files_sha256")
    return kept is None or kept == await files_digest(run, literal_files(task))


# -- I1


@dataclass(frozen=True)
class Prompt:
    """A request as it was understood."""

    work: Work
    slug: str
    mandates: tuple[Mandate, ...] = ()
    by_code: bool = True


@dataclass(frozen=True)
class Analysis:
    """What is known of the project before anything is planned."""

    commands: Commands
    cores: str
    docs: DocsState
    impact: Impact
    prompt: Prompt


def note(run: Run, event: str, step: str, **facts: object) -> None:
    """An event of the log from before there is a state document."""
    run.note(f"orchestrator.{event}", iteration=0, step=step, **facts)


async def startup_analysis(run: Run, ticket: str, inputs: TicketInputs, repository: Repository) -> Analysis:
    """I1: commands, cores, documentation and likely files side by side, by code; then the request itself."""
    if not await repository.is_there():
        raise problems.not_a_repository(await repository.place())
    note(run, "startup.analysis.start", "I1")
    tracked = await repository.tracked()
    analyses: dict[str, Callable[[], Awaitable[object]]] = {
        "commands": partial(find_commands, run),
        "cores": partial(count_cores, run),
        "docs": partial(weigh_docs, run, tracked),
        "impact": partial(scan_impact, repository, inputs.request, tracked),
    }
    found = await run.cluster("analysis", analyses, cap=len(analyses))
    commands, cores, docs, likely = found["commands"], found["cores"], found["docs"], found["impact"]
    assert isinstance(commands, Commands)
    assert isinstance(cores, str)
    assert isinstance(docs, DocsState)
    assert isinstance(likely, Impact)
    check_commands(run, inputs, commands)
    prompt = await understand(run, ticket, inputs.request)
    note(run, "startup.analysis.complete", "I1", trust_status=docs.trust.value, likely_files=len(likely.likely_files))
    return Analysis(commands, cores, docs, likely, prompt)


async def find_commands(run: Run) -> Commands:
    names = await run.list(".", "*")
    texts = {name: (await run.read(name)).text for name in READ_FOR_COMMANDS if name in names}
    return detect_commands(names, texts)


def chosen_commands(run: Run, inputs: TicketInputs, found: Commands) -> Commands:
    """What the user says goes over settings, and these over what was found."""
    settings = Commands(run.settings.build_command, run.settings.test_command)
    return Commands(inputs.build, inputs.test).over(settings).over(found)


def check_commands(run: Run, inputs: TicketInputs, found: Commands) -> None:
    if missing := chosen_commands(run, inputs, found).missing():
        raise problems.no_commands(missing)


async def count_cores(run: Run) -> str:
    """What the machine says of its processors, those that this process may use."""
    said = await run.inspect(("sh", "-c", "nproc 2>/dev/null || getconf _NPROCESSORS_ONLN"), name="cores")
    return said.stdout.strip() if said.ok else ""


async def weigh_docs(run: Run, tracked: list[str]) -> DocsState:
    """Whether the documentation can be trusted: hashes and fingerprint are computed anew."""
    digests = {path: (await run.read(path)).digest for path in DOCS}
    return docs_state(digests, await read_cache(run), await workspace_fingerprint(run, tracked))


async def read_cache(run: Run) -> object:
    """The data of the cache; nothing where there is none that can be read."""
    document = await run.read(CACHE)
    if document.state is not DocumentState.OK:
        return None
    try:
        return read_yaml(document.text, CACHE)
    except DocumentInvalid:
        return None


async def workspace_fingerprint(run: Run, tracked: list[str]) -> str:
    known = set(tracked)
    return fingerprint(tracked, {path: await run.look(path, digest_of) for path in MANIFESTS if path in known})


async def scan_impact(repository: Repository, request: str, tracked: list[str]) -> Impact:
    terms = search_terms(request)
    sizes = await repository.sizes()
    hits = await repository.matches(terms, searched_files(tracked, sizes))
    return impact(terms, tracked, hits)


async def understand(run: Run, ticket: str, request: str) -> Prompt:
    """I1.E: by rules where the request is clear, else by the Interpreter."""
    if run.decide(clarity, request) is Clarity.CLEAR:
        work = work_type(request)
        assert work is not None
        return Prompt(work, slug(request, work), tuple(tool_mandates(request)))
    return await interpret(run, ticket, request)


async def interpret(run: Run, ticket: str, request: str) -> Prompt:
    path = f"{home(ticket)}/prompt.yaml"
    rule = prompt_rule(ticket, request, "2026-01-01T00:00:00Z")
    report = await run.dispatch(briefs.interpreter(ticket, request, rule))
    run.note("artifact.check", path=path, outcome=report.outcome, complaints=report.complaints)
    data = read_yaml(report.text(path), path) if report.outcome is Outcome.OK else None
    if report.outcome is Outcome.OK and (asked := questions_of(data)):
        question = "\n".join(["The Interpreter asks:", *(f"- {one}" for one in asked)])
        decision = await run.gate("questions", question, choices=())
        report = await run.dispatch(briefs.interpreter(ticket, request, rule, decision.choice, asked))
        run.note("artifact.check", path=path, outcome=report.outcome, complaints=report.complaints)
        data = read_yaml(report.text(path), path) if report.outcome is Outcome.OK else None
    if report.outcome is not Outcome.OK:
        raise Stop(Ending.failed(failure("Interpreter", report, path)))
    if not isinstance(data, dict) or "slug" not in data:
        raise Stop(Ending.failed("ERROR: prompt.yaml: the Interpreter asked again instead of writing it. STOPPING."))
    return Prompt(Work(data["type"]), str(data["slug"]), by_code=False)


# -- I2


async def initialize(run: Run, ticket: str, inputs: TicketInputs, repository: Repository, analysis: Analysis) -> Ledger:
    """I2: prompt.yaml, progress.yaml, the lines in .gitignore, and the log."""
    now, prompt = stamp(run.now()), analysis.prompt
    head = await repository.head()
    if prompt.by_code:
        text = render_prompt(
            ticket,
            prompt.work,
            prompt.slug,
            prompt.mandates,
            inputs.request,
            refined(inputs.request),
            success_criteria(inputs.request),
            now,
        )
        await run.write(f"{home(ticket)}/prompt.yaml", text)

    def begin(_document: Document) -> Edit:
        # Settings may change between a crash and its resume: what they said first is told, and stays.
        commands = chosen_commands(run, inputs, analysis.commands)
        content = first_progress(
            ticket=ticket,
            work=prompt.work,
            slug=prompt.slug,
            build=commands.build or "",
            test=commands.test or "",
            parallel=parallel_tasks(analysis.cores, inputs.max_parallel or run.settings.max_parallel_tasks),
            fast_path=inputs.fast_path and run.settings.fast_path,
            docs=analysis.docs,
            impact=analysis.impact,
            git_head=head,
            now=now,
        )
        return Edit(content.encode(), None)

    path = f"{home(ticket)}/progress.yaml"
    await run.edit(path, {"begin": ticket}, begin)
    ledger = Ledger(run, ticket, await run.read(path))
    ledger.head = head
    await run.write(f"{home(ticket)}/tmp/progress.bak.yaml", (await run.read(path)).text)
    await hide_prompts(run)
    ledger.log("start", branch=ledger.data["branch"], type=prompt.work.value, by_code=prompt.by_code)
    await ledger.publish()
    return ledger


async def hide_prompts(run: Run) -> None:
    """Both of our lines stand in .gitignore, each once."""
    document = await run.read(IGNORE)
    if document.state is DocumentState.UNREADABLE:
        document.require()
    if (wanted := with_ignored(document.text)) != document.text:
        await run.write(IGNORE, document.encode(wanted), expect=document.digest)
