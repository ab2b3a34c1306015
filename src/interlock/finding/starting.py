"""What `interlock new` writes: a playbook that works as it is, for its author to change (OW-08)."""

from __future__ import annotations

import os
import re
from importlib import resources
from pathlib import Path
from typing import Final

from interlock import flows
from interlock.documents import Store
from interlock.engine.folder import HOME, prepare_home
from interlock.engine.nesting import only_people
from interlock.errors import ConfigInvalid
from interlock.finding.bundle import Bundle, is_no_part
from interlock.finding.places import FOLDER
from interlock.finding.trust import TrustRecords

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
STAND_IN: Final = "sample"
"""The name in the files that are copied."""
SCHEMA: Final = f"{FOLDER}/playbook.schema.json"
"""What editors read; the first line of a new playbook in YAML leads to it."""


def start(root: Path, name: str, *, yaml: bool, trust: TrustRecords) -> list[str]:
    """Write a playbook of this name, and trust it: its author has called for it, and nobody else has touched it yet.

    Any later change is asked about, the author's too: a file does not say who changed it.  The paths written.
    """
    only_people(trust.environ, root, "trust a playbook")
    _check(root, name)
    texts = files(name, yaml=yaml)
    prepare_home(root)
    store = Store(root, root / HOME / "attic")
    for path, text in texts.items():
        store.write(path, text)
    above = f"{FOLDER}/{name}/"
    parts = {path.removeprefix(above): text.encode() for path, text in texts.items() if path.startswith(above)}
    own = {path: content for path, content in parts.items() if not is_no_part(path)}
    trust.keep(Bundle(root / FOLDER / name, next(iter(own)), own))  # what was written, not what is found there now
    return list(texts)


def files(name: str, *, yaml: bool) -> dict[str, str]:
    """Each file of a new playbook, by its path in the workspace; the process first."""
    found, pending = dict[str, str](), [("", resources.files(__package__) / "start.d" / ("yaml" if yaml else "python"))]
    while pending:
        above, folder = pending.pop(0)
        for entry in sorted(folder.iterdir(), key=lambda entry: (not entry.name.startswith("playbook"), entry.name)):
            if entry.is_dir():
                pending.append((f"{above}{entry.name}/", entry))
                continue
            path = entry.name.removesuffix(".txt").replace(STAND_IN, name.replace("-", "_"))
            found[f"{FOLDER}/{name}/{above}{path}"] = entry.read_text(encoding="utf-8").replace(STAND_IN, name)
    return {**found, SCHEMA: flows.schema_text()} if yaml else found


def _check(root: Path, name: str) -> None:
    from interlock.settings import is_taken

    if not NAME.fullmatch(name) or is_taken(name):
        raise ConfigInvalid(
            f"a playbook cannot be called {name!r}",
            where="command line",
            expected="a small letter, then small letters, digits and -, 40 at most; no table of interlock.toml",
            found=name,
        )
    taken = [path for path in (name, f"{name}.py", f"{name}.yaml") if os.path.lexists(root / FOLDER / path)]
    if taken:
        raise ConfigInvalid(
            f"there is a playbook {name} already; nothing was written",
            where=f"{FOLDER}/{taken[0]}",
            remedy="Choose another name, or move it away.",
        )
