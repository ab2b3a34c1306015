"""What came back from an agent: whose changes, which artifacts, what verdict. Claims count for nothing here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from interlock.agents.runner import AgentExit, FileOutput
from interlock.contracts import ArtifactCheck, Judgement, Outcome, Reason, check, judge, parse_answer
from interlock.engine.attribution import Attribution, attribute
from interlock.engine.model import Kind, Report
from interlock.engine.plan import Plan, Try, outbox_of
from interlock.engine.sharing import Area, shared_area
from interlock.engine.slot import Slot
from interlock.engine.world import Tree

if TYPE_CHECKING:
    from interlock.engine.run import Run

READ_OF_ANSWER = 1_000_000
"""Bytes at the end of an answer in which its verdict is looked for."""
SHOWN_OF_PATCH = 20_000


@dataclass(frozen=True)
class KeptAnswer:
    digest: str
    path: str
    size: int


class Examiner:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._world = run.world

    async def examine(self, trial: Try, exit_: AgentExit) -> tuple[Report, int]:
        """The report on one try, and the size of its answer."""
        plan, tree, before = trial.plan, trial.tree, trial.before
        spec, slot = plan.spec, plan.slot
        refused = self._import_outbox(trial) if trial.request.contract is not spec.contract else ()
        after = await tree.snapshot()
        found = attribute(
            await tree.changes(before, after),
            covers=plan.scope.covers,
            is_state=lambda path: path not in spec.owed and self._run.state_scope.covers(path),
            kind=spec.kind,
            beside_others=shared_area() is not None and not plan.isolated,
            own=self._run.own_writes,
            digest_now=lambda path: tree.facts(path).digest,
        )
        patch = await self._undo(slot, tree, before, after, found, by=spec.name)
        if found.mine:
            self._world.records.keep(slot.key, "changes.patch", await tree.patch(before, after, found.mine))
        artifacts, checks = self._artifacts(trial)
        answer = parse_answer(
            spec.contract.answer,
            code=exit_.code,
            result=exit_.result,
            message=self._world.redact(exit_.output.tail(READ_OF_ANSWER).decode("utf-8", "replace")),
            session=plan.session,
            spawn_error=exit_.spawn_error,
            timed_out=exit_.timed_out,
            partial=exit_.partial,
            fault=(exit_.fault.reason, self._world.redact(exit_.fault.text)) if exit_.fault else None,
        )
        violations = (*found.violations, *refused)
        verdict = within_scope(judge(spec.contract, answer, checks), violations)
        kept = self._keep_answer(trial, exit_)
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
            changes=found.mine,
            violations=violations,
            foreign=found.foreign,
            left=self._in_nobodys_scope(found.left, tree),
            outside_patch=patch[:SHOWN_OF_PATCH].decode("utf-8", "replace"),
            partial=exit_.partial,
            tries=trial.used.total + 1,
            exit_code=exit_.code,
            seconds=round((self._world.now() - trial.started).total_seconds(), 3),
            usage=exit_.usage,
            agent_session=exit_.session or "",
            answer_digest=kept.digest,
            answer_path=kept.path,
            base=before if plan.isolated else None,
            theirs=after if plan.isolated else None,
            load=self._world.records.objects.get,
        )
        return report, kept.size

    async def clean_up(self, area: Area | None, slot: Slot) -> None:
        """Undo what the members of a cluster changed in nobody's scope; it fails none of them."""
        if area is None or area.commands or (area.before is None and not area.strays):
            return
        tree = self._world.tree
        async with self._world.working():
            after = await tree.snapshot()
            if area.before is not None:
                found = attribute(
                    await tree.changes(area.before, after),
                    covers=area.covers,
                    is_state=lambda path: path not in area.owed and self._run.state_scope.covers(path),
                    kind=Kind.PRODUCER,
                    beside_others=False,
                    own={**self._run.own_writes, **area.spared},
                    digest_now=lambda path: tree.facts(path).digest,
                )
                await self._undo(slot, tree, area.before, after, found, by="nobody", event="scope.cleaned")
            for path, (digest, before) in area.strays.items():
                if not area.covers(path) and tree.facts(path).digest == digest:
                    strays = Attribution(violations=(path,))
                    await self._undo(slot, tree, before, after, strays, by="nobody", event="scope.cleaned")

    def _in_nobodys_scope(self, paths: Sequence[str], tree: Tree) -> dict[str, str | None]:
        """Of the changes made beside others, those that no dispatch of the cluster may have made, with digests."""
        area = shared_area()
        return {path: tree.facts(path).digest for path in paths if area is not None and not area.covers(path)}

    async def merge_at_once(self, plan: Plan, report: Report) -> Report:
        """Bring over the work of a dispatch that settings, not the playbook, put into a worktree (EN-36)."""
        async with self._world.working():
            merged = await self._world.merge(report.base, report.theirs, report.changes, plan.spec.name)
        if merged.ok:
            return report
        conflicts = tuple(f"conflict with an edit made meanwhile: {path}" for path in merged.conflicts)
        return replace(
            report,
            outcome=Outcome.FAIL,
            reason=Reason.CONTRACT_VIOLATION,
            complaints=(*report.complaints, *conflicts),
            outside_patch="\n".join(merged.conflicts.values())[:SHOWN_OF_PATCH],
        )

    async def _undo(
        self,
        slot: Slot,
        tree: Tree,
        before: Any,
        after: Any,
        found: Attribution,
        *,
        by: str,
        event: str = "scope.violation",
    ) -> bytes:
        """Put back what was out of bounds; it is kept as a patch or in the attic, and said."""
        outside = (*found.violations, *found.foreign)
        patch = b""
        if outside:
            patch = await tree.patch(before, after, outside)
            kept = self._world.records.keep(slot.key, "outside.patch", patch)
            await tree.restore(before, outside)
            if found.violations:
                again = f"git apply {shlex.quote(kept)}"
                slot.append(event, {"paths": list(found.violations), "patch": kept, "by": by, "again": again})
            if found.foreign:
                slot.append("foreign_write", {"paths": list(found.foreign), "patch": kept, "by": by})
        if found.byproducts:
            moved = await tree.move_to_attic(found.byproducts, f"{self._run.identity.run_id}/{slot.key}")
            slot.append("scope.cleaned", {"paths": list(found.byproducts), "attic": moved, "by": by})
        return patch

    def _artifacts(self, trial: Try) -> tuple[dict[str, str], list[ArtifactCheck]]:
        """The digest of each artifact that passed its check, its content kept, and all checks."""
        objects = self._world.records.objects
        kept, checks = {}, []
        for artifact in trial.plan.spec.contract.artifacts:
            facts = trial.tree.facts(artifact.path)
            found = check(artifact, facts, trial.baseline.facts.get(artifact.path))
            checks.append(found)
            if found.ok and facts.content is not None:
                kept[artifact.path] = objects.put(facts.content)
        return kept, checks

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

    def _import_outbox(self, trial: Try) -> tuple[str, ...]:
        """Bring what the agent put into its outbox to its real places; returns what it may not write."""
        plan, documents = trial.plan, self._world.documents
        box = outbox_of(trial.request.marker)
        places = documents.list(box, "**/*")
        refused = []
        for place in places:
            path = place[len(box) + 1 :]
            content = documents.facts(place).content
            if not plan.scope.covers(path):
                refused.append(path)
            elif content is not None:
                documents.write(path, content)
        if places:
            attic = f".interlock/attic/{self._run.identity.run_id}/{plan.slot.key}/outbox-{trial.request.attempt}"
            documents.set_aside_to(box, attic)
        return tuple(refused)


def within_scope(verdict: Judgement, violations: Sequence[str]) -> Judgement:
    """A dispatch that wrote where it may not has failed, whatever it says (EN-35)."""
    if not violations:
        return verdict
    complaints = (*verdict.complaints, *(f"changed outside its scope: {path}" for path in violations))
    if verdict.outcome is Outcome.FAIL:
        return replace(verdict, complaints=complaints)
    return Judgement(Outcome.FAIL, Reason.SCOPE_VIOLATION, complaints)
