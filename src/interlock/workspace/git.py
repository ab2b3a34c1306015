"""The one way the engine runs git.

Agents can write to everything in a workspace: the user's ``.git``, the shadow repository, a nested
repository.  Git reads programs to run from such places (hooks, fsmonitor, filters, drivers, ssh commands,
promisor remotes).  So every call names its git dir and work tree, gets a cleaned environment, and has each
setting that could start a program overruled on the command line, where nothing in a file can win.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, TypeVar

from interlock.documents.patches import quoted
from interlock.errors import WorkspaceFailed

T = TypeVar("T")

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.pager=cat",
    "core.alternateRefsCommand=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.precomposeUnicode=false",
    "checkout.workers=4",
    "credential.helper=",
    "diff.ignoreSubmodules=all",
    "gc.auto=0",
    "maintenance.auto=false",
    "merge.directoryRenames=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)

_STDERR_KEPT = 4000
_PIECE = 1 << 16
_COLLECT_S = 2.0
"""How long a git that was killed is waited for; longer only when the kernel holds it."""
_PATIENCE_S = 900
"""Git opens a named pipe called .gitignore and waits for ever; nothing it does for us takes this long."""


NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""A missing object of a partial clone would be fetched, by a transport that a config file names."""


def _quoted(folder: Path) -> str:
    """A folder in a list of them; in quotes, for a colon would end it."""
    return quoted(os.fsencode(folder)).decode("ascii")


