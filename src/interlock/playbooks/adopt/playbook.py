"""`adopt`: an orchestrator prompt becomes a playbook in YAML: each statement kept by code, or said not to be.

Code checks quotes, the YAML, its rehearsal and the trace; a critic judges whether what is kept is what was said; a
person approves; only then it is installed.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import Field

from interlock.documents.model import Model, plain
from interlock.engine.forms import Claim, Form, Given
from interlock.engine.kept import held
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Report, Row, Run, Stop
from interlock.errors import BadInput
from interlock.playbooks.adopt import drafts
from interlock.playbooks.adopt.drafts import Made
from interlock.playbooks.adopt.statements import (
    Part,
    Statement,
    Statements,
    name_of,
    parts_of,
    read_part,
    sample,
    statements_of,
)
from interlock.workspace.values import Where

TAKEN = ("adopt", "feature", "harness", "roadmap", "router", "task", "ticket")
HOME, DRAFTS = ".interlock/playbooks", "docs/adopted"
ROUNDS, TRIES = 3, 3
SAMPLE = """\
playbook: {name}
summary: Played.
key: once
agents: {{worker: {{instructions: You work., writes: ["**"]}}}}
steps:
  - {{agent: worker, task: Work.}}
  - {{end: done, status: complete, words: Done.}}
