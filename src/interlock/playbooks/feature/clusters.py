"""The three clusters that are decided by the engine: critics of the design, verifiers, reviewers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from interlock.documents import Document
from interlock.engine import Changed, Report
from interlock.playbooks.feature.briefs import Brief
from interlock.playbooks.feature.crew import Crew, Halt, Heard
from interlock.playbooks.feature.decisions import (
    FOREIGN_BLOCKER,
    Critic,
    Result,
    Review,
    Reviewed,
    Said,
    Tier,
    Verified,
    Verifier,
    critic,
    ct_cluster,
    r_cluster,
    review_tier,
    reviewer,
    v_cluster,
    verifier,
)
from interlock.playbooks.feature.layout import CRITICS, FEATURES, R_KNOWLEDGE, R_SECURITY, REVIEWERS, V_BUILD, VERIFIERS
from interlock.playbooks.feature.memory_file import MemoryFile
from interlock.playbooks.feature.run_log import grown, plain
from interlock.playbooks.feature.stages import Move

BLOCKING = ("r-quality", R_SECURITY, "r-testing")
"""Reviewers that count; r-knowledge never blocks."""
LABEL = {
    **{name: f"V-{name.removeprefix('v-').capitalize()}" for name in VERIFIERS},
    **{name: f"R-{name.removeprefix('r-').capitalize()}" for name in REVIEWERS},
}


# -- CT


async def critics(crew: Crew, iteration: int) -> Result:
    """One round of the CT cluster, decided from the critics' memories."""
    run = crew.run
    with run.step("3b"):
        heard = await crew.pattern_a("ct", [crew.desk.critic(name) for name in CRITICS], iteration=iteration)
        memories = await crew.judged(heard)
        judged = {name: critic(heard[name].said, memories[name]) for name in CRITICS}
        result = run.decide(ct_cluster, list(judged.values()), named=severities(judged))
        if result is Result.ERROR:
            await run.wait(1.0)
            memories = await crew.judged(heard)
            judged = {name: critic(heard[name].said, memories[name]) for name in CRITICS}
            result = run.decide(ct_cluster, list(judged.values()), named=severities(judged))
        values = ", ".join(one.shown for one in judged.values())
        number = crew.numbered("ct")
        said = f"CT cluster decision: severity values [{values}], result: {result}. Decision {number}."
        await crew.merge(present(memories), *warnings(judged), *disproved(heard), said)
        crew.summarize("3b", "ct", list(heard.values()), result, number)
        if result is Result.ERROR:
            usable = sum(one.usable for one in judged.values())
            crew.go(Move.NO_QUORUM)
            raise Halt(f"CT cluster: {usable} of 4 usable; at least 2 required ({reasons(heard)})", failed_keys(heard))
        return result


def severities(judged: Mapping[str, Critic]) -> dict[str, str]:
    """What each critic says, by what it looks at."""
    return {name.removeprefix("ct-"): one.shown for name, one in judged.items()}


# -- V


async def verification(crew: Crew, strict: bool) -> Verified:
    """One round of the whole V cluster, decided from the verifiers' memories and from what the engine knows itself: how
    the commands end that a person named, which are run behind the build, and which tasks are not done."""
    run = crew.run
    crew.verifications += 1
    with run.step("6"):
        await crew.clear(VERIFIERS)
        brief = partial(verifier_brief, crew)
        heard = await crew.pattern_b(
            brief(V_BUILD),
            crew.prove,
            lambda: [brief(name) for name in VERIFIERS[1:]],
            lambda said, memory: verifier(V_BUILD, said, memory).said is Said.DONE,
            iteration=crew.verifications,
        )
        crew.against = (*crew.unfinished, *crew.red)
        memories = await crew.judged(heard)
        judged = {
            name: verifier(name, heard[name].said, memories[name]) if name in heard else Verifier(Said.MISSING)
            for name in VERIFIERS
        }
        statuses = [judged[name].said for name in VERIFIERS]
        crew.verified = run.decide(v_cluster, *statuses, strict, crew.against)
        crew.disproved = disproved(heard)
        crew.unverified = tuple(name for name in VERIFIERS if not judged[name].said.usable)
        shown = ", ".join(f"{LABEL[name]}={judged[name].said}" for name in VERIFIERS)
        number = crew.numbered("v")
        said = f"V cluster decision: {shown}, result: {crew.verified.result}. Decision {number}."
        known = (f"Against the work: {one}." for one in crew.against)
        await crew.merge(present(memories), *warnings(judged), *crew.disproved, *known, said, step="6")
        crew.summarize("6", "v", list(heard.values()), crew.verified.result, number)
        return crew.verified


def verifier_brief(crew: Crew, name: str) -> Brief:
    proofs = crew.proofs if name != V_BUILD else ()  # they are of an older tree there
    return crew.desk.verifier(name, list(crew.tasks), crew.state_of_tasks, proofs)


# -- R


@dataclass(frozen=True)
class Panel:
    """A round of the R cluster and what it came to."""

    heard: Mapping[str, Heard]
    memories: Mapping[str, MemoryFile | None]
    reviews: Mapping[str, Review]
    reviewed: Reviewed
    tier: Tier
    changed: Changed


