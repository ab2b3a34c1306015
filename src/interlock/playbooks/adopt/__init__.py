"""`adopt`: an orchestrator prompt becomes a playbook in YAML."""

from interlock.playbooks.adopt.playbook import ADOPT

__all__ = ["ADOPT"]