"""


class Inputs(Model):
    """A prompt, and what becomes of it."""

    file: str = Field(description="The orchestrator prompt, a Markdown file.")
    name: str = Field("", description="What the playbook is called; else as the file.")
    replace: bool = Field(False, description="Put it in the place of one of that name.")


class Faithful(Form):
    """One statement, and whether what keeps it is what it says."""

    id: str = Field(description="The statement's id, as it was given.")
    faithful: bool
    why: str = ""


class Criticized(Form):
    """What the critic says of each statement that is kept by the process."""

    statements: list[Faithful]

    @classmethod
    def known(cls, criteria: Sequence[str], green: bool) -> dict[str, Any]:
        return {"statements": [{"id": one, "faithful": True, "why": "as it says"} for one in criteria]}

    def claim(self, criteria: Sequence[str]) -> Claim:
        return Claim(
            passes=all(one.faithful for one in self.statements),
            criteria=tuple((one.id, one.faithful) for one in self.statements),
            notes=tuple(f"{one.id}: {one.why}" for one in self.statements if not one.faithful),
            no_check="nothing is to be run",
        )


READER = Row("reader", "read", Statements, answers=True, repairs=TRIES - 1, timeout_s=1800)
AUTHOR = Row("author", "write", repairs=TRIES - 1)
CRITIC = Row("critic", "criticize", Criticized, judges=True)


async def adopt(run: Run, inputs: Inputs) -> Outcome:
    """Read, write, criticize, ask, install."""
    file = _path(inputs, run.where)
    text, name = await run.read(file), name_of(file, inputs.name)
    parts, target, folder = parts_of(text, file), f"{HOME}/{name}", f"{DRAFTS}/{name}"
    there = [f"{target}/{one}" for one in await run.names(target)]
    there += [f"{target}/agents/{one}" for one in await run.names(f"{target}/agents")]
    there += [f"{HOME}/{one}" for one in await run.names(HOME) if one.rpartition(".")[0] == name]
    if name in TAKEN or (there and not inputs.replace):
        remedy = "Give it another name: --name NAME" + ("" if name in TAKEN else ", or put it in its place: --replace")
        raise BadInput(f"there is a playbook {name!r} already", where=target, remedy=remedy)
    draft = Draft(run, name, folder, await read(run, parts))
    told = json.dumps(plain(draft.statements), indent=1, ensure_ascii=False)
    await draft.keep(f"{folder}/statements.json", f"{told}\n")
    await draft.write_and_criticize()
    shows = f"{folder}/summary.md", f"{folder}/playbook.yaml"
    decided = await run.approve(
        "adopt", f"Install {name} as it stands in {folder}?", draft.revise, rounds=1, shows=shows
    )
    if decided.choice == "reject":
        return Outcome.stopped(f"a person rejected it: {decided.note}")
    with run.step("install"):
        return await draft.install(target, there)


async def read(run: Run, parts: Sequence[Part]) -> list[Statement]:
    """What the prompt says, statement by statement; readers side by side."""

    def call(part: Part) -> Callable[[], Awaitable[Report]]:
        row = replace(READER, read=partial(read_part, part=part))
        asked = {"part": part.number, "lines": f"{part.first} to {part.first + len(part.lines) - 1}"}
        texts = {"text": part.numbered}
        made = Call(row, member=f"part-{part.number}", inputs=asked, texts=texts, known=sample(part))
        return partial(run.dispatch, made)

    came = await run.together("read", {f"part-{part.number}": call(part) for part in parts})
    return [one for part in parts for one in statements_of(part, came[f"part-{part.number}"].form)]


@dataclass(frozen=True)
class Draft:
    """The playbook that is being made, in `docs/adopted/`."""

    run: Run
    name: str
    folder: str
    statements: Sequence[Statement]

    @property
    def files(self) -> tuple[str, str]:
        return f"{self.folder}/playbook.yaml", f"{self.folder}/trace.json"

    async def write_and_criticize(self, words: str = "") -> None:
        """Until the critic has nothing against it; where the rounds are over before that, the run stops."""
        against = words
        async for n in self.run.loop("round"):
            before = await self.now()
            await self.run.dispatch(self.write(n, against, before))
            made = self.checked(await self.now())
            if isinstance(made, list):
                against = "\n".join(made)  # a person wrote into it meanwhile
                continue
            await self.keep(f"{self.folder}/trace.md", drafts.traced(made, self.statements))
            await self.keep(f"{self.folder}/summary.md", drafts.summary(made, self.statements))
            kept = [one for one in self.statements if made.trace[one.id].places]
            if not kept:
                return
            judged = await self.run.dispatch(self.criticize(n, kept, made))
            if judged.ruling is not None and judged.ruling.passes:
                return
            against = "\n".join((*judged.ruling.against, *judged.ruling.notes) if judged.ruling else (judged.reason,))
        why = f"the critic does not accept it: {' '.join(against.split())}"
        raise Stop(Outcome.stopped(why, next=f"interlock resume {self.run.id} --note TEXT"))

    def write(self, attempt: int, against: str, before: Mapping[str, str]) -> Call:
        yaml, trace = self.files
        roles = {path: text for path, text in before.items() if path not in self.files}
        bound: dict[str, Any] = {one.id: {"not_enforced": "it is left to people"} for one in self.statements}
        bound[self.statements[0].id] = {"places": ["steps[0].agent"]}
        statements = "\n".join(f"- {one.id} ({one.kind}): {one.told}" for one in self.statements)

        def wrong(given: Given) -> list[str]:
            """Of the documents that it left, with the roles that it left as they were."""
            kept = {path: text for path, text in roles.items() if path not in given.gone}
            made = self.checked({**kept, **given.outputs})
            return made if isinstance(made, list) else []

        return Call(
            replace(AUTHOR, outputs=self.files, may=(f"{self.folder}/agents/*.md",), read=held(wrong)),
            inputs={"name": self.name},
            texts={"statements": statements, "folder": self.folder, "against": against},
            samples={yaml: SAMPLE.format(name=self.name), trace: json.dumps(bound)},
            attempt=attempt,
        )

    def criticize(self, attempt: int, kept: Sequence[Statement], made: Made) -> Call:
        rows = [f"- {one.id}: {one.quote!r} is kept by {', '.join(made.trace[one.id].places)}" for one in kept]
        return Call(
            CRITIC,
            inputs={"name": self.name},
            texts={"rows": "\n".join(rows)},
            reads=self.files,
            criteria=tuple(one.id for one in kept),
            attempt=attempt,
        )

    def checked(self, files: Mapping[str, str]) -> Made | list[str]:
        """What code can see of a draft."""
        roles = {path.rpartition("/")[2].removesuffix(".md"): files[path] for path in files if path.endswith(".md")}
        yaml, trace = (files.get(path, "") for path in self.files)
        return drafts.checked(yaml, trace, roles, self.statements, self.name)

    async def now(self) -> dict[str, str]:
        """The draft as it stands, a person's edits too: the text of each file."""
        roles = [f"{self.folder}/agents/{one}" for one in await self.run.names(f"{self.folder}/agents", "*.md")]
        return {path: await self.run.read(path) or "" for path in (*self.files, *roles)}

    async def keep(self, path: str, text: str) -> None:
        """A document of ours; what stood there, a person's words in it, is moved aside."""
        await self.run.set_aside(path)
        await self.run.change(path, lambda old: old if text in old else text)

    async def revise(self, note: str) -> None:
        """With a person's words, once."""
        with self.run.step("revised"):
            await self.write_and_criticize(note)

    async def install(self, target: str, there: Sequence[str]) -> Outcome:
        """As a person approved it, checked again; the process last, so that nothing half is ever used."""
        now = await self.now()
        made = self.checked(now)
        if isinstance(made, list):
            go_on = f"interlock resume {self.run.id}"
            return Outcome.stopped(f"the draft was edited, and cannot be used: {made[0]}", next=go_on, again="install")
        for path in there:
            await self.run.set_aside(path)
        yaml, _, *roles = now
        for path in roles:
            await self.keep(f"{target}/agents/{path.rpartition('/')[2]}", now[path])
        await self.keep(f"{target}/trace.md", drafts.traced(made, self.statements))
        await self.keep(f"{target}/playbook.yaml", now[yaml])
        return Outcome.complete(f"{self.name} is installed in {target}", next=f"interlock plan {self.name}")


def _path(inputs: Inputs, where: Where) -> str:
    """Of the prompt, from the workspace: it is named from where the person stands."""
    return posixpath.normpath(posixpath.join(where.place, inputs.file))


ADOPT = Playbook(
    name="adopt",
    play=adopt,
    inputs=Inputs,
    rows=(READER, AUTHOR, CRITIC),
    caps={"round": ROUNDS, "adopt": 2},
    headline=lambda inputs: inputs.file,
    key=lambda inputs, where: f"{inputs.name} {_path(inputs, where)}",
    package="interlock.playbooks.adopt",
    summary="An orchestrator prompt becomes a playbook in YAML.",
    example={"file": "prompt.md"},
    files={"prompt.md": "# Do it\n\nFirst build, then test.\n"},
)
