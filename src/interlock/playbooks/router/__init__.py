"""The playbook `router`."""

from interlock.playbooks.router.playbook import ROUTER

__all__ = ["ROUTER"]
