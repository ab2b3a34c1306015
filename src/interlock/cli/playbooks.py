"""`playbooks` and `new`: what can be run here, and a new playbook of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import RUN, WORKSHOP, command
from interlock.cli.door import Door
from interlock.cli.output import complain, wrapped
from interlock.telemetry import printable

if TYPE_CHECKING:
    from interlock.finding import Asks, Offered


@command("playbooks", example="interlock playbooks", panel=RUN)
def playbooks(door: Door) -> int:
    """List the playbooks that can be run here: purpose, origin and inputs; nothing of the workspace is executed."""
    listed = door.library.listing()
    door.answer([_facts(one) for one in listed], [line for one in listed for line in _lines(one)])
    return 0


def _facts(one: Offered) -> dict[str, Any]:
    return {
        "name": one.found.name,
        "origin": one.found.origin.value,
        "place": one.found.place,
        "purpose": one.purpose,
        "inputs": None if one.inputs is None else [asdict(asks) for asks in one.inputs],
        "trusted": one.trusted,
        "problem": None if one.problem is None else {"what": one.problem.what, **dict(one.problem.parts())},
        "hides": [str(hidden) for hidden in one.hides],
    }


def _lines(one: Offered) -> Iterator[str]:
    from interlock.finding import UNKNOWN

    yield from wrapped(f"{printable(one.found.name)}  {printable(one.purpose)}".rstrip())
    yield from wrapped(f"from: {printable(str(one.found))}{'' if one.trusted else ' (not trusted yet)'}", "  ")
    if one.problem is not None:
        yield from wrapped(f"cannot be used: {printable(one.problem.what, 300)}", "  ")
    else:
        asked = UNKNOWN if one.inputs is None else ", ".join(map(_asked, one.inputs)) or "none"
        yield from wrapped(f"inputs: {asked}", "  ")
    for hidden in one.hides:
        yield from wrapped(f"hides: {printable(str(hidden))}, which has the same name", "  ")


def _asked(asks: Asks) -> str:
    shown = f"{asks.name}: {asks.kind}"
    return printable(shown if asks.required else f"[{shown}]", 120)


@command("new", example="interlock new release", panel=WORKSHOP)
def new(
    door: Door,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)],
    yaml: Annotated[bool, typer.Option("--yaml", help="Declare the process in YAML, instead of Python.")] = False,
) -> int:
    """Write a new playbook to .interlock/playbooks/NAME/: it validates, rehearses and runs as it is."""
    from interlock.finding.starting import start

    written = start(door.root, name, yaml=yaml, trust=door.library.trust)
    steps = (
        f"rehearse {name}",
        f'run {name} "What is to be done" --runner scripted',
        f'run {name} "What is to be done"',
    )
    advice = [door.spoken(step) for step in steps]
    door.answer({"playbook": name, "written": written, "next": advice}, [f"written  {path}" for path in written])
    complain(
        "You made it, so it is trusted as it is; interlock asks again when a file of it has changed.",
        f"Its test: python -m pytest {written[0].rpartition('/')[0]}",
        *(f"Then: {one}" for one in advice),
    )
    return 0
