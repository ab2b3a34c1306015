"""The commands that a person named: run by the engine, before anything is paid and before anything is accepted.

`preflight` runs them once on the untouched tree and looks whether the agents can be called at all (EV-05).  `prove`
runs them on the tree as it is, whenever that changed since (EV-04); what agents say about them is never asked.  A
command whose own definition was changed on the way (a script, a make target, a test configuration) must pass with the
old one too, so that nobody passes by changing the question.  A target or script that came with the work has no old
definition: then that file is left as it is, and told to the judges like every other change of a definition.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interlock.contracts import is_definition, is_test
from interlock.contracts.failures import failures_in
from interlock.contracts.recipes import read_recipes, recipe_files
from interlock.contracts.toolchains import READ_FOR_COMMANDS, Commands, detect_commands
from interlock.documents import Document, DocumentState
from interlock.documents.paths import plain_parts
from interlock.engine.facts import changed_since, snapshot
from interlock.engine.handing_on import handed_on
from interlock.engine.keys import digest_of
from interlock.engine.model import CommandResult, Ending, Stop
from interlock.engine.run import Run, behind
from interlock.errors import ConfigInvalid, PathRefused

TAIL = 6000
"""Characters at the end of an output that are evidence."""
LONG_S = 1800.0
UNCOMPARED = (
    "Work began before there was a record of it: whether it changed what says how tests and checks are run (a "
    "Makefile, a script, a test configuration) cannot be compared."
)
"""For judges and whoever watches, where the tree of before is not known."""


@dataclass(frozen=True)
class NamedCommand:
    """A command that a person named."""

    name: str
    """What it is for: build, test, check."""
    command: str
    """For a shell."""
    origin: str = ""
    """Where it was named, for people."""
    cwd: str = "."
    timeout_s: float = LONG_S

    def __post_init__(self) -> None:
        if not self.command.strip():  # a shell is content with it, and nothing would be shown by that
            raise ConfigInvalid(
                f"the command {self.name!r} is empty",
                where=self.origin,
                expected="a command for a shell",
                found=repr(self.command),
            )

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.command}" + (f", from {self.origin}" if self.origin else "")


async def find_commands(run: Run) -> Commands:
    """How the project in this workspace is built and tested, as its files say; where people name nothing."""
    names = await run.list(".", "*")
    return detect_commands(names, {name: (await run.read(name)).text for name in READ_FOR_COMMANDS if name in names})


def named_commands(run: Run, asked: Sequence[str], settings: Sequence[str], table: str) -> tuple[NamedCommand, ...]:
    """What people name now, the command line before the settings; a replay keeps to what they named then.

    Args:
        table: of the settings, in which ``check_commands`` stand.
    """
    chosen, origin = (asked, "--check") if asked else (settings, f"[{table}] check_commands")
    said = run.settle_once("named-commands", {"commands": list(chosen), "origin": origin})
    commands = [str(command) for command in said["commands"]]
    names = ["check"] if len(commands) == 1 else [f"check-{number}" for number in range(1, len(commands) + 1)]
    return tuple(
        NamedCommand(name, command, str(said["origin"])) for name, command in zip(names, commands, strict=True)
    )


@dataclass(frozen=True)
class Proof:
    """How a named command ended on a certain tree."""

    name: str
    command: str
    exit: int | None
    seconds: float
    tail: str
    tree: str
    """The digest of the tree on which it ran."""
    problem: str = ""
    """Why it counts as red, in a sentence; empty when it does not."""
    known: tuple[str, ...] = ()
    """What failed already on the untouched tree, and was accepted as known."""
    new: tuple[str, ...] = ()
    """What failed beside that, by name."""
    definitions: tuple[str, ...] = ()
    """It ran with these files as they were before the work: they say what the command does, and were changed."""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return not self.problem

    @property
    def shown(self) -> str:
        known = f", but for {len(self.known)} failures that were known" if self.known else ""
        how = f"passes{known}" if self.ok else self.problem
        old = f" (with {', '.join(self.definitions)} as before)" if self.definitions else ""
        return f"{self.name}: {self.command}{old}: {how}"


@dataclass(frozen=True)
class _Defined:
    """What said what a command does, before the work."""

    starts: tuple[str, ...] = ()
    """The files that it started."""
    lacking: tuple[str, ...] = ()
    """The files in which its recipe belongs, where it had none."""

    @classmethod
    def from_json(cls, value: Mapping[str, Sequence[str]]) -> _Defined:
        return cls(tuple(value["starts"]), tuple(value["lacking"]))


class Checks:
    """The named commands of one run, and what is known of them.

    Args:
        besides: patterns of files on which the commands do not depend, such as the playbook's own documents.
        agents: those that will be called; unset: all that the playbook can need.
        goes_on: what was before the run that this one continues, and did not end well, is before this one too.
    """

    def __init__(
        self,
        run: Run,
        commands: Sequence[NamedCommand],
        *,
        besides: Sequence[str] = (),
        agents: Sequence[str] | None = None,
        goes_on: bool = False,
    ) -> None:
        self._run = run
        self._agents = agents
        self._goes_on = self._goes_on_later = goes_on
        self.commands = tuple(commands)
        """What a person names now; it may change while the run goes on."""
        self._besides = tuple(besides)
        self._base: Any = None
        self._known: dict[str, frozenset[str]] = {}
        """What fails in a command and was accepted as failing."""
        self._defined: dict[str, _Defined] = {}
        self._last: dict[tuple[NamedCommand, tuple[str, ...]], tuple[Any, Proof]] = {}
        self._leaves: set[NamedCommand] = set()
        """Those that leave files which the project does not ignore: they are dropped, and later ones may need them."""

    @property
    def baseline(self) -> Mapping[str, Any]:
        """What is known of the untouched tree, as JSON data, for a run that goes on where this one ends."""
        return {
            "tree": self._base,
            "known": {command: sorted(names) for command, names in self._known.items()},
            "defined": {command: asdict(found) for command, found in self._defined.items()},
        }

    def go_on_from(self, baseline: Mapping[str, Any]) -> None:
        """Take the untouched tree as an earlier run of the same workspace found it."""
        self._base = baseline["tree"]
        self._known = {command: frozenset(names) for command, names in baseline["known"].items()}
        self._defined = {command: _Defined.from_json(found) for command, found in baseline.get("defined", {}).items()}

    @property
    def compares(self) -> bool:
        """Whether it is known what the tree was before the work."""
        return self._base is not None

    @property
    def _dry(self) -> bool:
        """Whether this is a dry run, which leaves nothing behind; what is recorded is played all the same."""
        run = self._run
        return bool(behind(run).options.stop_before_work and run.flags.get("no_preflight") and run.live)

    async def start(self) -> None:
        """Work begins: the tree as it is now is the one of before, unless one is known already."""
        if self._dry:
            return
        if (
            self._base is None
            and self._goes_on
            and (before := handed_on(behind(self._run).journal.lines).get("before"))
        ):
            self.go_on_from(before)
        if self._base is None:
            self._base = await snapshot(self._run)
        await self._find_definitions(changed=())

    async def _find_definitions(self, *, changed: Sequence[str]) -> None:
        """Look what says what each command does, when it is first seen: later, somebody may have changed that.

        Args:
            changed: by the work that was done before; of these files nobody knows what they were.
        """
        run = self._run
        for one in self.commands:
            if one.command in self._defined:
                continue
            places = {name: posixpath.normpath(f"{one.cwd}/{name}") for name in recipe_files(one.command)}
            looked = {name: await run.read(place, _text) for name, place in places.items()}
            texts = {name: text for name, text in looked.items() if isinstance(text, str)}
            found = read_recipes(one.command, texts)
            known = found.known or False in looked.values()
            starts = sorted(path for name in found.starts if (path := _inside(one.cwd, name)))
            self._defined[one.command] = _Defined(
                tuple([path for path in starts if await run.read(path, _is_there)]),
                tuple(place for place in places.values() if place in changed or not known),
            )

    async def preflight(self) -> None:
        """Look once, before the first agent; `Stop` where the run could only waste what it costs."""
        run = self._run
        if self._dry:
            run.note("preflight", skipped=True, commands=[one.shown for one in self.commands])
            return
        with run.step("preflight"):
            mode = run.settle_once(
                "preflight", {"skip": bool(run.flags.get("no_preflight")), "accept": self._accepts()}
            )
            self._goes_on = self._goes_on and not mode["accept"]
            if self.commands:
                await self.start()
            if mode["skip"]:
                run.note("preflight", skipped=True, commands=[one.shown for one in self.commands], before=self._before)
                return
            problems = list(await _unready(run, self._agents))
            proofs = [] if problems else [await self._run_one(one, ()) for one in self.commands]
            red = [proof for proof in proofs if not proof.ok]
            for proof in proofs:
                if proof.ok:  # then something stood behind every name in it
                    self._defined[proof.command] = replace(self._defined[proof.command], lacking=())
            said = {"problems": list(problems), "red": [proof.shown for proof in red]}
            if mode["accept"] and not problems:
                for proof in red:
                    if proof.exit is None:
                        problems.append(f"{proof.shown}; what does not end says nothing about what fails")
                    self._known[proof.command] = frozenset(proof.new)
                red = []
            run.note("preflight", commands=[one.shown for one in self.commands], **said, before=self._before)
            if problems or red:
                raise Stop(Ending.stopped(_said(problems, red)))

    @property
    def _before(self) -> Mapping[str, Any] | None:
        """The baseline, for a run that continues this one."""
        return self.baseline if self._goes_on_later and self.compares else None

    def _accepts(self) -> bool:
        return bool(self._run.flags.get("accept_baseline"))

    async def prove(self, *, as_before: bool = True) -> tuple[Proof, ...]:
        """The proofs for the tree as it is; a command that passed runs only if the tree changed since. The first that
        is red is the last.

        Args:
            as_before: with definitions as they were before, too; not needed where nothing is accepted for good.
        """
        run = self._run
        if not self.commands:
            return ()
        wanted: list[tuple[NamedCommand, tuple[str, ...]]] = [(one, ()) for one in self.commands]
        if as_before and self.compares:
            changed = (await changed_since(run, self._base)).paths
            await self._find_definitions(changed=changed)
            wanted += [(one, found) for one in self.commands if (found := self._definitions(one, changed))]
        proofs: list[Proof] = []
        for one, definitions in wanted:
            proofs.append(await self._run_one(one, definitions))
            if not proofs[-1].ok:
                break
        return tuple(proofs)

    def _definitions(self, one: NamedCommand, changed: Sequence[str]) -> tuple[str, ...]:
        """Those of the changed files that say what a command does: by their name, or because a command starts them."""
        started = {path for other in self.commands for path in self._defined[other.command].starts if not is_test(path)}
        new = self._defined[one.command].lacking
        return tuple(path for path in changed if path not in new and (is_definition(path) or path in started))

    async def _run_one(self, one: NamedCommand, definitions: tuple[str, ...]) -> Proof:
        run = self._run
        now = await snapshot(run)
        then, last = self._last.get((one, definitions), (None, None))
        if last is not None and last.ok and (then == now or await self._is_as_it_was(then)):
            return last
        before = [other.command for other in self.commands[: self._place(one)] if self._needs(one, other)]
        result = await run.command(
            _argv((*before, one.command)),
            cwd=one.cwd,
            timeout_s=one.timeout_s,
            name=f"check-{one.name}" if not definitions else f"check-{one.name}-as-before",
            as_of=(self._base, definitions) if definitions else None,
        )
        if result.changed:
            self._leaves.add(one)
        proof = self._proof(one, result, digest_of({"tree": now}), definitions)
        run.note("proof", **vars(proof))
        self._last[one, definitions] = (now, proof)
        return proof

    async def _is_as_it_was(self, then: Any) -> bool:
        return bool(self._besides) and not (await changed_since(self._run, then, besides=self._besides)).paths

    def _place(self, one: NamedCommand) -> int:
        return self.commands.index(one)

    def _needs(self, one: NamedCommand, other: NamedCommand) -> bool:
        return other in self._leaves and other.cwd == one.cwd

    def _proof(self, one: NamedCommand, result: CommandResult, tree: str, definitions: tuple[str, ...]) -> Proof:
        output = "\n".join(filter(None, (result.stdout.strip(), result.stderr.strip())))
        known = self._known.get(one.command)
        silent = frozenset({f"exit status {result.exit}"})
        failed = frozenset() if result.ok else failures_in(output) or silent
        new = sorted(failed - (known or frozenset()))
        problem = _problem(result)
        if problem and known is not None and result.exit is not None and not result.timed_out and not new:
            problem = ""
        return Proof(
            one.name,
            one.command,
            None if result.timed_out else result.exit,
            result.seconds,
            output[-TAIL:],
            tree,
            problem,
            tuple(sorted(failed & (known or frozenset()))),
            tuple(new),
            definitions,
            result.timed_out,
        )


async def require_agents(run: Run) -> None:
    """`Stop` where an agent of the playbook cannot be called; not asked with --no-preflight."""
    if run.settle_once("preflight", {"skip": bool(run.flags.get("no_preflight"))})["skip"]:
        return
    if problems := await _unready(run, None):
        raise Stop(Ending.stopped(_said(problems, ())))


async def _unready(run: Run, agents: Sequence[str] | None) -> Sequence[str]:
    """Why these agents cannot be called (all of the playbook, where none are named), one sentence for each cause;
    nothing is asked of a model."""
    recording = behind(run)
    slot = recording.recall("unready", {})
    if not slot.recorded:
        asked = recording.playbook.agents if agents is None else agents
        slot.settle("unready", list(await recording.world.unready(asked)))
    return list(slot.value())


def _text(document: Document) -> str | bool | None:
    """The text of a file; None where there is none, and False where it cannot be read and may say anything."""
    match document.state:
        case DocumentState.OK:
            return document.text
        case DocumentState.MISSING:
            return None
        case _:
            return False


def _inside(cwd: str, path: str) -> str | None:
    """A path that a command in a folder names, as one of the workspace; None for one outside of it."""
    try:
        return "/".join(plain_parts(posixpath.normpath(f"{cwd}/{path}"))) if not path.startswith("/") else None
    except PathRefused:
        return None


def _is_there(document: Document) -> bool:
    return document.state is not DocumentState.MISSING


def _argv(commands: Sequence[str]) -> tuple[str, ...]:
    """The last command, after those whose outputs it needs, for a shell."""
    if len(commands) == 1:
        return ("sh", "-c", commands[0])
    *first, last = (f'sh -c "${number}"' for number in range(1, len(commands) + 1))
    return ("sh", "-c", " && ".join((*first, f"exec {last}")), "sh", *commands)


def _problem(result: CommandResult) -> str:
    if result.ok:
        return ""
    if result.timed_out:
        return f"did not end within {result.seconds:.0f} s"
    if result.error is not None:
        return f"could not be started: {result.error}"
    return f"ended with exit status {result.exit}"


def _said(problems: Sequence[str], red: Sequence[Proof]) -> str:
    """Why nothing was begun: every problem once, and what to do."""
    said = [*problems, *(f"{proof.shown}\n{_last_lines(proof.tail)}".rstrip() for proof in red)]
    advice = (
        "No agent was called. Mend it, or go on with --accept-baseline: then only failures that are new count. "
        "Where mending it is the work itself, go on with --no-preflight: then it must pass in the end."
        if red
        else "No agent was called."
    )
    return "\n".join([*said, advice])


def _last_lines(text: str, most: int = 8) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()[-most:])
