"""A command that passes because somebody changed what it does has not passed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.engine import Checks, Dispatch, Ending, NamedCommand, Run, Status
from tests.conformance.harness import Real, also, reacting
from tests.engine.toys import Work, toy

FILES = {"Makefile": "test:\n\tgrep -q good app.txt\n", "app.txt": "good\n", "conftest.txt": "none\n"}


async def made(run: Run, _work: Work) -> Ending:
    checks = Checks(run, [NamedCommand("test", "make -s test")])
    await checks.preflight()
    await run.dispatch(Dispatch("maker", "Mend it.", writes=("**",)))
    proofs = await checks.prove()
    red = [proof.shown for proof in proofs if not proof.ok]
    return Ending.stopped(red[0]) if red else Ending.complete("; ".join(proof.shown for proof in proofs))


@pytest.mark.req("EV-04")
def test_a_changed_definition_must_pass_as_it_was_before(tmp_path: Path) -> None:
    """The make target is emptied and the work is broken: green as it is now, red with the target of before."""
    root = tmp_path / "workspace"
    root.mkdir()
    changes = {"Makefile": "test:\n\ttrue\n", "app.txt": "bad\n"}
    played = Real(toy(made, agents=("maker",)), Work(), FILES, reacting(maker=also(changes)), root=root)
    close = played.go()
    assert close.status is Status.STOPPED
    assert close.reason == "test: make -s test (with Makefile as before): ended with exit status 2"
    assert played.files["Makefile"] == changes["Makefile"]


@pytest.mark.req("EV-04")
def test_a_definition_that_only_grew_passes_both_ways(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    changes = {"Makefile": f"{FILES['Makefile']}\nlint:\n\ttrue\n"}
    played = Real(toy(made, agents=("maker",)), Work(), FILES, reacting(maker=also(changes)), root=root)
    close = played.go()
    assert close.status is Status.COMPLETE
    assert close.output == "test: make -s test: passes; test: make -s test (with Makefile as before): passes"


BEHIND = {"Makefile": "test: ; ./scripts/test.sh\n", "scripts/test.sh": "#!/bin/sh\ngrep -q good app.txt\n"}
EASY = {"scripts/test.sh": "#!/bin/sh\ntrue\n", "app.txt": "bad\n"}


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("changes", "old"),
    [
        (EASY, "scripts/test.sh"),
        ({**EASY, "Makefile": "test: ; true\n"}, "Makefile, scripts/test.sh"),
        ({**EASY, "scripts/test.sh": None, "Makefile": "test: ; true\n"}, "Makefile, scripts/test.sh"),
    ],
)
def test_a_script_behind_a_make_target_is_a_definition_too(
    tmp_path: Path, changes: dict[str, str | None], old: str
) -> None:
    """As the Makefile of before names it, whatever the one of now does."""
    root = tmp_path / "workspace"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts/test.sh").touch(0o755)
    files = {"app.txt": "good\n", **BEHIND}
    close = Real(toy(made, agents=("maker",)), Work(), files, reacting(maker=also(changes)), root=root).go()
    assert close.reason == f"test: make -s test (with {old} as before): ended with exit status 2"


@pytest.mark.req("EV-04")
@pytest.mark.parametrize("files", [{}, {"Makefile": "other: ; true\n"}])
def test_a_target_that_came_with_the_work_has_no_old_definition(tmp_path: Path, files: dict[str, str]) -> None:
    """Nothing could pass with it: the file stays as it is now, and all other definitions are those of before."""
    root = tmp_path / "workspace"
    root.mkdir()

    async def unlooked(run: Run, _work: Work) -> Ending:
        checks = Checks(run, [NamedCommand("test", "make -s test")])
        await checks.start()
        await run.dispatch(Dispatch("maker", "Make it.", writes=("**",)))
        return Ending.complete("; ".join(proof.shown for proof in await checks.prove()))

    changes = {"Makefile": "test: ; ./test.sh\n", "test.sh": "#!/bin/sh\ntrue\n", "setup.cfg": "# new\n"}
    (root / "test.sh").touch(0o755)
    close = Real(toy(unlooked, agents=("maker",)), Work(), files, reacting(maker=also(changes)), root=root).go()
    assert close.output == "test: make -s test: passes; test: make -s test (with setup.cfg as before): passes"


@pytest.mark.req("EV-04", "EV-05")
def test_what_was_before_outlives_the_run(tmp_path: Path) -> None:
    """A run that goes on knows which script stood behind the command, also when nothing names it any more."""
    root = tmp_path / "workspace"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts/test.sh").touch(0o755)

    async def in_two_runs(run: Run, _work: Work) -> Ending:
        first, second = (Checks(run, [NamedCommand("test", "make -s test")]) for _ in range(2))
        await first.preflight()
        await run.dispatch(Dispatch("maker", "Mend it.", writes=("**",)))
        second.go_on_from(json.loads(json.dumps(first.baseline)))
        return Ending.complete((await second.prove())[-1].shown)

    changes = {**EASY, "Makefile": "test: ; true\n"}
    files = {"app.txt": "good\n", **BEHIND}
    close = Real(toy(in_two_runs, agents=("maker",)), Work(), files, reacting(maker=also(changes)), root=root).go()
    assert "(with Makefile, scripts/test.sh as before): ended with exit status 2" in str(close.output)
