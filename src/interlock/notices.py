"""Away from the terminal: a command of the person's own hears of a run that waits, fails or ends (PERSON-06).

It gets the run as JSON on its standard input, from a file: one that reads nothing blocks nobody.  Whatever it does, the
run is not touched by it: it has a session of its own and ten seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interlock.agents.environment import without_our_own
from interlock.engine.view import View
from interlock.errors import Status

PATIENCE_S = 10
TOLD = (Status.WAITING, Status.FAILED, Status.COMPLETE, Status.DEGRADED, Status.STOPPED, Status.CANCELLED)
"""How a run may stand when somebody is told; one that a person interrupted is no news to them."""


def notify(
    command: Sequence[str] | None,
    top: Path,
    view: View,
    *,
    address: str | None = None,
    output: str = "",
    patience_s: float = PATIENCE_S,
) -> str:
    """Tell it how the run stands; why that did not work, or nothing.

    Args:
        address: where people reach the page; the gate's stands in the notice then.
        output: what the playbook itself has to say.
    """
    asks = view.status is Status.WORKING and view.gate is not None  # somebody may sit at the terminal, or may not
    status = Status.WAITING if asks else view.status_now(worked_on=False)
    if not command or status not in TOLD:
        return ""
    run = view.to_json(output=output) | ({"status": status.value, "exit_code": int(status.exit)} if asks else {})
    if run["gate"] is not None and address:
        run["gate"]["url"] = f"{address.rstrip('/')}/runs/{view.run}"
    theirs = without_our_own(os.environ, top)
    kept = {name: value for name, value in theirs.items() if not name.startswith("INTERLOCK_")}
    with tempfile.TemporaryFile() as facts:
        facts.write(json.dumps(run).encode())
        facts.seek(0)
        try:
            told = subprocess.Popen(
                list(command),
                stdin=facts,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=top,
                env=kept,
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        try:
            code = told.wait(patience_s)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):  # what it left behind goes, too
            os.killpg(told.pid, signal.SIGKILL)
        told.wait()
    return "" if code == 0 else "it was not done in its time" if code is None else f"it ended with {code}"
