"""`router` in the simulated world: what it refuses, reads, routes, hands on, and makes of what comes back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from interlock.agents.values import Exit, Trouble, TroubleKind
from interlock.engine.simulation import Act, Files, begin
from interlock.engine.view import View
from interlock.errors import BadInput, Status
from interlock.playbooks.router import ROUTER
from interlock.playbooks.router.documents import TODO, find_task
from interlock.playbooks.router.playbook import Inputs, Settings
from tests.engine.bench import Bench, said

ENTRY = """\
### 259. Implement automation tactics
- **Status**: [NOT STARTED]
- **Language**: lean
- **Description**: Implement automation tactics for modal logic proofs
"""
LIST = f"# TODO\n\n## Lean\n\n{ENTRY}\n### 27. Other\n- **Language**: general\n- **Description**: Something else\n"
IMPLEMENT, RESEARCH = ".opencode/command/implement.md", ".opencode/command/research.md"
ROUTED = "---\nagent: orchestrator\nrouting:\n  language_based: true\n  lean: {0}\n  default: {1}\n---\nText below.\n"
AGENTS = ".opencode/agent/subagents/"


class Router(Bench):
    """The seed's workspace."""

    def __init__(self, files: dict[str, str | None] | None = None, **settings: Any) -> None:
        there: dict[str, str | None] = {
            TODO: LIST,
            IMPLEMENT: ROUTED.format("lean-implementation-agent", "implementer"),
            RESEARCH: ROUTED.format("lean-research-agent", "researcher"),
            **{f"{AGENTS}{name}.md": f"You are {name}.\n" for name in ("implementer", "researcher")},
            **{f"{AGENTS}lean-{name}-agent.md": "You know Lean.\n" for name in ("implementation", "research")},
            **(files or {}),
        }
        playbook = replace(ROUTER, settings=partial(Settings, **settings))  # type: ignore[arg-type]
        known = {path: text.encode("utf-8", "surrogateescape") for path, text in there.items() if text is not None}
        super().__init__(playbook, {"lib.py": b"x = 1\n", **known})
        self.answers: list[Act] = []
        best = self.cast.agent
        self.cast.agent = lambda ask, key, files: (  # type: ignore[method-assign]
            self.cast.asks.append(ask) or self.answers.pop(0) if self.answers else best(ask, key, files)  # type: ignore[func-returns-value]
        )

    def ask(self, request: str = "/implement 259", **outer: Any) -> View:
        self.last = player = self.player()
        if ROUTER.check:
            ROUTER.check(Inputs(request=request), lambda branch: "")
        return self._in_process(lambda: begin(player, Inputs(request=request), outer=outer))

    @property
    def context(self) -> dict[str, Any]:
        found = re.search(r"```json\n(\{.*?\n\})\n```", self.cast.asks[-1].brief, re.DOTALL)
        assert found is not None
        return dict(json.loads(found[1]))

    def output(self, view: View) -> bytes:
        return b"" if view.ended is None or view.ended.output is None else self.world.folder.get(view.ended.output)


def refused(router: Router, request: str, **outer: Any) -> str:
    """What a user is told; no agent, no session, no byte changed."""
    before = dict(router.world.files)
    with pytest.raises(BadInput) as raised:
        router.ask(request, **outer)
    assert (router.cast.asks, router.world.files) == ([], before)
    assert not router.last.recorder.view.began if hasattr(router, "last") else True
    parts = (raised.value.what, raised.value.where, raised.value.expected, raised.value.found)
    return "\n".join(str(part) for part in parts if part)


# --- command and number

