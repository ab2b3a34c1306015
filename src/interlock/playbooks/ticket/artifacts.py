"""What agents write for a ticket, and what each of these documents must contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.contracts import FAIL, PASS, Claim, Custom, Evidence, checks_in_data
from interlock.documents import read_yaml, render_yaml
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket.analysis import CACHE, DOCS, is_digest
from interlock.playbooks.ticket.graph import GraphLimits, path_problem, problem_of
from interlock.playbooks.ticket.request import Mandate, TicketAgent, WorkKind

Complaints = Iterator[str]


def problem_in(text: str, name: str, complaints: Callable[[dict[str, Any]], Complaints]) -> str | None:
    """The first thing that is wrong with a YAML mapping, or None; what comes later may rely on what came before."""
    try:
        data = read_yaml(text, name)
    except DocumentInvalid as error:
        return error.what
    return next(complaints(data), None) if isinstance(data, dict) else "not a YAML mapping"


# -- prompt.yaml

PROMPT_FIELDS = (
    "jira",
    "type",
    "slug",
    "tool_mandates",
    "original_request",
    "refined_prompt",
    "success_criteria",
    "created_at",
)


def render_prompt(
    ticket: str,
    work: WorkKind,
    slug: str,
    mandates: Sequence[Mandate],
    request: str,
    refined: str,
    criteria: Sequence[str],
    now: str,
) -> str:
    return render_yaml(
        {
            "jira": ticket,
            "type": work.value,
            "slug": slug,
            "tool_mandates": [mandate.to_json() for mandate in mandates],
            "original_request": request,
            "refined_prompt": refined,
            "success_criteria": list(criteria),
            "created_at": now,
        }
    )


def prompt_problem(text: str, ticket: str, request: str) -> str | None:
    """What is wrong with a prompt.yaml; questions to the user may stand in place of the other fields."""
    return problem_in(text, "prompt.yaml", partial(_prompt_complaints, ticket, request))


def _prompt_complaints(ticket: str, request: str, data: dict[str, Any]) -> Complaints:
    if "jira" in data and data["jira"] != ticket:
        yield f"jira is {data['jira']}, expected {ticket}"
    if questions_of(data):
        return
    yield from (f"field {field} missing" for field in PROMPT_FIELDS if field not in data)
    if data["type"] not in tuple(WorkKind):
        yield f'type "{data["type"]}"; expected {", ".join(WorkKind)}'
    if not isinstance(data["slug"], str) or not re.fullmatch("[a-z0-9]+_[a-z0-9]+_[a-z0-9]+", data["slug"]):
        yield f'slug "{data["slug"]}"; expected three words in snake_case'
    if not isinstance(data["success_criteria"], list) or not data["success_criteria"]:
        yield "success_criteria is no list with at least one item"
    if data["original_request"] != request and str(data["original_request"]).strip() != request.strip():
        yield "original_request is not the request as it was given"
    if not isinstance(data["tool_mandates"], list):
        yield "tool_mandates is no list"
    for mandate in data["tool_mandates"]:
        text = mandate.get("text") if isinstance(mandate, dict) else None
        if not isinstance(text, str) or not text:
            yield "tool_mandates: an entry has no text"
        elif text not in request:
            yield f"tool_mandates: {text!r} is not a part of the request"
        elif mandate.get("assigned_agent") not in tuple(TicketAgent):
            expected = " or ".join(TicketAgent)
            yield f"tool_mandates: assigned_agent {mandate.get('assigned_agent')!r}; expected {expected}"


def questions_of(data: Any) -> list[str]:
    """What the Interpreter wants to know from the user."""
    asked = data.get("questions") if isinstance(data, dict) else None
    return [str(question) for question in asked] if isinstance(asked, list) else []


def prompt_rule(ticket: str, request: str, now: str) -> Custom:
    example = render_prompt(ticket, WorkKind.CHORE, "work_on_ticket", [], request, request, ["tests pass"], now)
    return Custom(lambda text: prompt_problem(text, ticket, request), example)


# -- plan.md

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_DEFERRAL = re.compile(
    r"(?<!\w)(?:confirm later|research later|need to research|further research required|figure out|where available|"
    r"if different|determine later|TBD|TODO)(?!\w|\.\w)",
    re.IGNORECASE,
)


def prose(plan: str) -> Iterator[tuple[int, str]]:
    """The lines of a plan outside of fences, with their numbers."""
    fence = ""
    for number, line in enumerate(plan.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, line


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


def graph_rule(limits: GraphLimits) -> Custom:
    return Custom(lambda text: graph_problem(text, new=True, limits=limits), EXAMPLE_GRAPH)


# -- amendment.yaml


def amendment_problem(text: str, forgotten: Mapping[str, Sequence[str]]) -> str | None:
    """What is wrong with an amendment: it gives tasks files that attempts needed, and no others."""
    return problem_in(text, "amendment.yaml", partial(_amendment_complaints, forgotten))


def _amendment_complaints(forgotten: Mapping[str, Sequence[str]], data: dict[str, Any]) -> Complaints:
    if not isinstance(data.get("add"), dict):
        yield "add missing; expected a mapping from task id to a list of files"
    if not isinstance(data.get("reason"), str) or not data["reason"].strip():
        yield "reason missing; expected text"
    for task, paths in data["add"].items():
        if task not in forgotten:
            yield f"add.{task}: only these tasks changed files that are not theirs: {', '.join(forgotten)}"
        for path in paths if isinstance(paths, list) else [paths]:
            if path not in forgotten[task]:
                yield f"add.{task}: {path!r} is none of {', '.join(forgotten[task])}"
            if why := path_problem(str(path)):
                yield f'add.{task}: "{path}": {why}'


def amendment_rule(forgotten: Mapping[str, Sequence[str]]) -> Custom:
    sample = {"add": {task: list(paths) for task, paths in forgotten.items()}, "reason": "The task needs them."}
    return Custom(lambda text: amendment_problem(text, forgotten), render_yaml(sample))


def added_files(text: str) -> dict[str, list[str]]:
    """Task to the files that an amendment gives it."""
    added = read_yaml(text, "amendment.yaml")["add"]
    return {str(task): list(paths) if isinstance(paths, list) else [paths] for task, paths in added.items()}


# -- review_report.yaml

AUTO_ACCEPT_NOTES = "Trivial-graph auto-accepted: 1 task, build green, tests green."


def accepting_report(mode: str, now: str, **more: Any) -> str:
    """A review report that accepts."""
    passed = {"build": "PASSED", "tests": "PASSED", "files_verified": True}
    return render_yaml({"status": "ACCEPTED", "mode": mode, **passed, **more, "reviewed_at": now})


def auto_accept_report(now: str) -> str:
    return accepting_report("auto-accept-trivial", now, notes=AUTO_ACCEPT_NOTES)


def review_problem(text: str) -> str | None:
    return problem_in(text, "review_report.yaml", _review_complaints)


def _review_complaints(data: dict[str, Any]) -> Complaints:
    expected = "expected ACCEPTED or REJECTED"
    if "status" not in data:
        yield f"status missing; {expected}"
    if data["status"] not in ("ACCEPTED", "REJECTED"):
        yield f'status "{data["status"]}"; {expected}'
    for field in ("build", "tests"):
        if data.get(field) not in ("PASSED", "FAILED"):
            yield f"{field} is {data.get(field)!r}; expected PASSED or FAILED"
    issues = data.get("issues")
    listed = isinstance(issues, list) and issues and all(isinstance(issue, dict) for issue in issues)
    if data["status"] == "REJECTED" and not listed:
        yield "a rejection needs issues: a list with at least one mapping"


BLOCKING = ("Blocker", "Major")
"""Severities with which nothing is accepted."""


def review_claim(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
    """What a Reviewer claims, and what stands behind it, from the report that passed its check."""
    ((path, text),) = texts.items()
    report = read_yaml(text, path)
    marks = {name: PASS if report[name] == "PASSED" else FAIL for name in ("build", "tests")}
    if report.get("files_verified") is False:
        marks["files_verified"] = FAIL
    issues = report.get("issues")
    found = [issue for issue in issues if isinstance(issue, dict)] if isinstance(issues, list) else []
    blocking = [str(issue.get("problem") or issue) for issue in found if issue.get("severity") in BLOCKING]
    reason = report.get("nothing_to_run")
    evidence = Evidence(
        checks=checks_in_data(report.get("checks")),
        marks=marks,
        blocking=tuple(blocking),
        nothing_to_run=reason.strip() if isinstance(reason, str) else "",
    )
    return Claim(report["status"] == "ACCEPTED", evidence)


REVIEW_RULE = Custom(
    review_problem,
    accepting_report(
        "prompt-review",
        "2026-01-01T00:00:00Z",
        checks=[{"command": "make test", "exit": 0, "summary": "12 passed"}],
        notes="As asked.",
    ),
)

# -- docs_cache_state.yaml


def cache_problem(text: str, fingerprint: str) -> str | None:
    return problem_in(text, CACHE, partial(_cache_complaints, fingerprint))


def _cache_complaints(fingerprint: str, data: dict[str, Any]) -> Complaints:
    if data.get("trust_status") not in ("trusted", "stale", "unknown"):
        yield f"trust_status is {data.get('trust_status')!r}; expected trusted, stale or unknown"
    if data.get("workspace_fingerprint") != fingerprint:
        yield f"workspace_fingerprint is not {fingerprint}"
    if not isinstance(data.get("documents"), dict):
        yield "documents missing; expected a mapping"
    for path in DOCS:
        name = path.rsplit("/", 1)[-1]
        entry = data["documents"].get(name)
        if not isinstance(entry, dict) or not is_digest(entry.get("sha256")):
            yield f"documents.{name}.sha256 is no SHA-256"


def cache_rule(fingerprint: str, digests: Mapping[str, str]) -> Custom:
    """The rule for the cache; `digests` serve its sample only."""
    documents = {
        path.rsplit("/", 1)[-1]: {"sha256": digests.get(path) or "0" * 64, "refreshed_at": "", "state": "fresh"}
        for path in DOCS
    }
    example = {
        "trust_status": "trusted",
        "workspace_fingerprint": fingerprint,
        "refresh_required": False,
        "documents": documents,
    }
    return Custom(lambda text: cache_problem(text, fingerprint), render_yaml(example))
