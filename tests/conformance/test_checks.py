"""Commands that a person named: looked at before anything is paid, and proven before anything is accepted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine import Checks, Dispatch, Ending, NamedCommand, Run, Status
from tests.conformance.harness import Death, Engine, also, reacting
from tests.engine.toys import Work, toy

Start = Callable[..., Engine]
MAKER = Dispatch("maker", "Mend it.", writes=("**",))


async def proven(run: Run, _work: Work) -> Ending:
    """Preflight, one agent, and the proof."""
    checks = Checks(run, [NamedCommand("test", "verdict", "the settings")])
    await checks.preflight()
    await run.dispatch(MAKER)
    proofs = await checks.prove()
    red = [proof for proof in proofs if not proof.ok]
    assert red or await checks.prove() == proofs
    return Ending.stopped(red[0].shown) if red else Ending.complete("\n".join(proof.shown for proof in proofs))


PROVEN = toy(proven, agents=("maker",))


def verdict(status: int, output: str = "") -> str:
    """How the command is to end."""
    return f"{status}\n{output}"


@pytest.fixture(autouse=True)
def a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verdict` as a real program: it does what the file of that name in the workspace says."""
    place = tmp_path / "home" / ".local" / "bin"
    place.mkdir(parents=True)
    (place / "verdict").write_text('#!/bin/sh\ntail -n +2 verdict\nexit "$(head -n 1 verdict)"\n')
    (place / "verdict").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


@pytest.mark.req("EV-05")
def test_a_red_command_stops_the_run_before_any_agent(engine: Start) -> None:
    """Exit 3; what failed, what was run and from where, and what helps are said."""
    played = engine(PROVEN, Work(), {"verdict": verdict(1, "FAILED tests/test_a.py::test_x\n")})
    close = played.go()
    assert (close.status, close.exit_code, played.calls) == (Status.STOPPED, 3, [])
    assert "test: verdict: ended with exit status 1" in close.reason
    assert "tests/test_a.py::test_x" in close.reason
    assert "--accept-baseline" in close.reason
    (note,) = played.events("preflight")
    assert note.data["commands"] == ["test: verdict, from the settings"]


@pytest.mark.req("EV-05")
def test_with_an_accepted_baseline_only_new_failures_count(engine: Start) -> None:
    known = verdict(1, "FAILED tests/test_a.py::test_x in 0.3s\n")
    files = {"verdict": known, "app.py": "x = 1\n"}
    flags = {"accept_baseline": True}
    same = engine(PROVEN, Work(), files, reacting(maker=also({"app.py": "x = 2\n"})))
    assert same.go(flags=flags).status is Status.COMPLETE
    worse = verdict(1, "FAILED tests/test_a.py::test_x in 0.1s\nFAILED tests/test_a.py::test_y\n")
    broken = engine(PROVEN, Work(), files, reacting(maker=also({"verdict": worse})))
    close = broken.go(flags=flags)
    assert (close.status, len(broken.calls)) == (Status.STOPPED, 1)
    assert broken.events("proof")[-1].data["new"] == ["tests/test_a.py::test_y"]


@pytest.mark.req("EV-05")
def test_without_preflight_nothing_is_run_before_the_first_agent(engine: Start) -> None:
    """And the flag need not be given again at a resume."""
    played = engine(PROVEN, Work(), {"verdict": verdict(1)}, reacting(maker=also({"verdict": verdict(0)})))
    played.dies(Death("dispatch.end"), flags={"no_preflight": True})
    assert played.go().status is Status.COMPLETE
    assert [line.data["exit"] for line in played.events("proof")] == [0]


@pytest.mark.req("EV-04")
def test_what_agents_broke_is_found_by_running_it(engine: Start) -> None:
    """Whatever they say; the record holds command, status, output and the tree it ran on."""
    files = {"verdict": verdict(0), "app.py": "x = 1\n"}
    played = engine(
        PROVEN, Work(), files, reacting(maker=also({"verdict": verdict(2, "no\n")}, message="DONE: all tests pass"))
    )
    assert played.go().status is Status.STOPPED
    first, second = played.events("proof")
    assert (first.data["exit"], second.data["exit"], second.data["tail"]) == (0, 2, "no")
    assert first.data["tree"] != second.data["tree"]


@pytest.mark.req("EV-04")
def test_an_unchanged_tree_is_not_proven_twice(engine: Start) -> None:
    """After a change the command runs again, and only then."""
    played = engine(
        PROVEN, Work(), {"verdict": verdict(0), "app.py": "x = 1\n"}, reacting(maker=also({"app.py": "x = 2\n"}))
    )
    assert played.go().status is Status.COMPLETE
    assert len(played.events("proof")) == len(played.events("command")) == 2
    idle = engine(PROVEN, Work(), {"verdict": verdict(0)})
    assert idle.go().status is Status.COMPLETE
    assert len(idle.events("command")) == 1
