"""The words of the shipped playbooks for how a call ended, each from its own folder."""

from interlock.contracts import PLAIN
from interlock.playbooks.harness.briefs import ANSWER as HARNESS
from interlock.playbooks.roadmap.answers import WORDS as ROADMAP
from interlock.playbooks.router.documents import Returns
from interlock.playbooks.router.handover import ANSWERS
from interlock.playbooks.ticket.briefs import AS_WRITTEN, OF_TASK

ROUTER_JSON, ROUTER_TEXT = ANSWERS[Returns.JSON], ANSWERS[Returns.TEXT]
SAID = (PLAIN, ROADMAP, ROUTER_JSON, OF_TASK)
"""Said in the message."""
ALL = (*SAID, ROUTER_TEXT, HARNESS, AS_WRITTEN)

__all__ = ["ALL", "AS_WRITTEN", "HARNESS", "OF_TASK", "PLAIN", "ROADMAP", "ROUTER_JSON", "ROUTER_TEXT", "SAID"]
