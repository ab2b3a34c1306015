"""What the page of the fleet shows can be typed as it stands, in its order."""

from __future__ import annotations

import re
import shlex
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
