"""An agent that wants its work approved unseen: all that it changed is on the page, or the page says what is not."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys

import pytest

from tests.documents.test_patches import ODD
from tests.web.conftest import Client, Place, Site

AGENT = f"""
import os
from pathlib import Path

for number, name in enumerate({[name for name in ODD if "/" not in name]!r}):
    Path(name).write_text(f"odd {{number}}\\n", "utf-8")
Path("swapped").unlink()
Path("swapped").symlink_to("target")
Path("tool").chmod(0o755)
Path("sly.js").write_bytes(b"// \\0\\nevil_script()\\n")
Path("pic.png").write_bytes(b"\\x89PNG\\xff\\0\\xfe")
Path("quiet.sh").write_text("ls\\n\\x1b]0; evil_title #\\x07\\n")
Path("long.js").write_text("a" * 300_000 + " evil_end()\\n")
Path("data.sql").write_text(("x" * 999 + "\\n") * 5000)
Path("plan.md").write_text("A plan.\\n")
print("DONE: planned")
"""


@pytest.fixture
def waiting(place: Place) -> str:
    """A run that waits, whose agent has tried all of it."""
    (place.root / "agent.py").write_text(AGENT, "utf-8", errors="surrogateescape")
    for name in ("swapped", "tool"):
        (place.root / name).write_text("target", "utf-8")
    argv = json.dumps([sys.executable, "agent.py"])
    settings = f'runner = "sly"\n[runners.sly]\ntype = "command"\nargv = {argv}\n'
    (place.root / "interlock.toml").write_text(settings, "utf-8")
    return place.waiting()


def read(client: Client, path: str) -> str:
    """What somebody reads on a page."""
    got = client.get(path)
    assert got.status == 200, got.text
    return html.unescape(re.sub("<[^>]*>", "", got.text))


@pytest.mark.req("WB-05", "WB-09", "WB-03", "WB-12")
def test_all_that_an_agent_changed_is_on_the_page(place: Place, waiting: str, site: Site) -> None:
    """Odd names, a link for a file, a mode, a NUL, sequences of terminals, a long line, a large file; at the gate, on
    the pages of run and dispatch, in the report; the terminal has the same files, and the patch is whole."""
    client = site.client()
    run = f"/{place.name}/runs/{waiting}"
    dispatched = next(line["key"] for line in place.journal(waiting) if line["event"] == "dispatch.end")
    known = place.json("diff", waiting)
    names = [name for name in ODD if "/" not in name]
    assert {one["path"] for one in known["code"]} >= {*names, "swapped", "tool", "sly.js", "pic.png", "quiet.sh"}
    for path in (f"{run}/gate", run, f"{run}/dispatches/{dispatched}", f"{run}/report.html"):
        seen = read(client, path)
        for number in range(len(names)):
            assert f"odd {number}\n" in seen, (path, names[number])
        for words in (
            "a\\nb.py",
            "esc\\x1b[31m.py",
            "deleted",
            "new, a link",
            "can be executed now",
            "new, binary",
            "data.sql",
            '" lead"',
            '" "',
        ):
            assert words in seen, (path, words)
        assert "evil_title" in seen and "evil_end()" in seen and "characters more" in seen, path
        assert "evil_script()" in seen or "dispatches" in path or "report" in path, path
    gate = client.get(f"{run}/gate").text
    assert "Not all is on this page: 1 of the changed lines, what is in 2 of the files." in gate
    whole = client.get(f"{run}/changes.patch")
    assert (whole.status, whole.headers["content-disposition"][:10]) == (200, "attachment")
    folder = place.root.parent / "again"
    folder.mkdir()
    for name in ("swapped", "tool"):
        (folder / name).write_text("target", "utf-8")
    subprocess.run(["git", "apply", "-"], cwd=folder, input=whole.body, check=True)
    for name in (*names, "sly.js", "pic.png", "quiet.sh", "long.js", "data.sql"):
        assert (folder / name).read_bytes() == (place.root / name).read_bytes()
    assert (folder / "swapped").is_symlink()


@pytest.mark.req("WB-05")
def test_what_cannot_be_put_together_is_not_nothing(place: Place, waiting: str, site: Site) -> None:
    """Where the snapshots are gone the page says so, beside the button too, and shows what each dispatch changed."""
    for found in (place.root / ".interlock/snapshots.git/objects").glob("??/*"):
        found.unlink()
    client = site.client()
    seen = read(client, f"/{place.name}/runs/{waiting}/gate")
    assert "cannot be put together" in seen and "perhaps more than that" in seen
    assert "a\\nb.py" in seen and "evil_end()" in seen
    assert "cannot be put together" in read(client, f"/{place.name}/runs/{waiting}")
    assert "what changed cannot be read" in place("show", waiting).stdout + place("show", waiting).stderr
