"""`roadmap` in the simulated world: verdicts, retries, who is blocked, what people do, answers in four parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from interlock.agents.values import CommandExit, Exit
from interlock.engine.simulation import Act
from interlock.errors import Status, WorkspaceFailed
from interlock.playbooks.roadmap.answers import essence
from interlock.playbooks.roadmap.playbook import TOKEN
from tests.engine.bench import GREEN, RED, said
from tests.playbooks.roads import FILE, Road, answers, built, done, drift, item, output, ran_tests, reviewed, sections

BUILD = ["implement", "testing", "review"]
LONG = "AssertionError: expected 1, got 2\n\n  at lib.js:3:7)\n    at Object.run (x.js:1:2)\nleft: 1\nright: 2\nfour"


def state(road: Road, n: int = 0) -> tuple[Any, ...]:
    one = road.items[n]
    return one["status"], one["passes"], one.get("retryCount", 0)


# --- retries


@pytest.mark.req("RM-56", "RM-62", "RM-63", "RM-65", "RM-66", "RM-69", "RM-70", "RM-52", "RM-42")
def test_a_retry_is_told_all_that_has_failed_and_what_was_changed() -> None:
    """Each failure under its attempt and by its source; the count is on disk before the retry is sent out."""
    road = Road(item(complexity="medium"))
    road.acts("Implement", built("worked on: 1\n"), built("worked on: 2\n", "b.py"), built("worked on by: 3\n"))
    road.acts("Testing", ran_tests("fail", f"test_a: {LONG}"), ran_tests(), ran_tests())
    road.acts("Review", reviewed("fail", "lib.py:1: x is unused", lint="fail"), reviewed("fail", "b.py:1: no type"))
    assert road.start().status is Status.COMPLETE
    assert road.called == ["research", "design", *BUILD * 3]
    counts = [stood[0].get("retryCount", 0) for who, stood in road.stood if who == "Implement"]
    assert counts == [0, 1, 2]
    first, second = (road.brief("implement", n) for n in (1, 2))
    assert "This is retry 1/2\n" in first and "This is retry 2/2 (final attempt)\n" in second
    for brief in (first, second):
        assert "Fix only the reported failures. Do not rewrite unrelated code." in brief
        told = sections(brief)
        assert {"Item", "Research findings", "Architect decision"} < {*told}
        evidence = told["Failure evidence: attempt 1"]
        assert "Testing:" in evidence and "test_a: AssertionError: expected 1, got 2" in evidence
        assert "left: 1" in evidence and "four" not in evidence and "at Object.run" not in evidence
        assert "Review:" in evidence and "lib.py:1: x is unused" in evidence and "lint: fail" in evidence
        assert "Files modified in that attempt:" in evidence and "`lib.py`" in evidence
    assert "b.py:1: no type" in sections(second)["Failure evidence: attempt 2"]
    assert "`b.py`" in sections(second)["Failure evidence: attempt 2"]
    assert "retry" not in road.brief("implement", 0) and "Fix only" not in road.brief("implement", 0)


@pytest.mark.req("RM-72", "RM-73", "RM-62", "RM-63", "RM-75", "RM-93", "RM-92")
def test_after_two_retries_the_item_is_blocked_and_the_run_ends() -> None:
    road = Road(item(), item(8), item(9, dependencies=[7]))
    road.acts("Testing", *(ran_tests("fail", f"test_{n}: boom {n}") for n in (1, 2, 3)))
    view = road.start()
    assert (view.status, view.ended.exit if view.ended else 0) == (Status.STOPPED, 3)
    assert road.called == BUILD * 3
    assert state(road) == ("blocked", False, 2)
    assert [(one["attempt"], one["source"]) for one in road.items[0]["blockedReasons"]] == [
        (n, "Testing") for n in (1, 2, 3)
    ]
    told = output(road, view)
    assert TOKEN not in told
    for n in (1, 2, 3):
        assert f"- attempt {n}, Testing: test_{n}: boom {n}" in told
    assert (
        "- State updates: status: ready -> blocked, retryCount: 0 -> 2, blockedReasons: 0 entries -> 3 entries" in told
    )
    assert "- Next candidate: 8 Login\n" in told
    assert state(road, 1) == ("ready", False, 0)


@pytest.mark.req("RM-98", "RM-63")
def test_an_item_that_a_person_unblocked_is_told_why_it_was_blocked() -> None:
    """With both retries used it is one attempt; when it is done the reasons go."""
    why = [{"attempt": 3, "source": "Testing", "reason": "test_a: boom"}]
    road = Road(item(retryCount=2, blockedReasons=why))
    road.acts("Testing", ran_tests("fail", "test_b: bang"))
    view = road.start()
    assert road.called == BUILD
    assert "test_a: boom" in sections(road.brief("implement"))["Failure evidence: before the item was made ready again"]
    assert [one["reason"] for one in road.items[0]["blockedReasons"]] == ["test_a: boom", "test_b: bang"]
    assert "reset `retryCount` to 0" in output(road, view)
    road = Road(item(blockedReasons=why))
    assert road.start().status is Status.COMPLETE
    assert "blockedReasons" not in road.items[0]


@pytest.mark.req("RM-98", "RM-01")
def test_what_was_left_in_progress_elsewhere_goes_first_and_says_so() -> None:
    road = Road(item(1), item(2, status="in_progress", retryCount=1, complexity="complex"))
    assert road.start().status is Status.COMPLETE
    assert road.called[:2] == ["research", "design"]
    assert all("its earlier evidence is not available" in ask.brief for ask in road.cast.asks[:6])
    assert "not available" not in road.cast.asks[6].brief
    assert "This is retry 1/2" in road.brief("implement", 0)
    assert [one.get("retryCount", 0) for one in road.items] == [0, 1]


# --- verdicts

VERDICTS: dict[str, tuple[str, Act, str]] = {
    "tests fail": ("Testing", ran_tests("fail", "test_a: boom"), "test_a: boom"),
    "tests need revision": ("Testing", answers("needs_revision", verdict="pass", issues=["redo"]), "redo"),
    "review fails": ("Review", reviewed("fail", "no error handling"), "no error handling"),
    "review needs revision": ("Review", answers("needs_revision", verdict="fail", issues=["redo"]), "redo"),
    "no reason at all": ("Testing", answers(verdict="fail"), "names no unmet criterion and no failing check"),
}


@pytest.mark.req("RM-58", "RM-84", "RM-61")
@pytest.mark.parametrize("name", VERDICTS)
def test_a_negative_verdict_is_a_retry(name: str) -> None:
    who, act, why = VERDICTS[name]
    road = Road(item())
    road.acts(who, *[act] * (2 if name == "no reason at all" else 1))
    assert road.start().status is Status.COMPLETE
    assert [step for n, step in enumerate(road.called) if step != road.called[n - 1]] == BUILD * 2
    assert why in sections(road.brief("implement"))["Failure evidence: attempt 1"]
    assert state(road) == ("done", True, 1)


RED_EVIDENCE = {"verification": [{"command": "make test", "exit": 1}]}
LIES: dict[str, tuple[str, Act]] = {
    "passes, and a test has failed": ("Testing", answers(verdict="pass", evidence={"tests": {"failed": 2}})),
    "passes, and a command is red": ("Testing", answers(verdict="pass", evidence=RED_EVIDENCE)),
    "passes, and lint fails": ("Review", reviewed(lint="fail")),
    "passes, and has run nothing": ("Testing", ran_tests(ran=())),
    "passes, and says that nothing could be run": ("Testing", ran_tests(ran=(), nothing_to_run="no tests here")),
    "passes without a check": ("Review", reviewed(ran=())),
    "passes, and a criterion is not met": (
        "Review",
        answers(
            verdict="pass",
            criteria=[{"criterion": "one can log in", "met": False}],
            evidence=dict(reviewed().exit.form)["evidence"],
        ),
    ),
    "tells what does not run so": ("Testing", ran_tests(ran=("make nothing",))),
}


@pytest.mark.req("RM-61", "RM-58")
@pytest.mark.parametrize("name", LIES)
def test_a_pass_that_nothing_bears_out_is_asked_about_once_and_then_is_none(name: str) -> None:
    who, act = LIES[name]
    road = Road(item())
    road.cast.commands["make nothing"] = [RED]
    road.acts(who, act, act)
    assert road.start().status is Status.COMPLETE
    asked = [one for one in road.called for _ in range(2) if one == ("testing" if who == "Testing" else "review")]
    assert len([one for one in road.called if one == "implement"]) == 2, "it is a failing verdict"
    assert len([one for one in road.called if one == NAMES[who]]) == 3, (asked, "asked once more, then once again")
    assert state(road)[2] == 1


NAMES = {"Testing": "testing", "Review": "review"}
UNUSABLE: dict[str, tuple[str, Act, dict[str, Any]]] = {
    "no verdict": ("Review", answers(evidence=dict(reviewed().exit.form)["evidence"]), {}),
    "a check left out": ("Review", answers(verdict="pass", evidence={"checks": {"lint": "pass"}}), {}),
    "a check skipped": ("Review", reviewed(lint="skipped"), {"absent_checks": ["build"]}),
    "no word": ("Testing", said("All tests pass."), {}),
}


@pytest.mark.req("RM-59", "RM-101")
@pytest.mark.parametrize("name", UNUSABLE)
def test_a_verdict_that_is_missing_asks_that_judge_again_and_nobody_else(name: str) -> None:
    """Twice unusable leaves the run open and the item in progress; no retry is spent."""
    who, act, settings = UNUSABLE[name]
    road = Road(item(), **settings)
    road.acts(who, act)
    assert road.start().status is Status.COMPLETE
    assert road.called.count("implement") == 1 and road.called.count(NAMES[who]) == 2
    assert state(road) == ("done", True, 0)
    road = Road(item(), **settings)
    road.acts(who, act, act)
    assert road.start().status is Status.FAILED
    assert state(road) == ("in_progress", False, 0)
    assert road.resume().status is Status.COMPLETE
    assert road.called.count("implement") == 1


@pytest.mark.req("RM-59")
def test_only_what_is_declared_absent_may_be_skipped() -> None:
    road = Road(item(), absent_checks=["typecheck"])
    road.acts("Review", reviewed(typecheck="skipped"))
    view = road.start()
    assert (view.status, road.called) == (Status.COMPLETE, BUILD)
    assert "may be `skipped`: `typecheck`" in road.brief("review")
    assert "typecheck=skipped" in output(road, view)


CRASH = Act({}, Exit(finished=False, exit=-9))


@pytest.mark.req("RM-101")
@pytest.mark.parametrize("who", ["Implement", "Testing", "Review"])
def test_weather_is_repeated_once_and_then_the_run_stays_open(who: str) -> None:
    road = Road(item())
    road.acts(who, CRASH)
    assert road.start().status is Status.COMPLETE
    road = Road(item())
    road.acts(who, CRASH, CRASH)
    view = road.start()
    assert (view.status, view.status.exit, state(road)) == (Status.FAILED, 5, ("in_progress", False, 0))
    assert road.resume().status is Status.COMPLETE
    assert state(road) == ("done", True, 0)


@pytest.mark.req("RM-60", "TREE-04")
def test_a_conflict_with_a_person_fails_the_attempt() -> None:
    road = Road(item())
    road.acts("Implement", built("worked on by: 1\n"), built("worked on by: 2\n"))
    road.acts("Review", lambda ask, files: road.world.files.update({"lib.py": b"theirs\n"}) or reviewed())
    assert road.start().status is Status.COMPLETE
    assert (
        "changed the same lines meanwhile (lib.py)" in sections(road.brief("implement"))["Failure evidence: attempt 1"]
    )
    assert road.text("lib.py") == "worked on by: 2\n"


@pytest.mark.req("RM-60", "TREE-15", "RM-75")
def test_while_another_branch_is_checked_out_nothing_is_done() -> None:
    """The work waits for a resume on the run's own branch, and only then the item is done."""
    road = Road(item())
    road.acts("Implement", built("worked on by: 1\n"))
    road.acts("Review", lambda ask, files: setattr(road.world, "away", True) or reviewed())
    view = road.start()
    assert view.status is Status.STOPPED and "is not checked out" in view.why
    assert (state(road)[0], road.text("lib.py")) == ("in_progress", "x = 1\n")
    road.world.away = False
    assert road.resume().status is Status.COMPLETE
    assert state(road)[0] == "done" and road.text("lib.py") == "worked on by: 1\n" and road.called == BUILD


