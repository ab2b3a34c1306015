"""Everything a dispatch is held to, and the judgement on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from interlock.contracts.answer import PLAIN, SHORT, Answer, AnswerFormat
from interlock.contracts.artifact import Artifact, ArtifactCheck, ArtifactClass, complaint
from interlock.contracts.evidence import Claim, Evidence
from interlock.contracts.outcome import UNUSABLE, Outcome, Reason
from interlock.contracts.structure import labelled
from interlock.documents import Sections
from interlock.errors import EngineFault


@dataclass(frozen=True)
class Contract:
    """The files an agent must produce and the way it says its verdict."""

    artifacts: tuple[Artifact, ...] = ()
    answer: AnswerFormat = PLAIN
    claim: Callable[[Mapping[str, Any], Mapping[str, str]], Claim] | None = None
    """Reads what a judge claims, and its evidence, from the answer's data and the texts of its artifacts."""
    must_change: bool = False
    """It exists to change files beside its artifacts: none, without a reason, is no success (EV-06)."""

    def __post_init__(self) -> None:
        if self.answer.artifact_is_verdict and not any(artifact.required for artifact in self.artifacts):
            raise EngineFault("a contract whose artifact is the verdict needs a required artifact")


@dataclass(frozen=True)
class Judgement:
    outcome: Outcome
    reason: Reason | None = None
    complaints: tuple[str, ...] = ()
    """What was wrong, one line each, as the agent is told when it is asked again."""
    evidence: Evidence = field(default_factory=Evidence)
    passed: bool | None = None
    """What a judge's claim comes to; None where nothing was claimed."""


def judge(
    contract: Contract, answer: Answer, checks: Sequence[ArtifactCheck], texts: Mapping[str, str] | None = None
) -> Judgement:
    """The final outcome: an answer that claims work counts only if every required artifact passed its check, and a pass
    only if its own evidence bears it out.

    Args:
        texts: the artifacts that passed their checks.
    """
    broken = _broken(contract, checks)
    if answer.outcome is Outcome.FAIL:
        said = (answer.detail,) if answer.detail else ()
        return Judgement(Outcome.FAIL, answer.reason, said + (broken if answer.reason in UNUSABLE else ()))
    if broken and answer.outcome is not Outcome.BLOCKED:
        return Judgement(Outcome.FAIL, Reason.CONTRACT_VIOLATION, broken)
    if contract.claim is None or answer.outcome is not Outcome.OK:
        return Judgement(answer.outcome, complaints=broken)
    return _weighed(contract.claim(answer.data or {}, texts or {}))


NO_CHANGE = "No change"
"""The label, in a message or an artifact, behind which an agent says why nothing needed changing."""


def why_no_change(data: Mapping[str, Any] | None, texts: Iterable[str]) -> str:
    """Why an agent that was called to change files changed none, in its own words; empty when it does not say."""
    said = [(data or {}).get(name) for name in ("noChange", "no_change")]
    for text in texts:
        said += (_reasons if len(text) <= SHORT else _reasons.__wrapped__)(text)
    return next((" ".join(value.split()) for value in said if isinstance(value, str) and value.strip()), "")


# A rehearsal hears the same few answers on thousands of paths.
@lru_cache(maxsize=1024)
def _reasons(text: str) -> tuple[str, ...]:
    return tuple(labelled(Sections(text).prose(), NO_CHANGE))


def _weighed(claim: Claim) -> Judgement:
    """What a claim is worth: one against its own evidence counts as the opposite, one without any cannot be used."""
    evidence = claim.shown if claim.passes else claim.evidence
    if claim.passes and (against := evidence.contradictions):
        said = tuple(f"says pass, but: {text}" for text in against)
        return Judgement(Outcome.REVISE, Reason.CONTRADICTED, said, evidence, passed=False)
    if claim.passes and claim.lack:
        return Judgement(Outcome.FAIL, Reason.CONTRACT_VIOLATION, (claim.lack,), evidence)
    return Judgement(Outcome.OK, evidence=evidence, passed=claim.passes)


def _broken(contract: Contract, checks: Sequence[ArtifactCheck]) -> tuple[str, ...]:
    """Complaints about required artifacts; one that was not looked at counts as missing."""
    known = {found.path: found for found in checks}
    looked_at = (
        known.get(artifact.path, ArtifactCheck(artifact.path, ArtifactClass.MISSING))
        for artifact in contract.artifacts
        if artifact.required
    )
    return tuple(complaint(found) for found in looked_at if not found.ok)
