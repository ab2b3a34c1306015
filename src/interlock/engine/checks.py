"""Commands that decide: before the work, after it, and one word for the pair (EVID-05, 06, 07, 13, 14).

They run in layers of the engine's own, on trees: the person's, with their caches, and the run's work; never with
anything ignored that an agent left.  Same command, same tree: run once.  A red that counts was red twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.agents.values import News, NewsKind
from interlock.engine import commits, delivery, junit
from interlock.engine import events as ev
from interlock.engine.prompts import fence
from interlock.engine.world import Command, Toolbox
from interlock.errors import BadInput
from interlock.workspace.values import Standing, Tree

if TYPE_CHECKING:
    from interlock.engine.run import Run

NAMES = 20
"""Of tests that are told by name."""
AGAIN = 3
"""Times that commands run, and work is merged, because the person's tree changes under them."""


async def commands(run: Run, named: Sequence[str] = ()) -> list[Command]:
    """The checks of this run, fixed before the work: those that a person named (`none`: no check), else those found in
    the project (EVID-05)."""
    if "none" in named:
        return []

    async def find() -> Toolbox:
        found = await run.world.toolbox(run.start.standing.tree, run.where.place)
        chosen = [Command(f"check-{n}", line) for n, line in enumerate(named, 1)]
        return Toolbox(chosen or found.commands, found.setup)

    value = await run.found("commands", {}, find)
    run.setup = Command(**{"name": "setup", **value["setup"]}) if value["setup"] else None
    mended = run.options("check") or []  # `resume --check`: a person's word, in place of what was fixed
    known = value["commands"]
    for line in mended[len(known) :]:
        _warn(run, f"--check `{line}` is left out: the {len(known)} checks of this run were fixed when it began")
    lines = [*mended, *(one["line"] for one in known[len(mended) :])]
    return [Command(**{**one, "line": line}) for one, line in zip(known, lines, strict=False)]


def _warn(run: Run, text: str) -> None:
    """Tell people something once, from within a verb."""
    if text not in run.full.warnings:
        run.recorder.add("", ev.Warned(text=text))


async def rest(run: Run, commands: Sequence[Command]) -> list[ev.Proved]:
    """Commands that are found or set and that nobody named, run once at the end; `broken` if red now and not before."""
    named = {one.line for one in commands}

    async def find() -> list[Command]:
        found = (await run.world.toolbox(run.start.standing.tree, run.where.place)).commands
        return [replace(one, name=f"also-{n}") for n, one in enumerate(found, 1) if one.line not in named]

    left = await run.found("toolbox", {}, find) if commands else ()
    return [await _once(run, Command(**one), named=False) for one in left]


def _pair(
    command: Command, tree: Tree, before: ev.Run1 | None, after: ev.Run1 | None, word: Any, **more: Any
) -> ev.Proved:
    return ev.Proved(name=command.name, command=command.line, tree=tree, before=before, after=after, word=word, **more)


async def baseline(run: Run, commands: Sequence[Command], *, expect_red: bool = False) -> list[ev.Based]:
    """Each command on the person's tree without the run's work.

    Raises:
        BadInput: one cannot be run at all; or, with `expect_red`, all are green.
    """

    async def measure(command: Command) -> ev.Based:
        run.stop_if_cancelled()
        standing = await run.standing()
        came = await run_on(run, command, standing, standing.tree, keeps=True)
        if came.exit is None:
            why = came.error or f"it was not done in {command.timeout_s:.0f} s"
            raise BadInput(
                f"the check `{command.line}` cannot be run: {why}",
                where=f"check ({command.origin})",
                expected="a command that ends, green or red",
                remedy="Install what it needs, or name another check: --check CMD (or --check none).",
            )
        return ev.Based(name=command.name, command=command.line, run=came)

    based = [
        await run.made(f"before-{one.name}", {"name": one.name}, ev.Based, partial(measure, one)) for one in commands
    ]
    if expect_red and based and all(one.run.green for one in based):
        raise BadInput(
            "every check is green before the work, and --expect-red was given",
            expected="a check that is red and is to be mended",
            remedy="Name the check that shows the fault: --check CMD. Or leave --expect-red out.",
        )
    return based


async def prove(run: Run, commands: Sequence[Command]) -> list[ev.Proved]:
    """Each command on the run's work merged with the person's tree of this moment, with one word for the pair."""
    proved: list[ev.Proved] = []
    for _ in range(AGAIN):
        proved = [await _once(run, command) for command in commands]
        if len({one.tree for one in proved}) <= 1:
            break  # else the person's tree changed between two of them
    if proved and all(one.after and not one.red for one in proved):
        await run.found("shown", {"tree": proved[0].tree}, partial(_shown, run, commands, proved))
    return proved