USAGE = "\n\nUsage: /{0} TASK_NUMBER [PROMPT]\n\nExample: /{0} 259"
ABOUT = "\n\nThe task number should be a positive integer corresponding to a task in .opencode/specs/TODO.md"
INTEGER = "Error: Task number must be an integer. Got: "
REFUSED = {
    "/plan": f"Error: Task number required for /plan command{USAGE.format('plan')}{ABOUT}",
    "revise   ": f"Error: Task number required for /revise command{USAGE.format('revise')}{ABOUT}",
    **{
        f"/plan {word}": f"{INTEGER}{word}{USAGE.format('plan')}"
        for word in ("abc", "25.9", "-3", "0", "+5", "#259", "２５９", "000", "259,", "1e3", "0x1")
    },
    "/plan a\x1b[31mb c": f"{INTEGER}a\\x1b[31mb{USAGE.format('plan')}",
    "/foo 259": "Error: Unknown command /foo. Task commands: /research /plan /implement /revise",
    "": "Error: Unknown command /. Task commands: /research /plan /implement /revise",
    "//plan 259": "Error: Unknown command //plan. Task commands: /research /plan /implement /revise",
}


@pytest.mark.req("RT-01", "RT-04", "RT-07", "RT-10", "RT-69", "RT-70", "RT-73")
@pytest.mark.parametrize("request_", REFUSED)
def test_what_is_no_command_with_a_number_is_refused_before_any_file_is_read(request_: str) -> None:
    router = Router({TODO: None})
    assert refused(router, request_) == REFUSED[request_]


TYPED = {
    "/implement 259": ("", 259),
    "implement 259 be brief": ("be brief", 259),
    "/IMPLEMENT 0259\tbe  --brief\n  $(rm -rf /) `x` ": ("be  --brief\n  $(rm -rf /) `x`", 259),
    " /implement  259 260 ### 27.": ("260 ### 27.", 259),
}


@pytest.mark.req("RT-04", "RT-07", "RT-49", "RT-50")
@pytest.mark.parametrize("request_", TYPED)
def test_the_first_token_is_the_number_and_the_rest_the_prompt(request_: str) -> None:
    router = Router()
    assert router.ask(request_).status is Status.COMPLETE or router.cast.asks
    assert (router.context["user_prompt"], router.context["task_number"]) == TYPED[request_]
    assert router.context["prompt"] == "Task 259: Implement automation tactics"


# --- files that are missing or wrong

HEADER = "---\n{}\n---\n"
LISTED = 'You can list all tasks with: grep "^###" .opencode/specs/TODO.md'
VERIFY = "Please verify the task number exists in .opencode/specs/TODO.md"
WRONG: dict[str, tuple[dict[str, str | None], str, str]] = {
    "no task": ({}, "/implement 2", f"Error: Task 2 not found in TODO.md\n\n{VERIFY}\n\n{LISTED}"),
    "none with so many digits": ({}, f"/implement {'9' * 400}", f"Error: Task {'9' * 40}… not found in TODO.md"),
    "none in a fence": ({TODO: f"```\n{ENTRY}```\n"}, "/implement 259", "Task 259 not found"),
    "none by another heading": (
        {TODO: "## 259. A\n#### 259. B\n### 2590. C\n###259. D"},
        "/implement 259",
        "not found",
    ),
    "no list": ({TODO: None}, "/implement 259", "Error: .opencode/specs/TODO.md not found"),
    "no UTF-8": ({TODO: "### 259. \udcff\n"}, "/implement 259", ".opencode/specs/TODO.md"),
    "twice": (
        {TODO: f"{ENTRY}\n\n{ENTRY}"},
        "/implement 259",
        "Error: Task 259 appears twice in TODO.md (lines 1 and 7)",
    ),
    "no command file": ({}, "/plan 259", "Error: Command file .opencode/command/plan.md not found"),
    "no YAML": ({IMPLEMENT: HEADER.format("a: b\nc: [")}, "/implement 259", IMPLEMENT),
    "no target": (
        {IMPLEMENT: HEADER.format("agent: orchestrator")},
        "/implement 259",
        f"Error: {IMPLEMENT} names no target agent (routing.default or agent)",
    ),
    "no header": ({IMPLEMENT: "Implement it.\n"}, "/implement 259", "names no target agent"),
    "lean without an agent for it": (
        {IMPLEMENT: HEADER.format("routing:\n  language_based: true\n  default: implementer")},
        "/implement 259",
        "names no target agent for language lean (routing.lean)",
    ),
    "a path as name": ({IMPLEMENT: HEADER.format("agent: ../../x")}, "/implement 259", '"../../x"'),
    "a name in capitals": ({IMPLEMENT: HEADER.format("agent: Implementer")}, "/implement 259", '"Implementer"'),
    "a timeout": ({IMPLEMENT: HEADER.format("timeout: soon")}, "/implement 259", '"soon"'),
    "a timeout that is true": ({IMPLEMENT: HEADER.format("timeout: true")}, "/implement 259", "timeout"),
    "a timeout of two days": ({IMPLEMENT: HEADER.format("timeout: 172800")}, "/implement 259", "172800"),
    "a word for language_based": (
        {IMPLEMENT: HEADER.format('routing: {language_based: "yes"}')},
        "/implement 259",
        "routing.language_based",
    ),
    "no agent file": (
        {f"{AGENTS}lean-implementation-agent.md": None},
        "/implement 259",
        "Error: Agent lean-implementation-agent not found\n\n"
        "File: .opencode/agent/subagents/lean-implementation-agent.md does not exist\n\n"
        "Check command configuration in .opencode/command/implement.md",
    ),
    "a scope that leads out": (
        {f"{AGENTS}lean-implementation-agent.md": HEADER.format('writes: ["../x"]')},
        "/implement 259",
        "writes must be a list of globs inside the workspace",
    ),
    "too much": (
        {TODO: ENTRY + "more\n" * 4000},
        "/implement 259 be brief",
        "at most 10000 are passed on (description",
    ),
}