# --- blocked and not finished


@pytest.mark.req("RM-83", "RM-78", "RM-31")
@pytest.mark.parametrize("step", ["Research", "Architect", "Implement", "Architect validation", "Testing", "Review"])
@pytest.mark.parametrize("bare", [True, False])
def test_who_is_blocked_blocks_the_item_at_once(step: str, bare: bool) -> None:
    """With its reason, be the rest of its form there or not; no retry is spent."""
    form = {"issues": ["there is no account"], "nextSteps": ["Call Implement now"]}
    road = Road(item(complexity="complex"), item(8))
    road.acts(
        step, said("### Status\nblocked\n### Evidence\nthere is no account") if bare else answers("blocked", **form)
    )
    view = road.start()
    assert view.status is Status.STOPPED
    assert road.cast.asks[-1].env["INTERLOCK_MEMBER"] == step
    assert state(road) == ("blocked", False, 0)
    assert road.items[0]["blockedReasons"] == [{"attempt": 1, "source": step, "reason": "there is no account"}]
    assert "there is no account" in output(road, view)
    last = view.calls[[*view.calls][-1]]
    assert last.report and "no account" in json.dumps(last.report.form), "recorded whole"


@pytest.mark.req("RM-84", "RM-81")
@pytest.mark.parametrize("step", ["Research", "Architect", "Implement"])
def test_who_is_not_finished_is_sent_out_once_more_with_its_own_remark(step: str) -> None:
    unfinished = answers("needs_revision", issues=["the schema is unclear"])
    road = Road(item(complexity="complex"))
    road.acts(step, unfinished)
    assert road.start().status is Status.COMPLETE
    asks = [ask.brief for ask in road.cast.asks if ask.env["INTERLOCK_MEMBER"] == step]
    assert len(asks) == 2 and "the schema is unclear" in asks[1] and "unclear" not in asks[0]
    road = Road(item(complexity="complex"))
    road.acts(step, unfinished, unfinished)
    assert road.start().status is Status.STOPPED
    assert state(road) == ("blocked", False, 0)


