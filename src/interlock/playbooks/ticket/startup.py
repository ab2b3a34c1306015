"""I1 and I2: what the project is, what the request means, and the state document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from interlock.contracts import Outcome
from interlock.documents import Document, DocumentState, read_yaml, stamp
from interlock.engine import NONE, Checks, Command, Commands, Edit, Ending, Option, Report, Run, Stop, find_commands
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket import briefs, request
from interlock.playbooks.ticket.analysis import (
    CACHE,
    DOCS,
    LARGEST,
    MANIFESTS,
    MOST_FILES,
    NOT_LISTED,
    SHOWN,
    DocsState,
    docs_state,
    fingerprint,
    impact,
    parallel_tasks,
    search_terms,
)
from interlock.playbooks.ticket.artifacts import prompt_rule, questions_of, render_prompt
from interlock.playbooks.ticket.documents import bad_document, branch_name, first_progress, home
from interlock.playbooks.ticket.gate import check_branch, hide_prompts, on_ground
from interlock.playbooks.ticket.ledger import Ledger, checks_of, digest_of, failure
from interlock.playbooks.ticket.request import Mandate, TicketError, WorkKind
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
class UnderstoodRequest:
    """A request as it was understood."""

    work: WorkKind
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
    likely: list[str]
    prompt: UnderstoodRequest
    existing_branch: str
    """The commit of a branch of the ticket's name that is used although it lacks the present state; else empty."""
    checks: Checks


def note(run: Run, event: str, step: str, **facts: object) -> None:
    """An event of the log from before there is a state document."""
    run.note(f"orchestrator.{event}", iteration=0, step=step, **facts)


async def require_repository(run: Run) -> None:
    where = await run.repository.where()
    if not where.there:
        raise TicketError(
            f"ERROR: not a git repository: {where.folder}",
            where=where.folder,
            remedy="Start it in a git repository, or make one with: git init",
        )


async def startup_analysis(run: Run, ticket: str, inputs: TicketInputs) -> Analysis:
    """I1: commands, cores, documentation and likely files side by side, by code; then the request itself.

    What can be found wrong without an agent is found here: the state of the repository, a branch of that name, and
    whether the user's build and test are green before anything is paid.
    """
    await require_repository(run)
    note(run, "startup.analysis.start", "I1")
    async with on_ground(run, ticket, inputs.base):
        return await analyse(run, ticket, inputs)


async def analyse(run: Run, ticket: str, inputs: TicketInputs) -> Analysis:
    """What is known of the project and the request, on the ground that the ticket begins from."""
    analyses: dict[str, Callable[[], Awaitable[Any]]] = {
        "commands": partial(find_commands, run),
        "cores": partial(count_cores, run),
        "docs": partial(weigh_docs, run),
        "impact": partial(scan_impact, run, inputs.request),
    }
    found = await run.cluster("analysis", analyses, cap=len(analyses))
    docs: DocsState = found["docs"]
    build, test = await choose_commands(run, ticket, inputs, found["commands"])
    clear = run.decide(request.clarity, inputs.request) is request.Clarity.CLEAR
    prompt = read_by_rules(inputs.request) if clear else None
    taken = await check_branch(run, ticket_branch(run, ticket, prompt)) if prompt else ""
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
        taken = await check_branch(run, ticket_branch(run, ticket, prompt))
    likely: list[str] = found["impact"]
    note(run, "startup.analysis.complete", "I1", trust_status=docs.trust.value, likely_files=len(likely))
    return Analysis(build, test, found["cores"], docs, likely, prompt, taken, checks)


def ticket_branch(run: Run, ticket: str, prompt: UnderstoodRequest) -> str:
    """The name of the ticket's branch, by the template as it was when it was first asked for."""
    template = run.settle_once("branch", {"template": run.settings.branch})["template"]
    return branch_name(template, ticket, prompt.work, prompt.slug)


async def choose_commands(run: Run, ticket: str, inputs: TicketInputs, found: Commands) -> tuple[Command, Command]:
    """Build and test: what the user says goes over settings, and these over what was found. A project without a build
    has none; one without a test must say so.

    Settings may change between a crash and its resume: what they said first is recorded, and stays.
    """

    def choose(_document: Document) -> list[list[Any] | None]:
        chosen = said_by_people(run, inputs).over(found)
        return [[one.text, one.origin, one.by_person] if one else None for one in (chosen.build, chosen.test)]

    build, test = await run.read(f"{home(ticket)}/progress.yaml", choose)
    if test is None:
        raise TicketError(
            "ERROR: no build/test command found; give --build and --test",
            where="project files",
            expected="a project file that says how to test",
            found="no test command",
            remedy="Give it with --test, or in [ticket] of interlock.toml; --test none if there is nothing to test.",
        )
    return Command(*(build or (NONE, NO_FILE))), Command(*test)


def said_by_people(run: Run, inputs: TicketInputs) -> Commands:
    """The commands that a person gives with this start, or has put into the settings."""

    def said(text: str | None, origin: str) -> Command | None:
        return Command(text, origin, by_person=True) if text else None

    settings = run.settings
    given = Commands(said(inputs.build, "--build"), said(inputs.test, "--test"))
    return given.over(Commands(said(settings.build_command, SETTINGS), said(settings.test_command, SETTINGS)))


