"""One layer: how a program is started in it, and what it left, as trees and remarks.

Theory of operation.  A layer *shows* a tree.  What of it the person's disk does not have is laid: into the upper folder
of an overlay, or into a copy.  What a program did is what lies there now and was not laid; it is compared with the tree
that was shown.  The makers differ in where the writes of programs lie (`held`) and in how a program is started.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.documents.files import read_plain
from interlock.errors import WorkspaceFailed
from interlock.settings import SandboxSettings
from interlock.workspace.git import Entry, entry_of, environment, lines, listed
from interlock.workspace.layers import gitdir, logins
from interlock.workspace.layers.bubblewrap import within
from interlock.workspace.layers.confined import Confined, Slot
from interlock.workspace.layers.contents import Reading, State
from interlock.workspace.layers.relay import Relay
from interlock.workspace.layers.upper import TooMuch, Touched, Upper, remove
from interlock.workspace.place import HOME, stamp, status_of
from interlock.workspace.setting_back import free, mend
from interlock.workspace.trees import Trees
from interlock.workspace.values import Found, Remark, RemarkKind, Tree, told

_GIT_S = 300
_ENDING_S = 10
_LARGEST_READ = 64 << 20
_REFS = 20
"""So many branches are looked into for work that is nowhere else."""
_FILTERS = "Call git add on them: it says what your filters miss. What they need of HOME is named in [sandbox] home."
_DROPPED = ("TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR")
"""The person's own may be hidden."""
_Spelling = Callable[[Tree], Tree]
_MEMORY_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class Wrapped:
    """How a program is started in a layer; its starter closes the descriptors."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    pass_fds: tuple[int, ...] = ()
    exit_file: Path | None = None
    """bubblewrap notes there, in lines of JSON, that and how the program ended, whoever listens."""


class Layer:
    """Where one agent, or one command, works."""

    def __init__(
        self, trees: Trees, sandbox: SandboxSettings, slot: Slot, held: Upper, state: State, clean: _Spelling
    ) -> None:
        self._trees, self._sandbox, self._slot, self._held = trees, sandbox, slot, held
        self._bubblewrap = held if isinstance(held, Confined) else None
        self._state, self._clean = state, clean
        self._home = self._bubblewrap.around.home if self._bubblewrap else None
        self._relay: Relay | None = None
        self.name, self.exchange, self.inside_exchange = slot.name, slot.exchange, str(slot.exchange)
        self.shown, self.live = state.shown, state.live
        self.confined = self._bubblewrap is not None or within()
        self.root = trees.workspace.top if self._bubblewrap else held.folder
        """The workspace's top as programs inside see it."""
        self.exit_file = slot.exit_file if self._bubblewrap else None
        """How the last program of a confined layer ended, whoever listened."""

    # -- programs

    def wrap(
        self, argv: Sequence[str], env: Mapping[str, str], *, cwd: str = ".", network: str = "", apart: str = ""
    ) -> Wrapped:
        """How the program is started.

        Args:
            cwd: counts from the workspace's top.
            apart: the name of another exit file.
        """
        if self._bubblewrap is None:
            return Wrapped(tuple(argv), dict(env), str(self.root / cwd))
        self._wait()
        needs, sandbox = self._state.needs, self._sandbox
        network = network or needs.network or sandbox.network
        doors: tuple[str, ...] = () if network == "open" else ("-",)
        exit_file = self._slot.folder / apart if apart else self._slot.exit_file
        handles = [os.open(exit_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)]
        if network == "model":
            self._relay = self._relay or Relay((*needs.hosts, *sandbox.hosts))
            handles.append(self._relay.door())
            doors = (str(handles[1]), *self._relay.own_servers)
        shows = (*needs.shows, *(str((self._home or Path("/")) / name) for name in sandbox.home))
        size = min(sandbox.max_bytes, _MEMORY_BYTES // 4)
        line = self._bubblewrap.line(argv, self.root / cwd, handles[0], doors, shows, size)
        inner = {name: value for name, value in env.items() if name not in _DROPPED}
        inner["HOME"] = str(self._bubblewrap.home)
        return Wrapped(tuple(line), inner, str(self.root), tuple(handles), exit_file)

    def _inside(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes | None:
        """What a short program of ours prints in the layer; None where it fails."""
        wrapped = self.wrap(argv, {**environment(personal=True), **(env or {})}, network="none", apart="ours.json")
        how = {"env": dict(wrapped.env), "cwd": wrapped.cwd, "pass_fds": wrapped.pass_fds, "process_group": 0}
        try:
            ended = subprocess.run(wrapped.argv, input=stdin, capture_output=True, timeout=_GIT_S, check=False, **how)  # type: ignore[call-overload]
        except (OSError, subprocess.TimeoutExpired):
            return None
        finally:
            for handle in wrapped.pass_fds:
                os.close(handle)
        return ended.stdout if ended.returncode == 0 else None

    def _wait(self) -> None:
        """Wait until the kernel has ended all that the program left running: bubblewrap tells of its end before
        that."""
        with suppress(OSError, ValueError, KeyError, IndexError):
            begun = json.loads(self._slot.exit_file.read_bytes().splitlines()[0])
            first = os.pidfd_open(begun["child-pid"])
            try:
                if Path(f"/proc/{begun['child-pid']}/ns/pid").stat().st_ino == begun["pid-namespace"]:
                    poll = select.poll()
                    poll.register(first, select.POLLIN)
                    poll.poll(_ENDING_S * 1000)
            finally:
                os.close(first)

    def refresh_logins(self) -> None:
        """Copy in the person's logins of this moment (RUN-15), and what is needed of git's settings."""
        if self._home:
            logins.lay_git_settings(self._home, self._slot.home)
            self._state.logins = logins.lay_in(self._home, self._slot.home, self._state.needs.logins)
        self._state.save(self._slot.folder)

    def logins_back(self) -> None:
        """Bring tokens that the client refreshed to the person's own files."""
        if self._home:
            logins.bring_back(self._home, self._slot.home, self._state.logins)
            self._state.save(self._slot.folder)

    # -- what is there

    def over(self, *, ended: bool = False) -> str:
        """Which of its bounds the layer broke; empty: none. Programs may be at work."""
        try:
            self._held.weigh(Touched(self._sandbox.max_bytes, self._sandbox.max_files), opening=ended)
        except TooMuch as error:
            return str(error)
        return ""

    def opened(self, paths: Sequence[str]) -> set[str]:
        """Which of these laid files were opened since; all of them where the file system keeps no times of access."""
        if self._bubblewrap is None and os.statvfs(self._held.folder).f_flag & os.ST_NOATIME:
            return set(paths)
        laid = self._state.laid
        there = {path: status_of(self._held.folder / path) for path in paths if path in laid}
        return {path for path, one in there.items() if not one or one.st_atime_ns or stamp(one) != laid[path].stamp}

    def read(self, path: str) -> bytes | None:
        """A file as it lies in the layer; None where there is none, or nothing that can be read."""
        place = self._held.place(path)
        try:
            return read_plain(place, limit=_LARGEST_READ) if place else None
        except OSError:
            return None

    def left(self, which: Callable[[str], bool]) -> list[bytes]:
        """Contents of files that programs left, by path, ignored or not; they are taken away, so that none is read
        twice."""
        self._wait()
        found = []
        for path in self._held.touched(Touched()).files:
            if which(path) and path not in self._state.laid:
                with suppress(OSError):
                    found.append(read_plain(self._held.folder / path, limit=_LARGEST_READ))
                    (self._held.folder / path).unlink()
        return found

    def found(self, own: Mapping[str, str]) -> Found:
        """What the layer holds, now that its program has ended.

        Args:
            own: path to blob of what this run delivered (see `setting_back.owned`).
        """
        self._wait()
        trees, shown, state = self._trees, self.shown, self._state
        if over := self.over(ended=True):
            remark = Remark(kind=RemarkKind.OVER, text=f"nothing of it counts: {over}")
            return Found(result=shown, mended=shown, remarks=(remark,))
        left = Reading(trees, self._held, state, self.root, self._sandbox.max_untracked_bytes)
        result = trees.from_folder(shown, self._held.folder, left.paths) if left.paths else shown
        result, clashes = self._freed(result, left)
        clean = (*state.clean, self._clean(result)) if state.clean is not None and result != shown else None
        mended = mend(trees, head=state.head, now=state.standing, shown=shown, result=result, own=own, clean=clean)
        left.remarks += told(RemarkKind.CHANGED, "it had lines that are in no commit: one undo away", mended.changed)
        self._tell_what_is_only_in_git(left, clean[2] if clean else result)
        if self._relay and self._relay.refused:
            hosts = ", ".join(sorted(self._relay.refused))
            left.remarks.append(Remark(kind=RemarkKind.NETWORK, text=f"asked for in vain: {hosts}"))
        return Found(
            result=result,
            mended=mended.tree,
            set_back=mended.set_back,
            clashes=tuple(dict.fromkeys((*clashes, *mended.clashes))),
            remarks=tuple(left.remarks),
        )

    def _freed(self, result: Tree, left: Reading) -> tuple[Tree, tuple[str, ...]]:
        """The result without what the person wrote below meanwhile; who wrote the same files is told."""
        trees, state = self._trees, self._state
        if result == state.shown:
            return result, ()
        began = trees.entries(state.live, left.paths)
        wrote = [path for path in left.paths if entry_of(trees.workspace.top / path) != began.get(path)]
        hidden = trees.hidden(wrote)
        wrote = [path for path in wrote if path not in hidden]
        if not wrote:
            return result, ()
        now = trees.from_folder(state.live, trees.workspace.top, wrote)
        changed = [delta.path for delta in trees.deltas(state.shown, result, wrote)]
        both = [delta.path for delta in trees.deltas(now, result, changed)] if changed else []
        left.remarks += told(RemarkKind.BOTH_WROTE, "a person and the agent both wrote it while the agent worked", both)
        # What was laid, and a copy, does not show what the person writes meanwhile.
        seen = [path for path in wrote if self._bubblewrap and path not in state.laid]
        now = trees.graft(state.live, now, seen)
        return free(trees, base=state.live, now=now, shown=state.shown, result=result)

    def _tell_what_is_only_in_git(self, left: Reading, result: Tree) -> None:
        """Work that lies in a stash or on another branch of the layer alone."""
        for name, value in list(gitdir.moved(self._slot.git).items())[:_REFS]:
            work = self._commits_work(value)
            there = self._trees.entries(result, list(work)) if work else {}
            where = "a stash" if name == "refs/stash" else f"branch {name.removeprefix('refs/heads/')!r}"
            paths = [path for path, blob in work.items() if there.get(path, (0, ""))[1] != blob]
            left.remarks += told(RemarkKind.GIT, f"work that lies in {where} alone", paths)

    def _commits_work(self, commit: str) -> dict[str, str]:
        """Path to blob of what a commit of the layer has and its HEAD has not."""
        git = ("git", f"--git-dir={self.root / '.git'}")
        words = ("--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--diff-filter=d")
        fields = os.fsdecode(self._inside((*git, "diff", *words, f"HEAD...{commit}")) or b"").split("\0")
        found = {path: facts.split(" ")[3] for facts, path in zip(fields[::2], fields[1::2], strict=False)}
        untracked = self._inside((*git, "ls-tree", "-r", "-z", f"{commit}^3"))  # of a stash
        return found | {path: blob for path, (_, blob) in listed(untracked or b"").items()}

    def spelled(self, paths: Sequence[str]) -> dict[str, Entry]:
        """Mode and blob of files as the person's git stores them: what their filters make of them in here.

        The index stays in the exchange; objects come over only if they are what they are called.
        """
        store, index = self.exchange / "objects", self.exchange / "index"
        remove(store)
        store.mkdir()
        places = {"DIR": ".git", "WORK_TREE": ".", "ALTERNATE_OBJECT_DIRECTORIES": ".git/objects"}
        env = {f"GIT_{name}": str(self.root / place) for name, place in places.items()}
        env |= {"GIT_INDEX_FILE": str(index), "GIT_OBJECT_DIRECTORY": str(store)}
        line = "git update-index -z --add --remove --replace --stdin && exec git ls-files -s -z"
        said = self._inside(("sh", "-c", line), stdin=lines(paths), env=env)
        if said is None:
            what = "git cannot convert the files of the workspace"
            raise WorkspaceFailed(what, where=str(self.root), remedy=_FILTERS)
        gitdir.take_over(store, self._trees)
        return listed(said)

    # -- its end

    def lay(self, facts: Mapping[str, Any]) -> None:
        """Write down what a run that is started inside may know of the one around it; programs inside cannot change
        that."""
        self._slot.laid.unlink(missing_ok=True)
        if facts:
            self._slot.laid.write_text(json.dumps(facts), encoding="utf-8")

    def keep_runs(self, place: Path) -> None:
        """Put the records of runs that were made inside there, and nothing of them stays for the next call."""
        inner = self._slot.folder / "inner" / "runs" if self._bubblewrap else self.root / HOME / "runs"
        for file in sorted(inner.rglob("*")):
            if stat.S_ISREG(file.lstat().st_mode):  # anything may have been left there
                kept = place / file.relative_to(inner)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, kept, follow_symlinks=False)
        for one in inner.glob("*"):
            remove(one)

    def drop(self, *, keep_ignored: bool = False) -> None:
        """The layer is not needed any more; with `keep_ignored` what git ignores stays for the next one of its name."""
        self._wait()
        if self._relay:
            self._relay.close()
        if keep_ignored:
            self._state.newest = time.time_ns()
            self._state.save(self._slot.folder)
        elif self._bubblewrap:
            self._slot.remove()
        else:
            self._state.forget(self._slot.folder)  # brought up to date, the copy serves the next one
