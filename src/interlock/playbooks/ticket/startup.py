"""I1 and I2: what the project is, what the request means, and the state document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from interlock.contracts import Outcome
from interlock.documents import Document, DocumentState
from interlock.engine import Checks, Edit, Ending, Option, Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket import briefs, problems
from interlock.playbooks.ticket.artifacts import prompt_rule, questions_of, render_prompt
from interlock.playbooks.ticket.documents import IGNORED, branch_name, first_progress, home, read_yaml, with_ignored
from interlock.playbooks.ticket.git import IGNORE, Repository
from interlock.playbooks.ticket.ground import check_branch, ground
from interlock.playbooks.ticket.ledger import Ledger, Stop, checks_of
from interlock.playbooks.ticket.process import digest_of, failure, write_anew
from interlock.playbooks.ticket.progress import stamp
from interlock.playbooks.ticket.project import (
    CACHE,
    DOCS,
    LARGEST,
    MANIFESTS,
    MOST_FILES,
    NOT_LISTED,
    SHOWN,
    DocsState,
    Impact,
    docs_state,
    fingerprint,
    impact,
    parallel_tasks,
    search_terms,
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
from interlock.playbooks.ticket.toolchains import NONE, READ_FOR_COMMANDS, Command, Commands, detect_commands
from interlock.playbooks.ticket.validation import named

SETTINGS = "the settings"
NO_FILE = "no file says how"


@dataclass(frozen=True)
class TicketInputs:
    """What the user asked for."""

    request: Annotated[str, Option("What is to be done, with the ticket's id.", metavar="REQUEST", argument=True)]
    jira: Annotated[str | None, Option("The ticket, if the request names none or several.", metavar="ID")] = None
    build: Annotated[str | None, Option("Command that builds; 'none' if nothing is built.", metavar="CMD")] = None
    test: Annotated[str | None, Option("Command that tests; 'none' if nothing is tested.", metavar="CMD")] = None
    base: Annotated[
        str | None, Option("Where the work begins; default: the remote's or the main branch.", metavar="NAME")
    ] = None
    max_parallel: Annotated[
        int | None, Option("Most tasks side by side.", name="max-parallel-tasks", at_least=1, at_most=8)
    ] = None
    fast_path: Annotated[bool, Option("Let no graph skip the task-executor and the review.")] = True
    fresh: Annotated[bool, Option("Start over: what is there of the ticket is set aside.")] = False
    retry: Annotated[bool, Option("Give tasks that used up their attempts as many again.")] = False
    still_fresh: bool = False
    """A run that this one goes on for was to start over: if it did not come to that, this one does."""


@dataclass(frozen=True)
class TicketFlags:
    """What is answered before it is asked."""

    dirty: Annotated[
        Literal["stash", "carry", "abort"] | None,
        Option("What becomes of uncommitted code; without it you are asked."),
    ] = None


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

    build: Command
    test: Command
    cores: str
    docs: DocsState
    impact: Impact
    prompt: Prompt
    existing_branch: str
    """The commit of a branch of the ticket's name that is used although it lacks the present state; else empty."""
    checks: Checks


def note(run: Run, event: str, step: str, **facts: object) -> None:
    """An event of the log from before there is a state document."""
    run.note(f"orchestrator.{event}", iteration=0, step=step, **facts)


async def startup_analysis(run: Run, ticket: str, inputs: TicketInputs, repository: Repository) -> Analysis:
    """I1: commands, cores, documentation and likely files side by side, by code; then the request itself.

    What can be found wrong without an agent is found here: the state of the repository, a branch of that name, and
    whether the user's build and test are green before anything is paid.
    """
    if not await repository.is_there():
        raise problems.not_a_repository(await repository.place())
    note(run, "startup.analysis.start", "I1")
    async with ground(run, ticket, inputs.base, repository):
        return await analyse(run, ticket, inputs, repository)


