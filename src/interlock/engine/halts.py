"""How a process stops before its run's end: BaseExceptions, so that no `except Exception` of a playbook eats them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal


class Halted(BaseException):
    """The playbook goes no further in this process."""


class Parked(Halted):
    """The run stays open: it waits, or an agent or program failed."""

    def __init__(
        self, status: Literal["waiting", "failed"], why: str, remedy: str = "", until: datetime | None = None
    ) -> None:
        super().__init__(why)
        self.status: Literal["waiting", "failed"] = status
        self.why = why
        self.remedy = remedy
        self.until = until


class Cancelled(Halted):
    """A person cancelled the run."""

    def __init__(self, who: str, file: str = "") -> None:
        super().__init__(f"cancelled by {who}")
        self.file = file
        """Their message, which leaves the inbox when the end stands in the journal."""