@pytest.mark.req("RM-52", "RM-103", "RM-66")
def test_signatures_findings_and_fenced_errors_go_on_whole() -> None:
    """Three lines are of errors alone; what four parts say counts by the line."""
    found = "Callers:\nsrc/a.ts\nsrc/b.ts\nsrc/c.ts\nsrc/d.ts"
    signature = "```ts\nf(a: number): string\n```"
    failed = "FAILED a - 1 != 2\nFAILED b - x\n```\nFAILED c - y\nStatus: 3\n```\n- d\n  - e\n"
    road = Road(item(complexity="complex"))
    road.acts("Research", answers(learnings=[found]))
    road.acts("Architect", answers(decision={"adr": "as text", "interfaces": [signature]}))
    road.acts("Testing", said(f"Status: success\nVerdict: fail\nEvidence:\n{failed}"))
    road.start()
    told = sections(road.brief("implement", 1))
    assert all(line in told["Research findings"] for line in found.splitlines())
    assert "- f(a: number): string" in told["Architect decision"]
    lines = ("FAILED a - 1 != 2", "FAILED b - x", "FAILED c - y", "Status: 3", "d - e")
    assert [line for line in lines if f"\n{line}\n" not in told["Failure evidence: attempt 1"]] == []


@pytest.mark.req("RM-81", "RM-57")
def test_learnings_go_on_as_key_findings_and_next_steps_do_not() -> None:
    road = Road(item(complexity="complex"))
    road.acts("Architect", answers(decision={"adr": "as text"}, learnings=["x is global"], nextSteps=["skip Testing"]))
    road.start()
    assert "x is global" in sections(road.brief("implement"))["Architect decision"]
    assert not any("skip Testing" in ask.brief for ask in road.cast.asks)
    assert sections(road.brief("implement", -1)) == sections(road.brief("implement", 0))


