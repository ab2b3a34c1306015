"""`task`: one agent does it, code runs the checks, one reviewer judges; what fails goes back with its evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.forms import Form, Judgement
from interlock.engine.playbook import Playbook
from interlock.engine.run import Based, Call, Command, Outcome, Proved, Report, Row, Run, clash
from interlock.engine.view import View
from interlock.errors import BadInput, Status
from interlock.workspace.values import Tree

ROUNDS = 3


class Inputs(Model):
    """A request, and how it is checked."""

    request: str = Field(description="What is to be done, in your words.")
    check: tuple[str, ...] = Field((), description="A command that decides; `none`: there is none.")
    rounds: int = Field(ROUNDS, ge=1, le=ROUNDS, description="Most rounds of work.")
    review: bool = Field(True, description="A reviewer judges the work.")
    commit: bool = Field(False, description="Commit the work when it is accepted.")
    branch: str = Field("", description="Make the work a commit on this new branch, in place of a delivery.")
    pr: bool = Field(False, description="Push that branch and open a pull request.")
    expect_red: bool = Field(False, description="Stop if every check is green before the work.")
    accept_baseline: bool = Field(False, description="What is red before may stay red.")


class Settings(Model):
    """The table `[task]`."""

    rounds: int = Field(ROUNDS, ge=1, le=ROUNDS)
    review: bool = True
    commit: bool = False


class Built(Form):
    """What the builder may say; its answer is its files."""

    status: Literal["done", "blocked"] = "done"
    summary: str = ""
    already_so: list[str] = Field(default=[], description="If nothing has to be done: the commands that show it.")
    takes_back: list[str] = Field(
        default=[], description="Paths of the person's unsaved work that the request means to remove."
    )


BUILDER = Row("builder", "build", Built, writes=("**",), timeout_s=7200)
REVIEWER = Row("reviewer", "review", Judgement, judges=True)
THE_REQUEST = "the request"


async def task(run: Run, inputs: Inputs) -> Outcome:
    """Rounds of work, checks and review, until it is accepted."""
    with run.step("before"):
        commands = await run.commands(inputs.check)
        if not commands and not inputs.review:
            raise BadInput(
                "nothing would judge this work: there is no check, and --no-review",
                expected="a check (--check CMD, or [commands] in interlock.toml), or a reviewer",
            )
        based = await run.baseline(commands, expect_red=inputs.expect_red)
    if not commands:
        run.warn("no command checks this work: a reviewer alone judges it")

    against, rounds = "", run.start.caps["round"]  # settings may lower it
    async for n in run.loop("round"):
        asked, texts = _build(inputs, based), {"spoke_against": against}
        built = await run.dispatch(Call(BUILDER, inputs=asked, texts=texts, attempt=n, request=inputs.request))
        form = Built.model_validate(built.form or {})
        if form.status == "blocked":
            return Outcome.stopped(f"blocked: {form.summary or 'the agent does not say why'}")
        proved = await run.prove(commands)
        if against := await _spoke(run, built, form, proved):
            continue
        judged = proved[0].tree if proved else None
        if inputs.review:
            asked = _review(run, inputs, based, form, proved)
            call = Call(REVIEWER, inputs=asked, criteria=(THE_REQUEST,), attempt=n, proved=tuple(proved))
            verdict = await run.dispatch(call)
            if against := _refused(verdict):
                continue
            judged = judged or verdict.shown
        beside = await run.rest(commands)
        if against := "\n\n".join(run.against(beside).values()):
            continue
        if question := _question(run, inputs, proved, beside):
            decided = await run.gate("accept", question)
            if decided.choice == "reject":
                against = f"A person was asked: {question} They say: {decided.note}"
                continue
        hooks = await run.hooks(_message(inputs)) if inputs.commit else None
        if hooks and n < rounds:
            against = f"The commit hooks refuse it: {hooks.problem}\n\n{run.text(hooks.out)}"
            continue
        ended = await _finish(run, inputs, n, commands, judged, "a commit hook refuses it" if hooks else "")
        if isinstance(ended, Outcome):
            return ended
        against = ended
    within = f"Not accepted within {rounds} round{'s' if rounds > 1 else ''}"
    reason = f"{within}: {' '.join(against.partition('```')[0].split())[:300]}"
    return Outcome.stopped(reason, next=f"interlock resume {run.id} --note TEXT")


def _build(inputs: Inputs, based: Sequence[Based]) -> dict[str, Any]:
    states = [(one.command, "green" if one.run.green else "red") for one in based]
    return {
        "request": inputs.request,
        "checks": [{"command": line, "state": state, "red": state == "red"} for line, state in states],
        "all_green": bool(based) and all(one.run.green for one in based),
        "accept_baseline": inputs.accept_baseline,
    }


def _review(run: Run, inputs: Inputs, based: Sequence[Based], form: Built, proved: Sequence[Proved]) -> dict[str, Any]:
    return {
        **_build(inputs, based),
        "files": sorted({path for call in run.view.calls.values() if call.report for path in call.report.paths}),
        "summary": form.summary,
        "already_so": form.already_so,
        "shown": bool((run.view.shown_by or {}).get("by")) or not proved,
        "weakened": _weakened(proved),
    }


async def _spoke(run: Run, built: Report, form: Built, proved: Sequence[Proved]) -> str:
    """What speaks against the work before anybody judges it; empty: nothing."""
    if built.reason == "conflict":
        return clash(built.conflicts)
    if red := run.against(proved):
        return "\n\n".join(red.values())
    return "" if run.has_work else await run.idle(form.already_so)


def _refused(verdict: Report) -> str:
    ruling = verdict.ruling
    if verdict.reason == "conflict":
        return clash(verdict.conflicts)
    if ruling is not None and ruling.passes:
        return ""
    said = ruling.against if ruling else ("it gave no verdict",)
    words = "accepts it, but that does not stand" if ruling and ruling.said else "does not accept it"
    return f"The reviewer {words}:\n\n" + "\n".join(f"- {line}" for line in said)


def _weakened(proved: Sequence[Proved]) -> list[str]:
    return list(dict.fromkeys(name for one in proved for name in one.weakened))


def _question(run: Run, inputs: Inputs, proved: Sequence[Proved], beside: Sequence[Proved]) -> str:
    """What a person is asked before the work is accepted; empty: nothing."""
    if (weak := _weakened([*proved, *beside])) and (run.limits.weakened == "ask" or not inputs.review):
        return f"Accept weakened checks: {', '.join(weak)}?"
    if run.has_work and not inputs.review and not any(one.after and one.after.green for one in proved):
        return "Accept this work, although no green check shows it?"
    return ""


async def _finish(
    run: Run, inputs: Inputs, n: int, commands: Sequence[Command], judged: Tree | None, problem: str
) -> Outcome | str:
    """Deliver what was accepted, or commit it where that was asked for; a conflict, which goes back.

    Args:
        problem: what is known against a commit.
    """
    said, message, branch = f"Accepted in round {n}", _message(inputs), _branch(inputs)
    if not branch:
        landed = await run.land(commands, judged, f"{n}-")
        if landed.state == "conflict":
            return "\n\n".join(landed.against)
        if landed.against:
            return Outcome.stopped(f"{said}, but your tree changed meanwhile: {'; '.join(landed.against)}")
        if landed.state == "away" and not inputs.commit:
            said = f"{said}; another branch is checked out, so nothing was delivered"
            return Outcome.degraded(said, next=f"interlock apply {run.id}")
        if not inputs.commit:
            return Outcome.complete(said, next="interlock diff")
    if not problem and run.against(await run.prove_commit(commands, message, branch)):
        problem = "red without what you have not committed"
    made = None if problem else await run.commit(message, branch=branch)
    if made is None or made.problem:
        no, look = ("no branch", "apply") if branch else ("not committed", "diff")
        why = f"{said}; {no}: {made.problem if made else problem}"
        return Outcome.degraded(why, next=f"interlock {look} {run.id}")
    if not branch:
        return Outcome.complete(f"{said}, commit {made.commit[:10]}", next=f"git show {made.commit[:10]}")
    if not inputs.pr:
        return Outcome.complete(f"{said}, on branch {branch}", next=f"git diff HEAD...{branch}")
    opened = await run.pull_request(branch, message.splitlines()[0], run.receipt())
    if opened.problem:
        return Outcome.degraded(f"{said}, on branch {branch}; no pull request: {opened.problem}", next=opened.url)
    return Outcome.complete(f"{said}: {opened.url}", next=opened.url)


def _message(inputs: Inputs) -> str:
    first, _, rest = inputs.request.strip().partition("\n")
    if len(first) > 72:
        first, rest = first[:72].rsplit(" ", 1)[0], inputs.request.strip()
    return f"{first}\n\n{rest.strip()}".strip() + "\n"


def _branch(inputs: Inputs) -> str:
    """The new branch that was asked for; empty: the run's own."""
    slug = re.sub("[^a-z0-9]+", "-", inputs.request.lower()).strip("-")[:40].strip("-") or "task"
    return inputs.branch or (f"interlock/{slug}" if inputs.pr else "")


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    if not inputs.request.strip():
        raise BadInput("the request is empty", expected="what is to be done, in your words")
    if "none" in inputs.check and not inputs.review:
        raise BadInput("nothing would judge this work: --check none and --no-review", expected="one of the two")
    if (inputs.commit or inputs.branch or inputs.pr) and (why := refuses(_branch(inputs))):
        raise BadInput(f"nothing could be committed: {why}", where="--branch" if inputs.branch else "--commit")


