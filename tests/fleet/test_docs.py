"""What the page of the fleet shows can be typed as it stands, in its order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office
from tests.fleet.test_sweep import PAIRS

PAGE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")


@pytest.mark.req("HOUSE-05", "FLEET-06")
def test_the_page_runs_as_it_stands(office: Office, ada: CommandLine, waiting: str, database: str) -> None:
    """Sent in one clone, all the rest in another one."""
    assert ada("cancel", ada("fleet", "submit", "task", "Make name right", "--json").json["run_id"]).code == 0
    bob = office.clone("bob")
    who, blocks = ada, re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        words = shlex.split(line)[1:]
        if words[:2] == ["fleet", "fetch"]:
            assert bob("fleet", "send", waiting).code == 0
        said = who(*(waiting if word == "RUN" else word for word in words))
        assert said.code == (4 if words[0] == "resume" else 0), (line, said.err)
        who = bob
    assert f"{len(PAIRS)} pairs" in PAGE


@pytest.mark.long
@pytest.mark.req("FLEET-05")
def test_the_demo_ends_well(tmp_path: Path) -> None:
    """Six runs, three workers, one of them killed: all complete, nothing done again, in a folder that was not there."""
    words = [sys.executable, "-m", "interlock.demo.fleet", str(tmp_path / "shown")]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "6 runs complete" in shown.stdout and "is killed" in shown.stdout
    (tmp_path / "mine").mkdir()
    assert subprocess.run([*words[:-1], str(tmp_path / "mine")], capture_output=True, check=False).returncode == 1
