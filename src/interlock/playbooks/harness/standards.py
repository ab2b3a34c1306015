"""What a workspace's standards say, and whether they agree with what the engine does.

Each standard is prose for people with one fenced YAML block.  The block must equal the engine's own table: a process
that is written down differently from how it runs is an error, not a choice.  The input contracts are the exception:
they are a team's to decide, and are read before each dispatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from interlock.documents import Document, DocumentState, Sections, load_yaml
from interlock.engine import Scope
from interlock.errors import DocumentInvalid, PathRefused
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.escalation import Escalation, one_line
from interlock.playbooks.harness.lifecycle import AGENTS, MOVES, REMEDIATIONS, SEQUENCE, SUFFIXES, Stage, TaskStatus

FOLDER = "harness/standards"
RUN_STATE = f"{FOLDER}/run-state-standard.md"
LIFECYCLE = f"{FOLDER}/task-lifecycle.md"
WORKFLOW = f"{FOLDER}/feature-workflow.md"
RUN_IDS = f"{FOLDER}/run-id-standard.md"
CONTRACTS = f"{FOLDER}/stage-input-contracts.md"
ALL = (RUN_STATE, LIFECYCLE, WORKFLOW, RUN_IDS, CONTRACTS)

TABLES: Mapping[str, Mapping[str, Any]] = {
    RUN_STATE: {"fields": list(run_state.FIELDS)},
    LIFECYCLE: {"stages": [str(stage) for stage in SEQUENCE], "statuses": [str(status) for status in TaskStatus]},
    WORKFLOW: {
        "agents": {str(stage): agent for stage, agent in AGENTS.items()},
        "transitions": [
            {"from": str(source), "to": str(target), "when": finding.value}
            for (source, finding), target in MOVES.items()
        ],
        "remediations": REMEDIATIONS,
    },
    RUN_IDS: {
        "pattern": "RUN-YYYY-MM-DD-TASKID-SUFFIX",
        "suffixes": {str(stage): suffix for stage, suffix in SUFFIXES.items()},
        "remediation": {"Build": "-R<n>", "QA": "-R<n>"},
    },
}
"""What the YAML block of each standard must equal."""

TASK_FILE = "task_file"
ARTIFACT = "artifact:"
PATH = "path:"


def check_standard(document: Document) -> None:
    """Escalation when a standard says something else than the engine does."""
    path, table = document.path, TABLES[document.path]
    said = _the_block(_text(document), path)
    if said == table:
        return
    differing = [name for name in {**table, **said} if said.get(name) != table.get(name)]
    name = differing[0]
    raise Escalation(
        f"{path}: standard disagrees with engine: {name}",
        cure="Make the YAML block equal to the one that 'interlock init --playbook harness' writes.",
        path=path,
        expected=f"{name}: {table.get(name)}",
    )


@lru_cache(maxsize=16)
def _the_block(text: str, path: str) -> Mapping[str, Any]:
    blocks = Sections(text, path).fences("yaml")
    if len(blocks) != 1:
        raise Escalation(
            f"{path}: malformed: {len(blocks)} YAML blocks; expected one",
            cure="Keep exactly one fenced block marked yaml.",
            path=path,
        )
    data = _data(path, blocks[0].content, blocks[0].line + 1)
    if not isinstance(data, dict):
        raise Escalation(f"{path}: malformed: the YAML block is not a mapping", cure="Write keys there.", path=path)
    return data


def _text(document: Document) -> str:
    if document.state is not DocumentState.OK:
        path = document.path
        raise Escalation(f"{path}: unreadable: {document.problem}", cure="Make it a plain UTF-8 file.", path=path)
    return document.text


def _data(path: str, text: str, line: int) -> Any:
    try:
        return load_yaml(text, path, first_line=line)
    except DocumentInvalid as error:
        raise Escalation(
            f"{path}: malformed: {error.what}", cure="Correct the YAML block.", path=path, line=error.line
        ) from None


# -- input contracts


@dataclass(frozen=True)
class StageContract:
    """What one stage may read and write, as the workspace declares it."""

    stage: Stage
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    headings: tuple[str, ...] | None = None
    """Headings that the artifact must have; None: those the engine asks for."""


def parse_contracts(document: Document) -> Mapping[Stage, StageContract]:
    """All contracts of the file; Escalation names what is wrong in it."""
    return _parse_contracts(_text(document), document.path)


@lru_cache(maxsize=16)
def _parse_contracts(text: str, path: str) -> Mapping[Stage, StageContract]:
    found: dict[Stage, StageContract] = {}
    for block in Sections(text, path).fences("yaml"):
        contract = _contract(_data(path, block.content, block.line + 1), path, block.line)
        if contract.stage in found:
            raise _bad(path, block.line, f"two contracts for stage {contract.stage}")
        found[contract.stage] = contract
    return found


def contract_for(contracts: Mapping[Stage, StageContract], stage: Stage) -> StageContract:
    """The contract of a stage; Escalation when the file has none."""
    if stage in contracts:
        return contracts[stage]
    raise Escalation(
        f"No input contract for stage {stage} in {CONTRACTS}",
        cure=f"Add a YAML block with 'stage: {stage}' there.",
        path=CONTRACTS,
    )


def _contract(data: Any, path: str, line: int) -> StageContract:
    if not isinstance(data, dict) or "stage" not in data:
        raise _bad(path, line, "a contract is a mapping with the key stage")
    if unknown := sorted(set(data) - {"stage", "required", "optional", "writes", "min_structure"}):
        raise _bad(path, line, f"unknown key {unknown[0]}")
    stage = next((stage for stage in AGENTS if stage == data["stage"]), None)
    if stage is None:
        raise _bad(path, line, f"stage {one_line(str(data['stage']))!r} has no agent")
    required, optional = (_inputs(data.get(name), path, line) for name in ("required", "optional"))
    if not required:
        raise _bad(path, line, f"stage {stage} requires nothing")
    return StageContract(
        stage, required, optional, _writes(data.get("writes"), stage, path, line), _headings(data, path, line)
    )


def _inputs(value: Any, path: str, line: int) -> tuple[str, ...]:
    names = _strings(value, path, line)
    for name in names:
        kind, _, rest = name.partition(":")
        known = rest in AGENTS if kind == "artifact" else is_plain(rest) if kind == "path" else name == TASK_FILE
        if not known:
            raise _bad(path, line, f"{one_line(name)!r} is no input (task_file, artifact:<Stage>, path:<file>)")
    return names


def _writes(value: Any, stage: Stage, path: str, line: int) -> tuple[str, ...]:
    names = _strings(value, path, line)
    for name in names:
        if name != ARTIFACT + stage and not (name.startswith(PATH) and _is_pattern(name.removeprefix(PATH))):
            raise _bad(path, line, f"{one_line(name)!r} is no output of {stage} (artifact:{stage}, path:<pattern>)")
    return names


def _headings(data: Mapping[str, Any], path: str, line: int) -> tuple[str, ...] | None:
    structure = data.get("min_structure")
    if structure is None:
        return None
    if not isinstance(structure, dict) or set(structure) != {"headings"}:
        raise _bad(path, line, "min_structure is a mapping with the key headings")
    return _strings(structure["headings"], path, line)


def _strings(value: Any, path: str, line: int) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _bad(path, line, "expected a list of texts")
    return tuple(value)


def is_plain(path: str) -> bool:
    return not set("*?") & set(path) and not path.startswith("!") and _is_pattern(path)


def _is_pattern(pattern: str) -> bool:
    try:
        Scope((pattern,))
    except PathRefused:
        return False
    return True


def _bad(path: str, line: int, what: str) -> Escalation:
    return Escalation(f"{path}: malformed: {what}", cure=f"Correct the block at line {line}.", path=path, line=line)
