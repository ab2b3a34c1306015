"""The ticket: a request with a ticket id becomes planned, built, tested, reviewed and committed work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.playbooks.ticket.playbook import ticket
    from interlock.playbooks.ticket.rehearsing import rehearsal
    from interlock.playbooks.ticket.request import TicketError
    from interlock.playbooks.ticket.startup import TicketInputs

__getattr__ = lazily(
    __name__,
    {
        "playbook": "ticket",
        "rehearsing": "rehearsal",
        "request": "TicketError",
        "startup": "TicketInputs",
    },
)


def example_files() -> Mapping[str, str]:
    """A project in which a ticket can be tried: path in the workspace to text."""
    return {
        "Makefile": "build:\n\t@true\n\ntest:\n\t@sh test.sh\n",
        "greeting.txt": "Hello\n",
        "test.sh": "# Every greeting begins with a capital letter.\ngrep -q '^[A-Z]' greeting.txt\n",
    }


__all__ = ["TicketError", "TicketInputs", "example_files", "rehearsal", "ticket"]
