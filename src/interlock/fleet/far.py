"""Runs of elsewhere, from any clone: how they stand, and what is said to them (FLEET-02).

A copy of a run lies in `.interlock/far/`, and is renewed when somebody looks.  What a person says is a ref of its own
at the remote, until a push of whoever works on the run has it; where workers are, one is asked to go on with the run.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress

from interlock.app import Place
from interlock.engine.folder import Message
from interlock.engine.runs import Entry
from interlock.errors import Refused
from interlock.fleet.carriage import About, about_of, ref_of
from interlock.fleet.moving import carried, far, remote_of, renew
from interlock.fleet.queue import Queue
from interlock.fleet.remote import RUNS, WORDS
from interlock.workspace.values import EMPTY


def everything(place: Place) -> Iterator[About]:
    """All runs that the remote has, the latest last."""
    remote = remote_of(place)
    tips = {ref.removeprefix(f"{RUNS}/"): tip for ref, tip in remote.tips(f"{RUNS}/*").items()}
    if tips:
        remote.fetch([ref_of(run) for run in tips])
    for run, tip in sorted(tips.items(), key=lambda one: one[0].split("-")[-3:]):
        with suppress(Refused):
            yield about_of(place.trees, tip, run)[0]


def look(place: Place, name: str) -> None:
    """Renew the copies of runs that begin so; the remote may be away, then they are as they were last seen."""
    remote = remote_of(place)
    for ref, tip in remote.tips(f"{RUNS}/{name}*").items():
        run = ref.removeprefix(f"{RUNS}/")
        if not (place.runs.path / run).exists() and Entry(far(place, run)).held.get("tip") != tip:
            renew(place, remote, carried(remote, run, tip))


def say(place: Place, entry: Entry, message: Message) -> str:
    """Have whoever works on a run hear it, or a worker take it up; who that is."""
    remote, trees = remote_of(place), place.trees
    content = place.redaction.raw(json.dumps(message.model_dump(mode="json")).encode())
    commit = trees.commit(trees.tree_of(EMPTY, {"word.json": (0o100644, trees.write(content))}))
    name = f"{message.at:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"
    remote.swap(f"{WORDS}/{entry.id}/{name}", "", commit)
    return wake(place, entry)


def wake(place: Place, entry: Entry, words: Sequence[str] | None = None) -> str:
    """Have a worker go on with a run; who takes it up.

    Args:
        words: what was typed behind `resume RUN`; None: it was not, so that what has ended stays so.
    """
    about = carried(remote_of(place), entry.id).about
    if place.settings.fleet.database is None or about.is_with_a_person:
        return about.holder or "whoever takes the run"
    lines = 0 if words is None else len(entry.journal.read_bytes().splitlines())
    said = [place.redaction(word) for word in words or ()]
    Queue(place.settings.fleet.database).put(entry.id, about.needs, said, lines)
    return about.holder or "a worker"