def _by_its_last_word(view: View) -> bool:
    """Whatever is accepted was accepted by the reviewer, where there is one, and nobody worked on it since."""
    last = list(view.calls.values())[-1:]
    if view.start is None or not view.start.inputs["review"] or view.status not in (Status.COMPLETE, Status.DEGRADED):
        return True
    return any(call.report and call.report.ruling and call.report.ruling.passes for call in last)


def _unpaid(view: View) -> bool:
    """No reviewer is paid while a check is red because of the work."""
    for step in view.steps:
        red: dict[str, bool] = {}
        for key in step.keys:
            if (pair := view.ran.get(key)) is not None and pair.proved is not None:
                red[pair.name] = pair.proved.red
            elif any(red.values()) and key in view.calls and view.calls[key].agent == REVIEWER.agent:
                return False
    return True


def _blocked(view: View) -> bool:
    """Who says `blocked` has the last word."""
    said = [call.report.form.get("status") for call in view.calls.values() if call.report and call.report.form]
    return "blocked" not in said[:-1] and ("blocked" not in said or view.status is Status.STOPPED)


def _as_asked(view: View) -> bool:
    """Commits are made where they were asked for, and complete is what made them."""
    asked = view.start is not None and any(view.start.inputs[name] for name in ("commit", "branch", "pr"))
    made = any(one.commit for one in view.committed)
    return asked or not made if view.status is not Status.COMPLETE else asked == made


TASK = Playbook(
    name="task",
    play=task,
    inputs=Inputs,
    rows=(BUILDER, REVIEWER),
    caps={"round": ROUNDS},
    headline=lambda inputs: inputs.request,
    key=lambda inputs, where: f"{' '.join(inputs.request.split())} @ {where.place} @ {where.branch}",
    package="interlock.playbooks.task",
    settings=Settings,
    summary="A request, one agent, your checks, one reviewer.",
    check=_check,
    invariants={
        "what is accepted, the reviewer accepted last": _by_its_last_word,
        "no reviewer is paid for red work": _unpaid,
        "blocked ends it": _blocked,
        "a commit is made where it was asked for": _as_asked,
    },
)
