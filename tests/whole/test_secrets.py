"""What an agent does with a secret that it was given: none of it stands in any record."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.door import Door
from interlock.cli.looking import diff
from interlock.errors import Status
from tests.whole.bench import ACCEPTS, Bench

SECRET = "tok-0123456789-abcdef"


@pytest.mark.req("RUN-18")
def test_a_secret_is_in_no_record_whatever_an_agent_does_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Said, printed, written into a file, in the name of a file; such a name is refused, and what it may do is told."""
    bench = Bench(tmp_path / "project")
    settings = bench.read("interlock.toml").replace('argv = ["sh"', f'env = {{ MY_TOKEN = "{SECRET}" }}\nargv = ["sh"')
    bench.write("interlock.toml", settings)
    bench.act(
        "builder",
        """
        sed -i "s/a - b/a + b  # $MY_TOKEN/" lib.py
        echo x > "out-$MY_TOKEN.txt"
        if grep -q 'may not write' "$INTERLOCK_BRIEF"; then rm "out-$MY_TOKEN.txt"; fi
        echo "I used $MY_TOKEN and wrote out-$MY_TOKEN.txt"; echo "$MY_TOKEN" >&2
        """,
    )
    bench.act("reviewer", f"echo $MY_TOKEN\n{ACCEPTS}")
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert SECRET in bench.read("lib.py")
    assert [path.name for path in bench.top.glob("out-*")] == []
    records = [path.read_bytes() for path in bench.entry.path.rglob("*") if path.is_file()]
    assert len(records) > 5
    assert [record for record in records if SECRET.encode() in record] == []
    assert SECRET not in str(view.to_json())
    diff(Door(dir=str(bench.top)), [], stat=False)
    said = capfd.readouterr().out
    assert "a + b" in said
    assert SECRET not in said
