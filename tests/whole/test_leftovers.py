"""What an agent that nobody waits for any more still does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app import Watcher
from interlock.errors import Status
from tests.agents.conftest import alive, eventually, pid_in
from tests.whole.bench import Bench

STARTS = """
import asyncio, sys
from pathlib import Path
from tests.whole.bench import Bench
asyncio.run(Bench.there(Path(sys.argv[1])).start())
"""


@pytest.mark.req("RUN-12", "TREE-09")
async def test_nobody_works_beside_the_agent_of_an_engine_that_was_killed(tmp_path: Path) -> None:
    """In a copy it outlives kill -9; whoever goes on with the run ends it first, and the run ends as ever."""
    bench, number = Bench(tmp_path / "project", mode="off"), tmp_path / "number"
    works = "sed -i 's/a - b/a + b/' lib.py; echo done"
    bench.act("builder", f"[ -e {number} ] && {{ {works}; exit; }}; echo $$ > {number}; exec sleep 600")
    engine = subprocess.Popen([sys.executable, "-c", STARTS, str(bench.top)], cwd=Path(__file__).parents[2])
    await eventually(lambda: pid_in(number))
    engine.kill()
    engine.wait()
    assert alive(pid_in(number))
    place = bench.place()
    with place.runs.find("latest").lock():
        assert not alive(pid_in(number))
    view = await place.resume(place.runs.find("latest"), Watcher())
    assert (view.status, "a + b" in bench.read("lib.py")) == (Status.COMPLETE, True)


@pytest.mark.req("RUN-13", "TREE-09")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_an_agent_that_removed_its_own_program_finds_it_again(tmp_path: Path, mode: str) -> None:
    bench = Bench(tmp_path / "project", mode=mode)
    program = bench.top / ".venv" / "bin" / "agent"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nexec sh agent.sh "$@"\n')
    program.chmod(0o755)
    bench.write("interlock.toml", bench.read("interlock.toml").replace('["sh", "agent.sh"]', '[".venv/bin/agent"]'))
    bench.act("builder-1", "git clean -fdxq; echo '# tried' >> lib.py; echo tried")
    view = bench.run()
    assert (view.status, view.why[:19]) == (Status.COMPLETE, "Accepted in round 2"), view.why
    assert ("# tried" in bench.read("lib.py"), program.exists()) == (True, True)
