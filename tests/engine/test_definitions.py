"""A command that passes because somebody changed what it does has not passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine import Checks, Dispatch, Ending, Named, Run, Status
from tests.conformance.harness import Real, also, reacting
from tests.engine.toys import Work, toy

FILES = {"Makefile": "test:\n\tgrep -q good app.txt\n", "app.txt": "good\n", "conftest.txt": "none\n"}


async def made(run: Run, _work: Work) -> Ending:
    checks = Checks(run, [Named("test", "make -s test")])
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
