"""`adopt`: a short door to `run adopt`."""

from __future__ import annotations

from interlock.cli.commands import WORKSHOP
from interlock.cli.run import command_for

adopt = command_for("adopt", spoken="{}", panel=WORKSHOP)