@pytest.mark.req("RT-15", "RT-16", "RT-26", "RT-46", "RT-47", "RT-54", "RT-71", "RT-72", "RT-73", "RT-43", "RT-03")
@pytest.mark.parametrize("name", WRONG)
def test_what_the_files_do_not_bear_out_is_refused(name: str) -> None:
    files, request, expected = WRONG[name]
    assert expected in refused(Router(files), request)


# --- a task as people write it

MORE = "\n\nA second paragraph:\n\n```lean\n### 5. no heading\n- **Language**: rust\n```\n\n  - and a **list**: here"
SPELLED: dict[str, tuple[str, dict[str, str]]] = {
    "as the seed": (ENTRY, {"language": "lean", "status": "[NOT STARTED]"}),
    "stars and colons inside": (
        "### 259. T\n* **Language:** Lean\n* __Status__: [X]\n",
        {"language": "lean", "status": "[X]"},
    ),
    "without bold or bullet": ("### 259. T\nLanguage: `lean`\nstatus: done\n", {"language": "lean", "status": "done"}),
    "numbered, indented": ("### 259. T\n    1. LANGUAGE: lean\n", {"language": "lean"}),
    "names in back-quotes": ("### 259. T\n- `Language`: lean\n", {"language": "lean"}),
    "with a version": ("### 259. T\n- **Language**: Lean 4\n", {"language": "lean"}),
    "another version": ("### 259. T\n- **Language**: lean4\n", {"language": "lean"}),
    "indented below the description": (
        "### 259. T\n- **Description**: Do\n  - **Note**: so\n  - **Language**: lean\n",
        {"language": "lean", "description": "Do\n  - **Note**: so"},
    ),
    "rows of a table": (
        "### 259. T\n| Field | Value |\n|-|-|\n| **Description** | Do |\n| Priority | 1 |\n| Language | `Lean` |\n",
        {"language": "lean", "description": "Do"},
    ),
    "a table in the description": (
        "### 259. T\n- **Description**: Do\n\n| Language | Files |\n|---|---|\n- **Language**: lean\n",
        {"language": "lean"},
    ),
    "the first counts": ("### 259. T\n- **Language**: lean\n- **Language**: rust\n", {"language": "lean"}),
    "empty": ("### 259. T\n- **Language**:\n", {"language": "general"}),
    "none, whatever title and files say": ("### 259. Lean\n- **Files**: a.lean\n", {"language": "general"}),
    "bare ones behind the description are its words": (
        "### 259. T\n- **Description**: Say\nlanguage: lean\n- status: x\n",
        {"language": "general", "description": "Say\nlanguage: lean\n- status: x", "status": ""},
    ),
    "of the next task": (
        "### 259. T\n\n### 260. U\n- **Language**: lean\n",
        {"language": "general", "description": ""},
    ),
    "of the next chapter": ("### 259. T\n## More\n- **Language**: lean\n", {"language": "general"}),
    "over paragraphs": (
        f"### 259. T\n- **Description**: First{MORE}\n- **Language**: lean\n",
        {"description": f"First{MORE}"},
    ),
    "below a heading": ("### 259. T\n#### Description\n\nThis\n\n#### Notes\nNot this\n", {"description": "This"}),
    "its own text": (
        "### 259. T\n- **Language**: lean\n\nDo this.\n\n---\n",
        {"description": "Do this.", "language": "lean"},
    ),
    "CRLF": (ENTRY.replace("\n", "\r\n"), {"language": "lean", "status": "[NOT STARTED]"}),
    "a long one": (
        f"### 259. T\n- **Description**: {'x' * 500}\n" + "- a line\n" * 80 + "- **Language**: lean\n",
        {"language": "lean"},
    ),
}


