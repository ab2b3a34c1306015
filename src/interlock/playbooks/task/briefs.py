"""What the two agents are told, and what their answers must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.contracts import NO_CHANGE, AnswerFormat, Claim, Contract, Evidence, Outcome, checks_in_data, says_none
from interlock.engine import Dispatch, Kind, NamedCommand, Prompt, Proof, Quoted, Report, failure_context, fenced

AGENTS = ("builder", "reviewer")
WORK = AnswerFormat({"DONE": Outcome.OK, "BLOCKED": Outcome.BLOCKED, "ERROR": Outcome.FAIL}, "DONE")


def complaint(data: Mapping[str, Any]) -> str | None:
    """What an answer of the reviewer lacks; None when it can be used."""
    if data.get("verdict") == "revise" and not texts(data.get("findings")):
        return "verdict revise without a finding; expected findings: at least one, each with its place"
    return None


def claim(data: Mapping[str, Any], _artifacts: Mapping[str, str]) -> Claim:
    """What the reviewer says, and what it puts behind it; a finding speaks against an acceptance."""
    given = data.get("evidence")
    evidence: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    nothing = evidence.get("nothingToRun")
    return Claim(
        data.get("verdict") == "accept",
        Evidence(
            checks=checks_in_data(evidence.get("verification")),
            blocking=texts(data.get("findings")),
            nothing_to_run=nothing.strip() if isinstance(nothing, str) else "",
        ),
        data=evidence,
    )


REVIEW = AnswerFormat(
    {"accept": Outcome.OK, "revise": Outcome.REVISE},
    "accept",
    field="verdict",
    completion="json",
    check_data=complaint,
    example={
        "summary": "It does what was asked.",
        "findings": [],
        "remarks": [],
        "evidence": {"verification": [{"command": "git diff", "exit": 0, "summary": "read as a whole"}]},
    },
)


def texts(value: Any) -> tuple[str, ...]:
    """The sentences of a list in an answer, given as texts or as objects; whatever it is, no error."""
    listed = value if isinstance(value, list) else [value]
    spoken = (": ".join(map(str, one.values())) if isinstance(one, Mapping) else one for one in listed)
    return tuple(text.strip() for text in spoken if isinstance(text, str) and not says_none(text))


def builder(request: str, commands: Sequence[NamedCommand], turn: int, against: Against, unfinished: Any) -> Dispatch:
    """The call that does the work; from the second round on with what speaks against the round before."""
    return Dispatch(
        "builder",
        Prompt.of("work", request=request, commands=[one.command for one in commands], round=turn),
        Contract(answer=WORK, must_change=True),
        failure=against.text,
        writes=("**",),
        attempt=turn,
        starts_from=unfinished,
    )


def reviewer(request: str, proofs: Sequence[Proof], changed: Sequence[str], turn: int) -> Dispatch:
    """The call that judges it, once its checks passed."""
    files = "\n".join(changed) or "none"
    shown = "\n".join(proof.shown for proof in proofs)
    return Dispatch(
        "reviewer",
        Prompt.of("review", request=request, checked=bool(proofs), round=turn),
        Contract(answer=REVIEW, claim=claim),
        context=(Quoted("Changed files", files), *([Quoted("Checks, run by interlock", shown)] if proofs else ())),
        kind=Kind.JUDGE,
        attempt=turn,
    )


# -- what goes back


@dataclass(frozen=True)
class Against:
    """What speaks against a round."""

    headline: str = ""
    """In a sentence, for people."""
    text: str = ""
    """Whole, for whoever mends it."""
    renewed: tuple[str, ...] = ()
    """It holds only with these as they are now: they say what a check does, and a person may want them so."""

    def then(self, later: Against) -> Against:
        """Both: what is in the tree still has the fault of before."""
        text = "\n\n".join(filter(None, (self.text, later.text)))
        return Against(self.headline or later.headline, text, self.renewed)


UNDONE = Against(
    "every file is again as it was before the first round",
    "Every file is again as it was before the first round: what the rounds did comes to nothing. Do what is asked, or "
    f"say why nothing needs changing, in a line `{NO_CHANGE}: the reason`.",
)


def by_checks(proofs: Sequence[Proof]) -> Against:
    """The check that is red, with the end of what it printed."""
    red = next(proof for proof in proofs if not proof.ok)
    return Against(red.shown, fenced(Quoted(red.shown, red.tail), "The end of what it printed:"), red.definitions)


def by_review(review: Report) -> Against:
    """What the reviewer objects to, and what in its own answer speaks against it."""
    return _listed("the reviewer objects", (*texts((review.data or {}).get("findings")), *review.complaints))


def by_what_was_noticed(noticed: Sequence[str]) -> Against:
    """What cannot be accepted unseen."""
    return _listed("nobody reviews this change, so this cannot be accepted", noticed)


def by_its_contract(built: Report) -> Against:
    """Why the work itself could not be taken over."""
    return Against(f"the builder fell short: {words_of(built)}", failure_context(built))


def _listed(what: str, texts: Sequence[str]) -> Against:
    listed = list(dict.fromkeys(texts))
    return Against(f"{what}: {listed[0]}", "\n".join((f"{what.capitalize()}:", *(f"- {text}" for text in listed))))


def words_of(report: Report) -> str:
    """How a call ended that did not end well."""
    said = report.detail if report.detail not in report.complaints else ""
    return ": ".join(filter(None, (report.reason, *report.complaints[:1], said))) or report.outcome.value