async def tell(run: Run, command: Command) -> ev.Proved:
    """A command on the run's work merged with the person's tree of this moment, run for what it says alone."""

    async def hear() -> ev.Proved:
        run.stop_if_cancelled()
        standing = await run.standing()
        tree, _ = await delivery.merged(run.world, run.pending, standing.tree)
        return _pair(command, tree, None, await run_on(run, command, standing, tree), "told")

    return await run.made(command.name, {"line": command.line}, ev.Proved, hear)


async def prove_commit(run: Run, commands: Sequence[Command], message: str, branch: str = "") -> list[ev.Proved]:
    """Each command on what a commit would hold, where that is not the tree that was judged: what the person has not
    committed is not in it."""
    tree = await run.found("commit-tree", {"branch": branch}, partial(commits.tree_of_commit, run, message, branch))

    async def on_it(command: Command) -> ev.Proved:
        before = _before(run, command)
        after, flaky = await _steady(run, command, await run.standing(), tree, before)
        word, tests = _word(run, before, after)
        proved = _pair(command, tree, before, after, word, flaky=flaky, tests=_named(tests))
        # The same work rests on the same changes, and this pair is the one that people are told of.
        pair = run.full.pairs.get(command.name)
        weak = pair.proved.weak if pair and pair.proved and not proved.red else None
        return proved.model_copy(update={"weak": weak})

    return [
        await run.made(f"commit-{one.name}", {"name": one.name}, ev.Proved, partial(on_it, one))
        for one in (commands if tree else ())
    ]


def against(run: Run, proved: Sequence[ev.Proved]) -> dict[str, str]:
    """What of these commands speaks against the work: each in a line, and with the end of what it printed."""
    found = {}
    for one in proved:
        if one.after is None:
            found[delivery.clash(one.tests)] = delivery.clash(one.tests)
        elif one.red:
            head = f"`{one.command}` is {one.word}{': ' if one.tests else ''}{', '.join(one.tests)}"
            found[head] = f"{head}. {tail(run, one.after)}"
    return found


async def idle(run: Run, claims: Sequence[str]) -> str:
    """What speaks against an agent that changed nothing; empty: it named commands that show that nothing was needed,
    and they are green (EVID-08)."""
    if not claims:
        return "Nothing was changed. If it is so already, name the commands that show it in `already_so`."
    proved = await prove(run, [Command(f"claim-{n}", line) for n, line in enumerate(claims, 1)])
    return "\n\n".join(
        f"`{one.command}` is not green. {tail(run, one.after)}" if one.after else delivery.clash(one.tests)
        for one in proved
        if one.after is None or not one.after.green
    )


@dataclass(frozen=True)
class Landed:
    """How what was accepted came into the person's tree."""

    state: str
    """As of `Delivered`, and `red`: commands are, on the tree as it is by now; `late`: it changes each time."""
    against: Mapping[str, str] = field(default_factory=dict)
    """What keeps it from that, as of `against`."""
    proved: Sequence[ev.Proved] = ()
    """What ran for it."""


async def land(run: Run, commands: Sequence[Command], judged: Tree | None = None, label: str = "") -> Landed:
    """Deliver what was accepted; where the person's tree has changed since it was judged, the commands run first.

    Args:
        judged: the tree that was accepted; None: none was yet, so the commands run first.
    """
    proved: list[ev.Proved] = []
    for again in range(AGAIN):
        if judged is None or again:
            proved = await run.prove(commands)
            judged = proved[0].tree if proved else judged
        if found := run.against(proved):
            return Landed("red" if all(one.after for one in proved) else "conflict", found, proved)
        delivered = await delivery.deliver(run, f"{label}{again}", judged)
        if delivered.state == "conflict":
            said = delivery.clash(delivered.landing.conflicts if delivered.landing else ())
            return Landed("conflict", {said: said}, proved)
        if delivered.state != "other":
            return Landed(delivered.state, {}, proved)
        judged = delivered.merged
    said = "Your tree changed each time before the work could come into it"
    return Landed("late", {said: said}, proved)


async def _once(run: Run, command: Command, *, named: bool = True) -> ev.Proved:
    prove = partial(_prove, run, command, named=named)
    return await run.made(f"prove-{command.name}", {"name": command.name}, ev.Proved, prove)


