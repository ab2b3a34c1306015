"""The one way the engine runs git.

Agents can write to everything in a workspace: the user's ``.git``, the shadow repository, a nested
repository.  Git reads programs to run from such places (hooks, fsmonitor, filters, drivers, ssh commands,
promisor remotes).  So every call names its git dir and work tree, gets a cleaned environment, and has each
setting that could start a program overruled on the command line, where nothing in a file can win.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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
_PATIENCE_S = 900
"""Git opens a named pipe called .gitignore and waits for ever; nothing it does for us takes this long."""


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
        # A missing object of a partial clone would be fetched, by a transport that a config file names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
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
        process = await self._start(args, reads=reads, globs=globs)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                out, err = await process.communicate(stdin)
        except TimeoutError as error:
            await _end(process)
            raise WorkspaceFailed(
                f"git {_shown(args)} did not end within {_PATIENCE_S} s",
                where=str(self.folder or self.work_tree),
                remedy="Look for a pipe or a dead network folder in the workspace.",
            ) from error
        except BaseException:
            await _end(process)
            raise
        if process.returncode not in ok:
            raise _failed(args, process.returncode, err)
        return out

    async def head(self, *args: str, limit: int) -> bytes:
        """The first `limit` bytes and one more if there are more; the command is ended there."""
        process = await self._start(args, reads=True, globs=False)
        assert process.stdout is not None and process.stderr is not None and process.stdin is not None
        process.stdin.close()
        errors = asyncio.ensure_future(process.stderr.read())
        try:
            out = bytearray()
            while len(out) <= limit and (part := await process.stdout.read(limit + 1 - len(out))):
                out += part
            if len(out) <= limit and await process.wait() != 0:
                raise _failed(args, process.returncode, await errors)
            return bytes(out)
        finally:
            await _end(process)
            await errors

    @asynccontextmanager
    async def talk(self, *args: str, globs: bool = False) -> AsyncIterator[Talk]:
        """A command that answers question by question; it is ended afterwards."""
        process = await self._start(args, reads=True, globs=globs)
        assert process.stdout is not None and process.stderr is not None and process.stdin is not None
        errors = asyncio.ensure_future(process.stderr.read())
        try:
            yield Talk(args, process.stdin, process.stdout, errors)
        finally:
            process.stdin.close()
            await _end(process)
            await errors

    async def _start(self, args: Sequence[str], *, reads: bool, globs: bool) -> asyncio.subprocess.Process:
        extra: dict[str, str] = {}
        if self.index is not None:
            extra["GIT_INDEX_FILE"] = str(self.index)
        if self.own_common_dir:
            extra["GIT_COMMON_DIR"] = str(self.git_dir)
        if self.borrowed is not None:
            extra["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.borrowed)
        if reads:
            extra["GIT_OPTIONAL_LOCKS"] = "0"
        environment = _environment(**extra)
        if globs:
            del environment["GIT_LITERAL_PATHSPECS"]
        settings = [word for setting in (*_SETTINGS, *self.settings) for word in ("-c", setting)]
        places = [f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"]
        try:
            return await _started(
                asyncio.create_subprocess_exec(
                    "git",
                    *settings,
                    *places,
                    *args,
                    cwd=self.folder or self.work_tree,
                    env=environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    # Ctrl-C ends the run in order; it must not tear a snapshot's git apart first.
                    # Not a session of its own: that is how the engine knows what an agent sent into the background.
                    process_group=0,
                )
            )
        except FileNotFoundError as error:
            if (self.folder or self.work_tree).is_dir():
                raise WorkspaceFailed(
                    "git cannot be started", expected="the program git on PATH", remedy="Install git 2.38 or later."
                ) from error
            raise WorkspaceFailed(
                f"folder {str(self.work_tree)!r} is gone",
                where=str(self.work_tree),
                remedy="Put it back, then call interlock again: what is done is not done again.",
            ) from error
        except OSError as error:
            place = str(self.folder or self.work_tree)
            raise WorkspaceFailed.of(error, "git cannot be started", where=place) from error


class Talk:
    """Questions to a running git, and its answers. What it does not answer in time is a failure."""

    def __init__(
        self,
        args: Sequence[str],
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        errors: asyncio.Future[bytes],
    ) -> None:
        self._args = args
        self._stdin = stdin
        self._stdout = stdout
        self._errors = errors

    async def ask(self, question: bytes) -> None:
        with suppress(ConnectionError):  # the answer that does not come tells more
            self._stdin.write(question)
            await self._stdin.drain()

    async def until(self, mark: bytes) -> bytes:
        """What comes up to a mark, without it."""
        return (await self._taken(self._stdout.readuntil(mark)))[: -len(mark)]

    async def exactly(self, count: int) -> bytes:
        return await self._taken(self._stdout.readexactly(count))

    async def _taken(self, reading: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await reading
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError) as error:
            # Only of a git that has ended is all known that it said.
            ended = isinstance(error, asyncio.IncompleteReadError | ConnectionError)
            said = await self._errors if ended else b"no usable answer"
            raise _failed(self._args, None, said) from error


async def _started(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """The process; a start that is cancelled half way makes asyncio wait for ever, so it is always seen through."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end(await task)
        raise


async def together(*asked: Awaitable[T]) -> list[T]:
    """All results; unlike `asyncio.gather`, none is still at work when an error or a cancellation goes on."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        await asyncio.wait(tasks)
        raise


async def user_settings(git_dir: Path, folder: Path, pattern: str) -> dict[str, str]:
    """The settings whose name matches `pattern`, as the user's own git would see them; nothing is executed.

    The last value wins, names are in lower case as git prints them. Settings that git cannot read are a failure.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    process = await _started(
        asyncio.create_subprocess_exec(
            "git",
            f"--git-dir={git_dir}",
            "config",
            "-z",
            "--get-regexp",
            pattern,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,
        )
    )
    try:
        out, _ = await process.communicate()
    except BaseException:
        await _end(process)
        raise
    if process.returncode not in (0, 1):
        raise _failed(("config", "--get-regexp", pattern), process.returncode, b"")
    pairs = (entry.partition("\n") for entry in os.fsdecode(out).split("\0") if entry)
    return {name: value for name, _, value in pairs}


def users_file(named: str | None, default: str) -> Path:
    """The user's own ignore or attributes file: the one that the settings name, or git's default place."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(named or f"{config}/git/{default}").expanduser()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _failed(args: Sequence[str], code: int | None, err: bytes) -> WorkspaceFailed:
    text = err.decode("utf-8", "replace").strip()[-_STDERR_KEPT:]
    return WorkspaceFailed(
        f"git {_shown(args)} failed with exit code {code}", expected="exit code 0", found=text or None
    )


def _shown(args: Sequence[str]) -> str:
    return " ".join(args[:6]) + (" ..." if len(args) > 6 else "")
