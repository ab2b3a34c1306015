"""The feature playbook: a request goes through research, design, waves of implementers, verification and review."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.feature.playbook import feature
    from interlock.playbooks.feature.rehearsing import rehearsal
    from interlock.playbooks.feature.work import FeatureInputs

__getattr__ = lazily(__name__, {"playbook": "feature", "rehearsing": "rehearsal", "work": "FeatureInputs"})


def example_files() -> Mapping[str, str]:
    """A scenario for scripted agents; a feature needs no document but its request."""
    name = "feature-scenario.yaml"
    return {name: resources.files(__package__).joinpath("examples", name).read_text(encoding="utf-8")}


__all__ = ["FeatureInputs", "example_files", "feature", "rehearsal"]
