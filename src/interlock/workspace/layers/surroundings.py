"""What of this machine a confined program sees; looked up, nothing is changed.

Hidden as a whole: homes, temporary folders, sockets of services.  Of the person's HOME comes back what builds need,
by an allow-list: folders of programs, and of downloads of tool chains, never one that might hold a key beside them.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_SERVICES = "/run"
_PROGRAMS = (
    *(".bun/bin", ".cargo/bin", ".conda/envs", ".deno/bin", ".dotnet", ".elan", ".fnm", ".ghcup", ".goenv", ".jenv"),
    *(".juliaup", ".linuxbrew", ".local/bin", ".local/go", ".local/lib", ".local/pipx", ".nodenv", ".npm-global"),
    *(".nvm", ".pixi/bin", ".pixi/envs", ".poetry/bin", ".pyenv", ".rbenv", ".rustup", ".rvm", ".rye/shims", ".rye/py"),
    *(".asdf", ".sdkman/candidates", ".swiftly", ".virtualenvs", ".volta", ".yarn/bin", "anaconda3", "go/bin"),
    *("mambaforge", "micromamba", "miniconda3", "miniforge3"),
    *(f".local/share/{name}" for name in ("claude", "fnm", "mise", "pipx", "rtx", "uv/python", "uv/tools")),
    *(f".local/share/{name}" for name in ("virtualenv", "virtualenvs", "rustup", "swiftly", "hatch/env")),
)
_DOWNLOADS = (
    *(".bundle/cache", ".cabal/packages", ".cabal/store", ".cargo/git", ".cargo/registry", ".gem/ruby", "go/pkg"),
    *(".gradle/caches", ".gradle/jdks", ".gradle/wrapper", ".hex/packages", ".ivy2/cache", ".julia/artifacts"),
    *(".julia/compiled", ".julia/packages", ".konan", ".m2/repository", ".mix/archives", ".mix/elixir"),
    *(".npm/_cacache", ".nuget/packages", ".opam", ".pnpm-store", ".pub-cache/hosted", ".sbt/boot", ".stack/programs"),
    *(".stack/snapshots", ".stack/pantry", ".local/share/pnpm/store"),
    *(f".cache/{name}" for name in ("bazel", "bazelisk", "ccache", "composer", "coursier", "Cypress", "deno")),
    *(f".cache/{name}" for name in ("electron", "go-build", "golangci-lint", "hatch", "huggingface/hub", "mise")),
    *(f".cache/{name}" for name in ("ms-playwright", "mypy", "node", "node-gyp", "npm", "pdm", "pip", "pnpm")),
    *(f".cache/{name}" for name in ("pre-commit", "prisma", "puppeteer", "pypoetry", "ruff", "sccache", "torch")),
    *(f".cache/{name}" for name in ("turbo", "uv", "yarn", "zig")),
)
_ENVIRONMENTS = (".venv", "venv", "env")
"""What the workspace's own environment for Python is called."""
SETTLED_S = 3
"""A younger socket is as one that comes after the start; many go again, and bubblewrap fails over one that is gone."""


@dataclass
class Surroundings:
    """The places on this machine. All are real: no link is on the way to them."""

    home: Path | None
    homes: tuple[Path, ...]
    """Folders with users' homes in them, and the person's own."""
    scratch: tuple[Path, ...]
    services: tuple[Path, ...]
    downloads: tuple[Path, ...]
    """Hidden folders that are shown below a writable layer."""
    programs: tuple[Path, ...] = ()
    """Hidden folders and files that are to be read."""

    def hides(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in (*self.homes, *self.scratch, *self.services))

    def seen(self, path: Path | str) -> Iterator[tuple[Path, Path]]:
        """How a path is to be seen, if it is there and hidden by its name or really: (at, source)."""
        named, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
        if os.path.exists(real):  # noqa: PTH110 - the method of Path raises below unreadable folders
            for place in dict.fromkeys((named, real)):
                if self.hides(place) and place not in (*self.homes, *self.scratch, *self.services):
                    yield place, real


