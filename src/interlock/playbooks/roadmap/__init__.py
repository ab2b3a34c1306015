"""The playbook `roadmap`."""

from interlock.playbooks.roadmap.playbook import ROADMAP

__all__ = ["ROADMAP"]
