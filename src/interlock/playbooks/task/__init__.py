"""`task`: a request, one agent, your checks, one reviewer."""

from interlock.playbooks.task.playbook import TASK

__all__ = ["TASK"]
