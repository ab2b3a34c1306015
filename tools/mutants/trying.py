"""Trying mutants: which of them the tests of a module notice.

Theory of operation.  Starting a process with pytest and collecting the tests takes far longer than the few tests that
a mutant needs, so both are done once for a module.  From there every mutant gets a process of its own by a fork.

- *In place.*  The code of the one function that differs is exchanged in the function that everybody holds already, and
  the tests that call it are run, the shortest first.
- *Anew.*  A mutant of what happens at import (a table, a default), and one that survived in place, since something may
  have been computed before: the process is forked before anything of ours was imported, gets the changed module by way
  of the import system, and runs all tests of the module.  Only who survives this is a survivor.

The kernel ends what does not end by itself: processes have bounds for processor time, memory and hours.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

from tools.mutants.mutations import Mutant, mutants_of

LEAST_S, SLOWER = 2, 3
"""Processor time for a mutant: this, and so many times what its tests take with the unchanged module."""
HANGS_S = 900
MEMORY = 4 << 30
OPTIONS = ("-q", "-x", "--assert=plain", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not long", "--capture=no")
OURS = ("interlock", "tests", "conftest")
SURVIVED, KILLED, FAULT = 0, 1, 3


class NotPassing(Exception):
    """The tests of the unchanged module do not pass."""


@dataclass(frozen=True)
class Subject:
    """A module and the tests that are to notice its mutants."""

    name: str
    """As it is imported."""
    file: Path
    tests: tuple[str, ...]
    root: Path

    def mutants(self) -> list[Mutant]:
        return mutants_of(self.file.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class _Normal:
    """What the unchanged module does under its tests."""

    callers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """For each function the tests that call it, with their seconds, the shortest first."""
    imported: tuple[str, ...] = ()
    """Modules of others that the tests need."""
    passes: bool = False
    cpu_s: float = 0.0
    said: str = ""


def survivors(subject: Subject, chosen: Sequence[Mutant], jobs: int) -> Iterator[Mutant]:
    """Those of the chosen mutants that no test notices, each as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        room = Path(folder)
        normal = _asked(room, lambda: _in_session(subject, room, _observed))
        if not normal.passes:
            raise NotPassing(f"{subject.name}: its tests do not pass unchanged:\n{normal.said}")
        for name in normal.imported:  # so that no process has to do it again
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        alive = _asked(room, lambda: _in_session(subject, room, functools.partial(_in_place, normal, chosen, jobs)))
        trials = {index: Trial(functools.partial(_anew, subject, chosen[index]), normal.cpu_s) for index in alive}
        yield from (chosen[index] for index in _surviving(trials, jobs, room))


# -- processes


@dataclass(frozen=True)
class Trial:
    """What a process does to find out whether a mutant survives."""

    run: Callable[[], int]
    normal_s: float
    """Processor time that the unchanged module takes for the same."""


def _surviving(trials: Mapping[int, Trial], jobs: int, room: Path) -> Iterator[int]:
    """Run each trial in a process of its own, so many at a time; those that ended with `SURVIVED`."""
    running: dict[int, int] = {}
    waiting = list(trials)
    while waiting or running:
        while waiting and len(running) < jobs:
            index = waiting.pop(0)
            running[_forked(trials[index], room)] = index
        pid, status = os.wait()
        index, code = running.pop(pid), os.waitstatus_to_exitcode(status)
        if code == FAULT:
            raise RuntimeError(f"trial {index} could not be made: {(room / 'fault').read_text()}")
        if code == SURVIVED:
            yield index


def _forked(trial: Trial, room: Path) -> int:
    if pid := os.fork():
        return pid
    code = FAULT
    limit_s = LEAST_S + math.ceil(SLOWER * trial.normal_s)
    try:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(dir=room)  # two processes never share a folder
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANGS_S)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = trial.run()
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        (room / "fault").write_text(traceback.format_exc())
    os._exit(code)


def _asked(room: Path, question: Callable[[], Any]) -> Any:
    """What a question comes to, asked in a process of its own."""
    answer = room / "answer"
    if pid := os.fork():
        os.waitpid(pid, 0)
        said = pickle.loads(answer.read_bytes())
        if isinstance(said, BaseException):
            raise said
        return said
    try:
        said = question()
    except BaseException as error:  # noqa: BLE001 - raised again by who asked
        error.add_note(traceback.format_exc())
        said = error
    answer.write_bytes(pickle.dumps(said))
    os._exit(0)


