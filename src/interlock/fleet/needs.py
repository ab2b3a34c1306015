"""What a run needs of a worker, what a worker has, and what is missing between the two.  Pure.

procrastinate gives a worker the jobs of queues that it names.  So the needs of a run are in the name of its queue, as
a digest, and a worker names the queues whose needs it can meet.  What it lacks, it is never given.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

NAME_BYTES: Final = 40
"""procrastinate announces a job on a channel with the name of its queue; PostgreSQL has 63 bytes for it."""
DIGEST_LENGTH: Final = 12

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_HOST = re.compile(r"\[[^\]]*\]|[^:]*")
_SCP = re.compile(r"(?:[^/@:]*@)?(\[[^\]/]*\]|[^\[/:]+):(.*)", re.DOTALL)


def place_of(address: str) -> str:
    """The repository behind an address, the same for every way that leads there: `HOST/PATH`, or a path of this
    machine.  Names of users, passwords and ports are left out."""
    if found := _URL.fullmatch(address):
        scheme, authority, path = found.groups()
        host = "" if scheme.lower() == "file" else _HOST.match(authority.rpartition("@")[2])[0]  # type: ignore[index]
    elif found := _SCP.fullmatch(address):
        host, path = found.groups()
    else:
        host, path = "", address
    place = re.sub("/+", "/", f"{host.lower()}/{path}" if host else path)
    while place.endswith(("/", ".git")) and place not in ("/", ".git"):
        place = place.removesuffix("/").removesuffix(".git")
    return place


@dataclass(frozen=True)
class Needs:
    """What a run needs of the worker that takes it."""

    repository: str
    """As `place_of` says it."""
    labels: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """On PATH, or absolute paths; ``claude|codex``: one of them."""
    playbook: str = ""
    """A playbook that somebody must have trusted; empty: one that comes with interlock."""
    files: str = ""
    """The digest of that playbook's files."""
    unknown: tuple[str, ...] = field(default=(), metadata={"stored": False})
    """What a later version of interlock asks for: this one cannot say whether it is met."""

    def to_json(self) -> dict[str, Any]:
        said = {name: value for name, value in asdict(self).items() if value and name != "unknown"}
        return {name: sorted(set(value)) if isinstance(value, tuple) else value for name, value in said.items()}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Needs:
        known = {one.name for one in fields(cls)} - {"unknown"}
        return cls(
            repository=str(said.get("repository", "")),
            labels=tuple(said.get("labels", ())),
            programs=tuple(said.get("programs", ())),
            playbook=str(said.get("playbook", "")),
            files=str(said.get("files", "")),
            unknown=tuple(sorted(name for name, value in said.items() if value and name not in known)),
        )


def queue_name(queue: str, needs: Needs) -> str:
    """The name under which procrastinate knows a queue and these needs."""
    said = json.dumps([queue, needs.to_json()], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]
    room = NAME_BYTES - DIGEST_LENGTH - 1
    return f"{queue.encode('utf-8', 'replace')[:room].decode('utf-8', 'ignore')}.{digest}"


@dataclass(frozen=True, kw_only=True)
class Means:
    """What a worker has."""

    name: str
    """As people see it: host and folder, or what it was started with."""
    repositories: Mapping[str, str]
    """Places that it serves, each with the address that it uses."""
    labels: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    """Those that it listens to; empty: all."""
    has_program: Callable[[str], bool]
    trusts: Callable[[str], bool]
    """Whether its operator trusts a playbook whose files have this digest."""


def lacking(queue: str, needs: Needs, means: Means) -> tuple[str, ...]:
    """What keeps a worker from a run, each as what it does not have (``label gpu``); nothing: it can take it."""
    found = [f"queue {queue}"] if means.queues and queue not in means.queues else []
    if needs.repository not in means.repositories:
        found.append(f"repository {needs.repository}")
    found += [f"label {label}" for label in needs.labels if label not in means.labels]
    for program in needs.programs:
        choice = program.split("|")
        if not any(map(means.has_program, choice)):
            found.append(f"program {' or '.join(choice)}")
    if needs.files and not means.trusts(needs.files):
        found.append(f"trust in playbook {needs.playbook}")
    found += [f"a version of interlock that knows what {name!r} means" for name in needs.unknown]
    return tuple(found)
