"""Texts with holes: the first text of run-state and run report, in a team's own words, and the files of `init`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib import resources

from interlock.documents import Document, render_yaml
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import run_report, run_state, standards
from interlock.playbooks.harness.escalation import Escalation, text_of
from interlock.playbooks.harness.run_report import Log
from interlock.playbooks.harness.run_state import RunState, hole
from interlock.playbooks.harness.stages import LIFECYCLE, Lifecycle
from interlock.playbooks.harness.task_file import FOLDER as TASKS

FOLDER = "harness/templates"
RUN_STATE = f"{FOLDER}/run-state-template.md"
RUN_REPORT = f"{FOLDER}/run_report_template.md"
HOLES: Mapping[str, frozenset[str]] = {
    RUN_STATE: frozenset(map(hole, run_state.FIELDS)),
    RUN_REPORT: frozenset(map(hole, run_report.HOLES)),
}
_HOLE = re.compile(r"\{\{([^{}]*)\}\}")
_SAMPLE = RunState(
    LIFECYCLE,
    task_id="TASK-1",
    task_file="harness/tasks/TASK-1.md",
    artifacts={stage.name: f"docs/{stage.artifact}" for stage in LIFECYCLE.working},
    run_id="RUN-1",
    stage=LIFECYCLE.names[0],
    asks={gate.opens: True for _, gate in LIFECYCLE.gates},
)


def example_files(lifecycle: Lifecycle = LIFECYCLE) -> Mapping[str, str]:
    """Everything a workspace needs to try the harness: path in the workspace to text."""
    room, texts = resources.files(__package__) / "examples", dict[str, str]()
    for folder in ("standards", "templates", "tasks"):
        for file in sorted(room.joinpath(folder).iterdir(), key=lambda file: file.name):
            texts[f"harness/{folder}/{file.name}"] = file.read_text(encoding="utf-8")
    values = {path: {"table": render_yaml(table).rstrip()} for path, table in standards.tables(lifecycle).items()}
    values[standards.CONTRACTS] = {"contracts": "\n\n".join(map(standards.contract_section, lifecycle.working))}
    for path in texts:
        if path.startswith(f"{TASKS}/"):
            place = f"harness/artifacts/{path.rpartition('/')[2].removesuffix('.md')}"
            lines = (f"- {stage.name}: {place}/{stage.artifact}" for stage in lifecycle.working)
            values[path] = {"artifact paths": "\n".join(lines)}
    return {path: filled(text, values[path]) if path in values else text for path, text in texts.items()}


def built_in(path: str) -> str:
    """The template that interlock ships for this path."""
    name = path.rpartition("/")[2]
    return resources.files(__package__).joinpath("examples", "templates", name).read_text(encoding="utf-8")


def load(document: Document) -> str:
    """The template's text, proven: every hole once known, none missing, and the result can be read back.

    One that is prose, without any of our holes, leaves the shipped one in force (EV-41).
    """
    path = document.path
    text = text_of(document)
    if is_prose(document):
        return built_in(path)
    if problem := _problem(text, path):
        raise Escalation(
            path,
            f"{path}: malformed: {problem}",
            "Compare it with the template that 'interlock init --playbook harness' writes.",
        )
    return document.text


def is_prose(document: Document) -> bool:
    """Whether nothing in it is ours to fill in."""
    return not {name.strip() for name in _HOLE.findall(document.text)} & HOLES[document.path]


@lru_cache(maxsize=16)
def _problem(text: str, path: str) -> str | None:
    found, known = {name.strip() for name in _HOLE.findall(text)}, HOLES[path]
    if unknown := sorted(found - known):
        return f"unknown hole {_holes(unknown)}"
    if lacking := sorted(known - found):
        return f"missing hole {_holes(lacking)}"
    try:
        same = _state_survives(text) if path == RUN_STATE else _report_survives(text)
    except DocumentInvalid as error:
        return f"what is filled in cannot be read back ({error.what})"
    return None if same else "what is filled in cannot be read back"


def _state_survives(template: str) -> bool:
    first, later = first_state(template, _SAMPLE), _SAMPLE.blocked("a reason")
    texts = {first: _SAMPLE, run_state.rewritten(first, later): later}
    return all(run_state.parse_text(text, LIFECYCLE) == state for text, state in texts.items())


def _report_survives(template: str) -> bool:
    first, later = first_report(template, _SAMPLE, "Title"), _SAMPLE.blocked("a reason")
    run_report.parse_text(first, RUN_REPORT)
    entries = [run_report.ReportRow(log, run_report.COLUMNS[log]) for log in Log]
    grown = run_report.parse_text(run_report.grown(first, later, "Title", entries), RUN_REPORT)
    return grown.fields["Stop Reason"] == "a reason" and all(len(rows) == 1 for rows in grown.rows.values())


def first_state(template: str, state: RunState) -> str:
    """The first text of run-state."""
    return filled(template, run_state.values(state))


def first_report(template: str, state: RunState, title: str) -> str:
    """The first text of the run report, its tables empty."""
    tables = {log.value: run_report.empty_table(log) for log in Log}
    top = run_report.top_values(state, title)
    return filled(template, {**top, run_report.ARTIFACTS: run_report.artifact_lines(state), **tables})


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its holes filled, once: what is filled in has no holes, whatever it looks like."""
    known = {hole(name): value for name, value in values.items()}
    return _HOLE.sub(lambda match: known[match[1].strip()], template)


def _holes(names: Collection[str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)