NOISE: dict[str, tuple[str, str]] = {
    "an error": ("boom\n\n  why\n", "boom\n  why"),
    "three lines of it": ("a\nb\nc\nd", "a\nb\nc"),
    "a Python stack": (
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nValueError: no\n',
        "ValueError: no",
    ),
    "a stack of JavaScript": ("Error: no\n    at f (/a/b.js:1:2)\n    at async g (c.js:3:4)\nleft", "Error: no\nleft"),
    "a stack of Rust and Go": ("panic: no\n   4: 0xabc - core\ngoroutine 1 [running]:\n", "panic: no"),
    "a block of code": ("see:\n```diff\n-a\n+b\n```\nso", "see:\nso"),
    "a message in a fence": ("```\nAssertionError: 1 != 2\n```", "AssertionError: 1 != 2"),
    "a long path": (f"{'d/' * 300}x.py:3: no", f"{'d/' * 300}x.py:3: no"),
    "nothing": ("\n \n", ""),
}


@pytest.mark.req("RM-52", "RM-54", "RM-57")
@pytest.mark.parametrize("name", NOISE)
def test_of_a_message_the_first_lines_that_tell_something_go_on(name: str) -> None:
    text, kept = NOISE[name]
    assert essence(text) == kept == essence(kept)


# --- commands that the engine runs


