"""What is fixed when a run begins: ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from interlock.engine.definition import Playbook


@dataclass(frozen=True)
class Identity:
    """What ``run.json`` says; fixed when the run begins."""

    run_id: str
    playbook: str
    key: str
    inputs: Mapping[str, Any]
    caps: Mapping[str, int]
    version: str
    started_at: str
    continues: str | None = None
    parent: Mapping[str, Any] | None = None
    order: int = 0
    """Greater than that of every run before it in its workspace, whatever the clock says; 0 in runs that began when
    nobody counted."""
    before: Sequence[str] = ()
    """All runs that it goes on from, the nearest first."""
    source: Mapping[str, Any] | None = None
    """Where the playbook was found, with the digests of its files; not in runs that began when nobody noted it."""

    @classmethod
    def of(cls, playbook: Playbook, inputs: Any, *, caps: Mapping[str, int] | None = None, **more: Any) -> Self:
        """That of a run of this playbook for these inputs."""
        return cls(
            playbook=playbook.name,
            key=playbook.key(inputs),
            inputs=playbook.inputs_json(inputs),
            caps=dict(playbook.caps if caps is None else caps),
            source=asdict(playbook.source) if playbook.source else None,
            **more,
        )

    @property
    def first_facts(self) -> dict[str, Any]:
        """What the first line of the journal says of it."""
        return {"playbook": self.playbook, "key": self.key, "version": self.version}


def identity_bytes(identity: Identity) -> bytes:
    """``run.json``, byte for byte; its digest is the first link of the journal's chain."""
    return (json.dumps(asdict(identity), indent=2) + "\n").encode()