def _environment(**extra: str) -> dict[str, str]:
    """The caller's environment without its git variables: git exports GIT_DIR and GIT_INDEX_FILE in hooks."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **inherited,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        **NO_FETCH,
        "GIT_AUTHOR_NAME": "interlock",
        "GIT_AUTHOR_EMAIL": "interlock@localhost",
        "GIT_COMMITTER_NAME": "interlock",
        "GIT_COMMITTER_EMAIL": "interlock@localhost",
        **extra,
    }


@dataclass(frozen=True)
class Git:
    """Git on one git dir and one work tree."""

    git_dir: Path
    work_tree: Path
    folder: Path | None = None
    """Where git runs: a folder of the work tree, to see only what is below it."""
    index: Path | None = None
    settings: tuple[str, ...] = ()
    """Further settings, as ``name=value``."""
    borrowed: Path | None = None
    """Another repository's object folder to read from too."""
    own_common_dir: bool = False
    """The git dir is complete: a planted ``commondir`` file cannot lead git to another config."""

    async def run(
        self,
        *args: str,
        stdin: bytes = b"",
        reads: bool = False,
        ok: Sequence[int] = (0,),
        globs: bool = False,
    ) -> bytes:
        """What the command printed.

        Args:
            reads: the command only looks, so it takes no lock.
            ok: exit codes that are answers, not failures.
            globs: pathspecs may use git's magic; otherwise they are taken literally.
        """
        code, out, err = await self._child(args, reads=reads, globs=globs).answers(stdin)
        if code not in ok:
            raise _failed(args, code, err)
        return out

    def at_once(self, *args: str, stdin: bytes = b"") -> bytes:
        """What a command that only looks printed, for whoever has no event loop."""
        child = self._child(args, reads=True, globs=False)
        try:
            code, out, err = child.done(stdin)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise child.failed(error) from error
        if code:
            raise _failed(args, code, err)
        return out

    @asynccontextmanager
    async def talk(self, *args: str, globs: bool = False) -> AsyncIterator[Talk]:
        """A command that answers question by question; it is ended afterwards."""
        talk = await self.begin(*args, globs=globs)
        try:
            yield talk
        finally:
            talk.end()

    async def begin(self, *args: str, globs: bool = False) -> Talk:
        """A command that waits for questions until somebody ends it."""
        child = self._child(args, reads=True, globs=globs)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is the talk's
        try:
            process = await child.aside(partial(child.start, errors))
        except BaseException:
            child.kill()
            child.collect()
            errors.close()
            raise
        return Talk(args, child, process, errors)

    def _child(self, args: Sequence[str], *, reads: bool, globs: bool) -> _Child:
        extra: dict[str, str] = {}
        if self.index is not None:
            extra["GIT_INDEX_FILE"] = str(self.index)
        if self.own_common_dir:
            extra["GIT_COMMON_DIR"] = str(self.git_dir)
        if self.borrowed is not None:
            extra["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(self.borrowed)
        if reads:
            extra["GIT_OPTIONAL_LOCKS"] = "0"
        environment = _environment(**extra)
        if globs:
            del environment["GIT_LITERAL_PATHSPECS"]
        settings = [word for setting in (*_SETTINGS, *self.settings) for word in ("-c", setting)]
        places = [f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"]
        return _Child(args, self.folder or self.work_tree, environment, before=[*settings, *places])


@dataclass(frozen=True)
class GitReply:
    """How a command of git ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return os.fsdecode(self.out)

    @property
    def error(self) -> str:
        return self.err.decode("utf-8", "replace")

    @property
    def parts(self) -> list[str]:
        """What it printed, where that ends each entry with a NUL."""
        return [part for part in self.text.split("\0") if part]


_NO_TRANSPORT = "protocol.allow=never"
_QUIET = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "submodule.recurse=false",
    "gc.auto=0",
    _NO_TRANSPORT,
)


@dataclass(frozen=True)
class UsersGit:
    """Git as the user has it, in a folder of theirs: with their settings, identity and ignore rules.

    Nothing that somebody planted in a file of settings is started, unless `hooks` says so: that is for the user's own
    commit.
    """

    folder: Path
    environ: Mapping[str, str]

    async def run(
        self,
        *args: str,
        stdin: bytes = b"",
        reads: bool = False,
        hooks: bool = False,
        folder: Path | None = None,
        index: Path | None = None,
        marker: str = "",
        network: bool = False,
        borrowed: Path | None = None,
    ) -> GitReply:
        """How the command ended; whether that is a failure is the caller's to say.

        Args:
            reads: the command only looks, so it takes no lock.
            marker: by which whoever comes after a crash finds what is still at work.
            network: it speaks to another repository, with the user's own keys and helpers.
            borrowed: another repository's object folder to read from too.
        """
        environment = {
            **self.environ,
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            **({"GIT_OPTIONAL_LOCKS": "0"} if reads else {}),
            **({"GIT_INDEX_FILE": str(index)} if index else {}),
            **({"INTERLOCK_MARKER": f"{marker}:"} if marker else {}),
            **({"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(borrowed)} if borrowed else {}),
        }
        quiet = [setting for setting in _QUIET if not (network and setting == _NO_TRANSPORT)]
        settings = [] if hooks else [word for setting in quiet for word in ("-c", setting)]
        child = _Child(args, folder or self.folder, environment, before=settings)
        return GitReply(*await child.answers(stdin))


class _Child:
    """One git process, started, fed and collected by a thread.

    Not by asyncio: one that is cancelled while it starts is waited for without end there, and every event loop that
    closes cancels what is under way.
    """

    def __init__(
        self, args: Sequence[str], folder: Path, environment: Mapping[str, str], *, before: Sequence[str]
    ) -> None:
        self._args = args
        self._words = ["git", *before, *args]
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False

    def start(self, errors: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[bytes]:
        if self._unwanted:
            raise _BrokenOff
        process = self._process = subprocess.Popen(
            self._words,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            # Ctrl-C ends the run in order; it must not tear a snapshot's git apart first.
            # Not a session of its own: that is how the engine knows what an agent sent into the background.
            process_group=0,
        )
        if self._unwanted:  # said while it was being started: nobody waits for that
            process.kill()
        return process

    def kill(self) -> None:
        """End it, or keep it from starting; waits for nothing."""
        self._unwanted = True
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):  # it ends at this moment
                os.killpg(self._process.pid, signal.SIGKILL)  # with the hooks that it runs

    def collect(self) -> None:
        """Take its exit status, and let go of its streams."""
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_COLLECT_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):  # what it did not take
                    stream.close()

    def collect_aside(self) -> None:
        try:
            _threads(os.getpid()).submit(self.collect)
        except RuntimeError:  # Python itself is about to end
            self.collect()

    async def answers(self, stdin: bytes) -> tuple[int, bytes, bytes]:
        """Its exit code and what it said on both streams."""
        return await self.aside(partial(self.done, stdin))

    def done(self, stdin: bytes) -> tuple[int, bytes, bytes]:
        """The same, in this thread."""
        process = self.start()
        try:
            out, err = process.communicate(stdin, timeout=_PATIENCE_S)
            return process.returncode, out, err
        finally:
            self.kill()
            self.collect()

    async def aside(self, work: Callable[[], T]) -> T:
        """What it comes to in a thread; who is cancelled meanwhile ends git and waits for that, however often."""
        coming: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), work)
        try:
            await seen_through(coming, again=self.kill)
        except asyncio.CancelledError:
            coming.exception()
            raise
        try:
            return coming.result()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self.failed(error) from error

    def failed(self, error: OSError | subprocess.TimeoutExpired) -> WorkspaceFailed:
        """Why there is no answer."""
        place = str(self._folder)
        if isinstance(error, subprocess.TimeoutExpired):
            return WorkspaceFailed(
                f"git {_shown(self._args)} did not end within {_PATIENCE_S} s",
                where=place,
                remedy="Look for a pipe or a dead network folder in the workspace.",
            )
        if not isinstance(error, FileNotFoundError):
            return WorkspaceFailed.of(error, "git cannot be started", where=place)
        if self._folder.is_dir():
            return WorkspaceFailed(
                "git cannot be started", expected="the program git on PATH", remedy="Install git 2.38 or later."
            )
        return WorkspaceFailed(
            f"folder {place!r} is gone",
            where=place,
            remedy="Put it back, then call interlock again: what is done is not done again.",
        )


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """For each process its own: one that was forked has none of the threads that it believes to have."""
    return ThreadPoolExecutor(32, thread_name_prefix="git")


class _BrokenOff(Exception):
    """Nobody wants it any more."""


class Talk:
    """Questions to a running git, and its answers. What it does not answer in time is a failure."""

    def __init__(self, args: Sequence[str], child: _Child, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._args = args
        self._child = child
        self._process = process
        self._stdin = process.stdin.fileno()
        self._stdout = process.stdout.fileno()
        self._errors = errors
        self._said = bytearray()
        for stream in (self._stdin, self._stdout):
            os.set_blocking(stream, False)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End git; nobody has to wait until it is gone."""
        self._child.kill()
        self._errors.close()
        self._child.collect_aside()

    def forget(self) -> None:
        """End git from wherever Python tidies up, which may be in the middle of what hands work to a thread."""
        self._child.kill()
        self._errors.close()
        self._child.collect()

    async def ask(self, question: bytes) -> None:
        """Say something; what git answers meanwhile is kept, for it may not listen before that is taken."""
        with suppress(ConnectionError):  # the answer that does not come tells more
            while question:
                try:
                    question = question[os.write(self._stdin, question) :]
                except BlockingIOError:
                    await self._hear(asking=True)

    async def until(self, mark: bytes) -> bytes:
        """What comes up to a mark, without it."""
        looked = 0
        while (at := self._said.find(mark, looked)) < 0:
            looked = max(0, len(self._said) - len(mark) + 1)
            await self._hear()
        taken = self._take(at + len(mark))
        return taken[: -len(mark)]

    async def exactly(self, count: int) -> bytes:
        while len(self._said) < count:
            await self._hear()
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._said[:count])
        del self._said[:count]
        return taken

    async def _hear(self, *, asking: bool = False) -> None:
        """Wait until git says something, or takes something; what it says is kept."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def there() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(self._stdout, there)
        if asking:
            loop.add_writer(self._stdin, there)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await ready
        except TimeoutError as error:
            raise _failed(self._args, None, b"no usable answer") from error
        finally:
            loop.remove_reader(self._stdout)
            loop.remove_writer(self._stdin)
        try:
            piece = os.read(self._stdout, _PIECE)
        except BlockingIOError:  # it listens again, and says nothing yet
            return
        if not piece:
            self._errors.seek(0)
            raise _failed(self._args, None, self._errors.read())
        self._said += piece


async def seen_through(*tasks: asyncio.Future[Any], again: Callable[[], object] = lambda: None) -> None:
    """When this returns, or raises since it was cancelled, all of these are done, however often it is cancelled.

    Args:
        again: what is to happen at each cancellation.
    """
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
            again()
    if cancelled is not None:
        raise cancelled


async def together(*asked: Awaitable[T]) -> list[T]:
    """All results; unlike `asyncio.gather`, none is still at work when an error or a cancellation goes on."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        await seen_through(*tasks)
        raise


async def user_settings(git_dir: Path, folder: Path, pattern: str) -> dict[str, str]:
    """The settings whose name matches `pattern`, as the user's own git would see them; nothing is executed.

    The last value wins, names are in lower case as git prints them. Settings that git cannot read are a failure.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    args = ("config", "-z", "--get-regexp", pattern)
    asked = _Child(args, folder, {**environment, "LC_ALL": "C"}, before=[f"--git-dir={git_dir}"])
    code, out, err = await asked.answers(b"")
    if code not in (0, 1):
        raise _failed(args, code, err)
    pairs = (entry.partition("\n") for entry in os.fsdecode(out).split("\0") if entry)
    return {name: value for name, _, value in pairs}


def users_file(named: str | None, default: str) -> Path:
    """The user's own ignore or attributes file: the one that the settings name, or git's default place."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(named or f"{config}/git/{default}").expanduser()


def _failed(args: Sequence[str], code: int | None, err: bytes) -> WorkspaceFailed:
    text = err.decode("utf-8", "replace").strip()[-_STDERR_KEPT:]
    return WorkspaceFailed(
        f"git {_shown(args)} failed with exit code {code}", expected="exit code 0", found=text or None
    )


def _shown(args: Sequence[str]) -> str:
    return " ".join(args[:6]) + (" ..." if len(args) > 6 else "")