@pytest.mark.req("RT-16", "RT-18", "RT-19", "RT-20", "PERSON-07")
@pytest.mark.parametrize("name", SPELLED)
def test_a_task_is_read_as_people_write_it(name: str) -> None:
    text, expected = SPELLED[name]
    task = find_task(f"# TODO\n\n### 25. Before\n- **Language**: rust\n\n{text}", "259")
    assert {field: getattr(task, field) for field in expected} == expected


@pytest.mark.req("RT-15", "RT-19")
def test_description_language_and_prompt_are_handed_on_whole() -> None:
    router = Router()
    view = router.ask("/implement 259 be brief")
    assert router.context == {
        "prompt": "Task 259: Implement automation tactics",
        "task_number": 259,
        "language": "lean",
        "task_description": "Implement automation tactics for modal logic proofs",
        "user_prompt": "be brief",
        "session_id": router.context["session_id"],
        "delegation_depth": 1,
        "delegation_path": ["orchestrator", "lean-implementation-agent"],
        "timeout": 7200,
        "deadline": "2026-01-01T02:00:00Z",
    }
    assert re.fullmatch(r"sess_20260101_[0-9a-z]{6}", router.context["session_id"])
    assert router.text(TODO) == LIST and view.status is Status.DEGRADED


# --- routing

ROUTES: dict[str, tuple[str, str, str | None, str]] = {
    "lean, implement": ("/implement 259", "lean", None, "lean-implementation-agent"),
    "general, implement": ("/implement 259", "general", None, "implementer"),
    "lean, research": ("/research 259", "lean", None, "lean-research-agent"),
    "general, research": ("/research 259", "general", None, "researcher"),
    "markdown": ("/implement 259", "markdown", None, "implementer"),
    "rust": ("/implement 259", "rust", None, "implementer"),
    "not by language": ("/implement 259", "lean", "routing: {default: researcher, lean: implementer}", "researcher"),
    "by agent": ("/implement 259", "lean", "agent: implementer", "implementer"),
    "default before agent": (
        "/implement 259",
        "lean",
        "agent: implementer\nrouting:\n  default: researcher",
        "researcher",
    ),
    "keys without a value": (
        "/implement 259",
        "lean",
        "agent: implementer\ntimeout:\nrouting:\nname: x\nx: [1]",
        "implementer",
    ),
}


@pytest.mark.req("RT-40", "RT-43", "RT-48", "RT-20", "RT-56")
@pytest.mark.parametrize("name", ROUTES)
def test_the_agent_follows_from_language_and_command_file(name: str) -> None:
    request, language, header, agent = ROUTES[name]
    files: dict[str, str | None] = {TODO: ENTRY.replace("lean\n", f"{language}\n", 1)}
    if header is not None:
        files[IMPLEMENT] = HEADER.format(header)
    for _ in range(2):
        router = Router(files)
        view = router.ask(request)
        assert [ask.role.name for ask in router.cast.asks] == [agent]
        assert router.context["delegation_path"] == ["orchestrator", agent]
        assert any("not known" in one for one in view.warnings) == (language == "rust")


