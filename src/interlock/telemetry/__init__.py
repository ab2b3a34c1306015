"""What a run's journal tells: facts per dispatch, totals, reports."""

from interlock.telemetry.facts import Totals, dispatch_rows, totals

__all__ = ["Totals", "dispatch_rows", "totals"]