def look_around(environ: Mapping[str, str], top: Path) -> Surroundings:
    """The surroundings of this process and the workspace, with HOME and PATH as `environ` has them."""
    home, users = _home(environ.get("HOME", "")), _home("")
    homes = _real(("/home", "/root"))
    homes += [home] if home and not any(home.is_relative_to(place) for place in homes) else []
    # Where HOME was set to another folder, PATH still leads to the tools in the one that the person really has.
    own = [place for place in dict.fromkeys((home, users)) if place]
    around = Surroundings(
        home=home,
        homes=tuple(homes),
        scratch=tuple(_real(("/tmp", "/var/tmp"))),
        services=tuple(_real((_SERVICES, "/var/run"))),
        downloads=tuple(_folders(own, _DOWNLOADS)),
    )
    path = [Path(os.path.normpath(word)) for word in environ.get("PATH", "").split(":") if word.startswith("/")]
    # What programs can write to, the workspace, decides nothing: but for a whole Python behind its environment.
    outside = [folder for folder in path if not _lies_in(folder, top)]
    pythons = [*(top / name / "bin/python" for name in _ENVIRONMENTS), *(folder / "python" for folder in path)]
    parts = (part for link in pythons for part in _python_parts(link, top))
    resolving = Path("/etc/resolv.conf")  # services write it, and no name can be looked up without it
    around.programs = (*_folders(own, _PROGRAMS), *_of_path(outside, around), *parts, resolving)
    return around


def masked_sockets(around: Surroundings) -> Iterator[Path]:
    """Sockets with a name in sight: a read-only mount does not keep anybody from connecting to one."""
    with suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        for line in file.read().splitlines()[1:]:
            parts = line.split(None, 7)
            if len(parts) == 8 and parts[7].startswith("/"):
                with suppress(OSError):
                    place = Path(parts[7]).parent.resolve() / Path(parts[7]).name
                    status = place.lstat()
                    is_socket = stat.S_ISSOCK(status.st_mode) and time.time() - status.st_ctime > SETTLED_S
                    if is_socket and not around.hides(place) and all(map(_lets_in, place.parents)):
                        yield place


def mounts_below(top: Path) -> list[Path]:
    """Where something is mounted inside the workspace."""
    places = (Path(one.mountpoint) for one in psutil.disk_partitions(all=True))
    return [place for place in dict.fromkeys(places) if place != top and place.is_relative_to(top)]


def _home(named: str) -> Path | None:
    if not named.startswith("/"):
        try:
            named = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            return None
    home = Path(os.path.realpath(named))
    return home if _is_folder(home) and home != Path("/") else None


def _folders(homes: Sequence[Path], names: Iterable[str]) -> list[Path]:
    return [home / name for home in homes for name in names if _is_folder(home / name)]


def _of_path(folders: Sequence[Path], around: Surroundings) -> Iterator[Path]:
    """Folders of PATH that are hidden, and the programs that the links in them lead to."""
    for folder in folders:
        if not _is_folder(folder) or not any(True for _ in around.seen(folder)):
            continue
        yield folder
        if _is_file(folder.parent / "pyvenv.cfg"):
            yield folder.parent
        with suppress(OSError):
            for entry in os.scandir(folder):
                if entry.is_symlink() and _is_file(entry.path) and os.access(entry.path, os.X_OK):
                    yield from program_parts(Path(entry.path))


def program_parts(link: Path) -> list[Path]:
    """The smallest folders around what a program's link leads to that hold all of the program."""
    target = Path(os.path.realpath(link))
    parts = target.parts
    if "node_modules" in parts:
        return [Path(*parts[: parts.index("node_modules") + 1])]
    for folder in target.parents:
        if _is_file(folder / "pyvenv.cfg"):
            return [folder]
    prefix = target.parent.parent
    if target.parent.name == "bin" and _is_folder(prefix / "lib") and not _is_home(prefix):
        return [target.parent, prefix / "lib"]
    return [target]


def _python_parts(link: Path, top: Path) -> tuple[Path, ...]:
    """Programs and library of the Python that a link in the workspace leads to, if there is a whole one outside."""
    folder = Path(os.path.realpath(link)).parent
    library = folder.parent / "lib"
    if folder.name != "bin" or not _is_file(link) or _lies_in(folder, top) or _is_home(folder.parent):
        return ()
    return (folder, library) if any(map(_is_folder, library.glob("python3*"))) else ()


def _is_home(folder: Path) -> bool:
    return folder.name == ".local" or _is_folder(folder / ".ssh") or _is_file(folder / ".bashrc")


def _lies_in(path: Path, top: Path) -> bool:
    return path.is_relative_to(top) or Path(os.path.realpath(path)).is_relative_to(top)


def _real(paths: Iterable[str]) -> list[Path]:
    found = dict.fromkeys(Path(os.path.realpath(path)) for path in paths if _is_folder(path))
    return [path for path in found if path != Path("/")]


def _is_file(path: Path | str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - the method of Path raises below unreadable folders


def _is_folder(path: Path | str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _lets_in(folder: Path) -> bool:
    """Whether a confined program gets into a folder. Root gets into each; what it confines has none of its powers, and
    bubblewrap fails where it is to mask something that even itself cannot reach."""
    found = folder.stat()
    if os.geteuid() != 0 or found.st_uid == 0:
        return True
    return bool(found.st_mode & (stat.S_IXGRP if found.st_gid == os.getegid() else stat.S_IXOTH))
