"""Somebody who works on in the workspace while agents do: each agent that waits for a person gets one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WAITS = """
def wait_for_person():
    import os, time
    from pathlib import Path
    exchange = Path(os.environ["INTERLOCK_BRIEF"]).parent
    (exchange / "waits").write_text(os.environ["INTERLOCK_MEMBER"])
    while not (exchange / "go-on").exists():
        time.sleep(0.005)
"""
"""For the program of an agent: a function that returns when the person has done their part."""
POLL_S = 0.01


@contextmanager
def person(root: Path, act: Callable[[str], None]) -> Iterator[list[str]]:
    """For as long as the block lasts: `act` is called with the name of each agent that waits, while it waits.

    Gives the names of those that did.
    """
    seen: list[str] = []
    failed: list[BaseException] = []
    over = threading.Event()

    def look() -> None:
        known: set[Path] = set()
        while not over.wait(POLL_S):
            # Those with a dot are on their way out.
            for place in (root / ".interlock" / "layers").glob("[!.]*/exchange/waits"):
                layer = place.parent.parent.name
                if place in known or not (name := said(place)) or not is_under_way(layer):
                    continue
                known.add(place)
                seen.append(name)
                try:
                    act(seen[-1])
                except BaseException as error:  # noqa: BLE001 - told to the test, and the agent must not wait for ever
                    failed.append(error)
                (place.parent / "go-on").touch()

    def said(place: Path) -> str:
        with suppress(FileNotFoundError):  # it may be gone by now
            return place.read_text()
        return ""

    def is_under_way(layer: str) -> bool:
        """Whether the tree from which this agent started is on record: what is edited now is edited meanwhile."""
        return any((root / ".interlock" / "runs").glob(f"*/bases/{layer}.json"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