TIMES: dict[str, tuple[str, str, dict[str, int], int]] = {
    "of the file": ("/implement 259", "timeout: 60\nagent: implementer", {}, 60),
    "implementation": ("/implement 259", "agent: implementer", {}, 7200),
    "research": ("/research 259", "agent: implementer", {}, 3600),
    "planning": ("/plan 259", "agent: implementer", {"timeout_default_s": 3600}, 1800),
    "the default": ("/revise 259", "agent: implementer", {}, 1800),
    "a default of theirs": ("/revise 259", "agent: implementer", {"timeout_default_s": 3600}, 3600),
}


@pytest.mark.req("RT-62", "RT-64", "RT-26")
@pytest.mark.parametrize("name", TIMES)
def test_each_delegation_has_its_deadline(name: str) -> None:
    request, header, settings, seconds = TIMES[name]
    command = request[1:].partition(" ")[0]
    router = Router({f".opencode/command/{command}.md": HEADER.format(header)}, **settings)
    router.ask(request)
    assert (router.context["timeout"], router.cast.asks[-1].timeout_s) == (seconds, seconds)
    begun = router.context["deadline"]
    assert begun == f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:00Z"


@pytest.mark.req("RT-64", "RUN-15")
def test_the_time_that_is_told_is_the_time_there_is() -> None:
    """For all calls together; waiting for a service is no part of it, and a timeout of their own settings counts."""
    router = Router({IMPLEMENT: HEADER.format("agent: implementer")})
    limit = Trouble(kind=TroubleKind.LIMIT, text="no more", until=router.world.now() + timedelta(days=1))
    router.answers = [said("", seconds=600), said("", finished=False, seconds=60, trouble=limit)]
    router.ask()
    briefs = [re.search(r'"timeout": (\d+),\n "deadline": "(.*?)"', ask.brief) for ask in router.cast.asks]
    assert [ask.timeout_s for ask in router.cast.asks] == [7200, 6600, 6540]
    assert [one and one[1] for one in briefs] == ["7200", "6600", "6540"]
    assert [one and one[2][:13] for one in briefs] == ["2026-01-01T02", "2026-01-01T01", "2026-01-02T01"]


# --- depth and cycles


@pytest.mark.req("RT-33", "RT-35", "RT-37")
def test_three_deep_and_never_twice_the_same() -> None:
    router = Router()
    router.ask("/implement 259", depth=2, path=["orchestrator", "a", "b"], tasks=["1", "2"])
    assert router.context["delegation_depth"] == 3
    assert router.context["delegation_path"] == ["orchestrator", "a", "b", "lean-implementation-agent"]
    assert router.cast.asks[-1].hands == {
        "depth": 3,
        "path": router.context["delegation_path"],
        "tasks": ["1", "2", "259"],
    }
    told = refused(Router(), "/implement 259", depth=3, path=["orchestrator", "a", "b", "c"])
    assert told == "Error: delegation depth 4 exceeds the maximum of 3 (path: orchestrator -> a -> b -> c)"
    same = ["orchestrator", "lean-implementation-agent"]
    told = refused(Router(), "/implement 259", depth=1, path=same)
    assert told == f"Error: delegation cycle: {' -> '.join([*same, same[-1]])}"
    assert "task 259 is being worked on" in refused(
        Router(), "/implement 259", depth=1, path=["orchestrator", "x"], tasks=["259"]
    )
    assert Router(cycle_detection=False).ask("/implement 259", depth=1, path=same).calls
    assert "depth 2 exceeds the maximum of 1" in refused(
        Router(max_depth=1, cycle_detection=False), "/implement 259", depth=1
    )


# --- what the agent gets