async def analyse(run: Run, ticket: str, inputs: TicketInputs, repository: Repository) -> Analysis:
    analyses: dict[str, Callable[[], Awaitable[object]]] = {
        "commands": partial(find_commands, run),
        "cores": partial(count_cores, run),
        "docs": partial(weigh_docs, run, repository),
        "impact": partial(scan_impact, repository, inputs.request),
    }
    found = await run.cluster("analysis", analyses, cap=len(analyses))
    commands, cores, docs, likely = found["commands"], found["cores"], found["docs"], found["impact"]
    assert isinstance(commands, Commands)
    assert isinstance(cores, str)
    assert isinstance(docs, DocsState)
    assert isinstance(likely, Impact)
    build, test = await choose_commands(run, ticket, inputs, commands)
    clear = run.decide(clarity, inputs.request) is Clarity.CLEAR
    prompt = read_by_rules(inputs.request) if clear else None
    taken = await check_branch(run, repository, ticket_branch(run, ticket, prompt)) if prompt else ""
    checks = checks_of(run, ticket)
    checks.commands = named(run, build, test)
    for name, one in (("build", build), ("test", test)):
        said = f"{name}: {one.text}"
        run.note("progress", text=f"{said}, {'since' if one.origin == NO_FILE else 'from'} {one.origin}", command=said)
    await checks.preflight()
    if (inputs.fresh or inputs.still_fresh) and await run.list(home(ticket), "**/*"):
        await run.set_aside(home(ticket))  # only now: a start that is refused leaves everything where it is
    if prompt is None:
        prompt = await interpret(run, ticket, inputs.request)
        taken = await check_branch(run, repository, ticket_branch(run, ticket, prompt))
    note(run, "startup.analysis.complete", "I1", trust_status=docs.trust.value, likely_files=len(likely.likely_files))
    return Analysis(build, test, cores, docs, likely, prompt, taken, checks)


def ticket_branch(run: Run, ticket: str, prompt: Prompt) -> str:
    """The name of the ticket's branch, by the template as it was when it was first asked for."""
    template = run.settle_once("branch", {"template": run.settings.branch})["template"]
    return branch_name(template, ticket, prompt.work, prompt.slug)


async def find_commands(run: Run) -> Commands:
    names = await run.list(".", "*")
    texts = {name: (await run.read(name)).text for name in READ_FOR_COMMANDS if name in names}
    return detect_commands(names, texts)


async def choose_commands(run: Run, ticket: str, inputs: TicketInputs, found: Commands) -> tuple[Command, Command]:
    """Build and test: what the user says goes over settings, and these over what was found. A project without a build
    has none; one without a test must say so.

    Settings may change between a crash and its resume: what they said first is recorded, and stays.
    """

    def choose(_document: Document) -> list[list[Any] | None]:
        chosen = said_by_people(run, inputs).over(found)
        return [[one.text, one.origin, one.by_person] if one else None for one in (chosen.build, chosen.test)]

    build, test = await run.look(f"{home(ticket)}/progress.yaml", choose)
    if test is None:
        raise problems.no_test()
    return Command(*(build or (NONE, NO_FILE))), Command(*test)


def said_by_people(run: Run, inputs: TicketInputs) -> Commands:
    """The commands that a person gives with this start, or has put into the settings."""
    settings = Commands(
        Command(run.settings.build_command, SETTINGS, True) if run.settings.build_command else None,
        Command(run.settings.test_command, SETTINGS, True) if run.settings.test_command else None,
    )
    given = Commands(
        Command(inputs.build, "--build", True) if inputs.build else None,
        Command(inputs.test, "--test", True) if inputs.test else None,
    )
    return given.over(settings)