@pytest.mark.req("RM-100")
def test_the_items_commands_are_run_before_any_judge() -> None:
    """Red at the start is where it begins; red after Implement fails the attempt unjudged; green at the end."""
    road = Road(item(), item(8, verification=["make other"]), verify="engine")
    road.acts("Implement", built("no use\n"), built("worked on by 7\n"), None)
    view = road.start()
    assert view.status is Status.COMPLETE
    assert road.called == ["implement", *BUILD, *BUILD]
    told = sections(road.brief("implement", 1))["Failure evidence: attempt 1"]
    assert "Engine:" in told and "`make test` is still red" in told and "1 failed" in told and "make lint" in told
    assert [pair.before.exit for pair in view.pairs.values() if pair.before][:2] == [1, 1]
    assert "verification=pass" in output(road, view)
    first = [line for line, _, _ in road.cast.ran]
    assert first.index("make other") > first.index("make test"), "each at its own item's start"


@pytest.mark.req("RM-100", "RM-98")
def test_an_item_that_was_begun_before_is_not_measured_again() -> None:
    road = Road(item(status="in_progress"), verify="engine")
    road.start()
    assert not road.events("based")


@pytest.mark.req("RM-100", "EVID-09")
def test_a_tree_that_changed_since_is_run_again_before_it_comes_in() -> None:
    road = Road(item(), verify="engine")
    road.acts("Review", lambda ask, files: road.world.files.update({"theirs.py": b"1\n"}) or reviewed())
    assert road.start().status is Status.COMPLETE
    assert any("theirs.py" in files and not own for line, files, own in road.cast.ran if line == "make test")


# --- people


def edits(road: Road, change: Callable[[Any], Any]) -> Callable[..., Act]:
    """A person changes the roadmap while an agent works."""

    def happens(ask: Any, files: Any) -> Act:
        items = road.items
        road.world.files[FILE] = json.dumps(change(items) or items).encode()
        return built("worked on by 7\n") if ask.role.name == "Implement" else ran_tests()

    return happens


