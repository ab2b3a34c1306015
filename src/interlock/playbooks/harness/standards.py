"""What a workspace's standards say, and whether they agree with what the engine does.

Each standard is prose for people, in the words of its author.  Where it has a fenced YAML block with the engine's own
table, the two must be equal: a process that is written down differently from how it runs is an error, not a choice.
Where it has none, it is given to the agents to read.  The input contracts are a team's to decide, and are read before
each dispatch; a file without any block leaves those in force that interlock ships.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from interlock.documents import Document, DocumentState, Fence, Sections, load_yaml
from interlock.engine import Scope
from interlock.errors import DocumentInvalid, PathRefused
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.escalation import Escalation, Problems, one_line
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
    if said is None or said == table:
        return
    differing = [name for name in {**table, **said} if said.get(name) != table.get(name)]
    name = differing[0]
    raise Escalation(
        f"{path}: standard disagrees with engine: {name}",
        cure="Make the YAML block equal to the one that 'interlock init --playbook harness' writes, or leave it out.",
        path=path,
        expected=f"{name}: {table.get(name)}",
    )


def is_prose(document: Document) -> bool:
    """Whether a standard has nothing that could be compared: agents are to read it (EV-41)."""
    text = _text(document)
    if document.path == CONTRACTS:
        return not _contract_blocks(text, CONTRACTS)
    return _the_block(text, document.path) is None


@lru_cache(maxsize=16)
def _the_block(text: str, path: str) -> Mapping[str, Any] | None:
    """The block of a standard that is about what the engine's table is about; None where it has none."""
    blocks = [_data(path, block.content, block.line + 1) for block in Sections(text, path).fences("yaml")]
    ours = [data for data in blocks if isinstance(data, dict) and set(data) & set(TABLES[path])]
    if len(ours) > 1:
        raise Escalation(
            f"{path}: malformed: {len(ours)} YAML blocks that say the same; expected one",
            cure="Keep the one that is meant.",
            path=path,
        )
    return ours[0] if ours else None


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
    """The contracts of all stages; Escalation names everything that is wrong in the file."""
    return _parse_contracts(_text(document), document.path)


@lru_cache(maxsize=16)
def _parse_contracts(text: str, path: str) -> Mapping[Stage, StageContract]:
    problems, found = Problems(), dict[Stage, StageContract]()
    blocks = _contract_blocks(text, path)
    for block in blocks:
        with problems.noted():
            contract = _contract(_data(path, block.content, block.line + 1), path, block.line)
            if contract.stage in found:
                raise _bad(path, block.line, f"two contracts for stage {contract.stage}")
            found[contract.stage] = contract
    problems.settle()
    if not blocks:
        return shipped()
    for stage in AGENTS:
        if stage not in found:
            problems.add(
                Escalation(
                    f"No input contract for stage {stage} in {path}",
                    cure=f"Add a YAML block with 'stage: {stage}' there.",
                    path=path,
                )
            )
    for contract in found.values():
        for name in _never_there(contract):
            problems.add(
                Escalation(
                    f"{path}: malformed: stage {contract.stage} requires {name}, which no stage before it makes",
                    cure=f"Take it out of what {contract.stage} requires, or make it optional.",
                    path=path,
                )
            )
    problems.settle()
    return found


@cache
def shipped() -> Mapping[Stage, StageContract]:
    """The contracts that interlock ships."""
    file = resources.files(__package__).joinpath("examples", "standards", CONTRACTS.rpartition("/")[2])
    return _parse_contracts(file.read_text(encoding="utf-8"), CONTRACTS)


def _contract_blocks(text: str, path: str) -> tuple[Fence, ...]:
    """The YAML blocks of a file that has contracts in such blocks; none where all of it is prose."""
    blocks = tuple(Sections(text, path).fences("yaml"))
    return blocks if any(re.search(r"^stage[ \t]*:", block.content, re.MULTILINE) for block in blocks) else ()


def _never_there(contract: StageContract) -> Iterator[str]:
    for name in contract.required:
        if name.startswith(ARTIFACT) and not Stage(name.removeprefix(ARTIFACT)).before(contract.stage):
            yield name


def unsatisfiable(
    contracts: Mapping[Stage, StageContract], stage: Stage, exists: Callable[[str], bool]
) -> Iterator[str]:
    """Paths that a stage requires, that are not there, and that no stage before it may write."""
    before = [contracts[one] for one in AGENTS if one.before(stage)]
    scope = Scope(tuple(name.removeprefix(PATH) for one in before for name in one.writes if name.startswith(PATH)))
    for name in contracts[stage].required:
        path = name.removeprefix(PATH)
        if name.startswith(PATH) and not exists(path) and not (scope.patterns and may_hold(scope, path)):
            yield path


def may_hold(scope: Scope, path: str) -> bool:
    """Whether something at this path, folder or pattern could be written within the scope."""
    return scope.covers(re.sub(r"\*\*/?|\*|\?", "x", path).rstrip("/"))


def place_of(path: str) -> tuple[str, str]:
    """The folder and the pattern in it that an input stands for; no pattern for one file or folder."""
    parts = path.rstrip("/").split("/")
    plain = list(itertools.takewhile(lambda part: not set("*?") & set(part), parts))
    return "/".join(plain) or ".", "/".join(parts[len(plain) :])


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
        known = rest in AGENTS if kind == "artifact" else is_input(rest) if kind == "path" else name == TASK_FILE
        if not known:
            raise _bad(
                path, line, f"{one_line(name)!r} is no input (task_file, artifact:<Stage>, path:<file or folder>)"
            )
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


def is_input(path: str) -> bool:
    return not path.startswith("!") and _is_pattern(path.rstrip("/"))


def _is_pattern(pattern: str) -> bool:
    try:
        Scope((pattern,))
    except PathRefused:
        return False
    return True


def _bad(path: str, line: int, what: str) -> Escalation:
    return Escalation(f"{path}: malformed: {what}", cure=f"Correct the block at line {line}.", path=path, line=line)
