"""Strings as TOML writes them, for the settings that some agents take in that form."""

from __future__ import annotations

import json
from collections.abc import Mapping


def toml_string(text: str) -> str:
    """A basic string on one line. What is no Unicode text (bytes of a broken file) becomes a replacement character."""
    sound = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    # TOML escapes as JSON does, except that a raw DEL is forbidden and no pairs of escapes make one character.
    return json.dumps(sound, ensure_ascii=False).replace("\x7f", "\\u007f")


def inline_table(entries: Mapping[str, str]) -> str:
    """A table of strings on one line; every key is quoted."""
    return "{" + ",".join(f"{toml_string(key)}={toml_string(value)}" for key, value in entries.items()) + "}"
