"""A feature in the simulated world, and agents that leave what they are told to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.agents.values import Ask
from interlock.engine.simulation import WORK, Act, Files
from interlock.engine.view import View
from interlock.playbooks.feature import FEATURE
from interlock.playbooks.feature.answers import spelled
from interlock.playbooks.feature.members import EVERYBODY
from interlock.playbooks.feature.playbook import Settings
from tests.engine.bench import Bench, said

ROOT = "docs/feature/greeting"
DONE = "DONE: as asked"
Happens = Act | Callable[[Ask, Files], Act]
BEST = {one.row.agent: one.form().model_dump() for one in EVERYBODY}


def says(last: str = DONE, *, files: Mapping[str, str | None] | None = None, leave: str = "", **form: Any) -> Happens:
    """An agent that leaves its documents with these values in them.

    Args:
        files: below the feature's folder, or with `./` from the top; None: it does not leave that one.
        leave: what its private memory has, in place of all else.
    """

    def happens(ask: Ask, there: Files) -> Act:
        left: dict[str, Any] = {
            path: text.encode() or WORK + ask.marker.encode() + b"\n" for path, text in ask.samples.items()
        }
        if form:
            known = {**BEST[ask.role.name], **ask.known, "status": last.partition(":")[0], **form}
            left |= {path: text.encode() for path, text in spelled(known, tuple(ask.samples)).items()}
        for path in [path for path in left if path.endswith(".mem.md") and leave]:
            left[path] = leave.encode()
        for path, text in (files or {}).items():
            place = path.removeprefix("./") if path.startswith("./") else f"{ROOT}/{path}"
            left[place] = None if text is None else text.encode()
        return said(last, {path: text for path, text in left.items() if text is not None or path in there})

    return happens


def nothing(last: str) -> Happens:
    """An agent that leaves no document at all."""
    return lambda ask, there: said(last, {})


def mute(name: str) -> Happens:
    """An agent that leaves no private memory."""
    return says(files={f"memory/{name}.mem.md": None})


ERROR = nothing("ERROR: I cannot")
CRASH: Happens = said("", finished=False, exit=1)


def task(name: str, **front: Any) -> str:
    lines = "".join(f"{key}: {value}\n" for key, value in {"id": name, **front}.items())
    return f"---\n{lines}---\n\nDo {name}.\n"


def plans(*waves: Sequence[str], last: str = DONE, **tasks: Mapping[str, Any] | None) -> Happens:
    """A planner with these waves, and a file for each task in them; None: without it."""
    names = dict.fromkeys(name for wave in waves for name in wave)
    listed = "".join(
        f"\n### Wave {n}\n\n" + "".join(f"- {name}: work\n" for name in wave) for n, wave in enumerate(waves, 1)
    )
    files: dict[str, str | None] = {"plan.md": f"# Plan\n\n## Execution Waves\n{listed}"}
    for name in {**names, **tasks}:
        front = tasks.get(name, {})
        files[f"tasks/{name}.md"] = None if front is None else task(name, files=f"[src/{name}.py]", **front)

    def happens(ask: Ask, there: Files) -> Act:
        act = says(last, files=files)(ask, there)  # type: ignore[operator]
        unasked = {path for path in ask.samples if "/tasks/" in path and path.removeprefix(f"{ROOT}/") not in files}
        return replace(act, files={path: text for path, text in act.files.items() if path not in unasked})

    return happens


class Feature(Bench):
    """One feature, through as many processes as it takes."""

    def __init__(self, *, files: Files | None = None, commands: Sequence[Any] | None = None, **settings: Any) -> None:
        playbook = replace(FEATURE, settings=partial(Settings, **settings))  # type: ignore[arg-type]
        more = {} if commands is None else {"commands": commands}
        super().__init__(playbook, {"lib.py": b"x = 1\n", **(files or {})}, **more)

    def acts(self, **acts: Any) -> None:  # type: ignore[override]
        """What they do, call by call; None: their best; one alone: each time."""
        for name, does in acts.items():
            super().acts(name.replace("_", "-"), *(does if isinstance(does, list) else [does] * 20))

    def go(self, **asked: Any) -> View:
        return self.start(**{"request": "Add a greeting", "slug": "greeting", **asked})

    def again(self, **identity: Any) -> View:
        """A new run on what another one left."""
        return self.begins(self.playbook.inputs(request="Add a greeting", slug="greeting"), **identity)

    def doc(self, path: str) -> str:
        return self.text(f"{ROOT}/{path}")

    def brief(self, member: str, n: int = -1) -> str:
        return [ask.brief for ask in self.cast.asks if ask.env["INTERLOCK_MEMBER"] == member][n]

    @property
    def output(self) -> str:
        ended = self.last.view.ended
        return self.world.folder.get(ended.output).decode() if ended and ended.output else ""


def story(view: View) -> str:
    """Who was called, in order: the members of a cluster as one, tasks by their ids, those of a sub-wave joined."""
    told: list[tuple[str, str]] = []
    for key, call in view.calls.items():
        role, _, rest = call.member.rpartition("-")
        if role in ("implementer", "documentation-writer"):
            group = key.partition(call.member)[0]
            if told and told[-1][1] == group:
                told[-1] = f"{told[-1][0]}+{rest}", group
            else:
                told.append((rest, group))
        else:
            name = re.sub("^(researcher|ct|v|r)-.*", r"\1", call.member)
            group = f"{name} {call.attempt}"
            if not told or told[-1][1] != group:
                told.append((name, group))
    return " ".join(name for name, _ in told)
