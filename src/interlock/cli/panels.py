"""The groups in which the help lists the commands, in the order in which a newcomer meets them."""

from typing import Final

RUNNING: Final = "Run"
LOOKING: Final = "Look"
DECIDING: Final = "Decide"
WORKSHOP: Final = "Set up and check"