async def reviewers(crew: Crew) -> Panel:
    """One round of the whole R cluster, at the depth that the change deserves."""
    run, at = crew.run, crew.at
    crew.reviews += 1
    changed = await run.changes(crew.base, besides=(f"{FEATURES}/**",), only=crew.changed)
    tier = run.decide(review_tier, changed.paths, changed.lines)
    run.note("review.tier", tier=tier, files=len(changed.paths), lines=changed.lines)
    growing = {path: (await run.read(path)).text for path in (at.decisions, at.suggestions)}
    specs = [crew.desk.reviewer(name, tier, changed) for name in REVIEWERS]
    heard = await crew.pattern_a("r", specs, iteration=crew.reviews)
    await take_additions(crew, heard[R_KNOWLEDGE].report, growing)
    return await judge_reviews(crew, heard, tier, changed)


async def confirm(crew: Crew, panel: Panel) -> Panel:
    """The security reviewer looks once more; its second result stands, and the first is not forgotten."""
    crew.confirmations -= 1
    first = panel.reviews[R_SECURITY].shown
    spec = crew.desk.reviewer(R_SECURITY, panel.tier, panel.changed, step="7.3")
    one = await crew.alone(spec, iteration=crew.reviews + 1, pattern="A")
    panel = await judge_reviews(crew, {**panel.heard, R_SECURITY: one}, panel.tier, panel.changed)
    if panel.reviewed in (Reviewed.DONE, Reviewed.NEEDS_REVISION):
        crew.flaws.append(f"r-security: a finding ({first}) was not confirmed by the second look")
    return panel


async def judge_reviews(crew: Crew, heard: Mapping[str, Heard], tier: Tier, changed: Changed) -> Panel:
    """The decision of the R cluster from the reviewers' memories, security before anything else."""
    run = crew.run
    memories = await crew.judged(heard)
    reviews = {name: reviewer(heard[name].said, memories[name]) for name in REVIEWERS}
    for name, one in reviews.items():
        if one.foreign_word:
            run.note("taxonomy.violation", agent=name, value=FOREIGN_BLOCKER)
            run.warn(f'{name}: severity "{FOREIGN_BLOCKER}" is not in Blocker/Major/Minor; treated as Blocker')
    reviewed = run.decide(r_cluster, reviews[R_SECURITY], reviews["r-quality"], reviews["r-testing"])
    if not reviews[R_KNOWLEDGE].said.usable:
        run.warn(f"r-knowledge gave nothing usable; that changes nothing ({heard[R_KNOWLEDGE].why})")
    shown = ", ".join(f"{LABEL[name]}={reviews[name].shown}" for name in (R_SECURITY, "r-quality", "r-testing"))
    number = crew.numbered("r")
    said = (
        f"R cluster decision: {shown}, R-Knowledge={reviews[R_KNOWLEDGE].said} (non-blocking), "
        f"result: {reviewed.result}. Decision {number}."
    )
    judged = {name: reviews[name] for name in BLOCKING}
    await crew.merge(present(memories), *warnings(judged), *disproved(heard), said, step="7")
    crew.summarize("7", "r", list(heard.values()), reviewed.result, number)
    return Panel(heard, memories, reviews, reviewed, tier, changed)


async def take_additions(crew: Crew, report: Report, before: Mapping[str, str]) -> None:
    """Decisions and suggestions only ever grow: what was added is appended to them as they are now, and nothing else of
    an agent's version counts. So what people wrote there meanwhile stays."""
    for path in (path for path in before if path in report.artifacts):
        old, new = before[path], plain(report.text(path))
        now = (await crew.run.read(path)).text
        if grown(now, old, new) != now:
            await crew.run.update(path, partial(_grown, old, new))
        if not new.startswith((old, now)):
            crew.run.warn(f"{crew.at.short(path)}: earlier content changed; kept as it was, new text appended")


def _grown(old: str, new: str, document: Document) -> str:
    return grown(document.text, old, new)


# -- words that all three use


def present(memories: Mapping[str, MemoryFile | None]) -> dict[str, MemoryFile | None]:
    return {name: memory for name, memory in memories.items() if memory is not None}


def warnings(judged: Mapping[str, Critic | Verifier | Review]) -> list[str]:
    """One line for each memory for which the worst was assumed."""
    return [
        f"WARNING: memory/{name}.mem.md missing/malformed — treating as worst-case."
        for name, one in judged.items()
        if one.malformed
    ]


def disproved(heard: Mapping[str, Heard]) -> tuple[str, ...]:
    """One line for each verdict that its own evidence contradicts."""
    return tuple(one.why for one in heard.values() if one.contradicted)


def failed_keys(heard: Mapping[str, Heard]) -> list[str]:
    return [one.report.key for one in heard.values() if one.said is Said.ERROR]


def reasons(heard: Mapping[str, Heard]) -> str:
    return "; ".join(one.why for one in heard.values() if one.why) or "no usable memory"