@pytest.mark.req("RT-49", "RT-52", "RT-54")
def test_the_brief_is_the_object_the_agents_file_and_the_required_context() -> None:
    folder = ".opencode/context"
    router = Router(
        {f"{folder}/index.md": "i", f"{folder}/core/system/routing-guide.md": "r", f"{folder}/other.md": "o"}
    )
    view = router.ask("/implement 259 be brief")
    ask = router.cast.asks[-1]
    inputs = ask.brief.partition("## Inputs\n")[2].partition("\n## ")[0]
    assert inputs.split() == ["-", f"`{folder}/index.md`", "-", f"`{folder}/core/system/routing-guide.md`"]
    assert f"{folder}/core/system/validation-rules.md is not there" in view.warnings
    assert "nothing in it needs to be parsed or checked again" in ask.brief
    assert "/implement 259" not in ask.brief.partition("## Task")[2]


@pytest.mark.req("RT-54")
def test_a_broken_header_leaves_the_whole_text_and_a_scope_is_the_files() -> None:
    file = f"{AGENTS}lean-implementation-agent.md"
    router = Router({file: "---\nwrites: [\n---\nYou.\n"})
    view = router.ask()
    assert any(file in one and "whole text" in one for one in view.warnings)
    assert (
        "`.opencode/specs/**`" in router.cast.asks[-1].brief
        or "any file of the workspace" in router.cast.asks[-1].brief
    )
    router = Router({file: HEADER.format('writes: ["src/**", ".opencode/specs/**"]')})
    router.ask()
    assert "You may change: `src/**`, `.opencode/specs/**`" in router.cast.asks[-1].brief


# --- what comes back

JSON = {"status": "completed", "summary": "done", "artifacts": ["a.lean"]}
FOREIGN = json.dumps({**JSON, "session_id": "sess_20260104_a7f3d9"})


def text(words: str, **more: Any) -> Act:
    return said(words, {"done.txt": b"worked\n"}, **more)


RETURNS: dict[str, tuple[str, int, bool]] = {
    json.dumps(JSON): ("complete", 0, True),
    json.dumps(JSON, indent=4) + "\n\n": ("complete", 0, True),
    f"I did it.\n\n```json\n{json.dumps(JSON)}\n```\n": ("complete", 0, True),
    json.dumps({"status": "partial"}): ("degraded", 1, True),
    json.dumps({"status": "blocked"}): ("stopped", 3, True),
    json.dumps({"status": "failed"}): ("stopped", 5, False),
    json.dumps({**JSON, "errors": ["it does not build"]}): ("stopped", 5, False),
    json.dumps({**JSON, "errors": "it does not build"}): ("stopped", 5, False),
    json.dumps({**JSON, "verification": [{"command": "lake build", "exit": 1}]}): ("stopped", 5, False),
    json.dumps({**JSON, "verification": [{"command": "lake build", "exit": 0}], "errors": []}): ("complete", 0, True),
    json.dumps({"status": "partial", "errors": ["one is left"]}): ("degraded", 1, True),
    'As in:\n```json\n{"status": "completed"}\n```\nBut:\n```\n{"status": "failed"}\n```\n': ("stopped", 5, False),
}
TEXTS: dict[str, tuple[str, int, bool]] = {
    "Done.\nStatus: completed\n": ("complete", 0, True),
    "Done.\n\n**Status:** Partial.\n\n": ("degraded", 1, True),
    "I cannot.\nstatus: blocked": ("stopped", 3, True),
    "Status: failed": ("stopped", 5, False),
    "Status: 404 was what it gave.\nI mended it.": ("degraded", 1, True),
    "All is well, \u2200x. \x1b[1m\r\n": ("degraded", 1, True),
    'Look:\n```json\n{"name": 1}\n```\n': ("degraded", 1, True),
    'It must say:\n```json\n{"status": "completed"}\n```\nIt does not.\n\nStatus: failed': ("stopped", 5, False),
    'It said:\n```json\n{"status": "pending"}\n```\nI mended it.\n\nStatus: completed': ("complete", 0, True),
    'It said:\n```json\n{"status": "completed"}\n```\nI looked at it.': ("degraded", 1, True),
}


