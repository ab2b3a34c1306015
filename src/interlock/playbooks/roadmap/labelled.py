"""An answer in labelled lines of text, as the data of the JSON object that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interlock.contracts import checks_in_text, failed_marks, nothing_to_run, open_boxes, past_title, says_none

CHECKS: Final = ("lint", "typecheck", "build", "quality")
"""What Review gives a verdict on."""

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": ("status",),
    "verdict": ("verdict",),
    "evidence": ("evidence",),
    "files": ("files", "files created", "files modified", "files changed", "files created/modified"),
    "tests": ("tests",),
    "failures": ("failures", "test failures", "errors"),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type check"),
    "build": ("build",),
    "quality": ("quality", "code quality"),
    "verification": ("verification",),
    "issues": ("issues",),
    "findings": ("findings",),
    "learnings": ("learnings",),
    "nextSteps": ("next steps",),
    "adr": ("adr",),
    "interfaces": ("interfaces",),
    "boundaries": ("boundaries",),
}
_NAMES: Final = {spelling: name for name, spellings in _LABELS.items() for spelling in spellings}
_SPELLED: Final = "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
_LABELLED: Final = re.compile(
    rf"[ \t]*(?:[-*+][ \t]+)?[*_`]{{0,3}}({_SPELLED})[*_`]{{0,3}}[ \t]*:[*_`]{{0,3}}(.*)", re.I
)
_HEADED: Final = re.compile(rf"[ \t]*#{{1,6}}[ \t]+({_SPELLED})[ \t]*:?[ \t]*", re.I)
_ANY_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*)")
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|[0-9]+[.)])[ \t]+")
_FILE: Final = re.compile(
    r"(?:(created|added|modified|changed|updated|deleted|removed)[ \t]+)?(?:`([^`]+)`|(\S*[./]\S*?))"
    r"(?:[ \t]+\((\w+)\))?(?:[ \t]*(?::|[-\u2013\u2014]+)[ \t]+(.*))?",
    re.I,
)
_VERIFIED: Final = re.compile(
    r"`*(?!\||(?:expected|actual|before|after)\b)(\S.*?)`*[ \t]*"
    r"(?:->|[:=,(|-])*[ \t]*exit(?:ed)?(?:[ ](?:status|code))?[ \t:=]*(-?[0-9]{1,3})\b(.*)",
    re.I,
)
_WORDS: Final = {"pass": "pass", "passed": "pass", "passes": "pass", "fail": "fail", "failed": "fail", "fails": "fail",
                 "skipped": "skipped"}  # fmt: skip


def data_of_text(message: str) -> dict[str, Any]:
    """An answer in labelled lines (``Status:``, ``Evidence:``, ``Learnings:``, ``Next steps:`` and more) as data."""
    said = _sections(message)
    data: dict[str, Any] = {"status": _first(said, "status").strip("*_`.! ").casefold()}
    tests = _tests(said)
    verdict = _first(said, "verdict").strip("*_`.! ").casefold() or tests.pop("word", None)
    if verdict:
        data["verdict"] = _WORDS.get(verdict, verdict)
    checks = {name: word for name in CHECKS if (word := _word(_first(said, name)))}
    evidence = {
        "files": [file for line in said.get("files", ()) if (file := _file(line))],
        "tests": tests,
        "checks": checks,
        "verification": [
            *(_verified(line) for line in said.get("verification", ())),
            *(line for line in said.get("evidence", ()) if checks_in_text(line)),
        ],
        "nothingToRun": nothing_to_run(message),
        "failed": [
            *(check.shown for check in checks_in_text(message) if check.red or check.doubtful),
            *failed_marks(message),
            *open_boxes(message),
        ],
    }
    data["evidence"] = {name: value for name, value in evidence.items() if value}
    if decided := {name: list(said[name]) for name in ("interfaces", "boundaries") if said.get(name)}:
        data["decision"] = decided
    if adr := _first(said, "adr").strip("`"):
        data["decision"] = {**data.get("decision", {}), "adr": adr}
    for name in ("issues", "findings", "learnings", "nextSteps"):
        data[name] = list(said.get(name, ()))
    return data


def _sections(message: str) -> dict[str, list[str]]:
    """The lines below each label, without bullets; a line that says there is nothing is none."""
    said: dict[str, list[str]] = {}
    here: list[str] | None = None
    for line in message.splitlines():
        if (found := _LABELLED.fullmatch(line)) or (found := _HEADED.fullmatch(line)):
            here = said.setdefault(_NAMES[found[1].casefold()], [])
        elif (heading := _ANY_HEADING.match(line)) and past_title(heading[1]):
            here = None
        rest = line if found is None else found[2] if found.re is _LABELLED else ""
        text = _BULLET.sub("", rest, count=1).strip()
        if here is not None and not says_none(text):
            here.append(text)
    return said


def _first(said: Mapping[str, Sequence[str]], name: str) -> str:
    return next(iter(said.get(name, ())), "")


def _word(text: str) -> str | None:
    found = re.match(r"[*_`]*([a-z]+)", text.casefold())
    return _WORDS.get(found[1]) if found else None


def _tests(said: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    line = " ".join(said.get("tests", ()))
    numbers = {
        name: int(found[1]) for name in ("passed", "failed") if (found := re.search(rf"([0-9]{{1,9}}) {name}", line))
    }
    tests: dict[str, Any] = dict(numbers)
    if not numbers and (word := _word(line)):
        tests["word"] = word
    if failures := said.get("failures"):
        tests["failures"] = list(failures)
    return tests


def _verified(line: str) -> Any:
    """A line with a command that can be told; else one with a status behind something; else the line."""
    found = None if "`" in line or checks_in_text(line) else _VERIFIED.fullmatch(line)
    return {"command": found[1], "exit": int(found[2]), "summary": found[3].strip(" \t:,;)|")} if found else line


def _file(line: str) -> dict[str, str] | None:
    found = _FILE.fullmatch(line)
    if found is None:
        return None
    return {
        "path": found[2] or found[3],
        "change": (found[1] or found[4] or "modified").casefold(),
        "note": found[5] or "",
    }