def named_settings(run: Run, inputs: TicketInputs) -> dict[str, Any]:
    """What people say of the ticket beside its commands: in the settings, and by the options that were given."""
    settings = run.settings
    given = {
        "--max-parallel-tasks": inputs.max_parallel,
        "--no-fast-path": not inputs.fast_path,
        "--base": inputs.base,
    }
    return {
        "max_parallel_tasks": settings.max_parallel_tasks,
        "fast_path": settings.fast_path,
        "base": settings.base,
        "branch": settings.branch,
        **{name: value for name, value in given.items() if value},
    }


async def count_cores(run: Run) -> str:
    """What the machine says of its processors, those that this process may use."""
    said = await run.inspect(("sh", "-c", "nproc 2>/dev/null || getconf _NPROCESSORS_ONLN"), name="cores")
    return said.stdout.strip() if said.ok else ""


async def weigh_docs(run: Run, repository: Repository) -> DocsState:
    """Whether the documentation can be trusted: hashes and fingerprint are computed anew."""
    digests = {path: (await run.read(path)).digest for path in DOCS}
    return docs_state(digests, await read_cache(run), await workspace_fingerprint(run, repository))


async def read_cache(run: Run) -> object:
    """The data of the cache; nothing where there is none that can be read."""
    document = await run.read(CACHE)
    if document.state is not DocumentState.OK:
        return None
    try:
        return read_yaml(document.text, CACHE)
    except DocumentInvalid:
        return None


async def workspace_fingerprint(run: Run, repository: Repository) -> str:
    digests = {path: await run.look(path, digest_of) for path in await repository.tracked(MANIFESTS)}
    return fingerprint(await repository.listing(NOT_LISTED), digests)


async def scan_impact(repository: Repository, request: str) -> Impact:
    terms = search_terms(request)
    named = await repository.named(terms, SHOWN)
    return impact(terms, named, await repository.matches(terms, most=MOST_FILES, largest=LARGEST))


def read_by_rules(request: str) -> Prompt:
    """I1.E: what a clear request says."""
    work = work_type(request)
    assert work is not None
    return Prompt(work, slug(request, work), tuple(tool_mandates(request)))


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
    head, branch = await repository.head(), ticket_branch(run, ticket, analysis.prompt)
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
        await write_anew(run, f"{home(ticket)}/prompt.yaml", text)

    def begin(document: Document) -> Edit:
        if document.state is not DocumentState.MISSING:
            raise problems.bad_document(document.path, "somebody has begun this ticket meanwhile")
        # Computed once: these settings, too, may be others when this is replayed.
        content = first_progress(
            ticket=ticket,
            work=prompt.work,
            slug=prompt.slug,
            branch=branch,
            existing_branch=analysis.existing_branch,
            commands={"build": analysis.build, "test": analysis.test},
            baseline={"run": run.identity.run_id, **analysis.checks.baseline},
            parallel=parallel_tasks(analysis.cores, inputs.max_parallel or run.settings.max_parallel_tasks),
            fast_path=inputs.fast_path and run.settings.fast_path,
            named_settings=named_settings(run, inputs),
            docs=analysis.docs,
            impact=analysis.impact,
            git_head=head,
            now=now,
        )
        return Edit(content.encode(), None)

    path = f"{home(ticket)}/progress.yaml"
    await run.edit(path, {"begin": ticket}, begin)
    ledger = Ledger(run, ticket, await run.read(path))
    ledger.head, ledger.checks = head, analysis.checks
    await run.write(f"{home(ticket)}/tmp/progress.bak.yaml", (await run.read(path)).text)
    await hide_prompts(run)
    ledger.log("start", branch=ledger.data["branch"], type=prompt.work.value, by_code=prompt.by_code)
    await ledger.publish()
    return ledger


async def hide_prompts(run: Run) -> None:
    """Both of our lines stand in .gitignore, each once."""

    def hide(document: Document) -> Edit:
        if document.state is DocumentState.UNREADABLE:
            document.require()
        wanted = with_ignored(document.text)
        return Edit(document.encode(wanted) if wanted != document.text else None, None)

    await run.edit(IGNORE, {"lines": list(IGNORED)}, hide)