@pytest.mark.req("RT-58", "RT-59", "RT-61", "RT-76", "TREE-14")
@pytest.mark.parametrize("returns", ["json", "text"])
@pytest.mark.parametrize("answer", [*RETURNS, *TEXTS])
def test_a_usable_answer_is_relayed_as_it_is_and_ends_the_run_as_it_says(answer: str, returns: str) -> None:
    """Of an object with a status, whatever is expected; work comes in unless it failed."""
    if returns == "json" and answer in TEXTS:
        return
    status, code, delivered = (RETURNS | TEXTS)[answer]
    router = Router({IMPLEMENT: HEADER.format(f"agent: implementer\nreturns: {returns}")})
    router.answers = [text(answer)]
    view = router.ask()
    assert (view.status.value, view.ended.exit if view.ended else -1) == (status, code), view.why
    assert router.output(view) == answer.encode()
    assert ("done.txt" in router.world.files) is delivered
    assert len(router.cast.asks) == 1
    if answer in TEXTS and "tatus:" not in answer.strip().splitlines()[-1]:
        assert "unverified" in view.why


@pytest.mark.req("RT-61")
@pytest.mark.parametrize(("words", "same"), [(json.dumps(JSON, indent=3), True), ("Done.", False), ("", False)])
def test_an_answer_that_a_client_gives_as_an_object_is_relayed_as_it_was_spelled(words: str, same: bool) -> None:
    """Spelled anew only where its text is something else."""
    router = Router({IMPLEMENT: HEADER.format("agent: implementer\nreturns: json")})
    router.answers = [said(JSON, text=words)]
    assert router.output(router.ask()).decode() == (words if same else json.dumps(JSON))


UNUSABLE: dict[str, tuple[str, str, str]] = {
    "no JSON": ("json", "Done.", "implementer returned invalid JSON"),
    "half of it": ("json", '{"status": ', "implementer returned invalid JSON"),
    "a list": ("json", "[1]", "implementer returned invalid JSON"),
    "no status": ("json", "{}", "implementer returned no status; expected completed, partial, failed or blocked"),
    "another status": ("json", '{"status": "done"}', 'implementer returned status "done"; expected completed'),
    "another status, as text": ("text", '{"status": "done"}', 'implementer returned status "done"; expected'),
    "another last line": ("text", "x\nStatus: done", 'implementer returned status "done"; expected'),
    "an example": (
        "json",
        f"As in:\n```json\n{json.dumps(JSON)}\n```\nI could not.",
        "implementer returned invalid JSON",
    ),
    "a number": ("json", '{"status": 0}', "implementer returned status 0; expected"),
    "another session": ("json", FOREIGN, "answer belongs to session sess_20260104_a7f3d9, expected sess_20260101_"),
    "nothing": ("text", " \n", "implementer returned no answer"),
}


@pytest.mark.req("RT-75", "RT-30", "RT-59", "RT-58")
@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_answer_is_asked_for_once_more_and_then_kept(name: str) -> None:
    returns, answer, why = UNUSABLE[name]
    files: dict[str, str | None] = {IMPLEMENT: HEADER.format(f"agent: implementer\nreturns: {returns}")}
    router = Router(files)
    router.answers = [text(answer), text(json.dumps(JSON))]
    assert router.ask().status is Status.COMPLETE
    assert len(router.cast.asks) == 2 and why in router.cast.asks[1].brief
    router = Router(files)
    router.answers = [text(answer), text(answer)]
    view = router.ask()
    assert (view.ended.exit if view.ended else -1, router.output(view)) == (5, b"")
    assert view.why.startswith(f"Error: {why}")
    place = "Delegate/implementer#1"
    assert (
        view.why.endswith(f"Raw answer: .interlock/runs/run-1/dispatches/{place}/answer.md") or "run-1" not in view.run
    )
    assert router.world.folder.get(view.calls[place].report.text or "").decode() == answer  # type: ignore[union-attr]
    assert "done.txt" not in router.world.files and len(router.cast.asks) == 2


