"""`ticket`: a ticket becomes a plan, a task graph, a branch, built and tested work, a review and one commit."""

from interlock.playbooks.ticket.playbook import TICKET

__all__ = ["TICKET"]
