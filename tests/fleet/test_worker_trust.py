"""What a worker takes and what not: its secrets stay, its sandbox holds, and it runs only what its operator trusts."""

from __future__ import annotations

import subprocess

import pytest

from tests.fleet.database import PASSWORD
from tests.fleet.fleet import SETTINGS, Fleet
from tests.proofs import long

OWN = '''
from dataclasses import dataclass
from interlock.engine import Dispatch, Ending, Run, playbook
from interlock.contracts import Artifact, Contract

@dataclass(frozen=True)
class Inputs:
    word: str = "a"

@playbook("ours", inputs=Inputs, key=lambda inputs: inputs.word, agents=("maker",), needs_roles=False)
async def ours(run: Run, inputs: Inputs) -> Ending:
    """Make one file."""
    made = await run.dispatch(
        Dispatch(agent="maker", task="Write made.txt.", contract=Contract(artifacts=(Artifact("made.txt"),)))
    )
    return Ending.complete("made") if made.ok else Ending.failed("not made")
'''


def everything(fleet: Fleet) -> bytes:
    """All that the remote has ever got."""
    words = ["git", "cat-file", "--batch-all-objects", "--batch", "--buffer"]
    return subprocess.run(words, cwd=fleet.office.bare, check=True, capture_output=True).stdout


@pytest.mark.req("WK-16")
def test_secrets_of_a_worker_stay_there(fleet: Fleet) -> None:
    """Neither the database's password nor a key that an agent says aloud comes to the remote."""
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    fleet.worker("one", OUR_API_KEY="key-of-the-worker-1")
    call = fleet.stage.waiting("planner")
    assert call.said["env"]["OUR_API_KEY"] == "key-of-the-worker-1"  # agents need it to work
    assert not any(PASSWORD in value for value in call.said["env"].values())
    call.answer(say="I saw key-of-the-worker-1.\nDONE: it is written")
    fleet.until_ended(run)
    assert fleet.state(run)["status"] == "complete"
    held = everything(fleet)
    assert b"key-of-the-worker-1" not in held and PASSWORD.encode() not in held
    assert b"[redacted:OUR_API_KEY]" in held


@pytest.mark.req("WK-16")
def test_what_a_worker_lacks_it_is_not_given(fleet: Fleet) -> None:
    """A label that it has not; another worker that has it takes the run, and `fleet` says why it waited."""
    run = fleet.submit("toy", "word", "--mode", "quick", "--label", "gpu")
    plain = fleet.worker("plain")
    fleet.until(lambda: "label gpu" in fleet.laptop("fleet").stdout.decode(), "fleet says what is lacking")
    assert len(fleet.commits(run)) == 1
    able = fleet.worker("able", "--labels", "gpu")
    assert able.ended().code == 0
    assert fleet.claim(fleet.commits(run)[1])["holder"] == "able.1"
    assert plain.process is not None and not plain.process.ended


@pytest.mark.req("WK-17")
def test_a_playbook_of_the_workspace_is_run_where_its_operator_trusts_it(fleet: Fleet) -> None:
    """Trusted by whoever submits it, it is not by the worker; and what somebody writes into the queue is no trust."""
    fleet.settings({".interlock/playbooks/ours.py": OWN})
    asker, operator = fleet.clone("asker"), fleet.worker("operator", start=False)
    run = fleet.submit("ours", "--trust", clone=asker)
    operator.start()
    fleet.until(lambda: "trust in playbook ours" in fleet.laptop("fleet").stdout.decode(), "fleet says what is lacking")
    # Who may write to the database says that no trust is needed.
    forged = "UPDATE procrastinate_jobs SET args = args #- '{needs,files}' #- '{needs,playbook}'"
    fleet.server.sql(f"{forged} WHERE args ->> 'run' = '{run}'", fleet.database)
    operator.ended()
    assert fleet.stage.calls == []
    assert fleet.state(run)["status"] == "open"
    trusted = operator.clone("plan", "ours", "--trust")
    assert trusted.code == 0, trusted.stderr
    operator.start()
    fleet.until_ended(run)
    assert fleet.state(run)["status"] == "complete", operator.log


@pytest.mark.req("WK-17")
@pytest.mark.parametrize("weaker", ['[sandbox]\nmode = "off"\n', *long('[runners.staged.sandbox]\nhome = [".ssh"]\n')])
def test_settings_of_a_run_do_not_weaken_a_worker(fleet: Fleet, weaker: str) -> None:
    """How programs are kept apart is the worker's to say: no file of its home beyond its own settings is shown."""
    (fleet.laptop.root / "interlock.toml").write_text(SETTINGS.format(stage=fleet.stage.address) + weaker, "utf-8")
    worker = fleet.worker("one", start=False)
    home = fleet.office.folder / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private", "utf-8")
    run = fleet.submit("toy", "word", "--mode", "quick")
    fleet.stage.hold("planner")
    worker.start(HOME=str(home))
    call = fleet.stage.waiting("planner")
    call.answer(look=[str(home / ".ssh" / "id")])
    fleet.until_ended(run)
    assert fleet.state(run)["status"] == "complete"
    seen = fleet.files(run)["plan.md"]
    assert "hidden" in seen and "private" not in seen
