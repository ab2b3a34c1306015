"""What came back from an agent: what its layer holds, which artifacts, what verdict. Claims count for nothing here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from interlock.agents.runner import AgentExit, FileOutput
from interlock.contracts import (
    NO_CHANGE,
    Answer,
    ArtifactCheck,
    Judgement,
    Outcome,
    Reason,
    check,
    is_definition,
    judge,
    parse_answer,
    weakened,
    why_no_change,
)
from interlock.engine.model import Kind, Report
from interlock.engine.plan import DispatchPlan, Try
from interlock.engine.world import redacted
from interlock.workspace import ChangeKind, Found, Scope

if TYPE_CHECKING:
    from interlock.engine.recording import Recording, Slot

READ_OF_ANSWER = 1_000_000
"""Bytes at the end of an answer in which its verdict is looked for."""
SHOWN_OF_PATCH = 20_000
NAMED = 10
"""Files that a complaint names."""

BYPRODUCTS = Scope(
    (
        *("**/__pycache__/**", "**/.pytest_cache/**", "**/.mypy_cache/**", "**/.ruff_cache/**", "**/*.pyc"),
        *("**/.coverage", "**/.coverage.*", "**/htmlcov/**", "**/.nyc_output/**", "**/*.egg-info/**"),
    )
)
"""What running tests leaves in projects that do not ignore it: neither a violation nor a part of the work."""


@dataclass(frozen=True)
class SortedChanges:
    """The changes of one dispatch, each in exactly one place (EN-35)."""

    mine: tuple[str, ...] = ()
    """In scope: the dispatch's own work."""
    foreign: tuple[str, ...] = ()
    """State documents: not taken and reported, the outcome stands."""
    violations: tuple[str, ...] = ()
    """Out of scope: kept as a patch, and the dispatch failed."""
    dropped: tuple[str, ...] = ()
    """New files that a judge's builds and tests left, the outcome stands."""
    byproducts: tuple[str, ...] = ()
    """Caches that the project does not ignore; nobody misses them."""


NOTHING_CHANGED = SortedChanges()


def sort_changes(
    found: Found, *, covers: Callable[[str], bool], is_state: Callable[[str], bool], kind: Kind
) -> SortedChanges:
    """Whose is what, in what a layer holds. Pure."""
    if not found.changes:
        return NOTHING_CHANGED
    mine, foreign, violations, dropped, byproducts = [], [], [], [], []
    for change in found.changes:
        path = change.path
        if change.kind is ChangeKind.ADDED and BYPRODUCTS.covers(path):
            byproducts.append(path)
        elif is_state(path):
            foreign.append(path)
        elif covers(path) and path not in found.refused and not (kind is Kind.JUDGE and decides_checks(path)):
            mine.append(path)
        elif kind is Kind.JUDGE and change.kind is ChangeKind.ADDED:
            dropped.append(path)
        else:
            violations.append(path)
    return SortedChanges(tuple(mine), tuple(foreign), tuple(violations), tuple(dropped), tuple(byproducts))


def decides_checks(path: str) -> bool:
    """Whether a file says which tests there are and how they are run: no judge changes the question, whatever it may
    write."""
    return is_definition(path) or path.rsplit("/", 1)[-1] in (".gitignore", ".gitattributes")


@dataclass(frozen=True)
class KeptAnswer:
    digest: str
    path: str
    size: int


