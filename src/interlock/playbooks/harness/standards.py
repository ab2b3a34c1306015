"""What a workspace's standards say, and whether they agree with what the engine does.

Each standard is prose for people, in the words of its author.  Where it has a fenced YAML block with the engine's own
table, the two must be equal: a process that is written down differently from how it runs is an error, not a choice.
An optional stage may be left out: a standard is held to the lifecycle with the optional stages that it names.  Where it
has no block, it is given to the agents to read.  The input contracts are a team's to decide, and are read before each
dispatch; a file without any block leaves those in force that the rows have.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from interlock.documents import Document, DocumentState, Fence, Sections, load_yaml, one_line
from interlock.engine import Run, Scope
from interlock.errors import DocumentInvalid, PathRefused
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.escalation import Escalation, FoundProblems, text_of
from interlock.playbooks.harness.stages import (
    ARTIFACT,
    PATH,
    REMEDIATIONS,
    TASK_FILE,
    Lifecycle,
    Stage,
    StageContract,
    TaskStatus,
)

FOLDER = "harness/standards"
RUN_STATE = f"{FOLDER}/run-state-standard.md"
LIFECYCLE = f"{FOLDER}/task-lifecycle.md"
WORKFLOW = f"{FOLDER}/feature-workflow.md"
RUN_IDS = f"{FOLDER}/run-id-standard.md"
CONTRACTS = f"{FOLDER}/stage-input-contracts.md"
ALL = (RUN_STATE, LIFECYCLE, WORKFLOW, RUN_IDS, CONTRACTS)


@lru_cache(maxsize=64)
def tables(lifecycle: Lifecycle) -> Mapping[str, Mapping[str, Any]]:
    """What the YAML block of each standard says of these stages."""
    return {
        RUN_STATE: {"fields": list(run_state.FIELDS)},
        LIFECYCLE: {"stages": list(lifecycle.names), "statuses": [str(status) for status in TaskStatus]},
        WORKFLOW: {
            "agents": {stage.name: stage.agent for stage in lifecycle.working},
            "transitions": [{"from": here, "to": to, "when": when} for here, to, when in _transitions(lifecycle)],
            "remediations": REMEDIATIONS,
        },
        RUN_IDS: {
            "pattern": "RUN-YYYY-MM-DD-TASKID-SUFFIX",
            "suffixes": {stage.name: stage.suffix for stage in lifecycle.stages},
            "remediation": {stage.name: "-R<n>" for stage in lifecycle.stages if lifecycle.repeated(stage)},
        },
    }


def _transitions(lifecycle: Lifecycle) -> Iterator[tuple[str, str, str]]:
    """From where to where, and when: forward past each stage, back from judges, back from gates."""
    for stage, following in itertools.pairwise(lifecycle.stages):
        how = ["artifact verified"] if stage.agent else ["approved by a person", "approval not required"]
        if stage.judging is not None:
            yield stage.name, stage.judging.returns_to, f"{stage.name} negative and remediations left"
            how = [f"{stage.name} positive"]
        yield from ((stage.name, following.name, when) for when in how)
    yield from ((stage.name, gate.back_to, "rejected by a person") for stage, gate in lifecycle.gates)


def check_standard(document: Document, lifecycle: Lifecycle) -> None:
    """Escalation when a standard says something else than the engine does."""
    path = document.path
    said = _the_block(text_of(document), path, lifecycle)
    if said is None:
        return
    table = tables(lifecycle.taken(set(_words(said))))[path]
    differing = [name for name in {**table, **said} if said.get(name) != table.get(name)]
    if differing:
        raise Escalation(
            path,
            f"{path}: standard disagrees with engine: {differing[0]}",
            "Make the YAML block equal to the one that 'interlock init --playbook harness' writes, or leave it out.",
            expected=f"{differing[0]}: {table.get(differing[0])}",
        )


def _words(data: Any) -> Iterator[str]:
    """All texts in a block."""
    match data:
        case str():
            yield data
        case dict():
            for item in data.items():
                yield from _words(list(item))
        case list():
            for item in data:
                yield from _words(item)


def is_prose(document: Document, lifecycle: Lifecycle) -> bool:
    """Whether a standard has nothing that could be compared: agents are to read it (EV-41)."""
    text = text_of(document)
    if document.path == CONTRACTS:
        return not _contract_blocks(text, CONTRACTS)
    return _the_block(text, document.path, lifecycle) is None


@lru_cache(maxsize=16)
def _the_block(text: str, path: str, lifecycle: Lifecycle) -> Mapping[str, Any] | None:
    """The block of a standard that is about what the engine's table is about; None where it has none."""
    blocks = [_data(path, block.content, block.line + 1) for block in Sections(text, path).fences("yaml")]
    ours = [data for data in blocks if isinstance(data, dict) and data.keys() & tables(lifecycle)[path].keys()]
    if len(ours) > 1:
        raise Escalation(
            path,
            f"{path}: malformed: {len(ours)} YAML blocks that say the same; expected one",
            "Keep the one that is meant.",
        )
    return ours[0] if ours else None