@pytest.mark.req("RM-87", "RM-01", "PERSON-04")
def test_an_item_that_a_person_edits_meanwhile_stands_as_they_wrote_it() -> None:
    """The iteration ends, and the file decides what comes next."""
    road = Road(item(1), item(2))
    road.acts("Implement", edits(road, lambda items: items[0].update(title="Sign in", priority=5, status="ready")))
    assert road.start().status is Status.COMPLETE
    assert road.called == ["implement", *BUILD, *BUILD]
    assert '"title": "Login"' in road.brief("implement", 1) and '"title": "Sign in"' in road.brief("implement", 2)
    assert [one["title"] for one in road.items] == ["Sign in", "Login"]


@pytest.mark.req("RM-56", "RM-66", "RM-72", "PERSON-04")
def test_what_failed_before_an_edit_is_told_behind_it() -> None:
    road = Road(item(complexity="medium"))
    road.acts("Testing", *(ran_tests("fail", f"test_{n}: boom") for n in (1, 2, 3)))
    road.acts("Implement", None, edits(road, lambda items: items[0].update(title="Sign in")))
    road.start()
    told = [sections(road.brief("implement", n))["Failure evidence: attempt 1"] for n in (2, 3)]
    assert all("test_1: boom" in one and "Files modified" in one for one in told)
    assert not any("not available" in ask.brief for ask in road.cast.asks)
    assert [one["attempt"] for one in road.items[0]["blockedReasons"]] == [1, 2, 3]


@pytest.mark.req("RM-01", "RM-05", "PERSON-04")
def test_other_items_are_read_anew_for_each_iteration() -> None:
    road = Road(item(1), item(2))
    road.acts("Testing", edits(road, lambda items: [item(3, title="Theirs"), items[0]]))
    assert road.start().status is Status.COMPLETE
    assert road.called == [*BUILD, *BUILD]
    assert [(one["title"], one["status"]) for one in road.items] == [("Theirs", "done"), ("Login", "done")]


@pytest.mark.req("RM-03", "RM-07", "RUN-16")
@pytest.mark.parametrize("text", ["[{", "", "gone"])
def test_a_roadmap_that_breaks_under_way_stops_the_run_and_is_read_again(text: str) -> None:
    road = Road(item(1), item(2))
    whole: list[bytes] = []

    def breaks(ask: Any, files: Any) -> Act:
        whole.append(road.world.files.pop(FILE))
        if text != "gone":
            road.world.files[FILE] = text.encode()
        return built("worked on by 1\n")

    road.acts("Implement", breaks)
    view = road.start()
    assert (view.status, view.status.exit) == (Status.STOPPED, 3)
    assert "roadmap.json" in view.why
    assert road.world.files.get(FILE, b"") == (b"" if text == "gone" else text.encode())
    road.world.files[FILE] = whole[0]
    assert road.resume().status is Status.COMPLETE
    assert road.called == [*(["implement"] if text == "gone" else []), *BUILD, *BUILD]


@pytest.mark.req("RM-17")
def test_a_roadmap_that_cannot_be_written_is_told_before_anybody_is_paid() -> None:
    road = Road(item())

    async def write(path: str, content: bytes) -> None:
        raise WorkspaceFailed("permission denied")

    road.world.write = write  # type: ignore[method-assign]
    with pytest.raises(WorkspaceFailed) as raised:
        road.start()
    assert raised.value.what == "cannot write roadmap.json: permission denied; item 7 stays ready"
    assert road.called == []


@pytest.mark.req("RM-102", "RM-60")
def test_other_items_never_see_what_a_blocked_one_left() -> None:
    """Set back to ready it begins with it, also in the next run."""
    road = Road(item(1), item(2))
    seen: list[bytes] = []
    road.acts("Implement", lambda ask, files: answers("blocked", issues=["no"], files={"lib.py": "half\n"}))
    assert road.start().status is Status.STOPPED
    assert road.text("lib.py") == "x = 1\n"
    units = {**road.last.view.units, road.last.view.unit: road.last.view.pending}
    items = road.items
    items[0] |= {"status": "ready", "priority": 2}
    again = Road(*items, files=dict(road.world.files) | {FILE: b"\0"}, text=json.dumps(items))
    again.world.files[FILE] = json.dumps(items).encode()
    again.world.trees = road.world.trees
    look = lambda ask, files: seen.append(files["lib.py"]) or built("worked on by 1\n", f"{len(seen)}.py")  # noqa: E731
    again.acts("Implement", look, look)
    again.begins(
        again.playbook.inputs(), units={name: pair for name, pair in units.items() if pair and pair.base != pair.work}
    )
    assert seen == [b"x = 1\n", b"half\n"]
    assert (again.text("lib.py"), {"1.py", "2.py"} <= set(again.world.files)) == ("half\n", True)


