"""What an artifact or an answer must contain; pure, no I/O."""

from interlock.contracts.answer import PLAIN, Answer, AnswerFormat, parse_answer, sample
from interlock.contracts.artifact import Artifact, ArtifactCheck, ArtifactClass, check, complaint
from interlock.contracts.contract import NO_CHANGE, Contract, Judgement, judge, why_no_change
from interlock.contracts.definitions import holds_programs, is_definition, is_test
from interlock.contracts.documentation import DOCUMENTATION, is_documentation
from interlock.contracts.ended import Check
from interlock.contracts.evidence import FAIL, PASS, Claim, Evidence
from interlock.contracts.marks import failed_marks, open_boxes
from interlock.contracts.meant import past_title
from interlock.contracts.outcome import TRANSIENT, UNUSABLE, Outcome, Reason
from interlock.contracts.reading import checks_in_data
from interlock.contracts.spoken import checks_in_text, nothing_to_run
from interlock.contracts.structure import (
    AllOf,
    Custom,
    Headings,
    Kinds,
    Lines,
    SectionValues,
    Structure,
    TextList,
    YamlKeys,
    alternatives,
    key_problems,
    kind_of,
    labelled,
    quoted,
)
from interlock.contracts.weakening import weakened
from interlock.contracts.words import says_none

__all__ = [
    "DOCUMENTATION",
    "FAIL",
    "NO_CHANGE",
    "PASS",
    "PLAIN",
    "TRANSIENT",
    "UNUSABLE",
    "AllOf",
    "Answer",
    "AnswerFormat",
    "Artifact",
    "ArtifactCheck",
    "ArtifactClass",
    "Check",
    "Claim",
    "Contract",
    "Custom",
    "Evidence",
    "Headings",
    "Judgement",
    "Kinds",
    "Lines",
    "Outcome",
    "Reason",
    "SectionValues",
    "Structure",
    "TextList",
    "YamlKeys",
    "alternatives",
    "check",
    "checks_in_data",
    "checks_in_text",
    "complaint",
    "failed_marks",
    "holds_programs",
    "is_definition",
    "is_documentation",
    "is_test",
    "judge",
    "key_problems",
    "kind_of",
    "labelled",
    "nothing_to_run",
    "open_boxes",
    "parse_answer",
    "past_title",
    "quoted",
    "sample",
    "says_none",
    "weakened",
    "why_no_change",
]