# -- pytest


class _Session:
    """Collects the tests, and does something else than running them once."""

    def __init__(self, work: Callable[[pytest.Session], Any]) -> None:
        self.work = work
        self.result: Any = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """The same examples every time, and no search for the smallest one: that a property fails is enough."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.default, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.result = self.work(session)
        return True


def _in_session(subject: Subject, room: Path, work: Callable[..., Any]) -> Any:
    said = room / "said"
    with said.open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        plugin = _Session(functools.partial(work, subject, room))
        _pytest(subject, plugin)
    return _Normal(said=said.read_text()) if plugin.result is None else plugin.result


def _pytest(subject: Subject, *plugins: object) -> int:
    os.chdir(subject.root)
    return int(pytest.main([*OPTIONS, f"--rootdir={subject.root}", *subject.tests], plugins=plugins))


def _passes(session: pytest.Session, items: Sequence[pytest.Item]) -> bool:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


def _observed(subject: Subject, room: Path, session: pytest.Session) -> _Normal:
    """What the unchanged module does: run test by test, with an eye on the functions that are called."""
    called: dict[str, dict[str, float]] = {}
    file = str(subject.file)

    def see(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            seen.add(frame.f_code.co_qualname)

    for item in session.items:
        seen: set[str] = set()
        started = time.process_time()
        sys.setprofile(see)
        try:
            if not _passes(session, [item]):
                return _Normal(said=f"{item.nodeid} fails")
        finally:
            sys.setprofile(None)
        for name in seen:
            called.setdefault(name, {})[item.nodeid] = time.process_time() - started
    callers = {name: dict(sorted(tests.items(), key=lambda test: test[1])) for name, tests in called.items()}
    others = tuple(name for name in sys.modules if not name.startswith((*OURS, "_pytest", "pytest", "xdist")))
    return _Normal(callers, others, passes=True, cpu_s=time.process_time())


# -- in place


def _in_place(
    normal: _Normal,
    chosen: Sequence[Mutant],
    jobs: int,
    subject: Subject,
    room: Path,
    session: pytest.Session,
) -> list[int]:
    """The numbers of the mutants that are to be tried anew."""
    module = sys.modules[subject.name]
    functions = {function.__qualname__: function for function in _functions(module)}
    items = {item.nodeid: item for item in session.items}

    def trial(mutant: Mutant) -> int:
        code = next(_codes(mutant.compiled(str(subject.file)), mutant.function))
        try:
            functions[mutant.function].__code__ = code
        except ValueError:  # it needs other variables of what is around it
            return SURVIVED
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()
        return SURVIVED if _passes(session, [items[name] for name in normal.callers[mutant.function]]) else KILLED

    trials = {
        index: Trial(functools.partial(trial, mutant), sum(normal.callers[mutant.function].values()))
        for index, mutant in enumerate(chosen)
        if mutant.function in functions and mutant.function in normal.callers
    }
    killed = trials.keys() - set(_surviving(trials, jobs, room))
    return [index for index in range(len(chosen)) if index not in killed]


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines, whatever they are wrapped in."""
    spaces = [vars(module), *(vars(one) for one in vars(module).values() if isinstance(one, type))]
    for one in (one for space in spaces for one in space.values()):
        for wrapped in (one, *(getattr(one, name, None) for name in ("__wrapped__", "__func__", "fget", "func"))):
            if isinstance(wrapped, FunctionType) and wrapped.__module__ == module.__name__:
                yield wrapped


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == name:
                yield inner
            yield from _codes(inner, name)


# -- anew


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the changed module to whoever imports it."""

    def __init__(self, subject: Subject, code: CodeType) -> None:
        self.subject, self.code = subject, code

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.subject.name:
            return None
        return importlib.util.spec_from_file_location(name, self.subject.file, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, vars(module))


def _anew(subject: Subject, mutant: Mutant) -> int:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.meta_path.insert(0, _Changed(subject, mutant.compiled(str(subject.file))))
    plugin = _Session(lambda session: _passes(session, session.items))
    return SURVIVED if _pytest(subject, plugin) == 0 and plugin.result else KILLED
