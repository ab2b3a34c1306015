"""A layer over the workspace: an overlay at its usual path, in namespaces that our launcher or bubblewrap makes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from interlock.workspace.clone import remove_folder
from interlock.workspace.layers import view
from interlock.workspace.layers.folder import LayerFolder
from interlock.workspace.layers.git_dirs import GitDir, GitState, LayeredGitDir, PlainGitDir, state_of
from interlock.workspace.layers.launcher.mounts import PROC_MASKED
from interlock.workspace.layers.launcher.order import Record
from interlock.workspace.layers.relay import SOCKET_NAME, forwarder_command, forwarder_needs
from interlock.workspace.layers.seam import Bounds, Confinement, Network
from interlock.workspace.layers.surroundings import Surroundings, borrowed_objects, program_parts
from interlock.workspace.layers.taking import take
from interlock.workspace.layers.touched import Touched
from interlock.workspace.layers.upper import Upper
from interlock.workspace.repository import UserRepository

_BUBBLEWRAP = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev"),
)
_NEW_PROC = ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
_OLD_PROC = ("--ro-bind", "/proc", "/proc")


def bubblewrap_options(*, new_proc: bool) -> list[str]:
    """What every call of bubblewrap begins with."""
    places = [f"/proc/{name}" for name in PROC_MASKED]
    masks = [word for place in places if Path(place).exists() for word in ("--ro-bind", "/dev/null", place)]
    return [*_BUBBLEWRAP, *(_NEW_PROC if new_proc else _OLD_PROC), *masks]


@dataclass(frozen=True)
class Bubblewrap:
    """How bubblewrap is called here."""

    program: Path
    new_proc: bool = True
    """Whether the kernel lets it mount a /proc of its own."""
    env: Path | None = None
    """A program ``env`` that gives signals their default effect: what starts bubblewrap ignores some."""


class Confined:
    """The writes of a confined layer: its upper folders."""

    def __init__(
        self,
        root: Path,
        engine: Path,
        folder: LayerFolder,
        *,
        store: Path,
        around: Surroundings,
        repository: UserRepository | None,
        bubblewrap: Bubblewrap | None = None,
    ) -> None:
        self.root = root
        self._engine = engine
        self._folder = folder
        self._store = store
        self._around = around
        self._repository = repository
        self._bubblewrap = bubblewrap
        self._top = _top(root, repository, around)
        self._prefix = "" if self._top == root else f"{root.relative_to(self._top).as_posix()}/"
        apart = engine.relative_to(self._top).as_posix() if engine.is_relative_to(self._top) else ""
        self._whole = Upper(store / "upper", self._top, apart=apart)
        self._upper = Upper(store / "upper" / self._prefix, root)
        self._git_dirs = _outside(self._top, repository)

    def touched(self, bounds: Bounds) -> Touched:
        found = self._whole.touched(bounds)
        for place in self._git_dirs:
            if (upper := self._upper_of(place)).upper.is_dir():
                upper.count(found, bounds)
        return found.below(self._prefix) if self._prefix else found

    def place(self, path: str) -> Path | None:
        return self._upper.place(path)

    def put(self, path: str, staged: Path) -> None:
        self._upper.put(path, staged)

    def remove(self, path: str) -> None:
        self._upper.remove(path)

    def reset(self, path: str) -> None:
        self._upper.reset(path)

    def take(self, path: str) -> None:
        take(self._upper.upper / path, self.root, path)

    def git_before(self, folder: str, repository: UserRepository) -> GitState:
        return state_of(PlainGitDir(repository.git_dir), PlainGitDir(repository.common_dir))

    def git_dir(self, folder: Path) -> GitDir | None:
        if folder.is_relative_to(self._top):
            path = folder.relative_to(self._top).as_posix()
            return LayeredGitDir(self._whole, f"{path}/") if os.path.lexists(self._whole.upper / path) else None
        for place in self._git_dirs:
            if folder.is_relative_to(place):
                path = folder.relative_to(place).as_posix()
                upper = self._upper_of(place)
                prefix = "" if path == "." else f"{path}/"
                return LayeredGitDir(upper, prefix) if os.path.lexists(upper.upper / path) else None
        return None

    def order(self, argv: Sequence[str], *, cwd: Path, confinement: Confinement) -> list[Record]:
        program = list(argv)
        if confinement.network is Network.MODEL:
            program = forwarder_command(self._folder.exchange / SOCKET_NAME, confinement.hosts, argv)
            confinement = replace(confinement, shown=(*confinement.shown, *forwarder_needs()))
        mounts = view.mounts_for(self._wanted(argv, confinement))
        for folder in (*view.uppers(mounts), self._folder.inner, self._folder.home):
            folder.mkdir(parents=True, exist_ok=True)
        for number, _ in enumerate(self._around.scratch):
            scratch = self._folder.tmp / str(number)
            scratch.mkdir(parents=True, exist_ok=True)
            scratch.chmod(0o1777)
        for place, is_file in view.mount_points(mounts):
            _make_mount_point(self._folder.path, place, is_file=is_file)
        common: list[Record] = [
            ("exit", [str(self._folder.exit_file)]),
            ("size", [str(confinement.bounds.size)]),
            ("cwd", [str(cwd)]),
        ]
        cut_off = confinement.network is not Network.OPEN
        if self._bubblewrap is None:
            if cut_off:
                common.append(("no_network", []))
            if os.geteuid() == 0 and self.root.stat().st_uid != 0:
                common.append(("others_files", []))
            return [("maker", ["namespaces"]), *common, *view.records(mounts), ("argv", program)]
        words = bubblewrap_options(new_proc=self._bubblewrap.new_proc)
        words += ["--unshare-net"] if cut_off else []
        words += [*view.bubblewrap_words(mounts), "--chdir", str(cwd)]
        if self._bubblewrap.env is not None and "=" not in program[0]:
            program = [str(self._bubblewrap.env), "--default-signal=HUP,INT,TERM", *program]
            common.append(("ignoring", []))
        made: Record = ("bubblewrap", [str(self._bubblewrap.program), *words])
        return [("maker", ["bubblewrap"]), *common, made, ("argv", program)]

    def set_aside(self) -> list[Path]:
        return self._folder.set_aside()

    def _upper_of(self, place: Path) -> Upper:
        return Upper(view.upper_of(self._store, place), place)

    def _wanted(self, argv: Sequence[str], confinement: Confinement) -> view.Wanted:
        around, home = self._around, confinement.home
        engine, folder = self._engine, self._folder
        private = home.resolve() if home is not None else None
        homes = [*around.homes, *([around.users_home] if private is None and around.users_home is not None else [])]
        here = replace(around, homes=(*homes, *([private] if private is not None else [])))
        named = [*confinement.shown, *(part for word in argv[:2] for part in program_parts(word, here))]
        named += borrowed_objects(self._repository) if self._repository is not None else []
        usual = [one for one in around.shown if private is not None or not _is_in(one.at, around.users_home)]
        seen = [(one.at, one.source) for one in (*usual, *(one for path in named for one in here.seen(path)))]
        folders = tuple(pair for pair in seen if pair[1].is_dir())
        files = [(at, source) for at, source in seen if not source.is_dir() and not self._is_copied(at, private)]
        logins = [path for path in map(_real, confinement.login) if private is None or not path.is_relative_to(private)]
        copies = [(folder.path / "logins" / str(number), path) for number, path in enumerate(logins)]
        parent = folder.path / "parent.json"
        return view.Wanted(
            top=self._top,
            engine=engine,
            store=self._store,
            start=uuid4().hex[:12],
            inner=folder.inner,
            exchange=folder.exchange,
            tmp=folder.tmp,
            homes=tuple(homes),
            scratch=around.scratch,
            services=around.services,
            home=private if private != self._top else None,
            private_home=folder.home,
            runtime=around.runtime,
            git_dirs=self._git_dirs,
            shown_folders=folders,
            # A folder brings its own, links as well: no file can be laid over those.
            shown_files=tuple(one for one in files if not any(one[0].is_relative_to(at) for at, _ in folders)),
            own_files=tuple((copy, path) for copy, path in copies if copy.is_file()),
            team=tuple(name for name in view.TEAM if (engine / name).is_dir()),
            parent=parent if parent.is_file() else None,
            mounts=around.mounts,
            masked=around.masked,
        )

    def _is_copied(self, at: Path, home: Path | None) -> bool:
        """Whether a file has been copied into the private HOME, where a program may replace it."""
        return (
            home is not None and at.is_relative_to(home) and os.path.lexists(self._folder.home / at.relative_to(home))
        )


def _top(root: Path, repository: UserRepository | None, around: Surroundings) -> Path:
    """What is laid over: the whole repository that the workspace is a part of, for git looks no further than that.

    A repository that holds a home is not; programs have no git there.
    """
    if repository is None or any(place.is_relative_to(repository.top) for place in around.hidden):
        return root
    return repository.top


def _outside(root: Path, repository: UserRepository | None) -> tuple[Path, ...]:
    """Git dirs of a repository that lie outside of the workspace, none inside of another."""
    if repository is None:
        return ()
    places = dict.fromkeys((repository.common_dir, repository.git_dir))
    outside = [place for place in places if not place.is_relative_to(root)]
    return tuple(
        place for place in outside if not any(place != other and place.is_relative_to(other) for other in outside)
    )


def _is_in(path: Path, folder: Path | None) -> bool:
    return folder is not None and path.is_relative_to(folder)


def _real(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _make_mount_point(above: Path, place: Path, *, is_file: bool) -> None:
    """A folder (or file) in a private folder to mount on; links that a program put in the way are removed."""
    parts = place.relative_to(above).parts
    for number, part in enumerate(parts, start=1):
        above = above / part
        wanted = stat.S_ISREG if is_file and number == len(parts) else stat.S_ISDIR
        try:
            if wanted(above.lstat().st_mode):
                continue
            remove_folder(above)
        except FileNotFoundError:
            pass
        if wanted is stat.S_ISREG:
            above.touch()
        else:
            above.mkdir()
