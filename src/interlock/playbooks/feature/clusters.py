"""The three clusters that are decided by the engine: critics of the design, verifiers, reviewers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from interlock.documents import Document
from interlock.engine import Changed, changed_since, wait
from interlock.playbooks.feature.briefs import JudgesFacts
from interlock.playbooks.feature.calls import Heard, failed_keys, reasons
from interlock.playbooks.feature.decisions import (
    ClusterResult,
    Decided,
    Judged,
    Said,
    Stand,
    Tier,
    Vote,
    ct_cluster,
    judged,
    r_cluster,
    review_tier,
    v_cluster,
)
from interlock.playbooks.feature.layout import FEATURES
from interlock.playbooks.feature.members import CT, ENOUGH, Blocks, Cluster, Member, R, V
from interlock.playbooks.feature.shared_memory import Memories
from interlock.playbooks.feature.work import Verification, Work, halt


@dataclass(frozen=True)
class Round:
    """What the members of a cluster said in one round; of one that was not called, that it is missing."""

    heard: Mapping[str, Heard]
    memories: Memories
    judged: Mapping[str, Judged]

    @property
    def votes(self) -> list[Vote]:
        return [one.vote for one in self.judged.values()]

    @property
    def disproved(self) -> tuple[str, ...]:
        """One line for each verdict that its own evidence contradicts."""
        return tuple(one.why for one in self.heard.values() if one.contradicted)


async def assess(work: Work, rows: Sequence[Member], heard: Mapping[str, Heard]) -> Round:
    """Judge the judges by their answers and private memories, the weightiest first."""
    memories = await work.calls.memories(heard)
    said = {name: one.said for name, one in heard.items()}
    order = sorted(rows, key=lambda row: list(Blocks).index(row.blocks))
    found = {row.name: judged(row, said.get(row.name, Said.MISSING), memories.get(row.name)) for row in order}
    return Round(heard, memories, found)


async def settle(work: Work, cluster: Cluster, rnd: Round, shown: str, result: ClusterResult, *more: str) -> None:
    """Log a decision with its number, and merge the memories that it was made from."""
    work.calls.decided[cluster.name] += 1
    number = work.calls.decided[cluster.name]
    malformed = [
        f"WARNING: memory/{name}.mem.md missing/malformed — treating as worst-case."
        for name, one in rnd.judged.items()
        if one.malformed and name in rnd.heard and one.vote.blocks is not Blocks.NEVER
    ]
    said = f"{cluster.name.upper()} cluster decision: {shown}, result: {result}. Decision {number}."
    there = {name: memory for name, memory in rnd.memories.items() if memory is not None}
    await work.memory.merge(there, *malformed, *rnd.disproved, *more, said, step=cluster.step)
    work.calls.summarize(cluster.step, cluster.name, rnd.heard, result, number)


# -- CT


async def critics(work: Work) -> ClusterResult:
    """One round of the CT cluster, decided from the critics' memories."""
    run, rows = work.run, work.members.of(CT)
    with run.step("3b"):
        heard = await work.calls.together("ct", map(work.briefs.member, rows), "A", work.calls.decided[CT.name] + 1)
        rnd = await assess(work, rows, heard)
        decided = run.decide(ct_cluster, rnd.votes, named=severities(rnd))
        if decided.result is ClusterResult.ERROR:
            await wait(run, 1.0)
            rnd = await assess(work, rows, heard)
            decided = run.decide(ct_cluster, rnd.votes, named=severities(rnd))
        values = ", ".join(severities(rnd).values())
        await settle(work, CT, rnd, f"severity values [{values}]", decided.result)
        if decided.result is ClusterResult.ERROR:
            usable = sum(one.usable for one in rnd.judged.values())
            said = f"CT cluster: {usable} of {len(rows)} usable; at least {ENOUGH} required ({reasons(heard)})"
            raise halt(said, failed_keys(heard))
        return decided.result


def severities(rnd: Round) -> dict[str, str]:
    """What each critic says, by what it looks at."""
    said = {name: one.severity if one.usable else "ERROR" for name, one in rnd.judged.items()}
    return {name.removeprefix(CT.prefix): severity for name, severity in said.items()}


# -- V


async def verification(work: Work) -> Decided:
    """One round of the whole V cluster, decided from the verifiers' memories and from what the engine knows itself: how
    the commands end that a person named, which are run behind the build, and which tasks are not done."""
    run, calls, rows = work.run, work.calls, work.members.of(V)
    gate, others = rows[0], rows[1:]
    number = calls.decided[V.name] + 1
    with run.step("6"):
        await calls.clear(work.members.names(V))
        older = replace(work.known, proofs=())
        brief = replace(work.briefs.member(gate, older), pattern="B", round=number)
        heard = {gate.name: await calls.alone(brief)}
        await work.prove()
        if (await assess(work, [gate], heard)).judged[gate.name].usable:
            briefs = [work.briefs.member(row, work.known) for row in others]
            heard |= await calls.together("side-by-side", briefs, "B", number)
        rnd = await assess(work, rows, heard)
        statuses = {row.aspect: rnd.judged[row.name].status for row in rows}
        against, strict = work.against, work.inputs.strict
        named = {**statuses, "strict": strict, "against": against}
        verified = run.decide(v_cluster, rnd.votes, strict, against, named=named)
        lacking = tuple(row.name for row in rows if not rnd.judged[row.name].usable)
        work.verification = Verification(verified, against, rnd.disproved, lacking)
        shown = ", ".join(f"{row.label}={statuses[row.aspect]}" for row in rows)
        known = (f"Against the work: {one}." for one in against)
        await settle(work, V, rnd, shown, verified.result, *known)
        return verified


