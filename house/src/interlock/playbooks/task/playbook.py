"""`task`: one agent does it, code runs the checks, one reviewer judges; what fails goes back with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.forms import Form, Judgement
from interlock.engine.playbook import Playbook
from interlock.engine.run import Based, Call, Command, Outcome, Proved, Report, Row, Run
from interlock.engine.view import View
from interlock.errors import BadInput, Status
from interlock.workspace.values import Tree, Where

ROUNDS = 3
AGAIN = 3
"""Times that checks run once more because the person's tree changed before the delivery."""


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
        named = [line for line in inputs.check if line != "none"]
        commands = [] if "none" in inputs.check else await run.commands(named)
        if not commands and not inputs.review:
            raise BadInput(
                "nothing would judge this work: there is no check, and --no-review",
                expected="a check (--check CMD, or [commands] in interlock.toml), or a reviewer",
            )
        based = await run.baseline(commands, expect_red=inputs.expect_red)
    if not commands:
        run.warn("no command checks this work: a reviewer alone judges it")

    against = ""
    async for n in run.loop("round"):
        asked, texts = _build(inputs, based), {"spoke_against": against}
        built = await run.dispatch(Call(BUILDER, inputs=asked, texts=texts, attempt=n, request=inputs.request))
        form = Built.model_validate(built.form or {})
        if form.status == "blocked":
            return Outcome.stopped(f"blocked: {form.summary or 'the agent does not say why'}")
        proved = await run.prove(commands)
        if against := await _spoke(run, inputs, built, form, proved):
            continue
        judged = proved[0].tree if proved else None
        if inputs.review:
            verdict = await run.dispatch(
                Call(
                    REVIEWER,
                    inputs=_review(run, inputs, based, form, proved),
                    criteria=(THE_REQUEST,),
                    attempt=n,
                    proved=tuple(proved),
                )
            )
            if against := _refused(verdict):
                continue
            judged = judged or verdict.shown
        beside = await run.rest(commands)
        if against := _red(run, beside):
            continue
        if question := _question(run, inputs, proved, beside):
            decided = await run.gate("accept", question)
            if decided.choice == "reject":
                against = f"A person was asked: {question} They say: {decided.note}"
                continue
        if inputs.commit and (hooks := await run.hooks(_message(inputs))):
            against = f"The commit hooks refuse it: {hooks.problem}\n\n{run.text(hooks.out)}"
            if n == inputs.rounds:
                ended = await _finish(run, inputs, n, commands, judged, "a commit hook refuses it")
                if ended is not None:
                    return ended
            continue
        ended = await _finish(run, inputs, n, commands, judged, "")
        if ended is not None:
            return ended
        against = "The person changed the same lines meanwhile: their version stands. Make the change again on it."
    reason = f"Not accepted within {inputs.rounds} rounds: {' '.join(against.partition('```')[0].split())[:300]}"
    return Outcome.stopped(reason, next=f"interlock resume {run.id} --note TEXT")


def _build(inputs: Inputs, based: Sequence[Based]) -> dict[str, Any]:
    return {
        "request": inputs.request,
        "checks": _states(based),
        "all_green": bool(based) and all(one.run.green for one in based),
        "accept_baseline": inputs.accept_baseline,
    }


def _states(based: Sequence[Based]) -> list[dict[str, Any]]:
    return [
        {"command": one.command, "state": "green" if one.run.green else "red", "red": not one.run.green}
        for one in based
    ]


def _review(run: Run, inputs: Inputs, based: Sequence[Based], form: Built, proved: Sequence[Proved]) -> dict[str, Any]:
    return {
        "request": inputs.request,
        "files": sorted({path for call in run.view.calls.values() if call.report for path in call.report.paths}),
        "summary": form.summary,
        "already_so": form.already_so,
        "checks": _states(based),
        "all_green": bool(based) and all(one.run.green for one in based),
        "accept_baseline": inputs.accept_baseline,
        "shown": bool((run.view.shown_by or {}).get("by")) or not proved,
        "weakened": _weakened(proved),
    }


async def _spoke(run: Run, inputs: Inputs, built: Report, form: Built, proved: Sequence[Proved]) -> str:
    """What speaks against the work before anybody judges it; empty: nothing."""
    if built.reason == "conflict":
        paths = ", ".join(built.conflicts)
        return f"The person changed the same lines meanwhile ({paths}): their version stands. Make it again on that."
    if red := _red(run, proved):
        return red
    pair = run.view.pending
    if pair is not None and pair.base != pair.work:
        return ""
    if not form.already_so:
        return "Nothing was changed. If it is so already, name the commands that show it in `already_so`."
    claims = [Command(name=f"claim-{n}", line=line) for n, line in enumerate(form.already_so, 1)]
    shown = await run.prove(claims)
    if not inputs.review and not any(one.after and one.after.green for one in (*shown, *proved)):
        return "You say that it is so already, but no check that shows it is green."
    return _red(run, shown)


def _red(run: Run, proved: Sequence[Proved]) -> str:
    parts = []
    for one in proved:
        if one.word == "conflict":
            return f"The person changed the same lines meanwhile ({', '.join(one.tests)}): their version stands."
        if one.word in ("broken", "still red") and one.after is not None:
            tests = f": {', '.join(one.tests)}" if one.tests else ""
            parts.append(f"`{one.command}` is {one.word}{tests}. {run.tail(one.after)}")
    return "\n\n".join(parts)


