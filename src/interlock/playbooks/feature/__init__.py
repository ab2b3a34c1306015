"""`feature`: a request through research, design, critics, waves of tasks, verification and review."""

from interlock.playbooks.feature.playbook import FEATURE

__all__ = ["FEATURE"]