# -- R


@dataclass(frozen=True)
class Panel:
    """A round of the R cluster and what it came to."""

    round: Round
    reviewed: Decided
    tier: Tier
    changed: Changed

    @property
    def reviews(self) -> Mapping[str, Judged]:
        return self.round.judged

    def wanting(self, work: Work) -> list[str]:
        """The reviewers that count and are not content."""
        return [name for name in work.members.weighed_reviewers if self.reviews[name].vote.against]


async def reviewers(work: Work) -> Panel:
    """One round of the whole R cluster, at the depth that the change deserves."""
    run, at, rows = work.run, work.at, work.members.of(R)
    changed = await changed_since(run, work.tasks.base, besides=(f"{FEATURES}/**",), only=work.tasks.changed)
    tier = run.decide(review_tier, changed.paths, changed.lines)
    run.note("review.tier", tier=tier, files=len(changed.paths), lines=changed.lines)
    growing = {at.at(path): (await run.read(at.at(path))).text for row in rows for path in row.grows}
    heard = await ask(work, "r", rows, tier, changed)
    for one in heard.values():
        await take_additions(work, one, growing)
    return await judge_reviews(work, heard, tier, changed)


async def ask(
    work: Work, name: str, rows: Sequence[Member], tier: Tier, changed: Changed, step: str = ""
) -> dict[str, Heard]:
    known = JudgesFacts(tier=tier, changed=changed)
    briefs = [work.briefs.member(row, known, step=step) for row in rows]
    return await work.calls.together(name, briefs, "A", work.calls.decided[R.name] + 1)


async def confirm(work: Work, panel: Panel) -> Panel:
    """Those who block alone look once more; their second result stands, and the first is not forgotten."""
    work.confirmations -= 1
    rows = [row for row in work.members.of(R) if stands_alone(panel.reviews[row.name])]
    again = await ask(work, "confirm", rows, panel.tier, panel.changed, step="7.3")
    first = {row.name: panel.reviews[row.name].shown for row in rows}
    panel = await judge_reviews(work, {**panel.round.heard, **again}, panel.tier, panel.changed)
    for name, shown in first.items():
        if panel.reviews[name].usable and not stands_alone(panel.reviews[name]):
            work.flaws.append(f"{name}: a finding ({shown}) was not confirmed by the second look")
    return panel


def stands_alone(one: Judged) -> bool:
    return one.vote.blocks is Blocks.ALONE and one.vote.stand is Stand.WORST


async def judge_reviews(work: Work, heard: Mapping[str, Heard], tier: Tier, changed: Changed) -> Panel:
    """The decision of the R cluster from the reviewers' memories, security before anything else."""
    run = work.run
    rnd = await assess(work, work.members.of(R), heard)
    rows = {row.name: row for row in work.members.of(R)}
    for name, one in rnd.judged.items():
        words = rows[name].words
        if one.foreign:
            run.note("taxonomy.violation", agent=name, value=words.foreign)
            own = "/".join(words.all[:-1])
            run.warn(f'{name}: severity "{words.foreign}" is not in {own}; treated as {words.worst}')
        if not one.usable and not rows[name].weighed:
            run.warn(f"{name} gave nothing usable; that changes nothing ({heard[name].why})")
    said = {name: one.shown if rows[name].weighed else f"{one.said} (non-blocking)" for name, one in rnd.judged.items()}
    reviewed = run.decide(r_cluster, rnd.votes, named={rows[name].aspect: verdict for name, verdict in said.items()})
    shown = ", ".join(f"{rows[name].label}={verdict}" for name, verdict in said.items())
    await settle(work, R, rnd, shown, reviewed.result)
    return Panel(rnd, reviewed, tier, changed)


async def take_additions(work: Work, one: Heard, before: Mapping[str, str]) -> None:
    """Decisions and suggestions only ever grow: what was added is appended to them as they are now, and nothing else of
    an agent's version counts. So what people wrote there meanwhile stays."""
    for path in (path for path in before if path in one.report.artifacts):
        old, new = before[path], plain(one.report.text(path))
        now = (await work.run.read(path)).text
        if grown(now, old, new) != now:
            await work.run.update(path, partial(_grown, old, new))
        if not new.startswith((old, now)):
            work.run.warn(f"{work.at.short(path)}: earlier content changed; kept as it was, new text appended")


def _grown(old: str, new: str, document: Document) -> str:
    return grown(document.text, old, new)


def grown(now: str, old: str, new: str) -> str:
    """The document as it is now with what an agent added to it behind it.

    Args:
        old: as it was before the agent began.
        new: the agent's version; of one that does not begin with the document only the new lines count.
    """
    for begun in sorted((now, old), key=len, reverse=True):
        if new.startswith(begun):
            added = new[len(begun) :]
            between = "\n" if now and not now.endswith("\n") and not added.startswith("\n") else ""
            return now + between + added if added.strip() else now
    there = {*old.splitlines(), *now.splitlines()} - {""}
    lines = [line for line in new.splitlines() if line not in there]
    text = re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{now.rstrip(chr(10))}\n\n{text}\n" if text else now


def plain(text: str) -> str:
    """A document's text as documents are read: no byte order mark, lines ended by LF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
