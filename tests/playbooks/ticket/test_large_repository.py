"""A repository whose list of files is longer than what is kept of a command's output: nothing of it is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.documents import load_yaml
from interlock.engine import Status
from interlock.engine.world import KEPT_OF_OUTPUT
from interlock.playbooks.ticket.analysis import LARGEST, MOST_FILES, NOT_LISTED, fingerprint
from interlock.playbooks.ticket.rehearsing import HOME
from interlock.workspace import listing_digest
from tests.playbooks.ticket.place import Place, sha256_of
from tests.playbooks.ticket.test_real_runs import MAKE, ONE

MANY = [f"src/{'a_long_name_' * 8}{number:04}.c" for number in range(2000)]
assert len("".join(MANY)) > KEPT_OF_OUTPUT


def progress(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(place.text(f"{HOME}/progress.yaml"), "progress.yaml")
    return found


@pytest.mark.long
@pytest.mark.req("TK-40", "TK-46")
def test_the_analysis_sees_every_file(place: Place) -> None:
    """The first file of all is found by its name and by its content; the fingerprint covers all names."""
    files = {
        **MAKE,
        **dict.fromkeys(MANY, "nothing\n"),
        "AAA/Login.c": "x\n",
        "AAA/text é.c": "the login error\nand another error\n",
        "AAA/large.c": "login error\n" * (LARGEST // 12 + 1),
        "zzz/login.c": "login error\n",
    }
    assert len(files) > MOST_FILES
    place.begin(files)
    place.script = ONE
    assert place.run().status is Status.COMPLETE
    likely = progress(place)["startup"]["impact_scan"]["likely_files"]
    assert likely == ["AAA/text é.c", "AAA/Login.c", "zzz/login.c"]
    tracked = place.git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "main").splitlines()
    said = load_yaml(place.text("docs/docs_cache_state.yaml"), "cache")["workspace_fingerprint"]
    listed = listing_digest(set(tracked) - set(NOT_LISTED))
    assert said == fingerprint(listed, {"Makefile": sha256_of(place.root / "Makefile")})


@pytest.mark.long
@pytest.mark.req("TK-103")
def test_many_uncommitted_files_are_all_carried(place: Place) -> None:
    """The question names twenty and counts the rest; the state document has all of them, none is committed."""
    place.begin(MAKE)
    place.write(dict.fromkeys(MANY, "mine\n"))
    place.script = ONE
    waiting = place.run()
    assert waiting.exit_code == 4
    assert f"and {len(MANY) - 20} more" in waiting.reason
    finished = place.run(flags={"dirty": "carry"})
    assert finished.status is Status.COMPLETE, finished
    assert progress(place)["carried_files"] == MANY
    assert not set(place.git("log", "--name-only", "--format=", "main..HEAD").splitlines()) & set(MANY)
    assert all((place.root / path).read_text() == "mine\n" for path in map(Path, MANY[::500]))