@pytest.mark.req("RM-65", "RM-60", "RM-102")
def test_a_conflict_while_things_are_found_out_is_told_to_who_builds() -> None:
    """Nothing is asked again, and no retry is spent."""
    road = Road(item(complexity="medium"))
    road.acts("Implement", built("half\n"), answers("blocked", issues=["no key"]))
    road.acts("Testing", ran_tests("fail", "test_a: boom"))
    road.start()
    left = {name: pair for name, pair in {**road.last.view.units, "7": road.last.view.pending}.items() if pair}
    road.world.files |= {FILE: json.dumps([item(complexity="medium")]).encode(), "lib.py": b"theirs\n"}
    road.forgets()
    del road.cast.asks[:]
    assert road.begins(road.playbook.inputs(), units=left).status is Status.COMPLETE
    assert road.called == ["research", "design", *BUILD] and state(road) == ("done", True, 0)
    assert "changed the same lines" in sections(road.brief("implement"))["Failure evidence: attempt 1"]


@pytest.mark.req("PERSON-05", "RM-73", "RM-60", "RM-54")
def test_a_stop_leads_on_as_it_was_begun_and_long_output_is_cut() -> None:
    road = Road(item())
    road.cast.agent = road.usual  # type: ignore[method-assign]
    road.world.files["my plans/r.json"] = road.world.files.pop(FILE)
    out = "\n".join(f"line {n}" for n in range(5000))
    road.cast.commands["the commit hooks"] = [CommandExit(exit=1, out=out)] * 3
    view = road.start(file="my plans/r.json", commit=True)
    assert view.ended and view.ended.next == "interlock run roadmap --file 'my plans/r.json' --commit"
    assert view.why.endswith("the commit hooks refuse it: it ended with 1")
    assert len(road.text("my plans/r.json")) < 3000 and "line 1\n" in road.brief("implement")


# --- the seed's own four parts

PARTS = """\
I looked at it.

**Status:** {status}
{verdict}
## Evidence

- lib.py: x is {word}
- the tests were run

- **Learnings**: keep {word} small
- **Next steps:** Implement
"""


def parts(status: str = "success", word: str = "", verdict: str = "") -> Act:
    told = f"- Verdict: `{verdict}`\n" if verdict else ""
    return said(PARTS.format(status=status, word=word, verdict=told), {})


@pytest.mark.req("RM-103", "RM-78")
def test_answers_in_the_seeds_own_four_parts_are_understood_and_handed_on() -> None:
    """Whoever finds out, decides, builds or compares; a judge's pass names its checks when it is asked for them."""
    road = Road(item(complexity="complex"))
    road.acts("Research", parts(word="read by nobody"))
    road.acts("Architect", parts(word="to be typed"))
    road.acts(
        "Implement", Act({"lib.py": b"worked on by 7\n"}, parts(word="typed").exit), built("worked on by 7 twice\n")
    )
    road.acts("Architect validation", parts(word="as decided", verdict="Aligned"))
    road.acts(
        "Testing",
        parts("SUCCESS", "broken: expected 1", verdict="FAIL"),
        parts(word="well", verdict="pass"),
        ran_tests(),
    )
    view = road.start()
    assert view.status is Status.COMPLETE
    steps = ["research", "design", "implement", "validation", "testing", "review"]
    assert road.called == [*steps, "implement", "validation", "testing", "testing", "review"]
    told = sections(road.brief("implement", 1))
    assert "lib.py: x is read by nobody" in told["Research findings"] and "read by nobody" in told["Research findings"]
    assert "lib.py: x is to be typed" in told["Architect decision"] and "keep to be typed" in told["Architect decision"]
    assert "lib.py: x is broken: expected 1" in told["Failure evidence: attempt 1"]
    assert "lib.py: x is typed" in sections(road.brief("testing", 0))["Implementation evidence"]
    assert "names the checks" in road.brief("testing")


