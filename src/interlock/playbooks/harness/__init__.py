"""`harness`: one governed task, stage by stage, each by a verified artifact."""

from interlock.playbooks.harness.playbook import HARNESS

__all__ = ["HARNESS"]
