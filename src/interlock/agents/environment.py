"""What an agent or a command finds in its environment. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from interlock.agents.redaction import looks_secret


@dataclass(frozen=True)
class Environment:
    """The variables of one program."""

    variables: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    """Names of variables that look like keys and that nobody named."""
    path: str = os.defpath
    """The person's own PATH, without the project's programs."""


def environment(
    base: Mapping[str, str],
    top: Path,
    place: str = ".",
    *,
    needed: Collection[str] = (),
    allowed: Collection[str] = (),
) -> Environment:
    """The person's environment without what belongs to an outer run, to git or to nobody here.

    Args:
        top: the workspace's, as the program sees it.
        place: where it works, from there.
        needed: the client's row: variables that look like keys and that it needs.
        allowed: `[sandbox] env`, the same by the person.
    """
    kept, left_out = {}, []
    for name, value in without_our_own(base, top).items():
        # git exports these in hooks: they would send an agent's git to another repository. Identities stay.
        if name.startswith("INTERLOCK_") or (name.startswith("GIT_") and not name.startswith(_IDENTITY)):
            continue
        if looks_secret(name) and name not in needed and name not in allowed:
            left_out.append(name)
        else:
            kept[name] = value
    path = kept.get("PATH") or os.defpath
    kept["PATH"] = os.pathsep.join([*_programs(top, place), path])
    return Environment(kept, tuple(sorted(left_out)), path)


_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSL_", "GIT_TERMINAL_PROMPT")


def _programs(top: Path, place: str) -> list[str]:
    """Folders of programs of the project itself, the nearest to the place first; one may come to be only later."""
    parts = [part for part in PurePosixPath(place).parts if part != "."]
    folders = [top.joinpath(*parts[:length]) for length in range(len(parts), -1, -1)]
    return [str(folder / name) for folder in folders for name in (".venv/bin", "node_modules/.bin")]


def without_our_own(environ: Mapping[str, str], root: Path, *, prefix: str | None = None) -> dict[str, str]:
    """The environment as it was before interlock's own virtual environment was put into it.

    It would shadow the Python of the person's project.  One inside the workspace stays: that is the project's own.
    """
    own = prefix or (sys.prefix if sys.prefix != sys.base_prefix else None)
    if own is None or Path(own).resolve().is_relative_to(root.resolve()):
        return dict(environ)
    programs = {os.path.realpath(Path(own, name)) for name in ("bin", "Scripts")}
    kept = dict(environ)
    if "PATH" in kept:
        places = kept["PATH"].split(os.pathsep)
        kept["PATH"] = os.pathsep.join(one for one in places if not one or os.path.realpath(one) not in programs)
    if os.path.realpath(kept.get("VIRTUAL_ENV") or "/") == os.path.realpath(own):
        del kept["VIRTUAL_ENV"]
    return kept
