"""`feature`, rehearsed: paths hold, its rules can fail, liars are not believed, a death changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from interlock.agents.values import Ask, CommandExit
from interlock.engine.holds import BY_CHANCE, broken
from interlock.engine.journal import Memory
from interlock.engine.rehearsal import Path, explore
from interlock.engine.simulation import WORK, Act, Clean, Files
from interlock.engine.stage import EACH
from interlock.engine.world import Command
from interlock.playbooks.feature import FEATURE, building, playbook
from interlock.playbooks.feature.answers import spelled
from interlock.playbooks.feature.decisions import Reviewed, Said
from interlock.playbooks.feature.work import Work
from tests.engine.bench import GREEN, RED, SAMPLED, Died, said, wrong
from tests.playbooks.broken import Patch, seen, swap, wrap
from tests.playbooks.features import BEST, ROOT, Feature


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


GOOD, BAD = WORK + b"right\n", b"broken\n"


class Liars(Clean):
    """Task agents do it right, wrong or not at all; judges pass or refuse as they like, and name what they like."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        draw, left = self.draw, {path: text.encode() for path, text in ask.samples.items()}
        role = ask.role.name
        if role == "implementer":
            does = draw.choice([GOOD, GOOD, BAD, None])
            left |= {path: does or b"" for path in ask.samples if "docs/feature" not in path}
            left = {path: text for path, text in left.items() if does or "docs/feature" in path}
            form = {"already_so": draw.choice([[], ["make test"], ["true"]])}
            left |= {path: text.encode() for path, text in spelled({**BEST[role], **form}, tuple(left)).items()}
        elif "criteria" in BEST[role]:
            left |= {path: text.encode() for path, text in spelled(self._word(ask, role), tuple(left)).items()}
        last = draw.choice(["DONE: yes"] * 100 + ["ERROR: no", "NEEDS_REVISION: no", "well"])
        return said(last, {path: text for path, text in left.items() if draw.random() < 0.998})

    def _word(self, ask: Ask, role: str) -> dict[str, Any]:
        draw, grave = self.draw, {"c": "High", "v": "FAIL", "r": "Major"}[role[0]]
        form = {**BEST[role], **ask.known, "no_check": "I looked"}
        if draw.random() < 0.05:
            form["findings"] = [{"severity": draw.choice([grave, "Low", "None"]), "title": "something"}]
        if draw.random() < 0.05:
            form["checks"] = [{"command": draw.choice(["make test", "false"]), "result": draw.choice(["green", "red"])}]
        if draw.random() < 0.04:
            form["severity"] = draw.choice([grave, ""])
        return form

    def command(self, command: Command, tree: Any, files: Files, *, own: bool) -> CommandExit:
        if command.line in ("true", "false"):
            return GREEN if command.line == "true" else RED
        return self.truth(files)

    @staticmethod
    def truth(files: Files) -> CommandExit:
        code = b"".join(text for path, text in files.items() if "docs/" not in path)
        return GREEN if GOOD in code and BAD not in code else RED


def lied(seed: int) -> tuple[str, str]:
    """How a run of liars ended, and what was accepted against what the command shows."""
    bench = Feature(commands=(Command("test", "make test", "found"),))
    bench.world.cast = Liars(random.Random(seed))
    before = dict(bench.world.files)
    view = bench.go()
    well = view.status in ("complete", "degraded")
    code = {path: text for path, text in bench.world.files.items() if not path.startswith(ROOT)}
    if well and Liars.truth(bench.world.files) is RED:
        return view.status, "accepted, and its command is red"
    if not well and code != before:
        return view.status, f"refused, and delivered: {sorted(code.keys() - before)}"
    return view.status, ""


def hostile(first: int, number: int) -> tuple[dict[str, int], list[str]]:
    """The figures of `number` runs of liars."""
    ends: dict[str, int] = {}
    against = []
    for seed in range(first, first + number):
        end, why = lied(seed)
        ends[end] = ends.get(end, 0) + 1
        against += [f"seed {seed}: {why}"] if why else []
    return ends, against


@pytest.mark.req("EVID-11", "FT-156", "FT-158")
def test_no_liar_is_believed() -> None:
    ends, against = hostile(1, 12)
    assert against == []
    assert ends.get("complete", 0) + ends.get("degraded", 0) > 1, "who never accepts proves nothing"


HONEST: dict[str, Callable[[str, str], str]] = {
    "headings": lambda status, severity: f"# Memory\n\n## Status\n{status}\n\n## Highest Severity\n{severity}\n",
    "labels": lambda status, severity: f"- **Status:** {status}\n- **Highest Severity:** {severity}\n",
    "with prose": lambda status, severity: (
        f"# Memory: me\n\nI looked at all of it.\n\n## Key Findings\n\n- Fine.\n\n## Status\n\n`{status}`\n\n"
        f"## Highest Severity\n\n**{severity}**\n\n## Decisions\n\nNone.\n"
    ),
    "a table": lambda status, severity: (
        f"| Field | Value |\n| --- | --- |\n| Status | {status} |\n| Highest Severity | {severity} |\n"
    ),
    "CRLF": lambda status, severity: f"## Status\r\n{status}\r\n## Highest Severity\r\n{severity}\r\n",
}


@pytest.mark.req("EVID-11", "AGENT-07", "EVID-02")
@pytest.mark.parametrize("layout", HONEST)
def test_nobody_honest_is_refused(layout: str) -> None:
    """Reports in the seed's fields alone, laid out as agents do."""
    bench = Feature()

    def agent(ask: Ask, key: str, files: Files) -> Act:
        act = Clean().agent(ask, key, files)
        word = {"c": "Low", "v": "PASS", "r": "Minor"}.get(ask.role.name[0], "N/A")
        word = "N/A" if "criteria" not in BEST.get(ask.role.name, {}) else word
        left = {path: text for path, text in act.files.items() if text is not None}
        for path in [path for path in left if path.endswith(".mem.md")]:
            left[path] = HONEST[layout]("DONE", word).encode()
        for path in [
            path for path in left if "/review/r-" in path or "/verification/" in path or "/ct-review/" in path
        ]:
            left[path] = b"# Report\n\nAll of it is fine.\n"
        return said("I am done.\n\nDONE: it is fine", left)

    bench.cast.agent = agent  # type: ignore[method-assign]
    view = bench.go()
    assert (view.status, max(call.calls for call in view.calls.values())) == ("complete", 1), view.why