class Examiner:
    def __init__(self, run: Recording) -> None:
        self._run = run
        self._world = run.world

    async def examine(self, trial: Try, exit_: AgentExit, ended: datetime) -> tuple[Report, int]:
        """The report on one try, and the size of its answer."""
        plan, layer = trial.plan, trial.layer
        spec, slot = plan.spec, plan.slot
        found = await layer.found()
        changes = sort_changes(
            found,
            covers=plan.scope.covers,
            is_state=lambda path: path not in spec.owed and self._run.state_scope.covers(path),
            kind=spec.kind,
        )
        guarded = tuple(path for path in found.ignored if self._is_planted(plan, path))
        violations = (*changes.violations, *guarded)
        outside_patch = await self._keep_outside(trial, changes, violations, found)
        violations = tuple(dict.fromkeys((*violations, *seen_before(slot, "scope.violation"))))
        work = await layer.work(changes.mine) if changes.mine else None
        difference, patch = b"", ""
        if work is not None:
            difference = redacted(self._world, await self._world.patch_of(work))
            patch = self._world.records.keep(slot.key, "changes.patch", difference)
        artifacts, checks = self._artifacts(trial)
        texts = {path: self._text(digest) for path, digest in artifacts.items()}
        message = self._world.redact(exit_.output.tail(READ_OF_ANSWER).decode("utf-8", "replace"))
        answer = self._answer(plan, exit_, message)
        verdict = judge(spec.contract, answer, checks, texts)
        no_change = ""
        if spec.contract.must_change and not [path for path in changes.mine if path not in spec.owed]:
            no_change = why_no_change(answer.data, (message, *texts.values()))
            verdict = verdict if no_change else changed_nothing(verdict)
        undone = dict.fromkeys(
            (*changes.dropped, *changes.foreign, *seen_before(slot, "scope.cleaned", "foreign_write"))
        )
        if spec.kind is Kind.JUDGE and undone and verdict.outcome is Outcome.OK:
            verdict = on_another_tree(verdict, tuple(undone))
            await layer.revert([path for path in changes.mine if path in spec.owed])  # it is to be written anew
        verdict = with_refusals(within_scope(verdict, violations, found), exit_.refused)
        kept = self._keep_answer(trial, exit_)
        accepted = verdict.outcome is not Outcome.FAIL
        left_out = {artifact.path for artifact in spec.contract.artifacts if not artifact.imported}
        report = Report(
            key=slot.key,
            agent=spec.agent,
            member=spec.name,
            attempt=trial.request.attempt,
            session=plan.session,
            outcome=verdict.outcome,
            reason=verdict.reason,
            token=answer.token,
            data=answer.data,
            detail=answer.detail,
            complaints=verdict.complaints,
            artifacts=artifacts,
            flaws=tuple(found for found in checks if not found.ok),
            changes=tuple(path for path in changes.mine if path not in left_out),
            violations=violations,
            foreign=changes.foreign,
            dropped=changes.dropped,
            ignored=dict(found.ignored) if accepted and plan.writes_code else {},
            repository=found.repository,
            evidence=verdict.evidence,
            passed=verdict.passed if verdict.outcome is not Outcome.FAIL else None,
            no_change=no_change,
            weakened=(*weakened(difference.decode("utf-8", "replace")), *hidden(found)) if plan.spec.writes else (),
            work=work,
            accepted=accepted,
            patch=patch,
            unfinished="" if accepted else difference[:SHOWN_OF_PATCH].decode("utf-8", "replace"),
            outside_patch=outside_patch[:SHOWN_OF_PATCH].decode("utf-8", "replace"),
            partial=exit_.partial,
            tries=trial.used.total + 1,
            exit_code=exit_.code,
            seconds=round((ended - trial.started).total_seconds(), 3),
            usage=exit_.usage,
            agent_session=exit_.session or "",
            answer_digest=kept.digest,
            answer_path=kept.path,
            load=self._world.records.objects.get,
        )
        return report, kept.size

    def _answer(self, plan: DispatchPlan, exit_: AgentExit, message: str) -> Answer:
        """What the agent said, in the form that its contract asks for."""
        return parse_answer(
            plan.spec.contract.answer,
            code=exit_.code,
            result=exit_.result,
            message=message,
            session=plan.session,
            spawn_error=exit_.spawn_error,
            timed_out=exit_.timed_out,
            partial=exit_.partial,
            fault=(exit_.fault.reason, self._world.redact(exit_.fault.text)) if exit_.fault else None,
        )

    def _is_planted(self, plan: DispatchPlan, path: str) -> bool:
        """Whether something that the project ignores is still not to be changed: it steers agents and tools."""
        return plan.writes_code and self._run.guarded(path) and not plan.scope.covers(path.rstrip("/"))

    async def _keep_outside(self, trial: Try, changes: SortedChanges, violations: Sequence[str], found: Found) -> bytes:
        """Keep what was out of bounds as a patch, take it out of the layer, and say it; returns the patch."""
        slot, layer, by = trial.plan.slot, trial.layer, trial.plan.spec.name
        if found.repository:
            slot.append("repository.touched", {"what": list(found.repository), "by": by})
        if changes.dropped:
            slot.append("scope.cleaned", {"paths": list(changes.dropped), "by": by})
        outside = [path for path in (*changes.violations, *changes.foreign) if path not in found.refused]
        patch = b""
        place = ""
        if outside:
            patch = redacted(self._world, await self._world.patch_of(await layer.work(outside)))
            start = slot.intent("dispatch.start")
            place = self._world.records.keep(slot.key, f"outside-{start.seq if start else 0}.patch", patch)
        if violations:
            again = f"git apply {shlex.quote(place)}" if place else ""
            facts = {"paths": list(violations), "patch": place, "by": by, "again": again}
            slot.append("scope.violation", facts | ({"refused": dict(found.refused)} if found.refused else {}))
        if changes.foreign:
            slot.append("foreign_write", {"paths": list(changes.foreign), "patch": place, "by": by})
        # A next try, which goes on in this layer, does not find them.
        await layer.revert([*violations, *changes.foreign, *changes.dropped])
        return patch

    def _artifacts(self, trial: Try) -> tuple[dict[str, str], list[ArtifactCheck]]:
        """The digest of each artifact that passed its check, its content kept, and all checks."""
        objects = self._world.records.objects
        kept, checks = {}, []
        for artifact in trial.plan.spec.contract.artifacts:
            facts = trial.layer.facts(artifact.path)
            found = check(artifact, facts, trial.baseline.facts.get(artifact.path))
            checks.append(found)
            if found.ok and facts.content is not None:
                kept[artifact.path] = objects.put(redacted(self._world, facts.content))
        return kept, checks

    def _text(self, digest: str) -> str:
        return self._world.records.objects.get(digest).decode("utf-8", "replace")

    def _keep_answer(self, trial: Try, exit_: AgentExit) -> KeptAnswer:
        records, request = self._world.records, trial.request
        if exit_.output.size == 0 and exit_.result is not None:
            return KeptAnswer(records.objects.put(exit_.result), records.shown(request.result_path), len(exit_.result))
        if isinstance(exit_.output, FileOutput):
            place = records.shown(request.output_path)
            return KeptAnswer(records.objects.put_file(exit_.output.path), place, exit_.output.size)
        content = exit_.output.read()
        return KeptAnswer(
            records.objects.put(content), records.keep(trial.plan.slot.key, "output.md", content), len(content)
        )


