"""Everything a dispatch is held to, and the judgement on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.contracts.answer import Answer, AnswerFormat
from interlock.contracts.artifact import Artifact, ArtifactCheck, ArtifactClass, complaint
from interlock.contracts.formats import FEATURE
from interlock.contracts.outcome import UNUSABLE, Outcome, Reason
from interlock.errors import EngineFault


@dataclass(frozen=True)
class Contract:
    """The files an agent must produce and the way it says its verdict."""

    artifacts: tuple[Artifact, ...] = ()
    answer: AnswerFormat = FEATURE

    def __post_init__(self) -> None:
        if self.answer.artifact_is_verdict and not any(artifact.required for artifact in self.artifacts):
            raise EngineFault("a contract whose artifact is the verdict needs a required artifact")


@dataclass(frozen=True)
class Judgement:
    outcome: Outcome
    reason: Reason | None = None
    complaints: tuple[str, ...] = ()
    """What was wrong, one line each, as the agent is told when it is asked again."""


def judge(contract: Contract, answer: Answer, checks: Sequence[ArtifactCheck]) -> Judgement:
    """The final outcome: an answer that claims work counts only if every required artifact passed its check."""
    broken = _broken(contract, checks)
    if answer.outcome is Outcome.FAIL:
        said = (answer.detail,) if answer.detail else ()
        return Judgement(Outcome.FAIL, answer.reason, said + (broken if answer.reason in UNUSABLE else ()))
    if broken and answer.outcome is not Outcome.BLOCKED:
        return Judgement(Outcome.FAIL, Reason.CONTRACT_VIOLATION, broken)
    return Judgement(answer.outcome, complaints=broken)


def _broken(contract: Contract, checks: Sequence[ArtifactCheck]) -> tuple[str, ...]:
    """Complaints about required artifacts; one that was not looked at counts as missing."""
    known = {found.path: found for found in checks}
    looked_at = (
        known.get(artifact.path, ArtifactCheck(artifact.path, ArtifactClass.MISSING))
        for artifact in contract.artifacts
        if artifact.required
    )
    return tuple(complaint(found) for found in looked_at if not found.ok)
