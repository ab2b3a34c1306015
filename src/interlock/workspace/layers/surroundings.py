"""What there is on this machine that matters for what a confined program sees; looked up, nothing is changed.

Hidden as a whole: homes, temporary folders, sockets of services.  Of the user's HOME comes back what builds need:
tool chains and package caches, named one by one, never a folder that might hold a key beside them.  What programs can
write to, the workspace, does not decide what else is seen: a link in it shows a Python where there is one, or nothing.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from interlock.workspace.repository import UserRepository

_HOMES = ("/home", "/root")
_SCRATCH = ("/tmp", "/var/tmp")
_SERVICES = ("/run", "/var/run")

_TOOL_CHAINS = (
    *(".cargo", ".rustup", ".npm", ".nvm", ".fnm", ".pyenv", ".asdf", ".volta", ".bun", ".deno", ".sdkman", ".nodenv"),
    *(".rbenv", ".gem", ".bundle", ".m2", ".gradle", ".ivy2", ".sbt", ".konan", ".dotnet", ".nuget", ".pub-cache"),
    *(".ghcup", ".cabal", ".stack", ".opam", ".elan", ".juliaup", ".julia", ".hex", ".mix", ".composer", ".goenv"),
    *(".yarn", ".pnpm-store", ".npm-global", ".linuxbrew", ".pixi", ".rye", ".conda", ".tfenv", ".krew"),
    *("go", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".virtualenvs"),
    *(".local/bin", ".local/lib", ".local/pipx", ".local/go", ".local/share/virtualenvs"),
    *(f".local/share/{name}" for name in ("uv", "pipx", "mise", "pnpm", "claude", "fnm", "rtx", "virtualenv", "npm")),
    *(f".local/share/{name}" for name in ("gem", "cargo", "rustup", "pypoetry", "hatch", "pdm", "coursier", "mamba")),
    *(f".cache/{name}" for name in ("pip", "uv", "go-build", "yarn", "pnpm", "ms-playwright", "pre-commit", "mise")),
    *(f".cache/{name}" for name in ("node", "node-gyp", "npm", "pypoetry", "hatch", "pdm", "bazel", "bazelisk")),
    *(f".cache/{name}" for name in ("ccache", "sccache", "coursier", "deno", "golangci-lint", "mypy", "ruff", "zig")),
    *(f".cache/{name}" for name in ("puppeteer", "Cypress", "electron", "huggingface", "torch", "prisma", "turbo")),
)
_CREDENTIALS = (
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".bundle/config"),
    *(".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json", ".nuget/NuGet/NuGet.Config"),
    *(".hex/hex.config", ".cabal/config", ".cache/huggingface/token", ".cache/huggingface/stored_tokens"),
    *(".pub-cache/credentials.json", ".sbt/.credentials", ".ivy2/.credentials", ".conda/.condarc"),
    *(".local/share/uv/credentials/credentials.toml", ".deno/.deno_credentials"),
)
"""Keys that tool chains keep beside themselves: not to be seen although their folder is."""
_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes", ".gitignore_global")
_ENVIRONMENTS = (".venv", "venv", "env")
"""What the workspace's own environment for Python is called."""
_MANY_LINKS = 400
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Shown:
    """Something in a hidden place that is to be seen: at the path by which it is known, and where it really is."""

    at: Path
    source: Path


@dataclass(frozen=True)
class Surroundings:
    """The places on this machine. All paths are real: no link is on the way to them."""

    homes: tuple[Path, ...]
    """Folders with users' homes in them, and the user's own."""
    scratch: tuple[Path, ...]
    services: tuple[Path, ...]
    users_home: Path | None
    runtime: Path | None
    """XDG_RUNTIME_DIR."""
    shown: tuple[Shown, ...] = ()
    masked: tuple[Path, ...] = ()
    """Sockets that somebody listens on, and keys inside what is shown."""
    mounts: tuple[Path, ...] = ()
    """Where something is mounted."""

    @property
    def hidden(self) -> tuple[Path, ...]:
        return (*self.homes, *self.scratch, *self.services)

    def hides(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self.hidden)

    def seen(self, path: Path) -> list[Shown]:
        """How a path is to be seen, if it is there and lies in a hidden place by its name or really."""
        named, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
        if not os.path.exists(real):  # noqa: PTH110 - the method of Path raises below unreadable folders
            return []
        places = [named] if self.hides(named) else []
        if self.hides(real) and real != named:
            places.append(real)
        return [Shown(place, real) for place in places if place not in self.hidden]


