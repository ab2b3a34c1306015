"""Scenarios are read strictly, decided purely and played on real files."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.capped_file import cut_mark
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Usage
from interlock.agents.scenario import OUTSIDE, Facts, Misbehaviour, Reaction, Scenario, react
from interlock.agents.scripted import ScriptedRunner
from interlock.contracts import (
    AnswerFormat,
    Artifact,
    Contract,
    Headings,
    Outcome,
    Reason,
    parse_answer,
)
from interlock.errors import DocumentInvalid
from tests.deadlines import Deadline
from tests.playbooks.answer_words import ALL, ROADMAP, SAID

RequestFor = Callable[..., AgentRequest]

FACTS = Facts("feature", "3b", "ct-security", "ct-security", 1, "sess_20260104_a7f3d9", "Judge the design.")
CONTRACT = Contract(
    (Artifact("docs/a.md", structure=Headings(("## Findings",))), Artifact("docs/b.md", required=False))
)


def scenario(text: str) -> Scenario:
    return Scenario.parse(text, "scenario.yaml")


def one(text: str, facts: Facts = FACTS, contract: Contract | None = CONTRACT) -> Reaction:
    return react(scenario(f"reactions:\n  - {{{text}}}"), facts, contract, {})


async def play(text: str, request: AgentRequest, news: list[AgentNews] | None = None) -> AgentExit:
    return await ScriptedRunner(scenario(text)).call(request, (news if news is not None else []).append)


def judged(request: AgentRequest, ended: AgentExit) -> Outcome | Reason:
    """What the engine would make of the answer."""
    assert request.contract is not None
    answer = parse_answer(
        request.contract.answer,
        code=ended.code,
        result=ended.result,
        message=ended.output.tail(100_000).decode(errors="replace"),
        session=request.session,
        spawn_error=ended.spawn_error,
        timed_out=ended.timed_out,
        partial=ended.partial,
    )
    return answer.reason or answer.outcome


# What a scenario says


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("strikt: true", 1, "did you mean 'strict'"),
        ("strict: false\nreactions:\n  - agent: a\n    mesage: hi", 4, "did you mean 'message'"),
        ("reactions:\n  - agent: a\n    misbehave: hangs", 3, "did you mean 'hang'"),
        ("reactions:\n  - files:\n      ../x: y", 3, "'..'"),
        ("reactions:\n  - delete: [/etc/passwd]", 2, "absolute"),
        ("reactions:\n  - exit: 300", 2, "reactions.0.exit"),
        ("reactions:\n  - message: 5", 2, "reactions.0.message"),
        ("reactions:\n  - times: 0", 2, "reactions.0.times"),
        ("reactions:\n  - delay_s: -1", 2, "reactions.0.delay_s"),
        ("reactions:\n  - attempt: true", 2, "reactions.0.attempt"),
        ("reactions:\n  - usage: {tokens: 5}", 2, "reactions.0.usage"),
        ("reactions:\n  - run: pytest", 2, "reactions.0.run"),
        ("reactions:\n  - append: {a.md: [1]}", 2, "reactions.0.append.a.md"),
        ("reactions: 5", 1, "reactions"),
        ("strict: maybe", 1, "strict"),
        ("- a", 1, "the scenario"),
        ("reactions:\n  - a\n", 2, "reactions.0"),
        ("reactions: [", None, "scenario.yaml"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int | None, says: str) -> None:
    """Unknown keys name the nearest known one."""
    with pytest.raises(DocumentInvalid) as caught:
        scenario(text)
    assert says in caught.value.what
    assert line is None or caught.value.line == line


@given(st.text())
def test_any_text_is_a_scenario_or_a_document_error(text: str) -> None:
    """No input makes the reader fall over."""
    try:
        scenario(text)
    except DocumentInvalid as error:
        assert error.path == "scenario.yaml"


def test_an_empty_scenario_is_a_scenario() -> None:
    """It leaves everything open."""
    assert scenario("") == scenario("reactions: []") == Scenario()


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("agent: ct-*", True), ("agent: CT-*", False), ("attempt: 1", True), ("attempt: 2", False), ("step: 3?", True),
        ("attempt: [2, 1]", True), ("agent: [a, ct-security]", True), ("playbook: feature, step: 4", False),
        ("member: ct-security", True), ("playbook: ticket", False),
    ],
)  # fmt: skip
def test_a_reaction_fits_by_globs_of_all_its_keys(match: str, fits: bool) -> None:
    """Exact case; a list means any of them; all keys must fit."""
    assert (one(f"{match}, message: mine").message == "mine") == fits


def test_the_first_fitting_reaction_is_played_as_often_as_it_may() -> None:
    """Then the next one that fits."""
    told = scenario("reactions:\n  - {times: 2, message: first}\n  - {agent: x, message: no}\n  - {message: then}")
    assert [react(told, FACTS, None, {0: used}).rule for used in range(4)] == [0, 0, 2, 2]


def test_placeholders_are_replaced_and_other_braces_stay() -> None:
    """In paths, contents, messages and results, once."""
    facts = Facts("feature", "3b", "impl", "impl-T1", 2, "sess", "use {member}")
    played = one(
        "files: {'out/{member}.json': {m: '{member}', n: '{other} {}'}}, append: {log: '{attempt}'},"
        " message: '{task}/{session}', result: {s: '{step}'}",
        facts,
        None,
    )
    assert played.files == (("out/impl-T1.json", b'{\n  "m": "impl-T1",\n  "n": "{other} {}"\n}\n'),)
    assert (played.append, played.message) == ((("log", b"2"),), "use {member}/sess")
    assert played.result == b'{\n  "s": "3b"\n}\n'


def test_the_task_is_the_first_line_of_that_section(request_for: RequestFor) -> None:
    """Taken from the brief."""
    assert Facts.of(request_for()).task == "Add the login page."
    assert Facts.of(request_for(brief="no sections")).task == ""


# What is filled in


@pytest.mark.parametrize("answer", ALL)
async def test_where_a_scenario_is_silent_the_contract_is_satisfied(
    request_for: RequestFor, answer: AnswerFormat
) -> None:
    """Every required artifact gets a sample, and the answer is the best verdict."""
    structure = Headings(("## Findings",))
    contract = Contract(
        (Artifact("docs/a.md", structure=structure), Artifact("b.md"), Artifact("c.md", required=False)), answer
    )
    request = request_for(contract=contract)
    ended = await play("", request)
    assert judged(request, ended) is Outcome.OK
    assert structure.problem((request.workspace / "docs/a.md").read_text()) is None
    assert (request.workspace / "b.md").read_text().strip()
    assert not (request.workspace / "c.md").exists()


@pytest.mark.parametrize("answer", SAID)
@pytest.mark.parametrize("message", ["", "message: Long story., "])
async def test_a_status_is_said_in_the_format_of_the_contract(
    request_for: RequestFor, answer: AnswerFormat, message: str
) -> None:
    """Every token, with and without words before it."""
    for token, outcome in answer.tokens.items():
        request = request_for(contract=Contract((), answer))
        ended = await play(f"reactions:\n  - {{{message}status: {token}}}", request)
        found = judged(request, ended)
        assert found is (Reason.AGENT_ERROR if outcome is Outcome.FAIL else outcome)
        assert (b"Long story." in ended.output.read()) == bool(message)


def test_only_what_the_scenario_leaves_open_is_filled_in() -> None:
    """A path that it mentions is its own affair; null leaves it out."""
    assert one("files: {docs/a.md: mine}").files == (("docs/a.md", b"mine"),)
    assert one("files: {docs/a.md: null}").files == ()
    assert one("delete: [docs/a.md]").files == ()
    assert [path for path, _ in one("files: {other.md: x}").files] == ["docs/a.md", "other.md"]


def test_a_message_without_a_status_is_the_whole_answer() -> None:
    """Nothing is added to it."""
    assert one("message: 'NEEDS_REVISION: no tests'").message == "NEEDS_REVISION: no tests"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{agent: other, status: DONE}", "no reaction"),
        ("{files: {docs/a.md: x}}", "no answer"),
        ("{status: DONE}", "docs/a.md"),
    ],
)
async def test_a_strict_scenario_fails_where_it_is_silent(request_for: RequestFor, text: str, says: str) -> None:
    """The error names agent, step and attempt; nothing is written."""
    request = request_for(contract=CONTRACT, attempt=2)
    ended = await play(f"strict: true\nreactions:\n  - {text}", request)
    assert ended.code is None
    for part in (says, "'Implement'", "attempt 2", "step"):
        assert part in (ended.spawn_error or "")
    assert list(request.workspace.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{status: DONE, files: {docs/a.md: x}}", "{exit: 1}", "{misbehave: hang}", "{status: DONE, run: ['true']}"]
)
def test_a_strict_scenario_that_says_enough_is_played(text: str) -> None:
    """Failures need no more words, and a program may write the files."""
    assert react(scenario(f"strict: true\nreactions:\n  - {text}"), FACTS, CONTRACT, {}).refused is None


# What is played


async def test_files_message_exit_result_and_usage(request_for: RequestFor) -> None:
    """Everything a reaction names happens in the workspace and comes back."""
    request = request_for()
    (request.workspace / "log.md").write_text("old\n")
    (request.workspace / "gone.md").write_text("x")
    news: list[AgentNews] = []
    ended = await play(
        "reactions:\n  - {files: {a/b.txt: hi}, append: {log.md: new}, delete: [gone.md, never.md], exit: 3,"
        " message: said, result: {status: success}, usage: {input_tokens: 5, cost_usd: 0.1}}",
        request,
        news,
    )
    assert (ended.code, ended.output.read(), ended.usage) == (3, b"said", Usage(5, None, 0.1))
    assert ended.result == request.result_path.read_bytes() == b'{\n  "status": "success"\n}\n'
    tree = {
        p.relative_to(request.workspace).as_posix(): p.read_text() for p in request.workspace.rglob("*") if p.is_file()
    }
    assert tree == {"a/b.txt": "hi", "log.md": "old\nnew"}
    assert [one.kind for one in news] == ["started", "ended"]
    assert len((request.folder / "transcript.jsonl").read_text().splitlines()) == 2


async def test_uses_are_counted_across_calls(request_for: RequestFor) -> None:
    """One runner remembers what it has played."""
    runner = ScriptedRunner(scenario("reactions:\n  - {times: 1, message: once}\n  - {message: later}"))
    said = [(await runner.call(request_for(), lambda _: None)).output.read() for _ in range(3)]
    assert said == [b"once", b"later", b"later"]


@pytest.mark.parametrize(("code", "expected"), [(0, b"success"), (1, b"needs_revision")])
async def test_a_real_program_decides_between_two_verdicts(request_for: RequestFor, code: int, expected: bytes) -> None:
    """It runs in the workspace after the files are written, and what it prints can be quoted."""
    request = request_for(contract=Contract((), ROADMAP))
    program = f"import sys; print(open('x.txt').read() * 2); sys.exit({code})"
    ended = await play(
        f"reactions:\n  - files: {{x.txt: ab}}\n    run: ['{sys.executable}', '-c', \"{program}\"]\n"
        "    message: 'Output: {run}'\n    status: success\n    otherwise: needs_revision",
        request,
    )
    assert ended.code == 0
    assert b"Output: abab" in ended.output.read()
    assert expected in ended.output.read()


async def test_without_a_second_verdict_the_programs_exit_is_the_agents(request_for: RequestFor) -> None:
    """A program that cannot be started fails like in a shell."""
    assert (await play("reactions:\n  - run: [sh, -c, exit 6]", request_for())).code == 6
    assert (await play("reactions:\n  - run: [no-such-program]", request_for())).code == 127


@pytest.mark.req("CM-09")
async def test_hang_is_ended_by_the_deadline_with_its_work_written(request_for: RequestFor, deadline: Deadline) -> None:
    """The runner keeps the deadline."""
    request = request_for(contract=CONTRACT)
    deadline((request.workspace / "docs/a.md").exists)
    ended = await play("reactions:\n  - misbehave: hang", request)
    assert (ended.code, ended.timed_out, ended.partial) == (-signal.SIGTERM, True, False)
    assert (request.workspace / "docs/a.md").exists()
    assert judged(request, ended) is Reason.TIMEOUT


async def test_hang_ends_when_it_is_cancelled(request_for: RequestFor) -> None:
    """Nothing is left playing."""
    task = asyncio.create_task(play("reactions:\n  - misbehave: hang", request_for()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_late_answer_in_the_grace_is_partial(request_for: RequestFor) -> None:
    """Asked for at the deadline, like of any agent."""
    news: list[AgentNews] = []
    request = request_for(timeout_s=0.05, partial_grace_s=120)
    ended = await play("reactions:\n  - {delay_s: 0.2, message: half}", request, news)
    assert (ended.code, ended.timed_out, ended.partial, ended.output.read()) == (0, True, True, b"half")
    assert "partial.requested" in [one.kind for one in news]
    assert request.partial_path.exists()


async def test_crash_dies_by_a_signal_with_half_its_work_written(request_for: RequestFor) -> None:
    """The last file is torn, the rest missing."""
    request = request_for()
    ended = await play(
        "reactions:\n  - {misbehave: crash, files: {a: aaaa, b: bbbb, c: cccc}, message: '12345678'}", request
    )
    assert (ended.code, ended.output.read()) == (-signal.SIGKILL, b"1234")
    assert {p.name: p.read_text() for p in request.workspace.iterdir()} == {"a": "aaaa", "b": "bb"}


async def test_write_outside_does_its_work_and_more(request_for: RequestFor) -> None:
    """At the root and in a folder."""
    request = request_for(contract=CONTRACT)
    ended = await play("reactions:\n  - misbehave: write_outside", request)
    assert judged(request, ended) is Outcome.OK
    assert all((request.workspace / path).exists() for path in (*OUTSIDE, "docs/a.md"))


@pytest.mark.parametrize("answer", SAID)
async def test_no_verdict_and_bad_json_do_the_work_and_give_no_usable_answer(
    request_for: RequestFor, answer: AnswerFormat
) -> None:
    """Whatever the format."""
    for misbehaviour in (Misbehaviour.NO_VERDICT, Misbehaviour.BAD_JSON):
        request = request_for(contract=Contract(CONTRACT.artifacts, answer))
        ended = await play(f"reactions:\n  - misbehave: {misbehaviour}", request)
        assert ended.code == 0
        assert judged(request, ended) in (Reason.NO_VERDICT, Reason.BAD_FORMAT)
        assert (request.workspace / "docs/a.md").exists()


@pytest.mark.req("CM-10")
async def test_huge_output_is_cut(request_for: RequestFor) -> None:
    """60 MB come, 50 MB with the mark stay."""
    request = request_for()
    ended = await play("reactions:\n  - misbehave: huge_output", request)
    assert (ended.code, ended.output.size, ended.output.cut) == (0, 50_000_000, True)
    assert ended.output.tail(200).endswith(cut_mark(50_000_000))


async def test_lie_claims_and_does_nothing(request_for: RequestFor) -> None:
    """The best verdict, no file, even those it names."""
    request = request_for(contract=CONTRACT)
    ended = await play("reactions:\n  - {misbehave: lie, files: {x: y}}", request)
    assert judged(request, ended) is Outcome.OK
    assert list(request.workspace.iterdir()) == []


async def test_an_agent_that_cannot_write_fails_as_an_agent(request_for: RequestFor, tmp_path: Path) -> None:
    """A link out of the workspace is not followed, and the engine gets an exit status, not an exception."""
    request = request_for()
    (request.workspace / "link").symlink_to(tmp_path)
    ended = await play("reactions:\n  - files: {link/x.md: y}", request)
    assert (ended.code, (tmp_path / "x.md").exists()) == (1, False)
    assert b"link" in ended.output.read()


async def test_health_is_always_good() -> None:
    """It needs no model."""
    health = await ScriptedRunner().health()
    assert health.ok
    assert "0 reactions" in health.text