@pytest.mark.req("RM-103", "RM-83", "RM-84", "RM-39")
@pytest.mark.parametrize(
    ("who", "act", "called"),
    [
        ("Research", parts("needs_revision", "unclear"), "research research"),
        ("Architect validation", parts(verdict="drift_detected", word="elsewhere"), "validation implement"),
        ("Review", parts(verdict="fail", word="unsafe"), "review implement"),
        ("Review", parts("needs_revision", "unsafe"), "review implement"),
        ("Testing", parts("needs_revision", "untested"), "testing review implement"),
        ("Testing", said("status: done and dusted"), "testing testing"),
        ("Testing", parts(word="green"), "testing testing review"),
    ],
)
def test_what_four_parts_say_decides_by_its_one_word(who: str, act: Act, called: str) -> None:
    road = Road(item(complexity="complex"))
    road.acts(who, act)
    assert road.start().status is Status.COMPLETE
    assert called in " ".join(road.called)


@pytest.mark.req("RM-103", "EVID-03")
def test_a_pass_in_four_parts_stands_where_the_engine_ran_the_commands() -> None:
    """Of Testing; Review has a word to say for each of its checks."""
    road = Road(item(), verify="engine")
    road.acts("Testing", parts(word="green", verdict="Pass"))
    road.acts("Review", parts(word="fine", verdict="pass"))
    assert road.start().status is Status.COMPLETE
    assert road.called == [*BUILD, "review"]


# --- the report


@pytest.mark.req("RM-92", "RM-93", "RM-75", "RM-77")
def test_each_iteration_ends_with_its_block() -> None:
    road = Road(done(1), item(2, "complex", title="Let a user\nchoose"), item(3, dependencies=[2]))
    road.acts("Architect validation", drift("other file"))
    view = road.start()
    blocks = output(road, view).split("## Orchestration Iteration\n")
    assert blocks[1] == (
        "\n- Selected item: 2 Let a user choose\n"
        "- Dispatch: Research#1, Architect#1, Implement#1, Architect validation#1, Implement#2, "
        "Architect validation#2, Testing#2, Review#2\n"
        "- Gates: validation=pass, tests=pass, lint=pass, typecheck=pass, build=pass, quality=pass\n"
        "- State updates: status: ready -> done, passes: false -> true, retryCount: 0 -> 1\n"
        "- Next candidate: 3 Login\n"
    )
    assert "- Next candidate: COMPLETE\n" in blocks[2]
    assert len(blocks) == 3 and blocks[2].endswith(f"\n{TOKEN}\n")
    road = Road(item(1), item(2, status="blocked"), item(3, dependencies=[2]))
    assert "- Next candidate: none (1 blocked, 1 waiting)\n" in output(road, road.start())


@pytest.mark.req("RM-86")
def test_with_agents_that_write_nothing_only_the_roadmap_changes() -> None:
    road = Road(item(), item(8))
    nothing = answers(
        already_so="it is there already", evidence={"verification": [{"command": "make test", "exit": 0}]}
    )
    road.cast.commands |= {"make test": [GREEN], "make lint": [GREEN]}
    road.acts("Implement", nothing, nothing)
    road.acts("Testing", ran_tests(), ran_tests())
    before = dict(road.world.files)
    assert road.start().status is Status.COMPLETE
    assert {path for path, content in road.world.files.items() if before.get(path) != content} == {FILE}


def test_who_changes_nothing_and_does_not_say_so_has_not_succeeded() -> None:
    road = Road(item())
    road.acts("Implement", answers())
    assert road.start().status is Status.COMPLETE
    assert road.called == ["implement", *BUILD]
    assert "nothing was changed" in road.brief("implement")
