"""The files of a playbook, read once.

What is shown to a person, digested, trusted and loaded are the same bytes: whoever swaps a file afterwards changes
nothing of what this process does.  A playbook is a folder with a `playbook.py` or a `playbook.yaml`, or a single file.
Tests, caches and hidden files of the folder are no part of it: they are not read, so nothing can be loaded from them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from interlock.documents.files import read_plain
from interlock.documents.plain import is_text
from interlock.engine.keys import digest_of, sha256
from interlock.errors import ConfigInvalid
from interlock.telemetry.lines import printable

PROCESSES: Final = ("playbook.py", "playbook.yaml")
"""The file of a folder that is the process."""
TEXTS: Final = (".py", ".md")
"""Files that are read as text; YAML says itself where it is none."""
LARGEST_FILE: Final = 1_000_000
LARGEST: Final = 10_000_000
MOST_FILES: Final = 500


@dataclass(frozen=True)
class Bundle:
    """All files of a playbook, as they were at one moment."""

    place: Path
    """The folder, or the single file."""
    main: str
    """The file that is the process."""
    files: Mapping[str, bytes] = field(repr=False)
    """Each by its path below the folder."""

    @property
    def is_folder(self) -> bool:
        return self.main in PROCESSES

    @property
    def is_yaml(self) -> bool:
        return self.main.endswith((".yaml", ".yml"))

    @cached_property
    def digests(self) -> dict[str, str]:
        return {path: sha256(content) for path, content in sorted(self.files.items())}

    @cached_property
    def digest(self) -> str:
        return digest_of(self.digests)

    @property
    def home(self) -> BundleFolder:
        """The same files, for those who look for roles and prompts."""
        return BundleFolder(self.files, PurePosixPath())

    def path_of(self, file: str) -> str:
        """Where a file of it was read, for messages."""
        return str(self.place / file if self.is_folder else self.place)


def read(place: Path) -> Bundle:
    """The playbook at a path; `ConfigInvalid` for whatever cannot be one."""
    if place.is_symlink():
        raise _linked(place)
    try:
        if not place.is_dir():
            if place.name not in PROCESSES:
                return Bundle(place, place.name, {place.name: _content(place)})
            place = place.parent
        files = dict(_files(place))
    except OSError as error:
        raise _unreadable(error, place) from error
    mains = [name for name in PROCESSES if name in files]
    if len(mains) != 1:
        raise ConfigInvalid(
            "two files say what the process is" if mains else "there is no playbook in this folder",
            where=str(place),
            expected="playbook.py or playbook.yaml" + (", not both" if mains else ""),
            remedy="Remove one of them." if mains else "Write one, or see how: interlock new --help",
        )
    return Bundle(place, mains[0], files)


def _files(top: Path) -> Iterator[tuple[str, bytes]]:
    """The parts of a playbook below its folder, each with its path there; never more than a playbook can need."""
    folders, count, size = [top], 0, 0
    while folders:
        for entry in sorted(os.scandir(folders.pop()), key=lambda entry: entry.name):
            path, count = Path(entry.path), count + 1
            if is_no_part(entry.name):
                continue
            if entry.is_symlink():
                raise _linked(path)
            if entry.is_dir():
                folders.append(path)
                continue
            content = _content(path)
            size += len(content)
            if count > MOST_FILES or size > LARGEST:
                raise ConfigInvalid(
                    "the folder of a playbook has too much in it",
                    where=str(top),
                    expected=f"its roles, prompts and a page: at most {MOST_FILES} files and {LARGEST} bytes",
                )
            yield path.relative_to(top).as_posix(), content


def is_no_part(name: str) -> bool:
    """Whether a file of a playbook's folder is none of it: a test, a cache, something hidden."""
    return (
        name.startswith(".")
        or name in ("__pycache__", "conftest.py")
        or (name.startswith("test_") and name.endswith(".py"))
    )


def _content(path: Path) -> bytes:
    if not is_text(path.name):
        raise ConfigInvalid("the name of a file is not valid UTF-8", where=printable(str(path)))
    size = path.stat(follow_symlinks=False).st_size
    content = b"" if size > LARGEST_FILE else read_plain(path, limit=LARGEST_FILE + 1)
    if max(size, len(content)) > LARGEST_FILE:
        raise ConfigInvalid(
            f"{path.name} is too large for a part of a playbook",
            where=str(path),
            expected=f"at most {LARGEST_FILE} bytes",
            found=f"{max(size, len(content))} bytes",
        )
    if path.suffix in TEXTS and not _is_utf8(content):
        raise ConfigInvalid(f"{path.name} is not UTF-8", where=str(path), expected="text in UTF-8")
    return content


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _linked(path: Path) -> ConfigInvalid:
    return ConfigInvalid(
        "a link stands where a playbook or a part of one should",
        where=str(path),
        expected="files of its own: what is trusted must be what is loaded",
        found=f"a link to {path.readlink()}",
        remedy="Put there what it leads to.",
    )


def _unreadable(error: OSError, place: Path) -> ConfigInvalid:
    missing = isinstance(error, FileNotFoundError)
    return ConfigInvalid(
        "there is no playbook at this path" if missing else "a file of the playbook cannot be read",
        where=str(error.filename or place),
        expected="a folder with playbook.py or playbook.yaml, or a file",
        found=(error.strerror or type(error).__name__).lower(),
    )


@dataclass(frozen=True)
class BundleFolder(Traversable):
    """A folder or file of a bundle, as the finders of roles and prompts walk it."""

    files: Mapping[str, bytes] = field(repr=False)
    at: PurePosixPath

    @property
    def name(self) -> str:
        return self.at.name

    def iterdir(self) -> Iterator[BundleFolder]:
        if not self.is_dir():
            raise NotADirectoryError(20, "is no folder", str(self.at))
        depth = len(self.at.parts)
        below = (PurePosixPath(path).parts for path in self.files if PurePosixPath(path).is_relative_to(self.at))
        for name in sorted({parts[depth] for parts in below}):
            yield self.joinpath(name)

    def is_dir(self) -> bool:
        return not self.is_file() and any(PurePosixPath(path).is_relative_to(self.at) for path in self.files)

    def is_file(self) -> bool:
        return str(self.at) in self.files

    def joinpath(self, *descendants: str | os.PathLike[str]) -> BundleFolder:
        return BundleFolder(self.files, self.at.joinpath(*descendants))

    def __truediv__(self, child: str | os.PathLike[str]) -> BundleFolder:
        return self.joinpath(child)

    def read_bytes(self) -> bytes:
        if not self.is_file():
            raise FileNotFoundError(2, "no such file", str(self.at))
        return self.files[str(self.at)]

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def open(self, mode: str = "r", *args: Any, **more: Any) -> IO[Any]:
        raw = io.BytesIO(self.read_bytes())
        return raw if "b" in mode else io.TextIOWrapper(raw, *args, **more)