TROUBLE: dict[str, tuple[Exit, str]] = {
    "it crashes": (Exit(finished=False, exit=1, text="half", stderr="boom"), "boom"),
    "it is not there": (Exit(finished=False, started=False, stderr="no such program"), "no such program"),
    "it does not end": (Exit(finished=False, timed_out=True, text="so far: 3 lemmas"), "not done within its time"),
    "its status is not 0": (Exit(finished=False, exit=2, text='{"status": "completed"}'), "implementer"),
}


@pytest.mark.req("RT-67", "RT-75", "RT-76", "RT-30")
@pytest.mark.parametrize("name", TROUBLE)
def test_where_nothing_usable_came_the_agent_has_failed_and_is_not_called_again(name: str) -> None:
    exit_, why = TROUBLE[name]
    router = Router({IMPLEMENT: HEADER.format("agent: implementer")})
    router.answers = [Act({"done.txt": b"half\n"}, exit_)]
    view = router.ask()
    assert (view.ended.exit if view.ended else -1, router.output(view), len(router.cast.asks)) == (5, b"", 1)
    assert why in view.why and "done.txt" not in router.world.files
    assert ("so far: 3 lemmas" in " ".join(view.warnings)) is (name == "it does not end")
    router.answers = [text("Status: completed")]
    assert router.resume().status is Status.COMPLETE


@pytest.mark.req("RT-66")
@pytest.mark.parametrize("answer", ["so far", "x\nStatus: completed", json.dumps(JSON)])
def test_what_comes_after_the_deadline_is_partial(answer: str) -> None:
    router = Router({IMPLEMENT: HEADER.format("agent: implementer")})
    router.answers = [text(answer, late=True)]
    view = router.ask()
    assert (view.status, view.ended.exit if view.ended else -1) == (Status.DEGRADED, 1)
    assert router.output(view) == answer.encode() and router.cast.asks[0].grace_s == 30


@pytest.mark.req("RT-76", "TREE-04", "TREE-08")
@pytest.mark.parametrize("outside", [False, True])
def test_a_conflict_and_work_out_of_scope_do_not_come_in(outside: bool) -> None:
    file = f"{AGENTS}implementer.md"
    router = Router({IMPLEMENT: HEADER.format("agent: implementer"), file: HEADER.format('writes: ["src/**"]')})
    path = "lib.py" if outside else "src/a.py"

    def happens(ask: Any, files: Files) -> Act:
        if not outside:
            router.world.files[path] = b"theirs\n"
        return said("Status: completed", {path: b"mine\n"})

    router.cast.acts["implementer"] = [happens, happens]
    router.answers = []
    view = router.ask()
    assert (view.ended.exit if view.ended else -1) == 5, view.why
    assert router.text(path) == ("x = 1\n" if outside else "theirs\n")


@pytest.mark.req("RT-15", "RT-54")
def test_the_agent_may_note_its_work_in_the_list_and_that_is_told() -> None:
    router = Router()
    router.answers = [said("Status: completed", {TODO: LIST.replace("NOT STARTED", "COMPLETED").encode()})]
    view = router.ask()
    assert "[COMPLETED]" in router.text(TODO)
    assert any("changed it meanwhile" in one for one in view.warnings)
    again = Router({TODO: router.text(TODO)}).ask()
    assert "task 259 is [COMPLETED]" in again.warnings


@pytest.mark.req("RT-74", "RT-28", "RT-30")
def test_each_stage_records_what_it_established() -> None:
    router = Router()
    view = router.ask()
    assert [name for name, _ in view.notes] == ["validated", "routed", "returned"]
    assert [step.name for step in view.steps] == ["Delegate"]
    notes = dict(view.notes)
    assert notes["validated"]["session"] == notes["returned"]["session"] == router.context["session_id"]
    assert notes["routed"]["agent"] == "lean-implementation-agent"
    sessions = {Router().ask().notes[0][1]["session"] for _ in range(2)}
    assert sessions, "drawn by the world: by chance in the real one"
