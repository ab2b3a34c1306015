"""The board: what waits for a person, what works, what is past; each run in the words of whoever asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from interlock.engine.folder import Elsewhere, KnownRun
from interlock.engine.glances import Glance, glance, glance_of
from interlock.errors import InterlockError
from interlock.pages.shelf import ELSEWHERE, Shelf, away_words, headline
from interlock.telemetry import (
    Pipeline,
    State,
    StepStand,
    Tone,
    Totals,
    cost_line,
    printable,
    standing,
    tone_of,
    totals,
    waiting_gate,
)
from interlock.telemetry.facts import LineLike

PAST = 50
"""Runs of the past that one page shows."""


@dataclass(frozen=True)
class ListedRun:
    """One run of the board."""

    workspace: str
    run_id: str
    playbook: str
    headline: str
    status: str
    tone: Tone
    how: str
    """Why it stands so, or what it asks."""
    stage: str
    started_at: str
    last_at: str
    seconds: float
    cost: str
    dispatches: int
    trouble: str
    asks: bool
    """A decision of a person is what it waits for, and can be said here."""
    where: str = ""
    """Who has it, if it is not here."""

    @property
    def part(self) -> str:
        """Where it belongs on the board."""
        return {Tone.WAITS: "waiting", Tone.WORKS: "working"}.get(self.tone, "past")

    @property
    def searched(self) -> str:
        said = (
            self.headline,
            self.run_id,
            self.playbook,
            self.status,
            self.stage,
            self.how,
            self.workspace,
            self.where,
        )
        return " ".join(said).casefold()


def listed(shelf: Shelf, known: KnownRun, holder: str | None) -> ListedRun:
    """One run, from its whole journal; of one whose journal is damaged, that it is.

    Args:
        holder: the process that works on it, if one does.
    """
    folder = known.folder
    note = folder.elsewhere()
    away = None if note is None or note.listens else note
    try:
        lines = folder.lines()
    except (InterlockError, OSError) as error:
        seen = glance(known, {} if holder is None else {known.identity.run_id: holder})
        return _row(shelf, known, seen, (), Totals(), note, status="damaged", how=str(error))
    seen = glance_of(known, lines, holder, note)
    asked = waiting_gate(lines)
    if away is not None:
        how, asked = away_words(away), None
    elif holder is None and standing(lines).state is State.ASKING and asked is not None:
        how = asked.question
    elif holder is not None:
        how = f"asks: {asked.question}" if asked is not None else ""
    else:
        how = seen.how
    status = seen.status if away is None else ELSEWHERE
    return _row(shelf, known, seen, lines, totals(lines), note, status=status, how=how, asks=asked is not None)


def unreadable(shelf: Shelf, run_id: str, why: str) -> ListedRun:
    """A run of which nobody can say what it is."""
    name, how = printable(run_id, 80), printable(why, 300)
    return ListedRun(
        shelf.name, run_id, "", name, "damaged", tone_of("damaged"), how, "", "", "", 0.0, "", 0, "", False
    )


def _row(
    shelf: Shelf,
    known: KnownRun,
    seen: Glance,
    lines: Sequence[LineLike],
    sums: Totals,
    away: Elsewhere | None,
    *,
    status: str,
    how: str,
    asks: bool = False,
) -> ListedRun:
    identity = known.identity
    tone = Tone.WAITS if asks else tone_of(status)
    return ListedRun(
        shelf.name,
        identity.run_id,
        identity.playbook,
        headline(identity, lines),
        status,
        tone,
        printable(how, 300),
        stage_of(shelf.steps(identity), lines) if tone in (Tone.WAITS, Tone.WORKS) else "",
        seen.started_at,
        seen.last_at,
        seen.seconds,
        cost_line(sums) if sums.cost_usd else "",
        sums.dispatches,
        trouble_of(sums),
        asks,
        printable(away.who, 120) if away is not None and away.listens and away.who != how else "",
    )


def stage_of(steps: Mapping[str, str], lines: Iterable[LineLike]) -> str:
    """The step that a run is in, as people call it; of a playbook that names none, the part of its last key."""
    pipeline = Pipeline(steps)
    last = ""
    for line in lines:
        pipeline.pass_by(line.key)
        last = line.key if line.key and "/" in line.key else last
    now = next((title for title, stand in pipeline if stand is StepStand.NOW), "")
    return now or printable(last.split("/")[0], 40)


def trouble_of(sums: Totals) -> str:
    """What did not go well, in a few words."""
    said = [f"{sums.failed} failed"] if sums.failed else []
    said += [f"{sums.against} {'verdict' if sums.against == 1 else 'verdicts'} against"] if sums.against else []
    return ", ".join(said)


@dataclass(frozen=True)
class BoardQuery:
    """What somebody wants to see of the board."""

    show: str = ""
    """waiting, working, past; empty for all."""
    playbook: str = ""
    workspace: str = ""
    q: str = ""
    start: int = 0
    """How many runs of the past are passed over."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """From an address; what makes no sense there is left out."""
        start = query.get("start", "")
        show = query.get("show", "")
        return cls(
            show if show in ("waiting", "working", "past") else "",
            query.get("playbook", ""),
            query.get("workspace", ""),
            query.get("q", "").strip(),
            int(start) if start.isdecimal() and len(start) < 8 else 0,
        )

    def fits(self, one: ListedRun) -> bool:
        words = self.q.casefold().split()
        return (
            self.show in ("", one.part)
            and self.playbook in ("", one.playbook)
            and self.workspace in ("", one.workspace)
            and all(word in one.searched for word in words)
        )

    @property
    def said(self) -> dict[str, str]:
        """As the query of an address."""
        return {name: str(value) for name, value in asdict(self).items() if value}


EVERYTHING = BoardQuery()


@dataclass(frozen=True)
class BoardView:
    waiting: tuple[ListedRun, ...]
    working: tuple[ListedRun, ...]
    past: tuple[ListedRun, ...]
    """One page of it."""
    number_past: int
    number: int
    """Of all runs, whatever was asked for."""
    asked: BoardQuery
    playbooks: tuple[str, ...]
    workspaces: tuple[str, ...]
    away: tuple[str, ...] = ()
    """What keeps runs of the fleet from being seen as they are now."""

    @property
    def older(self) -> int | None:
        """Where the next page of the past begins."""
        following = self.asked.start + PAST
        return following if following < self.number_past else None

    @property
    def newer(self) -> int | None:
        return max(0, self.asked.start - PAST) if self.asked.start else None


def board_view(rows: Iterable[ListedRun], asked: BoardQuery = EVERYTHING, *, away: tuple[str, ...] = ()) -> BoardView:
    """The board of these runs: those that ask first, within each part the latest first."""
    known = sorted(rows, key=lambda one: (one.started_at, one.run_id), reverse=True)
    fitting = [one for one in known if asked.fits(one)]
    waiting = sorted((one for one in fitting if one.part == "waiting"), key=lambda one: not one.asks)
    past = [one for one in fitting if one.part == "past"]
    return BoardView(
        tuple(waiting),
        tuple(one for one in fitting if one.part == "working"),
        tuple(past[asked.start : asked.start + PAST]),
        len(past),
        len(known),
        asked,
        tuple(sorted({one.playbook for one in known if one.playbook})),
        tuple(sorted({one.workspace for one in known})),
        away,
    )
