"""What an artifact or an answer must contain; pure, no I/O."""

from interlock.contracts.answer import Answer, AnswerFormat, parse_answer, sample
from interlock.contracts.artifact import Artifact, ArtifactCheck, ArtifactClass, check, complaint
from interlock.contracts.contract import Contract, Judgement, judge
from interlock.contracts.formats import (
    FEATURE,
    HARNESS,
    ROADMAP,
    ROUTER_JSON,
    ROUTER_TEXT,
    TICKET_ARTIFACT,
    TICKET_TASK,
)
from interlock.contracts.outcome import TRANSIENT, UNUSABLE, Outcome, Reason
from interlock.contracts.structure import (
    AllOf,
    Custom,
    Headings,
    JsonKeys,
    Lines,
    SectionValues,
    Structure,
    YamlKeys,
)

__all__ = [
    "FEATURE",
    "HARNESS",
    "ROADMAP",
    "ROUTER_JSON",
    "ROUTER_TEXT",
    "TICKET_ARTIFACT",
    "TICKET_TASK",
    "TRANSIENT",
    "UNUSABLE",
    "AllOf",
    "Answer",
    "AnswerFormat",
    "Artifact",
    "ArtifactCheck",
    "ArtifactClass",
    "Contract",
    "Custom",
    "Headings",
    "JsonKeys",
    "Judgement",
    "Lines",
    "Outcome",
    "Reason",
    "SectionValues",
    "Structure",
    "YamlKeys",
    "check",
    "complaint",
    "judge",
    "parse_answer",
    "sample",
]
