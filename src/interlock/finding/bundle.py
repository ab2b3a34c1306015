"""The files of a playbook, read once: what is shown to a person, digested, trusted and loaded are the same bytes.

A playbook is a folder with a `playbook.py` or a `playbook.yaml`, or a single file.  Tests, caches and hidden files of
the folder are no part of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from interlock.documents.files import read_plain, sha256
from interlock.documents.model import canonical
from interlock.errors import ConfigInvalid

MAINS = ("playbook.py", "playbook.yaml")
"""The file of a folder that is the process."""
ENDINGS = (".py", ".yaml", ".yml")
LARGEST, MOST_FILES = 10_000_000, 500


@dataclass(frozen=True)
class Bundle:
    """All files of a playbook, as they were at one moment."""

    folder: Path
    """Where the files are; of a single one, the folder around it."""
    main: str
    """The file that is the process."""
    files: Mapping[str, bytes] = field(repr=False)
    """Each by its path below the folder."""

    @property
    def is_folder(self) -> bool:
        return self.main in MAINS

    @property
    def is_yaml(self) -> bool:
        return not self.main.endswith(".py")

    @cached_property
    def digest(self) -> str:
        return sha256(canonical({path: sha256(content) for path, content in self.files.items()}))


def read(place: Path) -> Bundle:
    """The playbook at a path; `ConfigInvalid` for whatever cannot be one."""
    if place.name in MAINS:
        place = place.parent
    try:
        if place.is_symlink():
            raise _linked(place)
        if not place.is_dir():
            return Bundle(place.parent, place.name, {place.name: read_plain(place, limit=LARGEST)})
        files = dict(files_in(place))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise ConfigInvalid(
            "there is no playbook at this path" if missing else "a file of the playbook cannot be read",
            where=str(error.filename or place),
            expected=f"a folder with {' or '.join(MAINS)}, or a file",
            found=(error.strerror or type(error).__name__).lower(),
        ) from error
    mains = [name for name in MAINS if name in files]
    if len(mains) != 1:
        raise ConfigInvalid(
            "two files say what the process is" if mains else "there is no playbook in this folder",
            where=str(place),
            expected=" or ".join(MAINS) + (", not both" if mains else ""),
            remedy="Remove one of them." if mains else "Write one: interlock playbooks new NAME",
        )
    return Bundle(place, mains[0], files)


def is_no_part(name: str) -> bool:
    """Whether a file of a playbook's folder is none of it: a test, a cache, something hidden."""
    return name.startswith((".", "test_")) or name in ("__pycache__", "conftest.py")


def files_in(top: Path) -> Iterator[tuple[str, bytes]]:
    """Those that count, by their paths below the folder."""
    folders, count, size = [top], 0, 0
    while folders:
        for entry in sorted(os.scandir(folders.pop()), key=lambda entry: entry.name):
            if is_no_part(entry.name):
                continue
            if entry.is_symlink():
                raise _linked(Path(entry.path))
            if entry.is_dir():
                folders.append(Path(entry.path))
                continue
            content = read_plain(Path(entry.path), limit=LARGEST)
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > LARGEST:
                raise ConfigInvalid(
                    "the folder of a playbook has too much in it",
                    where=str(top),
                    expected=f"its roles, prompts and a page: at most {MOST_FILES} files and {LARGEST:,} bytes",
                )
            yield Path(entry.path).relative_to(top).as_posix(), content


def _linked(place: Path) -> ConfigInvalid:
    return ConfigInvalid(
        "a link stands where a playbook or a part of one should",
        where=str(place),
        expected="files of its own: what is trusted must be what is loaded",
        remedy="Put there what it leads to.",
    )
