"""Secret values in the files with which a coding agent is signed in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from interlock.agents.environment import SHORTEST, looks_secret
from interlock.agents.plain_files import read_plain

_LARGEST: Final = 10 * 1000 * 1000
_KEYS: Final = re.compile(r"access|refresh|(proxy-)?authorization|bearer", re.IGNORECASE)
"""Names under which such files keep tokens, and which mean nothing in an environment."""
_TOKEN: Final = re.compile(
    r"(sk-|sk_|gh[pousr]_|github_pat_|glpat-|xox[abp]-|ya29\.|AIza|eyJ)[\w.~+/=-]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_RANDOM: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~+/=-]{16,}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT")
_LINE: Final = re.compile(r"""^\s*(?:export\s+)?["']?(?P<key>[\w.-]+)["']?\s*[:=]\s*["']?(?P<value>[^"'\s#,]+)""")

_Found = Iterator[tuple[str, str]]


def login_secrets(files: Iterable[Path]) -> dict[str, str]:
    """What must be in no record, by the name of its file and key.

    Values under keys that look secret, and values that look like a token; in JSON, or line by line in anything else.
    """
    found: dict[str, str] = {}
    for file in files:
        # A person's own file may be a link into a folder of settings.
        raw = read_plain(file.resolve(), _LARGEST) or b""
        for key, value in _secrets(raw.decode(errors="replace")):
            name = re.sub(r"[^\w.:-]+", "_", f"{file.name}:{key}")[:100]
            while found.get(name, value) != value:
                name += "'"
            found[name] = value
    return found


def _secrets(text: str) -> _Found:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        lines = filter(None, map(_LINE.match, text.splitlines()))
        yield from (one for line in lines for one in _within(line["value"], line["key"], line["key"], below=False))
    else:
        yield from _within(document, "", "", below=False)


def _within(value: object, trail: str, key: str, *, below: bool) -> _Found:
    """Args:
    below: whether a key above looks secret.
    """
    secret = looks_secret(key) or bool(_KEYS.fullmatch(key))
    match value:
        case dict():
            for name, item in value.items():
                yield from _within(item, f"{trail}.{name}".lstrip("."), str(name), below=below or secret)
        case list():
            for number, item in enumerate(value):
                yield from _within(item, f"{trail}.{number}".lstrip("."), key, below=below)
        case str() if _MOMENT.match(value):
            return
        case str() if secret or _TOKEN.match(value) or (below and _RANDOM.fullmatch(value)):
            pieces = [value] if _TOKEN.match(value) else [value, *value.split()]
            yield from ((trail, piece) for piece in dict.fromkeys(pieces) if len(piece) >= SHORTEST)
