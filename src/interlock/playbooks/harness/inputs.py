"""What a person asks for when they start a task or let it go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HarnessInputs:
    """Which task, and how."""

    task: str
    fallback: str = ""
    """The stage whose artifact a person supplies."""
    fallback_by: str = ""
    check: str = ""
    """Commands that must pass, one on each line; instead of those of the settings."""
    resumed: bool = False
    """A person explicitly lets a stopped task go on."""
    note: str = ""
    from_stage: str = ""
    reset_remediation: bool = False
    start_over: bool = False
    """The task begins anew, whatever its run-state says."""
    mend_report: bool = False
    """Chains of the run report that are broken are made anew."""