def _refused(verdict: Report) -> str:
    ruling = verdict.ruling
    if verdict.reason == "conflict":
        return f"The person changed the same lines meanwhile ({', '.join(verdict.conflicts)}): their version stands."
    if ruling is not None and ruling.passes:
        return ""
    said = ruling.against if ruling else ("it gave no verdict",)
    return "The reviewer does not accept it:\n\n" + "\n".join(f"- {line}" for line in said)


def _weakened(proved: Sequence[Proved]) -> list[str]:
    return list(dict.fromkeys(path for one in proved if one.weak for path in (*one.weak.paths, *one.weak.gone)))


def _question(run: Run, inputs: Inputs, proved: Sequence[Proved], beside: Sequence[Proved]) -> str:
    """What a person is asked before the work is accepted; empty: nothing."""
    if (weak := _weakened([*proved, *beside])) and (run.limits.weakened == "ask" or not inputs.review):
        return f"Accept weakened checks: {', '.join(weak)}?"
    pair = run.view.pending
    changed = pair is not None and pair.base != pair.work
    if changed and not inputs.review and not any(one.after and one.after.green for one in proved):
        return "Accept this work, although no green check shows it?"
    return ""


async def _finish(
    run: Run, inputs: Inputs, n: int, commands: Sequence[Command], judged: Tree | None, hook: str
) -> Outcome | None:
    """Deliver what was accepted, commit it where that was asked for. None: a conflict, and it goes back."""
    said = f"Accepted in round {n}"
    if branch := _branch(inputs):
        return await _on_branch(run, inputs, commands, said, branch)
    for again in range(AGAIN):
        delivered = await run.deliver(f"{n}-{again}", judged)
        if delivered.state != "other":
            break
        proved = await run.prove(commands)
        if _red(run, proved):
            return Outcome.stopped(f"{said}, but your tree changed meanwhile and its checks are red with the work")
        judged = proved[0].tree if proved else delivered.merged
    if delivered.state == "conflict":
        return None
    if delivered.state == "other":
        return Outcome.stopped(f"{said}, but your tree changed each time that its checks ran: nothing was delivered")
    if delivered.state == "away" and not inputs.commit:
        return Outcome.degraded(
            f"{said}; another branch is checked out, so nothing was delivered", next=f"interlock apply {run.id}"
        )
    if not inputs.commit:
        return Outcome.complete(said, next="interlock diff")
    if hook:
        return Outcome.degraded(f"{said}; not committed: {hook}", next="git commit")
    if await _alone_is_red(run, inputs, commands):
        return Outcome.degraded(f"{said}; not committed: red without what you have not committed", next="git commit")
    committed = await run.commit(_message(inputs))
    if committed.problem:
        return Outcome.degraded(f"{said}; not committed: {committed.problem}", next="git commit")
    return Outcome.complete(f"{said}, commit {committed.commit[:10]}", next=f"git show {committed.commit[:10]}")


async def _alone_is_red(run: Run, inputs: Inputs, commands: Sequence[Command], branch: str = "") -> bool:
    """Whether a check is red on what would be committed, where that is not the tree that was judged."""
    return bool(_red(run, await run.prove_commit(commands, _message(inputs), branch)))


async def _on_branch(run: Run, inputs: Inputs, commands: Sequence[Command], said: str, branch: str) -> Outcome:
    if await _alone_is_red(run, inputs, commands, branch):
        return Outcome.degraded(
            f"{said}; no branch: red without what you have not committed", next=f"interlock apply {run.id}"
        )
    committed = await run.commit(_message(inputs), branch=branch)
    if committed.problem:
        return Outcome.degraded(f"{said}; no branch: {committed.problem}", next=f"interlock apply {run.id}")
    if not inputs.pr:
        return Outcome.complete(f"{said}, on branch {branch}", next=f"git diff HEAD...{branch}")
    opened = await run.pull_request(branch, _message(inputs).splitlines()[0], run.receipt())
    if opened.problem:
        return Outcome.degraded(f"{said}, on branch {branch}; no pull request: {opened.problem}", next=opened.url)
    return Outcome.complete(f"{said}: {opened.url}", next=opened.url)


def _message(inputs: Inputs) -> str:
    first, _, rest = inputs.request.strip().partition("\n")
    if len(first) <= 72:
        return f"{first}\n\n{rest.strip()}".strip() + "\n"
    cut = first[:72].rsplit(" ", 1)[0]
    return f"{cut}\n\n{inputs.request.strip()}\n"


def _branch(inputs: Inputs) -> str:
    """The new branch that was asked for; empty: the run's own."""
    return inputs.branch or (f"interlock/{_slug(inputs.request)}" if inputs.pr else "")


def _slug(text: str) -> str:
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in text.lower()).split()
    return "-".join(words)[:40].strip("-") or "task"


def _key(inputs: Inputs, where: Where) -> str:
    return f"{' '.join(inputs.request.split())} @ {where.place} @ {where.branch}"


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
                red[pair.name] = pair.proved.word in ("broken", "still red")
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


INVARIANTS = {
    "what is accepted, the reviewer accepted last": _by_its_last_word,
    "no reviewer is paid for red work": _unpaid,
    "blocked ends it": _blocked,
    "a commit is made where it was asked for": _as_asked,
}


TASK = Playbook(
    name="task",
    play=task,
    inputs=Inputs,
    rows=(BUILDER, REVIEWER),
    caps={"round": ROUNDS},
    headline=lambda inputs: inputs.request,
    key=_key,
    package="interlock.playbooks.task",
    settings=Settings,
    summary="A request, one agent, your checks, one reviewer.",
    check=_check,
    invariants=INVARIANTS,
)