def _data(path: str, text: str, line: int) -> Any:
    try:
        return load_yaml(text, path, first_line=line)
    except DocumentInvalid as error:
        raise Escalation(path, f"{path}: malformed: {error.what}", "Correct the YAML block.", line=error.line) from None


# -- input contracts


def parse_contracts(document: Document, lifecycle: Lifecycle) -> Mapping[str, StageContract]:
    """The contracts of all stages that work; Escalation names everything that is wrong in the file."""
    return _parse_contracts(text_of(document), document.path, lifecycle)


@lru_cache(maxsize=16)
def _parse_contracts(text: str, path: str, lifecycle: Lifecycle) -> Mapping[str, StageContract]:
    problems, found = FoundProblems(), dict[str, StageContract]()
    blocks = _contract_blocks(text, path)
    for block in blocks:
        with problems.noted():
            stage, contract = _contract(_data(path, block.content, block.line + 1), path, block.line, lifecycle)
            if stage in found:
                raise _bad(path, block.line, f"two contracts for stage {stage}")
            found[stage] = contract
    problems.settle()
    for row in lifecycle.working:
        if row.contract is not None and (not blocks or row.optional):
            found.setdefault(row.name, row.contract)
        if row.name not in found:
            problems.add(
                path,
                f"No input contract for stage {row.name} in {path}",
                f"Add a YAML block with 'stage: {row.name}' there.",
            )
    for stage, contract in found.items():
        for name in _never_there(stage, contract, lifecycle):
            problems.add(
                path,
                f"{path}: malformed: stage {stage} requires {name}, which no stage before it makes",
                f"Take it out of what {stage} requires, or make it optional.",
            )
    problems.settle()
    return found


def contract_section(stage: Stage) -> str:
    """The contract of a row as a workspace declares it."""
    contract = stage.contract or StageContract(())
    headings = (*(stage.judging.headings if stage.judging else ()), *contract.headings)
    writes = (ARTIFACT + stage.name, *(PATH + pattern for pattern in contract.writes))
    lines = [
        f"stage: {stage.name}",
        f"required: {_flow(contract.required)}",
        f"optional: {_flow(contract.optional)}",
        f"writes: {_flow(writes)}",
        f"min_structure: {{headings: {_flow(headings)}}}",
    ]
    return "\n".join((f"## {stage.name}\n", "```yaml", *lines, "```"))


def _flow(names: tuple[str, ...]) -> str:
    return f"[{', '.join(name if name.isidentifier() else json.dumps(name) for name in names)}]"


def _contract_blocks(text: str, path: str) -> tuple[Fence, ...]:
    """The YAML blocks of a file that has contracts in such blocks; none where all of it is prose."""
    blocks = tuple(Sections(text, path).fences("yaml"))
    return blocks if any(re.search(r"^stage[ \t]*:", block.content, re.MULTILINE) for block in blocks) else ()


