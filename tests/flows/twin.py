"""The process of `fix.yaml` as somebody would write it in Python."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import Artifact, Contract, Headings, Outcome
from interlock.engine import CommandResult, Dispatch, Ending, Kind, Quoted, Report, Run, Table, playbook
from interlock.flows.calls import VERDICT, reported


@dataclass(frozen=True)
class Issue:
    slug: str
    text: str
    check: str = "true"

    @property
    def plan(self) -> str:
        return f"docs/{self.slug}/plan.md"

    def review(self, name: str) -> str:
        return f"docs/{self.slug}/review-{name}.md"


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Progress(StrEnum):
    MOVING = "moving"
    STUCK = "stuck"


class Move(StrEnum):
    ASK = "ask"
    REVISE = "revise"
    STOP = "stop"


AFTER_REVIEW: Table[Move] = Table(
    "after_review",
    {
        (Verdict.PASS, Progress.MOVING): Move.ASK,
        (Verdict.PASS, Progress.STUCK): Move.ASK,
        (Verdict.FAIL, Progress.MOVING): Move.REVISE,
        (Verdict.FAIL, Progress.STUCK): Move.STOP,
        (Verdict.UNKNOWN, Progress.MOVING): Move.STOP,
        (Verdict.UNKNOWN, Progress.STUCK): Move.STOP,
    },
)


def verdict(checked: CommandResult, reviews: dict[str, Report]) -> Verdict:
    outcomes = {report.outcome for report in reviews.values()}
    if outcomes & {Outcome.FAIL, Outcome.BLOCKED}:
        return Verdict.UNKNOWN
    return Verdict.PASS if checked.ok and outcomes == {Outcome.OK} else Verdict.FAIL


def findings(issue: Issue, checked: CommandResult, reviews: dict[str, Report]) -> str:
    said = [] if checked.ok else [checked.stdout, checked.stderr]
    wanted = [(name, report) for name, report in reviews.items() if report.outcome is Outcome.REVISE]
    return "\n".join(said + [report.text(issue.review(name)) for name, report in wanted])


def planner(issue: Issue) -> Dispatch:
    plan = Artifact(issue.plan, structure=Headings(("## Steps",)))
    return Dispatch("planner", f"Plan the change in small steps: {issue.text}", Contract((plan,), VERDICT))


def builder(issue: Issue, turn: int, found: str) -> Dispatch:
    return Dispatch(
        "builder",
        "Carry out the plan. Settle the findings, if there are any.",
        Contract(answer=VERDICT, must_change=True),
        inputs=(issue.plan,),
        context=(Quoted("Findings", found),) if found else (),
        writes=("src/**", "tests/**"),
        attempt=turn,
    )


def reviewer(issue: Issue, name: str, turn: int) -> Dispatch:
    return Dispatch(
        "reviewer",
        f"Judge the change for {name}. Write your findings to your output.",
        Contract((Artifact(issue.review(name)),), VERDICT, claim=reported),
        inputs=(issue.plan,),
        member=name,
        kind=Kind.JUDGE,
        attempt=turn,
    )


@playbook(
    "fix",
    inputs=Issue,
    key=lambda issue: issue.slug,
    agents=("planner", "builder", "reviewer"),
    caps={"revise": 3},
    needs_roles=False,
)
async def FIX(run: Run, issue: Issue) -> Ending:
    """Plan, build until the reviewers agree, then ask a person."""
    with run.step("plan"):
        plan = await run.dispatch(planner(issue))
    if not plan.ok:
        return Ending.failed(f"no usable plan: {plan.reason or plan.outcome}")

    before = "nothing yet"
    async for turn in run.loop("revise"):
        built = await run.dispatch(builder(issue, turn, before if turn > 1 else ""))
        if not built.ok:
            return Ending.failed(f"the builder did not finish: {built.reason or built.outcome}")
        checked = await run.command(("sh", "-c", issue.check), name="tests")
        reviews = await run.cluster(
            "review",
            {
                name: lambda name=name, turn=turn: run.dispatch(reviewer(issue, name, turn))  # type: ignore[misc]
                for name in ("correctness", "security")
            },
        )
        found = findings(issue, checked, reviews)
        progress = Progress.STUCK if found == before else Progress.MOVING
        match run.decide(AFTER_REVIEW, verdict(checked, reviews), progress):
            case Move.ASK:
                decision = await run.gate("ship", "Ship this change?", shows=(issue.plan,))
                return Ending.complete("shipped\n") if decision.approved else Ending.stopped("rejected")
            case Move.STOP:
                return Ending.stopped("the reviews lead nowhere", found)
            case Move.REVISE:
                before = found
    return Ending.stopped("no agreement within the cap", before)
