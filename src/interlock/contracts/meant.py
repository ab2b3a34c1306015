"""What a report says of an ending that is bad by itself and does not speak against the work: it was wanted ("exit 2, as
specified"), it is of the time before, or it is a rule and not a run ("exit code 2 for a bad flag").  Pure.

Whoever runs the checks of a project wants them to end well: said of such a command, that it was meant to fail is not
believed, but asked about (EV-03).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AIM = r"(?:expected|specified|required|intended|designed|asked|demanded|documented|wanted|planned)"
_WANTED = re.compile(
    rf"(?<!\bnot )\bas (?:was |is )?{_AIM}\b|\bas it should\b(?! not)|\bas (?:AC|R|FR)-?\d+ \w+"
    r"|\bas the (?:spec\w*|criterion|task|issue|ticket|requirement)\b|\bby design\b|\bon purpose\b|\bit does\b"
    r"|(?<!\bnot )\bverified by\b"
    rf"|(?:^|[,;:(] ?|✅ ?|✔ ?){_AIM}(?=\s*(?:$|[):.,;(|]|(?:since|because|as|here|for|by|failure|error)\b))(?!:? ?0)"
    rf"|\b{_AIM} (?:failure|error)\b|[✅✔✓]",
    re.IGNORECASE,
)
_RULE = re.compile(r"\s+(?:on|for|when|if|unless|whenever|in case)\s", re.IGNORECASE)
_BAD_CASE = re.compile(
    r"\s+(?:on|for|when|if|with)\s(?:(?:an?|the|any|all|its?|every|given|file|flag|input|is|are)\s)*"
    r"(?:bad|invalid|unknown|missing|wrong|empty|malformed|unsupported|illegal|unreadable|usage|errors?|failures?)\b",
    re.IGNORECASE,
)
_MUST = re.compile(r"\b(?:must|should|has to) (?:exit|end|return|fail)\b[^;.,]*$", re.IGNORECASE)
_EXPECTED = re.compile(r"\bexpect(?:ed|s)?(?: exit)?(?: code| status)?[*_` :=(]*(?:exit)?[*_` :=]*$", re.IGNORECASE)
"""Right before a status: it is the one that was wanted, not the one that came."""
_PAST = re.compile(
    r"\b(?:before(?! merg| releas)|previously|formerly|prior to|without (?:the |this |my )?(?:fix|change|patch)"
    r"|(?:on|at) (?:the )?(?:main|master|base)\b|baseline|reproduc\w*|revert\w*"
    r"|with (?:the )?(?:fix|change) (?:removed|reverted|undone))\b",
    re.IGNORECASE,
)
_NOT_PAST = re.compile(r"\b(?:after|now|still|here|restor\w+|as before|like before|than before)\b", re.IGNORECASE)
_PAST_TITLE = re.compile(r"before|baseline|previous|earlier|history|reproduc", re.IGNORECASE)
_LOOKS = re.compile(r"(?:!|\[|test|e?grep|rg|diff|cmp|curl|wget|git|which|ls|find|jq|cat)\s")
_PROVES = re.compile(
    r"(?:^|[\s/:._-])(?:tests?|pytest|unittest|specs?|rspec|checks?|lint|build|compile|verify|ci|e2e|all|g?make|tox|nox|mypy"
    r"|ruff|eslint|tsc|jest|vitest|mocha|playwright|cargo|go|mvn\w*|gradlew?|dotnet|phpunit|ctest|bazel|sbt|rake|mix|just)"
    r"(?:$|[\s/:._-])",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:[\w./-]*/)?(?:test_\w+|[\w-]+\.(?:py|[jt]sx?|go|rs|rb|java|kt|php|cc?|cpp|h|cs|md|toml|ya?ml|json)(?::\d+)?)"
)
"""Code that is the name of a file or a test, and no command."""
_CALL = re.compile(r"[\w.]+\(.*\)")
_BEHAVIOUR = re.compile(r"inputs?|mutants?|mutation|transition|event|http(?: status)?|given", re.IGNORECASE)
_GOOD = re.compile(r"(?:pass(?:ed|es)?|yes|ok|met|true|as (?:expected|specified)|[✅✔✓])[.!]?", re.IGNORECASE)
_OWN_VERDICT = re.compile(r"verdict|pass(?:ed)?\??|ok\??|met\??|(?:as |matches )expected\??|correct\??", re.IGNORECASE)
_WANTED_COLUMN = re.compile(r"expect(?:ed|ation)\b.*|wanted|should be", re.IGNORECASE)


def proves(command: str) -> bool:
    """Whether it is a check of a project: one that ends well when the work is good."""
    return _LOOKS.match(command) is None and _PROVES.search(command) is not None


def is_call(code: str) -> bool:
    """Whether it is a call of a function, and no command."""
    return _CALL.fullmatch(code) is not None


def is_name(code: str) -> bool:
    """Whether it names a file or a test: what follows is more likely about it than how it ended."""
    return _NAMED.fullmatch(code) is not None


def shows_behaviour(columns: Sequence[str]) -> bool:
    """Whether the first column of a table is what is put in: what comes out may be an error, and right."""
    expected = any(map(_WANTED_COLUMN.fullmatch, columns))
    return bool(columns) and not expected and _BEHAVIOUR.fullmatch(columns[0]) is not None


def wanted(said: str) -> bool:
    """Whether what is said beside a bad ending says that it was to be so."""
    return _WANTED.search(said) is not None


def is_rule(behind: str) -> bool:
    """Whether what follows a status says when it comes: it tells what a program does, not how a run ended."""
    return _RULE.match(behind) is not None


def is_case(behind: str) -> bool:
    """The same, where it says that it comes of something bad that is put in."""
    return _BAD_CASE.match(behind) is not None


def is_duty(before: str) -> bool:
    """Whether what stands before a status says that it has to be so."""
    return _MUST.search(before) is not None


def is_aim(before: str) -> bool:
    """Whether what stands before a status makes it the one that is hoped for."""
    return _EXPECTED.search(before) is not None


def past(said: str) -> bool:
    """Whether these words are about the time before the work."""
    return _PAST.search(said) is not None and _NOT_PAST.search(said) is None


def past_title(title: str) -> bool:
    """Whether what is below a heading is about the time before the work."""
    return _PAST_TITLE.search(title) is not None and _NOT_PAST.search(title) is None


def row_agrees(columns: Sequence[str], cells: Sequence[str], at: int) -> bool:
    """Whether the row of a table says itself that this cell is as it should be: by a cell beside it with what was
    expected, or by a verdict of its own."""
    for other, (column, cell) in enumerate(zip(columns, cells, strict=False)):
        if other == at:
            continue
        if _WANTED_COLUMN.fullmatch(column) and cell.casefold() == cells[at].casefold():
            return True
        if _OWN_VERDICT.fullmatch(column) and _GOOD.fullmatch(cell) and not _OWN_VERDICT.fullmatch(columns[at]):
            return True
    return False
