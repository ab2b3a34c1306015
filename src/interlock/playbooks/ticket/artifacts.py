"""What agents write for a ticket, and what each of these documents must contain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.contracts import FAIL, PASS, Claim, Custom, Evidence, YamlKeys, checks_in_data, says_none
from interlock.documents import Sections, read_yaml, render_yaml
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket.graph import GraphLimits, path_problem, problem_of
from interlock.playbooks.ticket.request import TicketAgent, WorkKind

Complaints = Iterator[str]
BEFORE = "2026-01-01T00:00:00Z"
"""The moment that stands in samples."""


# -- prompt.yaml


def sample_prompt(ticket: str, request: str) -> dict[str, Any]:
    return {
        "jira": ticket,
        "type": WorkKind.CHORE.value,
        "slug": "work_on_ticket",
        "tool_mandates": [],
        "original_request": request,
        "refined_prompt": request,
        "success_criteria": ["tests pass"],
        "created_at": BEFORE,
    }


_PROMPT = {
    **dict.fromkeys(("jira", "slug", "original_request"), str),
    "type": tuple(WorkKind),
    **dict.fromkeys(("tool_mandates", "success_criteria"), list),
    **dict.fromkeys(("refined_prompt", "created_at")),
}


def prompt_rule(ticket: str, request: str) -> YamlKeys:
    """The Interpreter's reading of a request; questions to the user may stand in place of the other fields."""

    def complaints(data: dict[str, Any]) -> Complaints:
        if "jira" in data and data["jira"] != ticket:
            yield f"jira is {data['jira']}, expected {ticket}"
        if questions_of(data):
            return
        yield from whole.problems(data)
        if not re.fullmatch("[a-z0-9]+_[a-z0-9]+_[a-z0-9]+", data["slug"]):
            yield f'slug "{data["slug"]}"; expected three words in snake_case'
        if not data["success_criteria"]:
            yield "success_criteria is no list with at least one item"
        if data["original_request"].strip() != request.strip():
            yield "original_request is not the request as it was given"
        for mandate in data["tool_mandates"]:
            text = mandate.get("text") if isinstance(mandate, dict) else None
            if not isinstance(text, str) or not text:
                yield "tool_mandates: an entry has no text"
            elif text not in request:
                yield f"tool_mandates: {text!r} is not a part of the request"
            elif (agent := mandate.get("assigned_agent")) not in tuple(TicketAgent):
                yield f"tool_mandates: assigned_agent {agent!r}; expected {' or '.join(TicketAgent)}"

    sample = sample_prompt(ticket, request)
    whole = YamlKeys(_PROMPT, sample)
    return YamlKeys({}, sample, complaints)


def questions_of(data: Any) -> list[str]:
    """What the Interpreter wants to know from the user."""
    asked = data.get("questions") if isinstance(data, dict) else None
    return [str(question) for question in asked] if isinstance(asked, list) else []


# -- plan.md

_DEFERRAL = re.compile(
    r"(?<!\w)(?:confirm later|research later|need to research|further research required|figure out|where available|"
    r"if different|determine later|TBD|TODO)(?!\w|\.\w)",
    re.IGNORECASE,
)


def prose(plan: str) -> list[tuple[int, str]]:
    """The lines of a plan outside of fences, with their numbers."""
    fences = [fence for fence in Sections(plan).fences() if not fence.quoted]
    code = {number for one in fences for number in range(one.line, one.line + one.content.count("\n") + 2)}
    return [(number, line) for number, line in enumerate(plan.split("\n"), 1) if number not in code]


def deferrals(plan: str) -> list[tuple[int, str]]:
    """The lines, with their numbers, on which a plan puts research off; code and quoted names do not count."""
    spoken = ((number, line, re.sub(r"\s+", " ", re.sub(r"(`+).+?\1", " ", line))) for number, line in prose(plan))
    return [(number, line.strip()) for number, line, said in spoken if _DEFERRAL.search(said)]


def plan_problem(text: str) -> str | None:
    titles = sum(bool(re.match(r"# +\S", line)) for _, line in prose(text))
    return None if titles == 1 else f"{titles} titles (lines starting with '# '); expected one"


PLAN_RULE = Custom(plan_problem, "# Plan\n\nDo it.\n")

# -- tasks.yaml


def graph_problem(text: str, *, new: bool, limits: GraphLimits | None = None) -> str | None:
    """The first check that a tasks.yaml fails."""
    try:
        data = read_yaml(text, "tasks.yaml")
    except DocumentInvalid as error:
        return error.what
    return problem_of(data, new=new, limits=limits)


def graph_rule(limits: GraphLimits) -> Custom:
    return Custom(lambda text: graph_problem(text, new=True, limits=limits), EXAMPLE_GRAPH)


