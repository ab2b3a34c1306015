"""A prompt in parts, and the statements that a reader finds in each: every quote stands at its lines (AD-02, AD-03)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.errors import BadInput

LINES, PARTS = 120, 40
Kind = Literal["order", "branch", "limit", "gate", "scope", "output", "role", "advice", "context"]
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
_MARKS = re.compile(r"^[\s>#|*+-]*(?:\d+[.)]\s+)?|[`*_|]")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


class Part(NamedTuple):
    """Some lines of the prompt."""

    number: int
    first: int
    """Its first line, counted from 1."""
    lines: tuple[str, ...]

    @property
    def numbered(self) -> str:
        return "\n".join(f"{number}: {line}" for number, line in enumerate(self.lines, self.first))

    def at(self, first: int, last: int) -> str:
        return "\n".join(self.lines[first - self.first : last - self.first + 1])


class Statement(Form):
    """One statement of the prompt."""

    id: str = Field(pattern=r"^[\w.-]{1,40}$", description="A short name, once in this part.")
    quote: str = Field(min_length=1, description="Its words, exactly as they stand there.")
    first_line: int
    last_line: int
    kind: Kind

    @property
    def told(self) -> str:
        """In a line, with where it stands."""
        return f"{' '.join(self.quote.split())} (lines {self.first_line} to {self.last_line})"


class Statements(Form):
    """All that a part of the prompt says."""

    statements: list[Statement] = Field(min_length=1)


def name_of(file: str, name: str) -> str:
    """What the playbook is called: as asked, else as the file, else as the folder of a SKILL.md (AD-01)."""
    *folders, base = file.split("/")
    if not name and base.casefold() == "skill.md" and folders:
        name = folders[-1]
    name = name or base.partition(".")[0]
    if not NAME.fullmatch(name):
        raise BadInput(f"a playbook cannot be called {name!r}", expected=NAME.pattern, remedy="Name it: --name NAME")
    return name


def parts_of(text: str | None, file: str) -> list[Part]:
    """The prompt in parts of at most 120 lines."""
    if text is None:
        raise BadInput(f"there is no {file}", expected="an orchestrator prompt, as Markdown")
    lines = text.split("\n")
    if not any(char.isalnum() for char in text):
        raise BadInput(f"{file} does not say a word")
    if len(lines) > LINES * PARTS:
        raise BadInput(f"{file} is too long", expected=f"at most {LINES * PARTS} lines", found=f"{len(lines)}")
    cuts = range(0, len(lines), LINES)
    return [Part(number, cut + 1, tuple(lines[cut : cut + LINES])) for number, cut in enumerate(cuts, 1)]


def sample(part: Part) -> Mapping[str, Any]:
    """What a reader says who takes each line for a statement."""
    found = [
        {"id": str(n), "quote": line.strip(), "first_line": n, "last_line": n, "kind": "context"}
        for n, line in enumerate(part.lines, part.first)
        if _plain(line)
    ]
    return {"statements": found or [{"id": "1", "quote": "-", "first_line": 1, "last_line": 1, "kind": "context"}]}


def read_part(given: Given, part: Part) -> Form | Unusable | None:
    """The statements of a part, or all that is wrong with them."""
    form = read_form(Statements, given.structured, given.text)
    if not isinstance(form, Statements):
        return form if isinstance(form, Unusable) else None
    wrong, covered = list[str](), dict[int, list[str]]()
    ids = [one.id for one in form.statements]
    wrong += [f"the id {one!r} is given twice" for one in dict.fromkeys(ids) if ids.count(one) > 1]
    for one in form.statements:
        inside = part.first <= one.first_line <= one.last_line < part.first + len(part.lines)
        if not inside or _plain(one.quote) not in _plain(part.at(one.first_line, one.last_line)):
            wrong.append(f"{one.id}: these words do not stand at lines {one.first_line} to {one.last_line}")
            continue
        for number in range(one.first_line, one.last_line + 1):
            covered.setdefault(number, []).append(_plain(one.quote))
    for number, line in enumerate(part.lines, part.first):
        if (words := _plain(line)) and not _FENCE.match(line) and not _lies_in(words, covered.get(number, [])):
            wrong.append(f"line {number} lies in no quote: {line.strip()[:80]!r}")
    return Unusable(problems=tuple(wrong[:30])) if wrong else form


def _lies_in(words: str, quotes: Sequence[str]) -> bool:
    """A line lies in one quote, or is made of several, or holds them with nothing between that says a word."""
    left = words
    for quote in quotes:
        if words in quote:
            return True
        left = left.replace(quote, " ")
    ends = [word for word in left.split() if any(char.isalnum() for char in word)]
    # The first or last words of a line may belong to a quote that goes on in the line before or behind.
    return not ends or any(quote.endswith(" ".join(ends)) or quote.startswith(" ".join(ends)) for quote in quotes)


def _plain(text: str) -> str:
    """Its words, without the marks of lists, headings and tables."""
    return " ".join(" ".join(_MARKS.sub(" ", line) for line in text.split("\n")).split()).strip(" -")


def statements_of(part: Part, form: Any) -> list[Statement]:
    """What a reader listed, by names that are one of a kind in the whole prompt."""
    said = Statements.model_validate(form).statements
    return [one.model_copy(update={"id": f"{part.number}.{one.id}"}) for one in said]
