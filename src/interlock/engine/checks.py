"""The commands that a person named: run by the engine, before anything is paid and before anything is accepted.

`preflight` runs them once on the untouched tree and looks whether the agents can be called at all (EV-05).  `prove`
runs them on the tree as it is, whenever that changed since (EV-04); what agents say about them is never asked.  A
command whose own definition was changed on the way (a script, a make target, a test configuration) must pass with the
old one too, so that nobody passes by changing the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from interlock.contracts import is_definition
from interlock.contracts.failures import failures_in
from interlock.engine.keys import digest_of
from interlock.engine.model import CommandResult, Ending, Stop

if TYPE_CHECKING:
    from interlock.engine.run import Run

TAIL = 6000
"""Characters at the end of an output that are evidence."""
LONG_S = 1800.0


@dataclass(frozen=True)
class Named:
    """A command that a person named."""

    name: str
    """What it is for: build, test, check."""
    command: str
    """For a shell."""
    origin: str = ""
    """Where it was named, for people."""
    cwd: str = "."
    timeout_s: float = LONG_S

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.command}" + (f", from {self.origin}" if self.origin else "")


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
    """It ran with these files as they were before the run: they say what the command does, and were changed."""

    @property
    def ok(self) -> bool:
        return not self.problem

    @property
    def shown(self) -> str:
        how = "passes" if self.ok else self.problem
        old = f" (with {', '.join(self.definitions)} as before)" if self.definitions else ""
        return f"{self.name}: {self.command}{old}: {how}"


class Checks:
    """The named commands of one run, and what is known of them."""

    def __init__(self, run: Run, commands: Sequence[Named]) -> None:
        self._run = run
        self.commands = tuple(commands)
        self._base: Any = None
        self._known: dict[str, frozenset[str]] = {}
        self._last: dict[tuple[str, tuple[str, ...]], Proof] = {}

    async def preflight(self) -> None:
        """Look once, before the first agent; `Stop` where the run could only waste what it costs."""
        run = self._run
        with run.step("preflight"):
            mode = run.settle_once(
                "preflight", {"skip": bool(run.flags.get("no_preflight")), "accept": self._accepts()}
            )
            self._base = await run.snapshot()
            if mode["skip"]:
                run.note("preflight", skipped=True, commands=[one.shown for one in self.commands])
                return
            problems = list(await run.unready())
            proofs = [] if problems else [await self._run_one(one, ()) for one in self.commands]
            red = [proof for proof in proofs if not proof.ok]
            run.note(
                "preflight",
                commands=[one.shown for one in self.commands],
                problems=problems,
                red=[p.shown for p in red],
            )
            if mode["accept"] and not problems:
                for proof in red:
                    if proof.exit is None:
                        problems.append(f"{proof.shown}; what does not end says nothing about what fails")
                    self._known[proof.command] = frozenset(proof.new)
                red = []
            if problems or red:
                raise Stop(Ending.stopped(_said(problems, red)))

    def _accepts(self) -> bool:
        return bool(self._run.flags.get("accept_baseline"))

    async def prove(self) -> tuple[Proof, ...]:
        """The proofs for the tree as it is; a command runs only if the tree changed since it did last. The first that
        is red is the last."""
        run = self._run
        if not self.commands:
            return ()
        changed = await run.changes(self._base) if self._base is not None else None
        definitions = tuple(path for path in (changed.paths if changed else ()) if is_definition(path))
        proofs: list[Proof] = []
        for restored in ((), definitions) if definitions else ((),):
            for one in self.commands:
                proofs.append(await self._run_one(one, restored))
                if not proofs[-1].ok:
                    return tuple(proofs)
        return tuple(proofs)

    async def _run_one(self, one: Named, definitions: tuple[str, ...]) -> Proof:
        run = self._run
        tree = digest_of({"tree": await run.snapshot()})
        last = self._last.get((one.command, definitions))
        if last is not None and last.tree == tree:
            return last
        result = await run.command(
            ("sh", "-c", one.command),
            cwd=one.cwd,
            timeout_s=one.timeout_s,
            name=f"check-{one.name}" if not definitions else f"check-{one.name}-as-before",
            as_of=(self._base, definitions) if definitions else None,
        )
        proof = self._proof(one, result, tree, definitions)
        run.note("proof", **asdict(proof))
        self._last[one.command, definitions] = proof
        return proof

    def _proof(self, one: Named, result: CommandResult, tree: str, definitions: tuple[str, ...]) -> Proof:
        output = "\n".join(filter(None, (result.stdout.strip(), result.stderr.strip())))
        known = self._known.get(one.command)
        failed = failures_in(output) if not result.ok else frozenset()
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
        )


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
        "No agent was called. Mend it, or go on with --accept-baseline: then only failures that are new count."
        if red
        else "No agent was called."
    )
    return "\n".join([*said, advice])


def _last_lines(text: str, most: int = 8) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()[-most:])