def task(
    name: str, group: str = "A", files: tuple[str, ...] = (), needs: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """An entry of a task graph."""
    return {
        "id": name,
        "description": f"Work on {name}",
        "files_to_modify": list(files or (f"src/{name.lower()}.txt",)),
        "success_criteria": ["tests pass"],
        "parallel_group": group,
        "depends_on": list(needs),
        "status": "PENDING",
        **more,
    }


def graph(*tasks: Mapping[str, Any], strategies: Mapping[str, str] | None = None, **policy: Any) -> str:
    """A task graph: the tasks by their groups, in the order in which the groups come up."""
    groups: dict[str, list[str]] = {}
    for entry in tasks:
        groups.setdefault(entry["parallel_group"], []).append(entry["id"])
    said = strategies or {}
    return render_yaml(
        {
            "strategy": "mixed",
            "validation_policy": {"baseline_scope": "code_and_tests_only", **policy},
            "tasks": [dict(entry) for entry in tasks],
            "parallel_groups": groups,
            "execution_order": [
                {"group": letter, "strategy": said.get(letter, "parallel"), "tasks": names}
                for letter, names in groups.items()
            ],
        }
    )


EXAMPLE_GRAPH = graph(task("T1", files=("src/main.txt",)), strategies={"A": "sequential"})

# -- amendment.yaml


def amendment_rule(forgotten: Mapping[str, Sequence[str]]) -> YamlKeys:
    """An amendment gives tasks files that attempts needed, and no others."""

    def complaints(data: dict[str, Any]) -> Complaints:
        for task, paths in data["add"].items():
            if task not in forgotten:
                yield f"add.{task}: only these tasks changed files that are not theirs: {', '.join(forgotten)}"
            for path in paths if isinstance(paths, list) else [paths]:
                if path not in forgotten[task]:
                    yield f"add.{task}: {path!r} is none of {', '.join(forgotten[task])}"
                if why := path_problem(str(path)):
                    yield f'add.{task}: "{path}": {why}'

    added = {task: list(paths) for task, paths in forgotten.items()}
    return YamlKeys({"add": dict, "reason": str}, {"add": added, "reason": "The task needs them."}, complaints)


def added_files(text: str) -> dict[str, list[str]]:
    """Task to the files that an amendment gives it."""
    added = read_yaml(text, "amendment.yaml")["add"]
    return {str(task): list(paths) if isinstance(paths, list) else [paths] for task, paths in added.items()}


# -- review_report.yaml

AUTO_ACCEPT_NOTES = "Trivial-graph auto-accepted: 1 task, build green, tests green."
HARMLESS = ("minor", "nit", "trivial", "cosmetic", "low", "info", "note", "suggestion")
"""Severities with which work is accepted; with any other, and without one, it is not."""


def accepting(mode: str, now: str, **more: Any) -> dict[str, Any]:
    """A review report that accepts."""
    passed = {"build": "PASSED", "tests": "PASSED", "files_verified": True}
    return {"status": "ACCEPTED", "mode": mode, **passed, **more, "reviewed_at": now}


def _review_complaints(data: dict[str, Any]) -> Complaints:
    issues = data.get("issues")
    listed = isinstance(issues, list) and issues and all(isinstance(issue, dict) for issue in issues)
    if data["status"] == "REJECTED" and not listed:
        yield "a rejection needs issues: a list with at least one mapping"


_SEEN = {"command": "make test", "exit": 0, "summary": "12 passed"}
_REVIEW = {"status": ("ACCEPTED", "REJECTED"), "build": ("PASSED", "FAILED"), "tests": ("PASSED", "FAILED")}
REVIEW_RULE = YamlKeys(
    _REVIEW, accepting("prompt-review", BEFORE, checks=[_SEEN], notes="As asked."), _review_complaints
)


def review_claim(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
    """What a Reviewer claims, and what stands behind it, from the report that passed its check."""
    ((path, text),) = texts.items()
    report = read_yaml(text, path)
    marks = {name: PASS if report[name] == "PASSED" else FAIL for name in ("build", "tests")}
    if report.get("files_verified") is False:
        marks["files_verified"] = FAIL
    issues = report.get("issues")
    listed = issues if isinstance(issues, list) else [issues]
    found = [issue if isinstance(issue, dict) else {"problem": str(issue)} for issue in listed if issue]
    grave = [issue for issue in found if str(issue.get("severity")).strip().casefold() not in HARMLESS]
    blocking = [said for issue in grave if not says_none(said := str(issue.get("problem") or issue))]
    reason = report.get("nothing_to_run")
    evidence = Evidence(
        checks=checks_in_data(report.get("checks")),
        marks=marks,
        blocking=tuple(blocking),
        nothing_to_run=reason.strip() if isinstance(reason, str) else "",
    )
    besides = {name: value for name, value in report.items() if name != "issues"}
    return Claim(report["status"] == "ACCEPTED", evidence, data=besides)