async def _prove(run: Run, command: Command, *, named: bool) -> ev.Proved:
    """A command on the work merged with the person's tree of this moment, beside how it was before the work.

    Args:
        named: a person named it, so it ran before the work. Else, where it is red, it runs on the person's tree now,
            and what is red there may stay so.
    """
    run.stop_if_cancelled()
    measured = _before(run, command)
    standing = await run.standing()
    first = await run.world.merge(run.pending.base, run.pending.work, standing.tree)
    if first.tree is None:
        return _pair(command, standing.tree, measured, None, "conflict", tests=first.conflicts[:NAMES])
    tree = first.tree
    late = measured is None and not named and not (await run_on(run, command, standing, tree)).green
    at_start = await run_on(run, command, standing, standing.tree) if late else measured
    after, flaky = await _steady(run, command, standing, tree, at_start)
    # Red after it: it may be theirs. Green, and red before: so may be the mending.
    moved = at_start is not None and standing.tree != at_start.tree and not (after.green and at_start.green)
    person_now = await run_on(run, command, standing, standing.tree) if moved else at_start
    if moved and after.green and person_now and person_now.green:
        _warn(run, f"`{command.line}` was red before the work, and is green on your tree alone by now")
    theirs = _theirs(run, at_start, person_now, after) if moved and not after.green and at_start and person_now else []
    word, tests = ("theirs", theirs) if theirs else _word(run, person_now, after, may_be_red=not named)
    before = person_now if person_now and person_now.green else at_start
    proved = _pair(command, tree, before, after, word, flaky=flaky, tests=_named(tests))
    if proved.red and not after.green:
        return proved
    weak = await _weakened(run, command, standing, tree, before, after, person_now)
    return proved.model_copy(update={"weak": weak})


async def _steady(
    run: Run, command: Command, standing: Standing, tree: Tree, before: ev.Run1 | None
) -> tuple[ev.Run1, bool]:
    """How a command ends on a tree, and whether it is flaky: what would be `broken` runs again, which counts."""
    first = await run_on(run, command, standing, tree)
    if first.green or not (before is None or before.green or _by_test(run, before, first).broken):
        return first, False
    second = await run_on(run, command, standing, tree, again=True)
    return second, second.green != first.green


def _before(run: Run, command: Command) -> ev.Run1 | None:
    pair = run.full.pairs.get(command.name)
    return pair.before if pair else None


def _theirs(run: Run, at_start: ev.Run1, person_now: ev.Run1, after: ev.Run1) -> list[str]:
    """The tests that are red with the work, if each is red on the person's tree alone by now and was not at the start:
    the person broke them meanwhile."""
    pairs = _by_test(run, person_now, after)
    known = _red(_tests(run, at_start))
    # With the work it tells no tests any more, and without it does: that is the work's.
    mute = junit.WHOLE in pairs.still_red and junit.WHOLE not in _red(_tests(run, person_now))
    return [] if mute or pairs.broken or known.intersection(pairs.still_red) else list(pairs.still_red)


def _by_test(run: Run, before: ev.Run1, after: ev.Run1) -> junit.Pairs:
    return junit.compare(_tests(run, before), _tests(run, after))


def _tests(run: Run, one: ev.Run1) -> junit.Tests:
    told: junit.Tests = json.loads(run.text(one.tests)) if one.tests else {}
    return told or {junit.WHOLE: junit.PASSED if one.green else junit.FAILED}


def _word(run: Run, before: ev.Run1 | None, after: ev.Run1, *, may_be_red: bool = False) -> tuple[Any, list[str]]:
    """The one word of a pair, and the tests that made it; `may_be_red`: what is red before may stay so."""
    if before is None:
        return ("green" if after.green else "broken"), []
    was = _tests(run, before)
    known = _red(was) if may_be_red or run.start.inputs.get("accept_baseline") else ()
    word, tests = junit.word(was, _tests(run, after), known)
    return word, list(tests)


def _red(tests: junit.Tests) -> set[str]:
    return {test for test, state in tests.items() if state == junit.FAILED}


def _named(tests: Sequence[str]) -> tuple[str, ...]:
    """As many as are told."""
    return tuple(test for test in tests if test != junit.WHOLE)[:NAMES]


# --- one run


async def run_on(
    run: Run, command: Command, standing: Standing, tree: Tree, *, keeps: bool = False, again: bool = False
) -> ev.Run1:
    """One run of a command on a tree; the same one twice only if asked for."""
    known = (command.line, tree)
    if not again and known in run.ran:
        return run.ran[known]
    world = run.world
    run.recorder.sync()
    if run.setup is not None:
        with _told(run, run.setup):
            prepared = await world.setup(run.setup, standing, tree)
        if prepared is not None and prepared.exit != 0:
            last = (prepared.out.strip().splitlines() or [""])[-1][:200]
            _warn(run, f"`{run.setup.line}` ended with {prepared.exit}: {last}")
    changed = [change.path for change in await world.between(standing.tree, tree)] if tree != standing.tree else []
    for _ in range(AGAIN):
        with _told(run, command):
            came = await world.check(command, standing, tree, keeps=keeps, changed=changed)
        if not came.moved:
            break
    out = world.redact(came.exit.out)
    one = ev.Run1(
        tree=tree,
        exit=came.exit.exit,
        seconds=came.exit.seconds,
        error=came.exit.error,
        timed_out=came.exit.timed_out,
        out=world.folder.put(out.encode("utf-8", "backslashreplace")) if out else None,
        tests=world.folder.put(json.dumps(dict(came.tests)).encode()) if came.tests else None,
        opened=tuple(sorted(came.opened)),
    )
    run.ran[known] = one
    return one