def look_around(environ: Mapping[str, str], root: Path) -> Surroundings:
    """The surroundings of this process and the workspace, with the user's HOME and PATH as `environ` has them."""
    users_home = _home(environ)
    homes = _real(_HOMES)
    if users_home is not None and not any(users_home.is_relative_to(place) for place in homes):
        homes.append(users_home)
    around = Surroundings(
        tuple(homes),
        tuple(_real(_SCRATCH)),
        tuple(_real(_SERVICES)),
        users_home,
        next(iter(_real([environ["XDG_RUNTIME_DIR"]])), None) if environ.get("XDG_RUNTIME_DIR") else None,
    )
    # Where HOME was set to another folder, PATH still leads to the tools in the one that the user really has.
    own = list(dict.fromkeys(home for home in (users_home, _home({})) if home is not None))
    tools = tuple(path for home in own for path in _of_home(home))
    path = [Path(os.path.normpath(word)) for word in environ.get("PATH", "").split(":") if word.startswith("/")]
    outside = tuple(folder for folder in path if not _is_in(root, folder))
    for folder in {*(root / name / "bin" for name in _ENVIRONMENTS), *path} - {*outside}:
        tools += _python_parts(folder / "python", root)
    keys = [Path(key) for home in own for key in _in(home, _CREDENTIALS) if _is_file(key)]
    return replace(
        around,
        shown=_shown(around, tools, outside, tuple(map(_changed, outside))),
        masked=(*keys, *_sockets()),
        mounts=_mounts(),
    )


@lru_cache(maxsize=8)
def _shown(
    around: Surroundings, tools: tuple[Path, ...], path: tuple[Path, ...], changed: tuple[int, ...]
) -> tuple[Shown, ...]:
    """What is to be seen of tool chains, PATH and the system. There are hundreds of links in folders of PATH: they are
    looked at again when one of these folders changes."""
    named = dict.fromkeys((*tools, *_of_path(path, around), *_of_system()))
    return tuple(dict.fromkeys(shown for path in named for shown in around.seen(path)))


def _changed(folder: Path) -> int:
    """When something came into a folder or went out of it; 0 when that cannot be told."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _is_in(root: Path, path: Path) -> bool:
    return any(Path(one).is_relative_to(root) for one in (path, os.path.realpath(path)))


def program_parts(word: str, around: Surroundings) -> list[Path]:
    """What a program named by an absolute path needs to be seen, where it lies in a hidden place."""
    place = Path(word)
    return [place, *_target_parts(place)] if place.is_absolute() and around.seen(place) and _is_file(place) else []


def borrowed_objects(repository: UserRepository) -> list[Path]:
    """Object folders of other repositories that this one reads from."""
    try:
        lines = (repository.objects / "info" / "alternates").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    places = ((repository.objects / line).resolve() for line in lines if line and not line.startswith("#"))
    return [place for place in places if _is_folder(place)]


def _home(environ: Mapping[str, str]) -> Path | None:
    named = environ.get("HOME", "")
    if not named.startswith("/"):
        try:
            named = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            return None
    home = Path(named).resolve()
    return home if _is_folder(home) and home != Path("/") else None


def _of_home(home: Path) -> Iterator[Path]:
    yield from (Path(place) for place in _in(home, _TOOL_CHAINS) if _is_folder(place))
    yield from (Path(place) for place in _in(home, _SETTINGS) if _is_file(place))


def _in(home: Path, names: Iterable[str]) -> Iterator[str]:
    """Places that are there, as text, for it is done for each layer: of many, one look at their folder tells."""
    listed: dict[str, list[str]] = {}
    for name in names:
        folder, _, last = f"{home}/{name}".rpartition("/")
        if folder not in listed:
            try:
                listed[folder] = os.listdir(folder)  # noqa: PTH208
            except OSError:
                listed[folder] = []
        if last in listed[folder]:
            yield f"{folder}/{last}"


def _of_path(path: Iterable[Path], around: Surroundings) -> Iterator[Path]:
    """Folders of PATH that are hidden, and the programs that the links in them lead to."""
    for folder in path:
        if not _is_folder(folder) or not around.seen(folder):
            continue
        yield folder
        if _is_file(folder.parent / "pyvenv.cfg"):
            yield folder.parent
        with suppress(OSError):
            for entry in islice(os.scandir(folder), _MANY_LINKS):
                if entry.is_symlink() and _is_file(entry.path) and os.access(entry.path, os.X_OK):
                    yield from _target_parts(Path(entry.path))


def _of_system() -> Iterator[Path]:
    """Files of /etc that lie elsewhere: services write them, and names cannot be looked up without them."""
    yield Path("/etc/resolv.conf")


def _target_parts(link: Path) -> list[Path]:
    """The smallest folder around what a program's link leads to that holds all of the program."""
    target = Path(os.path.realpath(link))
    parts = target.parts
    if "node_modules" in parts:
        return [Path(*parts[: parts.index("node_modules") + 1])]
    for folder in target.parents:
        if _is_file(folder / "pyvenv.cfg"):
            return [folder]
    if target.parent.name == "bin" and _is_folder(target.parent.parent / "lib") and not _is_home(target.parent.parent):
        return [target.parent, target.parent.parent / "lib"]
    return [target]


