"""What a checkpoint costs: a run of 100 dispatches, pushed after each to a remote on the same disk.

Wall of each push, and the remote's size per 100; with `--quick` ten of them, to show that it works.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from interlock.app import Place, playbook_named
from interlock.engine import events as ev
from interlock.engine.folder import RunFolder
from interlock.engine.journal import Journal
from interlock.engine.runs import Entry
from interlock.fleet.carriage import Packer, check_secrets, ref_of
from interlock.fleet.moving import remote_of

LINES = 20
"""Of the journal, per dispatch; a transcript of 100 KB beside them."""


def made(top: Path, files: int) -> Entry:
    """A repository with a remote, and a run in it that just began."""
    top.mkdir()
    for number in range(files):
        place = top / f"d{number % 50}" / f"f{number}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"x = {number}\n" * 20)
    who = ["-c", "user.name=P", "-c", "user.email=p@p"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=top, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", ".", "../remote.git"], cwd=top, check=True)
    subprocess.run(["git", "remote", "add", "origin", "../remote.git"], cwd=top, check=True)
    place = Place(top)
    entry, now = place.runs.new("task", datetime.now(UTC)), datetime.now(UTC)
    inputs = playbook_named("task").inputs.model_validate({"request": "x"}).model_dump(mode="json")
    where = place.trees.where()
    started = ev.RunStarted(
        **{"playbook": "task", "inputs": inputs, "headline": "x", "at": now, "run": entry.id, "order": 1, "key": "k"},
        **{"version": "1", "where": where, "standing": place.trees.standing(entry.id, where), "caps": {}},
    )
    RunFolder(entry.path).settle()
    journal = Journal(RunFolder(entry.path).medium)
    journal.append(now, "", started)
    journal.sync()
    return entry


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    quick = asked.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "work")
        entry = made(top, 100 if quick else 5_000)
        place = Place(top)
        remote, packer, tip, walls = remote_of(place), Packer(place.trees, entry), "", list[float]()
        for number in range(10 if quick else 100):
            journal = Journal(entry.folder.medium)
            for line in range(LINES):
                journal.append(datetime.now(UTC), f"{number}/{line}", ev.Warned(text=f"{number} {line} " + "x" * 200))
            journal.sync()
            transcript = entry.path / "dispatches" / str(number) / "transcript.jsonl"
            transcript.parent.mkdir(parents=True)
            transcript.write_text("".join(f"{number} {line}\n" * 4 for line in range(3_000)))
            began = time.perf_counter()
            commit = packer.commit(tip, claim="c", holder="h")
            check_secrets(remote, commit, tip, place.redaction)
            assert remote.swap(ref_of(entry.id), tip, commit)
            tip = commit
            walls.append((time.perf_counter() - began) * 1000)
        size = sum(file.stat().st_size for file in Path(folder, "remote.git").rglob("*") if file.is_file())
        print(f"checkpoint {statistics.median(walls):.0f} ms (last ten {statistics.median(walls[-10:]):.0f})")
        print(f"remote {size / 1e6:.1f} MB after {len(walls)} of them")


if __name__ == "__main__":
    main()