@contextmanager
def _told(run: Run, command: Command) -> Iterator[None]:
    """Tell who watches that a command runs: it is no line of the journal before it has ended."""
    facts = {"name": "setup" if command == run.setup else "check", "subject": command.line}
    run.hear("", News(kind=NewsKind.TOOL, facts={**facts, "state": "began"}))
    try:
        yield
    finally:
        run.hear("", News(kind=NewsKind.TOOL, facts={**facts, "state": "done"}))


def tail(run: Run, one: ev.Run1, lines: int = 40) -> str:
    """The end of what a command printed, as data for a brief."""
    said = run.text(one.out).rstrip().splitlines()[-lines:]
    how = one.error or ("it did not end in its time" if one.timed_out else f"it ended with {one.exit}")
    return f"{how}\n\n{fence(chr(10).join(said))}" if said else how


# --- weakened, and shown


async def _weakened(
    run: Run,
    command: Command,
    standing: Standing,
    tree: Tree,
    before: ev.Run1 | None,
    after: ev.Run1,
    person_now: ev.Run1 | None,
) -> ev.Weak | None:
    """Changed files that are no product and without whose change the check, or a test in it, would be red (EVID-07).

    Args:
        person_now: how the check ends on the person's tree alone; what is red there may be red without them, too.
    """
    world, basis = run.world, standing.tree
    for one in reversed([one for one in run.full.undone if one.how == "apply"]):  # a person brought it: it is its work
        basis, _ = await world.without(one.pair.base, one.pair.work, basis)
    changes = await world.between(basis, tree)
    product = await world.product(command, tree, [change.path for change in changes])
    other = [change for change in changes if change.path not in product]
    known = _tests(run, before) if before is not None else {}
    gone = junit.compare(known, _tests(run, after)).lost if known else ()
    # That a file is there, is none, or may be run is seen without opening it: `touch test` pleases make.
    touched = any(one.path in after.opened or one.kind != "changed" for one in other) or basis != standing.tree
    here = _tests(run, after)
    may_be_red = {test for one in (before, person_now, after) if one is not None for test in _red(_tests(run, one))}
    new = {name for name in here if name not in known}  # a test of the work's own is gone with its file

    async def stands_without(paths: Sequence[str]) -> bool:
        came = await run_on(run, command, standing, await world.graft(tree, basis, list(paths)))
        there = _tests(run, came)
        if (after.green and not came.green) or not _red(there) <= may_be_red:
            return False
        return all(
            there.get(name) in (state, None if name in new else state)
            for name, state in here.items()
            if state == junit.PASSED
        )

    async def needed(paths: list[str]) -> list[str]:
        if len(paths) == 1:
            return paths
        halves = paths[: len(paths) // 2], paths[len(paths) // 2 :]
        found = [path for half in halves if not await stands_without(half) for path in await needed(half)]
        return found or paths

    every = [one.path for one in other]
    paths = await needed(every) if touched and not await stands_without(every) else []
    return ev.Weak(paths=tuple(paths), gone=tuple(gone[:NAMES])) if paths or gone else None


async def _shown(run: Run, commands: Sequence[Command], proved: Sequence[ev.Proved]) -> dict[str, Any]:
    """Which check is red without this work. A mended pair that is not weakened says so; else they run (EVID-14)."""
    tree = proved[0].tree
    if mended := [one.name for one in proved if one.word == "mended" and not (one.weak and one.weak.paths)]:
        return {"by": mended[0], "tree": tree}
    standing = await run.standing()
    for command, one in zip(commands, proved, strict=True):
        if one.after and await shows(run, command, one.after, standing, tree):
            return {"by": command.name, "tree": tree}
    return {"by": None, "tree": tree}


async def shows(run: Run, command: Command, after: ev.Run1, standing: Standing, tree: Tree) -> bool:
    """Whether a check, or of a red one some test, is green because of what the work changed of the product."""
    changes = await run.world.between(standing.tree, tree)
    paths = sorted(await run.world.product(command, tree, [change.path for change in changes]))
    if not paths:
        return False
    without = await run_on(run, command, standing, await run.world.graft(tree, standing.tree, paths))
    if after.green:
        return not without.green
    there = _tests(run, without)
    return any(state == junit.PASSED != there.get(test) for test, state in _tests(run, after).items())
