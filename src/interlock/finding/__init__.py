"""Playbooks of one's own: where they are found, who trusts them, and how they are loaded.

places    where: a path, `.interlock/playbooks/`, installed packages, shipped; the first hit wins
bundle    the files of one, read once: what is shown, digested, trusted and loaded are the same bytes
reading   what one says of itself, without executing it
trust     what a person trusts, by digest, in their own configuration folder
loading   from bytes to a playbook
library   all of it, for the doors
purity    what one touches beside its run, in every file of it
starting  what `interlock new` writes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.finding.library import Library, Offered
    from interlock.finding.loading import playbook_in
    from interlock.finding.places import FOLDER, FoundPlaybook, Origin
    from interlock.finding.reading import UNKNOWN, Asks
    from interlock.finding.trust import Consent, Request

__getattr__ = lazily(
    __name__,
    {
        "library": "Library Offered",
        "loading": "playbook_in",
        "places": "FOLDER FoundPlaybook Origin",
        "reading": "UNKNOWN Asks",
        "trust": "Consent Request",
    },
)

__all__ = [
    "FOLDER",
    "UNKNOWN",
    "Asks",
    "Consent",
    "FoundPlaybook",
    "Library",
    "Offered",
    "Origin",
    "Request",
    "playbook_in",
]
