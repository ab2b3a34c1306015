"""`look` and `edit`: what was found and done is recorded, the document is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from interlock.documents import Document, EditedMeanwhile
from interlock.engine import Edit, Ending, Run, playbook
from interlock.testing import Crash, SimulatedWorld, Simulation, dying_at

LARGE = "x" * 100_000


@dataclass(frozen=True)
class Nothing:
    name: str = "all"


def size(document: Document) -> dict[str, Any]:
    return {"size": len(document.text), "first": document.text[:5000]}


def one_more(document: Document) -> Edit:
    return Edit(document.encode(document.text + "+"), {"size": len(document.text) + 1})


@playbook("excerpts", inputs=Nothing, key=lambda inputs: inputs.name)
async def excerpts(run: Run, _inputs: Nothing) -> Ending:
    """Look, edit twice, look again."""
    first = await run.read("big.txt", size)
    sizes = [(await run.update("big.txt", one_more, what={"add": n}))["size"] for n in (1, 2)]
    last = await run.read("big.txt", size)
    nothing = await run.update("big.txt", lambda _document: Edit(None, "left alone"), what="nothing")
    return Ending.complete(f"{first['size']} {sizes} {last['size']} {len(last['first'])} {nothing} {run.live}")


EXPECTED = "100000 [100001, 100002] 100002 5000 left alone True"


def simulation() -> Simulation:
    return Simulation(excerpts, Nothing(), SimulatedWorld({"big.txt": LARGE}))


@pytest.mark.req("EN-08")
def test_only_what_was_found_is_recorded() -> None:
    """Four versions of a large document leave no copy of it in the run, neither in lines nor in objects."""
    played = simulation()
    assert played.go().output == EXPECTED
    objects = played.world.records.objects.contents()  # type: ignore[attr-defined]
    assert sum(map(len, objects)) < 20_000
    assert len(played.medium.content) < 10_000
    assert played.world.tree.files["big.txt"] == LARGE.encode() + b"++"


@pytest.mark.req("EN-10", "CM-22")
def test_every_cut_ends_with_the_same_bytes() -> None:
    """An edit that happened and was not recorded is neither lost nor repeated."""
    for number in range(100):
        played = simulation()

        try:
            played.go(tripwire=dying_at(number + 1))
        except Crash:
            assert played.go().output == EXPECTED
            assert played.world.tree.files["big.txt"] == LARGE.encode() + b"++"
        else:
            assert number > 10
            return
    raise AssertionError("the run never came through")


@pytest.mark.req("EN-23")
def test_an_edit_in_between_is_kept_and_the_change_made_again() -> None:
    """A person writes between reading and writing: both changes are in the file; after ten times it is an error."""
    played = simulation()
    real, meddled = played.world.documents.write, 0

    def meddling(path: str, content: Any, *, expect: str | None = None) -> Any:
        nonlocal meddled
        if meddled < most:
            meddled += 1
            played.world.tree.put(path, played.world.tree.files[path] + b"!")
        return real(path, content, expect=expect)

    played.world.documents.write = meddling  # type: ignore[method-assign]
    most = 3
    played.go()
    assert played.world.tree.files["big.txt"] == LARGE.encode() + b"!!!++"
    played, meddled, most = simulation(), 0, 10
    real = played.world.documents.write
    played.world.documents.write = meddling  # type: ignore[method-assign]
    close = played.go()
    assert close.exit_code == 3
    assert isinstance(close.error, EditedMeanwhile)
