"""What a judge claims is run (EVID-03, EVID-04).

Each check that a pass names runs in a fresh layer on the judged tree.  One that does not run as told runs once more in
the judge's own layer as it left it: what agrees there only is told, and is not the one green check; what agrees nowhere
is refuted, and the judge is asked once more, with the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.engine import checks
from interlock.engine import events as ev
from interlock.engine.forms import Claim, judge
from interlock.engine.world import Command
from interlock.workspace.values import Remark, RemarkKind, Tree

if TYPE_CHECKING:
    from interlock.engine.dispatch import Ground
    from interlock.engine.run import Call, Run


async def rule(run: Run, call: Call, report: ev.Report, form: Any, ground: Ground, *, last: bool) -> ev.Report:
    """A judge's report with the ruling; with a complaint, unless it is the `last`, where it contradicts itself or what
    ran."""
    claim: Claim = form.claim(call.criteria)
    # With what it may add, and has: a test of its own is a check like any other.
    tree = report.did.work if report.did is not None and call.row.writes else ground.shown
    ran = [await _replayed(run, call, claim, told, ground, tree) for told in claim.checks]
    green = [one.command for one in call.proved if await _green(run, one, ground, tree)]
    ruling = judge(
        claim,
        criteria=call.criteria,
        replayed={check.command: check.word for check in ran},
        green=green,
        ran=bool(call.proved),
        weakened=list(dict.fromkeys(name for one in call.proved for name in one.weakened)),
    )
    if ruling.passes and (run.full.shown_by or {"by": ""})["by"] is None:  # its own may show what the others do not
        for n, one in enumerate(ran):
            command = Command("claim", one.command, timeout_s=run.limits.replay_s)
            if one.word == "agrees" and one.ran and await checks.shows(run, command, one.ran, ground.standing, tree):
                ran[n] = one.model_copy(update={"shows": True})
                break
    only = [check.command for check in ran if check.word == "in its layer only"]
    text = "`{}` runs as told in the judge's own layer only"
    told = (Remark(kind=RemarkKind.BY_PRODUCT, text=text.format(one)) for one in only)
    updates = {"checks": tuple(ran), "ruling": ruling, "shown": tree, "remarks": (*report.remarks, *told)}
    if ruling.contradictions and not last:
        updates["complaint"] = "\n".join(ruling.contradictions)
    return report.model_copy(update=updates)


async def _green(run: Run, proved: ev.Proved, ground: Ground, tree: Tree) -> bool:
    """Whether a command of the engine is green on the very tree that is judged; it runs again if that has changed."""
    if proved.after is None or not proved.after.green or proved.tree == tree:
        return proved.after is not None and proved.after.green
    command = Command(name=proved.name, line=proved.command)
    return (await checks.run_on(run, command, ground.standing, tree)).green


async def _replayed(
    run: Run, call: Call, claim: Claim, told: tuple[str, Any, bool], ground: Ground, tree: Tree
) -> ev.Check:
    line, result, expected = told

    def found(word: Any, why: str = "", ran: ev.Run1 | None = None) -> ev.Check:
        return ev.Check(command=line, told=result, expected=expected, ran=ran, word=word, why=why)

    policy, named = run.limits.replay, {one.command.strip() for one in call.proved}
    if not claim.passes or policy == "off":
        return found("told")
    if policy == "named" and line.strip() not in named:
        return found("told", "only named commands are run again")
    command = Command(name="claim", line=line, timeout_s=run.limits.replay_s)
    first = await checks.run_on(run, command, ground.standing, tree)
    if first.exit is not None and first.green == (result == "green"):
        return found("agrees", ran=first)
    if first.timed_out:
        return found("not run", f"it was not done in {command.timeout_s:.0f} s", first)
    run.recorder.sync()
    own = (await run.world.check(command, ground.standing, ground.shown, seat=ground.seat)).exit
    if own.exit is not None and (own.exit == 0) == (result == "green"):
        return found("in its layer only", ran=first)
    return found("refuted", checks.tail(run, first), first)