def _never_there(stage: str, contract: StageContract, lifecycle: Lifecycle) -> Iterator[str]:
    for name in contract.required:
        made_by = name.removeprefix(ARTIFACT)
        if name != made_by and (lifecycle[made_by].optional or not lifecycle.before(made_by, stage)):
            yield name


async def check_contracts(run: Run, document: Document, lifecycle: Lifecycle) -> None:
    """Escalation for contracts that mean nothing, or that ask for files that nobody has or makes."""
    contracts, problems = parse_contracts(document, lifecycle), FoundProblems()
    for stage, contract in contracts.items():
        earlier = [contracts[one] for one in contracts if lifecycle.before(one, stage)]
        before = Scope(tuple(path for one in earlier for path in one.writes))
        for name in contract.required:
            path = name.removeprefix(PATH)
            if name.startswith(PATH) and not may_hold(before, path) and not await is_there(run, path):
                problems.add(
                    CONTRACTS,
                    f"Input contract of {stage} not satisfiable: {path} missing",
                    f"Write {path}, or take it out of what {stage} requires in {CONTRACTS}.",
                )
    problems.settle()


def may_hold(scope: Scope, path: str) -> bool:
    """Whether something at this path, folder or pattern could be written within the scope."""
    return bool(scope.patterns) and scope.covers(re.sub(r"\*\*/?|\*|\?", "x", path).rstrip("/"))


async def is_there(run: Run, path: str) -> bool:
    """Whether an input is a file with something in it, or a folder or pattern with at least one file."""
    parts = path.rstrip("/").split("/")
    plain = list(itertools.takewhile(lambda part: not set("*?") & set(part), parts))
    if pattern := "/".join(parts[len(plain) :]):
        return bool(await run.list("/".join(plain) or ".", pattern))
    document = await run.read(path)
    if document.state is DocumentState.OK:
        return bool(document.text.strip())
    return bool(await run.list(path, "**/*"))


def _contract(data: Any, path: str, line: int, lifecycle: Lifecycle) -> tuple[str, StageContract]:
    if not isinstance(data, dict) or "stage" not in data:
        raise _bad(path, line, "a contract is a mapping with the key stage")
    if unknown := sorted(set(data) - {"stage", "required", "optional", "writes", "min_structure"}):
        raise _bad(path, line, f"unknown key {unknown[0]}")
    row = next((row for row in lifecycle.working if row.name == data["stage"]), None)
    if row is None:
        raise _bad(path, line, f"stage {one_line(str(data['stage']))!r} has no agent")
    required, optional = (_inputs(data.get(name), path, line, lifecycle) for name in ("required", "optional"))
    if not required:
        raise _bad(path, line, f"stage {row.name} requires nothing")
    writes = _writes(data.get("writes"), row.name, path, line)
    return row.name, StageContract(required, optional, writes, _headings(data, row, path, line))


def _inputs(value: Any, path: str, line: int, lifecycle: Lifecycle) -> tuple[str, ...]:
    names, made = _strings(value, path, line), [row.name for row in lifecycle.working]
    for name in names:
        kind, _, rest = name.partition(":")
        known = rest in made if kind == "artifact" else is_input(rest) if kind == "path" else name == TASK_FILE
        if not known:
            raise _bad(
                path, line, f"{one_line(name)!r} is no input (task_file, artifact:<Stage>, path:<file or folder>)"
            )
    return names


def _writes(value: Any, stage: str, path: str, line: int) -> tuple[str, ...]:
    names = _strings(value, path, line)
    for name in names:
        if name != ARTIFACT + stage and not (name.startswith(PATH) and _is_pattern(name.removeprefix(PATH))):
            raise _bad(path, line, f"{one_line(name)!r} is no output of {stage} (artifact:{stage}, path:<pattern>)")
    return tuple(name.removeprefix(PATH) for name in names if name.startswith(PATH))


def _headings(data: Mapping[str, Any], row: Stage, path: str, line: int) -> tuple[str, ...]:
    structure = data.get("min_structure")
    if structure is None:
        return row.contract.headings if row.contract else ()
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
    return Escalation(path, f"{path}: malformed: {what}", f"Correct the block at line {line}.", line=line)
