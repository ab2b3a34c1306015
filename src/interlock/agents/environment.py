"""What an agent finds in its environment, and what of an environment may be written down."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

_REPOSITORY: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Variables that tie git to one repository. They are set inside hooks, and would send an agent's git elsewhere."""

_PROTOCOL: Final = frozenset({"INTERLOCK_TOKEN", "INTERLOCK_MARKER"})
_SECRET_WORDS: Final = frozenset({"AUTH", "BEARER", "KEY", "KEYS", "OAUTH", "PASS", "PAT", "PRIVATE"})
_SECRET_PARTS: Final = (
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
)
SHORTEST: Final = 8
"""Shorter values are flags and names; replacing them would make texts unreadable and protect nothing."""


def agent_environment(
    base: Mapping[str, str], request_env: Mapping[str, str], settings_env: Mapping[str, str]
) -> dict[str, str]:
    """The caller's environment without what belongs to an outer run or to a git hook, then settings, then the protocol.

    The caller's keys stay: agents need them to work.
    """
    inherited = {
        name: value for name, value in base.items() if not name.startswith("INTERLOCK_") and name not in _REPOSITORY
    }
    return {**inherited, **settings_env, **request_env}


def without_our_own(environ: Mapping[str, str], root: Path, *, prefix: str | None = None) -> dict[str, str]:
    """The environment as it was before interlock's own virtual environment was put into it (EV-33).

    It would shadow the Python of the user's project.  One inside the workspace stays: that is the project's own.

    Args:
        prefix: where that environment is; unset: the one that this process runs in, if it runs in one.
    """
    own = prefix or (sys.prefix if sys.prefix != sys.base_prefix else None)
    if own is None or Path(own).resolve().is_relative_to(root.resolve()):
        return dict(environ)
    programs = {os.path.realpath(Path(own, name)) for name in ("bin", "Scripts")}
    kept = dict(environ)
    if "PATH" in kept:
        places = kept["PATH"].split(os.pathsep)
        kept["PATH"] = os.pathsep.join(one for one in places if not one or os.path.realpath(one) not in programs)
    if os.path.realpath(kept.get("VIRTUAL_ENV") or "/") == os.path.realpath(own):
        del kept["VIRTUAL_ENV"]
    return kept


def looks_secret(name: str) -> bool:
    """Whether the value of a variable of this name must not be written down.

    Whole words of the name count for the short ones (``API_KEY``, not ``KEYBOARD`` or ``GIT_AUTHOR_NAME``),
    any place for those that mean nothing else (``PGPASSWORD``).
    """
    if name in _PROTOCOL:
        return False
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return any(word in _SECRET_WORDS or any(part in word for part in _SECRET_PARTS) for word in words)


class Redaction:
    """Replaces the secrets of environments, and others that are named, in any number of texts."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        found = [(name, env[name]) for env in environments for name in sorted(env) if looks_secret(name)]
        self._names: dict[str, str] = {}
        self._learn(found)

    def with_values(self, values: Mapping[str, str]) -> Redaction:
        """The same for these values too, whatever their names are."""
        wider = Redaction()
        wider._names = dict(self._names)
        wider.learn(values)
        return wider

    def learn(self, values: Mapping[str, str]) -> None:
        """From now on these values too, whatever their names are."""
        self._learn(values.items())

    def _learn(self, found: Iterable[tuple[str, str]]) -> None:
        for name, secret in found:
            # A key from a file often ends in a newline that is not printed with it, and one of several lines is
            # printed line by line; in a stream of JSON some letters are written differently.
            for plain in (secret, secret.strip(), *(line.strip() for line in secret.splitlines())):
                for value in (plain, json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]):
                    if len(value) >= SHORTEST:
                        self._names.setdefault(value, name)
        # The longest first: a secret may contain another.
        values = sorted(self._names, key=lambda value: (-len(value), value))
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    @property
    def needed(self) -> bool:
        """Whether there is any secret."""
        return self._pattern is not None

    def bytes(self, raw: bytes) -> bytes:
        return self(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def data(self, value: object) -> Any:
        """A value of plain data, without the secrets in any of its texts."""
        match value:
            case str():
                return self(value)
            case Mapping():
                return {key: self.data(item) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item) for item in value]
        return value

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[redacted:{self._names[found.group()]}]", text)


def redact(text: str, env: Mapping[str, str]) -> str:
    """The text with every value that looks secret replaced by ``[redacted:NAME]``."""
    return Redaction(env)(text)
