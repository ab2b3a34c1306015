"""`feature`, rehearsed: paths hold, its rules can fail, a death changes nothing."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from interlock.engine.holds import BY_CHANCE, broken
from interlock.engine.journal import Memory
from interlock.engine.rehearsal import Path, explore
from interlock.engine.stage import EACH
from interlock.playbooks.feature import FEATURE, building, playbook
from interlock.playbooks.feature.decisions import Reviewed, Said
from interlock.playbooks.feature.work import Work
from tests.engine.bench import SAMPLED, Died, wrong
from tests.playbooks.broken import Patch, seen, swap, wrap
from tests.playbooks.features import Feature


def inputs(**asked: Any) -> Any:
    return FEATURE.inputs.model_validate({**FEATURE.example, **asked})


@pytest.mark.parametrize("approval", [False, True])
@SAMPLED
@pytest.mark.req("PROOF-01", "PROOF-03", "RUN-03", "RUN-10", "FT-38", "FT-20", "FT-10", "FT-58")
def test_every_path_with_one_deviation_holds(approval: bool, sample: int) -> None:
    paths = list(explore(FEATURE, inputs(approval=approval), sample=sample // 3, seed=approval))
    assert wrong(paths) == []
    assert sample or len(paths) > 1500


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    """Beside each other in one run; drawn from first ones that are drawn themselves."""
    draw = random.Random(1)
    usual = Path(FEATURE, inputs(), {}).play()
    for one, name in draw.sample(list(usual.further()), 100):
        first = Path(FEATURE, inputs(), {one: name}).play()
        more = list(first.further())
        for two, other in draw.sample(more, min(5, len(more))):
            path = Path(FEATURE, inputs(), {one: name, two: other}).play()
            assert broken(path) == [], dict(path.schedule)


def _believes(patch: pytest.MonkeyPatch) -> None:
    wrap(building.decisions, "after_review", lambda known: lambda reviewed, *left: playbook.Move.END)(patch)
    wrap(playbook, "conclude", lambda known: lambda work, reviewed: known(work, Reviewed.DONE))(patch)


async def _nothing(*_: Any) -> Any:
    return Said.DONE


def _forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Work, "confirmed", property(lambda work: False, lambda work, value: None))


COPIES: dict[str, tuple[str, str, Patch]] = {
    "what ends well the reviewers decided": ("r-quality", f"status=NEEDS_REVISION{EACH}", _believes),
    "no unverified work is reviewed": ("", "", swap(building, "verify", _nothing)),
    "the post-mortem is the last": ("", "", swap(playbook, "post_mortem", _nothing)),
    "agents work within their bounds": ("r-security", f"severity=Blocker{EACH}", _forgets),
}
"""Who deviates and how, and what is broken."""


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("rule", FEATURE.invariants)
def test_a_broken_copy_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    who, by, patch = COPIES[rule]
    patch(monkeypatch)
    assert rule in seen(FEATURE, inputs(), who, by)


# --- a death at each line


@pytest.mark.req("RUN-03", "RUN-05")
@pytest.mark.parametrize("step", [60, pytest.param(9, marks=pytest.mark.long)])
def test_cut_off_behind_any_line_it_ends_with_the_same_documents(step: int) -> None:
    """One that fails, is mended, and asks a person; its documents byte for byte, but for times."""

    def run(dies_at: int = 0) -> Feature:
        bench = Feature()
        bench.dies_at = dies_at
        bench.cast.decisions = [{"choice": "approve"}] * 3
        with suppress(Died):
            bench.go(approval=True)
        return bench

    usual = run()
    documents = {path: BY_CHANCE.sub(b"", text) for path, text in usual.world.files.items()}
    for line in range(1, len(usual.lines) + 1, step):
        bench = run(line)
        bench.dies_at = 0
        medium = bench.world.folder.medium
        assert isinstance(medium, Memory)
        del medium.content[medium.safe :]
        again = bench.player()
        if again.view.start is None:
            bench.go(approval=True)
        elif again.view.ended is None:
            bench.resume()
        assert {path: BY_CHANCE.sub(b"", text) for path, text in bench.world.files.items()} == documents, line