def named_settings(run: Run, inputs: TicketInputs) -> dict[str, Any]:
    """What people say of the ticket beside its commands: in the settings, and by the options that were given."""
    given = {
        "--max-parallel-tasks": inputs.max_parallel,
        "--no-fast-path": not inputs.fast_path,
        "--base": inputs.base,
    }
    said = {name: getattr(run.settings, name) for name in ("max_parallel_tasks", "fast_path", "base", "branch")}
    return {**said, **{name: value for name, value in given.items() if value}}


async def count_cores(run: Run) -> str:
    """What the machine says of its processors, those that this process may use."""
    said = await run.command(
        ("sh", "-c", "nproc 2>/dev/null || getconf _NPROCESSORS_ONLN"), timeout_s=60.0, name="cores", looks=True
    )
    return said.stdout.strip() if said.ok else ""


async def weigh_docs(run: Run) -> DocsState:
    """Whether the documentation can be trusted: hashes and fingerprint are computed anew."""
    digests = {path: (await run.read(path)).digest for path in DOCS}
    return docs_state(digests, await read_cache(run), await workspace_fingerprint(run))


async def read_cache(run: Run) -> object:
    """The data of the cache; nothing where there is none that can be read."""
    document = await run.read(CACHE)
    try:
        return read_yaml(document.text, CACHE) if document.state is DocumentState.OK else None
    except DocumentInvalid:
        return None


async def workspace_fingerprint(run: Run) -> str:
    digests = {path: await run.read(path, digest_of) for path in await run.repository.tracked(MANIFESTS)}
    return fingerprint(await run.repository.listing(NOT_LISTED), digests)


async def scan_impact(run: Run, asked: str) -> list[str]:
    return await run.repository.search(search_terms(asked), files=MOST_FILES, largest=LARGEST, most=SHOWN)


def read_by_rules(asked: str) -> UnderstoodRequest:
    """I1.E: what a clear request says."""
    work = request.work_type(asked)
    assert work is not None
    return UnderstoodRequest(work, request.slug(asked, work), tuple(request.tool_mandates(asked)))


async def interpret(run: Run, ticket: str, asked: str) -> UnderstoodRequest:
    path = f"{home(ticket)}/prompt.yaml"
    rule = prompt_rule(ticket, asked, "2026-01-01T00:00:00Z")

    async def ask(*answered: Any) -> Mapping[str, Any]:
        report: Report = await run.dispatch(briefs.interpreter(ticket, asked, rule, *answered))
        run.note("artifact.check", path=path, outcome=report.outcome, complaints=report.complaints)
        if report.outcome is not Outcome.OK:
            raise Stop(Ending.failed(failure("Interpreter", report, path)))
        return dict(read_yaml(report.text(path), path))

    data = await ask()
    if questions := questions_of(data):
        question = "\n".join(["The Interpreter asks:", *(f"- {one}" for one in questions)])
        decision = await run.gate("questions", question, choices=())
        data = await ask(decision.choice, questions)
    if "slug" not in data:
        raise Stop(Ending.failed("ERROR: prompt.yaml: the Interpreter asked again instead of writing it. STOPPING."))
    return UnderstoodRequest(WorkKind(data["type"]), str(data["slug"]), by_code=False)


# -- I2


async def initialize(run: Run, ticket: str, inputs: TicketInputs, analysis: Analysis) -> Ledger:
    """I2: prompt.yaml, progress.yaml, the lines in .gitignore, and the log."""
    now, prompt, asked = stamp(run.now()), analysis.prompt, inputs.request
    head, branch = (await run.repository.where()).head, ticket_branch(run, ticket, prompt)
    if prompt.by_code:
        plain, criteria = request.refined(asked), request.success_criteria(asked)
        text = render_prompt(ticket, prompt.work, prompt.slug, prompt.mandates, asked, plain, criteria, now)
        await run.write(f"{home(ticket)}/prompt.yaml", text, anew=True)

    def begin(document: Document) -> Edit:
        if document.state is not DocumentState.MISSING:
            raise bad_document(document.path, "somebody has begun this ticket meanwhile")
        # Computed once: these settings, too, may be others when this is replayed.
        commands = {"build": analysis.build, "test": analysis.test}
        found = {
            "jira": ticket,
            "type": prompt.work.value,
            "slug": prompt.slug,
            "branch": branch,
            **({"existing_branch": analysis.existing_branch} if analysis.existing_branch else {}),
            **{f"{name}_command": command.text for name, command in commands.items()},
            "command_origins": {name: command.origin for name, command in commands.items()},
            "named_commands": {name: command.text for name, command in commands.items() if command.by_person},
            "max_parallel_tasks": parallel_tasks(
                analysis.cores, inputs.max_parallel or run.settings.max_parallel_tasks
            ),
            "git_head": head,
            "baseline": {"run": run.identity.run_id, **analysis.checks.baseline},
        }
        options = {
            "fast_path": inputs.fast_path and run.settings.fast_path,
            "named_settings": named_settings(run, inputs),
        }
        content = first_progress(found, analysis.docs, impact(analysis.likely), options=options, now=now)
        return Edit(content.encode(), None)

    path = f"{home(ticket)}/progress.yaml"
    await run.update(path, begin, what={"begin": ticket})
    document = await run.read(path)
    ledger = Ledger(run, ticket, document)
    ledger.head, ledger.checks = head, analysis.checks
    await run.write(f"{home(ticket)}/tmp/progress.bak.yaml", document.text)
    await hide_prompts(run)
    ledger.log("start", branch=ledger.branch, type=prompt.work.value, by_code=prompt.by_code)
    await ledger.publish()
    return ledger
