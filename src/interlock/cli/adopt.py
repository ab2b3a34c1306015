"""`adopt`: a short door to `run adopt`."""

from __future__ import annotations

from interlock.cli.commands import WORKSHOP
from interlock.cli.run import command_for
from interlock.playbooks import load

adopt = command_for(load("adopt"), "adopt", spoken="{}", panel=WORKSHOP)