def _python_parts(link: Path, root: Path) -> tuple[Path, ...]:
    """Programs and library of the Python that a link in the workspace leads to, if there is a whole one outside."""
    folder = Path(os.path.realpath(link)).parent
    prefix, library = folder.parent, folder.parent / "lib"
    if folder.name != "bin" or not _is_file(link) or _is_in(root, folder) or _is_home(prefix):
        return ()
    return (folder, library) if any(map(_is_folder, library.glob("python3*"))) else ()


def _is_home(folder: Path) -> bool:
    return folder.name == ".local" or (folder / ".ssh").exists() or (folder / ".bashrc").exists()


def _real(paths: Iterable[str]) -> list[Path]:
    found = dict.fromkeys(Path(path).resolve() for path in paths if _is_folder(Path(path)))
    return [path for path in found if path != Path("/")]


def _parent_real(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _is_file(path: Path | str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - the method of Path raises below unreadable folders


def _is_folder(path: Path | str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _mounts() -> tuple[Path, ...]:
    try:
        return _targets(Path("/proc/self/mountinfo").read_bytes())
    except OSError:
        return ()


@lru_cache(maxsize=1)
def _targets(mounts: bytes) -> tuple[Path, ...]:
    places = (line.split(b" ")[4] for line in mounts.split(b"\n") if line)
    return tuple(Path(os.fsdecode(_ESCAPED.sub(lambda one: bytes((int(one[1], 8),)), place))) for place in places)


def _sockets() -> Iterator[Path]:
    """Sockets with a name in the file system: a read-only mount does not keep anybody from connecting to one."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            lines = file.read().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        parts = line.split(None, 7)
        if len(parts) == 8 and parts[7].startswith("/"):
            try:
                place = _parent_real(Path(parts[7]))
                if stat.S_ISSOCK(place.lstat().st_mode) and all(map(_lets_in, place.parents)):
                    yield place
            except OSError:
                continue


def _lets_in(folder: Path) -> bool:
    """Whether a confined program gets into a folder. Root gets into each; what it confines has none of its powers, and
    bubblewrap fails where it is to mask something that even itself cannot reach."""
    if os.geteuid() != 0 or _has_access_list(folder):
        return True
    found = folder.stat()
    if found.st_uid == 0:
        return True
    if found.st_gid in {os.getegid(), *os.getgroups()}:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _has_access_list(folder: Path) -> bool:
    """Whether more than the mode says who gets in."""
    try:
        return bool(os.getxattr(folder, "system.posix_acl_access"))
    except OSError:
        return False
