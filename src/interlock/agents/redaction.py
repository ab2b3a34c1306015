"""Secret values, and texts without them (RUN-18).

Learned are the values of variables whose names look like secrets, of the environment and of a runner's settings, and
what stands in login files.  Any number of them is looked for in one pass.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from interlock.documents.files import read_plain
from interlock.documents.reading import walk

_SHORTEST = 8
"""Shorter values are flags and names; replacing them would make texts unreadable and protect nothing."""
_LARGEST = 10 * 1000 * 1000
_SECRET = re.compile(
    r"(?<![A-Z0-9])(AUTH|BEARER|KEYS?|OAUTH|PASS|PAT|PRIVATE)(?![A-Z0-9])"
    r"|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY|ACCESSKEY|PRIVATEKEY"
)
"""Whole words for the short ones (`API_KEY`, not `KEYBOARD`), any place for those that mean nothing else."""


def looks_secret(name: str) -> bool:
    """Whether the value of a variable of this name must not be written down."""
    return _SECRET.search(name.upper()) is not None


class Redaction:
    """Replaces secrets by `[redacted:NAME]` in any number of texts."""

    def __init__(self, *environments: Mapping[str, str], files: Iterable[Path] = ()) -> None:
        """Args:
        environments: of these the values whose names look secret.
        files: logins.
        """
        self._names: dict[str, str] = {}
        named = ((name, env[name]) for env in environments for name in sorted(env) if looks_secret(name))
        for label, secret in (*named, *login_secrets(files)):
            name = re.sub(r"[^\w.:-]+", "_", label)[:100]  # it comes to stand inside of JSON
            # A key from a file often ends in a newline that is not printed with it, and one of several lines is
            # printed line by line; in a stream of JSON some letters are written differently.
            for plain in (secret, secret.strip(), *(line.strip() for line in secret.splitlines())):
                for value in (plain, json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]):
                    if len(value) >= _SHORTEST:
                        self._names.setdefault(value, name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if self._names else None

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[redacted:{self._names[found[0]]}]", text)

    def raw(self, raw: bytes) -> bytes:
        if self._pattern is None:
            return raw
        return self(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


_KEYS = re.compile(r"access|refresh|(proxy-)?authorization|bearer", re.IGNORECASE)
"""Names under which login files keep tokens, and which mean nothing in an environment."""
_TOKEN = re.compile(
    r"(sk-|sk_|gh[pousr]_|github_pat_|glpat-|xox[abp]-|ya29\.|AIza|eyJ)[\w.~+/=-]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~+/=-]{16,}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT")
_NAME = re.compile(r"[A-Z]+(_[A-Z]+)+")
"""Of a variable that has the secret, as `env_key = "CODEX_API_KEY"`: such a name is told to people."""
_LINE = re.compile(r"""^\s*(?:export\s+)?["']?(?P<key>[\w.-]+)["']?\s*[:=]\s*["']?(?P<value>[^"'\s#,]+)""")


def login_secrets(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """What must be in no record, with the name of its file and key.

    Values under keys that look secret, and values that look like a token; in JSON, or line by line in anything else.
    """
    for file in files:
        with contextlib.suppress(OSError):
            text = read_plain(file, follow=True, limit=_LARGEST).decode(errors="replace")
            for keys, value in _values(text):
                secret = [looks_secret(key) or bool(_KEYS.fullmatch(key)) for key in keys]
                token = _TOKEN.match(value)
                kept = token or secret[-1:] == [True] or (any(secret) and _RANDOM.fullmatch(value))
                if not kept or _MOMENT.match(value) or _NAME.fullmatch(value):
                    continue
                for piece in dict.fromkeys([value] if token else [value, *value.split()]):
                    if len(piece) >= _SHORTEST:
                        yield f"{file.name}:{'.'.join(keys)}", piece


def _values(text: str) -> list[tuple[tuple[str, ...], str]]:
    """Each text in a file of whatever format, with the keys that lead to it."""
    try:
        found = [(keys, value) for keys, value in walk(json.loads(text)) if isinstance(value, str)]
        return [(tuple(key for key in keys if isinstance(key, str)), value) for keys, value in found]
    except (ValueError, RecursionError):
        return [((found["key"],), found["value"]) for found in map(_LINE.match, text.splitlines()) if found]
