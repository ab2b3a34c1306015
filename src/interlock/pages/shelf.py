"""A workspace as pages need it, and what all pages say of a run: what it is about, how it stands."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from interlock.engine.folder import Elsewhere, RunFolder
from interlock.engine.identity import Identity
from interlock.telemetry import printable
from interlock.telemetry.facts import LineLike
from interlock.telemetry.report import IdentityLike

SAID = ("request", "command", "ticket", "task", "item", "title", "text", "what", "file")
"""Inputs in which people say what they want, the best first."""
LONGEST = 240
ELSEWHERE = "elsewhere"
"""How a run stands of which only a copy is here: somebody else has it."""


@dataclass(frozen=True)
class Shelf:
    """One workspace: its name in addresses, where it is, what its playbooks call their steps and documents."""

    name: str
    root: Path
    steps: Callable[[Identity], Mapping[str, str]]
    documents: Callable[[Identity], Sequence[str]]

    @classmethod
    def of(cls, name: str, root: Path) -> Self:
        """With the playbooks that the workspace has; each is looked up once."""
        from interlock.finding import Library

        library = Library(root, os.environ)
        return cls(name, root, library.steps_of, library.documents_of)


@dataclass(frozen=True)
class Visit:
    """Who looks at a page, and what a form of theirs carries."""

    person: str
    token: str
    """Against forged forms: the field `token` of each."""
    may_act: bool = True
    """Whether there are buttons for what changes something."""
    workspaces: tuple[str, ...] = ()
    since: str = ""
    """What the page was made from, in a word: its stream begins with what changed since."""


def headline(identity: IdentityLike, lines: Sequence[LineLike] = ()) -> str:
    """What a run is about in the words of whoever asked for it; else what it works on, as its playbook calls it."""
    inputs = identity.inputs if isinstance(identity.inputs, Mapping) else {}
    said = [text for name in SAID if isinstance(text := inputs.get(name), str) and text.strip()]
    best = next((text for text in said if " " in text.strip()), "")
    titles = [] if best else _titles(lines)
    if len(titles) == 1:
        best = titles[0]
    return printable(" ".join((best or next(iter(said), "") or identity.key or identity.playbook).split()), LONGEST)


def out_of_reach(folder: RunFolder) -> Elsewhere | None:
    """Where a run is to which nothing can be said from here; a fleet's hears what people say."""
    note = folder.elsewhere()
    return None if note is None or note.listens else note


def away_words(away: Elsewhere) -> str:
    """Where a run is that is not ours any more, and how it comes back."""
    since = f", since {printable(away.since, 40)}" if away.since else ""
    return f"{printable(away.who, 100)}{since}. What is here is how it was then. {printable(away.remedy, 200)}"


def key_besides(identity: IdentityLike, said: str) -> str:
    """The key of a run where it says something that its headline does not: a ticket, a slug."""
    words = identity.key.casefold().split()
    return "" if words and said.casefold().startswith(" ".join(words[:2])) else printable(identity.key, 60)


def step_title(steps: Mapping[str, str], key: str, name: str) -> str:
    """What people call the step of a dispatch; its own name where the playbook has no word for it."""
    return next((steps[part] for part in key.split("/") if part in steps), printable(name, 40))


def _titles(lines: Sequence[LineLike]) -> list[str]:
    """What the playbook's own events call the things that it works on."""
    found = dict[str, None]()
    for line in lines:
        given = line.data.get("in")
        if isinstance(given, Mapping) and "event" in given and isinstance(title := line.data.get("title"), str):
            subject = next(
                (one for name in ("item", "task", "ticket") if isinstance(one := line.data.get(name), str)), ""
            )
            found[f"{subject}: {title}" if subject else title] = None
    return list(found)
