"""Three prompts of the kinds that people have, each adopted by hand: what a good reader and a good author would leave.

The readers here quote line by line. What a line is about, and what became of it, is found by some words of it; every
other line is a line of a role where a role has it, or explains something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from interlock.playbooks.adopt.inputs import AdoptInputs
from interlock.playbooks.adopt.source import SourceText
from interlock.playbooks.adopt.statements import Statement, StatementKind
from interlock.playbooks.adopt.trace import Binding

HERE = Path(__file__).parent
NOT = "not enforced: "


@dataclass(frozen=True)
class Adoption:
    """A prompt, and what becomes of it."""

    file: str
    lines: Mapping[str, tuple[str, Sequence[str] | str]]
    """Words of a line to its kind, and its places or why it is not enforced."""
    roles: Mapping[str, str]
    """Role to the heading whose lines it is made of."""

    @property
    def inputs(self) -> AdoptInputs:
        return AdoptInputs(self.file)

    @cached_property
    def source(self) -> SourceText:
        return SourceText(self.file, (HERE / "prompts" / self.file).read_text(encoding="utf-8"))

    @cached_property
    def yaml(self) -> str:
        return (HERE / "drafts" / f"{self.inputs.called}.yaml").read_text(encoding="utf-8")

    @cached_property
    def role_files(self) -> dict[str, str]:
        return {role: self._role(role, heading) for role, heading in self.roles.items()}

    def _role(self, role: str, heading: str) -> str:
        body = self.source.text.partition(f"\n{heading}\n")[2].partition("\n## ")[0].strip()
        return f"---\nname: {role}\ndescription: The {role} of {self.file}.\n---\n\n{body or 'Do your part.'}\n"

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(
            Statement(f"S{part.number}.{number}", self.source.lines[line - 1].strip(), line, line, self._kind(line))
            for part in self.source.parts
            for number, line in enumerate(self.source.texts(part), 1)
        )

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        return tuple(map(self._binding, self.statements))

    def _entry(self, line: int) -> tuple[str, Sequence[str] | str] | None:
        text = self.source.lines[line - 1]
        return next((entry for words, entry in self.lines.items() if words in text), None)

    def _kind(self, line: int) -> StatementKind:
        entry = self._entry(line)
        if entry is not None:
            return StatementKind(entry[0])
        return StatementKind.ROLE if self._role_of(self.source.lines[line - 1]) else StatementKind.CONTEXT

    def _role_of(self, text: str) -> str | None:
        return next((role for role, body in self.role_files.items() if text.strip() in body), None)

    def _binding(self, one: Statement) -> Binding:
        entry = self._entry(one.first)
        if entry is not None and isinstance(entry[1], str):
            return Binding(one.id, reason=entry[1])
        if entry is not None:
            return Binding(one.id, places=tuple(entry[1]))
        role = self._role_of(one.quote)
        return Binding(one.id, role=role, words=one.quote) if role else Binding(one.id, reason="it explains")


BUGFIX = Adoption(
    "bugfix.agent.md",
    {
        "max_rounds: 3": ("limit", ["rounds.at_most"]),
        "You do not write": ("scope", "the playbook has no agent that leads, so there is none to keep from writing"),
        "The person gives you the report": ("order", ["inputs.report"]),
        "1. **Reproduce.**": ("order", ["reproducer"]),
        "`docs/bugs/reproduction.md`, with a section": ("output", ["reproducer.produces"]),
        "`## Expected`, and adds a test": ("output", ["reproducer.produces.headings", "agents.reproducer.writes"]),
        "2. **Fix.**": ("order", ["rounds.steps[0]", "fixer.reads"]),
        "change files below `src/`": ("scope", ["agents.fixer.writes"]),
        "3. **Check.**": ("order", ["tests.command", "tests.time_limit"]),
        "fixer's word for it": ("order", ["tests"]),
        "4. **Review.**": ("order", ["review.members"]),
        "file; each answers with": ("scope", ["agents.reviewer-logic.judges", "agents.reviewer-style.judges"]),
        "6. **Ask.**": ("gate", ["close"]),
        "you call the bug closed": ("gate", ["after-close.rows"]),
        "- Tests fail: back": ("branch", ["after-review.rows[2]"]),
        "- Tests pass and both": ("branch", ["after-review.rows[5]"]),
        "- Tests pass and one": ("branch", ["after-review.rows[4]", "rounds.steps[0].quotes"]),
        "- A reviewer cannot": ("branch", ["after-review.rows[1]"]),
        "Go round at most three": ("limit", ["rounds.at_most"]),
        "over what you know": ("limit", ["rounds.when_used_up"]),
        "When the person says no": ("branch", ["after-close.rows[1]", "refused"]),
        "Never merge, push": ("scope", "nothing that agents do to git leaves their layer, whatever the playbook says"),
    },
    {"reproducer": "## Reproducer", "fixer": "## Fixer", "reviewer": "## Reviewers"},
)
RELEASE = Adoption(
    "release-steward.md",
    {
        "skips none of them": ("order", ["steps[0]", "after-survey", "after-critic", "after-approval"]),
        "lists what changed": ("order", ["surveyor"]),
        "- Output: `docs/release/changes.md`": ("output", ["surveyor.produces"]),
        "- It must have the sections": ("output", ["surveyor.produces.headings"]),
        "It changes nothing besides": ("scope", ["agents.surveyor"]),
        "turns the list into notes": ("order", ["notes"]),
        "- Input: `docs/release/changes.md`": ("order", ["notes.reads"]),
        "- Output: `docs/release/notes.md`": ("output", ["notes.produces"]),
        "begin with a title line": (
            "output",
            "a product can ask for headings by their words, and the title is not known",
        ),
        "1. `make test`": ("order", ["tests.command"]),
        "2. `make build`": ("order", ["build.command"]),
        "Both have half an hour.": ("limit", ["tests.time_limit", "build.time_limit"]),
        "word that the tree is not ready": ("branch", ["after-critic.rows[1]", "after-critic.rows[2]", "not-ready"]),
        "reads the notes against": ("order", ["rounds.steps[3]"]),
        "- It answers PASS": ("branch", ["after-critic.rows[3]"]),
        "- It answers REVISE": ("branch", ["after-critic.rows[4]"]),
        "with what the critic found": ("branch", ["notes.quotes"]),
        "- The writer gets two rounds": ("limit", ["rounds.at_most", "rounds.when_used_up"]),
        "- If the critic is BLOCKED": ("branch", ["after-critic.rows[5]"]),
        "only after a person said yes": ("gate", ["publish"]),
        "Three answers are possible": ("gate", ["publish.shows"]),
        "- *publish*": ("branch", ["after-approval.rows[0]"]),
        "- *later*": ("branch", ["after-approval.rows[1]", "postponed.status"]),
        "- *wrong*": ("branch", ["after-approval.rows[2]", "refused"]),
        "at most ten": ("output", "a product can ask for headings and labelled lines, not for a length"),
        "complete when this file is there": ("branch", ["after-announcement.rows[0]", "published.status"]),
        "- Only the writer and the surveyor": ("scope", ["agents.surveyor", "agents.writer", "agents.critic.judges"]),
        "- Nobody creates tags": (
            "scope",
            "nothing that agents do to git leaves their layer, whatever the playbook says",
        ),
        "- Never reorder stages": ("order", ["steps[0]", "rounds", "publish", "announcement"]),
        "- Never guess a version number": ("order", ["inputs.version"]),
        "- Work on one release": ("limit", ["key"]),
    },
    {"surveyor": "## Surveyor", "writer": "<tone>", "critic": "## Critic"},
)
UPKEEP = Adoption(
    "upkeep-skill.md",
    {
        "Run `make test` on the untouched tree": ("order", ["before.command"]),
        "tree proves nothing": ("branch", ["after-before.rows[1]", "red"]),
        "1. Let the *scout*": ("order", ["scout"]),
        "`docs/upkeep/impact.md` with the headings": ("output", ["scout.produces"]),
        "2. Let the *upgrader*": ("order", ["tries.steps[0]"]),
        "`src/**`, `tests/**`. Other": ("scope", ["agents.upgrader.writes"]),
        "3. Run `make test` again": ("order", ["tests.command", "tests.time_limit"]),
        "4. Red? Give": ("branch", ["after-tests.rows[1]", "tries.steps[0].quotes"]),
        "all, then stop.": ("limit", ["tries.at_most", "used-up"]),
        "5. Green?": ("branch", ["after-tests.rows[3]", "auditor"]),
        "- It is satisfied": ("branch", ["after-audit.rows[0]"]),
        "- It found something": ("branch", ["after-audit.rows[1]"]),
        "- It cannot tell": ("branch", ["after-audit.rows[2]"]),
        "6. The person decides": ("gate", ["verdict.choices"]),
        "*drop* you end without": ("branch", ["after-verdict.rows[1]", "dropped.status"]),
        "- Do not upgrade anything": (
            "scope",
            "which dependency a line of a lock file belongs to is not known to code",
        ),
        "- Do not loosen": ("scope", "what a version limit is differs by ecosystem; the role says it"),
        "- Do not weaken": ("scope", "interlock tells judges of weakened tests by itself; no key switches that"),
        "- Do not run the upgrader": ("order", ["scout", "after-scout", "tries"]),
        "- Do not commit": ("scope", "nothing that agents do to git leaves their layer, whatever the playbook says"),
        "No step may take more": ("limit", ["agents.scout.time_limit", "agents.upgrader.time_limit"]),
        "two euros": ("limit", "money is limited by --budget of a run, not by a playbook"),
        "End with one line": ("output", ["kept"]),
    },
    {"scout": "## For the scout", "upgrader": "## For the upgrader", "auditor": "## For the auditor"},
)
ALL = (BUGFIX, RELEASE, UPKEEP)