def hidden(found: Found) -> tuple[str, ...]:
    """What says how tests and checks are run and comes along unseen, since the project ignores it."""
    return tuple(
        f"writes {path}, which says how tests and checks are run, where git ignores it"
        for path in sorted(found.ignored)
        if is_definition(path)
    )


def changed_nothing(verdict: Judgement) -> Judgement:
    """Who was called to change files, changed none and does not say why has not succeeded (EV-06)."""
    if verdict.outcome is not Outcome.OK:
        return verdict
    said = f"nothing was changed; do it, or say why nothing needs changing, in a line `{NO_CHANGE}: the reason`"
    return replace(verdict, outcome=Outcome.FAIL, reason=Reason.NO_CHANGE, complaints=(said,))


def on_another_tree(verdict: Judgement, undone: Sequence[str]) -> Judgement:
    """A judge's pass counts only for the tree that is accepted, without what it wrote itself (EV-08)."""
    said = (
        f"you left files that are not part of the work and are gone now: {', '.join(undone[:NAMED])}. What you judged "
        "is not what is there: judge again, and remove what your commands leave before you answer"
    )
    return replace(verdict, outcome=Outcome.FAIL, reason=Reason.CONTRACT_VIOLATION, complaints=(said,))


def with_refusals(verdict: Judgement, refused: Sequence[str]) -> Judgement:
    """Who failed and was not let do something by its own client is told so first: that is likely why (EV-48)."""
    if verdict.outcome is not Outcome.FAIL or not refused:
        return verdict
    said = tuple(f"its client refused: {text}" for text in refused)
    return replace(verdict, complaints=(*said, *verdict.complaints))


def seen_before(slot: Slot, *events: str) -> Iterator[str]:
    """What a process that died meanwhile found in the layer after this call, and took out of it."""
    found = [line for event in events for line in slot.intents(event)]
    start = slot.intent("dispatch.start") if found else None
    for line in found:
        if start is None or line.seq > start.seq:
            yield from line.data["paths"]


def within_scope(verdict: Judgement, violations: Sequence[str], found: Found) -> Judgement:
    """A dispatch that wrote where it may not, or without measure, has failed, whatever it says (EN-35, LY-34)."""
    if not violations and not found.over:
        return verdict
    complaints = (*verdict.complaints, *(_complaint(path, found.refused) for path in violations))
    if found.over:
        complaints = (*complaints, found.over)
    if verdict.outcome is Outcome.FAIL and verdict.reason is not Reason.NO_CHANGE:
        return replace(verdict, complaints=complaints)
    return replace(verdict, outcome=Outcome.FAIL, reason=Reason.SCOPE_VIOLATION, complaints=complaints)


def _complaint(path: str, refused: Mapping[str, str]) -> str:
    if path in refused:
        return f"cannot be taken over: {path} ({refused[path]})"
    return f"changed outside its scope: {path}"
