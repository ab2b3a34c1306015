"""I1 and I2: what the project is, what the request means, and the state document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from interlock.contracts import Outcome
from interlock.documents import Document, DocumentState, read_yaml, render_yaml, stamp
from interlock.engine import NONE, Checks, Command, Commands, Edit, Ending, Option, Run, Stop, find_commands
from interlock.playbooks.ticket import briefs
from interlock.playbooks.ticket.analysis import LARGEST, MOST_FILES, SHOWN, DocsState, parallel_tasks, search_terms
from interlock.playbooks.ticket.artifacts import prompt_rule, questions_of
from interlock.playbooks.ticket.documentation import weigh_docs
from interlock.playbooks.ticket.documents import branch_name, first_progress, home
from interlock.playbooks.ticket.gate import check_branch, hide_prompts, on_ground
from interlock.playbooks.ticket.ledger import Ledger, checks_of, failure
from interlock.playbooks.ticket.request import Clarity, TicketError, WorkKind, clarity, reading
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
class Analysis:
    """What is known of the project before anything is planned."""

    build: Command
    test: Command
    cores: str
    docs: DocsState
    likely: list[str]
    prompt: Mapping[str, Any]
    """The request as it was understood: what prompt.yaml says, or is going to say."""
    by_code: bool
    """No Interpreter was asked."""
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
    search = partial(run.repository.search, search_terms(inputs.request))
    analyses: dict[str, Callable[[], Awaitable[Any]]] = {
        "commands": partial(find_commands, run),
        "cores": partial(count_cores, run),
        "docs": partial(weigh_docs, run),
        "impact": partial(search, files=MOST_FILES, largest=LARGEST, most=SHOWN),
    }
    found = await run.cluster("analysis", analyses, cap=len(analyses))
    docs: DocsState = found["docs"]
    likely: list[str] = found["impact"]
    build, test = await choose_commands(run, ticket, inputs, found["commands"])
    clear = run.decide(clarity, inputs.request) is Clarity.CLEAR
    prompt: Mapping[str, Any] = reading(ticket, inputs.request) if clear else {}
    taken = await check_branch(run, ticket_branch(run, ticket, prompt)) if clear else ""
    checks = checks_of(run, ticket)
    checks.commands = named(run, build, test)
    for name, one in (("build", build), ("test", test)):
        said = f"{name}: {one.text}"
        run.note("progress", text=f"{said}, {'since' if one.origin == NO_FILE else 'from'} {one.origin}", command=said)
    await checks.preflight()
    if (inputs.fresh or inputs.still_fresh) and await run.list(home(ticket), "**/*"):
        await run.set_aside(home(ticket))  # only now: a start that is refused leaves everything where it is
    if not clear:
        prompt = await interpret(run, ticket, inputs.request)
        taken = await check_branch(run, ticket_branch(run, ticket, prompt))
    note(run, "startup.analysis.complete", "I1", trust_status=docs.trust.value, likely_files=len(likely))
    return Analysis(build, test, found["cores"], docs, likely, prompt, clear, taken, checks)


def ticket_branch(run: Run, ticket: str, prompt: Mapping[str, Any]) -> str:
    """The name of the ticket's branch, by the template as it was when it was first asked for."""
    template = run.settle_once("branch", {"template": run.settings.branch})["template"]
    return branch_name(template, ticket, WorkKind(prompt["type"]), str(prompt["slug"]))


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


async def interpret(run: Run, ticket: str, asked: str) -> Mapping[str, Any]:
    """The Interpreter's reading of a request that rules cannot read, after at most one round of questions."""
    path, rule = f"{home(ticket)}/prompt.yaml", prompt_rule(ticket, asked)

    async def ask(*answered: Any) -> Mapping[str, Any]:
        report = await run.dispatch(briefs.interpreter(ticket, asked, rule, *answered))
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
    return data


# -- I2


async def initialize(run: Run, ticket: str, inputs: TicketInputs, analysis: Analysis) -> Ledger:
    """I2: prompt.yaml, progress.yaml, the lines in .gitignore, and the log."""
    now, prompt, path = stamp(run.now()), analysis.prompt, f"{home(ticket)}/progress.yaml"
    head, branch = (await run.repository.where()).head, ticket_branch(run, ticket, prompt)
    if analysis.by_code:
        await run.write(f"{home(ticket)}/prompt.yaml", render_yaml({**prompt, "created_at": now}), anew=True)

    def begin(document: Document) -> Edit:
        if document.state is not DocumentState.MISSING:
            raise TicketError("ERROR: progress.yaml: somebody has begun this ticket meanwhile", where=path)
        # Computed once: these settings, too, may be others when this is replayed.
        commands = {"build": analysis.build, "test": analysis.test}
        most = inputs.max_parallel or run.settings.max_parallel_tasks
        found = {
            "jira": ticket,
            "type": prompt["type"],
            "slug": prompt["slug"],
            "branch": branch,
            **({"existing_branch": analysis.existing_branch} if analysis.existing_branch else {}),
            **{f"{name}_command": command.text for name, command in commands.items()},
            "command_origins": {name: command.origin for name, command in commands.items()},
            "named_commands": {name: command.text for name, command in commands.items() if command.by_person},
            "max_parallel_tasks": parallel_tasks(analysis.cores, most),
        }
        options = {
            "fast_path": inputs.fast_path and run.settings.fast_path,
            "named_settings": named_settings(run, inputs),
        }
        first = first_progress(found, analysis.docs, analysis.likely, options=options, head=head, now=now)
        baseline = {"run": run.identity.run_id, **analysis.checks.baseline}
        return Edit(render_yaml({**first, "baseline": baseline}).encode(), None)

    await run.update(path, begin, what={"begin": ticket})
    document = await run.read(path)
    ledger = Ledger(run, ticket, document)
    ledger.head, ledger.checks = head, analysis.checks
    await run.write(f"{home(ticket)}/tmp/progress.bak.yaml", document.text)
    await hide_prompts(run)
    ledger.log("start", branch=ledger.branch, type=prompt["type"], by_code=analysis.by_code)
    await ledger.publish()
    return ledger
